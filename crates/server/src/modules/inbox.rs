//! XEP-0430 Inbox 0.2.0: one's conversations, those with the latest messages first, with what is
//! unread in each. Nothing is kept for it: conversations are read from the account's log and the
//! logs of its bookmarked rooms, marks of what was displayed from its nodes (XEP-0490). What counts
//! as read is in `inbox/unread.rs`.

mod conversations;
mod unread;

use std::cmp::Reverse;

use store::Seq;
use xml::build::Writer;
use xml::{Child, Frame};
use xmpp::error::{Condition, StanzaError};
use xmpp::form::flag;

use super::{AccountHandler, Module, Outcome, Switch, View, Xep, mam, stanza_ids};
use crate::iq::{Found, Request};
use crate::limits::ARCHIVE_PAGE_BYTES;
use conversations::{Conversation, Inbox};

const NS: &str = "urn:xmpp:inbox:1";
const NS_RSM: &str = "http://jabber.org/protocol/rsm";

pub(crate) const MODULE: Module = Module {
    name: "inbox",
    switch: Switch::ByOperator,
    needs: &["archive"],
    xeps: &[Xep {
        number: 430,
        name: "Inbox",
        version: "0.2.0",
        note: "Conversations of the account, and bookmarked rooms with an archive (docs/inbox.md).",
    }],
    host_features: &[],
    account_features: &[NS],
    account: &[("inbox", NS, AccountHandler::Reads(inbox))],
    host: &[],
};

/// Conversations on one page, at most.
const PAGE_MAX: usize = 100;

/// Conversations on a page of a query that does not say how many.
const PAGE_DEFAULT: usize = 50;

fn inbox(view: &View<'_>, request: &Request<'_>) -> Outcome {
    if !request.asker.is_owner() {
        return Outcome::error(Condition::Forbidden);
    }
    if request.is_set {
        return Outcome::error(Condition::NotAllowed);
    }
    let asked = match Asked::parse(&request.payload) {
        Ok(asked) => asked,
        Err(error) => return error.into(),
    };
    let of = |name| request.frame.attr(name).unwrap_or_default().into_owned();
    let (asker, query_id) = (of("from"), of("id"));
    let options = view.options();
    let inbox = Inbox {
        owner: view.address().clone(),
        now: view.now(),
        bounds: options.inbox.clone(),
        nodes: options.pep.enabled.then(|| options.pep.machine.clone()),
        rooms: options.rooms.machine.clone(),
        hosts: options.rooms.hosts.clone(),
    };
    Outcome::read_page(move |store| {
        let failed = |_| StanzaError::new(Condition::InternalServerError);
        let all = inbox.read(store).map_err(failed)?;
        let page = asked.page_of(&all)?;
        let mut out = Page {
            to: (&inbox.owner, &asker),
            query_id: &query_id,
            leading: Vec::new(),
            bytes: 0,
        };
        let mut shown = 0;
        for conversation in page.conversations() {
            let message = match (asked.messages, conversation.latest) {
                (true, Some(seq)) => conversation
                    .message(store, &inbox.owner, seq)
                    .map_err(failed)?,
                _ => None,
            };
            if !out.takes(conversation, message) {
                break;
            }
            shown += 1;
        }
        let fin = page.fin(&all, shown);
        if page.is_backwards {
            out.leading.reverse();
        }
        Ok::<Found, StanzaError>((out.leading, fin))
    })
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Asked {
    unread_only: bool,
    /// The latest message of each is sent too.
    messages: bool,
    max: usize,
    after: Option<String>,
    /// Empty for the last page.
    before: Option<String>,
}

/// A place in the list: conversations with later messages first. Of one millisecond those that are
/// later in their log; logs of rooms are other ones, and then it only has to be some order.
type Place<'a> = (Reverse<(i64, Seq)>, &'a str);

fn cursor(conversation: &Conversation) -> String {
    let Conversation {
        at, last, address, ..
    } = conversation;
    format!("{at}/{last}/{address}")
}

fn place(cursor: &str) -> Result<Place<'_>, StanzaError> {
    let unknown = || StanzaError::new(Condition::ItemNotFound);
    let (at, rest) = cursor.split_once('/').ok_or_else(unknown)?;
    let (last, address) = rest.split_once('/').ok_or_else(unknown)?;
    let at = at.parse().map_err(|_| unknown())?;
    let last = last.parse().map_err(|_| unknown())?;
    Ok((Reverse((at, last)), address))
}

