//! A crash of an account's actor on a node without others: it ends no stream of a session that can
//! be resumed, and nothing is lost or comes twice (docs/decisions/0136). A node in this process
//! under a clock and a journal that move when a test says so; crashes at any moment, among other
//! faults, are in `schedules.rs`.

mod common;

use std::time::Duration;

use common::world::{Peer, SM, World, bodies, message, stanzas};
use server::operator::AdminCommand;
use server::options::Options;
use telemetry::Counter;

const PANIC: &str = "CRASH-0123456789";

const ROMEO: &str = "romeo@localhost";
const JULIET: &str = "juliet@localhost";

const PING: &str = "<iq type='get' id='p' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>";

/// A request for copies.
fn carbons(id: &str) -> String {
    format!("<iq type='set' id='{id}'><enable xmlns='urn:xmpp:carbons:2'/></iq>")
}

fn world() -> World {
    world_with(|_| ())
}

fn world_with(change: impl FnOnce(&mut Options)) -> World {
    World::patient(|options| {
        options.debug_panic_hook = Some(PANIC.to_owned());
        options.delivery.resume_timeout = Duration::from_secs(600);
        change(options);
    })
}

/// With stream management, online, and every stanza recorded.
fn online(world: &mut World, user: &str) -> (Peer, String) {
    let (mut peer, token) = world.login_managed(user, "r");
    peer.ask(world, "<presence/>", "<presence");
    handled(&mut peer, world, 1);
    (peer, token)
}

/// The server says that so many stanzas are handled.
fn handled(peer: &mut Peer, world: &mut World, h: u32) -> String {
    let answer = format!("<a {SM} h='{h}'/>");
    let seen = peer.ask(world, &format!("<r {SM}/>"), &answer);
    assert!(!seen.contains("stream:error"), "{seen}");
    seen
}

/// Lets time pass, and gives what comes meanwhile.
fn meanwhile(peer: &mut Peer, world: &mut World, time: Duration) -> String {
    for _ in 0..20 {
        world.pass(time / 20);
        while peer.read() {}
    }
    std::mem::take(&mut peer.seen)
}

fn crash(world: &mut World, user: &str) {
    world.node().kill(user);
    world.work();
}

/// Goal: what both sides say around a crash arrives, once and in order, whatever of it was recorded
/// by then; counts go on; and a resumption afterwards knows exactly what the client has not got.
#[test]
fn a_crash_ends_no_stream_and_loses_nothing() {
    for crashes in [&[ROMEO][..], &[JULIET], &[ROMEO, JULIET], &[JULIET, ROMEO]] {
        for recorded in 0..4 {
            let mut world = world();
            let (mut romeo, _) = online(&mut world, "romeo");
            let (mut juliet, token) = online(&mut world, "juliet");
            world.hold();
            for n in 0..3 {
                romeo.send(&message("juliet@localhost/r", n));
                world.work();
            }
            for _ in 0..recorded {
                world.try_one();
            }
            for user in crashes {
                crash(&mut world, user);
            }
            romeo.send(&message("juliet@localhost/r", 3));
            world.work();
            world.let_go();
            let mut heard = handled(&mut romeo, &mut world, 5);
            heard += &juliet.expect(&mut world, "<body>3</body>");
            assert!(!heard.contains("stream:error"), "{heard}");
            assert_eq!(bodies(&heard), [0, 1, 2, 3], "{crashes:?} {recorded}");
            // She has acknowledged nothing but her presence.
            drop(juliet);
            let mut juliet = world.connect("juliet");
            juliet.resume(&token, 1);
            juliet.expect(&mut world, "<resumed");
            let heard = juliet.sync(&mut world);
            assert_eq!(bodies(&heard), [0, 1, 2, 3], "{crashes:?} {recorded}");
        }
    }
}

