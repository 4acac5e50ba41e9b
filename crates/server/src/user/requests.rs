//! Requests to an account that the store answers: how many are read at a time, whose turn it is,
//! that nobody reads what its connection cannot be sent yet, and that addresses keep to their
//! budgets. Knows no extension.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use actor::{Context, Mail, Name};
use net::{AddressKey, ConnRef};
use telemetry::Counter;
use xml::Frame;
use xmpp::error::{Condition, StanzaError};

use super::User;
use super::asked::Asked;
use super::pep::Pep;
use super::storage::Storage;
use crate::guard::Charge;
use crate::iq::Question;
use crate::limits::{
    QUESTION_PAUSE, QUESTIONS_AT_ONCE, QUESTIONS_BACKLOG_PAUSE, QUESTIONS_OF_OTHERS, QUESTIONS_OWN,
};
use crate::message::credit::Debt;
use crate::message::{LateAnswer, UserMsg};
use crate::search;

/// What an account has only while somebody asks it something. Absent otherwise.
#[derive(Default)]
pub(crate) struct Requests {
    own: VecDeque<Question>,
    of_others: VecDeque<Question>,
    /// The last one that was read was the owner's.
    was_own: bool,
    under_way: u32,
    /// What has come for sessions while the account is read again. It counts as under way.
    put_off: Vec<LateAnswer>,
    /// Answers that connections may not have taken, the oldest first: what they are charged.
    untaken: Vec<(ConnRef, Charge)>,
    /// A timer is set after which it is looked again who may be asked for.
    is_timed: bool,
    /// What is known of the owner's private storage.
    pub(super) storage: Storage,
    /// The account's nodes, while they are in memory.
    pub(super) pep: Option<Box<Pep>>,
    /// What its sessions have asked others.
    asked: Asked,
}

impl Requests {
    /// Somebody waits for an answer, or has not been given it yet.
    pub(super) fn is_under_way(&self) -> bool {
        let waits = !self.own.is_empty() || !self.of_others.is_empty();
        waits || self.under_way > 0 || !self.untaken.is_empty()
    }

    /// Nothing is in memory but what others were asked.
    pub(super) fn is_at_rest(&self) -> bool {
        self.own.is_empty()
            && self.of_others.is_empty()
            && self.under_way == 0
            && self.untaken.is_empty()
            && !self.is_timed
            && self.storage.is_unknown()
            && self.pep.is_none()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.is_at_rest() && self.asked.is_empty()
    }
}

impl User {
    // ---- What others are asked -----------------------------------------------------------------

    /// A session asks another account something.
    pub(super) fn note_asked(&mut self, session: ConnRef, to: &str, request: &Frame) {
        let requests = self.requests.get_or_insert_default();
        requests.asked.note(session, to, request);
    }

    /// Whether a session waits for this answer.
    pub(super) fn was_asked_for(&mut self, session: ConnRef, answer: &Frame) -> bool {
        let Some(requests) = &mut self.requests else {
            return false;
        };
        let was_asked_for = requests.asked.take(session, answer);
        self.requests.take_if(|requests| requests.is_idle());
        was_asked_for
    }

    /// A session that is gone waits for nothing.
    pub(super) fn forget_asked(&mut self, session: ConnRef) {
        if let Some(requests) = &mut self.requests {
            requests.asked.forget(session);
        }
        self.requests.take_if(|requests| requests.is_idle());
    }

    // ---- What the account is asked -------------------------------------------------------------

    /// The credit of a stanza that came by the session `conn`, to be given back with its answer.
    pub(crate) fn debt(&self, conn: ConnRef) -> Option<Debt> {
        let session = self.sessions.iter().find(|session| session.conn == conn)?;
        Some(Debt::of(&self.home, session.link()?))
    }