impl Asked {
    fn parse(payload: &Child<'_>) -> Result<Asked, StanzaError> {
        let bad = || StanzaError::new(Condition::BadRequest);
        let flag_of = |name, default| {
            let value = payload.attr(name);
            value.map_or(Ok(default), |value| flag(&value).ok_or_else(bad))
        };
        let mut asked = Asked {
            unread_only: flag_of("unread-only", false)?,
            messages: flag_of("messages", true)?,
            max: PAGE_DEFAULT,
            after: None,
            before: None,
        };
        for set in payload.children().filter(|child| child.ns() == NS_RSM) {
            for child in set.children() {
                let text = child.text().ok_or_else(bad)?.trim().to_owned();
                match child.name() {
                    "max" => {
                        let max: u32 = text.parse().map_err(|_| bad())?;
                        asked.max = usize::try_from(max).unwrap_or(PAGE_MAX).min(PAGE_MAX);
                    }
                    "after" => asked.after = Some(text),
                    "before" => asked.before = Some(text),
                    _ => return Err(StanzaError::new(Condition::FeatureNotImplemented)),
                }
            }
        }
        Ok(asked)
    }

    /// The part of the list that is asked for.
    fn page_of<'a>(&self, all: &'a [Conversation]) -> Result<Part<'a>, StanzaError> {
        let listed = all.iter().filter(|one| !self.unread_only || one.unread > 0);
        let listed: Vec<&Conversation> = listed.collect();
        let from = match &self.after {
            Some(after) => {
                let after = place(after)?;
                listed.partition_point(|one| one.place() <= after)
            }
            None => 0,
        };
        let to = match self.before.as_deref() {
            Some(before) if !before.is_empty() => {
                let before = place(before)?;
                listed.partition_point(|one| one.place() < before)
            }
            _ => listed.len(),
        };
        let is_backwards = self.before.is_some();
        let (from, to) = match is_backwards {
            true => (from.max(to.saturating_sub(self.max)).min(to), to),
            false => (from, to.min(from + self.max).max(from)),
        };
        Ok(Part {
            listed,
            from,
            to,
            is_backwards,
        })
    }
}

/// A part of the list.
struct Part<'a> {
    listed: Vec<&'a Conversation>,
    from: usize,
    to: usize,
    is_backwards: bool,
}

impl<'a> Part<'a> {
    /// From the end that counts: what does not fit is left to the next page.
    fn conversations(&self) -> Box<dyn Iterator<Item = &'a Conversation> + '_> {
        let part = self.listed[self.from..self.to].iter().copied();
        match self.is_backwards {
            true => Box::new(part.rev()),
            false => Box::new(part),
        }
    }

    /// The end of the page, of which so many fitted.
    fn fin(&self, all: &[Conversation], shown: usize) -> Vec<u8> {
        let from = match self.is_backwards {
            true => self.to - shown,
            false => self.from,
        };
        let ends = &self.listed[from..from + shown];
        let unread = all.iter().filter(|one| one.unread > 0).count();
        let all_unread: u64 = all.iter().map(|one| one.unread).sum();
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.open("fin").attr("xmlns", NS);
        writer.attr("total", &all.len().to_string());
        writer.attr("unread", &unread.to_string());
        writer.attr("all-unread", &all_unread.to_string());
        writer.open("set").attr("xmlns", NS_RSM);
        if let (Some(first), Some(last)) = (ends.first(), ends.last()) {
            writer.open("first").attr("index", &from.to_string());
            writer.text(&cursor(first)).close();
            writer.open("last").text(&cursor(last)).close();
        }
        let count = self.listed.len().to_string();
        writer.open("count").text(&count).close();
        writer.close().close();
        out
    }
}

/// The stanzas of a page.
struct Page<'a> {
    /// The account, and its session that asks.
    to: (&'a str, &'a str),
    query_id: &'a str,
    leading: Vec<Vec<u8>>,
    bytes: usize,
}

impl Page<'_> {
    /// Adds a conversation with its latest message. False if it does not fit.
    fn takes(&mut self, of: &Conversation, message: Option<(u64, stdx::Timestamp, Frame)>) -> bool {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        let (owner, asker) = self.to;
        writer.open("message").attr("from", owner).attr("to", asker);
        writer.open("entry").attr("xmlns", NS);
        writer.attr("unread", &of.unread.to_string());
        writer.attr("jid", &of.address);
        writer.attr("id", &stanza_ids::id_of(of.last)).close();
        if let Some((seq, at, message)) = message {
            mam::write_result_in(&mut writer, Some(self.query_id), (seq, at), &message);
        }
        writer.close();
        let fits = self.leading.is_empty() || self.bytes + out.len() <= ARCHIVE_PAGE_BYTES;
        if fits {
            self.bytes += out.len();
            self.leading.push(out);
        }
        fits
    }
}

#[cfg(test)]
mod tests;
