//! The queue against a plain model of a link and a client: whatever is pushed, acknowledged, cut,
//! resumed and killed, the client gets each message of the log once and in order, nothing else
//! twice, and both sides count alike.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use stdx::time::Moment;

use super::{Kept, Limits, Outbound, Pushed, TooHigh};

/// So small that it fills up.
const LIMITS: Limits = Limits {
    stanzas: 4,
    bytes: 320,
    stanzas_max: 4,
    bytes_max: 320,
};

/// The same, with more room for what a client asks for.
const ROOMY: Limits = Limits {
    stanzas_max: 7,
    bytes_max: 500,
    ..LIMITS
};

#[derive(Clone, Debug)]
enum Op {
    Entry,
    Presence(u8),
    Other(u8),
    /// So many stanzas arrive.
    Arrive(u8),
    /// The client says what it has.
    Ack,
    /// The link is gone, with what was on it.
    Cut,
    Resume,
    /// The server's process is gone; what the log has is not.
    Kill,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => Just(Op::Entry),
        4 => (0u8..100).prop_map(Op::Presence),
        2 => (0u8..100).prop_map(Op::Other),
        4 => (0u8..8).prop_map(Op::Arrive),
        2 => Just(Op::Ack),
        1 => Just(Op::Cut),
        2 => Just(Op::Resume),
        1 => Just(Op::Kill),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Entry,
    Presence,
    Other,
}

struct World {
    server: Outbound,
    limits: Limits,
    /// The count that each entry was given last.
    log: BTreeMap<u64, u32>,
    is_linked: bool,
    link: Vec<u64>,
    handled: u32,
    arrived: Vec<u64>,
    /// What was taken for sending, by number.
    taken: BTreeMap<u64, Kind>,
    /// Presence may be missing: the server said so.
    presence_lost: bool,
    /// Other stanzas may be missing likewise.
    others_lost: bool,
    /// What no log has may be missing.
    killed: bool,
}

impl World {
    fn new(h: u32, limits: Limits) -> Self {
        World {
            server: Outbound::recovered(h, []),
            limits,
            log: BTreeMap::new(),
            is_linked: true,
            link: Vec::new(),
            handled: h,
            arrived: Vec::new(),
            taken: BTreeMap::new(),
            presence_lost: false,
            others_lost: false,
            killed: false,
        }
    }

    fn step(&mut self, number: u64, op: &Op) {
        match op {
            Op::Entry => self.push(number, Kind::Entry, Kept::Entry(number)),
            Op::Presence(size) => {
                self.push(number, Kind::Presence, Kept::Presence(body(number, *size)));
            }
            Op::Other(size) => self.push(number, Kind::Other, Kept::Other(body(number, *size))),
            Op::Arrive(count) => self.arrive(usize::from(*count)),
            Op::Ack if self.is_linked => {
                let before = self.server.acked();
                let entries = self.server.ack(self.handled).unwrap();
                for seq in entries {
                    let count = self.log[&seq];
                    assert!(count.wrapping_sub(before) as i32 > 0, "acknowledged twice");
                    assert!(self.handled.wrapping_sub(count) as i32 >= 0);
                }
            }
            Op::Cut => self.cut(),
            Op::Resume if !self.is_linked => self.resume(),
            Op::Kill => self.kill(),
            Op::Ack | Op::Resume => {}
        }
        self.check();
    }

    fn push(&mut self, number: u64, kind: Kind, kept: Kept) {
        let sent = self.server.sent();
        match self.server.push(kept, self.limits) {
            Pushed::Full => {
                assert_eq!(self.server.sent(), sent);
                // They may have given way in vain.
                self.others_lost = true;
                return;
            }
            Pushed::OthersGaveWay => self.others_lost = true,
            Pushed::Kept | Pushed::PresenceGaveWay => {}
        }
        assert_eq!(self.server.sent(), sent.wrapping_add(1));
        self.taken.insert(number, kind);
        if kind == Kind::Entry {
            self.log.insert(number, self.server.sent());
        }
        if self.is_linked {
            self.link.push(number);
        }
    }

    fn arrive(&mut self, count: usize) {
        let count = count.min(self.link.len());
        self.handled = self.handled.wrapping_add(count as u32);
        self.arrived.extend(self.link.drain(..count));
    }

    fn cut(&mut self) {
        self.link.clear();
        self.is_linked = false;
        self.server.detached();
    }

