//! New connections: accepting, pacing, limits, running out of descriptors, the balancer's header,
//! and adoption from other shards. Owns the listening sockets of one shard.

use std::fs::File;
use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use actor::ShardId;
use mio::net::{TcpListener, TcpStream, UnixListener};
use mio::{Interest, Registry, Token};
use stdx::slab::Key;
use stdx::time::Moment;
use stdx::wheel::TimerKey;
use telemetry::Counter;

use crate::address::{self, AddressKey};
use crate::bucket::{Bucket, Rate};
use crate::driver::{Driver, arm, token_of};
use crate::limits::{ACCEPTS_PER_TURN, DESCRIPTOR_BACKOFF, WAITING_SHARES};
use crate::link::{Flags, Link, Opening};
use crate::listen::{self, Bound, Listener};
use crate::output::begin_tls;
use crate::port::{Parcel, PortMsg};
use crate::proxy::{self, HEADER_MAX, Header};
use crate::service::{Closed, ConnRef, Peer, Service};
use crate::turns::Turns;

/// The listening side of one shard.
pub(crate) struct Acceptor {
    specs: Arc<[Listener]>,
    sockets: Vec<Option<Listening>>,
    /// Listeners whose queue in the kernel may hold connections; edges come only once.
    ready: Vec<bool>,
    /// Accepted, but waiting for their turn under the rate; addresses take turns.
    waiting: Turns<Waiting>,
    pace: Bucket,
    /// Out of descriptors until then.
    pause_until: Moment,
    /// A descriptor to give up when there is no other, so that a connection can be taken out of
    /// the kernel's queue and closed instead of waiting there for ever.
    reserve: Option<File>,
    /// The queue was full or the budget used up: there is more to accept.
    more: bool,
}

/// A socket that connections come from.
enum Listening {
    Tcp(TcpListener),
    /// In the file system: its connections come from that address.
    Unix(UnixListener, SocketAddr),
}

impl Listening {
    fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        match self {
            Listening::Tcp(socket) => socket.accept(),
            Listening::Unix(socket, address) => {
                let (socket, _) = socket.accept()?;
                Ok((listen::as_tcp(socket), *address))
            }
        }
    }
}

struct Waiting {
    socket: TcpStream,
    address: SocketAddr,
    listener: usize,
}

impl Acceptor {
    pub(crate) fn new(
        specs: Arc<[Listener]>,
        sockets: Vec<Bound>,
        registry: &Registry,
        first_token: usize,
    ) -> io::Result<Acceptor> {
        let mut registered = Vec::with_capacity(sockets.len());
        for (index, socket) in sockets.into_iter().enumerate() {
            let token = Token(first_token - index);
            registered.push(Some(match socket {
                Bound::Tcp(socket) => {
                    let mut socket = TcpListener::from_std(socket);
                    registry.register(&mut socket, token, Interest::READABLE)?;
                    Listening::Tcp(socket)
                }
                Bound::Unix(socket) => {
                    let mut socket = UnixListener::from_std(socket);
                    registry.register(&mut socket, token, Interest::READABLE)?;
                    Listening::Unix(socket, specs[index].address)
                }
            }));
        }
        Ok(Acceptor {
            specs,
            ready: vec![true; registered.len()],
            sockets: registered,
            waiting: Turns::new(),
            pace: Bucket::new(),
            pause_until: Moment::ZERO,
            reserve: File::open("/dev/null").ok(),
            more: false,
        })
    }

    pub(crate) fn note_ready(&mut self, listener: usize) {
        if let Some(ready) = self.ready.get_mut(listener) {
            *ready = true;
        }
    }

    /// Closes the listening sockets and what waits behind them.
    pub(crate) fn stop(&mut self) {
        self.sockets.iter_mut().for_each(|socket| *socket = None);
        self.waiting.clear();
        self.more = false;
    }

    /// When there is something to accept without another event.
    pub(crate) fn wake_at(&self, now: Moment) -> Option<Moment> {
        if self.more {
            return Some(now.max(self.pause_until));
        }
        if self.waiting.is_empty() {
            return None;
        }
        Some(self.pace.debt(now).map_or(now, |debt| now + debt))
    }
}

