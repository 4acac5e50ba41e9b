//! The loop of one shard's thread: poll, hand bytes to the service, let the actors have their turn,
//! write what came of it. One write per connection and turn.

use std::io::{self, Read, Write};
use std::mem;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use actor::{Handle, Mail, Shard, ShardSeed};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use stdx::slab::Key;
use stdx::time::{Clock, Moment};
use stdx::wheel::TimerWheel;

use crate::address::{AddressKey, AddressTable};
use crate::bucket::{Bucket, Rate};
use crate::cx::{Cx, Wishes};
use crate::limits::{
    ACCEPTS_PER_TURN, DESCRIPTOR_BACKOFF, EVENTS_MAX, Limits, READ_BUFFER, READS_PER_TURN,
};
use crate::listen::{self, Listener};
use crate::port::{Io, Port, RemoteIo};
use crate::proxy;
use crate::service::{Closed, ConnRef, Peer, Service};
use crate::session::Session;
use crate::table::{Entry, Flags, Moved, Ports, Table, Todo};
use crate::tls::TlsConfig;

const WAKE: Token = Token(usize::MAX);
/// Tokens of listeners count down from here.
const LISTENERS: usize = usize::MAX - 1;
/// Listeners of one node.
const LISTENERS_MAX: usize = 64;

/// What the shards of one node share: bound sockets, TLS, switches.
pub struct Network<S: Service> {
    listeners: Vec<Listener>,
    sockets: Vec<Vec<std::net::TcpListener>>,
    addresses: Vec<std::net::SocketAddr>,
    shared: Arc<Shared>,
    ports: Arc<Ports<S>>,
    limits: Limits,
}

/// Switches and counters of a running network.
pub struct Shared {
    tls: std::sync::Mutex<Option<TlsConfig>>,
    tls_version: AtomicU64,
    draining: AtomicBool,
    stopping: AtomicBool,
    connections: AtomicU64,
    refused: AtomicU64,
    table: AddressTable,
}

impl Shared {
    /// Open connections.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Connections that a limit refused.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Puts new certificates in force for connections to come.
    pub fn set_tls(&self, tls: Option<TlsConfig>) {
        if let Ok(mut slot) = self.tls.lock() {
            *slot = tls;
        }
        self.tls_version.fetch_add(1, Ordering::Release);
    }

    /// Stops accepting and has the service say goodbye to every connection.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Ends the loops.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }
}

impl<S: Service> Network<S> {
    /// Binds every listener for `shards` shards.
    ///
    /// # Errors
    /// The operating system's, with the address.
    pub fn bind(
        listeners: Vec<Listener>,
        shards: u16,
        tls: Option<TlsConfig>,
        limits: Limits,
    ) -> io::Result<Self> {
        if listeners.len() > LISTENERS_MAX {
            return Err(io::Error::other(format!("more than {LISTENERS_MAX} listeners")));
        }
        let mut sockets: Vec<Vec<_>> = (0..shards).map(|_| Vec::new()).collect();
        let mut addresses = Vec::new();
        for listener in &listeners {
            let (address, bound) = listen::bind(listener, usize::from(shards))
                .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", listener.address)))?;
            addresses.push(address);
            for (shard, socket) in bound.into_iter().enumerate() {
                sockets[shard].push(socket);
            }
        }
        let shared = Arc::new(Shared {
            tls: std::sync::Mutex::new(tls),
            tls_version: AtomicU64::new(1),
            draining: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            connections: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            table: AddressTable::new(),
        });
        let ports = (0..shards).map(|_| std::sync::OnceLock::new()).collect();
        let limits = limits.bounded();
        Ok(Network { listeners, sockets, addresses, shared, ports: Arc::new(Ports(ports)), limits })
    }

    /// The addresses that were bound, in the listeners' order.
    pub fn addresses(&self) -> &[std::net::SocketAddr] {
        &self.addresses
    }

    /// Switches and counters.
    pub fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// The way to connections for threads that are no shard's.
    pub fn remote(&self, handle: &Handle) -> RemoteIo<S> {
        RemoteIo { handle: handle.clone(), ports: Arc::clone(&self.ports) }
    }