/// Goal: crashes may follow each other, also while the actor before is about to go on with the
/// stream, or is not loaded yet.
#[test]
fn crashes_in_a_row_end_no_stream() {
    for pause in 0..4 {
        let mut world = world();
        let (mut romeo, _) = online(&mut world, "romeo");
        let (mut juliet, _) = online(&mut world, "juliet");
        for n in 0..20 {
            if pause == 1 {
                world.hold();
            }
            world.node().set_late_reads(pause == 2);
            romeo.send(&message("juliet@localhost/r", n));
            crash(&mut world, ROMEO);
            if pause == 2 {
                world.node().stall_reads(true);
            }
            crash(&mut world, ROMEO);
            world.node().kill(ROMEO);
            crash(&mut world, JULIET);
            world.node().stall_reads(false);
            world.let_go();
            world.pass(Duration::from_millis(if pause == 3 { 5_000 } else { 150 }));
            let heard = juliet.expect(&mut world, &format!("<body>{n}</body>"));
            assert_eq!(bodies(&heard), [n], "{heard}");
        }
        handled(&mut romeo, &mut world, 21);
    }
}

/// Goal: each request is answered once: by the actor that took it, by the next one if no record
/// says that it was handled, or with an error if only the client can know whether to ask again.
#[test]
fn each_request_is_answered_once() {
    for is_recorded in [false, true] {
        for is_answered in [false, true] {
            let mut world = world();
            let (mut romeo, _) = online(&mut world, "romeo");
            let (mut juliet, _) = online(&mut world, "juliet");
            world.node().set_late_reads(!is_answered);
            world.node().stall_reads(!is_answered);
            romeo.send("<iq type='get' id='q'><vCard xmlns='vcard-temp'/></iq>");
            world.work();
            if is_recorded {
                romeo.send(&message("juliet@localhost/r", 1));
                world.work();
            }
            crash(&mut world, ROMEO);
            world.node().stall_reads(false);
            world.node().set_late_reads(false);
            let seen = handled(&mut romeo, &mut world, 2 + u32::from(is_recorded));
            let seen = seen + &romeo.sync(&mut world);
            assert_eq!(seen.matches("id='q'").count(), 1, "{seen}");
            let is_error = is_recorded && !is_answered;
            assert_eq!(seen.contains("<internal-server-error"), is_error, "{seen}");
            if is_recorded {
                let heard = juliet.expect(&mut world, "<body>1</body>");
                assert_eq!(bodies(&heard), [1]);
            }
        }
    }
}

/// Goal: a stanza at which the actor crashes each time is answered with an error in the end, and
/// counts as handled: it puts its sender neither aside nor out.
#[test]
fn a_stanza_that_crashes_the_actor_comes_back() {
    let mut world = world();
    let (mut romeo, _) = online(&mut world, "romeo");
    let (mut juliet, _) = online(&mut world, "juliet");
    romeo.send(&message("juliet@localhost/r", 1));
    romeo.send(&format!(
        "<message to='juliet@localhost/r' id='bad'><body>{PANIC}</body></message>"
    ));
    romeo.send(&message("juliet@localhost/r", 2));
    let seen = meanwhile(&mut romeo, &mut world, Duration::from_secs(2));
    let seen = seen + &handled(&mut romeo, &mut world, 4);
    assert_eq!(seen.matches("id='bad'").count(), 1, "{seen}");
    assert!(seen.contains("<internal-server-error"), "{seen}");
    let heard = juliet.expect(&mut world, "<body>2</body>");
    assert_eq!(bodies(&heard), [1, 2]);
}

/// Goal: an actor that does not come back is waited for, and not for ever.
#[test]
fn an_actor_is_waited_for_and_not_for_ever() {
    let unreadable = 1_000_000;
    for is_long in [false, true] {
        let mut world = world();
        let (mut romeo, token) = online(&mut world, "romeo");
        world.disk.faults().fail_reads(unreadable);
        crash(&mut world, ROMEO);
        let seen = meanwhile(&mut romeo, &mut world, Duration::from_secs(20));
        assert!(!seen.contains("stream:error"), "{seen}");
        if is_long {
            world.pass(Duration::from_secs(11));
            romeo.expect(&mut world, "<internal-server-error");
        }
        world.disk.faults().fail_reads(0);
        for _ in 0..20 {
            world.pass(Duration::from_secs(2));
        }
        if is_long {
            let mut romeo = world.connect("romeo");
            romeo.resume(&token, 1);
            romeo.expect(&mut world, "<resumed");
        } else {
            handled(&mut romeo, &mut world, 1);
        }
    }
}

