//! Requests of sessions over BOSH (XEP-0124) that came to another node than their session: passed
//! on to it as they are, and answered from there. Owns how session ids name nodes, what a request
//! waits for here, and how one from another node is read; what it means says its session.
//!
//! ```text
//! client ── request ─▶ node that it came to ── link ─▶ node of the session: as if it came there
//!        ◀─ answer ──  waits, with a bound  ◀─ link ──
//! ```
//!
//! | event | here | at the session's node |
//! |---|---|---|
//! | the link takes no more, or too many wait | closed without an answer | – |
//! | the shard of the session has no room for it | closed without an answer | says so |
//! | the client is gone | says so | the answer is remembered for the request made again |
//! | the answer does not fit into the link | closed without an answer | likewise |
//! | no answer in time; the other process or its link is gone | closed without an answer | likewise |
//! | the node that the id names is none, or cannot be reached | `item-not-found` | – |
//! | it was held up until its answer is forgotten | – | `item-not-found`; the session goes on |
//!
//! A request that is not answered is made again (section 14.3), to any node: the session knows it
//! by its id. So what is lost on the way needs no memory here.

use actor::{Mail, ShardId};
use net::{ConnRef, Cx};
use stdx::slab::Key;
use stdx::time::Moment;
use telemetry::Counter;
use wire::{OfRequest, Packet, Passed, RequestAt};
use xmpp::bosh::{Condition, Request, refusal};

use crate::away::{Away, NodeId, Taken};
use crate::c2s::C2sService;
use crate::guard::Guard;
use crate::join::{at, conn_ref};
use crate::message::control::Control as Told;
use crate::message::web::{At, Control, FromAfar, Incoming, Ticket};
use crate::web::http::Http;
use crate::web::{body_max, bosh, control};

/// The id of a session: its node, if that is one of several, where it is there, and a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SessionId {
    /// The node, as [`store::SlotKey::node`] hides its name.
    pub(super) node: Option<u64>,
    pub(super) conn: ConnRef,
    pub(super) token: String,
}

impl SessionId {
    /// As clients are told it. A node that knows of no other ones finds no session in one with a
    /// node in front.
    pub(super) fn text(&self) -> String {
        let (shard, id) = (self.conn.shard.index(), self.conn.id);
        let node = self.node.map(|node| format!("n{node:x}."));
        let node = node.unwrap_or_default();
        let token = &self.token;
        format!("{node}{shard:x}.{:x}.{:x}.{token}", id.index, id.generation)
    }

    pub(super) fn parse(text: &str) -> Option<SessionId> {
        let (node, rest) = match text.strip_prefix('n') {
            None => (None, text),
            Some(text) => {
                let (node, rest) = text.split_once('.')?;
                (Some(u64::from_str_radix(node, 16).ok()?), rest)
            }
        };
        let mut parts = rest.splitn(4, '.');
        let mut number = || u32::from_str_radix(parts.next()?, 16).ok();
        let (shard, index, generation) = (number()?, number()?, number()?);
        let conn = ConnRef {
            shard: ShardId::new(u16::try_from(shard).ok()?),
            id: Key { index, generation },
        };
        let token = parts.next()?.to_owned();
        Some(SessionId { node, conn, token })
    }
}

/// What a request waits for that another node answers.
pub(super) struct Waiting {
    pub(super) node: NodeId,
    pub(super) number: u64,
    session: wire::ConnAt,
    /// Bytes of its body.
    pub(super) bytes: usize,
    /// Then there is no answer.
    pub(super) until: Moment,
}

/// Says something about a request that came to this node, or to the one that reads it.
fn packet(conn: ConnRef, (slot, number): (u32, u64), said: OfRequest) -> Packet {
    let conn = at(conn);
    let request = RequestAt { conn, slot, number };
    Packet::Passed(Passed { request, said })
}

