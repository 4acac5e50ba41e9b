//! XEP-0030 Service Discovery 2.5.0 and XEP-0115 Entity Capabilities 1.6.0 for the server itself:
//! what the modules announce, gathered, and its hash for the stream features.

use actor::Context;
use xml::build::Writer;
use xmpp::error::Condition;

use super::{AccountHandler, Module, Switch, Xep};
use crate::host::HostRequest;
use crate::iq::{Answer, Asker, Request};
use crate::message::UserMsg;
use crate::options::Options;
use crate::user::User;

pub(crate) const NS_INFO: &str = "http://jabber.org/protocol/disco#info";
pub(crate) const NS_ITEMS: &str = "http://jabber.org/protocol/disco#items";
const NS_CAPS: &str = "http://jabber.org/protocol/caps";

/// The node under which the server announces its capabilities (XEP-0115 section 4).
pub const CAPS_NODE: &str = "https://roost.im/";

pub(super) const MODULE: Module = Module {
    name: "disco",
    switch: Switch::ByOperator,
    needs: &[],
    xeps: &[
        Xep {
            number: 30,
            name: "Service Discovery",
            version: "2.5.0",
            note: "Of domains and, for subscribers, of accounts.",
        },
        Xep {
            number: 115,
            name: "Entity Capabilities",
            version: "1.6.0",
            note: "The server's own, in its stream features; those of clients are verified and \
                   decide which nodes they hear of.",
        },
    ],
    host_features: &[NS_INFO, NS_ITEMS, NS_CAPS],
    account_features: &[NS_INFO, NS_ITEMS],
    account: &[
        ("query", NS_INFO, AccountHandler::Acts(account_info)),
        ("query", NS_ITEMS, AccountHandler::Acts(account_items)),
    ],
    host: &[
        ("query", NS_INFO, host_info),
        ("query", NS_ITEMS, host_items),
    ],
};

const HOST_IDENTITY: (&str, &str, &str) = ("server", "im", "Roost");

fn host_features(options: &Options) -> Vec<&'static str> {
    let mut features: Vec<_> = options
        .modules
        .modules()
        .flat_map(|module| module.host_features)
        .copied()
        .collect();
    if options.registration_enabled {
        features.push(super::register::NS);
    }
    features.sort_unstable();
    features.dedup();
    features
}

/// The verification string of XEP-0115 section 5.1, SHA-1 in Base64.
fn caps_hash(options: &Options) -> String {
    let (category, kind, name) = HOST_IDENTITY;
    let mut text = format!("{category}/{kind}//{name}<");
    for feature in host_features(options) {
        text.push_str(feature);
        text.push('<');
    }
    xmpp::sasl::sha1_base64(text.as_bytes())
}

/// The `<c/>` element of the stream features (XEP-0115 section 6.3); nothing where nobody could ask
/// what it stands for.
pub(crate) fn caps_element(options: &Options) -> Vec<u8> {
    let mut out = Vec::new();
    if !options.modules.has(&MODULE) {
        return out;
    }
    let mut writer = Writer::new(&mut out);
    writer
        .open("c")
        .attr("xmlns", NS_CAPS)
        .attr("hash", "sha-1");
    let ver = caps_hash(options);
    writer.attr("node", CAPS_NODE).attr("ver", &ver);
    writer.close();
    out
}

fn host_info(request: &HostRequest<'_>) -> Answer {
    if request.is_set {
        return Answer::error(Condition::NotAllowed);
    }
    let node = request.payload.attr("node").map(|node| node.into_owned());
    let options = &request.home.options;
    let is_own = |node: &String| *node == format!("{CAPS_NODE}#{}", caps_hash(options));
    if !node.as_ref().is_none_or(is_own) {
        return Answer::error(Condition::ItemNotFound);
    }
    let features = host_features(options);
    info(node.as_deref(), &[HOST_IDENTITY], &features)
}

/// The services of a domain: where its rooms and its nodes are, and where it is searched.
fn host_items(request: &HostRequest<'_>) -> Answer {
    let to = request.frame.attr("to").unwrap_or_default();
    let options = &request.home.options;
    let (rooms, nodes) = (&options.rooms, &options.pubsub);
    let hosts = rooms
        .hosts
        .iter()
        .chain(&nodes.hosts)
        .chain(options.search_hosts());
    let own = hosts.filter(|host| host.split_once('.').is_some_and(|(_, of)| of == to));
    let own: Vec<&str> = own.map(String::as_str).collect();
    items(request.is_set, request.payload.attr("node").is_some(), &own)
}

fn account_info(user: &mut User, request: &Request<'_>, cx: &mut Context<'_, UserMsg>) -> Answer {
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
    info(None, identities, &features)
}

/// The nodes that whoever asks may see. For strangers there are none (section 8): an empty list
/// tells nothing.
fn account_items(user: &mut User, request: &Request<'_>, cx: &mut Context<'_, UserMsg>) -> Answer {
    let is_stranger = matches!(
        request.asker,
        Asker::Other {
            is_subscriber: false
        }
    );
    if user.home.options.pep.enabled && !is_stranger && !request.is_set {
        return user.ask_nodes(request, cx);
    }
    items(request.is_set, request.payload.attr("node").is_some(), &[])
}

pub(crate) fn info(
    node: Option<&str>,
    identities: &[(&str, &str, &str)],
    features: &[&str],
) -> Answer {
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    writer.open("query").attr("xmlns", NS_INFO);
    if let Some(node) = node {
        writer.attr("node", node);
    }
    for (category, kind, name) in identities {
        writer
            .open("identity")
            .attr("category", category)
            .attr("type", kind);
        if !name.is_empty() {
            writer.attr("name", name);
        }
        writer.close();
    }
    for feature in features {
        writer.open("feature").attr("var", feature).close();
    }
    writer.close();
    Answer::Result(out)
}

pub(crate) fn items(is_set: bool, has_node: bool, addresses: &[&str]) -> Answer {
    if is_set {
        return Answer::error(Condition::NotAllowed);
    }
    if has_node {
        return Answer::error(Condition::ItemNotFound);
    }
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    writer.open("query").attr("xmlns", NS_ITEMS);
    for address in addresses {
        writer.open("item").attr("jid", address).close();
    }
    writer.close();
    Answer::Result(out)
}
