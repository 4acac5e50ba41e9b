//! XEP-0191 Blocking Command 1.3. The list and its changes are the account's
//! (`user/acts/blocking.rs`); what a block does to stanzas is where they are routed, in
//! `user/inbound.rs` and `user/outbound.rs`.

use super::{AccountHandler, Act, Module, Switch, Xep};

pub(crate) const NS: &str = "urn:xmpp:blocking";

pub(super) const MODULE: Module = Module {
    name: "blocking",
    switch: Switch::ByOperator,
    needs: &[],
    xeps: &[Xep {
        number: 191,
        name: "Blocking Command",
        version: "1.3",
        note: "With its effects on presence.",
    }],
    host_features: &[NS],
    account_features: &[],
    account: &[
        ("blocklist", NS, AccountHandler::Acts(Act::Blocklist)),
        ("block", NS, AccountHandler::Acts(Act::Block)),
        ("unblock", NS, AccountHandler::Acts(Act::Unblock)),
    ],
    host: &[],
};
