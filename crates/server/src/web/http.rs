//! A connection of HTTP/1.1 in between: requests found, bounded and sent where they belong, and
//! answers in the order of their requests. Owns limits, times, origins and routing; what a request
//! means is `ws`, `bosh` and whoever serves pages.

mod answers;

use std::collections::VecDeque;
use std::net::IpAddr;

use actor::Shard;
use net::http::{Head, HeadError, head};
use net::{ConnRef, Cx, Peer, websocket};
use xmpp::bosh::{Condition, Request, refusal};

use crate::c2s::{C2sService, Conn};
use crate::message::web::{Control, Incoming, Ticket};
use crate::web::passed::{SessionId, Waiting};
use crate::web::pipe::rewritten;
use crate::web::{body_max, control, origin};
use answers::{Answer, Cors};

/// Where streams over WebSocket begin.
const WEBSOCKET_PATH: &str = "/xmpp-websocket";

/// Where requests of sessions over BOSH go.
const BOSH_PATH: &str = "/http-bind";

/// Where figures are, which not everybody may see.
const METRICS_PATH: &str = "/metrics";

/// A connection in between requests, or in the middle of some.
pub(crate) struct Http {
    /// Who connected.
    peer: IpAddr,
    /// Who that speaks for: the same, or whom a trusted proxy names.
    client: IpAddr,
    /// Whether a trusted proxy says that its client came under TLS.
    is_forwarded_secure: bool,
    /// The channel binding of the connection's TLS, if there is TLS, and if there is one.
    pub(super) tls: Option<Option<[u8; 32]>>,
    /// How far the end of a head has been looked for.
    scanned: usize,
    /// Bytes of the request whose head is known; 0 for none.
    wanted: usize,
    /// Whether its client has been told to send the body.
    told_to_continue: bool,
    /// Requests that wait for their answer, oldest first.
    slots: VecDeque<Slot>,
    /// The number of the oldest.
    first_slot: u32,
    /// No request follows.
    is_last: bool,
    pipe: PipeState,
}

struct Slot {
    /// Whose request it is, if somebody else answers it.
    waits: Waits,
    /// The answer as it leaves, once it is there.
    answer: Option<Vec<u8>>,
    cors: Cors,
    keeps_alive: bool,
}

