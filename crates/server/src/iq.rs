//! IQ stanzas that the server answers (RFC 6120 section 8.2.3): a request with whoever asks, its
//! answer, and what the store is asked in between. Who answers finds the module of the payload's
//! namespace (`user/iq.rs`, `host.rs`); nothing here knows an extension.

use std::cell::RefCell;

use net::{AddressKey, ConnRef};
use xml::Frame;
use xmpp::error::{Condition, StanzaError};
use xmpp::stanza::{self, IqType, Kind};

use crate::guard::Charge;
use crate::message::LateAnswer;
use crate::message::credit::Debt;

/// Who asks.
#[derive(Clone, Debug)]
pub enum Asker {
    /// A session of the account itself.
    Owner(ConnRef),
    /// Somebody else, by full address, who sees the account's presence or not.
    Other {
        /// Whether the account lets them see its presence.
        is_subscriber: bool,
    },
}

impl Asker {
    /// Whether it is the account's owner.
    pub fn is_owner(&self) -> bool {
        matches!(self, Asker::Owner(_))
    }

    /// The owner's connection.
    pub fn conn(&self) -> Option<ConnRef> {
        match self {
            Asker::Owner(conn) => Some(*conn),
            Asker::Other { .. } => None,
        }
    }
}

/// One question.
pub struct Request<'a> {
    /// The whole stanza.
    pub frame: &'a Frame,
    /// Its one child.
    pub payload: xml::Child<'a>,
    /// `type='set'` rather than `get`.
    pub is_set: bool,
    /// Who asks.
    pub asker: Asker,
    debt: RefCell<Option<Debt>>,
}

impl<'a> Request<'a> {
    /// One that came with the credit of a connection.
    pub(crate) fn new(
        frame: &'a Frame,
        (payload, is_set): (xml::Child<'a>, bool),
        asker: Asker,
        debt: Option<Debt>,
    ) -> Request<'a> {
        Request {
            frame,
            payload,
            is_set,
            asker,
            debt: RefCell::new(debt),
        }
    }

    /// The credit of the owner's connection for this request: whoever answers later keeps it until
    /// then. Once.
    pub(crate) fn take_debt(&self) -> Option<Debt> {
        self.debt.borrow_mut().take()
    }

    /// The payload as a tree; `bad-request` if it is beyond what the tree parser takes.
    ///
    /// # Errors
    /// `bad-request`.
    pub fn tree(&self) -> Result<minidom::Element, StanzaError> {
        self.payload
            .to_xml()
            .parse()
            .map_err(|_| StanzaError::new(Condition::BadRequest))
    }
}

/// What a module answers.
pub enum Answer {
    /// `type='result'` with this payload, empty for none.
    Result(Vec<u8>),
    /// `type='error'`.
    Error(StanzaError),
    /// The answer comes later, as a [`LateAnswer`].
    Later,
}

impl From<StanzaError> for Answer {
    fn from(error: StanzaError) -> Self {
        Answer::Error(error)
    }
}

impl From<Result<Vec<u8>, StanzaError>> for Answer {
    fn from(result: Result<Vec<u8>, StanzaError>) -> Self {
        result.map_or_else(Answer::Error, Answer::Result)
    }
}

impl Answer {
    /// An error by its condition alone.
    pub fn error(condition: Condition) -> Self {
        Answer::Error(StanzaError::new(condition))
    }

    /// A result without a payload.
    pub fn done() -> Self {
        Answer::Result(Vec::new())
    }
}

/// Stanzas that go before an answer, and its payload.
pub(crate) type Found = (Vec<Vec<u8>>, Vec<u8>);

type Read = dyn FnOnce(&store::Store) -> Result<Found, StanzaError> + Send;

/// What the store is asked.
pub(crate) struct Job(Box<Read>);

impl Job {
    /// A question that is answered like this.
    pub(crate) fn new(
        job: impl FnOnce(&store::Store) -> Result<Found, StanzaError> + Send + 'static,
    ) -> Job {
        Job(Box::new(job))
    }

    /// Asks. Blocks.
    pub(crate) fn run(self, store: &store::Store) -> Result<Found, StanzaError> {
        (self.0)(store)
    }
}

/// A request that the store answers.
pub(crate) struct Question {
    about: About,
    job: Job,
}

/// A request that has no answer yet.
pub(crate) struct About {
    frame: Frame,
    conn: Option<ConnRef>,
    debt: Option<Debt>,
    charge: Option<Charge>,
}

impl About {
    /// The stanza.
    pub(crate) fn frame(&self) -> &Frame {
        &self.frame
    }

    /// With its answer.
    pub(crate) fn answer(self, found: Result<Found, StanzaError>) -> LateAnswer {
        let (leading, answer) = match found {
            Ok((leading, answer)) => (leading, Ok(answer)),
            Err(error) => (Vec::new(), Err(error)),
        };
        LateAnswer {
            frame: self.frame,
            conn: self.conn,
            leading,
            answer,
            debt: self.debt,
            charge: self.charge,
        }
    }
}

impl Question {
    /// What a request asks the store. The credit of the request stays with it.
    pub(crate) fn of_request(request: &Request<'_>, job: Job) -> Question {
        let about = About {
            frame: request.frame.clone(),
            conn: request.asker.conn(),
            debt: request.take_debt(),
            charge: None,
        };
        Question { about, job }
    }

    /// Where the client is that asks, if it is counted.
    pub(crate) fn from(&self) -> Option<AddressKey> {
        self.about.debt.as_ref().and_then(Debt::from)
    }

    /// What the client's address is charged for it until its answer has been taken.
    pub(crate) fn charged(mut self, charge: Charge) -> Question {
        self.about.charge = Some(charge);
        self
    }

    /// What one of the user's sessions asks somebody for whom the user's home answers.
    pub(crate) fn of_session(frame: Frame, conn: ConnRef, job: Job) -> Question {
        let about = About {
            frame,
            conn: Some(conn),
            debt: None,
            charge: None,
        };
        Question { about, job }
    }

    /// The owner's session that asks.
    pub(crate) fn conn(&self) -> Option<ConnRef> {
        self.about.conn
    }

    /// The stanza.
    pub(crate) fn frame(&self) -> &Frame {
        &self.about.frame
    }

    /// It is not asked.
    pub(crate) fn refused(self, error: StanzaError) -> LateAnswer {
        self.about.answer(Err(error))
    }

    /// The stanza, whose credit stays with the question, and what is to be done for it.
    pub(crate) fn into_parts(self) -> (About, Job) {
        (self.about, self.job)
    }
}

/// Whether a stanza gets an answer, whatever comes (RFC 6120 section 8.2.3).
pub(crate) fn is_request(frame: &Frame) -> bool {
    let kind = stanza::parse_kind(frame);
    matches!(kind, Ok(Kind::Iq(IqType::Get | IqType::Set)))
}

/// The one child of a request (RFC 6120 section 8.2.3 rule 3, checked at the edge).
pub(crate) fn payload(frame: &Frame) -> Option<xml::Child<'_>> {
    frame.children().next()
}

/// The stanza that carries an answer.
pub(crate) fn reply_of(request: &Frame, answer: Answer) -> Option<Frame> {
    match answer {
        Answer::Result(payload) => stanza::result(request, &payload),
        Answer::Error(error) => xmpp::error::reply(request, &error),
        Answer::Later => None,
    }
}
