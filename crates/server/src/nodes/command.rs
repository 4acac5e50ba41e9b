//! What an operator asks of the nodes of a service: to be emptied, or to end, which is their
//! machine's to do.

use actor::{Context, Reply};

use super::{Held, NodesActor};
use crate::entity::life::Phase;
use crate::message::UserMsg;
use crate::operator::{AdminAnswer, AdminCommand};

impl NodesActor {
    /// Answers an operator.
    pub(super) fn operate(
        &mut self,
        command: AdminCommand,
        reply: Reply<AdminAnswer>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        match command {
            AdminCommand::Nodes(_) if self.life.phase != Phase::Ready => {
                reply.send(cx, AdminAnswer::Unavailable);
            }
            AdminCommand::Nodes(command) => {
                let held = Held {
                    operator: Some(reply),
                    ..Held::default()
                };
                if let Err(mut held) = self.happens(command.event(), held, cx)
                    && let Some(reply) = held.operator.take()
                {
                    reply.send(cx, AdminAnswer::Unavailable);
                }
            }
            _ => reply.send(cx, AdminAnswer::Absent),
        }
    }
}
