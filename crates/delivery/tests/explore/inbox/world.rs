//! One user's log with the shipped [`Inbox`], a store, and up to two devices over links that may
//! break anywhere. Owns every step that the world may take, each as often as its [`Budget`] allows.
//! What is durable outlives crashes; nothing else does.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::reached::{Reached, seen};
use delivery::{
    Consumer, Count, Given, Inbox, InboxChanges, InboxEffect as Effect, InboxLimits, Kind, Left,
    Link, Place, Recipients, SessionNumber, StoredAccount,
};
use stdx::time::Moment;

pub(crate) const NOW: Moment = Moment::ZERO;

/// Bytes of every entry. There are more than one, so that bytes are not taken for entries.
pub(crate) const ENTRY_BYTES: u32 = 10;

/// A connection.
pub(crate) type Conn = u8;

/// How often what may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    /// Messages for the account, and for the full address of a device.
    pub(crate) messages: u8,
    pub(crate) addressed: u8,
    pub(crate) logins: u8,
    pub(crate) lost_links: u8,
    pub(crate) second_resumptions: u8,
    pub(crate) ends: u8,
    pub(crate) kills: u8,
    /// Crashes of the user's actor, whose connections stay.
    pub(crate) crashes: u8,
    pub(crate) failed_commits: u8,
    pub(crate) doubtful_commits: u8,
    pub(crate) failed_reads: u8,
    pub(crate) changes_of_mind: u8,
    pub(crate) unlogged: u8,
}

/// What kind of world it is.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) limits: Arc<InboxLimits>,
    pub(crate) devices: u8,
    /// The first device does not acknowledge.
    pub(crate) first_is_plain: bool,
    /// Whoever is not addressed gets a copy.
    pub(crate) has_copies: bool,
    /// At a resumption, what is in no log is not sent again.
    pub(crate) gives_up: bool,
    pub(crate) budget: Budget,
    pub(crate) reached: Reached,
}

impl World {
    /// Whether the inbox may be made anew from what is recorded.
    pub(crate) fn restarts(&self) -> bool {
        let budget = &self.budget;
        budget.kills > 0 || budget.crashes > 0 || budget.doubtful_commits > 0
    }
}

/// An entry as the store has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Logged {
    pub(crate) place: Place,
    pub(crate) to: Recipients,
    pub(crate) counts: Vec<(SessionNumber, Count)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Stored {
    pub(crate) entries: Vec<Logged>,
    pub(crate) mark: Place,
    /// How many entries for the account there are behind the mark, as the inbox said, and what was
    /// appended since.
    pub(crate) waiting: u64,
    pub(crate) listed: Vec<Place>,
    pub(crate) sessions: Vec<(SessionNumber, StoredSessionParts)>,
    pub(crate) left: Vec<Left>,
}

/// The parts of a [`StoredSession`] that have an order and a hash.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct StoredSessionParts {
    pub(crate) is_taker: bool,
    pub(super) acked: Place,
    pub(super) void_through: Place,
    pub(super) numbered: Vec<(Option<Count>, Place)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Record {
    Entry(Logged),
    Changes(InboxChanges),
    /// Whether a session takes messages for the account.
    Taker(SessionNumber, bool),
}

/// What happens once everything in front of it is decided.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Then {
    Write(SessionNumber, Place, Given),
    Unlogged(SessionNumber),
    PageCommitted(Consumer),
    ChangesCommitted,
    Resumed(SessionNumber, Conn, Vec<(Count, Place)>),
    /// The same for a session whose connection is still there.
    Adopted(SessionNumber, Conn, Vec<(Count, Place)>),
    Effect(Effect<Conn>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Append {
    pub(crate) records: Vec<Record>,
    pub(crate) then: Vec<Then>,
}

/// A device and its client, which outlive every crash.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Device {
    pub(crate) session: Option<SessionNumber>,
    pub(crate) conn: Option<Conn>,
    /// It asked to resume, by these connections, and heard nothing yet.
    pub(crate) asked: Vec<Conn>,
    pub(crate) handled: Count,
    /// What it has said that it has, as its connection knows. Only while its actor may still crash.
    pub(crate) acked: Count,
    /// Its link, with the count of each stanza and its place, if it is an entry.
    pub(crate) wire: VecDeque<(Count, Option<Place>)>,
    /// Entries that it has in this session.
    pub(crate) seen: Vec<Place>,
}

