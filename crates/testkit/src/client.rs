//! A real XMPP client over a blocking socket: streams, STARTTLS, SASL, binding, stanzas.
//!
//! It does what a login needs and nothing on its own afterwards: whatever it reads is handed out in
//! order, and everything it saw and said is kept in a transcript for the reader of a failure.

use crate::scram::{self, Login, Scram};
use crate::transport::{Kind, Transport};
use crate::tree::{Built, Element, NS_STREAMS, escape};
use crate::wire::StreamReader;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

/// Bytes read from the socket at once.
const READ_BYTES: usize = 64 * 1024;
/// Lines of the transcript that are kept.
const TRANSCRIPT_MAX: usize = 60;
/// The longest entry in the transcript, in characters.
const ENTRY_CHARS_MAX: usize = 1_500;

/// Longer than other accounts take to be asked for their last items.
const LAST_ITEMS_PAUSE: Duration = Duration::from_millis(50);

const NS_TLS: &str = "urn:ietf:params:xml:ns:xmpp-tls";
const NS_SASL: &str = "urn:ietf:params:xml:ns:xmpp-sasl";
const NS_BIND: &str = "urn:ietf:params:xml:ns:xmpp-bind";
const NS_CHANNEL_BINDING: &str = "urn:xmpp:sasl-cb:0";

/// Where a server listens.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    /// For plain streams and STARTTLS.
    pub plain: SocketAddr,
    /// For direct TLS.
    pub tls: SocketAddr,
    /// For streams over HTTP.
    pub web: SocketAddr,
    /// The same under TLS.
    pub web_tls: SocketAddr,
    /// Another node, to which every second request over BOSH goes.
    pub also_web: Option<SocketAddr>,
}

/// What a client wants to be.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The account and its password.
    pub login: Login,
    /// Domain of the account.
    pub domain: String,
    /// Resource to ask for.
    pub resource: Option<String>,
    /// A mechanism other than the strongest offered.
    pub mechanism: Option<String>,
}

/// What came next on a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Got {
    /// The server's stream header.
    Header(Element),
    /// A complete top-level element.
    Element(Element),
    /// The server closed its stream.
    StreamEnd,
    /// The socket ended.
    LinkEnd,
    /// The deadline passed.
    Nothing,
}

/// One connection.
pub struct Client {
    transport: Option<Transport>,
    reader: StreamReader,
    ready: VecDeque<Got>,
    transcript: VecDeque<String>,
    patience: Duration,
    syncs: u32,
    /// The address that the server bound; empty before.
    pub full_jid: String,
    /// Whether the server closed its stream already.
    pub is_stream_ended: bool,
}

// === impl Client: the link ===

impl Client {
    /// Connects, and runs the TLS handshake if the kind is direct TLS. `patience` is how long each
    /// later answer may take.
    ///
    /// # Errors
    /// Nobody listens there, or the handshake failed.
    pub fn open(
        address: Address,
        kind: Kind,
        domain: &str,
        patience: Duration,
    ) -> Result<Self, String> {
        let target = match kind {
            Kind::Tcp | Kind::StartTls => address.plain,
            Kind::DirectTls => address.tls,
            Kind::WebSocket | Kind::Bosh => address.web,
            Kind::WebSocketTls => address.web_tls,
        };
        let connected = match kind {
            Kind::Bosh => Transport::bosh([target].into_iter().chain(address.also_web)),
            _ => Transport::connect(target),
        };
        let mut transport =
            connected.map_err(|why| format!("cannot connect to {target}: {why}"))?;
        if kind.is_direct_tls() {
            let protocol: &[u8] = if kind.is_web() {
                b"http/1.1"
            } else {
                b"xmpp-client"
            };
            transport = transport
                .start_tls_for(domain, protocol)
                .map_err(|why| format!("TLS: {why}"))?;
        }
        if matches!(kind, Kind::WebSocket | Kind::WebSocketTls) {
            let shaken = transport.web_socket(&target.to_string());
            transport = shaken.map_err(|why| format!("WebSocket: {why}"))?;
        }
        Ok(Self {
            transport: Some(transport),
            reader: StreamReader::default(),
            ready: VecDeque::new(),
            transcript: VecDeque::new(),
            patience,
            syncs: 0,
            full_jid: String::new(),
            is_stream_ended: false,
        })
    }

