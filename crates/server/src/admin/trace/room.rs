//! What became of a message in the log of a room: to whom it is still owed, of those of whom that
//! is recorded. These are the managed sessions in the room (XEP-0198), and the members to whose
//! accounts it delivers.

use room::State;
use store::{LogEntry, Seq, StoreError, StoredRoom};

use super::Admin;
use crate::address;
use crate::modules::stanza_ids;
use crate::stored::rooms::{present_of, records_of};

/// Sessions, and members, that are named; further ones are counted.
const NAMED: usize = 20;

impl Admin {
    pub(super) fn kept_in_room(
        &self,
        room: &str,
        entry: &LogEntry,
        lines: &mut Vec<String>,
    ) -> Result<(), StoreError> {
        let (_, Some(stored)) = self.store.load_room(room, 0)? else {
            return Ok(());
        };
        let (at, id) = (entry.at.with_millis(), stanza_ids::id_of(entry.seq));
        lines.push(format!("{at}  in the log of {room}, as {id}"));
        let (sessions, owed) = self.owed_to_sessions(room, &stored, entry.seq)?;
        say(
            lines,
            "sessions with stream management there",
            sessions,
            owed,
        );
        let (members, owed) = self.owed_to_members(room, &stored, entry.seq)?;
        say(lines, "members' accounts", members, owed);
        lines.push("-  of sessions without stream management nothing is recorded".to_owned());
        Ok(())
    }

    /// How many managed sessions are in a room since before an entry, and those that have not
    /// acknowledged it.
    fn owed_to_sessions(
        &self,
        room: &str,
        stored: &StoredRoom,
        seq: Seq,
    ) -> Result<(usize, Vec<String>), StoreError> {
        let (mut count, mut owed) = (0, Vec::new());
        let present = present_of(room, stored)?.into_iter();
        let there = present.filter(|one| one.gone.is_none());
        for session in there.flat_map(|one| one.sessions) {
            let Some(number) = session.managed.filter(|_| session.since < seq) else {
                continue;
            };
            count += 1;
            let read = self.store.rooms_read(address::bare(&session.address))?;
            let read = read.into_iter();
            let read = read.filter(|(of, name, _)| (*of, name.as_str()) == (number, room));
            let read = read.map(|(_, _, read)| read).next().unwrap_or_default();
            let address = session.address;
            if read.given.iter().any(|given| given.seq == seq) {
                owed.push(format!("given to {address}, not acknowledged"));
            } else if read.acked < seq {
                owed.push(format!("not given to {address}"));
            }
        }
        Ok((count, owed))
    }

    /// How many members a room delivers to, and those who are owed an entry.
    fn owed_to_members(
        &self,
        room: &str,
        stored: &StoredRoom,
        seq: Seq,
    ) -> Result<(usize, Vec<String>), StoreError> {
        let limits = &self.options.rooms.machine.limits;
        let state = State::of(records_of(room, stored)?, limits);
        let members = state.iter().flat_map(State::members);
        let (mut count, mut owed) = (0, Vec::new());
        for member in members {
            count += 1;
            match self.store.member_place(&member, room)? {
                Some(place) if place >= seq => {}
                Some(_) => owed.push(format!("waits for {member}")),
                None => owed.push(format!("the home of {member} does not know of the room")),
            }
        }
        Ok((count, owed))
    }
}

fn say(lines: &mut Vec<String>, of_whom: &str, count: usize, mut owed: Vec<String>) {
    if count == 0 {
        return;
    }
    let all = owed.len();
    lines.push(format!(
        "-  owed to {all} of {count} {of_whom}, as far as is recorded"
    ));
    owed.truncate(NAMED);
    lines.extend(owed.iter().map(|one| format!("-  {one}")));
    if all > NAMED {
        lines.push(format!("-  and so on: {} more", all - NAMED));
    }
}
