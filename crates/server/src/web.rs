//! The web: streams over WebSocket (RFC 7395) and BOSH (XEP-0124, XEP-0206), on the same port as
//! ordinary HTTP. Owns what a connection is at the moment and hands each event of the loop to
//! whoever it concerns; what a stream means is `c2s`, what a page is says whoever is given
//! ordinary requests.
//!
//! ```text
//! socket ─▶ http ─┬─ GET /xmpp-websocket ─▶ the connection becomes a stream: ws ─▶ c2s
//!                 ├─ POST /http-bind ─▶ the session, a connection without a socket: bosh ─▶ c2s
//!                 └─ anything else ─▶ pipe ─▶ whoever serves pages
//! ```

pub(crate) mod bosh;
pub(crate) mod http;
mod origin;
pub(crate) mod passed;
mod pipe;
pub(crate) mod ws;

use std::net::IpAddr;

use actor::{Mail as _, Shard};
use net::{Closed, ConnRef, Cx, Peer, Service, Speaks, TlsInfo};
use xml::Framer;
use xmpp::bosh::Condition;

use crate::c2s::{C2sService, Conn, Framing};
use crate::component_stream::ComponentStream;
use crate::ending::Abort;
use crate::home::Home;
use crate::join::{Comer, Edge, Far};
use crate::message::control::{self, Word};
use crate::message::web::Control;
use http::Http;
use pipe::Pipe;

/// What a connection is at the moment.
pub(crate) enum Connection {
    /// A client's stream, whatever carries it.
    Stream(Conn),
    /// HTTP, between and in requests.
    Http(Box<Http>),
    /// Our end of a connection to whoever serves pages.
    Pipe(Pipe),
    /// A client's stream that another node goes on with.
    Edge(Box<Edge>),
    /// The stream of a client whose socket is at another node.
    Far(Box<Far>),
    /// One that is about to be that.
    Coming(Option<Box<Comer>>),
    /// A component's stream.
    Component(Box<ComponentStream>),
}

impl Connection {
    /// Whose it is, if it is a client's and that is known.
    fn client(&self) -> Option<IpAddr> {
        match self {
            Connection::Stream(stream) => Some(stream.address),
            Connection::Http(http) => Some(http.client()),
            Connection::Component(stream) => Some(stream.address),
            Connection::Pipe(_)
            | Connection::Edge(_)
            | Connection::Far(_)
            | Connection::Coming(_) => None,
        }
    }
}

/// Bytes of a request over BOSH beyond the largest element: its `<body/>`, and small ones.
const BODY_BYTES_MORE: usize = 16 * 1024;

/// Bytes of a request over BOSH.
fn body_max(home: &Home) -> usize {
    home.limits().stanza_bytes_max as usize + BODY_BYTES_MORE
}

fn control(control: Control) -> control::Control {
    control::Control::Web(Box::new(control))
}

impl Service for C2sService {
    type Conn = Connection;
    type Control = control::Control;

    fn turn_begins(&mut self, shard: &mut Shard) {
        self.home.end_if_fenced(shard);
    }

    fn accept(&mut self, cx: &mut Cx<'_>, peer: &Peer) -> Connection {
        if self.is_banned(cx, peer.address.ip()) {
            cx.abort();
        }
        match peer.speaks {
            Speaks::Xmpp => {
                let framing = Framing::Stream(Framer::new());
                Connection::Stream(self.begin(cx, peer.address.ip(), framing))
            }
            Speaks::Http => Connection::Http(Box::new(self.begin_http(cx, peer))),
            Speaks::Component(port) => {
                Connection::Component(Box::new(self.begin_component(cx, peer, port)))
            }
        }
    }

    fn receive(&mut self, cx: &mut Cx<'_>, conn: &mut Connection, input: &[u8]) -> usize {
        match conn {
            Connection::Stream(stream) => {
                let used = self.receive_stream(cx, stream, input);
                self.become_edge(cx, conn);
                used
            }
            Connection::Edge(edge) => self.receive_edge(cx, edge, input),
            Connection::Far(far) => self.receive_far(cx, far, input),
            Connection::Coming(_) => input.len(),
            Connection::Component(stream) => self.receive_component(cx, stream, input),
            Connection::Pipe(pipe) => self.receive_pipe(cx, pipe, input),
            Connection::Http(http) => {
                let (used, upgrade) = self.receive_http(cx, http, input);
                let Some(stream) = upgrade else {
                    return used;
                };
                let mut stream = stream;
                let used = used + self.receive_stream(cx, &mut stream, &input[used..]);
                *conn = Connection::Stream(*stream);
                self.become_edge(cx, conn);
                used
            }
        }
    }

