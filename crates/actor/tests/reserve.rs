//! The places of a mailbox that are kept for some messages.

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

#[test]
fn others_leave_room_in_a_mailbox_for_what_has_a_reserve() {
    for sender in [HERE, THERE] {
        let (mut sim, journal) = (Sim::new(2, 7), Journal::default());
        let class = Reserving(journal.clone());
        sim.shard(HERE).set_class(class);
        let class = Reserving(journal.clone());
        sim.shard(THERE).set_class(class);
        let name = Name::from("x");
        for text in ["a", "b", "c", "own 1", "d", "own 2", "own 3", "own 4"] {
            let sent = sim.shard(sender).send_named(HERE, &name, Do::note(text));
            if let Err(SendError::Full(Do::Note(text))) = sent {
                journal.note(format!("refused {text}"));
            }
        }
        sim.run_until_idle();
        let seen = journal.take();
        let refused = seen.iter().filter_map(|line| line.strip_prefix("refused "));
        assert_eq!(
            refused.collect::<Vec<_>>(),
            ["c", "d", "own 4"],
            "{sender:?}"
        );
        let handled = seen.iter().filter_map(|line| line.strip_prefix("x "));
        let handled: Vec<_> = handled.filter(|line| *line != "started").collect();
        assert_eq!(handled, ["a", "b", "own 1", "own 2", "own 3"], "{sender:?}");
    }
}
