//! Alarms of a cluster. Owns their limits, and how long what is ordinary for a moment has lasted:
//! a take-over leaves streams without a home and a link down, but not for long.

use super::Measure;
use crate::cluster::ClusterSample;
use crate::format;

/// Seconds for which streams may have no home: longer than a take-over with an election of the
/// engine's before it.
const HOMES_S: f64 = 15.0;

/// Seconds for which a link to a node that lives may be down.
const LINKS_S: f64 = 10.0;

/// Share of the bytes that may wait for a node; beyond all of it senders are refused.
const LINK_BACKLOG: f64 = 0.5;

/// Milliseconds for which a copy may get no further.
const LAG_MS: f64 = 10_000.0;

/// Days that a certificate should be valid for.
const CERTIFICATE_DAYS: f64 = 14.0;

const SECONDS_OF_DAY: f64 = 86_400.0;

/// Since when, in milliseconds since 1970.
#[derive(Debug, Default)]
pub(super) struct Lasting {
    now_ms: i64,
    homes_moving: Option<i64>,
    links_down: Option<i64>,
}

impl Lasting {
    /// Notes how it is.
    pub(super) fn observe(&mut self, at_ms: i64, sample: Option<&ClusterSample>) {
        let Some(sample) = sample else {
            *self = Lasting::default();
            return;
        };
        self.now_ms = at_ms;
        let keep = |since: &mut Option<i64>, is_so: bool| {
            *since = is_so.then(|| since.unwrap_or(at_ms));
        };
        keep(&mut self.homes_moving, sample.homes_moving > 0);
        keep(&mut self.links_down, sample.links_down().next().is_some());
    }

    fn seconds(&self, since: Option<i64>) -> f64 {
        since.map_or(0.0, |since| (self.now_ms - since) as f64 / 1e3)
    }

    /// Streams that nobody serves.
    pub(super) fn homes(&self, sample: &ClusterSample) -> Measure {
        let (moving, streams) = (sample.homes_moving, sample.streams);
        Measure {
            level: self.seconds(self.homes_moving) / HOMES_S,
            clear: 0.1,
            message: format!(
                "no node serves {moving} of {streams} streams: see `roost cluster status`"
            ),
        }
    }

    /// Links that are down, or that too much waits for.
    pub(super) fn links(&self, sample: &ClusterSample) -> Measure {
        let down = self.seconds(self.links_down) / LINKS_S;
        let longest = sample.links.iter().max_by_key(|link| link.bytes);
        let max = sample.link_bytes_max.max(1) as f64 * LINK_BACKLOG;
        let waiting = longest.map_or(0.0, |link| link.bytes as f64 / max);
        let mut said = Vec::new();
        for link in sample.links_down() {
            let why = link.error.as_deref().unwrap_or("not connected yet");
            said.push(format!("no link to node {}: {why}", link.peer));
        }
        if let Some(link) = longest.filter(|_| waiting >= 1.0 || said.is_empty()) {
            said.push(format!(
                "{} packets with {} wait for node {}",
                link.packets,
                format::bytes(link.bytes as f64),
                link.peer
            ));
        }
        Measure {
            level: down.max(waiting),
            clear: 0.1,
            message: said.join("; "),
        }
    }
}

/// The engine, as far as this node depends on it.
pub(super) fn engine(sample: &ClusterSample) -> Measure {
    let quorum = sample.streams_without_quorum;
    let mut said = Vec::new();
    if !sample.holds_lease {
        said.push("the engine does not renew this node's lease: it serves nothing".to_owned());
    } else if quorum > 0 {
        said.push(format!("{quorum} streams do not acknowledge: no quorum"));
    }
    for (server, why) in &sample.engine_away {
        said.push(format!("the engine's server {server} is away: {why}"));
    }
    Measure {
        level: f64::from(u8::from(!said.is_empty())),
        clear: 0.5,
        message: format!("{}; see `roost cluster check`", said.join("; ")),
    }
}

/// The fullest of the engine's servers.
pub(super) fn storage(sample: &ClusterSample) -> Option<Measure> {
    let (used, max) = (sample.engine_stored_bytes, sample.engine_stored_bytes_max);
    super::near(used, max, |used, max| {
        let (used, max) = (format::bytes(used as f64), format::bytes(max as f64));
        format!(
            "the engine's server {} has stored {used} of at most {max}: then nothing is accepted; \
             raise its max_file_store, or see `roost cluster snapshot`",
            sample.engine_fullest
        )
    })
}

/// This node's copies of streams.
pub(super) fn copies(sample: &ClusterSample) -> Measure {
    let (stuck, diverged) = (sample.copies_stuck, sample.divergences);
    let lag = sample.lag_ms as f64;
    let message = match (diverged, stuck) {
        (1.., _) => format!("this node's copies differed {diverged} times from another's"),
        (0, 1..) => format!("{stuck} copies of streams cannot go on"),
        (0, 0) => format!(
            "a copy lacks {} messages and has got no further for {}",
            sample.lag_messages,
            format::wait(lag / 1e3)
        ),
    };
    Measure {
        level: (lag / LAG_MS).max(f64::from(u8::from(stuck > 0 || diverged > 0))),
        clear: 0.5,
        message: format!("{message}: see the log"),
    }
}

