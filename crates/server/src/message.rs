//! What entities are told: what others say ([`wire::Message`]), which is plain data wherever these
//! are at home, and what happens here, which has handles and pages of the store in it and never
//! leaves its shard's process.

pub(crate) mod control;
pub(crate) mod credit;
pub(crate) mod web;

use std::any::Any;
use std::ops::{Deref, DerefMut};

use actor::{Name, Reply};
use net::{AddressKey, ConnRef};
use stdx::time::Moment;
use wire::{Message, Stanza};
use xml::Frame;
use xmpp::error::{Condition, StanzaError};
use xmpp::stream::LoginEnd;

use self::credit::Debt;
use crate::guard::{Charge, Generation};
use crate::operator::{AdminAnswer, AdminCommand};

/// What a connection says of a session that it had at another home.
pub(crate) struct Introduced {
    /// The connection.
    pub(crate) conn: ConnRef,
    /// What proves whose it is.
    pub(crate) proof: Box<str>,
    /// Up to where its client was written and has acknowledged, and what of it was recorded.
    pub(crate) counts: wire::Counts,
    /// So many of its client's stanzas were done, recorded or not.
    pub(crate) done: Option<u32>,
    /// Answers to requests that were left without one, and the counts of those.
    pub(crate) unanswered: Vec<(u32, Vec<u8>)>,
    /// It is gone by now, and says only what it knew: as [`UserMsg::Closed`], whether its link was
    /// lost.
    pub(crate) closed: Option<bool>,
}

/// The mailbox type of an entity.
pub(crate) enum UserMsg {
    /// What another entity says.
    Said(Said),
    /// A connection wants the keys that its client's password is checked against.
    Credentials {
        /// The connection that asks; answered by `Control::Keys`.
        conn: ConnRef,
        /// Where it comes from, unless many clients may come from there.
        from: Option<AddressKey>,
    },
    /// A connection's login attempt ended; failures pace the next ones.
    LoginEnded {
        /// The connection.
        conn: ConnRef,
        /// How.
        end: LoginEnd,
    },
    /// Where the owner logged in from, as the store knows it.
    KnownAddresses(Box<Result<Vec<store::KnownAddress>, store::StoreError>>),
    /// An authenticated connection asks for a resource (RFC 6120 section 7).
    Bind {
        /// The connection, already at home with this user where the node allows it.
        conn: ConnRef,
        /// The resource that the client would like.
        resource: Option<Box<str>>,
        /// When its login began.
        begun: Generation,
    },
    /// An authenticated connection asks for a session of before (XEP-0198 section 5).
    Resume {
        /// The connection, already at home with this user where the node allows it.
        conn: ConnRef,
        /// Its `<resume/>`.
        request: Frame,
        /// When its login began.
        begun: Generation,
    },
    /// A connection that outlived the home of this user wants to go on with its session.
    Introduced(Box<Introduced>),
    /// The connection has written the result of its bind: from now on it may be written to.
    Started {
        /// The connection of the session.
        conn: ConnRef,
    },
    /// A stanza from one of the user's own sessions, its `from` stamped, its `to` normalised.
    Stanza {
        /// The connection of the session.
        conn: ConnRef,
        /// The stanza.
        frame: Frame,
    },
    /// A stanza of a session with stream management was malformed: it counts all the same, and so
    /// does the answer.
    Refused {
        /// The connection of the session.
        conn: ConnRef,
        /// The error.
        answer: Vec<u8>,
    },
    /// A session's request was handled by a home before that died before it was answered.
    LostAnswer {
        /// The connection of the session.
        conn: ConnRef,
        /// What its client is told.
        answer: Vec<u8>,
    },
    /// A connection of this user is gone.
    Closed {
        /// The connection that was.
        conn: ConnRef,
        /// Nobody ended its stream: its session may be resumed, if it can be.
        is_lost: bool,
    },
    /// Rooms that were asked by sessions may be asked again.
    RoomsDue,
    /// What the entity tells itself.
    Own(Own),
    /// The next part of what leaves a room or a service.
    GoOn,
    /// The store could not be read a moment ago: once more.
    LoadAgain,
    /// A page of the log could not be read a while ago: once more.
    ReadAgain,
    /// An append of this user was decided.
    Decided {
        /// Which one.
        ticket: Ticket,
        /// Whether it is durable, and if not, why.
        result: Result<(), AppendError>,
    },
    /// The oldest entries of the log.
    Oldest(Box<Result<Vec<store::LogEntry>, store::StoreError>>),
    /// Something of what is handed over is due: an answer, or a retry.
    OutboxDue,
    /// A message that was handed over has not reached its recipient's home.
    CameBack(Box<CameBack>),
    /// Cursors that moved are recorded.
    Progress,
    /// Its range is about to move to another shard: nothing shall be left to record.
    Leaves,
    /// A session has been without a connection for as long as it may, unless it had one meanwhile.
    Expire {
        /// The session.
        number: u32,
        /// When its link was lost.
        since: Moment,
    },
    /// The node has started, and the user's log has something to be done.
    Wake,
    /// A destination that was away may be there again, or what waits for it may have to come back:
    /// the user tries it. Answered when he does.
    Called(Reply<()>),
    /// The oldest entry of the user's log may be older than any is kept.
    Aged,
    /// The answer to an IQ that had to wait for the store; `None` if somebody else gave it.
    Answer(Option<Box<LateAnswer>>),
    /// Questions that waited for their clients to read may be asked.
    AskAgain,
    /// An administrator's command.
    Admin {
        /// What to do.
        command: Box<AdminCommand>,
        /// Where the answer goes, after the commit.
        reply: Reply<AdminAnswer>,
    },
    /// The keys of an account that was loaded before, for a further login.
    Keys {
        /// The connection that asked.
        conn: ConnRef,
        /// The answer.
        keys: Box<control::Keys>,
        /// When it asked.
        begun: Generation,
    },
    /// The keys of a new password have been derived (XEP-0077 section 3.3).
    NewPassword(Box<NewPassword>),
    /// The next paced login attempt may be answered.
    NextLogin,
    /// The user has been idle for a while.
    Idle,
}

