//! The history of one seed: everything that devices sent, were told and received. Owns plain facts;
//! whether they fit together is the checker's.

use std::collections::HashMap;
use std::fmt::{Display, Write as _};
use std::time::{Duration, Instant};
use stdx::{Clock as _, SystemClock, Timestamp};

/// Lines of the readable account that are kept.
const LINES_MAX: usize = 200_000;

/// What the sender knows of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It was written to a link; nobody said what became of it.
    Unknown,
    /// The server acknowledged it.
    Accepted,
    /// An error stanza came back.
    Refused,
    /// One came back that says that it may have been delivered.
    Doubtful,
}

/// A message that was sent at least once.
#[derive(Clone, Debug)]
pub(super) struct Message {
    /// Number of the sending device.
    pub(super) device: usize,
    pub(super) from: usize,
    pub(super) to: usize,
    /// The device that it was addressed to, if it was not for all.
    pub(super) to_device: Option<usize>,
    pub(super) fate: Fate,
    /// The highest id seen of the sender's and the recipient's log before it was first sent.
    pub(super) floors: Option<[Option<String>; 2]>,
    /// When it was first sent, in deliveries of all devices so far.
    pub(super) sent_at: usize,
    /// An error stanza came at some time, or may have: it may have been sent again behind later
    /// ones.
    pub(super) was_refused: bool,
}

/// Something that was said to all in the room.
#[derive(Clone, Copy, Debug)]
pub(super) struct Said {
    /// Number of the device that said it.
    pub(super) device: usize,
    pub(super) fate: Fate,
}

/// How a message reached a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Addressed to it.
    Direct,
    /// As a copy of what another device got or sent.
    Carbon,
}

/// A moment of an account: what the server knew of it and had not recorded does not last longer
/// than the life that this is in ([`History::is_same_life`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Life {
    /// Crashes of the server, and of the account's actor, before it.
    pub(super) crashes: usize,
    /// Milliseconds since the history began.
    pub(super) at: u64,
}

/// A message that reached a device.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    pub(super) message: usize,
    pub(super) id: Option<String>,
    pub(super) way: Way,
    /// When it did.
    pub(super) life: Life,
    /// Deliveries to all devices before it.
    pub(super) at: usize,
    /// It was addressed to the device before that was there for everybody, so that older messages
    /// which waited may still come.
    pub(super) is_early: bool,
    /// It says when it was accepted (XEP-0203): it waited.
    pub(super) is_late: bool,
}

/// One session from its binding to its end, over all its resumptions.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    pub(super) device: usize,
    pub(super) is_managed: bool,
    pub(super) has_carbons: bool,
    /// In the order of arrival.
    pub(super) deliveries: Vec<Delivery>,
    /// What it heard in the room, for each time that it was there.
    pub(super) heard: Vec<Vec<usize>>,
    /// For each of all these: when.
    pub(super) heard_at: Vec<Life>,
    /// How many of them it has acknowledged, which the server certainly has read.
    pub(super) heard_confirmed: usize,
    /// From behind this id on, everything comes live; `None` until the first catch-up is complete.
    pub(super) live_from: Option<String>,
    /// When the server had shown it its own presence, in deliveries of all devices so far: from
    /// here on it was there for everybody.
    pub(super) shown_at: Option<usize>,
    /// Deliveries whose acknowledgement the server certainly has read.
    pub(super) confirmed: usize,
    /// When the ping was sent that was answered last, which proves so.
    pub(super) confirmed_at: Life,
    /// When its device gave it up for good, in deliveries of all devices so far.
    pub(super) ended_at: Option<usize>,
    /// When the next session of its device began, which ends this one if nothing did before.
    pub(super) replaced_at: Option<usize>,
    /// Stanzas that the device sent in it, and what the server last said it had taken.
    pub(super) sent: u32,
    pub(super) taken: u32,
}

impl Chain {
    /// A session that has just begun.
    pub(super) fn new(device: usize, has_carbons: bool) -> Chain {
        Chain {
            device,
            is_managed: false,
            has_carbons,
            deliveries: Vec::new(),
            heard: Vec::new(),
            heard_at: Vec::new(),
            heard_confirmed: 0,
            live_from: None,
            shown_at: None,
            confirmed: 0,
            confirmed_at: Life::default(),
            ended_at: None,
            replaced_at: None,
            sent: 0,
            taken: 0,
        }
    }
}

/// One entry of a user's archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) id: String,
    pub(super) message: Option<usize>,
    pub(super) text: String,
}

/// What a device learned by catching up, in order.
#[derive(Clone, Debug)]
pub(super) struct CatchUp {
    pub(super) device: usize,
    pub(super) after: Option<String>,
    pub(super) entries: Vec<Entry>,
}

