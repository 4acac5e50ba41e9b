//! Ranges that move from one shard of the node to another (docs/decisions/0142). Owns when a range
//! may go and how it is tried again; what its entities have under way they say themselves
//! ([`Actor::may_move`]), how messages follow them is `actor`'s, and their streams `c2s`'s.
//!
//! | state of a range | event | next state |
//! |---|---|---|
//! | at home | all its entities may move, no append of it is undecided | coming: they have ended, what comes for them waits at the next shard |
//! | at home | something is under way for a moment | at home; accounts record at once what they record late, and it is looked at again a moment later, for [`crate::options::Moves::patience`] at most |
//! | at home | somebody has what would be lost | at home |
//! | coming | all that was sent to the shard before has followed | at home on the next shard |
//! | coming | [`crate::options::Moves::late`] is over | coming; operators are warned |

mod balance;
mod evenly;
mod late;

use std::rc::Rc;
use std::time::Duration;

use actor::{Actor, Context, Core, InTheWay, Mail, Reply, ShardId};
use stdx::time::Moment;
use store::RangeId;
use telemetry::Counter;

pub(crate) use evenly::even_out;

use crate::home::Home;
use crate::limits::{MOVE_PAUSE, MOVE_RETRY, MOVE_TRIES};
use crate::message::UserMsg;
use late::{Watch, Watched};

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
    /// So many of its entities had something under way whenever they were looked at.
    Busy(usize),
    /// So many have streams that would end, or people in them.
    InUse(usize),
    /// Another range was on its way.
    Another,
}

/// A range shall move.
pub(crate) struct Move {
    pub(crate) range: RangeId,
    pub(crate) to: ShardId,
    /// Since when it is tried, and how often it was; `None` at first.
    pub(crate) since: Option<(Moment, u32)>,
    /// Who waits for it, if somebody does.
    pub(crate) reply: Option<Reply<Result<Moved, Stays>>>,
}

/// What a mover takes.
pub(crate) enum MoverMsg {
    /// A range of the shard shall move.
    Move(Move),
    /// What the shard has to do is asked for.
    Load(Reply<Load>),
    /// A range has been on its way for a while, unless it has arrived.
    Look(Watched),
}

/// What a shard has done since it began.
#[derive(Clone, Debug, Default)]
pub(crate) struct Load {
    /// When it said so.
    pub(crate) at: Moment,
    /// Nanoseconds that it worked.
    pub(crate) working: u64,
    /// What entities of each range have cost.
    pub(crate) costs: Vec<u64>,
}

impl Move {
    fn answer(self, result: Result<Moved, Stays>, core: &mut Core) {
        if result.is_err() {
            core.stats().count(Counter::RangesStayed);
        }
        if let Some(reply) = self.reply {
            reply.send(core, result);
        }
    }
}

/// Lets the ranges of one shard go.
pub(crate) struct Mover {
    home: Rc<Home>,
    watch: Watch,
}

impl Mover {
    pub(crate) fn new(home: Rc<Home>) -> Mover {
        Mover {
            home,
            watch: Watch::default(),
        }
    }

    /// Begins a move if it can; else gives it back, with the reason.
    fn begin(&self, one: Move, core: &mut Core) -> Result<(), (Move, Stays)> {
        let place = &self.home.place;
        let (range, to) = (one.range, one.to);
        if !place.begin_move() {
            return Err((one, Stays::Another));
        }
        if !self.home.journal.is_settled(range) {
            place.end_move();
            return Err((one, Stays::Busy(1)));
        }
        // What its entities append from here on, they append on the next shard, in a new tenure.
        let began = core.now();
        let from = core.shard();
        let (leaving, arriving) = (place.clone(), place.clone());
        // Set once it is known how many they are.
        let (tell, told) = std::sync::mpsc::sync_channel::<(Move, usize)>(1);
        let moved = core.move_entities::<UserMsg>(
            to,
            range.index(),
            move || leaving.leaves(range, to),
            move |core| {
                arriving.arrives(range);
                arriving.end_move();
                // Invariant: it was sent before this could run.
                let Ok((one, entities)) = told.try_recv() else {
                    return;
                };
                let gap = core.now().saturating_since(began);
                core.stats().count(Counter::RangesMoved);
                let micros = u64::try_from(gap.as_micros()).unwrap_or(u64::MAX);
                core.stats().add(Counter::RangeGapMicros, micros);
                let (range, from, to) = (range.index(), from.index(), to.index());
                tracing::info!(range, from, to, entities, ?gap, "a range has moved");
                one.answer(Ok(Moved { entities, gap }), core);
            },
        );
        match moved {
            Ok(entities) => {
                self.home.journal.leaves(range);
                let place = &self.home.place;
                self.home
                    .queues
                    .forget(|sender| place.range(sender) == range);
                // There is room for one.
                let _ = tell.try_send((one, entities));
                Ok(())
            }
            Err(InTheWay { soon, never }) => {
                place.end_move();
                if never > 0 {
                    return Err((one, Stays::InUse(never)));
                }
                let tries = one.since.map_or(0, |(_, tries)| tries);
                if tries.is_multiple_of(MOVE_TRIES) {
                    core.tell_entities(range.index(), || UserMsg::Leaves);
                }
                Err((one, Stays::Busy(soon)))
            }
        }
    }
}

impl Actor for Mover {
    type Msg = MoverMsg;

    fn handle(&mut self, msg: MoverMsg, cx: &mut Context<'_, MoverMsg>) {
        match msg {
            MoverMsg::Move(one) => self.move_on(one, cx),
            MoverMsg::Load(reply) => {
                let load = Load {
                    at: cx.now(),
                    working: cx.stats().get(Counter::ShardWorkingNanos),
                    costs: cx.core().costs::<UserMsg>(),
                };
                reply.send(cx, load);
            }
            MoverMsg::Look(watched) => self.watch.look(watched, &self.home, cx),
        }
    }
}

impl Mover {
    /// Moves a range, or tries again a moment later, for a while.
    fn move_on(&mut self, mut one: Move, cx: &mut Context<'_, MoverMsg>) {
        let range = one.range;
        if self.home.place.home_of(range) != cx.shard() {
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
        let (since, tries) = *one.since.get_or_insert((now, 0));
        let Err((mut one, why)) = self.begin(one, cx.core()) else {
            return self.watch.begins(range, &self.home, cx);
        };
        let is_final = matches!(why, Stays::InUse(_) | Stays::Elsewhere);
        if is_final || now.saturating_since(since) >= self.home.options.moves.patience {
            return one.answer(Err(why), cx.core());
        }
        one.since = Some((since, tries + 1));
        let pause = match tries % MOVE_TRIES {
            last if last + 1 == MOVE_TRIES => MOVE_PAUSE,
            other => MOVE_RETRY * 2_u32.pow(other),
        };
        cx.send_after(pause, MoverMsg::Move(one));
    }
}
