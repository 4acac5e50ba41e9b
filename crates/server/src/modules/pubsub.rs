//! XEP-0060 Publish-Subscribe 1.25.0 and XEP-0163 Personal Eventing Protocol 1.2.2, as
//! `docs/xeps.md` lists them. Services at
//! addresses of their own are in `crate::nodes`, nodes of accounts in `crate::user::pep`; what both
//! decide is in the crate `pubsub`.

use super::{AccountHandler, Act, Module, Switch, Xep};

pub(crate) const NS: &str = "http://jabber.org/protocol/pubsub";
/// Of notifications.
pub(crate) const NS_EVENT: &str = "http://jabber.org/protocol/pubsub#event";
pub(super) const NS_OWNER: &str = "http://jabber.org/protocol/pubsub#owner";
/// Pending subscriptions are asked for by a command (XEP-0060 section 8.7).
const NS_COMMANDS: &str = "http://jabber.org/protocol/commands";

pub(crate) const MODULE: Module = Module {
    name: "pubsub",
    switch: Switch::ByOperator,
    needs: &["disco"],
    xeps: &[
        Xep {
            number: 60,
            name: "Publish-Subscribe",
            version: "1.25.0",
            note: "At `pubsub.<domain>` and at every account (docs/pubsub.md).",
        },
        Xep {
            number: 163,
            name: "Personal Eventing Protocol",
            version: "1.2.2",
            note: "Every account (docs/pubsub.md).",
        },
        Xep {
            number: 222,
            name: "Persistent Storage of Public Data via PubSub",
            version: "1.0.1",
            note: "Publish options are preconditions.",
        },
        Xep {
            number: 223,
            name: "Persistent Storage of Private Data via PubSub",
            version: "1.1.1",
            note: "Publish options are preconditions.",
        },
    ],
    host_features: &[],
    account_features: &[],
    account: &[
        ("pubsub", NS, AccountHandler::Acts(Act::Nodes)),
        ("pubsub", NS_OWNER, AccountHandler::Acts(Act::Nodes)),
        ("command", NS_COMMANDS, AccountHandler::Acts(Act::Nodes)),
    ],
    host: &[],
};