    fn resume(&mut self) {
        let resumed = self.server.resume(self.handled).unwrap();
        assert_eq!(resumed.behind, None);
        self.presence_lost |= resumed.presence_lost;
        if resumed.is_renumbered {
            self.write_down();
        }
        self.send_again();
    }

    fn kill(&mut self) {
        let h = self.handled;
        let owed = self
            .log
            .iter()
            .filter(|(_, count)| count.wrapping_sub(h) as i32 > 0)
            .map(|(seq, _)| *seq);
        self.server = Outbound::recovered(h, owed.collect::<Vec<_>>());
        self.killed = true;
        self.link.clear();
        self.write_down();
        self.send_again();
    }

    fn write_down(&mut self) {
        for (count, kept) in self.server.unacked() {
            if let Some(seq) = kept.entry() {
                self.log.insert(seq, count);
            }
        }
    }

    fn send_again(&mut self) {
        self.is_linked = true;
        let numbers = self.server.unacked().map(|(_, kept)| number_of(kept));
        self.link = numbers.collect();
    }

    fn check(&self) {
        let server = &self.server;
        if self.is_linked {
            let expected = self.handled.wrapping_add(self.link.len() as u32);
            assert_eq!(server.sent(), expected, "both sides count alike");
        }
        for (count, kept) in server.unacked() {
            if let Some(seq) = kept.entry() {
                assert_eq!(self.log[&seq], count, "what was written down is true");
            }
        }
        let kept = server.unacked().filter(|(_, kept)| kept.entry().is_none());
        assert!(kept.count() <= usize::from(self.limits.stanzas_max));
        let presences = server.unacked();
        let presences = presences.filter(|(_, kept)| matches!(kept, Kept::Presence(_)));
        assert!(presences.count() <= usize::from(self.limits.stanzas));
        assert!(
            self.arrived.is_sorted_by(|a, b| a < b),
            "in order, and none twice"
        );
    }

    /// Everything arrives and is acknowledged.
    fn finish(mut self) {
        if !self.is_linked {
            self.resume();
        }
        self.arrive(usize::MAX);
        self.server.ack(self.handled).unwrap();
        assert_eq!(self.server.unacked().count(), 0);
        assert_eq!(self.server.heap_bytes(), 0);
        for (number, kind) in &self.taken {
            let may_be_missing = match kind {
                Kind::Entry => false,
                Kind::Presence => self.killed || self.presence_lost,
                Kind::Other => self.killed || self.others_lost,
            };
            let is_there = self.arrived.binary_search(number).is_ok();
            assert!(is_there || may_be_missing, "{kind:?} {number} is lost");
        }
    }
}

fn body(number: u64, size: u8) -> Box<[u8]> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(8 + usize::from(size), 0);
    bytes.into()
}

