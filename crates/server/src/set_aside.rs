//! Who was set aside after too many crashes, and is needed again once that is over: sessions that
//! can be resumed, messages on their way, senders who wait for a component. Nobody else would load
//! them. One actor for each shard.

use std::collections::{HashSet, VecDeque};
use std::rc::Rc;

use actor::limits::QUARANTINE;
use actor::{Actor, Context, Mail as _, Name};
use stdx::time::Moment;

use crate::home::Home;
use crate::message::UserMsg;

/// The actor's name, by which its shard finds it.
pub(crate) const SET_ASIDE: &str = "(set aside)";

/// What it is told.
pub(crate) enum SetAsideMsg {
    /// This one was to be loaded, and is left alone for a while.
    Begins(Name),
    /// The while of the first may be over.
    Due,
}

/// Loads those who were set aside once that is over.
pub(crate) struct SetAside {
    home: Rc<Home>,
    waiting: Waiting,
}

impl SetAside {
    pub(crate) fn new(home: Rc<Home>) -> SetAside {
        let waiting = Waiting::default();
        SetAside { home, waiting }
    }

    /// Loads those whose time has come.
    fn wake(&mut self, cx: &mut Context<'_, SetAsideMsg>) {
        while let Some(name) = self.waiting.take(cx.now()) {
            // The range may have moved.
            let shard = self.home.place.shard(&name);
            if cx.send_named(shard, &name, UserMsg::Wake).is_err() {
                // It was set aside again, or there is no room for it.
                self.waiting.add(name, cx.now());
            }
        }
        self.wait(cx);
    }

    fn wait(&self, cx: &mut Context<'_, SetAsideMsg>) {
        if let Some(until) = self.waiting.until() {
            let left = until.saturating_since(cx.now());
            cx.send_after(left, SetAsideMsg::Due);
        }
    }
}

impl Actor for SetAside {
    type Msg = SetAsideMsg;

    fn handle(&mut self, msg: SetAsideMsg, cx: &mut Context<'_, SetAsideMsg>) {
        match msg {
            SetAsideMsg::Begins(name) => {
                let is_first = self.waiting.until().is_none();
                self.waiting.add(name, cx.now());
                if is_first {
                    self.wait(cx);
                }
            }
            SetAsideMsg::Due => self.wake(cx),
        }
    }
}

/// Who waits, each once, however many of its wishes were refused.
#[derive(Default)]
struct Waiting {
    /// And until when; the first has waited for longest.
    queue: VecDeque<(Moment, Name)>,
    names: HashSet<Name>,
}

impl Waiting {
    fn add(&mut self, name: Name, now: Moment) {
        if self.names.insert(Name::clone(&name)) {
            self.queue.push_back((now + QUARANTINE, name));
        }
    }

    /// One whose time has come.
    fn take(&mut self, now: Moment) -> Option<Name> {
        let (_, name) = self.queue.pop_front_if(|(until, _)| *until <= now)?;
        self.names.remove(&name);
        Some(name)
    }

    /// When the time of the first one comes.
    fn until(&self) -> Option<Moment> {
        self.queue.front().map(|(until, _)| *until)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Goal: each is loaded once, when it has waited for as long as it is set aside.
    #[test]
    fn each_waits_once() {
        let mut waiting = Waiting::default();
        let at = |seconds| Moment::ZERO + Duration::from_secs(seconds);
        let [a, b] = ["a", "b"].map(Name::from);
        waiting.add(Name::clone(&a), at(0));
        waiting.add(Name::clone(&b), at(1));
        waiting.add(Name::clone(&a), at(2));
        let over = Moment::ZERO + QUARANTINE;
        assert_eq!(waiting.until(), Some(over));
        let before = Moment::ZERO + (QUARANTINE - Duration::from_millis(1));
        assert_eq!(waiting.take(before), None);
        assert_eq!(waiting.take(over), Some(Name::clone(&a)));
        assert_eq!(waiting.take(over), None);
        // Set aside again.
        waiting.add(Name::clone(&a), over);
        let later = over + QUARANTINE;
        assert_eq!(waiting.take(later), Some(b));
        assert_eq!(waiting.take(later), Some(a));
        assert_eq!((waiting.take(later), waiting.until()), (None, None));
    }
}
