//! The address at which a domain is searched: for rooms that everybody may know of (XEP-0433,
//! docs/rooms.md), and for accounts that want to be found (XEP-0055, docs/directory.md). It keeps
//! no state but how often accounts search: the home of whoever asks answers, and reads lists.

mod channels;
mod users;

use actor::Context;
use store::DirectoryEntry;
use xml::Child;
use xmpp::error::{Condition, StanzaError};
use xmpp::ns;

use crate::home::Home;
use crate::host;
use crate::iq::{self, Answer, Job};
use crate::message::UserMsg;
use crate::modules::{disco, register};

/// What an address of searches says.
pub(crate) enum Said {
    /// What needs nothing of the account that asks.
    Plain(host::Said),
    /// The account that asks is in the directory with this from now on.
    Enter(DirectoryEntry),
}

impl From<host::Said> for Said {
    fn from(said: host::Said) -> Said {
        Said::Plain(said)
    }
}

impl From<Answer> for Said {
    fn from(answer: Answer) -> Said {
        Said::Plain(host::Said::Now(answer))
    }
}

impl From<Job> for Said {
    fn from(job: Job) -> Said {
        Said::Plain(host::Said::Read(job))
    }
}

impl Said {
    fn error(condition: Condition) -> Said {
        host::Said::error(condition).into()
    }
}

/// Answers a stanza of one of an account's sessions to an address of searches.
pub(crate) fn answer(
    (home, account): (&Home, &str),
    frame: &xml::Frame,
    cx: &mut Context<'_, UserMsg>,
) -> Said {
    let (payload, is_set) = match host::request(frame) {
        Ok(request) => request,
        Err(said) => return said.into(),
    };
    let to = frame.attr("to").unwrap_or_default();
    let has_node = payload.attr("node").is_some();
    let rooms = home
        .options
        .rooms
        .search_hosts
        .iter()
        .any(|host| *host == to);
    let users = home.options.directory.hosts.iter().any(|host| *host == to);
    match (payload.name(), payload.ns()) {
        ("query", users::NS | register::NS) if users => {
            users::answer((home, account), &to, (&payload, is_set), cx)
        }
        ("query", disco::NS_INFO | disco::NS_ITEMS) | ("ping", ns::PING) if is_set => {
            Said::error(Condition::NotAllowed)
        }
        ("search", channels::NS) if rooms && is_set => Said::error(Condition::NotAllowed),
        ("query", disco::NS_INFO | disco::NS_ITEMS) if has_node => {
            Said::error(Condition::ItemNotFound)
        }
        ("ping", ns::PING) => Answer::done().into(),
        ("query", disco::NS_INFO) => info(rooms, users).into(),
        ("query", disco::NS_ITEMS) => disco::items(false, false, &[]).into(),
        ("search", channels::NS) if rooms => channels::search(home, &to, &payload).into(),
        _ => Said::error(Condition::ServiceUnavailable),
    }
}

/// What somebody is told whose question is refused because too much is under way. A search for
/// rooms says so in its own words (XEP-0433 section 3.2.2.4).
pub(crate) fn too_much(frame: &xml::Frame) -> StanzaError {
    let error = StanzaError::new(Condition::ResourceConstraint);
    let is_search = |payload: Child<'_>| (payload.name(), payload.ns()) == ("search", channels::NS);
    match iq::payload(frame).is_some_and(is_search) {
        true => error.with_app("<rate-limit xmlns='urn:xmpp:channel-search:0:error'/>"),
        false => error,
    }
}

fn info(rooms: bool, users: bool) -> Answer {
    let (mut identities, mut features) = (Vec::new(), vec![disco::NS_INFO, disco::NS_ITEMS]);
    if rooms {
        identities.push(("directory", "chatroom", "Search"));
        features.push(channels::NS);
    }
    if users {
        identities.push(("directory", "user", "Users"));
        features.extend([users::NS, register::NS, xmpp::rsm::NS]);
    }
    features.push(ns::PING);
    disco::info(None, &identities, &features)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// XEP-0433 section 3.2.2.4.
    #[test]
    fn a_search_for_rooms_that_is_too_much_says_so_in_its_own_words() {
        let refused = |payload: &str| {
            let text = format!("<iq type='get' id='q' to='search.localhost'>{payload}</iq>");
            let mut out = Vec::new();
            too_much(&xml::Frame::parse(text).unwrap()).write(&mut out);
            String::from_utf8(out).unwrap()
        };
        let search = refused("<search xmlns='urn:xmpp:channel-search:0:search'/>");
        assert!(search.contains("type='wait'"), "{search}");
        assert!(search.contains("<resource-constraint "), "{search}");
        let own = "<rate-limit xmlns='urn:xmpp:channel-search:0:error'/>";
        assert!(search.contains(own), "{search}");
        let other = refused("<query xmlns='jabber:iq:search'/>");
        assert!(
            other.contains("<resource-constraint ") && !other.contains(own),
            "{other}"
        );
    }
}
