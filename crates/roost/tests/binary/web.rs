//! The port of the web from outside: heads, frames and bodies that are broken, slow, huge or in the
//! wrong order, each with its answer; and who may come at all. What streams mean is shown by the
//! conversation scripts, which run over WebSocket and BOSH too.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::place::{Place, Server};

const PATIENCE: Duration = Duration::from_secs(30);

/// Everything until the server closes.
fn all_of(socket: &mut TcpStream) -> Vec<u8> {
    let mut got = Vec::new();
    let mut buffer = [0; 65_536];
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => return got,
            Ok(length) => got.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return got,
            Err(error) => panic!("{error} behind {}", String::from_utf8_lossy(&got)),
        }
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).expect("a connection");
    socket.set_read_timeout(Some(PATIENCE)).expect("an option");
    socket
}

/// What comes back to these bytes until the server closes.
fn answer(address: SocketAddr, request: impl AsRef<[u8]>) -> String {
    let mut socket = connect(address);
    // A server that refuses early may close before it has all.
    let _ = socket.write_all(request.as_ref());
    String::from_utf8_lossy(&all_of(&mut socket)).into_owned()
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or(answer)
}

/// Reads until the text has come.
fn until(socket: &mut TcpStream, text: &str) -> Vec<u8> {
    let mut got = Vec::new();
    let mut buffer = [0; 4096];
    let find = |got: &[u8]| got.windows(text.len()).any(|part| part == text.as_bytes());
    while !find(&got) {
        let length = socket.read(&mut buffer).expect("more");
        assert!(length > 0, "{text} in {}", String::from_utf8_lossy(&got));
        got.extend_from_slice(&buffer[..length]);
    }
    got
}

/// The head of a request that is answered with a page, but for its end.
const HINT: &str = "GET /http-bind HTTP/1.1\r\nHost: a\r\n";

const UPGRADE: &str = "Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\
                       Sec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

fn handshake(fields: &str) -> String {
    format!("GET /xmpp-websocket HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")
}

fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        length @ 0..=125 => frame.push(0x80 | length as u8),
        length @ 126..=0xffff => {
            frame.push(0x80 | 126);
            frame.extend((length as u16).to_be_bytes());
        }
        length => {
            frame.push(0x80 | 127);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    let mask = [7, 77, 177, 27];
    frame.extend(mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(a, b)| a ^ b));
    frame
}

fn text(payload: &str) -> Vec<u8> {
    masked(0x81, payload.as_bytes())
}

const OPEN: &str = "<open xmlns='urn:ietf:params:xml:ns:xmpp-framing' to='localhost' \
                    version='1.0'/>";

/// A WebSocket behind its handshake.
fn web_socket(server: &Server) -> TcpStream {
    let mut socket = connect(server.http);
    let request = handshake(&format!("{UPGRADE}Sec-WebSocket-Protocol: xmpp\r\n"));
    socket.write_all(request.as_bytes()).expect("sent");
    let head = until(&mut socket, "\r\n\r\n");
    assert!(
        head.starts_with(b"HTTP/1.1 101 "),
        "{}",
        String::from_utf8_lossy(&head)
    );
    socket
}

/// The code of the close frame at the end of what came.
fn close_code(got: &[u8]) -> Option<u16> {
    match got {
        [.., 0x88, 2, a, b] => Some(u16::from_be_bytes([*a, *b])),
        _ => None,
    }
}

fn post(body: &str) -> String {
    let length = body.len();
    format!("POST /http-bind HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}")
}

const BODY: &str = "<body xmlns='http://jabber.org/protocol/httpbind' \
                    xmlns:xmpp='urn:xmpp:xbosh' xmpp:version='1.0'";