seen! {
    window_full: "a window is full of messages",
    bytes_full: "a window is full of bytes",
    page: "a page is read",
    page_full: "a page is full",
    backlog: "a session is given what waited",
    ended_read: "what ended sessions left is read",
    listed: "an entry is put on the list",
    list_full: "the list is full",
    list_read: "an entry of the list is given",
    held_copy: "an ended session leaves what another has a copy of",
    resumed: "a session is resumed",
    adopted: "a session is adopted",
    adopted_behind: "a session is adopted that was not written everything",
    not_adopted: "an adoption fails",
    renumbered: "a session is counted anew",
    cut: "a link is cut by a resumption",
    conflict: "a resumption is overtaken by another",
    not_resumed: "a resumption fails",
    unknown: "a session that is gone is resumed",
    page_failed: "a page fails to be recorded",
    read_again: "a page cannot be read",
    in_doubt: "a commit is in doubt",
    mark_moved: "the account's mark moves",
    mark_far: "the account's mark is far ahead of what is recorded",
    plain: "an entry is written to a client that counts nothing",
    sessions_full: "a session finds no room",
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) inbox: Inbox<Conn>,
    pub(crate) effects: VecDeque<Effect<Conn>>,
    pub(crate) appends: VecDeque<Append>,
    pub(crate) stored: Stored,
    pub(crate) devices: Vec<Device>,
    pub(crate) next: u64,
    pub(crate) next_session: u32,
    /// Entries that a client has.
    pub(crate) done: Vec<Place>,
    /// Entries whose acknowledgement was handled in this life of the server.
    pub(crate) acked: Vec<Place>,
    /// Something that must not happen did.
    pub(crate) wrong: Option<&'static str>,
    pub(crate) left: Budget,
    pub(crate) seen: Seen,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Login(usize),
    Arrive,
    ArriveFor(usize),
    Unlogged(usize),
    Commit,
    FailCommit,
    DoubtCommit,
    Record,
    Perform,
    FailRead,
    TimeOut,
    Receive(usize),
    Acknowledge(usize),
    LoseLink(usize),
    /// A session whose client is gone for good.
    Expire(SessionNumber),
    Resume(usize),
    End(usize),
    ChangeMind(usize),
    Kill,
    /// The actor crashes; so many of its appends happen.
    Crash(usize),
}

impl State {
    pub(crate) fn new(world: &World) -> State {
        State {
            inbox: Inbox::recover(
                Arc::clone(&world.limits),
                Place::START,
                &StoredAccount::default(),
                &[],
                Vec::new(),
            ),
            effects: VecDeque::new(),
            appends: VecDeque::new(),
            stored: Stored::default(),
            devices: vec![Device::default(); usize::from(world.devices)],
            next: 1,
            next_session: 1,
            done: Vec::new(),
            acked: Vec::new(),
            wrong: None,
            left: world.budget,
            seen: Seen::default(),
        }
    }

    pub(crate) fn kind(&self, world: &World, device: usize) -> Kind {
        if world.first_is_plain && device == 0 {
            Kind::Plain
        } else {
            Kind::Managed
        }
    }

    /// A name for a connection that nothing else has.
    pub(super) fn conn(&self) -> Conn {
        let is_used = |conn: Conn| {
            let devices = self.devices.iter();
            let mut of_devices = devices.flat_map(|own| own.asked.iter().chain(&own.conn));
            let of_effect = |effect: &Effect<Conn>| match effect {
                Effect::Cut(own) => *own == conn,
                Effect::Fail { link, .. } | Effect::ReadAgain { link, .. } => *link == conn,
                Effect::Read { .. } => false,
            };
            let mut then = self.appends.iter().flat_map(|append| &append.then);
            let links = self.inbox.sessions().filter_map(|own| self.inbox.link(own));
            of_devices.any(|own| *own == conn)
                || self.effects.iter().any(of_effect)
                || then.any(|then| match then {
                    Then::Effect(effect) => of_effect(effect),
                    Then::Resumed(_, own, _) | Then::Adopted(_, own, _) => *own == conn,
                    _ => false,
                })
                || links.into_iter().any(
                    |link| matches!(link, Link::Attached(own) | Link::Resuming(own) if own == conn),
                )
        };
        (1..).find(|conn| !is_used(*conn)).expect("few are in use")
    }

    /// Ids of reads begin anew when no answer is to come: what was asked makes no state another.
    pub(crate) fn settle_ids(&mut self) {
        let is_read = |effect: &Effect<Conn>| matches!(effect, Effect::Read { .. });
        let mut then = self.appends.iter().flat_map(|append| &append.then);
        let waits = then.any(|then| matches!(then, Then::Effect(effect) if is_read(effect)));
        if !waits && !self.effects.iter().any(is_read) {
            self.inbox.forget_reads();
        }
    }

    pub(crate) fn tail(&self) -> Place {
        let last = self.stored.entries.last();
        last.map_or(Place::START, |entry| entry.place)
    }

    pub(super) fn device_of(&mut self, session: SessionNumber) -> Option<&mut Device> {
        let mut devices = self.devices.iter_mut();
        devices.find(|device| device.session == Some(session))
    }
}
