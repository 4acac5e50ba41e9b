//! The port under journals that lose answers, panic, refuse and stay in doubt.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actor::sim::Sim;
use actor::{Actor, Addr, Context, Mail, ShardId};
use stdx::time::Timestamp;
use store::{
    Account, Append, AppendBatch, AppendFailure, Busy, Done, Doubt, InlineJournal, Journal,
    JournalStats, Outcome, Plan, Position, RangeId, Record, Store, Switches, Tenure, TwinJournal,
};

use super::Port;
use crate::message::{AppendError, Ticket, UserMsg};
use crate::options::Commits;

/// What a journal does to the next calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    /// Panics before it takes anything.
    Panics,
    /// Panics after it was committed.
    PanicsLate,
    /// Lets go of the question, committed or not.
    Forgets { commits: bool },
    /// Gives one outcome too few.
    Miscounts,
    /// Has no room.
    Busy,
    /// Has these in doubt.
    Doubts(Vec<Doubt>),
}

struct Moody {
    inner: Arc<dyn Journal>,
    moods: Mutex<Vec<Mood>>,
    calls: AtomicUsize,
}

impl Journal for Moody {
    fn append(&self, appends: Vec<Append>, done: Done) -> Result<(), Busy> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let mood = self.moods.lock().expect("not poisoned").pop();
        match mood {
            None => self.inner.append(appends, done),
            Some(Mood::Panics) => panic!("injected"),
            Some(Mood::PanicsLate) => {
                drop(self.inner.append(appends, Box::new(|_| {})));
                panic!("injected");
            }
            Some(Mood::Forgets { commits }) => {
                if commits {
                    self.inner.append(appends, Box::new(|_| {}))
                } else {
                    Ok(())
                }
            }
            Some(Mood::Miscounts) => self.inner.append(
                appends,
                Box::new(move |mut outcomes| {
                    outcomes.pop();
                    done(outcomes);
                }),
            ),
            Some(Mood::Busy) => Err(Busy { appends, done }),
            Some(Mood::Doubts(doubts)) => {
                done(doubts.into_iter().map(Outcome::InDoubt).collect());
                Ok(())
            }
        }
    }

    fn append_batch(&self, batch: AppendBatch, done: Done) -> Result<(), Busy> {
        if !self.moods.lock().expect("not poisoned").is_empty() {
            return self.append(batch.close(), done);
        }
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.inner.append_batch(batch, done)
    }

    fn take(&self, range: RangeId) -> Tenure {
        self.inner.take(range)
    }

    fn group(&self, range: RangeId) -> u16 {
        self.inner.group(range)
    }

    fn position(&self, range: RangeId) -> Position {
        self.inner.position(range)
    }

    fn stats(&self) -> JournalStats {
        self.inner.stats()
    }
}

pub(super) type Told = Arc<Mutex<Vec<(u32, Result<(), AppendError>)>>>;

/// Appends a record for each `Wake` it gets, and asks when all is settled at `Aged`. After `Idle`
/// it has one more message in front of the next bad word, at which it appends.
struct Writer {
    is_ahead: bool,
    user: &'static str,
    port: Port,
    range: RangeId,
    tenure: Tenure,
    next: u32,
    told: Told,
}

impl Actor for Writer {
    type Msg = UserMsg;

    fn started(&mut self, _cx: &mut Context<'_, UserMsg>) {
        self.tenure = self.port.tenure(self.range);
    }

    fn handle(&mut self, msg: UserMsg, cx: &mut Context<'_, UserMsg>) {
        match msg {
            UserMsg::Wake => self.append(cx),
            UserMsg::Idle => self.is_ahead = true,
            UserMsg::AskAgain => {
                self.append(cx);
                self.append(cx);
            }
            UserMsg::Aged => {
                self.next += 1;
                let ticket = Ticket(self.next);
                self.port.await_settled(cx, self.range, ticket);
            }
            UserMsg::Decided { ticket, result } => {
                if result.is_err() {
                    if std::mem::take(&mut self.is_ahead) {
                        self.append(cx);
                    }
                    self.port.heard(cx.myself());
                }
                self.tell(ticket.0, result);
            }
            _ => {}
        }
    }