/// XEP-0124 section 17.1: what is wrong with the request itself is said by its status.
#[test]
fn heads_that_are_none_are_refused_and_the_connection_is_closed() {
    let server = Place::new().serve();
    let cases = [
        ("<stream:stream>\r\n\r\n".to_owned(), "400"),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), "400"),
        (
            "GET http://a/metrics HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
            "400",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n".to_owned(),
            "400",
        ),
        (
            "POST /http-bind HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\
             Transfer-Encoding: chunked\r\n\r\n"
                .to_owned(),
            "400",
        ),
        (
            format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", "a".repeat(20_000)),
            "431",
        ),
        (format!("GET /{}", "a".repeat(20_000)), "431"),
        (
            format!(
                "GET / HTTP/1.1\r\nHost: a\r\n{}\r\n",
                "b: c\r\n".repeat(100)
            ),
            "431",
        ),
        (
            "DELETE /http-bind HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
            "405",
        ),
        (
            "POST /xmpp-websocket HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
            "405",
        ),
        (
            "POST /http-bind HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(),
            "411",
        ),
        (
            "POST /http-bind HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n".to_owned(),
            "413",
        ),
        ("GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), "404"),
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), "200"),
    ];
    for (request, expected) in cases {
        let got = answer(server.http, &request);
        let request: String = request.chars().take(80).collect();
        assert_eq!(status(&got), expected, "{request}: {got}");
    }
    server.stop();
}

/// RFC 7395 section 3.1.
#[test]
fn handshakes_that_are_none_are_refused() {
    let server = Place::new().serve();
    let xmpp = "Sec-WebSocket-Protocol: chat, xmpp\r\n";
    let without = |line: &str| {
        let kept = UPGRADE
            .split_inclusive("\r\n")
            .filter(|kept| !kept.starts_with(line));
        handshake(&format!("{}{xmpp}", kept.collect::<String>()))
    };
    let old = UPGRADE.replace("Version: 13", "Version: 8");
    let short = UPGRADE.replace("dGhlIHNhbXBsZSBub25jZQ==", "dGhlIA==");
    let cases = [
        // RFC 7395 section 3.1: the subprotocol must be offered.
        (handshake(UPGRADE), "400"),
        (
            handshake(&format!("{UPGRADE}Sec-WebSocket-Protocol: chat\r\n")),
            "400",
        ),
        (without("Upgrade"), "426"),
        (without("Connection"), "426"),
        (without("Sec-WebSocket-Version"), "426"),
        (without("Sec-WebSocket-Key"), "400"),
        (handshake(&format!("{old}{xmpp}")), "426"),
        (handshake(&format!("{short}{xmpp}")), "400"),
        (
            handshake(&format!("{UPGRADE}{xmpp}Origin: https://evil.example\r\n")),
            "403",
        ),
        (
            handshake(&format!("{UPGRADE}{xmpp}Origin: null\r\n")),
            "403",
        ),
    ];
    for (request, expected) in cases {
        let got = answer(server.http, &request);
        assert_eq!(status(&got), expected, "{request}: {got}");
    }
    let welcome = handshake(&format!("{UPGRADE}{xmpp}Origin: http://localhost:8000\r\n"));
    let mut socket = connect(server.http);
    socket.write_all(welcome.as_bytes()).expect("sent");
    let head = String::from_utf8(until(&mut socket, "\r\n\r\n")).expect("a head");
    assert!(
        head.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"),
        "{head}"
    );
    assert!(head.contains("Sec-WebSocket-Protocol: xmpp\r\n"), "{head}");
    assert!(!head.contains("Sec-WebSocket-Extensions"), "{head}");
    server.stop();
}

/// RFC 7395 section 3.2, RFC 6455 section 5.
#[test]
fn frames_that_break_the_rules_close_the_connection_with_their_code() {
    let mut place = Place::new();
    place.set("limits.stanza_bytes_max", "10_000");
    let server = place.serve();
    let mut unmasked = text("x");
    unmasked[1] &= 0x7f;
    let cases: [(&str, Vec<u8>, u16); 12] = [
        ("not masked", unmasked, 1002),
        ("reserved bit", masked(0xc1, b"x"), 1002),
        ("unknown opcode", masked(0x83, b"x"), 1002),
        ("binary", masked(0x82, b"x"), 1003),
        ("continuation of nothing", masked(0x80, b"x"), 1002),
        (
            "message in a message",
            [masked(0x01, b"<a"), text("x")].concat(),
            1002,
        ),
        ("long ping", masked(0x89, &[b'x'; 126]), 1002),
        ("ping in fragments", masked(0x09, b"x"), 1002),
        ("half a close code", masked(0x88, &[3]), 1002),
        ("not UTF-8", masked(0x81, &[b'<', 0xff, b'/', b'>']), 1007),
        (
            "too large",
            masked(0x81, &[b'x'; 20_000])[..8].to_vec(),
            1009,
        ),
        (
            "too large in fragments",
            [masked(0x01, &[b'x'; 8_000]), masked(0x80, &[b'x'; 8_000])].concat(),
            1009,
        ),
    ];
    for (name, frames, expected) in cases {
        let mut socket = web_socket(&server);
        socket.write_all(&text(OPEN)).expect("sent");
        until(&mut socket, "</stream:features>");
        let _ = socket.write_all(&frames);
        let got = all_of(&mut socket);
        let shown = String::from_utf8_lossy(&got);
        assert_eq!(close_code(&got), Some(expected), "{name}: {shown}");
        assert!(
            shown.contains("<stream:error") && shown.contains("<close "),
            "{name}: {shown}"
        );
    }
    server.stop();
}

