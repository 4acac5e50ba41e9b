//! A third journal under the server (`common/logs.rs`): two of it in this process, each with a
//! store of its own, and ranges that go from one to the other while clients of both chat. What
//! they received is what counts.

#![allow(clippy::disallowed_methods)] // These wait for sockets, on the real clock.

mod common;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use common::logs::{LogJournal, Logs};
use common::two::{EDGE, HOME, One, Two, bodies, message};
use common::{Client, PATIENCE, store_on};
use server::Options;
use server::away::NodeId;
use stdx::rand::Rng;
use stdx::time::Timestamp;
use store::{
    Account, Append, Journal, Outcome, Plan, Position, RangeId, Record, Store, Switches, Tenure,
    TwinJournal, Writer,
};

/// The tenure in which the first node has everything at first.
const FIRST: u32 = 5;

/// A record of an account that says which append it was of.
fn put(user: &str, number: i64) -> Vec<Record> {
    let account = Account {
        created: Timestamp::from_millis(number),
        ..Account::default()
    };
    let user = user.to_owned();
    vec![Record::AccountPut { user, account }]
}

fn number(record: &Record) -> i64 {
    match record {
        Record::AccountPut { account, .. } => account.created.as_millis(),
        other => panic!("{other:?}"),
    }
}

/// A journal of the logs, and what a test does to it.
struct Mine {
    journal: Arc<LogJournal>,
    twin: Arc<TwinJournal>,
    switches: Arc<Switches>,
    store: Store,
}

impl Mine {
    fn new(logs: &Arc<Logs>, store: &Store) -> Mine {
        let journal = LogJournal::new(logs, store);
        let twin = TwinJournal::start(Arc::clone(&journal) as _, Plan::default()).unwrap();
        Mine {
            journal,
            switches: twin.switches(),
            twin: Arc::new(twin),
            store: store.clone(),
        }
    }

    fn append(&self, appends: Vec<Append>) -> Receiver<Vec<Outcome>> {
        let (tell, told) = mpsc::channel();
        let done = Box::new(move |outcomes| tell.send(outcomes).unwrap());
        self.twin.append(appends, done).unwrap();
        told
    }

    fn release(&self) {
        self.switches.set_hold(false);
        self.twin.release(usize::MAX);
    }
}

fn told(of: &Receiver<Vec<Outcome>>) -> Vec<Outcome> {
    of.recv_timeout(PATIENCE).unwrap()
}

