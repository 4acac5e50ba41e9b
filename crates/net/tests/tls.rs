//! TLS over the loop: direct and STARTTLS, both versions, certificates by name and their reload,
//! channel binding against what the client computes, hand-over of an encrypted connection, bad and
//! slow handshakes.

mod common;

use std::io::Write;
use std::time::Duration;

use common::{Node, TlsStream, certificate, client_tls, direct, patient, plain, server_tls};
use net::{Closed, Limits, TlsVersion};

#[test]
fn direct_tls_in_both_versions() {
    let (certificate, root) = certificate(&["localhost"]);
    let tls = server_tls(vec![certificate]);
    let node = Node::with(vec![direct()], 1, Some(tls), patient());
    let versions = [
        (&rustls::version::TLS13, TlsVersion::Tls13),
        (&rustls::version::TLS12, TlsVersion::Tls12),
    ];
    for (version, expected) in versions {
        let stream = node.connect().stream;
        let mut client = client_tls(stream, "localhost", std::slice::from_ref(&root), version);
        assert_eq!(client.ask("hello"), "secure");
        assert_eq!(client.hear(), "hello");
        let long = "z".repeat(200_000);
        assert_eq!(client.ask(&long), long);
        let info = node.shelf.lock().expect("shelf").tls.pop().expect("info");
        assert_eq!(info.version, expected);
        assert_eq!(info.sni.as_deref(), Some("localhost"));
        assert_eq!(info.alpn.as_deref(), Some(net::ALPN_CLIENT));
        let ours = info.exporter;
        match expected {
            TlsVersion::Tls12 => assert_eq!(ours, None),
            TlsVersion::Tls13 => {
                // RFC 9266 section 2, computed by the other side's library.
                let theirs = client
                    .stream
                    .conn
                    .export_keying_material([0; 32], b"EXPORTER-Channel-Binding", Some(b""))
                    .expect("exporter");
                assert_eq!(ours, Some(theirs));
            }
        }
        assert_eq!(client.ask("quit"), "bye");
        // An orderly end: close_notify, not a cut.
        assert_eq!(client.try_hear(), None);
        assert!(
            client
                .stream
                .conn
                .process_new_packets()
                .expect("state")
                .peer_has_closed()
        );
    }
    node.until("both closed", |node| node.closed(Closed::ByUs) == 2);
}

#[test]
fn starttls_forgets_what_was_injected() {
    let (certificate, root) = certificate(&["localhost"]);
    let tls = server_tls(vec![certificate]);
    let node = Node::with(vec![plain()], 1, Some(tls), patient());
    let mut client = node.connect();
    // CVE-2011-0411: what an attacker puts behind the request must not be taken for ciphertext's.
    client
        .stream
        .write_all(b"before\ntls\ninjected\n")
        .expect("write");
    assert_eq!(client.hear(), "before");
    assert_eq!(client.hear(), "proceed");
    assert!(client.kept.is_empty());
    let roots = [root];
    let mut client = client_tls(client.stream, "localhost", &roots, &rustls::version::TLS13);
    assert_eq!(client.ask("after"), "secure");
    assert_eq!(client.hear(), "after");
    assert_eq!(client.ask("count"), "4");
}

#[test]
fn certificates_by_name_and_their_reload() {
    let (first, first_root) = certificate(&["a.example"]);
    let (second, second_root) = certificate(&["b.example"]);
    let tls = server_tls(vec![first, second]);
    let node = Node::with(vec![direct()], 1, Some(tls), patient());
    let version = &rustls::version::TLS13;
    for (name, root) in [("a.example", &first_root), ("b.example", &second_root)] {
        let roots = std::slice::from_ref(root);
        let mut client = client_tls(node.connect().stream, name, roots, version);
        assert_eq!(client.ask("x"), "secure");
    }
    let (third, third_root) = certificate(&["a.example"]);
    let mut old = client_tls(node.connect().stream, "a.example", &[first_root], version);
    assert_eq!(old.ask("x"), "secure");
    node.shared.set_tls(Some(server_tls(vec![third])));
    node.until("the new certificate is shown", |node| {
        let roots = std::slice::from_ref(&third_root);
        let client = client_tls(node.connect().stream, "a.example", roots, version);
        let TlsStream { mut conn, mut sock } = client.stream;
        conn.complete_io(&mut sock).is_ok()
    });
    let mut new = client_tls(node.connect().stream, "a.example", &[third_root], version);
    assert_eq!(new.ask("x"), "secure");
    assert_eq!(old.hear(), "x");
    assert_eq!(old.ask("still"), "still");
}

#[test]
fn an_encrypted_connection_moves_between_shards() {
    let (certificate, root) = certificate(&["localhost"]);
    let tls = server_tls(vec![certificate]);
    let node = Node::with(vec![direct()], 2, Some(tls), patient());
    let roots = [root];
    let mut client = client_tls(
        node.connect().stream,
        "localhost",
        &roots,
        &rustls::version::TLS13,
    );
    assert_eq!(client.ask("hello"), "secure");
    assert_eq!(client.hear(), "hello");
    let mut heard = 0;
    for round in 0..20 {
        client.say(&format!("one\nmove {}\ntwo", round % 2));
        while heard < 2 * (round + 1) {
            let line = client.hear();
            if line.starts_with("moved") {
                continue;
            }
            assert_eq!(line, if heard % 2 == 0 { "one" } else { "two" });
            heard += 1;
        }
    }
    assert!(node.shelf.lock().expect("shelf").adopted >= 19);
}

#[test]
fn bad_and_slow_handshakes_end() {
    let (certificate, _) = certificate(&["localhost"]);
    let tls = server_tls(vec![certificate]);
    let limits = Limits {
        handshake_timeout: Duration::from_millis(300),
        ..patient()
    };
    let node = Node::with(vec![direct()], 1, Some(tls), limits);
    let mut garbage = node.connect();
    garbage.say("GET / HTTP/1.1");
    assert_eq!(garbage.try_hear(), None);
    node.until("failed", |node| node.closed(Closed::Tls) == 1);
    let mut silent = node.connect();
    assert_eq!(silent.try_hear(), None);
    node.until("late", |node| node.closed(Closed::Timeout) == 1);
}

/// A crowd of handshakes is spread over turns and still gets done.
#[test]
fn a_crowd_of_handshakes_is_served() {
    let (certificate, root) = certificate(&["localhost"]);
    let tls = server_tls(vec![certificate]);
    let node = Node::with(vec![direct()], 1, Some(tls), patient());
    let node_address = node.addresses[0];
    let threads: Vec<_> = (0..40)
        .map(|_| {
            let root = root.clone();
            std::thread::spawn(move || {
                let stream = std::net::TcpStream::connect(node_address).expect("connect");
                let mut client = client_tls(stream, "localhost", &[root], &rustls::version::TLS13);
                assert_eq!(client.ask("x"), "secure");
                assert_eq!(client.hear(), "x");
            })
        })
        .collect();
    let finished = threads
        .into_iter()
        .filter_map(|thread| thread.join().ok())
        .count();
    assert_eq!(finished, 40);
}
