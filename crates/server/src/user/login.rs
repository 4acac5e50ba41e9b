//! Login attempts of one account: who asked for its keys, and the pace at which somebody who
//! guesses passwords is answered.

use std::collections::VecDeque;

use actor::Context;
use net::ConnRef;
use store::Account;

use super::{Phase, User};
use crate::c2s::{Control, Keys};
use crate::limits::{
    FAILED_LOGIN_PACE, FAILED_LOGIN_QUEUE, FAILED_LOGINS_FREE, FAILED_LOGINS_REMEMBERED,
};
use crate::message::UserMsg;

/// What an account remembers between login attempts. 32 bytes while nobody logs in.
#[derive(Default)]
pub(super) struct Login {
    /// The account as loaded, until its first session has been bound: most users log in once.
    account: Option<Box<Account>>,
    queue: Option<Box<VecDeque<ConnRef>>>,
    /// Connections whose keys are being read.
    reading: Option<Box<Vec<ConnRef>>>,
    failures: u32,
}

impl Login {
    pub(super) fn keep(&mut self, account: Account) {
        self.account = Some(Box::new(account));
    }

    pub(super) fn account(&self) -> Option<&Account> {
        self.account.as_deref()
    }

    /// Lets go of the keys; the next login reads them again.
    pub(super) fn forget_account(&mut self) {
        self.account = None;
    }

    pub(super) fn ended(&mut self, ok: bool) {
        self.failures = if ok {
            0
        } else {
            (self.failures + 1).min(FAILED_LOGINS_REMEMBERED)
        };
    }

    /// Time has passed without a session: failures are forgiven, so that guessing at many accounts
    /// does not keep them all in memory.
    pub(super) fn ease(&mut self) {
        self.failures = self.failures.saturating_sub(1);
    }

    pub(super) fn is_busy(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| !queue.is_empty())
            || self.failures > FAILED_LOGINS_FREE
    }

    /// Connections that wait for an answer.
    pub(super) fn take_waiting(&mut self) -> Vec<ConnRef> {
        let queue = self.queue.take().map(|queue| *queue).unwrap_or_default();
        let reading = self.reading.take().map(|reading| *reading);
        queue
            .into_iter()
            .chain(reading.unwrap_or_default())
            .collect()
    }

    fn is_paced(&self) -> bool {
        self.failures > FAILED_LOGINS_FREE
    }
}

impl User {
    /// A connection asks for the keys of this account. An account that does not exist answers in
    /// the same way and at the same pace.
    pub(super) fn credentials_wanted(&mut self, conn: ConnRef, cx: &mut Context<'_, UserMsg>) {
        if !self.login.is_paced() {
            return self.answer_login(conn, cx);
        }
        let queue = self.login.queue.get_or_insert_default();
        if queue.len() >= FAILED_LOGIN_QUEUE {
            let _ = self
                .home
                .io
                .control(cx, conn, Control::Keys(Keys::Unavailable));
            return;
        }
        queue.push_back(conn);
        if queue.len() == 1 {
            cx.send_after(FAILED_LOGIN_PACE, UserMsg::NextLogin);
        }
    }

    pub(super) fn next_login(&mut self, cx: &mut Context<'_, UserMsg>) {
        let Some(queue) = &mut self.login.queue else {
            return;
        };
        let next = queue.pop_front();
        if queue.is_empty() {
            self.login.queue = None;
            // The pace eases with time: an owner who mistyped is not kept waiting for long.
            self.login.failures = self.login.failures.saturating_sub(1);
        } else {
            cx.send_after(FAILED_LOGIN_PACE, UserMsg::NextLogin);
        }
        if let Some(conn) = next {
            self.answer_login(conn, cx);
        }
    }

    fn answer_login(&mut self, conn: ConnRef, cx: &mut Context<'_, UserMsg>) {
        let keys = match (self.phase, self.login.account()) {
            (Phase::Registered, Some(account)) if account.locked => {
                Keys::Locked(crate::c2s::credentials(account))
            }
            (Phase::Registered, Some(account)) => Keys::Known(crate::c2s::credentials(account)),
            (Phase::Registered, None) => return self.reread_account(conn, cx),
            (Phase::Absent, _) => Keys::Unknown,
            (Phase::Loading | Phase::Unreadable, _) => Keys::Unavailable,
        };
        let _ = self.home.io.control(cx, conn, Control::Keys(keys));
    }

    /// A second device of a user whose keys are no longer in memory.
    fn reread_account(&mut self, conn: ConnRef, cx: &mut Context<'_, UserMsg>) {
        let (store, name) = (self.home.store.clone(), self.name.clone());
        let read = move || match store.load_user(&name) {
            Ok(Some(state)) if state.account.locked => {
                Keys::Locked(crate::c2s::credentials(&state.account))
            }
            Ok(Some(state)) => Keys::Known(crate::c2s::credentials(&state.account)),
            Ok(None) => Keys::Unknown,
            Err(_) => Keys::Unavailable,
        };
        let map = move |keys| UserMsg::Keys {
            conn,
            keys: Box::new(keys),
        };
        self.login.reading.get_or_insert_default().push(conn);
        if cx.blocking(&self.home.reads, read, map).is_err() {
            self.keys_read(conn, Keys::Unavailable, cx);
        }
    }

    /// The keys that a connection waits for have been read, or could not be.
    pub(super) fn keys_read(&mut self, conn: ConnRef, keys: Keys, cx: &mut Context<'_, UserMsg>) {
        let Some(reading) = &mut self.login.reading else {
            return; // Of an account that has been removed since.
        };
        reading.retain(|waiting| *waiting != conn);
        if reading.is_empty() {
            self.login.reading = None;
        }
        let _ = self.home.io.control(cx, conn, Control::Keys(keys));
    }
}