/// Goal: a range goes from one journal to the other while somebody appends to it without a pause:
/// what was accepted is in the log once and in order, what was not is not there, and a writer that
/// was deposed with ten prepared appends gets none of them accepted. Whoever takes it has all of
/// it, from a snapshot or by replaying what follows its own position; both copies are equal.
#[test]
fn a_range_goes_from_journal_to_journal_under_load() {
    const USER: &str = "u@x";
    const MOVES: usize = 300;
    let logs = Logs::new(1);
    let disks = [common::new_disk(), common::new_disk()];
    let both = disks.each_ref().map(|disk| {
        let store = store_on(disk);
        Mine::new(&logs, &store)
    });
    let range = both[0].store.slot_key().slot(USER).range();
    let append = |tenure: Tenure, number: i64| Append {
        range,
        tenure,
        writer: Writer::NOBODY,
        records: put(USER, number),
    };
    let mut rng = Rng::with_seed(1);
    let (mut next, mut accepted, mut refused) = (0, Vec::new(), BTreeSet::new());
    let mut numbers = |count: usize| {
        let first = next + 1;
        next += count as i64;
        first..=next
    };
    both[0].journal.take_over(range);
    let mut saved = 0;
    for turn in 0..MOVES {
        let (from, to) = (&both[turn % 2], &both[(turn + 1) % 2]);
        let tenure = from.twin.take(range);
        for number in numbers(rng.usize(1..20)) {
            let outcomes = told(&from.append(vec![append(tenure, number)]));
            assert!(
                matches!(outcomes[..], [Outcome::Committed(_)]),
                "{outcomes:?}"
            );
            accepted.push(number);
        }
        from.switches.set_hold(true);
        let ten: Vec<i64> = numbers(10).collect();
        // Ten calls, as of ten users, or one.
        let calls: Vec<_> = match turn % 3 {
            0 => vec![from.append(ten.iter().map(|n| append(tenure, *n)).collect())],
            _ => ten
                .iter()
                .map(|n| from.append(vec![append(tenure, *n)]))
                .collect(),
        };
        if rng.u8(..4) == 0 {
            from.journal.snapshot(range);
            saved += 1;
            to.journal.catch_up(range);
        }
        to.journal.take_over(range);
        let theirs = to.twin.take(range);
        let first = numbers(1).last().unwrap();
        let one = told(&to.append(vec![append(theirs, first)]));
        accepted.push(first);
        let at = to.twin.position(range);
        assert_eq!(one, [Outcome::Committed(at)]);
        assert_eq!(at, Position::new(accepted.len() as u64));
        from.release();
        let outcomes: Vec<Outcome> = calls.iter().flat_map(told).collect();
        assert_eq!(outcomes, vec![Outcome::Fenced; 10]);
        refused.extend(ten);
        // It does not help to take it in that epoch once more.
        let again = from.twin.take(range);
        let again = told(&from.append(vec![append(again, numbers(1).last().unwrap())]));
        assert_eq!(again, [Outcome::Fenced]);
        from.journal.give_up(range);
        assert_eq!(from.twin.take(range), Tenure::NONE);
    }
    let there = logs.appends(range);
    let there: Vec<i64> = there
        .iter()
        .map(|(_, records)| number(&records[0]))
        .collect();
    assert!(accepted.ends_with(&there), "in order, and once");
    assert!(!there.iter().any(|number| refused.contains(number)));
    let marks = both.map(|one| {
        one.journal.catch_up(range);
        let state = one.store.load_user(USER).unwrap().unwrap();
        assert_eq!(Some(&state.account.created.as_millis()), accepted.last());
        one.store.range_mark(range).unwrap()
    });
    assert_eq!(marks[0], marks[1]);
    assert_eq!(marks[0].position, Position::new(accepted.len() as u64));
    let (loaded, replayed) = (&logs.loaded, &logs.replayed);
    assert!(saved > 20 && loaded.load(Ordering::SeqCst) > 20);
    assert!(replayed.load(Ordering::SeqCst) > MOVES as u64);
}

// ---- Two servers over it ------------------------------------------------------------------------

/// Two nodes, their journals and where each range is.
struct Nodes {
    two: Two,
    journals: [Mine; 2],
    logs: Arc<Logs>,
    homes: Mutex<Vec<usize>>,
}

impl Nodes {
    fn start(users: &[&str]) -> Nodes {
        Nodes::start_with(users, delivery::OutboxLimits::default().answer_timeout)
    }

    /// With senders' homes that try again what was not answered for so long.
    fn start_with(users: &[&str], answer_timeout: Duration) -> Nodes {
        let logs = Logs::new(FIRST);
        let mut journals = Vec::new();
        let change = |options: &mut Options| {
            options.joined.home_wait_step = Duration::from_millis(10);
            options.delivery.outbox.answer_timeout = answer_timeout;
        };
        let mut make = |store: &Store, _: &Options| -> Arc<dyn Journal> {
            let mine = Mine::new(&logs, store);
            if journals.is_empty() {
                for range in RangeId::all() {
                    assert_eq!(mine.journal.take_over(range), FIRST);
                }
            }
            let twin = Arc::clone(&mine.twin);
            journals.push(mine);
            twin
        };
        let network = || net::Limits::default();
        let two = Two::start_over(users, change, [network(), network()], &mut make);
        for one in [&two.home, &two.edge] {
            one.way.waits_for_homes();
        }
        Nodes {
            two,
            journals: journals.try_into().ok().unwrap(),
            logs,
            homes: Mutex::new(RangeId::all().map(|_| 0).collect()),
        }
    }

    fn node(&self, at: usize) -> (&One, &Mine, NodeId) {
        let one = [&self.two.home, &self.two.edge][at];
        (one, &self.journals[at], [HOME, EDGE][at])
    }

