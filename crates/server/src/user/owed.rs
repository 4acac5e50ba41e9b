//! Credit that the connections of a user are owed for messages on their way to their recipients'
//! homes. Costs no memory for a message: a connection gets its credit back in two batches by turns,
//! each with its last message. Who is owed nothing has nothing here.

use net::ConnRef;
use store::Seq;

/// Messages that the first batch takes before the second is begun: a share of a window, so that
/// the credit of some comes back while others are under way.
const BATCH: u16 = 16;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Owed(Vec<Owing>);

#[derive(Debug)]
struct Owing {
    link: ConnRef,
    first: Batch,
    /// What came since; with nothing in the first there is nothing in it.
    next: Batch,
}

#[derive(Clone, Copy, Debug, Default)]
struct Batch {
    stanzas: u16,
    /// Place of the last one in the log.
    through: Seq,
}

impl Batch {
    fn add(&mut self, seq: Seq) {
        self.stanzas = self.stanzas.saturating_add(1);
        self.through = seq;
    }
}

impl Owed {
    /// A message that came by `link` is in the log. Places ascend.
    pub(super) fn owe(&mut self, link: ConnRef, seq: Seq) {
        let at = self.0.iter().position(|owing| owing.link == link);
        let at = at.unwrap_or_else(|| {
            self.0.push(Owing {
                link,
                first: Batch::default(),
                next: Batch::default(),
            });
            self.0.len() - 1
        });
        let owing = &mut self.0[at];
        match owing.next.stanzas == 0 && owing.first.stanzas < BATCH {
            true => owing.first.add(seq),
            false => owing.next.add(seq),
        }
    }

    /// A connection, and the credit that it gets back now that everything up to `mark` has been
    /// taken. To be asked until there is none.
    pub(super) fn settle(&mut self, mark: Seq) -> Option<(ConnRef, u16)> {
        let mut all = self.0.iter();
        let at = all.position(|owing| owing.first.through <= mark)?;
        let owing = &mut self.0[at];
        let (link, stanzas) = (owing.link, owing.first.stanzas);
        owing.first = std::mem::take(&mut owing.next);
        if owing.first.stanzas == 0 {
            self.0.swap_remove(at);
        }
        Some((link, stanzas))
    }
}

#[cfg(test)]
mod tests {
    use actor::ShardId;
    use stdx::slab::Key;

    use super::*;

    fn link(n: u32) -> ConnRef {
        ConnRef {
            shard: ShardId::new(0),
            id: Key {
                index: n,
                generation: 0,
            },
        }
    }

    fn settle(owed: &mut Owed, mark: Seq) -> Vec<(ConnRef, u16)> {
        std::iter::from_fn(|| owed.settle(mark)).collect()
    }

    #[test]
    fn each_message_is_repaid_once_and_not_before_it_is_taken() {
        let mut owed = Owed::default();
        let (mut given, mut seq) = (0, 0);
        for mark in 0..1_000_u64 {
            // Up to three of one connection for each that is taken, up to a window.
            for _ in 0..3 {
                if seq - given < 64 {
                    seq += 1;
                    owed.owe(link(1), seq);
                }
            }
            for (_, stanzas) in settle(&mut owed, mark) {
                given += u64::from(stanzas);
            }
            assert!(given <= mark, "{given} were repaid of {mark}");
            assert!(mark - given < 64, "{given} were repaid of {mark}");
        }
        let rest: u64 = settle(&mut owed, seq)
            .iter()
            .map(|(_, n)| u64::from(*n))
            .sum();
        assert_eq!(given + rest, seq);
        assert!(owed.0.is_empty());
    }

    #[test]
    fn connections_are_repaid_each_for_its_own() {
        let mut owed = Owed::default();
        for (conn, seq) in [(1, 1), (2, 2), (1, 5), (2, 7)] {
            owed.owe(link(conn), seq);
        }
        assert_eq!(settle(&mut owed, 4), []);
        assert_eq!(settle(&mut owed, 5), [(link(1), 2)]);
        assert_eq!(settle(&mut owed, 7), [(link(2), 2)]);
        assert!(owed.0.is_empty());
    }
}