/// Goal: what an actor was to do later, and what was left in its mailbox when it crashed while it
/// was read again, does not make the next one forget the account's sessions, although that cannot
/// read the account at first.
#[test]
fn a_timer_of_before_forgets_nothing() {
    let mut world = world();
    let (mut romeo, token) = online(&mut world, "romeo");
    let (mut juliet, _) = online(&mut world, "juliet");
    juliet.send(&message("romeo@localhost/r", 1));
    romeo.expect(&mut world, "<body>1</body>");
    // That is recorded a second later.
    romeo.send(&format!("<a {SM} h='2'/>"));
    world.work();
    world.node().set_late_reads(true);
    world.node().stall_reads(true);
    world.switches().set_full(true);
    romeo.send(&message("juliet@localhost/r", 2));
    world.work();
    world.pass(Duration::from_secs(2));
    world.disk.faults().fail_reads(1_000_000);
    crash(&mut world, ROMEO);
    world.node().stall_reads(false);
    world.pass(Duration::from_secs(10));
    world.switches().set_full(false);
    world.disk.faults().fail_reads(0);
    world.node().set_late_reads(false);
    drop(romeo);
    for _ in 0..20 {
        world.pass(Duration::from_secs(2));
    }
    let mut romeo = world.connect("romeo");
    romeo.resume(&token, 2);
    romeo.expect(&mut world, "<resumed");
}

/// Goal: of what a client says and no record has, so much is kept and no more; beyond, its stream
/// ends with the actor. A record is made for what is handled and has none.
#[test]
fn what_is_kept_for_a_crash_is_bounded() {
    for (kept_bytes_max, stays) in [(64 * 1024, true), (300, false)] {
        let mut world = world_with(|options| options.joined.kept_bytes_max = kept_bytes_max);
        let (mut romeo, _) = online(&mut world, "romeo");
        world.hold();
        for n in 0..8 {
            romeo.send(&message("juliet@localhost/r", n));
        }
        world.work();
        crash(&mut world, ROMEO);
        world.let_go();
        match stays {
            true => drop(handled(&mut romeo, &mut world, 9)),
            false => drop(romeo.expect(&mut world, "<internal-server-error")),
        }
    }
    let mut world = world();
    let (mut romeo, _) = online(&mut world, "romeo");
    let text = "x".repeat(1_000);
    for _ in 0..200 {
        romeo.send(&format!(
            "<iq type='result' id='x' to='localhost'><x xmlns='urn:x'>{text}</x></iq>"
        ));
        world.work();
    }
    romeo.ask(&mut world, PING, "id='p'");
    crash(&mut world, ROMEO);
    handled(&mut romeo, &mut world, 202);
}

/// Goal: a request that is on its way is not refused because it cannot be recorded that it was
/// handled: whoever made it would hear two answers, or make it again.
#[test]
fn what_is_done_is_not_refused() {
    let mut world = world();
    let (mut romeo, _) = online(&mut world, "romeo");
    let (mut juliet, _) = online(&mut world, "juliet");
    world.switches().set_full(true);
    // More than is handled without a record.
    let text = "x".repeat(20_000);
    romeo.send(&format!(
        "<iq type='get' id='q' to='juliet@localhost/r'><x xmlns='urn:x'>{text}</x></iq>"
    ));
    juliet.expect(&mut world, "id='q'");
    juliet.send("<iq type='result' id='q' to='romeo@localhost/r'/>");
    world.pass(Duration::from_secs(2));
    world.switches().set_full(false);
    world.pass(Duration::from_secs(2));
    let seen = handled(&mut romeo, &mut world, 2);
    let seen = seen + &romeo.sync(&mut world);
    assert_eq!(seen.matches("id='q'").count(), 1, "{seen}");
    assert!(seen.contains("type='result'"), "{seen}");
}