    /// Sends bytes as they are. A link that the server has closed is not an error here: what the
    /// server said before it did is still to be read.
    ///
    /// # Errors
    /// The server stopped reading, or the link was dropped by us.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.note("→", &String::from_utf8_lossy(bytes));
        let transport = self.transport.as_mut().ok_or("not connected")?;
        match transport.write(bytes) {
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::NotConnected
                ) =>
            {
                Ok(())
            }
            other => other.map_err(|why| format!("cannot send: {why}")),
        }
    }

    /// The next thing from the server, or [`Got::Nothing`] after `wait`.
    ///
    /// # Errors
    /// The server's bytes are not XML.
    pub fn next(&mut self, wait: Duration) -> Result<Got, String> {
        let deadline = Instant::now() + wait;
        let mut buffer = vec![0; READ_BYTES];
        loop {
            if let Some(got) = self.ready.pop_front() {
                return Ok(got);
            }
            let Some(transport) = self.transport.as_mut() else {
                return Ok(Got::LinkEnd);
            };
            match transport.read(&mut buffer, deadline) {
                Ok(0) => {
                    self.note("←", "(end of the link)");
                    self.transport = None;
                }
                Ok(length) => self.take(&buffer[..length])?,
                Err(error) if error.kind() == ErrorKind::TimedOut => return Ok(Got::Nothing),
                Err(error) => {
                    self.note("←", &format!("(link broken: {error})"));
                    self.transport = None;
                }
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.note("←", &String::from_utf8_lossy(bytes));
        self.reader.feed(bytes)?;
        while let Some(built) = self.reader.next_item() {
            self.ready.push_back(match built {
                Built::Root(root) => Got::Header(root),
                Built::Element(element) => Got::Element(element),
                Built::End => {
                    self.is_stream_ended = true;
                    Got::StreamEnd
                }
            });
        }
        Ok(())
    }

    /// Puts something back to be read first.
    pub fn unread(&mut self, got: Got) {
        self.ready.push_front(got);
    }

    /// Ends the link at once.
    pub fn drop_link(&mut self) {
        if let Some(mut transport) = self.transport.take() {
            transport.drop_link();
        }
    }

    /// Whether there is still a socket.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.transport.is_some()
    }

    /// The latest of what was said on this connection, one line each.
    #[must_use]
    pub fn transcript(&self) -> String {
        self.transcript
            .iter()
            .map(|line| format!("    {line}\n"))
            .collect()
    }

    fn note(&mut self, direction: &str, text: &str) {
        if self.transcript.len() == TRANSCRIPT_MAX {
            self.transcript.pop_front();
        }
        let mut line: String = text.chars().take(ENTRY_CHARS_MAX).collect();
        if line.len() < text.len() {
            line.push('…');
        }
        self.transcript.push_back(format!("{direction} {line}"));
    }
}

// === impl Client: the stages of a login ===

impl Client {
    /// Sends a stream header for a fresh stream; what the old one left unread is forgotten.
    ///
    /// # Errors
    /// The link is gone.
    pub fn send_header(&mut self, domain: &str) -> Result<(), String> {
        self.restart();
        let header = format!(
            "<?xml version='1.0'?><stream:stream to='{domain}' version='1.0' xml:lang='en' \
             xmlns='jabber:client' xmlns:stream='{NS_STREAMS}'>"
        );
        self.send(header.as_bytes())
    }

    /// Expects a new stream from the server's next byte on.
    pub fn restart(&mut self) {
        self.reader = StreamReader::default();
        self.ready.clear();
    }

