//! The bounds of accounts and of their connections, as docs/limits.md lists them: what reaches one
//! gets its answer, and nothing else is disturbed. Those of XML, streams and logins are in
//! `crates/xmpp/tests/bad_input.rs`, those of sockets in `crates/net/tests`.

mod common;

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{
    Client, PANIC, PATIENCE, Running, new_disk, options, start, start_on, start_with, store_on,
};
use server::admin::{Request, Response};
use server::options::Limits;
use stdx::time::{Clock, SystemClock};

const DEADLINE: Duration = Duration::from_secs(5);

/// Time since the clock was made.
fn since(clock: SystemClock) -> Duration {
    clock.now().saturating_since(stdx::time::Moment::ZERO)
}

/// Waits until the server has handled everything before this; returns what came meanwhile.
fn ping(client: &mut Client, id: &str) -> String {
    client.send(&format!(
        "<iq type='get' id='{id}' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>"
    ));
    client.expect(&format!("id='{id}'"))
}

fn roster_set(client: &mut Client, id: &str, item: &str) {
    client.send(&format!(
        "<iq type='set' id='{id}'><query xmlns='jabber:iq:roster'>{item}</query></iq>"
    ));
    client.expect(&format!("id='{id}'"));
}

#[test]
fn a_full_roster_refuses_contacts_of_every_origin() {
    let running = start(1, true, &["alice", "bob"]);
    let mut alice = Client::login(running.address, "alice", "a");
    for contact in 0..100 {
        let item = format!("<item jid='c{contact}@localhost'/>");
        roster_set(&mut alice, &format!("r{contact}"), &item);
    }
    roster_set(&mut alice, "full", "<item jid='more@localhost'/>");
    alice.expect("<resource-constraint ");
    alice.send("<presence type='subscribe' to='bob@localhost' id='s'/>");
    alice.expect("<resource-constraint ");
    // Who asks hears it too, and who is there already can be changed.
    let mut bob = Client::login(running.address, "bob", "b");
    bob.send("<presence/><presence type='subscribe' to='alice@localhost'/>");
    bob.expect("type='error'");
    bob.expect("<resource-constraint ");
    roster_set(
        &mut alice,
        "rename",
        "<item jid='c7@localhost' name='Seven'/>",
    );
    ping(&mut alice, "alive");
    running.node.drain(DEADLINE);
}

#[test]
fn a_roster_item_has_bounds() {
    let running = start(1, true, &["alice"]);
    let mut alice = Client::login(running.address, "alice", "a");
    let name = "n".repeat(1_024);
    let group = "g".repeat(1_024);
    let groups: String = (0..33).map(|n| format!("<group>{n}</group>")).collect();
    for (id, item) in [
        ("name", format!("<item jid='c@localhost' name='{name}'/>")),
        (
            "group",
            format!("<item jid='c@localhost'><group>{group}</group></item>"),
        ),
        ("groups", format!("<item jid='c@localhost'>{groups}</item>")),
    ] {
        roster_set(&mut alice, id, &item);
        alice.expect("<not-acceptable ");
    }
    let item = format!(
        "<item jid='c@localhost' name='{}'><group>{}</group></item>",
        &name[1..],
        &group[1..]
    );
    alice.send(&format!(
        "<iq type='set' id='fits'><query xmlns='jabber:iq:roster'>{item}</query></iq>"
    ));
    alice.expect("<iq type='result' id='fits'");
    running.node.drain(DEADLINE);
}

#[test]
fn a_full_inbox_refuses_by_bytes_too() {
    let limits = Limits {
        offline_bytes_max: 64 * 1024,
        ..options(1, true).limits
    };
    let options = server::Options {
        limits,
        ..options(1, true)
    };
    let running = start_with(options, net::Limits::default(), &["alice", "bob"]);
    let mut alice = Client::login(running.address, "alice", "a");
    let body = "x".repeat(30_000);
    for id in ["one", "two", "three"] {
        alice.send(&format!(
            "<message to='bob@localhost' type='chat' id='{id}'><body>{body}</body></message>"
        ));
    }
    alice.expect("id='three'");
    alice.expect("<resource-constraint ");
    let mut bob = Client::login(running.address, "bob", "b");
    bob.send("<presence/>");
    bob.expect("id='one'");
    bob.expect("id='two'");
    // There is room again.
    ping(&mut bob, "seen");
    drop(bob);
    running.node.drain(DEADLINE);
}

