//! The port's words to an actor whose priority lane is full: it is killed before it appends
//! anything that is built on what it was not told, or hears at once that it may not.

use actor::limits::PRIORITY_MAX;
use actor::{Actor, Addr, Context, Mail as _, ShardId};

use super::tests::{OK, Told, USERS, World, told};
use crate::message::{AppendError, UserMsg};
use crate::options::Commits;

/// Fills a writer's priority lane in one turn but for `left` places, with `first` in front.
struct Flooder {
    writer: Addr<UserMsg>,
    first: Option<UserMsg>,
    rest: fn() -> UserMsg,
    left: usize,
}

impl Actor for Flooder {
    type Msg = ();

    fn handle(&mut self, (): (), cx: &mut Context<'_, ()>) {
        for _ in self.left..PRIORITY_MAX {
            let msg = self.first.take().unwrap_or_else(self.rest);
            assert!(cx.send_priority(self.writer, msg).is_ok());
        }
    }
}

/// A writer whose first append fails, of which the port hears right behind a flood.
fn flooded(
    first: Option<UserMsg>,
    rest: fn() -> UserMsg,
    left: usize,
) -> (World, Addr<UserMsg>, Told) {
    let mut world = World::new(Commits::default());
    let (writer, heard) = world.writer(USERS[0]);
    world.switches.set_hold(true);
    world.switches.set_full(true);
    world.append(writer, 1);
    let flooder = Flooder {
        writer,
        first,
        rest,
        left,
    };
    let flooder = world.sim.shard(ShardId::new(0)).spawn(flooder);
    world.sim.run_until_idle();
    assert!(world.sim.shard(ShardId::new(0)).send(flooder, ()).is_ok());
    // The answer comes to the port behind the flooder and in front of the writer.
    assert_eq!(world.twin.release(1), 1);
    world.switches.set_hold(false);
    world.switches.set_full(false);
    world.sim.run_until_idle();
    (world, writer, heard)
}

#[test]
fn who_cannot_be_told_of_a_failure_is_killed_and_appends_nothing() {
    let (mut world, writer, heard) = flooded(None, || UserMsg::Wake, 0);
    assert!(!world.sim.shard(ShardId::new(0)).is_alive(writer.id()));
    assert_eq!(told(&heard), [], "nothing of the flood was handled");
    assert_eq!(world.last(USERS[0]), 0);
    assert_eq!(world.port.unheard(), 0);
    let (next, heard) = world.writer(USERS[0]);
    world.append(next, 1);
    assert_eq!(told(&heard), [(1, OK)]);
}

#[test]
fn who_has_no_room_for_one_more_bad_word_hears_it_at_once() {
    let rest = || UserMsg::Answer(None);
    let (mut world, writer, heard) = flooded(Some(UserMsg::AskAgain), rest, 1);
    let (failed, fenced) = (Err(AppendError::Full), Err(AppendError::Fenced));
    assert_eq!(told(&heard), [(3, fenced), (1, failed), (2, fenced)]);
    assert_eq!(world.last(USERS[0]), 0);
    assert_eq!(world.port.unheard(), 0);
    world.append(writer, 1);
    assert_eq!(told(&heard), [(4, OK)], "it has heard everything");
}

#[test]
fn who_appends_a_lot_waits_for_himself() {
    let mut world = World::new(Commits {
        batch_appends: 4,
        batch_appends_each: 1,
        ..Commits::default()
    });
    let (busy, heard) = world.writer(USERS[0]);
    let (other, answered) = world.writer(USERS[1]);
    world.switches.set_hold(true);
    world.append(busy, 21);
    world.append(other, 1);
    // Nobody else had anything when the first batch was made; the second has both.
    for of_the_busy in [4, 7] {
        assert_eq!(world.twin.release(1), 1);
        world.sim.run_until_idle();
        assert_eq!(heard.lock().expect("told").len(), of_the_busy);
    }
    assert_eq!(told(&answered), [(1, OK)]);
    world.switches.set_hold(false);
    while world.twin.release(1) > 0 {
        world.sim.run_until_idle();
    }
    let all: Vec<_> = (1..=21).map(|number| (number, OK)).collect();
    assert_eq!(told(&heard), all);
}

/// How many appends of each of two writers are decided after each of the first batches: one has
/// appended one, and then both have ten more.
fn decided_after_each<const BATCHES: usize>(commits: Commits) -> [(usize, usize); BATCHES] {
    let mut world = World::new(commits);
    let (one, heard) = world.writer(USERS[0]);
    let (other, answered) = world.writer(USERS[1]);
    world.switches.set_hold(true);
    world.append(one, 1);
    world.append(one, 10);
    world.append(other, 10);
    [(); BATCHES].map(|()| {
        assert_eq!(world.twin.release(1), 1);
        world.sim.run_until_idle();
        let count = |heard: &Told| heard.lock().expect("told").len();
        (count(&heard), count(&answered))
    })
}

/// At the bound: of each actor so many go, and others as far as there is room.
#[test]
fn some_of_each_go_together() {
    let decided = decided_after_each(Commits {
        batch_appends: 7,
        batch_appends_each: 3,
        ..Commits::default()
    });
    assert_eq!(decided, [(1, 0), (5, 3), (9, 6)]);
}

/// At the bound: with a batch that is large only the first of each goes, and nobody waits for ever.
#[test]
fn of_a_large_batch_only_the_first_of_each_is_part() {
    let decided = decided_after_each(Commits {
        batch_appends: 1,
        batch_appends_each: 3,
        batch_appends_large: 4,
        ..Commits::default()
    });
    assert_eq!(decided, [(1, 0), (4, 1), (7, 2), (10, 3)]);
}

#[test]
fn who_waits_for_a_range_waits_for_all_of_it_and_nobody_waits_for_him() {
    let mut world = World::new(Commits {
        batch_appends: 1,
        batch_appends_each: 1,
        ..Commits::default()
    });
    let (busy, heard) = world.writer(USERS[0]);
    // Another actor of the same range, as one that is about to load the account.
    let (waiter, settled) = world.writer(USERS[0]);
    world.switches.set_hold(true);
    world.append(busy, 6);
    world.send(waiter, UserMsg::Aged);
    world.append(busy, 2);
    while settled.lock().expect("told").is_empty() {
        assert_eq!(world.twin.release(1), 1);
        world.sim.run_until_idle();
    }
    let decided = heard.lock().expect("told").len();
    assert!(decided >= 6, "{decided} of the 6 before it are decided");
    world.switches.set_hold(false);
    while world.twin.release(1) > 0 {
        world.sim.run_until_idle();
    }
    let all: Vec<_> = (1..=8).map(|number| (number, OK)).collect();
    assert_eq!(told(&heard), all);
}