    /// Reads the header and the features of a stream.
    ///
    /// # Errors
    /// Something else came.
    pub fn expect_features(&mut self) -> Result<Element, String> {
        match self.next(self.patience)? {
            Got::Header(_) => {}
            other => {
                return Err(format!(
                    "expected a stream header, got {}",
                    describe(&other)
                ));
            }
        }
        let element = self.expect_element()?;
        if element.is(NS_STREAMS, "features") {
            return Ok(element);
        }
        Err(format!("expected features, got\n{element}"))
    }

    /// The next element, whatever it is.
    ///
    /// # Errors
    /// The stream or the link ended, or nothing came in time.
    pub fn expect_element(&mut self) -> Result<Element, String> {
        match self.next(self.patience)? {
            Got::Element(element) => Ok(element),
            other => Err(format!("expected an element, got {}", describe(&other))),
        }
    }

    /// Runs the TLS handshake on a connection whose server said `<proceed/>`.
    ///
    /// # Errors
    /// The handshake failed.
    pub fn negotiate_tls(&mut self, domain: &str) -> Result<(), String> {
        let transport = self.transport.take().ok_or("not connected")?;
        self.transport = Some(
            transport
                .start_tls(domain)
                .map_err(|why| format!("TLS: {why}"))?,
        );
        self.restart();
        Ok(())
    }

    /// Opens a stream and goes through STARTTLS if the kind asks for it; gives the features of the
    /// stream on which authentication happens.
    ///
    /// # Errors
    /// The server did something else.
    pub fn open_stream(&mut self, kind: Kind, domain: &str) -> Result<Element, String> {
        self.send_header(domain)?;
        let features = self.expect_features()?;
        if kind != Kind::StartTls {
            return Ok(features);
        }
        if features.child(NS_TLS, "starttls").is_none() {
            return Err(format!("STARTTLS is not offered:\n{features}"));
        }
        self.send(format!("<starttls xmlns='{NS_TLS}'/>").as_bytes())?;
        let answer = self.expect_element()?;
        if !answer.is(NS_TLS, "proceed") {
            return Err(format!("STARTTLS was refused:\n{answer}"));
        }
        self.negotiate_tls(domain)?;
        self.send_header(domain)?;
        self.expect_features()
    }

    /// Authenticates; gives the name of the SASL condition if the server refuses.
    ///
    /// # Errors
    /// The server broke the protocol.
    pub fn authenticate(
        &mut self,
        identity: &Identity,
        features: &Element,
    ) -> Result<Result<(), String>, String> {
        let transport = self.transport.as_ref().ok_or("not connected")?;
        let exporter = transport.exporter();
        let mechanism = match &identity.mechanism {
            Some(mechanism) => mechanism.clone(),
            None => choose(features, exporter.is_some())?,
        };
        let mut exchange = match mechanism.as_str() {
            "PLAIN" => None,
            name => Some(Scram::new(
                name,
                &identity.login,
                exporter.as_ref().map(|e| &e[..]),
            )?),
        };
        let first = match &exchange {
            None => scram::plain(&identity.login),
            Some(scram) => scram.first(),
        };
        let first = STANDARD.encode(first);
        let auth = format!("<auth xmlns='{NS_SASL}' mechanism='{mechanism}'>{first}</auth>");
        self.send(auth.as_bytes())?;
        loop {
            let answer = self.expect_element()?;
            let text = STANDARD.decode(answer.text().trim());
            match (answer.name.as_str(), &mut exchange) {
                ("challenge", Some(scram)) => {
                    let text = text.map_err(|_| "the challenge is not base64")?;
                    let response = STANDARD.encode(scram.answer(&text)?);
                    let response = format!("<response xmlns='{NS_SASL}'>{response}</response>");
                    self.send(response.as_bytes())?;
                }
                ("success", exchange) => {
                    if let Some(scram) = exchange {
                        scram.verify(&text.map_err(|_| "the success is not base64")?)?;
                    }
                    return Ok(Ok(()));
                }
                ("failure", _) => {
                    let condition = answer.children().find(|child| child.name != "text");
                    return Ok(Err(
                        condition.map_or(String::new(), |child| child.name.to_string())
                    ));
                }
                _ => return Err(format!("SASL went wrong:\n{answer}")),
            }
        }
    }