#[test]
fn a_block_list_has_an_end() {
    let running = start(1, true, &["alice"]);
    let mut alice = Client::login(running.address, "alice", "a");
    let mut block = |id: &str, from: usize, count: usize, wanted: &str| {
        let items: String = (from..from + count)
            .map(|n| format!("<item jid='s{n}@example.org'/>"))
            .collect();
        alice.send(&format!(
            "<iq type='set' id='{id}'><block xmlns='urn:xmpp:blocking'>{items}</block></iq>"
        ));
        alice.expect(&format!("<iq type='{wanted}' id='{id}'"));
    };
    for part in 0..10 {
        block(&format!("b{part}"), part * 1_000, 1_000, "result");
    }
    block("one-more", 10_000, 1, "error");
    block("known", 5_000, 1, "result");
    running.node.drain(DEADLINE);
}

#[test]
fn directed_presence_has_an_end() {
    let running = start(1, true, &["alice"]);
    let mut alice = Client::login(running.address, "alice", "a");
    for n in 0..1_000 {
        alice.send(&format!("<presence to='s{n}@localhost'/>"));
    }
    ping(&mut alice, "taken");
    alice.send("<presence to='one-more@localhost' id='p'/>");
    alice.expect("<resource-constraint ");
    // To whom it went before it may go again, and leave makes room.
    alice.send("<presence to='s1@localhost'/><presence to='s2@localhost' type='unavailable'/>");
    alice.send("<presence to='one-more@localhost'/>");
    ping(&mut alice, "room");
    assert!(
        !alice.seen.contains("resource-constraint"),
        "{}",
        alice.seen
    );
    running.node.drain(DEADLINE);
}

