//! Starts a shard's port, and starts it again if it crashes: the queue outlives it. Owns nothing
//! else.

use actor::{Actor, Context, Mail, Name, Signal};

use super::port::PortActor;
use super::{PORT, Shared};

/// See the module.
pub(crate) struct Keeper {
    queue: Shared,
}

/// The keeper's mailbox.
pub(crate) enum KeeperMsg {
    /// The pause after a crash is over.
    Restart,
}

impl Keeper {
    pub(super) fn new(queue: Shared) -> Keeper {
        Keeper { queue }
    }

    fn start(&self, cx: &mut Context<'_, KeeperMsg>) {
        let port = cx.spawn(PortActor::new(self.queue.clone()));
        cx.register(port, &Name::from(PORT));
        cx.monitor(port.id());
        self.queue.borrow_mut().port = Some(port);
    }
}

impl Actor for Keeper {
    type Msg = KeeperMsg;

    fn started(&mut self, cx: &mut Context<'_, KeeperMsg>) {
        self.start(cx);
    }

    fn handle(&mut self, msg: KeeperMsg, cx: &mut Context<'_, KeeperMsg>) {
        match msg {
            KeeperMsg::Restart => self.start(cx),
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
