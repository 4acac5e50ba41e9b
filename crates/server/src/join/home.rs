//! A client's connection at its account's home, without a socket: that is at another node. Owns
//! what is taken from there and sent there; the stream is `c2s`, as of any other connection.

use actor::{Mail as _, Name, Shard};
use net::websocket::Messages;
use net::{Closed, ConnRef, Cx};
use wire::{Adopt, Carrier, Kind, Part};
use xml::{Event, Framer};

use super::line::{Line, WINDOW};
use super::{Comer, Origin};
use crate::address;
use crate::away::NodeId;
use crate::c2s::{C2sService, Conn, Framing};
use crate::ending::Abort;
use crate::lines::Marks;
use crate::message::control::{Control, TakenOver, Word};
use crate::message::{Introduced, UserMsg};
use crate::web::{Connection, ws};

/// See the module.
pub(crate) struct Far {
    conn: Conn,
    line: Line,
    /// Bytes that came and were not looked at.
    unused: usize,
    /// What was left of the last that was looked at waits for more of the client, and for nothing
    /// here.
    is_free: bool,
    /// The end of the stream has been written; it is sent behind what waits.
    is_closing: bool,
    /// The other node was told that nothing follows.
    is_over: bool,
    /// It comes with a session from a home before this one, and the account's actor has not said
    /// yet whether it may go on. What the other node sends begins behind this stanza.
    comes_behind: Option<u32>,
    /// This home is none any more: the other node looks for the next one, and is told how many
    /// stanzas are done for certain.
    leaves: Option<Option<u32>>,
}

/// An idle client that came to another node costs this, what any connection costs without a
/// socket, and a place in [`super::Lines`].
const _: () = assert!(size_of::<Far>() <= 288);

impl C2sService {
    /// A client that came to another node: it is heard again from the beginning of its stream,
    /// whose answers it has had.
    pub(crate) fn come(&mut self, cx: &mut Cx<'_>, comer: Comer) -> Connection {
        let node = comer.node;
        let join = match comer.from {
            Origin::Stream(join) => join,
            Origin::Home(adopt) => return self.come_from_home(cx, node, *adopt),
        };
        let framing = match join.carrier {
            Carrier::WebSocket => Framing::WebSocket(Messages::default()),
            Carrier::Socket | Carrier::Bosh => Framing::Stream(Framer::new()),
        };
        let is_web = join.carrier != Carrier::Socket;
        let mut conn = self.begin_as(cx, join.address, framing, is_web);
        conn.come_from_afar();
        if let Some(exporter) = join.tls {
            conn.machine.tls_established(exporter);
        }
        let line = Line::new(node, join.number, Some(join.from), WINDOW);
        self.home.lines.add_far(cx.id(), node, Marks::default());
        self.heard_from = 0;
        if let Some(cluster) = &self.home.options.cluster {
            line.greet(cx.id(), &*cluster.away);
        }
        let (last, before) = match join.elements.split_last() {
            Some((last, before)) => (&last[..], before),
            None => (&[][..], &[][..]),
        };
        self.hear(cx, &mut conn, &join.header);
        for element in before {
            self.hear(cx, &mut conn, element);
        }
        cx.out().clear();
        if join.carrier == Carrier::WebSocket {
            cx.encode_from_here();
        }
        if self.is_banned(cx, join.address) {
            self.abort(cx, &mut conn, Abort::Banned);
            self.carry_out(cx, &mut conn);
        } else {
            self.hear(cx, &mut conn, last);
        }
        let mut far = Far {
            conn,
            line,
            unused: 0,
            is_free: true,
            is_closing: false,
            is_over: false,
            comes_behind: None,
            leaves: None,
        };
        self.settle_far(cx, &mut far);
        Connection::Far(Box::new(far))
    }

