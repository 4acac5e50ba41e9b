//! What a client has been sent and has not acknowledged (XEP-0198 sections 4 and 5). Counts are
//! modulo 2^32. A message of a log costs its place here; other stanzas are kept as bytes. When
//! there is no more room presence gives way, and then what is oldest of the others.
//!
//! What gives way was sent with a count of its own, so a gap stays in its place until the client
//! acknowledges past it. A client that resumes counts on from its own `h`, and the gaps are not
//! sent again: from there on everything behind a gap has a lower count than before.

use std::collections::VecDeque;
use std::time::Duration;

use smallvec::SmallVec;
use stdx::time::Moment;

/// Places in a log. Usually a few.
pub type Entries = SmallVec<[u64; 4]>;

/// What is kept of a stanza until it is acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// A message of a log: its place there.
    Entry(u64),
    /// A message of somebody else's log, which is read there again if the client has not got it.
    Elsewhere,
    /// Presence, which may give way: the current one can be sent in its place.
    Presence(Box<[u8]>),
    /// Anything else.
    Other(Box<[u8]>),
}

/// Bounds of one session's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Stanzas that are kept as bytes; with more of them presence gives way.
    pub stanzas: u16,
    /// Bytes of them, and the places of everything in the queue; likewise.
    pub bytes: u32,
    /// Stanzas at which the oldest gives way. What a client asks for may come in many at once, such
    /// as a page of an archive, and it acknowledges them once it has read them.
    pub stanzas_max: u16,
    /// Bytes at which the oldest gives way. One stanza is kept whatever its size.
    pub bytes_max: u32,
}

impl Limits {
    /// Presence has no more room than others have before it gives way to them.
    fn of_presence(self) -> Limits {
        Limits {
            stanzas_max: self.stanzas,
            bytes_max: self.bytes,
            ..self
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            stanzas: 500,
            bytes: 256 * 1024,
            stanzas_max: 2_000,
            bytes_max: 2 * 1024 * 1024,
        }
    }
}

/// What became of a stanza that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Pushed {
    /// It has the next count.
    Kept,
    /// It has the next count, and presence gave way for it, possibly itself.
    PresenceGaveWay,
    /// It has the next count, and for it presence gave way, and other stanzas: at a resumption they
    /// are not sent again.
    OthersGaveWay,
    /// It has no count and must not be sent: the session cannot be served any further.
    Full,
}

/// The client acknowledges more than it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooHigh {
    /// What it says.
    pub h: u32,
    /// How many stanzas it was sent.
    pub sent: u32,
}

/// How far a client that resumes is behind what it acknowledged before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behind(pub u32);

/// What a resumption changed. What is to be sent again is [`Outbound::unacked`].
#[derive(Debug, PartialEq, Eq)]
pub struct Resumed {
    /// Entries that the client has, as its `h` says.
    pub acked: Entries,
    /// Counts are other than they were: whoever wrote them down writes them down anew.
    pub is_renumbered: bool,
    /// Presence was given up: the current one of all contacts has to be sent.
    pub presence_lost: bool,
    /// The client forgot what it had acknowledged. That is not sent again: it said that it has it.
    pub behind: Option<Behind>,
}

/// A client that never answers but talks keeps its link for so many times what a silent one does:
/// messages wait for it, and nobody else is told.
pub const TALK_MAX: u32 = 10;

/// A place in the queue.
#[derive(Debug)]
enum Slot {
    Kept(Kept),
    /// So many counts of presence that was given up.
    Gap(u32),
}

/// Every entry costs it; a stanza that is kept costs its bytes besides.
const SLOT_BYTES: u32 = size_of::<Slot>() as u32;

/// The outbound half of one session's stream management. It has no memory of its own while nothing
/// is unacknowledged.
#[derive(Debug)]
pub struct Outbound {
    queue: VecDeque<Slot>,
    /// When the client was asked; [`Moment::FAR`] while it owes no answer.
    asked_at: Moment,
    sent: u32,
    acked: u32,
    /// `sent` when the client was asked last.
    asked_through: u32,
    /// Of stanzas that are kept, with the places of all in the queue.
    bytes: u32,
    /// Stanzas that are kept as bytes, and how many of them are presence.
    stanzas: u16,
    presences: u16,
    /// Seconds from the question to what the client said last.
    heard_after: u16,
    /// It was asked once more.
    is_asked_again: bool,
}