    fn stopped(&mut self, _reason: &actor::Reason, cx: &mut Context<'_, UserMsg>) {
        self.port.forget(cx.myself());
    }
}

impl Writer {
    fn append(&mut self, cx: &mut Context<'_, UserMsg>) {
        self.next += 1;
        let records = vec![account(self.user, self.next)];
        let (range, tenure, ticket) = (self.range, self.tenure, Ticket(self.next));
        if let Err(error) = self.port.append(cx, range, tenure, records, ticket) {
            self.tell(self.next, Err(error));
        }
    }

    fn tell(&mut self, ticket: u32, result: Result<(), AppendError>) {
        if result.is_err() {
            // It reads its state again.
            self.tenure = self.port.tenure(self.range);
        }
        self.told.lock().expect("told").push((ticket, result));
    }
}

/// A record that says which append it was of.
fn account(user: &str, number: u32) -> Record {
    Record::AccountPut {
        user: user.to_owned(),
        account: Account {
            created: Timestamp::from_millis(i64::from(number)),
            locked: false,
            scram: Vec::new(),
        },
    }
}

fn account_bytes() -> usize {
    let append = Append {
        range: RangeId::from_index(0).expect("a range"),
        tenure: Tenure::NONE,
        writer: store::Writer::NOBODY,
        records: vec![account(USERS[0], 1)],
    };
    append.bytes()
}

pub(super) struct World {
    pub(super) sim: Sim,
    store: Store,
    journal: Arc<Moody>,
    pub(super) switches: Arc<Switches>,
    pub(super) twin: Arc<TwinJournal>,
    pub(super) port: Port,
}

impl World {
    pub(super) fn new(commits: Commits) -> World {
        let mut sim = Sim::new(1, 1);
        let store = Store::in_memory();
        let inline = Arc::new(InlineJournal::new(&store).expect("a journal"));
        let twin = Arc::new(TwinJournal::inline(inline, Plan::default()));
        let journal = Arc::new(Moody {
            inner: twin.clone(),
            moods: Mutex::default(),
            calls: AtomicUsize::new(0),
        });
        let port = Port::start(journal.clone(), commits, sim.shard(ShardId::new(0)));
        sim.run_until_idle();
        World {
            sim,
            store,
            switches: twin.switches(),
            twin,
            journal,
            port,
        }
    }

    fn range(&self, user: &str) -> RangeId {
        self.store.slot_key().slot(user).range()
    }

    /// An actor that has loaded this user.
    pub(super) fn writer(&mut self, user: &'static str) -> (Addr<UserMsg>, Told) {
        let told = Told::default();
        let writer = Writer {
            is_ahead: false,
            user,
            port: self.port.clone(),
            range: self.range(user),
            tenure: Tenure::NONE,
            next: 0,
            told: told.clone(),
        };
        let addr = self.sim.shard(ShardId::new(0)).spawn(writer);
        self.sim.run_until_idle();
        (addr, told)
    }

    pub(super) fn send(&mut self, to: Addr<UserMsg>, msg: UserMsg) {
        let sent = self.sim.shard(ShardId::new(0)).send(to, msg);
        assert!(sent.is_ok());
    }

    /// Appends so often and lets everything happen that can at this time.
    pub(super) fn append(&mut self, to: Addr<UserMsg>, count: usize) {
        for _ in 0..count {
            self.send(to, UserMsg::Wake);
        }
        self.sim.run_until_idle();
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.sim.advance(time);
        self.sim.run_until_idle();
    }

    /// The number of the last append of a user that is there.
    pub(super) fn last(&self, user: &str) -> i64 {
        let state = self.store.load_user(user).expect("readable");
        state.map_or(0, |state| state.account.created.as_millis())
    }
}

pub(super) fn told(told: &Told) -> Vec<(u32, Result<(), AppendError>)> {
    std::mem::take(&mut *told.lock().expect("told"))
}

