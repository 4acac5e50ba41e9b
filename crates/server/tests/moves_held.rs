//! Ranges that move between the shards of a node at moments that a test chooses, under a clock that
//! moves when it says so (docs/decisions/0142).

mod common;

use std::time::Duration;

use actor::ShardId;
use common::held::{self, Peer, World, bodies};
use server::Options;
use telemetry::{Counter, Gauge};

const ROMEO: &str = "romeo@localhost";

/// What shards have counted is known that long after.
const REPORT: Duration = Duration::from_millis(100);

fn world(shards: u16, change: impl FnOnce(&mut Options)) -> World {
    // Nobody's input waits for its turn.
    let limits = net::Limits {
        window_max: 1_000,
        ..net::Limits::default()
    };
    World::with_network(limits, |options| {
        options.shards = shards;
        options.hand_over = true;
        change(options);
    })
}

/// With stream management.
fn managed(world: &mut World, user: &str) -> Peer {
    let mut peer = world.online(user);
    let resumable = "<enable xmlns='urn:xmpp:sm:3' resume='true'/>";
    peer.ask(world, resumable, "<enabled ");
    peer
}

fn home(world: &World) -> ShardId {
    world.sim().shard(ROMEO)
}

/// Time passes in steps that are short for whoever tries to move a range.
fn pass_in_steps(world: &mut World, time: Duration) {
    const STEP: Duration = Duration::from_millis(5);
    for _ in 0..time.as_millis() / STEP.as_millis() {
        world.pass(STEP);
    }
}

/// The range of Romeo's account is to go to the next shard, and is asked at once.
fn begin_move(world: &mut World) {
    assert!(world.sim().move_range(ROMEO));
    world.work();
}

fn count(world: &mut World, counter: Counter) -> u64 {
    world.pass(REPORT);
    world.sim().stats().counter(counter)
}

/// Goal: what a client says right before it closes its stream is handled, although its range is to
/// move before its account's actor comes to it.
#[test]
fn what_a_client_says_at_last_is_handled_before_its_range_moves() {
    let mut world = world(2, |_| {});
    let mut romeo = managed(&mut world, "romeo");
    world.pass(Duration::from_secs(10));
    romeo.read(&mut world);
    let before = home(&world);
    assert!(world.sim().move_range(ROMEO));
    // The actor's first run ends in front of the message, and the range is to go before the next.
    for _ in 0..RUN {
        romeo.send("<r xmlns='urn:xmpp:sm:3'/>");
    }
    romeo.say("juliet", 7);
    romeo.send("</stream:stream>");
    world.work();
    assert_eq!(home(&world), before, "there is mail");
    pass_in_steps(&mut world, Duration::from_millis(200));
    assert_ne!(home(&world), before);
    let mut juliet = world.login("juliet");
    let heard = juliet.ask(&mut world, "<presence/>", "<presence");
    assert_eq!(bodies(&heard), [7]);
    // It has ended, and did not only lose its link.
    assert_eq!(world.sim().stats().gauge(Gauge::ManagedSessions), 0);
}

/// For how long a busy range is tried, and may be paused behind that.
const PATIENCE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// A node whose ranges are tried and paused for so long, with Romeo and Juliet.
fn pausing() -> (World, Peer, Peer) {
    pausing_with(|_| {})
}

fn pausing_with(change: impl FnOnce(&mut Options)) -> (World, Peer, Peer) {
    let mut world = world(2, |options| {
        options.moves.patience = PATIENCE;
        options.moves.pause_max = PAUSE_MAX;
        change(options);
    });
    let romeo = managed(&mut world, "romeo");
    let juliet = world.online("juliet");
    world.pass(Duration::from_secs(10));
    (world, romeo, juliet)
}

/// Romeo has a message under way until his range is paused.
fn begin_pause(world: &mut World, romeo: &mut Peer) {
    world.hold();
    romeo.say("juliet", 1);
    world.work();
    begin_move(world);
    assert_eq!(count(world, Counter::RangesPaused), 0);
    pass_in_steps(world, PATIENCE);
    assert_eq!(count(world, Counter::RangesPaused), 1);
}

