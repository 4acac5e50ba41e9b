//! XEP-0191 Blocking Command: the list, its changes, pushes, and the effects on presence.

use std::collections::HashSet;

use actor::{Context, Mail};
use store::Record;
use xml::build::Writer;
use xmpp::error::{Condition, StanzaError};

use crate::address;
use crate::blocklist::Blocklist;
use crate::iq::{Answer, Request};
use crate::limits::{BLOCKED_BYTES_MAX, BLOCKED_MAX};
use crate::message::UserMsg;
use crate::modules::blocking::NS;
use crate::user::managed::What;
use crate::user::{User, storage};

pub(super) fn list(user: &mut User, request: &Request<'_>) -> Answer {
    let Some(conn) = request.asker.conn() else {
        return Answer::error(Condition::Forbidden);
    };
    if request.is_set {
        return Answer::error(Condition::BadRequest);
    }
    user.change_session(Some(conn), |session| {
        !std::mem::replace(&mut session.wants_blocklist, true)
    });
    let mut out = Vec::new();
    write_list(
        &mut Writer::new(&mut out),
        "blocklist",
        user.blocklist.iter(),
    );
    Answer::Result(out)
}

pub(super) fn block(
    user: &mut User,
    request: &Request<'_>,
    cx: &mut Context<'_, UserMsg>,
) -> Answer {
    let jids = match addresses(request) {
        Ok(jids) if jids.is_empty() => {
            // Section 3.3: a block names somebody.
            return Answer::error(Condition::BadRequest);
        }
        Ok(jids) => jids,
        Err(error) => return Answer::Error(error),
    };
    let mut named = HashSet::new();
    let new = jids.iter().filter(|jid| !user.blocklist.has(jid));
    let new = new.filter(|jid| named.insert(jid.as_str()));
    let new: Vec<String> = new.cloned().collect();
    let bytes: usize = new.iter().map(String::len).sum();
    if user.blocklist.len() + new.len() > BLOCKED_MAX
        || bytes > 0 && user.blocklist.bytes() + bytes > BLOCKED_BYTES_MAX
    {
        return StanzaError::new(Condition::ResourceConstraint)
            .with_text("The block list is full.")
            .into();
    }
    if !user.may_store(bytes, cx) {
        return storage::full().into();
    }
    let mut blocked: Vec<String> = user.blocklist.iter().map(str::to_owned).collect();
    blocked.extend(new.iter().cloned());
    replace(user, blocked);
    push(user, "block", &jids, cx);
    // Section 3.3.2: contacts who could see the user's presence see it end.
    let added = Blocklist::new(new);
    user.leave_directed(&added, cx);
    for contact in subscribers(user, &added) {
        user.hide_from(&contact, cx);
    }
    Answer::done()
}

pub(super) fn unblock(
    user: &mut User,
    request: &Request<'_>,
    cx: &mut Context<'_, UserMsg>,
) -> Answer {
    let jids = match addresses(request) {
        Ok(jids) => jids,
        Err(error) => return Answer::Error(error),
    };
    let old: Vec<String> = user.blocklist.iter().map(str::to_owned).collect();
    let named: HashSet<&String> = jids.iter().collect();
    // Section 3.4: an unblock that names nobody frees everybody.
    let (freed, kept) = old
        .into_iter()
        .partition(|jid| named.is_empty() || named.contains(jid));
    replace(user, kept);
    push(user, "unblock", &jids, cx);
    let freed = Blocklist::new(freed);
    for contact in subscribers(user, &freed) {
        if !user.blocklist.covers(&contact) {
            user.show_to(&contact, cx);
        }
    }
    Answer::done()
}

fn replace(user: &mut User, blocked: Vec<String>) {
    user.record(Record::BlocklistPut {
        user: String::from(&*user.name),
        blocked: blocked.clone(),
    });
    user.blocklist = Blocklist::new(blocked);
}

/// Contacts who may see the user's presence and whom `covering` covers.
fn subscribers(user: &User, covering: &Blocklist) -> Vec<String> {
    let items = user
        .roster
        .iter()
        .filter(|item| item.state.subscription.from());
    items
        .filter(|item| covering.covers(item.jid))
        .map(|item| item.jid.to_owned())
        .collect()
}

/// The normalised addresses that a command names.
fn addresses(request: &Request<'_>) -> Result<Vec<String>, StanzaError> {
    if !request.asker.is_owner() {
        return Err(StanzaError::new(Condition::Forbidden));
    }
    if !request.is_set {
        return Err(StanzaError::new(Condition::BadRequest));
    }
    let command = request.tree()?;
    let items = command.children().filter(|child| child.is("item", NS));
    let jids = items.take(BLOCKED_MAX + 1).map(|item| {
        let jid = item
            .attr("jid")
            .ok_or_else(|| StanzaError::new(Condition::BadRequest))?;
        let jid = xmpp::addr::parse(jid).map_err(|_| StanzaError::new(Condition::JidMalformed))?;
        Ok(jid.as_str().to_owned())
    });
    jids.collect()
}

/// Section 3.3.3: every session that asked for the list learns of the change.
fn push(user: &mut User, command: &str, jids: &[String], cx: &mut Context<'_, UserMsg>) {
    let domain = address::domain(&user.name).to_owned();
    for at in 0..user.sessions.len() {
        let session = &user.sessions[at];
        if !session.wants_blocklist {
            continue;
        }
        let (conn, full) = (session.conn, session.full.clone());
        let id = format!("{command}-{:x}-{domain}", cx.rng().u32(..));
        user.write(conn, What::Other, cx, |out| {
            let mut writer = Writer::new(out);
            writer
                .open("iq")
                .attr("type", "set")
                .attr("id", &id)
                .attr("to", &full);
            write_list(&mut writer, command, jids.iter().map(String::as_str));
            writer.close();
        });
    }
}

fn write_list<'a>(writer: &mut Writer<'_>, name: &str, jids: impl Iterator<Item = &'a str>) {
    writer.open(name).attr("xmlns", NS);
    for jid in jids {
        writer.open("item").attr("jid", jid).close();
    }
    writer.close();
}
