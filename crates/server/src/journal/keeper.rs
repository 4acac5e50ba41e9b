//! Starts a shard's port, and starts it again if it crashes: the queue outlives it. Owns nothing
//! else.

use actor::{Actor, ActorId, Context, Mail, Name, Signal};

use super::port::PortActor;
use super::{PORT, Shared};

/// See the module.
pub(crate) struct Keeper {
    queue: Shared,
    port: ActorId,
}

/// The keeper's mailbox.
pub(crate) enum KeeperMsg {
    /// The pause after a crash is over.
    Restart,
}

impl Keeper {
    /// Starts a port; the keeper watches it once it is spawned itself.
    pub(super) fn start(queue: Shared, mail: &mut impl Mail) -> Keeper {
        let port = start_port(&queue, mail);
        Keeper { queue, port }
    }
}

fn start_port(queue: &Shared, mail: &mut impl Mail) -> ActorId {
    let port = mail.spawn(PortActor::new(Shared::clone(queue)));
    mail.register(port, &Name::from(PORT));
    queue.borrow_mut().port = Some(port);
    port.id()
}

impl Actor for Keeper {
    type Msg = KeeperMsg;

    fn started(&mut self, cx: &mut Context<'_, KeeperMsg>) {
        cx.monitor(self.port);
    }

    fn handle(&mut self, msg: KeeperMsg, cx: &mut Context<'_, KeeperMsg>) {
        match msg {
            KeeperMsg::Restart => {
                self.port = start_port(&self.queue, cx);
                cx.monitor(self.port);
            }
        }
    }

    /// Without an end to its attempts: until the port is back, what is appended waits, and beyond
    /// the queue's bounds it is refused.
    fn signal(&mut self, signal: Signal, cx: &mut Context<'_, KeeperMsg>) {
        if let Signal::Down { reason, .. } = signal
            && reason.is_crash()
        {
            tracing::error!(?reason, "the port to the journal crashed");
            let mut queue = self.queue.borrow_mut();
            queue.port = None;
            cx.send_after(queue.options.port_restart, KeeperMsg::Restart);
        }
    }
}
