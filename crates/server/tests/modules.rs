//! Every extension switched off, one after the other: it is neither announced nor answered, what
//! needs it goes with it, and everything else is announced and answered as before.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{Client, Running, options, start_with};
use server::Options;
use server::modules::{MODULES, Module, Switch};
use server::options::Switches;

const INFO: &str = "http://jabber.org/protocol/disco#info";
const ITEMS: &str = "http://jabber.org/protocol/disco#items";
const FENCE: &str = "urn:example:fence";

fn everything() -> Options {
    let mut options = options(1, true);
    options.archive.enabled = true;
    options.registration_enabled = true;
    options
}

fn without(names: &[&'static str]) -> Running {
    let modules = Switches::without(names.iter().copied()).expect("switches");
    let options = Options {
        modules,
        ..everything()
    };
    start_with(options, net::Limits::default(), &["romeo", "juliet"])
}

fn named(name: &str) -> &'static Module {
    let found = MODULES.iter().find(|module| module.name == name);
    found.expect("a module")
}

/// The stream features of somebody who has logged in.
fn login(running: &Running, user: &str) -> (Client, String) {
    let mut client = Client::connect(running.address);
    client.open();
    client.authenticate_with(user, "secret");
    client.expect("<success");
    client.seen.clear();
    client.send(
        "<stream:stream to='localhost' version='1.0' xmlns='jabber:client' \
         xmlns:stream='http://etherx.jabber.org/streams'>",
    );
    let features = client.expect("</stream:features>");
    client.bind("r");
    client.expect("/r</jid></bind></iq>");
    (client, features)
}

/// The answer to a request with this id, without digits, so that times are the same.
fn answer(client: &mut Client, kind: &str, to: &str, payload: &str) -> String {
    client.send(&format!("<iq type='{kind}' id='asked'{to}>{payload}</iq>"));
    loop {
        let start = client.seen.find(" id='asked'");
        let start = start.and_then(|at| client.seen[..at].rfind("<iq "));
        if let Some(start) = start {
            let rest = &client.seen[start..];
            let head = rest.find('>').map(|at| at + 1);
            let end = head.and_then(|head| match rest[..head].ends_with("/>") {
                true => Some(head),
                false => rest.find("</iq>").map(|at| at + "</iq>".len()),
            });
            if let Some(end) = end {
                let found: String = rest[..end].to_owned();
                client.seen.drain(..start + end);
                let found: String = found.chars().filter(|c| !c.is_ascii_digit()).collect();
                // A time has a fraction, or happens to have none.
                return found.replace(".Z", "Z");
            }
        }
        assert!(client.read_some().expect("an answer") > 0, "{payload}");
    }
}

/// Who asked what: module, where, type, element, namespace.
type Asked = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

/// What a node says to every request that a module answers, of the account and of the domain.
fn answers(running: &Running) -> (BTreeMap<Asked, String>, String) {
    let (mut romeo, features) = login(running, "romeo");
    let mut all = BTreeMap::new();
    for module in MODULES {
        let account = module.account.iter().map(|entry| ("", entry.0, entry.1));
        let host = module.host.iter();
        let host = host.map(|entry| (" to='localhost'", entry.0, entry.1));
        for (to, name, ns) in account.chain(host) {
            for kind in ["get", "set"] {
                let said = answer(&mut romeo, kind, to, &format!("<{name} xmlns='{ns}'/>"));
                all.insert((module.name, to, kind, name, ns), said);
            }
        }
    }
    (all, features)
}

/// The values of an attribute in a text.
fn values(text: &str, attribute: &str) -> BTreeSet<String> {
    let start = format!(" {attribute}='");
    let parts = text.split(&start).skip(1);
    parts
        .filter_map(|part| Some(part.split_once('\'')?.0.to_owned()))
        .collect()
}