    /// Binds a resource and remembers the full address.
    ///
    /// # Errors
    /// The server refused.
    pub fn bind(&mut self, resource: Option<&str>) -> Result<(), String> {
        let wish = resource.map_or(String::new(), |name| {
            format!("<resource>{}</resource>", escape(name))
        });
        self.send(
            format!("<iq type='set' id='bind-0'><bind xmlns='{NS_BIND}'>{wish}</bind></iq>")
                .as_bytes(),
        )?;
        let answer = self.expect_element()?;
        let jid = answer
            .child(NS_BIND, "bind")
            .and_then(|bind| bind.child(NS_BIND, "jid"));
        match jid {
            Some(jid) if answer.attr("type") == Some("result") => {
                self.full_jid = jid.text();
                Ok(())
            }
            _ => Err(format!("binding failed:\n{answer}")),
        }
    }

    /// The whole login: stream, TLS, SASL, binding.
    ///
    /// # Errors
    /// Any step of it failed.
    pub fn log_in(&mut self, kind: Kind, identity: &Identity) -> Result<(), String> {
        let features = self.open_stream(kind, &identity.domain)?;
        self.authenticate(identity, &features)?
            .map_err(|condition| format!("authentication was refused: {condition}"))?;
        self.send_header(&identity.domain)?;
        self.expect_features()?;
        self.bind(identity.resource.as_deref())
    }

    /// Fetches the roster, which makes this resource one that gets pushes, and sends presence; done
    /// once the server reflects the presence. Whatever else comes meanwhile stays to be read.
    ///
    /// # Errors
    /// One of the two was not answered.
    pub fn go_online(&mut self) -> Result<(), String> {
        self.send(b"<iq type='get' id='roster-0'><query xmlns='jabber:iq:roster'/></iq>")?;
        self.wait_for("the roster", |element, _| {
            element.attr("id") == Some("roster-0")
        })?;
        self.send(b"<presence/>")?;
        self.wait_for("our own presence", |element, me| {
            element.name == "presence" && element.attr("from") == Some(me)
        })?;
        Ok(())
    }

    /// Sends presence that says of which nodes this client wants to hear (XEP-0115, XEP-0163), and
    /// answers the server's question about it: no client had this hash before.
    ///
    /// # Errors
    /// The server does not ask.
    pub fn announce(&mut self, nodes: &[String]) -> Result<(), String> {
        const DISCO: &str = "http://jabber.org/protocol/disco#info";
        let unique = format!("urn:example:client:{:016x}", fastrand::u64(..));
        let mut features: Vec<String> = vec![DISCO.to_owned(), unique];
        features.extend(nodes.iter().map(|node| format!("{node}+notify")));
        features.sort_unstable();
        let text: String = features.iter().map(|var| format!("{var}<")).collect();
        let text = format!("client/pc//Play<{text}");
        let hash = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
        let ver = STANDARD.encode(hash);
        let presence = format!(
            "<presence><c xmlns='http://jabber.org/protocol/caps' hash='sha-1' \
             node='urn:example:client' ver='{ver}'/></presence>"
        );
        self.send(presence.as_bytes())?;
        self.wait_for("our own presence", |element, me| {
            element.name == "presence" && element.attr("from") == Some(me)
        })?;
        let about = format!("urn:example:client#{ver}");
        let question = self.wait_for("a question about capabilities", |element, _| {
            let query = element.child(DISCO, "query");
            query.is_some_and(|query| query.attr("node") == Some(&about))
        })?;
        let (id, from) = (question.attr("id"), question.attr("from"));
        let (id, from) = (id.unwrap_or_default(), from.unwrap_or_default());
        let vars = features.iter();
        let vars: String = vars.map(|var| format!("<feature var='{var}'/>")).collect();
        let answer = format!(
            "<iq type='result' id='{id}' to='{from}'><query xmlns='{DISCO}' node='{about}'>\
             <identity category='client' type='pc' name='Play'/>{vars}</query></iq>"
        );
        self.send(answer.as_bytes())?;
        self.sync()?;
        // Contacts' accounts are then asked for their last items, and no answer shows when they
        // have been: what one publishes before that comes twice, as an event and as the last item.
        thread::sleep(LAST_ITEMS_PAUSE);
        Ok(())
    }

