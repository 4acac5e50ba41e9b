//! The connections of a worker: connecting, TLS, reading, writing and ending them.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use mio::event::Event as Readiness;
use mio::net::TcpStream;
use mio::{Interest, Token};
use rustix::io::Errno;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConnection, Resumption};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::{Client, Core, Due, ZOMBIES_MAX};
use crate::clock;
use crate::sasl::Mechanism;
use crate::scan;
use crate::scenario::Cut;
use crate::session::{SessionContext, Stage, Way};
use crate::tally::Timing;
use crate::websocket;

/// Buffers read from one connection before others get their turn.
const READS_PER_TURN: usize = 16;
/// Unsent bytes beyond which a client writes no further messages.
pub(super) const UNSENT_BYTES_MAX: usize = 1024 * 1024;
/// Time a server has to answer `</stream:stream>`.
const CLOSE_WAIT: u64 = 5 * clock::SECOND;

/// Ports tried for one connection.
const PORT_TRIES_MAX: u32 = 1_000;
/// Ports to connect from where the kernel does not say which ones are meant for it.
const PORTS_DEFAULT: [u16; 2] = [32_768, 60_999];

/// Local addresses and ports to connect from, each one used again as late as possible.
///
/// The kernel could pick the port, but once most are in use or waiting to be free it searches, for
/// a millisecond and more: a storm of reconnections would be a trickle.
pub(super) struct Ports {
    sources: Vec<IpAddr>,
    range: [u16; 2],
    next: u64,
}

impl Ports {
    /// Every worker begins elsewhere, in case they share addresses.
    pub(super) fn new(sources: &[IpAddr], worker: u32, workers: u32) -> Ports {
        let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
        let mut words = text.iter().flat_map(|text| text.split_whitespace());
        let mut word = || words.next()?.parse().ok();
        let range = match (word(), word()) {
            (Some(first), Some(last)) if first < last => [first, last],
            _ => PORTS_DEFAULT,
        };
        let all = (u64::from(range[1] - range[0]) + 1) * sources.len() as u64;
        Ports {
            sources: sources.to_vec(),
            range,
            next: all * u64::from(worker) / u64::from(workers.max(1)),
        }
    }

    /// The next one; `None` where the kernel picks.
    fn next(&mut self) -> Option<SocketAddr> {
        let count = self.sources.len() as u64;
        let source = self.sources.get((self.next % count.max(1)) as usize)?;
        let [first, last] = self.range;
        let place = self.next / count % (u64::from(last - first) + 1);
        self.next += 1;
        Some(SocketAddr::new(*source, first + place as u16))
    }
}

fn begin_connection(to: SocketAddr, from: Option<SocketAddr>) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    if let Some(from) = from {
        // A port whose last connection is in TIME_WAIT may be used again.
        socket.set_reuse_address(true)?;
        socket.bind(&from.into())?;
    }
    match socket.connect(&to.into()) {
        Err(error) if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) => Err(error),
        _ => Ok(socket),
    }
}

fn is_port_taken(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable
    )
}

/// What a connection speaks first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    Stream,
    Tls,
    Web,
}

/// How a link or a session ended on its own.
pub(super) enum End {
    /// In good order.
    Closed,
    /// With a reason.
    Broken(String),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        End::Broken(describe(&error))
    }
}

/// A short, stable text for an I/O error, fit for counting.
pub(crate) fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => "connection reset".to_owned(),
        io::ErrorKind::TimedOut => "connection timed out".to_owned(),
        io::ErrorKind::AddrNotAvailable => {
            "no free local port (use --sources to spread over more addresses)".to_owned()
        }
        _ => error.to_string(),
    }
}

