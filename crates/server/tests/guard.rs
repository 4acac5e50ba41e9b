//! Who may not stay, and who may not take more than a share: logins under way, generations of
//! accounts, decoys, addresses, pending requests. From outside, over real sockets.

mod common;

use std::time::Duration;

use common::{Client, PATIENCE, new_disk, options, start, start_on, start_with, store_on};
use server::admin::{Request, Response};
use server::guard::List;
use server::options::Limits;
use testkit::scram::{Login, Scram};

const DEADLINE: Duration = Duration::from_secs(5);

/// Asks for a challenge of an account.
fn begin(client: &mut Client, user: &str) -> Scram {
    let login = Login {
        user: user.to_owned(),
        password: "secret".to_owned(),
        authzid: None,
    };
    let scram = Scram::new("SCRAM-SHA-1", &login, None).expect("a mechanism");
    let first = xmpp::sasl::encode_bytes(&scram.first());
    client.send(&format!(
        "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='SCRAM-SHA-1'>{first}</auth>"
    ));
    scram
}

/// The decoded challenge.
fn challenge(client: &mut Client) -> String {
    client.expect("<challenge xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>");
    let text = client.expect("</challenge>");
    xmpp::sasl::decode(text.trim_end_matches("</challenge>")).expect("a challenge")
}

fn finish(client: &mut Client, mut scram: Scram, challenge: &str) {
    let proof = scram.answer(challenge.as_bytes()).expect("a proof");
    let proof = xmpp::sasl::encode_bytes(&proof);
    client.send(&format!(
        "<response xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>{proof}</response>"
    ));
    client.expect("<success");
    client.open();
}

/// A challenge that was open when the account changed leads to no session, however right the
/// proof is.
#[test]
fn an_open_challenge_is_worth_nothing_after_the_account_changed() {
    let running = start(2, true, &["kicked", "locked", "keyed", "gone"]);
    let admin = running.node.admin();
    let jid = |user: &str| format!("{user}@localhost");
    let mut open: Vec<_> = ["kicked", "locked", "keyed", "gone"]
        .into_iter()
        .map(|user| {
            let mut client = Client::connect(running.address);
            client.open();
            let scram = begin(&mut client, user);
            let challenge = challenge(&mut client);
            (client, scram, challenge)
        })
        .collect();
    let password = || "another".to_owned();
    for request in [
        Request::UserKick { jid: jid("kicked") },
        Request::UserLock {
            jid: jid("locked"),
            locked: true,
        },
        Request::UserLock {
            jid: jid("locked"),
            locked: false,
        },
        Request::UserPasswd {
            jid: jid("keyed"),
            password: password(),
        },
        Request::UserDel { jid: jid("gone") },
        Request::UserAdd {
            jid: jid("gone"),
            password: password(),
        },
    ] {
        assert_eq!(admin.call(request), Response::Ok);
    }
    for (mut client, scram, challenge) in open.drain(..) {
        finish(&mut client, scram, &challenge);
        client.bind("late");
        client.expect("<stream:error>");
        assert!(!client.seen.contains("<jid>"), "{}", client.seen);
    }
    Client::login(running.address, "kicked", "again");
    running.node.drain(DEADLINE);
}

/// A lock changes nothing but itself: the password that was set a moment before stays.
#[test]
fn a_lock_keeps_the_password() {
    let running = start(1, true, &["alice"]);
    let admin = running.node.admin();
    let jid = || "alice@localhost".to_owned();
    let changed = |password: &str| Request::UserPasswd {
        jid: jid(),
        password: password.to_owned(),
    };
    let lock = |locked| Request::UserLock { jid: jid(), locked };
    for round in 0..20 {
        let before = admin.clone();
        let request = changed(&format!("before {round}"));
        let changing = std::thread::spawn(move || before.call(request));
        admin.call(lock(round % 2 == 0));
        changing.join().unwrap();
    }
    for request in [changed("secret"), lock(true), lock(false)] {
        assert_eq!(admin.call(request), Response::Ok);
    }
    Client::login(running.address, "alice", "a");
    running.node.drain(DEADLINE);
}

