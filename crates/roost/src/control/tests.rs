//! The control socket against clients that behave badly: it answers what can be answered, keeps
//! every bound, and goes on serving the others.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use super::server::Timeouts;
use super::*;
use crate::member::order;
use crate::node::{Request, Response};
use crate::split::order as split;

/// Answers like a server with one account.
struct OneUser;

impl Operator for OneUser {
    fn call(&self, request: Request) -> Response {
        match request {
            Request::UserList { .. } => Response::Users {
                jids: vec!["a@localhost".to_owned()],
            },
            Request::Export { limit, .. } => {
                let lines = vec!["x".repeat(RESPONSE_BYTES_MAX / 4); limit];
                Response::Lines { lines, next: None }
            }
            Request::UserAdd { password, .. } if password.is_empty() => {
                panic!("a bug in a handler")
            }
            _ => Response::Ok,
        }
    }

    fn watch(&self, request: watch::Request) -> watch::Response {
        assert_eq!(request, watch::Request::Alarms);
        watch::Response::Alarms { alarms: Vec::new() }
    }

    fn order(&self, request: order::Request) -> order::Response {
        order::call(None, &request)
    }

    fn split(&self, _request: split::Request) -> split::Response {
        split::refusal()
    }
}

struct Fixture {
    folder: TempDir,
    server: Server,
}

fn start() -> Fixture {
    start_with_line(Duration::from_millis(400))
}

fn start_with_line(line: Duration) -> Fixture {
    let folder = tempfile::tempdir().expect("folder");
    let timeouts = Timeouts {
        idle: Duration::from_millis(400),
        line,
    };
    let server = Server::start_with(folder.path(), Arc::new(OneUser), timeouts).expect("server");
    Fixture { folder, server }
}

impl Fixture {
    fn connect(&self) -> UnixStream {
        let socket = UnixStream::connect(self.folder.path().join(SOCKET)).expect("connect");
        socket
            .set_read_timeout(Some(Duration::from_secs(10)))
            .expect("timeout");
        socket
    }

    /// It answers. Connections that were closed a moment ago may still hold their places.
    fn assert_serves(&self) {
        let users = Response::Users {
            jids: vec!["a@localhost".to_owned()],
        };
        let is_served = || {
            let mut client = Client::connect(self.folder.path())
                .expect("connect")
                .expect("runs");
            match client.call(&list()) {
                Ok(Response::Error { code, .. }) if code == "busy" => false,
                answer => {
                    assert_eq!(answer.expect("answer"), users);
                    true
                }
            }
        };
        wait_until("a place is free", is_served);
    }

    fn wait_for_free_places(&self) {
        wait_until("all places are free", || self.server.clients() == 0);
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..3_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("never: {what}");
}

fn list() -> Request {
    Request::UserList {
        domain: None,
        after: None,
        limit: 1,
    }
}

fn code_of(line: &str) -> String {
    match serde_json::from_str(line) {
        Ok(Response::Error { code, .. }) => code,
        other => panic!("expected an error, not {other:?} from {line:?}"),
    }
}

fn read_line(socket: &UnixStream) -> String {
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line).expect("line");
    line
}

#[test]
fn several_requests_use_one_connection() {
    let fixture = start();
    let mut client = Client::connect(fixture.folder.path())
        .expect("connect")
        .expect("runs");
    for _ in 0..100 {
        assert!(matches!(client.call(&list()), Ok(Response::Users { .. })));
    }
}

#[test]
fn the_socket_is_private_and_goes_with_the_server() {
    let mut fixture = start();
    let path = fixture.folder.path().join(SOCKET);
    let mode = fs_mode(&path);
    assert_eq!(mode & 0o777, 0o600);
    fixture.server.stop();
    assert!(!path.exists());
    assert!(
        Client::connect(fixture.folder.path())
            .expect("no error")
            .is_none()
    );
}

fn fs_mode(path: &Path) -> u32 {
    std::fs::metadata(path)
        .expect("socket")
        .permissions()
        .mode()
}

#[test]
fn a_stale_socket_is_nobody_and_is_replaced() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join(SOCKET);
    drop(std::os::unix::net::UnixListener::bind(&path).expect("stale socket"));
    assert!(path.exists());
    assert!(Client::connect(folder.path()).expect("no error").is_none());
    let server = Server::start(folder.path(), Arc::new(OneUser)).expect("server");
    assert!(Client::connect(folder.path()).expect("connect").is_some());
    drop(server);
}

#[test]
fn a_folder_with_a_long_path_works() {
    let folder = tempfile::tempdir().expect("folder");
    let deep = folder.path().join("d".repeat(100)).join("e".repeat(100));
    std::fs::create_dir_all(&deep).expect("deep folder");
    let _server = Server::start(&deep, Arc::new(OneUser)).expect("server");
    assert!(Client::connect(&deep).expect("connect").is_some());
}