/// Goal: a range of which something is under way whenever it is looked at moves all the same. What
/// comes for it meanwhile is neither lost nor reordered, and no client notices.
#[test]
fn a_range_that_is_always_busy_moves() {
    let (mut world, mut romeo, mut juliet) = pausing();
    let before = home(&world);
    let mut said = 0;
    while home(&world) == before {
        assert!(said < 1_000, "it never moves");
        // Its mover looks while a commit of this is under way, but for those that wait.
        world.hold();
        romeo.say("juliet", said);
        romeo.say("romeo", said);
        juliet.say("romeo", 1_000 + said);
        world.work();
        if said == 0 {
            begin_move(&mut world);
        }
        world.pass(Duration::from_millis(5));
        world.let_go();
        said += 1;
    }
    pass_in_steps(&mut world, PATIENCE);
    assert_eq!(count(&mut world, Counter::RangesPaused), 1);
    assert_eq!(count(&mut world, Counter::RangesMoved), 1);
    let all: Vec<u32> = (0..said).collect();
    assert_eq!(bodies(&juliet.read(&mut world)), all);
    let heard = bodies(&romeo.read(&mut world));
    let (own, others): (Vec<u32>, Vec<u32>) = heard.iter().partition(|body| **body < 1_000);
    assert_eq!(own, all);
    assert_eq!(
        others.iter().map(|body| body - 1_000).collect::<Vec<_>>(),
        all
    );
    let answer = romeo.ask(&mut world, "<r xmlns='urn:xmpp:sm:3'/>", "<a ");
    assert!(answer.contains(&format!("h='{}'", 2 * said)), "{answer}");
}

/// A user of another range on Romeo's shard: name, address and client.
fn neighbour(world: &mut World) -> (String, String, Peer) {
    let (range, shard) = (world.sim().range(ROMEO), home(world));
    let found = (0..).find_map(|n| {
        let (name, sim) = (format!("friend{n}"), world.sim());
        let jid = format!("{name}@localhost");
        (sim.shard(&jid) == shard && sim.range(&jid) != range).then_some((name, jid))
    });
    let (name, jid) = found.expect("there are enough names");
    world.register(&name);
    let client = managed(world, &name);
    world.pass(Duration::from_secs(10));
    (name, jid, client)
}

/// Goal: what a range says that is paused later than another one does not overtake what it said
/// before, which waits.
#[test]
fn what_is_said_in_a_later_pause_overtakes_nothing() {
    let mut world = world(2, |options| {
        options.moves.patience = Duration::from_millis(100);
        options.moves.pause_max = Duration::from_secs(5);
    });
    let mut romeo = managed(&mut world, "romeo");
    let before = home(&world);
    let (_, jid, mut other) = neighbour(&mut world);
    world.hold();
    other.say("romeo", 1);
    world.work();
    romeo.say("romeo", 10);
    world.work();
    begin_move(&mut world);
    pass_in_steps(&mut world, Duration::from_millis(200));
    assert_eq!(count(&mut world, Counter::RangesPaused), 1);
    // The first one is handed over, while Romeo's own is not decided yet, and waits.
    assert!(world.let_one_go());
    other.say("romeo", 2);
    world.work();
    assert!(world.sim().move_range(&jid));
    pass_in_steps(&mut world, Duration::from_millis(200));
    assert_eq!(count(&mut world, Counter::RangesPaused), 2);
    assert_eq!(home(&world), before, "it is busy still");
    world.let_go();
    pass_in_steps(&mut world, Duration::from_secs(5));
    assert_ne!(home(&world), before);
    assert_ne!(world.sim().shard(&jid), before);
    assert_eq!(bodies(&romeo.read(&mut world)), [10, 1, 2]);
}

