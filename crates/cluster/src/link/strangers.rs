//! Connections that have not said who they are. Owns their bound: the oldest gives way, so that
//! whoever holds many open is in nobody's way.

use std::collections::VecDeque;

use tokio::sync::oneshot::{Receiver, Sender, channel};

/// The oldest first.
#[derive(Default)]
pub(super) struct Strangers(VecDeque<Sender<()>>);

impl Strangers {
    /// One more comes. It has to go when something is heard, and is no stranger any more once the
    /// receiver is dropped.
    pub(super) fn enter(&mut self, most: usize) -> Receiver<()> {
        self.0.retain(|one| !one.is_closed());
        while self.0.len() >= most.max(1) {
            // It may have ended by itself in this moment.
            let _ = self.0.pop_front().map(|oldest| oldest.send(()));
        }
        let (go, told) = channel();
        self.0.push_back(go);
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: at the bound the oldest goes, and whoever is known does not count.
    #[test]
    fn the_oldest_gives_way() {
        let mut strangers = Strangers::default();
        let mut first = strangers.enter(2);
        let second = strangers.enter(2);
        let mut third = strangers.enter(2);
        assert!(first.try_recv().is_ok());
        drop(second);
        let _fourth = strangers.enter(2);
        assert!(third.try_recv().is_err(), "it stays");
        let _fifth = strangers.enter(2);
        assert!(third.try_recv().is_ok());
    }
}
