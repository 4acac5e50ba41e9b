//! A BOSH session (XEP-0124, XEP-0206) as a machine without sockets: requests and what the stream
//! writes go in; answers, and requests in the order of their ids, come out. It owns ids, the
//! window, holding, repeats, pauses, keys, acknowledgements and every time limit of the session; it
//! knows no HTTP, and nothing of what the elements mean.
//!
//! | a request whose id is | becomes |
//! |---|---|
//! | the next one | taken, then held until there is something to answer with |
//! | ahead, inside of the window | kept until those before it have come |
//! | held already | the one that is held: its older connection is dropped |
//! | answered, and remembered | answered the same again |
//! | any other | the end of the session: `item-not-found` |

mod answer;
mod request;

use std::collections::VecDeque;
use std::time::Duration;

use stdx::time::Moment;
use subtle::ConstantTimeEq as _;

use answer::Creation;
pub use request::{Attributes, Request};

/// The bounds of sessions; each says what happens at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time for which a request is held at most; a client may ask for less (section 7.1).
    pub wait_max: Duration,
    /// Requests of a session that are held at a time; a client may ask for fewer.
    pub hold_max: u8,
    /// Time without a request; then the session ends (section 10).
    pub inactivity: Duration,
    /// The same for a session that polls (section 12).
    pub inactivity_polling: Duration,
    /// Time between two empty requests; a client that asks more often is refused with
    /// `policy-violation` (sections 11 and 12).
    pub polling: Duration,
    /// Pause that a client may ask for; a longer one is not granted (section 10).
    pub pause_max: Duration,
    /// Bytes of all responses that are remembered; the oldest go first, and are then
    /// `item-not-found` (section 14.3).
    pub remembered_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            wait_max: Duration::from_secs(60),
            hold_max: 2,
            inactivity: Duration::from_secs(60),
            inactivity_polling: Duration::from_secs(120),
            polling: Duration::from_secs(5),
            pause_max: Duration::from_secs(300),
            remembered_bytes_max: 256 * 1024,
        }
    }
}

/// How long the answer to a request that is not held waits for what the request causes.
const GRACE: Duration = Duration::from_millis(50);

/// Why a session ends (section 17.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The request cannot be understood.
    BadRequest,
    /// It names no domain.
    ImproperAddressing,
    /// There is no such session, or no such request in it.
    ItemNotFound,
    /// The client does what it may not.
    PolicyViolation,
    /// The server stops.
    SystemShutdown,
    /// The server has no room.
    InternalServerError,
}

impl Condition {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Condition::BadRequest => "bad-request",
            Condition::ImproperAddressing => "improper-addressing",
            Condition::ItemNotFound => "item-not-found",
            Condition::PolicyViolation => "policy-violation",
            Condition::SystemShutdown => "system-shutdown",
            Condition::InternalServerError => "internal-server-error",
        }
    }
}

/// Whether a secret that came from outside is the right one, in time that tells nothing else.
pub fn is_same_secret(given: &str, right: &str) -> bool {
    given.as_bytes().ct_eq(right.as_bytes()).into()
}

/// The answer to a request that belongs to no session.
pub fn refusal(condition: Condition) -> Vec<u8> {
    let mut body = Vec::new();
    answer::write_end(condition.as_str(), &mut body);
    body
}

/// What the caller has to do, in order. `T` names an HTTP request that waits for its answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Action<T> {
    /// Answer a request with a body.
    Answer(T, Vec<u8>),
    /// Give a request up without an answer: its client made it again elsewhere.
    Drop(T),
    /// The next request in order; its payloads are the stream's.
    Take(Request),
    /// The session is over: nothing of it is left to do.
    Over,
}

/// One session.
pub struct Session<T> {
    limits: Limits,
    wait: Duration,
    hold: u8,
    /// What its first answer says; gone with it.
    creation: Option<Box<Creation>>,
    /// The id of the last request in order.
    rid: u64,
    held: VecDeque<Held<T>>,
    /// Requests that came before their turn, at most [`Session::requests`].
    ahead: Vec<(Request, T)>,
    /// Answers of before, the latest last.
    past: VecDeque<Past>,
    /// Of the last request in order, or the one that it announced.
    key: Option<String>,
    uses_acks: bool,
    /// A response that the client misses, and when it was sent (section 9.2).
    report: Option<(u64, Moment)>,
    /// When the last request came, or the last answer left: no request is held since then.
    quiet_since: Moment,
    /// For how long that may go on.
    patience: Duration,
    last_request: Moment,
    /// The last request was empty, and so was its answer.
    last_was_empty: bool,
    /// The client has asked for the end; the stream's own is awaited.
    is_terminated: bool,
    /// Whether [`Action::Over`] has been said.
    is_over: bool,
}

