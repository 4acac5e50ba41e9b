//! Who was set aside after too many crashes, and is needed again once that is over: sessions that
//! can be resumed, messages on their way, senders who wait for a component. Nobody else would load
//! them. One actor for each shard.

use std::collections::VecDeque;
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
    /// Who, and until when; the first has waited for longest.
    waiting: VecDeque<(Moment, Name)>,
}

impl SetAside {
    pub(crate) fn new(home: Rc<Home>) -> SetAside {
        SetAside {
            home,
            waiting: VecDeque::new(),
        }
    }

    /// Loads those whose time has come.
    fn wake(&mut self, cx: &mut Context<'_, SetAsideMsg>) {
        let now = cx.now();
        while let Some((_, name)) = self.waiting.pop_front_if(|(until, _)| *until <= now) {
            // The range may have moved. Whoever has no room is loaded.
            let _ = cx.send_named(self.home.place.shard(&name), &name, UserMsg::Wake);
        }
        self.wait(cx);
    }

    fn wait(&self, cx: &mut Context<'_, SetAsideMsg>) {
        if let Some((until, _)) = self.waiting.front() {
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
                let is_first = self.waiting.is_empty();
                self.waiting.push_back((cx.now() + QUARANTINE, name));
                if is_first {
                    self.wait(cx);
                }
            }
            SetAsideMsg::Due => self.wake(cx),
        }
    }
}
