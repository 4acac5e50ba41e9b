//! What the home remembers of a client's connection at another node, so that the connection can
//! outlive this home ([`wire::Mark`]): where in the client's bytes each of its stanzas ends, which
//! of them a record says were handled, which others have had their answers, and up to which count
//! the client was written. The stream and the account's actor, which share a shard, each tell what
//! they know.

use std::collections::VecDeque;

use actor::Name;
use net::ConnRef;
use wire::limits::{ANSWERED_MAX, JOIN_PART_BYTES_MAX};
use wire::{Counts, Mark, Part};
use xml::Frame;

use super::Near;
use super::near::is_up_to;
use super::requests::Requests;
use crate::limits::LineLimits;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// The edge keeps what it takes.
    pub(crate) is_kept: bool,
    /// Where elements end that the actor has not taken yet.
    ends: VecDeque<u64>,
    /// Where the one ends that it took last.
    current: u64,
    /// That one, if it is a request or an answer and has no count yet.
    taken: Option<Frame>,
    /// How the client opened its stream last.
    header: Vec<u8>,
    session: Option<Box<Session>>,
    /// The edge came from another home.
    has_outlived: bool,
    /// The edge sends what the home before has handled, which has no place here.
    skips: bool,
    /// What the edge sends begins behind this stanza, and so many came once more.
    behind: u32,
    again: u32,
    /// Requests among it that a home before has answered, by their counts.
    had_answers: Vec<u32>,
}

/// A session whose stanzas are counted, and which can be resumed.
#[derive(Debug)]
struct Session {
    user: Name,
    token: Box<str>,
    /// The edge knows of it.
    is_told: bool,
    /// Stanzas of which no record says that they were handled: their counts, and where they end.
    counted: VecDeque<(u32, u64)>,
    /// Requests to the account itself that have no answer yet.
    requests: Requests,
    /// Those that were answered since the edge was told of answers, by their counts.
    answered: Vec<u32>,
    heard: u64,
    /// A record was asked for there.
    asked: u64,
    counts: Counts,
    /// Stanzas up to this count are in a record.
    recorded: u32,
    /// What the edge was told last.
    told: Mark,
}

impl Marks {
    /// The client opens its stream.
    pub(crate) fn opened(&mut self, header: &[u8]) {
        self.header.clear();
        if header.len() <= JOIN_PART_BYTES_MAX {
            self.header.extend_from_slice(header);
        }
    }

    /// An element that ends there is handed in to the account's actor.
    pub(crate) fn hands_in(&mut self, end: u64) {
        self.ends.push_back(end);
    }

    /// The client is asked nothing in between: it resumes a session with the element that ends
    /// there.
    pub(crate) fn resumes(&mut self, end: u64) {
        self.current = end;
    }

    /// The edge keeps what it takes.
    pub(crate) fn is_kept_by_edge(&mut self) {
        self.is_kept = true;
    }

    /// A connection that outlived a home comes to this one.
    pub(crate) fn outlived(&mut self, header: &[u8], behind: u32, had_answers: Vec<u32>) {
        self.is_kept = true;
        self.has_outlived = true;
        (self.behind, self.had_answers) = (behind, had_answers);
        self.opened(header);
    }

    /// What comes is passed over up to this stanza.
    fn skips_until(&mut self, inbound: u32) {
        self.skips = self.behind != inbound;
        if let Some(session) = self.session.as_mut().filter(|_| self.skips) {
            session.counts.inbound = self.behind;
        }
    }

    /// A stanza that ends there comes once more: the home before has handled it. True if it is a
    /// request that was not answered there: whoever made it is told so.
    fn comes_again(&mut self, stanza: Option<&Frame>, end: u64, limits: &LineLimits) -> bool {
        self.again = self.again.wrapping_add(1);
        let count = self.behind.wrapping_add(self.again);
        let had_answer = self.had_answer(count);
        let Some(session) = &mut self.session else {
            return false;
        };
        let stanza = stanza.filter(|_| !had_answer);
        let most = limits.requests_max;
        let owes_answer = stanza.is_some_and(|stanza| {
            let request = (count, stanza);
            session.requests.waits_for(&session.user, request, most)
        });
        session.counts(count, end, limits);
        session.cover();
        owes_answer
    }

