//! What anybody can learn about an account without a subscription: asks everything of an account
//! that is online, one that is away, one that blocks the asker and one that does not exist, and
//! holds docs/strangers.md, the table of the answers. `UPDATE_EXPECT=1` writes it.

mod common;
#[path = "strangers/nodes.rs"]
mod nodes;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use common::{Client, options, start_with};
use server::modules::MODULES;

const DEADLINE: Duration = Duration::from_secs(5);

/// Online, away, blocking the asker, and nobody.
const SUBJECTS: [&str; 4] = ["here", "away", "shy", "nobody"];

const IQS: [(&str, &str, &str); 38] = [
    (
        "get",
        "service discovery, what it is",
        "<query xmlns='http://jabber.org/protocol/disco#info'/>",
    ),
    (
        "get",
        "service discovery, what it has",
        "<query xmlns='http://jabber.org/protocol/disco#items'/>",
    ),
    ("get", "ping", "<ping xmlns='urn:xmpp:ping'/>"),
    ("get", "last activity", "<query xmlns='jabber:iq:last'/>"),
    (
        "get",
        "software version",
        "<query xmlns='jabber:iq:version'/>",
    ),
    ("get", "time", "<time xmlns='urn:xmpp:time'/>"),
    (
        "get",
        "vCard, where none was set",
        "<vCard xmlns='vcard-temp'/>",
    ),
    (
        "set",
        "vCard",
        "<vCard xmlns='vcard-temp'><FN>x</FN></vCard>",
    ),
    ("get", "roster", "<query xmlns='jabber:iq:roster'/>"),
    (
        "set",
        "roster",
        "<query xmlns='jabber:iq:roster'><item jid='a@b'/></query>",
    ),
    (
        "get",
        "private storage",
        "<query xmlns='jabber:iq:private'><x xmlns='urn:x'/></query>",
    ),
    (
        "set",
        "private storage",
        "<query xmlns='jabber:iq:private'><x xmlns='urn:x'/></query>",
    ),
    (
        "get",
        "block list",
        "<blocklist xmlns='urn:xmpp:blocking'/>",
    ),
    (
        "set",
        "block list, one more",
        "<block xmlns='urn:xmpp:blocking'><item jid='a@b'/></block>",
    ),
    (
        "set",
        "block list, one less",
        "<unblock xmlns='urn:xmpp:blocking'><item jid='a@b'/></unblock>",
    ),
    ("set", "copies on", "<enable xmlns='urn:xmpp:carbons:2'/>"),
    ("set", "copies off", "<disable xmlns='urn:xmpp:carbons:2'/>"),
    (
        "set",
        "session",
        "<session xmlns='urn:ietf:params:xml:ns:xmpp-session'/>",
    ),
    ("set", "archive", "<query xmlns='urn:xmpp:mam:2'/>"),
    (
        "get",
        "what the archive can be asked",
        "<query xmlns='urn:xmpp:mam:2'/>",
    ),
    (
        "get",
        "where the archive begins and ends",
        "<metadata xmlns='urn:xmpp:mam:2'/>",
    ),
    (
        "set",
        "archive preferences",
        "<prefs xmlns='urn:xmpp:mam:2' default='never'/>",
    ),
    (
        "get",
        "archive preferences",
        "<prefs xmlns='urn:xmpp:mam:2'/>",
    ),
    ("get", "inbox", "<inbox xmlns='urn:xmpp:inbox:1'/>"),
    ("get", "registration", "<query xmlns='jabber:iq:register'/>"),
    (
        "set",
        "registration: another password",
        "<query xmlns='jabber:iq:register'><username>here</username>\
         <password>x</password></query>",
    ),
    (
        "set",
        "registration: remove",
        "<query xmlns='jabber:iq:register'><remove/></query>",
    ),
    (
        "get",
        "items of a node for contacts",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'>\
         <items node='http://jabber.org/protocol/tune'/></pubsub>",
    ),
    (
        "set",
        "subscription to such a node",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'>\
         <subscribe node='http://jabber.org/protocol/tune' jid='asker@localhost'/></pubsub>",
    ),
    (
        "get",
        "configuration of such a node",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub#owner'>\
         <configure node='http://jabber.org/protocol/tune'/></pubsub>",
    ),
    (
        "set",
        "subscriptions that wait at such a node",
        "<command xmlns='http://jabber.org/protocol/commands' \
         node='http://jabber.org/protocol/pubsub#get-pending'/>",
    ),
    (
        "get",
        "own subscriptions",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'><subscriptions/></pubsub>",
    ),
    (
        "get",
        "own subscriptions at such a node",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'>\
         <subscriptions node='http://jabber.org/protocol/tune'/></pubsub>",
    ),
    (
        "get",
        "own affiliations",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'><affiliations/></pubsub>",
    ),
    (
        "get",
        "own affiliation with such a node",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'>\
         <affiliations node='http://jabber.org/protocol/tune'/></pubsub>",
    ),
    (
        "get",
        "what subscriptions to nodes are by default",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'><default/></pubsub>",
    ),
    (
        "get",
        "what nodes are by default",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub#owner'><default/></pubsub>",
    ),
    (
        "get",
        "anything that nobody knows",
        "<query xmlns='urn:example'/>",
    ),
];