/// The certificate for links, if there is one.
pub(super) fn certificate(sample: &ClusterSample, at_ms: i64) -> Option<Measure> {
    let left = sample.certificate_expires? as f64 - at_ms as f64 / 1e3;
    let days = left / SECONDS_OF_DAY;
    let when = match days > 0.0 {
        true => format!("expires in {days:.1} days"),
        false => "has expired: links that are lost do not come back".to_owned(),
    };
    Some(Measure {
        level: CERTIFICATE_DAYS / days.max(0.001),
        clear: 1.0,
        message: format!(
            "this node's certificate for links {when}: put a new one there (cluster.certificate) \
             and reload"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alarms::{Alarms, Kind};
    use crate::cluster::LinkSample;
    use crate::look::Look;

    /// A node of a cluster that is well.
    fn well() -> ClusterSample {
        ClusterSample {
            holds_lease: true,
            streams: 16,
            homes_given: 5,
            homes_served: 5,
            engine_servers: 3,
            engine_fullest: "n2".to_owned(),
            engine_stored_bytes: 7 << 30,
            engine_stored_bytes_max: 10 << 30,
            link_bytes_max: 32 << 20,
            links: vec![LinkSample {
                peer: "b".to_owned(),
                is_up: true,
                ..LinkSample::default()
            }],
            certificate_expires: Some(100 * 86_400),
            ..ClusterSample::default()
        }
    }

    /// Looks once a second, of which the last ones are such; the alarms then.
    fn raised(seconds: i64, sample: &ClusterSample) -> Vec<(String, String)> {
        let mut alarms = Alarms::new(0);
        for second in 0..5 + seconds {
            let mut look = Look::default();
            look.sample.at_ms = second * 1_000;
            look.cluster = Some(if second < 5 { well() } else { sample.clone() });
            alarms.observe(&look);
        }
        let raised = alarms.raised().into_iter();
        raised.map(|alarm| (alarm.name, alarm.message)).collect()
    }

    fn expect(sample: &ClusterSample, kind: Kind, text: &str) {
        let raised = raised(30, sample);
        let [(name, message)] = &raised[..] else {
            panic!("{raised:?}");
        };
        assert_eq!(name, kind.name());
        assert!(message.contains(text), "{message}");
    }

    /// Goal: each alarm is raised by what it is for, and by nothing else.
    #[test]
    fn each_is_raised_by_what_it_is_for() {
        assert_eq!(raised(30, &well()), []);
        let no_lease = ClusterSample {
            holds_lease: false,
            ..well()
        };
        expect(&no_lease, Kind::Engine, "does not renew this node's lease");
        let no_quorum = ClusterSample {
            streams_without_quorum: 2,
            ..well()
        };
        expect(&no_quorum, Kind::Engine, "2 streams do not acknowledge");
        let away = ClusterSample {
            engine_away: vec![("http://n3:8222".to_owned(), "refused".to_owned())],
            ..well()
        };
        expect(
            &away,
            Kind::Engine,
            "server http://n3:8222 is away: refused; see",
        );
        let full = ClusterSample {
            engine_stored_bytes: (10 << 30) / 100 * 91,
            ..well()
        };
        expect(
            &full,
            Kind::Storage,
            "server n2 has stored 9.1G of at most 10.0G",
        );
        let moving = ClusterSample {
            homes_moving: 3,
            ..well()
        };
        expect(&moving, Kind::Homes, "no node serves 3 of 16 streams");
        let lagging = ClusterSample {
            lag_ms: 12_000,
            lag_messages: 7,
            ..well()
        };
        expect(&lagging, Kind::Copies, "lacks 7 messages");
        let stuck = ClusterSample {
            copies_stuck: 1,
            ..well()
        };
        expect(&stuck, Kind::Copies, "1 copies of streams cannot go on");
        let diverged = ClusterSample {
            divergences: 1,
            ..well()
        };
        expect(&diverged, Kind::Copies, "differed");
        let soon = ClusterSample {
            certificate_expires: Some(13 * 86_400),
            ..well()
        };
        expect(&soon, Kind::Certificate, "expires in 13.0 days");
        let late = ClusterSample {
            certificate_expires: Some(0),
            ..well()
        };
        expect(&late, Kind::Certificate, "has expired");
        let mut down = well();
        down.links[0].is_up = false;
        down.links[0].error = Some("why".to_owned());
        expect(&down, Kind::Links, "no link to node b: why");
        let mut full = well();
        (full.links[0].packets, full.links[0].bytes) = (9, 17 << 20);
        expect(&full, Kind::Links, "9 packets with 17.0M wait for node b");
    }

    /// Goal: a take-over raises nothing.
    #[test]
    fn what_is_ordinary_for_a_moment_raises_nothing() {
        let mut taking = well();
        taking.homes_moving = 5;
        assert_eq!(raised(14, &taking), []);
        let mut down = well();
        down.links[0].is_up = false;
        assert_eq!(raised(9, &down), []);
    }

    /// Goal: without a certificate, or without a cluster, nothing is said of them.
    #[test]
    fn what_is_not_there_raises_nothing() {
        let plain = ClusterSample {
            certificate_expires: None,
            ..well()
        };
        assert_eq!(raised(30, &plain), []);
        let mut lasting = Lasting::default();
        lasting.observe(
            0,
            Some(&ClusterSample {
                homes_moving: 1,
                ..well()
            }),
        );
        lasting.observe(1_000, None);
        assert_eq!(lasting.homes_moving, None);
    }
}