fn encoded(packet: &Packet) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let written = packet.encode(&mut bytes);
    if let Err(error) = &written {
        tracing::error!(%error, ?packet, "a packet cannot be written");
    }
    written.is_ok().then_some(bytes)
}

/// Answers a request that came to another node. If its link has no room the request is made again
/// by its client: the session remembers what it was owed.
fn answer_afar(
    away: &dyn Away,
    (node, conn, which): (NodeId, ConnRef, (u32, u64)),
    body: Vec<u8>,
    content: Option<Box<str>>,
) {
    let answer = packet(conn, which, OfRequest::Answered { content, body });
    let is_sent = encoded(&answer).is_some_and(|bytes| away.offer(node, bytes).is_ok());
    if !is_sent {
        drop_afar(away, (node, conn, which));
    }
}

fn drop_afar(away: &dyn Away, (node, conn, which): (NodeId, ConnRef, (u32, u64))) {
    if let Some(bytes) = encoded(&packet(conn, which, OfRequest::Dropped)) {
        away.answer(node, bytes);
    }
}

/// Something about a request comes from a node: who is told what. `Err`: it is none.
pub(crate) fn arrived(
    away: &dyn Away,
    guard: &Guard,
    (node, shards): (NodeId, u16),
    passed: Passed,
) -> Result<(ConnRef, Told), Taken> {
    let RequestAt { conn, slot, number } = passed.request;
    let conn = conn_ref(conn);
    let ticket = Ticket {
        at: At::There(node, number),
        conn,
        slot,
    };
    let (to, said) = match passed.said {
        OfRequest::Came {
            session,
            token,
            address,
            is_secure,
            body,
        } => {
            if !guard.is_session(conn_ref(session), &token) {
                // Whoever made it up chose the connection.
                let refused = refusal(Condition::ItemNotFound);
                answer_afar(away, (node, conn, (slot, number)), refused, None);
                return Err(Taken::Yes);
            }
            let from_afar = FromAfar {
                ticket,
                body,
                token: token.into(),
                address,
                is_secure,
            };
            (conn_ref(session), Control::FromAfar(from_afar))
        }
        OfRequest::Lost { session } => (conn_ref(session), Control::Lost(ticket)),
        OfRequest::Answered { content, body } => {
            let answer = Some((body, content));
            let said = Control::OfPassed {
                slot,
                number,
                answer,
            };
            (conn, said)
        }
        OfRequest::Dropped => (conn, dropped(slot, number)),
    };
    match to.shard.index() < shards {
        true => Ok((to, control(said))),
        false => Err(Taken::Yes),
    }
}

/// A request that came has no room where its session is: it is made again.
pub(crate) fn not_taken(away: &dyn Away, node: NodeId, request: RequestAt) {
    let RequestAt { conn, slot, number } = request;
    drop_afar(away, (node, conn_ref(conn), (slot, number)));
}

fn dropped(slot: u32, number: u64) -> Control {
    Control::OfPassed {
        slot,
        number,
        answer: None,
    }
}

/// A packet of this node about a request came back: who is told what.
pub(crate) fn came_back(passed: &Passed) -> Option<(ConnRef, Told)> {
    let RequestAt { conn, slot, number } = passed.request;
    let is_request = matches!(passed.said, OfRequest::Came { .. });
    // An answer that does not arrive is remembered.
    is_request.then(|| (conn_ref(conn), control(dropped(slot, number))))
}

impl C2sService {
    /// The session that a request names, if it is another node's.
    pub(super) fn session_elsewhere(&mut self, body: &[u8]) -> Option<SessionId> {
        let own = self.home.own?;
        let limits = xml::Limits {
            stanza_bytes: body_max(&self.home) as u32,
            ..xml::Limits::default()
        };
        let id = Request::session_of(body, &limits, &mut self.scratch)?;
        SessionId::parse(&id).filter(|id| id.node.is_some_and(|node| node != own))
    }