struct Held<T> {
    rid: u64,
    /// `None`: its connection is gone.
    ticket: Option<T>,
    since: Moment,
    key: Option<String>,
}

struct Past {
    rid: u64,
    body: Vec<u8>,
    at: Moment,
    key: Option<String>,
}

impl<T: Copy + PartialEq> Session<T> {
    /// The session that a first request asks for, under `sid`. The request is held like any other;
    /// its answer tells what was agreed on.
    pub fn new(first: &Request, ticket: T, sid: String, limits: Limits, now: Moment) -> Self {
        let asked = &first.attributes;
        let wait = asked.wait.map_or(limits.wait_max, Duration::from_secs);
        let wait = wait.min(limits.wait_max);
        let hold = asked.hold.unwrap_or(1).min(u64::from(limits.hold_max)) as u8;
        let patience = match wait.is_zero() || hold == 0 {
            true => limits.inactivity_polling,
            false => limits.inactivity,
        };
        let uses_acks = asked.ack.is_some();
        let mut session = Session {
            wait,
            hold,
            creation: None,
            rid: first.rid,
            held: VecDeque::new(),
            ahead: Vec::new(),
            past: VecDeque::new(),
            key: asked.newkey.clone(),
            uses_acks,
            report: None,
            quiet_since: now,
            patience,
            last_request: now,
            last_was_empty: false,
            is_terminated: false,
            is_over: false,
            limits,
        };
        session.creation = Some(Box::new(Creation {
            sid,
            from: asked.to.clone(),
            ver: asked.ver,
        }));
        session.held.push_back(Held {
            rid: first.rid,
            ticket: Some(ticket),
            since: now,
            key: None,
        });
        session
    }

    /// Requests that a client may have under way (section 7.2).
    fn requests(&self) -> u64 {
        u64::from(self.hold) + 1
    }

    fn polls(&self) -> bool {
        self.hold == 0 || self.wait.is_zero()
    }

    fn inactivity(&self) -> Duration {
        match self.polls() {
            true => self.limits.inactivity_polling,
            false => self.limits.inactivity,
        }
    }

    /// A request of this session.
    pub fn handle_request(
        &mut self,
        request: Request,
        ticket: T,
        now: Moment,
        actions: &mut Vec<Action<T>>,
    ) {
        if self.is_over {
            return actions.push(Action::Answer(ticket, refusal(Condition::ItemNotFound)));
        }
        if request.rid <= self.rid {
            return self.repeat(request, ticket, now, actions);
        }
        // Nothing is taken behind the end, so that what is held until then has its bound.
        if self.is_terminated {
            return actions.push(Action::Answer(ticket, refusal(Condition::ItemNotFound)));
        }
        // One more may come if it makes room (section 11).
        let extra = request.is_terminate() || request.attributes.pause.is_some();
        if request.rid - self.rid > self.requests() + u64::from(extra) {
            return self.end(Some(ticket), Condition::ItemNotFound, now, actions);
        }
        if request.rid > self.rid + 1 {
            return self.keep_for_later(request, ticket, now, actions);
        }
        self.take(request, ticket, now, actions);
        while let Some(at) = self.next_ahead() {
            let (request, ticket) = self.ahead.swap_remove(at);
            self.take(request, ticket, now, actions);
        }
    }

    /// Whether a request with this id was taken, and nothing is known of it any more. One that
    /// comes so late was made again elsewhere long ago, or its client has lost its count.
    pub fn is_forgotten(&self, rid: u64) -> bool {
        let is_known = self.held.iter().any(|held| held.rid == rid)
            || self.past.iter().any(|past| past.rid == rid);
        rid <= self.rid && !is_known
    }

    fn next_ahead(&self) -> Option<usize> {
        let next = self.rid + 1;
        let found = self.ahead.iter().position(|(kept, _)| kept.rid == next);
        found.filter(|_| !self.is_over && !self.is_terminated)
    }

    /// Section 14.2: those before it may be on their way.
    fn keep_for_later(
        &mut self,
        request: Request,
        ticket: T,
        now: Moment,
        actions: &mut Vec<Action<T>>,
    ) {
        let same = self
            .ahead
            .iter()
            .position(|(kept, _)| kept.rid == request.rid);
        if let Some(at) = same {
            let (_, older) = self.ahead.swap_remove(at);
            actions.push(Action::Drop(older));
        }
        if self.ahead.len() as u64 > self.requests() {
            return self.end(Some(ticket), Condition::PolicyViolation, now, actions);
        }
        self.quiet_since = now;
        self.ahead.push((request, ticket));
    }

