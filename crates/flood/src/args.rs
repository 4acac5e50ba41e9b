//! The command surface: arguments, what they change in a scenario, progress on a terminal, and the
//! files a run leaves behind. The only part of this crate that prints.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::ffi::OsString;
use std::fs;
use std::io::{IsTerminal as _, Write as _};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::ValueEnum;

use crate::crew::WorkerCommand;
use crate::graph::{Graph, GraphOptions};
use crate::report::{Second, bytes, duration};
use crate::run::{Options, Reporter};
use crate::scenario::{Amount, Auth, Peer, SHIPPED, Scenario, Transport};

/// Exit code of a run that came to its end with failed checks.
pub const EXIT_FAULTS: u8 = 3;
/// Exit code of a run that could not be made.
pub const EXIT_ERROR: u8 = 1;

/// Put an XMPP server under load and report what it did.
///
/// Exit codes: 0 all checks held, 3 some did not, 1 the run could not be made.
#[derive(Clone, Debug, clap::Args)]
#[command(args_override_self = true)]
pub struct Args {
    /// A scenario file, or the name of a shipped one (see --list).
    #[arg(long, short, value_name = "FILE|NAME", default_value = "idle")]
    pub scenario: String,
    /// List the shipped scenarios.
    #[arg(long)]
    pub list: bool,
    /// Print the scenario as it would be run, as TOML.
    #[arg(long)]
    pub print: bool,
    /// Address of the server for plaintext and STARTTLS; several times for the nodes of a cluster,
    /// which users take in turn.
    #[arg(long, value_name = "HOST:PORT")]
    pub server: Vec<String>,
    /// Address of the server for direct TLS.
    #[arg(long, value_name = "HOST:PORT")]
    pub tls_server: Option<String>,
    /// Address for WebSocket without TLS, as host:port.
    #[arg(long, value_name = "HOST:PORT")]
    pub web_server: Option<String>,
    /// XMPP domain of the accounts.
    #[arg(long)]
    pub domain: Option<String>,
    /// Users that take part.
    #[arg(long)]
    pub users: Option<u32>,
    /// Accounts that were provisioned (the size of the contact ring), if more than --users.
    #[arg(long)]
    pub provisioned: Option<u32>,
    /// Contacts of each user.
    #[arg(long)]
    pub contacts: Option<u32>,
    /// Password of all accounts.
    #[arg(long)]
    pub password: Option<String>,
    /// Mechanism of all users instead of the scenario's shares.
    #[arg(long)]
    pub auth: Option<AuthChoice>,
    /// Transport of all users instead of the scenario's shares.
    #[arg(long)]
    pub transport: Option<TransportChoice>,
    /// Arrivals and entries per second in all phases that have a rate.
    #[arg(long, value_name = "PER_SECOND")]
    pub rate: Option<f64>,
    /// Length of the last phase in seconds.
    #[arg(long)]
    pub seconds: Option<f64>,
    /// Messages per second in all phases that send at a rate.
    #[arg(long, value_name = "PER_SECOND")]
    pub messages: Option<f64>,
    /// The server is the floor program or another without rosters: no contacts, no presence, PLAIN,
    /// messages between pairs.
    #[arg(long)]
    pub floor: bool,
    /// Process of the server, for memory and CPU; may be given several times.
    #[arg(long = "pid", value_name = "PID")]
    pub pids: Vec<u32>,
    /// Worker processes (default: as many as descriptors require).
    #[arg(long, default_value_t = 0)]
    pub workers: u32,
    /// Users per worker process at most.
    #[arg(long, default_value_t = 0)]
    pub users_per_worker: u32,
    /// Local addresses to connect from (default: 127.0.x.x as needed for a loopback server).
    #[arg(long, value_delimiter = ',')]
    pub sources: Vec<IpAddr>,
    /// Seed of every random choice.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Write the report as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the report as a HTML page.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// No progress, only the report.
    #[arg(long, short)]
    pub quiet: bool,
    /// Used by the program itself to start worker processes.
    #[arg(long, hide = true)]
    pub worker: bool,
}