fn tiny(appends: usize, bytes: usize) -> Commits {
    Commits {
        backlog_appends_max: appends,
        backlog_bytes_max: bytes,
        ..Commits::default()
    }
}

pub(super) const OK: Result<(), AppendError> = Ok(());

/// Three users, the first two of the same range.
pub(super) const USERS: [&str; 3] = ["u1@x", "u192@x", "u2@x"];

#[test]
fn the_users_are_where_they_should_be() {
    let world = World::new(Commits::default());
    let ranges = USERS.map(|user| world.range(user));
    assert!(
        ranges[0] == ranges[1] && ranges[0] != ranges[2],
        "{ranges:?}"
    );
}

/// Whatever happens to the answer: everybody is told once, in order, and what comes later goes on.
#[test]
fn a_lost_answer_is_told_once_all_is_decided() {
    for (mood, is_there) in [
        (Mood::Panics, false),
        (Mood::PanicsLate, true),
        (Mood::Forgets { commits: false }, false),
        (Mood::Forgets { commits: true }, true),
        (Mood::Miscounts, true),
    ] {
        let mut world = World::new(Commits::default());
        let (writer, heard) = world.writer(USERS[0]);
        world.append(writer, 1);
        assert_eq!(told(&heard), [(1, OK)]);
        *world.journal.moods.lock().expect("moods") = vec![mood.clone()];
        world.append(writer, 2);
        world.pass(Duration::from_secs(1));
        let failed = Err(AppendError::Failed);
        assert_eq!(told(&heard), [(2, failed), (3, failed)], "{mood:?}");
        assert_eq!(
            world.last(USERS[0]),
            if is_there { 3 } else { 1 },
            "{mood:?}"
        );
        assert!(world.port.is_settled(world.range(USERS[0])));
        world.append(writer, 1);
        assert_eq!(told(&heard), [(4, OK)], "{mood:?}");
    }
}

/// A journal that cannot be written to meanwhile is asked until it says something certain.
#[test]
fn a_lost_answer_waits_for_a_journal_that_answers() {
    let mut world = World::new(Commits::default());
    let (writer, heard) = world.writer(USERS[0]);
    let forgets = Mood::Forgets { commits: true };
    *world.journal.moods.lock().expect("moods") =
        vec![Mood::Busy, forgets.clone(), Mood::Busy, forgets];
    world.append(writer, 1);
    world.switches.set_full(true);
    world.pass(Duration::from_secs(10));
    assert_eq!(told(&heard), []);
    world.switches.set_full(false);
    world.pass(Duration::from_secs(1));
    assert_eq!(told(&heard), [(1, Err(AppendError::Failed))]);
}

/// Those that the queue took are not refused because the journal has no room for them.
#[test]
fn a_batch_for_which_the_journal_has_no_room_waits() {
    let mut world = World::new(tiny(2, usize::MAX));
    let (writer, heard) = world.writer(USERS[0]);
    let (other, other_heard) = world.writer(USERS[2]);
    *world.journal.moods.lock().expect("moods") = vec![Mood::Busy; 3];
    world.append(writer, 2);
    assert_eq!(told(&heard), []);
    world.append(other, 1);
    assert_eq!(
        told(&other_heard),
        [(1, Err(AppendError::Busy))],
        "whose it is"
    );
    world.pass(Duration::from_secs(1));
    assert_eq!(told(&heard), [(1, OK), (2, OK)]);
    assert_eq!(world.journal.calls.load(Ordering::SeqCst), 4);
}