/// RFC 7395 sections 3.3.1 to 3.3.3 and 3.4 to 3.6: what a message may be, and in which order.
#[test]
fn messages_that_are_no_element_end_the_stream() {
    let server = Place::new().serve();
    let closed = 1000;
    let cases = [
        ("two elements", format!("{OPEN}{OPEN}"), "not-well-formed"),
        ("text", "hello".to_owned(), "not-well-formed"),
        ("white space first", format!(" {OPEN}"), "not-well-formed"),
        ("half an element", "<open".to_owned(), "not-well-formed"),
        (
            "a declaration",
            format!("<?xml version='1.0'?>{OPEN}"),
            "restricted-xml",
        ),
        ("a comment", "<!-- -->".to_owned(), "restricted-xml"),
        (
            "a stream's header",
            "<stream:stream to='localhost'>".to_owned(),
            "not-well-formed",
        ),
        (
            "a stanza first",
            "<presence xmlns='jabber:client'/>".to_owned(),
            "not-authorized",
        ),
        (
            "open of another namespace",
            "<open xmlns='urn:x'/>".to_owned(),
            "invalid-namespace",
        ),
        (
            "open without a version",
            OPEN.replace(" version='1.0'", ""),
            "unsupported-version",
        ),
        (
            "open without a domain",
            OPEN.replace(" to='localhost'", ""),
            "host-unknown",
        ),
        (
            "open of another domain",
            OPEN.replace("localhost", "example.net"),
            "host-unknown",
        ),
        (
            "something else of the framing",
            OPEN.replace("<open", "<reopen"),
            "bad-format",
        ),
    ];
    for (name, message, condition) in cases {
        let mut socket = web_socket(&server);
        socket.write_all(&text(&message)).expect("sent");
        let got = all_of(&mut socket);
        let shown = String::from_utf8_lossy(&got);
        assert!(shown.contains(&format!("<{condition} ")), "{name}: {shown}");
        // Section 3.5: the error comes in an open stream, and `<close/>` follows it.
        let order = ["<open ", "<stream:error xmlns:stream=", "<close "];
        let places: Vec<_> = order.iter().map(|part| shown.find(part)).collect();
        assert!(places.is_sorted() && places[0].is_some(), "{name}: {shown}");
        assert_eq!(close_code(&got), Some(closed), "{name}");
    }
    let mut socket = web_socket(&server);
    socket.write_all(&text(OPEN)).expect("sent");
    until(&mut socket, "</stream:features>");
    socket.write_all(&text(OPEN)).expect("sent");
    let got = all_of(&mut socket);
    assert!(
        String::from_utf8_lossy(&got).contains("<bad-format "),
        "opened twice"
    );
    server.stop();
}

