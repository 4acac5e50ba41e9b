//! From readiness to the end: signals, and what a supervisor and a balancer are told.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::client::Client;
use crate::place::{Place, Server};

#[test]
fn sigterm_says_goodbye_and_exits_with_0() {
    let place = Place::new();
    place.add(&["alice", "bob"]);
    let server = place.serve();
    let (address, mut alice) = (server.plain, Client::online(server.plain, "alice", "a"));
    alice.say("bob", "kept");
    alice.sync();
    server.signal(Signal::TERM);
    alice.expect("<system-shutdown");
    alice.expect("</stream:stream>");
    drop(alice);
    let (code, log) = server.end();
    assert_eq!(code, 0, "{log}");
    assert!(TcpStream::connect(address).is_err());
    let server = place.serve();
    let mut bob = Client::online(server.plain, "bob", "b");
    assert!(bob.expect("</message>").contains("kept"));
    drop(bob);
    server.stop();
}

#[test]
fn a_second_sigterm_cuts_streams_off() {
    let mut place = Place::new();
    place.set("server.drain_timeout", "\"10m\"");
    place.add(&["alice"]);
    let mut server = place.serve();
    let mut alice = Client::online(server.plain, "alice", "a");
    server.signal(Signal::TERM);
    alice.expect("</stream:stream>");
    server.wait_for("stopping: closing streams");
    while server.page("/readyz") != (503, "draining\n".to_owned()) {
        assert_eq!(server.page("/healthz").0, 200);
    }
    let busy = place.run(&["user", "list"]);
    assert_eq!(busy.code, 75, "{}", busy.err);
    assert!(busy.err.contains("starting or stopping"), "{}", busy.err);
    // Alice does not close her end.
    server.signal(Signal::TERM);
    let (code, log) = server.end();
    assert_eq!(code, 1, "{log}");
}

