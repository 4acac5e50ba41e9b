//! Roster management (RFC 6121 section 2): get with versioning, set, remove, and pushes to the
//! clients that asked for the roster.

use actor::{Context, Mail};
use store::Record;
use xml::build::Writer;
use xmpp::error::{Condition, StanzaError};

use crate::address;
use crate::iq::{Answer, Request};
use crate::limits::{
    ROSTER_GROUP_BYTES_MAX, ROSTER_GROUPS_MAX, ROSTER_NAME_BYTES_MAX, ROSTER_PARTS,
};
use crate::message::{Delivery, UserMsg};
use crate::modules::roster::NS;
use crate::user::managed::What;
use crate::user::presence::presence_of;
use crate::user::roster::{Item, ItemRef, Subscription, SubscriptionState};
use crate::user::subscription::Action;
use crate::user::{User, storage};

pub(super) fn query(
    user: &mut User,
    request: &Request<'_>,
    cx: &mut Context<'_, UserMsg>,
) -> Answer {
    if !request.asker.is_owner() {
        // Section 2.1.5: nobody sees or changes the roster of somebody else.
        return Answer::error(Condition::Forbidden);
    }
    if request.is_set {
        set(user, request, cx)
    } else {
        get(user, request)
    }
}

fn get(user: &mut User, request: &Request<'_>) -> Answer {
    user.change_session(request.asker.conn(), |session| {
        !std::mem::replace(&mut session.wants_roster, true)
    });
    let version = user.roster.version().to_string();
    let known = request.payload.attr("ver");
    if known.is_some_and(|known| known == version) {
        return Answer::done();
    }
    let mut out = Vec::with_capacity(user.roster.packed_bytes() * 4 + 64);
    let mut writer = Writer::new(&mut out);
    writer.open("query").attr("xmlns", NS).attr("ver", &version);
    for item in user.roster.iter().filter(|item| item.listed) {
        write_item(&mut writer, item.jid, item.name, item.state, item.groups());
    }
    writer.close();
    Answer::Result(out)
}

fn set(user: &mut User, request: &Request<'_>, cx: &mut Context<'_, UserMsg>) -> Answer {
    let change = match request.tree().and_then(|query| Change::parse(&query)) {
        Ok(change) => change,
        Err(error) => return Answer::Error(error),
    };
    let known = user.roster.find(&change.jid).map(|item| item.to_item());
    if change.remove {
        return match known {
            Some(item) if item.listed => remove(user, item, cx),
            // Section 2.5.3.
            known => {
                user.confirm_item(&change.jid, known.as_ref());
                Answer::error(Condition::ItemNotFound)
            }
        };
    }
    let takes_room = known.as_ref().is_some_and(Item::takes_room);
    let before = known.as_ref().map_or(0, Item::packed_bytes);
    let old = known.unwrap_or_else(|| Item::new(&change.jid));
    let item = Item {
        name: change.name,
        groups: change.groups,
        listed: true,
        ..old.clone()
    };
    let growth = item.packed_bytes().saturating_sub(before);
    if !takes_room && user.is_roster_full() || growth > 0 && user.roster.is_full() {
        return StanzaError::new(Condition::ResourceConstraint)
            .with_text("The roster is full.")
            .into();
    }
    if growth > 0 && !user.may_store(growth, cx) {
        return storage::full().into();
    }
    if old == item {
        // Nothing is new, but section 2.1.6 wants every set pushed.
        user.confirm_item(&item.jid, Some(&item));
        push(user, &item, cx);
    } else {
        user.change_item(&old, item, cx);
    }
    Answer::done()
}

/// Section 2.5.2: the contact is told what the end of the item means for the subscriptions.
fn remove(user: &mut User, item: Item, cx: &mut Context<'_, UserMsg>) -> Answer {
    user.remove_item(&item.jid, cx);
    push_removed(user, &item.jid, cx);
    part_from(user, &item, cx);
    Answer::done()
}

