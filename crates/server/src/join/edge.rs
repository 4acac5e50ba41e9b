//! A client's connection at the node that has its socket. Owns what is passed on and what is
//! written, and the end of the stream if the home goes away; whose stream it is, the home says.

use actor::{Mail, Shard};
use net::{Closed, ConnRef, Cx};
use wire::{Joined, Part};
use xml::Event;

use super::kept::Kept;
use super::line::{Line, WINDOW};
use super::{Joining, KeeperMsg};
use crate::c2s::{C2sService, Conn, Framing};
use crate::ending::Abort;
use crate::message::control::Word;
use crate::web::{Connection, bosh, ws};

/// See the module.
pub(crate) struct Edge {
    pub(super) conn: Conn,
    pub(super) line: Line,
    /// What its client has said, while no home has answered that, if it may be said to another one.
    pub(super) joining: Option<Box<Joining>>,
    /// What it takes to outlive its home, if it can.
    pub(super) kept: Option<Box<Kept>>,
    /// What came of an element that is not whole, for a session over BOSH.
    partial: Vec<u8>,
    /// The last that its client was written is the success of SASL: it waits for the header of a
    /// stream that begins anew (RFC 6120 section 6.3.2).
    begins_anew: bool,
    /// Nothing more is passed on, either way.
    pub(super) is_over: bool,
}

/// An idle client of another node costs this, its socket and a place in [`crate::lines::Lines`].
const _: () = assert!(size_of::<Edge>() <= 288);

impl Edge {
    /// The stream that began here.
    pub(crate) fn stream(&mut self) -> &mut Conn {
        &mut self.conn
    }
}

impl C2sService {
    /// From here on it is another node's stream, if it is one.
    pub(crate) fn become_edge(&mut self, cx: &mut Cx<'_>, connection: &mut Connection) {
        let Connection::Stream(stream) = connection else {
            return;
        };
        let Some(line) = stream.take_line() else {
            return;
        };
        let stream = std::mem::replace(connection, Connection::Coming(None));
        let Connection::Stream(mut conn) = stream else {
            return;
        };
        self.home.lines.add(cx.id(), line.node);
        let joining = conn.take_joining();
        if let Framing::Bosh(session) = &mut conn.framing {
            session.passes_on();
        }
        *connection = Connection::Edge(Box::new(Edge {
            conn,
            line,
            joining,
            kept: None,
            partial: Vec::new(),
            begins_anew: false,
            is_over: false,
        }));
    }

    /// Bytes of the client.
    pub(crate) fn receive_edge(&mut self, cx: &mut Cx<'_>, edge: &mut Edge, input: &[u8]) -> usize {
        if edge.is_over {
            return input.len();
        }
        if self.end_if_banned(cx, &mut edge.conn) {
            edge.is_over = true;
            return input.len();
        }
        if edge.waits() || self.is_without_home() {
            cx.set_paused(true);
            return 0;
        }
        let used = match edge.conn.framing {
            Framing::Bosh(_) => self.take_payloads(cx, edge, input),
            Framing::Stream(_) | Framing::WebSocket(_) => self.pass(cx, &mut edge.line, input),
        };
        if let Some(kept) = &mut edge.kept {
            kept.sends(&input[..used], &self.home.options.joined);
        }
        let waits = used < input.len() || !edge.line.has_room() || has_rest(&edge.conn);
        cx.set_paused(waits);
        bosh::settle(cx, &mut edge.conn);
        used
    }

    /// Passes on what there is room for.
    pub(super) fn pass(&mut self, cx: &mut Cx<'_>, line: &mut Line, bytes: &[u8]) -> usize {
        let Some(cluster) = &self.home.options.cluster else {
            return 0;
        };
        let taken = line.send(cx.id(), (&*cluster.away, cx.now()), bytes, None);
        if line.refused.is_some() {
            self.try_later(cx, line);
        }
        taken
    }

