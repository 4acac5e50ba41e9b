//! A client in the plain: just enough XMPP to see what a server does to its users.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// A connection and what it has read.
pub(crate) struct Client {
    socket: TcpStream,
    seen: String,
}

impl Client {
    /// Connects and opens a stream.
    pub(crate) fn connect(address: SocketAddr) -> Client {
        let socket = TcpStream::connect(address).expect("a connection");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut client = Client {
            socket,
            seen: String::new(),
        };
        client.open();
        client
    }

    /// Connects and logs in with the password `secret`.
    pub(crate) fn authenticated(address: SocketAddr, user: &str) -> Client {
        let mut client = Client::connect(address);
        client.authenticate(user, "secret");
        client.expect("<success");
        client.open();
        client
    }

    /// The same, and binds a resource and says that it is there.
    pub(crate) fn online(address: SocketAddr, user: &str, resource: &str) -> Client {
        let mut client = Client::authenticated(address, user);
        client.bind(resource);
        client.expect(&format!("{user}@localhost/{resource}</jid></bind></iq>"));
        client.send("<presence/>");
        client.expect(&format!("<presence from='{user}@localhost/{resource}'"));
        client
    }

    fn open(&mut self) {
        self.send(
            "<stream:stream to='localhost' version='1.0' xmlns='jabber:client' \
             xmlns:stream='http://etherx.jabber.org/streams'>",
        );
        self.expect("</stream:features>");
    }

    /// Begins a login with PLAIN.
    pub(crate) fn authenticate(&mut self, user: &str, password: &str) {
        let token = xmpp::sasl::encode(&format!("\0{user}\0{password}"));
        self.send(&format!(
            "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{token}</auth>"
        ));
    }

    fn bind(&mut self, resource: &str) {
        self.send(&format!(
            "<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>\
             <resource>{resource}</resource></bind></iq>"
        ));
    }

    /// Sends text as it is.
    pub(crate) fn send(&mut self, text: &str) {
        self.socket.write_all(text.as_bytes()).expect("sent");
    }

    /// Sends a chat message.
    pub(crate) fn say(&mut self, to: &str, body: &str) {
        self.send(&format!(
            "<message to='{to}@localhost' type='chat' id='{body}'><body>{body}</body></message>"
        ));
    }

    /// Reads until `wanted` has come, and forgets everything up to its end, which it returns.
    pub(crate) fn expect(&mut self, wanted: &str) -> String {
        self.expect_all(&[wanted])
    }

    /// The same for several things that come in any order: up to the end of the last one.
    pub(crate) fn expect_all(&mut self, wanted: &[&str]) -> String {
        let mut buffer = [0; 4096];
        let end_of = |seen: &str, wanted: &&str| seen.find(*wanted).map(|at| at + wanted.len());
        loop {
            let ends: Option<Vec<usize>> = wanted
                .iter()
                .map(|wanted| end_of(&self.seen, wanted))
                .collect();
            if let Some(end) = ends.and_then(|ends| ends.into_iter().max()) {
                return self.seen.drain(..end).collect();
            }
            let read = self.socket.read(&mut buffer);
            if read
                .as_ref()
                .is_err_and(|error| error.kind() == ErrorKind::Interrupted)
            {
                // The process was paused for a moment.
                continue;
            }
            let read = read.unwrap_or_else(|e| panic!("{wanted:?}: {e}; seen {:?}", self.seen));
            assert!(read > 0, "closed before {wanted:?}; seen {:?}", self.seen);
            self.seen
                .push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
    }

    /// Reads to the end of the connection.
    pub(crate) fn rest(mut self) -> String {
        let mut bytes = Vec::new();
        let end = self.socket.read_to_end(&mut bytes);
        // A reset is an end too; what came before it counts.
        let is_end = |kind| kind == ErrorKind::ConnectionReset;
        assert!(
            end.as_ref().map_or_else(|e| is_end(e.kind()), |_| true),
            "no end: {end:?}"
        );
        self.seen.push_str(&String::from_utf8_lossy(&bytes));
        self.seen
    }

    /// Has the server answer everything that was sent so far. Returns what came before the answer.
    pub(crate) fn sync(&mut self) -> String {
        self.send("<iq type='get' id='sync'><ping xmlns='urn:xmpp:ping'/></iq>");
        self.expect("id='sync'")
    }
}
