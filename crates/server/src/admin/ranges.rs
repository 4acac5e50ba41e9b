//! Ranges of the node: on which shard each is, and moves from one to another.

use std::time::Duration;

use actor::{Name, ShardId};
use store::RangeId;

use super::{Admin, Outcome, Response, error};
use crate::limits::ADMIN_DEADLINE;
use crate::moves::{MOVER, Move, MoverMsg, Stays};

impl Admin {
    /// The shard of each range.
    pub(super) fn ranges(&self) -> Response {
        let shards = RangeId::all().map(|range| self.place.home_of(range).index());
        Response::Ranges {
            shards: shards.collect(),
        }
    }

    /// Moves a range to a shard; returns once it is there.
    pub(super) fn move_range(&self, range: &str, to: u16) -> Outcome {
        if self.options.cluster.is_some() {
            let message = "ranges of a node of a cluster stay on their shards; to move them to \
                           another node, see `roost cluster`";
            return Err(error("in_cluster", message));
        }
        let bad = |message: String| error("bad_request", &message);
        let shards = self.handle.shards();
        if to >= shards {
            return Err(bad(format!("there are {shards} shards, from 0")));
        }
        let range = match range.parse() {
            Ok(number) => RangeId::from_index(number)
                .ok_or_else(|| bad(format!("there are {} ranges, from 0", store::RANGES)))?,
            Err(_) => self.place.range(&self.recipient(range)?),
        };
        let from = self.place.home_of(range);
        let question = |reply| {
            MoverMsg::Move(Move {
                range,
                to: ShardId::new(to),
                tried: None,
                reply: Some(reply),
            })
        };
        let mover = Name::from(MOVER);
        let answer = self
            .handle
            .ask_named(from, &mover, question, ADMIN_DEADLINE);
        let from = from.index();
        let silent = |_| {
            let message =
                format!("shard {from} did not answer: whether the range moves is unknown");
            error("no_answer", &message)
        };
        match answer.map_err(silent)? {
            Ok(moved) => Ok(Response::Moved {
                from,
                entities: moved.entities as u64,
                gap_us: micros(moved.gap),
                paused_us: micros(moved.paused),
            }),
            Err(why) => Err(error("busy", &stays(why))),
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Why a range has not moved, for people.
fn stays(why: Stays) -> String {
    match why {
        Stays::Elsewhere => "the range has just moved: try again".to_owned(),
        Stays::Another => "another range is on its way: try again".to_owned(),
        Stays::Busy(count) => format!(
            "the range stays, as if nothing had been asked: whenever it was looked at, some of its \
             accounts, rooms and services had something under way ({count} the last time); try \
             again"
        ),
        Stays::InUse(count) => format!(
            "the range stays: {count} of its accounts have clients whose streams would end \
             (without XEP-0198, over BOSH, or with server.hand_over off), or are rooms with people \
             in them"
        ),
    }
}
