//! Connections that move from shard to shard and keep their name
//! ([`Cx::move_to`](crate::Cx::move_to)). Owns who knows where each of them is, and the order of
//! what is said to them; how a connection is packed up and taken in is the same as at a hand-over
//! (`accept`).
//!
//! Where a connection is, the shard of its name knows and nobody else. What is said to it goes
//! there, and from there on, so that it stays in order. What the shard of its name knows:
//!
//! | the connection is | event | it is then | effect |
//! |---|---|---|---|
//! | here | it leaves | at another shard | it is sent there |
//! | at another shard | it wants to leave that | called back | that shard is told so, behind all that was said to it |
//! | called back | something is said to it | called back | that waits, within the bounds of what waits for a shard |
//! | called back | it comes | at the next shard, or here | it is sent there, and behind it what waited |
//! | any of these | it ends, or is handed over | gone | what waited finds nobody |
//!
//! Costs nothing where nobody moves: the tables of each shard are empty, and are looked at only
//! for a name that no connection of the shard has.

use std::collections::{HashMap, HashSet};

use actor::ShardId;
use stdx::slab::Key;
use telemetry::Counter;

use crate::core::{Core, IoError};
use crate::driver::Driver;
use crate::link::Flags;
use crate::port::{Batch, Operation, Parcel, Remote};
use crate::service::{ConnRef, Service};

/// See the module.
pub(crate) struct Roaming<C> {
    /// Connections with a name of this shard that have left, by that name's key.
    away: HashMap<Key, Away<C>>,
    /// Connections that are here and have another name than their key: by name, and back.
    guests: HashMap<ConnRef, Key>,
    names: HashMap<Key, ConnRef>,
    /// Those that have come in this turn and are taken in at its end, and what is said to them.
    coming: HashMap<ConnRef, Box<Remote<C>>>,
    /// Those that may leave, by key: each once, and each is one of the guests.
    pub(crate) called_back: Vec<Key>,
}

/// Where a connection is.
enum Away<C> {
    At(ShardId),
    /// It comes here on its way to that shard, and this was said to it meanwhile.
    CalledBack(ShardId, Box<Remote<C>>),
}

/// Where what is said to it goes.
enum Way<'a, C> {
    Here(Key),
    There(&'a mut Remote<C>),
}

impl<C> Default for Roaming<C> {
    fn default() -> Self {
        Roaming {
            away: HashMap::new(),
            guests: HashMap::new(),
            names: HashMap::new(),
            coming: HashMap::new(),
            called_back: Vec::new(),
        }
    }
}

impl<C> Core<C> {
    /// The name of a connection of this shard.
    pub(crate) fn name(&self, id: Key) -> ConnRef {
        let kept = self.roaming.names.get(&id).copied();
        kept.unwrap_or(self.own(id))
    }

    /// The connection of this name, if it is here.
    pub(crate) fn local(&self, conn: ConnRef) -> Option<Key> {
        if conn.shard == self.shard && self.links.contains(conn.id) {
            return Some(conn.id);
        }
        self.roaming.guests.get(&conn).copied()
    }

    /// The name of a connection of this shard that has not moved.
    pub(crate) fn own(&self, id: Key) -> ConnRef {
        let shard = self.shard;
        ConnRef { shard, id }
    }

