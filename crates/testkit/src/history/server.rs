//! The process under test: started on a copy of a prepared folder, killed, stopped, continued,
//! started again. Besides Roost it can be Prosody, which shows that the checker is right about
//! a server that nobody here wrote.

use super::Options;
use super::device::{DOMAIN, PASSWORD};
use super::disk::{Disk, Library, Mood};
use super::link::Link;
use super::nodes::{self, Cluster};
use super::others;
use super::plan::{Plan, Tiny, USERS_MAX};
use crate::roost::{Account, Roost, Settings};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::fmt::Write as _;
use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, io};
use tempfile::TempDir;

/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(5);

/// One fault, or none if the machine is busy.
const CRASH_AN_ACTOR: [&str; 3] = ["chaos", "--kill-actors=10ms", "--for=19ms"];

/// What every seed's server is a copy of.
pub(super) enum Template {
    Roost(Box<Roost>, Option<Library>, Option<String>),
    Cluster(nodes::Template),
    Prosody,
}

impl Template {
    pub(super) fn new(options: &Options) -> Result<Self, String> {
        let faults = options.faults;
        if options.is_prosody {
            return Ok(Self::Prosody);
        }
        if options.troubles.is_some() {
            return nodes::Template::new(options).map(Self::Cluster);
        }
        let account = |user| Account {
            jid: format!("u{user}@{DOMAIN}"),
            password: PASSWORD.to_owned(),
        };
        let mut accounts: Vec<Account> = (0..USERS_MAX).map(account).collect();
        if faults.others {
            accounts.extend(others::accounts());
        }
        let roost = Roost::prepare(&settings(None), &accounts)?;
        let library = (faults.unsynced || faults.disk)
            .then(|| Library::build("unsynced.c"))
            .transpose()?;
        Ok(Self::Roost(Box::new(roost), library, options.bug.clone()))
    }

    /// A running server of its own for a plan.
    pub(super) fn start(&self, plan: &Plan) -> Result<Server, String> {
        match self {
            Self::Roost(template, library, bug) => {
                let mut roost = template.copy(&settings(Some(plan)))?;
                let disk = library
                    .as_ref()
                    .map(|library| Disk::new(library, &roost.data()));
                let disk = disk.transpose().map_err(|error| error.to_string())?;
                let mut environment = disk.as_ref().map_or(Vec::new(), Disk::environment);
                if let Some(bug) = bug {
                    environment.push(("ROOST_BUG".into(), bug.into()));
                }
                roost.set_environment(environment);
                roost.start_again()?;
                Ok(Server::Roost(Box::new(roost), disk))
            }
            Self::Cluster(template) => Ok(Server::Cluster(Box::new(template.start(plan)?))),
            Self::Prosody => Ok(Server::Prosody(Prosody::start()?)),
        }
    }
}

/// The configuration of a plan's server.
pub(super) fn settings(plan: Option<&Plan>) -> Settings {
    let mut settings = Settings::from([
        ("auth.plain_without_tls".to_owned(), "true".to_owned()),
        ("auth.scram_iterations".to_owned(), "4096".to_owned()),
        ("archive.enabled".to_owned(), "true".to_owned()),
    ]);
    if let Some(plan) = plan {
        let durability = if plan.is_fsync { "fsync" } else { "memory" };
        let delay = plan.commit_delay.as_millis();
        settings.extend([
            ("server.shards".to_owned(), plan.shards.to_string()),
            ("chaos.enabled".to_owned(), plan.faults.actors.to_string()),
            ("store.durability".to_owned(), format!("\"{durability}\"")),
            ("debug.commit_delay".to_owned(), format!("\"{delay}ms\"")),
            (
                "delivery.unacked_max".to_owned(),
                plan.unacked_max.to_string(),
            ),
        ]);
        if plan.faults.others {
            settings.extend([others::panic_hook()]);
        }
        settings.extend(plan.tiny.iter().flat_map(tiny));
    }
    settings
}

