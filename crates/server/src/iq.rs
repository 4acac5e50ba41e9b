//! IQ stanzas that the server answers (RFC 6120 section 8.2.3): finds the module of the payload's
//! namespace, and writes its answer. Knows no extension by itself.

use std::cell::RefCell;

use actor::{Context, Mail as _};
use net::{AddressKey, ConnRef};
use store::{ArchivePrefs, Record};
use xml::Frame;
use xmpp::error::{Condition, StanzaError};
use xmpp::stanza::{self, IqType, Kind};

use crate::guard::Charge;
use crate::message::UserMsg;
use crate::modules::outcome::Reply;
use crate::modules::{self, AccountHandler, Change, Outcome, View};
use crate::user::managed::What;
use crate::user::{Debt, Effect, User};

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

impl Request<'_> {
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
    /// The answer comes later, by [`UserMsg::Answer`].
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

/// An answer that had to wait, with the question it belongs to.
pub struct LateAnswer {
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

impl About {
    /// It is refused because too much is under way.
    pub(crate) fn beyond_the_rate(self) -> LateAnswer {
        let error = crate::search::too_much(&self.frame);
        self.answer(Err(error))
    }
}

impl Question {
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

    /// Its refusal because too much is under way.
    pub(crate) fn beyond_the_rate(self) -> LateAnswer {
        self.about.beyond_the_rate()
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

impl User {
    /// A session asks its own account. True if the answer comes later, and with it the credit of
    /// the request.
    pub(crate) fn answer_own_iq(
        &mut self,
        conn: ConnRef,
        frame: &Frame,
        cx: &mut Context<'_, UserMsg>,
    ) -> bool {
        let (answer, is_owed) = self.ask_module(frame, Asker::Owner(conn), cx);
        if let Some(reply) = reply_of(frame, answer) {
            self.write_frame(conn, &reply, cx);
        }
        is_owed
    }

    /// Somebody else asks this account (RFC 6121 section 8.5.2.1.3). Who may not see its presence
    /// gets the answers of an account that does not exist: the handlers for strangers answer for
    /// both, and everything else is `service-unavailable`.
    pub(crate) fn answer_iq_of_other(&mut self, frame: &Frame, cx: &mut Context<'_, UserMsg>) {
        let from = frame
            .attr("from")
            .map(|from| from.into_owned())
            .unwrap_or_default();
        let bare = crate::address::bare(&from);
        let is_own = bare == &*self.name;
        let asker = Asker::Other {
            is_subscriber: is_own || self.is_subscriber(bare),
        };
        let (answer, _) = self.ask_module(frame, asker, cx);
        if let Some(reply) = reply_of(frame, answer) {
            self.return_to_sender(frame, reply, cx);
        }
    }

    /// The module's answer, and whether it keeps the credit of the request until later.
    fn ask_module(
        &mut self,
        frame: &Frame,
        asker: Asker,
        cx: &mut Context<'_, UserMsg>,
    ) -> (Answer, bool) {
        let Some(payload) = payload(frame) else {
            return (Answer::error(Condition::BadRequest), false);
        };
        let is_set = frame.attr_raw("type") == Some("set");
        let on = &self.home.options.modules;
        let handler = match asker {
            Asker::Other {
                is_subscriber: false,
            } => modules::for_stranger(on, payload.name(), payload.ns(), is_set),
            _ => modules::for_account(on, payload.name(), payload.ns()).or_else(|| {
                let more = self.home.options.debug_extensions.iter().copied();
                modules::handler_among(more, payload.name(), payload.ns())
            }),
        };
        let Some(handler) = handler else {
            return (Answer::error(Condition::ServiceUnavailable), false);
        };
        let is_owner = asker.is_owner();
        let debt = match asker.conn() {
            Some(conn) => self.debt(conn),
            None => self.take_asked().map(|debt| *debt),
        };
        let had_debt = debt.is_some();
        let request = Request {
            frame,
            payload,
            is_set,
            asker,
            debt: RefCell::new(debt),
        };
        let answer = match handler {
            AccountHandler::Acts(handle) => handle(self, &request, cx),
            AccountHandler::Reads(handle) => {
                let outcome = handle(&View::new(self, cx.wall()), &request);
                self.perform_outcome(outcome, &request, cx)
            }
        };
        match request.take_debt() {
            Some(debt) if is_owner => {
                debt.forgive();
                (answer, false)
            }
            // It was answered, or has no answer to wait for.
            Some(mut debt) => {
                debt.repay(&self.home, cx);
                (answer, false)
            }
            None => (answer, had_debt),
        }
    }

    /// Performs what an extension returned.
    fn perform_outcome(
        &mut self,
        outcome: Outcome,
        request: &Request<'_>,
        cx: &mut Context<'_, UserMsg>,
    ) -> Answer {
        for change in outcome.changes {
            match change {
                Change::Carbons(is_on) => {
                    self.change_session(request.asker.conn(), |session| {
                        std::mem::replace(&mut session.carbons, is_on) != is_on
                    });
                }
                Change::ArchivePrefs(prefs) => {
                    self.record(Record::ArchivePrefsPut {
                        user: String::from(&*self.name),
                        prefs: prefs.clone(),
                    });
                    let is_usual = prefs == ArchivePrefs::default();
                    self.archive_prefs = (!is_usual).then(|| Box::new(prefs));
                }
            }
        }
        match outcome.reply {
            Reply::Result(payload) => Answer::Result(payload),
            Reply::Error(error) => Answer::Error(error),
            Reply::Read(job) => self.ask_for(request, job, cx),
        }
    }

    /// An answer that had to wait has come.
    pub(crate) fn late_answer(&mut self, late: LateAnswer, cx: &mut Context<'_, UserMsg>) {
        // The credit comes back when the answer is written.
        let _debt = late.debt;
        let Some(reply) = reply_of(&late.frame, Answer::from(late.answer)) else {
            return;
        };
        match late.conn {
            Some(conn) => {
                for stanza in &late.leading {
                    self.write(conn, What::Other, cx, |out| out.extend_from_slice(stanza));
                }
                self.write_frame(conn, &reply, cx);
                if let Some(mut charge) = late.charge {
                    let leading: usize = late.leading.iter().map(Vec::len).sum();
                    charge.answered((leading + reply.as_bytes().len()) as u64);
                    self.note_untaken(conn, charge);
                }
            }
            None => self.return_to_sender(&late.frame, reply, cx),
        }
    }

    /// Asks the store on behalf of a request; the answer leaves when it has come.
    pub fn ask_store(
        &mut self,
        request: &Request<'_>,
        cx: &mut Context<'_, UserMsg>,
        job: impl FnOnce(&store::Store) -> Result<Vec<u8>, StanzaError> + Send + 'static,
    ) -> Answer {
        self.ask_store_for(request, cx, |store| {
            job(store).map(|answer| (Vec::new(), answer))
        })
    }

    /// The same for an answer that other stanzas go before, to the owner's session.
    pub(crate) fn ask_store_for(
        &mut self,
        request: &Request<'_>,
        cx: &mut Context<'_, UserMsg>,
        job: impl FnOnce(&store::Store) -> Result<Found, StanzaError> + Send + 'static,
    ) -> Answer {
        self.ask_for(request, Job::new(job), cx)
    }

    fn ask_for(
        &mut self,
        request: &Request<'_>,
        job: Job,
        cx: &mut Context<'_, UserMsg>,
    ) -> Answer {
        let question = Question {
            about: About {
                frame: request.frame.clone(),
                conn: request.asker.conn(),
                debt: request.take_debt(),
                charge: None,
            },
            job,
        };
        // Behind the commits that are under way: the answer has everything that came before.
        self.emit(Effect::Ask(Box::new(question)), cx);
        Answer::Later
    }
}

/// The stanza that carries an answer.
pub(crate) fn reply_of(request: &Frame, answer: Answer) -> Option<Frame> {
    match answer {
        Answer::Result(payload) => stanza::result(request, &payload),
        Answer::Error(error) => xmpp::error::reply(request, &error),
        Answer::Later => None,
    }
}
