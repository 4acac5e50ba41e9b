//! Links under TLS: both sides are known by their certificates, and whoever is not is refused with
//! a note that says what to do.

use std::io::{Read as _, Write as _};
use std::net::TcpStream as StdStream;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned, SupportedProtocolVersion};

use super::*;
use crate::link::credentials::tests::{Authority, Issued, expired, future, of_a_server};

fn with(name: &str, credentials: Option<Credentials>) -> Node {
    node_with(name, 1, &idle(), |options| {
        options.credentials = credentials;
        options.introduce_within = Duration::from_secs(2);
    })
}

/// Waits for a note with this text.
fn expect_note(node: &Node, expected: &str) {
    expect_notes(node, &[expected]);
}

/// Waits until there was a note with each of these texts.
fn expect_notes(node: &Node, expected: &[&str]) {
    let started = Instant::now();
    let mut seen = Vec::new();
    let is_there = |seen: &[Note], text: &str| seen.iter().any(|note| note.text.contains(text));
    loop {
        seen.extend(node.links.take_notes());
        if expected.iter().all(|text| is_there(&seen, text)) {
            return;
        }
        let is_in_time = started.elapsed() < Duration::from_secs(20);
        assert!(is_in_time, "no notes {expected:?}, but {seen:#?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Passes bytes on, once, and keeps a copy of those that go there.
fn tap(to: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::<Mutex<Vec<u8>>>::default();
    let copy = Arc::clone(&seen);
    thread::spawn(move || {
        let (mut from, _) = listener.accept().unwrap();
        let mut on = StdStream::connect(to).unwrap();
        let (mut back, mut answers) = (from.try_clone().unwrap(), on.try_clone().unwrap());
        thread::spawn(move || io::copy(&mut answers, &mut back));
        let mut bytes = [0; 4_096];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            lock(&copy).extend_from_slice(&bytes[..count]);
            if on.write_all(&bytes[..count]).is_err() {
                return;
            }
        }
    });
    (address, seen)
}

/// Goal: packets and answers arrive, also large ones, and nobody on the way reads them.
#[test]
fn links_are_encrypted() {
    let ours = Authority::new("ours");
    let (a, b) = ("a", "b");
    let (a, b) = (
        with(a, Some(ours.credentials(a))),
        with(b, Some(ours.credentials(b))),
    );
    let (address, seen) = tap(b.address);
    let place = Where {
        incarnation: 1,
        address: address.to_string(),
    };
    a.links.set_peers(&[("b".to_owned(), place)].into());
    meet(&b, &[("a", &a)]);
    let to_b = a.links.peer("b");
    let large = vec![b'p'; 5 << 20];
    a.links.send(to_b, b"p secret".to_vec()).unwrap();
    a.links.send(to_b, large.clone()).unwrap();
    until("both there", || lock(&b.heard).len() == 2);
    assert_eq!(lock(&b.heard)[0].1, b"p secret");
    assert!(lock(&b.heard)[1].1 == large);
    b.links.answer(b.links.peer("a"), b"credit".to_vec());
    until("the answer", || lock(&a.heard).len() == 1);
    until("nothing waits", || a.links.status()[0].packets == 0);
    expect_note(&a, "the link to node b is up");
    let seen = lock(&seen);
    assert!(seen.len() > large.len());
    let shows = |text: &[u8]| seen.windows(text.len()).any(|window| window == text);
    assert!(!shows(b"secret") && !shows(b"deployment") && !shows(b"pppppppp"));
    assert_eq!(a.links.status()[0].taken, 2);
}

/// One that cannot be: what a's and b's certificates are, and what each says of it.
struct Case {
    a: Option<Credentials>,
    b: Option<Credentials>,
    said_by_a: &'static str,
    said_by_b: &'static str,
}

fn good(authority: &Authority, name: &str) -> Option<Credentials> {
    Some(authority.credentials(name))
}

fn bad(issued: Issued) -> Option<Credentials> {
    Some(issued.unchecked())
}

fn bad_peers(ours: &Authority, other: &Authority) -> [Case; 7] {
    let case = |b, said_by_a, said_by_b| Case {
        a: good(ours, "a"),
        b,
        said_by_a,
        said_by_b,
    };
    [
        case(
            bad(ours.issue("b", expired)),
            "its certificate has expired: put a new one there and reload",
            "it refuses this node: this node's certificate has expired for it",
        ),
        case(
            bad(ours.issue("b", future)),
            "its certificate is not valid yet: look at the clocks",
            "it refuses this node",
        ),
        case(
            good(other, "b"),
            "its certificate is not of the CA in cluster.ca",
            "it refuses this node: this node's certificate is not of its CA",
        ),
        case(
            bad(other.issue("b", |_| {}).trusting(ours)),
            "its certificate is not of the CA in cluster.ca",
            "it refuses this node: this node's certificate is not of its CA",
        ),
        // Another node of the cluster at the address of b, or one that would like to be it.
        case(
            bad(ours.issue("c", |_| {})),
            "it needs the DNS name b (subjectAltName)",
            "it refuses this node: this node's certificate does not suit it",
        ),
        case(
            bad(ours.issue("b", |params| {
                params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
            })),
            "the extended key usages serverAuth and clientAuth",
            "it refuses this node",
        ),
        case(
            None,
            "it ended the connection",
            "it speaks TLS, and this node does not",
        ),
    ]
}

fn bad_callers(ours: &Authority, other: &Authority) -> [Case; 6] {
    let case = |a, said_by_a, said_by_b| Case {
        a,
        b: good(ours, "b"),
        said_by_a,
        said_by_b,
    };
    [
        case(
            bad(ours.issue("a", expired)),
            "it refuses this node: this node's certificate has expired for it",
            "its certificate has expired",
        ),
        case(
            bad(ours.issue("a", future)),
            "it refuses this node",
            "its certificate is not valid yet",
        ),
        case(
            bad(other.issue("a", |_| {}).trusting(ours)),
            "it refuses this node: this node's certificate is not of its CA",
            "its certificate is not of the CA in cluster.ca",
        ),
        case(
            bad(ours.issue("c", |_| {})),
            "it says that it is node a, but its certificate is for c",
            "it says that it is node a, but its certificate is for c",
        ),
        case(
            bad(ours.issue("a", of_a_server)),
            "it refuses this node",
            "the extended key usages serverAuth and clientAuth",
        ),
        case(
            None,
            "it speaks TLS, and this node does not",
            "it does not speak TLS",
        ),
    ]
}

/// Goal: whatever is wrong with either side's certificate, no packet passes, and both say what to
/// do.
#[test]
fn who_is_not_known_is_refused() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let peers = bad_peers(&ours, &other).into_iter();
    for case in peers.chain(bad_callers(&ours, &other)) {
        let (a, b) = (with("a", case.a), with("b", case.b));
        meet(&a, &[("b", &b)]);
        a.links.send(a.links.peer("b"), b"p".to_vec()).unwrap();
        expect_note(&a, case.said_by_a);
        expect_note(&b, case.said_by_b);
        assert!(b.links.refused() > 0, "{}", case.said_by_b);
        assert_eq!(*lock(&b.heard), [], "{}", case.said_by_b);
        let status = &a.links.status()[0];
        assert_eq!((status.is_connected, status.packets), (false, 1));
        assert!(status.last_error.as_ref().unwrap().contains(case.said_by_a));
    }
}

/// A client that believes everybody and has no certificate.
#[derive(Debug)]
struct Trusting;

impl rustls::client::danger::ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &[rustls::pki_types::CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        rustls::crypto::ring::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

fn anonymous(
    version: &'static SupportedProtocolVersion,
    to: SocketAddr,
) -> StreamOwned<ClientConnection, StdStream> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Trusting))
        .with_no_client_auth();
    let name = ServerName::try_from("b").unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(client, StdStream::connect(to).unwrap())
}