impl Core {
    /// Begins the login that was meant to begin at `scheduled`.
    pub(super) fn login(&mut self, client: &mut Client, index: u32, scheduled: u64) {
        if client.coming {
            client.coming = false;
            self.coming -= 1;
        }
        if client.session.stage != Stage::Offline {
            self.drop_link(client, index, false);
        }
        self.record(Timing::Lag, scheduled);
        self.counts.logins_started += 1;
        client.scheduled = scheduled;
        client.bound = false;
        let user = self.plan.first + index;
        let first = self.first_layer(user);
        client.session.begin(self.way(user));
        self.logging_in += 1;
        let to = match first {
            Layer::Tls => self.plan.tls_address,
            Layer::Web => self.plan.web_address,
            Layer::Stream => self.plan.address(user),
        };
        match self.connect(to, index) {
            Ok(socket) => {
                client.socket = Some(socket);
                let timeout = clock::nanos(self.plan.scenario.client.login_timeout_seconds);
                self.set_timer(self.now + timeout, index, client.generation, Due::Timeout);
            }
            Err(error) => self.fail(client, index, &describe(&error)),
        }
    }

    fn connect(&mut self, to: SocketAddr, index: u32) -> io::Result<TcpStream> {
        let mut tries = 0;
        let socket = loop {
            let from = self.ports.next();
            match begin_connection(to, from) {
                // Taken by another program, or by a connection that ended a moment ago.
                Err(error) if from.is_some() && tries < PORT_TRIES_MAX && is_port_taken(&error) => {
                    tries += 1;
                }
                other => break other?,
            }
        };
        let mut socket = TcpStream::from_std(socket.into());
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll
            .registry()
            .register(&mut socket, Token(index as usize), interest)?;
        Ok(socket)
    }

    fn way(&self, user: u32) -> Way {
        let scenario = &self.plan.scenario;
        let auth = &scenario.auth;
        let shares = [
            (Mechanism::ScramSha1, auth.scram_sha_1),
            (Mechanism::ScramSha256, auth.scram_sha_256),
            (Mechanism::Plain, auth.plain),
        ];
        let transport = &scenario.transport;
        let secure = [
            (false, transport.plaintext),
            (true, transport.starttls),
            (false, transport.direct),
            (false, transport.websocket),
        ];
        Way {
            mechanism: by_share(&shares, user, 1),
            starttls: by_share(&secure, user, 2),
        }
    }

    fn first_layer(&self, user: u32) -> Layer {
        let transport = &self.plan.scenario.transport;
        let shares = [
            (Layer::Stream, transport.plaintext),
            (Layer::Stream, transport.starttls),
            (Layer::Tls, transport.direct),
            (Layer::Web, transport.websocket),
        ];
        by_share(&shares, user, 2)
    }

    /// Handles what the kernel says of a connection.
    pub(super) fn ready(&mut self, client: &mut Client, index: u32, event: &Readiness) {
        if client.session.stage == Stage::Connecting {
            let Some(socket) = &client.socket else { return };
            match socket.take_error() {
                Ok(None) if event.is_writable() => {
                    if let Err(end) = self.connected(client, index) {
                        return self.end(client, index, end);
                    }
                }
                Ok(None) => return,
                Ok(Some(error)) | Err(error) => {
                    return self.fail(client, index, &describe(&error));
                }
            }
        }
        if event.is_writable()
            && !client.unsent.is_empty()
            && let Err(error) = write_unsent(client)
        {
            return self.end(client, index, error.into());
        }
        if event.is_readable() || event.is_read_closed() {
            self.read(client, index);
        }
    }

    fn connected(&mut self, client: &mut Client, index: u32) -> Result<(), End> {
        self.record(Timing::Connect, client.scheduled);
        match self.first_layer(self.plan.first + index) {
            Layer::Tls => return self.start_tls(client, 1),
            Layer::Web => {
                client.session.shake_hands();
                client.web = Some(Box::default());
                websocket::request(&self.plan.scenario.server.web_address, &mut self.out);
            }
            Layer::Stream => client.session.open(&self.profile, &mut self.out),
        }
        self.flush(client)
    }

    fn start_tls(&mut self, client: &mut Client, config: usize) -> Result<(), End> {
        let Some(configs) = &self.tls else {
            return Ok(());
        };
        client.session.handshake();
        let name = ServerName::try_from(self.profile.domain.clone())
            .map_err(|_| End::Broken("the domain is no server name for TLS".to_owned()))?;
        let mut tls = ClientConnection::new(Arc::clone(&configs[config]), name)
            .map_err(|error| End::Broken(format!("TLS: {error}")))?;
        tls.set_buffer_limit(None);
        client.tls = Some(Box::new(tls));
        self.flush(client)
    }