const _: () = assert!(size_of::<Slot>() == 24);
const _: () = assert!(size_of::<Outbound>() <= 64);

impl Default for Outbound {
    fn default() -> Self {
        Outbound::at(0)
    }
}

impl Outbound {
    /// Nothing was sent since the count `h`.
    fn at(h: u32) -> Self {
        Outbound {
            queue: VecDeque::new(),
            asked_at: Moment::FAR,
            sent: h,
            acked: h,
            asked_through: h,
            bytes: 0,
            stanzas: 0,
            presences: 0,
            heard_after: 0,
            is_asked_again: false,
        }
    }

    /// The queue of a session that outlived its process: the log says which entries it is owed, in
    /// order, and the client says what it has. That may be more than anybody here remembers: counts
    /// in between were of stanzas that are in no log. So what is owed is counted anew from there.
    pub fn recovered(h: u32, entries: impl IntoIterator<Item = u64>) -> Self {
        let mut outbound = Outbound::at(h);
        for seq in entries {
            outbound.place(Slot::Kept(Kept::Entry(seq)));
        }
        outbound
    }

    /// The queue of a session whose connection outlived its process: its client was written
    /// everything up to the count `sent`, and has acknowledged everything up to `acked`. `known`
    /// are the stanzas of logs between, in the order of their counts. The others were in no log: as
    /// presence that gave way they are not sent again.
    pub fn adopted(
        (acked, sent): (u32, u32),
        known: impl IntoIterator<Item = (u32, Kept)>,
    ) -> Self {
        let mut outbound = Outbound::at(acked);
        for (count, kept) in known {
            let before = count.wrapping_sub(outbound.sent);
            let is_next = before > 0 && before <= sent.wrapping_sub(outbound.sent);
            debug_assert!(is_next, "{count} is not behind {}", outbound.sent);
            if !is_next {
                continue;
            }
            if before > 1 {
                outbound.place(Slot::Gap(before - 1));
            }
            outbound.place(Slot::Kept(kept));
        }
        let rest = sent.wrapping_sub(outbound.sent);
        if rest > 0 && rest <= u32::MAX / 2 {
            outbound.place(Slot::Gap(rest));
        }
        outbound
    }

    /// How many stanzas have been sent, modulo 2^32: the count of the last one.
    pub fn sent(&self) -> u32 {
        self.sent
    }

    /// How many of them the client has acknowledged, modulo 2^32.
    pub fn acked(&self) -> u32 {
        self.acked
    }

    /// Stanzas that are kept as bytes, but for presence.
    pub fn others(&self) -> usize {
        usize::from(self.stanzas - self.presences)
    }

    /// Bytes of memory behind this value.
    pub fn heap_bytes(&self) -> usize {
        let kept = self.bytes as usize - self.queue.len() * SLOT_BYTES as usize;
        self.queue.capacity() * SLOT_BYTES as usize + kept
    }

    /// Takes the next stanza, before it is sent: it has the count [`Outbound::sent`] then. An entry
    /// that finds no room is still in its log.
    pub fn push(&mut self, kept: Kept, limits: Limits) -> Pushed {
        let own = kept.bytes();
        let mut gave_way = false;
        while !self.has_room(own, limits.of_presence()) {
            if self.give_up_presence() {
                gave_way = true;
            } else if matches!(kept, Kept::Presence(_)) {
                return self.push_gap(limits);
            } else {
                break;
            }
        }
        let mut others_gave_way = false;
        while !self.has_room(own, limits) {
            if !self.give_up(|kept| matches!(kept, Kept::Other(_))) {
                return Pushed::Full;
            }
            others_gave_way = true;
        }
        self.place(Slot::Kept(kept));
        match (others_gave_way, gave_way) {
            (true, _) => Pushed::OthersGaveWay,
            (false, true) => Pushed::PresenceGaveWay,
            (false, false) => Pushed::Kept,
        }
    }

    /// Whether a stanza of so many bytes has room if all presence gives way to it, and no other
    /// stanza that is kept goes beyond the bounds of presence. One alone has, whatever its size.
    pub fn takes(&self, bytes: usize, limits: Limits) -> bool {
        if self.others() == 0 {
            return true;
        }
        if self.others() >= usize::from(limits.stanzas) {
            return false;
        }
        let fits = |kept: u64| kept + bytes as u64 <= u64::from(limits.bytes);
        fits(self.bytes.into()) || fits((self.bytes - self.presence_bytes()).into())
    }

