//! How one mailbox does between two looks: how fast it fills, how long a message waits in it, when
//! it will be empty. A shard names only its longest mailboxes, those with 8 messages and more.

use server::watch::Top;

use super::drain::Drain;
use super::interval::Interval;

/// One of the longest mailboxes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mailbox<'a> {
    /// Whose it is.
    pub(crate) who: &'a str,
    /// Messages in it.
    pub(crate) length: u64,
    /// Messages that it gained in a second; below zero if it lost some. Absent if the clock was set
    /// back.
    pub(crate) fills: Option<f64>,
    /// Seconds until its last message is handled, at the rate of the last second; absent if its
    /// actor was not among the busiest.
    pub(crate) delay: Option<f64>,
    /// When it will be empty if it goes on like this.
    pub(crate) drain: Drain,
}

impl<'a> Mailbox<'a> {
    /// That of `now` on a shard. One that was not named before was short.
    pub(crate) fn between(interval: &Interval<'a>, shard: usize, now: &'a Top) -> Mailbox<'a> {
        let value = |list: &[Top]| {
            list.iter()
                .find(|top| top.who == now.who)
                .map(|top| top.value)
        };
        let before = interval.before.sample.shards.get(shard);
        let before = before
            .and_then(|shard| value(&shard.top_queue))
            .unwrap_or(0);
        let gained = now.value as f64 - before as f64;
        let fills = interval.seconds().map(|seconds| gained / seconds);
        let handled = interval.now.sample.shards.get(shard);
        let handled = handled.and_then(|shard| value(&shard.top_rate));
        let delay = handled.filter(|rate| *rate > 0);
        let drain = match fills {
            _ if now.value == 0 => Drain::Empty,
            Some(fills) if fills < 0.0 => Drain::After(now.value as f64 / -fills),
            _ => Drain::Never,
        };
        Mailbox {
            who: &now.who,
            length: now.value,
            fills,
            delay: delay.map(|rate| now.value as f64 / rate as f64),
            drain,
        }
    }
}

#[cfg(test)]
mod tests {
    use server::watch::ShardSample;

    use super::*;
    use crate::look::Look;

    fn look(at_ms: i64, waiting: u64, handled: u64) -> Look {
        let top = |value: u64| {
            vec![Top {
                who: "a@b".to_owned(),
                value,
            }]
        };
        let mut look = Look::default();
        look.sample.at_ms = at_ms;
        look.sample.shards = vec![ShardSample {
            top_queue: top(waiting),
            top_rate: top(handled),
            ..ShardSample::default()
        }];
        look
    }

    #[test]
    fn a_mailbox_that_drains_says_when_it_is_empty() {
        let (before, now) = (look(0, 1_000, 0), look(2_000, 600, 400));
        let interval = Interval {
            before: &before,
            now: &now,
        };
        let mailbox = interval.longest().expect("a mailbox");
        assert_eq!(mailbox.fills, Some(-200.0));
        assert_eq!(mailbox.delay, Some(1.5));
        assert_eq!(mailbox.drain, Drain::After(3.0));
    }

    #[test]
    fn a_mailbox_that_fills_never_is_and_an_idle_owner_has_no_delay() {
        let (before, now) = (look(0, 100, 7), look(1_000, 150, 0));
        let interval = Interval {
            before: &before,
            now: &now,
        };
        let mailbox = interval.longest().expect("a mailbox");
        assert_eq!((mailbox.fills, mailbox.delay), (Some(50.0), None));
        assert_eq!(mailbox.drain, Drain::Never);
        let back = Interval {
            before: &now,
            now: &before,
        };
        assert_eq!(back.longest().expect("a mailbox").fills, None);
    }
}
