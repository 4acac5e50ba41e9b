//! A whole node in this process, spoken to over real sockets: the shortest way from a fault in the
//! domain to a failing test. The rules of the protocol are tested by the conversation scripts.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Client, PANIC, auth, options, start, start_on};
use server::admin::{Request, Response};
use server::options::Limits;
use store::{Durability, Engine, FaultyEngine, MemoryEngine, SlotKey, Store};

#[test]
fn two_clients_chat_on_one_shard_and_on_many() {
    for (shards, hand_over) in [(1, true), (4, true), (4, false)] {
        let running = start(shards, hand_over, &["alice", "bob"]);
        let mut alice = Client::login(running.address, "alice", "a");
        let mut bob = Client::login(running.address, "bob", "b");
        bob.send("<presence/>");
        bob.expect("<presence from='bob@localhost/b'");
        for turn in 0..100 {
            alice.send(&format!(
                "<message to='bob@localhost' type='chat'><body>{turn}</body></message>"
            ));
        }
        for turn in 0..100 {
            bob.expect(&format!("<body>{turn}</body></message>"));
        }
        bob.send("<message to='alice@localhost/a'><body>back</body></message>");
        alice.expect("<body>back</body>");
        running.node.drain(Duration::from_secs(5));
        alice.expect("<system-shutdown ");
    }
}

