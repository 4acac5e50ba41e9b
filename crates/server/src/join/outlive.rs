//! A client's connection outlives the home of its account: the node that has its socket keeps it
//! open, waits for the next home, and introduces it there (docs/decisions/0094).
//!
//! | state | event | next state | effect |
//! |---|---|---|---|
//! | at home | the home says that it is none any more, or its node is gone | waits | the client is not read |
//! | at home | the same, and what the client was written is not certain | (ended) | `reset` |
//! | waits | there is a home | asks | it is told the proof and the counts of the last mark |
//! | asks | the home goes on with the session | at home | what was kept is sent, and the client is read |
//! | asks | no answer, no such home, or that is gone too | waits | |
//! | asks | the session may not go on | (ended) | the error that the home says |
//! | waits, asks | for too long | (ended) | `reset` |

use actor::Mail as _;
use net::Cx;
use ring::rand::SecureRandom;
use telemetry::Counter;
use wire::{Adopt, Carrier, Packet, Part};

use super::edge::Edge;
use super::kept::{Kept, Stage};
use super::line::{Line, encoded};
use super::{HERE, at};
use crate::away::NodeId;
use crate::c2s::{C2sService, Framing};

impl Edge {
    /// It has no home now.
    pub(super) fn is_homeless(&self) -> bool {
        let kept = self.kept.as_ref();
        kept.is_some_and(|kept| kept.stage != Stage::AtHome)
    }

    /// Its home said that it is none any more, and all that it wrote has come.
    pub(super) fn has_been_left(&self) -> bool {
        let left = self.kept.as_ref().and_then(|kept| kept.left);
        left.is_some_and(|at| self.line.received >= at)
    }

    /// It is known what its client was written.
    fn is_certain(&self) -> bool {
        let kept = self.kept.as_ref();
        kept.is_some_and(|kept| kept.is_whole(self.line.received))
    }

    /// Its home has not said that its session can go on elsewhere: nothing is kept for that any
    /// more, until it does.
    pub(super) fn forget_without_session(&mut self) {
        self.kept.take_if(|kept| !kept.has_session());
    }

    /// Its client is not read now.
    pub(super) fn waits(&self) -> bool {
        let kept = self.kept.as_ref();
        self.is_homeless() || kept.is_some_and(|kept| kept.unsent > 0)
    }
}

impl C2sService {
    /// The home may mark what it sends. What the client says is kept from here on: what it said
    /// behind the element that began its session may be sent before the home's word of that
    /// arrives.
    pub(super) fn ask_for_marks(&self, cx: &mut Cx<'_>, edge: &mut Edge) {
        // Sessions over BOSH are made of elements that the edge has cut anew.
        let is_plain = !matches!(edge.conn.framing, Framing::Bosh(_));
        if let Some(cluster) = &self.home.options.cluster
            && is_plain
            && edge.kept.is_none()
        {
            edge.line.say(cx.id(), &*cluster.away, Part::Keeps);
            edge.kept = Some(Box::new(Kept::new(edge.line.sent)));
            cx.set_deadline(Some(cx.now() + self.home.options.joined.session_wait_max));
        }
    }

    /// The home says something of the session.
    pub(super) fn hear_of_session(&mut self, cx: &mut Cx<'_>, edge: &mut Edge, said: Part) {
        match (said, &mut edge.kept) {
            (
                Part::Session {
                    user,
                    token,
                    header,
                    mark,
                },
                kept,
            ) => {
                let sent = edge.line.sent;
                let kept = kept.get_or_insert_with(|| Box::new(Kept::new(sent)));
                kept.is_of((user, token), header);
                kept.marked(mark);
            }
            (Part::Mark(mark), Some(kept)) => kept.marked(mark),
            (Part::Left { at, inbound }, Some(kept)) => {
                kept.done = inbound;
                kept.left = Some(at);
                // What was written before may come behind it.
                if edge.has_been_left() {
                    self.lose_home(cx, edge);
                }
            }
            (Part::Left { .. }, None) => self.lose(cx, edge),
            (Part::Adopted { .. }, Some(kept)) if matches!(kept.stage, Stage::Asks(_)) => {
                kept.adopted();
                cx.mail().stats().count(Counter::HomesOutlived);
                self.go_on(cx, edge);
            }
            _ => {}
        }
    }

    /// The home is gone: another one may go on, if it is certain what the client was written.
    pub(super) fn lose_home(&mut self, cx: &mut Cx<'_>, edge: &mut Edge) {
        if edge.is_homeless() {
            return self.ask_again(cx, edge);
        }
        let (received, has_all) = (edge.line.received, edge.has_been_left());
        let kept = edge.kept.as_mut();
        let Some(kept) = kept.filter(|kept| kept.is_whole(received) && kept.unsent == 0) else {
            return self.lose(cx, edge);
        };
        // An answer that never came makes nothing done.
        kept.done.take_if(|_| !has_all);
        kept.stage = Stage::Waits(cx.now());
        cx.set_paused(true);
        self.forget_line(cx, edge);
        self.look_for_home(cx, edge);
    }

