//! An extension that knows of no budget: it answers with much, at once or from the store, or its
//! reader panics. Memory stays bounded all the same, and others are served. Alone in its process,
//! because it looks at the memory of all of it.

mod common;

use std::time::Duration;

use common::{Client, options, start_extended};
use server::modules::AccountHandler::Reads;
use server::modules::{Module, Outcome, Switch};

const DEADLINE: Duration = Duration::from_secs(5);

const NS: &str = "urn:example:greedy";

const ANSWER_BYTES: usize = 200_000;

/// Threads of a node that read the store.
const READERS: usize = 8;

fn answer() -> Vec<u8> {
    let text = "x".repeat(ANSWER_BYTES);
    format!("<x xmlns='urn:example:greedy'>{text}</x>").into_bytes()
}

static GREEDY: Module = Module {
    name: "greedy",
    switch: Switch::Always("it is here to be bounded"),
    needs: &[],
    xeps: &[],
    host_features: &[],
    account_features: &[],
    account: &[
        ("now", NS, Reads(|_, _| Outcome::result(answer()))),
        ("read", NS, Reads(|_, _| Outcome::read(|_| Ok(answer())))),
        (
            "panics",
            NS,
            Reads(|_, _| Outcome::read(|_| panic!("it was asked to"))),
        ),
    ],
    host: &[],
};

static EXTENSIONS: &[&Module] = &[&GREEDY];

fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    1024 * kib.expect("a size").parse::<usize>().expect("a number")
}

#[test]
fn an_extension_without_regard_is_bounded_all_the_same() {
    const ACCOUNTS: [&str; 3] = ["a", "b", "c"];
    const SESSIONS: usize = 3;
    const REQUESTS: usize = 60;
    let backlog_max = 512 * 1024;
    let network = net::Limits {
        backlog_max,
        ..net::Limits::default()
    };
    let users = [&ACCOUNTS[..], &["romeo", "juliet"]].concat();
    let running = start_extended(EXTENSIONS, options(2, true), network, &users);
    let mut romeo = Client::login(running.address, "romeo", "r");
    let before = resident();
    let mut greedy = Vec::new();
    for what in ["read", "now"] {
        let requests: String = (0..REQUESTS)
            .map(|n| format!("<iq type='get' id='{n}'><{what} xmlns='urn:example:greedy'/></iq>"))
            .collect();
        for user in ACCOUNTS {
            for n in 0..SESSIONS {
                let mut client = Client::login(running.address, user, &format!("{what}{n}"));
                client.send(&requests);
                greedy.push(client);
            }
        }
        // Nobody reads. Others are served meanwhile: by a session that is there and by a new one.
        for round in 0..20 {
            let mut juliet = Client::login(running.address, "juliet", "j");
            juliet.send("<presence/>");
            romeo.send(&format!(
                "<message to='juliet@localhost' type='chat'><body>{what} {round}</body></message>"
            ));
            juliet.expect(&format!("<body>{what} {round}</body>"));
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    // Each connection may have its backlog and one answer behind it; all that was asked for would
    // be two gigabytes.
    let most = greedy.len() * (backlog_max + 4 * ANSWER_BYTES) + (64 << 20);
    let more = resident().saturating_sub(before);
    assert!(more < most, "{more} bytes more, at most {most}");
    // A reader that panics is an error for whoever asked, and takes no reader from others.
    let mut reader = Client::login(running.address, "a", "reads");
    for n in 0..=READERS {
        reader.send(&format!(
            "<iq type='get' id='panics{n}'><panics xmlns='urn:example:greedy'/></iq>"
        ));
        reader.expect(&format!("id='panics{n}'"));
        reader.expect("<internal-server-error");
    }
    // Who reads is answered on.
    for n in 0..REQUESTS {
        reader.send(&format!(
            "<iq type='get' id='now{n}'><now xmlns='urn:example:greedy'/></iq>"
        ));
        reader.expect(&format!("id='now{n}'"));
        reader.expect("</iq>");
    }
    drop(greedy);
    running.node.drain(DEADLINE);
}