/// Guesses that are prepared before the first of them fails are counted all the same.
#[test]
fn challenges_opened_first_are_no_way_around_the_pace() {
    let network = net::Limits {
        exempt: Vec::new(),
        ..net::Limits::default()
    };
    let running = start_with(options(2, true), network, &["alice"]);
    for user in ["alice", "nobody"] {
        let mut clients: Vec<_> = (0..60).map(|_| Client::connect(running.address)).collect();
        for client in &mut clients {
            client.open();
            begin(client, user);
        }
        let (mut open, mut refused) = (0, 0);
        // Five are let in and two wait; the others, all of the same address, are told at once.
        for client in &mut clients {
            let short = Some(Duration::from_millis(200));
            client.socket.set_read_timeout(short).unwrap();
            let _ = client.read_some();
            open += usize::from(client.seen.contains("<challenge "));
            refused += usize::from(client.seen.contains("<temporary-auth-failure/>"));
        }
        assert!((5..=7).contains(&open), "{user}: {open} challenges");
        assert_eq!(open + refused, 60 - (7 - open), "{user}: {refused} refused");
    }
    running.node.drain(DEADLINE);
}

/// What a name that nobody has is answered with says nothing about the process or its settings.
#[test]
fn decoys_outlive_the_process() {
    let disk = new_disk();
    let mut seen = Vec::new();
    for iterations in [4_096, 8_192] {
        let mut options = options(1, true);
        options.scram_iterations = iterations;
        let store = store_on(&disk);
        let users: &[&str] = match iterations {
            4_096 => &["a", "b", "c", "d", "e", "f", "g", "h"],
            _ => &[],
        };
        let running = start_on(store, options, net::Limits::default(), users);
        let nobody = (0..40).map(|n| format!("nobody{n}"));
        let names = nobody.chain(["a".to_owned()]);
        let told: Vec<(String, String)> = names
            .map(|user| {
                let mut client = Client::connect(running.address);
                client.open();
                begin(&mut client, &user);
                let challenge = challenge(&mut client);
                let mut parts = challenge.split(',').skip(1).map(str::to_owned);
                let (salt, iterations) = (parts.next(), parts.next());
                (salt.expect("a salt"), iterations.expect("iterations"))
            })
            .collect();
        assert!(told.iter().all(|(salt, _)| salt.starts_with("s=")));
        seen.push(told);
        running.node.drain(DEADLINE);
    }
    let (before, after) = (&seen[0], &seen[1]);
    assert_eq!(before.last(), after.last(), "an account");
    let mut same = 0;
    for ((old_salt, old), (salt, iterations)) in before.iter().zip(after) {
        // A ninth looks like accounts with new passwords: these have new salts too.
        assert_eq!(old_salt == salt, old == iterations, "as accounts do");
        same += usize::from(old == iterations);
    }
    assert!(same > 25, "{same} of 41");
}

/// However many shards take connections: what an address may do is counted once.
#[test]
fn registrations_of_an_address_are_counted_for_the_node() {
    let mut options = options(4, true);
    options.registration_enabled = true;
    options.registrations_per_hour = 3;
    let running = start_with(options, net::Limits::default(), &[]);
    let made = (0..24).filter(|n| {
        let mut client = Client::connect(running.address);
        client.open();
        client.send(&format!(
            "<iq type='set' id='r'><query xmlns='jabber:iq:register'>\
             <username>new{n}</username><password>pw</password></query></iq>"
        ));
        client.expect(" id='r'");
        client.send("</stream:stream>");
        while client.read_some().is_ok_and(|read| read > 0) {}
        !client.seen.contains("<resource-constraint ")
    });
    assert_eq!(made.count(), 3);
    running.node.drain(DEADLINE);
}

