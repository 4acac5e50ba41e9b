//! The places of a mailbox that are kept for some messages, and those in which some may stand in
//! line.

mod common;

use actor::sim::Sim;
use actor::{Core, EntityClass, Mail, Name, Refused, SendError, ShardId};
use common::{Do, Doer, HERE, Journal, THERE};

/// Of a mailbox of five, three are for what says so; everybody may have the rest.
struct Reserving(Journal);

impl EntityClass for Reserving {
    type Msg = Do;
    type Actor = Doer;

    fn mailbox_max(&self) -> usize {
        5
    }

    fn mailbox_reserve(&self) -> usize {
        3
    }

    fn may_use_reserve(msg: &Do) -> bool {
        matches!(msg, Do::Note(text) if text.starts_with("own"))
    }

    fn activate(&mut self, name: &Name, _: ShardId) -> Doer {
        Doer::new(name, &self.0)
    }

    fn refused(&mut self, _: &Name, msg: Do, _: Refused, _: &mut Core) {
        if let Do::Note(text) = msg {
            self.0.note(format!("refused {text}"));
        }
    }
}

/// Of a mailbox of five, two are for what may stand in line and one is for what has a reserve.
struct Lining(Journal);

impl EntityClass for Lining {
    type Msg = Do;
    type Actor = Doer;

    fn mailbox_max(&self) -> usize {
        5
    }

    fn mailbox_reserve(&self) -> usize {
        1
    }

    fn mailbox_line(&self) -> usize {
        2
    }

    fn may_use_reserve(msg: &Do) -> bool {
        Reserving::may_use_reserve(msg)
    }

    fn may_stand_in_line(msg: &Do) -> bool {
        matches!(msg, Do::Note(text) if text.starts_with("line"))
    }

    fn activate(&mut self, name: &Name, _: ShardId) -> Doer {
        Doer::new(name, &self.0)
    }

    fn refused(&mut self, _: &Name, msg: Do, _: Refused, _: &mut Core) {
        if let Do::Note(text) = msg {
            self.0.note(format!("refused {text}"));
        }
    }
}

#[test]
fn others_leave_room_in_a_mailbox_for_what_has_a_reserve() {
    let sent = ["a", "b", "c", "own 1", "d", "own 2", "own 3", "own 4"];
    check(
        Reserving,
        &sent,
        (&["c", "d", "own 4"], &["a", "b", "own 1", "own 2", "own 3"]),
    );
}

#[test]
fn what_may_stand_in_line_waits_in_its_order_and_leaves_the_reserve() {
    let sent = [
        "line 1", "a", "b", "line 2", "c", "line 3", "line 4", "own 1", "own 2",
    ];
    check(
        Lining,
        &sent,
        (
            &["b", "c", "line 4", "own 2"],
            &["line 1", "a", "line 2", "line 3", "own 1"],
        ),
    );
}

/// Sends notes to one entity before it runs, from its shard and from another one: some are refused,
/// the others taken in their order.
fn check<C>(class: fn(Journal) -> C, sent: &[&str], (refused, taken): (&[&str], &[&str]))
where
    C: EntityClass<Msg = Do>,
{
    for sender in [HERE, THERE] {
        let (mut sim, journal) = (Sim::new(2, 7), Journal::default());
        for shard in [HERE, THERE] {
            sim.shard(shard).set_class(class(journal.clone()));
        }
        let name = Name::from("x");
        for text in sent {
            let sent = sim.shard(sender).send_named(HERE, &name, Do::note(text));
            if let Err(SendError::Full(Do::Note(text))) = sent {
                journal.note(format!("refused {text}"));
            }
        }
        sim.run_until_idle();
        let seen = journal.take();
        let said = seen.iter().filter_map(|line| line.strip_prefix("refused "));
        assert_eq!(said.collect::<Vec<_>>(), refused, "{sender:?}");
        let handled = seen.iter().filter_map(|line| line.strip_prefix("x "));
        let handled: Vec<_> = handled.filter(|line| *line != "started").collect();
        assert_eq!(handled, taken, "{sender:?}");
    }
}
