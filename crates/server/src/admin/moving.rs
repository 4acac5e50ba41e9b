//! What moves into a node and out of it: export, import, and records of many accounts at once. Owns
//! how such records get to where they are at home, whoever is loaded there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use actor::{Name, ShardId};
use store::Record;

use super::portable::{Cursor, Export, Import, Made};
use super::{Admin, Outcome, PAGE_MAX, Response, error, unreadable};
use crate::address;
use crate::journal::{PORT, PortMsg};
use crate::limits::ADMIN_DEADLINE;
use crate::message::{AppendError, UserMsg};
use crate::operator::{AdminAnswer, AdminCommand};

impl Admin {
    pub(super) fn export(&self, after: Option<&str>, limit: usize) -> Outcome {
        let Some(cursor) = Cursor::read(after) else {
            return Err(error("bad_cursor", "no page starts there"));
        };
        let mut page = Export::new(self);
        let next = page.page(cursor, limit.clamp(1, PAGE_MAX));
        Ok(Response::Lines {
            next: next.map_err(unreadable)?,
            lines: page.lines,
        })
    }

    pub(super) fn import(&self, lines: &[String], is_check: bool, strays: &[usize]) -> Outcome {
        let mut import = Import::new(self, is_check);
        let mut records = Vec::new();
        for (index, line) in lines.iter().enumerate() {
            let is_stray = strays.binary_search(&index).is_ok();
            let made = import
                .line(line, is_stray)
                .map_err(|bad| Response::Refused {
                    index,
                    code: bad.code,
                    message: bad.message,
                })?;
            if !is_check {
                records.extend(made);
            }
        }
        self.append(records)?;
        let Made {
            accounts,
            rooms,
            nodes,
        } = import.made;
        Ok(Response::Imported {
            accounts,
            rooms,
            nodes,
        })
    }

    /// Whether there is a room that is in no store.
    pub(crate) fn is_temporary(&self, room: &str) -> bool {
        let range = self.store.slot_key().slot(room).range();
        self.rooms.has(&(range.index(), Name::from(room)))
    }

    pub(crate) fn must_not_exist(&self, jid: &str) -> Result<(), Response> {
        match self.store.load_user(jid).map_err(unreadable)? {
            Some(_) => Err(error(
                "user_exists",
                &format!("there is an account {jid} already"),
            )),
            None => Ok(()),
        }
    }
}

impl Admin {
    /// Appends records of accounts through the queues of the shards where they are at home, a batch
    /// at a time. Accounts that are loaded append theirs themselves.
    pub(super) fn append(&self, records: impl IntoIterator<Item = Record>) -> Result<(), Response> {
        if self.options.cluster.is_some() {
            // All or nothing, as far as that is known now.
            let all: Vec<Record> = records.into_iter().collect();
            all.iter()
                .try_for_each(|record| self.must_be_here(record.user()))?;
            return self.append_here(all);
        }
        self.append_here(records)
    }

    fn append_here(&self, records: impl IntoIterator<Item = Record>) -> Result<(), Response> {
        let mut records = records.into_iter().peekable();
        while records.peek().is_some() {
            self.append_batch(records.by_ref().take(BATCH).collect())?;
        }
        Ok(())
    }

    /// Appends one batch. Loaded accounts append for themselves; rooms and services leave the
    /// memory for it, which nobody notices: the next stanza loads them.
    fn append_batch(&self, mut records: Vec<Record>) -> Result<(), Response> {
        for attempt in 0.. {
            let loaded = self.append_at_homes(records)?;
            let is_account = |record: &Record| self.is_account(record.user());
            let (accounts, others): (Vec<_>, Vec<_>) = loaded.into_iter().partition(is_account);
            for record in accounts {
                self.tell_loaded(record)?;
            }
            let Some(first) = others.first() else { break };
            if attempt >= self.options.commits.import_attempts {
                let message = format!("{} is in use; {SOME_MADE}", first.user());
                return Err(error("busy", &message));
            }
            let mut told = BTreeSet::new();
            let mut is_any_busy = false;
            for user in others.iter().map(Record::user) {
                if told.insert(user.to_owned()) {
                    is_any_busy |= !self.leaves(user)?;
                }
            }
            if is_any_busy {
                std::thread::sleep(BUSY_PAUSE);
            }
            records = others;
        }
        Ok(())
    }