    fn presence_bytes(&self) -> u32 {
        let presences = self.queue.iter().map(|slot| match slot {
            Slot::Kept(kept @ Kept::Presence(_)) => kept.bytes(),
            Slot::Kept(_) | Slot::Gap(_) => 0,
        });
        presences.sum()
    }

    fn has_room(&self, own: u32, limits: Limits) -> bool {
        let is_only = own > 0 && self.stanzas == 0;
        let bytes = u64::from(self.bytes) + u64::from(own) + u64::from(SLOT_BYTES);
        let is_few = own == 0 || self.stanzas < limits.stanzas_max;
        is_only || is_few && bytes <= u64::from(limits.bytes_max)
    }

    /// Presence that finds no room, and no older presence to take the place of. Not even its gap
    /// may have any: then something older gives way to that.
    fn push_gap(&mut self, limits: Limits) -> Pushed {
        let mut others_gave_way = false;
        loop {
            if let Some(Slot::Gap(counts)) = self.queue.back_mut() {
                *counts += 1;
                self.sent = self.sent.wrapping_add(1);
                break;
            }
            if self.has_room(0, limits) {
                self.place(Slot::Gap(1));
                break;
            }
            if !self.give_up(|kept| matches!(kept, Kept::Other(_))) {
                return Pushed::Full;
            }
            others_gave_way = true;
        }
        match others_gave_way {
            true => Pushed::OthersGaveWay,
            false => Pushed::PresenceGaveWay,
        }
    }

    fn place(&mut self, slot: Slot) {
        self.sent = self.sent.wrapping_add(slot.counts());
        self.note(&slot);
        self.queue.push_back(slot);
    }

    fn note(&mut self, slot: &Slot) {
        self.bytes += SLOT_BYTES;
        if let Slot::Kept(kept) = slot {
            self.bytes += kept.bytes();
            self.stanzas += u16::from(kept.has_bytes());
            self.presences += u16::from(matches!(kept, Kept::Presence(_)));
        }
    }

    fn forget(&mut self, slot: &Slot) {
        self.bytes -= SLOT_BYTES;
        if let Slot::Kept(kept) = slot {
            self.bytes -= kept.bytes();
            self.stanzas -= u16::from(kept.has_bytes());
            self.presences -= u16::from(matches!(kept, Kept::Presence(_)));
        }
    }

    fn give_up_presence(&mut self) -> bool {
        self.presences > 0 && self.give_up(|kept| matches!(kept, Kept::Presence(_)))
    }

    /// Makes a gap of the oldest stanza of a kind; false if there is none. Gaps side by side become
    /// one, so that they alone never fill the queue.
    fn give_up(&mut self, is_it: impl Fn(&Kept) -> bool) -> bool {
        let is_it = |slot: &Slot| matches!(slot, Slot::Kept(kept) if is_it(kept));
        let Some(at) = self.queue.iter().position(is_it) else {
            return false;
        };
        let slot = std::mem::replace(&mut self.queue[at], Slot::Gap(1));
        self.forget(&slot);
        self.bytes += SLOT_BYTES;
        // The one behind it first: that leaves the place of this one.
        self.join_gap(at + 1);
        self.join_gap(at);
        true
    }

    /// Joins the gap at a place to the gap in front of it, if both are there.
    fn join_gap(&mut self, at: usize) {
        let Some(before) = at.checked_sub(1) else {
            return;
        };
        let (Some(Slot::Gap(first)), Some(Slot::Gap(second))) =
            (self.queue.get(before), self.queue.get(at))
        else {
            return;
        };
        let counts = first + second;
        self.queue[before] = Slot::Gap(counts);
        self.queue.remove(at);
        self.bytes -= SLOT_BYTES;
    }

    /// The client has handled `h` stanzas: returns the entries that it has thereby. A count below
    /// an earlier one says nothing.
    ///
    /// # Errors
    /// It was never sent so many.
    pub fn ack(&mut self, h: u32) -> Result<Entries, TooHigh> {
        let mut entries = Entries::new();
        self.handled(h, &mut entries)?;
        // Whatever it says, it is there.
        self.asked_at = Moment::FAR;
        Ok(entries)
    }

