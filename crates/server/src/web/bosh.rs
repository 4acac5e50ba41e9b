//! Sessions over BOSH (XEP-0124): a connection without a socket that lives on the shard where it
//! was asked for. Requests reach it from connections of any shard as messages, and answers go back
//! the same way. Owns the row that a session's requests make of their payloads; the
//! rules of sessions are `xmpp::bosh`, the stream is `c2s`.

use std::net::IpAddr;

use actor::{Mail, Shard};
use net::{Closed, Cx};
use stdx::time::Moment;
use xml::Framer;
use xmpp::bosh::{Action, Condition, Request, Session, refusal};
use xmpp::ns;
use xmpp::stream::Opening;

use crate::c2s::{C2sService, Conn, Framing};
use crate::message::web::{At, Control, Incoming, Ticket};
use crate::web::Connection;
use crate::web::passed::SessionId;

/// What a session has beyond its stream.
pub(crate) struct Bosh {
    /// Reads the requests' payloads, each request a root of its own.
    pub(crate) framer: Framer,
    /// The last request in order ends the session: behind its payloads the stream ends.
    pub(crate) is_terminating: bool,
    /// `None` until the connection of the session is there.
    session: Option<Session<Ticket>>,
    first: Option<(Request, Ticket)>,
    token: String,
    is_secure: bool,
    content: Option<Box<str>>,
    /// The deadline of the stream; the session has its own.
    stream_deadline: Option<Moment>,
    /// Where the stream is another node's: what waits to be passed on to it.
    rest: Option<Vec<u8>>,
}

impl Bosh {
    /// From here on its stream is another node's.
    pub(crate) fn passes_on(&mut self) {
        self.rest = Some(Vec::new());
    }

    /// Puts something behind what waits to be passed on.
    pub(crate) fn pass(&mut self, bytes: &[u8]) {
        self.rest().extend_from_slice(bytes);
    }

    /// What waits to be passed on.
    pub(crate) fn rest(&mut self) -> &mut Vec<u8> {
        self.rest.get_or_insert_default()
    }

    /// Whether something does.
    pub(crate) fn has_rest(&self) -> bool {
        self.rest.as_ref().is_some_and(|rest| !rest.is_empty())
    }
}

/// Types of answers that a client may ask for (section 7.1); any other gets the usual one.
pub(super) fn content_type(asked: Option<&str>) -> Option<Box<str>> {
    let asked = asked?;
    let kind = asked.split(';').next().unwrap_or_default().trim();
    let known = ["text/xml", "application/xml", "text/plain", "text/html"];
    let is_text = asked.bytes().all(|byte| (b' '..0x7f).contains(&byte));
    // It goes to other nodes with each answer.
    let is_short = asked.len() <= wire::limits::CONTENT_BYTES_MAX;
    (is_text && is_short && known.contains(&kind)).then(|| asked.into())
}

/// What opens a stream as it would open one of its own connection.
fn header(opening: &Opening<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = xml::build::Writer::new(&mut bytes);
    writer.open("stream:stream").attr("xmlns", ns::CLIENT);
    writer.attr("xmlns:stream", ns::STREAMS);
    let attributes = [
        ("to", &opening.to),
        ("version", &opening.version),
        ("xml:lang", &opening.lang),
    ];
    for (name, value) in attributes {
        if let Some(value) = value {
            writer.attr(name, value);
        }
    }
    writer.close();
    // Its end tag comes much later.
    if bytes.ends_with(b"/>") {
        bytes.truncate(bytes.len() - 2);
        bytes.push(b'>');
    }
    bytes
}