/// Each place of a mailbox takes this: what few messages need belongs in a box.
const _: () = assert!(size_of::<UserMsg>() <= 72);

impl UserMsg {
    /// What an entity tells itself.
    pub(crate) fn own(word: impl Any + Send) -> UserMsg {
        UserMsg::Own(Own(Box::new(word)))
    }
}

/// What an entity tells itself: what the store says to what it asked, or a timer. Its kind alone
/// knows what is in it. One that was left by an entity of another kind is dropped.
pub(crate) struct Own(Box<dyn Any + Send>);

impl Own {
    /// What is in it, if it is of this kind.
    pub(crate) fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }

    /// The same.
    pub(crate) fn take<T: Any>(self) -> Option<T> {
        self.take_or().ok()
    }

    /// The same, or the whole of it.
    pub(crate) fn take_or<T: Any>(self) -> Result<T, Own> {
        self.0.downcast().map(|word| *word).map_err(Own)
    }
}

/// A password whose keys have been derived.
pub(crate) struct NewPassword {
    /// The request.
    pub frame: Frame,
    /// Who made it.
    pub conn: Option<ConnRef>,
    /// Its keys, one for each hash.
    pub scram: Vec<store::ScramKeys>,
    /// When it was asked for.
    pub begun: Generation,
    /// The credit of the request.
    pub debt: Option<Debt>,
}

/// An answer that had to wait, with the question it belongs to.
pub(crate) struct LateAnswer {
    /// The question.
    pub frame: Frame,
    /// The owner's connection, or `None` if somebody else asked.
    pub conn: Option<ConnRef>,
    /// Stanzas that go before it.
    pub leading: Vec<Vec<u8>>,
    /// The answer.
    pub answer: Result<Vec<u8>, StanzaError>,
    /// The credit of the request, which comes back with the answer.
    pub(crate) debt: Option<Debt>,
    /// What its client's address is charged for it.
    pub(crate) charge: Option<Charge>,
}

/// What another entity says, and what is owed for it here.
#[derive(Debug)]
pub(crate) struct Said {
    /// What it says.
    pub message: Message,
    /// The credit of a stanza that was passed on, if it is in no log: it comes back when the
    /// recipient's home has taken the stanza, wherever that ends. Between nodes it stays behind,
    /// under a number ([`wire::Credit`]).
    pub debt: Option<Box<Debt>>,
}

impl From<Message> for Said {
    fn from(message: Message) -> Said {
        Said {
            message,
            debt: None,
        }
    }
}

impl From<Delivery> for Said {
    fn from(delivery: Delivery) -> Said {
        Said {
            message: Message::Stanza(delivery.stanza),
            debt: delivery.debt,
        }
    }
}

/// A message of a user's log that came back on its way, or waited there.
pub(crate) struct CameBack {
    /// Whom it is for.
    pub(crate) to: Name,
    /// The message, with the attempt that it is.
    pub(crate) stanza: Stanza,
}

/// A stanza on its way to an entity.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// The stanza.
    pub stanza: Stanza,
    /// [`Said::debt`].
    pub debt: Option<Box<Debt>>,
}

/// The same stanza once more. Its credit comes back once.
impl Clone for Delivery {
    fn clone(&self) -> Self {
        Delivery {
            stanza: self.stanza.clone(),
            debt: None,
        }
    }
}

impl Deref for Delivery {
    type Target = Stanza;

    fn deref(&self) -> &Stanza {
        &self.stanza
    }
}

impl DerefMut for Delivery {
    fn deref_mut(&mut self) -> &mut Stanza {
        &mut self.stanza
    }
}

impl From<Stanza> for Delivery {
    fn from(stanza: Stanza) -> Delivery {
        Delivery { stanza, debt: None }
    }
}

impl Delivery {
    /// A stanza that is in no log.
    pub(crate) fn new(resource: Option<Box<str>>, frame: Frame) -> Self {
        Stanza::new(resource, frame).into()
    }
}

/// Identifies one append of a shard's actors, or one question of
/// [`Port::await_settled`](crate::journal::Port::await_settled). Not given out again while the word
/// about it may be under way: what an actor left in its mailbox goes to its next life, which must
/// not take it for a word about an append of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Ticket(pub u32);

/// Why an append did not happen. But for [`AppendError::Failed`] it is certain that it did not, and
/// never will.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AppendError {
    /// Too much waits already ([`crate::options::Commits`]): try again later.
    Busy,
    /// Another home has taken the range since the entity was loaded, or an append before this one
    /// failed.
    Fenced,
    /// The storage has no room.
    Full,
    /// The storage cannot be written to for the moment.
    Unavailable,
    /// The records are wrong, or meet damaged data.
    Invalid,
    /// Nobody can say whether it did: the answer is lost. It will not happen any more.
    Failed,
}

impl AppendError {
    /// What the sender of the stanza is told.
    pub(crate) fn to_stanza_error(self) -> StanzaError {
        match self {
            AppendError::Busy | AppendError::Full | AppendError::Unavailable => {
                StanzaError::new(Condition::ResourceConstraint)
                    .with_text("The server cannot take this now; try again later.")
            }
            AppendError::Fenced | AppendError::Invalid | AppendError::Failed => {
                StanzaError::new(Condition::InternalServerError)
                    .with_text("The change could not be saved; nothing was changed.")
            }
        }
    }
}