    /// Whether the stanza with this count is a request that a home before has answered. It is asked
    /// once.
    fn had_answer(&mut self, count: u32) -> bool {
        let at = self.had_answers.iter().position(|one| *one == count);
        at.map(|at| self.had_answers.swap_remove(at)).is_some()
    }

    /// The answer that the last one is owed finds no room.
    fn answers_not(&mut self) {
        let count = self.behind.wrapping_add(self.again);
        if let Some(session) = &mut self.session {
            session.requests.forget(count);
            session.cover();
        }
    }

    /// All of it has come.
    pub(crate) fn skipped(&mut self, end: u64) {
        self.skips = false;
        self.current = self.current.max(end);
        if let Some(session) = &mut self.session {
            session.asked = end;
        }
    }

    /// The actor takes the next element.
    fn takes(&mut self, element: Option<&Frame>) {
        let is_request = |element: &&Frame| self.session.is_some() && element.name() == "iq";
        self.taken = element.filter(is_request).cloned();
        if let Some(end) = self.ends.pop_front() {
            self.current = end;
        }
        if self.ends.is_empty() && self.ends.capacity() > 16 {
            self.ends = VecDeque::new();
        }
    }

    /// From behind the element that the actor takes now stanzas are counted.
    fn begins(&mut self, (user, token): (&Name, &str), counts: Counts) {
        self.session = Some(Box::new(Session {
            user: Name::clone(user),
            token: token.into(),
            // An edge that came with the session knows it.
            is_told: self.has_outlived,
            counted: VecDeque::new(),
            requests: Requests::default(),
            answered: Vec::new(),
            heard: self.current,
            asked: self.current,
            counts,
            recorded: counts.inbound,
            told: Mark::default(),
        }));
    }

    /// The element that was taken is a stanza with this count. True if it is a request that a home
    /// before has answered.
    fn counts(&mut self, inbound: u32, limits: &LineLimits) -> bool {
        let taken = self.taken.take();
        let Some(session) = &mut self.session else {
            return false;
        };
        session.counts(inbound, self.current, limits);
        let Some(taken) = taken else { return false };
        if self.had_answer(inbound) {
            return true;
        }
        if let Some(session) = &mut self.session {
            let most = limits.requests_max;
            let request = (inbound, &taken);
            session.requests.waits_for(&session.user, request, most);
        }
        false
    }

    /// The client was written a stanza that is in no log.
    fn answered(&mut self, stanza: &[u8]) {
        if let Some(session) = &mut self.session {
            let answered = session.requests.answered(&session.user, stanza);
            // Of more nobody is told: those are done again if this home dies before a record
            // covers them.
            session.answered.extend(answered.filter(|_| self.is_kept));
            session.answered.truncate(ANSWERED_MAX);
            if answered.is_some() {
                session.cover();
            }
        }
    }

    /// Whether a record should say what was handled.
    fn owes_record(&mut self, limits: &LineLimits) -> bool {
        let current = self.current;
        let session = self.session.as_mut().filter(|_| self.is_kept);
        session.is_some_and(|session| {
            let since = session.asked.max(session.heard);
            let is_due = current.saturating_sub(since) > limits.unrecorded_max;
            if is_due {
                session.asked = current;
            }
            is_due
        })
    }

    /// A record says that so many stanzas were handled. True if the edge should hear of it before
    /// anything else is written.
    fn recorded(&mut self, inbound: u32, limits: &LineLimits) -> bool {
        let Some(session) = &mut self.session else {
            return false;
        };
        session.recorded = inbound;
        session.cover();
        let untold = session.heard.saturating_sub(session.told.heard);
        self.is_kept && untold > limits.unrecorded_max
    }

    fn wrote(&mut self, sent: u32, acked: u32) {
        if let Some(session) = &mut self.session {
            (session.counts.sent, session.counts.acked) = (sent, acked);
        }
    }

