//! A range that is on its way for long. Whoever let it go looks after it: some shard has not handed
//! over what it sent there, as one that hangs, and until it does everything waits that comes for
//! the range. Owns when operators hear of it, and that they hear of the end.

use actor::{Context, Mail as _, TimerKey};
use store::RangeId;
use telemetry::Gauge;

use super::MoverMsg;
use crate::home::Home;

/// One journey of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Watched {
    range: RangeId,
    /// Tells it from the others: [`crate::place::Place::moves`] while it lasts.
    number: u64,
}

/// What a mover looks after: the last range that it let go.
#[derive(Default)]
pub(super) struct Watch {
    last: Option<(Watched, TimerKey)>,
    is_late: bool,
}

impl Watch {
    /// A range has left; so those before it have arrived.
    pub(super) fn begins(&mut self, range: RangeId, home: &Home, cx: &mut Context<'_, MoverMsg>) {
        if let Some((_, timer)) = self.last.take() {
            cx.cancel(timer);
        }
        self.set_late(false, cx);
        let number = home.place.moves();
        self.look_later(Watched { range, number }, home, cx);
    }

    /// It may have arrived.
    pub(super) fn look(&mut self, watched: Watched, home: &Home, cx: &mut Context<'_, MoverMsg>) {
        if self.last.take_if(|(last, _)| *last == watched).is_none() {
            return;
        }
        let Watched { range, number } = watched;
        let is_late = home.place.is_coming(range) && home.place.moves() == number;
        if is_late && !self.is_late {
            let (range, to) = (range.index(), home.place.home_of(range).index());
            let after = home.options.moves.late;
            tracing::warn!(range, to, ?after, "a range is still on its way");
        }
        self.set_late(is_late, cx);
        if is_late {
            self.look_later(watched, home, cx);
        }
    }

    fn look_later(&mut self, watched: Watched, home: &Home, cx: &mut Context<'_, MoverMsg>) {
        let timer = cx.send_after(home.options.moves.late, MoverMsg::Look(watched));
        self.last = Some((watched, timer));
    }

    fn set_late(&mut self, is_late: bool, cx: &mut Context<'_, MoverMsg>) {
        match (self.is_late, is_late) {
            (false, true) => cx.stats().raise(Gauge::RangesLate),
            (true, false) => cx.stats().lower(Gauge::RangesLate),
            _ => {}
        }
        self.is_late = is_late;
    }
}