/// Sees to the deadline of a session over BOSH; nothing for other streams.
pub(crate) fn settle(cx: &mut Cx<'_>, conn: &mut Conn) {
    let Framing::Bosh(bosh) = &mut conn.framing else {
        return;
    };
    if let Some(wished) = cx.wished_deadline() {
        bosh.stream_deadline = wished;
    }
    let session = bosh.session.as_ref().map(Session::deadline);
    let deadlines = [session, bosh.stream_deadline];
    let next = deadlines.into_iter().flatten().min();
    cx.set_deadline(next.filter(|next| *next != Moment::FAR));
}

/// The node stops: a session that nobody waits for has been told what can be told.
pub(crate) fn drain(cx: &mut Cx<'_>, conn: &mut Conn) {
    if let Framing::Bosh(bosh) = &conn.framing
        && !bosh.session.as_ref().is_some_and(Session::is_held)
    {
        cx.close_after_flush();
    }
    settle(cx, conn);
}

impl C2sService {
    /// A request without a session: one is made, if there is room.
    pub(super) fn open_session(
        &mut self,
        cx: &mut Cx<'_>,
        request: Request,
        slot: u32,
        address: IpAddr,
        is_secure: bool,
    ) {
        let ticket = Ticket::here(cx.id(), slot);
        if request.attributes.to.is_none() {
            return self.refuse_request(cx.mail(), ticket, Condition::ImproperAddressing);
        }
        let bosh = Box::new(Bosh {
            framer: Framer::new(),
            is_terminating: false,
            session: None,
            content: content_type(request.attributes.content.as_deref()),
            first: Some((request, ticket)),
            token: String::new(),
            is_secure,
            stream_deadline: None,
            rest: None,
        });
        let deadline = cx.wished_deadline();
        let mut conn = self.begin(cx, address, Framing::Bosh(bosh));
        // `begin` meant the session, not the connection of its request.
        cx.set_deadline(deadline.flatten());
        if is_secure {
            // Requests have connections of their own: there is nothing to bind to.
            conn.machine.tls_established(None);
        }
        let connection = Connection::Stream(conn);
        let opened = self.opener.open(None, Some(address), connection);
        if opened.is_err() {
            self.refuse_request(cx.mail(), ticket, Condition::InternalServerError);
        }
    }

    pub(super) fn session_opened(&mut self, cx: &mut Cx<'_>, conn: &mut Conn) {
        let login = cx.now() + self.home.limits().login_timeout;
        let Framing::Bosh(bosh) = &mut conn.framing else {
            return;
        };
        let Some((request, ticket)) = bosh.first.take() else {
            return;
        };
        bosh.stream_deadline = Some(login);
        bosh.token = self.home.guard.session_secret(cx.id());
        let limits = self.home.options.web.bosh.clone();
        let id = SessionId {
            node: self.home.own,
            conn: cx.id(),
            token: bosh.token.clone(),
        };
        let id = id.text();
        bosh.session = Some(Session::new(&request, ticket, id, limits, cx.now()));
        self.open_stream(cx, conn, &request);
        if !request.body.is_empty() {
            cx.feed(&request.body);
        }
        settle(cx, conn);
    }

    /// XEP-0206 sections 3 and 5. Who names no version is taken to mean 1.0.
    fn open_stream(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, request: &Request) {
        let attributes = &request.attributes;
        let text = |value: &Option<String>| value.clone().map(Into::into);
        let version = attributes.xmpp_version.clone();
        let opening = Opening {
            to: text(&attributes.to),
            version: Some(version.unwrap_or_else(|| "1.0".to_owned()).into()),
            lang: text(&attributes.lang),
        };
        if let Framing::Bosh(bosh) = &mut conn.framing
            && bosh.rest.is_some()
        {
            return bosh.pass(&header(&opening));
        }
        if let Some(prelude) = conn.prelude(&self.home) {
            prelude.opens(&header(&opening));
        }
        conn.machine
            .handle_opening(opening, cx.out(), &mut self.effects);
        self.carry_out(cx, conn);
    }

