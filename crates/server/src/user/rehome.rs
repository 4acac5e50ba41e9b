//! A session goes on at this home with the connection that it had at the one before, whose client
//! does not notice (docs/decisions/0094): who may, what is counted as it was, and what is sent.
//! Also what a home that is none any more says to such connections.
//!
//! The session is one that outlived its process, as its records say (`recover.rs`). Of what it was
//! given the connection says what its client was written: that stays in flight, the rest is
//! counted anew, read and written once that is recorded, as at a resumption.

use std::sync::Arc;

use actor::{Context, Mail};
use delivery::{Count, SessionNumber};
use net::ConnRef;
use rustc_hash::FxHashMap;
use store::Seq;
use wire::Counts;
use xmpp::sm::{Kept, Outbound};

use super::managed::{Link, Resuming, What};
use super::requests::Requests;
use super::session::Session;
use super::{Phase, User};
use crate::ending::Abort;
use crate::message::control::{Control, TakenOver, Word};
use crate::message::{Introduced, UserMsg, web};

impl User {
    // ---- Before it goes to another shard -------------------------------------------------------

    /// Nothing is under way that would be lost with this life of the user.
    pub(super) fn is_at_rest(&self) -> bool {
        let is_known = matches!(self.phase, Phase::Absent | Phase::Registered);
        let is_asked = |requests: &Requests| requests.is_under_way();
        is_known
            && !self.stale
            && !self.is_fenced
            && !self.is_changing_password
            && !self.has_full_session
            && self.barrier.is_open()
            && self.turn.is_none()
            && self.to_perform == 0
            && !self.login.is_busy()
            && !self.has_busy_nodes()
            && !self.requests.as_deref().is_some_and(is_asked)
            && self.log.as_ref().is_none_or(|log| log.is_at_rest())
            && self.has_recorded_counts()
            && self.has_recorded_marks()
    }

    /// How many stanzas were handled is in records: the next life of the user would be handed in
    /// the others again.
    fn has_recorded_counts(&self) -> bool {
        let mut managed = self.sessions.iter().filter_map(|one| one.managed.as_ref());
        managed.all(|managed| managed.inbound == managed.inbound_recorded)
    }

    /// Whether a session can go on without this life of the user, now or in a moment. Those of
    /// clients without stream management cannot: what they were given, nobody else knows. Nor can
    /// those of whose connection nothing is kept, nor one for which something came that is in no
    /// log since its client has been away.
    pub(super) fn can_ever_follow(&self, session: &Session) -> bool {
        let managed = session.managed.as_deref();
        managed.is_some_and(|managed| {
            let is_resumable = managed.is_enabled && managed.max_seconds > 0;
            is_resumable
                && match &managed.link {
                    Link::Attached(link) => self.home.lines.is_kept(*link),
                    Link::Detached(_) => !managed.has_unsent && managed.early.is_none(),
                    Link::Resuming(_) => true,
                }
        })
    }

    /// Whether all sessions go on on another shard now, their clients not noticing.
    pub(super) fn can_all_follow(&self) -> bool {
        let mut managed = self.sessions.iter().filter_map(|one| one.managed.as_ref());
        managed.all(|managed| match &managed.link {
            Link::Attached(link) => self.home.lines.can_outlive(*link),
            Link::Detached(_) => true,
            Link::Resuming(_) => false,
        })
    }

    // ---- What the edge is to know --------------------------------------------------------------

    /// A session's stanzas are counted from here on.
    pub(super) fn note_counting(&self, at: usize) {
        let session = &self.sessions[at];
        let managed = session.managed.as_ref();
        // One that cannot be resumed does not outlive its home.
        if let Some(managed) = managed.filter(|managed| managed.max_seconds > 0)
            && let Some(link) = session.link()
        {
            let counts = Counts {
                sent: managed.out.sent(),
                acked: managed.out.acked(),
                inbound: managed.inbound,
            };
            let whose = (&self.name, &*managed.proof());
            self.home.lines.begins(link, whose, counts);
        }
    }

