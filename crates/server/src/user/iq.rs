//! Requests to an account: finds the module of the payload's namespace, performs what it returns,
//! and writes its answer. Knows no extension by itself.

use actor::{Context, Mail as _};
use net::ConnRef;
use stdx::time::Timestamp;
use store::{ArchivePrefs, Record};
use xml::Frame;
use xmpp::error::{Condition, StanzaError};

use super::managed::What;
use super::session::Session;
use super::{Effect, User, acts};
use crate::address;
use crate::iq::{Answer, Asker, Found, Job, Question, Request, payload, reply_of};
use crate::message::{LateAnswer, UserMsg};
use crate::modules::outcome::Reply;
use crate::modules::{self, AccountHandler, Change, Outcome, View};

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
        let bare = address::bare(&from);
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
                let more = self.home.extensions.modules.iter().copied();
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
        let request = Request::new(frame, (payload, is_set), asker, debt);
        let answer = match handler {
            AccountHandler::Acts(act) => acts::answer(self, act, &request, cx),
            AccountHandler::Reads(handle) => {
                let outcome = handle(&self.view(cx.wall()), &request);
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

    /// What an extension sees of the account.
    fn view(&self, now: Timestamp) -> View<'_> {
        View {
            address: &self.name,
            now,
            options: &self.home.options,
            limits: self.home.limits(),
            is_available: self.sessions.iter().any(Session::is_available),
            last: self.last.as_deref(),
            archive_prefs: self.archive_prefs.as_deref(),
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
            // Its session may have ended with the account.
            Some(conn) if self.sessions.iter().all(|own| own.conn != conn) => {}
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
    pub(crate) fn ask_store(
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
        let question = Question::of_request(request, job);
        // Behind the commits that are under way: the answer has everything that came before.
        self.emit(Effect::Ask(Box::new(question)), cx);
        Answer::Later
    }
}