/// Goal: what cannot be resumed ends with its actor, and says why.
#[test]
fn what_cannot_be_resumed_ends_with_its_actor() {
    for enable in [None, Some(format!("<enable {SM}/>"))] {
        let mut world = world();
        let mut romeo = world.login("romeo", "r");
        if let Some(enable) = enable {
            romeo.ask(&mut world, &enable, "<enabled");
        }
        crash(&mut world, ROMEO);
        romeo.expect(&mut world, "<internal-server-error");
    }
}

/// Goal: a session that somebody else takes up while its stream waits is his: the stream ends.
#[test]
fn a_session_that_is_resumed_meanwhile_is_not_taken_over() {
    let step = Duration::from_secs(20);
    let mut world = world_with(|options| options.joined.home_wait_step = step);
    let (mut romeo, token) = online(&mut world, "romeo");
    let mut other = world.connect("romeo");
    world.disk.faults().fail_reads(1_000_000);
    crash(&mut world, ROMEO);
    meanwhile(&mut romeo, &mut world, step / 2);
    // It is told to ask again, and before it does the actor can be read.
    world.disk.faults().fail_reads(0);
    meanwhile(&mut romeo, &mut world, step / 2);
    other.resume(&token, 1);
    other.expect(&mut world, "<resumed");
    let (mut juliet, _) = online(&mut world, "juliet");
    for n in 0..3 {
        juliet.send(&message("romeo@localhost/r", n));
    }
    assert_eq!(
        bodies(&other.expect(&mut world, "<body>2</body>")),
        [0, 1, 2]
    );
    // What the one that waits knows of counts is of before: it is not believed after a crash.
    crash(&mut world, ROMEO);
    romeo.expect(&mut world, "<stream:error><conflict");
    juliet.send(&message("romeo@localhost/r", 3));
    assert_eq!(bodies(&other.expect(&mut world, "<body>3</body>")), [3]);
    other.sync(&mut world);
}

/// Goal: the same while the stream is about to go on: it ends, with what happened, and hears
/// nothing of a resumption that it has not asked for. So does one whose session is ended meanwhile.
#[test]
fn a_stream_that_is_about_to_go_on_makes_way() {
    for is_resumed in [true, false] {
        let mut world = world();
        let (mut romeo, token) = online(&mut world, "romeo");
        let mut other = world.connect("romeo");
        world.hold();
        crash(&mut world, ROMEO);
        world.work();
        // What it goes on with is being recorded.
        match is_resumed {
            true => other.resume(&token, 1),
            false => world.node().administer(ROMEO, AdminCommand::Kick),
        }
        world.work();
        world.let_go();
        let wanted = match is_resumed {
            true => "<stream:error><conflict",
            false => "<stream:error><policy-violation",
        };
        let seen = romeo.expect(&mut world, wanted);
        assert!(!seen.contains("<failed"), "{seen}");
        if is_resumed {
            other.expect(&mut world, "<resumed");
        }
    }
}

/// Goal: a client that goes while its stream waits leaves a session that can be resumed, exactly.
#[test]
fn a_client_that_goes_while_its_stream_waits_resumes() {
    let mut world = world();
    let (mut romeo, _) = online(&mut world, "romeo");
    let (juliet, token) = online(&mut world, "juliet");
    world.node().set_late_reads(true);
    world.node().stall_reads(true);
    crash(&mut world, JULIET);
    drop(juliet);
    world.work();
    romeo.send(&message("juliet@localhost/r", 1));
    world.work();
    world.node().stall_reads(false);
    world.node().set_late_reads(false);
    handled(&mut romeo, &mut world, 2);
    let mut juliet = world.connect("juliet");
    juliet.resume(&token, 1);
    juliet.expect(&mut world, "<resumed");
    assert_eq!(bodies(&juliet.sync(&mut world)), [1]);
}