    fn way(&mut self, conn: ConnRef) -> Option<Way<'_, C>> {
        let roaming = &mut self.roaming;
        if let Some(said) = roaming.coming.get_mut(&conn) {
            return Some(Way::There(said));
        }
        if conn.shard != self.shard {
            return None;
        }
        match roaming.away.get_mut(&conn.id)? {
            Away::CalledBack(_, said) => Some(Way::There(said)),
            Away::At(shard) if *shard == self.shard => {
                let guest = roaming.guests.get(&conn);
                guest.map(|id| Way::Here(*id))
            }
            Away::At(shard) => {
                let remote = self.remotes.get_mut(usize::from(shard.index()));
                remote.map(Way::There)
            }
        }
    }

    /// [`Core::write`] to a connection that is not here under its own name.
    pub(crate) fn write_elsewhere(
        &mut self,
        conn: ConnRef,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), IoError> {
        match self.way(conn).ok_or(IoError::Gone)? {
            Way::Here(id) => self.write(id, write),
            Way::There(remote) => remote.write(conn, write),
        }
    }

    /// The same of everything else that is said to it.
    pub(crate) fn pass_on(
        &mut self,
        conn: ConnRef,
        operation: Operation<C>,
    ) -> Result<(), IoError> {
        match self.way(conn).ok_or(IoError::Gone)? {
            Way::There(remote) => remote.push(conn, operation),
            Way::Here(id) => {
                self.apply(id, operation, &[]);
                Ok(())
            }
        }
    }

    /// Another shard or thread wants something of a connection that is not here.
    pub(crate) fn apply_elsewhere(&mut self, conn: ConnRef, operation: Operation<C>, bytes: &[u8]) {
        // The other side learns of a lost connection by `Service::closed`, not here.
        let _ = match operation {
            Operation::Leaves(to) => {
                self.call_back(conn, to);
                Ok(())
            }
            Operation::Forget => {
                self.let_go(conn);
                Ok(())
            }
            Operation::Out(_) => self.write_elsewhere(conn, |out| out.extend_from_slice(bytes)),
            // One that is gone by now is the service's to notice.
            Operation::Control(msg) if self.way(conn).is_none() => {
                self.push_control(Key::DEAD, msg)
            }
            operation => self.pass_on(conn, operation),
        };
    }

    /// A connection at another shard wants to leave that.
    fn call_back(&mut self, conn: ConnRef, to: ShardId) {
        let Some(away) = self.roaming.away.get_mut(&conn.id) else {
            return;
        };
        if let Away::At(shard) = *away
            && let Some(remote) = self.remotes.get_mut(usize::from(shard.index()))
            && remote.push(conn, Operation::CallBack).is_ok()
        {
            *away = Away::CalledBack(to, Box::new(remote.alike()));
        }
    }

    /// A connection of this shard ends, or is handed over: its name is nobody's any more.
    pub(crate) fn drop_name(&mut self, id: Key) {
        if let Some(name) = self.unname(id) {
            self.let_go(name);
        }
    }

    /// A name that a connection has kept is nobody's any more. What was to be told to it finds
    /// nobody, and its service hears of that.
    pub(crate) fn let_go(&mut self, name: ConnRef) {
        let mut said = self.roaming.coming.remove(&name);
        if name.shard != self.shard {
            if let Some(remote) = self.remotes.get_mut(usize::from(name.shard.index())) {
                // There is always room for that.
                let _ = remote.push(name, Operation::Forget);
            }
        } else if let Some(Away::CalledBack(_, waiting)) = self.roaming.away.remove(&name.id) {
            said = Some(waiting);
        }
        if let Some(mut said) = said {
            self.apply_all(said.take_batch());
        }
    }

    /// A connection is no guest any more: its name.
    fn unname(&mut self, id: Key) -> Option<ConnRef> {
        let name = self.roaming.names.remove(&id)?;
        self.roaming.guests.remove(&name);
        Some(name)
    }

    /// A connection is about to settle here that keeps its name: what is said to it waits so long.
    pub(crate) fn comes(&mut self, name: ConnRef) {
        if name.shard != self.shard
            && let Some(remote) = self.remotes.first()
        {
            let said = Box::new(remote.alike());
            self.roaming.coming.insert(name, said);
        }
    }

    /// It has.
    pub(crate) fn settles(&mut self, id: Key, name: ConnRef) {
        self.roaming.names.insert(id, name);
        self.roaming.guests.insert(name, id);
        if let Some(mut said) = self.roaming.coming.remove(&name) {
            self.apply_all(said.take_batch());
        }
    }

    /// One that was called back has come: where it goes, and what was said to it.
    fn came_back(&mut self, name: Option<ConnRef>) -> Option<(ShardId, Batch<C>)> {
        let name = name.filter(|name| name.shard == self.shard)?;
        let away = self.roaming.away.get_mut(&name.id)?;
        let Away::CalledBack(to, said) = away else {
            return None;
        };
        let (to, batch) = (*to, said.take_batch());
        *away = Away::At(to);
        Some((to, batch))
    }

    /// Whether something was said to a connection of this shard that it has not been told yet.
    fn is_told(&self, id: Key) -> bool {
        self.controls.iter().any(|(of, _)| *of == id)
    }
}

