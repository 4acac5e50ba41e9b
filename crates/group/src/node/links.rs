//! Connections, dialling, heart-beats and back-pressure.
//!
//! Owns what turns a connection into a link and what ends it. One pair of nodes has one link: while
//! both dial, the connection of the smaller name stays. Deliberately not here: why a node is
//! dialled, and what goes over its link.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use stdx::time::Moment;

use super::{Caller, Effect, Machine, Wake, WakeKey};
use crate::command::{Answer, GroupError, Note};
use crate::process::Event;
use crate::types::{NodeName, Pid, Reason, Refusal};
use crate::view::{GroupId, Space};
use crate::wire::{self, Frame, Hello, Inbound, Malformed};

/// How far a connection is.
#[derive(Debug)]
pub(super) enum Phase {
    /// Dialled, and not there yet.
    Opening,
    /// Waits for the other side's hello.
    Hello,
    /// Waits for the other side's proof.
    Proof(Hello),
    /// A link with this node.
    Up(NodeName),
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(super) phase: Phase,
    /// Whom we dialled; nobody, if the other side did.
    pub(super) dialled: Option<NodeName>,
    pub(super) nonce: [u8; 16],
    pub(super) inbound: Inbound,
    pub(super) out: Vec<u8>,
    /// Bytes handed to the transport that it has not written.
    pub(super) queued: usize,
    pub(super) heard: Moment,
    pub(super) said: Moment,
    pub(super) wake: Option<WakeKey>,
}

/// A node that this one knows of.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    pub(super) up: Option<u64>,
    pub(super) dialing: Option<u64>,
    /// Refused because of another connection: the other side's, which is waited for, or the last
    /// one, whose end it has not heard of. Until then it is dialled again and again.
    awaited: Option<WakeKey>,
    /// When that is given up.
    awaited_until: Option<Moment>,
    redial: Option<(WakeKey, Duration)>,
    /// Frames that wait for the link; some are for one life of the node alone.
    pending: VecDeque<(Option<u64>, Frame)>,
    pub(crate) life: u64,
    pub(crate) hidden: bool,
    /// The groups that it is in, as far as it told.
    pub(crate) groups: BTreeMap<GroupId, BTreeSet<NodeName>>,
    /// Whether it has told at all.
    pub(crate) has_status: bool,
    /// Whether it is about to join a group.
    pub(crate) is_joining: bool,
    /// The spaces that both are in, as of the last look.
    pub(crate) shared: BTreeSet<Space>,
    /// The spaces whose names it has told since they are in common.
    pub(crate) told_names: BTreeSet<Space>,
    /// Whether the last attempt at a link failed, or the last link broke.
    pub(crate) failed: bool,
    /// The link is made by this node, and only to see whether both are free.
    pub(crate) is_tried: bool,
    /// Who asked for the link and waits for it.
    waiters: Vec<Caller>,
    /// Processes that are held until the link has drained.
    held: BTreeSet<u64>,
}

impl Peer {
    pub(crate) fn is_up(&self) -> bool {
        self.up.is_some()
    }

    /// The connection of the link.
    pub(crate) fn up(&self) -> Option<u64> {
        self.up
    }
}

impl Machine {
    /// Linked nodes.
    pub(crate) fn linked(&self) -> impl Iterator<Item = (&NodeName, &Peer)> {
        self.peers.iter().filter(|(_, peer)| peer.is_up())
    }

    pub(crate) fn is_linked(&self, node: &NodeName) -> bool {
        self.peers.get(node).is_some_and(Peer::is_up)
    }

    /// Whether a link is there or being made.
    pub(crate) fn is_reaching(&self, node: &NodeName) -> bool {
        self.peers.get(node).is_some_and(|peer| {
            peer.up.is_some() || peer.dialing.is_some() || peer.awaited.is_some()
        })
    }

    // ---- Dialling ------------------------------------------------------------------------------

    /// Sees to a link with a node; false if there is no room for one.
    pub(crate) fn reach(&mut self, node: &NodeName) -> bool {
        if self.is_reaching(node) {
            return true;
        }
        let is_full = self.conns.len() >= self.limits.links_max;
        if is_full || self.stopped || *node == self.me {
            return false;
        }
        let conn = self.add_conn(Phase::Opening, Some(node.clone()));
        let peer = self.peers.entry(node.clone()).or_default();
        peer.dialing = Some(conn);
        if let Some((key, _)) = peer.redial {
            self.wakes.remove(&key);
        }
        let node = node.clone();
        self.effects.push(Effect::Dial { conn, node });
        true
    }

