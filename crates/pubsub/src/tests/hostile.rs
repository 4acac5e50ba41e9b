//! Whatever is sent to a service: it never panics, answers each request exactly once, and sends
//! nothing without an address.

use proptest::prelude::*;

use super::*;

/// Elements that a service looks into, whole, damaged and in wrong places.
const PARTS: &[&str] = &[
    "<publish node='princely_musings'/>",
    "<publish node='princely_musings'><item/></publish>",
    "<publish node='princely_musings'><item id='a'><e xmlns='urn:e'/></item></publish>",
    "<publish node='n'><item xmlns='urn:other' id='a'><e/></item></publish>",
    "<publish><item id=''/><item/></publish>",
    "<publish-options/>",
    "<publish-options><x xmlns='jabber:x:data' type='submit'/></publish-options>",
    "<retract node='princely_musings'/>",
    "<retract node='princely_musings' notify='maybe'><item id='a'/></retract>",
    "<retract node='princely_musings' notify='1'><item id='a'/></retract>",
    "<create/>",
    "<create node='n'/>",
    "<create node=''/>",
    "<configure/>",
    "<configure node='princely_musings'/>",
    "<configure><x xmlns='jabber:x:data' type='submit'/></configure>",
    "<configure node='princely_musings'><x xmlns='jabber:x:data' type='cancel'/></configure>",
    "<subscribe node='princely_musings' jid='francisco@denmark.example'/>",
    "<subscribe node='princely_musings' jid='francisco@denmark.example/&#x20;'/>",
    "<subscribe jid='@'/>",
    "<options/>",
    "<options><x xmlns='jabber:x:data' type='submit'/></options>",
    "<options node='princely_musings' jid='francisco@denmark.example'/>",
    "<unsubscribe node='princely_musings' jid='francisco@denmark.example'/>",
    "<unsubscribe node='princely_musings'/>",
    "<items node='princely_musings' max_items='18446744073709551616'/>",
    "<items node='princely_musings'><item/></items>",
    "<items node='princely_musings'/>",
    "<set xmlns='http://jabber.org/protocol/rsm'><max>-1</max></set>",
    "<set xmlns='http://jabber.org/protocol/rsm'><index>99999999999</index></set>",
    "<set xmlns='http://jabber.org/protocol/rsm'><before/></set>",
    "<subscriptions/>",
    "<subscriptions node='princely_musings'><subscription/></subscriptions>",
    "<affiliations node='princely_musings'><affiliation affiliation='owner'/></affiliations>",
    "<affiliations node='princely_musings'><affiliation jid='hamlet@denmark.example' \
     affiliation='none'/></affiliations>",
    "<default/>",
    "<delete node='princely_musings'><redirect uri=''/></delete>",
    "<purge node='princely_musings'/>",
    "<x xmlns='jabber:x:data' type='submit'/>",
    "<x xmlns='jabber:x:data' type='submit'><field/></x>",
    "<e xmlns='urn:foreign' node='princely_musings'/>",
];

/// What may be around them.
const AROUND: &[(&str, &str)] = &[
    (
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'>",
        "</pubsub>",
    ),
    (
        "<pubsub xmlns='http://jabber.org/protocol/pubsub#owner'>",
        "</pubsub>",
    ),
    (
        "<p:pubsub xmlns:p='http://jabber.org/protocol/pubsub'>",
        "</p:pubsub>",
    ),
    ("<pubsub xmlns='urn:foreign'>", "</pubsub>"),
    (
        "<query xmlns='http://jabber.org/protocol/disco#info'>",
        "</query>",
    ),
    (
        "<query xmlns='http://jabber.org/protocol/disco#items' node='princely_musings'>",
        "</query>",
    ),
    (
        "<command xmlns='http://jabber.org/protocol/commands'>",
        "</command>",
    ),
    (
        "<command xmlns='http://jabber.org/protocol/commands' \
         node='http://jabber.org/protocol/pubsub#get-pending'>",
        "</command>",
    ),
    ("", ""),
];

const TYPES: &[&str] = &["get", "set", "result", "error", "headline", "chat", "x", ""];

fn stanza() -> impl Strategy<Value = (String, bool)> {
    let parts = proptest::collection::vec(proptest::sample::select(PARTS), 0..3);
    let around = proptest::sample::select(AROUND);
    let name = proptest::sample::select(&["iq", "iq", "iq", "message", "presence"][..]);
    (name, proptest::sample::select(TYPES), around, parts).prop_map(
        |(name, kind, (before, after), parts)| {
            let attr = if kind.is_empty() {
                String::new()
            } else {
                format!(" type='{kind}'")
            };
            let text = format!(
                "<{name}{attr} id='q'>{before}{}{after}</{name}>",
                parts.concat()
            );
            let is_request = name == "iq" && !matches!(kind, "result" | "error");
            (text, is_request)
        },
    )
}