    /// The node that a session id names, if it can be reached.
    fn node_of(&self, away: &dyn Away, tag: u64, now: Moment) -> Option<NodeId> {
        let passing = &mut *self.home.lines.passing.borrow_mut();
        let every = self.home.options.web.anywhere.look_every;
        if passing.node(tag).is_none() && passing.looks(now, every) {
            let slots = self.home.place.slots();
            let others = away.others().into_iter();
            passing.saw(others.map(|(node, name)| (slots.node(&name), node)));
        }
        passing.node(tag).filter(|node| away.reaches(*node))
    }

    /// Passes a request on to the node of its session.
    pub(super) fn pass_request(
        &mut self,
        cx: &mut Cx<'_>,
        http: &mut Http,
        slot: u32,
        id: SessionId,
        body: &[u8],
    ) {
        let found = self.home.options.cluster.clone().and_then(|cluster| {
            let node = self.node_of(&*cluster.away, id.node?, cx.now())?;
            Some((cluster.away, node))
        });
        let number = self.line_number();
        let session = at(id.conn);
        let request = found.and_then(|(away, node)| {
            let came = OfRequest::Came {
                session,
                token: id.token.into(),
                address: http.client(),
                is_secure: http.is_secure(),
                body: body.to_vec(),
            };
            let mut bytes = Vec::new();
            let request = packet(cx.id(), (slot, number), came);
            // Nodes of an earlier version may be there, or the secret is far too long.
            request.encode_at(away.level(), &mut bytes).ok()?;
            Some((away, node, bytes))
        });
        let Some((away, node, bytes)) = request else {
            return self.not_found(cx, http, slot);
        };
        let bounds = &self.home.options.web;
        let is_room = self.home.lines.passing.borrow().count(node) < bounds.anywhere.requests_max;
        let until = cx.now() + bounds.bosh.wait_max + bounds.anywhere.late_max;
        if !is_room {
            return self.give_up(cx, http);
        }
        if !self.home.io.holds(cx.id(), http.kept_bytes() + body.len()) {
            self.brake(http.client(), cx.now());
            return self.give_up(cx, http);
        }
        if away.offer(node, bytes).is_err() {
            return self.give_up(cx, http);
        }
        cx.mail().stats().count(Counter::BoshPassed);
        self.home.lines.passing.borrow_mut().begins(node, cx.id());
        http.waits_for(
            slot,
            Waiting {
                node,
                number,
                session,
                bytes: body.len(),
                until,
            },
        );
    }

    /// What was passed on gets no answer: its client makes it again, on another connection.
    pub(super) fn give_up(&mut self, cx: &mut Cx<'_>, http: &mut Http) {
        cx.mail().stats().count(Counter::BoshUnanswered);
        http.is_over();
        cx.close_after_flush();
    }

    /// The answer to a request that was passed on, or there is none.
    pub(super) fn told_of_passed(
        &mut self,
        cx: &mut Cx<'_>,
        http: &mut Http,
        (slot, number): (u32, u64),
        answer: Option<(Vec<u8>, Option<Box<str>>)>,
    ) {
        let Some(waiting) = http.take_waiting(slot, number) else {
            // Of a connection, or a process, of before.
            return;
        };
        let passing = &self.home.lines.passing;
        passing.borrow_mut().ends(waiting.node, cx.id());
        match answer {
            None => self.give_up(cx, http),
            Some((body, content)) => {
                // It goes into a head.
                let content = bosh::content_type(content.as_deref());
                self.answered(cx, http, slot, body, content);
            }
        }
    }

    /// A connection with requests that were passed on is gone.
    pub(super) fn lost_afar(&self, conn: ConnRef, slot: u32, waiting: &Waiting) {
        let passing = &self.home.lines.passing;
        passing.borrow_mut().ends(waiting.node, conn);
        let Some(cluster) = &self.home.options.cluster else {
            return;
        };
        let session = waiting.session;
        let lost = packet(conn, (slot, waiting.number), OfRequest::Lost { session });
        // Behind the request, if there is room.
        if let Some(bytes) = encoded(&lost)
            && let Err(bytes) = cluster.away.send(waiting.node, bytes)
        {
            cluster.away.answer(waiting.node, bytes);
        }
    }