/// Features without digits that nobody announces any more.
fn silenced(off: &BTreeSet<&str>) -> BTreeSet<String> {
    let of = |is_off: bool| {
        let modules = MODULES
            .iter()
            .filter(move |m| off.contains(m.name) == is_off);
        modules.flat_map(|m| m.host_features.iter().chain(m.account_features))
    };
    let mut gone: BTreeSet<String> = of(true).map(|feature| (*feature).to_owned()).collect();
    if off.contains("pubsub") {
        gone.extend(pubsub::features(&everything().pep.machine));
    }
    if off.contains("register") {
        gone.insert("jabber:iq:register".to_owned());
    }
    for feature in of(false) {
        gone.remove(*feature);
    }
    let undigited = |text: String| text.chars().filter(|c| !c.is_ascii_digit()).collect();
    gone.into_iter().map(undigited).collect()
}

/// Holds that the node without `off` says what one with everything says, but for `off`.
fn compare(off: &BTreeSet<&str>, before: &BTreeMap<Asked, String>, now: &BTreeMap<Asked, String>) {
    let gone = silenced(off);
    assert_eq!(before.len(), now.len());
    for (asked, said) in now {
        let (module, _, kind, _, ns) = asked;
        let before = &before[asked];
        if off.contains(module) {
            assert!(
                said.contains("<service-unavailable"),
                "{off:?} {asked:?}: {said}"
            );
        } else if (*kind, *ns) == ("get", INFO) {
            let announced = values(before, "var");
            let expected: BTreeSet<String> = announced.difference(&gone).cloned().collect();
            assert_eq!(values(said, "var"), expected, "{off:?} {asked:?}");
            let is_service = said.contains("category='pubsub'");
            let was_service = before.contains("category='pubsub'");
            assert_eq!(
                is_service,
                was_service && !off.contains("pubsub"),
                "{off:?}"
            );
        } else if (*kind, *ns) == ("get", ITEMS) {
            let mut expected = values(before, "jid");
            expected.retain(|jid| {
                let is_of_rooms = jid.starts_with("conference.") || jid.starts_with("search.");
                let is_room = is_of_rooms && off.contains("rooms");
                !(is_room || jid.starts_with("pubsub.") && off.contains("pubsub"))
            });
            assert_eq!(values(said, "jid"), expected, "{off:?} {asked:?}");
        } else {
            assert_eq!(said, before, "{off:?} {asked:?}");
        }
    }
}

#[test]
fn an_extension_that_is_off_is_neither_announced_nor_answered() {
    let running = without(&[]);
    let (before, features) = answers(&running);
    let announced: String = before.values().map(String::as_str).collect();
    for module in MODULES {
        for feature in module.host_features.iter().chain(module.account_features) {
            let feature: String = feature.chars().filter(|c| !c.is_ascii_digit()).collect();
            assert!(announced.contains(&format!("var='{feature}'")), "{feature}");
        }
    }
    for of_stream in ["<c ", "<session ", "<csi ", "<sm "] {
        assert!(features.contains(of_stream), "{features}");
    }
    running.node.drain(std::time::Duration::ZERO);
    let switched = MODULES.iter().filter(|m| m.switch == Switch::ByOperator);
    for module in switched {
        let switches = Switches::without([module.name]).expect("a switch");
        let off: BTreeSet<&str> = switches.off().map(|(name, _)| name).collect();
        let running = without(&[module.name]);
        let (now, of_stream) = answers(&running);
        compare(&off, &before, &now);
        for (feature, module) in [("<c ", "disco"), ("<session ", "session"), ("<csi ", "csi")] {
            let is_there = of_stream.contains(feature);
            assert_eq!(is_there, !off.contains(module), "{off:?}: {of_stream}");
        }
        assert!(of_stream.contains("<sm "), "{of_stream}");
        running.node.drain(std::time::Duration::ZERO);
    }
}