/// Everything of one seed.
pub(super) struct History {
    pub(super) messages: Vec<Message>,
    pub(super) chains: Vec<Chain>,
    pub(super) catch_ups: Vec<CatchUp>,
    /// By user, read at the end.
    pub(super) archives: Vec<Vec<Entry>>,
    /// Everything that was to be said in the room.
    pub(super) said: Vec<Said>,
    /// The room is there, and has an archive.
    pub(super) has_room: bool,
    /// A user is a member of it who never enters: from this one on what is said is owed to him.
    pub(super) member_since: Option<usize>,
    /// Of what was said, what the room has, read at the end.
    pub(super) room_archive: Vec<usize>,
    /// By user: the highest id that anybody saw so far.
    pub(super) seen_max: Vec<Option<String>>,
    /// By user and id: the message that it was seen on.
    ids: HashMap<(usize, String), usize>,
    /// By user and message: the id that it was seen with.
    ids_of: HashMap<(usize, usize), String>,
    pub(super) kills: usize,
    /// Crashes of actors, and by user those of his account's.
    pub(super) actors: usize,
    /// Moves of ranges to another shard, and those that could not be.
    pub(super) moves: [usize; 2],
    actors_of: Vec<usize>,
    /// The disk was full or failed for a while.
    pub(super) was_disk_bad: bool,
    /// Kills, and moments at which a disk failed or was good again: what the server knew and had
    /// not written is gone.
    pub(super) crashes: usize,
    /// When streams of a cluster got another home, in milliseconds, read at the end. What the home
    /// before knew and had not recorded is gone, if it did not move in order.
    pub(super) homes_began: Vec<u64>,
    /// Deliveries to all devices so far.
    pub(super) now: usize,
    /// When something of which user was accepted.
    pub(super) accepted_at: Vec<(usize, Duration)>,
    /// What was wrong as soon as it was seen.
    pub(super) violations: Vec<String>,
    /// The time of a server that has a clock of its own, so that a seed's account is the same
    /// whenever it is played.
    pub(super) time: Option<Duration>,
    started: Instant,
    started_at: Timestamp,
    lines: String,
    lines_count: usize,
}

impl History {
    /// This moment, for the account of a user: after crashes of the server and of its actor.
    pub(super) fn life_of(&self, user: usize) -> Life {
        let own = self.actors_of.get(user).copied().unwrap_or_default();
        Life {
            crashes: self.crashes + own,
            at: self.elapsed().as_millis() as u64,
        }
    }

    /// Whether nothing happened between two moments of an account that its home may have forgotten
    /// something at. What was acknowledged and not recorded before may come again in another
    /// session. A cluster's trouble may end a home seconds after it began, so homes count by
    /// themselves, for every account: which stream it is in is not known here.
    pub(super) fn is_same_life(&self, before: Life, later: Life) -> bool {
        let is_between = |at: &u64| before.at <= *at && *at <= later.at;
        before.crashes == later.crashes && !self.homes_began.iter().any(is_between)
    }

    /// Streams of a cluster got other homes at these times.
    pub(super) fn have_begun(&mut self, homes: &[Timestamp]) {
        let since = |at: &Timestamp| at.as_millis() - self.started_at.as_millis();
        let since = homes.iter().map(|at| since(at).max(0) as u64);
        self.homes_began = since.collect();
    }

    /// An actor has crashed: of the account of a user, or another one.
    pub(super) fn actor_crashed(&mut self, user: Option<usize>) {
        self.actors += 1;
        if let Some(crashes) = user.and_then(|user| self.actors_of.get_mut(user)) {
            *crashes += 1;
        }
    }

    pub(super) fn new(users: usize) -> Self {
        Self {
            messages: Vec::new(),
            chains: Vec::new(),
            catch_ups: Vec::new(),
            archives: vec![Vec::new(); users],
            said: Vec::new(),
            has_room: false,
            member_since: None,
            room_archive: Vec::new(),
            seen_max: vec![None; users],
            ids: HashMap::new(),
            ids_of: HashMap::new(),
            kills: 0,
            actors: 0,
            moves: [0; 2],
            actors_of: vec![0; users],
            was_disk_bad: false,
            crashes: 0,
            homes_began: Vec::new(),
            now: 0,
            accepted_at: Vec::new(),
            violations: Vec::new(),
            time: None,
            started: Instant::now(),
            started_at: SystemClock::new().wall(),
            lines: String::new(),
            lines_count: 0,
        }
    }

    /// Time since the seed began.
    pub(super) fn elapsed(&self) -> Duration {
        self.time.unwrap_or_else(|| self.started.elapsed())
    }

    /// Writes a line of the readable account.
    pub(super) fn note(&mut self, who: &str, what: impl Display) {
        if self.lines_count < LINES_MAX {
            self.lines_count += 1;
            let at = self.elapsed();
            let (ms, us) = (at.as_millis(), at.subsec_micros() % 1_000);
            let _ = writeln!(self.lines, "{ms:6}.{us:03} {who:6} {what}");
        }
    }

    pub(super) fn violation(&mut self, what: String) {
        self.note("!!", &what);
        if !self.violations.contains(&what) {
            self.violations.push(what);
        }
    }

    /// An id of a user's log was seen on a message. An id is never on two.
    pub(super) fn saw(&mut self, user: usize, id: &str, message: usize) {
        let max = &mut self.seen_max[user];
        if max.as_deref().is_none_or(|max| max < id) {
            *max = Some(id.to_owned());
        }
        let before = *self.ids.entry((user, id.to_owned())).or_insert(message);
        if before != message {
            self.violation(format!(
                "id {id} of u{user} was given to m{before} and to m{message}"
            ));
        }
        let key = (user, message);
        let before = self.ids_of.entry(key).or_insert_with(|| id.to_owned());
        if *before != id {
            let what = format!("m{message} has the ids {before} and {id} in the log of u{user}");
            self.violation(what);
        }
    }

    /// The readable account.
    pub(super) fn account(&self) -> &str {
        &self.lines
    }
}