#[test]
fn the_queue_is_bounded_by_appends_and_bytes_and_refuses_who_comes_then() {
    let bytes = 3 * account_bytes();
    for (commits, room) in [
        (tiny(1, usize::MAX), 1),
        (tiny(2, usize::MAX), 2),
        (tiny(4, usize::MAX), 4),
        (tiny(usize::MAX, 1), 1),
        (tiny(usize::MAX, bytes), 3),
    ] {
        let mut world = World::new(commits);
        let (writer, heard) = world.writer(USERS[0]);
        let (other, other_heard) = world.writer(USERS[2]);
        world.switches.set_hold(true);
        // One is under way, and so many wait behind it.
        world.append(writer, 1);
        world.append(writer, room);
        assert_eq!(told(&heard), []);
        world.append(other, 2);
        let busy = Err(AppendError::Busy);
        assert_eq!(told(&other_heard), [(1, busy), (2, busy)]);
        // Who asks when all is settled is not refused, and hears it behind the others.
        world.send(other, UserMsg::Aged);
        world.sim.run_until_idle();
        world.switches.set_hold(false);
        world.twin.release(usize::MAX);
        world.sim.run_until_idle();
        let all: Vec<_> = (1..=1 + room as u32).map(|n| (n, OK)).collect();
        assert_eq!(told(&heard), all);
        assert_eq!(told(&other_heard), [(3, OK)]);
        world.append(other, 1);
        assert_eq!(told(&other_heard), [(4, OK)]);
    }
}

/// What comes while the commit of a batch has not begun joins it, up to its bounds, and is told
/// with it, in order.
#[test]
fn a_batch_grows_until_its_commit_begins() {
    let bytes = account_bytes();
    for (batch_appends, backlog_bytes_max, joined) in
        [(1, usize::MAX, 0), (4, usize::MAX, 3), (256, 2 * bytes, 1)]
    {
        let mut world = World::new(Commits {
            batch_appends,
            backlog_bytes_max,
            ..Commits::default()
        });
        world.switches.set_grow(true);
        let (writer, heard) = world.writer(USERS[0]);
        let (other, other_heard) = world.writer(USERS[2]);
        world.switches.set_hold(true);
        world.append(writer, 1);
        world.append(other, joined);
        // One too many, and whoever comes behind it.
        world.append(writer, 1);
        world.append(other, 1);
        assert_eq!((told(&heard), told(&other_heard)), (vec![], vec![]));
        assert_eq!(world.twin.release(1), 1);
        world.sim.run_until_idle();
        assert_eq!(told(&heard), [(1, OK)], "{batch_appends}");
        let all: Vec<_> = (1..=joined as u32).map(|n| (n, OK)).collect();
        assert_eq!(told(&other_heard), all);
        world.switches.set_hold(false);
        while world.twin.release(usize::MAX) > 0 {}
        world.sim.run_until_idle();
        let last = (joined as u32 + 1, OK);
        assert_eq!(
            (told(&heard), told(&other_heard)),
            (vec![(2, OK)], vec![last])
        );
        let calls = world.journal.calls.load(Ordering::SeqCst);
        assert_eq!(calls, 2);
    }
}

/// What joined a batch behind an append of the same actor that fails was built on what never came
/// to be; others in the batch are committed.
#[test]
fn what_joined_behind_a_failure_fails() {
    let mut world = World::new(Commits::default());
    world.switches.set_grow(true);
    let (writer, heard) = world.writer(USERS[0]);
    let (other, other_heard) = world.writer(USERS[2]);
    world.switches.set_hold(true);
    world.append(writer, 2);
    world.append(other, 1);
    world.switches.lose(1);
    world.switches.set_hold(false);
    world.twin.release(usize::MAX);
    world.pass(Duration::from_secs(1));
    let failed = [
        (1, Err(AppendError::Unavailable)),
        (2, Err(AppendError::Fenced)),
    ];
    assert_eq!(told(&heard), failed);
    assert_eq!(told(&other_heard), [(1, OK)]);
    assert_eq!((world.last(USERS[0]), world.last(USERS[2])), (0, 1));
}