    /// Reads until the socket is empty or the turn is over.
    pub(super) fn read(&mut self, client: &mut Client, index: u32) {
        for _ in 0..READS_PER_TURN {
            let Some(socket) = &mut client.socket else {
                return;
            };
            let mut buffer = std::mem::take(&mut self.buffer);
            let result = socket.read(&mut buffer);
            let full = matches!(&result, Ok(length) if *length == buffer.len());
            let outcome = match result {
                Ok(0) => Err(match client.session.stage {
                    Stage::Closing => End::Closed,
                    _ => End::Broken("the server closed the connection".to_owned()),
                }),
                Ok(length) => self.receive(client, index, &buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.buffer = buffer;
                    return;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
                Err(error) => Err(error.into()),
            };
            self.buffer = buffer;
            let outcome = outcome.and_then(|()| self.flush(client));
            if let Err(end) = outcome {
                return self.end(client, index, end);
            }
            if !full && client.session.stage != Stage::Closing {
                // A short read empties the socket; what comes later makes a new event, also the
                // end of the connection (epoll(7), edge-triggered).
                return;
            }
        }
        self.unfinished.push(index);
    }

    fn receive(&mut self, client: &mut Client, index: u32, bytes: &[u8]) -> Result<(), End> {
        if let Some(web) = &mut client.web {
            let mut stream = Vec::with_capacity(bytes.len());
            let has_opened = web.decode(bytes, &mut stream);
            let has_opened = has_opened.map_err(|reason| End::Broken(reason.to_owned()))?;
            if has_opened {
                client.session.open(&self.profile, &mut self.out);
            }
            return self.items(client, index, &stream);
        }
        let Some(mut tls) = client.tls.take() else {
            return self.items(client, index, bytes);
        };
        let mut rest = bytes;
        let mut outcome = Ok(());
        while !rest.is_empty() && outcome.is_ok() {
            outcome = self.decrypt(client, index, &mut tls, &mut rest);
        }
        // Whatever the items did, the link's TLS state is theirs only if the link still exists.
        if client.socket.is_some() && client.tls.is_none() {
            client.tls = Some(tls);
        }
        outcome
    }

    fn decrypt(
        &mut self,
        client: &mut Client,
        index: u32,
        tls: &mut ClientConnection,
        rest: &mut &[u8],
    ) -> Result<(), End> {
        tls.read_tls(rest)?;
        let state = match tls.process_new_packets() {
            Ok(state) => state,
            Err(error) => return Err(End::Broken(format!("TLS: {error}"))),
        };
        if client.session.stage == Stage::Handshake && !tls.is_handshaking() {
            client.session.open(&self.profile, &mut self.out);
        }
        let length = state.plaintext_bytes_to_read();
        if length > 0 {
            let mut plain = vec![0; length];
            tls.reader().read_exact(&mut plain)?;
            self.items(client, index, &plain)?;
        }
        if state.peer_has_closed() {
            return Err(match client.session.stage {
                Stage::Closing => End::Closed,
                _ => End::Broken("the server closed the TLS session".to_owned()),
            });
        }
        Ok(())
    }

    /// Handles the items in `bytes` and keeps an incomplete one.
    fn items(&mut self, client: &mut Client, index: u32, bytes: &[u8]) -> Result<(), End> {
        self.counts.bytes_received += bytes.len() as u64;
        if client.kept.is_empty() {
            let consumed = self.consume(client, index, bytes)?;
            client.kept.extend_from_slice(&bytes[consumed..]);
            return Ok(());
        }
        let mut kept = std::mem::take(&mut client.kept);
        kept.extend_from_slice(bytes);
        let consumed = self.consume(client, index, &kept)?;
        if consumed < kept.len() {
            kept.drain(..consumed);
            client.kept = kept;
        }
        Ok(())
    }

    fn consume(&mut self, client: &mut Client, index: u32, bytes: &[u8]) -> Result<usize, End> {
        let mut at = 0;
        loop {
            let step = scan::next(&bytes[at..])
                .map_err(|fault| End::Broken(format!("the server sent {}", fault.0)))?;
            at += step.consumed;
            let Some(item) = step.item else { return Ok(at) };
            self.counts.elements_received += 1;
            // White space is no sign that anything is still going on.
            self.heard = self.now;
            let mut cx = SessionContext {
                profile: &self.profile,
                keys: &mut self.keys,
                out: &mut self.out,
                user: self.plan.first + index,
                entropy: self.rng.u64(..),
            };
            let event = client.session.handle(&mut cx, item);
            if event == crate::session::Event::StartTls {
                self.start_tls(client, 0)?;
                return Ok(bytes.len());
            }
            self.handle(client, index, event)?;
        }
    }

    /// Sends what the client has to say: one write where the socket takes it all.
    pub(super) fn flush(&mut self, client: &mut Client) -> Result<(), End> {
        let Some(socket) = &mut client.socket else {
            self.out.clear();
            return Ok(());
        };
        if client.web.as_ref().is_some_and(|web| web.is_open) {
            websocket::encode(&mut self.out);
        }
        self.counts.bytes_sent += self.out.len() as u64;
        if let Some(tls) = &mut client.tls {
            tls.writer().write_all(&self.out)?;
            while tls.wants_write() {
                tls.write_tls(&mut client.unsent)?;
            }
            self.out.clear();
            return Ok(write_unsent(client)?);
        }
        if self.out.is_empty() {
            return Ok(());
        }
        let mut sent = 0;
        if client.unsent.is_empty() {
            sent = match socket.write(&self.out) {
                Ok(sent) => sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                Err(error) => {
                    self.out.clear();
                    return Err(error.into());
                }
            };
        }
        client.unsent.extend_from_slice(&self.out[sent..]);
        self.out.clear();
        Ok(())
    }

    // Ends of links.

    /// A link or session ended on its own.
    pub(super) fn end(&mut self, client: &mut Client, index: u32, end: End) {
        match (end, client.session.stage) {
            (_, Stage::Closing) => self.drop_link(client, index, false),
            (End::Broken(reason), Stage::Online) => self.lose(client, index, &reason),
            (End::Closed, Stage::Online) => self.lose(client, index, "the stream was closed"),
            (End::Broken(reason), _) => self.fail(client, index, &reason),
            (End::Closed, _) => self.fail(client, index, "the server closed the stream"),
        }
    }

    /// A login failed.
    pub(super) fn fail(&mut self, client: &mut Client, index: u32, reason: &str) {
        self.counts.logins_failed += 1;
        self.reasons.add(&format!("login: {reason}"));
        self.drop_link(client, index, true);
        self.resolve(client);
        self.come_back(client, index);
    }

    fn lose(&mut self, client: &mut Client, index: u32, reason: &str) {
        self.counts.sessions_lost += 1;
        self.reasons.add(&format!("session: {reason}"));
        self.drop_link(client, index, true);
        // A session that could be resumed and is not shows as a refusal.
        client.ghost = client.session.is_resumable();
        self.come_back(client, index);
    }

    fn come_back(&mut self, client: &mut Client, index: u32) {
        let seconds = self.plan.scenario.client.reconnect_seconds;
        if seconds > 0.0 {
            let jitter = 0.5 + self.rng.f64();
            let due = self.now + clock::nanos(seconds * jitter);
            self.schedule_login(client, index, due);
        }
    }

    /// Ends a link as a network does.
    pub(super) fn cut(&mut self, client: &mut Client, index: u32, how: Cut) {
        if client.session.stage != Stage::Online {
            return;
        }
        self.counts.sessions_ended += 1;
        if let Some(socket) = &client.socket
            && how == Cut::Reset
        {
            // A refusal leaves an ordinary close, which the report would show as such.
            let _ = SockRef::from(socket).set_linger(Some(std::time::Duration::ZERO));
        }
        let mut ghost = self.plan.scenario.client.stream_management;
        if how == Cut::Silent
            && let Some(mut socket) = client.socket.take()
        {
            ghost = true;
            let _ = self.poll.registry().deregister(&mut socket);
            if self.zombies.len() >= ZOMBIES_MAX {
                self.zombies.pop_front();
            }
            self.zombies.push_back(socket);
        }
        self.drop_link(client, index, true);
        client.ghost = ghost;
    }

    /// Says good-bye; the link ends when the server has answered.
    pub(super) fn leave(&mut self, client: &mut Client, index: u32) {
        if client.session.stage != Stage::Online {
            return;
        }
        self.counts.sessions_ended += 1;
        self.set_online(client, false);
        client.session.close(&mut self.out);
        client.generation = client.generation.wrapping_add(1);
        self.set_timer(self.now + CLOSE_WAIT, index, client.generation, Due::GiveUp);
        if let Err(end) = self.flush(client) {
            self.end(client, index, end);
        }
    }

    /// Forgets the link. With `resumable` the session may be taken up again.
    pub(super) fn drop_link(&mut self, client: &mut Client, index: u32, resumable: bool) {
        match client.session.stage {
            Stage::Online => self.set_online(client, false),
            _ if client.session.is_logging_in() => self.logging_in -= 1,
            _ => {}
        }
        self.out.clear();
        self.scatter(client);
        client.session.end(resumable);
        client.socket = None;
        client.tls = None;
        client.web = None;
        client.kept = Vec::new();
        client.unsent = Vec::new();
        client.generation = client.generation.wrapping_add(1);
        if !resumable || !self.plan.scenario.client.stream_management {
            self.seen.clear(index as usize);
        }
    }

    /// Notes that the user came or went.
    pub(super) fn set_online(&mut self, client: &mut Client, online: bool) {
        client.since = self.now;
        if online {
            client.ghost = false;
            self.online += 1;
            self.last_ready = self.now;
        } else {
            self.online -= 1;
        }
    }
}

fn write_unsent(client: &mut Client) -> io::Result<()> {
    let Some(socket) = &mut client.socket else {
        return Ok(());
    };
    let mut sent = 0;
    while sent < client.unsent.len() {
        match socket.write(&client.unsent[sent..]) {
            Ok(more) => sent += more,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    client.unsent.drain(..sent);
    if client.unsent.is_empty() {
        client.unsent = Vec::new();
    }
    Ok(())
}

/// Picks by shares, the same for a user in every run; `salt` keeps two choices independent.
fn by_share<T: Copy>(shares: &[(T, f64)], user: u32, salt: u64) -> T {
    let total: f64 = shares.iter().map(|(_, share)| share).sum();
    let mut point = fastrand::Rng::with_seed(u64::from(user) << 8 | salt).f64() * total;
    for (value, share) in shares {
        if point < *share {
            return *value;
        }
        point -= share;
    }
    // Rounding can leave a sliver behind the last share that counts.
    shares
        .iter()
        .rev()
        .find(|(_, share)| *share > 0.0)
        .unwrap_or(&shares[0])
        .0
}

/// TLS settings for STARTTLS and for direct TLS (XEP-0368 asks for ALPN). Certificates are not
/// judged and sessions not resumed: every handshake costs the server what a first one costs.
pub(super) fn tls_configs() -> io::Result<[Arc<ClientConfig>; 2]> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    let starttls = Arc::new(config.clone());
    config.alpn_protocols = vec![b"xmpp-client".to_vec()];
    Ok([starttls, Arc::new(config)])
}

/// Accepts whatever a server under test shows; signatures are still checked, as a client's CPU
/// cost belongs to the client.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_come_again_only_when_all_were_used() {
        let sources = ["127.0.1.1".parse().unwrap(), "127.0.1.2".parse().unwrap()];
        let mut ports = Ports::new(&sources, 1, 2);
        ports.range = [100, 104];
        ports.next = 7;
        let seen: Vec<_> = (0..10).map(|_| ports.next().unwrap()).collect();
        assert_eq!(seen[0], "127.0.1.2:103".parse().unwrap());
        assert_eq!(ports.next().unwrap(), seen[0]);
        let mut distinct = seen;
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), 10);
        assert_eq!(Ports::new(&[], 0, 1).next(), None);
    }

    #[test]
    fn a_port_in_use_is_told_from_other_faults() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let here = listener.local_addr().unwrap();
        let taken = begin_connection(here, Some(here)).unwrap_err();
        assert!(is_port_taken(&taken), "{taken}");
        assert!(!is_port_taken(&io::ErrorKind::ConnectionRefused.into()));
    }
}