#[test]
fn sighup_reloads_certificates_limits_and_level() {
    let mut place = Place::new();
    let (first, second) = (self_signed(&place, "first"), self_signed(&place, "second"));
    use_certificate(&mut place, "first");
    place.set("limits.sessions_per_user", "1");
    place.add(&["alice"]);
    let mut server = place.serve();
    assert!(trusts(server.tls, &first) && !trusts(server.tls, &second));
    let mut alice = Client::online(server.plain, "alice", "a");
    let mut refused = Client::connect(server.plain);
    refused.authenticate("alice", "secret");
    refused.expect("<success");

    use_certificate(&mut place, "second");
    place.set("limits.sessions_per_user", "2");
    place.set("log.level", "\"debug\"");
    place.set("server.shards", "7");
    let said = server.reload();
    for expected in [
        "limits.sessions_per_user",
        "takes a restart: server.shards",
        "log.level",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert!(trusts(server.tls, &second) && !trusts(server.tls, &first));
    let also = Client::online(server.plain, "alice", "b");
    alice.sync();

    // A mistake changes nothing.
    place.set("limits.sessions_per_user", "1");
    place.set("tls.key", "\"/no/such.pem\"");
    let said = server.reload();
    assert!(said.contains("everything stays as it was"), "{said}");
    assert!(said.contains("/no/such.pem"), "{said}");
    assert!(trusts(server.tls, &second));
    drop(also);
    let _again = Client::online(server.plain, "alice", "b");
    alice.sync();
    server.kill();
}

#[test]
fn a_supervisor_and_a_balancer_are_told_how_the_server_is() {
    let place = Place::new();
    let path = place.path("notify");
    let supervisor = UnixDatagram::bind(&path).expect("a socket");
    let told = || {
        let mut buffer = [0; 1024];
        let length = supervisor.recv(&mut buffer).expect("a datagram");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    let mut command = place.server();
    command.env("NOTIFY_SOCKET", &path);
    let server = Server::start(command);
    let ready = told();
    assert!(ready.starts_with("READY=1\n"), "{ready}");
    assert!(ready.contains(&server.plain.to_string()), "{ready}");
    assert_eq!(server.page("/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(server.page("/readyz"), (200, "ready\n".to_owned()));
    assert_eq!(server.page("/other").0, 404);
    server.signal(Signal::HUP);
    assert!(told().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert!(told().starts_with("READY=1\n"));
    server.signal(Signal::TERM);
    assert!(told().starts_with("STOPPING=1\n"));
    let (code, log) = server.end();
    assert_eq!(code, 0, "{log}");
}

#[test]
fn a_watchdog_is_shown_that_the_shards_turn() {
    let place = Place::new();
    let path = place.path("notify");
    let supervisor = UnixDatagram::bind(&path).expect("a socket");
    let mut command = place.server();
    command.env("NOTIFY_SOCKET", &path);
    let patience = Some(Duration::from_secs(60));
    supervisor.set_read_timeout(patience).expect("a time-out");
    // Long, so that a busy machine is no trouble: it is shown each second.
    command.env("WATCHDOG_USEC", "3000000");
    let server = Server::start(command);
    let mut shown = 0;
    while shown < 3 {
        let mut buffer = [0; 1024];
        let length = supervisor.recv(&mut buffer).expect("a datagram");
        shown += u32::from(&buffer[..length] == b"WATCHDOG=1\n");
    }
    server.kill();
}

/// A hang is shorter than the interval: the watchdog would end nothing, but what it is told shows
/// whether it would.
#[test]
fn a_watchdog_is_told_nothing_while_a_shard_hangs() {
    let mut place = Place::new();
    place.set("chaos.enabled", "true");
    let path = place.path("notify");
    let supervisor = UnixDatagram::bind(&path).expect("a socket");
    let patience = Some(Duration::from_secs(60));
    supervisor
        .set_read_timeout(patience)
        .expect("a socket that waits so long");
    let told = || {
        let mut buffer = [0; 1024];
        let length = supervisor.recv(&mut buffer).expect("a datagram");
        buffer[..length] == *b"WATCHDOG=1\n"
    };
    // It may be told before and after the server says that it is ready.
    let until_told = || while !told() {};
    let mut command = place.server();
    command.env("NOTIFY_SOCKET", &path);
    command.env("WATCHDOG_USEC", "3000000");
    let server = Server::start(command);
    until_told();
    // One hang of three seconds.
    let said = place.must(&["chaos", "--hang-shards", "6s", "--for", "10s"]);
    assert!(said.contains("hangs for 3s"), "{said}");
    // Beyond what was told while the command ran.
    let told_before = 10;
    for _ in 0..=told_before {
        until_told();
    }
    server.signal(Signal::TERM);
    let (code, log) = server.end();
    assert_eq!(code, 0, "{log}");
    assert!(log.contains("the watchdog is not told"), "{log}");
}

/// Sets certificate and key.
fn use_certificate(place: &mut Place, name: &str) {
    for (key, ending) in [("tls.certificate", "pem"), ("tls.key", "key")] {
        let path = place.path(&format!("{name}.{ending}"));
        place.set(key, &format!("{path:?}"));
    }
}

/// Makes a certificate for localhost.
fn self_signed(place: &Place, name: &str) -> CertificateDer<'static> {
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a pair");
    let path = place.path(&format!("{name}.pem"));
    fs::write(&path, pair.cert.pem()).expect("written");
    let key = place.path(&format!("{name}.key"));
    fs::write(key, pair.signing_key.serialize_pem()).expect("written");
    read_certificate(&path)
}

fn read_certificate(path: &Path) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(path).expect("a certificate")
}

/// Whether a client that trusts this certificate alone gets a TLS connection.
fn trusts(address: SocketAddr, certificate: &CertificateDer<'static>) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    let mut session = ClientConnection::new(Arc::new(config), name).expect("a session");
    let mut socket = TcpStream::connect(address).expect("a connection");
    while session.is_handshaking() {
        if session.complete_io(&mut socket).is_err() {
            return false;
        }
    }
    true
}