/// Goal: what a shard has besides accounts is not taken for accounts.
#[test]
fn accounts_in_memory_are_counted() {
    let running = start(2, true, &["alice"]);
    let mut alice = Client::login(running.address, "alice", "a");
    alice.send("<presence/>");
    alice.expect("<presence from='alice@localhost/a'");
    // Shards say what they have now and then.
    for _ in 0..100 {
        if running.node.accounts_loaded() == 1 {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{} accounts, of one", running.node.accounts_loaded());
}

#[test]
fn messages_to_an_absent_user_wait_in_order() {
    let running = start(2, true, &["alice", "bob"]);
    let mut alice = Client::login(running.address, "alice", "a");
    for turn in 0..120 {
        alice.send(&format!(
            "<message to='bob@localhost' type='chat'><body>{turn}.</body></message>"
        ));
    }
    alice.send("<iq type='get' id='p' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>");
    alice.expect("id='p'");
    // The hundredth is the last that fits; those behind it come back.
    alice.expect("<resource-constraint ");
    let mut bob = Client::login(running.address, "bob", "b");
    bob.send("<presence/>");
    for turn in 0..100 {
        bob.expect(&format!("<body>{turn}.</body>"));
        bob.expect("<delay xmlns='urn:xmpp:delay' from='localhost'");
    }
    running.node.drain(Duration::from_secs(5));
}

#[test]
fn what_sessions_with_full_queues_leave_waits_for_the_next_one() {
    const EACH: usize = 700;
    let running = start(1, true, &["alice", "bob"]);
    let mut devices: Vec<Client> = Vec::new();
    for resource in ["a", "b"] {
        let mut device = Client::login(running.address, "bob", resource);
        device.send("<enable xmlns='urn:xmpp:sm:3'/>");
        device.expect("<enabled ");
        devices.push(device);
    }
    let mut alice = Client::login(running.address, "alice", "a");
    for turn in 0..EACH {
        for resource in ["a", "b"] {
            alice.send(&format!(
                "<message to='bob@localhost/{resource}' type='chat'><body>{turn}{resource}</body>\
                 </message>"
            ));
        }
    }
    for (device, resource) in devices.iter_mut().zip(["a", "b"]) {
        device.expect(&format!("<body>{}{resource}</body>", EACH - 1));
        device.send("</stream:stream>");
        device.expect("</stream:stream>");
    }
    let mut third = Client::login(running.address, "bob", "c");
    third.send("<presence/>");
    // Those of each device come in order. The first one's may be listed before the second ends.
    let mut next = [0; 2];
    for _ in 0..2 * EACH {
        let message = third.expect("</message>");
        let device = usize::from(message.contains("b</body>"));
        let body = format!("<body>{}{}</body>", next[device], ["a", "b"][device]);
        assert!(message.contains(&body), "{body} is next: {message}");
        next[device] += 1;
    }
    assert_eq!(next, [EACH; 2]);
    running.node.drain(Duration::from_secs(5));
}

/// To its sender it would look as if the account were gone.
#[test]
fn a_message_for_somebody_who_cannot_be_read_is_to_be_tried_again() {
    let engine = FaultyEngine::new(MemoryEngine::new());
    let faults = engine.faults();
    let engine: Arc<dyn Engine> = Arc::new(engine);
    let start = |users: &[&str]| {
        let slots = SlotKey::new([0; 16]);
        let store = Store::with_engine(Arc::clone(&engine), Durability::Memory, slots).unwrap();
        start_on(store, options(1, true), net::Limits::default(), users)
    };
    let before = start(&["alice", "bob"]);
    before.node.drain(Duration::from_secs(5));
    let running = start(&[]);
    let mut alice = Client::login(running.address, "alice", "a");
    faults.fail_reads(u64::MAX);
    alice.send("<message to='bob@localhost' type='chat' id='m'><body>x</body></message>");
    let answer = alice.expect("</error></message>");
    assert!(answer.contains("<resource-constraint "), "{answer}");
    faults.fail_reads(0);
    running.node.drain(Duration::from_secs(5));
}

/// Nobody comes back to read or write: what is kept for a time only goes all the same. What
/// somebody is owed stays.
#[test]
fn messages_too_old_go_though_their_user_never_comes_back() {
    let store = Store::in_memory();
    let start = |max_age: Duration, users: &[&str]| {
        let mut options = options(2, true);
        options.archive.enabled = true;
        options.archive.max_age = max_age;
        start_on(store.clone(), options, net::Limits::default(), users)
    };
    let kept = |user: &str| store.log_read(user, 0, 10).unwrap().len();
    let before = start(Duration::from_secs(60), &["alice", "bob", "carol"]);
    let mut bob = Client::login(before.address, "bob", "b");
    bob.send("<presence/>");
    bob.expect("<presence from='bob@localhost/b'");
    let mut alice = Client::login(before.address, "alice", "a");
    for to in ["bob", "carol"] {
        alice.send(&format!(
            "<message to='{to}@localhost' type='chat'><body>x</body></message>"
        ));
    }
    bob.expect("<body>x</body>");
    alice.send("<iq type='get' id='p' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>");
    alice.expect("id='p'");
    before.node.drain(Duration::from_secs(5));
    assert_eq!((kept("alice@localhost"), kept("bob@localhost")), (2, 1));
    let after = start(Duration::ZERO, &[]);
    while kept("alice@localhost") + kept("bob@localhost") > 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut carol = Client::login(after.address, "carol", "c");
    carol.send("<presence/>");
    carol.expect("<body>x</body>");
    after.node.drain(Duration::from_secs(5));
}

#[test]
fn contacts_see_each_other_come_and_go() {
    let running = start(2, true, &["alice", "bob"]);
    let mut alice = Client::login(running.address, "alice", "a");
    let mut bob = Client::login(running.address, "bob", "b");
    alice.send("<presence/>");
    bob.send("<presence/>");
    bob.expect("from='bob@localhost/b'");
    alice.send("<presence type='subscribe' to='bob@localhost'/>");
    bob.expect("type='subscribe'");
    bob.send("<presence type='subscribed' to='alice@localhost'/>");
    alice.expect("type='subscribed'");
    alice.expect("from='bob@localhost/b'");
    drop(bob);
    alice.expect("type='unavailable'");
    running.node.drain(Duration::from_secs(5));
}

#[test]
fn a_wrong_password_is_refused_and_a_removed_account_ends_its_sessions() {
    let running = start(1, true, &["alice"]);
    let mut alice = Client::login(running.address, "alice", "a");
    let mut other = Client::connect(running.address);
    other.open();
    other.authenticate_with("alice", "wrong");
    other.expect("<not-authorized/>");
    let removed = running.node.admin().call(Request::UserDel {
        jid: "alice@localhost".into(),
    });
    assert_eq!(removed, Response::Ok);
    alice.expect("<not-authorized ");
    running.node.drain(Duration::from_secs(5));
}

/// It moves to the shard of whoever it says it is, with what its client has sent already.
#[test]
fn who_fails_as_some_users_can_still_be_another() {
    let users = ["alice", "bob", "carol", "dave", "erin", "frank"];
    for hand_over in [true, false] {
        let running = start(4, hand_over, &users);
        for (first, second) in users.iter().zip(users.iter().rev()) {
            let mut client = Client::connect(running.address);
            client.open();
            let said = [(first, "wrong"), (second, "wrong"), (second, "secret")];
            let said = said.map(|(user, password)| auth((*user, password)));
            client.send(&said.concat());
            client.expect("<not-authorized/>");
            client.expect("<not-authorized/>");
            client.expect("<success");
            client.open();
            client.bind("r");
            client.expect(&format!("{second}@localhost/r</jid></bind></iq>"));
        }
        running.node.drain(Duration::from_secs(5));
    }
}

/// Those who go while they wait for their keys are not counted among those who log in.
#[test]
fn logins_given_up_are_in_nobodys_way() {
    let users = ["alice", "bob", "carol", "dave"];
    let running = start(4, true, &users);
    for _ in 0..50 {
        for user in &users {
            let mut client = Client::connect(running.address);
            client.open();
            let first = xmpp::sasl::encode(&format!("n,,n={user},r=nonce"));
            client.send(&format!(
                "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='SCRAM-SHA-1'>{first}\
                 </auth>"
            ));
        }
    }
    for user in users {
        Client::login(running.address, user, "r");
    }
    running.node.drain(Duration::from_secs(5));
}

#[test]
fn a_crash_ends_the_streams_of_its_own_user_only() {
    let running = start(2, true, &["alice", "bob", "carol"]);
    let mut alice = Client::login(running.address, "alice", "a");
    let mut other = Client::login(running.address, "alice", "b");
    let mut bob = Client::login(running.address, "bob", "b");
    let mut carol = Client::login(running.address, "carol", "c");
    alice.send(&format!("<message to='bob@localhost/b'>{PANIC}</message>"));
    for stream in [&mut alice, &mut other] {
        stream.expect("<internal-server-error ");
        stream.expect("</stream:stream>");
    }
    carol.send("<message to='bob@localhost/b'><body>still here</body></message>");
    bob.expect("<body>still here</body>");
    let mut alice = Client::login(running.address, "alice", "a");
    alice.send("<message to='bob@localhost/b'><body>back again</body></message>");
    bob.expect("<body>back again</body>");
    running.node.drain(Duration::from_secs(5));
}

#[test]
fn a_thousand_others_chat_on_while_one_user_crashes() {
    const PAIRS: usize = 500;
    const ROUNDS: usize = 4;
    net::raise_descriptor_limit();
    let running = start(2, true, &["alice"]);
    let made = running.node.admin().call(Request::Provision {
        domain: "localhost".into(),
        users: 2 * PAIRS as u64,
        contacts: 0,
        password: "secret".into(),
        first: 0,
        count: 2 * PAIRS as u64,
    });
    assert_eq!(
        made,
        Response::Made {
            accounts: 2 * PAIRS as u64
        }
    );
    let others = (0..2 * PAIRS).map(|n| Client::login(running.address, &format!("u{n}"), "r"));
    let mut others: Vec<Client> = others.collect();
    for round in 0..ROUNDS {
        let mut alice = Client::login(running.address, "alice", "a");
        for (n, sender) in others.iter_mut().enumerate() {
            let to = n ^ 1;
            let body = format!("round {round} from {n}");
            sender.send(&format!(
                "<message to='u{to}@localhost/r' type='chat'><body>{body}</body></message>"
            ));
            if n == PAIRS {
                alice.send(&format!("<message to='u0@localhost/r'>{PANIC}</message>"));
            }
        }
        alice.expect("<internal-server-error ");
        for (n, recipient) in others.iter_mut().enumerate() {
            let from = n ^ 1;
            recipient.expect(&format!("<body>round {round} from {from}</body>"));
        }
    }
    running.node.drain(Duration::from_secs(5));
}

#[test]
fn new_limits_act_on_a_running_node() {
    let running = start(2, true, &["alice"]);
    let _alice = Client::login(running.address, "alice", "a");
    let mut second = Client::authenticate(running.address, "alice");
    for (sessions_per_user, expected) in [(1, "<resource-constraint "), (2, "alice@localhost/b")] {
        let limits = Limits {
            sessions_per_user,
            ..options(2, true).limits
        };
        let network = net::Limits::default();
        running.node.set_limits(&limits, network).expect("told");
        second.bind("b");
        second.expect(expected);
        if sessions_per_user == 1 {
            second.expect("</iq>");
        }
    }
    running.node.drain(Duration::from_secs(5));
}