fn tiny(tiny: &Tiny) -> Vec<(String, String)> {
    let set = |key: &str, value: String| (key.to_owned(), value);
    let seconds = |seconds: u64| format!("\"{seconds}s\"");
    let per_recipient = tiny.outbox_max.min(1_000);
    let mut all = vec![
        set("limits.window_max", tiny.window_max.to_string()),
        set("delivery.outbox_max", tiny.outbox_max.to_string()),
        set(
            "delivery.outbox_per_recipient_max",
            per_recipient.to_string(),
        ),
        set(
            "limits.offline_messages_max",
            tiny.offline_messages_max.to_string(),
        ),
        set("delivery.resume_timeout", seconds(tiny.resume_timeout_s)),
        set("delivery.ack_timeout", seconds(tiny.ack_timeout_s)),
    ];
    let return_after = tiny.return_after_s.map(seconds);
    all.extend(return_after.map(|value| set("delivery.return_after", value)));
    all
}

/// A server that runs inside the test, on its thread, under a clock that only moves when told.
pub trait Host {
    /// A connection to it: a socket that never blocks.
    ///
    /// # Errors
    /// The operating system gives none.
    fn connect(&mut self) -> io::Result<OwnedFd>;

    /// Does what can be done at this time. Some commits may be kept waiting.
    ///
    /// # Errors
    /// It cannot go on.
    fn work(&mut self) -> Result<(), String>;

    /// Time passes, and what is due happens.
    ///
    /// # Errors
    /// It cannot go on.
    fn pass(&mut self, time: Duration) -> Result<(), String>;

    /// Time that has passed.
    fn now(&self) -> Duration;

    /// The actor of an account crashes, if it is loaded.
    fn crash_actor(&mut self, account: &str);

    /// From now on commits fail now and then, or none does any more.
    fn set_failing(&mut self, is_failing: bool);

    /// Everybody is back: from now on nothing is done to it, so that what is asked for has an end.
    fn leave_alone(&mut self);

    /// The machine loses power. Of so many changes that were not synced the first few survive.
    ///
    /// # Errors
    /// What is left cannot be read.
    fn crash(&mut self, survivors: &mut dyn FnMut(usize) -> usize) -> Result<(), String>;

    /// It starts on what is left.
    ///
    /// # Errors
    /// It does not.
    fn start_again(&mut self) -> Result<(), String>;
}

/// A command that runs beside everything else.
pub(super) struct Running {
    child: Child,
    said: Vec<u8>,
}

/// How a command ended.
pub(super) struct Ended {
    pub(super) is_success: bool,
    /// What it said, errors behind the rest.
    pub(super) said: String,
}

impl Running {
    fn new(child: Child) -> Result<Self, String> {
        if let Some(out) = &child.stdout {
            // It is read while the command runs, which would else wait for room in the pipe.
            ioctl_fionbio(out, true).map_err(|error| error.to_string())?;
        }
        let said = Vec::new();
        Ok(Self { child, said })
    }

    /// How it ended, once it has.
    ///
    /// # Errors
    /// The system does not know.
    pub(super) fn has_ended(&mut self) -> Result<Option<Ended>, String> {
        let status = self.child.try_wait().map_err(|error| error.to_string())?;
        if let Some(out) = &mut self.child.stdout {
            // It ends because there is nothing more yet, or nothing more at all.
            let _ = out.read_to_end(&mut self.said);
        }
        let Some(status) = status else {
            return Ok(None);
        };
        if let Some(mut errors) = self.child.stderr.take() {
            let _ = errors.read_to_end(&mut self.said);
        }
        Ok(Some(Ended {
            is_success: status.success(),
            said: String::from_utf8_lossy(&self.said).into_owned(),
        }))
    }

    /// It stands still until it may go on.
    ///
    /// # Errors
    /// The system does not let it.
    pub(super) fn hold(&mut self) -> Result<(), String> {
        let text = |error: Errno| error.to_string();
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::STOP).map_err(text)?;
        // Nothing is taken from whoever asks for its end later.
        let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), options).map_err(text)?;
        Ok(())
    }

    /// It goes on.
    ///
    /// # Errors
    /// The system does not let it.
    pub(super) fn go_on(&mut self) -> Result<(), String> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::CONT).map_err(|error| error.to_string())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended, or nobody waits for it any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server process.
pub(super) enum Server {
    Roost(Box<Roost>, Option<Disk>),
    Cluster(Box<Cluster>),
    Prosody(Prosody),
    Inside(Box<dyn Host>),
}

impl Server {
    /// A connection to it, or to the node of a cluster that the client was sent to.
    pub(super) fn connect(&mut self, sent_to: Option<SocketAddr>) -> io::Result<Link> {
        match self {
            Self::Cluster(cluster) => cluster.connect(sent_to),
            Self::Roost(roost, _) => Link::open(roost.address().plain),
            Self::Prosody(prosody) => Link::open(prosody.address),
            Self::Inside(host) => host.connect().map(Link::new),
        }
    }

