//! The way in: from a readable socket through the balancer's header and TLS to the service. Owns
//! the rules of edge-triggered reading: a short read ends it, a full one is queued again, a pause
//! is lifted by a queue and never by a new edge.

use std::io::{self, Read};
use std::mem;

use stdx::slab::Key;
use telemetry::Counter;

use crate::driver::{Driver, arm};
use crate::limits::LINGER_BYTES_MAX;
use crate::link::Flags;
use crate::service::{Closed, Service};

/// What a look at the socket gave.
enum Got {
    /// So many bytes in the shard's read buffer.
    Bytes(usize),
    /// Bytes that wait in the connection come first.
    Kept,
    Nothing,
    End(Closed),
}

impl<S: Service> Driver<S> {
    /// Gives one connection of the queue its share of this turn.
    pub(crate) fn read(&mut self, id: Key) {
        match self.look(id) {
            Got::Nothing => return,
            Got::Kept => self.receive(id, &[]),
            Got::End(why) => return self.end_of_input(id, why),
            Got::Bytes(length) => {
                let mut buffer = mem::take(&mut self.buffers.read);
                self.input(id, &mut buffer[..length]);
                self.buffers.read = buffer;
            }
        }
        let core = &mut *self.core.borrow_mut();
        core.release(id);
        core.enqueue(id);
        arm(core, &mut self.timers, id);
    }

    fn look(&mut self, id: Key) -> Got {
        let limits = &self.settings.limits;
        let core = &mut *self.core.borrow_mut();
        let Some(link) = core.links.get_mut(id) else {
            return Got::Nothing;
        };
        link.flags.clear(Flags::QUEUED);
        let flags = link.flags;
        if flags.has(Flags::LINGERING) {
            return Self::discard(&mut self.buffers.read, link);
        }
        if flags.has(Flags::PAUSED | Flags::LEAVING | Flags::ABORT | Flags::FLOODED) {
            return Got::Nothing;
        }
        if flags.has(Flags::TO_RECEIVE) {
            link.flags.clear(Flags::TO_RECEIVE);
            return Got::Kept;
        }
        if !flags.has(Flags::READABLE) {
            return Got::Nothing;
        }
        if flags.has(Flags::HANDSHAKE) {
            if self.handshakes_left == 0 {
                // The next turn has a new budget.
                core.enqueue(id);
                return Got::Nothing;
            }
            self.handshakes_left -= 1;
        }
        let room = limits.read_per_turn.min(self.buffers.read.len());
        let Some(socket) = &mut link.socket else {
            return Got::Nothing;
        };
        let result = socket.read(&mut self.buffers.read[..room]);
        let Some(link) = core.links.get_mut(id) else {
            return Got::Nothing;
        };
        match result {
            Ok(0) => Got::End(Closed::ByPeer),
            Ok(length) => {
                core.stats.add(Counter::NetBytesIn, length as u64);
                core.stats.count(Counter::NetReads);
                if length < room && !flags.has(Flags::READ_CLOSED) {
                    // What comes after a short read makes a new edge.
                    link.flags.clear(Flags::READABLE);
                }
                if let Some(rate) = limits.rate {
                    let bytes = u32::try_from(length).unwrap_or(u32::MAX);
                    core.charge(id, rate.time(bytes), limits.rate, self.now);
                }
                Got::Bytes(length)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                link.flags.clear(Flags::READABLE);
                Got::Nothing
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                core.enqueue(id);
                Got::Nothing
            }
            Err(_) => Got::End(Closed::Broken),
        }
    }

