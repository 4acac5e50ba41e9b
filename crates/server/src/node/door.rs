//! The node's door to its cluster: which ranges are at home here, where the others are, and packets
//! that come from other nodes or come back. Owns the order in which a range begins and ends; who
//! decides it is the binary's affair. For threads of their own, never for a shard.
//!
//! | a range | in this order |
//! |---|---|
//! | comes | old tenures are forgotten, messages are taken, what waited for another node is sent, its users and rooms are woken |
//! | goes | messages are taken no more, its entities end, their streams are told where to go |

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use actor::{Addr, Core, Handle, Mail as _, Name, ShardId};
use net::{ConnRef, RemoteIo};
use stdx::time::{Clock as _, Moment};
use store::{RangeId, Store};
use wire::{Adopt, Errand, Join, Joined, OfRequest, Passed};

use super::here::Here;
use super::tried::Tried;
use crate::admin::Admin;
use crate::away::{NodeId, Taken};
use crate::elsewhere::Returned;
use crate::join::{Comer, KeeperMsg, Origin, conn_ref};
use crate::journal::{PORT, PortMsg};
use crate::limits::ADMIN_DEADLINE;
use crate::message::control::{Control, Word};
use crate::message::credit::Credits;
use crate::message::{Said, UserMsg};
use crate::place::Place;
use crate::post::{self, Received};
use crate::wake::{loads, wake, wake_rooms};
use crate::web::passed;

/// Pause before a shard that has no room is asked again.
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// See the module.
#[derive(Clone)]
pub struct Door {
    pub(super) place: Place,
    pub(super) handle: Handle,
    pub(super) credits: Arc<Credits>,
    pub(super) remote: RemoteIo<Control>,
    /// Where each shard takes packets that came back.
    pub(super) returns: Vec<Addr<Returned>>,
    /// Who keeps the connections of each shard that are shared with other nodes.
    pub(super) keepers: Vec<Addr<KeeperMsg>>,
    /// Homes that did not take a packet.
    pub(super) tried: Arc<Mutex<Tried>>,
    pub(super) network: Arc<net::Shared>,
    /// Who answers operators of other nodes.
    pub(super) admin: Admin,
}

impl Door {
    /// Ranges are at home here from now on, in this tenure. Everything that was ever accepted for
    /// them is in the store.
    pub fn gain(&self, ranges: &[RangeId], tenure: u32) {
        self.forget(ranges);
        for range in ranges {
            self.place.comes(*range);
            self.place.set_away(*range, None);
            self.place.set_tenure(*range, tenure);
        }
        self.end_entities(ranges);
        let mut tried = self.tried();
        for range in ranges {
            tried.forget(*range);
            self.place.wake_later(*range);
        }
    }

    /// Ranges are not at home here any more. Returns once nothing of them is left.
    pub fn lose(&self, ranges: &[RangeId]) {
        for range in ranges {
            self.place.set_tenure(*range, 0);
        }
        self.end_entities(ranges);
        self.forget(ranges);
    }

    /// Whether ranges are at home here: what needs no commit may have ended them in between.
    pub fn has(&self, ranges: &[RangeId]) -> bool {
        ranges.iter().all(|range| self.place.is_here(*range))
    }

    /// Where a range is, if it is not here.
    pub fn set_away(&self, range: RangeId, home: Option<(NodeId, u32)>) {
        self.place.set_away(range, home);
    }

    /// The range of a bare address.
    pub fn range(&self, bare: &str) -> RangeId {
        self.place.range(bare)
    }

    /// Asks every client whose socket is here to go, spread evenly over this time. Others are
    /// served meanwhile.
    pub fn shed_within(&self, time: Duration) {
        self.network.shed_within(time);
    }

    /// Asks nobody any more to go.
    pub fn keep(&self) {
        self.network.keep();
    }

    /// Clients whose socket is here, and those of them that are still to be asked to go. Counted
    /// from [`Door::shed_within`] on.
    pub fn shed(&self) -> (u64, u64) {
        self.network.shed()
    }

    /// Accepts nobody any more. Everything else goes on.
    pub fn stop_accepting(&self) {
        self.network.stop_accepting();
    }