    /// Section 14.3: a request that was made before.
    fn repeat(&mut self, request: Request, ticket: T, now: Moment, actions: &mut Vec<Action<T>>) {
        let key = &request.attributes.key;
        let same_key = |kept: &Option<String>| kept.is_none() || kept == key;
        if let Some(held) = self.held.iter_mut().find(|held| held.rid == request.rid)
            && same_key(&held.key)
        {
            if let Some(older) = held.ticket.replace(ticket) {
                actions.push(Action::Drop(older));
            }
            return;
        }
        let past = self.past.iter().find(|past| past.rid == request.rid);
        match past.filter(|past| same_key(&past.key)) {
            Some(past) => {
                actions.push(Action::Answer(ticket, past.body.clone()));
                self.quiet_since = now;
            }
            None => self.end(Some(ticket), Condition::ItemNotFound, now, actions),
        }
    }

    /// The request whose turn it is.
    fn take(&mut self, request: Request, ticket: T, now: Moment, actions: &mut Vec<Action<T>>) {
        if !self.unlock(&request) {
            return self.end(Some(ticket), Condition::ItemNotFound, now, actions);
        }
        if self.is_too_often(&request, now) {
            return self.end(Some(ticket), Condition::PolicyViolation, now, actions);
        }
        self.rid = request.rid;
        self.last_request = now;
        self.last_was_empty = request.is_empty();
        self.held.push_back(Held {
            rid: request.rid,
            ticket: Some(ticket),
            since: now,
            key: request.attributes.key.clone(),
        });
        self.patience = self.inactivity();
        let pause = request.attributes.pause.map(Duration::from_secs);
        let pause = pause.filter(|pause| *pause <= self.limits.pause_max);
        self.acknowledged(request.attributes.ack);
        let keeps = match (pause, request.is_terminate()) {
            (Some(pause), _) => {
                self.patience = pause;
                0
            }
            // The end of its stream answers all that are held.
            (None, true) => {
                self.is_terminated = true;
                usize::MAX
            }
            (None, false) => usize::from(self.hold.max(1)),
        };
        while self.held.len() > keeps || (self.report.is_some() && !self.held.is_empty()) {
            self.answer_first(&[], None, now, actions);
        }
        if !request.is_empty() {
            actions.push(Action::Take(request));
        }
    }

    /// Section 15.4. The keys of a session that uses none are not looked at.
    fn unlock(&mut self, request: &Request) -> bool {
        let Request { attributes, .. } = request;
        if let Some(expected) = &self.key {
            let Some(key) = &attributes.key else {
                return false;
            };
            if !request::is_key_of(key, expected) {
                return false;
            }
            self.key = Some(key.clone());
        }
        if attributes.newkey.is_some() && self.key.is_some() {
            self.key.clone_from(&attributes.newkey);
        }
        true
    }

    /// Sections 11 and 12.
    fn is_too_often(&self, request: &Request, now: Moment) -> bool {
        let is_soon = now.saturating_since(self.last_request) < self.limits.polling;
        let is_idle = request.is_empty() && request.attributes.pause.is_none();
        if !is_idle || !is_soon {
            return false;
        }
        if self.polls() {
            return self.last_was_empty;
        }
        // This one would be as many as may be under way, none of them answered.
        self.held.len() as u64 + 1 >= self.requests()
    }

    /// Section 9.2.
    fn acknowledged(&mut self, ack: Option<u64>) {
        let Some(ack) = ack.filter(|_| self.uses_acks) else {
            return;
        };
        self.past.retain(|past| past.rid > ack);
        let missed = self.past.iter().find(|past| past.rid == ack + 1);
        self.report = missed.map(|past| (past.rid, past.at));
    }

