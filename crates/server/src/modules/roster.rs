//! Roster management (RFC 6121 section 2), which is the account's (`user/acts/roster.rs`).

use super::{AccountHandler, Act, Module, Switch, Xep};

pub(crate) const NS: &str = "jabber:iq:roster";

pub(super) const MODULE: Module = Module {
    name: "roster",
    switch: Switch::Always("it is a part of RFC 6121"),
    needs: &[],
    xeps: &[Xep {
        number: 237,
        name: "Roster Versioning",
        version: "1.3",
        note: "As in RFC 6121 section 2.6: an unchanged roster is not sent again.",
    }],
    host_features: &[],
    account_features: &[NS],
    account: &[("query", NS, AccountHandler::Acts(Act::Roster))],
    host: &[],
};