    /// What is said on the line from now on is of before.
    fn forget_line(&self, cx: &Cx<'_>, edge: &mut Edge) {
        self.home.lines.remove(cx.id());
        if let Some(cluster) = &self.home.options.cluster
            && edge.line.has_ended().is_none()
        {
            // Whoever had it, if that is still there, has it no more.
            edge.line.end(cx.id(), &*cluster.away, false);
        }
        let node = edge.line.node;
        let waits = edge.line.waits;
        edge.line = self.line_to(node, self.line_number());
        edge.line.waits = waits;
        if let Some(kept) = &mut edge.kept {
            kept.moves();
        }
    }

    /// A way to a home that has said nothing yet.
    pub(super) fn line_to(&self, node: NodeId, number: u64) -> Line {
        Line::new(node, number, None, 0).beyond(self.home.options.joined.beyond_window_max)
    }

    pub(crate) fn line_number(&self) -> u64 {
        let mut number = [0; 8];
        // Invariant: the operating system's generator does not fail once it has been seeded.
        self.random.fill(&mut number).expect("random bytes");
        u64::from_le_bytes(number)
    }

    /// Nobody took it where it introduced itself.
    pub(super) fn not_taken_in(&mut self, cx: &mut Cx<'_>, edge: &mut Edge, number: u64) {
        if edge.line.number == number && edge.is_homeless() {
            self.ask_again(cx, edge);
        }
    }

    /// It waits for a moment, and looks for a home once more.
    pub(super) fn ask_again(&mut self, cx: &mut Cx<'_>, edge: &mut Edge) {
        if !edge.is_certain() {
            return self.lose(cx, edge);
        }
        self.forget_line(cx, edge);
        if let Some(kept) = &mut edge.kept
            && let Stage::Asks(since) | Stage::Waits(since) = kept.stage
        {
            kept.stage = Stage::Waits(since);
        }
        cx.set_deadline(Some(cx.now() + self.home.options.joined.home_wait_step));
    }

    /// Introduces it to the home of its account, if there is one.
    pub(super) fn look_for_home(&mut self, cx: &mut Cx<'_>, edge: &mut Edge) {
        let joined = &self.home.options.joined;
        let (wait_max, answer_max) = (joined.home_wait_max, joined.answer_max);
        let Some(kept) = &edge.kept else { return };
        let since = match kept.stage {
            Stage::Waits(since) | Stage::Asks(since) => since,
            Stage::AtHome => return,
        };
        if cx.now().saturating_since(since) >= wait_max {
            cx.mail().stats().count(Counter::HomesMissed);
            return self.lose(cx, edge);
        }
        if !edge.is_certain() {
            return self.lose(cx, edge);
        }
        let before = edge.line.node;
        self.forget_line(cx, edge);
        let sent = self.home_to_ask(edge, before).is_some_and(|home| {
            let is_sent = self.introduce(cx, edge, home);
            if is_sent {
                self.home.lines.add(cx.id(), home.0);
            }
            is_sent
        });
        let Some(kept) = &mut edge.kept else { return };
        kept.stage = match sent {
            true => Stage::Asks(since),
            false => Stage::Waits(since),
        };
        let pause = match sent {
            true => answer_max,
            false => self.home.options.joined.home_wait_step,
        };
        let at = (cx.now() + pause).min(since + wait_max);
        cx.set_deadline(Some(at));
    }

    /// The home of its account and the tenure of that, unless it is the one that was lost and does
    /// not live again.
    fn home_to_ask(&self, edge: &Edge, before: NodeId) -> Option<(NodeId, u32)> {
        let kept = edge.kept.as_ref()?;
        let home = self.home_to_join(self.home.place.range(&kept.user))?;
        let cluster = self.home.options.cluster.as_ref()?;
        let lives = home.0 == HERE || home.0 != before || {
            let others = cluster.away.others();
            others.iter().any(|(node, _)| *node == home.0)
        };
        lives.then_some(home)
    }

    fn introduce(&self, cx: &Cx<'_>, edge: &mut Edge, (node, tenure): (NodeId, u32)) -> bool {
        let (Some(kept), Some(cluster)) = (&edge.kept, &self.home.options.cluster) else {
            return false;
        };
        let (counts, answered) = kept.counts();
        let adopt = Adopt {
            user: kept.user.clone(),
            range: self.home.place.range(&kept.user).index(),
            tenure,
            from: at(cx.id()),
            number: edge.line.number,
            address: edge.conn.address,
            carrier: match edge.conn.framing {
                Framing::WebSocket(_) => Carrier::WebSocket,
                Framing::Stream(_) | Framing::Bosh(_) => Carrier::Socket,
            },
            header: kept.header.clone(),
            token: kept.token.clone(),
            counts,
            done: kept.done,
            answered,
        };
        edge.line.node = node;
        let packet = encoded(&Packet::Adopt(Box::new(adopt)));
        cluster.away.send(node, packet).is_ok()
    }

    /// Sends the next home what the client has said and nobody has handled.
    pub(super) fn send_kept(&mut self, cx: &mut Cx<'_>, edge: &mut Edge) {
        let Some(kept) = edge.kept.as_mut().filter(|kept| kept.unsent > 0) else {
            return;
        };
        let bytes = kept.take_unsent();
        let taken = self.pass(cx, &mut edge.line, &bytes);
        if let Some(kept) = &mut edge.kept {
            kept.unsent -= taken;
        }
    }
}
