//! Logs and those who read them: how an accepted message gets from its sender's log to its
//! recipient's, and from there to clients. The contract that this keeps is `docs/delivery.md`.
//!
//! A *log* is an append-only row of entries, each at a place. A *consumer* reads a log at its own
//! pace: it has a position, a bounded number of entries *in flight*, and whoever it hands them to
//! acknowledges them. A consumer that keeps up is given an entry with its commit. One that does not
//! (it is slow, away, or has just come) *lags*: it reads pages of the log until it has caught up.
//! So nothing is queued beside the log, and one consumer that is stuck delays no other.
//!
//! Three machines are consumers, or have them:
//!
//! * [`Outbox`], one for each sender, reads what he sends. Its consumers are *destinations*, the
//!   homes of recipients; they acknowledge an entry by taking it into logs of their own.
//! * [`Inbox`], one for each user, reads his log. Its consumers are his sessions, and the *account*
//!   itself, which stands for whatever session comes next. A client acknowledges by the count `h`
//!   of stream management (XEP-0198); what is written to one without it counts as acknowledged.
//! * [`Followed`], one for each session, reads the logs of the rooms that the session is in. Those
//!   logs are elsewhere: it asks the rooms for pages.
//!
//! [`Marks`] is the other end of an outbox: what a recipient remembers of its senders, so that an
//! entry that is handed over again is taken once. The path of one message:
//!
//! ```text
//! sender's home                                   recipient's home
//!
//! accept ─▶ append ─▶ committed ─┐      ┌───────▶ Marks ── new ──▶ append ─▶ committed ──▶ Inbox
//!                                ▼      │           │ again, early            │          │    ▲
//!                              Outbox ──┘           ▼                         │   write  │    │ h
//!                                ▲  hand over     refused, or taken ◀─────────┘          ▼    │
//!                                └──────────────────┘                                   session
//! ```
//!
//! An entry that was taken is settled. One that was not is handed over again after a back-off. One
//! that is refused for good, or has grown too old, is returned to its sender as an error.
//!
//! Each machine is sans-IO. It knows neither actors nor sockets nor the store, and no stanza:
//!
//! * *In* come calls: an entry is appended, an append was committed or failed; an answer, an
//!   acknowledgement or a page has come; a connection is there or gone.
//! * *Out* comes data. What a call returns says what becomes of the entries that it was about.
//!   `poll_effect` (`poll_pull` of [`Followed`]) says what else to do, such as reading a page.
//!   `take_changes` (`change` of [`Followed`]) says what to record; `recover` takes it up after a
//!   restart.
//! * *Time* is an argument, `now`. `deadline` says when to call `handle_timeout`.
//!
//! Bounds are values that a machine is made with ([`OutboxLimits`], [`InboxLimits`],
//! [`FollowLimits`]; that of [`Marks`] is an argument), so that a test can make them 1, 2 or 4.
//! `tests/explore` plays every order of events in small worlds of the same machines.

pub mod bugs;
mod followed;
mod inbox;
mod limits;
mod marks;
mod outbox;
mod place;

pub use followed::{Copied, Followed, Pull, RoomChange, RoomPage};
pub use inbox::{
    AccountChange, Addressee, Changes as InboxChanges, Consumer, Effect as InboxEffect, Entry,
    Failure, Few, Filter, Given, Inbox, Kind, Left, Link, Page as InboxPage, Recipients, Recovered,
    RecoveredEntry, RecoveredSession, Recovery, SessionChange, StoredAccount, StoredEntry,
    StoredSession, TooHigh, Wanted,
};
pub use limits::{FollowLimits, InboxLimits, OutboxLimits};
pub use marks::{Marks, Recognised};
pub use outbox::{
    Accept, Changes, Effect, HandOver, Listed, Outbox, Page, ReadId, Reason, Refusal, Stuck, Waits,
};
pub use place::{Attempt, Count, Place, SessionNumber};
