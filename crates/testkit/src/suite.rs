//! The matrix: every script, over every transport, on every variant of the server.
//!
//! One server runs per variant and per set of `[server]` keys, and it is started when its first
//! play begins. `ROOST_SCRIPTS_AGAINST=PLAIN,TLS,HTTP,HTTPS` plays against a server that runs
//! already at these addresses, with the accounts that `ROOST_SCRIPTS_ACCOUNTS=FILE` makes this
//! write to a file.
//!
//! The same scripts over two nodes of a cluster ([`main_over_nodes`]) show that a client that came
//! to a node which is not its account's home notices nothing of that. What is about one process is
//! left out there: restarts, and servers of other configurations.

use crate::client::Address;
use crate::pair::Pair;
use crate::play::{self, House, Setting};
use crate::roost::{Account, Roost, Settings};
use crate::script::{Script, Verb};
use crate::transport::Kind;
use libtest_mimic::{Arguments, Failed, Trial};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Plays that run at the same time; they mostly wait.
const PLAYS_AT_ONCE: usize = 8;
/// How long an answer may take. Generous: only a failing play waits that long.
const PATIENCE: Duration = Duration::from_secs(60);
/// Plays that fail with one server, after which no other is begun there: with one that has died,
/// each would wait for its whole patience, and there are thousands.
const FAILED_MAX: usize = 10;
/// How long silence lasts on a server without delays.
const SILENCE: Duration = Duration::from_millis(120);

/// A way to run the server, beside the usual one.
#[derive(Clone, Copy, Debug)]
struct Variant {
    name: &'static str,
    settings: &'static [(&'static str, &'static str)],
    transports: &'static [Kind],
    /// Added to the time that silence must last.
    delay: Duration,
    /// Clients come to one node, and everything is at home on another.
    is_pair: bool,
}

/// The way over two nodes. What each commit and each word between nodes takes longer there is no
/// part of what scripts say.
const OVER_NODES: [Variant; 1] = [Variant {
    name: "over-nodes",
    settings: &[("http.bosh_inactivity", "\"5s\""), ("server.shards", "2")],
    transports: &Kind::ALL,
    delay: Duration::from_millis(180),
    is_pair: true,
}];

/// Configurations that are played over two nodes too: each needs an engine of its own.
const OVER_NODES_WITH: [&str; 1] = ["registration.enabled = true"];

const VARIANTS: [Variant; 5] = [
    Variant {
        name: "usual",
        // A client that is gone without a word is missed after this time over BOSH.
        settings: &[("http.bosh_inactivity", "\"5s\"")],
        transports: &Kind::ALL,
        delay: Duration::ZERO,
        is_pair: false,
    },
    Variant {
        name: "shards",
        settings: &[("server.shards", "4"), ("server.hand_over", "false")],
        transports: &[Kind::Tcp, Kind::DirectTls],
        delay: Duration::ZERO,
        is_pair: false,
    },
    Variant {
        name: "slow-commits",
        settings: &[("server.shards", "2"), ("debug.commit_delay", "\"20ms\"")],
        transports: &[Kind::Tcp],
        delay: Duration::from_millis(120),
        is_pair: false,
    },
    // All that entities say to each other passes through its bytes, as if between nodes.
    Variant {
        name: "as-bytes",
        settings: &[("server.shards", "2"), ("debug.messages_as_bytes", "true")],
        transports: &[Kind::Tcp],
        delay: Duration::ZERO,
        is_pair: false,
    },
    // Each connection is on another shard behind each stanza of its client.
    Variant {
        name: "moving",
        settings: &[
            ("http.bosh_inactivity", "\"5s\""),
            ("server.shards", "3"),
            ("debug.move_sockets", "true"),
        ],
        transports: &[Kind::Tcp, Kind::DirectTls, Kind::WebSocket],
        delay: Duration::ZERO,
        is_pair: false,
    },
];

/// Runs the scripts of a folder as a test program with the usual arguments of one.
#[must_use]
pub fn main(folder: &Path) -> ExitCode {
    run(folder, &VARIANTS)
}

/// The same for clients that come to a node which is nobody's home.
#[must_use]
pub fn main_over_nodes(folder: &Path) -> ExitCode {
    run(folder, &OVER_NODES)
}