/// Goal: a client without a certificate, one that speaks an old TLS, one that speaks none, and one
/// that says nothing are refused, each with a note; a node gets in beside all of them.
#[test]
fn strangers_without_certificates_are_refused() {
    let ours = Authority::new("ours");
    let b = with("b", good(&ours, "b"));
    let mut nobody = anonymous(&rustls::version::TLS13, b.address);
    // The handshake may end here before the refusal comes.
    let _ = nobody.write_all(b"hello");
    assert!(nobody.read(&mut [0]).is_err());
    expect_note(&b, "it shows no certificate: set cluster.certificate");
    let mut old = anonymous(&rustls::version::TLS12, b.address);
    assert!(old.write_all(b"hello").is_err());
    expect_note(&b, "it does not speak TLS 1.3 as nodes do");
    let mut garbage = StdStream::connect(b.address).unwrap();
    garbage.write_all(&[b'x'; 1_000]).unwrap();
    expect_note(&b, "it does not speak TLS: a node without");
    let silent = StdStream::connect(b.address).unwrap();
    let mut half = StdStream::connect(b.address).unwrap();
    // The beginning of a record that never goes on.
    half.write_all(&[22, 3, 1, 2, 0, 1]).unwrap();
    let a = with("a", good(&ours, "a"));
    meet(&a, &[("b", &b)]);
    until("a is connected", || a.links.status()[0].is_connected);
    expect_note(&b, "it did not say who it is within 2s");
    for mut one in [silent, half] {
        one.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let ended = one.read(&mut [0]);
        assert!(!matches!(ended, Ok(1..)), "{ended:?}");
    }
    assert!(b.links.refused() >= 5);
    assert!(a.links.status()[0].is_connected);
    assert_eq!(*lock(&b.heard), []);
}