fn number_of(kept: &Kept) -> u64 {
    match kept {
        Kept::Entry(seq) => *seq,
        Kept::Elsewhere => unreachable!("none was pushed"),
        Kept::Presence(bytes) | Kept::Other(bytes) => {
            u64::from_le_bytes(bytes[..8].try_into().unwrap())
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn a_client_gets_everything_once_and_in_order(
        start in prop_oneof![Just(0), Just(u32::MAX), u32::MAX - 40..=u32::MAX],
        limits in prop_oneof![Just(LIMITS), Just(ROOMY)],
        ops in prop::collection::vec(op(), 1..120),
    ) {
        let mut world = World::new(start, limits);
        for (number, op) in ops.iter().enumerate() {
            world.step(number as u64, op);
        }
        world.finish();
    }
}

fn presence() -> Kept {
    Kept::Presence(Box::from(&b"<presence/>"[..]))
}

fn other() -> Kept {
    Kept::Other(Box::from(&b"<iq/>"[..]))
}

fn numbers(outbound: &Outbound) -> Vec<(u32, Option<u64>)> {
    outbound
        .unacked()
        .map(|(count, kept)| (count, kept.entry()))
        .collect()
}

#[test]
fn acknowledging_what_was_never_sent_is_an_error() {
    let mut outbound = Outbound::default();
    assert_eq!(outbound.ack(1), Err(TooHigh { h: 1, sent: 0 }));
    assert_eq!(outbound.push(Kept::Entry(7), LIMITS), Pushed::Kept);
    assert_eq!(outbound.ack(2), Err(TooHigh { h: 2, sent: 1 }));
    assert_eq!(outbound.resume(2), Err(TooHigh { h: 2, sent: 1 }));
    assert_eq!(outbound.ack(1).unwrap()[..], [7]);
    assert!(outbound.ack(1).unwrap().is_empty());
    assert!(
        outbound.ack(0).unwrap().is_empty(),
        "an old count says nothing"
    );
    assert_eq!(outbound.acked(), 1);
}

#[test]
fn counts_wrap_around() {
    let mut outbound = Outbound::recovered(u32::MAX - 1, [1, 2, 3]);
    assert_eq!(outbound.sent(), 1);
    let counts: Vec<u32> = outbound.unacked().map(|(count, _)| count).collect();
    assert_eq!(counts, [u32::MAX, 0, 1]);
    assert_eq!(outbound.ack(2), Err(TooHigh { h: 2, sent: 1 }));
    assert_eq!(outbound.ack(0).unwrap()[..], [1, 2]);
    assert!(outbound.ack(u32::MAX).unwrap().is_empty());
    assert_eq!(outbound.ack(1).unwrap()[..], [3]);
}

#[test]
fn presence_takes_no_room_from_what_is_asked_for() {
    let limits = Limits {
        stanzas: 2,
        bytes: 200,
        ..Limits::default()
    };
    let mut outbound = Outbound::default();
    assert!(outbound.takes(201, limits), "one alone, whatever its size");
    for _ in 0..3 {
        assert_eq!(outbound.push(presence(), LIMITS), Pushed::Kept);
    }
    assert!(outbound.takes(201, limits), "presence gives way");
    assert_eq!(outbound.push(other(), LIMITS), Pushed::Kept);
    assert!(outbound.takes(5, limits) && !outbound.takes(150, limits));
    let next = outbound.push(other(), Limits::default());
    assert_eq!(next, Pushed::Kept);
    assert!(!outbound.takes(0, limits), "two wait");
}

#[test]
fn the_oldest_presence_gives_way_and_leaves_its_count() {
    let mut outbound = Outbound::default();
    for _ in 0..3 {
        assert_eq!(outbound.push(presence(), LIMITS), Pushed::Kept);
    }
    assert_eq!(outbound.push(Kept::Entry(1), LIMITS), Pushed::Kept);
    assert_eq!(outbound.push(other(), LIMITS), Pushed::Kept);
    assert_eq!(outbound.push(other(), LIMITS), Pushed::PresenceGaveWay);
    assert_eq!(outbound.push(other(), LIMITS), Pushed::PresenceGaveWay);
    let left = [(3, None), (4, Some(1)), (5, None), (6, None), (7, None)];
    assert_eq!(numbers(&outbound), left);
    // The client was there all the time: its counts include what is not kept any more.
    assert!(outbound.ack(1).unwrap().is_empty());
    assert_eq!(numbers(&outbound), left);
    let resumed = outbound.resume(1).unwrap();
    assert!(resumed.is_renumbered && resumed.presence_lost);
    let left = [(2, None), (3, Some(1)), (4, None), (5, None), (6, None)];
    assert_eq!(numbers(&outbound), left);
    assert!(!outbound.resume(1).unwrap().is_renumbered);
}

#[test]
fn presence_alone_never_fills_the_queue() {
    let mut outbound = Outbound::default();
    for _ in 0..1000 {
        assert_ne!(outbound.push(presence(), LIMITS), Pushed::Full);
    }
    assert_eq!(outbound.sent(), 1000);
    assert_eq!(outbound.unacked().count(), 4);
    assert!(outbound.heap_bytes() < 500);
    let resumed = outbound.resume(0).unwrap();
    assert!(resumed.presence_lost);
    assert_eq!(outbound.sent(), 4);
}

#[test]
fn a_queue_of_gaps_takes_no_memory_after_a_resumption() {
    let limits = Limits {
        stanzas: 1,
        stanzas_max: 1,
        ..LIMITS
    };
    let mut outbound = Outbound::default();
    assert_eq!(outbound.push(other(), limits), Pushed::Kept);
    assert_eq!(outbound.push(presence(), limits), Pushed::PresenceGaveWay);
    let _ = outbound.ack(1).unwrap();
    assert!(outbound.resume(1).unwrap().presence_lost);
    assert_eq!(outbound.heap_bytes(), 0);
}

#[test]
fn presence_that_was_acknowledged_is_not_lost() {
    let mut outbound = Outbound::default();
    for _ in 0..10 {
        let _ = outbound.push(presence(), LIMITS);
    }
    assert!(!outbound.resume(10).unwrap().presence_lost);
}

/// What a log has never does: with too many places of it nothing more is taken.
#[test]
fn the_oldest_gives_way_and_entries_alone_fill_the_queue() {
    let mut outbound = Outbound::default();
    for _ in 0..4 {
        assert_eq!(outbound.push(other(), LIMITS), Pushed::Kept);
    }
    assert_eq!(outbound.push(presence(), LIMITS), Pushed::PresenceGaveWay);
    assert_eq!(outbound.push(Kept::Entry(9), LIMITS), Pushed::Kept);
    assert_eq!(outbound.push(other(), LIMITS), Pushed::OthersGaveWay);
    let left = [(2, None), (3, None), (4, None), (6, Some(9)), (7, None)];
    assert_eq!(numbers(&outbound), left);
    assert_eq!(outbound.sent(), 7);
    let mut given_up = 0;
    let full = (10..).find(|seq| match outbound.push(Kept::Entry(*seq), LIMITS) {
        Pushed::Full => true,
        pushed => {
            given_up += usize::from(pushed == Pushed::OthersGaveWay);
            false
        }
    });
    // A gap in front of the first entry, and one behind it.
    assert_eq!(full, Some(10 + u64::from(LIMITS.bytes) / 24 - 3));
    assert!(given_up > 0);
    assert!(numbers(&outbound).iter().all(|(_, entry)| entry.is_some()));
    let alone = outbound.push(other(), LIMITS);
    assert_eq!(alone, Pushed::Kept, "one is, whatever else is there");
    assert_eq!(outbound.push(presence(), LIMITS), Pushed::OthersGaveWay);
    assert_eq!(outbound.push(Kept::Entry(99), LIMITS), Pushed::Full);
    assert_eq!(outbound.push(presence(), LIMITS), Pushed::Kept);
    assert!(outbound.resume(0).unwrap().presence_lost);
}

/// An answer of many stanzas has room where presence has given way already.
#[test]
fn what_is_asked_for_has_more_room_than_presence() {
    let mut outbound = Outbound::default();
    for _ in 0..2 {
        assert_eq!(outbound.push(presence(), ROOMY), Pushed::Kept);
    }
    for n in 1..=7 {
        let gives_way = n == 3 || n == 4;
        let pushed = outbound.push(other(), ROOMY);
        assert_eq!(pushed == Pushed::PresenceGaveWay, gives_way, "{n}");
    }
    assert_eq!(outbound.push(presence(), ROOMY), Pushed::PresenceGaveWay);
    assert_eq!(outbound.push(other(), ROOMY), Pushed::OthersGaveWay);
    let mut outbound = Outbound::default();
    let large = |bytes| Kept::Other(vec![b' '; bytes].into());
    assert_eq!(outbound.push(large(300), ROOMY), Pushed::Kept);
    assert_eq!(outbound.push(presence(), ROOMY), Pushed::PresenceGaveWay);
    // Places of both and its own.
    let room = 500 - 300 - 3 * 24;
    assert_eq!(outbound.push(large(room), ROOMY), Pushed::Kept);
    assert_eq!(outbound.push(large(0), ROOMY), Pushed::OthersGaveWay);
}

#[test]
fn one_stanza_of_any_size_is_kept() {
    let mut outbound = Outbound::default();
    let large = || Kept::Other(vec![b' '; 1000].into());
    assert_eq!(outbound.push(presence(), LIMITS), Pushed::Kept);
    assert_eq!(outbound.push(large(), LIMITS), Pushed::PresenceGaveWay);
    assert_eq!(outbound.push(large(), LIMITS), Pushed::OthersGaveWay);
    assert_eq!(numbers(&outbound), [(3, None)]);
    let _ = outbound.ack(3).unwrap();
    assert_eq!(outbound.push(large(), LIMITS), Pushed::Kept);
}

#[test]
fn a_client_that_forgot_is_told_the_rest() {
    let mut outbound = Outbound::recovered(0, [1, 2, 3]);
    assert_eq!(outbound.ack(2).unwrap()[..], [1, 2]);
    let resumed = outbound.resume(1).unwrap();
    assert_eq!(resumed.behind, Some(super::Behind(1)));
    assert!(resumed.is_renumbered);
    assert_eq!(numbers(&outbound), [(2, Some(3))]);
}

/// At the bounds: it is asked once more when half of its time is over, and not again.
#[test]
fn a_client_that_does_not_answer_is_asked_once_more() {
    let timeout = Duration::from_secs(60);
    let at = |seconds| Moment::ZERO + Duration::from_secs(seconds);
    let mut outbound = Outbound::default();
    assert_eq!(outbound.push(presence(), LIMITS), Pushed::Kept);
    assert!(
        !outbound.should_ask_again(at(60), timeout),
        "it owes nothing"
    );
    outbound.asked(at(0));
    assert!(!outbound.should_ask_again(at(29), timeout));
    assert!(outbound.should_ask_again(at(30), timeout));
    outbound.asked_again();
    assert!(!outbound.should_ask_again(at(59), timeout));
    assert!(!outbound.is_overdue(at(59), timeout));
    assert!(outbound.is_overdue(at(60), timeout), "its time is the same");
    // Of what is asked for later it may be reminded again.
    outbound.ack(1).unwrap();
    assert_eq!(outbound.push(presence(), LIMITS), Pushed::Kept);
    outbound.asked(at(100));
    assert!(!outbound.should_ask_again(at(129), timeout));
    assert!(outbound.should_ask_again(at(130), timeout));
}

/// At the bound: who speaks has his time from then on, and who owes nothing does not begin to.
#[test]
fn a_client_that_speaks_has_its_time_anew() {
    let timeout = Duration::from_secs(60);
    let at = |seconds| Moment::ZERO + Duration::from_secs(seconds);
    let mut outbound = Outbound::default();
    assert_eq!(outbound.push(presence(), LIMITS), Pushed::Kept);
    outbound.heard(at(0));
    assert_eq!(outbound.asked_since(), None);
    outbound.asked(at(0));
    outbound.heard(at(59));
    assert!(!outbound.is_overdue(at(118), timeout));
    assert!(outbound.is_overdue(at(119), timeout));
    outbound.ack(1).unwrap();
    outbound.heard(at(119));
    assert_eq!(outbound.asked_since(), None);
}

/// At the bound: who says much and never answers is given up at last.
#[test]
fn a_client_that_speaks_and_never_answers_is_overdue_at_last() {
    let timeout = Duration::from_secs(60);
    let at = |seconds| Moment::ZERO + Duration::from_secs(seconds);
    let mut outbound = Outbound::default();
    assert_eq!(outbound.push(presence(), LIMITS), Pushed::Kept);
    outbound.asked(at(0));
    let end = u64::from(super::TALK_MAX) * 60;
    for second in 0..end {
        outbound.heard(at(second));
        assert!(!outbound.is_overdue(at(second), timeout), "{second}");
    }
    assert!(outbound.is_overdue(at(end), timeout));
    // What it says when it was asked anew has nothing to do with that.
    outbound.asked(at(end));
    assert!(!outbound.is_overdue(at(end + 59), timeout));
}

#[test]
fn a_client_is_asked_again_once_it_has_answered() {
    let mut outbound = Outbound::default();
    let timeout = Duration::from_secs(60);
    assert!(!outbound.should_ask(0), "nothing was sent");
    assert_eq!(outbound.push(Kept::Entry(1), LIMITS), Pushed::Kept);
    assert!(outbound.should_ask(1) && !outbound.should_ask(2));
    outbound.asked(Moment::ZERO);
    assert_eq!(outbound.push(Kept::Entry(2), LIMITS), Pushed::Kept);
    assert!(!outbound.should_ask(1), "an answer is due");
    assert!(!outbound.is_overdue(Moment::ZERO + timeout / 2, timeout));
    assert!(outbound.is_overdue(Moment::ZERO + timeout, timeout));
    let _ = outbound.ack(0).unwrap();
    assert_eq!(outbound.asked_since(), None);
    assert!(outbound.should_ask(1));
    outbound.asked(Moment::ZERO);
    outbound.detached();
    assert!(!outbound.is_overdue(Moment::FAR, timeout));
    let _ = outbound.resume(1).unwrap();
    assert!(outbound.should_ask(1), "what is sent again is asked for");
}

#[test]
fn what_is_kept_elsewhere_is_counted_and_not_sent_again() {
    let mut outbound = Outbound::default();
    for n in 0..6 {
        let kept = match n % 2 {
            0 => Kept::Elsewhere,
            _ => Kept::Entry(n),
        };
        assert_eq!(outbound.push(kept, LIMITS), Pushed::Kept);
    }
    assert_eq!(outbound.sent(), 6);
    assert_eq!(outbound.ack(1).unwrap().len(), 0);
    let resumed = outbound.resume(3).unwrap();
    assert_eq!(resumed.acked.as_slice(), [1]);
    assert!(resumed.is_renumbered && !resumed.presence_lost);
    let left: Vec<(u32, &Kept)> = outbound.unacked().collect();
    assert_eq!(left, [(4, &Kept::Entry(3)), (5, &Kept::Entry(5))]);
    assert_eq!(outbound.sent(), 5);
    outbound.ack(5).unwrap();
    assert_eq!(outbound.heap_bytes(), 0);
}

#[test]
fn what_was_not_written_is_taken_back() {
    let mut out = Outbound::default();
    let kept = [
        Kept::Entry(7),
        Kept::Presence([1; 100].into()),
        Kept::Other([2; 100].into()),
        Kept::Entry(8),
    ];
    for one in &kept {
        assert_eq!(out.push(one.clone(), Limits::default()), Pushed::Kept);
    }
    assert_eq!(out.ack(1).map(|entries| entries.len()), Ok(1));
    out.asked(Moment::ZERO);
    assert!(out.is_consistent());
    assert_eq!(out.take_back(2), kept[2..]);
    assert!(out.is_consistent());
    assert_eq!((out.acked(), out.sent()), (1, 2));
    assert_eq!(out.take_back(2), []);
    assert_eq!(out.take_back(0), [], "that much is acknowledged");
    assert_eq!(out.push(Kept::Entry(9), Limits::default()), Pushed::Kept);
    let left: Vec<(u32, &Kept)> = out.unacked().collect();
    assert_eq!(left, [(2, &kept[1]), (3, &Kept::Entry(9))]);
}

#[test]
fn presence_that_gave_way_is_taken_back_with_its_counts() {
    let mut out = Outbound::default();
    let mut gaps = 0;
    for _ in 0..10 {
        let pushed = out.push(Kept::Presence([1; 100].into()), LIMITS);
        gaps += u32::from(pushed == Pushed::PresenceGaveWay);
    }
    assert!(gaps > 0 && out.is_consistent());
    for through in (0..10).rev() {
        out.take_back(through);
        assert!(out.is_consistent(), "{through}");
        assert_eq!(out.sent(), through);
    }
    assert_eq!(out.heap_bytes(), 0);
}

/// Goal: the queue of a connection that outlived its process goes on at the counts that its client
/// has been written, also where they begin anew; what was in no log is not sent again.
#[test]
fn a_queue_goes_on_at_the_counts_of_a_connection() {
    let acked = u32::MAX - 1;
    let count = |behind: u32| acked.wrapping_add(behind);
    let known = [
        (count(2), Kept::Entry(70)),
        (count(3), Kept::Elsewhere),
        (count(5), Kept::Entry(71)),
    ];
    let mut out = Outbound::adopted((acked, count(7)), known.clone());
    assert!(out.is_consistent());
    assert_eq!((out.acked(), out.sent()), (acked, count(7)));
    let kept: Vec<(u32, Kept)> = out.unacked().map(|(n, kept)| (n, kept.clone())).collect();
    assert_eq!(kept, known);
    assert_eq!(out.push(Kept::Entry(72), Limits::default()), Pushed::Kept);
    assert_eq!(out.sent(), count(8));
    assert_eq!(
        out.ack(count(4)).map(|entries| entries.to_vec()),
        Ok(vec![70])
    );
    let resumed = out.resume(count(4)).unwrap();
    assert!(resumed.presence_lost && resumed.is_renumbered);
    let left: Vec<(u32, &Kept)> = out.unacked().collect();
    assert_eq!(
        left,
        [(count(5), &Kept::Entry(71)), (count(6), &Kept::Entry(72))]
    );
    let nothing = Outbound::adopted((9, 9), []);
    assert_eq!((nothing.sent(), nothing.heap_bytes()), (9, 0));
}