    /// The elements of requests, one behind the other.
    fn take_payloads(&mut self, cx: &mut Cx<'_>, edge: &mut Edge, input: &[u8]) -> usize {
        let limits = xml::Limits {
            stanza_bytes: self.home.limits().stanza_bytes_max,
            ..xml::Limits::default()
        };
        let mut used = 0;
        self.pass_rest(cx, edge);
        while !has_rest(&edge.conn) {
            let Framing::Bosh(session) = &mut edge.conn.framing else {
                break;
            };
            let step = session
                .framer
                .next(&input[used..], &limits, &mut self.scratch);
            let step = match step {
                Ok(step) => step,
                Err(error) => {
                    edge.is_over = true;
                    let machine = &mut edge.conn.machine;
                    machine.handle_xml_error(error, cx.out(), &mut self.effects);
                    self.carry_out(cx, &mut edge.conn);
                    return input.len();
                }
            };
            used += step.consumed;
            let is_done = step.event.is_none() && step.consumed == 0;
            match step.event {
                Some(Event::Stanza(frame)) => {
                    let frame = frame.to_frame();
                    session.pass(frame.as_bytes());
                }
                Some(Event::Close) => {
                    session.framer.reset();
                    if session.is_terminating {
                        session.pass(b"</stream:stream>");
                    }
                }
                Some(Event::Open(_)) | None => {}
            }
            self.pass_rest(cx, edge);
            if is_done {
                break;
            }
        }
        used
    }

    /// What a session over BOSH wants to pass on.
    fn pass_rest(&mut self, cx: &mut Cx<'_>, edge: &mut Edge) {
        let Framing::Bosh(session) = &mut edge.conn.framing else {
            return;
        };
        let mut rest = std::mem::take(session.rest());
        if !rest.is_empty() {
            let taken = self.pass(cx, &mut edge.line, &rest);
            rest.drain(..taken);
            // Its memory is used again only as long as there is something in it.
            if !rest.is_empty()
                && let Framing::Bosh(session) = &mut edge.conn.framing
            {
                *session.rest() = rest;
            }
        }
    }

    /// The connections of this shard whose bytes a link did not take try again together.
    pub(super) fn try_later(&self, cx: &mut Cx<'_>, line: &mut Line) {
        if std::mem::replace(&mut line.waits, true) {
            return;
        }
        let mut later = self.home.lines.later.borrow_mut();
        later.push(cx.id());
        // Past what waits for the keeper if there is no room.
        if later.len() == 1 && cx.mail().send(self.keeper, KeeperMsg::Later).is_err() {
            let _ = cx.mail().send_priority(self.keeper, KeeperMsg::Later);
        }
    }

    /// Something of the home.
    pub(crate) fn told_edge(&mut self, cx: &mut Cx<'_>, edge: &mut Edge, word: Word) {
        match word {
            _ if edge.is_over => {}
            Word::Lost if edge.joining.is_some() => self.join_again(cx, edge),
            Word::Lost => self.lose_home(cx, edge),
            Word::NotTaken(number) => self.not_taken_in(cx, edge, number),
            Word::Mark => {}
            Word::TryAgain => {
                edge.line.waits = false;
                let since = edge.line.refused.unwrap_or(cx.now());
                let refused_max = self.home.options.joined.refused_max;
                match cx.now().saturating_since(since) > refused_max {
                    true => self.lose(cx, edge),
                    // Its link is another one by now, or it looks for a home.
                    false if edge.is_homeless() => {}
                    false => self.go_on(cx, edge),
                }
            }
            Word::Said(node, joined) => {
                if (node, joined.number) != (edge.line.node, edge.line.number) {
                    return self.home.line_is_gone(node, &joined);
                }
                self.hear_home(cx, edge, joined);
            }
        }
        bosh::settle(cx, &mut edge.conn);
    }

