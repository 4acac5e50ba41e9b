//! A session with stream management (XEP-0198): what was written to it and is not acknowledged, how
//! many of its client's stanzas were handled, and the connection that it has at the moment. State
//! only; what of its user's log it is owed is known by [`delivery::Inbox`].

use actor::{Name, TimerKey};
use delivery::Followed;
use net::ConnRef;
use rustc_hash::FxHashMap;
use stdx::time::Moment;
use store::Seq;
use xmpp::sm::{Kept, Limits, Outbound, Pushed, TooHigh};

use super::early::Early;

/// Behind the token in [`Managed::proof`]; in no token.
const BEHIND_TOKEN: char = '#';

/// Where a session's stanzas go.
#[derive(Debug)]
pub(crate) enum Link {
    /// To this connection.
    Attached(ConnRef),
    /// Nowhere. The link was lost at this time.
    Detached(Moment),
    /// This connection resumes the session and waits for what the log owes it.
    Resuming(Box<Resuming>),
}

/// A resumption under way.
#[derive(Debug)]
pub(crate) struct Resuming {
    pub conn: ConnRef,
    /// What the client says it has handled.
    pub h: u32,
    /// Entries as they are written to this session, by place.
    pub entries: FxHashMap<Seq, Vec<u8>>,
    /// The connection outlived the home before this one, and its client does not know of that: it
    /// was written everything up to `h`, of which the client may have acknowledged less.
    pub is_adopted: bool,
    /// Answers that it has not been given to requests of these counts.
    pub unanswered: Vec<(u32, Vec<u8>)>,
}

impl Resuming {
    /// Writes what is not acknowledged as it is sent, or sent again.
    pub(super) fn write(&self, kept: &Kept, out: &mut Vec<u8>) {
        match kept {
            Kept::Entry(entry) => {
                // One that is damaged has a count all the same.
                let frame = self.entries.get(entry).filter(|frame| !frame.is_empty());
                out.extend_from_slice(frame.map_or(b"<message/>", |frame| frame));
            }
            Kept::Presence(stanza) | Kept::Other(stanza) => out.extend_from_slice(stanza),
            // None is left by a resumption: it is read in the room's log.
            Kept::Elsewhere => {}
        }
    }
}

/// What an entry or a stanza that is written to a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// An entry of the user's log.
    Entry(Seq),
    /// A message of a room's log, which is read there again if need be.
    Elsewhere,
    /// Presence, or an event of an account's node: the current one, or last items, can take its
    /// place.
    Presence,
    /// Presence that leaves whatever becomes of the append with it: of another session of the user
    /// that is not there any more, or what an inactive client was spared until now.
    Gone,
    /// A message that leaves whatever becomes of the append with it, of which it needs nothing: of
    /// a room's log, for a session that the room knows without stream management, or a chat state
    /// that an inactive client was spared. That counts which were said ahead are taken back may be
    /// part of the append: then the actor starts over.
    Copy,
    /// Any other stanza.
    Other,
}

impl What {
    pub(super) fn is_entry(self) -> bool {
        matches!(self, What::Entry(_))
    }
}

/// The stream management of one session.
#[derive(Debug)]
pub(crate) struct Managed {
    /// Names the session in log entries.
    pub number: u32,
    /// What the client shows to resume it.
    pub token: Box<str>,
    /// How often the client has.
    pub resumptions: u32,
    /// How long it may be detached, in seconds; 0 if it cannot be resumed.
    pub max_seconds: u32,
    pub link: Link,
    /// Ends it, if its client does not come back in time.
    pub expiry: Option<TimerKey>,
    /// Its client was told that stanzas are counted from here on.
    pub is_enabled: bool,
    /// It outlived the process, and its client has not been back: nobody knows what that has.
    pub is_recovered: bool,
    /// Stanzas of the client that were handled, modulo 2^32.
    pub inbound: u32,
    /// How many of them a record says were handled.
    pub inbound_recorded: u32,
    /// What was written and is not acknowledged.
    pub out: Outbound,
    /// How far it has read the logs of rooms; absent unless it is in one that has a log.
    pub rooms: Option<Box<Followed<Name>>>,
    /// Rooms of [`Session::directed`] that have put it out since.
    ///
    /// [`Session::directed`]: super::session::Session::directed
    pub put_out: Vec<Name>,
    /// Rooms of those that it has sent presence that enters, and that have not answered it, as far
    /// as this life of its user knows.
    pub entering: Vec<Name>,
    /// Rooms that were told that its client is back, and have not said since that it is there.
    pub back_in: Vec<Name>,
    /// Rooms that could not be told so: they had no home, or no room for that. They are told later.
    pub untold: Vec<Name>,
    /// Rooms that it had entered before its stanzas were counted, until they know of that; and the
    /// last place of the log of each that it was written meanwhile.
    pub plain_rooms: Vec<(Name, Seq)>,
    /// Presence was given up, or events of nodes: at its resumption it is told the current presence
    /// of all contacts, and last items.
    pub presence_lost: bool,
    /// Other stanzas were given up that are in no log, pushes of the roster perhaps.
    pub others_lost: bool,
    /// Something came since its link was lost that is in no log, and no presence.
    pub has_unsent: bool,
    /// What others have sent it while its client was not back ([`Managed::is_recovered`]).
    pub early: Option<Box<Early>>,
    /// The roster may have changed unseen, as when the process was started again: its items behind
    /// this address are still to be pushed, from the next resumption on that is completed.
    pub roster_owed: Option<Box<str>>,
    /// It cannot be served any further.
    pub is_full: bool,
    /// What was to be recorded of it was refused: it is recorded with what comes next.
    pub is_unsaved: bool,
}