/// RFC 7395 section 3.8.
#[test]
fn pings_are_answered_in_the_middle_of_a_message_and_a_close_is() {
    let server = Place::new().serve();
    let mut socket = web_socket(&server);
    let (first, rest) = OPEN.as_bytes().split_at(9);
    let frames = [
        masked(0x01, first),
        masked(0x89, b"still there?"),
        masked(0x80, rest),
    ];
    socket.write_all(&frames.concat()).expect("sent");
    let got = until(&mut socket, "</stream:features>");
    let pong = b"\x8a\x0cstill there?";
    assert!(got.starts_with(pong), "{}", String::from_utf8_lossy(&got));
    socket
        .write_all(&masked(0x88, &1000u16.to_be_bytes()))
        .expect("sent");
    assert_eq!(close_code(&all_of(&mut socket)), Some(1000));
    let mut polite = web_socket(&server);
    let close = "<close xmlns='urn:ietf:params:xml:ns:xmpp-framing'/>";
    polite
        .write_all(&[text(OPEN), text(close)].concat())
        .expect("sent");
    let got = all_of(&mut polite);
    assert!(
        String::from_utf8_lossy(&got).contains("<close "),
        "section 3.6"
    );
    assert_eq!(close_code(&got), Some(1000));
    // Who stops says so, and that others will serve.
    let mut open = web_socket(&server);
    open.write_all(&text(OPEN)).expect("sent");
    until(&mut open, "</stream:features>");
    server.signal(rustix::process::Signal::TERM);
    let got = all_of(&mut open);
    assert!(String::from_utf8_lossy(&got).contains("<system-shutdown "));
    assert_eq!(close_code(&got), Some(1001));
    server.end();
}

#[test]
fn a_request_that_trickles_is_given_up() {
    let mut place = Place::new();
    place
        .set("http.request_timeout", "\"1s\"")
        .set("http.idle_timeout", "\"1s\"");
    let server = place.serve();
    for start in [
        "GET / HT",
        "POST /http-bind HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n<",
    ] {
        let mut socket = connect(server.http);
        socket.write_all(start.as_bytes()).expect("sent");
        socket
            .set_read_timeout(Some(Duration::from_millis(50)))
            .expect("an option");
        let begun = Instant::now();
        let mut got = Vec::new();
        let mut buffer = [0; 4096];
        while begun.elapsed() < PATIENCE {
            let _ = socket.write_all(b"x");
            match socket.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => got.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
                Err(_) => {}
            }
        }
        let got = String::from_utf8_lossy(&got);
        assert!(got.starts_with("HTTP/1.1 408 "), "{start}: {got}");
    }
    let mut silent = connect(server.http);
    assert_eq!(
        all_of(&mut silent),
        b"",
        "nothing was asked, nothing is said"
    );
    server.stop();
}

/// XEP-0124 section 5.
#[test]
fn requests_that_come_at_once_are_answered_in_their_order() {
    let server = Place::new().serve();
    let mut socket = connect(server.http);
    let create = format!("{BODY} rid='7' to='localhost' hold='1' wait='5' ver='1.6'/>");
    let hint = "GET /http-bind HTTP/1.1\r\nHost: a\r\n\r\n";
    let preflight = "OPTIONS /http-bind HTTP/1.1\r\nHost: localhost\r\n\
                     Origin: http://localhost:1\r\nConnection: close\r\n\r\n";
    let all = format!("{}{hint}{}{preflight}", post(&create), post("nonsense"));
    socket.write_all(all.as_bytes()).expect("sent");
    let got = all_of(&mut socket);
    let got = String::from_utf8_lossy(&got);
    let order = [
        "<stream:features",
        "XMPP over BOSH",
        "condition='bad-request'",
        "HTTP/1.1 204 No Content",
        "Access-Control-Allow-Origin: http://localhost:1",
    ];
    let places: Vec<_> = order.iter().map(|part| got.find(part)).collect();
    assert!(places.is_sorted() && places[0].is_some(), "{got}");
    server.stop();
}