    /// A connection that outlived the home of its account comes with a session: the account's actor
    /// knows whether it may go on.
    fn come_from_home(&mut self, cx: &mut Cx<'_>, node: NodeId, mut adopt: Adopt) -> Connection {
        let is_web = adopt.carrier == Carrier::WebSocket;
        let framing = match is_web {
            true => Framing::WebSocket(Messages::default()),
            false => Framing::Stream(Framer::new()),
        };
        let mut conn = self.begin_as(cx, adopt.address, framing, is_web);
        conn.come_from_afar();
        let mut marks = Marks::default();
        let had_answers = std::mem::take(&mut adopt.answered);
        marks.outlived(&adopt.header, adopt.counts.inbound, had_answers);
        let line = Line::new(node, adopt.number, Some(adopt.from), WINDOW);
        self.home.lines.add_far(cx.id(), node, marks);
        let is_open = match &mut conn.framing {
            Framing::Stream(framer) => {
                let limits = xml::Limits::default();
                let step = framer.next(&adopt.header, &limits, &mut self.scratch);
                step.is_ok_and(|step| matches!(step.event, Some(Event::Open(_))))
            }
            Framing::WebSocket(_) | Framing::Bosh(_) => true,
        };
        if is_web {
            cx.encode_from_here();
        }
        let (user, behind) = (adopt.user.clone(), adopt.counts.inbound);
        let domain = address::domain(&user).to_owned();
        conn.machine.await_adoption(user.to_string(), domain);
        let mut far = Far {
            conn,
            line,
            unused: 0,
            is_free: true,
            is_closing: false,
            is_over: false,
            comes_behind: Some(behind),
            leaves: None,
        };
        if self.is_banned(cx, adopt.address) {
            self.abort(cx, &mut far.conn, Abort::Banned);
            self.carry_out(cx, &mut far.conn);
        } else if !is_open || !self.ask_to_go_on(cx, &user, adopt) {
            self.not_taken_over(cx, &mut far);
        }
        self.settle_far(cx, &mut far);
        Connection::Far(Box::new(far))
    }

    fn ask_to_go_on(&self, cx: &mut Cx<'_>, user: &Name, adopt: Adopt) -> bool {
        let introduced = UserMsg::Introduced(Box::new(Introduced {
            conn: cx.id(),
            proof: adopt.token,
            counts: adopt.counts,
            done: adopt.done,
            unanswered: Vec::new(),
            closed: None,
        }));
        let shard = self.home.place.shard(user);
        cx.mail().send_named(shard, user, introduced).is_ok()
    }

    /// The other node asks again, here or elsewhere.
    fn not_taken_over(&self, cx: &mut Cx<'_>, far: &mut Far) {
        far.is_over = true;
        if let Some(cluster) = &self.home.options.cluster {
            far.line.end(cx.id(), &*cluster.away, false);
        }
        cx.abort();
    }

    /// The account's actor goes on with the session.
    fn taken_over(&mut self, cx: &mut Cx<'_>, far: &mut Far, by: TakenOver) {
        let Some(behind) = far.comes_behind.take() else {
            return;
        };
        let inbound = by.inbound;
        let skip = inbound.wrapping_sub(behind);
        self.go_on_with(cx, &mut far.conn, by, skip);
        let id = cx.id();
        if let Some(cluster) = &self.home.options.cluster {
            far.line.greet(id, &*cluster.away);
            let adopted = Part::Adopted { inbound };
            far.line.say(id, &*cluster.away, adopted);
        }
    }

    /// This home is none any more, and the other node knows what to do.
    fn leave_far(&mut self, cx: &mut Cx<'_>, far: &mut Far, done: Option<u32>) {
        if far.is_closing || far.line.is_ending() {
            return;
        }
        far.is_closing = true;
        far.leaves = Some(done);
        // An edge on this machine takes what waits, whatever its client does.
        let beyond = self.home.options.joined.beyond_window_max;
        far.line.more_room(beyond);
        let backlog = self.home.io.backlog(cx.id()).unwrap_or_default();
        if backlog == 0 && cx.out().is_empty() {
            return self.say_the_end(cx, far);
        }
        cx.wake_output();
        cx.set_deadline(Some(cx.now() + self.home.options.joined.end_max));
    }

    /// Everything that was written is sent: up to where that is, and what was heard.
    fn send_mark(&self, id: ConnRef, far: &Far) {
        let (session, mark) = self.home.lines.news(id, far.line.sent);
        let Some(cluster) = &self.home.options.cluster else {
            return;
        };
        if let Some(said) = session.or(mark.map(Part::Mark)) {
            far.line.say(id, &*cluster.away, said);
        }
    }

