//! An administrator's commands to one account, and its end by whatever hand.

use std::sync::Arc;

use actor::{Context, Mail, Reply};
use delivery::Place;
use net::ConnRef;
use store::{Account, Record};

use super::acts::roster;
use super::outbound::Destination;
use super::{Effect, Phase, User};
use crate::blocklist::Blocklist;
use crate::ending::Abort;
use crate::message::control::{Control, Keys};
use crate::message::{Delivery, UserMsg};
use crate::operator::{AdminAnswer, AdminCommand, ErasedEntry};
use crate::queues::{QueueCommand, Stuck};
use crate::watch::{SessionSample, UserSample};

impl User {
    pub(super) fn administer(
        &mut self,
        command: AdminCommand,
        reply: Reply<AdminAnswer>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let (command, reply) = match (self.phase, command) {
            (Phase::Registered, AdminCommand::Nodes(command)) => {
                return self.operate_nodes(command, reply, cx);
            }
            (_, other) => (other, reply),
        };
        let answer = match (self.phase, command) {
            (Phase::Loading | Phase::Unreadable, _) => AdminAnswer::Unavailable,
            (Phase::Registered, AdminCommand::Create(_)) => AdminAnswer::Exists,
            (_, AdminCommand::Import(record)) => self.import(*record, cx),
            (Phase::Absent, AdminCommand::Create(account)) => self.create(account, cx),
            (Phase::Absent, _)
            | (_, AdminCommand::Room(_) | AdminCommand::Nodes(_) | AdminCommand::Leave) => {
                AdminAnswer::Absent
            }
            (Phase::Registered, AdminCommand::Inspect) => {
                AdminAnswer::Inspected(Arc::new(self.inspect(cx)))
            }
            (Phase::Registered, AdminCommand::Queue(command)) => self.queue_command(command, cx),
            (Phase::Registered, AdminCommand::Erase(entries)) => self.erase(entries),
            (Phase::Registered, AdminCommand::Remove) => {
                self.remove_account(cx);
                AdminAnswer::Done
            }
            (Phase::Registered, AdminCommand::SetKeys(scram)) => {
                self.end_generation(Abort::CredentialsChanged);
                self.put_account(scram, self.is_locked);
                self.end_all_sessions(Abort::CredentialsChanged, cx);
                AdminAnswer::Done
            }
            (Phase::Registered, AdminCommand::Lock { locked }) => self.lock(locked, cx),
            (Phase::Registered, AdminCommand::Kick) => {
                self.end_generation(Abort::Kicked);
                self.end_all_sessions(Abort::Kicked, cx);
                AdminAnswer::Done
            }
        };
        self.emit(Effect::Answer(reply, answer), cx);
    }

    fn inspect(&self, cx: &mut Context<'_, UserMsg>) -> UserSample {
        let sessions = self.sessions.iter().map(|session| SessionSample {
            resource: session.resource().to_owned(),
            available: session.is_available(),
            priority: session.priority,
            directed: session.directed.as_ref().map_or(0, |to| to.len()),
            backlog_bytes: session.link().and_then(|conn| self.home.io.backlog(conn)),
        });
        let (pending_messages, pending_bytes) = self.waiting();
        UserSample {
            shard: cx.shard().index(),
            created_ms: self.created.as_millis(),
            locked: self.is_locked,
            sessions: sessions.collect(),
            roster_items: self.roster.len(),
            roster_bytes: self.roster.packed_bytes(),
            blocked: self.blocklist.len(),
            pending_messages,
            pending_bytes,
            // Whoever asks adds it: the store knows.
            stored_bytes: 0,
            mailbox: cx.waiting(),
            commits_waiting: self.barrier.len(),
        }
    }

    fn queue_command(
        &mut self,
        command: QueueCommand,
        cx: &mut Context<'_, UserMsg>,
    ) -> AdminAnswer {
        let now = cx.now();
        let Some(log) = &mut self.log else {
            return AdminAnswer::Counted(0);
        };
        let answer = match command {
            QueueCommand::List => {
                let stuck = log.outbox.stuck(now);
                AdminAnswer::Stuck(stuck.map(|own| Stuck::of(&own)).collect())
            }
            QueueCommand::Retry(peer) => {
                let all: Vec<u64> = log.outbox.stuck(now).map(|own| own.dest).collect();
                let meant = all
                    .into_iter()
                    .filter(|dest| peer.is_none_or(|peer| peer == *dest));
                let tried = meant.filter(|dest| log.outbox.retry_now(*dest));
                AdminAnswer::Counted(tried.count() as u64)
            }
            QueueCommand::Drop(peer) => AdminAnswer::Counted(log.outbox.drop_pending(peer).into()),
        };
        self.work_on_outbox(cx);
        answer
    }