    /// Ranges go to the other node. With `deposed`, their home learns of it when it has lost them.
    fn hand_over(&self, ranges: &[RangeId], from: usize, deposed: bool) {
        let (before, theirs, _) = self.node(from);
        let (after, mine, name) = self.node(1 - from);
        if !deposed {
            before.door.lose(ranges);
            ranges
                .iter()
                .for_each(|range| theirs.journal.give_up(*range));
        }
        let epochs: Vec<u32> = ranges
            .iter()
            .map(|range| mine.journal.take_over(*range))
            .collect();
        if deposed {
            theirs.release();
            before.door.lose(ranges);
            ranges
                .iter()
                .for_each(|range| theirs.journal.give_up(*range));
        }
        for (range, epoch) in ranges.iter().zip(epochs) {
            after.door.gain(&[*range], epoch);
            before.door.set_away(*range, Some((name, epoch)));
            self.homes.lock().unwrap()[usize::from(range.index())] = 1 - from;
        }
    }

    /// A range leaves its home, and no node has it.
    fn lose(&self, range: RangeId) {
        let (one, mine, _) = self.node(self.home_of(range));
        one.door.lose(&[range]);
        mine.journal.give_up(range);
    }

    /// A node has a range that none had. The other one does not know.
    fn gain(&self, range: RangeId, at: usize) {
        let (one, mine, _) = self.node(at);
        one.door.gain(&[range], mine.journal.take_over(range));
        self.homes.lock().unwrap()[usize::from(range.index())] = at;
    }

    /// The other node knows now.
    fn announce(&self, range: RangeId) {
        let at = self.home_of(range);
        let (_, mine, name) = self.node(at);
        let epoch = mine.journal.epoch(range);
        let other = self.node(1 - at).0;
        other.door.set_away(range, Some((name, epoch)));
    }

    fn home_of(&self, range: RangeId) -> usize {
        self.homes.lock().unwrap()[usize::from(range.index())]
    }

    fn range(&self, address: &str) -> RangeId {
        self.two.home.door.range(address)
    }

    fn login(&self, at: usize, user: &str) -> Client {
        let address = self.node(at).0.node().addresses()[0];
        let mut client = Client::login(address, user, "a");
        client.send("<enable xmlns='urn:xmpp:sm:3' resume='true'/><presence/>");
        client.expect("<enabled ");
        client.expect("<presence ");
        client
    }

    /// Both nodes have the same of every range, once they have followed all of it.
    fn assert_equal(&self) {
        for range in RangeId::all() {
            let marks = self.journals.each_ref().map(|one| {
                one.journal.catch_up(range);
                one.store.range_mark(range).unwrap()
            });
            assert_eq!(marks[0], marks[1], "{range:?}");
        }
    }
}

/// What the clients of a run have in common.
#[derive(Default)]
struct Talk {
    is_over: AtomicBool,
    /// Clients that say no more, and what each has said to each of two others.
    silent: AtomicUsize,
    said: [AtomicUsize; USERS.len()],
}

const USERS: [&str; 8] = ["u0", "u1", "u2", "u3", "u4", "u5", "u6", "u7"];
const R: &str = "<r xmlns='urn:xmpp:sm:3'/>";

/// Whom somebody talks to.
fn contacts(of: usize) -> [usize; 2] {
    [(of + 1) % USERS.len(), (of + 3) % USERS.len()]
}

/// What a client has heard, and what it counts of that.
#[derive(Default)]
struct Heard {
    text: String,
    /// Up to here it is counted.
    at: usize,
    messages: usize,
    asked: usize,
    /// What the server has accepted.
    accepted: usize,
}

impl Heard {
    fn hear(&mut self, more: &str) {
        self.text.push_str(more);
        let end = self.text.rfind('>').map_or(0, |at| at + 1);
        let new = self.text.get(self.at..end).unwrap_or_default();
        self.messages += new.matches("</message>").count();
        self.asked += new.matches(R).count();
        if let Some((_, rest)) = new.rsplit_once("<a xmlns='urn:xmpp:sm:3' h='") {
            let count = rest.split_once('\'').unwrap().0;
            self.accepted = count.parse().unwrap();
        }
        self.at = self.at.max(end);
    }
}