/// Goal: who has a good certificate and then says nothing, or no hello, has no link.
#[test]
fn a_handshake_is_not_enough() {
    let ours = Authority::new("ours");
    let b = with("b", good(&ours, "b"));
    let credentials = ours.credentials("a");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let connect = || async {
            let stream = tokio::net::TcpStream::connect(b.address).await.unwrap();
            let name = ServerName::try_from("b").unwrap();
            credentials.connector().connect(name, stream).await.unwrap()
        };
        let mut silent = connect().await;
        let mut wrong = connect().await;
        let mut bytes = Vec::new();
        frame::Frame::Ping.write(&mut bytes);
        wrong.write_all(&bytes).await.unwrap();
        wrong.flush().await.unwrap();
        // Both are ended.
        let _ = wrong.read(&mut [0]).await;
        let _ = silent.read(&mut [0]).await;
    });
    let late = "it did not say who it is within 2s";
    expect_notes(&b, &["it is no node: no hello", late]);
}

/// Goal: a peer that takes the connection and never ends its handshake is given up in time, and
/// tried again.
#[test]
fn a_peer_that_never_ends_its_handshake_is_given_up() {
    let silent = StdListener::bind("127.0.0.1:0").unwrap();
    let place = Where {
        incarnation: 1,
        address: silent.local_addr().unwrap().to_string(),
    };
    let ours = Authority::new("ours");
    let a = node_with("a", 1, &idle(), |options| {
        options.credentials = good(&ours, "a");
        options.connect_within = Duration::from_millis(200);
    });
    a.links.set_peers(&[("b".to_owned(), place)].into());
    let (mut first, _) = silent.accept().unwrap();
    expect_note(&a, "does not answer within 200ms");
    let mut hello = Vec::new();
    first.read_to_end(&mut hello).unwrap();
    assert_eq!(hello[..2], [22, 3], "a hello of TLS, and then the end");
    assert!(silent.accept().is_ok(), "again");
}

/// Goal: other certificates are in force at once, on links that are busy, and nothing is lost or
/// doubled; the same ones disturb nobody.
#[test]
fn certificates_are_exchanged_under_way() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let (a, b) = (with("a", good(&old, "a")), with("b", good(&old, "b")));
    meet(&a, &[("b", &b)]);
    meet(&b, &[("a", &a)]);
    let to_b = a.links.peer("b");
    let mut sent = 0u32;
    let mut send = |count: u32| {
        for n in sent..sent + count {
            a.links.send(to_b, format!("p{n}").into_bytes()).unwrap();
        }
        sent += count;
    };
    send(1_000);
    until("some arrive", || !lock(&b.heard).is_empty());
    let (for_a, for_b) = (good(&new, "a"), good(&new, "b"));
    assert_eq!(b.links.set_credentials(for_b), Ok(true));
    send(1_000);
    expect_note(&a, "its certificate is not of the CA");
    assert_eq!(a.links.set_credentials(for_a.clone()), Ok(true));
    send(1_000);
    until("all arrive", || lock(&b.heard).len() == 3_000);
    let expected = (0..3_000).map(|n| format!("p{n}").into_bytes());
    assert!(lock(&b.heard).iter().map(|(_, p)| p.clone()).eq(expected));
    let connections = a.links.status()[0].connections;
    assert!(connections >= 2, "{connections}");
    assert_eq!(a.links.set_credentials(for_a), Ok(false));
    assert!(a.links.set_credentials(None).is_err());
    send(1);
    until("and on", || lock(&b.heard).len() == 3_001);
    assert_eq!(a.links.status()[0].connections, connections);
}

/// Goal: without certificates nobody listens where others could come.
#[test]
fn without_certificates_only_loopback_is_listened_at() {
    let everywhere: SocketAddr = "0.0.0.0:0".parse().unwrap();
    let options = Options::new(everywhere, "test".to_owned());
    let author = Author {
        node: "a".to_owned(),
        incarnation: 1,
    };
    let started = Links::start(options.clone(), author.clone(), Arc::new(|_, _| Taken::Yes));
    let refused = started.err().unwrap().to_string();
    assert!(refused.contains("cluster.certificate"), "{refused}");
    let ours = Authority::new("ours");
    let with = Options {
        credentials: good(&ours, "a"),
        ..options
    };
    assert!(Links::start(with, author, Arc::new(|_, _| Taken::Yes)).is_ok());
}