    /// What the edge is to be told once so many bytes have been sent to it: of the session, once,
    /// and how far both directions have come.
    pub(crate) fn take_news(&mut self, at: u64) -> (Option<Part>, Option<Mark>) {
        let Some(now) = self.now(at) else {
            return (None, None);
        };
        let Some(session) = &mut self.session else {
            return (None, None);
        };
        let is_new = !std::mem::replace(&mut session.is_told, true);
        let mark = (is_new || now != session.told).then_some(now);
        session.told = now;
        let first = is_new.then(|| Part::Session {
            user: Name::clone(&session.user),
            token: session.token.clone(),
            header: std::mem::take(&mut self.header),
            mark: now,
        });
        (first, mark)
    }

    /// How far both directions have come once so many bytes have been sent, if the edge keeps what
    /// that is about. While it sends what the home before has handled, it has all of it.
    fn now(&self, at: u64) -> Option<Mark> {
        let session = self.session.as_ref().filter(|_| self.is_kept)?;
        Some(Mark {
            at,
            heard: session.heard,
            counts: session.counts,
        })
    }

    /// What goes with the next bytes, but for where they end, if the edge knows of the session; and
    /// which requests have their answers among them.
    fn mark(&self) -> Option<(Mark, Vec<u32>)> {
        let now = self.now(0).filter(|_| self.can_outlive())?;
        let answered = self
            .session
            .as_ref()
            .map(|session| session.answered.clone());
        Some((now, answered.unwrap_or_default()))
    }

    /// It went with them.
    fn marked(&mut self, at: u64) {
        let now = self.now(at);
        if let Some((session, now)) = self.session.as_mut().zip(now) {
            session.told = now;
            session.answered = Vec::new();
        }
    }

    /// Whether its edge can introduce the connection to another home.
    fn can_outlive(&self) -> bool {
        let session = self.session.as_ref();
        self.is_kept && session.is_some_and(|session| session.is_told)
    }
}

impl Session {
    /// A stanza has this count, and ends there.
    fn counts(&mut self, count: u32, end: u64, limits: &LineLimits) {
        if self.counted.len() >= limits.counted_max {
            self.counted.pop_front();
        }
        self.counted.push_back((count, end));
    }

    /// What is in a record was heard, but for what is behind a request without an answer: the edge
    /// keeps that, and the next home is the one to answer it.
    fn cover(&mut self) {
        let (recorded, open) = (self.recorded, self.requests.first());
        let is_covered = |(count, _): &mut (u32, u64)| {
            is_up_to(*count, recorded) && open.is_none_or(|open| !is_up_to(open, *count))
        };
        while let Some((count, end)) = self.counted.pop_front_if(is_covered) {
            self.heard = end;
            self.counts.inbound = count;
        }
        let inbound = self.counts.inbound;
        self.answered.retain(|count| !is_up_to(*count, inbound));
        if self.counted.is_empty() && self.counted.capacity() > 16 {
            self.counted = VecDeque::new();
        }
    }
}

impl super::Lines {
    fn marks<R>(&self, conn: ConnRef, act: impl FnOnce(&mut Marks) -> R) -> Option<R> {
        let mut far = self.marks.borrow_mut();
        if far.is_empty() {
            return None; // As on every node without others.
        }
        far.get_mut(&conn).map(|marks| act(marks))
    }

    /// For the stream.
    pub(crate) fn mark(&self, conn: ConnRef, act: impl FnOnce(&mut Marks)) {
        self.marks(conn, act);
    }

    /// For the stream: a stanza that ends there comes once more. True if it is a request that the
    /// home before has not answered.
    pub(crate) fn comes_again(&self, conn: ConnRef, stanza: Option<&Frame>, end: u64) -> bool {
        let owes_answer = self.marks(conn, |marks| marks.comes_again(stanza, end, &self.limits));
        owes_answer.unwrap_or_default()
    }

    /// The answer that such a request is owed cannot be given.
    pub(crate) fn answers_not(&self, conn: ConnRef) {
        self.marks(conn, Marks::answers_not);
    }