    fn encode(out: &mut Vec<u8>, from: usize) {
        ws::encode(out, from);
    }

    fn tls_established(&mut self, _cx: &mut Cx<'_>, conn: &mut Connection, tls: &TlsInfo) {
        match conn {
            Connection::Stream(stream) => stream.machine.tls_established(tls.exporter),
            Connection::Http(http) => http.tls = Some(tls.exporter),
            // Those of before TLS, and those without a socket.
            Connection::Pipe(_)
            | Connection::Edge(_)
            | Connection::Far(_)
            | Connection::Component(_)
            | Connection::Coming(_) => {}
        }
    }

    fn control(&mut self, cx: &mut Cx<'_>, conn: &mut Connection, msg: control::Control) {
        let Some(msg) = self.read_control(cx, conn, msg) else {
            return;
        };
        match (conn, msg) {
            (Connection::Component(stream), control::Control::Component(msg)) => {
                self.told_component(cx, stream, msg);
            }
            (Connection::Stream(stream), control::Control::Web(msg)) => {
                self.told_session(cx, stream, *msg);
            }
            (Connection::Stream(stream), msg) => {
                self.told(cx, stream, msg);
                bosh::settle(cx, stream);
            }
            (Connection::Http(http), control::Control::Web(msg)) => self.told_http(cx, http, *msg),
            (Connection::Pipe(pipe), control::Control::Web(msg)) => pipe::told(cx, pipe, &msg),
            (Connection::Edge(edge), control::Control::Web(msg)) => match *msg {
                Control::Joined(word) => self.told_edge(cx, edge, word),
                msg => self.told_edge_session(cx, edge, msg),
            },
            (Connection::Far(far), control::Control::Web(msg)) => {
                if let Control::Joined(word) = *msg {
                    self.told_far(cx, far, word);
                }
            }
            (Connection::Far(far), msg) => self.control_far(cx, far, msg),
            (
                Connection::Http(_)
                | Connection::Pipe(_)
                | Connection::Edge(_)
                | Connection::Component(_)
                | Connection::Coming(_),
                _,
            ) => {}
        }
    }

    fn undelivered(&mut self, shard: &mut Shard, msg: control::Control) {
        let control::Control::Web(msg) = msg else {
            return;
        };
        match *msg {
            Control::Request(incoming) => {
                self.refuse_request(shard, incoming.ticket, Condition::ItemNotFound);
            }
            Control::FromAfar(from_afar) => {
                self.refuse_request(shard, from_afar.ticket, Condition::ItemNotFound);
            }
            Control::Joined(Word::Said(node, joined)) => self.home.line_is_gone(node, &joined),
            _ => {}
        }
    }

    fn deadline(&mut self, cx: &mut Cx<'_>, conn: &mut Connection) {
        match conn {
            Connection::Stream(stream) => {
                match stream.framing {
                    Framing::Bosh(_) => self.session_overdue(cx, stream),
                    Framing::Stream(_) | Framing::WebSocket(_) => self.overdue(cx, stream),
                }
                // It may have waited for a home.
                self.become_edge(cx, conn);
            }
            Connection::Http(http) => self.http_overdue(cx, http),
            Connection::Edge(edge) => self.edge_overdue(cx, edge),
            Connection::Far(far) => self.far_overdue(cx, far),
            Connection::Component(stream) => self.component_overdue(cx, stream),
            Connection::Pipe(_) | Connection::Coming(_) => {}
        }
    }

    fn opened(&mut self, cx: &mut Cx<'_>, conn: &mut Connection) {
        match conn {
            Connection::Stream(stream) => self.session_opened(cx, stream),
            Connection::Pipe(pipe) => self.pipe_opened(cx, pipe),
            Connection::Coming(comer) => {
                if let Some(comer) = comer.take() {
                    *conn = self.come(cx, *comer);
                }
            }
            Connection::Http(_)
            | Connection::Edge(_)
            | Connection::Far(_)
            | Connection::Component(_) => {}
        }
    }

    fn collect(&mut self, cx: &mut Cx<'_>, conn: &mut Connection, out: &mut Vec<u8>) {
        match conn {
            Connection::Stream(stream) => self.collect_session(cx, stream, out),
            Connection::Edge(edge) => self.collect_session(cx, edge.stream(), out),
            Connection::Far(far) => self.collect_far(cx, far, out),
            Connection::Http(_)
            | Connection::Pipe(_)
            | Connection::Component(_)
            | Connection::Coming(_) => {}
        }
    }