    /// Something for a session.
    pub(crate) fn told_session(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, msg: Control) {
        let opened = match &mut conn.framing {
            Framing::Bosh(bosh) => bosh
                .session
                .as_mut()
                .map(|session| (session, &bosh.token, bosh.is_secure)),
            Framing::Stream(_) | Framing::WebSocket(_) => None,
        };
        let Some((session, token, is_secure)) = opened else {
            // The name of a connection that is something else by now, or no session yet.
            if let Control::Request(incoming) = msg {
                self.refuse_request(cx.mail(), incoming.ticket, Condition::ItemNotFound);
            }
            return;
        };
        match msg {
            Control::Request(incoming) => {
                let Incoming {
                    request, ticket, ..
                } = incoming;
                let is_right = xmpp::bosh::is_same_secret(&incoming.token, token);
                // It may have waited for a link for so long that its client has made it again, and
                // many after it: nobody waits for this answer, and the session goes on.
                let is_late = ticket.at != At::Here
                    && request
                        .as_ref()
                        .is_ok_and(|it| session.is_forgotten(it.rid));
                // Section 15.1: a session is as secure as the least of its requests.
                if !is_right || is_late || (is_secure && !incoming.is_secure) {
                    return self.refuse_request(cx.mail(), ticket, Condition::ItemNotFound);
                }
                match request {
                    Ok(request) => {
                        session.handle_request(request, ticket, cx.now(), &mut self.actions);
                    }
                    Err(condition) => {
                        session.end(Some(ticket), condition, cx.now(), &mut self.actions);
                    }
                }
                Self::note_heard(cx, conn);
                self.end_if_banned(cx, conn);
                // What waits for a request may leave with this one.
                cx.wake_output();
            }
            Control::Lost(ticket) => session.handle_lost(ticket, cx.now()),
            Control::Answer { .. }
            | Control::Drop(_)
            | Control::FromAfar(_)
            | Control::OfPassed { .. }
            | Control::Gone(_)
            | Control::Piped(_)
            | Control::Written
            | Control::Joined(_) => {}
        }
        self.weigh(cx, conn);
        self.act(cx, conn);
        settle(cx, conn);
    }

    /// What a session keeps counts for its client's address. Without room it forgets the answers
    /// that it remembers; if even what came early is too much, it ends.
    fn weigh(&mut self, cx: &Cx<'_>, conn: &mut Conn) {
        let Framing::Bosh(bosh) = &mut conn.framing else {
            return;
        };
        let Some(session) = &mut bosh.session else {
            return;
        };
        let (io, id) = (&self.home.io, cx.id());
        if io.holds(id, session.kept_bytes()) {
            return;
        }
        session.forget_answers();
        if !io.holds(id, session.kept_bytes()) {
            let why = Condition::PolicyViolation;
            session.end(None, why, cx.now(), &mut self.actions);
            self.brake(conn.address, cx.now());
        }
    }

    /// What the stream wrote.
    pub(super) fn collect_session(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, out: &mut Vec<u8>) {
        if let Framing::Bosh(bosh) = &mut conn.framing
            && let Some(session) = &mut bosh.session
        {
            session.handle_output(out, cx.now(), &mut self.actions);
        }
        self.weigh(cx, conn);
        self.act(cx, conn);
        settle(cx, conn);
    }

    pub(super) fn session_overdue(&mut self, cx: &mut Cx<'_>, conn: &mut Conn) {
        if self.session_is_due(cx, conn) {
            self.overdue(cx, conn);
        }
        self.act_for_session(cx, conn);
    }

    /// The deadline of a session, its stream's or its own: whether it is its stream's.
    pub(crate) fn session_is_due(&mut self, cx: &mut Cx<'_>, conn: &mut Conn) -> bool {
        let now = cx.now();
        let Framing::Bosh(bosh) = &mut conn.framing else {
            return false;
        };
        if let Some(session) = &mut bosh.session {
            session.handle_deadline(now, &mut self.actions);
        }
        let is_due = bosh.stream_deadline.is_some_and(|at| at <= now);
        if is_due {
            bosh.stream_deadline = None;
        }
        is_due
    }