impl<S: Service> Driver<S> {
    /// Takes a connection that was made in another way than through the first listener, as if it
    /// had come there from `address`. For a simulation: any stream socket does that never blocks,
    /// such as one end of a pair, whose bytes arrive at once and which is on this shard for sure.
    pub fn take(&mut self, socket: OwnedFd, address: SocketAddr) {
        let new = Waiting {
            socket: TcpStream::from_std(std::net::TcpStream::from(socket)),
            address,
            listener: 0,
        };
        self.wait_for_turn(new);
        self.has_news();
    }

    pub(crate) fn accept_all(&mut self) {
        self.admit_waiting();
        if self.now < self.acceptor.pause_until {
            return;
        }
        self.acceptor.more = false;
        for listener in 0..self.acceptor.sockets.len() {
            self.accept_from(listener);
        }
        self.admit_waiting();
    }

    fn accept_from(&mut self, listener: usize) {
        for _ in 0..ACCEPTS_PER_TURN {
            if !self.acceptor.ready[listener] {
                return;
            }
            if !self.has_place_to_wait() {
                // The storm goes on waiting in the kernel's queue, where it costs no descriptor.
                return;
            }
            let Some(socket) = &self.acceptor.sockets[listener] else {
                return;
            };
            match socket.accept() {
                Ok((socket, address)) => self.arrived(Waiting {
                    socket,
                    address,
                    listener,
                }),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.acceptor.ready[listener] = false;
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(_) => return self.out_of_descriptors(listener),
            }
        }
        self.acceptor.more = true;
    }

    /// No descriptor, or no memory: takes one connection out of the queue with the reserve, so that
    /// its client learns of it, and comes back after a pause instead of spinning.
    fn out_of_descriptors(&mut self, listener: usize) {
        self.count(Counter::NetOutOfDescriptors);
        self.acceptor.reserve = None;
        if let Some(socket) = &self.acceptor.sockets[listener]
            && socket.accept().is_ok()
        {
            self.refuse(Counter::NetRefusedLimit);
        }
        self.acceptor.reserve = File::open("/dev/null").ok();
        self.acceptor.pause_until = self.now + DESCRIPTOR_BACKOFF;
        self.acceptor.more = true;
    }

    fn arrived(&mut self, new: Waiting) {
        let limits = &self.settings.limits;
        if limits.accepts_per_second == 0 || address::contains(&limits.exempt, new.address.ip()) {
            return self.admit(new);
        }
        self.wait_for_turn(new);
        if self.acceptor.pace.debt(self.now).is_some() {
            self.count(Counter::NetPaced);
        }
    }

    fn wait_for_turn(&mut self, new: Waiting) {
        let address = AddressKey::of(new.address.ip());
        self.acceptor.waiting.push(address, new);
    }

    /// Whether one more may wait under the rate. If all places are taken, an address that has more
    /// than its share of them gives one up: the kernel's queue has one order for all, and who is
    /// behind a flood there waits for all of it.
    fn has_place_to_wait(&mut self) -> bool {
        let places = self.settings.limits.accepts_waiting_max.max(1);
        if self.acceptor.waiting.len() < places {
            return true;
        }
        let share = places / WAITING_SHARES;
        if self.acceptor.waiting.take_from_longest(share).is_none() {
            return false;
        }
        self.refuse(Counter::NetRefusedAddress);
        true
    }

    fn admit_waiting(&mut self) {
        while !self.acceptor.waiting.is_empty() && self.acceptor.pace.debt(self.now).is_none() {
            let Some(new) = self.acceptor.waiting.pop() else {
                return;
            };
            let shards = u32::from(self.ports.count().max(1));
            let limits = &self.settings.limits;
            let rate = Rate {
                per_second: (limits.accepts_per_second / shards).max(1),
                burst: limits.accept_burst / shards,
            };
            self.acceptor.pace.spend(rate, rate.time(1), self.now);
            self.admit(new);
        }
    }

    fn count(&mut self, counter: Counter) {
        self.core.borrow_mut().stats.count(counter);
    }

    fn refuse(&mut self, counter: Counter) {
        self.shared.refused.fetch_add(1, Ordering::Relaxed);
        self.count(counter);
    }

