//! Message sequences of one user: what was written to each contact and what came from each.

/// What a received sequence number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// The next one, or one past a gap.
    InOrder,
    /// New, but a later one came first.
    Late,
    /// Seen before (or older than the window can tell).
    Again,
}

/// Receiver's memory of one sequence: the next number and which of the last 64 came.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    next: u32,
    came: u64,
}

impl Window {
    /// Notes the arrival of `sequence`.
    pub(super) fn receive(&mut self, sequence: u32) -> Arrival {
        if sequence >= self.next {
            let shift = sequence - self.next + 1;
            self.came = self.came.checked_shl(shift).unwrap_or(0) | 1;
            self.next = sequence + 1;
            return Arrival::InOrder;
        }
        let back = self.next - 1 - sequence;
        let Some(bit) = 1_u64.checked_shl(back) else {
            return Arrival::Again;
        };
        if self.came & bit != 0 {
            return Arrival::Again;
        }
        self.came |= bit;
        Arrival::Late
    }
}

/// Sequences of one user, one slot per contact and a last one for the pair partner. Made when the
/// first message is written or read: users who never chat do not carry it.
pub(super) struct Chat {
    sent: Box<[u32]>,
    windows: Box<[Window]>,
}

impl Chat {
    /// Sequences for `contacts` contacts and a pair partner.
    pub(super) fn new(contacts: u32) -> Chat {
        let slots = contacts as usize + 1;
        Chat {
            sent: vec![0; slots].into_boxed_slice(),
            windows: vec![Window::default(); slots].into_boxed_slice(),
        }
    }

    /// The number of the next message to `slot`.
    pub(super) fn next(&mut self, slot: u32) -> u32 {
        let sequence = &mut self.sent[slot as usize];
        *sequence += 1;
        *sequence - 1
    }

    /// Notes message number `sequence` from `slot`.
    pub(super) fn receive(&mut self, slot: u32, sequence: u32) -> Arrival {
        self.windows[slot as usize].receive(sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_late_ones_and_repeats_are_told_apart() {
        use Arrival::{Again, InOrder, Late};
        let mut window = Window::default();
        for (sequence, expected) in [
            (0, InOrder),
            (1, InOrder),
            (1, Again),
            (5, InOrder),
            (3, Late),
            (3, Again),
            (4, Late),
            (0, Again),
            (200, InOrder),
            (5, Again),
            (199, Late),
            (137, Late),
            (136, Again),
        ] {
            assert_eq!(window.receive(sequence), expected, "sequence {sequence}");
        }
    }
}
