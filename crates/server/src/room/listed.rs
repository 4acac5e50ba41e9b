//! What a room says of itself to those who list rooms (`crate::listing`).

use actor::Name;
use room::Room;

use super::RoomActor;
use crate::listing::{Place, Temporary};

impl RoomActor {
    fn place(&self) -> Place {
        (self.life.range().index(), Name::clone(&self.life.name))
    }

    /// Says what has changed.
    pub(super) fn list_temporary(&mut self) {
        let state = self.room.as_ref().and_then(Room::state);
        let state = state.filter(|state| !state.is_durable());
        let is_known = match (&self.temporary, state) {
            (None, None) => true,
            (Some(known), Some(state)) => state.is_listed_as(&known.listed),
            _ => false,
        };
        if is_known {
            return;
        }
        let now = state.map(|state| Temporary {
            creator: self.creator.clone().unwrap_or_else(|| Name::from("")),
            listed: state.listed(),
        });
        self.life.home.rooms.set(&self.place(), now.clone());
        self.temporary = now;
    }

    /// Says how many are there.
    pub(super) fn list_occupants(&mut self) {
        let count = self.room.as_ref().map_or(0, Room::occupants);
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        if count != self.listed_occupants {
            self.life.home.rooms.set_occupants(&self.life.name, count);
            self.listed_occupants = count;
        }
    }

    /// The room ends.
    pub(super) fn forget_temporary(&mut self) {
        if self.listed_occupants > 0 {
            self.life.home.rooms.set_occupants(&self.life.name, 0);
            self.listed_occupants = 0;
        }
        if self.temporary.take().is_some() {
            self.life.home.rooms.set(&self.place(), None);
        }
    }
}