/// Ends both directions of a subscription with a contact.
pub(crate) fn part_from(user: &mut User, item: &Item, cx: &mut Context<'_, UserMsg>) {
    let state = item.state;
    let mut send = |user: &mut User, action: Action| {
        let frame = presence_of(&user.name, Some(action.as_str()));
        user.send_to_contact(&item.jid, Delivery::new(None, frame), cx);
    };
    if state.subscription.to() || state.ask {
        send(user, Action::Unsubscribe);
    }
    if state.subscription.from() || state.pending_in {
        send(user, Action::Unsubscribed);
    }
    if state.subscription.from() {
        user.hide_from(&item.jid, cx);
    }
}

struct Change {
    jid: String,
    name: String,
    groups: Vec<String>,
    remove: bool,
}

impl Change {
    /// Section 2.3.3 lists what is wrong with a set and how it is answered.
    fn parse(query: &minidom::Element) -> Result<Self, StanzaError> {
        let bad = |text: &'static str| StanzaError::new(Condition::BadRequest).with_text(text);
        let too_long =
            |text: &'static str| StanzaError::new(Condition::NotAcceptable).with_text(text);
        let mut items = query.children().filter(|child| child.is("item", NS));
        let (Some(item), None) = (items.next(), items.next()) else {
            return Err(bad("A roster set has exactly one item."));
        };
        let jid = item
            .attr("jid")
            .ok_or_else(|| bad("The item has no 'jid'."))?;
        let jid = xmpp::addr::parse(jid).map_err(|_| bad("The item's 'jid' is not an address."))?;
        let jid = address::bare(jid.as_str()).to_owned();
        let name = item.attr("name").unwrap_or_default().to_owned();
        if name.len() > ROSTER_NAME_BYTES_MAX {
            return Err(too_long("The item's name is too long."));
        }
        let mut groups: Vec<String> = Vec::new();
        for group in item.children().filter(|child| child.is("group", NS)) {
            let group = group.text();
            if groups.contains(&group) {
                return Err(bad("The item names a group twice."));
            }
            if group.is_empty() || group.len() > ROSTER_GROUP_BYTES_MAX {
                return Err(too_long("A group's name is empty or too long."));
            }
            groups.push(group);
        }
        if groups.len() > ROSTER_GROUPS_MAX {
            return Err(too_long("The item has too many groups."));
        }
        let remove = item.attr("subscription") == Some("remove");
        Ok(Change {
            jid,
            name,
            groups,
            remove,
        })
    }
}

/// Tells one session of the next items of a roster of which it may have missed changes, if it is
/// interested: some at a time, and further ones once its client has acknowledged some, for each
/// item is a push of its own that is kept until then.
pub(crate) fn push_owed(user: &mut User, at: usize, cx: &mut Context<'_, UserMsg>) {
    let limits = user.home.bounds().unlogged;
    let few = (usize::from(limits.stanzas) / ROSTER_PARTS).max(1);
    let bytes = limits.bytes as usize / ROSTER_PARTS;
    let session = &mut user.sessions[at];
    let wants_roster = session.wants_roster;
    let Some(managed) = &mut session.managed else {
        return;
    };
    if managed.out.others() >= few {
        return;
    }
    let Some(after) = managed.roster_owed.take().filter(|_| wants_roster) else {
        return;
    };
    let (items, is_all) = items_behind(user, &after, (few, bytes));
    if let (false, Some(last)) = (is_all, items.last())
        && let Some(managed) = &mut user.sessions[at].managed
    {
        managed.roster_owed = Some(last.jid.clone().into());
    }
    let (conn, full) = (user.sessions[at].conn, user.sessions[at].full.clone());
    for item in items {
        let id = format!("push-{:x}", cx.rng().u32(..));
        user.write(conn, What::Other, cx, |out| {
            // Without a version: its client may have missed that others were removed, or this may
            // be all that it gets. It asks for the whole roster when it comes again.
            write_push(out, (&id, &full, None), |writer| {
                let groups = item.groups.iter().map(String::as_str);
                write_item(writer, &item.jid, &item.name, item.state, groups);
            });
        });
    }
}