impl<S: Service> Driver<S> {
    /// Packs up the connections that leave; those that move, not before whatever they sent is on
    /// its way, and none before it was told what it was said. Returns whether some of those wait.
    pub(crate) fn send_away(&mut self) -> bool {
        for (id, shard) in std::mem::take(&mut self.leaving) {
            self.hand_over(id, shard);
        }
        // One that is handed over, and waits for that, gets another name.
        let left: HashSet<Key> = self.leaving.iter().map(|(id, _)| *id).collect();
        let moving = std::mem::take(&mut self.moving).into_iter();
        for (id, shard) in moving.filter(|(id, _)| !left.contains(id)) {
            self.move_on(id, shard);
        }
        let called_back = std::mem::take(&mut self.core.borrow_mut().roaming.called_back);
        for id in called_back.into_iter().filter(|id| !left.contains(id)) {
            self.go_back(id);
        }
        !self.moving.is_empty() || !self.core.borrow().roaming.called_back.is_empty()
    }

    fn hand_over(&mut self, id: Key, shard: ShardId) {
        if !self.can_leave(id, shard) {
            return;
        }
        // A shard that is still being built is there soon.
        if self.ports.of(shard).is_none() || self.core.borrow().is_told(id) {
            return self.leaving.push((id, shard));
        }
        self.core.borrow_mut().drop_name(id);
        if let Some(parcel) = self.pack(id, None) {
            self.core.borrow_mut().stats.count(Counter::NetHandedOver);
            self.passage.borrow_mut().leaves(shard, parcel);
        }
    }

    fn move_on(&mut self, id: Key, shard: ShardId) {
        if !self.can_leave(id, shard) {
            return;
        }
        let (name, here) = {
            let core = &mut *self.core.borrow_mut();
            (core.name(id), core.shard)
        };
        if name.shard != here {
            let core = &mut *self.core.borrow_mut();
            if let Some(remote) = core.remotes.get_mut(usize::from(name.shard.index())) {
                // There is always room for that.
                let _ = remote.push(name, Operation::Leaves(shard));
            }
            return;
        }
        if !self.may_go(id) {
            return self.moving.push((id, shard));
        }
        self.core.borrow_mut().unname(id);
        if let Some(parcel) = self.pack(id, Some(name)) {
            let core = &mut *self.core.borrow_mut();
            core.stats.count(Counter::NetMoved);
            core.roaming.away.insert(name.id, Away::At(shard));
            self.passage.borrow_mut().leaves(shard, parcel);
        }
    }

    /// One that was called back goes to the shard of its name, or ends here.
    fn go_back(&mut self, id: Key) {
        let name = self.core.borrow().name(id);
        if !self.can_leave(id, name.shard) {
            return;
        }
        if !self.may_go(id) {
            return self.core.borrow_mut().roaming.called_back.push(id);
        }
        self.core.borrow_mut().unname(id);
        if let Some(parcel) = self.pack(id, Some(name)) {
            self.core.borrow_mut().stats.count(Counter::NetMoved);
            self.passage.borrow_mut().leaves(name.shard, parcel);
        }
    }

    /// Whether it still is there to leave. If not it ends here, has nothing to move, or there is no
    /// such shard.
    fn can_leave(&mut self, id: Key, shard: ShardId) -> bool {
        let core = &mut *self.core.borrow_mut();
        let Some(link) = core.links.get_mut(id) else {
            return false;
        };
        let stays = link.flags.has(Flags::MUTE) || link.socket.is_none();
        if stays || shard.index() >= self.ports.count() {
            link.flags.clear(Flags::LEAVING);
            core.enqueue(id);
            return false;
        }
        true
    }

    /// Whether one that keeps its name may go. What it sends from elsewhere must not overtake what
    /// it has sent from here; what it was told is its own to hear.
    fn may_go(&self, id: Key) -> bool {
        self.shard.is_handed_over() && !self.core.borrow().is_told(id)
    }