    /// The part of one shard, to be built on its thread.
    pub fn seed(&mut self, shard: usize) -> DriverSeed<S> {
        DriverSeed {
            listeners: self.listeners.clone(),
            sockets: mem::take(&mut self.sockets[shard]),
            shared: Arc::clone(&self.shared),
            ports: Arc::clone(&self.ports),
            limits: self.limits.clone(),
        }
    }
}

/// See [`Network::seed`].
pub struct DriverSeed<S: Service> {
    listeners: Vec<Listener>,
    sockets: Vec<std::net::TcpListener>,
    shared: Arc<Shared>,
    ports: Arc<Ports<S>>,
    limits: Limits,
}

struct Wake(mio::Waker);

impl actor::Waker for Wake {
    fn wake(&self) {
        // A failed wake costs at most the longest sleep, which is bounded.
        let _ = self.0.wake();
    }
}

/// The longest sleep: a bound on how late a switch is noticed.
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// The loop of one shard.
pub struct Driver<S: Service> {
    poll: Poll,
    shard: Shard,
    service: S,
    table: Rc<Table<S>>,
    clock: Arc<dyn Clock>,
    shared: Arc<Shared>,
    limits: Limits,
    specs: Vec<Listener>,
    listeners: Vec<(TcpListener, bool)>,
    accept_after: Moment,
    accepts: Bucket,
    timers: TimerWheel<Key>,
    again: Vec<Key>,
    tls: Option<TlsConfig>,
    tls_version: u64,
    is_draining: bool,
    now: Moment,
}

impl<S: Service> DriverSeed<S> {
    /// Builds shard, service and loop on the thread that will run them.
    ///
    /// # Errors
    /// The operating system's, if it gives no poll.
    pub fn build(
        self,
        seed: ShardSeed,
        clock: Arc<dyn Clock>,
        service: impl FnOnce(&mut Shard, Io<S>) -> S,
    ) -> io::Result<Driver<S>> {
        let poll = Poll::new()?;
        let waker = Arc::new(Wake(mio::Waker::new(poll.registry(), WAKE)?));
        let mut shard = seed.build(Arc::clone(&clock), waker);
        let table = Rc::new(Table {
            shard: shard.id(),
            entries: Default::default(),
            dirty: Default::default(),
            todo: Default::default(),
            ports: self.ports,
        });
        let backlog_max = self.limits.backlog_max;
        let port = shard.spawn(Port { table: Rc::clone(&table), backlog_max });
        if let Some(slot) = table.ports.0.get(usize::from(shard.id().index())) {
            let _ = slot.set(port);
        }
        let service = service(&mut shard, Io { table: Rc::clone(&table), backlog_max });
        let mut listeners = Vec::new();
        for (index, socket) in self.sockets.into_iter().enumerate() {
            let mut socket = TcpListener::from_std(socket);
            poll.registry().register(&mut socket, Token(LISTENERS - index), Interest::READABLE)?;
            listeners.push((socket, true));
        }
        let now = clock.now();
        Ok(Driver {
            poll,
            shard,
            service,
            table,
            clock,
            shared: self.shared,
            limits: self.limits,
            specs: self.listeners,
            listeners,
            accept_after: now,
            accepts: Bucket::new(),
            timers: TimerWheel::new(),
            again: Vec::new(),
            tls: None,
            tls_version: 0,
            is_draining: false,
            now,
        })
    }
}