    /// A question for the store. It is asked when it is its turn; with too many before it, it is
    /// refused.
    pub(crate) fn ask_now(&mut self, question: Question, cx: &mut Context<'_, UserMsg>) {
        let Some(question) = self.ask_behind_picture(question) else {
            return;
        };
        let requests = self.requests.get_or_insert_default();
        let (queue, max) = match question.conn() {
            Some(_) => (&mut requests.own, QUESTIONS_OWN),
            None => (&mut requests.of_others, QUESTIONS_OF_OTHERS),
        };
        if queue.len() >= max {
            cx.stats().count(Counter::QuestionsRefused);
            self.home.brake(&self.name, cx.now());
            let error = search::too_much(question.frame());
            return self.late_answer(question.refused(error), cx);
        }
        queue.push_back(question);
        self.ask_next(cx);
    }

    /// An answer has come. While the account is read again one for a session waits: it might be
    /// written with a count that the state in memory has for something else, and not the store.
    pub(super) fn answered(
        &mut self,
        mut answer: Option<LateAnswer>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let is_for_session = |answer: &mut LateAnswer| answer.conn.is_some();
        if self.is_being_read()
            && let Some(put_off) = answer.take_if(is_for_session)
        {
            return self.requests.get_or_insert_default().put_off.push(put_off);
        }
        if let Some(requests) = &mut self.requests {
            requests.under_way = requests.under_way.saturating_sub(1);
        }
        if let Some(answer) = answer {
            self.late_answer(answer, cx);
        }
        self.ask_next(cx);
    }

    /// The account was read.
    pub(super) fn give_put_off(&mut self, cx: &mut Context<'_, UserMsg>) {
        let requests = self.requests.as_mut();
        let answers = requests.map_or_else(Vec::new, |one| std::mem::take(&mut one.put_off));
        for answer in answers {
            self.answered(Some(answer), cx);
        }
    }

    /// The pause is over.
    pub(super) fn ask_again(&mut self, cx: &mut Context<'_, UserMsg>) {
        if let Some(requests) = &mut self.requests {
            requests.is_timed = false;
        }
        self.ask_next(cx);
    }

    /// Asks as many questions as may be under way.
    fn ask_next(&mut self, cx: &mut Context<'_, UserMsg>) {
        while let Some(question) = self.next_question(cx) {
            self.ask(question, cx);
        }
        self.requests.take_if(|requests| requests.is_idle());
    }

    fn next_question(&mut self, cx: &mut Context<'_, UserMsg>) -> Option<Question> {
        let mut requests = self.requests.take()?;
        // Questions end with the session that asked them.
        requests.own.retain(|question| self.is_asking(question));
        self.forget_taken(&mut requests.untaken);
        let mut at_budget = None;
        let next = match requests.under_way < QUESTIONS_AT_ONCE {
            true => self.pick(&mut requests, &mut at_budget),
            false => None,
        };
        requests.under_way += u32::from(next.is_some());
        let has_more = !(requests.own.is_empty() && requests.of_others.is_empty());
        let is_held_up = has_more && requests.under_way == 0;
        if !requests.is_timed && (is_held_up || !requests.untaken.is_empty()) {
            requests.is_timed = true;
            cx.send_after(QUESTION_PAUSE, UserMsg::AskAgain);
            match at_budget {
                _ if !is_held_up => {}
                Some(address) => {
                    cx.stats().count(Counter::QuestionsOfAddressPaused);
                    self.home
                        .brake(&Name::from(&*address.to_string()), cx.now());
                }
                // Their clients do not read what they were answered already.
                None => {
                    cx.stats().count(Counter::QuestionsPaused);
                    self.home.brake(&self.name, cx.now());
                }
            }
        }
        self.requests = Some(requests);
        next
    }

