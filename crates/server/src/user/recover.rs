//! Sessions that outlived the process: what the log owes them, and how they come back, detached,
//! when their user is loaded (docs/delivery.md).

use std::time::Duration;

use actor::{Context, Mail};
use delivery::{Left, Place, Recovered, Recovery, SessionNumber, StoredEntry, StoredSession};
use net::ConnRef;
use stdx::slab::Key;
use stdx::time::Moment;
use store::{LogHead, RoomRead, Seq, SessionRecord, Store, StoreError, UserState, Windows};
use telemetry::Gauge;
use xml::Frame;
use xmpp::stanza;

use super::User;
use super::consumers::Inbox;
use super::layout;
use super::managed::{Link, Managed};
use super::session::Session;
use crate::home::Home;
use crate::message::UserMsg;
use crate::modules::{carbons, csi};

/// What the store holds of a user, with what its log owes to sessions.
pub(crate) struct Stored {
    pub(super) state: UserState,
    /// What sessions of an earlier life are owed, and where the account is.
    recovered: Recovered,
    /// What sessions left that ended.
    left: Vec<Left>,
    /// How far sessions have read the logs of rooms.
    rooms: Vec<(u32, String, RoomRead)>,
    /// Rooms that deliver to the account as their member, and up to where it has their logs.
    pub(super) member_rooms: Vec<(String, Seq)>,
    /// Entries that wait for each destination that lags, and all that wait to be handed over.
    outgoing: (Vec<u32>, u32),
}

/// The last entry of a log.
pub(super) fn tail(head: &LogHead) -> Place {
    Place::new(head.next_seq - 1)
}

/// The recorded mark of the account, and what is behind it, its list left out. If nothing is, the
/// mark is as good as at the end.
pub(super) fn account(head: &LogHead, windows: &Windows) -> (Place, (u64, u64)) {
    let count = head.waiting_count;
    let count = count.saturating_sub(windows.requeued.len() as u64);
    match count {
        0 => (tail(head), (0, 0)),
        _ => (
            Place::new(head.delivered_through),
            (count, head.waiting_bytes),
        ),
    }
}

/// The inbox of a log that no session reads.
pub(super) fn inbox_without_sessions(home: &Home, head: &LogHead, windows: &Windows) -> Inbox {
    let recovered = without_sessions(head, windows);
    inbox(home, head, windows, (&recovered, Vec::new()))
}

fn without_sessions(head: &LogHead, windows: &Windows) -> Recovered {
    let (mark, waiting) = account(head, windows);
    Recovered {
        mark,
        recorded: mark,
        last: tail(head),
        waiting,
        sessions: Vec::new(),
    }
}

fn inbox(
    home: &Home,
    head: &LogHead,
    windows: &Windows,
    (recovered, left): (&Recovered, Vec<Left>),
) -> Inbox {
    let listed: Vec<Place> = windows.requeued.iter().copied().map(Place::new).collect();
    let account = recovered.account(&listed);
    let (limits, tail) = (home.inbox_limits.clone(), tail(head));
    Inbox::recover(limits, tail, &account, &recovered.sessions, left)
}

/// The last presence of a session, and its priority.
fn presence(record: &SessionRecord) -> (Option<Frame>, i8) {
    let frame = record.presence.clone();
    let frame = frame.and_then(|xml| Frame::parse(xml).ok());
    let priority = frame.as_ref().map(stanza::presence_priority);
    (frame, priority.and_then(Result::ok).unwrap_or(0))
}