    /// How far `h` is behind what was acknowledged before, if it is.
    fn handled(&mut self, h: u32, entries: &mut Entries) -> Result<Option<Behind>, TooHigh> {
        let ahead = h.wrapping_sub(self.acked);
        if ahead > self.sent.wrapping_sub(self.acked) {
            // Half of all counts are behind, as in RFC 1982.
            return if ahead > u32::MAX / 2 {
                Ok(Some(Behind(self.acked.wrapping_sub(h))))
            } else {
                let sent = self.sent;
                Err(TooHigh { h, sent })
            };
        }
        let mut left = ahead;
        while left > 0 {
            // Invariant: the places of the queue have as many counts as there are unacknowledged.
            let slot = self.queue.pop_front().expect("a place for each count");
            self.forget(&slot);
            match slot {
                Slot::Gap(counts) if counts > left => {
                    self.queue.push_front(Slot::Gap(counts - left));
                    self.bytes += SLOT_BYTES;
                    left = 0;
                }
                Slot::Gap(counts) => left -= counts,
                Slot::Kept(kept) => {
                    entries.extend(kept.entry());
                    left -= 1;
                }
            }
        }
        self.acked = h;
        self.rest();
        Ok(None)
    }

    /// Gives memory back: most sessions are idle most of the time.
    fn rest(&mut self) {
        if self.queue.is_empty() {
            self.queue = VecDeque::new();
        }
    }

    /// What has not been acknowledged, in order, each with its count.
    pub fn unacked(&self) -> impl Iterator<Item = (u32, &Kept)> {
        let mut count = self.acked;
        self.queue.iter().filter_map(move |slot| {
            count = count.wrapping_add(slot.counts());
            match slot {
                Slot::Kept(kept) => Some((count, kept)),
                Slot::Gap(_) => None,
            }
        })
    }

    /// Whether the client should be asked now: it owes no answer, and was sent at least `every`
    /// stanzas since it was asked last.
    pub fn should_ask(&self, every: u32) -> bool {
        let unasked = self.sent.wrapping_sub(self.asked_through);
        self.asked_at == Moment::FAR && self.sent != self.acked && unasked >= every
    }

    /// The client is asked.
    pub fn asked(&mut self, now: Moment) {
        self.asked_at = now;
        self.asked_through = self.sent;
        self.heard_after = 0;
        self.is_asked_again = false;
    }

    /// Whether a client that owes an answer should be asked once more: half of its time is over.
    /// What it was sent is not lost on the way, and each question wakes a sleeping device.
    pub fn should_ask_again(&self, now: Moment, timeout: Duration) -> bool {
        !self.is_asked_again && self.is_overdue(now, timeout / 2)
    }

    /// The client is asked once more, and has no more time for that.
    pub fn asked_again(&mut self) {
        self.is_asked_again = true;
    }

    /// The client has said something else: its answer may be behind more of that, which was not
    /// read yet. It has its time from here on, to the next second.
    pub fn heard(&mut self, now: Moment) {
        if let Some(since) = self.asked_since() {
            let after = now.saturating_since(since).as_millis().div_ceil(1_000);
            self.heard_after = u16::try_from(after).unwrap_or(u16::MAX);
        }
    }

    /// What the client says was not heard until now: its time begins anew.
    pub fn was_held_up(&mut self, now: Moment) {
        if self.asked_since().is_some() {
            (self.asked_at, self.heard_after) = (now, 0);
        }
    }

    /// Since when the client owes an answer.
    pub fn asked_since(&self) -> Option<Moment> {
        (self.asked_at != Moment::FAR).then_some(self.asked_at)
    }

    /// Whether the client has owed an answer for too long: it has said nothing for so long, or only
    /// other things for [`TALK_MAX`] times that.
    pub fn is_overdue(&self, now: Moment, timeout: Duration) -> bool {
        let Some(since) = self.asked_since() else {
            return false;
        };
        let heard = since + Duration::from_secs(self.heard_after.into());
        now.saturating_since(heard) >= timeout || now.saturating_since(since) >= timeout * TALK_MAX
    }

    /// The link is gone: nobody is left to answer.
    pub fn detached(&mut self) {
        self.asked_at = Moment::FAR;
    }

