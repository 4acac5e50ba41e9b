//! What is counted and timed, in a form that processes can send to each other and add up.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Distinct reasons kept for failures; further ones are counted together.
const REASONS_MAX: usize = 64;
/// Longest latency kept, in microseconds: an hour.
const LATENCY_US_MAX: u64 = 3_600_000_000;

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Events counted over a span of time.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counts {
            /// Adds `other` to this.
            pub fn add(&mut self, other: &Counts) {
                $(self.$name += other.$name;)*
            }

            /// What came since `earlier`.
            pub fn since(&self, earlier: &Counts) -> Counts {
                Counts { $($name: self.$name - earlier.$name,)* }
            }
        }
    };
}

counts! {
    /// Logins begun.
    logins_started,
    /// Logins that came to their end: bound, roster received, presence sent.
    logins_ok,
    /// Logins that failed, whatever the reason.
    logins_failed,
    /// Sessions ended by the server or the network, not by the scenario.
    sessions_lost,
    /// Sessions or links ended by the scenario.
    sessions_ended,
    /// Sessions taken up again (XEP-0198).
    sessions_resumed,
    /// Resumptions that the server refused.
    resumptions_refused,
    /// Contacts in received rosters.
    roster_items,
    /// Rosters with another number of contacts than expected.
    rosters_wrong,
    /// Presence changes and initial presences sent.
    presences_sent,
    /// Presence stanzas received from contacts.
    presences_received,
    /// Other presence stanzas: a user's own, subscriptions, errors.
    presences_other,
    /// Messages written.
    messages_sent,
    /// Messages received, each counted once.
    messages_received,
    /// Messages received again.
    messages_duplicated,
    /// Messages received after a later one of the same sender.
    messages_reordered,
    /// Messages received with a delay stamp: kept while the user was away.
    messages_delayed,
    /// Messages that came back as errors.
    messages_bounced,
    /// Messages that no flood user wrote.
    messages_foreign,
    /// Messages not written because no contact was online or the link was backed up.
    messages_skipped,
    /// Users who were to enter a room or subscribe to a node.
    entries_started,
    /// Users who did.
    entries_ok,
    /// Users who were refused, or whose session ended first.
    entries_failed,
    /// Messages to a room and publications.
    sayings_sent,
    /// Those that were refused.
    sayings_refused,
    /// Copies of them that came.
    copies_received,
    /// Archive queries sent.
    archive_queries,
    /// Archive queries answered with a result.
    archive_answers,
    /// Archive queries answered with an error.
    archive_errors,
    /// White-space keepalives sent.
    keepalives,
    /// Stanzas and stream elements received.
    elements_received,
    /// Bytes received, as plaintext.
    bytes_received,
    /// Bytes sent, as plaintext.
    bytes_sent,
    /// SCRAM key derivations made by the load itself.
    derivations,
}

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timing {
    /// From a login's scheduled moment to the established connection.
    Connect,
    /// From a login's scheduled moment to the bound resource.
    Bind,
    /// From a login's scheduled moment to its end (roster received, presence sent).
    Login,
    /// From a message's scheduled moment to its arrival.
    Message,
    /// From a presence change's scheduled moment to its arrival at a contact.
    Presence,
    /// From the scheduled moment of entering a room or subscribing to a node to being inside.
    Entry,
    /// From the scheduled moment of what is said to all to the arrival of a copy.
    Copy,
    /// The same, to the arrival of the last copy at any user of the same worker.
    LastCopy,
    /// From an archive query's scheduled moment to its result.
    Archive,
    /// How late the load itself was: from a scheduled moment to the moment it was acted upon.
    Lag,
}

impl Timing {
    /// All of them, in the order of reports.
    pub const ALL: [Timing; 10] = [
        Timing::Connect,
        Timing::Bind,
        Timing::Login,
        Timing::Message,
        Timing::Presence,
        Timing::Entry,
        Timing::Copy,
        Timing::LastCopy,
        Timing::Archive,
        Timing::Lag,
    ];