/// Of a client: talks until all is over, and reads until it has heard all that was said to it and
/// all that it said is accepted. Returns what it has heard.
fn talk(mut client: Client, me: usize, talk: &Talk) -> String {
    let short = Some(Duration::from_millis(5));
    client.socket.set_read_timeout(short).unwrap();
    let mut heard = Heard::default();
    let (mut answered, mut over) = (0, None);
    for turn in 0.. {
        let said = talk.said[me].load(Ordering::SeqCst);
        // Its presence came before.
        let sent = 1 + 2 * said;
        let is_over = talk.is_over.load(Ordering::SeqCst);
        if !is_over && sent < heard.accepted + 8 {
            for to in contacts(me) {
                let to = format!("{}@localhost", USERS[to]);
                client.send(&message(&to, &format!("{me}.{said}")));
            }
            client.send(R);
            talk.said[me].store(said + 1, Ordering::SeqCst);
        } else if turn % 32 == 0 {
            client.send(R);
        }
        if is_over && over.is_none() {
            talk.silent.fetch_add(1, Ordering::SeqCst);
            over = Some(Instant::now());
        }
        match client.read_some() {
            Ok(0) => panic!("u{me}: closed; heard {}", heard.text),
            Ok(_) => heard.hear(&std::mem::take(&mut client.seen)),
            Err(why) if why.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(why) => panic!("u{me}: {why}"),
        }
        if heard.asked > answered {
            let count = heard.messages + 1;
            client.send(&format!("<a xmlns='urn:xmpp:sm:3' h='{count}'/>"));
            answered = heard.asked;
        }
        let is_quiet = talk.silent.load(Ordering::SeqCst) == USERS.len();
        let (missing, accepted) = (missing(me, &heard, talk), heard.accepted);
        if is_quiet && accepted == sent && missing == 0 {
            break;
        }
        assert!(
            over.is_none_or(|since| since.elapsed() < PATIENCE),
            "u{me}: {accepted} of {sent} accepted, {missing} missing; heard {}",
            heard.text,
        );
        thread::sleep(Duration::from_millis(2));
    }
    heard.text
}

/// How many messages somebody has not heard.
fn missing(me: usize, heard: &Heard, talk: &Talk) -> usize {
    let by = (0..USERS.len()).filter(|other| contacts(*other).contains(&me));
    let said: usize = by
        .map(|other| talk.said[other].load(Ordering::SeqCst))
        .sum();
    said.saturating_sub(heard.messages)
}

/// Goal: ranges go from node to node and back while clients of both chat, planned and by force,
/// with what waits for its commit refused there; some of them by way of a snapshot. No stream ends,
/// every message comes once and in order, everything is accepted, and the copies are equal.
#[test]
fn ranges_go_from_node_to_node_while_clients_chat() {
    const MOVES: usize = 120;
    let nodes = Nodes::start(&USERS);
    let run = Talk::default();
    let ranges = USERS.map(|user| nodes.two.home.door.range(&format!("{user}@localhost")));
    let heard = thread::scope(|scope| {
        let clients: Vec<_> = (0..USERS.len())
            .map(|me| {
                let client = nodes.login(me % 2, USERS[me]);
                let run = &run;
                scope.spawn(move || talk(client, me, run))
            })
            .collect();
        let mut rng = Rng::with_seed(7);
        for turn in 0..MOVES {
            let range = ranges[rng.usize(..ranges.len())];
            let from = nodes.homes.lock().unwrap()[usize::from(range.index())];
            let deposed = turn % 3 == 0;
            if deposed {
                nodes.journals[from].switches.set_hold(true);
            }
            thread::sleep(Duration::from_millis(rng.u64(5..40)));
            if turn % 3 == 1 {
                nodes.journals[from].journal.snapshot(range);
            }
            nodes.hand_over(&[range], from, deposed);
        }
        run.is_over.store(true, Ordering::SeqCst);
        let heard = clients.into_iter().map(|client| client.join().unwrap());
        heard.collect::<Vec<String>>()
    });
    for (me, heard) in heard.iter().enumerate() {
        assert!(!heard.contains("stream:"), "{heard}");
        assert!(!heard.contains("type='error'"), "{heard}");
        for by in (0..USERS.len()).filter(|by| contacts(*by).contains(&me)) {
            let prefix = format!("{by}.");
            let theirs = bodies(heard).into_iter();
            let theirs: Vec<&str> = theirs.filter(|body| body.starts_with(&prefix)).collect();
            let said = run.said[by].load(Ordering::SeqCst);
            let all: Vec<String> = (0..said).map(|n| format!("{by}.{n}")).collect();
            assert_eq!(theirs, all, "what u{me} heard of u{by}");
            assert!(said > MOVES / 2, "u{by} said {said}");
        }
    }
    nodes.assert_equal();
    let fenced: u64 = nodes.journals.iter().map(|one| one.journal.fenced()).sum();
    let loaded = nodes.logs.loaded.load(Ordering::SeqCst);
    assert!(
        fenced >= 20 && loaded >= 10,
        "{fenced} fenced, {loaded} loaded"
    );
}

