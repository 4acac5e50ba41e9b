//! What whoever runs the service does to a node, whoever owns it: its end and its emptying
//! (XEP-0060 sections 8.4 and 8.5). Subscribers are told as if an owner did it.

use crate::event::Act;
use crate::service::{Now, Service};

impl Service {
    /// Does it. Of a node that is not there nothing comes.
    pub(crate) fn operate(&mut self, name: &str, act: Act, now: Now<'_>) {
        let Ok((name, _)) = self.node(name) else {
            return;
        };
        match act {
            Act::Delete => self.remove_node(&name, None, None, now),
            Act::Purge => self.empty_node(name, None, now),
        }
    }
}
