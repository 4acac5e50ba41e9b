//! Ranges that move from one shard of the node to another (docs/decisions/0142). Owns when a range
//! may go and how it is tried again; what its entities have under way they say themselves
//! ([`Actor::may_move`]), how messages follow them is `actor`'s, and their streams `c2s`'s.
//!
//! | state of a range | event | next state |
//! |---|---|---|
//! | at home | all its entities may move, no append of it is undecided | coming: they have ended, what comes for them waits at the next shard |
//! | at home | something is under way for a moment | at home; accounts record at once what they record late, and it is looked at again a moment later |
//! | at home | and so it is for [`crate::options::Moves::patience`] | paused, with all that are busy by then: what is new for its entities waits, and it is looked at as before |
//! | paused | as at home | coming, and what waits goes along |
//! | paused | [`crate::options::Moves::pause_max`] is over, or too much waits | at home, with what waits |
//! | at home | somebody has what would be lost | at home |
//! | coming | all that was sent to the shard before has followed | at home on the next shard |
//! | coming | [`crate::options::Moves::late`] is over | coming; operators are warned |

mod balance;
mod evenly;
mod late;
mod pause;

use std::rc::Rc;
use std::time::Duration;

use actor::{Actor, Context, Core, InTheWay, Mail, Reason, Reply, ShardId};
use stdx::time::Moment;
use store::RangeId;
use telemetry::Counter;

pub(crate) use evenly::even_out;

use crate::home::Home;
use crate::message::UserMsg;
use crate::queues::Queues;
use late::{Watch, Watched};
use pause::Pauses;

/// The name of a shard's mover, by which others find it.
pub(crate) const MOVER: &str = "(moves)";

/// A range that has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    /// Entities that were in memory, and are loaded again.
    pub(crate) entities: usize,
    /// How long nothing of the range was handled.
    pub(crate) gap: Duration,
    /// For how long it was paused before: what was new for it waited.
    pub(crate) paused: Duration,
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
    /// What was tried; `None` at first.
    pub(crate) tried: Option<Tried>,
    /// Who waits for it, if somebody does.
    pub(crate) reply: Option<Reply<Result<Moved, Stays>>>,
}

/// What was done so far to move a range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tried {
    since: Moment,
    times: u32,
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
    /// By shard: of senders who go on there.
    queues: Vec<Queues>,
    watch: Watch,
    pauses: Pauses,
}

impl Mover {
    pub(crate) fn new(home: Rc<Home>, queues: Vec<Queues>) -> Mover {
        Mover {
            home,
            queues,
            watch: Watch::default(),
            pauses: Pauses::default(),
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
        let paused = self.pauses.paused_for(range, began);
        let (leaving, arriving) = (place.clone(), place.clone());
        // Set once it is known how many they are.
        let (tell, told) = std::sync::mpsc::sync_channel::<(Move, usize)>(1);
        let moved = core.move_entities::<UserMsg>(
            to,
            range.index(),
            || {
                leaving.leaves(range, to);
                let there = self.queues.get(usize::from(to.index()));
                let has_gone = |sender: &str| leaving.range(sender) == range;
                self.home.queues.leave(there, has_gone);
            },
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
                tracing::info!(
                    range,
                    from,
                    to,
                    entities,
                    ?gap,
                    ?paused,
                    "a range has moved"
                );
                let moved = Moved {
                    entities,
                    gap,
                    paused,
                };
                one.answer(Ok(moved), core);
            },
        );
        match moved {
            Ok(entities) => {
                self.home.journal.leaves(range);
                // There is room for one.
                let _ = tell.try_send((one, entities));
                Ok(())
            }
            Err(InTheWay { soon, never }) => {
                place.end_move();
                if never > 0 {
                    return Err((one, Stays::InUse(never)));
                }
                let times = one.tried.map_or(0, |tried| tried.times);
                if times.is_multiple_of(self.home.options.moves.tries) {
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

    fn stopped(&mut self, _: &Reason, cx: &mut Context<'_, MoverMsg>) {
        // Nobody else would.
        self.pauses.end_all(cx.core());
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
                paused: Duration::ZERO,
            };
            return one.answer(Ok(moved), cx.core());
        }
        let mut tried = *one.tried.get_or_insert(Tried {
            since: cx.now(),
            times: 0,
        });
        let Err((mut one, why)) = self.begin(one, cx.core()) else {
            self.pauses.end(range, cx.core());
            return self.watch.begins(range, &self.home, cx);
        };
        if let Err(why) = self.may_try_again(range, tried, why, cx.core()) {
            self.pauses.end(range, cx.core());
            return one.answer(Err(why), cx.core());
        }
        let moves = &self.home.options.moves;
        let wait = match tried.times % moves.tries {
            // It is paused, or others are: each look is one at all entities of the shard.
            _ if cx.now().saturating_since(tried.since) >= moves.patience => moves.rest,
            last if last + 1 == moves.tries => moves.rest,
            other => moves.retry * 2_u32.pow(other),
        };
        tried.times += 1;
        one.tried = Some(tried);
        cx.send_after(wait, MoverMsg::Move(one));
    }

    /// Whether a range that stayed may move a moment later, or why it stays for good. One that is
    /// busy for longer is paused, together with all others that wait by then.
    fn may_try_again(
        &mut self,
        range: RangeId,
        tried: Tried,
        why: Stays,
        core: &mut Core,
    ) -> Result<(), Stays> {
        let bounds = &self.home.options.moves;
        let time = core.now().saturating_since(tried.since);
        match why {
            Stays::InUse(_) | Stays::Elsewhere => return Err(why),
            _ if time >= bounds.patience + bounds.pause_max => return Err(why),
            _ if self.pauses.has(range) => {
                let is_paused = core.is_paused::<UserMsg>(range.index());
                return is_paused.then_some(()).ok_or(why); // Else too much waited.
            }
            Stays::Busy(_) | Stays::Another => self.pauses.note(range),
        }
        if time >= bounds.patience {
            // They may have mail, too, and then nobody has asked them.
            match core.fixed_entities::<UserMsg>(range.index()) {
                0 => self.pauses.begin(&self.home, core),
                fixed => return Err(Stays::InUse(fixed)),
            }
        }
        Ok(())
    }
}