    fn shards(&self) -> impl Iterator<Item = ShardId> {
        (0..self.handle.shards()).map(ShardId::new)
    }

    fn is_over(&self) -> bool {
        self.network.is_stopping()
    }

    /// Nothing is appended any more in tenures of before.
    fn forget(&self, ranges: &[RangeId]) {
        for shard in self.shards() {
            let port = Name::from(PORT);
            let told = |reply| PortMsg::Moved(ranges.to_vec(), reply);
            // A port that crashed is back in a moment.
            while self
                .handle
                .ask_named(shard, &port, told, ADMIN_DEADLINE)
                .is_err()
                && !self.is_over()
            {
                std::thread::sleep(BUSY_PAUSE);
            }
        }
    }

    fn end_entities(&self, ranges: &[RangeId]) {
        for shard in self.shards() {
            loop {
                let (place, chosen) = (self.place.clone(), ranges.to_vec());
                let end = move |core: &mut Core| {
                    core.end_entities_if(|name| chosen.contains(&place.range(name)));
                };
                if self.handle.run_on(shard, end) || self.is_over() {
                    break;
                }
                std::thread::sleep(BUSY_PAUSE);
            }
            // What was sent before has run when this has.
            while !self.handle.is_turning(shard, ADMIN_DEADLINE) && !self.is_over() {}
        }
        for queues in &self.admin.queues {
            queues.leave(None, |sender| ranges.contains(&self.place.range(sender)));
        }
    }

    /// A packet comes from another node.
    pub fn receive(&self, from: NodeId, bytes: &[u8]) -> Taken {
        let received = post::receive(
            &self.credits,
            &self.remote,
            &self.place,
            (Some(from), bytes),
        );
        match received {
            Ok(Received::Done) => Taken::Yes,
            Ok(Received::Moved(moved)) => {
                let mut answer = Vec::new();
                match wire::Packet::Moved(moved).encode(&mut answer) {
                    Ok(()) => Taken::Moved(answer),
                    Err(why) => Taken::Bad(why.to_string()),
                }
            }
            Ok(Received::Comes(join)) => self.comes(from, join),
            Ok(Received::Adopts(adopt)) => self.adopts(from, adopt),
            Ok(Received::Joined(joined)) => self.joined(from, joined),
            Ok(Received::Passed(passed)) => self.passed(from, passed),
            Ok(Received::Errand(errand)) => {
                self.errand(from, errand);
                Taken::Yes
            }
            Ok(Received::Said { to, said, activate }) => match self.tell(to, said, activate) {
                true => Taken::Yes,
                false => Taken::Later,
            },
            Err(why) => Taken::Bad(why.to_string()),
        }
    }

    /// A client of an account of this node came to another one.
    fn comes(&self, node: NodeId, join: Box<Join>) -> Taken {
        let shard = self.place.shard(&join.user);
        let from = Origin::Stream(join);
        self.let_in(shard, Comer { node, from })
    }

    /// One whose home was another node before.
    fn adopts(&self, node: NodeId, adopt: Box<Adopt>) -> Taken {
        let shard = self.place.shard(&adopt.user);
        let from = Origin::Home(adopt);
        self.let_in(shard, Comer { node, from })
    }

    fn let_in(&self, shard: ShardId, comer: Comer) -> Taken {
        let keeper = self.keepers[usize::from(shard.index())];
        let (node, (from, number)) = (comer.node, comer.line());
        let comes = move |core: &mut Core| {
            let comer = KeeperMsg::Comes(comer);
            // Without room for this either, the client's node waits for as long as it does for a
            // home that says nothing.
            if core.send(keeper, comer).is_err() {
                let _ = core.send_priority(keeper, KeeperMsg::Full(node, from, number));
            }
        };
        match self.handle.run_on(shard, comes) {
            true => Taken::Yes,
            false => Taken::Later,
        }
    }

    /// An operator of a node asks something, or a node answers one of this.
    fn errand(&self, node: NodeId, errand: Errand) {
        match errand.is_answer {
            true => self.admin.errands.answered(node, &errand),
            false => self.admin.asked_by(node, errand),
        }
    }