    fn hear_home(&mut self, cx: &mut Cx<'_>, edge: &mut Edge, joined: Joined) {
        let is_end = matches!(joined.said, Part::End { .. });
        if is_end && edge.joining.is_some() {
            return self.join_again(cx, edge);
        }
        if edge.line.far.is_none() && !is_end {
            edge.line.far = Some(joined.from);
            edge.joining = None;
            cx.set_deadline(None);
            self.ask_for_marks(cx, edge);
        }
        if is_end && edge.is_homeless() && edge.line.received == 0 {
            // It is no home of the account, or not yet.
            return self.ask_again(cx, edge);
        }
        match joined.said {
            Part::Room(bytes) => {
                edge.line.more_room(bytes);
                self.go_on(cx, edge);
            }
            Part::End { at, is_orderly } => edge.line.ends(at, is_orderly),
            Part::Marked {
                bytes,
                mark,
                answered,
            } => {
                let at = mark.at.saturating_sub(bytes.len() as u64);
                if edge.line.takes(at, bytes.len(), true).is_err() {
                    return self.lose(cx, edge);
                }
                self.write(cx, edge, &bytes);
                if let Some(kept) = &mut edge.kept {
                    kept.had_answers(answered);
                    kept.marked(mark);
                }
            }
            said @ (Part::Session { .. }
            | Part::Mark(_)
            | Part::Left { .. }
            | Part::Adopted { .. }
            | Part::Keeps) => return self.hear_of_session(cx, edge, said),
            Part::Bytes {
                at,
                is_whole,
                bytes,
            } => {
                if edge.line.takes(at, bytes.len(), is_whole).is_err() {
                    return self.lose(cx, edge);
                }
                self.write(cx, edge, &bytes);
            }
        }
        if edge.has_been_left() {
            return self.lose_home(cx, edge);
        }
        match edge.line.has_ended() {
            None => {}
            Some(true) => {
                edge.is_over = true;
                match edge.conn.framing {
                    // The session goes on until a request has been answered with the end.
                    Framing::Bosh(_) => cx.wake_output(),
                    Framing::Stream(_) | Framing::WebSocket(_) => cx.close_after_flush(),
                }
            }
            Some(false) => self.lose(cx, edge),
        }
    }

    /// Writes what came; room for it is given back once the client has taken it.
    fn write(&mut self, cx: &mut Cx<'_>, edge: &mut Edge, bytes: &[u8]) {
        if !bytes.is_empty() {
            edge.begins_anew = edge.line.is_whole && ends_with_success(bytes);
        }
        match edge.conn.framing {
            Framing::Stream(_) | Framing::WebSocket(_) => {
                cx.raw(|out| out.extend_from_slice(bytes));
            }
            Framing::Bosh(_) => {
                edge.partial.extend_from_slice(bytes);
                let end = match edge.line.is_whole {
                    true => edge.partial.len(),
                    false => whole_elements(&edge.partial),
                };
                if end == 0 {
                    // Nothing is written that could be taken.
                    return self.give_room(cx, edge);
                }
                cx.out().extend(edge.partial.drain(..end));
                edge.partial.shrink_to(WINDOW as usize);
            }
        }
        if edge.line.owes_room() {
            self.home.io.watch(cx.id());
        }
    }

    fn give_room(&self, cx: &mut Cx<'_>, edge: &mut Edge) {
        if let Some(cluster) = &self.home.options.cluster
            && edge.line.owes_room()
        {
            edge.line.give_room(cx.id(), &*cluster.away);
        }
    }

    /// The client has taken what was written.
    pub(crate) fn edge_written(&mut self, cx: &mut Cx<'_>, edge: &mut Edge) {
        if !edge.is_over {
            self.give_room(cx, edge);
        }
    }

    /// There may be room for what waits.
    pub(super) fn go_on(&mut self, cx: &mut Cx<'_>, edge: &mut Edge) {
        self.send_kept(cx, edge);
        if edge.waits() {
            return;
        }
        self.pass_rest(cx, edge);
        cx.set_paused(!edge.line.has_room() || has_rest(&edge.conn));
    }

    /// The home is gone, or was never there: the client comes again.
    pub(super) fn lose(&mut self, cx: &mut Cx<'_>, edge: &mut Edge) {
        edge.is_over = true;
        if edge.begins_anew {
            edge.conn.machine.begins_anew();
        }
        if edge.line.far.is_none() && edge.kept.is_none() {
            let user = edge.conn.machine.claimed().map(str::to_owned);
            self.unreachable(cx, &mut edge.conn, user.as_deref());
        } else if edge.line.is_whole || matches!(edge.conn.framing, Framing::Bosh(_)) {
            self.abort(cx, &mut edge.conn, Abort::Moved);
        } else {
            // In the middle of an element no other one can be said.
            cx.close_after_flush();
        }
        self.carry_out(cx, &mut edge.conn);
    }