/// Goal: busy ranges are paused together, and what they have under way to each other does not wait
/// for the end of the other's pause.
#[test]
fn ranges_that_talk_to_each_other_move() {
    let (mut world, mut romeo, _) = pausing();
    let before = home(&world);
    let (friend, jid, mut other) = neighbour(&mut world);
    world.hold();
    romeo.say(&friend, 1);
    other.say("romeo", 2);
    world.work();
    begin_move(&mut world);
    // Its own patience is not over yet when the other's is.
    pass_in_steps(&mut world, PATIENCE / 2);
    assert!(world.sim().move_range(&jid));
    pass_in_steps(&mut world, PATIENCE / 2);
    assert_eq!(count(&mut world, Counter::RangesPaused), 2);
    romeo.say(&friend, 3);
    other.say("romeo", 4);
    world.work();
    world.let_go();
    // Less than either would wait for the end of the other's pause.
    pass_in_steps(&mut world, PAUSE_MAX * 3 / 4);
    assert_ne!(home(&world), before);
    assert_ne!(world.sim().shard(&jid), before);
    assert_eq!(bodies(&other.read(&mut world)), [1, 3]);
    assert_eq!(bodies(&romeo.read(&mut world)), [2, 4]);
}

/// Goal: no more ranges than may be are paused at a time; the next one is once there is room.
#[test]
fn ranges_are_paused_by_turns() {
    let mut world = world(2, |options| {
        options.moves.patience = Duration::from_millis(100);
        options.moves.pause_max = Duration::from_secs(5);
        options.moves.paused_max = 1;
    });
    let mut romeo = managed(&mut world, "romeo");
    let before = home(&world);
    let (_, jid, mut other) = neighbour(&mut world);
    world.hold();
    romeo.say("romeo", 1);
    other.say(&jid[..jid.len() - "@localhost".len()], 2);
    world.work();
    begin_move(&mut world);
    assert!(world.sim().move_range(&jid));
    pass_in_steps(&mut world, Duration::from_secs(1));
    assert_eq!(count(&mut world, Counter::RangesPaused), 1);
    world.let_go();
    pass_in_steps(&mut world, Duration::from_secs(1));
    assert_ne!(home(&world), before);
    assert_ne!(world.sim().shard(&jid), before);
    assert_eq!(bodies(&romeo.read(&mut world)), [1]);
    assert_eq!(bodies(&other.read(&mut world)), [2]);
}

/// Goal: a range that is still busy at the end of its pause stays, and goes on with what waited.
#[test]
fn a_pause_has_an_end() {
    let (mut world, mut romeo, mut juliet) = pausing();
    let before = home(&world);
    begin_pause(&mut world, &mut romeo);
    romeo.say("juliet", 2);
    juliet.say("romeo", 3);
    pass_in_steps(&mut world, 2 * PAUSE_MAX);
    assert_eq!(count(&mut world, Counter::RangesStayed), 1);
    world.let_go();
    pass_in_steps(&mut world, PATIENCE);
    assert_eq!(home(&world), before);
    assert_eq!(bodies(&juliet.read(&mut world)), [1, 2]);
    assert_eq!(bodies(&romeo.read(&mut world)), [3]);
}

/// Goal: what a client says before it closes its stream is handled, although its range is paused.
#[test]
fn what_a_client_says_at_last_is_handled_in_a_pause() {
    let (mut world, mut romeo, mut juliet) = pausing();
    let before = home(&world);
    begin_pause(&mut world, &mut romeo);
    romeo.say("juliet", 2);
    romeo.send("</stream:stream>");
    world.work();
    world.let_go();
    pass_in_steps(&mut world, PAUSE_MAX);
    assert_ne!(home(&world), before);
    assert_eq!(bodies(&juliet.read(&mut world)), [1, 2]);
    // It has ended, and did not only lose its link.
    assert_eq!(world.sim().stats().gauge(Gauge::ManagedSessions), 0);
}

