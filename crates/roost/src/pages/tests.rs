//! What pages say, asked as a shard asks them.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use super::*;

fn get_page(pages: Pages, request: &str) -> String {
    let health = Health::default();
    let web = crate::http::start(Vec::new(), &health, router(pages)).expect("started");
    let (mut ours, theirs) = UnixStream::pair().expect("pair");
    assert!((web.take)(theirs, std::net::Ipv4Addr::LOCALHOST.into()));
    ours.write_all(request.as_bytes()).expect("write");
    let mut answer = String::new();
    ours.read_to_string(&mut answer).expect("read");
    answer
}

fn pages() -> Pages {
    Pages {
        health: Health::default(),
        figures: Figures::new("text/plain"),
        url: None,
        websocket: true,
        bosh: true,
        client: Some(None),
        domain: "example.org".to_owned(),
    }
}

fn get(pages: Pages, path: &str, fields: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n{fields}\r\n");
    get_page(pages, &request)
}

/// RFC 7395 section 4.
#[test]
fn host_meta_names_the_ways_that_are_open() {
    let fields = "Host: chat.example.org:5443\r\nX-Forwarded-Proto: https\r\n";
    let xml = get(pages(), "/.well-known/host-meta", fields);
    assert!(xml.contains("access-control-allow-origin: *"), "{xml}");
    assert!(xml.contains("content-type: application/xrd+xml"), "{xml}");
    let link = "<Link rel='urn:xmpp:alt-connections:websocket' \
                href='wss://chat.example.org:5443/xmpp-websocket'/>";
    assert!(xml.contains(link), "{xml}");
    assert!(
        xml.contains("href='https://chat.example.org:5443/http-bind'"),
        "{xml}"
    );
    let json = get(
        pages(),
        "/.well-known/host-meta.json",
        "Host: localhost:5280\r\n",
    );
    let (_, body) = json.split_once("\r\n\r\n").expect("a body");
    let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(
        body["links"][0]["href"],
        "ws://localhost:5280/xmpp-websocket"
    );
    assert_eq!(body["links"][1]["rel"], "urn:xmpp:alt-connections:xbosh");
    let configured = Pages {
        url: Some("https://x.example.net/".to_owned()),
        websocket: false,
        ..pages()
    };
    let xml = get(configured, "/.well-known/host-meta", "Host: a\r\n");
    assert!(!xml.contains("websocket") && xml.contains("'https://x.example.net/http-bind'"));
}

#[test]
fn a_host_that_is_none_becomes_no_part_of_a_page() {
    for host in ["a'/><b", "a b", "\"x\"", ""] {
        let xml = get(
            pages(),
            "/.well-known/host-meta",
            &format!("Host: {host}\r\n"),
        );
        assert!(!xml.contains("<Link"), "{xml}");
    }
}

#[test]
fn the_client_can_be_missing_or_switched_off() {
    assert!(get(pages(), "/", "Host: a\r\n").contains("is not installed"));
    let off = Pages {
        client: None,
        ..pages()
    };
    assert!(get(off, "/", "Host: a\r\n").starts_with("HTTP/1.1 404"));
}

#[test]
fn the_client_is_served_from_its_folder_and_nothing_beside_it() {
    let folder = tempfile::tempdir().expect("folder");
    let dist = folder.path().join(CONVERSE);
    std::fs::create_dir_all(&dist).expect("dist");
    std::fs::write(dist.join("converse.min.js"), "var c;").expect("script");
    std::fs::write(folder.path().join("secret"), "secret").expect("secret");
    let installed = || Pages {
        client: Some(Some(folder.path().to_owned())),
        ..pages()
    };
    let page = get(installed(), "/", "Host: a\r\n");
    assert!(page.contains("/converse/converse.min.js"), "{page}");
    assert!(
        page.contains("content-security-policy: default-src 'self'"),
        "{page}"
    );
    assert!(get(installed(), "/converse/converse.min.js", "Host: a\r\n").ends_with("var c;"));
    let settings = get(installed(), "/client.json", "Host: localhost:5280\r\n");
    assert!(
        settings.contains("\"ws://localhost:5280/xmpp-websocket\""),
        "{settings}"
    );
    for path in [
        "/converse/../../secret",
        "/converse/%2e%2e/%2e%2e/secret",
        "/converse//secret",
    ] {
        let answer = get(installed(), path, "Host: a\r\n");
        assert!(
            answer.starts_with("HTTP/1.1 4") && !answer.ends_with("secret"),
            "{path}"
        );
    }
}
