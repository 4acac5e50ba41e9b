//! Nodes of an account whose purpose is known by their name: how they behave when they come into
//! being without publish options. What is private is private even then.

use std::sync::Arc;

use crate::access::{AccessModel, SendLast};
use crate::config::Config;

/// The configuration of any node of an account (XEP-0163 section 5).
pub fn account_defaults() -> Config {
    Config {
        access: AccessModel::Presence,
        items_max: 1,
        send_last: SendLast::OnSubAndPresence,
        ..Config::default()
    }
}

/// Nodes for nobody but the account itself, with as many items as there may be: bookmarks
/// (XEP-0402), displayed markers (XEP-0490).
const PRIVATE_LISTS: &[&str] = &["urn:xmpp:bookmarks:1", "urn:xmpp:mds:displayed:0"];
/// One item each: bookmarks (XEP-0048), whatever else was in private storage.
const PRIVATE_PREFIX: &str = "storage:";
/// Nodes with an item for each device (XEP-0384).
const LISTS: &[&str] = &["urn:xmpp:omemo:2:bundles"];
/// Nodes whose items are fetched when something else says so (XEP-0084, XEP-0384): nobody is sent
/// the last one.
const FETCHED: &[&str] = &["urn:xmpp:avatar:data", "urn:xmpp:omemo:2:bundles"];
const FETCHED_PREFIX: &str = "eu.siacs.conversations.axolotl.bundles:";

/// Every configuration that a new node may have, each once.
pub(crate) fn configs(defaults: &Config, items_max: u32) -> Vec<Arc<Config>> {
    let mut all: Vec<Arc<Config>> = vec![Arc::new(defaults.clone())];
    let prefixes = [PRIVATE_PREFIX, FETCHED_PREFIX];
    let names = [PRIVATE_LISTS, LISTS, FETCHED, &prefixes].concat();
    for name in names {
        let config = config(name, defaults, items_max);
        if all.iter().all(|known| **known != config) {
            all.push(Arc::new(config));
        }
    }
    all
}

/// The configuration of a new node of a name.
pub(crate) fn config(name: &str, defaults: &Config, items_max: u32) -> Config {
    let mut config = defaults.clone();
    let is_private_list = PRIVATE_LISTS.contains(&name);
    if is_private_list || name.starts_with(PRIVATE_PREFIX) {
        config.access = AccessModel::Whitelist;
    }
    if is_private_list || LISTS.contains(&name) {
        config.items_max = items_max;
    }
    if is_private_list || FETCHED.contains(&name) || name.starts_with(FETCHED_PREFIX) {
        config.send_last = SendLast::Never;
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_that_many_nodes_have_are_kept_once() {
        let all = configs(&account_defaults(), 50);
        assert_eq!(all.len(), 5);
        let bookmarks = config("urn:xmpp:bookmarks:1", &account_defaults(), 50);
        assert!(all.iter().any(|known| **known == bookmarks));
    }

    #[test]
    fn xep_0163_section_5_a_node_is_for_contacts_unless_it_is_private() {
        use AccessModel::{Presence, Whitelist};
        use SendLast::{Never, OnSubAndPresence};
        for (name, access, items, last) in [
            (
                "http://jabber.org/protocol/tune",
                Presence,
                1,
                OnSubAndPresence,
            ),
            ("urn:xmpp:bookmarks:1", Whitelist, 50, Never),
            ("urn:xmpp:mds:displayed:0", Whitelist, 50, Never),
            ("storage:bookmarks", Whitelist, 1, OnSubAndPresence),
            ("urn:xmpp:avatar:metadata", Presence, 1, OnSubAndPresence),
            ("urn:xmpp:avatar:data", Presence, 1, Never),
            ("urn:xmpp:omemo:2:devices", Presence, 1, OnSubAndPresence),
            ("urn:xmpp:omemo:2:bundles", Presence, 50, Never),
            (
                "eu.siacs.conversations.axolotl.devicelist",
                Presence,
                1,
                OnSubAndPresence,
            ),
            (
                "eu.siacs.conversations.axolotl.bundles:31415",
                Presence,
                1,
                Never,
            ),
        ] {
            let found = config(name, &account_defaults(), 50);
            assert_eq!(
                (found.access, found.items_max, found.send_last),
                (access, items, last)
            );
            assert!(found.keeps_items && found.notifies && found.delivers_payloads);
        }
    }
}
