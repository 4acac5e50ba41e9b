//! A stream over WebSocket (RFC 7395), on `tungstenite`: frames are read and written by somebody
//! who did not write the server's.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

use tungstenite::client::{IntoClientRequest, client};
use tungstenite::http::HeaderValue;
use tungstenite::{HandshakeError, Message, WebSocket};

use crate::web::{Cutter, Piece, attributes, header};

/// What it runs over.
pub(crate) trait Link: Read + Write + Send {
    /// The socket below.
    fn socket(&self) -> &TcpStream;
}

/// One connection.
pub struct WebSocketLink {
    socket: WebSocket<Box<dyn Link>>,
    cutter: Cutter,
    /// What has come and was not read.
    ready: Vec<u8>,
}

impl WebSocketLink {
    /// Shakes hands over a connected link.
    pub(crate) fn open(link: Box<dyn Link>, host: &str, is_tls: bool) -> io::Result<Self> {
        let scheme = if is_tls { "wss" } else { "ws" };
        let mut request = format!("{scheme}://{host}/xmpp-websocket")
            .into_client_request()
            .map_err(io::Error::other)?;
        let protocol = HeaderValue::from_static("xmpp");
        request
            .headers_mut()
            .insert("Sec-WebSocket-Protocol", protocol);
        let (socket, answer) = client(request, link).map_err(|error| match error {
            HandshakeError::Failure(error) => io::Error::other(error),
            HandshakeError::Interrupted(_) => ErrorKind::TimedOut.into(),
        })?;
        if answer
            .headers()
            .get("sec-websocket-protocol")
            .map(HeaderValue::as_bytes)
            != Some(b"xmpp")
        {
            return Err(io::Error::other("the server chose no protocol"));
        }
        Ok(WebSocketLink {
            socket,
            cutter: Cutter::default(),
            ready: Vec::new(),
        })
    }

    pub(crate) fn tcp(&self) -> &TcpStream {
        self.socket.get_ref().socket()
    }

    /// Reads what has come as a stream; 0 bytes: the peer has ended the connection.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.ready.is_empty() {
            match self.socket.read() {
                Ok(Message::Text(text)) => self.take(text.as_str()),
                Ok(Message::Close(_)) | Err(tungstenite::Error::ConnectionClosed) => return Ok(0),
                Ok(Message::Binary(_)) => return Err(io::Error::other("binary data")),
                Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
                Err(tungstenite::Error::Io(error)) => return Err(error),
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        let length = self.ready.len().min(buffer.len());
        buffer[..length].copy_from_slice(&self.ready[..length]);
        self.ready.drain(..length);
        Ok(length)
    }

    /// A message is one element, so that these are told apart by their beginning.
    fn take(&mut self, text: &str) {
        if text.starts_with("<open ") {
            self.ready.extend(header(&attributes(text)).into_bytes());
        } else if text.starts_with("<close ") {
            self.ready.extend_from_slice(b"</stream:stream>");
        } else {
            self.ready.extend_from_slice(text.as_bytes());
        }
    }

    /// Writes a part of a stream.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        const NS: &str = "urn:ietf:params:xml:ns:xmpp-framing";
        for piece in self.cutter.cut(bytes) {
            let text = match piece {
                Piece::Open(tag) => {
                    let mut text = format!("<open xmlns='{NS}'");
                    for (name, value) in attributes(&tag) {
                        if !name.starts_with("xmlns") {
                            text.push_str(&format!(" {name}='{value}'"));
                        }
                    }
                    text.push_str("/>");
                    text.into_bytes()
                }
                Piece::Close => format!("<close xmlns='{NS}'/>").into_bytes(),
                Piece::Element(element) => element,
            };
            self.send(text)?;
        }
        Ok(())
    }

    fn send(&mut self, text: Vec<u8>) -> io::Result<()> {
        let message = match String::from_utf8(text) {
            Ok(text) => Message::text(text),
            Err(bytes) => {
                use tungstenite::protocol::frame::Frame;
                use tungstenite::protocol::frame::coding::{Data, OpCode};
                let opcode = OpCode::Data(Data::Text);
                Message::Frame(Frame::message(bytes.into_bytes(), opcode, true))
            }
        };
        match self.socket.send(message) {
            Ok(()) => Ok(()),
            Err(tungstenite::Error::Io(error)) => Err(error),
            Err(
                tungstenite::Error::AlreadyClosed
                | tungstenite::Error::ConnectionClosed
                | tungstenite::Error::Protocol(_),
            ) => Err(ErrorKind::BrokenPipe.into()),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    pub(crate) fn drop_link(&mut self) {
        // The peer may have been faster.
        let _ = self.tcp().shutdown(Shutdown::Both);
    }
}