    /// Its deadline has come.
    pub(crate) fn edge_overdue(&mut self, cx: &mut Cx<'_>, edge: &mut Edge) {
        let is_due = match edge.conn.framing {
            Framing::Bosh(_) => self.session_is_due(cx, &mut edge.conn),
            Framing::Stream(_) | Framing::WebSocket(_) => true,
        };
        if edge.is_homeless() && !edge.is_over {
            self.look_for_home(cx, edge);
        } else if edge.joining.is_some() && is_due && !edge.is_over {
            self.join_now(cx, edge);
        } else if is_due && edge.line.far.is_some() {
            edge.forget_without_session();
        } else if is_due && edge.line.far.is_none() && !edge.is_over {
            self.lose(cx, edge);
        }
        if matches!(edge.conn.framing, Framing::Bosh(_)) {
            self.act_for_session(cx, &mut edge.conn);
        }
    }

    /// A session over BOSH is told something.
    pub(crate) fn told_edge_session(
        &mut self,
        cx: &mut Cx<'_>,
        edge: &mut Edge,
        msg: crate::message::web::Control,
    ) {
        self.told_session(cx, &mut edge.conn, msg);
        if !edge.is_over {
            self.go_on(cx, edge);
        }
    }

    /// The node stops.
    pub(crate) fn drain_edge(&mut self, cx: &mut Cx<'_>, edge: &mut Edge) {
        if !edge.is_over {
            edge.is_over = true;
            if edge.line.is_whole || matches!(edge.conn.framing, Framing::Bosh(_)) {
                self.abort(cx, &mut edge.conn, Abort::Shutdown);
            } else {
                cx.close_after_flush();
            }
            match edge.conn.framing {
                Framing::WebSocket(_) => ws::say_goodbye(cx, &mut self.effects),
                Framing::Stream(_) | Framing::Bosh(_) => self.carry_out(cx, &mut edge.conn),
            }
        }
        bosh::drain(cx, &mut edge.conn);
    }

    /// The client is gone: the home hears of it behind everything that the client said.
    pub(crate) fn edge_closed(
        &mut self,
        shard: &mut Shard,
        id: ConnRef,
        mut edge: Box<Edge>,
        why: Closed,
    ) {
        self.session_closed(shard, &mut edge.conn, why);
        self.home.lines.remove(id);
        if let Some(cluster) = &self.home.options.cluster
            && edge.line.has_ended().is_none()
        {
            edge.line.end(id, &*cluster.away, false);
        }
    }
}

/// Something waits that is passed on before anything else is looked at.
fn has_rest(conn: &Conn) -> bool {
    matches!(&conn.framing, Framing::Bosh(session) if session.has_rest())
}

/// Bytes of the elements that are whole.
fn whole_elements(written: &[u8]) -> usize {
    let mut end = 0;
    while let Some(length) = xml::element_end(&written[end..]) {
        end += length;
    }
    end
}

/// Whether the last element is the success of SASL, which has text or none.
fn ends_with_success(bytes: &[u8]) -> bool {
    let last = bytes.iter().rposition(|byte| *byte == b'<');
    let tag = last.map_or(&b""[..], |at| &bytes[at..]);
    tag == b"</success>" || tag.starts_with(b"<success ") && tag.ends_with(b"/>")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: what is cut in the middle of an element is passed on up to there, and the beginning of
    /// a stream not at all.
    #[test]
    fn elements_are_passed_on_whole() {
        assert_eq!(whole_elements(b""), 0);
        assert_eq!(whole_elements(b"<a><b/></a>"), 11);
        assert_eq!(whole_elements(b"<a/><b x='>'/><c><d/>"), 14);
        assert_eq!(whole_elements(b"<a/><b x='"), 4);
        assert_eq!(whole_elements(b"<stream:stream to='x'><a/>"), 0);
    }
}