    /// The client is back and has handled `h`. What is left is to be sent again, in order, and is
    /// counted from `h` on, as the client does. What is kept elsewhere is not: it is read there.
    ///
    /// # Errors
    /// It was never sent so many; nothing is changed.
    pub fn resume(&mut self, h: u32) -> Result<Resumed, TooHigh> {
        let mut acked = Entries::new();
        let behind = self.handled(h, &mut acked)?;
        let (places, sent) = (self.queue.len(), self.sent);
        let elsewhere = |slot: &&Slot| matches!(slot, Slot::Kept(Kept::Elsewhere));
        let elsewhere = self.queue.iter().filter(elsewhere).count();
        let stays = |slot: &Slot| matches!(slot, Slot::Kept(kept) if *kept != Kept::Elsewhere);
        self.queue.retain(stays);
        let gone = places - self.queue.len();
        self.rest();
        self.bytes -= gone as u32 * SLOT_BYTES;
        self.acked = h;
        self.sent = h.wrapping_add(self.queue.len() as u32);
        // All of it is about to be sent again.
        self.asked_through = h;
        self.asked_at = Moment::FAR;
        Ok(Resumed {
            acked,
            is_renumbered: self.sent != sent,
            presence_lost: gone > elsewhere,
            behind,
        })
    }
}

impl Outbound {
    /// Whether its places have as many counts as are unacknowledged.
    pub fn is_consistent(&self) -> bool {
        let counts: u32 = self.queue.iter().map(Slot::counts).sum();
        counts == self.sent.wrapping_sub(self.acked)
    }

    /// Takes out what has a count behind `through`, in order: it was never written.
    pub fn take_back(&mut self, through: u32) -> Vec<Kept> {
        let mut left = self.sent.wrapping_sub(through);
        let mut taken = Vec::new();
        if left > self.sent.wrapping_sub(self.acked) {
            return taken;
        }
        while left > 0 {
            // Invariant: the places of the queue have as many counts as there are unacknowledged.
            let slot = self.queue.pop_back().expect("a place for each count");
            self.forget(&slot);
            match slot {
                Slot::Gap(counts) if counts > left => {
                    self.queue.push_back(Slot::Gap(counts - left));
                    self.bytes += SLOT_BYTES;
                    left = 0;
                }
                Slot::Gap(counts) => left -= counts,
                Slot::Kept(kept) => {
                    taken.push(kept);
                    left -= 1;
                }
            }
        }
        self.sent = through;
        if self.asked_through.wrapping_sub(self.acked) > through.wrapping_sub(self.acked) {
            self.asked_through = through;
        }
        self.rest();
        taken.reverse();
        taken
    }

    /// Takes out all entries but the first `keep`, before what is left is sent again at a
    /// resumption, and gives them in their order. What was behind them is counted anew.
    pub fn leave_entries(&mut self, keep: usize) -> Vec<u64> {
        let (mut kept, mut left) = (0, Vec::new());
        let queue = std::mem::take(&mut self.queue);
        for slot in queue {
            if let Slot::Kept(Kept::Entry(seq)) = &slot {
                kept += 1;
                if kept > keep {
                    left.push(*seq);
                    self.forget(&slot);
                    continue;
                }
            }
            self.queue.push_back(slot);
        }
        let counts = self.queue.iter().map(Slot::counts).sum();
        self.sent = self.acked.wrapping_add(counts);
        left
    }
}

impl Kept {
    /// Bytes that it has of its own.
    fn bytes(&self) -> u32 {
        match self {
            Kept::Entry(_) | Kept::Elsewhere => 0,
            Kept::Presence(bytes) | Kept::Other(bytes) => {
                u32::try_from(bytes.len()).unwrap_or(u32::MAX)
            }
        }
    }

    fn has_bytes(&self) -> bool {
        matches!(self, Kept::Presence(_) | Kept::Other(_))
    }

    /// Its place in the log, if it has one.
    pub fn entry(&self) -> Option<u64> {
        match self {
            Kept::Entry(seq) => Some(*seq),
            Kept::Elsewhere | Kept::Presence(_) | Kept::Other(_) => None,
        }
    }
}

impl Slot {
    fn counts(&self) -> u32 {
        match self {
            Slot::Kept(_) => 1,
            Slot::Gap(counts) => *counts,
        }
    }
}