    /// Replaces entries of the log by what is left of a message that was taken back, but for those
    /// that are still to be handed over. The store may not know yet how far that has come.
    fn erase(&mut self, entries: Vec<ErasedEntry>) -> AdminAnswer {
        let Some(log) = &mut self.log else {
            return AdminAnswer::Counted(0);
        };
        let mut records = Vec::new();
        for entry in entries {
            let waits = entry
                .dest
                .is_some_and(|dest| !log.outbox.is_settled(Place::new(entry.seq), dest));
            if waits || entry.seq <= log.head.trimmed_through {
                continue;
            }
            let bytes = log.head.bytes + entry.frame.len() as u64;
            log.head.bytes = bytes.saturating_sub(entry.bytes);
            records.push(Record::LogReplace {
                user: String::from(&*self.name),
                seq: entry.seq,
                frame: entry.frame,
            });
        }
        let count = records.len() as u64;
        for record in records {
            self.record(record);
        }
        AdminAnswer::Counted(count)
    }

    fn create(&mut self, account: Account, cx: &mut Context<'_, UserMsg>) -> AdminAnswer {
        self.created = account.created;
        self.record(Record::AccountPut {
            user: String::from(&*self.name),
            account: account.clone(),
        });
        self.phase = Phase::Registered;
        self.login.keep(account);
        // An earlier account of this name left its places in the log behind: they are read.
        self.stale = true;
        cx.hold();
        AdminAnswer::Done
    }

    /// Takes a record that an import makes while the account is loaded: it is read again, as it is
    /// after that.
    fn import(&mut self, record: Record, cx: &mut Context<'_, UserMsg>) -> AdminAnswer {
        match (self.phase, &record) {
            (Phase::Registered, Record::AccountPut { .. }) => return AdminAnswer::Exists,
            (Phase::Absent, Record::AccountPut { .. }) => self.phase = Phase::Registered,
            (Phase::Absent, _) => return AdminAnswer::Absent,
            _ => {}
        }
        self.record(record);
        self.stale = true;
        cx.hold();
        AdminAnswer::Done
    }

    fn lock(&mut self, locked: bool, cx: &mut Context<'_, UserMsg>) -> AdminAnswer {
        self.is_locked = locked;
        self.login.set_locked(locked);
        self.record(Record::AccountLock {
            user: String::from(&*self.name),
            locked,
        });
        if locked {
            self.end_generation(Abort::Locked);
            self.end_all_sessions(Abort::Locked, cx);
        }
        AdminAnswer::Done
    }

    /// Stores the account with these keys; who logs in next reads them from the store's answer.
    pub(crate) fn put_account(&mut self, scram: Vec<store::ScramKeys>, locked: bool) {
        let account = Account {
            created: self.created,
            locked,
            scram,
        };
        self.is_locked = locked;
        self.login.keep(account.clone());
        self.record(Record::AccountPut {
            user: String::from(&*self.name),
            account,
        });
    }

    /// The account and all that belongs to it goes. Contacts learn that the subscriptions ended.
    pub(crate) fn remove_account(&mut self, cx: &mut Context<'_, UserMsg>) {
        self.end_generation(Abort::AccountRemoved);
        self.record(Record::AccountRemove {
            user: String::from(&*self.name),
        });
        let contacts: Vec<_> = self.roster.iter().map(|item| item.to_item()).collect();
        for item in &contacts {
            roster::part_from(self, item, cx);
        }
        self.forget_nodes(cx);
        self.roster = super::Roster::default();
        self.blocklist = Blocklist::default();
        self.last = None;
        self.photo_hash = None;
        self.archive_prefs = None;
        self.end_all_sessions(Abort::AccountRemoved, cx);
        self.home.queues.note(&self.name, None);
        self.phase = Phase::Absent;
        // Pages that are being read are of this account and not of the next one of its name.
        self.failures = self.failures.wrapping_add(1);
        // Whoever waits for an answer of a session that has ended hears so.
        self.perform_inbox(cx);
        let home = &self.home;
        self.log = self
            .log
            .take()
            .map(|log| Box::new(log.without_account(home)));
        self.has_full_session = false;
        self.is_locked = false;
        let begun = self.current_generation();
        for conn in std::mem::take(&mut self.login).take_waiting() {
            let keys = Control::Keys(Keys::Unavailable, begun);
            let _ = self.home.io.control(cx, conn, keys);
        }
        self.watch_idleness(cx);
    }

    /// Ends every session but one.
    pub(crate) fn end_sessions_except(
        &mut self,
        kept: Option<ConnRef>,
        abort: Abort,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let others: Vec<ConnRef> = self
            .sessions
            .iter()
            .map(|session| session.conn)
            .filter(|conn| Some(*conn) != kept)
            .collect();
        for conn in others {
            let mut sessions = self.sessions.iter();
            let Some(at) = sessions.position(|session| session.conn == conn) else {
                continue;
            };
            self.end_badly(at, abort, cx);
        }
    }
}

impl User {
    /// Sends to a contact wherever it is; to another domain nothing can go yet.
    pub(crate) fn send_to_contact(
        &mut self,
        to: &str,
        delivery: Delivery,
        cx: &mut Context<'_, UserMsg>,
    ) {
        if self.destination(to) == Destination::Local {
            self.forward(to, delivery, true, cx);
        }
    }

    /// Sends the presence of every available session to a contact who may see it again.
    pub(crate) fn show_to(&mut self, contact: &str, cx: &mut Context<'_, UserMsg>) {
        self.send_own_presence(contact, None, cx);
    }
}