/// So many items and bytes at most, but one whatever its size, whose addresses are behind that one,
/// in their order; and whether these are the last ones.
fn items_behind(user: &User, after: &str, (few, bytes): (usize, usize)) -> (Vec<Item>, bool) {
    let items = user.roster.iter();
    let items = items.filter(|item| item.listed && *item.jid > *after);
    let mut items: Vec<_> = items.collect();
    let all = items.len();
    if all > few {
        items.select_nth_unstable_by(few, |one, other| one.jid.cmp(other.jid));
        items.truncate(few);
    }
    items.sort_unstable_by(|one, other| one.jid.cmp(other.jid));
    let mut room = bytes;
    let fits = |item: &&ItemRef<'_>| match room.checked_sub(item.bytes()) {
        Some(rest) => {
            room = rest;
            true
        }
        None => false,
    };
    let fitting = items.iter().take_while(fits).count().max(1);
    items.truncate(fitting);
    let is_all = items.len() == all;
    (items.iter().map(|item| item.to_item()).collect(), is_all)
}

fn write_push(
    out: &mut Vec<u8>,
    (id, to, version): (&str, &str, Option<&str>),
    write_item: impl Fn(&mut Writer<'_>),
) {
    let mut writer = Writer::new(out);
    writer
        .open("iq")
        .attr("type", "set")
        .attr("id", id)
        .attr("to", to);
    writer.open("query").attr("xmlns", NS);
    if let Some(version) = version {
        writer.attr("ver", version);
    }
    write_item(&mut writer);
    writer.close();
    writer.close();
}

/// Section 2.1.6: tells every interested session of an item's new state.
pub(crate) fn push(user: &mut User, item: &Item, cx: &mut Context<'_, UserMsg>) {
    push_with(user, cx, |writer| {
        let groups = item.groups.iter().map(String::as_str);
        write_item(writer, &item.jid, &item.name, item.state, groups);
    });
}

fn push_removed(user: &mut User, jid: &str, cx: &mut Context<'_, UserMsg>) {
    push_with(user, cx, |writer| {
        writer
            .open("item")
            .attr("jid", jid)
            .attr("subscription", "remove")
            .close();
    });
}

fn push_with(user: &mut User, cx: &mut Context<'_, UserMsg>, write_item: impl Fn(&mut Writer<'_>)) {
    let version = user.roster.version().to_string();
    for at in 0..user.sessions.len() {
        let session = &user.sessions[at];
        if !session.wants_roster {
            continue;
        }
        let (conn, full) = (session.conn, session.full.clone());
        let id = format!("push-{:x}", cx.rng().u32(..));
        user.write(conn, What::Other, cx, |out| {
            write_push(out, (&id, &full, Some(&version)), &write_item);
        });
    }
}

fn write_item<'a>(
    writer: &mut Writer<'_>,
    jid: &str,
    name: &str,
    state: SubscriptionState,
    groups: impl Iterator<Item = &'a str>,
) {
    writer.open("item").attr("jid", jid);
    if !name.is_empty() {
        writer.attr("name", name);
    }
    writer.attr("subscription", state.subscription.as_str());
    if state.ask {
        writer.attr("ask", "subscribe");
    }
    if state.approved {
        writer.attr("approved", "true");
    }
    for group in groups {
        writer.open("group").text(group).close();
    }
    writer.close();
}

/// The record that gives a user a whole roster at once: import and provisioning.
pub(crate) fn replace_record(user: &str, items: Vec<store::RosterItem>) -> Record {
    Record::RosterReplace {
        user: user.to_owned(),
        roster: store::Roster { version: 1, items },
    }
}

/// An item as provisioning makes it: both see each other.
pub(crate) fn mutual_item(jid: String) -> store::RosterItem {
    let item = Item {
        state: SubscriptionState {
            subscription: Subscription::Both,
            ..Default::default()
        },
        listed: true,
        ..Item::new(&jid)
    };
    (&item).into()
}