    /// Answers once the link is there, or cannot be made.
    pub(super) fn await_link(&mut self, caller: Caller, node: &NodeName) {
        if !self.reach(node) {
            return self.answer(caller, Answer::Done(Err(GroupError::NoConnection)));
        }
        let max = self.limits.operations_max;
        if self
            .peers
            .get(node)
            .is_some_and(|peer| peer.waiters.len() >= max)
        {
            return self.answer(caller, Answer::Done(Err(GroupError::Busy)));
        }
        if let Some(peer) = self.peers.get_mut(node) {
            peer.is_tried = false;
            peer.waiters.push(caller);
        }
    }

    fn tell_waiters(&mut self, node: &NodeName, result: Result<(), GroupError>) {
        let peer = self.peers.get_mut(node);
        let waiters = peer.map(|peer| std::mem::take(&mut peer.waiters));
        for caller in waiters.unwrap_or_default() {
            self.answer(caller, Answer::Done(result));
        }
    }

    fn add_conn(&mut self, phase: Phase, dialled: Option<NodeName>) -> u64 {
        self.next_conn += 1;
        let id = self.next_conn * 2 + u64::from(dialled.is_none());
        let wake = self.wake_after(self.limits.handshake, Wake::Handshake(id));
        let mut nonce = [0; 16];
        self.rng.fill(&mut nonce);
        let conn = Conn {
            phase,
            dialled,
            nonce,
            inbound: Inbound::default(),
            out: Vec::new(),
            queued: 0,
            heard: self.now,
            said: self.now,
            wake: Some(wake),
        };
        self.conns.insert(id, conn);
        id
    }

    /// A connection that somebody else opened. The id that it is called by from now on.
    pub(crate) fn incoming(&mut self) -> u64 {
        let is_full = self.conns.len() >= self.limits.links_max;
        let conn = self.add_conn(Phase::Hello, None);
        if is_full || self.stopped {
            let why = if self.stopped {
                Refusal::Stopped
            } else {
                Refusal::Full
            };
            self.refuse(conn, why);
        }
        conn
    }

    /// A connection that we dialled is there.
    pub(crate) fn opened(&mut self, id: u64) {
        let Some(conn) = self.conns.get_mut(&id) else {
            return self.effects.push(Effect::Close { conn: id });
        };
        conn.phase = Phase::Hello;
        let (to, nonce) = (conn.dialled.clone(), conn.nonce);
        self.say_hello(id, to, nonce);
    }

    /// Ends a connection from our side. What was written before still goes out.
    pub(super) fn end_conn(&mut self, id: u64, why: Refusal) {
        self.flush_conn(id);
        if self.conns.contains_key(&id) {
            self.effects.push(Effect::Close { conn: id });
            self.closed(id, why);
        }
    }

    /// Dials a member of a group, if it is one still. A node that has become free meanwhile tries
    /// once all the same whether the other is free too: if that has lost its links, nobody else
    /// finds it.
    pub(super) fn dial_due(&mut self, node: &NodeName) {
        if let Some(peer) = self.peers.get_mut(node) {
            if let Some((_, pause)) = peer.redial {
                // Keeps the pause, so that the next one is longer.
                peer.redial = Some(((Moment::ZERO, 0), pause));
            }
            let (is_up, is_wanted) = (peer.is_up(), self.is_wanted(node));
            let is_tried = !is_wanted && self.is_free();
            if !is_up
                && !self.is_reaching(node)
                && (is_wanted || is_tried)
                && self.reach(node)
                && let Some(peer) = self.peers.get_mut(node)
            {
                peer.is_tried = is_tried;
            }
        }
    }

    /// Sees to a link with a member of a group: at once if its name is larger, after a grace
    /// otherwise, because it dials us too.
    pub(super) fn want(&mut self, node: &NodeName, at_once: bool) {
        if *node == self.me || self.is_reaching(node) {
            return;
        }
        if at_once || self.me < *node {
            self.reach(node);
            return;
        }
        let grace = self.limits.dial_grace;
        let key = self.wake_after(grace, Wake::Dial(node.clone()));
        let pause = self.limits.redial_min;
        let peer = self.peers.entry(node.clone()).or_default();
        if let Some((old, _)) = peer.redial.replace((key, pause)) {
            self.cancel(old);
        }
    }

