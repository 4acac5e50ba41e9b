//! What users do once they are online: messages, presence, queries, comings and goings.

use std::io::Write as _;

use super::link::{End, UNSENT_BYTES_MAX};
use super::window::{Arrival, Chat};
use super::{Client, Core, Due, Timer};
use crate::clock::{self, SECOND};
use crate::scenario::Peer;
use crate::session::{Event, Stage, Stamp};
use crate::tally::Timing;

impl Core {
    /// Acts on what the server said.
    pub(super) fn handle(
        &mut self,
        client: &mut Client,
        index: u32,
        event: Event<'_>,
    ) -> Result<(), End> {
        match event {
            Event::None | Event::StartTls => {}
            Event::Bound => self.bound(client, index),
            Event::Ready { contacts } => {
                self.bound(client, index);
                if let Some(contacts) = contacts {
                    self.counts.roster_items += u64::from(contacts);
                    self.counts.rosters_wrong += u64::from(contacts != self.ring.contacts);
                }
                self.counts.presences_sent += u64::from(self.profile.presence);
                self.counts.logins_ok += 1;
                self.online(client, index);
            }
            Event::Resumed => {
                self.counts.sessions_resumed += 1;
                self.counts.logins_ok += 1;
                self.online(client, index);
            }
            Event::Presence {
                user,
                available,
                stamp,
            } => {
                self.presence(client, index, user, available, stamp);
            }
            Event::OtherPresence => self.counts.presences_other += 1,
            Event::Message(stamp) => self.message(client, index, stamp),
            Event::ForeignMessage => self.counts.messages_foreign += 1,
            Event::Bounced(condition) => {
                self.counts.messages_bounced += 1;
                let condition = String::from_utf8_lossy(condition);
                self.reasons.add(&format!("message bounced: {condition}"));
            }
            Event::Entered(place) => self.entered(client, place),
            Event::Locked => self.unlock(client),
            Event::Made => self.subscribe(client, index),
            Event::Refused(place, condition) => self.refused(client, place, condition),
            Event::Copy(place, stamp) => self.copy(client, place, stamp),
            Event::Archive(true) => {
                self.counts.archive_answers += 1;
                self.record(Timing::Archive, client.scheduled);
            }
            Event::Archive(false) => self.counts.archive_errors += 1,
            Event::Closed => return Err(End::Closed),
            Event::Failed(reason) => return Err(End::Broken(reason)),
        }
        Ok(())
    }

    fn bound(&mut self, client: &mut Client, index: u32) {
        if !client.bound {
            client.bound = true;
            self.record(Timing::Bind, client.scheduled);
            self.seen.clear(index as usize);
            if self.plan.scenario.client.stream_management && client.ghost {
                self.counts.resumptions_refused += 1;
            }
        }
    }

    fn online(&mut self, client: &mut Client, index: u32) {
        self.record(Timing::Login, client.scheduled);
        self.logging_in -= 1;
        self.set_online(client, true);
        self.resolve(client);
        let keepalive = self.plan.scenario.client.keepalive_seconds;
        if keepalive > 0.0 {
            let first = clock::nanos(keepalive * self.rng.f64());
            self.set_timer(self.now + first, index, client.generation, Due::Keepalive);
        }
        if self.active {
            self.begin_activity(client, index, self.now);
        }
    }

    /// Starts what this user does in the phase. The caller flushes: here TLS state may be lent out.
    pub(super) fn begin_activity(&mut self, client: &mut Client, index: u32, at: u64) {
        if let Some(messages) = &self.phase.messages {
            let (think, in_flight) = (messages.think_seconds, messages.in_flight);
            let by_pair = messages.peer == Peer::Pair;
            if let Some([_, to]) = think {
                // The first pause starts anywhere, or everybody would write at the same time.
                let first = clock::nanos(to * self.rng.f64());
                self.set_timer(at + first, index, client.generation, Due::Say);
            }
            // One partner of a pair starts: two messages between the same two would soon travel
            // together, in one read and one write, and a message would seem to cost half.
            let starts = !by_pair || (self.plan.first + index).is_multiple_of(2);
            for _ in 0..in_flight.filter(|_| starts).unwrap_or(0) {
                self.write_message(client, index, at, None);
            }
        }
        for (due, mean) in [
            (
                Due::Move,
                self.phase.presence.as_ref().map(|it| it.every_seconds),
            ),
            (
                Due::Query,
                self.phase.archive.as_ref().map(|it| it.every_seconds),
            ),
            (
                Due::EndSession,
                self.phase.sessions.as_ref().map(|it| it.mean_seconds),
            ),
            (
                Due::LoseLink,
                self.phase.link_loss.as_ref().map(|it| it.every_seconds),
            ),
        ] {
            if let Some(mean) = mean {
                let span = self.exponential(mean);
                self.set_timer(at + span, index, client.generation, due);
            }
        }
    }