#[test]
fn a_login_that_trickles_is_ended_in_time() {
    let limits = Limits {
        login_timeout: Duration::from_millis(500),
        ..options(1, true).limits
    };
    let options = server::Options {
        limits,
        ..options(1, true)
    };
    let running = start_with(options, net::Limits::default(), &["alice"]);
    let mut silent = Client::connect(running.address);
    let mut slow = Client::connect(running.address);
    slow.open();
    // Something comes all the time, and never an end.
    slow.send("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>");
    slow.socket
        .set_read_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    let clock = SystemClock::new();
    let mut buffer = [0; 1024];
    while !slow.seen.contains("<connection-timeout ") {
        assert!(since(clock) < PATIENCE, "it was never ended");
        // Once the stream has ended it may not take any more.
        let _ = slow.socket.write_all(b"A");
        if let Ok(read) = slow.socket.read(&mut buffer) {
            assert!(read > 0, "closed without a word: {}", slow.seen);
            slow.seen
                .push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
    }
    silent.expect("<connection-timeout ");
    running.node.drain(DEADLINE);
}

#[test]
fn who_does_not_answer_a_ping_is_gone() {
    let limits = Limits {
        idle_ping: Duration::from_millis(100),
        ping_timeout: Duration::from_millis(400),
        ..options(1, true).limits
    };
    let options = server::Options {
        limits,
        ..options(1, true)
    };
    let running = start_with(options, net::Limits::default(), &["alice", "bob"]);
    let mut alice = Client::login(running.address, "alice", "a");
    let mut bob = Client::login(running.address, "bob", "b");
    bob.expect("<ping xmlns='urn:xmpp:ping'/>");
    // Alice answers each of hers for as long as bob stays.
    let short = Some(Duration::from_millis(10));
    bob.socket.set_read_timeout(short).unwrap();
    alice.socket.set_read_timeout(short).unwrap();
    while !bob.seen.contains("<connection-timeout ") {
        // Nothing may have come.
        let _ = bob.read_some();
        let _ = alice.read_some();
        while alice.seen.contains("<ping xmlns='urn:xmpp:ping'/>") {
            alice.expect("<ping xmlns='urn:xmpp:ping'/>");
            alice.send("<iq type='result' id='roost-ping' to='localhost'/>");
        }
    }
    alice.socket.set_read_timeout(Some(PATIENCE)).unwrap();
    ping(&mut alice, "alive");
    running.node.drain(DEADLINE);
}

/// Guessing at an account is slowed down, whether it exists or not.
#[test]
fn guesses_at_an_account_are_paced() {
    let running = start(1, true, &["alice"]);
    for user in ["alice", "nobody"] {
        let fail = || {
            let mut client = Client::connect(running.address);
            client.open();
            client.authenticate_with(user, "wrong");
            client.expect("<not-authorized/>");
        };
        for _ in 0..6 {
            fail();
        }
        let clock = SystemClock::new();
        fail();
        fail();
        assert!(
            since(clock) >= Duration::from_secs(2),
            "{user} is not paced"
        );
    }
    // The owner waits for a turn, and gets in.
    Client::login(running.address, "alice", "a");
    running.node.drain(DEADLINE);
}

/// More guesses than may wait are told to come back later.
#[test]
fn a_crowd_of_guesses_is_turned_away() {
    let running = start(1, true, &["alice"]);
    let mut clients: Vec<_> = (0..40).map(|_| Client::connect(running.address)).collect();
    for client in &mut clients {
        client.open();
    }
    for client in &mut clients[..7] {
        client.authenticate_with("alice", "wrong");
        client.expect("<not-authorized/>");
    }
    for client in &mut clients[7..] {
        client.authenticate_with("alice", "wrong");
    }
    // Sixteen wait: the last ones were answered long before their turn would come.
    let last = clients.last_mut().unwrap();
    last.expect("<temporary-auth-failure/>");
    running.node.drain(DEADLINE);
}

/// Guesses from one address at many accounts are slowed down; loopback is exempt by default.
#[test]
fn guesses_from_an_address_are_paced() {
    let network = net::Limits {
        exempt: Vec::new(),
        ..net::Limits::default()
    };
    let running = start_with(options(1, true), network, &["alice"]);
    let fail = |user: &str| {
        let mut client = Client::connect(running.address);
        client.open();
        client.authenticate_with(user, "wrong");
        client.expect("<not-authorized/>");
        client
    };
    for n in 0..5 {
        fail(&format!("user{n}"));
    }
    let mut client = fail("user5");
    let clock = SystemClock::new();
    client.authenticate_with("alice", "secret");
    client.expect("<success");
    assert!(
        since(clock) >= Duration::from_millis(1_500),
        "it is not paced"
    );
    running.node.drain(DEADLINE);
}

#[test]
fn who_never_reads_is_cut_off_alone() {
    let network = net::Limits {
        backlog_max: 256 * 1024,
        ..net::Limits::default()
    };
    let running = start_with(options(2, true), network, &["alice", "bob", "carol"]);
    let deaf = Client::login(running.address, "bob", "deaf");
    let mut bob = Client::login(running.address, "bob", "b");
    let mut alice = Client::login(running.address, "alice", "a");
    bob.send("<presence/>");
    bob.expect("<presence from='bob@localhost/b'");
    let body = "x".repeat(30_000);
    let mut sent = 0;
    // Beyond what the kernel's buffers take, it adds up in the server and ends at the bound: then
    // there is no such resource any more, and messages go where somebody is.
    loop {
        alice.send(&format!(
            "<message to='bob@localhost/deaf' type='chat' id='m{sent}'>\
             <body>{body}</body></message>"
        ));
        ping(&mut alice, &format!("p{sent}"));
        sent += 1;
        assert!(sent < 2_000, "it was never cut off");
        bob.socket.set_nonblocking(true).unwrap();
        let came = bob.socket.peek(&mut [0; 1]).is_ok();
        bob.socket.set_nonblocking(false).unwrap();
        if came {
            break;
        }
    }
    bob.expect("to='bob@localhost/deaf'");
    let mut carol = Client::login(running.address, "carol", "c");
    ping(&mut carol, "undisturbed");
    drop(deaf);
    running.node.drain(DEADLINE);
}

/// Commits that are slow fill the queue of what waits for them, then the mailbox of the user; what
/// finds no room there goes back to its sender. The room that is left is the owner's: he logs in
/// and gets his messages, each sender's in order.
#[test]
fn a_crowd_that_fills_a_mailbox_does_not_keep_its_owner_out() {
    const SESSIONS: usize = 40;
    const EACH: usize = 80;
    let limits = Limits {
        roster_items_max: 100,
        sessions_per_user: 20,
        offline_messages_max: 1_000_000,
        offline_bytes_max: 1 << 30,
        ..options(2, true).limits
    };
    let options = server::Options {
        limits,
        debug_commit_delay: Duration::from_secs(3),
        ..options(2, true)
    };
    // On two shards whatever the names hash to: one sender at least is far from bob.
    let running = start_with(options, net::Limits::default(), &["alice", "carol", "bob"]);
    let mut crowd: Vec<Client> = (0..SESSIONS)
        .map(|n| {
            let user = ["alice", "carol"][n % 2];
            Client::login(running.address, user, &format!("r{n}"))
        })
        .collect();
    let mut bob = Client::authenticate(running.address, "bob");
    // A window of each finds room behind commits and then in the mailbox, but for the last ones.
    for (n, client) in crowd.iter_mut().enumerate() {
        let burst: String = (0..EACH)
            .map(|m| {
                format!(
                    "<message to='bob@localhost' type='chat' id='m{m}'>\
                     <body>{n}.{m}</body></message>"
                )
            })
            .collect();
        client.send(&burst);
    }
    let short = Some(Duration::from_millis(20));
    for client in &crowd {
        client.socket.set_read_timeout(short).unwrap();
    }
    let clock = SystemClock::new();
    let is_refused = |client: &mut Client| {
        let _ = client.read_some();
        client.seen.contains("<resource-constraint ")
    };
    while !crowd.iter_mut().any(is_refused) {
        assert!(since(clock) < PATIENCE, "everything found room");
    }
    // Bind, and what follows it, have room of their own; and so has a login.
    bob.bind("b");
    let mut other = Client::connect(running.address);
    other.open();
    other.authenticate_with("bob", "secret");
    other.expect("<success");
    bob.expect("</bind></iq>");
    bob.send("<presence/>");
    let mut last = [None; SESSIONS];
    for _ in 0..50 {
        bob.expect("<body>");
        let body = bob.expect("</body>");
        let (session, number) = body.trim_end_matches("</body>").split_once('.').unwrap();
        let (session, number): (usize, usize) = (session.parse().unwrap(), number.parse().unwrap());
        assert!(
            last[session] < Some(number),
            "{session}: {number} behind {:?}",
            last[session]
        );
        last[session] = Some(number);
    }
    drop((crowd, other));
    running.node.drain(PATIENCE);
}

#[test]
fn an_account_that_crashes_again_and_again_is_left_alone() {
    let running = start(2, true, &["alice", "bob"]);
    let mut bob = Client::login(running.address, "bob", "b");
    for _ in 0..6 {
        let mut alice = Client::login(running.address, "alice", "a");
        alice.send(&format!("<message to='bob@localhost/b'>{PANIC}</message>"));
        alice.expect("<internal-server-error ");
    }
    let mut alice = Client::connect(running.address);
    alice.open();
    alice.authenticate_with("alice", "secret");
    alice.expect("<temporary-auth-failure/>");
    bob.send("<message to='alice@localhost' id='m'><body>are you well?</body></message>");
    bob.expect("<resource-constraint ");
    ping(&mut bob, "well");
    running.node.drain(DEADLINE);
}

/// What one client sends as fast as it can waits in its own socket, not in the server; all of it
/// arrives, comes back, or is counted as dropped.
#[test]
fn a_flood_waits_at_its_source() {
    const SENT: usize = 100_000;
    const RECIPIENTS: [&str; 4] = ["bob", "carol", "dave", "erin"];
    let network = net::Limits {
        // The recipients may be slower than the server.
        backlog_max: 1 << 30,
        ..net::Limits::default()
    };
    // On two shards some recipients are far from the sender.
    let users = ["alice", "bob", "carol", "dave", "erin"];
    let running = start_with(options(2, true), network, &users);
    let arrived = Arc::new(AtomicUsize::new(0));
    let counts_until_closed = |mut client: Client| {
        let arrived = Arc::clone(&arrived);
        std::thread::spawn(move || {
            while client.read_some().is_ok_and(|read| read > 0) {
                while client.seen.contains("</message>") {
                    client.expect("</message>");
                    arrived.fetch_add(1, Ordering::SeqCst);
                }
            }
        })
    };
    let mut readers: Vec<_> = RECIPIENTS
        .map(|user| counts_until_closed(Client::login(running.address, user, "r")))
        .into();
    let alice = Client::login(running.address, "alice", "a");
    let mut writer = alice.socket.try_clone().unwrap();
    // To her come the messages that found no room, as errors.
    readers.push(counts_until_closed(alice));
    let flood = std::thread::spawn(move || {
        for n in 0..SENT {
            let to = RECIPIENTS[n % RECIPIENTS.len()];
            let message =
                format!("<message to='{to}@localhost/r' type='chat'><body>{n}</body></message>");
            writer.write_all(message.as_bytes()).unwrap();
        }
    });
    let clock = SystemClock::new();
    let mut dropped = 0;
    while arrived.load(Ordering::SeqCst) + dropped < SENT {
        assert!(
            since(clock) < PATIENCE,
            "{arrived:?} of {SENT} arrived, {dropped} were dropped"
        );
        let Response::Sample { sample } = running.node.admin().call(Request::Sample) else {
            panic!("no sample");
        };
        // An error that its sender had no room for either is counted.
        let drops = sample.shards.iter();
        let drops = drops.filter_map(|shard| shard.counters.get("roost_actor_dropped_total"));
        dropped = drops.sum::<u64>() as usize;
        for shard in &sample.shards {
            let gauge = |name| shard.gauges.get(name).copied().unwrap_or_default();
            assert!(gauge("roost_actor_inbox") < 40_000, "{:?}", shard.gauges);
            assert!(gauge("roost_actor_queued") < 10_000, "{:?}", shard.gauges);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    flood.join().unwrap();
    running.node.drain(DEADLINE);
    for reader in readers {
        reader.join().unwrap();
    }
}

fn set_card(client: &mut Client, id: &str, bytes: usize) {
    let card = "x".repeat(bytes);
    client.send(&format!(
        "<iq type='set' id='{id}'><vCard xmlns='vcard-temp'><DESC>{card}</DESC></vCard></iq>"
    ));
    client.expect(&format!("id='{id}'"));
}

fn stored_bytes(running: &Running) -> u64 {
    running.node.admin().sample().domains[0].stored_bytes
}

/// Waits until the node has looked at what is stored.
fn wait_for_stored(running: &Running, is_there: impl Fn(u64) -> bool) {
    let clock = SystemClock::new();
    while !is_there(stored_bytes(running)) {
        assert!(since(clock) < PATIENCE, "{}", stored_bytes(running));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_full_domain_takes_nothing_from_who_has_most_and_goes_on_for_the_others() {
    let mut options = options(1, true);
    options.archive.enabled = true;
    options.limits.domain_bytes_max = 200_000;
    let users = ["greedy", "modest", "absent"];
    let running = start_with(options, net::Limits::default(), &users);
    let mut greedy = Client::login(running.address, "greedy", "g");
    let mut modest = Client::login(running.address, "modest", "m");
    modest.send("<presence/>");
    let body = "x".repeat(50_000);
    let mut sent = 0;
    while stored_bytes(&running) < 200_000 {
        greedy.send(&format!(
            "<message to='modest@localhost' type='chat' id='m{sent}'><body>{body}</body></message>"
        ));
        sent += 1;
        ping(&mut greedy, "sent");
        std::thread::sleep(Duration::from_millis(200));
        assert!(sent < 1_000, "the bound is not reached");
    }
    // He hears of it, whatever he wants to store, and is served otherwise.
    greedy.send("<message to='absent@localhost' type='chat' id='more'><body>x</body></message>");
    greedy.expect("id='more'");
    greedy.expect("<resource-constraint ");
    set_card(&mut greedy, "card", 1_000);
    greedy.expect("<resource-constraint ");
    roster_set(&mut greedy, "friend", "<item jid='friend@localhost'/>");
    greedy.expect("<resource-constraint ");
    greedy.send(
        "<iq type='set' id='block'><block xmlns='urn:xmpp:blocking'>\
         <item jid='x@example.org'/></block></iq>",
    );
    greedy.expect("id='block'");
    greedy.expect("<resource-constraint ");
    greedy.send(
        "<iq type='set' id='own'><query xmlns='jabber:iq:private'>\
         <e xmlns='urn:x'>x</e></query></iq>",
    );
    greedy.expect("id='own'");
    greedy.expect("<resource-constraint ");
    ping(&mut greedy, "served");
    // Who is below his share goes on: messages, and everything else.
    let mut absent = Client::login(running.address, "absent", "a");
    set_card(&mut absent, "mine", 1_000);
    let answer = ping(&mut absent, "done");
    assert!(!answer.contains("error"), "{answer}");
    absent.send("<message to='absent@localhost' type='chat' id='note'><body>x</body></message>");
    let answer = ping(&mut absent, "noted");
    assert!(!answer.contains("error"), "{answer}");

    let refused = || {
        let sample = running.node.admin().sample();
        let name = telemetry::Counter::StorageRefused.name();
        sample.shards[0].counters.get(name).copied()
    };
    let clock = SystemClock::new();
    // A shard publishes what it counted now and then.
    while refused() < Some(5) {
        assert!(since(clock) < PATIENCE, "{:?}", refused());
        std::thread::sleep(Duration::from_millis(20));
    }
    let Response::User { user } = running.node.admin().call(Request::UserInspect {
        jid: "greedy@localhost".into(),
    }) else {
        panic!("no answer");
    };
    assert!(user.stored_bytes > 50_000);
    // There is room again when something goes.
    drop(greedy);
    for jid in ["greedy@localhost", "modest@localhost"] {
        let removed = running
            .node
            .admin()
            .call(Request::UserDel { jid: jid.into() });
        assert_eq!(removed, Response::Ok);
    }
    wait_for_stored(&running, |bytes| bytes < 200_000);
    set_card(&mut absent, "again", 4_000);
    let answer = ping(&mut absent, "room");
    assert!(!answer.contains("error"), "{answer}");
    running.node.drain(DEADLINE);
}

#[test]
fn an_address_that_reaches_its_budget_is_named() {
    let mut options = options(1, true);
    options.limits.answer_bytes_per_address_max = 0;
    let network = net::Limits {
        exempt: Vec::new(),
        ..net::Limits::default()
    };
    let running = start_with(options, network, &["alice"]);
    let mut alice = Client::login(running.address, "alice", "a");
    alice.send("<iq type='get' id='never'><vCard xmlns='vcard-temp'/></iq>");
    let clock = SystemClock::new();
    loop {
        let sample = running.node.admin().sample();
        let shard = &sample.shards[0];
        let paused = "roost_questions_of_address_paused_total";
        if let Some(top) = shard.top_budgets.first() {
            assert_eq!(top.who, "127.0.0.1");
            assert!(shard.counters.get(paused).is_some_and(|times| *times > 0));
            break;
        }
        assert!(since(clock) < PATIENCE, "nobody is named");
        std::thread::sleep(Duration::from_millis(20));
    }
    // It waits, and what needs no store goes on.
    assert!(!ping(&mut alice, "on").contains("never"));
    drop(alice);
    running.node.drain(DEADLINE);
}

#[test]
fn who_reaches_budgets_is_named() {
    let mut options = options(1, true);
    options.limits.domain_bytes_max = 1;
    let running = start_with(options, net::Limits::default(), &["alice"]);
    wait_for_stored(&running, |bytes| bytes > 0);
    let mut alice = Client::login(running.address, "alice", "a");
    let clock = SystemClock::new();
    // The list is of the last second that ended.
    loop {
        set_card(&mut alice, "card", 10);
        let sample = running.node.admin().sample();
        if let Some(top) = sample.shards[0].top_budgets.first() {
            assert_eq!(top.who, "alice@localhost");
            assert!(top.value > 0);
            break;
        }
        assert!(since(clock) < PATIENCE, "nobody is named");
        std::thread::sleep(Duration::from_millis(20));
    }
    running.node.drain(DEADLINE);
}

/// More sets of private storage than may wait until it is known how much there is: each is
/// answered, those beyond the bound with an error, and the last one that was taken is there.
#[test]
fn so_many_sets_wait_until_it_is_known_what_there_is() {
    const CLIENTS: usize = 3;
    const EACH: usize = 60;
    const WAITING_MAX: usize = 128;
    let disk = new_disk();
    let limits = net::Limits::default();
    let running = start_on(store_on(&disk), options(1, true), limits, &["alice"]);
    let login = |n: usize| Client::login(running.address, "alice", &n.to_string());
    let mut clients: Vec<Client> = (0..CLIENTS).map(login).collect();
    disk.faults().set_read_delay(Duration::from_secs(4));
    for client in &mut clients {
        for n in 0..EACH {
            client.send(&format!(
                "<iq type='set' id='s{n}.'><query xmlns='jabber:iq:private'>\
                 <note xmlns='urn:example'>{n}</note></query></iq>"
            ));
        }
    }
    let mut refused = 0;
    for client in &mut clients {
        let is_answered = |seen: &str| (0..EACH).all(|n| seen.contains(&format!("id='s{n}.'")));
        while !is_answered(&client.seen) {
            assert!(client.read_some().expect("answers") > 0);
        }
        refused += ping(client, "last").matches("<resource-constraint").count();
    }
    let beyond = CLIENTS * EACH - WAITING_MAX;
    assert!((1..=beyond).contains(&refused), "{refused} are refused");
    disk.faults().set_read_delay(Duration::ZERO);
    clients[0].send(
        "<iq type='get' id='g'><query xmlns='jabber:iq:private'>\
         <note xmlns='urn:example'/></query></iq>",
    );
    let stored = clients[0].expect("</iq>");
    assert!(stored.contains("</note>"), "{stored}");
}
