//! `roost user`: accounts.

use std::io::{self, Write as _};

use super::unexpected;
use crate::cli::{Place, UserCommand};
use crate::door::{Absent, Door};
use crate::exit::Failure;
use crate::node::{EraseFrom, Erased, Request, Response};
use crate::password;

/// Accounts asked for at a time.
const PAGE: usize = 1_000;

pub(super) fn run(command: UserCommand) -> Result<(), Failure> {
    match command {
        UserCommand::Add {
            jid,
            password,
            place,
        } => {
            // A wrong configuration is said before a password is asked for.
            let config = place.source().load()?;
            let password = password::obtain(&password, &jid)?.reveal().to_owned();
            let request = Request::UserAdd {
                jid: jid.clone(),
                password,
            };
            Door::open(&config, Absent::Create)?.call(request)?;
            say(&format!("added {jid}"))
        }
        UserCommand::Passwd {
            jid,
            password,
            place,
        } => {
            let config = place.source().load()?;
            let password = password::obtain(&password, &jid)?.reveal().to_owned();
            let request = Request::UserPasswd {
                jid: jid.clone(),
                password,
            };
            Door::open(&config, Absent::Refuse)?.call(request)?;
            say(&format!(
                "changed the password of {jid}; its sessions have ended"
            ))
        }
        UserCommand::Del { jid, place } => {
            call(&place, Request::UserDel { jid: jid.clone() })?;
            say(&format!("removed {jid}"))
        }
        UserCommand::Lock { jid, place } => {
            call(
                &place,
                Request::UserLock {
                    jid: jid.clone(),
                    locked: true,
                },
            )?;
            say(&format!("locked {jid}; its sessions have ended"))
        }
        UserCommand::Unlock { jid, place } => {
            call(
                &place,
                Request::UserLock {
                    jid: jid.clone(),
                    locked: false,
                },
            )?;
            say(&format!("unlocked {jid}"))
        }
        UserCommand::Kick { jid, place } => {
            call(&place, Request::UserKick { jid: jid.clone() })?;
            say(&format!("ended the sessions of {jid}"))
        }
        UserCommand::Erase { jid, place } => erase(&place, &jid),
        UserCommand::List { domain, place } => list(&place, domain.as_deref()),
    }
}

fn call(place: &Place, request: Request) -> Result<Response, Failure> {
    Door::open(&place.source().load()?, Absent::Refuse)?.call(request)
}

fn say(line: &str) -> Result<(), Failure> {
    super::print(&format!("{line}\n"))
}

fn erase(place: &Place, jid: &str) -> Result<(), Failure> {
    let mut door = Door::open(&place.source().load()?, Absent::Refuse)?;
    let mut all = Erased::default();
    let mut from = Some(EraseFrom::Own(0));
    while let Some(part) = from {
        let request = Request::UserErase {
            jid: jid.to_owned(),
            from: part,
        };
        let Response::Erased { erased } = door.call(request)? else {
            return Err(unexpected());
        };
        all.own += erased.own;
        all.in_rooms += erased.in_rooms;
        all.waiting += erased.waiting;
        all.elsewhere += erased.elsewhere;
        all.failed.extend(erased.failed);
        from = erased.next;
    }
    let (own, rooms) = (all.own, all.in_rooms);
    say(&format!(
        "erased {own} messages of {jid} in its archive, and {rooms} in rooms"
    ))?;
    if all.waiting > 0 {
        let waiting = all.waiting;
        say(&format!(
            "{waiting} are still on their way: erase again once they have arrived"
        ))?;
    }
    if all.elsewhere > 0 {
        say("some homes moved meanwhile: erase once more")?;
    }
    not_erased(&all.failed)
}

/// Names every room that was passed over.
fn not_erased(failed: &[(String, String)]) -> Result<(), Failure> {
    if failed.is_empty() {
        return Ok(());
    }
    let rooms = failed.iter().map(|(room, why)| format!("{room} ({why})"));
    let rooms: Vec<String> = rooms.collect();
    let (count, rooms) = (rooms.len(), rooms.join(", "));
    Err(Failure::TryAgain(format!(
        "{count} rooms still have what was said in them, erase again: {rooms}"
    )))
}

fn list(place: &Place, domain: Option<&str>) -> Result<(), Failure> {
    let mut door = Door::open(&place.source().load()?, Absent::Refuse)?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut after: Option<String> = None;
    loop {
        let domain = domain.map(str::to_owned);
        match door.call(Request::UserList {
            domain,
            after: after.take(),
            limit: PAGE,
        })? {
            Response::Users { jids } => {
                for jid in &jids {
                    writeln!(out, "{jid}")?;
                }
                // A page that is not full is the last one.
                let Some(last) = jids.last().filter(|_| jids.len() == PAGE) else {
                    break;
                };
                after = Some(last.clone());
            }
            _ => return Err(unexpected()),
        }
    }
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: whoever erases hears of every room that was passed over, by the exit code too.
    #[test]
    fn rooms_that_were_passed_over_are_all_named() {
        assert!(not_erased(&[]).is_ok());
        let failed = [("a@x", "busy"), ("b@y", "unreadable")];
        let failed = failed.map(|(room, why)| (room.to_owned(), why.to_owned()));
        let said = not_erased(&failed);
        let Err(Failure::TryAgain(why)) = said else {
            panic!("no such end");
        };
        assert!(why.starts_with("2 rooms still have"), "{why}");
        assert!(why.ends_with("a@x (busy), b@y (unreadable)"), "{why}");
    }
}
