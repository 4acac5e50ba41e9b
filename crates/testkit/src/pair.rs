//! Two nodes of a cluster: every account and room is at home on the one, every client comes to the
//! other. So each connection is one that the two share.

use crate::client::Address;
use crate::nats::{Nats, free_ports};
use crate::roost::{Account, Roost, Settings};
use std::thread;
use std::time::{Duration, Instant};

/// How long the engine and the nodes may take to find each other.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(200);
const STREAMS: usize = 4;

/// See the module.
pub struct Pair {
    home: Roost,
    edge: Roost,
    _engine: Nats,
}

fn quoted(value: &str) -> String {
    format!("\"{value}\"")
}

fn listed(all: &[String]) -> String {
    let all: Vec<String> = all.iter().map(|one| quoted(one)).collect();
    format!("[{}]", all.join(", "))
}

/// Tries until it succeeds.
fn patiently<T>(mut attempt: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    let started = Instant::now();
    loop {
        match attempt() {
            Err(why) if started.elapsed() > PATIENCE => return Err(why),
            Err(_) => thread::sleep(PAUSE),
            done => return done,
        }
    }
}

impl Pair {
    /// Starts them, with these accounts.
    ///
    /// # Errors
    /// There is no engine (`make nats` builds one), or a node does not serve.
    pub fn start(settings: &Settings, accounts: &[Account]) -> Result<Self, String> {
        let engine = Nats::start()?;
        let ports = free_ports(2)?;
        let node = |name: &str, port: u16| {
            let mut all = settings.clone();
            all.extend([
                ("cluster.engine".to_owned(), listed(&engine.addresses())),
                ("cluster.monitor".to_owned(), listed(&engine.monitors())),
                ("cluster.name".to_owned(), quoted(name)),
                ("cluster.streams".to_owned(), STREAMS.to_string()),
                (
                    "cluster.listen".to_owned(),
                    quoted(&format!("127.0.0.1:{port}")),
                ),
            ]);
            if name == "edge" {
                // Nothing is ever at home there.
                all.insert("cluster.weight".to_owned(), "0".to_owned());
            }
            Roost::prepare(&all, &[])
        };
        let (mut home, mut edge) = (node("home", ports[0])?, node("edge", ports[1])?);
        patiently(|| home.run(&["cluster", "check", "--create"]))?;
        patiently(|| home.start_again())?;
        let is_serving = |node: &Roost, alive: usize| {
            let status = node.run(&["cluster", "status"])?;
            let is_so = status.matches("serving").count() == STREAMS;
            match is_so && status.matches("alive").count() == alive {
                true => Ok(()),
                false => Err(status),
            }
        };
        patiently(|| is_serving(&home, 1))?;
        home.add_accounts(accounts)?;
        patiently(|| edge.start_again())?;
        patiently(|| is_serving(&edge, 2))?;
        Ok(Pair {
            home,
            edge,
            _engine: engine,
        })
    }

    /// Where clients come to; of the requests of a session over BOSH every second one.
    #[must_use]
    pub fn address(&self) -> Address {
        Address {
            also_web: Some(self.home.address().web),
            ..self.edge.address()
        }
    }

    /// Runs a command where everything is at home.
    ///
    /// # Errors
    /// It exits with a failure.
    pub fn run(&self, arguments: &[&str]) -> Result<String, String> {
        self.home.run(arguments)
    }

    /// Stops both.
    ///
    /// # Errors
    /// One does not end as it should, or wrote of a panic.
    pub fn stop(&mut self) -> Result<(), String> {
        let edge = self.edge.stop();
        self.home.stop().and(edge)
    }
}