/// Goal: what a client has acknowledged last, of which nobody has a record when the actor crashes,
/// comes no more in another session if its stream ends then: the connection hands it on, whether it
/// outlived the crash, and ended its session or lost its link.
#[test]
fn what_was_acknowledged_last_outlives_actor_and_connection() {
    for (ends, kept_bytes_max) in [(false, 65_536), (true, 65_536), (false, 300), (true, 300)] {
        let mut world = world_with(|options| options.joined.kept_bytes_max = kept_bytes_max);
        let (mut romeo, _) = online(&mut world, "romeo");
        let (mut juliet, _) = online(&mut world, "juliet");
        for n in 0..3 {
            romeo.send(&message(JULIET, n));
        }
        let seen = juliet.expect(&mut world, "<body>2</body>");
        // Nothing is recorded from here on, and the actor is not there again for a while.
        world.hold();
        world.node().set_late_reads(true);
        world.node().stall_reads(true);
        for n in 0..8 {
            juliet.send(&message(ROMEO, n));
        }
        juliet.send(&format!("<a {SM} h='{}'/>", 1 + stanzas(&seen)));
        world.work();
        crash(&mut world, JULIET);
        if ends {
            juliet.send("</stream:stream>");
            world.work();
        }
        drop(juliet);
        world.work();
        world.node().stall_reads(false);
        world.node().set_late_reads(false);
        world.let_go();
        world.work();
        let mut juliet = world.login("juliet", "other");
        let seen = juliet.ask(&mut world, "<presence/>", "<presence");
        let seen = seen + &juliet.sync(&mut world);
        assert_eq!(bodies(&seen), [0; 0], "{ends} {kept_bytes_max}: {seen}");
    }
}

/// Goal: a session of which nothing could be recorded when the next incarnation went on with it is
/// recovered once more, and its stream goes on, exactly: whichever of what is to be recorded then
/// is refused.
#[test]
fn an_adoption_that_is_not_recorded_begins_anew() {
    let mut refused = 0;
    for refused_at in 0..4 {
        let mut world = world();
        let (mut romeo, _) = online(&mut world, "romeo");
        let (mut juliet, token) = online(&mut world, "juliet");
        romeo.send(&message(JULIET, 0));
        let seen = juliet.expect(&mut world, "<body>0</body>");
        // Two more are accepted, and wait for the next incarnation behind the stream.
        world.node().set_late_reads(true);
        world.node().stall_reads(true);
        crash(&mut world, JULIET);
        for n in 1..3 {
            romeo.send(&message(JULIET, n));
        }
        handled(&mut romeo, &mut world, 4);
        world.hold();
        world.node().stall_reads(false);
        world.node().set_late_reads(false);
        world.work();
        for _ in 0..refused_at {
            world.try_one();
        }
        world.refuse_one();
        world.let_go();
        for _ in 0..40 {
            world.pass(Duration::from_millis(500));
        }
        refused += world.node().stats().counter(Counter::ChangesFailed);
        let seen = seen + &juliet.expect(&mut world, "<body>2</body>");
        assert!(!seen.contains("stream:error"), "{refused_at}: {seen}");
        assert_eq!(bodies(&seen), [0, 1, 2], "{refused_at}: {seen}");
        handled(&mut juliet, &mut world, 1);
        // The counts are those of its records.
        let h = 1 + stanzas(&seen);
        drop(juliet);
        world.work();
        romeo.send(&message(JULIET, 3));
        world.work();
        let mut juliet = world.connect("juliet");
        juliet.resume(&token, h);
        juliet.expect(&mut world, "<resumed");
        assert_eq!(bodies(&juliet.sync(&mut world)), [3], "{refused_at}");
    }
    assert!(refused > 1, "{refused} changes were refused");
}

