//! What each step of a world of two users does, and what of it becomes a record in whose journal.

use super::steps::Step;
use super::world::{Record, State, World, peer};
use crate::outbox::steps::Step as Out;
use crate::outbox::world as outbox;

impl State {
    pub(super) fn step(&mut self, world: &World, step: Step) -> Option<()> {
        let user = step.at();
        let left = &mut self.users[user].inbox.left;
        match step {
            Step::Accept(_) => {
                let to = peer(user) as u8;
                return self.out(world, user, Out::Accept(to), None);
            }
            Step::Out(from, step) => {
                if let Out::CrashOn(_) = step {
                    left.crashes -= 1;
                    self.out(world, from, step, None)?;
                    self.end(world, user, 0, true);
                    return Some(());
                }
                return self.out(world, from, step, None);
            }
            Step::DeliverFor(from, device) => {
                left.addressed -= 1;
                return self.out(world, from, Out::Deliver(user as u8), Some(device));
            }
            Step::In(_, step) => {
                let own = &mut self.users[user];
                own.inbox.spend(&step);
                own.inbox.step(&world.users[user].inbox, step)?;
                own.line_up(None);
            }
            Step::Commit(_) => self.commit(user),
            Step::Fail(_) => {
                left.failed_commits -= 1;
                self.fail(world, user);
            }
            Step::Doubt(_) => {
                left.doubtful_commits -= 1;
                self.end(world, user, 1, false);
                self.users[user].inbox.seen.in_doubt = true;
            }
            Step::Kill(_) => {
                left.kills -= 1;
                self.end(world, user, 0, false);
            }
            Step::Crash(_, durable) => {
                left.crashes -= 1;
                self.end(world, user, durable, true);
            }
        }
        Some(())
    }

    /// A step of what a user sends. What the other takes is appended to his log, and what comes
    /// back to the sender's own.
    fn out(&mut self, world: &World, from: usize, step: Out, device: Option<usize>) -> Option<()> {
        let to = peer(from);
        let out = &mut self.users[from].out;
        let (taking, appends) = (out.recipients[to].taking.len(), out.appends.len());
        out.step(&world.users[from].out, step)?;
        out.poll();
        let is_taken = out.recipients[to].taking.len() > taking;
        let taken = out.recipients[to].taking.back().filter(|_| is_taken);
        let taken = taken.map(|place| Record::Taken(*place));
        let is_error = |append: &outbox::Append| matches!(append, outbox::Append::Error(..));
        let is_returned = out.appends.len() > appends && out.appends.back().is_some_and(is_error);
        if is_returned {
            let own = &mut self.users[from];
            world.users[from].inbox.arrives(&mut own.inbox, None);
        }
        self.users[from].line_up(is_returned.then_some(Record::Returned));
        if taken.is_some() {
            let own = &mut self.users[to];
            world.users[to].inbox.arrives(&mut own.inbox, device);
            own.line_up(taken);
        }
        Some(())
    }
}