    /// Appends records where each is at home now: between two attempts its range may have moved.
    /// Returns those that the homes did not take ([`Admin::append_at`]).
    fn append_at_homes(&self, records: Vec<Record>) -> Result<Vec<Record>, Response> {
        let mut shards: BTreeMap<ShardId, Vec<Record>> = BTreeMap::new();
        for record in records {
            let shard = self.place.shard(record.user());
            shards.entry(shard).or_default().push(record);
        }
        let mut loaded = Vec::new();
        for (shard, records) in shards {
            loaded.extend(self.append_at(shard, records)?);
        }
        Ok(loaded)
    }

    /// Whether an address is one that accounts have.
    fn is_account(&self, jid: &str) -> bool {
        let domain = address::domain(jid);
        address::local(jid).is_some() && self.options.domains.iter().any(|own| own == domain)
    }

    /// Asks a room or a service to leave the memory. False if something is under way there.
    fn leaves(&self, jid: &str) -> Result<bool, Response> {
        let question = |reply| UserMsg::Admin {
            command: Box::new(AdminCommand::Leave),
            reply,
        };
        let shard = self.place.shard(jid);
        let answer = self
            .handle
            .ask_named(shard, &Name::from(jid), question, ADMIN_DEADLINE);
        let silent = |_| error("no_answer", &format!("{jid} did not answer; {SOME_MADE}"));
        Ok(answer.map_err(silent)? == AdminAnswer::Done)
    }

    /// Appends the records of one shard. Returns those of who is loaded there, and of ranges that
    /// have left it.
    fn append_at(&self, shard: ShardId, records: Vec<Record>) -> Result<Vec<Record>, Response> {
        let mut patience = self.options.commits.import_attempts;
        loop {
            let question = |reply| PortMsg::Import {
                slots: self.place.slots(),
                records: records.clone(),
                reply,
            };
            let answer = self
                .handle
                .ask_named(shard, &Name::from(PORT), question, IMPORT_DEADLINE)
                .map_err(|why| error("no_answer", &format!("{why}; {SOME_MADE}")))?;
            match answer.result {
                Ok(()) => return Ok(answer.loaded),
                Err(AppendError::Busy) if patience > 0 => {
                    patience -= 1;
                    std::thread::sleep(BUSY_PAUSE);
                }
                Err(AppendError::Busy) => {
                    // Of several batches, those in front of this one are there.
                    let message =
                        format!("the server is too busy to take all of it: try again; {SOME_MADE}");
                    return Err(error("busy", &message));
                }
                Err(why) => {
                    let message =
                        format!("the store did not take all of it ({why:?}); {SOME_MADE}");
                    return Err(error("store_unavailable", &message));
                }
            }
        }
    }

    /// Hands a record to the account's actor.
    fn tell_loaded(&self, record: Record) -> Result<(), Response> {
        let jid = record.user().to_owned();
        let told = self.tell(&jid, AdminCommand::Import(Box::new(record)));
        told.map(drop)
    }
}

/// Records that an import or a provisioning hands to a shard at a time: the shard's turn is short.
const BATCH: usize = 1_024;

/// How long a batch may take to be durable. Then it may still happen; nothing more is handed over.
const IMPORT_DEADLINE: Duration = Duration::from_secs(60);

/// Pause between two attempts to hand over a batch ([`crate::options::Commits::import_attempts`]).
const BUSY_PAUSE: Duration = Duration::from_millis(10);

const SOME_MADE: &str = "some of this may have been made: `roost user list`, `roost room list` and \
                         `roost pubsub list` show what";