/// A phone with a random resource whose link flaps does not lock itself out: the oldest session
/// that waits for its client gives way.
#[test]
fn sessions_that_wait_give_way_to_a_new_one() {
    let limits = Limits {
        sessions_per_user: 3,
        ..options(1, true).limits
    };
    let options = server::Options {
        limits,
        ..options(1, true)
    };
    let running = start_with(options, net::Limits::default(), &["alice"]);
    for n in 0..8 {
        let mut client = Client::login(running.address, "alice", &format!("flap{n}"));
        client.send("<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
        client.expect("<enabled ");
    }
    let mut held: Vec<_> = (0..3)
        .map(|n| Client::login(running.address, "alice", &format!("held{n}")))
        .collect();
    let mut more = Client::authenticate(running.address, "alice");
    more.bind("more");
    more.expect("<resource-constraint ");
    held[0].send("<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>");
    held[0].expect("<iq type='result' id='p'");
    running.node.drain(DEADLINE);
}

/// Requests of strangers take nothing from the roster, and have a bound of their own.
#[test]
fn requests_of_strangers_leave_the_roster_alone() {
    let limits = Limits {
        roster_items_max: 2,
        ..options(1, true).limits
    };
    let options = server::Options {
        limits,
        ..options(1, true)
    };
    let names: Vec<String> = (0..102).map(|n| format!("s{n}")).collect();
    let mut users: Vec<&str> = names.iter().map(String::as_str).collect();
    users.push("alice");
    let running = start_with(options, net::Limits::default(), &users);
    let mut refused = 0;
    for name in &names {
        let mut stranger = Client::login(running.address, name, "x");
        let why = "please".repeat(60);
        stranger.send(&format!(
            "<presence/><presence to='alice@localhost' type='subscribe'>\
             <status>{why}</status></presence>\
             <iq type='get' id='p' to='alice@localhost'><ping xmlns='urn:xmpp:ping'/></iq>",
        ));
        let seen = stranger.expect(" id='p'");
        refused += usize::from(seen.contains("<resource-constraint "));
    }
    assert_eq!(refused, 2, "a hundred wait");
    let mut alice = Client::login(running.address, "alice", "a");
    alice.send("<presence/><iq type='get' id='all'><ping xmlns='urn:xmpp:ping'/></iq>");
    let asked = alice.expect(" id='all'");
    let (requests, reasons) = ("type='subscribe'", "pleaseplease</status>");
    assert_eq!(asked.matches(requests).count(), 100);
    // What they say is kept up to a bound, the question itself always.
    let said = asked.matches(reasons).count();
    assert!(
        (20..40).contains(&said),
        "{said} of 400 bytes and more in 16 KiB"
    );
    let mut set = |id: &str, jid: &str, expected: &str| {
        alice.send(&format!(
            "<iq type='set' id='{id}'><query xmlns='jabber:iq:roster'>\
             <item jid='{jid}'/></query></iq>"
        ));
        alice.expect(&format!("<iq type='{expected}' id='{id}'"));
    };
    set("1", "one@localhost", "result");
    set("2", "two@localhost", "result");
    set("3", "three@localhost", "error");
    // With a full roster a request can be denied, but not granted.
    alice.send("<presence to='s0@localhost' type='subscribed' id='yes'/>");
    alice.expect(" id='yes'");
    alice.expect("<resource-constraint ");
    alice.expect("</presence>");
    alice.send("<presence to='s1@localhost' type='unsubscribed'/>");
    alice.send("<iq type='get' id='last'><ping xmlns='urn:xmpp:ping'/></iq>");
    let seen = alice.expect("id='last'");
    assert!(!seen.contains("<resource-constraint "), "{seen}");
    running.node.drain(DEADLINE);
}

/// Pipelined questions wait for their turn, and their credit with them; all are answered.
#[test]
fn questions_are_answered_a_few_at_a_time() {
    let mut options = options(2, true);
    options.archive.enabled = true;
    let running = start_with(options, net::Limits::default(), &["alice", "bob"]);
    let mut alice = Client::login(running.address, "alice", "a");
    let body = "x".repeat(10_000);
    for _ in 0..10 {
        alice.send(&format!(
            "<message to='bob@localhost' type='chat'><body>{body}</body></message>"
        ));
    }
    alice.send("<iq type='get' id='sent'><ping xmlns='urn:xmpp:ping'/></iq>");
    alice.expect("id='sent'");
    let query = "<query xmlns='urn:xmpp:mam:2'/>";
    let questions: String = (0..80)
        .map(|n| format!("<iq type='set' id='q{n}'>{query}</iq>"))
        .collect();
    alice.send(&questions);
    // Nothing is read for a while: the server must not read ahead for it either.
    std::thread::sleep(Duration::from_millis(300));
    let inspected = running.node.admin().call(Request::UserInspect {
        jid: "alice@localhost".to_owned(),
    });
    let Response::User { user } = inspected else {
        panic!("{inspected:?}");
    };
    let backlog = user.sessions[0].backlog_bytes.unwrap_or_default();
    assert!(
        backlog < 1024 * 1024,
        "{backlog} bytes wait for who does not read"
    );
    let mut answered = 0;
    while answered < 80 {
        alice.expect("<fin ");
        answered += 1;
    }
    running.node.drain(PATIENCE);
}

#[test]
fn a_ban_ends_what_it_covers() {
    let running = start(2, true, &["alice", "bob"]);
    let admin = running.node.admin();
    let ban = |what: &str, list| Request::BanPut {
        list,
        what: what.to_owned(),
        for_ms: None,
        reason: String::new(),
    };
    let put = |request| {
        let answer = admin.call(request);
        assert!(matches!(answer, Response::Bans { .. }), "{answer:?}");
    };
    let mut alice = Client::login(running.address, "alice", "a");
    let mut bob = Client::login(running.address, "bob", "b");
    let mut late = Client::authenticate(running.address, "alice");
    put(ban("alice@localhost", List::Ban));
    alice.expect("<policy-violation ");
    late.bind("late");
    late.expect("<stream:error>");
    let mut again = Client::connect(running.address);
    again.open();
    again.authenticate_with("alice", "secret");
    again.expect("<account-disabled/>");
    // An address: who is here ends with what it says next, and nobody else comes.
    put(ban("127.0.0.0/8", List::Ban));
    bob.send("<presence/>");
    bob.expect("<policy-violation ");
    let mut refused = Client::connect(running.address);
    assert!(
        refused.read_some().map_or(true, |read| read == 0),
        "nothing is said"
    );
    // Who is allowed is not banned.
    put(ban("127.0.0.1", List::Allow));
    Client::login(running.address, "bob", "b");
    let removed = admin.call(Request::BanRemove {
        list: List::Ban,
        what: "alice@localhost".to_owned(),
    });
    assert_eq!(removed, Response::Ok);
    Client::login(running.address, "alice", "a");
    running.node.drain(DEADLINE);
}

/// A password that is derived while the account is read again is answered afterwards: whether it
/// could be stored depends on whether the disk is good again.
#[test]
fn a_password_derived_during_a_reload_is_answered() {
    let disk = new_disk();
    let faults = disk.faults();
    let mut options = options(1, true);
    options.scram_iterations = 200_000;
    let store = store_on(&disk);
    let running = start_on(store, options, net::Limits::default(), &["alice"]);
    let mut alice = Client::login(running.address, "alice", "a");
    // The roster cannot be saved, and reading the account again takes longer than the derivation.
    faults.set_disk_full(true);
    faults.set_read_delay(Duration::from_secs(3));
    alice.send(
        "<iq type='set' id='change'><query xmlns='jabber:iq:register'>\
         <username>alice</username><password>another</password></query></iq>\
         <iq type='set' id='roster'><query xmlns='jabber:iq:roster'>\
         <item jid='bob@localhost'/></query></iq>",
    );
    alice.expect(" id='roster'");
    alice.expect("</iq>");
    faults.set_disk_full(false);
    faults.set_read_delay(Duration::ZERO);
    alice.expect(" id='change'");
    running.node.drain(DEADLINE);
}

/// Keys are derived for one change of an account's password at a time: a second one is refused,
/// however many a client sends ahead, and one behind the answer is taken.
#[test]
fn one_password_at_a_time() {
    let mut options = options(1, true);
    options.scram_iterations = 200_000;
    let running = start_on(
        store_on(&new_disk()),
        options,
        net::Limits::default(),
        &["alice"],
    );
    let mut alice = Client::login(running.address, "alice", "a");
    let change = |id: &str| {
        format!(
            "<iq type='set' id='{id}'><query xmlns='jabber:iq:register'>\
             <username>alice</username><password>{id}</password></query></iq>"
        )
    };
    alice.send(&(change("first") + &change("second")));
    let refused = alice.expect("</iq>");
    assert!(refused.contains("id='second'"), "{refused}");
    assert!(refused.contains("<resource-constraint"), "{refused}");
    let taken = alice.expect("id='first'");
    assert!(taken.contains("type='result'"), "{taken}");
    alice.send(&change("third"));
    let taken = alice.expect("id='third'");
    assert!(taken.contains("type='result'"), "{taken}");
    running.node.drain(DEADLINE);
}

/// A client that enabled stream management, and its id for a resumption.
fn managed(address: std::net::SocketAddr) -> (Client, String) {
    let mut client = Client::login(address, "victim", "phone");
    client.send("<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
    client.expect("<enabled ");
    let id = client.expect("/>");
    let id = id.split("id='").nth(1).and_then(|id| id.split('\'').next());
    let id = id.expect("an id").to_owned();
    client.send("<presence/>");
    client.expect("<presence ");
    (client, id)
}

/// However much strangers say that is in no log: a session that waits for its client is there when
/// that comes back. Who asked something hears that there was no room.
#[test]
fn strangers_end_no_session_that_waits_for_its_client() {
    let running = start(2, true, &["victim", "stranger"]);
    let said = [
        "<message type='headline' to='victim@localhost'><body>x</body></message>",
        "<message type='chat' to='victim@localhost'>\
         <composing xmlns='http://jabber.org/protocol/chatstates'/></message>",
        "<message type='error' to='victim@localhost/phone'/>",
        "<iq type='get' id='q' to='victim@localhost/phone'><q xmlns='urn:example'/></iq>",
    ];
    for stanza in said {
        let (client, id) = managed(running.address);
        drop(client);
        let mut stranger = Client::login(running.address, "stranger", "s");
        for _ in 0..700 {
            stranger.send(stanza);
        }
        stranger.send("<iq type='get' id='last'><ping xmlns='urn:xmpp:ping'/></iq>");
        stranger.expect("id='last'");
        if stanza.starts_with("<iq ") {
            stranger.send(stanza);
            stranger.expect("<resource-constraint ");
        }
        let mut back = Client::authenticate(running.address, "victim");
        back.send(&format!(
            "<resume xmlns='urn:xmpp:sm:3' h='0' previd='{id}'/>"
        ));
        back.expect("<resumed ");
        back.send("<iq type='get' id='mine'><ping xmlns='urn:xmpp:ping'/></iq>");
        back.expect("id='mine'");
        back.send("</stream:stream>");
        back.expect("</stream:stream>");
    }
    running.node.drain(DEADLINE);
}

/// Reads until `wanted` has come, and says how many bytes there were.
fn read_through(client: &mut Client, wanted: &str) -> usize {
    let mut all = 0;
    loop {
        let read = client.read_some().expect("more");
        assert!(read > 0, "closed after {all} bytes");
        all += read;
        if client.seen.contains(wanted) {
            client.seen.clear();
            return all;
        }
        let tail = client.seen.len().saturating_sub(wanted.len());
        client.seen.drain(..tail);
    }
}

/// Strangers who say more than a client reads do not cut it off: it is spared what is in no log.
#[test]
fn strangers_cut_off_no_client_that_reads_slowly() {
    let running = start(1, true, &["victim", "stranger"]);
    let text = "x".repeat(50_000);
    let said = [
        format!("<message type='headline' to='victim@localhost'><body>{text}</body></message>"),
        format!(
            "<message type='chat' to='victim@localhost'><body>{text}</body>\
             <no-store xmlns='urn:xmpp:hints'/></message>"
        ),
        format!("<presence to='victim@localhost'><status>{text}</status></presence>"),
        format!("<iq type='result' id='q' to='victim@localhost/phone'><q>{text}</q></iq>"),
    ];
    for stanza in &said {
        let mut victim = Client::login(running.address, "victim", "phone");
        victim.send("<presence/>");
        victim.expect("<presence ");
        let mut stranger = Client::login(running.address, "stranger", "s");
        for _ in 0..200 {
            stranger.send(stanza);
        }
        stranger.send("<iq type='get' id='last'><ping xmlns='urn:xmpp:ping'/></iq>");
        stranger.expect("id='last'");
        // What it did not read until now is less than it was sent, and it may go on.
        victim.send("<iq type='get' id='mine'><ping xmlns='urn:xmpp:ping'/></iq>");
        let read = read_through(&mut victim, "id='mine'");
        assert!(read < 200 * text.len() * 9 / 10, "{read} bytes");
        victim.send("</stream:stream>");
        victim.expect("</stream:stream>");
    }
    running.node.drain(DEADLINE);
}