    /// A timer of an online user is due. Open loops: the next moment counts from the one that was
    /// due, not from now.
    pub(super) fn act(&mut self, client: &mut Client, timer: Timer) {
        let (index, at) = (timer.client, timer.at);
        if client.session.stage != Stage::Online {
            return;
        }
        let repeat = match timer.due {
            Due::Keepalive => {
                self.counts.keepalives += 1;
                self.out.push(b' ');
                self.flush_or_end(client, index);
                Some(clock::nanos(self.plan.scenario.client.keepalive_seconds))
            }
            Due::Say => {
                self.say(client, index, at, None);
                let think = self.phase.messages.as_ref().and_then(|it| it.think_seconds);
                think.map(|[from, to]| clock::nanos(from + (to - from) * self.rng.f64()))
            }
            Due::Move => {
                self.change_presence(client, index, at);
                let mean = self.phase.presence.as_ref().map(|it| it.every_seconds);
                mean.map(|mean| self.exponential(mean))
            }
            Due::Query => {
                self.query(client, index, at);
                let mean = self.phase.archive.as_ref().map(|it| it.every_seconds);
                mean.map(|mean| self.exponential(mean))
            }
            Due::EndSession => {
                if let Some(sessions) = &self.phase.sessions {
                    let away = sessions.away_seconds;
                    self.leave(client, index);
                    let back = self.now + self.exponential(away);
                    self.schedule_login(client, index, back);
                }
                None
            }
            Due::LoseLink => {
                if let Some(loss) = self.phase.link_loss.clone() {
                    self.cut(client, index, loss.how);
                    let back = self.now + self.exponential(loss.away_seconds);
                    self.schedule_login(client, index, back);
                }
                None
            }
            _ => None,
        };
        if let Some(span) = repeat
            && client.generation == timer.generation
        {
            self.set_timer(at + span, index, timer.generation, timer.due);
        }
    }

    /// Sends what was written; for timers, not for what a read brings forth.
    pub(super) fn flush_or_end(&mut self, client: &mut Client, index: u32) {
        if let Err(end) = self.flush(client) {
            self.end(client, index, end);
        }
    }

    /// Writes one message that was meant for the moment `at`, to the user `to` or to a peer that
    /// the scenario's rule picks.
    pub(super) fn say(&mut self, client: &mut Client, index: u32, at: u64, to: Option<Stamp>) {
        if self.write_message(client, index, at, to) {
            self.flush_or_end(client, index);
        }
    }

    /// Appends one message to the output; false if there is nobody to write to.
    fn write_message(
        &mut self,
        client: &mut Client,
        index: u32,
        at: u64,
        to: Option<Stamp>,
    ) -> bool {
        let Some(messages) = &self.phase.messages else {
            return false;
        };
        if messages.peer.place().is_some() {
            return self.say_to_all(client, at, self.plan.first + index);
        }
        let [from, upto] = messages.body_bytes;
        let (peer, full_jid, to_offline) = (messages.peer, messages.full_jid, messages.to_offline);
        let closed_loop = messages.in_flight.is_some();
        let user = self.plan.first + index;
        let slot = match (to, peer) {
            (Some(stamp), _) if !stamp.pair => self.ring.slot(user, stamp.sender),
            (Some(_), _) | (None, Peer::Pair) => Some(self.ring.contacts),
            (None, Peer::Contact) if to_offline => {
                let slot = self.rng.u32(0..self.ring.contacts);
                let other = self.ring.contact(user, slot);
                // Accounts that were provisioned but take no part would keep their mail for ever.
                (other < self.plan.scenario.users.count).then_some(slot)
            }
            // Said to all, above.
            (None, Peer::Room | Peer::Node) => None,
            (None, Peer::Contact) => {
                let pick = self.rng.u32(..);
                self.seen.pick(index as usize, pick)
            }
        };
        let Some(slot) = slot.filter(|_| client.unsent.len() < UNSENT_BYTES_MAX) else {
            self.counts.messages_skipped += 1;
            return false;
        };
        let pair = slot == self.ring.contacts;
        let other = if pair {
            user ^ 1
        } else {
            self.ring.contact(user, slot)
        };
        let contacts = self.ring.contacts;
        let chat = client
            .chat
            .get_or_insert_with(|| Box::new(Chat::new(contacts)));
        let sequence = chat.next(slot);
        let stamp = Stamp {
            sender: user,
            sequence,
            at,
            pair,
            delayed: false,
        };
        let mut stanza = std::mem::take(&mut self.scratch);
        stanza.clear();
        let profile = &self.profile;
        // Invariant: writing to a Vec cannot fail.
        let _ = write!(
            stanza,
            "<message to='{}{other}@{}",
            profile.prefix, profile.domain
        );
        if full_jid {
            let _ = write!(stanza, "/{}", profile.resource);
        }
        let _ = write!(stanza, "' type='chat' id='{slot}-{sequence}'><body>");
        stamp.write(self.rng.u32(from..=upto), &mut stanza);
        stanza.extend_from_slice(b"</body></message>");
        client.session.send(&stanza, &mut self.out);
        self.scratch = stanza;
        self.counts.messages_sent += 1;
        // A closed loop has no schedule to be late for.
        if !closed_loop {
            self.record(Timing::Lag, at);
        }
        true
    }

