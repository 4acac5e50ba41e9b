//! Ranges of a shard that are paused. A busy range is never at rest by itself: something new begins
//! before the last of what was under way has ended. Owns which ranges are paused together, and what
//! entities of one take all the same.
//!
//! Ranges that stay busy are paused all at once: what they say to each other was under way before,
//! and would otherwise wait until the pause of the other one is over.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use actor::{AtPause, Core, Mail as _};
use stdx::time::Moment;
use store::RangeId;
use telemetry::Counter;
use wire::Message;

use crate::address;
use crate::home::Home;
use crate::message::UserMsg;

/// Each range that is paused, with the number of its pause, which those that began together share,
/// and since when.
type Paused = Rc<RefCell<BTreeMap<RangeId, (u64, Moment)>>>;

/// What a mover knows of ranges that were busy when it looked.
#[derive(Default)]
pub(super) struct Pauses {
    /// They are tried again, and not paused yet.
    busy: BTreeSet<RangeId>,
    paused: Paused,
    /// Of the last pause.
    number: u64,
}

impl Pauses {
    /// A range is tried again, and not paused yet.
    pub(super) fn note(&mut self, range: RangeId) {
        self.busy.insert(range);
    }

    /// Whether a range was paused, and is asked for still.
    pub(super) fn has(&self, range: RangeId) -> bool {
        self.paused.borrow().contains_key(&range)
    }

    /// For how long a range has been paused.
    pub(super) fn paused_for(&self, range: RangeId, now: Moment) -> Duration {
        let paused = self.paused.borrow();
        let since = paused.get(&range).map(|(_, since)| *since);
        since.map_or(Duration::ZERO, |since| now.saturating_since(since))
    }

    /// Pauses those that were busy, but for those that could not move then either, and as many as
    /// may be paused: the others when these have moved.
    pub(super) fn begin(&mut self, home: &Home, core: &mut Core) {
        self.number += 1;
        let number = self.number;
        let room = home.options.moves.paused_max;
        let room = room.saturating_sub(self.paused.borrow().len());
        let next: Vec<RangeId> = self.busy.iter().take(room).copied().collect();
        for range in next {
            self.busy.remove(&range);
            if core.fixed_entities::<UserMsg>(range.index()) > 0 {
                continue;
            }
            self.paused.borrow_mut().insert(range, (number, core.now()));
            let (place, paused) = (home.place.clone(), Rc::clone(&self.paused));
            let is_under_way = move |sender: &str| {
                let sender = place.range(address::bare(sender));
                let paused = paused.borrow();
                sender == range || paused.get(&sender).is_some_and(|(its, _)| *its <= number)
            };
            core.pause::<UserMsg>(range.index(), move |msg| at_pause(msg, &is_under_way));
            core.stats().count(Counter::RangesPaused);
        }
    }

    /// A range is not tried any more: it has moved, or stays.
    pub(super) fn end(&mut self, range: RangeId, core: &mut Core) {
        self.busy.remove(&range);
        let time = self.paused_for(range, core.now());
        if self.paused.borrow_mut().remove(&range).is_some() {
            let micros = time.as_micros();
            let micros = u64::try_from(micros).unwrap_or(u64::MAX);
            core.stats().add(Counter::RangePauseMicros, micros);
            core.end_pause::<UserMsg>(range.index());
        }
    }

    /// None is.
    pub(super) fn end_all(&mut self, core: &mut Core) {
        let all: Vec<RangeId> = self.paused.borrow().keys().copied().collect();
        for range in all {
            self.end(range, core);
        }
    }
}

/// What becomes of a message for an entity of a range that is paused. Of some senders all that they
/// have said since then was under way before.
fn at_pause(msg: &UserMsg, is_under_way: impl Fn(&str) -> bool) -> AtPause {
    match msg {
        UserMsg::Stanza { .. } | UserMsg::Refused { .. } | UserMsg::Bind { .. } => AtPause::Waits,
        // What a connection said before is not for the next incarnation, nor for the session that
        // it has from then on.
        UserMsg::Closed { .. } | UserMsg::Introduced(_) | UserMsg::Resume { .. } => {
            AtPause::Recalls
        }
        // Whoever is paused himself waits for the answer. All that he says passes, so that it stays
        // in order; and as he was paused when this began, or before, nothing of his waits.
        UserMsg::Said(said) => match sender(&said.message) {
            Some(sender) if !is_under_way(&sender) => AtPause::Waits,
            _ => AtPause::Passes,
        },
        _ => AtPause::Passes,
    }
}

/// Who begins something with a message; nobody with an answer.
fn sender(message: &Message) -> Option<Cow<'_, str>> {
    match message {
        Message::Stanza(stanza) => stanza.frame.attr("from"),
        Message::Copy(copy) => copy.frame.attr("from"),
        Message::NodeEvent(event) => event.frame.attr("from"),
        Message::Probe { from } => Some(Cow::Borrowed(from)),
        Message::Interest(interest) => Some(Cow::Borrowed(&interest.session)),
        // What a room says of its log must not overtake copies of what is in it.
        Message::OfRoom(said) => Some(Cow::Borrowed(said.room())),
        Message::Taken { .. } | Message::NotTaken(_) | Message::ToRoom(_) => None,
    }
}