/// XEP-0124 sections 6, 11 and 17.2.
#[test]
fn bodies_that_break_the_rules_are_answered_with_their_condition() {
    let server = Place::new().serve();
    let begin = |socket: &mut TcpStream, more: &str| {
        let create = format!("{BODY} rid='100' to='localhost' hold='1' wait='5' {more}/>");
        socket.write_all(post(&create).as_bytes()).expect("sent");
        let got = String::from_utf8(until(socket, "</body>")).expect("text");
        let (_, rest) = got.split_once("sid='").expect("a session");
        rest.split('\'').next().expect("an id").to_owned()
    };
    let ends = |body: String| {
        let mut socket = connect(server.http);
        socket.write_all(post(&body).as_bytes()).expect("sent");
        String::from_utf8(until(&mut socket, "/>")).expect("text")
    };
    let condition = |name: &str| format!("type='terminate' condition='{name}'");
    for (body, name) in [
        ("nonsense".to_owned(), "bad-request"),
        (format!("{BODY} to='localhost'/>"), "bad-request"),
        (format!("{BODY} rid='1'/>"), "improper-addressing"),
        (format!("{BODY} rid='1' sid='nobody'/>"), "item-not-found"),
        (
            format!("{BODY} rid='1' sid='0.ffff.1.x'/>"),
            "item-not-found",
        ),
        (
            format!("{BODY} rid='1' sid='1.ffff.1.x'/>"),
            "item-not-found",
        ),
        (
            format!("{BODY} rid='1' sid='999.0.1.x'/>"),
            "item-not-found",
        ),
    ] {
        let got = ends(body.clone());
        assert!(got.contains(&condition(name)), "{body}: {got}");
    }
    let mut unknown = connect(server.http);
    let create = format!("{BODY} rid='1' to='example.net'/>");
    unknown.write_all(post(&create).as_bytes()).expect("sent");
    let got = String::from_utf8(until(&mut unknown, "</body>")).expect("text");
    assert!(got.contains(&condition("host-unknown")), "{got}");

    let mut first = connect(server.http);
    let sid = begin(&mut first, "");
    // A secret that is almost right harms nobody: the session goes on.
    let mut wrong = sid.clone();
    wrong.replace_range(sid.len() - 1.., if sid.ends_with('A') { "B" } else { "A" });
    let got = ends(format!("{BODY} rid='101' sid='{wrong}'/>"));
    assert!(got.contains(&condition("item-not-found")), "{got}");
    // Two empty requests at once are one too many (section 11), and the session is over.
    let mut second = connect(server.http);
    let empty = |rid: u64| post(&format!("{BODY} rid='{rid}' sid='{sid}'/>"));
    first.write_all(empty(101).as_bytes()).expect("sent");
    second.write_all(empty(102).as_bytes()).expect("sent");
    for socket in [&mut first, &mut second] {
        let got = String::from_utf8(until(socket, "/>")).expect("text");
        assert!(got.contains(&condition("policy-violation")), "{got}");
    }
    let got = ends(format!("{BODY} rid='103' sid='{sid}'/>"));
    assert!(got.contains(&condition("item-not-found")), "{got}");

    // What cannot be read ends the session that it names: also for the request that is held.
    for broken in [
        "rid='102' sid='SID'><a></b></body>",
        "rid='now' sid='SID'/>",
        "sid='SID'/>",
    ] {
        let mut first = connect(server.http);
        let sid = begin(&mut first, "");
        let held = post(&format!("{BODY} rid='101' sid='{sid}'/>"));
        first.write_all(held.as_bytes()).expect("sent");
        let got = ends(format!("{BODY} {}", broken.replace("SID", &sid)));
        assert!(got.contains(&condition("bad-request")), "{broken}: {got}");
        let got = String::from_utf8(until(&mut first, "/>")).expect("text");
        assert!(got.contains(&condition("bad-request")), "{broken}: {got}");
        let got = ends(format!("{BODY} rid='102' sid='{sid}'/>"));
        assert!(
            got.contains(&condition("item-not-found")),
            "{broken}: {got}"
        );
    }
    server.stop();
}

#[test]
fn figures_are_for_those_whom_the_operator_names() {
    let mut place = Place::new();
    let server = place.serve();
    assert_eq!(server.page("/metrics").0, 200);
    let forwarded = "GET /metrics HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n";
    assert_eq!(status(&answer(server.http, forwarded)), "404");
    server.stop();
    place.set("http.metrics", "[\"192.0.2.0/24\"]");
    let server = place.serve();
    assert_eq!(server.page("/metrics").0, 404);
    assert_eq!(server.page("/healthz").0, 200);
    server.stop();
}