    fn written(&mut self, cx: &mut Cx<'_>, conn: &mut Connection) {
        let other = match conn {
            Connection::Http(http) => http.pipe(),
            Connection::Pipe(pipe) => Some(pipe.to),
            Connection::Edge(edge) => return self.edge_written(cx, edge),
            Connection::Stream(_)
            | Connection::Far(_)
            | Connection::Component(_)
            | Connection::Coming(_) => None,
        };
        if let Some(other) = other {
            // One that is gone is closed for that reason already.
            let _ = self
                .home
                .io
                .control(cx.mail(), other, control(Control::Written));
        }
    }

    fn adopted(&mut self, cx: &mut Cx<'_>, conn: &mut Connection) {
        if let Connection::Stream(stream) = conn {
            self.arrived(cx, stream);
        }
    }

    fn drain(&mut self, cx: &mut Cx<'_>, conn: &mut Connection) {
        match conn {
            Connection::Stream(stream) => {
                self.abort(cx, stream, Abort::Shutdown);
                match stream.framing {
                    Framing::WebSocket(_) => ws::say_goodbye(cx, &mut self.effects),
                    Framing::Stream(_) | Framing::Bosh(_) => self.carry_out(cx, stream),
                }
                bosh::drain(cx, stream);
            }
            Connection::Http(http) => http.drain(cx),
            Connection::Edge(edge) => self.drain_edge(cx, edge),
            Connection::Far(far) => self.drain_far(cx, far),
            Connection::Component(stream) => self.drain_component(cx, stream),
            Connection::Pipe(_) | Connection::Coming(_) => {}
        }
    }

    /// Those whose socket is at another node go there with it, and requests end by themselves.
    fn is_client(conn: &Connection) -> bool {
        matches!(conn, Connection::Stream(_) | Connection::Edge(_))
    }

    fn closed(&mut self, shard: &mut Shard, id: ConnRef, conn: Connection, why: Closed) {
        if matches!(why, Closed::Backlog | Closed::Overflow)
            && let Some(address) = conn.client()
        {
            self.brake(address, shard.now());
        }
        match conn {
            Connection::Stream(mut stream) => {
                self.session_closed(shard, &mut stream, why);
                self.gone(shard, id, stream, why);
            }
            Connection::Http(http) => self.http_closed(shard, id, &http),
            Connection::Component(stream) => self.component_closed(shard, id, &stream, why),
            Connection::Pipe(pipe) => self.pipe_closed(shard, &pipe),
            Connection::Edge(edge) => self.edge_closed(shard, id, edge, why),
            Connection::Far(far) => self.far_closed(shard, id, far, why),
            Connection::Coming(comer) => {
                if let Some(comer) = comer {
                    let (from, number) = comer.line();
                    self.home.refuse_line(comer.node, from, number);
                }
            }
        }
    }
}

impl C2sService {
    /// Reads what came to another node, and refuses what no session will hear.
    fn read_control(
        &mut self,
        cx: &mut Cx<'_>,
        conn: &Connection,
        msg: control::Control,
    ) -> Option<control::Control> {
        let control::Control::Web(mut msg) = msg else {
            return Some(msg);
        };
        if let Control::FromAfar(_) = &*msg
            && let Control::FromAfar(from_afar) = std::mem::replace(&mut *msg, Control::Written)
        {
            *msg = Control::Request(self.read_from_afar(cx, from_afar)?);
        }
        match (&*msg, conn) {
            // The name of a connection that is something else by now, or of another life.
            (
                Control::Request(incoming),
                Connection::Pipe(_)
                | Connection::Far(_)
                | Connection::Component(_)
                | Connection::Coming(_),
            ) => {
                self.refuse_request(cx.mail(), incoming.ticket, Condition::ItemNotFound);
                None
            }
            _ => Some(control::Control::Web(msg)),
        }
    }

    pub(crate) fn receive_stream(
        &mut self,
        cx: &mut Cx<'_>,
        conn: &mut Conn,
        input: &[u8],
    ) -> usize {
        let used = match conn.framing {
            Framing::WebSocket(_) => self.take_messages(cx, conn, input),
            Framing::Stream(_) | Framing::Bosh(_) => self.take_in(cx, conn, input),
        };
        bosh::settle(cx, conn);
        used
    }
}