/// A range in doubt waits for as long as it takes; others go on meanwhile, and the outcomes of each
/// actor come in order.
#[test]
fn a_range_in_doubt_waits_and_the_others_go_on() {
    for survives in [false, true] {
        let mut world = World::new(Commits::default());
        let (writer, heard) = world.writer(USERS[0]);
        let (neighbour, neighbour_heard) = world.writer(USERS[1]);
        let (other, other_heard) = world.writer(USERS[2]);
        world.switches.set_stay_in_doubt(true);
        match survives {
            true => world.switches.doubt(1),
            false => world.switches.lose(1),
        }
        world.append(writer, 1);
        world.append(writer, 1);
        world.append(neighbour, 1);
        world.append(other, 1);
        world.pass(Duration::from_secs(3 * 3600));
        assert_eq!(told(&other_heard), [(1, OK)]);
        assert_eq!((told(&heard), told(&neighbour_heard)), (vec![], vec![]));
        assert!(!world.port.is_settled(world.range(USERS[0])));

        world.switches.set_stay_in_doubt(false);
        world.twin.settle();
        world.pass(Duration::from_secs(1));
        let expected = if survives {
            [(1, OK), (2, OK)]
        } else {
            // What it appended since was built on what never came to be.
            [
                (1, Err(AppendError::Unavailable)),
                (2, Err(AppendError::Fenced)),
            ]
        };
        assert_eq!(told(&heard), expected);
        assert_eq!(
            told(&neighbour_heard),
            [(1, OK)],
            "it built on nothing of that"
        );
        assert_eq!(world.last(USERS[0]), if survives { 2 } else { 0 });
        world.append(writer, 1);
        assert_eq!(told(&heard), [(3, OK)]);
    }
}

/// A group that is not decided for as long as it takes keeps its own ranges waiting and no other:
/// what others append meanwhile is committed in any number of batches. Each hears its outcomes in
/// order, and a port that crashes meanwhile takes up both.
#[test]
fn a_stalled_group_delays_no_other() {
    for do_crash in [false, true] {
        let mut world = World::new(Commits::default());
        world.switches.set_groups(2);
        let (writer, heard) = world.writer(USERS[0]);
        let (neighbour, neighbour_heard) = world.writer(USERS[1]);
        let (other, other_heard) = world.writer(USERS[2]);
        let group = |user| world.journal.group(world.range(user));
        assert_ne!(group(USERS[0]), group(USERS[2]));
        world.switches.stall(Some(group(USERS[0])));
        // In one turn, so that all of them would be one batch.
        world.send(writer, UserMsg::Wake);
        world.send(other, UserMsg::Wake);
        world.sim.run_until_idle();
        assert_eq!(told(&other_heard), [(1, OK)], "with the stalled one");
        for n in 2..12 {
            world.append(neighbour, 1);
            world.append(other, 1);
            assert_eq!(told(&other_heard), [(n, OK)], "behind the stalled one");
        }
        world.pass(Duration::from_secs(3 * 3600));
        assert_eq!((told(&heard), told(&neighbour_heard)), (vec![], vec![]));
        assert!(!world.port.is_settled(world.range(USERS[0])));
        assert!(world.port.is_settled(world.range(USERS[2])));

        if do_crash {
            *world.journal.moods.lock().expect("moods") = vec![Mood::Panics];
            world.append(other, 1);
            world.pass(Duration::from_secs(1));
            assert_eq!(told(&other_heard), [(12, Err(AppendError::Failed))]);
        }
        world.switches.stall(None);
        while world.twin.release(usize::MAX) > 0 {
            world.pass(Duration::from_secs(1));
        }
        world.pass(Duration::from_secs(1));
        let all: Vec<_> = (1..11).map(|n| (n, OK)).collect();
        match do_crash {
            false => {
                assert_eq!(told(&heard), [(1, OK)]);
                assert_eq!(told(&neighbour_heard), all);
            }
            // Nobody could say any more what became of the batch under way; the port asked.
            true => {
                assert_eq!(told(&heard), [(1, Err(AppendError::Failed))]);
                let told = told(&neighbour_heard);
                assert_eq!(told.len(), all.len(), "{told:?}");
            }
        }
        world.append(other, 1);
        assert_eq!(
            told(&other_heard).last().map(|(_, result)| *result),
            Some(OK)
        );
    }
}

