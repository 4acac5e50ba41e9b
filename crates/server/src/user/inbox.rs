//! Messages for a user whom nobody can show them to right now (XEP-0160): they are the pending part
//! of the user's log and leave it in order, before anything newer.

use actor::{Context, Mail};
use stdx::time::Timestamp;
use store::{EntryFlags, LogEntry, LogHead, Record, StoreError};
use telemetry::Counter;
use xml::Frame;
use xmpp::error::{Condition, StanzaError};

use super::User;
use super::barrier::Effect;
use crate::limits::INBOX_PAGE;
use crate::message::UserMsg;
use crate::modules::offline;

/// The head of the log and how far it is being read.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    next_seq: u64,
    trimmed_through: u64,
    pending_count: u32,
    pending_bytes: u64,
    /// A page has been asked for: what arrives meanwhile goes behind it.
    is_draining: bool,
}

impl Inbox {
    pub(super) fn new(head: &LogHead) -> Self {
        Inbox {
            next_seq: head.next_seq,
            trimmed_through: head.trimmed_through,
            pending_count: head.waiting_count as u32,
            pending_bytes: head.waiting_bytes,
            is_draining: false,
        }
    }

    /// How many messages wait, and their bytes.
    pub(super) fn pending(&self) -> (u64, u64) {
        (u64::from(self.pending_count), self.pending_bytes)
    }
}

impl User {
    /// A chat or normal message for the account as a whole (RFC 6121 sections 8.5.2.1.1 and
    /// 8.5.2.2.1).
    pub(super) fn deliver_to_inbox(&mut self, frame: Frame, cx: &mut Context<'_, UserMsg>) {
        // What is pending goes first: order is kept between a sender and a recipient.
        let in_order = self.inbox.pending_count == 0 && !self.inbox.is_draining;
        if in_order && self.write_to_takers(&frame, cx) {
            return;
        }
        if !offline::is_worth_keeping(&frame) {
            return;
        }
        let limits = self.home.limits();
        let bytes = frame.as_bytes().len() as u64;
        if self.inbox.pending_count >= limits.offline_messages_max
            || self.inbox.pending_bytes + bytes > limits.offline_bytes_max
        {
            cx.stats().count(Counter::MessagesRefused);
            let error = StanzaError::new(Condition::ResourceConstraint)
                .with_text("The recipient's inbox is full; try again later.");
            return self.bounce_with(&frame, &error, cx);
        }
        cx.stats().count(Counter::MessagesKept);
        let from = frame.attr("from").unwrap_or_default();
        let peer = from.split('/').next().unwrap_or_default().to_owned();
        let seq = self.inbox.next_seq;
        self.inbox.next_seq += 1;
        self.inbox.pending_count += 1;
        self.inbox.pending_bytes += bytes;
        let entry = LogEntry {
            seq,
            at: cx.wall(),
            peer,
            frame: frame.as_bytes().to_vec(),
            flags: EntryFlags::WAITING,
            ..LogEntry::default()
        };
        self.record(Record::LogAppend {
            user: self.name.to_string(),
            entry,
        });
        if self
            .sessions
            .iter()
            .any(super::session::Session::takes_messages)
        {
            self.drain_inbox(cx);
        }
    }

    /// Reads the next page of pending messages, if there is any and somebody to show it to.
    pub(super) fn drain_inbox(&mut self, cx: &mut Context<'_, UserMsg>) {
        if self.inbox.is_draining || self.inbox.pending_count == 0 {
            return;
        }
        self.inbox.is_draining = true;
        // Behind the commits that are under way: only then the store has it all.
        self.emit(Effect::ReadPage, cx);
    }

    pub(super) fn read_page(&mut self, cx: &mut Context<'_, UserMsg>) {
        let (store, name) = (self.home.store.clone(), self.name.clone());
        let after = self.inbox.trimmed_through;
        let read = move || Box::new(store.log_read(&name, after, INBOX_PAGE));
        if cx.blocking(&self.home.reads, read, UserMsg::Page).is_err() {
            self.page_read(Err(super::overloaded()), cx);
        }
    }

    pub(super) fn page_read(
        &mut self,
        page: Result<Vec<LogEntry>, StoreError>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        self.inbox.is_draining = false;
        let entries = match page {
            Ok(entries) => entries,
            Err(error) => {
                // They stay pending; the next session or the next message tries again.
                tracing::warn!(user = %self.name, %error, "cannot read pending messages");
                return;
            }
        };
        if !self
            .sessions
            .iter()
            .any(super::session::Session::takes_messages)
        {
            return;
        }
        let Some(last) = entries.last() else {
            self.inbox.pending_count = 0;
            self.inbox.pending_bytes = 0;
            return;
        };
        let through = last.seq;
        for entry in &entries {
            self.inbox.pending_count = self.inbox.pending_count.saturating_sub(1);
            self.inbox.pending_bytes = self
                .inbox
                .pending_bytes
                .saturating_sub(entry.frame.len() as u64);
            match delayed(entry, address_domain(&self.name)) {
                Ok(frame) => {
                    self.write_to_takers(&frame, cx);
                }
                Err(_) => {
                    let (user, seq) = (&self.name, entry.seq);
                    tracing::error!(%user, seq, "a stored message is damaged");
                }
            }
        }
        self.inbox.trimmed_through = through;
        // A client without stream management gets the weaker promise of docs/delivery.md: written
        // is delivered.
        self.record(Record::LogTrim {
            user: self.name.to_string(),
            through,
        });
        self.drain_inbox(cx);
    }

    /// Remembers when the user was last here and what was said then (XEP-0012).
    pub(super) fn remember_last_activity(&mut self, frame: &Frame, cx: &mut Context<'_, UserMsg>) {
        let status = frame
            .children()
            .find(|child| child.name() == "status")
            .and_then(|child| child.text())
            .map(|text| text.chars().take(256).collect::<String>())
            .unwrap_or_default();
        let at: Timestamp = cx.wall();
        self.last = Some(Box::new((at, status.clone())));
        self.record(Record::LastActivity {
            user: self.name.to_string(),
            at,
            status,
        });
    }
}

fn address_domain(name: &str) -> &str {
    crate::address::domain(name)
}

/// The stored stanza with the time at which it was accepted (XEP-0203).
fn delayed(entry: &LogEntry, domain: &str) -> Result<Frame, xml::Error> {
    let frame = Frame::parse(entry.frame.clone())?;
    Ok(frame
        .edit()
        .append_child(&offline::delay(domain, entry.at))
        .finish())
}