    pub(super) fn handshake_due(&mut self, id: u64) {
        if self.conns.contains_key(&id) {
            self.end_conn(id, Refusal::Silent);
        }
    }

    /// A connection to a node was refused because of another one. If that is none that it dials, it
    /// is one that has ended here, and its end is on the way.
    fn await_other(&mut self, node: &NodeName) {
        let (now, handshake) = (self.now, self.limits.handshake);
        let Some(peer) = self.peers.get_mut(node) else {
            return;
        };
        let until = *peer.awaited_until.get_or_insert(now + handshake);
        let pause = self.limits.dial_grace.min(until.saturating_since(now));
        let key = self.wake_after(pause, Wake::Await(node.clone()));
        if let Some(peer) = self.peers.get_mut(node) {
            peer.awaited = Some(key);
        }
    }

    pub(super) fn await_due(&mut self, node: &NodeName) {
        let now = self.now;
        if let Some(peer) = self.peers.get_mut(node)
            && peer.awaited.take().is_some()
            && !peer.is_up()
            && peer.dialing.is_none()
        {
            let is_over = peer.awaited_until.is_none_or(|until| until <= now);
            if is_over || !self.reach(node) {
                self.unreachable(node, Refusal::Silent);
            }
        }
    }

    // ---- The beginning of a link ---------------------------------------------------------------

    pub(super) fn forget_conn(&mut self, id: u64) -> Option<Conn> {
        let conn = self.conns.remove(&id)?;
        if let Some(key) = conn.wake {
            self.cancel(key);
        }
        Some(conn)
    }

    pub(super) fn link_up(&mut self, id: u64, hello: &Hello) {
        let mut is_ours = false;
        if let Some(conn) = self.conns.get_mut(&id) {
            is_ours = conn.dialled.is_some();
            conn.phase = Phase::Up(hello.name.clone());
            if let Some(key) = conn.wake.take() {
                self.cancel(key);
            }
        }
        let peer = self.peers.entry(hello.name.clone()).or_default();
        (peer.life, peer.hidden) = (hello.life, hello.hidden);
        (peer.up, peer.dialing) = (Some(id), None);
        peer.groups.clear();
        peer.told_names.clear();
        (peer.has_status, peer.failed) = (false, false);
        peer.awaited_until = None;
        peer.is_tried &= is_ours;
        let pending = std::mem::take(&mut peer.pending);
        let keys = [peer.awaited.take(), peer.redial.take().map(|(key, _)| key)];
        for key in keys.into_iter().flatten() {
            self.cancel(key);
        }
        self.note(Note::LinkUp(hello.name.clone()));
        self.send_status(&hello.name);
        for (life, frame) in pending {
            if life.is_none_or(|life| life == hello.life) {
                self.write_to(id, &frame);
            } else {
                self.too_late(&hello.name, frame);
            }
        }
        self.refresh(&hello.name, false);
        self.tell_waiters(&hello.name, Ok(()));
    }

    // ---- The end of a link ---------------------------------------------------------------------

    /// A connection is gone, for this reason.
    pub(crate) fn closed(&mut self, id: u64, why: Refusal) {
        let Some(conn) = self.forget_conn(id) else {
            return;
        };
        let Some(node) = (match conn.phase {
            Phase::Up(node) => Some(node),
            _ => conn.dialled,
        }) else {
            return;
        };
        let Some(peer) = self.peers.get_mut(&node) else {
            return;
        };
        if peer.up == Some(id) {
            peer.up = None;
            self.lost(&node, why);
        } else if peer.dialing == Some(id) {
            peer.dialing = None;
            if why == Refusal::Duplicate && !peer.is_up() {
                self.await_other(&node);
            } else if !peer.is_up() {
                self.unreachable(&node, why);
            }
        }
    }

    /// A link ended.
    fn lost(&mut self, node: &NodeName, why: Refusal) {
        let mut held = BTreeSet::new();
        if let Some(peer) = self.peers.get_mut(node) {
            held = std::mem::take(&mut peer.held);
            peer.groups.clear();
            peer.has_status = false;
        }
        for id in held {
            self.effects.push(Effect::Release { id });
        }
        let spaces = self
            .peers
            .get_mut(node)
            .map(|peer| std::mem::take(&mut peer.shared));
        self.note(Note::LinkDown(node.clone(), why));
        let spaces = spaces.unwrap_or_default();
        if !spaces.is_empty() {
            self.node_up_down(node, Some(why));
        }
        for space in spaces {
            self.drop_kept(&space, node);
        }
        self.give_up_on(node, why);
        self.retry_later(node);
    }

