//! Login attempts of one account: who asked for its keys, and when they are answered. Whose turn it
//! is, is the gate's to say (`gate.rs`); what began under an older generation of the account ends.

use std::sync::Arc;

use actor::{Context, Mail};
use net::{AddressKey, ConnRef};
use store::{Account, KnownAddress, Record, StoreError};
use telemetry::Counter;
use xmpp::stream::LoginEnd;

use super::gate::{Gate, Verdict};
use super::{Effect, Phase, User};
use crate::ending::Abort;
use crate::guard::Generation;
use crate::limits::LOGIN_PACE;
use crate::message::UserMsg;
use crate::message::control::{Control, Keys};

/// What an account remembers between login attempts. 24 bytes while nobody logs in.
#[derive(Default)]
pub(super) struct Login {
    /// The account as loaded, until its first session has been bound: most users log in once.
    account: Option<Box<Account>>,
    /// Connections whose keys are being read.
    reading: Option<Box<Vec<ConnRef>>>,
    gate: Option<Box<Gate>>,
}

impl Login {
    pub(super) fn keep(&mut self, account: Account) {
        self.account = Some(Box::new(account));
    }

    pub(super) fn account(&self) -> Option<&Account> {
        self.account.as_deref()
    }

    /// A lock, where the keys are in memory.
    pub(super) fn set_locked(&mut self, locked: bool) {
        if let Some(account) = &mut self.account {
            account.locked = locked;
        }
    }

    /// Lets go of the keys; the next login reads them again.
    pub(super) fn forget_account(&mut self) {
        self.account = None;
    }

    /// Time has passed without a session: failures are forgiven, so that guessing at many accounts
    /// does not keep them all in memory.
    pub(super) fn ease(&mut self) {
        if let Some(gate) = self.gate.take_if(|gate| !gate.has_waiting()) {
            self.put_back(gate, |gate| drop(gate.tick()));
        }
    }

    fn put_back(&mut self, mut gate: Box<Gate>, act: impl FnOnce(&mut Gate)) {
        act(&mut gate);
        if !gate.is_idle() {
            self.gate = Some(gate);
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        self.gate.is_some() || self.reading.is_some()
    }

    /// Connections that wait for an answer.
    pub(super) fn take_waiting(&mut self) -> Vec<ConnRef> {
        let gate = self.gate.take();
        let reading = self.reading.take().map(|reading| *reading);
        let waiting = gate.iter().flat_map(|gate| gate.waiting());
        waiting.chain(reading.unwrap_or_default()).collect()
    }
}

/// Days since 1970.
fn today(cx: &mut Context<'_, UserMsg>) -> u32 {
    let days = cx.wall().as_millis() / 86_400_000;
    u32::try_from(days).unwrap_or_default()
}

impl User {
    /// A connection asks for the keys of this account. An account that does not exist answers in
    /// the same way and at the same pace.
    pub(super) fn credentials_wanted(
        &mut self,
        conn: ConnRef,
        from: Option<AddressKey>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let from = from.map(|from| self.home.guard.known_as(&self.name, from));
        let was_waiting = self
            .login
            .gate
            .as_ref()
            .is_some_and(|gate| gate.has_waiting());
        let verdict = self.login.gate.get_or_insert_default().ask(conn, from);
        if verdict.let_in.is_empty() {
            cx.stats().count(Counter::LoginsPaced);
            self.home.brake(&self.name, cx.now());
        }
        self.follow_gate(verdict, was_waiting, cx);
    }

    /// A login attempt that was given the keys ended, or one that waited is gone.
    pub(super) fn login_ended(
        &mut self,
        conn: ConnRef,
        end: LoginEnd,
        cx: &mut Context<'_, UserMsg>,
    ) {
        if end == LoginEnd::Refused {
            cx.stats().count(Counter::LoginsFailed);
        }
        let Some(gate) = &mut self.login.gate else {
            return;
        };
        let was_waiting = gate.has_waiting();
        let verdict = gate.ended(conn, end);
        self.follow_gate(verdict, was_waiting, cx);
    }

