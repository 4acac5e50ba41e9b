//! The way out: one write per connection and turn, encryption on the way, stalled and slow readers,
//! the start of TLS and the orderly end. Owns the order of what leaves: raw bytes before plaintext,
//! close_notify before the end of our side.

use std::io::{self, Write};
use std::net::Shutdown;
use std::sync::Arc;

use stdx::slab::Key;
use stdx::time::Moment;
use telemetry::Counter;

use crate::address::AddressKey;
use crate::core::Core;
use crate::driver::{Driver, arm};
use crate::limits::WRITE_CHUNK;
use crate::link::{Busy, Flags, Link};
use crate::listen::Speaks;
use crate::network::Settings;
use crate::record::Tls;
use crate::service::{Closed, Service};
use crate::unread::Counted;

/// Write calls per connection and turn; more only happens with a backlog.
const WRITES_PER_TURN: usize = 8;

/// How a flush ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flushed {
    /// Nothing is left.
    All,
    /// The socket takes no more for now.
    Blocked,
    /// There is more and the socket may take it: others have their turn first.
    More,
    /// Output waits for the end of the handshake.
    Waiting,
    Failed(Closed),
}

impl<S: Service> Driver<S> {
    /// Flushes every connection that has output.
    pub(crate) fn flush_all(&mut self) {
        let mut dirty = std::mem::take(&mut self.core.borrow_mut().dirty);
        for id in dirty.drain(..) {
            self.flush(id);
        }
        let core = &mut *self.core.borrow_mut();
        if core.dirty.is_empty() {
            core.dirty = dirty;
        }
    }

    /// Writes what the socket takes and sees to what follows from it.
    pub(crate) fn flush(&mut self, id: Key) {
        self.collect(id);
        let end = {
            let core = &mut *self.core.borrow_mut();
            let Some(link) = core.links.get_mut(id) else {
                return;
            };
            link.flags.clear(Flags::DIRTY);
            if link.flags.has(Flags::LINGERING) {
                return;
            }
            if link.flags.has(Flags::ABORT) {
                Some(Closed::ByUs)
            } else {
                let (flushed, written) = write_out(link, &mut self.buffers.sealed);
                if written > 0 {
                    core.stats.add(Counter::NetBytesOut, written);
                    core.stats.count(Counter::NetWrites);
                }
                self.flushed(core, id, flushed, written > 0)
            }
        };
        match end {
            None => arm(&mut self.core.borrow_mut(), &mut self.timers, id),
            Some(why) => {
                let aborted = self
                    .core
                    .borrow_mut()
                    .links
                    .get_mut(id)
                    .filter(|link| link.flags.has(Flags::ABORT))
                    // An abort does not wait for the peer's end.
                    .map(|link| link.flags.set(Flags::READ_CLOSED));
                if why == Closed::ByUs && aborted.is_none() {
                    self.say_goodbye(id);
                }
                self.finish(id, why);
            }
        }
    }

    /// Lets the service take the output of a connection that has no socket.
    fn collect(&mut self, id: Key) {
        let taken = {
            let core = &mut *self.core.borrow_mut();
            let Some(link) = core.links.get_mut(id) else {
                return;
            };
            if link.socket.is_some() || link.flags.has(Flags::ABORT | Flags::FLOODED) {
                return;
            }
            link.busy.as_mut().map(|busy| std::mem::take(&mut busy.out))
        };
        let Some(mut out) = taken.filter(|out| !out.is_empty()) else {
            return;
        };
        self.call(id, |service, cx, conn| service.collect(cx, conn, &mut out));
        if let Some(busy) = self.core.borrow_mut().busy(id) {
            // What the handler itself wrote comes behind what it left.
            out.append(&mut busy.out);
            busy.out = out;
        }
    }