/// Goal: a home is deposed with what ten of its users say prepared: none of it is accepted there,
/// and it is not in the logs; the next home does all of it, once, and no stream ends.
#[test]
fn what_a_deposed_home_had_prepared_is_done_by_the_next_one() {
    const TEN: usize = 10;
    let users: Vec<String> = (0..=TEN).map(|n| format!("u{n}")).collect();
    let names: Vec<&str> = users.iter().map(String::as_str).collect();
    let nodes = Nodes::start(&names);
    let mut clients: Vec<Client> = names.iter().map(|user| nodes.login(0, user)).collect();
    let mut reader = clients.pop().unwrap();
    for client in &mut clients {
        client.send(R);
        client.expect("<a xmlns='urn:xmpp:sm:3' h='1'/>");
    }
    let ranges: Vec<RangeId> = RangeId::all().collect();
    let counts = || {
        let all = ranges.iter().map(|range| nodes.logs.appends(*range).len());
        all.sum::<usize>()
    };
    // What a login leaves behind is committed.
    let mut before = counts();
    loop {
        thread::sleep(Duration::from_millis(300));
        match counts() {
            now if now == before => break,
            now => before = now,
        }
    }
    let home = &nodes.journals[0];
    home.switches.set_hold(true);
    for (n, client) in clients.iter_mut().enumerate() {
        client.send(&message(&format!("u{TEN}@localhost"), &format!("{n}.")));
        client.send(R);
    }
    thread::sleep(Duration::from_millis(300));
    assert_eq!(counts(), before, "nothing is committed");
    let fenced = home.journal.fenced();
    nodes.hand_over(&ranges, 0, true);
    for client in &mut clients {
        let answered = client.expect("<a xmlns='urn:xmpp:sm:3' h='2'/>");
        assert!(!answered.contains("stream:") && !answered.contains("error"));
    }
    assert!(home.journal.fenced() >= fenced + TEN as u64);
    let mut heard = String::new();
    while heard.matches("</body>").count() < TEN {
        heard += &reader.expect("</message>");
    }
    reader.send(R);
    heard += &reader.expect("<a ");
    let heard: BTreeSet<&str> = {
        assert_eq!(bodies(&heard).len(), TEN, "{heard}");
        bodies(&heard).into_iter().collect()
    };
    assert_eq!(heard.len(), TEN);
    for range in &ranges {
        let epochs: Vec<u32> = nodes
            .logs
            .appends(*range)
            .iter()
            .map(|(epoch, _)| *epoch)
            .collect();
        assert!(epochs.is_sorted(), "{epochs:?}");
        let theirs = epochs.iter().filter(|epoch| **epoch == FIRST).count();
        assert!(theirs <= before);
    }
    let of_first = ranges.iter().flat_map(|range| nodes.logs.appends(*range));
    assert_eq!(
        of_first.filter(|(epoch, _)| *epoch == FIRST).count(),
        before
    );
    nodes.assert_equal();
}

