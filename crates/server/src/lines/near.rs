//! What a connection at this node keeps so that its stream outlives a crash of its account's actor
//! (docs/decisions/0136): up to which count its client was written, and the client's elements that
//! no record says are handled. The stream and the account's actor, which share a shard, each tell
//! what they know, as for a client at another node ([`super::Marks`]). Here nothing has to be
//! marked in bytes: elements are kept as frames, which share their memory with the actor's mailbox,
//! and are handed in again.
//!
//! | state | event | next state | effect |
//! |---|---|---|---|
//! | with its actor | that crashes, and what the client was written is certain | orphan | the client is not read; it introduces itself to the account's next incarnation |
//! | orphan | the session goes on | with its actor | what no record covers is handed in again |
//! | orphan | the actor cannot say now, or crashes too | orphan | it asks again in a moment |
//! | orphan | its client goes | (ended) | the next incarnation is told what that has acknowledged |
//! | orphan | the session may not go on, or nobody says so in time | (ended) | the error that the actor says |

use std::collections::VecDeque;
use std::time::Duration;

use actor::Name;
use stdx::time::Moment;
use wire::Counts;
use xml::Frame;
use xmpp::error::{Condition, StanzaError};
use xmpp::ns;

use super::requests::{Requests, lost_answer};
use crate::limits::LineLimits;

/// A client's element, as its account's actor is told of it.
#[derive(Clone, Debug)]
pub(crate) enum Element {
    /// As the client said it.
    Stanza(Frame),
    /// A stanza that the stream answered, or that has had its answer: it only counts.
    Answered(Vec<u8>),
}

impl Element {
    fn bytes(&self) -> usize {
        match self {
            Element::Stanza(frame) => frame.as_bytes().len(),
            Element::Answered(answer) => answer.len(),
        }
    }
}

/// What the next incarnation of an account's actor is told.
pub(crate) struct Introduction {
    /// What proves whose the connection is.
    pub(crate) proof: Box<str>,
    pub(crate) counts: Counts,
    /// Errors for requests that the crash left without an answer, with the counts of those: only
    /// their client knows whether to ask again.
    pub(crate) unanswered: Vec<(u32, Vec<u8>)>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Near {
    /// Handed in, and not taken by the actor.
    handed: VecDeque<Element>,
    /// Taken last, unless it has a count.
    current: Option<Element>,
    /// Handled, and no record says so.
    counted: VecDeque<Counted>,
    /// Bytes of those.
    bytes: usize,
    /// A record was asked for because these are many.
    is_asked: bool,
    /// Up to here something was not kept that no record covers.
    missing: Option<u32>,
    /// Requests to the account itself that have no answer yet.
    requests: Requests,
    session: Option<Session>,
    /// Its actor has crashed, and the next one has not taken it.
    is_orphan: bool,
    /// Since when it has looked for one that serves it.
    since: Moment,
    /// When one took it last.
    adopted: Option<Moment>,
    /// It has followed its account to this shard, and waits for it.
    has_followed: bool,
    /// What was handed in again then is in no record yet.
    is_stuck: bool,
    /// The count of the stanza that was taken last when the actor panicked, and how often that was
    /// so.
    suspect: (u32, u8),
}

/// A stanza of the client that was handled.
struct Counted {
    count: u32,
    element: Element,
    /// It is a request whose answer is waited for here.
    is_request: bool,
}

/// A session whose stanzas are counted, and which can be resumed.
struct Session {
    user: Name,
    /// What proves that the connection is its.
    proof: Box<str>,
    counts: Counts,
}

impl Near {
    /// The stream hands an element in.
    pub(crate) fn hands_in(&mut self, element: Element, limits: &LineLimits) {
        self.handed.push_back(element);
        if self.handed.len() > limits.counted_max {
            // More than any window holds: it ends with its actor.
            self.handed = VecDeque::new();
            self.session = None;
        }
    }

    /// The actor takes an element. What was handed in before anything was kept is not here; and
    /// what an actor left that crashed is handed in again, so that its successor only drops it.
    pub(super) fn takes(&mut self, taken: Option<&Frame>) {
        let is_next = match (self.handed.front(), taken) {
            (Some(Element::Stanza(next)), Some(taken)) => next.is_same(taken),
            (Some(Element::Answered(_)), None) => true,
            _ => false,
        };
        if self.is_orphan || !is_next {
            return;
        }
        // Acknowledgements are not handed in again: what was acknowledged is noted, and what is
        // asked for is said unasked.
        let is_kept = !taken.is_some_and(|taken| taken.is_of(ns::STREAM_MANAGEMENT));
        self.current = self.handed.pop_front().filter(|_| is_kept);
        if self.handed.is_empty() && self.handed.capacity() > 16 {
            self.handed = VecDeque::new();
        }
    }