const OTHERS: [(&str, &str); 18] = [
    (
        "chat message",
        "<message id='ID' to='TO' type='chat'><body>x</body></message>",
    ),
    (
        "normal message",
        "<message id='ID' to='TO'><body>x</body></message>",
    ),
    (
        "chat state",
        "<message id='ID' to='TO' type='chat'>\
         <active xmlns='http://jabber.org/protocol/chatstates'/></message>",
    ),
    (
        "headline",
        "<message id='ID' to='TO' type='headline'><body>x</body></message>",
    ),
    (
        "groupchat message",
        "<message id='ID' to='TO' type='groupchat'><body>x</body></message>",
    ),
    (
        "normal message to a resource that is not there",
        "<message id='ID' to='TO/none'><body>x</body></message>",
    ),
    (
        "chat message to a resource that is not there",
        "<message id='ID' to='TO/none' type='chat'><body>x</body></message>",
    ),
    (
        "error",
        "<message id='ID' to='TO' type='error'><body>x</body></message>",
    ),
    (
        "ping of a resource that is not there",
        "<iq type='get' id='ID' to='TO/none'><ping xmlns='urn:xmpp:ping'/></iq>",
    ),
    ("presence", "<presence id='ID' to='TO'/>"),
    (
        "entry into a room of that name",
        "<presence id='ID' to='TO/nick'><x xmlns='http://jabber.org/protocol/muc'/></presence>",
    ),
    (
        "invitation to a room",
        "<message id='ID' to='TO'>\
         <x xmlns='jabber:x:conference' jid='room@conference.localhost'/></message>",
    ),
    (
        "end of presence",
        "<presence id='ID' to='TO' type='unavailable'/>",
    ),
    ("probe", "<presence id='ID' to='TO' type='probe'/>"),
    (
        "subscription request",
        "<presence id='ID' to='TO' type='subscribe'/>",
    ),
    (
        "leave to see presence that nobody asked for",
        "<presence id='ID' to='TO' type='subscribed'/>",
    ),
    (
        "end of a subscription that there is not",
        "<presence id='ID' to='TO' type='unsubscribe'/>",
    ),
    (
        "end of leave that nobody has",
        "<presence id='ID' to='TO' type='unsubscribed'/>",
    ),
];

/// What came about `id`, in a word.
fn word(text: &str) -> String {
    if text.is_empty() {
        return "nothing".to_owned();
    }
    for condition in [
        "service-unavailable",
        "item-not-found",
        "forbidden",
        "not-allowed",
        "resource-constraint",
        "conflict",
        "not-authorized",
    ] {
        if text.contains(&format!("<{condition}")) {
            return format!("`{condition}`");
        }
    }
    if text.contains("type='unsubscribed'") {
        return "`unsubscribed`".to_owned();
    }
    if text.contains("disco#items'/>") {
        return "an empty list".to_owned();
    }
    if text.contains("type='result'") {
        return "a result".to_owned();
    }
    format!("`{text}`")
}