// ---- Copies that wait on their way -------------------------------------------------------------

const ALICE: &str = "alice@localhost";
const BOB: &str = "bob@localhost";
const ROOM: &str = "coven@conference.localhost";
const MUC: &str = "http://jabber.org/protocol/muc";

/// Shorter than any test waits.
const SOON: Duration = Duration::from_millis(300);
/// Longer than any test waits: nothing is tried again because there was no answer.
const NEVER: Duration = Duration::from_secs(3_600);

fn to_room(body: &str) -> String {
    format!("<message to='{ROOM}' type='groupchat'><body>{body}</body></message>")
}

/// Sends a request and waits for its result.
fn ask(client: &mut Client, id: &str, to: &str, query: &str) {
    client.send(&format!("<iq type='set' id='{id}'{to}>{query}</iq>"));
    let answer = client.expect(&format!("id='{id}'"));
    assert!(!answer.contains("type='error'"), "{answer}");
}

fn enter(client: &mut Client, nick: &str) {
    client.send(&format!(
        "<presence to='{ROOM}/{nick}'><x xmlns='{MUC}'/></presence>"
    ));
    client.expect("<subject");
}

/// Bob makes a persistent room, and Alice enters it.
fn enter_both(alice: &mut Client, bob: &mut Client) {
    enter(bob, "bob");
    let config = format!(
        "<query xmlns='{MUC}#owner'><x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>\
         <value>{MUC}#roomconfig</value></field><field var='muc#roomconfig_persistentroom'>\
         <value>1</value></field></x></query>"
    );
    ask(bob, "config", &format!(" to='{ROOM}'"), &config);
    enter(alice, "alice");
    bob.expect(&format!("from='{ROOM}/alice'"));
}

/// The copies that waited at the first node go on, if they do.
fn let_copies_go(nodes: &Nodes) {
    let way = &nodes.two.home.way;
    way.withhold(false);
    nodes.two.until("no copy waits", |two| {
        two.home.way.kept_packets.load(Ordering::Relaxed) == 0
    });
    // One that was sent on arrives.
    thread::sleep(SOON);
}

fn until_copies_wait(nodes: &Nodes, count: usize) {
    nodes.two.until("copies wait", |two| {
        two.home.way.kept_packets.load(Ordering::Relaxed) >= count
    });
}

/// Goal: a message that its recipient has refused for good is not delivered by a copy of an earlier
/// attempt, which had waited for a home: neither where its sender is at home still, nor where it
/// was.
#[test]
fn what_was_refused_is_not_delivered_by_an_earlier_copy() {
    for does_sender_move in [false, true] {
        let nodes = Nodes::start_with(&["alice", "bob"], SOON);
        let (ours, theirs) = (nodes.range(ALICE), nodes.range(BOB));
        assert_ne!(ours, theirs);
        let [mut alice, mut bob] = ["alice", "bob"].map(|user| nodes.login(0, user));
        let item = format!("<item jid='{ALICE}'/>");
        let block = format!("<block xmlns='urn:xmpp:blocking'>{item}</block>");
        ask(&mut bob, "block", "", &block);
        nodes.lose(theirs);
        nodes.two.home.way.withhold(true);
        alice.send(&message(BOB, "first"));
        until_copies_wait(&nodes, 1);
        if does_sender_move {
            nodes.hand_over(&[ours], 0, false);
        }
        nodes.gain(theirs, 1);
        nodes.announce(theirs);
        alice.expect("type='error'");
        let unblock = format!("<unblock xmlns='urn:xmpp:blocking'>{item}</unblock>");
        ask(&mut bob, "unblock", "", &unblock);
        if does_sender_move {
            nodes.hand_over(&[theirs], 1, false);
        }
        let_copies_go(&nodes);
        alice.send(&message(BOB, "second"));
        let heard = bob.expect("<body>second</body>");
        assert_eq!(bodies(&heard), ["second"], "{heard}");
    }
}

