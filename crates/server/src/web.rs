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
mod pipe;
pub(crate) mod ws;

use actor::Shard;
use net::{Closed, ConnRef, Cx, Peer, Service, Speaks, TlsInfo};
use xml::Framer;

use crate::c2s::{self, Abort, C2sService, Conn, Framing};
use bosh::Ticket;
use http::Http;
use pipe::Pipe;

/// What a connection is at the moment.
pub enum Connection {
    /// A client's stream, whatever carries it.
    Stream(Conn),
    /// HTTP, between and in requests.
    Http(Box<Http>),
    /// Our end of a connection to whoever serves pages.
    Pipe(Pipe),
}

/// What connections of the web tell each other.
pub enum Control {
    /// A request of a session over BOSH.
    Request(bosh::Incoming),
    /// The connection of a request is gone.
    Lost(Ticket),
    /// The answer to one.
    Answer {
        /// Which request of the connection.
        slot: u32,
        /// The body.
        body: Vec<u8>,
        /// Its type, if it is not the usual one.
        content: Option<Box<str>>,
    },
    /// A request was made again elsewhere: it gets no answer.
    Drop(u32),
    /// The pipe is there.
    Piped(ConnRef),
    /// What was given to the other end of the pipe is written.
    Written,
}

fn control(control: Control) -> c2s::Control {
    c2s::Control::Web(Box::new(control))
}

impl Service for C2sService {
    type Conn = Connection;
    type Control = c2s::Control;

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
        }
    }

    fn receive(&mut self, cx: &mut Cx<'_>, conn: &mut Connection, input: &[u8]) -> usize {
        match conn {
            Connection::Stream(stream) => self.receive_stream(cx, stream, input),
            Connection::Pipe(pipe) => self.receive_pipe(cx, pipe, input),
            Connection::Http(http) => {
                let (used, upgrade) = self.receive_http(cx, http, input);
                let Some(stream) = upgrade else {
                    return used;
                };
                let mut stream = stream;
                let used = used + self.receive_stream(cx, &mut stream, &input[used..]);
                *conn = Connection::Stream(*stream);
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
            Connection::Pipe(_) => {}
        }
    }

    fn control(&mut self, cx: &mut Cx<'_>, conn: &mut Connection, msg: c2s::Control) {
        match (conn, msg) {
            (Connection::Stream(stream), c2s::Control::Web(msg)) => {
                self.told_session(cx, stream, *msg);
            }
            (Connection::Stream(stream), msg) => {
                self.told(cx, stream, msg);
                bosh::settle(cx, stream);
            }
            (Connection::Http(http), c2s::Control::Web(msg)) => self.told_http(cx, http, *msg),
            (Connection::Pipe(pipe), c2s::Control::Web(msg)) => pipe::told(cx, pipe, &msg),
            (Connection::Http(_) | Connection::Pipe(_), _) => {}
        }
    }

    fn undelivered(&mut self, shard: &mut Shard, msg: c2s::Control) {
        if let c2s::Control::Web(msg) = msg
            && let Control::Request(incoming) = *msg
        {
            self.refuse_request(shard, incoming.ticket, xmpp::bosh::Condition::ItemNotFound);
        }
    }

    fn deadline(&mut self, cx: &mut Cx<'_>, conn: &mut Connection) {
        match conn {
            Connection::Stream(stream) => match stream.framing {
                Framing::Bosh(_) => self.session_overdue(cx, stream),
                Framing::Stream(_) | Framing::WebSocket(_) => self.overdue(cx, stream),
            },
            Connection::Http(http) => self.http_overdue(cx, http),
            Connection::Pipe(_) => {}
        }
    }

    fn opened(&mut self, cx: &mut Cx<'_>, conn: &mut Connection) {
        match conn {
            Connection::Stream(stream) => self.session_opened(cx, stream),
            Connection::Pipe(pipe) => self.pipe_opened(cx, pipe),
            Connection::Http(_) => {}
        }
    }

    fn collect(&mut self, cx: &mut Cx<'_>, conn: &mut Connection, out: &mut Vec<u8>) {
        if let Connection::Stream(stream) = conn {
            self.collect_session(cx, stream, out);
        }
    }

    fn written(&mut self, cx: &mut Cx<'_>, conn: &mut Connection) {
        let other = match conn {
            Connection::Http(http) => http.pipe(),
            Connection::Pipe(pipe) => Some(pipe.to),
            Connection::Stream(_) => None,
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
            Connection::Pipe(_) => {}
        }
    }

    fn closed(&mut self, shard: &mut Shard, id: ConnRef, conn: Connection, why: Closed) {
        match conn {
            Connection::Stream(mut stream) => {
                self.session_closed(shard, &mut stream, why);
                self.gone(shard, id, stream, why);
            }
            Connection::Http(http) => self.http_closed(shard, id, &http),
            Connection::Pipe(pipe) => self.pipe_closed(shard, &pipe),
        }
    }
}

impl C2sService {
    fn receive_stream(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, input: &[u8]) -> usize {
        let used = match conn.framing {
            Framing::WebSocket(_) => self.take_messages(cx, conn, input),
            Framing::Stream(_) | Framing::Bosh(_) => self.take_in(cx, conn, input),
        };
        bosh::settle(cx, conn);
        used
    }
}