/// Sends a stanza and a question behind it that everybody answers; what came before that answer.
fn ask(asker: &mut Client, stanza: &str, to: &str, id: &str) -> String {
    asker.send(stanza);
    let fence = format!("f{id}");
    asker.send(&format!(
        "<iq type='get' id='{fence}' to='{to}'><query xmlns='urn:example:fence'/></iq>"
    ));
    let seen = asker.expect(&format!(" id='{fence}'"));
    // The answer of the fence begins with its own tag.
    let before = seen.rfind("<iq ").unwrap_or(0);
    let answer = seen[..before].to_owned();
    asker.expect("</iq>");
    answer
}

fn row(out: &mut String, what: &str, answers: &[String; 4]) {
    let tells = match answers {
        [here, away, shy, nobody] if here == away && away == shy && shy == nobody => "nothing",
        [here, away, _, nobody] if here == away && away == nobody => "that it is blocked",
        [here, away, ..] if here == away => "**that it is there**",
        _ => "**whether somebody is online**",
    };
    let [here, away, shy, nobody] = answers;
    let _ = writeln!(
        out,
        "| {what} | {here} | {away} | {shy} | {nobody} | {tells} |"
    );
}

fn login_rows(out: &mut String, address: std::net::SocketAddr) {
    let tried = SUBJECTS.map(|user| {
        let mut client = Client::connect(address);
        client.open();
        client.authenticate_with(user, "wrong");
        let answer = client.expect("</failure>");
        word(&answer)
    });
    row(out, "login with a wrong password (PLAIN)", &tried);
    let challenged = SUBJECTS.map(|user| {
        let mut client = Client::connect(address);
        client.open();
        let first = xmpp::sasl::encode(&format!("n,,n={user},r=abc"));
        client.send(&format!(
            "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='SCRAM-SHA-1'>{first}</auth>"
        ));
        client.expect("<challenge xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>");
        let text = client.expect("</challenge>");
        let text = text.trim_end_matches("</challenge>");
        let text = xmpp::sasl::decode(text).expect("a challenge");
        let part = |name| text.split(',').find_map(|part| part.strip_prefix(name));
        let (salt, iterations) = (part("s=").expect("a salt"), part("i=").expect("a count"));
        format!("{} characters of salt, {iterations} iterations", salt.len())
    });
    row(out, "challenge of a login (SCRAM)", &challenged);
    let registered = SUBJECTS.map(|user| {
        let mut client = Client::connect(address);
        client.open();
        client.send(&format!(
            "<iq type='set' id='r'><query xmlns='jabber:iq:register'>\
             <username>{user}</username><password>pw</password></query></iq>"
        ));
        client.expect(" id='r'");
        client.send("</stream:stream>");
        while client.read_some().is_ok_and(|read| read > 0) {}
        match client.seen.contains("<conflict") {
            true => "`conflict`".to_owned(),
            false => "an account".to_owned(),
        }
    });
    row(out, "registration, where it is enabled", &registered);
}

/// Who did not enter the directory is found by no word.
fn directory_row(out: &mut String, asker: &mut Client) {
    let found = SUBJECTS.map(|user| {
        asker.send(&format!(
            "<iq type='set' id='d{user}' to='search.localhost'><query xmlns='jabber:iq:search'>\
             <nick>{user}</nick></query></iq>"
        ));
        let mut text = asker.expect(&format!(" id='d{user}'"));
        text += &asker.expect("</iq>");
        match text.contains("<item ") {
            true => "found".to_owned(),
            false => "nobody is found".to_owned(),
        }
    });
    row(out, "search of the directory, where it is enabled", &found);
}