    pub(super) fn next_login(&mut self, cx: &mut Context<'_, UserMsg>) {
        if let Some(gate) = &mut self.login.gate {
            let verdict = gate.tick();
            // The timer has fired: it is set again if somebody still waits.
            self.follow_gate(verdict, false, cx);
        }
    }

    /// Does what the gate says. `is_ticking`: a timer is set already.
    fn follow_gate(&mut self, verdict: Verdict, is_ticking: bool, cx: &mut Context<'_, UserMsg>) {
        for conn in verdict.let_in {
            self.answer_login(conn, cx);
        }
        for conn in verdict.refused {
            cx.stats().count(Counter::LoginsRefused);
            self.give_keys(conn, Keys::Unavailable, cx);
        }
        for conn in verdict.ended {
            cx.stats().count(Counter::LoginsRefused);
            let control = Control::Abort(Abort::LoginGivenUp);
            let _ = self.home.io.control(cx, conn, control);
        }
        let Some(gate) = &mut self.login.gate else {
            return;
        };
        if gate.has_waiting() && !is_ticking {
            cx.send_after(LOGIN_PACE, UserMsg::NextLogin);
        }
        if gate.wants_known() {
            self.read_known(cx);
        }
        self.note_known(cx);
        self.login.gate.take_if(|gate| gate.is_idle());
    }

    /// Reads where the owner logged in from, for an account that does not exist too: both take
    /// their time.
    fn read_known(&mut self, cx: &mut Context<'_, UserMsg>) {
        let (store, name) = (self.home.store.clone(), self.name.clone());
        let read = move || Box::new(store.known_addresses(&name));
        if cx
            .blocking(&self.home.reads, read, UserMsg::KnownAddresses)
            .is_err()
        {
            // Too much is read: the next login asks again, until then the owner is a stranger.
            let unread = Err(StoreError::Unavailable("too many reads wait".to_owned()));
            self.known_read(unread, cx);
        }
    }

    /// It is known where the owner logged in from.
    pub(super) fn known_read(
        &mut self,
        known: Result<Vec<KnownAddress>, StoreError>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let today = today(cx);
        let Some(gate) = &mut self.login.gate else {
            return;
        };
        match known {
            Ok(known) => {
                let verdict = gate.learn(known, today);
                self.follow_gate(verdict, true, cx);
            }
            // What cannot be read is not replaced either.
            Err(_) => gate.forget_succeeded(),
        }
    }

    fn note_known(&mut self, cx: &mut Context<'_, UserMsg>) {
        let today = today(cx);
        let note = self.login.gate.as_mut().and_then(|gate| gate.note(today));
        if let Some(known) = note.filter(|_| self.is_registered()) {
            self.record(Record::KnownAddressesPut {
                user: String::from(&*self.name),
                known,
            });
        }
    }

    fn answer_login(&mut self, conn: ConnRef, cx: &mut Context<'_, UserMsg>) {
        let is_banned = self.is_banned(cx);
        let keys = match (self.phase, self.login.account()) {
            (Phase::Registered, Some(account)) => {
                let keys = crate::keys::credentials(account);
                match account.locked || is_banned {
                    true => Keys::Locked(keys),
                    false => Keys::Known(keys),
                }
            }
            (Phase::Registered, None) => return self.reread_account(conn, cx),
            (Phase::Absent, _) => Keys::Known(self.home.guard.decoys.keys(&self.name)),
            (Phase::Loading | Phase::Unreadable, _) => Keys::Unavailable,
        };
        self.give_keys(conn, keys, cx);
    }

    pub(super) fn is_banned(&self, cx: &mut Context<'_, UserMsg>) -> bool {
        let lists = self.home.guard.bans.lists();
        lists.bans_account(&self.name, cx.wall())
    }

