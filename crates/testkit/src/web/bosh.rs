//! A session over BOSH (XEP-0124, XEP-0206) for a client that speaks streams. A thread of its own
//! keeps one request waiting, as browsers do; it uses two connections, because one of them waits.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::iter::Cycle;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};
use std::vec::IntoIter;

use crate::web::{Cutter, Piece, attribute, attributes, header};

/// How long the thread looks at a socket before it looks for something to send.
const LOOK: Duration = Duration::from_millis(4);

/// How long an answer may take: longer than a request is held.
const PATIENCE: Duration = Duration::from_secs(120);

const NS_BIND: &str = "http://jabber.org/protocol/httpbind";

/// The client's side of a session.
pub struct BoshLink {
    out: Sender<Vec<u8>>,
    input: Receiver<Vec<u8>>,
    ready: Vec<u8>,
}

impl BoshLink {
    /// A session that begins with the header of the stream. Its requests go to these nodes in
    /// turn.
    pub(crate) fn open(nodes: Vec<SocketAddr>) -> io::Result<Self> {
        let first = *nodes.first().ok_or(ErrorKind::InvalidInput)?;
        let (out, commands) = channel();
        let (results, input) = channel();
        let mut session = Session {
            idle: vec![(first, connect(first)?)],
            nodes: nodes.into_iter().cycle(),
            waiting: VecDeque::new(),
            to_send: VecDeque::new(),
            cutter: Cutter::default(),
            rid: u64::from(fastrand::u32(..)) + 1,
            sid: None,
            is_over: false,
            results,
        };
        thread::Builder::new()
            .name("bosh".to_owned())
            .spawn(move || {
                // The reader sees the end of the channel as the end of the link.
                let _ = session.run(&commands);
            })?;
        Ok(BoshLink {
            out,
            input,
            ready: Vec::new(),
        })
    }

    /// Reads what has come as a stream; 0 bytes: the session is over.
    pub(crate) fn read(&mut self, buffer: &mut [u8], deadline: Instant) -> io::Result<usize> {
        if self.ready.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.input.recv_timeout(left) {
                Ok(bytes) => self.ready = bytes,
                Err(RecvTimeoutError::Timeout) => return Err(ErrorKind::TimedOut.into()),
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
            }
        }
        let length = self.ready.len().min(buffer.len());
        buffer[..length].copy_from_slice(&self.ready[..length]);
        self.ready.drain(..length);
        Ok(length)
    }

    /// Writes a part of a stream.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let sent = self.out.send(bytes.to_vec());
        sent.map_err(|_| ErrorKind::BrokenPipe.into())
    }

    /// The thread ends, and its sockets with it.
    pub(crate) fn drop_link(&mut self) {
        self.out = channel().0;
    }
}

struct Session {
    nodes: Cycle<IntoIter<SocketAddr>>,
    idle: Vec<(SocketAddr, TcpStream)>,
    /// Requests under way, oldest first, each with what has come of its answer.
    waiting: VecDeque<((SocketAddr, TcpStream), Vec<u8>, Instant)>,
    to_send: VecDeque<Piece>,
    cutter: Cutter,
    rid: u64,
    sid: Option<String>,
    is_over: bool,
    results: Sender<Vec<u8>>,
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(LOOK))?;
    Ok(socket)
}

impl Session {
    fn run(&mut self, commands: &Receiver<Vec<u8>>) -> io::Result<()> {
        while !self.is_over {
            loop {
                match commands.try_recv() {
                    Ok(bytes) => self.to_send.extend(self.cutter.cut(&bytes)),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return Ok(()),
                }
            }
            self.send_next()?;
            match self.waiting.is_empty() {
                true => thread::sleep(LOOK),
                false => self.look()?,
            }
        }
        Ok(())
    }

    /// At most two requests are under way, and an empty one only if no other is.
    fn send_next(&mut self) -> io::Result<()> {
        if self.sid.is_none() && !self.waiting.is_empty() {
            return Ok(());
        }
        match self.to_send.front() {
            None if self.waiting.is_empty() && self.sid.is_some() => self.post("", ""),
            Some(_) if self.waiting.len() < 2 => self.post_next(),
            _ => Ok(()),
        }
    }