/// Goal: a client whose resumption could not be recorded is told so even if the actor crashes
/// before it has said that, while the account is read again. It heard nothing until its login was
/// over.
#[test]
fn a_client_that_could_not_resume_hears_of_a_crash() {
    let mut world = world();
    let (lost, token) = online(&mut world, "juliet");
    drop(lost);
    let mut juliet = world.connect("juliet");
    world.hold();
    juliet.resume(&token, 0);
    world.work();
    world.node().set_late_reads(true);
    world.node().stall_reads(true);
    world.refuse_one();
    world.let_go();
    world.work();
    assert!(!juliet.read(), "{}", juliet.seen);
    crash(&mut world, JULIET);
    world.node().stall_reads(false);
    world.node().set_late_reads(false);
    juliet.expect(&mut world, "<internal-server-error");
    let mut juliet = world.connect("juliet");
    juliet.resume(&token, 0);
    juliet.expect(&mut world, "<resumed");
}

/// Goal: a client that wants once more what could not be recorded is not told that it has it before
/// that is recorded: a crash would forget it.
#[test]
fn what_could_not_be_recorded_is_recorded_before_it_is_confirmed() {
    for is_decided in [true, false] {
        let mut world = world();
        let (mut romeo, _) = online(&mut world, "romeo");
        let (mut juliet, _) = online(&mut world, "juliet");
        world.hold();
        juliet.send(&carbons("first"));
        world.work();
        if is_decided {
            world.refuse_one();
            let refusal = juliet.expect(&mut world, "</iq>");
            assert!(refusal.contains("<resource-constraint"), "{refusal}");
        }
        juliet.send(&carbons("again"));
        world.work();
        while juliet.read() {}
        assert!(!juliet.seen.contains("id='again'"), "{}", juliet.seen);
        world.let_go();
        juliet.expect(&mut world, "id='again'");
        crash(&mut world, JULIET);
        let mut other = world.login("juliet", "other");
        other.send(&message(ROMEO, 7));
        assert_eq!(bodies(&romeo.expect(&mut world, "<body>7</body>")), [7]);
        assert_eq!(bodies(&juliet.expect(&mut world, "<body>7</body>")), [7]);
    }
}

/// Goal: the same of a contact: what changes nothing, because an earlier request has and is not
/// decided, was answered as if that were done, although it was refused.
#[test]
fn a_contact_that_could_not_be_recorded_is_recorded_before_it_is_confirmed() {
    const GET: &str = "<iq type='get' id='get'><query xmlns='jabber:iq:roster'/></iq>";
    let change = |id: &str, is_removed: bool| {
        let removed = if is_removed {
            "subscription='remove'"
        } else {
            ""
        };
        format!(
            "<iq type='set' id='{id}'><query xmlns='jabber:iq:roster'>\
             <item jid='nurse@localhost' {removed}/></query></iq>"
        )
    };
    let mut world = world();
    let (mut juliet, _) = online(&mut world, "juliet");
    for is_removed in [false, true] {
        world.hold();
        let both = change("first", is_removed) + &change("again", is_removed);
        juliet.send(&both);
        world.work();
        world.refuse_one();
        world.let_go();
        world.work();
        for id in ["first", "again"] {
            let seen = juliet.expect(&mut world, &format!("id='{id}'"));
            let seen = seen + &juliet.expect(&mut world, "</iq>");
            let refusals = ["<resource-constraint", "<internal-server-error"];
            assert!(
                refusals.iter().any(|own| seen.contains(own)),
                "{id}: {seen}"
            );
        }
        let roster = juliet.ask(&mut world, GET, "id='get'");
        let roster = roster + &juliet.sync(&mut world);
        assert_eq!(roster.contains("nurse@"), is_removed, "{roster}");
        // With nothing undecided it is as before.
        for id in ["once", "twice"] {
            juliet.ask(&mut world, &change(id, is_removed), &format!("id='{id}'"));
        }
        juliet.sync(&mut world);
        let roster = juliet.ask(&mut world, GET, "id='get'");
        let roster = roster + &juliet.sync(&mut world);
        assert_eq!(roster.contains("nurse@"), !is_removed, "{roster}");
    }
}