    /// Reads a request that came to another node, as that of a client of this one; nothing if its
    /// address is banned here.
    pub(super) fn read_from_afar(
        &mut self,
        cx: &mut Cx<'_>,
        from_afar: FromAfar,
    ) -> Option<Incoming> {
        let FromAfar {
            ticket,
            body,
            token,
            address,
            is_secure,
        } = from_afar;
        if self.is_banned(cx, address) {
            self.refuse_request(cx.mail(), ticket, Condition::PolicyViolation);
            return None;
        }
        let limits = xml::Limits {
            stanza_bytes: body_max(&self.home) as u32,
            ..xml::Limits::default()
        };
        let request = Request::parse(&body, &limits, &mut self.scratch);
        Some(Incoming {
            ticket,
            request,
            token,
            is_secure,
        })
    }

    /// Answers a request wherever it came. False if it is not there any more.
    pub(super) fn answer_request(
        &self,
        mail: &mut impl Mail,
        ticket: Ticket,
        body: Vec<u8>,
        content: Option<Box<str>>,
    ) -> bool {
        let Ticket { at, conn, slot } = ticket;
        match (at, &self.home.options.cluster) {
            (At::Here, _) => {
                let answer = Control::Answer {
                    slot,
                    body,
                    content,
                };
                let told = self.home.io.control(mail, conn, control(answer));
                told.is_ok()
            }
            (At::There(node, number), Some(cluster)) => {
                answer_afar(&*cluster.away, (node, conn, (slot, number)), body, content);
                true
            }
            (At::There(..), None) => false,
        }
    }

    /// A request gets no answer, for it was made again.
    pub(super) fn drop_request(&self, mail: &mut impl Mail, ticket: Ticket) {
        let Ticket { at, conn, slot } = ticket;
        match (at, &self.home.options.cluster) {
            (At::Here, _) => {
                // Its connection may be gone; then nobody needs to be told.
                let _ = self
                    .home
                    .io
                    .control(mail, conn, control(Control::Drop(slot)));
            }
            (At::There(node, number), Some(cluster)) => {
                drop_afar(&*cluster.away, (node, conn, (slot, number)));
            }
            (At::There(..), None) => {}
        }
    }
}

impl Ticket {
    /// Whether an answer of so many bytes can go there.
    pub(super) fn has_room_for(&self, bytes: usize, max: usize) -> bool {
        self.at == At::Here || bytes <= max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(node: Option<u64>) -> SessionId {
        SessionId {
            node,
            conn: ConnRef {
                shard: ShardId::new(300),
                id: Key {
                    index: 0x00ab_cdef,
                    generation: 77,
                },
            },
            token: "a.b+c/d=".to_owned(),
        }
    }

    #[test]
    fn a_session_id_leads_back_to_its_session() {
        for node in [None, Some(0), Some(u64::MAX)] {
            let id = id(node);
            assert_eq!(SessionId::parse(&id.text()), Some(id));
        }
        for bad in [
            "",
            "n",
            "n.1.2.3.t",
            "nx.1.2.3.t",
            "n11111111111111111.1.2.3.t",
            "n1.1.2.3",
            "1.2.3",
            "x.1.1.t",
            "1.1.ffffffffff.t",
            "ffffff.1.1.t",
            "....",
        ] {
            assert_eq!(SessionId::parse(bad), None, "{bad}");
        }
    }

    /// Goal: what names a node in a session id is none of the ids that nodes of before made.
    #[test]
    fn an_id_with_a_node_is_none_for_a_node_of_before() {
        let text = id(Some(7)).text();
        let first = text.split('.').next().unwrap();
        assert!(u32::from_str_radix(first, 16).is_err(), "{text}");
    }
}