/// Make a friend graph like real ones (Barabási–Albert) for `roost import`.
#[derive(Clone, Debug, clap::Args)]
pub struct GraphArgs {
    /// Users, u0 and so on.
    #[arg(long, default_value_t = 1_000_000)]
    pub users: u32,
    /// Links each newcomer makes; users have twice as many contacts on average.
    #[arg(long, default_value_t = 15)]
    pub links: u32,
    /// Contacts of one user at most.
    #[arg(long, default_value_t = 1_000)]
    pub contacts_max: u32,
    /// The same seed gives the same graph.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Domain of the accounts.
    #[arg(long, default_value = "localhost")]
    pub domain: String,
    /// Password of the accounts.
    #[arg(long, default_value = "pw")]
    pub password: String,
    /// Write accounts and rosters for `roost import`; `-` for standard output.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Draw how many users have how many contacts.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// One mechanism for everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AuthChoice {
    /// SCRAM-SHA-1.
    #[value(name = "scram-sha-1")]
    ScramSha1,
    /// SCRAM-SHA-256.
    #[value(name = "scram-sha-256")]
    ScramSha256,
    /// PLAIN.
    Plain,
}

/// One transport for everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TransportChoice {
    /// No TLS.
    Plaintext,
    /// STARTTLS.
    Starttls,
    /// TLS from the first byte.
    Direct,
    /// WebSocket without TLS.
    Websocket,
}

impl Args {
    /// The scenario with everything the command line says about it.
    pub fn resolve(&self) -> Result<Scenario, String> {
        let mut scenario = self.load()?;
        let server = &mut scenario.server;
        if let Some((first, more)) = self.server.split_first() {
            server.address.clone_from(first);
            server.more_addresses = more.to_vec();
        }
        replace(&mut server.tls_address, &self.tls_server);
        replace(&mut server.web_address, &self.web_server);
        replace(&mut server.domain, &self.domain);
        replace(&mut scenario.users.count, &self.users);
        replace(&mut scenario.users.provisioned, &self.provisioned);
        replace(&mut scenario.users.contacts, &self.contacts);
        replace(&mut scenario.users.password, &self.password);
        if let Some(choice) = self.auth {
            let share = |wanted| f64::from(u8::from(choice == wanted));
            scenario.auth = Auth {
                scram_sha_1: share(AuthChoice::ScramSha1),
                scram_sha_256: share(AuthChoice::ScramSha256),
                plain: share(AuthChoice::Plain),
            };
        }
        if let Some(choice) = self.transport {
            let share = |wanted| f64::from(u8::from(choice == wanted));
            scenario.transport = Transport {
                plaintext: share(TransportChoice::Plaintext),
                starttls: share(TransportChoice::Starttls),
                direct: share(TransportChoice::Direct),
                websocket: share(TransportChoice::Websocket),
            };
        }
        self.adapt_phases(&mut scenario);
        if self.floor {
            for_floor(&mut scenario);
        }
        scenario.validate().map_err(|error| error.to_string())?;
        Ok(scenario)
    }

    fn load(&self) -> Result<Scenario, String> {
        if let Some(shipped) = Scenario::shipped(&self.scenario) {
            return shipped.map_err(|error| error.to_string());
        }
        let text = fs::read_to_string(&self.scenario).map_err(|error| {
            let names: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
            format!(
                "cannot read scenario {}: {error} (shipped ones: {})",
                self.scenario,
                names.join(", ")
            )
        })?;
        Scenario::parse(&self.scenario, &text).map_err(|error| error.to_string())
    }

    fn adapt_phases(&self, scenario: &mut Scenario) {
        for phase in &mut scenario.phases {
            if let Some(arrive) = &mut phase.arrive
                && arrive.rate.is_some()
            {
                arrive.rate = self.rate.or(arrive.rate);
            }
            if let Some(enter) = &mut phase.enter
                && enter.rate.is_some()
            {
                enter.rate = self.rate.or(enter.rate);
            }
            if let Some(messages) = &mut phase.messages
                && messages.rate.is_some()
            {
                messages.rate = self.messages.or(messages.rate);
            }
        }
        if let (Some(last), Some(seconds)) = (scenario.phases.last_mut(), self.seconds) {
            last.seconds = seconds;
        }
    }

    /// Options of the run; `worker_command` starts this program as a worker.
    fn options(&self, worker_command: WorkerCommand, interrupt: Arc<AtomicBool>) -> Options {
        Options {
            pids: self.pids.clone(),
            workers: self.workers,
            users_per_worker: self.users_per_worker,
            sources: self.sources.clone(),
            seed: self.seed,
            worker_command: Some(worker_command),
            interrupt,
        }
    }
}

fn replace<T: Clone>(place: &mut T, value: &Option<T>) {
    if let Some(value) = value {
        place.clone_from(value);
    }
}