fn run(folder: &Path, variants: &'static [Variant]) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(PLAYS_AT_ONCE);
    let scripts = match load(folder) {
        Ok(scripts) => scripts,
        Err(why) => {
            report(&why);
            return ExitCode::FAILURE;
        }
    };
    let troupe = Troupe::gather(&scripts, variants);
    if let Some(file) = std::env::var_os("ROOST_SCRIPTS_ACCOUNTS") {
        let written = fs::write(file, troupe.account_list());
        return if written.is_ok() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        };
    }
    let conclusion = libtest_mimic::run(&arguments, troupe.trials());
    let stopped = troupe.stop_all();
    if let Err(why) = &stopped {
        report(why);
    }
    if stopped.is_ok() {
        conclusion.exit_code()
    } else {
        ExitCode::FAILURE
    }
}

#[allow(clippy::print_stderr)] // This is a test program's own output.
fn report(why: &str) {
    eprintln!("{why}");
}

/// Reads every `*.xmpp` file of a folder, in order of name.
fn load(folder: &Path) -> Result<Vec<Arc<Script>>, String> {
    let entries = fs::read_dir(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let mut scripts = Vec::new();
    for path in paths {
        if path.extension().is_none_or(|extension| extension != "xmpp") {
            continue;
        }
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let text = fs::read_to_string(&path).map_err(|why| format!("{name}: {why}"))?;
        scripts.push(Arc::new(Script::parse(&name, &text)?));
    }
    if scripts.is_empty() {
        return Err(format!("no scripts in {}", folder.display()));
    }
    Ok(scripts)
}

/// Every performance to be, and the houses they play in.
struct Troupe {
    performances: Vec<Performance>,
    houses: BTreeMap<HouseKey, Arc<SharedHouse>>,
}

type HouseKey = (usize, Vec<String>, Option<String>);

struct Performance {
    name: String,
    script: Arc<Script>,
    setting: Setting,
    house: Arc<SharedHouse>,
}

impl Troupe {
    fn gather(scripts: &[Arc<Script>], variants: &'static [Variant]) -> Self {
        let external = external();
        let mut houses: BTreeMap<HouseKey, SharedHouse> = BTreeMap::new();
        let mut planned = Vec::new();
        for (index, variant) in variants.iter().enumerate() {
            for (number, script) in scripts.iter().enumerate() {
                let is_plain = script.server.is_empty() && !needs_own_server(script);
                if external.is_some() && (index > 0 || !is_plain) {
                    continue;
                }
                if variant.is_pair && !is_for_nodes(script) {
                    continue;
                }
                for kind in variant
                    .transports
                    .iter()
                    .filter(|k| script.transports.contains(k))
                {
                    let key = format!("{}{number}", kind.name());
                    let own = needs_own_server(script)
                        .then(|| format!("{}/{}", kind.name(), script.name));
                    let house_key = (index, script.server.iter().cloned().collect(), own);
                    let house = houses
                        .entry(house_key.clone())
                        .or_insert_with(|| SharedHouse::new(variant, script, external));
                    house.accounts.extend(play::accounts(script, &key));
                    let setting = Setting {
                        kind: *kind,
                        key,
                        patience: PATIENCE,
                        silence: SILENCE + variant.delay,
                    };
                    let name = format!("{}::{}::{}", variant.name, kind.name(), script.name);
                    planned.push((name, Arc::clone(script), setting, house_key));
                }
            }
        }
        let houses: BTreeMap<_, _> = houses
            .into_iter()
            .map(|(key, house)| (key, Arc::new(house)))
            .collect();
        let performances = planned
            .into_iter()
            .map(|(name, script, setting, key)| {
                let house = Arc::clone(&houses[&key]);
                Performance {
                    name,
                    script,
                    setting,
                    house,
                }
            })
            .collect();
        Self {
            performances,
            houses,
        }
    }

    fn account_list(&self) -> String {
        let accounts = self.houses.values().flat_map(|house| &house.accounts);
        accounts
            .map(|account| format!("{}\t{}\n", account.jid, account.password))
            .collect()
    }

    fn trials(&self) -> Vec<Trial> {
        let trial = |performance: &Performance| {
            let script = Arc::clone(&performance.script);
            let setting = performance.setting.clone();
            let house = Arc::clone(&performance.house);
            Trial::test(performance.name.clone(), move || {
                house.play(&script, &setting).map_err(Failed::from)
            })
        };
        self.performances.iter().map(trial).collect()
    }

    fn stop_all(&self) -> Result<(), String> {
        let failures: Vec<String> = self
            .houses
            .values()
            .filter_map(|house| house.close().err())
            .collect();
        if failures.is_empty() {
            Ok(())
        } else {
            Err(failures.join("\n"))
        }
    }
}

/// A play that restarts the server must not share it.
fn needs_own_server(script: &Script) -> bool {
    let is_restart = |verb: &Verb| {
        matches!(
            verb,
            Verb::ServerStops | Verb::ServerRestarts | Verb::ServerIsKilled
        )
    };
    script.steps.iter().any(|step| is_restart(&step.verb))
}

/// Nothing in it is about one process or a configuration of its own.
fn is_for_nodes(script: &Script) -> bool {
    let is_played = |line: &String| OVER_NODES_WITH.contains(&line.trim());
    !needs_own_server(script) && script.server.iter().all(is_played)
}

/// One server, or two nodes.
enum Servers {
    Alone(Box<Roost>),
    Pair(Box<Pair>),
}

fn external() -> Option<Address> {
    let value = std::env::var("ROOST_SCRIPTS_AGAINST").ok()?;
    let mut ports = value.split(',').map(str::parse);
    let mut next = || ports.next()?.ok();
    Some(Address {
        plain: next()?,
        tls: next()?,
        web: next()?,
        web_tls: next()?,
        also_web: None,
    })
}

/// A server that several plays use, started by the first of them.
struct SharedHouse {
    settings: Settings,
    accounts: Vec<Account>,
    external: Option<Address>,
    is_pair: bool,
    opened: OnceLock<Result<Address, String>>,
    failed: AtomicUsize,
    server: Mutex<Option<Servers>>,
}

impl SharedHouse {
    fn new(variant: &Variant, script: &Script, external: Option<Address>) -> Self {
        let mut settings: Settings = variant
            .settings
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        for line in &script.server {
            if let Some((key, value)) = line.split_once('=') {
                settings.insert(key.trim().to_owned(), value.trim().to_owned());
            }
        }
        Self {
            settings,
            accounts: Vec::new(),
            external,
            is_pair: variant.is_pair,
            opened: OnceLock::new(),
            failed: AtomicUsize::new(0),
            server: Mutex::new(None),
        }
    }

    fn play(&self, script: &Script, setting: &Setting) -> Result<(), String> {
        if self.failed.load(Ordering::Relaxed) >= FAILED_MAX {
            return Err(format!(
                "not played: {FAILED_MAX} have failed with this server"
            ));
        }
        let opened = self.open();
        let played = opened.and_then(|_| play::perform(script, setting, self));
        if played.is_err() {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
        played
    }

    fn open(&self) -> Result<Address, String> {
        let start = || match self.external {
            Some(address) => Ok(address),
            None => {
                let (server, address) = match self.is_pair {
                    true => {
                        let pair = Pair::start(&self.settings, &self.accounts)?;
                        let address = pair.address();
                        (Servers::Pair(Box::new(pair)), address)
                    }
                    false => {
                        let server = Roost::start(&self.settings, &self.accounts)?;
                        let address = server.address();
                        (Servers::Alone(Box::new(server)), address)
                    }
                };
                *self.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
                Ok(address)
            }
        };
        self.opened.get_or_init(start).clone()
    }

    fn close(&self) -> Result<(), String> {
        match self
            .server
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_mut()
        {
            Some(Servers::Alone(server)) => server.stop(),
            Some(Servers::Pair(pair)) => pair.stop(),
            None => Ok(()),
        }
    }

    fn with_server<T>(
        &self,
        work: impl FnOnce(&mut Roost) -> Result<T, String>,
    ) -> Result<T, String> {
        match self
            .server
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_mut()
        {
            Some(Servers::Alone(server)) => work(server),
            Some(Servers::Pair(_)) => Err("not of two nodes".to_owned()),
            None => Err("this server is not ours".to_owned()),
        }
    }
}

impl House for SharedHouse {
    fn address(&self) -> Address {
        match self.opened.get() {
            Some(Ok(address)) => *address,
            // Invariant: a play begins only after `open` succeeded.
            _ => unreachable!("the house is not open"),
        }
    }

    fn operate(&self, command: &str) -> Result<(), String> {
        let words: Vec<&str> = command.split_whitespace().collect();
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Servers::Pair(pair)) = &*server {
            return pair.run(&words).map(drop);
        }
        drop(server);
        self.with_server(|server| server.run(&words).map(drop))
    }

    fn stop(&self) -> Result<(), String> {
        self.with_server(Roost::begin_to_stop)
    }

    fn restart(&self, is_killed: bool) -> Result<(), String> {
        self.with_server(|server| {
            if is_killed {
                server.kill()?;
            } else {
                server.stop()?;
            }
            server.start_again()
        })
    }
}