    /// A connection has come from another shard: to stay, or on its way to the next.
    pub(crate) fn arrive(&mut self, parcel: Box<Parcel<S::Conn>>) {
        let back = self.core.borrow_mut().came_back(parcel.name);
        let Some((to, said)) = back else {
            return self.adopt(*parcel);
        };
        if to == self.shard.id() {
            self.adopt(*parcel);
        } else {
            self.passage.borrow_mut().leaves(to, parcel);
        }
        self.core.borrow_mut().apply_all(said);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::address::AddressKey;
    use crate::limits::Limits;
    use crate::link::Link;
    use crate::unread::Unread;

    const HERE: ShardId = ShardId::new(0);
    const THERE: ShardId = ShardId::new(1);
    const NEXT: ShardId = ShardId::new(2);

    fn core(limits: &Limits) -> Core<u32> {
        let kept: Arc<Unread> = Arc::default();
        Core::new((HERE, 3), limits, kept, |_, _| {})
    }

    /// A connection with a name of this shard that has gone to another.
    fn away(core: &mut Core<u32>) -> ConnRef {
        let link = Link::new(None, Flags::default(), 0, AddressKey::EXEMPT);
        let id = core.links.insert(link);
        core.links.remove(id);
        core.roaming.away.insert(id, Away::At(THERE));
        core.own(id)
    }

    fn said(core: &mut Core<u32>, shard: ShardId) -> Vec<String> {
        let batch = core.remotes[usize::from(shard.index())].take_batch();
        let each = batch.operations.iter();
        each.map(|(_, what)| format!("{what:?}")).collect()
    }

    fn leaves(core: &mut Core<u32>, name: ConnRef, to: ShardId) {
        core.apply_elsewhere(name, Operation::Leaves(to), &[]);
    }

    #[test]
    fn what_is_said_goes_where_the_connection_is_and_behind_it() {
        let mut core = core(&Limits::default());
        let name = away(&mut core);
        core.control(name.id, 1).expect("there is room");
        leaves(&mut core, name, NEXT);
        core.control(name.id, 2).expect("there is room");
        core.write(name.id, |out| out.extend(b"word"))
            .expect("there is room");
        assert_eq!(said(&mut core, THERE), ["Control(1)", "CallBack"]);
        let (to, waited) = core.came_back(Some(name)).expect("it was called back");
        core.apply_all(waited);
        core.control(name.id, 3).expect("there is room");
        assert_eq!(to, NEXT);
        assert_eq!(
            said(&mut core, NEXT),
            ["Control(2)", "Out(4)", "Control(3)"]
        );
        assert_eq!(said(&mut core, THERE), [""; 0]);
    }

    /// What waits for one that was called back is bounded as what waits for a shard: with one more
    /// it ends, behind what there was room for, and hears nothing of what follows.
    #[test]
    fn one_to_whom_too_much_is_said_on_its_way_ends() {
        let limits = Limits {
            remote_operations_max: 2,
            ..Limits::default()
        };
        let mut core = core(&limits);
        let name = away(&mut core);
        leaves(&mut core, name, NEXT);
        for word in 0..2 {
            assert_eq!(core.control(name.id, word), Ok(()));
        }
        assert_eq!(core.control(name.id, 2), Err(IoError::Full));
        assert_eq!(core.credit(name.id, 1), Ok(()));
        assert_eq!(core.control(name.id, 3), Err(IoError::Gone));
        let (_, waited) = core.came_back(Some(name)).expect("it was called back");
        let each = waited.operations.iter();
        let all: Vec<String> = each.map(|(_, what)| format!("{what:?}")).collect();
        assert_eq!(all, ["Control(0)", "Control(1)", "Credit(1)", "Cut"]);
    }

    /// One that ends on its way is nobody: what was to be told to it is given back, and its name is
    /// not known any more.
    #[test]
    fn what_was_said_to_one_that_ends_finds_nobody() {
        let mut core = core(&Limits::default());
        let name = away(&mut core);
        leaves(&mut core, name, NEXT);
        core.control(name.id, 7).expect("there is room");
        core.apply_elsewhere(name, Operation::Forget, &[]);
        assert_eq!(core.controls, [(Key::DEAD, 7)]);
        assert_eq!(core.control(name.id, 8), Err(IoError::Gone));
        assert!(core.came_back(Some(name)).is_none());
        leaves(&mut core, name, NEXT);
        assert_eq!(said(&mut core, THERE), ["CallBack"]);
        assert!(core.roaming.away.is_empty());
    }

    /// What comes for a guest before it is taken in waits for that.
    #[test]
    fn what_is_said_to_one_that_arrives_waits_for_it() {
        let mut core = core(&Limits::default());
        let link = Link::new(None, Flags::default(), 0, AddressKey::EXEMPT);
        let id = core.links.insert(link);
        let name = ConnRef {
            shard: THERE,
            id: Key {
                index: 5,
                generation: 3,
            },
        };
        core.comes(name);
        core.apply_elsewhere(name, Operation::Control(1), &[]);
        assert!(core.controls.is_empty());
        core.settles(id, name);
        assert_eq!(core.controls, [(id, 1)]);
        assert_eq!((core.local(name), core.name(id)), (Some(id), name));
        core.drop_name(id);
        assert_eq!(core.local(name), None);
        assert_eq!(said(&mut core, THERE), ["Forget"]);
        let roaming = &core.roaming;
        assert!(roaming.coming.is_empty() && roaming.guests.is_empty());
        assert!(roaming.names.is_empty());
    }
}