    /// Makes a connection of an accepted socket, within the limits.
    fn admit(&mut self, new: Waiting) {
        let connections = self.shared.connections.load(Ordering::Relaxed);
        if connections >= self.settings.limits.connections_max as u64 {
            return self.refuse(Counter::NetRefusedLimit);
        }
        let spec = &self.acceptor.specs[new.listener];
        let proxied = !spec.proxies.is_empty();
        if proxied && !address::contains(&spec.proxies, new.address.ip()) {
            return self.refuse(Counter::NetRefusedProxy);
        }
        let (direct_tls, speaks) = (spec.direct_tls, spec.speaks);
        let mut key = AddressKey::EXEMPT;
        if !proxied {
            let Some(entered) = self.enter(new.address.ip()) else {
                return;
            };
            key = entered;
        }
        let listener = u16::try_from(new.listener).unwrap_or(u16::MAX);
        let link = Link::new(Some(new.socket), Flags::default(), listener, key);
        self.shared.connections.fetch_add(1, Ordering::Relaxed);
        let Ok(id) = self.register(link) else {
            self.shared.connections.fetch_sub(1, Ordering::Relaxed);
            self.shared.addresses.leave(key);
            return;
        };
        self.count(Counter::NetAccepted);
        if proxied {
            let core = &mut *self.core.borrow_mut();
            if let Some(link) = core.links.get_mut(id) {
                link.flags.set(Flags::PROXY);
            }
            if let Some(busy) = core.busy(id) {
                busy.deadline = self.now + self.settings.limits.proxy_timeout;
            }
            return arm(core, &mut self.timers, id);
        }
        self.greet(
            id,
            Peer {
                address: new.address,
                listener: new.listener,
                direct_tls,
                speaks,
            },
        );
    }

    /// What an address is counted by.
    fn key(&self, address: IpAddr) -> AddressKey {
        match address::contains(&self.settings.limits.exempt, address) {
            true => AddressKey::EXEMPT,
            false => AddressKey::of(address),
        }
    }

    /// Counts a connection for its address; `None` when there are too many and it was refused.
    fn enter(&mut self, address: IpAddr) -> Option<AddressKey> {
        let key = self.key(address);
        let most = self.settings.limits.connections_per_address_max;
        if self.shared.addresses.enter(key, most) {
            return Some(key);
        }
        self.refuse(Counter::NetRefusedAddress);
        None
    }

    /// From here on a connection counts for this address. False if that has too many.
    pub(crate) fn count_for(&mut self, id: Key, address: IpAddr) -> bool {
        let Some(key) = self.enter(address) else {
            return false;
        };
        let core = &mut *self.core.borrow_mut();
        let Some(link) = core.links.get_mut(id) else {
            self.shared.addresses.leave(key);
            return true;
        };
        let before = mem::replace(&mut link.address, key);
        if let Some(busy) = &mut link.busy {
            // What waits by now is counted anew with the next that comes.
            (busy.unread, busy.counted) = (None, None);
        }
        self.shared.addresses.leave(before);
        true
    }

    fn register(&mut self, link: Link) -> io::Result<Key> {
        let core = &mut *self.core.borrow_mut();
        let id = core.links.insert(link);
        let Some(link) = core.links.get_mut(id) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Some(socket) = &mut link.socket
            && let Err(error) = self
                .poll
                .registry()
                .register(socket, token_of(id), interest)
        {
            core.links.remove(id);
            return Err(error);
        }
        let slots = id.index as usize + 1;
        if self.conns.len() < slots {
            self.conns.resize_with(slots, || None);
        }
        Ok(id)
    }

    /// Takes in connections that the service opened. Returns whether there were any.
    pub(crate) fn open_new(&mut self) -> bool {
        let openings = self.passage.borrow_mut().take_openings();
        let any = !openings.is_empty();
        for opening in openings {
            self.open(opening);
        }
        any
    }

    fn open(&mut self, new: Opening<S::Conn>) {
        let connections = self.shared.connections.load(Ordering::Relaxed);
        let is_full = !new.is_half && connections >= self.settings.limits.connections_max as u64;
        if is_full {
            self.refuse(Counter::NetRefusedLimit);
        }
        let key = match new.address {
            _ if is_full => None,
            None => Some(AddressKey::EXEMPT),
            Some(address) if new.is_half => Some(self.key(address)),
            Some(address) => self.enter(address),
        };
        let Some(key) = key else {
            return self.not_opened(new.conn, Closed::Overflow);
        };
        let mut flags = Flags::default();
        if new.socket.is_none() {
            // Nobody's end is waited for.
            flags.set(Flags::READ_CLOSED);
        }
        if new.is_half {
            flags.set(Flags::HALF);
        }
        let socket = new.socket.map(TcpStream::from);
        let link = Link::new(socket, flags, u16::MAX, key);
        let count = u64::from(!new.is_half);
        self.shared.connections.fetch_add(count, Ordering::Relaxed);
        let Ok(id) = self.register(link) else {
            self.shared.connections.fetch_sub(count, Ordering::Relaxed);
            if !new.is_half {
                self.shared.addresses.leave(key);
            }
            return self.not_opened(new.conn, Closed::Overflow);
        };
        if let Some(slot) = self.conns.get_mut(id.index as usize) {
            *slot = Some(Box::new(new.conn));
        }
        self.call(id, |service, cx, conn| service.opened(cx, conn));
    }