/// What a client says of its own address counts for nothing behind a trusted proxy, whether that
/// adds its word to the client's field or, as some do, in a field of its own.
#[test]
fn a_proxy_is_believed_and_its_client_is_not() {
    let mut place = Place::new();
    place.set("http.proxies", "[\"127.0.0.0/8\"]");
    let server = place.serve();
    place.must(&["ban", "add", "192.0.2.9"]);
    let (banned, other) = ("192.0.2.9", "198.51.100.1");
    for (said, expected) in [
        (vec![banned.to_owned()], "403"),
        (vec![format!("{other}, {banned}")], "403"),
        (vec![other.to_owned(), banned.to_owned()], "403"),
        (vec![banned.to_owned(), other.to_owned()], "200"),
    ] {
        let fields = said.iter().map(|one| format!("X-Forwarded-For: {one}\r\n"));
        let fields: String = fields.collect();
        let request = format!("{HINT}Connection: close\r\n{fields}\r\n");
        assert_eq!(status(&answer(server.http, &request)), expected, "{fields}");
    }
    server.stop();
}

/// Connections through a trusted proxy count for their clients, although the proxy itself, on the
/// same machine, is not counted.
#[test]
fn connections_through_a_proxy_count_for_their_client() {
    let mut place = Place::new();
    place
        .set("http.proxies", "[\"127.0.0.0/8\"]")
        .set("limits.connections_per_address_max", "2");
    let server = place.serve();
    let ask = |from: &str| {
        let mut socket = connect(server.http);
        let request = format!("{HINT}X-Forwarded-For: {from}\r\n\r\n");
        socket.write_all(request.as_bytes()).expect("sent");
        socket
    };
    let mut held = Vec::new();
    for from in ["192.0.2.9", "192.0.2.9", "192.0.2.10"] {
        let mut socket = ask(from);
        until(&mut socket, "\r\n\r\n");
        held.push(socket);
    }
    assert!(all_of(&mut ask("192.0.2.9")).is_empty(), "one too many");
    // The proxy uses a connection again, for somebody else.
    let request = format!("{HINT}X-Forwarded-For: 192.0.2.10\r\n\r\n");
    held[0].write_all(request.as_bytes()).expect("sent");
    until(&mut held[0], "\r\n\r\n");
    let mut again = ask("192.0.2.9");
    until(&mut again, "\r\n\r\n");
    server.stop();
}

/// RFC 7395 section 3.9, XEP-0206 section 3: a stream over plain HTTP is a plain stream, unless a
/// proxy that is trusted says otherwise.
#[test]
fn streams_over_http_obey_what_is_said_of_tls() {
    let mut place = Place::new();
    place
        .set("c2s.require_tls", "true")
        .set("auth.plain_without_tls", "false");
    let features = |server: &Server, fields: &str| {
        let mut socket = connect(server.http);
        let upgrade = handshake(&format!(
            "{UPGRADE}{fields}Sec-WebSocket-Protocol: xmpp\r\n"
        ));
        socket.write_all(upgrade.as_bytes()).expect("sent");
        until(&mut socket, "\r\n\r\n");
        let close = "<close xmlns='urn:ietf:params:xml:ns:xmpp-framing'/>";
        socket
            .write_all(&[text(OPEN), text(close)].concat())
            .expect("sent");
        let got = all_of(&mut socket);
        let bosh = format!("{BODY} rid='1' to='localhost' hold='1'/>");
        let length = bosh.len();
        let request = format!(
            "POST /http-bind HTTP/1.1\r\nHost: a\r\n{fields}Content-Length: {length}\r\n\r\n{bosh}"
        );
        let mut socket = connect(server.http);
        socket.write_all(request.as_bytes()).expect("sent");
        let more = until(&mut socket, "</body>");
        [
            String::from_utf8_lossy(&got),
            String::from_utf8_lossy(&more),
        ]
        .concat()
    };
    let secure = "X-Forwarded-For: 192.0.2.9\r\nX-Forwarded-Proto: https\r\n";
    let server = place.serve();
    for fields in ["", secure] {
        let offered = features(&server, fields);
        assert!(!offered.contains("<mechanism"), "{offered}");
        assert!(!offered.contains("starttls"), "{offered}");
    }
    server.stop();
    place.set("http.proxies", "[\"127.0.0.0/8\"]");
    let server = place.serve();
    let offered = features(&server, secure);
    assert_eq!(offered.matches(">PLAIN<").count(), 2, "{offered}");
    assert!(!features(&server, "").contains("<mechanism"));
    server.stop();
}