    /// Decides what a flush means for its connection; `Some` ends it.
    fn flushed(
        &self,
        core: &mut Core<S::Control>,
        id: Key,
        flushed: Flushed,
        progress: bool,
    ) -> Option<Closed> {
        let limits = &self.settings.limits;
        if let Flushed::Failed(why) = flushed {
            return Some(why);
        }
        let link = core.links.get_mut(id)?;
        if flushed == Flushed::All && !link.flags.has(Flags::AWAITS_WRITTEN) {
            // As nearly always.
            if let Some(busy) = &mut link.busy {
                busy.unread = None;
            }
            core.release(id);
            return None;
        }
        if flushed == Flushed::All && link.flags.has(Flags::CLOSING) {
            return Some(Closed::ByUs);
        }
        let backlog = link.busy.as_ref().map_or(0, |busy| busy.backlog());
        let is_flooded = backlog > limits.backlog_max || link.flags.has(Flags::FLOODED);
        if is_flooded || !self.may_wait(link, backlog) {
            return Some(Closed::Backlog);
        }
        if flushed == Flushed::More {
            core.mark_dirty(id);
        }
        let link = core.links.get_mut(id)?;
        if backlog > limits.backlog_pause {
            link.flags.set(Flags::PAUSED_BACKLOG);
        }
        let closing = link.flags.has(Flags::CLOSING);
        let stalled = link.flags.has(Flags::STALLED);
        if flushed == Flushed::Blocked && (progress || !stalled) && !(closing && stalled) {
            link.flags.set(Flags::STALLED);
            let patience = if closing {
                limits.close_timeout
            } else {
                limits.stall_timeout
            };
            let at = self.now + patience;
            if let Some(busy) = core.busy(id) {
                busy.deadline = at;
            }
        } else if flushed == Flushed::All && stalled {
            link.flags.clear(Flags::STALLED);
            if let Some(busy) = &mut link.busy {
                busy.deadline = Moment::FAR;
            }
        }
        if backlog <= limits.backlog_pause / 2 {
            core.resume(id, Flags::PAUSED_BACKLOG);
            core.note_written(id);
        }
        core.release(id);
        None
    }

    /// Whether so much output of a connection may wait, beside that of the others of its address.
    fn may_wait(&self, link: &mut Link, backlog: usize) -> bool {
        let limits = &self.settings.limits;
        let Some(busy) = &mut link.busy else {
            return true;
        };
        if backlog <= limits.backlog_pause || link.address == AddressKey::EXEMPT {
            busy.unread = None;
            return true;
        }
        let table = &self.shared.unread;
        let counted = busy
            .unread
            .get_or_insert_with(|| Box::new(Counted::new(Arc::clone(table), link.address)));
        counted.set(backlog, limits.backlog_per_address_max)
    }

    /// The last bytes of our side: close_notify, then the end. RFC 6120 section 4.4 leaves it to
    /// the streams to have said goodbye before.
    fn say_goodbye(&mut self, id: Key) {
        let core = &mut *self.core.borrow_mut();
        let Some(link) = core.links.get_mut(id) else {
            return;
        };
        if let Some(tls) = &mut link.tls
            && tls.established()
        {
            let length = tls.close_notify(&mut self.buffers.sealed);
            // A peer whose window is full does without.
            if let Some(socket) = &mut link.socket {
                let _ = socket.write(&self.buffers.sealed[..length]);
            }
        }
    }

    /// Closes our side and waits for the peer's, with a bound.
    pub(crate) fn linger(&mut self, id: Key) {
        let until = self.now + self.settings.limits.linger;
        let closed = {
            let core = &mut *self.core.borrow_mut();
            let Some(link) = core.links.get_mut(id) else {
                return;
            };
            link.tls = None;
            link.deadline = Moment::FAR;
            link.flags.set(Flags::LINGERING);
            link.flags
                .clear(Flags::PAUSED | Flags::TO_RECEIVE | Flags::HANDSHAKE);
            let ended = |socket: &mio::net::TcpStream| socket.shutdown(Shutdown::Write);
            let closed = link.socket.as_ref().is_some_and(|s| ended(s).is_ok());
            if let Some(busy) = core.busy(id) {
                busy.reset(0);
                busy.deadline = until;
            }
            arm(core, &mut self.timers, id);
            core.enqueue(id);
            closed
        };
        if !closed {
            self.remove(id);
        }
    }
}