impl<S: Service> Driver<S> {
    /// Runs until [`Shared::stop`].
    ///
    /// # Errors
    /// The poll's.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut buffer = vec![0; READ_BUFFER];
        let mut sleep = Duration::ZERO;
        while !self.shared.stopping.load(Ordering::Acquire) {
            match self.poll.poll(&mut events, Some(sleep)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => result?,
            }
            self.now = self.clock.now();
            self.shard.begin();
            self.notice_switches();
            for event in &events {
                self.event(event, &mut buffer);
            }
            self.accept_all();
            for key in mem::take(&mut self.again) {
                self.read(key, &mut buffer);
            }
            self.fire_timers();
            let turn = self.shard.turn();
            self.do_todos(&mut buffer);
            self.flush_dirty();
            sleep = self.sleep(turn);
        }
        self.shard.shut_down();
        self.do_todos(&mut buffer);
        self.flush_dirty();
        Ok(())
    }

    fn sleep(&self, turn: actor::Turn) -> Duration {
        let busy = turn.more || !self.again.is_empty() || !self.table.todo.borrow().is_empty();
        if busy {
            return Duration::ZERO;
        }
        let next = [turn.next_deadline, self.timers.next_deadline()].into_iter().flatten().min();
        let until = next.map_or(SLEEP_MAX, |next| next.saturating_since(self.now));
        until.min(SLEEP_MAX)
    }

    fn notice_switches(&mut self) {
        let version = self.shared.tls_version.load(Ordering::Acquire);
        if version != self.tls_version {
            self.tls_version = version;
            self.tls = self.shared.tls.lock().map_or(None, |tls| tls.clone());
        }
        if !self.is_draining && self.shared.draining.load(Ordering::Acquire) {
            self.is_draining = true;
            self.listeners.clear();
            let keys = self.table.entries.borrow().keys();
            for key in keys {
                self.with_service(key, |service, cx, conn| service.drain(cx, conn));
            }
        }
    }

    // ---- Coming ---------------------------------------------------------------------------------

    fn event(&mut self, event: &mio::event::Event, buffer: &mut [u8]) {
        let Token(token) = event.token();
        if event.token() == WAKE {
            return;
        }
        if token > LISTENERS - LISTENERS_MAX {
            if let Some(listener) = self.listeners.get_mut(LISTENERS - token) {
                listener.1 = true;
            }
            return;
        }
        let key = Key { index: token as u32, generation: (token >> 32) as u32 };
        if event.is_writable() {
            if let Some(entry) = self.table.entries.borrow_mut().get_mut(key) {
                entry.flags.blocked = false;
            }
            self.flush(key);
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            if let Some(entry) = self.table.entries.borrow_mut().get_mut(key) {
                entry.flags.readable = true;
            }
            self.read(key, buffer);
        }
    }

    fn accept_all(&mut self) {
        if self.now < self.accept_after {
            return;
        }
        for index in 0..self.listeners.len() {
            for _ in 0..ACCEPTS_PER_TURN {
                if !self.listeners[index].1 {
                    break;
                }
                let rate =
                    Rate { per_second: self.limits.accepts_per_second, burst: self.limits.accept_burst };
                if let Some(debt) = self.accepts.debt(self.now) {
                    // A storm of connections waits in the kernel's queue, where it costs nothing.
                    self.accept_after = self.now + debt;
                    return;
                }
                match self.listeners[index].0.accept() {
                    Ok((socket, address)) => {
                        if !self.is_exempt(address.ip()) {
                            self.accepts.spend(rate, 1, self.now);
                        }
                        self.accepted(socket, address, index);
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        self.listeners[index].1 = false;
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => {
                        // Out of descriptors or memory: those who wait stay in the kernel's queue.
                        self.accept_after = self.now + DESCRIPTOR_BACKOFF;
                        return;
                    }
                }
            }
        }
    }

    fn is_exempt(&self, address: std::net::IpAddr) -> bool {
        self.limits.exempt.iter().any(|network| network.contains(address))
    }

    fn accepted(&mut self, socket: TcpStream, address: std::net::SocketAddr, listener: usize) {
        let key = if self.is_exempt(address.ip()) { AddressKey::EXEMPT } else { AddressKey::of(address.ip()) };
        let too_many = self.shared.connections() >= self.limits.connections_max as u64;
        if too_many || !self.shared.table.enter(key, self.limits.connections_per_address_max) {
            self.shared.refused.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let spec = &self.specs[listener];
        let wants_proxy = spec.proxies.iter().any(|network| network.contains(address.ip()));
        let direct_tls = spec.direct_tls;
        self.shared.connections.fetch_add(1, Ordering::Relaxed);
        let entry = Entry {
            socket,
            conn: None,
            tls: None,
            out: Vec::new(),
            wire: Vec::new(),
            sent: 0,
            kept: Vec::new(),
            timer: None,
            address: key,
            bucket: Bucket::new(),
            in_flight: 0,
            flags: Flags { wants_proxy, listener: listener as u8, ..Flags::default() },
            closing: None,
        };
        let Some(id) = self.register(entry) else { return };
        if wants_proxy {
            self.set_timer(id, Some(self.now + self.limits.proxy_timeout));
            return;
        }
        self.begin(id, Peer { address, listener, direct_tls });
    }

    fn register(&mut self, mut entry: Entry<S>) -> Option<Key> {
        let mut entries = self.table.entries.borrow_mut();
        let key = entries.next_key();
        let token = Token(key.index as usize | (key.generation as usize) << 32);
        let interest = Interest::READABLE | Interest::WRITABLE;
        if self.poll.registry().register(&mut entry.socket, token, interest).is_err() {
            self.shared.connections.fetch_sub(1, Ordering::Relaxed);
            self.shared.table.leave(entry.address);
            return None;
        }
        Some(entries.insert(entry))
    }

    /// The client of a connection is known: the service takes over.
    fn begin(&mut self, id: Key, peer: Peer) {
        let mut cx = Cx {
            id: ConnRef { shard: self.table.shard, id },
            shard: &mut self.shard,
            now: self.now,
            out: Vec::new(),
            wishes: Wishes::default(),
            in_flight: 0,
            window: self.limits.window_max,
        };
        let conn = self.service.accept(&mut cx, &peer);
        let Cx { out, wishes, .. } = cx;
        if let Some(entry) = self.table.entries.borrow_mut().get_mut(id) {
            entry.conn = Some(conn);
            entry.out = out;
        }
        self.grant(id, wishes);
        if peer.direct_tls {
            self.start_tls(id);
        }
    }

    /// Runs the service with the connection's state taken out of the table.
    fn with_service<R>(
        &mut self,
        key: Key,
        f: impl FnOnce(&mut S, &mut Cx<'_>, &mut S::Conn) -> R,
    ) -> Option<R> {
        let (mut conn, out, in_flight) = {
            let mut entries = self.table.entries.borrow_mut();
            let entry = entries.get_mut(key)?;
            (entry.conn.take()?, mem::take(&mut entry.out), entry.in_flight)
        };
        let mut cx = Cx {
            id: ConnRef { shard: self.table.shard, id: key },
            shard: &mut self.shard,
            now: self.now,
            out,
            wishes: Wishes::default(),
            in_flight,
            window: self.limits.window_max,
        };
        let result = f(&mut self.service, &mut cx, &mut conn);
        let Cx { out, wishes, in_flight, .. } = cx;
        if let Some(entry) = self.table.entries.borrow_mut().get_mut(key) {
            entry.conn = Some(conn);
            entry.out = out;
            entry.in_flight = in_flight;
            if !entry.out.is_empty() && !mem::replace(&mut entry.flags.dirty, true) {
                self.table.dirty.borrow_mut().push(key);
            }
        }
        self.grant(key, wishes);
        Some(result)
    }

    fn grant(&mut self, key: Key, wishes: Wishes) {
        if let Some(at) = wishes.deadline {
            self.set_timer(key, at);
        }
        {
            let mut entries = self.table.entries.borrow_mut();
            let Some(entry) = entries.get_mut(key) else { return };
            if let Some(paused) = wishes.paused {
                entry.flags.paused = paused;
                if !paused && !mem::replace(&mut entry.flags.queued, true) {
                    self.again.push(key);
                }
            }
            entry.flags.starts_tls |= wishes.start_tls;
            if wishes.close {
                entry.flags.ending = true;
            }
            if (wishes.close || wishes.start_tls) && !mem::replace(&mut entry.flags.dirty, true) {
                self.table.dirty.borrow_mut().push(key);
            }
        }
        if wishes.close {
            self.set_timer(key, Some(self.now + self.limits.close_timeout));
        }
        if wishes.abort {
            self.close(key, Closed::ByUs);
        } else if let Some(shard) = wishes.hand_over {
            self.flush(key);
            self.hand_over(key, shard);
        }
    }

    fn set_timer(&mut self, key: Key, at: Option<Moment>) {
        let mut entries = self.table.entries.borrow_mut();
        let Some(entry) = entries.get_mut(key) else { return };
        if let Some(timer) = entry.timer.take() {
            self.timers.cancel(timer);
        }
        entry.timer = at.map(|at| self.timers.insert(at, key));
    }

    fn fire_timers(&mut self) {
        let mut due = Vec::new();
        self.timers.advance(self.now, &mut |key| due.push(key));
        for key in due {
            let overdue = {
                let mut entries = self.table.entries.borrow_mut();
                let Some(entry) = entries.get_mut(key) else { continue };
                entry.timer = None;
                let handshakes = entry.tls.as_ref().is_some_and(|tls| !tls.is_established());
                entry.flags.ending || entry.flags.wants_proxy || handshakes || entry.conn.is_none()
            };
            if overdue {
                self.close(key, Closed::Timeout);
            } else {
                self.with_service(key, |service, cx, conn| service.deadline(cx, conn));
            }
        }
    }

    // ---- Reading --------------------------------------------------------------------------------

    /// Whether bytes of this connection may be handled now.
    fn may_read(&self, key: Key) -> bool {
        let mut entries = self.table.entries.borrow_mut();
        let Some(entry) = entries.get_mut(key) else { return false };
        entry.flags.queued = false;
        let waiting = entry.wire.len() - entry.sent;
        !entry.flags.paused
            && !entry.flags.ending
            && !entry.flags.starts_tls
            && entry.closing.is_none()
            && entry.in_flight < self.limits.window_max
            && waiting <= self.limits.backlog_pause
    }

    fn read(&mut self, key: Key, buffer: &mut [u8]) {
        if !self.may_read(key) {
            return self.notice_hang_up(key);
        }
        let has_kept =
            self.table.entries.borrow_mut().get_mut(key).is_some_and(|entry| !entry.kept.is_empty());
        if has_kept {
            self.plaintext(key, &[]);
        }
        let mut budget = self.limits.read_per_turn;
        for _ in 0..READS_PER_TURN {
            if !self.may_read(key) {
                return;
            }
            let result = {
                let mut entries = self.table.entries.borrow_mut();
                let Some(entry) = entries.get_mut(key) else { return };
                if !entry.flags.readable {
                    return;
                }
                if budget == 0 {
                    // Others have their turn first; no event will tell of what is left.
                    entry.flags.queued = true;
                    self.again.push(key);
                    return;
                }
                let room = budget.min(buffer.len());
                let result = entry.socket.read(&mut buffer[..room]);
                if matches!(&result, Ok(read) if *read < room) {
                    // Edge-triggered: a short read means that the next bytes make a new event.
                    entry.flags.readable = false;
                }
                result
            };
            match result {
                Ok(0) => return self.close(key, Closed::ByPeer),
                Ok(read) => {
                    budget -= read.min(budget);
                    self.received(key, &buffer[..read]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if let Some(entry) = self.table.entries.borrow_mut().get_mut(key) {
                        entry.flags.readable = false;
                    }
                    return;
                }
                Err(_) => return self.close(key, Closed::Broken),
            }
        }
    }

    /// A connection that says goodbye to us and closes before all was written.
    fn notice_hang_up(&mut self, key: Key) {
        let gone = {
            let mut entries = self.table.entries.borrow_mut();
            let Some(entry) = entries.get_mut(key) else { return };
            if !entry.flags.ending || !entry.flags.readable {
                return;
            }
            let mut sink = [0; 1024];
            match entry.socket.read(&mut sink) {
                Ok(0) => true,
                Ok(_) => false,
                Err(error) => error.kind() != io::ErrorKind::WouldBlock,
            }
        };
        if gone {
            self.close(key, Closed::ByPeer);
        }
    }

    /// Bytes from the wire.
    fn received(&mut self, key: Key, input: &[u8]) {
        let wants_proxy = self
            .table
            .entries
            .borrow_mut()
            .get_mut(key)
            .is_some_and(|entry| entry.flags.wants_proxy);
        if wants_proxy {
            return self.proxy_header(key, input);
        }
        let step = {
            let mut entries = self.table.entries.borrow_mut();
            let Some(entry) = entries.get_mut(key) else { return };
            match &mut entry.tls {
                None => None,
                Some(tls) => {
                    let mut plain = Vec::new();
                    let step = tls.read(input, &mut plain, &mut entry.wire);
                    if !mem::replace(&mut entry.flags.dirty, true) {
                        self.table.dirty.borrow_mut().push(key);
                    }
                    Some((step, plain))
                }
            }
        };
        match step {
            None => self.plaintext(key, input),
            Some((Err(_), _)) => {
                self.flush(key);
                self.close(key, Closed::Tls);
            }
            Some((Ok(progress), plain)) => {
                if let Some(info) = progress.established {
                    self.with_service(key, |service, cx, conn| {
                        service.tls_established(cx, conn, &info);
                    });
                }
                if !plain.is_empty() {
                    self.plaintext(key, &plain);
                }
                if progress.closed {
                    self.close(key, Closed::ByPeer);
                }
            }
        }
    }

    fn proxy_header(&mut self, key: Key, input: &[u8]) {
        let (header, all, socket_address, listener) = {
            let mut entries = self.table.entries.borrow_mut();
            let Some(entry) = entries.get_mut(key) else { return };
            entry.kept.extend_from_slice(input);
            let header = proxy::parse(&entry.kept);
            let address = entry.socket.peer_addr();
            (header, mem::take(&mut entry.kept), address, usize::from(entry.flags.listener))
        };
        match header {
            proxy::Header::Incomplete if all.len() <= proxy::HEADER_MAX => {
                if let Some(entry) = self.table.entries.borrow_mut().get_mut(key) {
                    entry.kept = all;
                }
            }
            proxy::Header::Complete { consumed, source } => {
                let Ok(address) = socket_address.map(|own| source.unwrap_or(own)) else {
                    return self.close(key, Closed::Broken);
                };
                if let Some(entry) = self.table.entries.borrow_mut().get_mut(key) {
                    entry.flags.wants_proxy = false;
                }
                self.set_timer(key, None);
                let direct_tls = self.specs[listener].direct_tls;
                self.begin(key, Peer { address, listener, direct_tls });
                if consumed < all.len() {
                    self.received(key, &all[consumed..]);
                }
            }
            _ => self.close(key, Closed::Broken),
        }
    }

    /// Plaintext for the service, behind what it left last time.
    fn plaintext(&mut self, key: Key, input: &[u8]) {
        let kept = {
            let mut entries = self.table.entries.borrow_mut();
            let Some(entry) = entries.get_mut(key) else { return };
            mem::take(&mut entry.kept)
        };
        let mut joined = kept;
        let bytes = if joined.is_empty() {
            input
        } else {
            joined.extend_from_slice(input);
            &joined[..]
        };
        let used = self.with_service(key, |service, cx, conn| service.receive(cx, conn, bytes));
        let Some(used) = used else { return };
        let rest = &bytes[used.min(bytes.len())..];
        let overflow = {
            let mut entries = self.table.entries.borrow_mut();
            let Some(entry) = entries.get_mut(key) else { return };
            if entry.flags.starts_tls || entry.flags.ending {
                // Bytes behind a request for TLS were not protected by it: never looked at.
                return;
            }
            entry.kept = rest.to_vec();
            entry.kept.len() > self.limits.incomplete_max + READ_BUFFER
        };
        if overflow {
            self.close(key, Closed::Overflow);
        }
    }

    // ---- TLS and hand-over ----------------------------------------------------------------------

    fn start_tls(&mut self, key: Key) {
        let session = self.tls.as_ref().and_then(|tls| Session::new(tls).ok());
        let Some(session) = session else { return self.close(key, Closed::Tls) };
        if let Some(entry) = self.table.entries.borrow_mut().get_mut(key) {
            entry.tls = Some(session);
            entry.flags.starts_tls = false;
            entry.kept = Vec::new();
            if !mem::replace(&mut entry.flags.queued, true) {
                self.again.push(key);
            }
        }
    }

    fn hand_over(&mut self, key: Key, shard: actor::ShardId) {
        let Some(port) = self.table.ports.of(shard) else { return };
        let Some(mut entry) = self.table.entries.borrow_mut().remove(key) else { return };
        if let Some(timer) = entry.timer.take() {
            self.timers.cancel(timer);
        }
        let _ = self.poll.registry().deregister(&mut entry.socket);
        entry.flags.dirty = false;
        entry.flags.queued = false;
        entry.flags.readable = true;
        let moved = Box::new(Moved(entry));
        if let Err(back) = self.shard.send(port, crate::port::PortMsg::Adopt(moved)) {
            // The other shard takes no more: the connection stays, at the cost of a hop per stanza.
            if let crate::port::PortMsg::Adopt(moved) = back.into_inner() {
                self.adopt(*moved);
            }
        }
    }

    fn adopt(&mut self, moved: Moved<S>) {
        let Some(key) = self.register(moved.0) else { return };
        self.with_service(key, |service, cx, conn| service.adopted(cx, conn));
        if let Some(entry) = self.table.entries.borrow_mut().get_mut(key) {
            entry.flags.queued = true;
            if !mem::replace(&mut entry.flags.dirty, true) {
                self.table.dirty.borrow_mut().push(key);
            }
        }
        self.again.push(key);
    }

    fn do_todos(&mut self, buffer: &mut [u8]) {
        // What the service makes of these may add more, which waits for the next turn.
        let count = self.table.todo.borrow().len();
        for _ in 0..count {
            let Some(todo) = self.table.todo.borrow_mut().pop_front() else { return };
            match todo {
                Todo::Control(key, msg) => {
                    self.with_service(key, |service, cx, conn| service.control(cx, conn, msg));
                }
                Todo::Adopt(moved) => self.adopt(*moved),
                Todo::Resume(key) => self.read(key, buffer),
                Todo::Close(key, why) => self.close(key, why),
            }
        }
    }

    // ---- Writing and closing --------------------------------------------------------------------

    fn flush_dirty(&mut self) {
        for key in self.table.dirty.take() {
            self.flush(key);
        }
    }

    fn flush(&mut self, key: Key) {
        enum Next {
            Nothing,
            StartTls,
            Close(Closed),
            Read,
        }
        let next = {
            let mut entries = self.table.entries.borrow_mut();
            let Some(entry) = entries.get_mut(key) else { return };
            entry.flags.dirty = false;
            let was_full = entry.wire.len() - entry.sent > self.limits.backlog_pause;
            match entry.flush() {
                Err(why) => Next::Close(why),
                Ok(false) => Next::Nothing,
                Ok(true) if entry.flags.starts_tls => Next::StartTls,
                Ok(true) if entry.flags.ending => Next::Close(Closed::ByUs),
                Ok(true) if was_full => Next::Read,
                Ok(true) => Next::Nothing,
            }
        };
        match next {
            Next::Nothing => {}
            Next::StartTls => {
                self.start_tls(key);
                self.set_timer(key, Some(self.now + self.limits.handshake_timeout));
            }
            Next::Close(why) => self.close(key, why),
            Next::Read => self.again.push(key),
        }
    }

    fn close(&mut self, key: Key, why: Closed) {
        let Some(mut entry) = self.table.entries.borrow_mut().remove(key) else { return };
        if let Some(timer) = entry.timer.take() {
            self.timers.cancel(timer);
        }
        if let (Some(tls), Closed::ByUs) = (&mut entry.tls, why) {
            tls.close(&mut entry.wire);
            let _ = entry.socket.write(&entry.wire[entry.sent..]);
        }
        let _ = self.poll.registry().deregister(&mut entry.socket);
        self.shared.connections.fetch_sub(1, Ordering::Relaxed);
        self.shared.table.leave(entry.address);
        if let Some(conn) = entry.conn.take() {
            let id = ConnRef { shard: self.table.shard, id: key };
            self.service.closed(&mut self.shard, id, conn, why);
        }
    }
}

impl<S: Service> Entry<S> {
    /// Writes what it can; true if nothing is left.
    fn flush(&mut self) -> Result<bool, Closed> {
        if !self.out.is_empty() {
            match &mut self.tls {
                Some(tls) if tls.is_established() => {
                    tls.write(&self.out, &mut self.wire).map_err(|_| Closed::Tls)?;
                    self.out = Vec::new();
                }
                Some(_) => {}
                None if self.wire.is_empty() => self.wire = mem::take(&mut self.out),
                None => self.wire.append(&mut self.out),
            }
        }
        if self.flags.blocked {
            return Ok(false);
        }
        while self.sent < self.wire.len() {
            match self.socket.write(&self.wire[self.sent..]) {
                Ok(0) => return Err(Closed::Broken),
                Ok(written) => self.sent += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.flags.blocked = true;
                    return Ok(false);
                }
                Err(_) => return Err(Closed::Broken),
            }
        }
        self.wire = Vec::new();
        self.sent = 0;
        Ok(true)
    }
}