/// What waits for a group that stalls is bounded by what it leaves to the others: they are never
/// refused because of it.
#[test]
fn a_stalled_group_fills_half_of_the_queue() {
    let bytes = account_bytes();
    for commits in [tiny(8, usize::MAX), tiny(usize::MAX, 8 * bytes)] {
        let mut world = World::new(commits);
        world.switches.set_groups(2);
        let (writer, heard) = world.writer(USERS[0]);
        let (other, other_heard) = world.writer(USERS[2]);
        world.append(other, 1);
        world
            .switches
            .stall(Some(world.journal.group(world.range(USERS[0]))));
        // One is under way, and four wait behind it.
        world.append(writer, 1);
        world.append(writer, 4 + 3);
        let busy = |n| (n, Err(AppendError::Busy));
        assert_eq!(told(&heard), [busy(6), busy(7), busy(8)]);
        for _ in 0..4 {
            world.append(other, 1);
        }
        let all: Vec<_> = (1..6).map(|n| (n, OK)).collect();
        assert_eq!(told(&other_heard), all);
        world.switches.stall(None);
        while world.twin.release(usize::MAX) > 0 {
            world.sim.run_until_idle();
        }
        let all: Vec<_> = (1..6).map(|n| (n, OK)).collect();
        assert_eq!(told(&heard), all);
        world.append(writer, 1);
        assert_eq!(told(&heard), [(9, OK)]);
    }
}

/// The journal has no room for one batch: others of the same turn are not lost, and go with it.
#[test]
fn groups_wait_together_for_a_journal_without_room() {
    let mut world = World::new(Commits::default());
    world.switches.set_groups(2);
    let (writer, heard) = world.writer(USERS[0]);
    let (other, other_heard) = world.writer(USERS[2]);
    *world.journal.moods.lock().expect("moods") = vec![Mood::Busy; 3];
    world.send(writer, UserMsg::Wake);
    world.send(other, UserMsg::Wake);
    world.sim.run_until_idle();
    world.append(writer, 1);
    assert_eq!((told(&heard), told(&other_heard)), (vec![], vec![]));
    world.pass(Duration::from_secs(1));
    assert_eq!(told(&heard), [(1, OK), (2, OK)]);
    assert_eq!(told(&other_heard), [(1, OK)]);
    assert_eq!(world.journal.calls.load(Ordering::SeqCst), 5);
}

/// Behind an append in doubt, those of the same call wait too, whatever became of them.
#[test]
fn outcomes_behind_a_doubt_come_in_order() {
    let mut world = World::new(Commits::default());
    let (writer, heard) = world.writer(USERS[0]);
    let (neighbour, neighbour_heard) = world.writer(USERS[1]);
    world.switches.set_stay_in_doubt(true);
    world.switches.doubt(1);
    world.send(writer, UserMsg::Wake);
    world.send(writer, UserMsg::Wake);
    world.send(neighbour, UserMsg::Wake);
    world.sim.run_until_idle();
    world.pass(Duration::from_secs(60));
    assert_eq!((told(&heard), told(&neighbour_heard)), (vec![], vec![]));
    world.switches.set_stay_in_doubt(false);
    world.twin.settle();
    world.pass(Duration::from_secs(1));
    // The second was not sent: it would have come to be or not with the first.
    assert_eq!(told(&heard), [(1, OK), (2, Err(AppendError::Fenced))]);
    assert_eq!(told(&neighbour_heard), [(1, OK)]);
    assert_eq!(world.last(USERS[0]), 1);
}

/// An actor that has not heard yet of a failure appends something: it was built on what never came
/// to be, although the port has fenced by then what it knew of.
#[test]
fn who_has_not_heard_of_a_failure_appends_nothing() {
    let mut world = World::new(Commits::default());
    let (writer, heard) = world.writer(USERS[0]);
    world.send(writer, UserMsg::Idle);
    world.switches.lose(1);
    world.append(writer, 1);
    world.twin.settle();
    world.pass(Duration::from_secs(1));
    let (failed, fenced) = (Err(AppendError::Unavailable), Err(AppendError::Fenced));
    assert_eq!(told(&heard), [(1, failed), (2, fenced)]);
    assert_eq!(world.last(USERS[0]), 0);
    world.append(writer, 1);
    assert_eq!(told(&heard), [(3, OK)], "it has heard everything");
}

