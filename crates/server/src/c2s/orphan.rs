//! What a stream hands in to its account's actor, and what becomes of it if that crashes: it waits
//! for the next incarnation, introduces itself, and goes on (`crate::lines::Near`). Owns when it
//! asks and for how long; whether the session may go on, the actor says.

use actor::{Mail as _, Name, SendError, Shard, ShardId};
use net::{ConnRef, Cx};
use telemetry::Counter;
use xml::Frame;
use xmpp::ns;

use super::{C2sService, Conn, cost};
use crate::ending::Abort;
use crate::lines::{Element, Near};
use crate::message::control::TakenOver;
use crate::message::{Introduced, UserMsg};

/// A stream that loses an actor again within so many pauses does not begin to wait anew.
const SOON: u32 = 10;

impl C2sService {
    /// The client says something of stream management: from here on what it takes to outlive a
    /// crash is noted. Not of those whose actor is elsewhere, at another node or on another shard,
    /// nor of those that do not stay with it.
    pub(super) fn may_outlive(&self, cx: &Cx<'_>, conn: &mut Conn, user: &str) {
        let is_here = self.home.place.shard(user) == cx.id().shard;
        let stays = conn.has_socket() && !self.moves_sockets();
        if !conn.is_near && is_here && stays {
            conn.is_near = true;
            self.home.lines.add_near(cx.id());
        }
    }

    /// The same with an element of a session.
    pub(super) fn note_managed(&self, cx: &Cx<'_>, conn: &mut Conn, frame: &Frame) {
        if conn.is_managed || !frame.is_of(ns::STREAM_MANAGEMENT) {
            return;
        }
        conn.is_managed = true;
        let user = conn.user_name().to_owned();
        self.may_outlive(cx, conn, &user);
    }

    /// An element is on its way to the actor, or could not go there because that has crashed: then
    /// it waits for the next one.
    pub(super) fn keeps(&self, cx: &Cx<'_>, element: Element) {
        let limits = &self.home.bounds().lines;
        self.near(cx.id(), |near| near.hands_in(element, limits));
    }

    /// An element for the account's actor.
    pub(super) fn hand_over_element(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, frame: Frame) {
        let Some(user) = conn.user else { return };
        let cost = cost::of(&frame);
        let kept = conn.is_near.then(|| frame.clone());
        let msg = UserMsg::Stanza {
            conn: cx.id(),
            frame,
        };
        match (cx.mail().send(user, msg), kept) {
            (Ok(()), kept) => {
                cx.sent_on();
                cx.charge(cost);
                let heard = self.heard;
                self.mark(cx, conn, |marks| marks.hands_in(heard));
                if let Some(frame) = kept {
                    self.keeps(cx, Element::Stanza(frame));
                }
            }
            (Err(SendError::Gone(_)), Some(frame)) if self.outlives_its_actor(cx, conn) => {
                self.keeps(cx, Element::Stanza(frame));
            }
            (Err(error), _) => {
                if let UserMsg::Stanza { frame, .. } = error.into_inner() {
                    self.refuse(cx, conn, &frame);
                }
            }
        }
    }

    /// A stanza that needs nothing of the account's actor but to be counted and answered so.
    pub(super) fn count_answered(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, answer: Vec<u8>) {
        let Some(user) = conn.user else { return };
        let kept = conn.is_near.then(|| answer.clone());
        let msg = UserMsg::Refused {
            conn: cx.id(),
            answer,
        };
        match (cx.mail().send(user, msg), kept) {
            (Ok(()), kept) => {
                cx.sent_on();
                let heard = self.heard;
                self.mark(cx, conn, |marks| marks.hands_in(heard));
                if let Some(answer) = kept {
                    self.keeps(cx, Element::Answered(answer));
                }
            }
            (Err(SendError::Gone(_)), Some(answer)) if self.outlives_its_actor(cx, conn) => {
                self.keeps(cx, Element::Answered(answer));
            }
            (Err(_), _) => self.abort(cx, conn, Abort::Overloaded),
        }
    }

    /// Whether there will be another actor that takes what this one does not.
    pub(super) fn outlives_its_actor(&self, cx: &Cx<'_>, conn: &Conn) -> bool {
        conn.is_near && self.home.lines.can_outlive(cx.id())
    }

    /// The account's actor has crashed.
    pub(super) fn is_left(&mut self, cx: &mut Cx<'_>, conn: &mut Conn) {
        if !self.outlives_its_actor(cx, conn) || self.home.is_elsewhere(conn.user_name()) {
            // Who comes again is led to the next home.
            return self.abort(cx, conn, Abort::Moved);
        }
        conn.is_orphan = true;
        let (id, now) = (cx.id(), cx.now());
        let pause = self.home.options.joined.home_wait_step;
        let is_again = self.near(id, |near| near.looks(now, pause * SOON));
        match is_again {
            // Whatever ends actors may be there for a while.
            Some(true) => cx.set_deadline(Some(now + pause)),
            Some(false) | None => self.look_for_actor(cx, conn),
        }
    }