    /// For the actor: it takes the next element of a connection, or an answer that the stream gave
    /// in its place.
    pub(crate) fn takes(&self, conn: ConnRef, element: Option<&Frame>) {
        self.marks(conn, |marks| marks.takes(element));
        self.near(conn, |near| near.takes(element));
    }

    /// The element that was taken is a stanza with this count. Of those that no record covers so
    /// many bytes are kept. True if it is a request that has had its answer from a home before.
    pub(crate) fn counts(&self, conn: ConnRef, inbound: u32, bytes_max: usize) -> bool {
        self.near(conn, |near| near.counts(inbound, bytes_max, &self.limits));
        let had_answer = self.marks(conn, |marks| marks.counts(inbound, &self.limits));
        had_answer.unwrap_or_default()
    }

    /// From behind the element that was taken a connection's stanzas are counted.
    pub(crate) fn begins(&self, conn: ConnRef, whose: (&Name, &str), counts: Counts) {
        self.marks(conn, |marks| marks.begins(whose, counts));
        self.near(conn, |near| near.begins(whose, counts));
    }

    /// What comes is passed over up to a stanza that the home before has handled.
    pub(crate) fn skips_until(&self, conn: ConnRef, inbound: u32) {
        self.marks(conn, |marks| marks.skips_until(inbound));
    }

    /// They are not, after all, or not any more.
    pub(crate) fn begins_not(&self, conn: ConnRef) {
        self.marks(conn, |marks| marks.session = None);
        self.near(conn, Near::begins_not);
    }

    /// Whether a connection wants to hear what is recorded of its client.
    pub(crate) fn is_marked(&self, conn: ConnRef) -> bool {
        let is_far = self.marks(conn, |_| ()).is_some();
        is_far || self.near(conn, |_| ()).is_some()
    }

    /// Whether a record should say how many stanzas were handled.
    pub(crate) fn owes_record(&self, conn: ConnRef) -> bool {
        let limits = &self.limits;
        let far = self.marks(conn, |marks| marks.owes_record(limits));
        let owes = far.or_else(|| self.near(conn, |near| near.owes_record(limits)));
        owes.unwrap_or_default()
    }

    /// A record says so. True if the connection is to be told of it.
    pub(crate) fn recorded(&self, conn: ConnRef, inbound: u32) -> bool {
        self.near(conn, |near| near.recorded(inbound));
        let recorded = self.marks(conn, |marks| marks.recorded(inbound, &self.limits));
        recorded.unwrap_or_default()
    }

    /// A connection was written everything up to a count.
    pub(crate) fn wrote(&self, conn: ConnRef, sent: u32, acked: u32) {
        self.marks(conn, |marks| marks.wrote(sent, acked));
        self.near(conn, |near| near.wrote(sent, acked));
    }

    /// The client has acknowledged so much of that. An edge hears of it with what is written next.
    pub(crate) fn acknowledged(&self, conn: ConnRef, acked: u32) {
        self.near(conn, |near| near.acknowledged(acked));
    }

    /// The last of what was written is in no log.
    pub(crate) fn answered(&self, conn: ConnRef, stanza: &[u8]) {
        self.marks(conn, |marks| marks.answered(stanza));
        self.near(conn, |near| near.answered(stanza));
    }

    /// The actor of a connection has crashed: by a panic at what its client said last, or not.
    pub(crate) fn crashed(&self, conn: ConnRef, has_panicked: bool) {
        self.near(conn, |near| near.crashed(has_panicked));
    }

    /// What the edge is to be told of a connection that was sent so many bytes.
    pub(crate) fn news(&self, conn: ConnRef, at: u64) -> (Option<Part>, Option<Mark>) {
        let news = self.marks(conn, |marks| marks.take_news(at));
        news.unwrap_or_default()
    }

    /// What goes with the next bytes for its client, and which of its requests those answer.
    pub(crate) fn mark_of(&self, conn: ConnRef) -> Option<(Mark, Vec<u32>)> {
        self.marks(conn, |marks| marks.mark()).flatten()
    }