    /// It is durable how many stanzas were handled.
    pub(super) fn recorded(&self, link: ConnRef, inbound: u32, cx: &mut Context<'_, UserMsg>) {
        if self.home.lines.recorded(link, inbound) {
            let word = Control::Web(Box::new(web::Control::Joined(Word::Mark)));
            // One that is gone needs none.
            let _ = self.home.io.control(cx, link, word);
        }
    }

    /// What a connection hears when this life of the user ends.
    pub(super) fn word_of_the_end(&self, session: &Session, why: Abort) -> Control {
        let managed = session.managed.as_ref();
        let goes_on = matches!(why, Abort::Moved | Abort::Crash);
        let managed = managed.filter(|managed| goes_on && managed.is_enabled);
        let can_outlive = |link: &ConnRef| self.home.lines.can_outlive(*link);
        match managed.filter(|managed| managed.attached().as_ref().is_some_and(can_outlive)) {
            Some(managed) => {
                // While something is not decided, if it failed, and after a crash, only records
                // say what is done, and what edges were told of answers.
                let is_decided = self.barrier.is_open()
                    && self.requests.as_deref().is_none_or(Requests::is_at_rest);
                let is_certain = why == Abort::Moved && is_decided && !self.is_fenced;
                Control::Left(is_certain.then_some(managed.inbound))
            }
            None => Control::Abort(why),
        }
    }

    /// A request of a session had no answer from the home before: its client is told.
    pub(super) fn answer_was_lost(
        &mut self,
        link: ConnRef,
        answer: Vec<u8>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        if let Some(at) = self.session_at(link) {
            let conn = self.sessions[at].conn;
            self.write(conn, What::Other, cx, |out| out.extend_from_slice(&answer));
        }
    }

    // ---- A connection comes --------------------------------------------------------------------

    /// A connection that outlived the home of this user wants to go on with its session.
    pub(super) fn introduced(&mut self, one: &Introduced, cx: &mut Context<'_, UserMsg>) {
        if one.closed.is_none() && one.conn.shard != cx.shard() {
            // It came before its account went on to this shard: it follows, and asks again.
            let again = Control::Abort(Abort::Moved);
            let _ = self.home.io.control(cx, one.conn, again);
            return;
        }
        let found = match self.bars(cx) {
            Some(why) => Err(why),
            None => self.session_to_take_over(one),
        };
        match found {
            Ok(at) => {
                self.take_over(at, one);
                // What its client has acknowledged last is in no record, and known to nobody else.
                self.save_progress(cx);
            }
            Err(why) => {
                // Nothing of this user is written to it.
                let _ = self.home.io.control(cx, one.conn, Control::Abort(why));
            }
        }
        if let Some(is_lost) = one.closed {
            self.session_closed(one.conn, is_lost, cx);
        }
    }

    /// Why nobody may go on with a session of this account, if so.
    fn bars(&self, cx: &mut Context<'_, UserMsg>) -> Option<Abort> {
        match self.phase {
            Phase::Absent => Some(Abort::AccountRemoved),
            // It asks again, for as long as it may.
            Phase::Loading | Phase::Unreadable => Some(Abort::Moved),
            Phase::Registered if self.is_locked || self.is_banned(cx) => Some(Abort::Locked),
            Phase::Registered => None,
        }
    }

    /// The session whose name proves whose connection it is. One that ended meanwhile, because its
    /// account has another password for example, and one that had a connection at this home, is
    /// resumed by its client or not at all.
    fn session_to_take_over(&self, one: &Introduced) -> Result<usize, Abort> {
        let mut sessions = self.sessions.iter();
        let at = sessions.position(|session| {
            let managed = session.managed.as_ref();
            managed
                .is_some_and(|managed| managed.max_seconds > 0 && managed.is_named_by(&one.proof))
        });
        let at = at.ok_or(Abort::NotTakenOver)?;
        let behind = Count::new(one.counts.inbound);
        match &self.sessions[at].managed {
            // More was recorded than any record has: it is not of this session.
            // Its client has come again since, and was written more by another connection.
            Some(managed) if managed.proof() != one.proof => Err(Abort::Conflict),
            Some(managed) if behind.is_after(Count::new(managed.inbound)) => {
                Err(Abort::NotTakenOver)
            }
            Some(managed) if managed.is_recovered => match &managed.link {
                Link::Detached(_) => Ok(at),
                Link::Attached(_) | Link::Resuming(_) => Err(Abort::Conflict),
            },
            _ => Err(Abort::NotTakenOver),
        }
    }