/// What an actor was told and did not handle before it ended is handed to its next life. Both
/// counted from one, so that a commit of the first was taken for one of the second, whose effects
/// left before they were durable.
#[test]
fn no_word_about_one_life_is_one_about_the_next() {
    let world = World::new(Commits::default());
    let lives = [&world.port, &world.port.clone()];
    let mut tickets: Vec<u32> = (0..100).map(|n| lives[n % 2].next_ticket().0).collect();
    tickets.dedup();
    tickets.sort_unstable();
    tickets.dedup();
    assert_eq!(tickets.len(), 100);
}

/// The journal says what became of the appends of one commit one after the other: whoever looks in
/// between knows of the first alone. What follows them was fenced before the second was told, and
/// its actor, which expects its outcomes in order, waited for ever.
#[test]
fn outcomes_come_in_order_although_doubts_are_resolved_one_by_one() {
    let mut world = World::new(Commits::default());
    let (writer, heard) = world.writer(USERS[0]);
    let doubts = vec![Doubt::open("first"), Doubt::open("second")];
    *world.journal.moods.lock().expect("moods") = vec![Mood::Doubts(doubts.clone())];
    world.append(writer, 2);
    world.append(writer, 1);
    let lost = || Outcome::Failed(AppendFailure::Unavailable("lost".to_owned()));
    doubts[0].resolve(lost());
    world.pass(Duration::from_secs(1));
    doubts[1].resolve(lost());
    world.pass(Duration::from_secs(1));
    let (failed, fenced) = (Err(AppendError::Unavailable), Err(AppendError::Fenced));
    assert_eq!(told(&heard), [(1, failed), (2, failed), (3, fenced)]);
    world.append(writer, 1);
    assert_eq!(told(&heard), [(4, OK)]);
}

/// Another home takes the range: what waits is fenced, and whoever was loaded before appends
/// nothing any more; those of other ranges are not concerned.
#[test]
fn a_fence_ends_the_tenure_of_the_whole_range_and_of_no_other() {
    let mut world = World::new(Commits::default());
    let (writer, heard) = world.writer(USERS[0]);
    let (neighbour, neighbour_heard) = world.writer(USERS[1]);
    let (other, other_heard) = world.writer(USERS[2]);
    world.switches.fence(1);
    world.append(writer, 2);
    world.append(neighbour, 1);
    world.append(other, 1);
    let fenced = Err(AppendError::Fenced);
    assert_eq!(told(&heard), [(1, fenced), (2, fenced)]);
    assert_eq!(told(&neighbour_heard), [(1, fenced)]);
    assert_eq!(told(&other_heard), [(1, OK)]);
    // Both have read their state again since.
    world.append(writer, 1);
    world.append(neighbour, 1);
    assert_eq!(told(&heard), [(3, OK)]);
    assert_eq!(told(&neighbour_heard), [(2, OK)]);
}

/// What is fenced late ends the tenure that it was of, and not the next one.
#[test]
fn a_late_fence_does_not_end_the_next_tenure() {
    let mut world = World::new(Commits::default());
    let (writer, heard) = world.writer(USERS[0]);
    let (neighbour, neighbour_heard) = world.writer(USERS[1]);
    world.switches.set_hold(true);
    world.append(writer, 1);
    world.append(neighbour, 1);
    world.switches.fence(1);
    assert_eq!(world.twin.release(1), 1);
    world.sim.run_until_idle();
    let fenced = Err(AppendError::Fenced);
    assert_eq!(told(&heard), [(1, fenced)]);
    assert_eq!(world.twin.release(1), 1);
    world.switches.set_hold(false);
    world.sim.run_until_idle();
    assert_eq!(told(&neighbour_heard), [(1, fenced)]);
    world.append(writer, 1);
    assert_eq!(told(&heard), [(2, OK)], "it was loaded in the next one");
}
