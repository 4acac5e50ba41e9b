//! Whose turn it is to log in to one account: a machine without time or I/O. Strangers share one
//! lane, each address that the owner logged in from has a lane of its own; in each only so many
//! logins are in doubt at a time, and further ones wait to be let in one by one. It knows neither
//! keys nor passwords.
//!
//! | event | effect |
//! |---|---|
//! | asked, at most [`LOGINS_FREE`] in doubt in its lane | let in |
//! | asked, more | waits; the known addresses are read |
//! | asked, and its lane is full | an address with two places gives one up, or it is refused |
//! | tick | one of each lane is let in; where nobody waits, a failure is forgiven |
//! | succeeded | its address is to be noted; a known lane begins anew |
//! | refused | a failure more in its lane |

use std::collections::VecDeque;

use net::ConnRef;
use store::KnownAddress;
use store::limits::KNOWN_ADDRESSES_MAX;
use xmpp::stream::LoginEnd;

use crate::limits::{
    KNOWN_DAYS, KNOWN_NOTED_DAYS, LOGIN_FAILURES_REMEMBERED, LOGINS_FREE, LOGINS_UNDER_WAY,
    LOGINS_WAITING, LOGINS_WAITING_OF_AN_ADDRESS,
};

/// An address as this account calls it: a keyed hash. `None` for one that many clients share: it is
/// always a stranger's, and may take all of their places.
pub(super) type Source = Option<u64>;

/// A connection and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Login {
    conn: ConnRef,
    from: Source,
}

/// A known address; `None` for all strangers.
type Lane = Option<u64>;

/// What is to be done for connections.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// They are given the keys.
    pub let_in: Vec<ConnRef>,
    /// They are told to try again later.
    pub refused: Vec<ConnRef>,
    /// Their login under way ends with their stream.
    pub ended: Vec<ConnRef>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Gate {
    waiting: VecDeque<Login>,
    /// Let in, and not ended.
    under_way: Vec<Login>,
    failures: Vec<(Lane, u32)>,
    /// Where the owner logged in from; `None` before that was read.
    known: Option<Vec<KnownAddress>>,
    /// It is being read.
    is_reading: bool,
    /// Where somebody logged in from who knew the password, to be noted.
    succeeded: Vec<u64>,
    /// Who was let in last among those who had waited.
    last: Option<Source>,
}