#[test]
fn garbage_is_answered_and_the_connection_stays() {
    let fixture = start();
    let mut socket = fixture.connect();
    let garbage: [&[u8]; 6] = [
        b"hello\n",
        b"\n",
        b"{\"request\":\"format_disk\"}\n",
        b"{\"request\":\"user_kick\",\"jid\":\"a\",\"extra\":1}\n",
        b"\xff\xfe\x00\n",
        b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\n",
    ];
    for line in garbage {
        socket.write_all(line).expect("write");
        assert_eq!(code_of(&read_line(&socket)), "bad_request");
    }
    socket
        .write_all(b"{\"request\":\"status\"}\n")
        .expect("write");
    assert_eq!(read_line(&socket), "{\"response\":\"ok\"}\n");
}

#[test]
fn watchers_are_answered_on_the_same_connection() {
    let fixture = start();
    let mut client = Client::connect(fixture.folder.path())
        .expect("connect")
        .expect("runs");
    let patience = Duration::from_secs(10);
    let answer: watch::Response = client
        .call_within(&watch::Request::Alarms, patience)
        .expect("answer");
    assert_eq!(answer, watch::Response::Alarms { alarms: Vec::new() });
    assert!(matches!(client.call(&list()), Ok(Response::Users { .. })));
}

#[test]
fn a_bad_request_does_not_repeat_a_password() {
    let fixture = start();
    let mut socket = fixture.connect();
    let line = b"{\"request\":\"user_add\",\"jid\":\"a@b\",\"password\":12345678}\n";
    socket.write_all(line).expect("write");
    let answer = read_line(&socket);
    assert_eq!(code_of(&answer), "bad_request");
    assert!(!answer.contains("12345678"), "{answer}");
}

#[test]
fn a_huge_line_ends_the_connection_with_a_reason() {
    let fixture = start_with_line(Duration::from_secs(60));
    let mut socket = fixture.connect();
    let chunk = vec![b'x'; 64 * 1_024];
    let mut sent = 0;
    while socket.write_all(&chunk).is_ok() {
        sent += chunk.len();
        assert!(
            sent <= 2 * REQUEST_BYTES_MAX,
            "the server reads without bound"
        );
    }
    assert_eq!(code_of(&read_line(&socket)), "too_long");
    fixture.assert_serves();
}

#[test]
fn a_slow_writer_is_cut_off_and_disturbs_nobody() {
    let fixture = start();
    let mut slow = fixture.connect();
    for byte in b"{\"request\"" {
        if slow.write_all(&[*byte]).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(60));
    }
    fixture.assert_serves();
    assert_eq!(code_of(&read_line(&slow)), "timeout");
    let mut rest = Vec::new();
    assert_eq!(slow.read_to_end(&mut rest).unwrap_or(0), 0, "closed");
}

#[test]
fn an_idle_client_is_cut_off() {
    let fixture = start();
    let mut idle = fixture.connect();
    let mut nothing = Vec::new();
    assert_eq!(idle.read_to_end(&mut nothing).expect("closed"), 0);
}

#[test]
fn a_client_that_never_reads_is_cut_off() {
    let fixture = start();
    let mut deaf = fixture.connect();
    let _ = deaf.write_all(b"{\"request\":\"export\",\"after\":null,\"limit\":1}\n");
    // Its first byte is there, so its thread is; the rest does not fit into the socket.
    deaf.read_exact(&mut [0]).expect("the first byte");
    fixture.wait_for_free_places();
    fixture.assert_serves();
}

#[test]
fn more_clients_than_places_are_told_so() {
    let fixture = start();
    let kept: Vec<UnixStream> = (0..CLIENTS_MAX).map(|_| fixture.connect()).collect();
    // They are admitted in the order of their connecting, so this one comes last.
    assert_eq!(code_of(&read_line(&fixture.connect())), "busy");
    drop(kept);
    fixture.assert_serves();
}

#[test]
fn many_clients_come_and_go() {
    let fixture = start();
    for round in 0..300 {
        let mut socket = fixture.connect();
        if round % 3 == 0 {
            let _ = socket.write_all(b"{\"request\":");
        }
    }
    fixture.assert_serves();
    fixture.wait_for_free_places();
}

#[test]
fn an_answer_that_is_too_large_becomes_an_error() {
    let fixture = start();
    let mut client = Client::connect(fixture.folder.path())
        .expect("connect")
        .expect("runs");
    let answer = client
        .call(&Request::Export {
            after: None,
            limit: 5,
        })
        .expect("answer");
    assert!(matches!(answer, Response::Error { code, .. } if code == "too_large"));
}

#[test]
fn a_panic_ends_one_connection_only() {
    let fixture = start();
    let mut client = Client::connect(fixture.folder.path())
        .expect("connect")
        .expect("runs");
    let bad = Request::UserAdd {
        jid: "a@b".to_owned(),
        password: String::new(),
    };
    let error = client.call(&bad).expect_err("no answer").to_string();
    assert_eq!(error, "the server did not answer: it closed the connection");
    fixture.assert_serves();
}