/// Goal: the same of an approval: who asks once more, while it is not decided, was told of it
/// although it was refused.
#[test]
fn an_approval_that_could_not_be_recorded_is_not_confirmed() {
    let mut world = world();
    let (mut romeo, _) = online(&mut world, "romeo");
    let (mut juliet, _) = online(&mut world, "juliet");
    let ask = "<presence type='subscribe' to='juliet@localhost'/>";
    romeo.send(ask);
    juliet.expect(&mut world, "type='subscribe'");
    romeo.sync(&mut world);
    let approval = "<presence type='subscribed' to='romeo@localhost'/>";
    world.hold();
    juliet.send(approval);
    world.work();
    // It changes nothing, waits for no append and arrives while the approval is not decided.
    romeo.send(ask);
    world.work();
    world.refuse_one();
    world.let_go();
    let told = meanwhile(&mut romeo, &mut world, Duration::from_secs(60));
    assert!(!told.contains("type='subscribed'"), "{told}");
    // She is asked still.
    juliet.send(approval);
    romeo.expect(&mut world, "type='subscribed'");
}

/// Goal: presence that waited for an inactive client, and was to leave in front of a message, is
/// not lost with that, which is refused and comes later.
#[test]
fn what_an_inactive_client_was_spared_outlives_a_refusal() {
    let mut world = world();
    let (mut romeo, _) = online(&mut world, "romeo");
    let (mut juliet, _) = online(&mut world, "juliet");
    juliet.send("<inactive xmlns='urn:xmpp:csi:0'/>");
    juliet.sync(&mut world);
    world.register("nurse");
    let mut nurse = world.login("nurse", "r");
    world.hold();
    // What the second message brings with it waits behind the first one.
    romeo.send(&message(JULIET, 0));
    world.work();
    romeo.send(&message(JULIET, 1));
    world.work();
    world.let_one_go();
    nurse.send(&format!("<presence to='{JULIET}'/>"));
    nurse.sync(&mut world);
    world.let_one_go();
    let seen = meanwhile(&mut juliet, &mut world, Duration::from_secs(1));
    assert!(!seen.contains("from='nurse@localhost/r'"), "{seen}");
    world.refuse_one();
    world.let_go();
    let seen = meanwhile(&mut juliet, &mut world, Duration::from_secs(60));
    assert_eq!(bodies(&seen), [0, 1], "{seen}");
    let (before, _) = seen.split_once("<body>1<").expect("a message");
    assert!(before.contains("from='nurse@localhost/r'"), "{seen}");
}

/// Goal: however often somebody comes and goes, and sessions take the place of earlier ones that
/// were waited for, an account has few timers.
#[test]
fn who_comes_often_takes_few_timers() {
    let mut world = world_with(|options| options.actors.timers_max = 16);
    for _ in 0..20 {
        let mut juliet = world.login("juliet", "r");
        juliet.ask(&mut world, "<presence/>", "<presence");
        juliet.send("</stream:stream>");
        world.work();
    }
    for _ in 0..20 {
        drop(online(&mut world, "romeo"));
        world.work();
    }
    assert_eq!(world.node().stats().counter(Counter::ActorLimit), 0);
    // All of them take their course.
    world.pass(Duration::from_secs(3_600));
    let (mut romeo, _) = online(&mut world, "romeo");
    romeo.sync(&mut world);
}

/// Goal: what was sent before stanzas are counted, in one piece with the request for that, is not
/// taken for what comes behind it.
#[test]
fn what_is_said_in_one_breath_with_the_request_to_count_is_told_apart() {
    let mut world = world();
    let mut romeo = world.login("romeo", "r");
    let (mut juliet, _) = online(&mut world, "juliet");
    let early = "<iq type='get' id='early' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>";
    world.hold();
    romeo.send(&format!(
        "{early}<presence/><enable {SM} resume='true'/>{}",
        message("juliet@localhost/r", 1)
    ));
    world.work();
    world.let_go();
    romeo.expect(&mut world, "<enabled");
    romeo.send(&message("juliet@localhost/r", 2));
    crash(&mut world, ROMEO);
    let seen = handled(&mut romeo, &mut world, 2);
    assert!(!seen.contains("id='early'"), "{seen}");
    assert_eq!(bodies(&juliet.expect(&mut world, "<body>2</body>")), [1, 2]);
}