    /// A link could not be made.
    fn unreachable(&mut self, node: &NodeName, why: Refusal) {
        if let Some(peer) = self.peers.get_mut(node) {
            peer.pending.clear();
            peer.awaited_until = None;
        }
        self.note(Note::Unreachable(node.clone(), why));
        self.tell_waiters(node, Err(GroupError::Refused(why)));
        self.give_up_on(node, why);
        self.retry_later(node);
    }

    /// Everything that waits for a node fails, with a reason; but for questions that can be asked
    /// again, if the link was ended on purpose: the node is there.
    fn give_up_on(&mut self, node: &NodeName, why: Refusal) {
        self.relations_lost(node, &Reason::NoConnection);
        self.asks_lost(node, why == Refusal::Left);
    }

    fn retry_later(&mut self, node: &NodeName) {
        if self.is_reaching(node) {
            return;
        }
        if !self.is_wanted(node) || self.stopped {
            if let Some(peer) = self.peers.remove(node)
                && let Some((key, _)) = peer.redial
            {
                self.cancel(key);
            }
            return;
        }
        let old = self.peers.get_mut(node).and_then(|peer| peer.redial.take());
        let pause = match old {
            Some((key, pause)) => {
                self.cancel(key);
                (pause * 2).min(self.limits.redial_max)
            }
            None => self.limits.redial_min,
        };
        let key = self.wake_after(pause, Wake::Dial(node.clone()));
        if let Some(peer) = self.peers.get_mut(node) {
            (peer.redial, peer.failed) = (Some((key, pause)), true);
        }
    }

    /// Ends the link with a node, or the attempt at one.
    pub(crate) fn disconnect(&mut self, node: &NodeName, why: Refusal) {
        let Some(peer) = self.peers.get(node) else {
            return;
        };
        if let Some(id) = peer.up {
            self.write_to(id, &Frame::Bye(why));
            self.end_conn(id, why);
        } else if let Some(id) = peer.dialing {
            self.end_conn(id, why);
        } else if let Some(peer) = self.peers.get_mut(node)
            && let Some(key) = peer.awaited.take()
        {
            self.cancel(key);
            self.unreachable(node, why);
        }
    }

    /// Says goodbye to everybody.
    pub(crate) fn stop(&mut self) {
        self.stopped = true;
        for node in self.peers.keys().cloned().collect::<Vec<_>>() {
            self.disconnect(&node, Refusal::Stopped);
        }
    }

    // ---- Writing -------------------------------------------------------------------------------

    /// Sends something to a process's node, for the life of the process alone.
    pub(super) fn transmit_to(&mut self, to: &Pid, frame: Frame) -> Result<(), Reason> {
        self.transmit_to_life(&to.node, Some(to.life), frame)
    }

    /// Sends a frame to a node, or to one life of it alone, making a link if there is none.
    ///
    /// # Errors
    /// If there can be no link, or it is with another life, or too much waits for it: the frame is
    /// not sent.
    pub(super) fn transmit_to_life(
        &mut self,
        node: &NodeName,
        life: Option<u64>,
        frame: Frame,
    ) -> Result<(), Reason> {
        if let Some(peer) = self.peers.get_mut(node) {
            peer.is_tried = false;
            if let Some(id) = peer.up {
                // Processes of two lives may have one id.
                if life.is_some_and(|life| life != peer.life) {
                    return Err(Reason::NoProcess);
                }
                self.write_to(id, &frame);
                return Ok(());
            }
        }
        if !self.reach(node) {
            return Err(Reason::NoConnection);
        }
        let max = self.limits.pending_max;
        let Some(peer) = self.peers.get_mut(node) else {
            return Err(Reason::NoConnection);
        };
        if peer.pending.len() >= max {
            return Err(Reason::NoConnection);
        }
        peer.pending.push_back((life, frame));
        Ok(())
    }

    /// Sends a frame to a linked node; to one that is not it is left out.
    pub(crate) fn tell(&mut self, node: &NodeName, frame: &Frame) {
        if let Some(id) = self.peers.get(node).and_then(|peer| peer.up) {
            self.write_to(id, frame);
        }
    }