/// Goal: the same with a room, which had put its occupant out, and has let her in again.
#[test]
fn what_a_room_refused_is_not_in_it_by_an_earlier_copy() {
    let nodes = Nodes::start_with(&["alice", "bob"], SOON);
    let room = nodes.range(ROOM);
    assert!(![ALICE, BOB].map(|user| nodes.range(user)).contains(&room));
    let (mut alice, mut bob) = (nodes.login(0, "alice"), nodes.login(1, "bob"));
    enter_both(&mut alice, &mut bob);
    nodes.hand_over(&[nodes.range(BOB)], 0, false);
    nodes.lose(room);
    nodes.two.home.way.withhold(true);
    alice.send(&to_room("first"));
    until_copies_wait(&nodes, 1);
    nodes.gain(room, 1);
    let kick = format!("<query xmlns='{MUC}#admin'><item nick='alice' role='none'/></query>");
    ask(&mut bob, "kick", &format!(" to='{ROOM}'"), &kick);
    alice.expect("<status code='307'/>");
    nodes.announce(room);
    alice.expect("type='error'");
    enter(&mut alice, "alice");
    let_copies_go(&nodes);
    alice.send(&to_room("second"));
    let heard = bob.expect("<body>second</body>");
    assert_eq!(bodies(&heard), ["second"], "{heard}");
}

/// Goal: what has waited for a home goes on as soon as there is one, to an account and to a room,
/// once and in order: it does not wait until its sender's home tries it again.
#[test]
fn what_waited_for_a_home_goes_on_at_once() {
    // Without and with later attempts, of which the first one shows whether there is a home.
    for answer_timeout in [NEVER, SOON] {
        let nodes = Nodes::start_with(&["alice", "bob"], answer_timeout);
        let (mut alice, mut bob) = (nodes.login(0, "alice"), nodes.login(1, "bob"));
        enter_both(&mut alice, &mut bob);
        let ranges = [nodes.range(BOB), nodes.range(ROOM)];
        assert!(!ranges.contains(&nodes.range(ALICE)));
        for range in ranges {
            nodes.lose(range);
        }
        for n in 0..3 {
            alice.send(&message(BOB, &format!("bob {n}")));
            alice.send(&to_room(&format!("all {n}")));
        }
        until_copies_wait(&nodes, 6);
        thread::sleep(2 * SOON);
        for range in ranges {
            nodes.gain(range, 1);
            nodes.announce(range);
        }
        let mut heard = String::new();
        while bodies(&heard).len() < 6 {
            heard += &bob.expect("</message>");
        }
        for to in ["bob", "all"] {
            let mut own = bodies(&heard);
            own.retain(|body| body.starts_with(to));
            assert_eq!(own, [0, 1, 2].map(|n| format!("{to} {n}")), "{heard}");
        }
    }
}

/// Goal: what was left in a mailbox when its recipient's home went away comes to the next one soon,
/// also where that was not its sender's home.
#[test]
fn what_was_left_in_a_mailbox_is_sent_again_soon() {
    for at in [0, 1] {
        let nodes = Nodes::start_with(&["alice", "bob"], NEVER);
        let (ours, theirs) = (nodes.range(ALICE), nodes.range(BOB));
        if at == 1 {
            nodes.hand_over(&[ours], 0, false);
        }
        let mut alice = nodes.login(at, "alice");
        // He is not loaded any more, and will not be for long.
        nodes.hand_over(&[theirs], 0, false);
        nodes.hand_over(&[theirs], 1, false);
        let faults = nodes.two.home.disk.faults();
        faults.set_read_delay(2 * SOON);
        alice.send(&message(BOB, "left"));
        alice.send(R);
        alice.expect("<a xmlns='urn:xmpp:sm:3' h='2'/>");
        // It arrives.
        thread::sleep(SOON);
        nodes.lose(theirs);
        faults.set_read_delay(Duration::ZERO);
        nodes.gain(theirs, 1);
        nodes.announce(theirs);
        let mut bob = nodes.login(1, "bob");
        bob.expect("<body>left</body>");
    }
}