    pub(super) fn kill(&mut self) -> Result<(), String> {
        match self {
            Self::Roost(roost, _) => roost.kill(),
            Self::Prosody(prosody) => prosody.kill(),
            // What it loses is decided in `forget`; nodes are killed one by one.
            Self::Inside(_) | Self::Cluster(_) => Ok(()),
        }
    }

    pub(super) fn start_again(&mut self) -> Result<(), String> {
        match self {
            Self::Roost(roost, _) => roost.start_again(),
            Self::Prosody(prosody) => prosody.spawn(),
            Self::Cluster(_) => Ok(()),
            Self::Inside(host) => host.start_again(),
        }
    }

    /// The actor of this account crashes, or where the server is a process, one drawn at random.
    /// Gives which one.
    pub(super) fn crash_actor(&mut self, account: &str) -> Result<Option<String>, String> {
        match self {
            Self::Inside(host) => {
                host.crash_actor(account);
                Ok(Some(account.to_owned()))
            }
            Self::Roost(roost, _) => {
                // A server that stands still for the moment may take no command.
                let said = roost.run(&CRASH_AN_ACTOR).unwrap_or_default();
                let (_, name) = said.split_once("the actor of ").unwrap_or_default();
                let name = name.split_once(" is killed").map(|(name, _)| name);
                Ok(name.map(str::to_owned))
            }
            Self::Prosody(_) | Self::Cluster(_) => Ok(None),
        }
    }

    /// Begins to run a command, if the server is a process of ours.
    pub(super) fn begin_to_run(&self, arguments: &[&str]) -> Result<Option<Running>, String> {
        let Self::Roost(roost, _) = self else {
            return Ok(None);
        };
        Running::new(roost.begin_to_run(arguments)?).map(Some)
    }

    /// After a kill: what was not synced is gone, but for so many of each kind of changes.
    pub(super) fn forget(
        &mut self,
        mut survivors: impl FnMut(usize) -> usize,
    ) -> Result<usize, String> {
        match self {
            Self::Inside(host) => host.crash(&mut survivors).map(|()| 0),
            Self::Roost(_, Some(disk)) => disk.forget(survivors).map_err(|error| error.to_string()),
            _ => Ok(0),
        }
    }

    /// The disk is in another mood from now on.
    pub(super) fn set_disk(&mut self, mood: Mood) -> Result<(), String> {
        match self {
            Self::Inside(host) => {
                host.set_failing(mood != Mood::Good);
                Ok(())
            }
            Self::Roost(_, Some(disk)) => disk.set(mood).map_err(|error| error.to_string()),
            _ => Ok(()),
        }
    }

    /// The server inside this process, if it is one.
    pub(super) fn inside(&mut self) -> Option<&mut dyn Host> {
        match self {
            Self::Inside(host) => Some(&mut **host),
            Self::Roost(..) | Self::Cluster(_) | Self::Prosody(_) => None,
        }
    }

    /// The cluster, if it is one.
    pub(super) fn cluster(&mut self) -> Option<&mut Cluster> {
        match self {
            Self::Cluster(cluster) => Some(cluster),
            Self::Roost(..) | Self::Inside(_) | Self::Prosody(_) => None,
        }
    }

    /// Stops or continues the process.
    pub(super) fn signal(&self, signal: Signal) -> Result<(), String> {
        let pid = match self {
            Self::Roost(roost, _) => roost.pid(),
            Self::Prosody(prosody) => prosody.child.as_ref().map(Child::id),
            Self::Inside(_) | Self::Cluster(_) => return Ok(()),
        };
        let pid = pid.and_then(|pid| i32::try_from(pid).ok());
        let pid = pid
            .and_then(Pid::from_raw)
            .ok_or("the server does not run")?;
        kill_process(pid, signal).map_err(|error| error.to_string())
    }

    /// The last lines of its log, and whether it panicked.
    pub(super) fn log_tail(&self) -> String {
        match self {
            Self::Roost(roost, _) => roost.log_tail(),
            Self::Prosody(prosody) => prosody.log_tail(),
            Self::Cluster(cluster) => cluster.log_tail(),
            Self::Inside(_) => String::new(),
        }
    }
}

/// A Prosody with modules for everything that is checked; it comes from the system's packages.
pub(super) struct Prosody {
    folder: TempDir,
    address: SocketAddr,
    child: Option<Child>,
}