/// Starts TLS on a connection: what was written before goes out in the clear, what was read before
/// is forgotten.
pub(crate) fn begin_tls<C>(
    core: &mut Core<C>,
    settings: &Settings,
    now: Moment,
    id: Key,
    speaks: Speaks,
) {
    let tls = settings.tls.as_ref();
    let tls = tls.and_then(|tls| Tls::new(Arc::clone(tls.config(speaks))).ok());
    let Some(link) = core.links.get_mut(id) else {
        return;
    };
    if link.tls.is_some() {
        return;
    }
    let Some(tls) = tls else {
        // There is no certificate: the service should not have offered it.
        link.flags.set(Flags::CLOSING);
        return core.mark_dirty(id);
    };
    link.tls = Some(Box::new(tls));
    link.flags.set(Flags::HANDSHAKE);
    link.flags.clear(Flags::TO_RECEIVE);
    if let Some(busy) = core.busy(id) {
        let mut out = std::mem::take(&mut busy.out);
        busy.wire.extend(out.drain(..).skip(busy.out_sent));
        busy.out_sent = 0;
        busy.kept = Vec::new();
        busy.counted = None;
        busy.deadline = now + settings.limits.handshake_timeout;
    }
    core.mark_dirty(id);
}

/// Writes raw bytes first, then plaintext, encrypted where TLS is on.
fn write_out(link: &mut Link, sealed: &mut [u8]) -> (Flushed, u64) {
    let mut total = 0;
    let Some(busy) = &mut link.busy else {
        return (Flushed::All, 0);
    };
    let Some(socket) = &mut link.socket else {
        // Its service took what it wants; the rest waits for it to want more, or is nobody's.
        let all = busy.backlog() == 0 || link.flags.has(Flags::CLOSING);
        return (if all { Flushed::All } else { Flushed::Waiting }, 0);
    };
    for _ in 0..WRITES_PER_TURN {
        if busy.backlog() == 0 {
            return (Flushed::All, total);
        }
        if link.flags.has(Flags::BLOCKED) {
            return (Flushed::Blocked, total);
        }
        let result = if busy.wire_sent < busy.wire.len() {
            write_some(socket, &busy.wire[busy.wire_sent..]).map(|(written, full)| {
                busy.advance_wire(written);
                (written, full)
            })
        } else {
            match &mut link.tls {
                None => {
                    let result = write_some(socket, &busy.out[busy.out_sent..]);
                    result.inspect(|(written, _)| busy.advance_out(*written))
                }
                Some(tls) if tls.established() => match write_sealed(socket, tls, busy, sealed) {
                    Ok(result) => result,
                    Err(_) => return (Flushed::Failed(Closed::Tls), total),
                },
                Some(_) => return (Flushed::Waiting, total),
            }
        };
        match result {
            Ok((written, full)) => {
                total += written as u64;
                if full {
                    link.flags.set(Flags::BLOCKED);
                }
            }
            Err(_) => return (Flushed::Failed(Closed::Broken), total),
        }
    }
    (
        if busy.backlog() == 0 {
            Flushed::All
        } else {
            Flushed::More
        },
        total,
    )
}

/// One write; whether the socket is full now.
fn write_some(socket: &mut impl Write, bytes: &[u8]) -> io::Result<(usize, bool)> {
    loop {
        return match socket.write(bytes) {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => Ok((written, written < bytes.len())),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok((0, true)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
    }
}

/// Encrypts one chunk into the shard's buffer and writes it; what the socket does not take is kept.
fn write_sealed(
    socket: &mut impl Write,
    tls: &mut Tls,
    busy: &mut Busy,
    sealed: &mut [u8],
) -> Result<io::Result<(usize, bool)>, rustls::Error> {
    let end = busy.out.len().min(busy.out_sent + WRITE_CHUNK);
    let length = tls.seal(&busy.out[busy.out_sent..end], sealed)?;
    busy.advance_out(end - busy.out_sent);
    Ok(
        write_some(socket, &sealed[..length]).inspect(|(written, _)| {
            busy.wire.extend_from_slice(&sealed[*written..length]);
        }),
    )
}

impl Busy {
    fn advance_wire(&mut self, written: usize) {
        advance(&mut self.wire, &mut self.wire_sent, written);
    }

    fn advance_out(&mut self, written: usize) {
        advance(&mut self.out, &mut self.out_sent, written);
    }
}

/// Moves the mark of what is written; moves bytes only when that halves them, so that a slow reader
/// costs no quadratic copying.
fn advance(buffer: &mut Vec<u8>, sent: &mut usize, written: usize) {
    *sent += written;
    if *sent == buffer.len() {
        buffer.clear();
        *sent = 0;
    } else if *sent > buffer.len() / 2 {
        buffer.drain(..*sent);
        *sent = 0;
    }
}