/// Goal: a client whose answer waits for a pause is not taken for silent, also if the pause is
/// longer than it may take to answer; one that says nothing is, once the pause is over.
#[test]
fn who_answers_in_a_pause_is_not_silent() {
    const ANSWER: Duration = Duration::from_millis(900);
    for answers in [true, false] {
        let (mut world, mut romeo, mut juliet) = pausing_with(|options| {
            options.delivery.ack_timeout = ANSWER;
            options.moves.pause_max = 3 * ANSWER;
        });
        juliet.say("romeo", 5);
        romeo.expect(&mut world, "<r xmlns");
        begin_pause(&mut world, &mut romeo);
        if answers {
            romeo.send("<a xmlns='urn:xmpp:sm:3' h='1'/>");
        }
        pass_in_steps(&mut world, 2 * ANSWER);
        world.let_go();
        // Where it has moved, its client is asked once more.
        pass_in_steps(&mut world, 4 * ANSWER);
        assert_eq!(count(&mut world, Counter::RangesMoved), 1);
        if answers {
            juliet.say("romeo", 6);
            romeo.expect(&mut world, "<body>6</body>");
        } else {
            let heard = romeo.end(&mut world);
            assert!(heard.contains("connection-timeout"), "{heard}");
        }
    }
}

/// Messages that an actor handles in one run.
const RUN: u32 = actor::limits::ACTOR_BUDGET;

/// Goal: a range of which something is under way is tried for so long, and goes as soon as it can;
/// then it stays.
#[test]
fn a_busy_range_is_tried_for_a_while() {
    for is_in_time in [true, false] {
        let mut world = world(2, |options| {
            options.moves.patience = PATIENCE;
            options.moves.pause_max = Duration::ZERO;
        });
        let (mut romeo, mut juliet) = (managed(&mut world, "romeo"), world.online("juliet"));
        world.pass(Duration::from_secs(10));
        world.hold();
        romeo.say("juliet", 1);
        world.work();
        let before = home(&world);
        begin_move(&mut world);
        pass_in_steps(&mut world, PATIENCE / 2);
        assert_eq!(home(&world), before, "it is busy");
        if is_in_time {
            world.let_go();
        }
        pass_in_steps(&mut world, PATIENCE);
        assert_eq!(home(&world) != before, is_in_time);
        assert_eq!(
            count(&mut world, Counter::RangesMoved),
            u64::from(is_in_time)
        );
        assert_eq!(
            count(&mut world, Counter::RangesStayed),
            u64::from(!is_in_time)
        );
        world.let_go();
        pass_in_steps(&mut world, PATIENCE);
        assert_eq!(home(&world) != before, is_in_time, "nobody asked again");
        romeo.say("juliet", 2);
        assert_eq!(bodies(&juliet.read(&mut world)), [1, 2]);
    }
}

/// Goal: while a shard hangs that has to let go of a range, and only then, operators are warned.
#[test]
fn a_range_that_does_not_arrive_is_noticed() {
    let mut world = world(3, |_| {});
    let from = home(&world);
    let other = ShardId::new((from.index() + 2) % 3);
    world.sim_mut().stall(Some(other));
    begin_move(&mut world);
    let late = |world: &mut World, time| {
        world.pass(time);
        world.pass(REPORT);
        world.sim().stats().gauge(Gauge::RangesLate)
    };
    let second = Duration::from_secs(1);
    assert_eq!(late(&mut world, 9 * second), 0);
    assert_eq!(late(&mut world, second), 1);
    assert_eq!(late(&mut world, 60 * second), 1);
    world.sim_mut().stall(None);
    assert_eq!(late(&mut world, 10 * second), 0);
    assert_eq!(count(&mut world, Counter::RangesMoved), 1);
    assert_ne!(home(&world), from);
    // One that arrives at once is none.
    begin_move(&mut world);
    assert_eq!(late(&mut world, 60 * second), 0);
    assert_eq!(count(&mut world, Counter::RangesMoved), 2);
}

const NO_STORE: &str = "<no-store xmlns='urn:xmpp:hints'/>";