    /// Something about a connection that is shared with a node.
    fn joined(&self, node: NodeId, joined: Joined) -> Taken {
        let conn = conn_ref(joined.to);
        if conn.shard.index() >= self.handle.shards() {
            return Taken::Bad(format!("a packet for shard {}", conn.shard.index()));
        }
        self.tell_conn(conn, Word::Said(node, joined))
    }

    fn tell_conn(&self, conn: ConnRef, word: Word) -> Taken {
        let word = Control::Web(Box::new(crate::message::web::Control::Joined(word)));
        self.control(conn, word)
    }

    /// Something about a request whose session is at the other node, or here.
    fn passed(&self, node: NodeId, passed: Passed) -> Taken {
        let Some(cluster) = &self.credits.cluster else {
            return Taken::Yes;
        };
        let shards = self.handle.shards();
        let request = passed.request;
        let may_be_made_again = matches!(passed.said, OfRequest::Came { .. });
        let taken = match passed::arrived(&*cluster.away, &self.admin.guard, (node, shards), passed)
        {
            Ok((conn, said)) => self.control(conn, said),
            Err(taken) => taken,
        };
        if taken == Taken::Later && may_be_made_again {
            // What is behind it on the link is not held up for it.
            passed::not_taken(&*cluster.away, node, request);
            return Taken::Yes;
        }
        taken
    }

    fn control(&self, conn: ConnRef, said: Control) -> Taken {
        match self.remote.control(conn, said) {
            Ok(()) => Taken::Yes,
            // Nothing is taken any more where the shard does not run.
            Err(net::IoError::Gone) => Taken::Yes,
            Err(net::IoError::Full) => Taken::Later,
        }
    }

    /// Says something to an entity of this node. False if there is no room on the way: nothing was
    /// said, and no credit comes back.
    fn tell(&self, to: Name, said: Said, activate: bool) -> bool {
        let shard = self.place.shard(&to);
        let activate = activate || loads(&self.place, &to, &said.message);
        let on_its_way = Arc::new(Mutex::new(Some(said)));
        let taken = Arc::clone(&on_its_way);
        let tell = move |core: &mut Core| {
            let Some(said) = take(&taken) else { return };
            let msg = UserMsg::Said(said);
            // With a full mailbox, whoever needs an answer is told by the class.
            let _ = match activate {
                true => core.send_named(shard, &to, msg),
                false => core.send_named_if_active(shard, &to, msg),
            };
        };
        let is_taken = self.handle.run_on(shard, tell);
        if !is_taken && let Some(debt) = take(&on_its_way).and_then(|said| said.debt) {
            debt.forgive();
        }
        is_taken
    }

    /// A packet of this node that no other one took: it is sent to where its recipient is at home
    /// now; without a time this is the end of it, and its sender is told. False if it is to be
    /// offered again a moment later: nobody knows a home, or only the one that did not take it,
    /// which is not tried each time. What came back is offered together, with the same time.
    pub fn take_back(&self, bytes: &[u8], now: Option<Moment>) -> bool {
        let Ok(arrival) = wire::Arrival::read(bytes) else {
            return true;
        };
        if arrival.kind() == wire::Kind::Join {
            // Its client comes again: by then the map may say more.
            if let Ok(wire::Packet::Join(join)) = arrival.packet() {
                self.tell_conn(conn_ref(join.from), Word::Lost);
            }
            return true;
        }
        if matches!(
            arrival.kind(),
            wire::Kind::Adopt | wire::Kind::AdoptAnswered
        ) {
            // Its connection looks for the next home.
            if let Ok(wire::Packet::Adopt(adopt)) = arrival.packet() {
                self.tell_conn(conn_ref(adopt.from), Word::NotTaken(adopt.number));
            }
            return true;
        }
        if arrival.kind() == wire::Kind::Request {
            // Its client makes it again.
            if let Ok(wire::Packet::Passed(passed)) = arrival.packet()
                && let Some((conn, said)) = passed::came_back(&passed)
            {
                self.control(conn, said);
            }
            return true;
        }
        if arrival.kind() == wire::Kind::Asked {
            // Its node is another one now, or does not know the question.
            if let Ok(wire::Packet::Errand(errand)) = arrival.packet() {
                self.admin.errands.returned(errand.number);
            }
            return true;
        }
        if let (Some(now), Some((range, tenure))) = (now, arrival.place())
            && let Some(range) = RangeId::from_index(range)
        {
            let may_go = self.place.is_here(range)
                || match self.place.away(range) {
                    Some((_, same)) if same == tenure => self.may_try(range, tenure, now),
                    other => other.is_some(),
                };
            if !may_go {
                return false;
            }
        }
        let Some((to, said, activate)) = post::returned(&self.credits, bytes) else {
            return true;
        };
        let shard = usize::from(self.place.shard(&to).index());
        let mut msg = Returned {
            to,
            said,
            activate,
            is_over: now.is_none(),
        };
        while let Err(refused) = self.handle.send(self.returns[shard], msg) {
            if self.is_over() {
                break;
            }
            std::thread::sleep(BUSY_PAUSE);
            msg = refused.into_inner();
        }
        true
    }