impl Stored {
    /// Reads it; what sessions are owed only if `is_first`: those that there are know it.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub(super) fn read(
        store: &Store,
        user: &str,
        is_first: bool,
        page: usize,
    ) -> Result<Option<Stored>, StoreError> {
        let Some(state) = store.load_user(user)? else {
            return Ok(None);
        };
        let mut stored = Stored {
            state,
            recovered: Recovered::default(),
            left: Vec::new(),
            rooms: Vec::new(),
            member_rooms: store.member_rooms(user)?,
            outgoing: (Vec::new(), 0),
        };
        let lagging = stored.state.windows.as_deref();
        let lagging = lagging.map_or(&[][..], |windows| &windows.lagging);
        if stored.state.log.has_outgoing() || !lagging.is_empty() {
            stored.outgoing = store.count_outgoing(user, &stored.state.log, lagging)?;
        }
        if is_first {
            stored.read_owed(store, user, page)?;
        }
        Ok(Some(stored))
    }

    /// Whether rooms deliver to the account.
    pub(super) fn is_member(&self) -> bool {
        !self.member_rooms.is_empty()
    }

    /// How much waits to be handed over.
    pub(super) fn outgoing(&self) -> (&[u32], u32) {
        (&self.outgoing.0, self.outgoing.1)
    }

    fn read_owed(&mut self, store: &Store, user: &str, page: usize) -> Result<(), StoreError> {
        let (head, nothing) = (&self.state.log, Windows::default());
        let windows = self.state.windows.as_deref().unwrap_or(&nothing);
        let records = &self.state.sessions.records;
        let left = records.iter().filter(|record| layout::is_left(record));
        self.left = left.flat_map(layout::left).collect();
        let sessions = records.iter().filter(|record| !layout::is_left(record));
        let sessions: Vec<StoredSession> = sessions
            .map(|record| {
                let (presence, priority) = presence(record);
                let cursor = windows.cursor(record.number);
                StoredSession {
                    session: SessionNumber::new(record.number),
                    is_taker: presence.is_some() && priority >= 0,
                    is_of_before: layout::is_of_before(record),
                    acked: Place::new(cursor.map_or(0, |cursor| cursor.acked)),
                    void_through: Place::new(record.void_through),
                    numbered: layout::listed(record),
                }
            })
            .collect();
        if sessions.is_empty() {
            self.recovered = without_sessions(head, windows);
            return Ok(());
        }
        self.rooms = store.rooms_read(user)?;
        let (mark, _) = account(head, windows);
        let mut recovery = Recovery::new(mark, sessions);
        let mut after = recovery.floor().unwrap_or(mark).number();
        loop {
            let entries = store.log_read(user, after, page)?;
            for entry in &entries {
                recovery.note(StoredEntry {
                    place: Place::new(entry.seq),
                    bytes: u32::try_from(entry.frame.len()).unwrap_or(u32::MAX),
                    to: &layout::recipients(entry),
                    counts: &layout::counts(entry),
                });
            }
            match entries.last() {
                Some(last) if entries.len() == page => after = last.seq,
                _ => break,
            }
        }
        self.recovered = recovery.finish(tail(head));
        Ok(())
    }

    /// The inbox of a user that is loaded for the first time.
    pub(super) fn inbox(&mut self, home: &Home, windows: &Windows) -> Inbox {
        let left = std::mem::take(&mut self.left);
        inbox(home, &self.state.log, windows, (&self.recovered, left))
    }
}

impl User {
    /// Makes the sessions that outlived the process, all of them detached.
    pub(super) fn recover_sessions(&mut self, stored: &Stored, cx: &mut Context<'_, UserMsg>) {
        for record in &stored.state.sessions.records {
            if !layout::is_left(record) {
                self.recover_session(record, cx);
                self.recover_rooms(self.sessions.len() - 1, &stored.rooms, cx);
            }
        }
    }

    fn recover_session(&mut self, record: &SessionRecord, cx: &mut Context<'_, UserMsg>) {
        let now = cx.now();
        let cursor = self.log().windows.cursor(record.number);
        let inbound = cursor.map_or(0, |cursor| cursor.inbound);
        // No connection ever has this name: it only tells the user's sessions apart.
        let conn = ConnRef {
            shard: cx.shard(),
            id: Key {
                index: u32::MAX,
                generation: record.number,
            },
        };
        let mut session = Session::new(conn, &self.name, &record.resource);
        session.number = record.number;
        session.started = true;
        // Nobody could turn off any more what was saved while its extension was on.
        let on = &self.home.options.modules;
        session.carbons = record.carbons && on.has(&carbons::MODULE);
        session.is_inactive = record.inactive && on.has(&csi::MODULE);
        session.wants_roster = record.wants_roster;
        session.wants_blocklist = record.wants_blocklist;
        (session.presence, session.priority) = presence(record);
        if !record.directed.is_empty() {
            let directed = record.directed.iter().map(|to| to.as_str().into());
            session.directed = Some(Box::new(directed.collect()));
        }
        let after = Duration::from_secs(record.max_seconds.into());
        let number = record.number;
        let expires = UserMsg::Expire { number, since: now };
        let mut managed = recovered(record, inbound, now);
        managed.expiry = Some(cx.send_after(after, expires));
        session.managed = Some(Box::new(managed));
        self.sessions.push(session);
        cx.stats().raise(Gauge::Sessions);
        cx.stats().raise(Gauge::ManagedSessions);
    }
}

fn recovered(record: &SessionRecord, inbound: u32, now: Moment) -> Managed {
    let token = String::from_utf8_lossy(&record.token).into_owned().into();
    let link = Link::Detached(now);
    Managed {
        is_enabled: true,
        is_recovered: true,
        resumptions: layout::resumptions(record),
        inbound,
        inbound_recorded: inbound,
        presence_lost: true,
        roster_owed: Some("".into()),
        ..Managed::new(record.number, token, record.max_seconds, link)
    }
}