    /// A round trip to the server: what was sent before is then processed by our own server side.
    ///
    /// # Errors
    /// No answer.
    pub fn sync(&mut self) -> Result<(), String> {
        self.syncs += 1;
        let id = format!("sync-{}", self.syncs);
        let ping = format!("<iq type='get' id='{id}'><ping xmlns='urn:xmpp:ping'/></iq>");
        self.send(ping.as_bytes())?;
        self.wait_for("the answer to a ping", |element, _| {
            element.attr("id") == Some(&id)
        })?;
        Ok(())
    }

    /// Takes the first element that passes the test, leaving what came before it to be read.
    ///
    /// # Errors
    /// It did not come in time.
    pub fn wait_for(
        &mut self,
        what: &str,
        test: impl Fn(&Element, &str) -> bool,
    ) -> Result<Element, String> {
        let deadline = Instant::now() + self.patience;
        let mut skipped = VecDeque::new();
        let result = loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.next(left)? {
                Got::Element(element) if test(&element, &self.full_jid) => break Ok(element),
                Got::Element(element) => skipped.push_back(Got::Element(element)),
                other => break Err(format!("expected {what}, got {}", describe(&other))),
            }
        };
        while let Some(got) = skipped.pop_back() {
            self.unread(got);
        }
        result
    }

    /// Closes the stream and waits until the server has closed it too.
    ///
    /// # Errors
    /// The server does not.
    pub fn disconnect(&mut self) -> Result<(), String> {
        self.send(b"</stream:stream>")?;
        loop {
            match self.next(self.patience)? {
                Got::StreamEnd => break,
                Got::Element(_) | Got::Header(_) => {}
                other => return Err(format!("expected </stream:stream>, {}", describe(&other))),
            }
        }
        self.drop_link();
        Ok(())
    }
}

/// What came, for a message.
#[must_use]
pub fn describe(got: &Got) -> String {
    match got {
        Got::Header(header) => format!("a stream header\n{header}"),
        Got::Element(element) => format!("\n{element}"),
        Got::StreamEnd => "the end of the stream".to_owned(),
        Got::LinkEnd => "the end of the link".to_owned(),
        Got::Nothing => "nothing in time".to_owned(),
    }
}

/// The strongest mechanism that both sides know; -PLUS only if the server can bind to tls-exporter.
fn choose(features: &Element, has_exporter: bool) -> Result<String, String> {
    let offered: Vec<String> = features
        .child(NS_SASL, "mechanisms")
        .map(|list| list.children().map(Element::text).collect())
        .unwrap_or_default();
    let can_bind = has_exporter
        && features
            .child(NS_CHANNEL_BINDING, "sasl-channel-binding")
            .is_some_and(|list| {
                list.children()
                    .any(|binding| binding.attr("type") == Some("tls-exporter"))
            });
    scram::MECHANISMS
        .into_iter()
        .filter(|name| can_bind || !name.ends_with("-PLUS"))
        .find(|name| offered.iter().any(|offer| offer == name))
        .map(str::to_owned)
        .ok_or(format!("no mechanism of {offered:?} is known"))
}
