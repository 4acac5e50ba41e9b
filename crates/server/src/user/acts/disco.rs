//! XEP-0030 Service Discovery: what an account says of itself and of its nodes.

use actor::Context;
use xmpp::error::Condition;

use crate::iq::{Answer, Asker, Request};
use crate::message::UserMsg;
use crate::modules::disco;
use crate::user::User;

pub(super) fn account_info(
    user: &mut User,
    request: &Request<'_>,
    cx: &mut Context<'_, UserMsg>,
) -> Answer {
    if request.is_set {
        return Answer::error(Condition::NotAllowed);
    }
    let options = &user.home.options;
    let has_nodes = options.pep.enabled;
    if request.payload.attr("node").is_some() {
        return match has_nodes {
            true => user.ask_nodes(request, cx),
            false => Answer::error(Condition::ItemNotFound),
        };
    }
    let of_nodes = match has_nodes {
        true => pubsub::features(&options.pep.machine),
        false => Vec::new(),
    };
    let mut features: Vec<_> = options
        .modules
        .modules()
        .flat_map(|module| module.account_features)
        .copied()
        .chain(of_nodes.iter().map(String::as_str))
        .collect();
    features.sort_unstable();
    features.dedup();
    let all = [("account", "registered", ""), ("pubsub", "pep", "")];
    let identities = if has_nodes { &all[..] } else { &all[..1] };
    disco::info(None, identities, &features)
}

/// The nodes that whoever asks may see. For strangers there are none (section 8): an empty list
/// tells nothing.
pub(super) fn account_items(
    user: &mut User,
    request: &Request<'_>,
    cx: &mut Context<'_, UserMsg>,
) -> Answer {
    let is_stranger = matches!(
        request.asker,
        Asker::Other {
            is_subscriber: false
        }
    );
    if user.home.options.pep.enabled && !is_stranger && !request.is_set {
        return user.ask_nodes(request, cx);
    }
    disco::items(request.is_set, request.payload.attr("node").is_some(), &[])
}