    pub(super) fn write_to(&mut self, id: u64, frame: &Frame) {
        let max = self.limits.frame_bytes_max;
        let Some(conn) = self.conns.get_mut(&id) else {
            return;
        };
        if conn.out.is_empty() {
            self.dirty.push(id);
        }
        if wire::write(frame, max, &mut conn.out) == Err(Malformed::TooLarge) {
            self.too_large(id, frame);
            return;
        }
        let backlog = conn.queued + conn.out.len();
        if backlog > self.limits.link_bytes_max {
            self.end_conn(id, Refusal::Backlog);
        }
    }

    /// A frame of ours was too large to be sent: whoever waits for an answer gets one.
    fn too_large(&mut self, id: u64, frame: &Frame) {
        if let Some(Conn {
            phase: Phase::Up(node),
            ..
        }) = self.conns.get(&id)
        {
            let node = node.clone();
            self.note(Note::Dropped(node));
            let ask = match frame {
                Frame::Ask { ask, .. } => Some(*ask),
                Frame::Kept { ask, .. } | Frame::Withdrawn { ask, .. } => *ask,
                _ => None,
            };
            if let Some(ask) = ask {
                self.fail_ask(ask);
            }
        }
    }

    /// Holds a process that writes to a link that is full enough.
    pub(super) fn hold_if_full(&mut self, node: &NodeName, id: u64) {
        let high = self.limits.link_bytes_high;
        let Some(peer) = self.peers.get_mut(node) else {
            return;
        };
        let Some(conn) = peer.up.and_then(|up| self.conns.get(&up)) else {
            return;
        };
        if conn.queued + conn.out.len() > high && peer.held.insert(id) {
            self.effects.push(Effect::Hold { id });
        }
    }

    pub(super) fn forget_held(&mut self, id: u64) {
        for peer in self.peers.values_mut() {
            peer.held.remove(&id);
        }
    }

    /// The transport has written so much.
    pub(crate) fn written(&mut self, id: u64, bytes: usize) {
        let Some(conn) = self.conns.get_mut(&id) else {
            return;
        };
        conn.queued = conn.queued.saturating_sub(bytes);
        if conn.queued + conn.out.len() > self.limits.link_bytes_high / 2 {
            return;
        }
        if let Phase::Up(node) = &conn.phase
            && let Some(peer) = self.peers.get_mut(node)
        {
            for id in std::mem::take(&mut peer.held) {
                self.effects.push(Effect::Release { id });
            }
        }
    }

    /// Turns what was written into effects.
    pub(super) fn flush(&mut self) {
        for id in std::mem::take(&mut self.dirty) {
            self.flush_conn(id);
        }
    }

    fn flush_conn(&mut self, id: u64) {
        if let Some(conn) = self.conns.get_mut(&id)
            && !conn.out.is_empty()
        {
            let bytes = std::mem::take(&mut conn.out);
            conn.queued += bytes.len();
            conn.said = self.now;
            self.effects.push(Effect::Write { conn: id, bytes });
        }
    }

    /// Looks after links that nothing was heard from, and speaks on those that had nothing to say.
    pub(super) fn beat(&mut self) {
        let (beat, silence) = (self.limits.heartbeat, self.limits.silence);
        let (mut quiet, mut broken) = (Vec::new(), Vec::new());
        for (id, conn) in &self.conns {
            if matches!(conn.phase, Phase::Up(_)) {
                if self.now.saturating_since(conn.heard) >= silence {
                    broken.push(*id);
                } else if self.now.saturating_since(conn.said) >= beat / 2 {
                    quiet.push(*id);
                }
            }
        }
        // The table has no order of its own, and a simulation must repeat itself.
        quiet.sort_unstable();
        broken.sort_unstable();
        for id in quiet {
            self.write_to(id, &Frame::Alive);
        }
        for id in broken {
            self.end_conn(id, Refusal::Silent);
        }
        self.wake_after(beat, Wake::Beat);
    }

    /// Tells who asked for it that a node of a common space has come or gone.
    pub(super) fn node_up_down(&mut self, node: &NodeName, why: Option<Refusal>) {
        for id in self.watch_nodes.iter().copied().collect::<Vec<_>>() {
            let node = node.clone();
            let event = match why {
                None => Event::NodeUp(node),
                Some(why) => Event::NodeDown(node, why),
            };
            self.deliver(id, event);
        }
    }
}
