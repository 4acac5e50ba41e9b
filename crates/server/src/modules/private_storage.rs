//! XEP-0049 Private XML Storage 1.2. What is stored and how much of it is the account's
//! (`user/acts/private_storage.rs`).

use super::{AccountHandler, Act, Module, Switch, Xep};

pub(crate) const NS: &str = "jabber:iq:private";

pub(super) const MODULE: Module = Module {
    name: "private_storage",
    switch: Switch::ByOperator,
    needs: &[],
    xeps: &[Xep {
        number: 49,
        name: "Private XML Storage",
        version: "1.2",
        note: "Bounded for each element (`limits.private_bytes_max`) and in all \
               (`limits.private_total_bytes_max`).",
    }],
    host_features: &[],
    account_features: &[NS],
    account: &[("query", NS, AccountHandler::Acts(Act::PrivateStorage))],
    host: &[],
};