impl Gate {
    /// Whether nothing has to be remembered.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
            && self.under_way.is_empty()
            && self.failures.is_empty()
            && self.succeeded.is_empty()
    }

    /// Whether somebody waits to be let in.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether the known addresses are to be read, for [`Gate::learn`] to decide. Says so once.
    pub(super) fn wants_known(&mut self) -> bool {
        let wants =
            self.waiting.iter().any(|login| login.from.is_some()) || !self.succeeded.is_empty();
        let wants = wants && self.known.is_none() && !self.is_reading;
        self.is_reading |= wants;
        wants
    }

    /// Connections that were given nothing yet.
    pub(super) fn waiting(&self) -> impl Iterator<Item = ConnRef> {
        self.waiting.iter().map(|login| login.conn)
    }

    fn lane(&self, from: Source) -> Lane {
        let mut known = self.known.iter().flatten();
        from.filter(|from| known.any(|known| known.key == *from))
    }

    fn is_in(&self, lane: Lane, login: &Login) -> bool {
        self.lane(login.from) == lane
    }

    fn failures(&self, lane: Lane) -> u32 {
        let found = self.failures.iter().find(|(of, _)| *of == lane);
        found.map_or(0, |(_, failures)| *failures)
    }

    fn set_failures(&mut self, lane: Lane, failures: u32) {
        self.failures.retain(|(of, _)| *of != lane);
        if failures > 0 {
            let failures = failures.min(LOGIN_FAILURES_REMEMBERED);
            self.failures.push((lane, failures));
        }
    }

    /// Whether one more may be in doubt.
    fn is_free(&self, lane: Lane) -> bool {
        let under_way = self.under_way.iter();
        let under_way = under_way.filter(|login| self.is_in(lane, login)).count();
        self.failures(lane) + (under_way as u32) < LOGINS_FREE
    }

    /// A connection asks for the keys.
    pub(super) fn ask(&mut self, conn: ConnRef, from: Source) -> Verdict {
        let mut verdict = Verdict::default();
        let lane = self.lane(from);
        let login = Login { conn, from };
        let waits = self.waiting.iter().any(|other| self.is_in(lane, other));
        if !waits && self.is_free(lane) {
            self.let_in(login, &mut verdict);
        } else {
            self.queue(login, &mut verdict);
        }
        verdict
    }

    fn let_in(&mut self, login: Login, verdict: &mut Verdict) {
        let lane = self.lane(login.from);
        let mut others = self
            .under_way
            .iter()
            .filter(|other| self.is_in(lane, other));
        if others.clone().count() >= LOGINS_UNDER_WAY {
            let of = |from| {
                self.under_way
                    .iter()
                    .filter(|other| other.from == from)
                    .count()
            };
            let most = others.clone().map(|other| of(other.from)).max();
            let oldest = others.find(|other| Some(of(other.from)) == most);
            if let Some(oldest) = oldest.copied() {
                self.under_way.retain(|other| *other != oldest);
                verdict.ended.push(oldest.conn);
            }
        }
        self.under_way.push(login);
        verdict.let_in.push(login.conn);
    }

    fn places(&self, from: Source) -> usize {
        self.waiting
            .iter()
            .filter(|login| login.from == from)
            .count()
    }

    fn queue(&mut self, login: Login, verdict: &mut Verdict) {
        let lane = self.lane(login.from);
        let all = self.waiting.iter().filter(|other| self.is_in(lane, other));
        let is_shared = login.from.is_none();
        if !is_shared && self.places(login.from) >= LOGINS_WAITING_OF_AN_ADDRESS {
            return verdict.refused.push(login.conn);
        }
        if all.count() >= LOGINS_WAITING {
            // The youngest of an address with more than one place, if this one has none.
            let greedy = self
                .waiting
                .iter()
                .rposition(|other| self.is_in(lane, other) && self.places(other.from) > 1);
            let given_up = match greedy {
                Some(at) if self.places(login.from) == 0 => self.waiting.remove(at),
                _ => return verdict.refused.push(login.conn),
            };
            verdict.refused.extend(given_up.map(|login| login.conn));
        }
        self.waiting.push_back(login);
    }

    /// Time has passed: one of each lane is let in.
    pub(super) fn tick(&mut self) -> Verdict {
        let mut verdict = Verdict::default();
        let mut lanes: Vec<Lane> = Vec::new();
        for login in &self.waiting {
            let lane = self.lane(login.from);
            if !lanes.contains(&lane) {
                lanes.push(lane);
            }
        }
        for lane in &lanes {
            let mut in_lane =
                (0..self.waiting.len()).filter(|at| self.is_in(*lane, &self.waiting[*at]));
            let first = in_lane.clone().next();
            // Addresses take turns.
            let other = in_lane.find(|at| Some(self.waiting[*at].from) != self.last);
            if let Some(login) = other.or(first).and_then(|at| self.waiting.remove(at)) {
                self.last = Some(login.from);
                self.let_in(login, &mut verdict);
            }
        }
        let all = self.failures.clone();
        for (lane, failures) in all {
            if !self.waiting.iter().any(|login| self.is_in(lane, login)) {
                self.set_failures(lane, failures - 1);
            }
        }
        verdict
    }

    /// An attempt ended, or its connection is gone.
    pub(super) fn ended(&mut self, conn: ConnRef, end: LoginEnd) -> Verdict {
        self.waiting.retain(|login| login.conn != conn);
        let at = self.under_way.iter().position(|login| login.conn == conn);
        let Some(login) = at.map(|at| self.under_way.remove(at)) else {
            return Verdict::default();
        };
        let lane = self.lane(login.from);
        match end {
            LoginEnd::Refused => self.set_failures(lane, self.failures(lane) + 1),
            LoginEnd::Abandoned => {}
            LoginEnd::Succeeded => {
                if lane.is_some() {
                    self.set_failures(lane, 0);
                }
                let from = login.from.filter(|from| !self.succeeded.contains(from));
                self.succeeded.extend(from);
                self.succeeded.truncate(KNOWN_ADDRESSES_MAX);
            }
        }
        self.go_on()
    }

    /// Lets those in who wait where there is room.
    fn go_on(&mut self) -> Verdict {
        let mut verdict = Verdict::default();
        let mut at = 0;
        while let Some(login) = self.waiting.get(at).copied() {
            if self.is_free(self.lane(login.from)) {
                self.waiting.remove(at);
                self.let_in(login, &mut verdict);
            } else {
                at += 1;
            }
        }
        verdict
    }

    /// The known addresses have been read. Those who wait and are none of the strangers need not
    /// wait among them.
    pub(super) fn learn(&mut self, mut known: Vec<KnownAddress>, today: u32) -> Verdict {
        let days = KNOWN_DAYS + KNOWN_NOTED_DAYS;
        known.retain(|known| today.saturating_sub(known.day) <= days);
        self.known = Some(known);
        self.is_reading = false;
        self.go_on()
    }

    /// The list cannot be read: nothing is noted.
    pub(super) fn forget_succeeded(&mut self) {
        self.succeeded.clear();
        self.is_reading = false;
    }

    /// The list as it is to be from now on, if somebody logged in from where nobody had lately.
    pub(super) fn note(&mut self, today: u32) -> Option<Vec<KnownAddress>> {
        let known = self.known.as_mut()?;
        let mut is_new = false;
        for key in self.succeeded.drain(..) {
            let is_fresh = |known: &KnownAddress| {
                known.key == key && today.saturating_sub(known.day) < KNOWN_NOTED_DAYS
            };
            if known.iter().any(is_fresh) {
                continue;
            }
            is_new = true;
            known.retain(|known| known.key != key);
            known.push(KnownAddress { key, day: today });
        }
        known.sort_by_key(|known| std::cmp::Reverse(known.day));
        known.truncate(KNOWN_ADDRESSES_MAX);
        is_new.then(|| known.clone())
    }
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