    /// Reads on after our own end, so that the peer gets our last bytes before a reset: closing a
    /// socket with unread input would cut them off.
    fn discard(buffer: &mut [u8], link: &mut crate::link::Link) -> Got {
        if !link.flags.has(Flags::READABLE) {
            return Got::Nothing;
        }
        let Some(socket) = &mut link.socket else {
            return Got::End(Closed::ByPeer);
        };
        match socket.read(buffer) {
            Ok(0) => Got::End(Closed::ByPeer),
            Ok(length) => {
                if length < buffer.len() && !link.flags.has(Flags::READ_CLOSED) {
                    link.flags.clear(Flags::READABLE);
                }
                let Some(busy) = &mut link.busy else {
                    return Got::End(Closed::ByPeer);
                };
                busy.discarded += length;
                let enough = busy.discarded > LINGER_BYTES_MAX;
                if enough {
                    Got::End(Closed::ByPeer)
                } else {
                    Got::Bytes(0)
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                link.flags.clear(Flags::READABLE);
                Got::Nothing
            }
            Err(_) => Got::End(Closed::Broken),
        }
    }

    fn end_of_input(&mut self, id: Key, why: Closed) {
        let flags = self
            .core
            .borrow()
            .links
            .get(id)
            .map(|link| link.flags)
            .unwrap_or_default();
        if flags.has(Flags::LINGERING) {
            return self.remove(id);
        }
        if why == Closed::ByPeer {
            // A peer that only closed its sending side still gets what was meant for it.
            if let Some(link) = self.core.borrow_mut().links.get_mut(id) {
                link.flags.set(Flags::READ_CLOSED);
            }
            self.flush(id);
        }
        self.finish(
            id,
            if flags.has(Flags::CLOSING) {
                Closed::ByUs
            } else {
                why
            },
        );
    }

    /// Bytes as they came from the socket.
    fn input(&mut self, id: Key, input: &mut [u8]) {
        let flags = self
            .core
            .borrow()
            .links
            .get(id)
            .map(|link| link.flags)
            .unwrap_or_default();
        if input.is_empty() || flags.has(Flags::LINGERING | Flags::CLOSING) {
            // Nobody listens any more; the socket is read only to see its end.
            return;
        }
        if flags.has(Flags::PROXY) {
            if let Some(mut rest) = self.proxy_header(id, input) {
                self.beyond_header(id, &mut rest);
            }
            return;
        }
        self.beyond_header(id, input);
    }

    fn beyond_header(&mut self, id: Key, input: &mut [u8]) {
        if input.is_empty() {
            return;
        }
        let encrypted = self
            .core
            .borrow()
            .links
            .get(id)
            .is_some_and(|link| link.tls.is_some());
        if encrypted {
            self.ciphertext(id, input);
        } else {
            self.receive(id, input);
        }
    }

    fn ciphertext(&mut self, id: Key, input: &mut [u8]) {
        let mut plain = mem::take(&mut self.buffers.plain);
        plain.clear();
        let result = {
            let core = &mut *self.core.borrow_mut();
            let Some(link) = core.links.get_mut(id) else {
                return;
            };
            let Some(mut tls) = link.tls.take() else {
                return;
            };
            let mut wire = Vec::new();
            let result = tls.open(input, &mut plain, &mut wire);
            let info = result.as_ref().is_ok_and(|progress| progress.established);
            let info = info.then(|| tls.info());
            if let Some(link) = core.links.get_mut(id) {
                link.tls = Some(tls);
                if info.is_some() {
                    link.flags.clear(Flags::HANDSHAKE);
                }
            }
            if !wire.is_empty()
                && let Some(busy) = core.busy(id)
            {
                busy.wire.append(&mut wire);
            }
            if info.is_some() {
                core.stats.count(Counter::NetTlsHandshakes);
                if let Some(busy) = core.busy(id) {
                    busy.deadline = stdx::time::Moment::FAR;
                }
            }
            core.mark_dirty(id);
            result.map(|progress| (progress, info))
        };
        match result {
            Err(_) => {
                // The alert, if there is one, goes out first.
                self.flush(id);
                self.finish(id, Closed::Tls);
            }
            Ok((progress, info)) => {
                if let Some(info) = info {
                    self.call(id, |service, cx, conn| {
                        service.tls_established(cx, conn, &info);
                    });
                }
                if !plain.is_empty() {
                    self.receive(id, &plain);
                }
                let may_keep = self.core.borrow_mut().may_keep_records(id);
                if !may_keep {
                    return self.finish(id, Closed::Overflow);
                }
                if progress.closed {
                    self.end_of_input(id, Closed::ByPeer);
                }
            }
        }
        plain.clear();
        plain.shrink_to(crate::limits::READ_BUFFER);
        self.buffers.plain = plain;
    }

    /// Plaintext for the service, behind what it left the last time.
    fn receive(&mut self, id: Key, fresh: &[u8]) {
        let mut kept = {
            let core = &mut *self.core.borrow_mut();
            let Some(link) = core.links.get_mut(id) else {
                return;
            };
            if link.flags.has(Flags::DEAF) {
                return;
            }
            link.busy
                .as_mut()
                .map(|busy| mem::take(&mut busy.kept))
                .unwrap_or_default()
        };
        let joined = !kept.is_empty();
        if joined {
            kept.extend_from_slice(fresh);
        }
        let input = if joined { &kept[..] } else { fresh };
        if input.is_empty() {
            return;
        }
        let length = input.len();
        let used = self.call(id, |service, cx, conn| service.receive(cx, conn, input));
        let Some(used) = used.map(|used| used.min(length)) else {
            return;
        };
        let overflow = {
            let core = &mut *self.core.borrow_mut();
            let Some(link) = core.links.get_mut(id) else {
                return;
            };
            // Bytes behind a request for TLS came unprotected: they are never looked at.
            let unwanted = Flags::CLOSING | Flags::ABORT | Flags::HANDSHAKE;
            if used == length || link.flags.has(unwanted) {
                if joined {
                    core.may_keep(id);
                }
                return;
            }
            let paused = link.flags.has(Flags::PAUSED | Flags::LEAVING);
            if paused {
                link.flags.set(Flags::TO_RECEIVE);
            }
            if joined {
                kept.drain(..used);
                if kept.capacity() > 4 * kept.len() + 4096 {
                    kept.shrink_to_fit();
                }
            } else {
                kept = fresh[used..].to_vec();
            }
            let is_long = kept.len() > self.settings.limits.incomplete_max;
            if let Some(busy) = core.busy(id) {
                busy.kept = kept;
            }
            let is_too_much = !core.may_keep(id);
            // What waits for its turn is as much as was read while there was room.
            !paused && (is_long || is_too_much)
        };
        if overflow {
            self.finish(id, Closed::Overflow);
        }
    }
}
