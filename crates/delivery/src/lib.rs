//! How an accepted message reaches its recipient's home, as a sans-IO machine: commands and answers
//! in, decisions and effects out; time is an argument. It knows neither actors nor sockets nor the
//! store, and no stanza. The contract that it keeps is `docs/delivery.md`.
//!
//! A user's log is read by consumers, each at its own pace. This crate has those that hand entries
//! over: one [`Outbox`] for each sender, in which every *destination* (the home of a recipient) is
//! a consumer, and [`Marks`] for each recipient, which recognise what was taken before.
//!
//! ```text
//! sender's home                                                  recipient's home
//!
//! accept ─▶ log ─▶ append ─▶ committed ──▶ hand over ──────────▶ Marks::recognise ─▶ take
//!                                │             ▲                        │             │
//!                                │ lags        │ page                   │             │ commit
//!                                ▼             │                        ▼             ▼
//!                           destination ─▶ read the log       again, early, refused, taken
//!                                ▲                                      │
//!                                ├──── retry after a back-off ◀─────────┤ refused for now
//!                                └──── return to the sender   ◀─────────┘ refused for good
//! ```
//!
//! [`Followed`] is the third: the logs of rooms as one session reads them, by places that the rooms
//! give.
//!
//! Every bound is a field of [`OutboxLimits`] or an argument, so that a test can make it 1, 2 or 4.

mod followed;
mod inbox;
mod limits;
mod marks;
mod outbox;
mod place;

pub use followed::{Copied, FollowLimits, Followed, Pull, RoomChange, RoomPage};
pub use inbox::{
    AccountChange, Addressee, Changes as InboxChanges, Consumer, Effect as InboxEffect, Entry,
    Failure, Few, Filter, Given, Inbox, Kind, Left, Link, Page as InboxPage, Recipients, Recovered,
    RecoveredEntry, RecoveredSession, Recovery, SessionChange, StoredAccount, StoredEntry,
    StoredSession, TooHigh, Wanted,
};
pub use limits::{InboxLimits, OutboxLimits};
pub use marks::{Marks, Recognised};
pub use outbox::{
    Accept, Changes, Effect, HandOver, Listed, Outbox, Page, ReadId, Reason, Refusal, Stuck, Waits,
};
pub use place::{Attempt, Count, Place, SessionNumber};