    /// Takes out the question whose turn it is, those of others and the owner's by turns. Notes an
    /// address that has to wait for its budget.
    fn pick(
        &self,
        requests: &mut Requests,
        at_budget: &mut Option<AddressKey>,
    ) -> Option<Question> {
        let own_first = !requests.was_own || requests.of_others.is_empty();
        for is_own in [own_first, !own_first] {
            let queue = match is_own {
                true => &mut requests.own,
                false => &mut requests.of_others,
            };
            let mut charge = None;
            let ready = queue.iter().position(|question| {
                let may = !is_own || self.takes_answer(question);
                charge = may.then(|| self.charge(question, at_budget)).flatten();
                charge.is_some()
            });
            let question = ready.and_then(|at| queue.remove(at));
            if let (Some(question), Some(charge)) = (question, charge) {
                requests.was_own = is_own;
                return Some(question.charged(charge));
            }
        }
        None
    }

    fn charge(&self, question: &Question, at_budget: &mut Option<AddressKey>) -> Option<Charge> {
        let from = question.from();
        if from.is_some() && from == *at_budget {
            return None;
        }
        let charge = self.home.budget(from);
        if charge.is_none() {
            *at_budget = from;
        }
        charge
    }

    /// The answer of somebody else was written to the session of a resource.
    pub(super) fn note_answer(
        &mut self,
        resource: &str,
        charge: Charge,
        cx: &mut Context<'_, UserMsg>,
    ) {
        if let Some(conn) = self.session_of(resource).map(|session| session.conn) {
            self.note_untaken(conn, charge);
            self.ask_next(cx);
        }
    }

    /// An answer was written to a session: its address is charged with it until its connection has
    /// taken it.
    pub(crate) fn note_untaken(&mut self, conn: ConnRef, charge: Charge) {
        let mut sessions = self.sessions.iter();
        let session = sessions.find(|session| session.conn == conn);
        if let Some(link) = session.and_then(|session| session.link()) {
            let requests = self.requests.get_or_insert_default();
            requests.untaken.push((link, charge));
        }
    }

    /// Gives back what connections have taken meanwhile. Each takes its answers in order.
    fn forget_taken(&self, untaken: &mut Vec<(ConnRef, Charge)>) {
        let mut left: Vec<(ConnRef, u64)> = Vec::new();
        for (link, charge) in untaken.iter_mut().rev() {
            let at = left.iter().position(|(known, _)| known == link);
            let at = at.unwrap_or_else(|| {
                let backlog = self.home.io.backlog(*link).unwrap_or_default();
                left.push((*link, backlog as u64));
                left.len() - 1
            });
            left[at].1 -= charge.left(left[at].1);
        }
        untaken.retain(|(_, charge)| charge.is_owed());
    }

    fn is_asking(&self, question: &Question) -> bool {
        let mut sessions = self.sessions.iter();
        sessions.any(|session| Some(session.conn) == question.conn())
    }

    /// Whether the session has a connection, and that is not behind with what it was sent.
    fn takes_answer(&self, question: &Question) -> bool {
        let mut sessions = self.sessions.iter();
        let session = sessions.find(|session| Some(session.conn) == question.conn());
        let link = session.and_then(|session| session.link());
        link.is_some_and(|link| {
            let backlog = self.home.io.backlog(link).unwrap_or_default();
            backlog < QUESTIONS_BACKLOG_PAUSE
        })
    }

    fn ask(&mut self, question: Question, cx: &mut Context<'_, UserMsg>) {
        let store = self.home.store.clone();
        let (about, job) = question.into_parts();
        // Whoever ends up with it answers: the reader, or this actor if there is none.
        let about = Arc::new(Mutex::new(Some(about)));
        let of_reader = Arc::clone(&about);
        let read = move || {
            let failed = || Err(StanzaError::new(Condition::InternalServerError));
            // A reader that panics must not leave the account without readers.
            let found = catch_unwind(AssertUnwindSafe(|| job.run(&store)));
            let found = found.unwrap_or_else(|_| failed());
            let about = of_reader
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            about.map(|about| Box::new(about.answer(found)))
        };
        if cx
            .blocking(&self.home.later_reads, read, UserMsg::Answer)
            .is_err()
        {
            let about = about.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(about) = about {
                let error = search::too_much(about.frame());
                self.answered(Some(about.answer(Err(error))), cx);
            }
        }
    }
}