    fn near<R>(&self, conn: ConnRef, act: impl FnOnce(&mut Near) -> R) -> Option<R> {
        self.home.lines.near(conn, act)
    }

    /// It introduces itself to the next incarnation, which is loaded for that.
    pub(super) fn look_for_actor(&mut self, cx: &mut Cx<'_>, conn: &mut Conn) {
        let (id, now) = (cx.id(), cx.now());
        let home = self.home.place.shard(conn.user_name());
        if home != id.shard {
            return self.follow(cx, conn, home);
        }
        let (wait_max, pause) = {
            let joined = &self.home.options.joined;
            (joined.home_wait_max, joined.home_wait_step)
        };
        let since = self.near(id, |near| near.since()).unwrap_or(now);
        let introduction = self.near(id, |near| near.introduction()).flatten();
        let Some(one) = introduction else {
            // Its client came again meanwhile.
            return self.abort(cx, conn, Abort::Conflict);
        };
        if now.saturating_since(since) >= wait_max {
            cx.mail().stats().count(Counter::HomesMissed);
            return self.abort(cx, conn, Abort::Crash);
        }
        if self.home.is_elsewhere(conn.user_name()) {
            return self.abort(cx, conn, Abort::Moved);
        }
        let introduced = UserMsg::Introduced(Box::new(Introduced {
            conn: id,
            proof: one.proof,
            counts: one.counts,
            done: None,
            unanswered: one.unanswered,
            closed: None,
        }));
        let user = Name::from(conn.user_name());
        let is_sent = cx
            .mail()
            .send_named(id.shard, &user, introduced)
            .map_err(drop);
        let at = match is_sent {
            // It answers, or its own successor does.
            Ok(()) => since + wait_max,
            Err(()) => (now + pause).min(since + wait_max),
        };
        cx.set_deadline(Some(at));
    }

    /// Its account has moved to another shard: the stream goes there too, with all that is kept of
    /// it.
    fn follow(&self, cx: &mut Cx<'_>, conn: &mut Conn, home: ShardId) {
        if let Some(near) = self.home.lines.take_near(cx.id()) {
            conn.attempt().near = Some(near);
        }
        cx.hand_over(home);
    }

    /// Its connection is gone. True if its actor was gone before: the next one is told what it
    /// knows of its client, and that it has none.
    pub(super) fn leaves_as_orphan(&self, shard: &mut Shard, id: ConnRef, conn: &Conn) -> bool {
        let near = self.home.lines.take_near(id);
        let on_its_way = conn.login.as_ref().and_then(|login| login.near.as_ref());
        let near = near.as_ref().or(on_its_way);
        let last_words = near.and_then(|near| near.last_words());
        let user = Name::from(conn.user_name());
        let Some(one) = last_words.filter(|_| !self.home.is_elsewhere(&user)) else {
            return false;
        };
        let introduced = Introduced {
            conn: id,
            proof: one.proof,
            counts: one.counts,
            done: None,
            unanswered: one.unanswered,
            closed: Some(!conn.has_ended),
        };
        // Where it finds no room it is as if the process had been killed.
        let home = self.home.place.shard(&user);
        let _ = shard.send_named(home, &user, UserMsg::Introduced(Box::new(introduced)));
        true
    }

    /// The actor cannot say now whether the session may go on.
    pub(super) fn asks_again(&self, cx: &mut Cx<'_>) {
        let pause = self.home.options.joined.home_wait_step;
        cx.set_deadline(Some(cx.now() + pause));
    }

    /// The next incarnation goes on with the session: the client notices nothing.
    pub(super) fn goes_on(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, by: TakenOver) {
        let TakenOver { session, inbound } = by;
        let id = cx.id();
        if !conn.is_orphan {
            return;
        }
        conn.is_orphan = false;
        conn.user = Some(session.1);
        let now = cx.now();
        match self.near(id, |near| near.waited(now)).flatten() {
            Some(time) => {
                let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
                cx.mail().stats().count(Counter::RangeStreams);
                cx.mail().stats().add(Counter::RangeStreamMicros, micros);
            }
            None => cx.mail().stats().count(Counter::CrashesOutlived),
        }
        // Nothing is under way any more.
        let _ = self.home.io.credit(cx.mail(), id, u16::MAX);
        // It may have been asked for.
        xmpp::sm::write_ack(inbound, cx.out());
        let limits = &self.home.bounds().lines;
        let again = self.near(id, |near| near.goes_on(inbound, now, limits));
        for element in again.into_iter().flatten() {
            self.hand_in(cx, conn, element);
        }
        self.deadline_of_session(cx);
    }

    fn hand_in(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, element: Element) {
        match element {
            Element::Stanza(frame) => self.hand_over_element(cx, conn, frame),
            Element::Answered(answer) => self.count_answered(cx, conn, answer),
        }
    }
}
