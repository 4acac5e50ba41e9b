//! Ranges that move from one shard of the node to another (docs/decisions/0142). Owns when a range
//! may go and how it is tried again; what its entities have under way they say themselves
//! ([`Actor::may_move`]), how messages follow them is `actor`'s, and their streams `c2s`'s.
//!
//! | state of a range | event | next state |
//! |---|---|---|
//! | at home | all its entities may move, no append of it is undecided | coming: they have ended, what comes for them waits at the next shard |
//! | at home | anything is under way | at home; accounts record at once what they record late, and it is looked at again a moment later, [`MOVE_PATIENCE`] at most |
//! | coming | all that was sent to the shard before has followed | at home on the next shard |

use std::rc::Rc;
use std::time::Duration;

use actor::{Actor, Context, Core, Mail, Name, Reply, ShardId};
use stdx::time::Moment;
use store::RangeId;

use crate::home::Home;
use crate::limits::{MOVE_PATIENCE, MOVE_RETRY};
use crate::message::UserMsg;

/// The name of a shard's mover, by which others find it.
pub(crate) const MOVER: &str = "(moves)";

/// A range that has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    /// Entities that were in memory, and are loaded again.
    pub(crate) entities: usize,
    /// How long nothing of the range was handled.
    pub(crate) gap: Duration,
}

/// Why a range has not moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stays {
    /// It is not at home on the shard that was asked.
    Elsewhere,
    /// So many of its entities had something under way, or a stream that would end: they had when
    /// they were looked at last.
    InUse(usize),
    /// Another range was on its way.
    Another,
}

/// A range shall move.
pub(crate) struct Move {
    pub(crate) range: RangeId,
    pub(crate) to: ShardId,
    /// Since when it is tried; `None` at first.
    pub(crate) since: Option<Moment>,
    /// Who waits for it, if somebody does.
    pub(crate) reply: Option<Reply<Result<Moved, Stays>>>,
}

impl Move {
    fn answer(self, result: Result<Moved, Stays>, core: &mut Core) {
        if let Some(reply) = self.reply {
            reply.send(core, result);
        }
    }
}

/// Lets the ranges of one shard go.
pub(crate) struct Mover(pub(crate) Rc<Home>);

impl Mover {
    /// Whether a range may go now.
    fn is_settled(&self, range: RangeId) -> bool {
        self.0.journal.is_settled(range)
    }

    /// Begins a move if it can; else gives it back, with the reason.
    fn begin(&self, one: Move, core: &mut Core) -> Result<(), (Move, Stays)> {
        let place = &self.0.place;
        let (range, to) = (one.range, one.to);
        if !place.begin_move() {
            return Err((one, Stays::Another));
        }
        if !self.is_settled(range) {
            place.end_move();
            return Err((one, Stays::InUse(1)));
        }
        // What its entities append from here on, they append on the next shard, in a new tenure.
        let began = core.now();
        let from = core.shard();
        let (of, leaving, arriving) = (place.clone(), place.clone(), place.clone());
        // Set once it is known how many they are.
        let (tell, told) = std::sync::mpsc::sync_channel::<(Move, usize)>(1);
        let moved = core.move_entities::<UserMsg>(
            to,
            move |name| of.range(name) == range,
            move || leaving.leaves(range, to),
            move |core| {
                arriving.arrives(range);
                arriving.end_move();
                // Invariant: it was sent before this could run.
                let Ok((one, entities)) = told.try_recv() else {
                    return;
                };
                let gap = core.now().saturating_since(began);
                let (range, from, to) = (range.index(), from.index(), to.index());
                tracing::info!(range, from, to, entities, ?gap, "a range has moved");
                one.answer(Ok(Moved { entities, gap }), core);
            },
        );
        match moved {
            Ok(entities) => {
                self.0.journal.leaves(range);
                // There is room for one.
                let _ = tell.try_send((one, entities));
                Ok(())
            }
            Err(staying) => {
                place.end_move();
                let of = place.clone();
                let is_chosen = move |name: &Name| of.range(name) == range;
                core.tell_entities(is_chosen, || UserMsg::Leaves);
                Err((one, Stays::InUse(staying)))
            }
        }
    }
}

impl Actor for Mover {
    type Msg = Move;

    fn handle(&mut self, mut one: Move, cx: &mut Context<'_, Move>) {
        if self.0.place.home_of(one.range) != cx.shard() {
            return one.answer(Err(Stays::Elsewhere), cx.core());
        }
        if one.to == cx.shard() {
            let moved = Moved {
                entities: 0,
                gap: Duration::ZERO,
            };
            return one.answer(Ok(moved), cx.core());
        }
        let now = cx.now();
        let since = *one.since.get_or_insert(now);
        if let Err((one, why)) = self.begin(one, cx.core()) {
            if now.saturating_since(since) >= MOVE_PATIENCE {
                return one.answer(Err(why), cx.core());
            }
            cx.send_after(MOVE_RETRY, one);
        }
    }
}