    fn give_keys(&mut self, conn: ConnRef, keys: Keys, cx: &mut Context<'_, UserMsg>) {
        let begun = self.generation();
        self.give_keys_of(conn, keys, begun, cx);
    }

    /// Behind the commits that are under way: nobody logs in with a password that is not durable.
    fn give_keys_of(
        &mut self,
        conn: ConnRef,
        keys: Keys,
        begun: Generation,
        cx: &mut Context<'_, UserMsg>,
    ) {
        self.emit(Effect::Control(conn, Control::Keys(keys, begun)), cx);
    }

    fn generation(&self) -> Generation {
        self.home.generations.borrow().now(self.tenure())
    }

    /// The tenure of this account's home.
    fn tenure(&self) -> u32 {
        let place = &self.home.place;
        place.tenure(place.range(&self.name))
    }

    /// Why what began then is over, if it is.
    fn ended(&self, begun: Generation) -> Option<Abort> {
        let generations = self.home.generations.borrow();
        generations.ended(&self.name, begun, self.tenure())
    }

    /// Whatever began to log in to this account must not become a session any more.
    pub(crate) fn end_generation(&mut self, why: Abort) {
        let mut generations = self.home.generations.borrow_mut();
        generations.advance(&self.name, why);
    }

    /// Whether a connection that began to log in then may have a session. If not, it ends.
    pub(super) fn may_enter(
        &mut self,
        conn: ConnRef,
        begun: Generation,
        cx: &mut Context<'_, UserMsg>,
    ) -> bool {
        let why = match self.ended(begun) {
            None if self.is_banned(cx) => Abort::Locked,
            None => return true,
            Some(why) => why,
        };
        cx.stats().count(Counter::LoginsOutdated);
        self.emit(Effect::Control(conn, Control::Abort(why)), cx);
        false
    }

    /// Whether what a client asked for then is still its to ask for.
    pub(crate) fn is_current(&self, begun: Generation) -> bool {
        self.ended(begun).is_none()
    }

    /// The generation of what is asked for now.
    pub(crate) fn current_generation(&self) -> Generation {
        self.generation()
    }

    /// A second device of a user whose keys are no longer in memory.
    fn reread_account(&mut self, conn: ConnRef, cx: &mut Context<'_, UserMsg>) {
        let (store, name) = (self.home.store.clone(), self.name.clone());
        let guard = Arc::clone(&self.home.guard);
        let begun = self.generation();
        let read = move || match store.load_user(&name) {
            Ok(Some(state)) if state.account.locked => {
                Keys::Locked(crate::keys::credentials(&state.account))
            }
            Ok(Some(state)) => Keys::Known(crate::keys::credentials(&state.account)),
            Ok(None) => Keys::Known(guard.decoys.keys(&name)),
            Err(_) => Keys::Unavailable,
        };
        let map = move |keys| UserMsg::Keys {
            conn,
            keys: Box::new(keys),
            begun,
        };
        self.login.reading.get_or_insert_default().push(conn);
        if cx.blocking(&self.home.reads, read, map).is_err() {
            self.keys_read(conn, Keys::Unavailable, begun, cx);
        }
    }

    /// The keys that a connection waits for have been read, or could not be.
    pub(super) fn keys_read(
        &mut self,
        conn: ConnRef,
        keys: Keys,
        begun: Generation,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let Some(reading) = &mut self.login.reading else {
            return; // Of an account that has been removed since.
        };
        reading.retain(|waiting| *waiting != conn);
        if reading.is_empty() {
            self.login.reading = None;
        }
        // A lock may be younger than what was read.
        let keys = match keys {
            Keys::Known(keys) if self.is_locked || self.is_banned(cx) => Keys::Locked(keys),
            keys => keys,
        };
        self.give_keys_of(conn, keys, begun, cx);
    }
}