    /// The state is told under a name that is gone.
    fn not_opened(&mut self, conn: S::Conn, why: Closed) {
        let shard = self.core.borrow().shard;
        let id = ConnRef {
            shard,
            id: Key::DEAD,
        };
        self.service.closed(&mut self.shard, id, conn, why);
    }

    /// Introduces a connection to the service; TLS begins first where it is not asked for.
    fn greet(&mut self, id: Key, peer: Peer) {
        if peer.direct_tls {
            let core = &mut *self.core.borrow_mut();
            begin_tls(core, &self.settings, self.now, id, peer.speaks);
        }
        let conn = self.call_new(id, |service, cx| service.accept(cx, &peer));
        if let Some((conn, wishes)) = conn {
            if let Some(slot) = self.conns.get_mut(id.index as usize) {
                *slot = Some(Box::new(conn));
            }
            self.after(id, wishes);
        }
    }

    /// Input of a connection whose balancer has not finished its header. Returns the bytes behind
    /// the header, once it is complete.
    pub(crate) fn proxy_header(&mut self, id: Key, input: &[u8]) -> Option<Vec<u8>> {
        let (mut kept, listener, own) = {
            let core = &mut *self.core.borrow_mut();
            let kept = mem::take(&mut core.busy(id)?.kept);
            let link = core.links.get(id)?;
            let own = link.socket.as_ref().and_then(|s| s.peer_addr().ok());
            (kept, usize::from(link.listener), own)
        };
        kept.extend_from_slice(input);
        let (consumed, source) = match proxy::parse(&kept) {
            Header::Incomplete if kept.len() <= HEADER_MAX => {
                self.core.borrow_mut().busy(id)?.kept = kept;
                return None;
            }
            Header::Incomplete | Header::Bad => {
                self.refuse(Counter::NetRefusedProxy);
                self.finish(id, Closed::Broken);
                return None;
            }
            Header::Complete { consumed, source } => (consumed, source),
        };
        let Some(address) = source.or(own) else {
            self.finish(id, Closed::Broken);
            return None;
        };
        let Some(key) = self.enter(address.ip()) else {
            self.finish(id, Closed::Broken);
            return None;
        };
        {
            let core = &mut *self.core.borrow_mut();
            core.busy(id)?.deadline = Moment::FAR;
            let link = core.links.get_mut(id)?;
            link.flags.clear(Flags::PROXY);
            link.address = key;
        }
        let spec = &self.acceptor.specs[listener];
        let (direct_tls, speaks) = (spec.direct_tls, spec.speaks);
        self.greet(
            id,
            Peer {
                address,
                listener,
                direct_tls,
                speaks,
            },
        );
        kept.drain(..consumed);
        Some(kept)
    }
}

// === Between shards =============================================================================

impl<S: Service> Driver<S> {
    /// Takes a connection of this shard apart; its socket is polled no more.
    pub(crate) fn pack(&mut self, id: Key, name: Option<ConnRef>) -> Option<Box<Parcel<S::Conn>>> {
        let conn = *self.conns.get_mut(id.index as usize)?.take()?;
        let link = self.core.borrow_mut().links.remove(id)?;
        let mut socket = link.socket?;
        self.timers.cancel(link.timer);
        // A failure means that the kernel has forgotten the socket already.
        let _ = self.poll.registry().deregister(&mut socket);
        let mut flags = link.flags;
        let here_only = Flags::QUEUED | Flags::DIRTY | Flags::LEAVING | Flags::BLOCKED;
        flags.clear(here_only | Flags::READABLE | Flags::WATCHED);
        Some(Box::new(Parcel {
            socket: socket.into(),
            flags,
            in_flight: link.in_flight,
            listener: link.listener,
            address: link.address,
            busy: link.busy,
            tls: link.tls,
            deadline: link.deadline,
            bucket: link.bucket,
            name,
            conn,
        }))
    }

