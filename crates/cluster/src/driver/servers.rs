//! Asks the engine's servers now and then how they are: whether they answer, and how full they are.
//! Owns how often; what an answer means is `observe`'s affair.

use std::time::Duration;

use tokio::sync::watch;

use super::{Shared, lock};
use crate::check::Server;
use crate::observe;

/// Times in a row that a server does not answer before it is away: one that restarts is not.
const SILENCES: u32 = 2;

/// How the servers of the engine are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Servers {
    /// Those whose monitoring ports are known, and that were asked.
    pub asked: usize,
    /// Those of them that are away, each with why. Without one more the cluster may stop.
    pub away: Vec<(String, String)>,
    /// The one of which the largest part of what it may store is used.
    pub fullest: Option<Stored>,
}

/// What a server of the engine has stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The server's name.
    pub server: String,
    /// What it has stored, in bytes.
    pub bytes: u64,
    /// What it may store (`max_file_store`), in bytes.
    pub bytes_max: u64,
}

/// One port, and what it said.
struct Port {
    address: String,
    silences: u32,
    why: String,
    stored: Option<Stored>,
}

impl Port {
    fn new(address: String) -> Port {
        Port {
            address,
            silences: 0,
            why: String::new(),
            stored: None,
        }
    }

    fn take(&mut self, said: Result<Server, String>) {
        let said = said.and_then(|server| match server.has_jetstream {
            true => Ok(server),
            false => Err("it stores nothing: JetStream is off".to_owned()),
        });
        match said {
            Ok(server) => {
                self.silences = 0;
                self.stored = Some(Stored {
                    server: server.name,
                    bytes: server.stored_bytes,
                    bytes_max: server.stored_bytes_max,
                });
            }
            Err(why) => {
                self.silences = self.silences.saturating_add(1);
                self.why = why;
                if self.silences >= SILENCES {
                    self.stored = None;
                }
            }
        }
    }
}

fn sum_up(ports: &[Port]) -> Servers {
    let away = ports.iter().filter(|port| port.silences >= SILENCES);
    let stored = ports.iter().filter_map(|port| port.stored.as_ref());
    let bounded = stored.filter(|stored| stored.bytes_max > 0);
    let share = |stored: &Stored| stored.bytes as f64 / stored.bytes_max as f64;
    Servers {
        asked: ports.len(),
        away: away
            .map(|port| (port.address.clone(), port.why.clone()))
            .collect(),
        fullest: bounded
            .max_by(|one, other| share(one).total_cmp(&share(other)))
            .cloned(),
    }
}

/// Until the driver ends. All of them are asked, then there is a pause.
pub(super) async fn run(
    monitor: Vec<String>,
    pause: Duration,
    shown: Shared<Servers>,
    mut end: watch::Receiver<()>,
) {
    let mut ports: Vec<Port> = monitor.into_iter().map(Port::new).collect();
    loop {
        for port in &mut ports {
            let said = tokio::select! {
                said = observe::server(&port.address) => said,
                _ = end.changed() => return,
            };
            port.take(said);
        }
        *lock(&shown) = sum_up(&ports);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = end.changed() => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(address: &str) -> Port {
        Port::new(address.to_owned())
    }

    fn says(bytes: u64, bytes_max: u64) -> Result<Server, String> {
        Ok(Server {
            name: format!("n{bytes}"),
            has_jetstream: true,
            stored_bytes: bytes,
            stored_bytes_max: bytes_max,
            ..Server::default()
        })
    }

    #[test]
    fn a_server_is_away_once_it_was_silent_twice_in_a_row() {
        let mut ports = [port("a"), port("b")];
        let refused = || Err("refused".to_owned());
        ports[0].take(says(1, 10));
        ports[1].take(refused());
        assert_eq!(sum_up(&ports).away, []);
        ports[1].take(says(2, 10));
        ports[1].take(refused());
        let seen = sum_up(&ports);
        assert_eq!((seen.asked, &seen.away[..]), (2, &[][..]));
        assert_eq!(seen.fullest.unwrap().server, "n2", "what it said last");
        ports[1].take(Ok(Server::default()));
        let seen = sum_up(&ports);
        let why = "it stores nothing: JetStream is off".to_owned();
        assert_eq!(seen.away, [("b".to_owned(), why)]);
        assert_eq!(seen.fullest.unwrap().server, "n1");
        ports[1].take(says(2, 10));
        assert_eq!(sum_up(&ports).away, []);
    }

    #[test]
    fn the_fullest_is_the_one_with_the_largest_share() {
        let mut ports = [port("a"), port("b"), port("c")];
        ports[0].take(says(60, 100));
        ports[1].take(says(9, 10));
        ports[2].take(says(1_000, 0));
        let fullest = sum_up(&ports).fullest.unwrap();
        assert_eq!((fullest.bytes, fullest.bytes_max), (9, 10));
        assert_eq!(sum_up(&[]), Servers::default());
    }
}