/// Goal: what a client says that is in no log is done once, although its range moves right behind
/// it, and although no record of what was handled was due.
#[test]
fn what_is_in_no_log_is_done_once() {
    let mut world = world(2, |_| {});
    let (mut romeo, mut juliet) = (managed(&mut world, "romeo"), world.online("juliet"));
    world.pass(Duration::from_secs(10));
    let say = |body: u32| {
        format!(
            "<message type='chat' to='juliet@localhost'><body>{body}</body>{NO_STORE}</message>"
        )
    };
    romeo.send(&say(1));
    assert_eq!(bodies(&juliet.read(&mut world)), [1]);
    let before = home(&world);
    begin_move(&mut world);
    pass_in_steps(&mut world, Duration::from_millis(200));
    assert_ne!(home(&world), before);
    romeo.send(&say(2));
    assert_eq!(bodies(&juliet.read(&mut world)), [2]);
}

/// Goal: what is kept for a client that is away, and is in no log, keeps the range where it is; the
/// client gets it when it comes back, and then the range may go.
#[test]
fn what_is_kept_for_who_is_away_does_not_move() {
    let mut world = world(2, |_| {});
    let (mut romeo, mut juliet) = (world.online("romeo"), world.online("juliet"));
    let resumable = "<enable xmlns='urn:xmpp:sm:3' resume='true'/>";
    let enabled = romeo.ask(&mut world, resumable, "<enabled ");
    let (_, token) = enabled.split_once("id='").expect("a token");
    let (token, _) = token.split_once('\'').expect("its end");
    world.pass(Duration::from_secs(10));
    drop(romeo);
    world.pass(Duration::from_secs(10));
    let before = home(&world);
    juliet.send(&format!(
        "<message type='chat' to='romeo@localhost'><body>1</body>{NO_STORE}</message>"
    ));
    world.work();
    begin_move(&mut world);
    pass_in_steps(&mut world, Duration::from_millis(200));
    assert_eq!(home(&world), before, "it would be lost");
    assert_eq!(count(&mut world, Counter::RangesStayed), 1);
    let mut romeo = world.connect();
    romeo.authenticate("romeo");
    romeo.expect(&mut world, "<success");
    romeo.ask(&mut world, held::OPEN, "</stream:features>");
    let resume = format!("<resume xmlns='urn:xmpp:sm:3' previd='{token}' h='0'/>");
    let seen = romeo.ask(&mut world, &resume, "<resumed ");
    assert_eq!(bodies(&seen), [1], "{seen}");
    romeo.send("<a xmlns='urn:xmpp:sm:3' h='1'/>");
    world.pass(Duration::from_secs(10));
    begin_move(&mut world);
    pass_in_steps(&mut world, Duration::from_millis(200));
    assert_ne!(home(&world), before);
}

/// Goal: what comes while a range is on its way, and is in no log, reaches a client whose stream
/// follows only then: an answer of somebody else, for example.
#[test]
fn what_comes_before_its_stream_reaches_who_has_moved() {
    let mut world = world(3, |_| {});
    let (mut romeo, mut juliet) = (managed(&mut world, "romeo"), world.online("juliet"));
    world.pass(Duration::from_secs(10));
    romeo.read(&mut world);
    let (from, hers) = (home(&world), world.sim().shard("juliet@localhost"));
    let other = (0..3)
        .map(ShardId::new)
        .find(|one| *one != from && *one != hers);
    let other = other.expect("a third one");
    world.sim_mut().stall(Some(other));
    assert!(world.sim().move_range(ROMEO));
    world.work();
    juliet.send(&format!(
        "<message type='chat' to='romeo@localhost'><body>1</body>{NO_STORE}</message>"
    ));
    juliet.say("romeo", 2);
    world.work();
    world.sim_mut().stall(None);
    pass_in_steps(&mut world, Duration::from_millis(200));
    assert_ne!(home(&world), from);
    let mut heard = bodies(&romeo.read(&mut world));
    heard.sort_unstable();
    assert_eq!(heard, [1, 2]);
}