    /// Whether a home that did not take something may serve by now.
    fn may_try(&self, range: RangeId, tenure: u32, now: Moment) -> bool {
        self.tried().again(range, tenure, now)
    }

    fn tried(&self) -> MutexGuard<'_, Tried> {
        self.tried.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process of a node is gone: nobody there answers any more.
    pub fn forget_node(&self, node: NodeId) {
        self.credits.forget(node);
        self.admin.errands.forget(node);
        for (shard, keeper) in self.shards().zip(self.keepers.iter().copied()) {
            let gone = move |core: &mut Core| {
                // Past those who wait to be let in if there is no room: it is said once.
                if core.send(keeper, KeeperMsg::Gone(node)).is_err() {
                    let _ = core.send_priority(keeper, KeeperMsg::Gone(node));
                }
            };
            while !self.handle.run_on(shard, gone) && !self.is_over() {
                std::thread::sleep(BUSY_PAUSE);
            }
        }
    }
}

/// What is on its way is taken once.
fn take(said: &Mutex<Option<Said>>) -> Option<Said> {
    said.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Wakes the users and rooms of ranges as they come, and sees to what waits on the way of the node
/// to itself, until the node stops.
pub(super) fn wake_those_who_come(store: &Store, door: &Door, here: &Here) {
    /// How often it is looked whether one came.
    const LOOK: Duration = Duration::from_millis(50);
    // Users come first: of ranges that come meanwhile, too.
    let mut rooms_due = BTreeSet::new();
    while !door.is_over() {
        here.look();
        let came = door.place.to_wake();
        if came.is_empty() {
            if !wake_rooms_of_one(store, (door, here), &mut rooms_due) {
                std::thread::park_timeout(LOOK);
            }
            continue;
        }
        // All who are at home here: those of earlier ranges are loaded, or have nothing to do.
        // It may take long, and longer if the store cannot be read: nothing waits here for it.
        let is_over = || {
            here.look();
            door.is_over()
        };
        let bounds = door.admin.options.waking;
        wake(store, &door.place, &door.handle, bounds, is_over);
        // The last of them are in the shards' inboxes; a moment later they are there.
        std::thread::sleep(bounds.pace);
        for (range, time) in came {
            door.place.set_woken(range, time);
            rooms_due.insert(range);
        }
    }
}

/// Wakes the rooms of one of these ranges, unless others come. False if there is none.
fn wake_rooms_of_one(
    store: &Store,
    (door, here): (&Door, &Here),
    due: &mut BTreeSet<RangeId>,
) -> bool {
    let Some(range) = due.pop_first() else {
        return false;
    };
    let others_come = || !door.place.to_wake().is_empty();
    let is_over = || {
        here.look();
        door.is_over() || !door.has(&[range]) || others_come()
    };
    let (of_node, now) = ((&door.place, &door.handle), door.admin.clock.wall());
    let woken = wake_rooms(
        store,
        of_node,
        range,
        (door.admin.options.waking, now),
        is_over,
    );
    if woken > 0 {
        tracing::info!(range = range.index(), rooms = woken, "took up rooms");
    }
    if others_come() {
        due.insert(range);
    }
    true
}