impl Prosody {
    fn start() -> Result<Self, String> {
        let text = |error: io::Error| error.to_string();
        let folder = tempfile::Builder::new()
            .prefix("prosody-")
            .tempdir()
            .map_err(text)?;
        // Free a moment ago; nobody else looks for ports in this range meanwhile.
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(text)?;
        let address = free.local_addr().map_err(text)?;
        drop(free);
        let accounts = folder.path().join("data").join(DOMAIN).join("accounts");
        fs::create_dir_all(&accounts).map_err(text)?;
        for user in 0..USERS_MAX {
            let account = format!("return {{ [\"password\"] = \"{PASSWORD}\" }};\n");
            fs::write(accounts.join(format!("u{user}.dat")), account).map_err(text)?;
        }
        let config = prosody_config(folder.path(), address.port());
        fs::write(folder.path().join("prosody.cfg.lua"), config).map_err(text)?;
        let mut prosody = Self {
            folder,
            address,
            child: None,
        };
        prosody.spawn()?;
        Ok(prosody)
    }

    fn spawn(&mut self) -> Result<(), String> {
        let child = Command::new("prosody")
            .arg("-F")
            .arg("--config")
            .arg(self.folder.path().join("prosody.cfg.lua"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start prosody: {error}"))?;
        self.child = Some(child);
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(self.address).is_err() {
            if Instant::now() > deadline {
                return Err(format!("no prosody; its log:\n{}", self.log_tail()));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    fn kill(&mut self) -> Result<(), String> {
        let mut child = self.child.take().ok_or("prosody does not run")?;
        child.kill().map_err(|error| error.to_string())?;
        child.wait().map_err(|error| error.to_string())?;
        Ok(())
    }

    fn log_tail(&self) -> String {
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }
}

impl Drop for Prosody {
    fn drop(&mut self) {
        // Nobody is left to tell.
        let _ = self.kill();
    }
}

fn prosody_config(folder: &Path, port: u16) -> String {
    let folder = folder.display();
    let mut config = String::new();
    let _ = writeln!(
        config,
        "run_as_root = true\npidfile = \"{folder}/pid\"\ndata_path = \"{folder}/data\"\n\
         log = {{ {{ levels = {{ min = \"info\" }}, to = \"file\", \
         filename = \"{folder}/log\" }} }}\n\
         modules_enabled = {{ \"saslauth\", \"disco\", \"ping\", \"smacks\", \"carbons\", \"mam\", \
         \"csi_simple\", \"offline\", \"presence\", \"message\", \"iq\", \"roster\" }}\n\
         modules_disabled = {{ \"s2s\" }}\nc2s_require_encryption = false\n\
         allow_unencrypted_plain_auth = true\nauthentication = \"internal_plain\"\n\
         storage = \"internal\"\ndefault_archive_policy = true\nc2s_ports = {{ {port} }}\n\
         c2s_direct_tls_ports = {{}}\ninterfaces = {{ \"127.0.0.1\" }}\n\
         VirtualHost \"{DOMAIN}\"\n"
    );
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Running {
        let child = Command::new("sh")
            .args(["-c", script])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        Running::new(child.expect("sh")).expect("it runs")
    }

    fn end_of(running: &mut Running) -> Ended {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(ended) = running.has_ended().expect("the system knows") {
                return ended;
            }
            assert!(Instant::now() < deadline, "it does not end");
            thread::sleep(POLL);
        }
    }

    #[test]
    fn a_command_that_is_held_stands_still_until_it_may_go_on() {
        let mut running = sh("sleep 0.2; echo out; echo error >&2; exit 3");
        running.hold().expect("held");
        thread::sleep(Duration::from_millis(400));
        assert!(running.has_ended().expect("known").is_none());
        running.go_on().expect("it goes on");
        let ended = end_of(&mut running);
        assert!(!ended.is_success);
        assert_eq!(ended.said, "out\nerror\n");
        // One that has ended is not held.
        let mut running = sh("exit 0");
        thread::sleep(Duration::from_millis(100));
        running.hold().expect("held");
        assert!(end_of(&mut running).is_success);
    }

    #[test]
    fn a_command_that_says_more_than_a_pipe_holds_ends() {
        let ended = end_of(&mut sh("head -c 200000 /dev/zero"));
        assert_eq!(ended.said.len(), 200_000);
    }
}
