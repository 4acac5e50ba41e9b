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
