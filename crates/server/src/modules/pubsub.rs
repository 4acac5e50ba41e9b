//! XEP-0060 Publish-Subscribe 1.26.0 and XEP-0163 Personal Eventing Protocol 1.2.2, as
//! `docs/xeps.md` lists them, and the way of requests to the nodes of an account. Services at
//! addresses of their own are in `crate::nodes`, nodes of accounts in `crate::user::pep`; what both
//! decide is in the crate `pubsub`.

use actor::Context;

use super::{Module, Xep};
use crate::iq::{Answer, Request};
use crate::message::UserMsg;
use crate::user::User;

pub(crate) const NS: &str = "http://jabber.org/protocol/pubsub";
pub(super) const NS_OWNER: &str = "http://jabber.org/protocol/pubsub#owner";
/// Pending subscriptions are asked for by a command (XEP-0060 section 8.7).
const NS_COMMANDS: &str = "http://jabber.org/protocol/commands";

pub(super) const MODULE: Module = Module {
    xeps: &[
        Xep {
            number: 60,
            name: "Publish-Subscribe",
            version: "1.26.0",
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
        ("pubsub", NS, nodes),
        ("pubsub", NS_OWNER, nodes),
        ("command", NS_COMMANDS, nodes),
    ],
    host: &[],
};

fn nodes(user: &mut User, request: &Request<'_>, cx: &mut Context<'_, UserMsg>) -> Answer {
    user.ask_nodes(request, cx)
}
