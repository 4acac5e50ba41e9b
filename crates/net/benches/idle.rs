//! What an idle connection costs: resident bytes of the server per connection over plaintext, TLS
//! 1.3 and TLS 1.2, as the slope between two numbers of connections that have each sent and
//! received a line. The clients run in a process of their own.
//! Owns no threshold: it prints figures.
#![allow(clippy::print_stdout)] // Printing is what a benchmark is for.

#[path = "../tests/common/mod.rs"]
mod common;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};

use common::{Client, Node, certificate, client_tls, direct, plain, server_tls};
use net::{AddressRange, Limits};
use rustls::pki_types::CertificateDer;

const FEW: usize = 500;
const MANY: usize = 4_000;

fn main() {
    net::raise_descriptor_limit();
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|word| word == "clients") {
        return clients(&arguments[2..]);
    }
    // What one process frees the next would reuse: each kind is measured in a process of its own.
    if let Some(kind) = arguments.get(2).filter(|_| arguments[1] == "server") {
        return server(kind);
    }
    for kind in ["plain", "tls13", "tls12"] {
        let exe = std::env::current_exe().expect("exe");
        let status = Command::new(exe)
            .args(["server", kind])
            .status()
            .expect("server");
        assert!(status.success(), "{kind} failed");
    }
}

fn server(kind: &str) {
    let (certificate, root) = certificate(&["localhost"]);
    let listener = if kind == "plain" { plain() } else { direct() };
    let limits = Limits {
        exempt: AddressRange::loopback(),
        ..Limits::default()
    };
    let node = Node::with(
        vec![listener],
        1,
        Some(server_tls(vec![certificate])),
        limits,
    );
    let exe = std::env::current_exe().expect("exe");
    let address = node.addresses[0].to_string();
    let mut child = Command::new(exe)
        .args(["clients", kind, &address, &hex(&root)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("clients");
    let mut to = child.stdin.take().expect("stdin");
    let mut from = BufReader::new(child.stdout.take().expect("stdout"));
    let mut measure = |count: usize| {
        writeln!(to, "{count}").expect("write");
        let mut line = String::new();
        from.read_line(&mut line).expect("read");
        assert_eq!(line.trim(), "ready");
        std::thread::sleep(std::time::Duration::from_millis(300));
        resident()
    };
    let few = measure(FEW);
    let many = measure(MANY);
    let slope = (many.saturating_sub(few)) / (MANY - FEW);
    println!("{kind}: {slope} bytes per idle connection ({few} at {FEW}, {many} at {MANY})");
    drop(to);
    child.wait().expect("clients end");
}

fn clients(arguments: &[String]) {
    let kind = arguments[0].as_str();
    let address: SocketAddr = arguments[1].parse().expect("address");
    let root = CertificateDer::from(unhex(&arguments[2]));
    let mut plains = Vec::new();
    let mut secured = Vec::new();
    for line in std::io::stdin().lines() {
        let count: usize = line.expect("line").trim().parse().expect("number");
        while plains.len() + secured.len() < count {
            let stream = TcpStream::connect(address).expect("connect");
            // Otherwise each handshake waits 40 ms for a delayed acknowledgement.
            stream.set_nodelay(true).expect("nodelay");
            if kind == "plain" {
                let mut client = Client {
                    stream,
                    kept: Vec::new(),
                };
                assert_eq!(client.ask("x"), "x");
                plains.push(client);
                continue;
            }
            let version = if kind == "tls13" {
                &rustls::version::TLS13
            } else {
                &rustls::version::TLS12
            };
            let mut client = client_tls(stream, "localhost", std::slice::from_ref(&root), version);
            assert_eq!(client.ask("x"), "secure");
            assert_eq!(client.hear(), "x");
            secured.push(client);
        }
        println!("ready");
    }
}

/// Resident bytes of this process.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let pages = statm
        .split(' ')
        .nth(1)
        .and_then(|word| word.parse::<usize>().ok());
    pages.expect("pages") * 4096
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hex");
    (0..text.len()).step_by(2).map(digits).collect()
}
