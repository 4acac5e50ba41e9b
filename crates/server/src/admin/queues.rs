//! What an operator does about messages for destinations that do not keep up.

use actor::{AskError, Name};

use super::{Admin, Response, error, unreadable};
use crate::limits::ADMIN_DEADLINE;
use crate::message::UserMsg;
use crate::modules::stanza_ids;
use crate::operator::{AdminAnswer, AdminCommand};
use crate::queues::{Queue, QueueCommand, Queues, Stuck};

impl Admin {
    /// Queues of one sender, or of all senders on this node.
    pub(crate) fn queues(&self, sender: Option<&str>) -> Result<Vec<Queue>, Response> {
        let senders = match sender {
            Some(sender) => vec![Name::from(sender)],
            None => self.queues.iter().flat_map(Queues::read).collect(),
        };
        let mut queues = Vec::new();
        for sender in senders {
            // One that has gone since has nothing that waits.
            let Ok(AdminAnswer::Stuck(all)) = self.ask(&sender, QueueCommand::List) else {
                continue;
            };
            for stuck in all {
                queues.extend(self.queue(&sender, stuck)?);
            }
        }
        Ok(queues)
    }

    /// With what the store knows of it.
    fn queue(&self, sender: &str, stuck: Stuck) -> Result<Option<Queue>, Response> {
        let places = (stuck.mark, store::limits::SEQ_MAX);
        let page = self.store.log_outgoing(sender, Some(stuck.peer), places, 1);
        let (entries, _) = page.map_err(unreadable)?;
        Ok(entries.into_iter().next().map(|oldest| Queue {
            sender: sender.to_owned(),
            recipient: oldest.peer.to_string(),
            messages: stuck.messages,
            oldest_ms: oldest.at.as_millis(),
            oldest_id: stanza_ids::id_of(oldest.seq),
            failures: stuck.failures,
            why: stuck.why.to_owned(),
            next: stuck.next,
        }))
    }

    /// Tries queues at once: those of a sender, or of all, for a recipient, or for all. Returns how
    /// many were waiting for their next attempt.
    pub(crate) fn retry_queues(
        &self,
        sender: Option<&str>,
        recipient: Option<&str>,
    ) -> Result<u64, Response> {
        let senders = match sender {
            Some(sender) => vec![Name::from(sender)],
            None => self.queues.iter().flat_map(Queues::read).collect(),
        };
        let peer = recipient.map(|to| self.place.slots().peer(to));
        let mut tried = 0;
        for sender in senders {
            if let Ok(AdminAnswer::Counted(count)) = self.ask(&sender, QueueCommand::Retry(peer)) {
                tried += count;
            }
        }
        Ok(tried)
    }

    /// Returns to a sender what waits for a recipient. Returns how many messages that is.
    pub(crate) fn drop_queue(&self, sender: &str, recipient: &str) -> Result<u64, Response> {
        let peer = self.place.slots().peer(recipient);
        match self.ask(&Name::from(sender), QueueCommand::Drop(peer)) {
            Ok(AdminAnswer::Counted(0)) => Err(error(
                "no_such_queue",
                &format!("no message of {sender} waits for {recipient}: see `roost queue list`"),
            )),
            Ok(AdminAnswer::Counted(count)) => Ok(count),
            _ => Err(error("no_answer", &format!("{sender} did not answer"))),
        }
    }

    fn ask(&self, sender: &Name, command: QueueCommand) -> Result<AdminAnswer, AskError> {
        let question = |reply| UserMsg::Admin {
            command: Box::new(AdminCommand::Queue(command)),
            reply,
        };
        let shard = self.place.shard(sender);
        self.handle
            .ask_named(shard, sender, question, ADMIN_DEADLINE)
    }
}