    /// A header or an element, alone.
    fn hear(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, bytes: &[u8]) {
        match conn.framing {
            Framing::WebSocket(_) => {
                let limits = self.xml_limits(conn);
                self.take_message(cx, conn, bytes, &limits, bytes.len());
                Self::pause_or_resume(cx, conn);
            }
            Framing::Stream(_) | Framing::Bosh(_) => {
                self.take_in(cx, conn, bytes);
            }
        }
    }

    /// What the client said.
    pub(crate) fn receive_far(&mut self, cx: &mut Cx<'_>, far: &mut Far, input: &[u8]) -> usize {
        if far.is_closing {
            return input.len();
        }
        if far.conn.has_session() && self.home.is_elsewhere(far.conn.user_name()) {
            // What is not looked at goes to the next home: it is about to be told.
            cx.set_paused(true);
            return 0;
        }
        self.heard_from = far.line.received - far.unused as u64;
        let used = self.receive_stream(cx, &mut far.conn, input);
        far.unused = far.unused.saturating_sub(used);
        // What waits for something here keeps its room.
        far.is_free = used == input.len() || Self::may_read(cx, &far.conn);
        if far.is_free
            && far.line.owes_room()
            && let Some(cluster) = &self.home.options.cluster
        {
            far.line.give_room(cx.id(), &*cluster.away);
        }
        if far.is_free && far.line.has_ended().is_some() {
            cx.abort();
        }
        self.settle_far(cx, far);
        used
    }

    /// The end of a stream waits until the other node has room for it.
    fn settle_far(&mut self, cx: &mut Cx<'_>, far: &mut Far) {
        if !cx.put_off_close() || far.is_closing {
            return;
        }
        far.is_closing = true;
        let backlog = self.home.io.backlog(cx.id()).unwrap_or_default();
        if backlog == 0 && cx.out().is_empty() {
            return self.say_the_end(cx, far);
        }
        cx.wake_output();
        cx.set_deadline(Some(cx.now() + self.home.options.joined.end_max));
    }

    fn say_the_end(&mut self, cx: &mut Cx<'_>, far: &mut Far) {
        far.is_over = true;
        self.send_mark(cx.id(), far);
        if let Some(cluster) = &self.home.options.cluster {
            match far.leaves {
                Some(inbound) => {
                    let at = far.line.sent;
                    let left = Part::Left { at, inbound };
                    far.line.say(cx.id(), &*cluster.away, left);
                }
                None => far.line.end(cx.id(), &*cluster.away, true),
            }
        }
        cx.close_after_flush();
    }

    /// Something for the stream of a client that is elsewhere.
    pub(crate) fn control_far(&mut self, cx: &mut Cx<'_>, far: &mut Far, msg: Control) {
        match msg {
            Control::TakenOver(by) => return self.taken_over(cx, far, *by),
            Control::Left(done) => return self.leave_far(cx, far, done),
            Control::Abort(Abort::Moved) if far.comes_behind.is_some() => {
                return self.not_taken_over(cx, far);
            }
            // It is on its way already.
            Control::Abort(_) if far.leaves.is_some() => return,
            msg => self.told(cx, &mut far.conn, msg),
        }
        self.settle_far(cx, far);
    }

    /// Something of the node that has the client.
    pub(crate) fn told_far(&mut self, cx: &mut Cx<'_>, far: &mut Far, word: Word) {
        let since = far.line.refused.unwrap_or(cx.now());
        let refused_max = self.home.options.joined.refused_max;
        if matches!(word, Word::TryAgain) {
            far.line.waits = false;
        }
        match word {
            Word::TryAgain if cx.now().saturating_since(since) > refused_max => cx.abort(),
            Word::TryAgain => cx.wake_output(),
            Word::Lost => cx.abort(),
            Word::NotTaken(_) => {}
            Word::Mark => {
                let backlog = self.home.io.backlog(cx.id()).unwrap_or_default();
                if backlog == 0 && cx.out().is_empty() && !far.is_over {
                    self.send_mark(cx.id(), far);
                }
            }
            Word::Said(node, joined) => {
                if (node, joined.number) != (far.line.node, far.line.number) {
                    return self.home.line_is_gone(node, &joined);
                }
                self.hear_edge(cx, far, joined.said);
            }
        }
    }