/// Leaves of a scenario what a server without rosters and presence can do.
fn for_floor(scenario: &mut Scenario) {
    scenario.users.contacts = 0;
    scenario.client.presence = false;
    scenario.client.stream_management = false;
    scenario.auth = Auth {
        scram_sha_1: 0.0,
        scram_sha_256: 0.0,
        plain: 1.0,
    };
    for phase in &mut scenario.phases {
        phase.presence = None;
        phase.archive = None;
        phase.enter = None;
        if let Some(messages) = &mut phase.messages {
            messages.peer = Peer::Pair;
        }
        if let Some(arrive) = &mut phase.arrive
            && let Amount::Users(users) = &mut arrive.users
        {
            // Partners must both be there.
            *users &= !1;
        }
    }
}

/// Runs the command; `prefix` are the arguments that lead to it, such as `["flood"]` for a program
/// that has it as a subcommand.
pub fn command(args: &Args, prefix: &[&str]) -> ExitCode {
    if args.worker {
        return match crate::crew::serve_worker() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&format!("worker: {error}")),
        };
    }
    if args.list {
        for (name, text) in SHIPPED {
            let about = Scenario::parse(name, text).map(|scenario| scenario.about);
            println!("{name:<14} {}", about.unwrap_or_default());
        }
        return ExitCode::SUCCESS;
    }
    let scenario = match args.resolve() {
        Ok(scenario) => scenario,
        Err(error) => return fail(&error),
    };
    if args.print {
        return match toml::to_string(&scenario) {
            Ok(text) => {
                print!("{text}");
                ExitCode::SUCCESS
            }
            Err(error) => fail(&error.to_string()),
        };
    }
    let interrupt = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // Two registrations: the first signal ends the run with its report, the second at once.
        let _ =
            signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&interrupt));
        let _ = signal_hook::flag::register(signal, Arc::clone(&interrupt));
    }
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return fail(&format!("cannot find this program: {error}")),
    };
    let mut arguments: Vec<OsString> = prefix.iter().map(OsString::from).collect();
    arguments.push("--worker".into());
    let options = args.options(WorkerCommand { program, arguments }, interrupt);
    let mut terminal = Terminal::new(args.quiet);
    let report = crate::run::run(&scenario, &options, &mut terminal);
    terminal.end();
    print!("{}", report.table());
    let json = serde_json::to_vec_pretty(&report).map_err(|error| error.to_string());
    let page = Ok(crate::html::page(&report).into_bytes());
    for (path, content) in [(&args.json, json), (&args.html, page)] {
        let Some(path) = path else { continue };
        let written =
            content.and_then(|content| fs::write(path, content).map_err(|error| error.to_string()));
        match written {
            Ok(()) => println!("written  {}", path.display()),
            Err(error) => return fail(&format!("cannot write {}: {error}", path.display())),
        }
    }
    match (&report.error, report.is_good()) {
        (_, true) => ExitCode::SUCCESS,
        (Some(_), _) => ExitCode::from(EXIT_ERROR),
        (None, _) => ExitCode::from(EXIT_FAULTS),
    }
}