#[test]
fn options_of_an_extension_and_its_switch_mean_the_same() {
    let mut options = everything();
    options.archive.enabled = false;
    options.pep.enabled = false;
    let running = start_with(options, net::Limits::default(), &["romeo"]);
    let (mut romeo, _) = login(&running, "romeo");
    let info = answer(&mut romeo, "get", "", &format!("<query xmlns='{INFO}'/>"));
    let announced = values(&info, "var");
    for module in ["archive", "avatar", "bookmarks"] {
        for feature in named(module).account_features {
            let feature: String = feature.chars().filter(|c| !c.is_ascii_digit()).collect();
            assert!(!announced.contains(&feature), "{feature}");
        }
    }
    let said = answer(&mut romeo, "set", "", "<query xmlns='urn:xmpp:mam:2'/>");
    assert!(said.contains("<service-unavailable"), "{said}");
    let items = format!("<query xmlns='{ITEMS}'/>");
    let said = answer(&mut romeo, "get", " to='localhost'", &items);
    let services = ["conference", "pubsub", "search"].map(|name| format!("{name}.localhost"));
    let services = BTreeSet::from(services);
    assert_eq!(
        values(&said, "jid"),
        services,
        "those have options of their own"
    );
}

/// Asks for the items of a node of one's own.
fn node(client: &mut Client, node: &str) -> String {
    let request = format!(
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='{node}'/></pubsub>"
    );
    answer(client, "get", "", &request)
}

const PHOTO: &str = "<vCard xmlns='vcard-temp'><PHOTO><TYPE>image/png</TYPE>\
                     <BINVAL>YWJj</BINVAL></PHOTO></vCard>";
const BOOKMARKS: &str = "<query xmlns='jabber:iq:private'><storage xmlns='storage:bookmarks'>\
                         <conference jid='room@conference.localhost'/></storage></query>";

#[test]
fn what_an_extension_does_unasked_ends_with_it() {
    for is_on in [true, false] {
        let running = without(match is_on {
            true => &[],
            false => &["avatar", "bookmarks"],
        });
        let (mut romeo, _) = login(&running, "romeo");
        for set in [PHOTO, BOOKMARKS] {
            let said = answer(&mut romeo, "set", "", set);
            assert!(said.contains("type='result'"), "{said}");
        }
        for name in ["urn:xmpp:avatar:metadata", "urn:xmpp:bookmarks:1"] {
            let said = node(&mut romeo, name);
            assert_eq!(said.contains("<item-not-found"), !is_on, "{name}: {said}");
        }
    }
}

#[test]
fn presence_waits_for_nobody_whose_server_does_not_know_of_client_states() {
    for is_on in [true, false] {
        let running = without(if is_on { &[] } else { &["csi", "vcard"] });
        let (mut romeo, _) = login(&running, "romeo");
        let said = answer(&mut romeo, "set", "", PHOTO);
        assert_eq!(said.contains("type='result'"), is_on, "{said}");
        let mut other = Client::login(running.address, "romeo", "other");
        romeo.send("<presence/><inactive xmlns='urn:xmpp:csi:0'/>");
        // Its own presence has come back: what follows meets an inactive client.
        romeo.expect("romeo@localhost/r");
        answer(&mut romeo, "get", "", &format!("<query xmlns='{FENCE}'/>"));
        for status in ["coming", "here"] {
            other.send(&format!("<presence><status>{status}</status></presence>"));
        }
        answer(&mut other, "get", "", &format!("<query xmlns='{FENCE}'/>"));
        // What waited leaves in front of the answer: of each contact the latest.
        romeo.send(&format!(
            "<iq type='get' id='f'><query xmlns='{FENCE}'/></iq>"
        ));
        let shown = romeo.expect(" id='f'");
        assert!(shown.contains("<status>here</status>"), "{shown}");
        assert_eq!(shown.contains("<status>coming</status>"), !is_on, "{shown}");
        assert!(!shown.contains("vcard-temp:x:update") || is_on, "{shown}");
    }
}