    /// Everything was sent, so many bytes by now, and whether a mark went with it.
    pub(crate) fn marked(&self, conn: ConnRef, at: u64, has_mark: bool) {
        if has_mark {
            self.marks(conn, |marks| marks.marked(at));
        }
    }

    /// Whether a connection can be introduced to another home, or to the next incarnation of its
    /// account's actor at this one.
    pub(crate) fn can_outlive(&self, conn: ConnRef) -> bool {
        let far = self.marks(conn, |marks| marks.can_outlive());
        let can = far.or_else(|| self.near(conn, |near| near.can_outlive()));
        can.unwrap_or_default()
    }

    /// Whether that may ever be so: what it takes is kept of it. Not of one over BOSH, nor of one
    /// whose socket and account are on two shards.
    pub(crate) fn is_kept(&self, conn: ConnRef) -> bool {
        let far = self.marks(conn, |marks| marks.session.is_some());
        let is_kept = far.or_else(|| self.near(conn, |near| near.is_kept()));
        is_kept.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: LineLimits = LineLimits::USUAL;

    fn counts(sent: u32, acked: u32, inbound: u32) -> Counts {
        Counts {
            sent,
            acked,
            inbound,
        }
    }

    /// Goal: what is pipelined behind the element with which counting begins has its place,
    /// whatever was handed in before; a mark names the end of what is recorded and nothing
    /// further.
    #[test]
    fn a_mark_is_at_the_end_of_what_is_recorded() {
        let mut marks = Marks::default();
        marks.opened(b"<stream:stream>");
        for end in [100, 150, 250, 350] {
            marks.hands_in(end);
        }
        marks.takes(None);
        marks.takes(None);
        marks.begins((&"a@x".into(), "token"), counts(0, 0, 0));
        marks.takes(None);
        marks.counts(1, &USUAL);
        marks.takes(None);
        marks.counts(2, &USUAL);
        assert_eq!(marks.take_news(0), (None, None), "nobody keeps it");
        marks.is_kept = true;
        let mark = |at, heard, counts| Mark { at, heard, counts };
        let first = Part::Session {
            user: "a@x".into(),
            token: "token".into(),
            header: b"<stream:stream>".to_vec(),
            mark: mark(10, 150, counts(0, 0, 0)),
        };
        let news = marks.take_news(10);
        assert_eq!(news, (Some(first), Some(mark(10, 150, counts(0, 0, 0)))));
        assert!(!marks.recorded(1, &USUAL));
        marks.wrote(5, 3);
        let news = marks.take_news(20);
        assert_eq!(news, (None, Some(mark(20, 250, counts(5, 3, 1)))));
        assert_eq!(marks.take_news(20), (None, None), "it is said once");
        // Bytes that have no count are behind a mark, too.
        let news = marks.take_news(21);
        assert_eq!(news, (None, Some(mark(21, 250, counts(5, 3, 1)))));
        marks.recorded(7, &USUAL);
        let news = marks.take_news(21);
        assert_eq!(news, (None, Some(mark(21, 350, counts(5, 3, 2)))));
    }

    /// Goal: the edge is told once, with the answers, which requests to the account itself have had
    /// them and are covered by no record; not of those that others were asked. The next home does
    /// not do these again, and nothing else that the edge says has an answer.
    #[test]
    fn what_was_answered_is_told_and_not_done_again() {
        let mut marks = Marks {
            is_kept: true,
            ..Marks::default()
        };
        let say = |marks: &mut Marks, count: u32, stanza: &str| {
            marks.takes(Some(
                &Frame::parse(stanza.as_bytes().to_vec()).expect("a stanza"),
            ));
            marks.counts(count, &USUAL)
        };
        let ask = |id: &str, to: &str| {
            format!("<iq xmlns='jabber:client' type='get' id='{id}' to='{to}'><q xmlns='q'/></iq>")
        };
        let presence = "<presence xmlns='jabber:client'/>";
        marks.begins((&"a@x".into(), "token"), counts(0, 0, 7));
        marks.take_news(0);
        let told = |marks: &Marks| marks.mark().map(|(_, answered)| answered);
        for (count, id, to) in [(8, "1", "a@x"), (10, "2", "x"), (11, "3", "b@x")] {
            assert!(!say(&mut marks, count, &ask(id, to)));
            if count == 8 {
                assert!(!say(&mut marks, 9, presence));
            }
        }
        marks.answered(b"<iq type='result' id='2'/>");
        marks.answered(b"<iq type='result' from='b@x/r' id='1'/>");
        marks.answered(b"<iq type='result' id='3'/>");
        assert_eq!(told(&marks), Some(vec![10]));
        marks.answered(b"<iq type='error' from='a@x' id='1'><error/></iq>");
        assert_eq!(told(&marks), Some(vec![10, 8]));
        marks.recorded(9, &USUAL);
        assert_eq!(told(&marks), Some(vec![10]), "a record covers the other");
        marks.marked(100);
        assert_eq!(told(&marks), Some(vec![]), "it is said once");

        let mut next = Marks::default();
        next.outlived(b"<stream:stream>", 7, vec![10, 8]);
        next.begins((&"a@x".into(), "token"), counts(0, 0, 7));
        assert!(say(&mut next, 8, &ask("1", "a@x")));
        assert!(!say(&mut next, 9, presence));
        assert!(say(&mut next, 10, &ask("2", "x")));
        assert!(!say(&mut next, 11, &ask("3", "b@x")));
    }

    /// A stanza of the account's client with this count.
    fn say(marks: &mut Marks, count: u32, stanza: &str) {
        marks.takes(Some(&parsed(stanza)));
        marks.counts(count, &USUAL);
    }

    fn parsed(stanza: &str) -> Frame {
        Frame::parse(stanza.as_bytes().to_vec()).expect("a stanza")
    }

    fn ask(id: u32) -> String {
        format!("<iq xmlns='jabber:client' type='get' id='{id}'><q xmlns='q'/></iq>")
    }

    const PRESENCE: &str = "<presence xmlns='jabber:client'/>";

    /// Goal: the edge keeps a request until it is answered, and what is behind it, whatever a
    /// record covers: the next home would not know of it otherwise.
    #[test]
    fn a_request_is_kept_until_it_is_answered() {
        let mut marks = Marks {
            is_kept: true,
            ..Marks::default()
        };
        marks.begins((&"a@x".into(), "token"), counts(0, 0, 0));
        marks.take_news(0);
        for count in 1..=4 {
            marks.hands_in(u64::from(count) * 10);
            match count {
                2 => say(&mut marks, count, &ask(count)),
                _ => say(&mut marks, count, PRESENCE),
            }
        }
        let told = |marks: &Marks| {
            let (mark, answered) = marks.mark().expect("it can outlive");
            (mark.heard, mark.counts.inbound, answered)
        };
        marks.recorded(3, &USUAL);
        assert_eq!(told(&marks), (10, 1, vec![]));
        marks.answered(b"<iq type='result' id='2'/>");
        assert_eq!(told(&marks), (30, 3, vec![]), "it is covered");
        marks.recorded(4, &USUAL);
        assert_eq!(told(&marks), (40, 4, vec![]));
    }

    /// Goal: who made a request that a home has handled and not answered is told by the next one,
    /// once; not who was answered, nor who asked others.
    #[test]
    fn an_answer_that_was_lost_is_owed() {
        let mut next = Marks::default();
        next.outlived(b"<stream:stream>", 7, vec![10]);
        next.begins((&"a@x".into(), "token"), counts(0, 0, 11));
        next.skips_until(11);
        let told = |next: &Marks| {
            let (mark, answered) = next.mark().expect("it can outlive");
            assert!(answered.is_empty(), "what is covered is not told");
            (mark.heard, mark.counts.inbound)
        };
        assert!(!next.comes_again(Some(&parsed(PRESENCE)), 10, &USUAL));
        assert!(next.comes_again(Some(&parsed(&ask(1))), 20, &USUAL));
        assert!(
            !next.comes_again(Some(&parsed(&ask(2))), 30, &USUAL),
            "it was answered"
        );
        assert!(!next.comes_again(None, 100, &USUAL));
        next.skipped(100);
        assert_eq!(told(&next), (10, 8), "another home would be asked again");
        next.answered(b"<iq type='error' id='1'/>");
        assert_eq!(told(&next), (100, 11));
    }

    /// Goal: an answer for which there is no room is not waited for.
    #[test]
    fn an_answer_that_is_not_given_is_not_waited_for() {
        let mut next = Marks::default();
        next.outlived(b"<stream:stream>", 7, vec![]);
        next.begins((&"a@x".into(), "token"), counts(0, 0, 8));
        next.skips_until(8);
        assert!(next.comes_again(Some(&parsed(&ask(1))), 20, &USUAL));
        let told = |next: &Marks| {
            next.mark()
                .map(|(mark, _)| (mark.heard, mark.counts.inbound))
        };
        assert_eq!(told(&next), Some((0, 7)));
        next.answers_not();
        assert_eq!(told(&next), Some((20, 8)));
    }

    /// Goal: of no more answers than a packet has room for an edge is told.
    #[test]
    fn answers_that_are_told_are_bounded() {
        let mut marks = Marks {
            is_kept: true,
            ..Marks::default()
        };
        marks.begins((&"a@x".into(), "token"), counts(0, 0, 0));
        marks.take_news(0);
        for count in 1..=ANSWERED_MAX as u32 + 7 {
            let ask =
                format!("<iq xmlns='jabber:client' type='get' id='{count}'><q xmlns='q'/></iq>");
            marks.takes(Some(&Frame::parse(ask.into_bytes()).expect("a stanza")));
            marks.counts(count, &USUAL);
            marks.answered(format!("<iq type='result' id='{count}'/>").as_bytes());
        }
        let told = marks.mark().map(|(_, answered)| answered.len());
        assert_eq!(told, Some(ANSWERED_MAX));
    }

    /// Goal: what is remembered of stanzas that no record covers is bounded, and the next record
    /// moves the mark all the same; one that covers only what is forgotten does not.
    #[test]
    fn stanzas_without_a_record_are_bounded() {
        let mut marks = Marks::default();
        marks.begins((&"a@x".into(), "token"), counts(0, 0, 0));
        let sent = 3 * USUAL.counted_max as u32;
        for inbound in 1..=sent {
            marks.hands_in(u64::from(inbound) * 5);
            marks.takes(None);
            marks.counts(inbound, &USUAL);
        }
        let remembered = |marks: &Marks| marks.session.as_ref().map(|one| one.counted.len());
        assert_eq!(remembered(&marks), Some(USUAL.counted_max));
        marks.is_kept = true;
        marks.recorded(7, &USUAL);
        let told = |marks: &Marks| marks.now(0).map(|now| (now.heard, now.counts.inbound));
        assert_eq!(told(&marks), Some((0, 0)));
        marks.recorded(sent, &USUAL);
        assert_eq!(told(&marks), Some((u64::from(sent) * 5, sent)));
        assert_eq!(remembered(&marks), Some(0));
    }

    /// Goal: a record is asked for, and told, once too much is kept for want of one; counts go on
    /// behind the last there is.
    #[test]
    fn what_is_kept_for_want_of_a_record_is_bounded() {
        let mut marks = Marks {
            is_kept: true,
            ..Marks::default()
        };
        marks.begins((&"a@x".into(), "token"), counts(0, 0, u32::MAX));
        marks.hands_in(USUAL.unrecorded_max);
        marks.takes(None);
        marks.counts(0, &USUAL);
        assert!(!marks.owes_record(&USUAL) && !marks.recorded(u32::MAX, &USUAL));
        marks.hands_in(USUAL.unrecorded_max + 1);
        marks.takes(None);
        marks.counts(1, &USUAL);
        assert!(
            marks.owes_record(&USUAL) && !marks.owes_record(&USUAL),
            "it is asked for once"
        );
        assert!(!marks.recorded(0, &USUAL));
        assert!(marks.recorded(1, &USUAL));
    }
}