/// Makes a graph and writes what was asked for; the summary goes to standard error.
pub fn graph_command(args: &GraphArgs) -> ExitCode {
    match make_graph(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn make_graph(args: &GraphArgs) -> Result<(), String> {
    let plain = |text: &str| !text.is_empty() && !text.contains(['"', '\\', '@', '/', ' ']);
    if !plain(&args.domain) {
        return Err(format!("{:?} is no domain", args.domain));
    }
    let start = crate::clock::now();
    let graph = Graph::generate(GraphOptions {
        users: args.users,
        links: args.links,
        contacts_max: args.contacts_max,
        seed: args.seed,
    })?;
    let seconds = (crate::clock::now() - start) as f64 / crate::clock::SECOND as f64;
    let (median, p99, most) = graph.summary();
    eprintln!(
        "{} users, {} links each as newcomers, made in {seconds:.1} s; contacts: median {median}, \
         99% up to {p99}, most {most}",
        args.users, args.links
    );
    if let Some(path) = &args.svg {
        let title = format!(
            "{} users by contacts (Barabási–Albert, {} links, seed {})",
            args.users, args.links, args.seed
        );
        fs::write(path, graph.plot(&title)).map_err(|error| said(path, &error))?;
    }
    if let Some(path) = &args.output {
        let out: Box<dyn std::io::Write> = match path.to_str() {
            Some("-") => Box::new(std::io::stdout().lock()),
            _ => Box::new(fs::File::create(path).map_err(|error| said(path, &error))?),
        };
        let mut out = std::io::BufWriter::with_capacity(1 << 20, out);
        let live = std::io::stderr().is_terminal();
        let mut progress = |user: u32| {
            if live {
                eprint!("\r{user} of {} accounts written\x1b[K", args.users);
            }
        };
        let created = crate::clock::unix_millis();
        graph
            .write_import(
                &mut out,
                &args.domain,
                &args.password,
                created,
                &mut progress,
            )
            .map_err(|error| said(path, &error))?;
        if live {
            eprintln!("\r{} accounts written\x1b[K", args.users);
        }
    }
    Ok(())
}

fn said(path: &std::path::Path, error: &std::io::Error) -> String {
    format!("cannot write {}: {error}", path.display())
}

fn fail(reason: &str) -> ExitCode {
    eprintln!("flood: {reason}");
    ExitCode::from(EXIT_ERROR)
}

/// Progress on standard error: one line that changes on a terminal, a line each five seconds
/// elsewhere.
struct Terminal {
    quiet: bool,
    live: bool,
    dirty: bool,
    count: u32,
}

impl Terminal {
    fn new(quiet: bool) -> Terminal {
        Terminal {
            quiet,
            live: std::io::stderr().is_terminal(),
            dirty: false,
            count: 0,
        }
    }

    fn end(&mut self) {
        if self.dirty {
            eprintln!();
            self.dirty = false;
        }
    }
}

impl Reporter for Terminal {
    fn note(&mut self, line: &str) {
        if !self.quiet {
            self.end();
            eprintln!("{line}");
        }
    }

    fn progress(&mut self, phase: &str, second: &Second) {
        self.count += 1;
        if self.quiet || !(self.live || self.count % 5 == 1) {
            return;
        }
        let mut line = format!(
            "{:6.0} s  {phase:<18} online {:>7} (+{})  login {:>5.0}/s  fail {:>3.0}/s  \
             msg {:>7.0}/s",
            second.at,
            second.online,
            second.coming,
            second.logins,
            second.failures,
            second.received
        );
        if let Some((_, p99)) = second.message_us.or(second.login_us) {
            line.push_str(&format!("  p99 {}", duration(p99 as f64)));
        }
        if second.rss > 0 {
            line.push_str(&format!(
                "  server {:.2} cpu {}",
                second.server_cores,
                bytes(second.rss as f64)
            ));
        }
        line.push_str(&format!("  load {:.2} cpu", second.load_cores));
        if self.live {
            // Carriage return and "erase to the end of the line".
            eprint!("\r{line}\x1b[K");
            // A terminal that went away is no reason to end a run.
            let _ = std::io::stderr().flush();
            self.dirty = true;
        } else {
            eprintln!("{line}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn resolve(arguments: &[&str]) -> Result<Scenario, String> {
        let all = std::iter::once("flood").chain(arguments.iter().copied());
        Command::try_parse_from(all)
            .map_err(|error| error.to_string())?
            .args
            .resolve()
    }

    #[test]
    fn the_command_line_changes_the_scenario() {
        let scenario = resolve(&[
            "--scenario",
            "chat",
            "--users",
            "500",
            "--contacts",
            "4",
            "--rate",
            "50",
            "--auth",
            "plain",
            "--transport",
            "direct",
            "--seconds",
            "7",
            "--server",
            "[::1]:1",
            "--server",
            "[::1]:3",
        ])
        .unwrap();
        assert_eq!((scenario.users.count, scenario.users.contacts), (500, 4));
        assert_eq!(scenario.server.address, "[::1]:1");
        assert_eq!(scenario.server.more_addresses, ["[::1]:3"]);
        assert_eq!((scenario.auth.plain, scenario.auth.scram_sha_1), (1.0, 0.0));
        assert_eq!(
            (scenario.transport.direct, scenario.transport.plaintext),
            (1.0, 0.0)
        );
        assert_eq!(scenario.phases[1].arrive.as_ref().unwrap().rate, Some(50.0));
        assert_eq!(scenario.phases.last().unwrap().seconds, 7.0);
    }

    #[test]
    fn the_floor_gets_what_it_can_do() {
        let scenario = resolve(&["--scenario", "pingpong", "--floor"]).unwrap();
        assert_eq!(scenario.users.contacts, 0);
        assert_eq!((scenario.auth.plain, scenario.auth.scram_sha_1), (1.0, 0.0));
        assert!(!scenario.client.presence);
    }

    #[test]
    fn mistakes_are_told_with_a_way_out() {
        let unknown = resolve(&["--scenario", "caht"]).unwrap_err();
        assert!(
            unknown.contains("caht") && unknown.contains("ejabberd-2m"),
            "{unknown}"
        );
        let odd = resolve(&["--contacts", "3"]).unwrap_err();
        assert!(odd.contains("even"), "{odd}");
    }
}
