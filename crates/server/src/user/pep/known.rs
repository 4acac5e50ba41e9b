//! What the nodes of an account are told of others: its roster, its block list and its sessions, as
//! they are in memory.

use std::cell::Cell;

use actor::Name;
use pubsub::Contacts;

use crate::address;
use crate::blocklist::Blocklist;
use crate::home::Home;
use crate::user::roster::{ItemRef, Roster};
use crate::user::session::Session;

/// A view of the account.
pub(super) struct Known<'a> {
    pub(super) name: &'a Name,
    pub(super) home: &'a Home,
    pub(super) roster: &'a Roster,
    pub(super) blocklist: &'a Blocklist,
    pub(super) sessions: &'a [Session],
    /// The contact that is asked about: whoever goes through the roster need not search it.
    pub(super) current: Cell<Option<ItemRef<'a>>>,
}

impl<'a> Known<'a> {
    fn find(&self, bare: &str) -> Option<ItemRef<'a>> {
        let current = self.current.get().filter(|item| item.jid == bare);
        current.or_else(|| self.roster.find(bare))
    }
}

impl Contacts for Known<'_> {
    fn sees_presence(&self, _of: &str, bare: &str) -> bool {
        let item = self.find(bare);
        item.is_some_and(|item| item.state.subscription.from()) && !self.blocklist.covers(bare)
    }

    fn is_in_group(&self, _of: &str, bare: &str, group: &str) -> bool {
        let item = self.find(bare);
        item.is_some_and(|item| item.groups().any(|own| own == group))
    }

    /// The account's own sessions, and contacts by their bare addresses: their homes know theirs.
    fn interested(&self, node: &str, each: &mut dyn FnMut(&str)) {
        for session in self.sessions {
            let wants = session.caps.as_ref().is_some_and(|caps| caps.wants(node));
            if wants && session.takes_messages() {
                each(&session.full);
            }
        }
        for item in self.roster.iter() {
            let is_local = || self.home.hosts_accounts(address::domain(item.jid));
            if item.state.subscription.from()
                && *item.jid != **self.name
                && is_local()
                && !self.blocklist.covers(item.jid)
            {
                self.current.set(Some(item));
                each(item.jid);
            }
        }
        self.current.set(None);
    }
}
