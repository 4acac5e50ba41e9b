//! XEP-0077 In-Band Registration 2.4 for those who are logged in (`user/acts/register.rs`).
//! Registration of new accounts happens before a login, in `c2s/registration.rs`, and only if the
//! operator has enabled it.

use super::{AccountHandler, Act, Module, Switch, Xep};

pub(crate) const NS: &str = "jabber:iq:register";

pub(crate) const MODULE: Module = Module {
    name: "register",
    switch: Switch::ByOperator,
    needs: &[],
    xeps: &[Xep {
        number: 77,
        name: "In-Band Registration",
        version: "2.4",
        note: "Off by default and rate-limited; password change and account removal always.",
    }],
    host_features: &[],
    account_features: &[NS],
    account: &[("query", NS, AccountHandler::Acts(Act::Register))],
    host: &[],
};
