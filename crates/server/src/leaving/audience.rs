//! To whom a frame goes that leaves a room or a service: addresses, each with what it takes to find
//! it, in the order in which they are served. Owns that order.

use std::rc::Rc;
use std::sync::Arc;

use actor::Name;
use store::RangeId;

use crate::address;
use crate::place::Place;

/// Addresses that one frame goes to.
pub(super) type Audience = Arc<[Arc<str>]>;

/// Who gets a copy.
pub(super) struct Recipient {
    pub(super) range: RangeId,
    pub(super) bare: Name,
    pub(super) address: Arc<str>,
    /// If not, the account decides which of its sessions get it.
    pub(super) is_full: bool,
}

/// Grouped by the shard where each is at home: those of one shard share a frame.
pub(super) type Recipients = Rc<[Recipient]>;

/// The last audience that was looked up: most frames go to those who got the one before.
#[derive(Default)]
pub(super) struct LookUp {
    known: Option<Known>,
}

struct Known {
    audience: Audience,
    /// Ranges of the node that had moved between its shards by then.
    moves: u64,
    recipients: Recipients,
}

impl LookUp {
    pub(super) fn recipients(&mut self, audience: Audience, place: &Place) -> Recipients {
        let moves = place.moves();
        let is_it = |known: &&Known| {
            // Since a range has moved, those of one shard are not beside each other any more.
            Arc::ptr_eq(&known.audience, &audience) && known.moves == moves
        };
        if let Some(known) = self.known.as_ref().filter(is_it) {
            return Rc::clone(&known.recipients);
        }
        let recipient = |address: &Arc<str>| {
            let bare = Name::from(address::bare(address));
            Recipient {
                range: place.range(&bare),
                bare,
                address: Arc::clone(address),
                is_full: address.contains('/'),
            }
        };
        let mut all: Vec<Recipient> = audience.iter().map(recipient).collect();
        all.sort_by_key(|recipient| place.home_of(recipient.range));
        let recipients: Recipients = all.into();
        // History for one does not take the place of everybody.
        if recipients.len() > 1 {
            self.known = Some(Known {
                audience,
                moves,
                recipients: Rc::clone(&recipients),
            });
        }
        recipients
    }
}

#[cfg(test)]
mod tests {
    use actor::ShardId;
    use store::SlotKey;

    use super::*;

    const SHARDS: u16 = 2;

    /// How often the shard changes from one recipient to the next.
    fn changes(recipients: &Recipients, place: &Place) -> usize {
        let homes: Vec<ShardId> = recipients
            .iter()
            .map(|recipient| place.home_of(recipient.range))
            .collect();
        homes.windows(2).filter(|pair| pair[0] != pair[1]).count()
    }

    /// Goal: those of one shard stand beside each other, also once some of them have moved; nothing
    /// is looked up again otherwise.
    #[test]
    fn those_of_one_shard_share_a_frame_wherever_they_move() {
        let place = Place::new(SlotKey::new([7; 16]), SHARDS);
        let audience: Audience = (0..100)
            .map(|n| Arc::from(format!("user{n}@localhost/a")))
            .collect();
        let mut look_up = LookUp::default();
        let before = look_up.recipients(Arc::clone(&audience), &place);
        assert_eq!(changes(&before, &place), 1);
        for recipient in before.iter().step_by(3) {
            let from = place.home_of(recipient.range);
            let to = ShardId::new((from.index() + 1) % SHARDS);
            place.leaves(recipient.range, to);
            place.arrives(recipient.range);
        }
        assert!(changes(&before, &place) > 1, "they have moved");
        let now = look_up.recipients(Arc::clone(&audience), &place);
        assert_eq!(changes(&now, &place), 1);
        assert_eq!(now.len(), audience.len());
        let again = look_up.recipients(audience, &place);
        assert!(Rc::ptr_eq(&now, &again));
    }
}