/// Everybody who is there has a node for contacts.
fn publish(client: &mut Client) {
    client.send(
        "<iq type='set' id='p'><pubsub xmlns='http://jabber.org/protocol/pubsub'>\
         <publish node='http://jabber.org/protocol/tune'><item id='current'>\
         <tune xmlns='http://jabber.org/protocol/tune'/></item></publish></pubsub></iq>",
    );
    client.expect("<item id='current'/>");
}

fn table() -> String {
    let mut options = options(2, true);
    options.archive.enabled = true;
    options.registration_enabled = true;
    options.directory.hosts = vec!["search.localhost".to_owned()];
    let users = ["here", "away", "shy", "asker"];
    let running = start_with(options, net::Limits::default(), &users);
    let mut here = Client::login(running.address, "here", "a");
    here.send("<presence/>");
    publish(&mut here);
    let mut shy = Client::login(running.address, "shy", "a");
    shy.send(
        "<presence/><iq type='set' id='b'><block xmlns='urn:xmpp:blocking'>\
         <item jid='asker@localhost'/></block></iq>",
    );
    shy.expect("id='b'");
    publish(&mut shy);
    let mut away = Client::login(running.address, "away", "a");
    publish(&mut away);
    drop(away);
    let mut asker = Client::login(running.address, "asker", "a");
    let mut out = String::new();
    for (at, (kind, what, payload)) in IQS.iter().chain(&nodes::IQS).enumerate() {
        let answers = SUBJECTS.map(|user| {
            let id = format!("q{at}{user}");
            asker.send(&format!(
                "<iq type='{kind}' id='{id}' to='{user}@localhost'>{payload}</iq>"
            ));
            let seen = asker.expect(&format!(" id='{id}'"));
            let begun = seen.rfind("<iq ").unwrap_or(0);
            // An answer without children ends at once.
            let mut text = seen[begun..].to_owned();
            while !text.ends_with("/>") && !text.ends_with("</iq>") {
                text += &asker.expect(">");
            }
            if !text.contains("</iq>") && text.matches('<').count() > 1 {
                text += &asker.expect("</iq>");
            }
            word(&text)
        });
        let verb = if *kind == "set" { "change: " } else { "" };
        row(&mut out, &format!("{verb}{what}"), &answers);
    }
    for (at, (what, stanza)) in OTHERS.iter().enumerate() {
        let answers = SUBJECTS.map(|user| {
            let (id, to) = (format!("o{at}{user}"), format!("{user}@localhost"));
            let stanza = stanza.replace("ID", &id).replace("TO", &to);
            word(&ask(&mut asker, &stanza, &to, &id))
        });
        row(&mut out, what, &answers);
    }
    directory_row(&mut out, &mut asker);
    login_rows(&mut out, running.address);
    running.node.drain(DEADLINE);
    out
}

/// Nothing that some module answers for an account is left out.
#[test]
fn everything_that_accounts_answer_is_asked() {
    let all = MODULES.iter().flat_map(|module| module.account);
    for (name, ns, _) in all {
        let begin = [
            format!("<{name} xmlns='{ns}'"),
            format!("<{name} xmlns=\"{ns}\""),
        ];
        let is_asked = |payload: &str| begin.iter().any(|begin| payload.starts_with(&**begin));
        assert!(
            IQS.iter().any(|(_, _, payload)| is_asked(payload)),
            "{name} of {ns} is not asked of strangers"
        );
    }
}

#[test]
fn strangers_learn_what_the_table_says() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/strangers.md");
    let text = fs::read_to_string(&file).expect("docs/strangers.md");
    let head = "|---|---|---|---|---|---|\n";
    let begin = text.find(head).expect("a table") + head.len();
    let length = text[begin..]
        .find("\n\n")
        .map_or(text.len() - begin, |at| at + 1);
    let table = table();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let text = format!("{}{table}{}", &text[..begin], &text[begin + length..]);
        fs::write(&file, text).expect("written");
        return;
    }
    assert_eq!(
        &text[begin..begin + length],
        table,
        "UPDATE_EXPECT=1 writes it"
    );
}