    /// The element that was taken is a stanza with this count.
    pub(super) fn counts(&mut self, inbound: u32, bytes_max: usize, limits: &LineLimits) {
        if self.is_orphan {
            return;
        }
        let Some((element, session)) = self.current.take().zip(self.session.as_ref()) else {
            return;
        };
        let is_request = match &element {
            Element::Stanza(frame) => {
                let most = limits.requests_max;
                let request = (inbound, frame);
                self.requests.waits_for(&session.user, request, most)
            }
            Element::Answered(_) => false,
        };
        self.bytes += element.bytes();
        self.counted.push_back(Counted {
            count: inbound,
            element,
            is_request,
        });
        while self.counted.len() > limits.counted_max || self.bytes > bytes_max {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some(first) = self.counted.pop_front() {
            self.bytes -= first.element.bytes();
            self.missing = Some(first.count);
        }
    }

    /// From behind the element that was taken a session's stanzas are counted.
    pub(super) fn begins(&mut self, (user, proof): (&Name, &str), counts: Counts) {
        self.session = Some(Session {
            user: Name::clone(user),
            proof: proof.into(),
            counts,
        });
        if !self.is_orphan {
            self.current = None;
            self.missing = None;
        }
    }

    /// They are not, after all.
    pub(super) fn begins_not(&mut self) {
        self.session = None;
    }

    /// Whether a record should say what was handled.
    pub(super) fn owes_record(&mut self, limits: &LineLimits) -> bool {
        let is_due = !self.is_asked && self.bytes as u64 > limits.unrecorded_max;
        self.is_asked |= is_due;
        is_due
    }

    /// A record says that so many stanzas were handled.
    pub(super) fn recorded(&mut self, inbound: u32) {
        let Some(session) = &mut self.session else {
            return;
        };
        session.counts.inbound = inbound;
        self.is_stuck = false;
        let is_covered = |count: u32| is_up_to(count, inbound);
        while let Some(first) = self.counted.pop_front_if(|first| is_covered(first.count)) {
            self.bytes -= first.element.bytes();
        }
        self.missing.take_if(|count| is_covered(*count));
        self.is_asked = false;
        if self.counted.is_empty() && self.counted.capacity() > 4 {
            self.counted = VecDeque::new();
        }
    }

    /// The client was written everything up to a count.
    pub(super) fn wrote(&mut self, sent: u32, acked: u32) {
        if let Some(session) = &mut self.session {
            (session.counts.sent, session.counts.acked) = (sent, acked);
        }
    }

    /// It has acknowledged so much of that.
    pub(super) fn acknowledged(&mut self, acked: u32) {
        if let Some(session) = &mut self.session {
            session.counts.acked = acked;
        }
    }

    /// The client was written a stanza that is in no log: the answer to one of its requests?
    pub(super) fn answered(&mut self, stanza: &[u8]) {
        if let Some(session) = &self.session {
            let _ = self.requests.answered(&session.user, stanza);
        }
    }

    /// Whether its stream outlives a crash of the actor.
    pub(super) fn can_outlive(&self) -> bool {
        self.is_kept() && self.missing.is_none()
    }

    /// Whether it does, once a record covers what is missing.
    pub(super) fn is_kept(&self) -> bool {
        self.session.is_some()
    }

    /// The actor has crashed. A stanza at which it panics again and again is handed in no more.
    pub(super) fn crashed(&mut self, has_panicked: bool) {
        if has_panicked && !self.is_orphan {
            let last = self.counted.back().map(|last| last.count);
            self.suspect = match last {
                Some(last) if self.suspect.0 == last => (last, self.suspect.1.saturating_add(1)),
                Some(last) => (last, 1),
                None => (0, 0),
            };
        }
        self.is_orphan = true;
    }

    /// It looks for the next incarnation: at once, or after a pause if one took it less than `soon`
    /// ago; then it has looked all the time, if nothing came of that.
    pub(crate) fn looks(&mut self, now: Moment, soon: Duration) -> bool {
        let is_soon = |adopted| now.saturating_since(adopted) < soon;
        let is_again = self.adopted.is_some_and(is_soon);
        self.is_orphan = true;
        if !is_again || !self.is_stuck {
            self.since = now;
        }
        is_again
    }

    /// It is on the shard where its account has gone.
    pub(crate) fn follows(&mut self) {
        self.has_followed = true;
    }

    /// For how long it waited, if it has followed its account.
    pub(crate) fn waited(&mut self, now: Moment) -> Option<Duration> {
        let has_followed = std::mem::take(&mut self.has_followed);
        has_followed.then(|| now.saturating_since(self.since))
    }

    /// Since when it has looked.
    pub(crate) fn since(&self) -> Moment {
        self.since
    }

    /// What the next incarnation is told.
    pub(crate) fn introduction(&self) -> Option<Introduction> {
        let session = self.session.as_ref().filter(|_| self.can_outlive())?;
        let unanswered = self.requests.iter();
        let unanswered =
            unanswered.filter_map(|(count, request)| Some((*count, lost_answer(request)?)));
        Some(Introduction {
            proof: session.proof.clone(),
            counts: session.counts,
            unanswered: unanswered.collect(),
        })
    }

    /// Its client is gone, and its actor too: gives what the next incarnation is to know. Up to
    /// where the client has acknowledged, nobody else knows.
    pub(crate) fn last_words(&self) -> Option<Introduction> {
        let session = self.session.as_ref().filter(|_| self.is_orphan)?;
        Some(Introduction {
            proof: session.proof.clone(),
            counts: session.counts,
            unanswered: Vec::new(),
        })
    }

    /// The next incarnation goes on with it, and so many of its client's stanzas are handled: gives
    /// what is to be handed in again.
    pub(crate) fn goes_on(
        &mut self,
        inbound: u32,
        now: Moment,
        limits: &LineLimits,
    ) -> Vec<Element> {
        self.adopted = Some(now);
        self.is_orphan = false;
        self.is_asked = false;
        self.bytes = 0;
        let requests = std::mem::take(&mut self.requests);
        // Those that are handed in again wait from then on. The others are answered with an error,
        // by this incarnation or, should it crash before that has left, by the one behind it.
        self.requests = requests.up_to(inbound);
        let (suspect, panics) = self.suspect;
        let counted = std::mem::take(&mut self.counted).into_iter();
        let counted = counted.filter(|one| !is_up_to(one.count, inbound));
        let again = counted.map(|one| match one.element {
            Element::Stanza(frame) if panics >= limits.panics_max && one.count == suspect => {
                let error = StanzaError::new(Condition::InternalServerError);
                let answer = xmpp::error::reply(&frame, &error);
                Element::Answered(answer.map_or_else(Vec::new, |it| it.as_bytes().to_vec()))
            }
            // It was carried out.
            Element::Stanza(_) if one.is_request && !requests.is_open(one.count) => {
                Element::Answered(Vec::new())
            }
            element => element,
        });
        let mut again: Vec<Element> = again.collect();
        again.extend(self.current.take());
        again.extend(std::mem::take(&mut self.handed));
        self.is_stuck = !again.is_empty();
        again
    }
}

/// Whether a count is not behind another one.
pub(super) fn is_up_to(count: u32, other: u32) -> bool {
    other.wrapping_sub(count) <= u32::MAX / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: LineLimits = LineLimits::USUAL;

    /// A connection whose actor has taken a request and has not answered it; and the request.
    fn after_a_request() -> (Near, Frame) {
        let ask = b"<iq xmlns='jabber:client' type='get' id='q'><q xmlns='q'/></iq>";
        let ask = Frame::parse(ask.to_vec()).expect("a stanza");
        let mut near = Near::default();
        near.begins((&"a@x".into(), "proof"), Counts::default());
        near.hands_in(Element::Stanza(ask.clone()), &USUAL);
        near.takes(Some(&ask));
        near.counts(1, 1_000, &USUAL);
        (near, ask)
    }

    fn unanswered(near: &Near) -> Option<usize> {
        near.introduction().map(|one| one.unanswered.len())
    }

    /// Goal: a request that a record says was handled is answered by the next incarnation, or by
    /// the one behind it if that one crashes too before the answer has left; and once.
    #[test]
    fn a_request_without_an_answer_outlives_each_crash() {
        let (mut near, _) = after_a_request();
        near.recorded(1);
        for _ in 0..3 {
            near.crashed(false);
            assert_eq!(unanswered(&near), Some(1));
            assert!(near.goes_on(1, Moment::ZERO, &USUAL).is_empty());
        }
        near.answered(b"<iq type='error' id='q' to='a@x/r'/>");
        near.crashed(false);
        assert_eq!(unanswered(&near), Some(0));
    }

    /// Goal: one that no record covers is handed in again, and is not answered twice.
    #[test]
    fn a_request_without_a_record_is_handed_in_again() {
        let (mut near, ask) = after_a_request();
        near.crashed(false);
        let again = near.goes_on(0, Moment::ZERO, &USUAL);
        assert!(matches!(&again[..], [Element::Stanza(frame)] if frame.is_same(&ask)));
        near.crashed(false);
        assert_eq!(unanswered(&near), Some(0));
    }
}