    /// Name for people.
    pub fn label(self) -> &'static str {
        match self {
            Timing::Connect => "connect",
            Timing::Bind => "bind",
            Timing::Login => "login",
            Timing::Message => "message",
            Timing::Presence => "presence",
            Timing::Entry => "entry",
            Timing::Copy => "copy",
            Timing::LastCopy => "last copy",
            Timing::Archive => "archive",
            Timing::Lag => "load's own lag",
        }
    }
}

/// Recorded values in microseconds with their counts: a histogram on its way between processes.
pub type Pairs = Vec<(u64, u64)>;

/// One histogram per [`Timing`].
pub(crate) struct Timings {
    histograms: Vec<Histogram<u64>>,
}

impl Timings {
    /// Empty histograms of `digits` significant digits (3: about 200 KB each; 1: under 4 KB).
    pub(crate) fn new(digits: u8) -> Timings {
        let histograms = Timing::ALL
            .iter()
            .map(|_| {
                // Invariant: bounds and digits are constants that hdrhistogram accepts.
                Histogram::new_with_bounds(1, LATENCY_US_MAX, digits).expect("valid bounds")
            })
            .collect();
        Timings { histograms }
    }

    /// Records `nanos`.
    pub(crate) fn record(&mut self, timing: Timing, nanos: u64) {
        self.histograms[timing as usize].saturating_record((nanos / 1_000).max(1));
    }

    /// The histogram of `timing`.
    pub(crate) fn of(&self, timing: Timing) -> &Histogram<u64> {
        &self.histograms[timing as usize]
    }

    /// What was recorded, and forgets it.
    pub(crate) fn take(&mut self) -> Vec<(Timing, Pairs)> {
        Timing::ALL
            .iter()
            .zip(&mut self.histograms)
            .filter(|(_, histogram)| !histogram.is_empty())
            .map(|(timing, histogram)| {
                let pairs = histogram
                    .iter_recorded()
                    .map(|value| {
                        (
                            value.value_iterated_to(),
                            value.count_since_last_iteration(),
                        )
                    })
                    .collect();
                histogram.reset();
                (*timing, pairs)
            })
            .collect()
    }

    /// Adds what another process recorded.
    pub(crate) fn add(&mut self, taken: &[(Timing, Pairs)]) {
        for (timing, pairs) in taken {
            let histogram = &mut self.histograms[*timing as usize];
            for (value, count) in pairs {
                // Invariant: values come out of a histogram with the same bounds; a foreign one
                // past the end is cut to it.
                let _ = histogram.record_n((*value).min(LATENCY_US_MAX), *count);
            }
        }
    }
}

/// Reasons of failures, bounded in number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Reasons(pub BTreeMap<String, u64>);

impl Reasons {
    /// Counts one failure.
    pub fn add(&mut self, reason: &str) {
        self.add_n(reason, 1);
    }

    /// Counts `count` failures.
    pub fn add_n(&mut self, reason: &str, count: u64) {
        if let Some(known) = self.0.get_mut(reason) {
            *known += count;
        } else if self.0.len() < REASONS_MAX {
            self.0.insert(reason.to_owned(), count);
        } else {
            *self.0.entry("other reasons".to_owned()).or_default() += count;
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Reasons) {
        for (reason, count) in &other.0 {
            self.add_n(reason, *count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timings_survive_the_way_between_processes() {
        let mut near = Timings::new(3);
        let mut far = Timings::new(3);
        for millis in 1..=1_000_u64 {
            near.record(Timing::Login, millis * 1_000_000);
            far.record(Timing::Login, millis * 1_000_000);
        }
        far.record(Timing::Lag, 5);
        let taken = far.take();
        assert!(far.of(Timing::Login).is_empty(), "taking forgets");
        near.add(&taken);
        let login = near.of(Timing::Login);
        assert_eq!(login.len(), 2_000);
        let median = login.value_at_quantile(0.5);
        assert!((499_000..=501_000).contains(&median), "{median}");
        assert_eq!(near.of(Timing::Lag).len(), 1);
        assert!(near.of(Timing::Message).is_empty());
    }

    #[test]
    fn reasons_are_bounded() {
        let mut reasons = Reasons::default();
        for number in 0..1_000 {
            reasons.add(&format!("reason {number}"));
        }
        assert_eq!(reasons.0.len(), REASONS_MAX + 1);
        assert_eq!(reasons.0.values().sum::<u64>(), 1_000);
    }
}