fn stanzas() -> impl Strategy<Value = Vec<(bool, (String, bool))>> {
    proptest::collection::vec((any::<bool>(), stanza()), 1..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_sequence_of_stanzas_is_answered(all in stanzas(), of_account in any::<bool>()) {
        let mut world = if of_account { World::account() } else { World::denmark() };
        for (by_owner, (text, is_request)) in all {
            let who = match (by_owner, of_account) {
                (true, false) => HAMLET,
                (true, true) => "juliet@capulet.example/balcony",
                (false, _) => FRANCISCO,
            };
            world.send(who, &text);
            let answers = world.mail.get(who).map_or(0, |mail| {
                mail.iter().filter(|one| one.starts_with("<iq")).count()
            });
            prop_assert_eq!(answers, usize::from(is_request), "{}", text);
            world.mail.clear();
        }
        prop_assert!(world.service.is_idle());
    }
}

#[test]
fn a_form_of_thousands_of_fields_is_refused_quickly() {
    let mut world = World::denmark();
    let fields: String = (0..10_000)
        .map(|n| format!("<field var='f{n}'/>"))
        .collect();
    let x = format!(
        "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>\
         <value>http://jabber.org/protocol/pubsub#node_config</value></field>{fields}</x>"
    );
    let configure = format!("<configure node='{NODE}'>{x}</configure>");
    refused(world.own(HAMLET, "set", &configure), "bad-request/modify");
    let create = format!("<create node='n'/><configure>{x}</configure>");
    refused(world.set(HAMLET, &create), "bad-request/modify");
    let options = format!("<publish-options>{x}</publish-options>");
    refused(
        world.publish_at(HAMLET, NODE, "a", &options),
        "bad-request/modify",
    );
}

#[test]
fn a_field_of_thousands_of_values_is_refused() {
    let mut world = World::denmark();
    let values = "<value>g</value>".repeat(10_000);
    let field = format!("<field var='pubsub#contact'>{values}</field>");
    let form = form("node_config", &[]).replace("</x>", &format!("{field}</x>"));
    let configure = format!("<configure node='{NODE}'>{form}</configure>");
    refused(
        world.own(HAMLET, "set", &configure),
        "not-acceptable/modify",
    );
}

#[test]
fn a_payload_keeps_the_namespaces_that_it_has() {
    let mut world = World::denmark();
    let pubsub = "http://jabber.org/protocol/pubsub";
    let item = "<p:item id='a'><o:e o:at='1'><plain/></o:e></p:item>";
    world.send(
        HAMLET,
        &format!(
            "<iq type='set' id='q' xmlns:p='{pubsub}' xmlns:o='urn:o'><p:pubsub>\
         <p:publish node='{NODE}'>{item}</p:publish></p:pubsub></iq>"
        ),
    );
    world.answer(HAMLET).unwrap();
    let answer = world
        .get(FRANCISCO, &format!("<items node='{NODE}'/>"))
        .unwrap();
    let frame = Frame::parse(answer).unwrap();
    let pubsub = frame.children().next().unwrap();
    let items = pubsub.children().next().unwrap();
    let item = items.children().next().unwrap();
    let payload = item.children().next().unwrap();
    assert_eq!((payload.name(), payload.ns()), ("e", "urn:o"));
    let plain = payload.children().next().unwrap();
    assert_eq!((plain.name(), plain.ns()), ("plain", "jabber:client"));
}

#[test]
fn names_that_look_like_markup_are_text() {
    let mut world = World::new();
    let name = "&lt;a b=&apos;c&apos;&gt;&amp;";
    world
        .set(HAMLET, &format!("<create node='{name}'/>"))
        .unwrap();
    world.publish_at(HAMLET, name, "&lt;i&gt;", "").unwrap();
    assert!(world.service.state().node("<a b='c'>&").is_some());
    let query = "<query xmlns='http://jabber.org/protocol/disco#items'/>";
    let answer = world.ask(FRANCISCO, "get", query).unwrap();
    let frame = Frame::parse(answer).unwrap();
    let query = frame.children().next().unwrap();
    let item = query.children().next().unwrap();
    assert_eq!(item.attr("node").as_deref(), Some("<a b='c'>&"));
    assert_eq!(world.items(FRANCISCO, name).unwrap(), ["&lt;i&gt;"]);
}