    fn take_over(&mut self, at: usize, one: &Introduced) {
        let Counts {
            sent: written,
            acked,
            ..
        } = one.counts;
        let number = SessionNumber::new(self.sessions[at].number);
        let counts = (Count::new(acked), Count::new(written));
        let log = self.log();
        log.inbox.adopt(number, one.conn, counts);
        // Those of both logs, this user's and rooms', in the order of their counts.
        let mut known: Vec<(u32, Kept)> = Vec::new();
        let mut owed: Vec<Seq> = Vec::new();
        for (count, place) in log.inbox.unacknowledged(number, counts.0) {
            match count {
                Some(count) if !count.is_after(counts.1) => {
                    known.push((count.number(), Kept::Entry(place.number())));
                }
                _ => owed.push(place.number()),
            }
        }
        let limits = self.home.bounds().unlogged;
        let Some(managed) = &mut self.sessions[at].managed else {
            return;
        };
        if let Some(followed) = &mut managed.rooms {
            followed.adopt(counts);
            let given = followed.in_flight();
            known.extend(given.map(|count| (count.number(), Kept::Elsewhere)));
        }
        known.sort_by_key(|(count, _)| count.wrapping_sub(acked));
        managed.out = Outbound::adopted((acked, written), known);
        managed.is_recovered = false;
        managed.link = Link::Resuming(Box::new(Resuming {
            conn: one.conn,
            h: written,
            entries: FxHashMap::default(),
            is_adopted: true,
            unanswered: one.unanswered.clone(),
        }));
        if let Some(done) = one.done
            && Count::new(done).is_after(Count::new(managed.inbound))
        {
            managed.inbound = done;
        }
        for seq in owed {
            self.has_full_session |= !managed.push(What::Entry(seq), &[], limits);
        }
        self.give_early(at, true);
        self.save_session(at);
    }

    /// Everything in front of that is recorded: the client gets what it was not written, and never
    /// notices.
    pub(super) fn taken_over(
        &mut self,
        at: usize,
        resuming: &Resuming,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let (now, conn) = (cx.now(), resuming.conn);
        let Some(managed) = &mut self.sessions[at].managed else {
            return;
        };
        let inbound = managed.inbound;
        let mut bytes = Vec::new();
        for (count, kept) in managed.out.unacked() {
            if Count::new(count).is_after(Count::new(resuming.h)) {
                resuming.write(kept, &mut bytes);
            }
        }
        if !bytes.is_empty() {
            managed.out.asked(now);
            bytes.extend_from_slice(xmpp::sm::REQUEST);
        }
        self.note_counting(at);
        self.home.lines.skips_until(conn, inbound);
        let session = (Arc::clone(&self.sessions[at].full), cx.myself());
        let by = TakenOver { session, inbound };
        let control = Control::TakenOver(Box::new(by));
        let _ = self.home.io.control(cx, conn, control);
        self.write_out(conn, cx, |out| out.extend_from_slice(&bytes));
        for (count, answer) in &resuming.unanswered {
            // What is not handled yet is handed in again, and answered then.
            if !Count::new(*count).is_after(Count::new(inbound)) {
                let conn = self.sessions[at].conn;
                self.write(conn, What::Other, cx, |out| out.extend_from_slice(answer));
            }
        }
        self.progress_is_due(cx);
        self.tell_what_was_missed(at, cx);
    }
}