impl Managed {
    /// A session that has just been made.
    pub(super) fn new(number: u32, token: Box<str>, max_seconds: u32, link: Link) -> Self {
        Managed {
            number,
            token,
            resumptions: 0,
            max_seconds,
            link,
            expiry: None,
            is_enabled: false,
            is_recovered: false,
            inbound: 0,
            inbound_recorded: 0,
            out: Outbound::default(),
            rooms: None,
            put_out: Vec::new(),
            entering: Vec::new(),
            back_in: Vec::new(),
            untold: Vec::new(),
            plain_rooms: Vec::new(),
            presence_lost: false,
            others_lost: false,
            has_unsent: false,
            early: None,
            roster_owed: None,
            is_full: false,
            is_unsaved: false,
        }
    }

    /// What proves that a connection is the one that the session has had since it was resumed last:
    /// what one of before knows of counts is of before.
    pub(super) fn proof(&self) -> Box<str> {
        match self.resumptions {
            // As versions did that did not count them.
            0 => self.token.clone(),
            resumptions => format!("{}{BEHIND_TOKEN}{resumptions}", self.token).into(),
        }
    }

    /// Whether such a proof is of this session, of whichever connection.
    pub(super) fn is_named_by(&self, proof: &str) -> bool {
        let token = proof.split(BEHIND_TOKEN).next();
        token == Some(&*self.token)
    }

    /// A stanza of its client is handled. Returns how many are.
    pub(super) fn counts(&mut self, now: Moment) -> u32 {
        self.inbound = self.inbound.wrapping_add(1);
        self.out.heard(now);
        self.inbound
    }

    /// What was said of it in a record has to be said again.
    pub(super) fn not_recorded(&mut self) {
        self.inbound_recorded = self.inbound.wrapping_sub(1);
    }

    /// Takes a stanza that is to be sent. False if it must not be sent.
    pub(super) fn push(&mut self, what: What, bytes: &[u8], limits: Limits) -> bool {
        // The current presence is sent at the resumption, and what others say is kept beside this
        // queue (`early.rs`).
        if self.is_full || self.is_recovered {
            return false;
        }
        let kept = match what {
            What::Entry(seq) => Kept::Entry(seq),
            What::Elsewhere => Kept::Elsewhere,
            What::Presence | What::Gone => Kept::Presence(bytes.into()),
            What::Copy | What::Other => Kept::Other(bytes.into()),
        };
        match self.out.push(kept, limits) {
            Pushed::Kept => {}
            Pushed::PresenceGaveWay => self.presence_lost = true,
            Pushed::OthersGaveWay => {
                self.presence_lost = true;
                self.others_lost = true;
            }
            Pushed::Full => self.is_full = true,
        }
        !self.is_full
    }

    /// The client is back and has handled `h`. After a restart the log says what it is `owed`.
    ///
    /// # Errors
    /// It was never sent so many.
    pub(super) fn resume(
        &mut self,
        h: u32,
        owed: impl IntoIterator<Item = Seq>,
    ) -> Result<(), TooHigh> {
        if self.is_recovered {
            self.out = Outbound::recovered(h, owed);
            self.is_recovered = false;
            self.presence_lost = true;
        } else {
            self.presence_lost |= self.out.resume(h)?.presence_lost;
            if std::mem::take(&mut self.others_lost) {
                self.roster_owed = Some("".into());
            }
        }
        Ok(())
    }

    /// Whether a connection is the session's, or is about to be.
    pub(super) fn has_link(&self, conn: ConnRef) -> bool {
        match &self.link {
            Link::Attached(link) => *link == conn,
            Link::Resuming(resuming) => resuming.conn == conn,
            Link::Detached(_) => false,
        }
    }

    /// The connection that resumes it.
    pub(super) fn resuming(&self) -> Option<ConnRef> {
        match &self.link {
            Link::Resuming(resuming) => Some(resuming.conn),
            Link::Attached(_) | Link::Detached(_) => None,
        }
    }

    /// That connection outlived the home or the actor before this one.
    pub(super) fn is_adopted(&self) -> bool {
        matches!(&self.link, Link::Resuming(resuming) if resuming.is_adopted)
    }

    /// The connection that is written to.
    pub(super) fn attached(&self) -> Option<ConnRef> {
        match self.link {
            Link::Attached(conn) => Some(conn),
            Link::Detached(_) | Link::Resuming(_) => None,
        }
    }
}