    fn hear_edge(&mut self, cx: &mut Cx<'_>, far: &mut Far, said: Part) {
        match said {
            Part::Room(bytes) => {
                far.line.more_room(bytes);
                return cx.wake_output();
            }
            Part::Bytes {
                at,
                is_whole,
                bytes,
            } => {
                if far.line.takes(at, bytes.len(), is_whole).is_err() {
                    return cx.abort();
                }
                if !far.is_closing {
                    far.unused += bytes.len();
                    far.is_free = false;
                    cx.feed(&bytes);
                }
            }
            Part::Keeps => self.home.lines.mark(cx.id(), Marks::is_kept_by_edge),
            // Homes say these, and nobody else.
            Part::Marked { .. }
            | Part::Session { .. }
            | Part::Mark(_)
            | Part::Left { .. }
            | Part::Adopted { .. } => {}
            Part::End { at, .. } => {
                far.line.ends(at, false);
                // What is written from here on is nobody's.
                cx.wake_output();
                cx.set_deadline(Some(cx.now() + self.home.options.joined.end_max));
            }
        }
        let is_heard = far.unused == 0 || far.is_free || far.is_closing;
        if is_heard && far.line.has_ended().is_some() {
            cx.abort();
        }
    }

    /// What the stream wrote, as far as the other node has room for it.
    pub(crate) fn collect_far(&mut self, cx: &mut Cx<'_>, far: &mut Far, out: &mut Vec<u8>) {
        if far.line.is_ending() || far.is_over {
            return out.clear();
        }
        let Some(cluster) = &self.home.options.cluster else {
            return out.clear();
        };
        let mut mark = self.home.lines.mark_of(cx.id());
        let has_mark = mark.is_some();
        let away = (&*cluster.away, cx.now());
        if let Some((_, answered)) = &mut mark
            && wire::version_at(away.0.level()) < Kind::JoinedMarkedAnswers.since()
        {
            answered.clear();
        }
        let sent = far.line.send(cx.id(), away, out, mark);
        out.drain(..sent);
        if far.line.refused.is_some() {
            self.try_later(cx, &mut far.line);
        }
        if out.is_empty() {
            let at = far.line.sent;
            self.home.lines.marked(cx.id(), at, has_mark);
            self.send_mark(cx.id(), far);
        }
        if out.is_empty() && far.is_closing {
            self.say_the_end(cx, far);
        }
    }

    pub(crate) fn far_overdue(&mut self, cx: &mut Cx<'_>, far: &mut Far) {
        if far.is_closing || far.line.is_ending() {
            return cx.abort();
        }
        self.overdue(cx, &mut far.conn);
        self.settle_far(cx, far);
    }

    /// The node stops. What can outlive it does: the next home finds what is recorded, and is told
    /// what else is done.
    pub(crate) fn drain_far(&mut self, cx: &mut Cx<'_>, far: &mut Far) {
        if self.home.lines.can_outlive(cx.id()) {
            return self.leave_far(cx, far, None);
        }
        self.abort(cx, &mut far.conn, Abort::Shutdown);
        match far.conn.framing {
            Framing::WebSocket(_) => ws::say_goodbye(cx, &mut self.effects),
            Framing::Stream(_) | Framing::Bosh(_) => self.carry_out(cx, &mut far.conn),
        }
        self.settle_far(cx, far);
    }

    /// It is over, for whatever reason.
    pub(crate) fn far_closed(
        &mut self,
        shard: &mut Shard,
        id: ConnRef,
        far: Box<Far>,
        why: Closed,
    ) {
        self.home.lines.remove(id);
        if let Some(cluster) = &self.home.options.cluster
            && !far.is_over
        {
            far.line.end(id, &*cluster.away, false);
        }
        self.gone(shard, id, far.conn, why);
    }
}