    /// What the stream has written, whole elements: taken out of `written` as soon as there is a
    /// request to answer with it.
    pub fn handle_output(
        &mut self,
        written: &mut Vec<u8>,
        now: Moment,
        actions: &mut Vec<Action<T>>,
    ) {
        if written.is_empty() || self.is_over {
            return;
        }
        let live = self.held.iter().position(|held| held.ticket.is_some());
        if self.is_terminated && !answer::Content::of(written).is_end {
            // Section 13: the request that asks for the end is answered with it, and with all that
            // was written before.
            if live.is_none_or(|live| self.held.len() == live + 1) {
                return;
            }
        } else if self.is_terminated && live.is_none() {
            // Who asked for the end and is gone is not waited for.
            written.clear();
            return self.over(actions);
        }
        let Some(live) = live else {
            return;
        };
        // Answers keep the order of requests: the client will ask for those that it missed.
        for _ in 0..live {
            self.answer_first(&[], None, now, actions);
        }
        let content = answer::Content::of(written);
        written.clear();
        if !content.is_end {
            self.last_was_empty = false;
            return self.answer_first(&content.bytes, None, now, actions);
        }
        // What was held before is answered first; the last says that it is the end.
        let mut bytes = &content.bytes[..];
        while self.held.len() > 1 && content.condition.is_none() {
            self.answer_first(bytes, None, now, actions);
            bytes = &[];
        }
        let condition = content.condition.unwrap_or("");
        while !self.held.is_empty() {
            self.answer_first(bytes, Some(condition), now, actions);
            bytes = &[];
        }
        self.over(actions);
    }

    /// The connection of a request is gone.
    pub fn handle_lost(&mut self, ticket: T, now: Moment) {
        for held in &mut self.held {
            if held.ticket == Some(ticket) {
                held.ticket = None;
                self.quiet_since = now;
            }
        }
        self.ahead.retain(|(_, kept)| *kept != ticket);
    }

    /// Ends the session for a reason of its own, not its stream's.
    pub fn end(
        &mut self,
        offender: Option<T>,
        condition: Condition,
        now: Moment,
        actions: &mut Vec<Action<T>>,
    ) {
        while !self.held.is_empty() {
            self.answer_first(&[], Some(condition.as_str()), now, actions);
        }
        let offender = offender.into_iter();
        for ticket in offender.chain(self.ahead.drain(..).map(|(_, ticket)| ticket)) {
            actions.push(Action::Answer(ticket, refusal(condition)));
        }
        self.over(actions);
    }

    fn over(&mut self, actions: &mut Vec<Action<T>>) {
        for (_, ticket) in self.ahead.drain(..) {
            actions.push(Action::Answer(ticket, refusal(Condition::ItemNotFound)));
        }
        if !std::mem::replace(&mut self.is_over, true) {
            actions.push(Action::Over);
        }
    }

    /// Bytes of requests that came before their turn, and of answers that are remembered.
    pub fn kept_bytes(&self) -> usize {
        let ahead = self.ahead.iter().map(|(request, _)| request.body.len());
        let past = self.past.iter().map(|past| past.body.len());
        ahead.chain(past).sum()
    }

    /// Remembers none of the answers of before: whoever missed one finds the session ended.
    pub fn forget_answers(&mut self) {
        self.past.clear();
    }

    /// Whether a request waits for its answer.
    pub fn is_held(&self) -> bool {
        self.held.iter().any(|held| held.ticket.is_some())
    }

    /// When there is something to do although nothing comes.
    pub fn deadline(&self) -> Moment {
        if self.is_over {
            return Moment::FAR;
        }
        let live = self.held.iter().filter(|held| held.ticket.is_some());
        match live.map(|held| held.since).min() {
            Some(since) if self.polls() => since + GRACE,
            Some(since) => since + self.wait,
            None => self.quiet_since + self.patience,
        }
    }

    /// The moment of [`Session::deadline`] has come.
    pub fn handle_deadline(&mut self, now: Moment, actions: &mut Vec<Action<T>>) {
        while now >= self.deadline() {
            if self.held.iter().all(|held| held.ticket.is_none()) {
                // Section 10: nobody is told.
                return self.over(actions);
            }
            self.answer_first(&[], None, now, actions);
        }
    }

    /// Answers the oldest request that is held. `end`: this is the end, with a condition or, if it
    /// is empty, without.
    fn answer_first(
        &mut self,
        content: &[u8],
        end: Option<&str>,
        now: Moment,
        actions: &mut Vec<Action<T>>,
    ) {
        let Some(held) = self.held.pop_front() else {
            return;
        };
        let mut body = Vec::with_capacity(content.len() + 128);
        self.write_answer(held.rid, content, end, now, &mut body);
        if let Some(ticket) = held.ticket {
            actions.push(Action::Answer(ticket, body.clone()));
        }
        self.past.push_back(Past {
            rid: held.rid,
            body,
            at: now,
            key: held.key,
        });
        self.quiet_since = now;
        let bytes = |past: &VecDeque<Past>| past.iter().map(|past| past.body.len()).sum::<usize>();
        while self.past.len() as u64 > self.requests()
            || (self.past.len() > 1 && bytes(&self.past) > self.limits.remembered_bytes_max)
        {
            self.past.pop_front();
        }
    }
}

#[cfg(test)]
mod tests;