/// Who answers a request.
enum Waits {
    /// Nobody else, or it is answered.
    Not,
    /// A session of this node.
    ForSession(ConnRef),
    /// One of another node.
    ForNode(Box<Waiting>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PipeState {
    None,
    /// The other end is being made; so many bytes of the body are to follow.
    Opening(Option<usize>),
    Open(ConnRef, Option<usize>),
}

/// What becomes of one request.
enum Next {
    /// Wait for more input, or for something else to end.
    Wait,
    /// So many bytes are done with.
    Done(usize),
    /// The connection is a stream now.
    Upgraded(usize, Box<Conn>),
}

impl Http {
    /// Whether what a client says here is as safe as under TLS.
    pub(super) fn is_secure(&self) -> bool {
        self.tls.is_some() || self.is_forwarded_secure
    }

    /// Who speaks here, as far as that is known.
    pub(super) fn client(&self) -> IpAddr {
        self.client
    }

    /// The other end of the pipe, if there is one.
    pub(super) fn pipe(&self) -> Option<ConnRef> {
        match self.pipe {
            PipeState::Open(other, _) => Some(other),
            PipeState::None | PipeState::Opening(_) => None,
        }
    }

    /// The node stops: requests under way are answered, no other is taken. Those that other nodes
    /// answer would be held for long: they are made again, to one that does not stop.
    pub(super) fn drain(&mut self, cx: &mut Cx<'_>) {
        self.is_last = true;
        let is_free = self.slots.is_empty() && self.pipe == PipeState::None;
        if is_free || self.passed().next().is_some() {
            cx.close_after_flush();
        }
    }

    /// What requests wait for that other nodes answer.
    fn passed(&self) -> impl Iterator<Item = &Waiting> {
        self.slots.iter().filter_map(|slot| match &slot.waits {
            Waits::ForNode(waiting) => Some(&**waiting),
            Waits::Not | Waits::ForSession(_) => None,
        })
    }

    /// Another node answers it.
    pub(super) fn waits_for(&mut self, slot: u32, waiting: Waiting) {
        if let Some(slot) = self.slot(slot) {
            slot.waits = Waits::ForNode(Box::new(waiting));
        }
    }

    /// It does so no more, if it is the one with that number.
    pub(super) fn take_waiting(&mut self, slot: u32, number: u64) -> Option<Box<Waiting>> {
        let slot = self.slot(slot)?;
        match std::mem::replace(&mut slot.waits, Waits::Not) {
            Waits::ForNode(waiting) if waiting.number == number => Some(waiting),
            other => {
                slot.waits = other;
                None
            }
        }
    }

    /// Bytes that are kept for its client: answers that wait for others, requests under way.
    pub(super) fn kept_bytes(&self) -> usize {
        let waiting = self.slots.iter().filter_map(|slot| slot.answer.as_ref());
        let passed = self.passed().map(|waiting| waiting.bytes);
        waiting.map(Vec::len).chain(passed).sum()
    }

    /// No request follows.
    pub(super) fn is_over(&mut self) {
        self.is_last = true;
    }

    fn reserve(&mut self, cors: Cors, keeps_alive: bool) -> u32 {
        self.slots.push_back(Slot {
            waits: Waits::Not,
            answer: None,
            cors,
            keeps_alive: keeps_alive && !self.is_last,
        });
        self.is_last |= !keeps_alive;
        self.first_slot.wrapping_add(self.slots.len() as u32 - 1)
    }

    fn slot(&mut self, number: u32) -> Option<&mut Slot> {
        let at = number.wrapping_sub(self.first_slot);
        self.slots.get_mut(at as usize)
    }

    /// Writes the answers that are due; those behind a request without one wait.
    fn flush(&mut self, cx: &mut Cx<'_>) {
        while let Some(slot) = self.slots.front_mut() {
            let Some(answer) = slot.answer.take() else {
                return;
            };
            cx.out().extend_from_slice(&answer);
            let is_last = !slot.keeps_alive || (self.is_last && self.slots.len() == 1);
            self.slots.pop_front();
            self.first_slot = self.first_slot.wrapping_add(1);
            if is_last {
                self.slots.clear();
                return cx.close_after_flush();
            }
        }
    }
}

impl C2sService {
    pub(super) fn begin_http(&mut self, cx: &mut Cx<'_>, peer: &Peer) -> Http {
        cx.set_deadline(Some(cx.now() + self.home.options.web.head_timeout));
        // Pages are for those who want to know why the server is slow, too.
        cx.set_apart(true);
        Http {
            peer: peer.address.ip(),
            client: peer.address.ip(),
            is_forwarded_secure: false,
            tls: None,
            scanned: 0,
            wanted: 0,
            told_to_continue: false,
            slots: VecDeque::new(),
            first_slot: 0,
            is_last: false,
            pipe: PipeState::None,
        }
    }

    /// Takes requests; returns what is used, and the stream that the connection has become.
    pub(super) fn receive_http(
        &mut self,
        cx: &mut Cx<'_>,
        http: &mut Http,
        input: &[u8],
    ) -> (usize, Option<Box<Conn>>) {
        let mut used = 0;
        while !cx.is_ending() && used < input.len() {
            match self.next_request(cx, http, &input[used..]) {
                Next::Wait => break,
                Next::Done(length) => {
                    used += length;
                    (http.scanned, http.wanted) = (0, 0);
                    http.told_to_continue = false;
                }
                Next::Upgraded(length, conn) => return (used + length, Some(conn)),
            }
        }
        self.set_http_deadline(cx, http, used < input.len());
        (used, None)
    }

    /// A request has its time from its first byte, an idle connection its own; answers have those
    /// of whoever gives them.
    fn set_http_deadline(&self, cx: &mut Cx<'_>, http: &Http, is_partial: bool) {
        let web = &self.home.options.web;
        let is_busy = !http.slots.is_empty() || http.pipe != PipeState::None;
        if is_partial && http.slots.is_empty() {
            // Set with the first byte, and not moved by those that trickle.
            return;
        }
        let at = match is_busy {
            true => http.passed().map(|waiting| waiting.until).min(),
            false => Some(cx.now() + web.idle_timeout),
        };
        cx.set_deadline(at);
    }

    fn next_request(&mut self, cx: &mut Cx<'_>, http: &mut Http, input: &[u8]) -> Next {
        match http.pipe {
            PipeState::None => {}
            PipeState::Opening(_) => {
                cx.set_paused(true);
                return Next::Wait;
            }
            PipeState::Open(other, body) => return self.pass_body(cx, http, other, body, input),
        }
        let web = &self.home.options.web;
        if http.is_last || http.slots.len() >= web.pipelined_max {
            cx.set_paused(true);
            return Next::Wait;
        }
        if input.len() < http.wanted {
            return Next::Wait;
        }
        if http.scanned == 0 && http.slots.is_empty() {
            cx.set_deadline(Some(cx.now() + web.head_timeout));
        }
        if http.wanted > 0 {
            // The head is known to be whole: its end is looked for from the start again.
            http.scanned = 0;
        }
        let head = match head(input, web.head_bytes_max, &mut http.scanned) {
            Ok(None) => return Next::Wait,
            Ok(Some(head)) => head,
            Err(error) => {
                let status = match error {
                    HeadError::Malformed => 400,
                    HeadError::TooLarge => 431,
                };
                return refuse(cx, http, status, Cors::None, input.len());
            }
        };
        self.route(cx, http, &head, input)
    }

    fn route(&mut self, cx: &mut Cx<'_>, http: &mut Http, head: &Head<'_>, input: &[u8]) -> Next {
        if !head.target.starts_with('/') {
            // The absolute form is for proxies (RFC 9112 section 3.2.2): its path would be read
            // here as another one than by whoever serves pages.
            return refuse(cx, http, 400, Cors::None, input.len());
        }
        self.note_forwarded(cx, http, head);
        if self.is_banned(cx, http.client) {
            return refuse(cx, http, 403, Cors::None, input.len());
        }
        let web = &self.home.options.web;
        let from = head.header("origin");
        let is_allowed = origin::is_allowed(
            from,
            head.header("host"),
            &self.home.options.domains,
            &web.origins,
        );
        let path = head.path();
        let is_websocket = path == WEBSOCKET_PATH && web.websocket;
        let is_bosh = path.trim_end_matches('/') == BOSH_PATH && web.bosh_enabled;
        if is_websocket || is_bosh {
            if !is_allowed {
                return refuse(cx, http, 403, Cors::None, input.len());
            }
            let cors = Cors::of(from);
            cx.set_apart(false);
            return match is_websocket {
                true => self.upgrade(cx, http, head),
                false => self.take_bosh(cx, http, head, cors, input),
            };
        }
        if path == METRICS_PATH && !self.may_see_figures(http, head) {
            return refuse(cx, http, 404, Cors::None, input.len());
        }
        self.pass_head(cx, http, head)
    }

    /// What a trusted proxy says of its client: what follows of the connection counts for that one.
    fn note_forwarded(&self, cx: &mut Cx<'_>, http: &mut Http, head: &Head<'_>) {
        let proxies = &self.home.options.web.proxies;
        if !proxies.iter().any(|range| range.contains(http.peer)) {
            return;
        }
        // The last entry is the proxy's own; those before it came from outside.
        let last = |name| {
            let list = head.last_header(name)?;
            list.rsplit(',').next()
        };
        let client = last("x-forwarded-for").and_then(|address| address.trim().parse().ok());
        let client = client.unwrap_or(http.peer);
        if client != http.client {
            http.client = client;
            cx.comes_from(client);
        }
        let scheme = last("x-forwarded-proto").map(str::trim);
        http.is_forwarded_secure = scheme.is_some_and(|s| s.eq_ignore_ascii_case("https"));
    }

    /// Figures are for those whom the operator names; a proxy on the same machine is nobody of
    /// them.
    fn may_see_figures(&self, http: &Http, head: &Head<'_>) -> bool {
        let is_forwarded = ["forwarded", "x-forwarded-for", "via"]
            .iter()
            .any(|name| head.header(name).is_some());
        let networks = &self.home.options.web.metrics;
        !is_forwarded && networks.iter().any(|range| range.contains(http.peer))
    }

    // ---- WebSocket -----------------------------------------------------------------------------

    /// RFC 6455 section 4.2, RFC 7395 section 3.1.
    fn upgrade(&mut self, cx: &mut Cx<'_>, http: &mut Http, head: &Head<'_>) -> Next {
        let all = head.bytes;
        if head.method != "GET" {
            return refuse(cx, http, 405, Cors::None, all);
        }
        let wants = head.lists("upgrade", "websocket") && head.lists("connection", "upgrade");
        if !wants || !head.is_1_1 || head.header("sec-websocket-version") != Some("13") {
            return refuse(cx, http, 426, Cors::None, all);
        }
        let accept = head.header("sec-websocket-key").and_then(websocket::accept);
        let speaks = head.lists("sec-websocket-protocol", "xmpp");
        let (Some(accept), true, Some(0), true) =
            (accept, speaks, head.body, http.slots.is_empty())
        else {
            return refuse(cx, http, 400, Cors::None, all);
        };
        answers::switching(&accept, cx.out());
        let tls = http.tls.or(http.is_forwarded_secure.then_some(None));
        let conn = self.begin_websocket(cx, http.client, tls);
        Next::Upgraded(all, Box::new(conn))
    }

    // ---- BOSH ----------------------------------------------------------------------------------

    fn take_bosh(
        &mut self,
        cx: &mut Cx<'_>,
        http: &mut Http,
        head: &Head<'_>,
        cors: Cors,
        input: &[u8],
    ) -> Next {
        let keeps_alive = head.keeps_alive();
        match head.method {
            "POST" => {}
            "OPTIONS" | "GET" | "HEAD" if head.body == Some(0) => {
                let answer = match head.method {
                    "OPTIONS" => Answer::preflight(),
                    method => Answer::hint(method == "HEAD"),
                };
                let slot = http.reserve(cors, keeps_alive);
                self.answer(cx, http, slot, answer);
                return Next::Done(head.bytes);
            }
            _ => return refuse(cx, http, 405, cors, input.len()),
        }
        let Some(length) = head.body else {
            // Nobody who speaks BOSH sends chunks (XEP-0124 section 5).
            return refuse(cx, http, 411, cors, input.len());
        };
        if length > body_max(&self.home) {
            return refuse(cx, http, 413, cors, input.len());
        }
        let all = head.bytes + length;
        let Some(body) = input.get(head.bytes..all) else {
            http.wanted = all;
            if head.lists("expect", "100-continue") && !http.told_to_continue {
                http.told_to_continue = true;
                if http.slots.is_empty() {
                    cx.out().extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                }
            }
            return Next::Wait;
        };
        let slot = http.reserve(cors, keeps_alive);
        self.take_body(cx, http, slot, body);
        Next::Done(all)
    }

    fn take_body(&mut self, cx: &mut Cx<'_>, http: &mut Http, slot: u32, body: &[u8]) {
        if let Some(id) = self.session_elsewhere(body) {
            return self.pass_request(cx, http, slot, id, body);
        }
        let limits = xml::Limits {
            stanza_bytes: body_max(&self.home) as u32,
            ..xml::Limits::default()
        };
        let request = Request::parse(body, &limits, &mut self.scratch);
        let id = match &request {
            Ok(request) => request.attributes.sid.clone(),
            // What cannot be read is the end of the session that it names (section 17.2).
            Err(_) => Request::session_of(body, &limits, &mut self.scratch),
        };
        let (id, request) = match (id, request) {
            (Some(id), request) => (id, request),
            (None, Err(condition)) => {
                return self.answer(cx, http, slot, Answer::body(refusal(condition), None));
            }
            (None, Ok(request)) => {
                let (client, is_secure) = (http.client, http.is_secure());
                return self.open_session(cx, request, slot, client, is_secure);
            }
        };
        let own = SessionId::parse(&id).filter(|id| id.node == self.home.own);
        // Whoever made it up names a connection of somebody else: that hears nothing of it.
        let own = own.filter(|id| self.home.guard.is_session(id.conn, &id.token));
        let sent = own.is_some_and(|SessionId { conn, token, .. }| {
            let session = conn;
            if let Some(slot) = http.slot(slot) {
                slot.waits = Waits::ForSession(session);
            }
            let incoming = Control::Request(Incoming {
                ticket: Ticket::here(cx.id(), slot),
                request,
                token,
                is_secure: http.is_secure(),
            });
            let io = &self.home.io;
            io.control(cx.mail(), session, control(incoming)).is_ok()
        });
        if !sent {
            self.not_found(cx, http, slot);
        }
    }

    /// There is no such session.
    pub(super) fn not_found(&mut self, cx: &mut Cx<'_>, http: &mut Http, slot: u32) {
        let refusal = refusal(Condition::ItemNotFound);
        self.answer(cx, http, slot, Answer::body(refusal, None));
    }

    /// A session has answered.
    pub(super) fn answered(
        &mut self,
        cx: &mut Cx<'_>,
        http: &mut Http,
        slot: u32,
        body: Vec<u8>,
        content: Option<Box<str>>,
    ) {
        self.answer(cx, http, slot, Answer::body(body, content));
        cx.set_paused(false);
        self.set_http_deadline(cx, http, false);
    }

    fn answer(&mut self, cx: &mut Cx<'_>, http: &mut Http, number: u32, answer: Answer) {
        let is_last = http.is_last;
        if let Some(slot) = http.slot(number) {
            let closes = !slot.keeps_alive || is_last;
            slot.answer = Some(answer.bytes(&slot.cors, closes));
            slot.waits = Waits::Not;
        }
        http.flush(cx);
        if !self.home.io.holds(cx.id(), http.kept_bytes()) {
            // Clients make such requests again, on another connection.
            self.brake(http.client, cx.now());
            cx.abort();
        }
    }

    // ---- Everything else -----------------------------------------------------------------------

    fn pass_head(&mut self, cx: &mut Cx<'_>, http: &mut Http, head: &Head<'_>) -> Next {
        if !http.slots.is_empty() {
            // Its turn comes once those before it are answered.
            cx.set_paused(true);
            return Next::Wait;
        }
        if !self.open_pipe(cx, http.client, rewritten(head, http)) {
            return refuse(cx, http, 503, Cors::None, head.bytes);
        }
        http.pipe = PipeState::Opening(head.body);
        cx.set_deadline(None);
        cx.set_paused(true);
        Next::Done(head.bytes)
    }

    /// The body of a request that is passed on. What follows it has no answer: the connection
    /// closes behind this one's.
    fn pass_body(
        &mut self,
        cx: &mut Cx<'_>,
        http: &mut Http,
        other: ConnRef,
        body: Option<usize>,
        input: &[u8],
    ) -> Next {
        let length = body.map_or(input.len(), |left| left.min(input.len()));
        if length > 0 {
            self.pass_on(cx, other, &input[..length]);
        }
        http.pipe = PipeState::Open(other, body.map(|left| left - length));
        Next::Done(input.len())
    }

    /// Something for a connection of HTTP.
    pub(super) fn told_http(&mut self, cx: &mut Cx<'_>, http: &mut Http, msg: Control) {
        match msg {
            Control::Answer {
                slot,
                body,
                content,
            } => self.answered(cx, http, slot, body, content),
            Control::OfPassed {
                slot,
                number,
                answer,
            } => self.told_of_passed(cx, http, (slot, number), answer),
            Control::Gone(node) => {
                if http.passed().any(|waiting| waiting.node == node) {
                    self.give_up(cx, http);
                }
            }
            Control::Drop(slot) => {
                // The answers before it may still leave; those behind it cannot.
                if http.slot(slot).is_some() {
                    cx.abort();
                }
            }
            Control::Piped(other) => {
                if let PipeState::Opening(body) = http.pipe {
                    http.pipe = PipeState::Open(other, body);
                }
                cx.set_paused(false);
            }
            Control::Written => cx.set_paused(false),
            // For sessions only: an id that leads here is of one that is gone.
            Control::Request(incoming) => {
                self.refuse_request(cx.mail(), incoming.ticket, Condition::ItemNotFound);
            }
            Control::Lost(_) | Control::Joined(_) | Control::FromAfar(_) => {}
        }
    }

    /// A request did not come in time, or none came at all.
    pub(super) fn http_overdue(&mut self, cx: &mut Cx<'_>, http: &mut Http) {
        if http.passed().any(|waiting| waiting.until <= cx.now()) {
            self.give_up(cx, http);
        } else if http.scanned > 0 || http.wanted > 0 {
            refuse(cx, http, 408, Cors::None, 0);
        } else {
            cx.close_after_flush();
        }
    }

    pub(super) fn http_closed(&mut self, shard: &mut Shard, id: ConnRef, http: &Http) {
        if let Some(other) = http.pipe() {
            self.close_other(shard, other);
        }
        for (at, slot) in http.slots.iter().enumerate() {
            let number = http.first_slot.wrapping_add(at as u32);
            match &slot.waits {
                Waits::Not => {}
                Waits::ForSession(session) => {
                    let lost = control(Control::Lost(Ticket::here(id, number)));
                    // A session that is gone needs to be told nothing.
                    let _ = self.home.io.control(shard, *session, lost);
                }
                Waits::ForNode(waiting) => self.lost_afar(id, number, waiting),
            }
        }
    }
}

/// Answers with an error, behind what is still owed, and closes.
fn refuse(cx: &mut Cx<'_>, http: &mut Http, status: u16, cors: Cors, used: usize) -> Next {
    let number = http.reserve(cors, false);
    if let Some(slot) = http.slot(number) {
        slot.answer = Some(Answer::error(status).bytes(&slot.cors, true));
    }
    http.flush(cx);
    Next::Done(used)
}
