//! XEP-0030 Service Discovery 2.5.0 and XEP-0115 Entity Capabilities 1.6.0 for the server itself:
//! what the modules announce, gathered, and its hash for the stream features.

use xml::build::Writer;
use xmpp::error::Condition;

use super::{AccountHandler, Act, HostRequest, Module, Switch, Xep};
use crate::iq::Answer;
use crate::options::Options;

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
        ("query", NS_INFO, AccountHandler::Acts(Act::AccountInfo)),
        ("query", NS_ITEMS, AccountHandler::Acts(Act::AccountItems)),
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
    let options = request.options;
    let is_own = |node: &String| *node == format!("{CAPS_NODE}#{}", caps_hash(options));
    if !node.as_ref().is_none_or(is_own) {
        return Answer::error(Condition::ItemNotFound);
    }
    let features = host_features(options);
    info(node.as_deref(), &[HOST_IDENTITY], &features)
}

/// The services of a domain: where its rooms and its nodes are, where it is searched, small ones,
/// and components.
fn host_items(request: &HostRequest<'_>) -> Answer {
    let to = request.frame.attr("to").unwrap_or_default();
    let options = request.options;
    let (rooms, nodes) = (&options.rooms, &options.pubsub);
    let hosts = rooms
        .hosts
        .iter()
        .chain(&nodes.hosts)
        .chain(options.search_hosts());
    let own = hosts.filter(|host| host.split_once('.').is_some_and(|(_, of)| of == to));
    let domain = to.clone().into_owned();
    let services = request.services.iter();
    let services = services.flat_map(|service| service.hosts(std::slice::from_ref(&domain)));
    let services: Vec<String> = services.collect();
    let components = options.components.served.iter().map(|one| &one.domain);
    let components = components.filter(|one| listed_at(one, &options.domains) == Some(&domain));
    let own = own.chain(components);
    let own: Vec<&str> = own.chain(&services).map(String::as_str).collect();
    items(request.is_set, request.payload.attr("node").is_some(), &own)
}

/// Which domain of accounts lists a component: the closest one above it, or the default one.
fn listed_at<'a>(component: &str, domains: &'a [String]) -> Option<&'a String> {
    let is_above = |domain: &&String| {
        let rest = component.strip_suffix(domain.as_str());
        rest.is_some_and(|rest| rest.ends_with('.'))
    };
    let above = domains.iter().filter(is_above);
    above.max_by_key(|domain| domain.len()).or(domains.first())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_listed_once_at_the_closest_domain() {
        let domains = ["a.org", "b.a.org", "c.net"].map(String::from);
        let listed = |component| listed_at(component, &domains).map(String::as_str);
        assert_eq!(listed("irc.a.org"), Some("a.org"));
        assert_eq!(listed("irc.b.a.org"), Some("b.a.org"));
        assert_eq!(listed("x.irc.c.net"), Some("c.net"));
        for elsewhere in ["irc.example.com", "irca.org"] {
            assert_eq!(listed(elsewhere), Some("a.org"), "the default one");
        }
        assert_eq!(listed_at("irc.a.org", &[]), None);
    }
}
