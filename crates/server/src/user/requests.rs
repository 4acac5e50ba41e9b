//! Requests to an account that the store answers: how many are read at a time, whose turn it is,
//! and that nobody reads what its connection cannot be sent yet. The credit of a request comes back
//! when its answer leaves, or when it is given up, whoever forgets it. Knows no extension.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use actor::{Context, Mail};
use net::{ConnRef, RemoteIo};
use telemetry::Counter;
use xmpp::error::{Condition, StanzaError};

use super::User;
use super::storage::Storage;
use crate::c2s::C2sService;
use crate::iq::{LateAnswer, Question};
use crate::limits::{
    QUESTION_PAUSE, QUESTIONS_AT_ONCE, QUESTIONS_BACKLOG_PAUSE, QUESTIONS_OF_OTHERS, QUESTIONS_OWN,
};
use crate::message::UserMsg;

/// The credit of one stanza, which its connection gets back when this is dropped: wherever a
/// request ends, its client may send another one.
pub struct Debt {
    remote: RemoteIo<C2sService>,
    link: Option<ConnRef>,
}

impl Debt {
    /// The request was answered at once; its credit comes back as that of any stanza.
    pub(crate) fn forgive(mut self) {
        self.link = None;
    }
}

impl Drop for Debt {
    fn drop(&mut self) {
        if let Some(link) = self.link.take() {
            // A connection that is gone needs no credit.
            let _ = self.remote.credit(link, 1);
        }
    }
}

/// What an account has only while somebody asks it something. Absent otherwise.
#[derive(Default)]
pub(crate) struct Requests {
    own: VecDeque<Question>,
    of_others: VecDeque<Question>,
    /// The last one that was read was the owner's.
    was_own: bool,
    under_way: u32,
    /// A timer is set after which reading goes on.
    is_paused: bool,
    /// What is known of the owner's private storage.
    pub(super) storage: Storage,
}

impl Requests {
    fn is_idle(&self) -> bool {
        self.own.is_empty()
            && self.of_others.is_empty()
            && self.under_way == 0
            && !self.is_paused
            && self.storage.is_unknown()
    }
}

impl User {
    /// The credit of a stanza that came by the session `conn`, to be given back with its answer.
    pub(crate) fn debt(&self, conn: ConnRef) -> Option<Debt> {
        let session = self.sessions.iter().find(|session| session.conn == conn)?;
        Some(Debt {
            remote: self.home.remote.clone(),
            link: Some(session.link()?),
        })
    }

    /// A question for the store. It is asked when it is its turn; with too many before it, it is
    /// refused.
    pub(crate) fn ask_now(&mut self, question: Question, cx: &mut Context<'_, UserMsg>) {
        let requests = self.requests.get_or_insert_default();
        let (queue, max) = match question.conn() {
            Some(_) => (&mut requests.own, QUESTIONS_OWN),
            None => (&mut requests.of_others, QUESTIONS_OF_OTHERS),
        };
        if queue.len() >= max {
            cx.stats().count(Counter::QuestionsRefused);
            self.home.brake(&self.name, cx.now());
            let error = StanzaError::new(Condition::ResourceConstraint);
            return self.late_answer(question.refused(error), cx);
        }
        queue.push_back(question);
        self.ask_next(cx);
    }

    /// An answer has come.
    pub(super) fn answered(&mut self, answer: Option<LateAnswer>, cx: &mut Context<'_, UserMsg>) {
        if let Some(requests) = &mut self.requests {
            requests.under_way = requests.under_way.saturating_sub(1);
        }
        if let Some(answer) = answer {
            self.late_answer(answer, cx);
        }
        self.ask_next(cx);
    }

    /// The pause is over.
    pub(super) fn ask_again(&mut self, cx: &mut Context<'_, UserMsg>) {
        if let Some(requests) = &mut self.requests {
            requests.is_paused = false;
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
        let next = if requests.under_way >= QUESTIONS_AT_ONCE {
            None
        } else {
            let ready = requests
                .own
                .iter()
                .position(|question| self.takes_answer(question));
            let is_own = ready.is_some() && (!requests.was_own || requests.of_others.is_empty());
            requests.was_own = is_own;
            match ready.filter(|_| is_own) {
                Some(at) => requests.own.remove(at),
                None => requests.of_others.pop_front(),
            }
        };
        let has_own = !requests.own.is_empty();
        if next.is_none() && has_own && requests.under_way == 0 && !requests.is_paused {
            // Their clients do not read what they were answered already.
            cx.stats().count(Counter::QuestionsPaused);
            self.home.brake(&self.name, cx.now());
            requests.is_paused = true;
            cx.send_after(QUESTION_PAUSE, UserMsg::AskAgain);
        }
        requests.under_way += u32::from(next.is_some());
        self.requests = Some(requests);
        next
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
            .blocking(&self.home.reads, read, UserMsg::Answer)
            .is_err()
        {
            let about = about.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(about) = about {
                let error = StanzaError::new(Condition::ResourceConstraint);
                self.answered(Some(about.answer(Err(error))), cx);
            }
        }
    }
}