    /// Does what a session wants by now.
    pub(crate) fn act_for_session(&mut self, cx: &mut Cx<'_>, conn: &mut Conn) {
        self.act(cx, conn);
        settle(cx, conn);
    }

    /// Does what a session wants.
    fn act(&mut self, cx: &mut Cx<'_>, conn: &mut Conn) {
        let mut actions = std::mem::take(&mut self.actions);
        for action in actions.drain(..) {
            let Framing::Bosh(bosh) = &mut conn.framing else {
                return;
            };
            match action {
                Action::Answer(ticket, mut body) => {
                    let max = self.home.options.web.anywhere.answer_bytes_max;
                    if !ticket.has_room_for(body.len(), max) {
                        // Made again it would be as long.
                        body = refusal(Condition::InternalServerError);
                        cx.close_after_flush();
                    }
                    let content = bosh.content.clone();
                    if !self.answer_request(cx.mail(), ticket, body, content)
                        && let Framing::Bosh(bosh) = &mut conn.framing
                        && let Some(session) = &mut bosh.session
                    {
                        session.handle_lost(ticket, cx.now());
                    }
                }
                Action::Drop(ticket) => self.drop_request(cx.mail(), ticket),
                Action::Take(request) => self.take_request(cx, conn, &request),
                Action::Over => cx.close_after_flush(),
            }
        }
        self.actions = actions;
    }

    fn take_request(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, request: &Request) {
        if request.attributes.is_restart {
            self.open_stream(cx, conn, request);
        }
        if request.is_terminate()
            && let Framing::Bosh(bosh) = &mut conn.framing
        {
            bosh.is_terminating = true;
        }
        match (request.body.is_empty(), request.is_terminate()) {
            (false, _) => cx.feed(&request.body),
            (true, true) => cx.feed(b"<body></body>"),
            (true, false) => {}
        }
    }

    /// Answers a request that no session takes.
    pub(super) fn refuse_request(
        &self,
        mail: &mut impl Mail,
        ticket: Ticket,
        condition: Condition,
    ) {
        // A connection that is gone needs no answer.
        self.answer_request(mail, ticket, refusal(condition), None);
    }

    /// The session's connection is gone, for whatever reason: nobody waits for ever.
    pub(crate) fn session_closed(&mut self, shard: &mut Shard, conn: &mut Conn, why: Closed) {
        let Framing::Bosh(bosh) = &mut conn.framing else {
            return;
        };
        let condition = match why {
            Closed::Shutdown => Condition::SystemShutdown,
            Closed::Backlog | Closed::Overflow => Condition::PolicyViolation,
            _ => Condition::InternalServerError,
        };
        if let Some((_, ticket)) = bosh.first.take() {
            self.refuse_request(shard, ticket, Condition::InternalServerError);
        }
        let mut actions = Vec::new();
        if let Some(session) = &mut bosh.session {
            session.end(None, condition, Moment::ZERO, &mut actions);
        }
        for action in actions {
            if let Action::Answer(ticket, body) = action {
                self.answer_request(shard, ticket, body, bosh.content.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_chooses_among_types_that_say_xml_or_text() {
        assert!(content_type(Some("text/plain; charset=utf-8")).is_some());
        let long = |bytes: usize| format!("text/xml; a={}", "b".repeat(bytes - 12));
        let max = wire::limits::CONTENT_BYTES_MAX;
        assert!(content_type(Some(&long(max))).is_some());
        let too_long = long(max + 1);
        for bad in [
            "image/svg+xml",
            "text/xml\r\nX: y",
            "",
            "text/javascript",
            &too_long,
        ] {
            assert_eq!(content_type(Some(bad)), None, "{bad}");
        }
        assert_eq!(content_type(None), None);
    }
}