    fn post_next(&mut self) -> io::Result<()> {
        match self.to_send.pop_front() {
            None => Ok(()),
            Some(Piece::Open(tag)) => {
                let asked = attributes(&tag);
                let mut more = String::from(" xmlns:xmpp='urn:xmpp:xbosh'");
                for name in ["to", "xml:lang"] {
                    if let Some(value) = attribute(&asked, name) {
                        more.push_str(&format!(" {name}='{value}'"));
                    }
                }
                if let Some(version) = attribute(&asked, "version") {
                    more.push_str(&format!(" xmpp:version='{version}'"));
                }
                more.push_str(match self.sid {
                    Some(_) => " xmpp:restart='true'",
                    None => " hold='1' wait='30' ver='1.11' ack='1'",
                });
                self.post(&more, "")
            }
            Some(Piece::Close) => self.post(" type='terminate'", ""),
            Some(Piece::Element(first)) => {
                let mut payload = first;
                // Several elements share a request, as far as they are there.
                while let Some(Piece::Element(_)) = self.to_send.front() {
                    let Some(Piece::Element(next)) = self.to_send.pop_front() else {
                        break;
                    };
                    if payload.len() + next.len() > 200_000 {
                        self.to_send.push_front(Piece::Element(next));
                        break;
                    }
                    payload.extend(next);
                }
                self.post_bytes("", &payload)
            }
        }
    }

    fn post(&mut self, more: &str, payload: &str) -> io::Result<()> {
        self.post_bytes(more, payload.as_bytes())
    }

    fn post_bytes(&mut self, more: &str, payload: &[u8]) -> io::Result<()> {
        let sid = match &self.sid {
            Some(sid) => format!(" sid='{sid}'"),
            None => String::new(),
        };
        let rid = self.rid;
        self.rid += 1;
        let mut body = format!("<body xmlns='{NS_BIND}' rid='{rid}'{sid}{more}>").into_bytes();
        body.extend_from_slice(payload);
        body.extend_from_slice(b"</body>");
        let Some(node) = self.nodes.next() else {
            return Err(ErrorKind::InvalidInput.into());
        };
        let idle = self.idle.iter().position(|(of, _)| *of == node);
        let mut socket = match idle {
            Some(at) => self.idle.swap_remove(at).1,
            None => connect(node)?,
        };
        let head = format!(
            "POST /http-bind HTTP/1.1\r\nHost: {}\r\nContent-Type: text/xml; charset=utf-8\r\n\
             Content-Length: {}\r\n\r\n",
            node,
            body.len()
        );
        socket.write_all(&[head.as_bytes(), &body].concat())?;
        let connected = (node, socket);
        self.waiting
            .push_back((connected, Vec::new(), Instant::now()));
        Ok(())
    }

    /// Looks at the oldest request: answers come in the order of requests.
    fn look(&mut self) -> io::Result<()> {
        let Some(((_, socket), got, since)) = self.waiting.front_mut() else {
            return Ok(());
        };
        let mut buffer = vec![0; 64 * 1024];
        match socket.read(&mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(length) => got.extend_from_slice(&buffer[..length]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if since.elapsed() > PATIENCE {
                    return Err(ErrorKind::TimedOut.into());
                }
            }
            Err(error) => return Err(error),
        }
        let Some(body) = complete(got)? else {
            return Ok(());
        };
        if let Some((socket, _, _)) = self.waiting.pop_front() {
            self.idle.push(socket);
        }
        self.take(&body);
        Ok(())
    }

    fn take(&mut self, body: &str) {
        let tag = super::tag_end(body.as_bytes()).unwrap_or(body.len());
        let said = attributes(body[..tag].trim_end_matches(['/', '>']));
        let inner = match body[..tag].ends_with("/>") {
            true => "",
            false => body[tag..].strip_suffix("</body>").unwrap_or_default(),
        };
        let mut stream = String::new();
        if let Some(sid) = attribute(&said, "sid") {
            self.sid = Some(sid.to_owned());
        }
        if inner.contains("<stream:features") {
            let of = |name: &str| {
                let value = attribute(&said, name).unwrap_or_default();
                (name.to_owned(), value.to_owned())
            };
            let id = ("id".to_owned(), of("sid").1);
            let version = ("version".to_owned(), "1.0".to_owned());
            stream.push_str(&header(&[id, of("from"), version]));
        } else if self.sid.is_none() || attribute(&said, "sid").is_some() {
            stream.push_str(&header(&[]));
        }
        stream.push_str(inner);
        if attribute(&said, "type") == Some("terminate") {
            self.is_over = true;
            stream.push_str("</stream:stream>");
        }
        if stream.is_empty() {
            return;
        }
        // Nobody reads any more only if the play is over.
        let _ = self.results.send(stream.into_bytes());
    }
}

/// The body of an answer, once it is whole.
fn complete(got: &[u8]) -> io::Result<Option<String>> {
    let text = String::from_utf8_lossy(got);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return Ok(None);
    };
    if !head.starts_with("HTTP/1.1 200 ") {
        return Err(io::Error::other(head.to_owned()));
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<usize>().ok())?
    });
    let length = length.ok_or_else(|| io::Error::other("no length"))?;
    Ok((body.len() >= length).then(|| body[..length].to_owned()))
}
