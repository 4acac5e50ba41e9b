//! Heads that are taken, and those that are refused with the reason.

use super::*;

fn parse(text: &str) -> Result<Option<Head<'_>>, HeadError> {
    head(text.as_bytes(), 1_000, &mut 0)
}

#[test]
fn a_head_is_read_at_any_cut() {
    let text = "POST /http-bind?x=1 HTTP/1.1\r\nHost: a\r\nConnection: Keep-Alive, Upgrade\r\n\
                content-length: 12\r\n\r\n<body/>";
    let end = text.find("\r\n\r\n").expect("an end") + 4;
    let mut scanned = 0;
    for cut in 0..end {
        let incomplete = head(&text.as_bytes()[..cut], 1_000, &mut scanned);
        assert!(matches!(incomplete, Ok(None)), "cut at {cut}");
    }
    let head = head(text.as_bytes(), 1_000, &mut scanned);
    let head = head.expect("fine").expect("complete");
    assert_eq!((head.method, head.path()), ("POST", "/http-bind"));
    assert_eq!((head.bytes, head.body), (end, Some(12)));
    assert!(head.lists("connection", "upgrade") && head.keeps_alive());
    assert_eq!(head.header("HOST"), Some("a"));
}

#[test]
fn what_may_follow_depends_on_the_version() {
    let keeps = |text| parse(text).expect("fine").expect("complete").keeps_alive();
    assert!(keeps("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert!(!keeps(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    ));
    assert!(!keeps("GET / HTTP/1.0\r\n\r\n"));
    assert!(keeps("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
}

#[test]
fn what_could_be_read_in_two_ways_is_refused() {
    let fields = |fields: &str| format!("POST / HTTP/1.1\r\n{fields}\r\n\r\n");
    let many = "a: b\r\n".repeat(HEADERS_MAX);
    let cases = [
        ("GET /\r\n\r\n".to_owned(), HeadError::Malformed),
        (
            "GET / HTTP/2.0\r\nHost: a\r\n\r\n".to_owned(),
            HeadError::Malformed,
        ),
        ("\x16\x03\x01\r\n\r\n".to_owned(), HeadError::Malformed),
        (
            "<stream:stream to='a'>\r\n\r\n".to_owned(),
            HeadError::Malformed,
        ),
        (fields("A: b"), HeadError::Malformed),
        (fields("Host: a\r\nHost: b"), HeadError::Malformed),
        (
            fields("Host: a\r\nContent-Length: 1\r\nContent-Length: 2"),
            HeadError::Malformed,
        ),
        (
            fields("Host: a\r\nContent-Length: +1"),
            HeadError::Malformed,
        ),
        (fields("Host: a\r\nContent-Length: "), HeadError::Malformed),
        (
            fields("Host: a\r\nContent-Length: 99999999999999999999999"),
            HeadError::Malformed,
        ),
        (
            fields("Host: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked"),
            HeadError::Malformed,
        ),
        (
            fields("Host: a\r\nTransfer-Encoding: gzip, chunked"),
            HeadError::Malformed,
        ),
        (fields("Host: a\r\nX: y\r\n folded"), HeadError::Malformed),
        (fields("Host : a"), HeadError::Malformed),
        (
            fields(&format!("Host: a\r\n{many}B: c")),
            HeadError::TooLarge,
        ),
        (
            fields(&format!("Host: {}", "a".repeat(1_000))),
            HeadError::TooLarge,
        ),
        ("G".repeat(1_001), HeadError::TooLarge),
    ];
    for (text, error) in cases {
        assert_eq!(parse(&text).err(), Some(error), "{text}");
    }
    let chunked = parse("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n");
    assert_eq!(chunked.expect("fine").expect("complete").body, None);
}
