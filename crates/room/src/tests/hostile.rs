//! Whatever is sent to a room: it never panics, answers each request exactly once, sends nothing
//! without an address, and shows nobody's real address to those who may not see it.

use proptest::prelude::*;

use super::*;

/// Elements that a room looks into, whole, damaged and in wrong places.
const PARTS: &[&str] = &[
    "<x xmlns='http://jabber.org/protocol/muc'/>",
    "<x xmlns='http://jabber.org/protocol/muc'><history maxchars='-1' since='x'/><password/></x>",
    "<x xmlns='http://jabber.org/protocol/muc#user'><invite/></x>",
    "<x xmlns='http://jabber.org/protocol/muc#user'><invite to='a@b@c'/><decline/></x>",
    "<x xmlns='http://jabber.org/protocol/muc#user'><decline to='coven@chat.example/hag'/></x>",
    "<x xmlns='http://jabber.org/protocol/muc#user'><invite to='b@c'><continue/></invite></x>",
    "<x xmlns='http://jabber.org/protocol/muc#user'><item role='moderator'/></x>",
    "<query xmlns='http://jabber.org/protocol/muc#admin'/>",
    "<query xmlns='http://jabber.org/protocol/muc#admin'><item nick='hag' role='none'/></query>",
    "<query xmlns='http://jabber.org/protocol/muc#admin'><item role='participant'/></query>",
    "<query xmlns='http://jabber.org/protocol/muc#admin'><item affiliation='owner'/></query>",
    "<query xmlns='http://jabber.org/protocol/muc#admin'><item jid='@' role='x'/></query>",
    "<query xmlns='http://jabber.org/protocol/muc#owner'/>",
    "<query xmlns='http://jabber.org/protocol/muc#owner'><destroy jid='a@b@c'/></query>",
    "<query xmlns='http://jabber.org/protocol/muc#owner'><x xmlns='jabber:x:data'/></query>",
    "<query xmlns='jabber:iq:register'/>",
    "<query xmlns='jabber:iq:register'><remove/></query>",
    "<query xmlns='jabber:iq:register'><x xmlns='jabber:x:data' type='submit'/></query>",
    "<query xmlns='http://jabber.org/protocol/disco#info'/>",
    "<query xmlns='http://jabber.org/protocol/disco#items'/>",
    "<ping xmlns='urn:xmpp:ping'/>",
    "<vCard xmlns='vcard-temp'/>",
    "<query xmlns='jabber:iq:last'/>",
    "<x xmlns='jabber:x:data' type='submit'/>",
    "<x xmlns='jabber:x:data' type='submit'><field var='muc#request_allow'/></x>",
    "<subject/>",
    "<subject>s<b/></subject>",
    "<body>b</body>",
    "<body xmlns='urn:other'/>",
    "<thread>t</thread>",
    "<show>away</show>",
    "<error type='cancel'><gone xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>",
    "<error/>",
    "<stanza-id xmlns='urn:xmpp:sid:0' by='coven@chat.example'/>",
    "<occupant-id xmlns='urn:xmpp:occupant-id:0'/>",
    "<delay xmlns='urn:xmpp:delay'/>",
];

const TYPES: &[&str] = &[
    "",
    "groupchat",
    "chat",
    "normal",
    "headline",
    "error",
    "get",
    "set",
    "result",
    "unavailable",
    "subscribe",
    "probe",
    "invisible",
];
const IDS: &[&str] = &[
    "",
    "q",
    "1.2.q",
    "2.1.q",
    "3.1.",
    "1.1.1.1",
    "4294967295.4294967295.x",
];
const NICKS: &[&str] = &[
    "",
    "crone",
    "wicca",
    "hag",
    "HAG",
    "new",
    "\u{a0}",
    "a\u{202e}b",
];

fn stanza() -> impl Strategy<Value = (usize, &'static str, String)> {
    let pick = proptest::sample::select::<&'static str>;
    let parts = proptest::collection::vec(pick(PARTS), 0..3);
    let name = pick(&["message", "presence", "iq", "odd"]);
    let to = pick(NICKS);
    (0..6usize, to, name, pick(TYPES), pick(IDS), parts).prop_map(
        |(who, to, name, kind, id, parts)| {
            let kind = if kind.is_empty() {
                String::new()
            } else {
                format!(" type='{kind}'")
            };
            let stanza = format!("<{name}{kind} id='{id}'>{}</{name}>", parts.concat());
            (who, to, stanza)
        },
    )
}

/// Those who are there, one who is not, and an account without a session.
const SENDERS: [&str; 6] = [
    CRONE,
    WICCA,
    HAG,
    HECATE,
    "wiccarocks@example.org",
    "x@y.example/z",
];
const NAMES: [&str; 4] = ["crone1", "wiccarocks", "hag66", "hecate"];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_sent_is_decided(stanzas in proptest::collection::vec(stanza(), 1..40)) {
        let mut world = World::coven();
        for (who, to, stanza) in stanzas {
            let from = SENDERS[who];
            world.send(from, to, &stanza);
            let is_request = stanza.starts_with("<iq type='get'")
                || stanza.starts_with("<iq type='set'");
            let mail = std::mem::take(&mut world.mail);
            let is_answer = |one: &&String| one.starts_with("<iq") && !one.contains("type='get'")
                && !one.contains("type='set'");
            let answers = mail.get(from).map_or(0, |mail| mail.iter().filter(is_answer).count());
            let is_relayed = mail.values().flatten().any(|one| {
                one.starts_with("<iq") && (one.contains("type='get'") || one.contains("type='set'"))
            });
            if is_request {
                prop_assert!(answers == 1 || is_relayed, "{answers} answers to {stanza}");
            }
            for (reader, mail) in mail.iter().filter(|(reader, _)| *reader != CRONE) {
                let own = xmpp::addr::bare_part(reader);
                for one in mail {
                    let rest = one.replace(own, "");
                    // Who declines tells his address to the one who invited it.
                    if rest.contains("<decline ") {
                        continue;
                    }
                    for name in NAMES.iter().filter(|name| !own.starts_with(*name)) {
                        prop_assert!(!rest.contains(&format!("{name}@")), "{reader}: {one}");
                    }
                }
            }
            if world.room.state().is_none() {
                break;
            }
        }
    }
}