    fn message(&mut self, client: &mut Client, index: u32, stamp: Stamp) {
        let user = self.plan.first + index;
        let slot = match stamp.pair {
            true if stamp.sender == user ^ 1 => Some(self.ring.contacts),
            true => None,
            false => self.ring.slot(user, stamp.sender),
        };
        let Some(slot) = slot else {
            self.counts.messages_foreign += 1;
            return;
        };
        let contacts = self.ring.contacts;
        let chat = client
            .chat
            .get_or_insert_with(|| Box::new(Chat::new(contacts)));
        match chat.receive(slot, stamp.sequence) {
            Arrival::Again => {
                self.counts.messages_duplicated += 1;
                return;
            }
            Arrival::Late => self.counts.messages_reordered += 1,
            Arrival::InOrder => {}
        }
        self.counts.messages_received += 1;
        if stamp.delayed {
            self.counts.messages_delayed += 1;
        } else {
            self.record(Timing::Message, stamp.at);
        }
        let answer = self.active
            && self
                .phase
                .messages
                .as_ref()
                .is_some_and(|messages| messages.in_flight.is_some());
        if answer && client.session.stage == Stage::Online {
            // Flushed with everything else this read brings forth.
            self.write_message(client, index, self.now, Some(stamp));
        }
    }

    fn presence(
        &mut self,
        client: &Client,
        index: u32,
        other: u32,
        available: bool,
        stamp: Option<u64>,
    ) {
        let user = self.plan.first + index;
        let Some(slot) = self.ring.slot(user, other) else {
            self.counts.presences_other += 1;
            return;
        };
        self.counts.presences_received += 1;
        self.seen.set(index as usize, slot, available);
        // A status that is older than this session came as an answer to its probe.
        if let Some(at) = stamp
            && client.session.stage == Stage::Online
            && at > client.since + SECOND
        {
            self.record(Timing::Presence, at);
        }
    }

    fn change_presence(&mut self, client: &mut Client, index: u32, at: u64) {
        const SHOWS: [&str; 4] = [
            "",
            "<show>away</show>",
            "<show>dnd</show>",
            "<show>xa</show>",
        ];
        let show = SHOWS[self.rng.usize(0..SHOWS.len())];
        let stanza = format!("<presence>{show}<status>flood {at}</status></presence>");
        client.session.send(stanza.as_bytes(), &mut self.out);
        self.counts.presences_sent += 1;
        self.record(Timing::Lag, at);
        self.flush_or_end(client, index);
    }

    fn query(&mut self, client: &mut Client, index: u32, at: u64) {
        let page = self
            .phase
            .archive
            .as_ref()
            .map_or(0, |archive| archive.page);
        let stanza = format!(
            "<iq type='set' id='mam'><query xmlns='urn:xmpp:mam:2'>\
             <set xmlns='http://jabber.org/protocol/rsm'><max>{page}</max><before/></set>\
             </query></iq>"
        );
        client.session.send(stanza.as_bytes(), &mut self.out);
        self.counts.archive_queries += 1;
        // The moment of the login is history by now: the field times the query under way.
        client.scheduled = at;
        self.flush_or_end(client, index);
    }
}