    /// Takes in connections from other shards. Returns whether there were any.
    pub(crate) fn adopt_arrivals(&mut self) -> bool {
        let arrivals = self.passage.borrow_mut().take_arrivals();
        let any = !arrivals.is_empty();
        for parcel in arrivals {
            self.arrive(parcel);
        }
        any
    }

    pub(crate) fn adopt(&mut self, parcel: Parcel<S::Conn>) {
        let mut flags = parcel.flags;
        let kept = parcel
            .busy
            .as_ref()
            .is_some_and(|busy| !busy.kept.is_empty());
        if kept {
            flags.set(Flags::TO_RECEIVE);
        }
        let link = Link {
            socket: Some(TcpStream::from(parcel.socket)),
            flags,
            in_flight: parcel.in_flight,
            listener: parcel.listener,
            address: parcel.address,
            busy: parcel.busy,
            tls: parcel.tls,
            deadline: parcel.deadline,
            timer: TimerKey::DEAD,
            timer_at: Moment::FAR,
            bucket: parcel.bucket,
        };
        let Ok(id) = self.register(link) else {
            // Without a poll there is no connection; the state is told under a name that is gone.
            self.shared.connections.fetch_sub(1, Ordering::Relaxed);
            self.shared.addresses.leave(parcel.address);
            if let Some(name) = parcel.name {
                self.core.borrow_mut().let_go(name);
            }
            return self.not_opened(parcel.conn, Closed::Broken);
        };
        if let Some(slot) = self.conns.get_mut(id.index as usize) {
            *slot = Some(Box::new(parcel.conn));
        }
        if let Some(draining) = &mut self.draining {
            draining.left.push_back(id);
        }
        arm(&mut self.core.borrow_mut(), &mut self.timers, id);
        match parcel.name {
            Some(name) => self.core.borrow_mut().settles(id, name),
            None => {
                self.call(id, |service, cx, conn| service.adopted(cx, conn));
            }
        }
        let core = &mut *self.core.borrow_mut();
        core.mark_dirty(id);
        // The bytes kept are received in the next turn; the kernel reports the socket's afresh.
        core.enqueue(id);
    }

    /// Sends what waits for other shards. Returns whether anything was sent.
    pub(crate) fn flush_remotes(&mut self) -> bool {
        let mut sent = false;
        let count = self.core.borrow().remotes.len();
        for index in 0..count {
            let shard = ShardId::new(u16::try_from(index).unwrap_or(u16::MAX));
            sent |= self.flush_remote(index, shard);
        }
        sent
    }

    fn flush_remote(&mut self, index: usize, shard: ShardId) -> bool {
        let core = &mut *self.core.borrow_mut();
        let remote = &mut core.remotes[index];
        if !remote.has_batch() && !self.passage.borrow().is_leaving_for(index) {
            return false;
        }
        let Some(port) = self.ports.of(shard) else {
            return false;
        };
        let mut sent = false;
        // What was said to them is behind them.
        let mut parcels = self.passage.borrow_mut().take_leaving(index).into_iter();
        while let Some(parcel) = parcels.next() {
            if let Err(error) = actor::Mail::send(&mut self.shard, port, PortMsg::Adopt(parcel)) {
                // They keep their places.
                let mut passage = self.passage.borrow_mut();
                if let PortMsg::Adopt(parcel) = error.into_inner() {
                    passage.leaves(shard, parcel);
                }
                parcels.for_each(|parcel| passage.leaves(shard, parcel));
                return sent;
            }
            sent = true;
        }
        if remote.has_batch() {
            let message = PortMsg::Batch(remote.take_batch());
            if let Err(error) = actor::Mail::send(&mut self.shard, port, message) {
                // It keeps its place: nothing was added behind it meanwhile.
                if let PortMsg::Batch(batch) = error.into_inner() {
                    remote.put_back(batch);
                }
                return sent;
            }
            remote.taken();
            sent = true;
        }
        sent
    }
}

/// Errors of `accept` that concern the one connection that was about to be accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::Interrupted
            | ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::TimedOut
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NetworkDown
            | ErrorKind::PermissionDenied
    )
}
