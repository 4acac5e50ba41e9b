//! Rooms and nodes that move by export and import, by backup and restore, and what operators do to
//! nodes.

use std::fmt::Write as _;
use std::fs;

use crate::client::Client;
use crate::place::{Place, Server};

const ROOM: &str = "cave@conference.localhost";
const BUSY: &str = "busy@conference.localhost";
const PUBSUB: &str = "http://jabber.org/protocol/pubsub";

/// Messages of the room's archive: more than are read, or fit into a page, at a time.
const MESSAGES: usize = 150;

fn iq(client: &mut Client, kind: &str, to: &str, payload: &str) -> String {
    client.send(&format!(
        "<iq type='{kind}' id='ask' to='{to}'>{payload}</iq>"
    ));
    let answer = client.expect("id='ask'");
    assert!(!answer.contains("type='error'"), "{payload}: {answer}");
    answer
}

fn field(name: &str, value: &str) -> String {
    format!("<field var='{name}'><value>{value}</value></field>")
}

fn say(client: &mut Client, room: &str, body: &str) {
    client.send(&format!(
        "<message type='groupchat' to='{room}'><body>{body}</body></message>"
    ));
    client.expect(&format!("<body>{body}</body>"));
}

/// A room with everything that a room can have.
fn make_room(alice: &mut Client) {
    alice.send(&format!(
        "<presence to='{ROOM}/Alice'><x xmlns='http://jabber.org/protocol/muc'/></presence>"
    ));
    alice.expect("code='201'");
    let form = [
        field("FORM_TYPE", "http://jabber.org/protocol/muc#roomconfig"),
        field("muc#roomconfig_roomname", "A &quot;dark&quot; cave"),
        field("muc#roomconfig_persistentroom", "1"),
        field("muc#roomconfig_moderatedroom", "1"),
    ];
    let owner = "<query xmlns='http://jabber.org/protocol/muc#owner'>\
                 <x xmlns='jabber:x:data' type='submit'>";
    iq(
        alice,
        "set",
        ROOM,
        &format!("{owner}{}</x></query>", form.concat()),
    );
    let admin = "<query xmlns='http://jabber.org/protocol/muc#admin'>";
    for item in [
        "<item jid='bob@localhost' affiliation='member' nick='Bob'/>",
        "<item jid='eve@localhost' affiliation='outcast'><reason>no</reason></item>",
    ] {
        iq(alice, "set", ROOM, &format!("{admin}{item}</query>"));
    }
    alice.send(&format!(
        "<message type='groupchat' to='{ROOM}'><subject>Stones &amp; water</subject></message>"
    ));
    alice.expect("</subject>");
    let photo = "<PHOTO><TYPE>image/png</TYPE><BINVAL>AAAA</BINVAL></PHOTO>";
    let card = format!("<vCard xmlns='vcard-temp'>{photo}</vCard>");
    iq(alice, "set", ROOM, &card);
    for number in 0..MESSAGES {
        let body = format!("<body>{number}: {}</body>", "x".repeat(10_000));
        alice.send(&format!(
            "<message type='groupchat' to='{ROOM}'>{body}</message>"
        ));
        alice.expect(&format!("<body>{number}: "));
        alice.expect("</message>");
    }
    // It registers a nick of its own.
    iq(
        alice,
        "set",
        ROOM,
        &format!(
            "<query xmlns='jabber:iq:register'><x xmlns='jabber:x:data' type='submit'>{}{}</x>\
             </query>",
            field("FORM_TYPE", "http://jabber.org/protocol/muc#register"),
            field("muc#register_roomnick", "Alice")
        ),
    );
}

fn publish(client: &mut Client, to: &str, node: &str, id: &str) {
    let item = format!("<item id='{id}'><entry xmlns='urn:x'>{id} &amp; more</entry></item>");
    let publish = format!("<publish node='{node}'>{item}</publish>");
    let pubsub = format!("<pubsub xmlns='{PUBSUB}'>{publish}</pubsub>");
    iq(client, "set", to, &pubsub);
}

/// Nodes of a service and of an account.
fn make_nodes(alice: &mut Client, bob: &mut Client) {
    let to = "pubsub.localhost";
    let form = [
        field("FORM_TYPE", &format!("{PUBSUB}#node_config")),
        field("pubsub#title", "News"),
        field("pubsub#notify_retract", "1"),
        field("pubsub#max_items", "200"),
    ];
    let create = format!(
        "<pubsub xmlns='{PUBSUB}'><create node='news'/><configure>\
         <x xmlns='jabber:x:data' type='submit'>{}</x></configure></pubsub>",
        form.concat()
    );
    iq(alice, "set", to, &create);
    let create = format!("<pubsub xmlns='{PUBSUB}'><create node='empty &amp; old'/></pubsub>");
    iq(alice, "set", to, &create);
    let subscribe =
        format!("<pubsub xmlns='{PUBSUB}'><subscribe node='news' jid='bob@localhost'/></pubsub>");
    iq(bob, "set", to, &subscribe);
    let affiliate = format!(
        "<pubsub xmlns='{PUBSUB}#owner'><affiliations node='news'>\
         <affiliation jid='bob@localhost' affiliation='publisher'/></affiliations></pubsub>"
    );
    iq(alice, "set", to, &affiliate);
    for number in 0..70 {
        publish(alice, to, "news", &format!("i{number}"));
    }
    for node in ["urn:x:mood", "urn:x:tune"] {
        publish(alice, "alice@localhost", node, "current");
    }
}

fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// A place whose server has all of it.
fn furnished() -> (Place, Server) {
    let place = Place::new();
    let server = place.serve();
    place.add(&["alice", "bob"]);
    let mut alice = Client::online(server.plain, "alice", "a");
    let mut bob = Client::online(server.plain, "bob", "b");
    make_room(&mut alice);
    make_nodes(&mut alice, &mut bob);
    (place, server)
}

#[test]
fn rooms_and_nodes_move_whole() {
    let (place, server) = furnished();
    let file = place.path("all.jsonl");
    let file = file.to_str().expect("text");
    let said = place.must(&["export", "--output", file]);
    assert!(
        said.contains("exported 2 accounts, 1 rooms, 4 nodes to"),
        "{said}"
    );
    let lines = fs::read_to_string(file).expect("lines");
    for (wanted, count) in [
        ("\"type\":\"room_message\"", MESSAGES),
        ("\"type\":\"node_item\"", 72),
        ("\"nick\":\"Bob\"", 1),
        ("\"nick\":\"Alice\"", 1),
        ("\"reason\":\"no\"", 1),
        ("\"state\":\"subscribed\"", 1),
        ("Stones &amp; water", 1),
    ] {
        assert_eq!(lines.matches(wanted).count(), count, "{wanted}");
    }
    let copy = place.path("all.backup");
    let copy = copy.to_str().expect("text");
    place.must(&["backup", copy]);
    let verified = place.must(&["verify"]);
    assert!(verified.contains(": good"), "{verified}");

    for (arguments, is_live) in [
        (["import", file], false),
        (["import", file], true),
        (["restore", copy], false),
    ] {
        let other = Place::new();
        let running = is_live.then(|| other.serve());
        let mut carol = running.as_ref().map(|running| bystander(&other, running));
        other.must(&arguments);
        if let Some(carol) = &mut carol {
            say(carol, BUSY, "as before");
            // It is in the store for her who is there, and ends with her.
            assert!(!other.must(&["export"]).contains(BUSY));
            other.must(&["room", "destroy", BUSY]);
            other.must(&["user", "del", "carol@localhost"]);
        }
        let moved = other.must(&["export"]);
        assert_eq!(sorted(&moved), sorted(&lines), "{arguments:?} {is_live}");
        assert!(other.must(&["verify"]).contains(": good"));
        if let Some(running) = running {
            look_around(&other, &running);
        }
    }
    server.stop();
}

/// Somebody who is in a room of a server, and has just asked for what an import will make: rooms
/// and services that are loaded.
fn bystander(place: &Place, server: &Server) -> Client {
    place.add(&["carol"]);
    let mut carol = Client::online(server.plain, "carol", "c");
    carol.send("<enable xmlns='urn:xmpp:sm:3'/>");
    carol.expect("<enabled ");
    carol.send(&format!(
        "<presence to='{BUSY}/Carol'><x xmlns='http://jabber.org/protocol/muc'/></presence>"
    ));
    carol.expect("code='201'");
    let instant = "<query xmlns='http://jabber.org/protocol/muc#owner'>\
                   <x xmlns='jabber:x:data' type='submit'/></query>";
    iq(&mut carol, "set", BUSY, instant);
    say(&mut carol, BUSY, "hello");
    let disco = "<query xmlns='http://jabber.org/protocol/disco#info'/>";
    iq(&mut carol, "get", "pubsub.localhost", disco);
    carol.send(&format!("<iq type='get' id='no' to='{ROOM}'>{disco}</iq>"));
    carol.expect("id='no'");
    carol
}

/// What was imported is what its owners had.
fn look_around(place: &Place, server: &Server) {
    let shown = place.must(&["room", "show", ROOM]);
    for wanted in ["A \"dark\" cave", "alice@localhost", "locked        no"] {
        assert!(shown.contains(wanted), "{wanted}: {shown}");
    }
    let mut bob = Client::online(server.plain, "bob", "b");
    bob.send(&format!(
        "<presence to='{ROOM}/Bob'><x xmlns='http://jabber.org/protocol/muc'>\
         <history maxstanzas='1'/></x></presence>"
    ));
    let seen = bob.expect("Stones &amp; water");
    assert!(
        seen.contains(&format!("<body>{}: ", MESSAGES - 1)),
        "{seen}"
    );
    let items = iq(
        &mut bob,
        "get",
        "pubsub.localhost",
        &format!("<pubsub xmlns='{PUBSUB}'><items node='news' max_items='1'/></pubsub>"),
    );
    assert!(!items.contains("error"), "{items}");
    let mut alice = Client::online(server.plain, "alice", "a");
    publish(&mut alice, "pubsub.localhost", "news", "after");
    bob.expect("<item id='after'");
}

#[test]
fn what_cannot_be_imported_is_named_by_its_line_and_changes_nothing() {
    let (place, server) = furnished();
    let lines = place.must(&["export"]);
    drop(server);
    let all: Vec<&str> = lines.lines().collect();
    let at = |what: &str| {
        let tag = format!("{{\"type\":\"{what}\"");
        let found = all.iter().position(|line| line.starts_with(&tag));
        found.unwrap_or_else(|| panic!("no {what}"))
    };
    let room = all[at("room")];
    let node = all[at("node")];
    let huge = format!("{{\"type\":\"{}\"}}", "x".repeat(5 * 1024 * 1024));
    let truncated = &room[..room.len() / 2];
    let bad_lines = [
        ("{\"type\":\"wall\"}", "unknown variant"),
        (truncated, "not a line of an export"),
        (&huge, "longer than"),
        ("\u{0}", "not a line of an export"),
        (room, "is there twice"),
        (all[at("room_message")], "does not follow that room's own"),
        (all[at("node_item")], "does not follow"),
        (
            &room.replace("cave@conference.localhost", "cave@elsewhere.example"),
            "is no address of a room here",
        ),
        (
            &room
                .replace("cave@", "den@")
                .replace("\"secret\":\"", "\"secret\":\"A"),
            "16 bytes in Base64",
        ),
        (
            &room
                .replace("cave@", "den@")
                .replace("muc#roomconfig_whois\":[\"", "muc#roomconfig_whois\":[\"no"),
            "muc#roomconfig_whois",
        ),
        (
            &room
                .replace("cave@", "den@")
                .replace("\"first\"", "\"second\""),
            "unknown field",
        ),
        (
            "{\"type\":\"service\",\"jid\":\"elsewhere.example\"}",
            "is no service with nodes here",
        ),
        (node, "does not follow"),
        (
            "{\"type\":\"account\",\"jid\":\"ALICE@localhost\",\"created\":0,\"locked\":false,\
             \"scram\":[]}",
            "is there twice",
        ),
        (
            "{\"type\":\"roster\",\"jid\":\"nobody@localhost\",\"items\":[]}",
            "there is no account nobody@localhost",
        ),
        (
            "{\"type\":\"directory\",\"jid\":\"alice@localhost\",\"nick\":\"\\u0001\"}",
            "a character that XML does not have",
        ),
        (
            "{\"type\":\"vcard\",\"jid\":\"alice@localhost\",\"photo_hash\":\"\",\
             \"xml\":\"<vCard xmlns='vcard-temp'></iq>\"}",
            "no <vCard/>",
        ),
    ];
    for (bad, wanted) in bad_lines {
        let other = Place::new();
        other.add(&["first"]);
        let before = other.must(&["export"]);
        let mut file = lines.clone();
        let _ = writeln!(file, "\n{bad}");
        let outcome = other.run_with(&["import", "-"], &file);
        let number = format!("line {}: ", all.len() + 2);
        assert_ne!(outcome.code, 0, "{wanted}");
        assert!(
            outcome.err.contains(&number) && outcome.err.contains(wanted),
            "{number}{wanted}: {}",
            outcome.err
        );
        assert_eq!(other.must(&["export"]), before, "{wanted}");
    }
    // What is there already is refused, and stays as it is.
    let again = place.run_with(&["import", "-"], &lines);
    assert!(
        again.err.contains("line 1: there is an account"),
        "{}",
        again.err
    );
    let rooms: String = all[at("room")..].join("\n");
    let again = place.run_with(&["import", "-"], &rooms);
    assert!(
        again.err.contains("line 1: there is a room"),
        "{}",
        again.err
    );
    let again = place.run_with(&["import", "-"], &all[at("service")..].join("\n"));
    assert!(again.err.contains("has nodes already"), "{}", again.err);
    assert_eq!(sorted(&place.must(&["export"])), sorted(&lines));
}

/// Lines are sent to the server some at a time: where a part ends changes nothing. The first
/// message of a room was refused if its room's line was in an earlier part.
#[test]
fn a_room_may_be_anywhere_in_a_file() {
    let (place, server) = furnished();
    let lines = place.must(&["export"]);
    drop(server);
    let all: Vec<&str> = lines.lines().collect();
    let of_room = |line: &&&str| line.starts_with("{\"type\":\"room");
    let of_room: Vec<&str> = all.iter().filter(of_room).copied().collect();
    let is_first =
        |line: &&str| line.contains("\"room_message\"") && line.contains("\"number\":0,");
    let message = of_room.iter().position(is_first);
    // With these in front, the message is the first line of the second part.
    let before = 500 - message.expect("the first message of the room");
    let mut file = String::new();
    for n in 0..before {
        let _ = writeln!(
            file,
            "{{\"type\":\"account\",\"jid\":\"n{n}@localhost\",\"created\":0,\"locked\":false,\
             \"scram\":[]}}"
        );
    }
    file.push_str(&of_room.join("\n"));
    let other = Place::new();
    let outcome = other.run_with(&["import", "-"], &file);
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    let again = other.must(&["export"]);
    let again = again
        .lines()
        .filter(|line| line.starts_with("{\"type\":\"room"));
    assert_eq!(again.collect::<Vec<_>>(), of_room);
}

/// A room that was destroyed comes back with its archive, under new numbers.
#[test]
fn a_room_that_is_gone_comes_back() {
    let (place, server) = furnished();
    let lines = place.must(&["export"]);
    let room: Vec<&str> = lines
        .lines()
        .filter(|line| line.starts_with("{\"type\":\"room"))
        .collect();
    place.must(&["room", "destroy", ROOM]);
    let said = place.run_with(&["import", "-"], &room.join("\n"));
    assert_eq!(said.out, "imported 0 accounts, 1 rooms\n", "{}", said.err);
    let moved = place.must(&["export"]);
    let back: Vec<&str> = moved
        .lines()
        .filter(|line| line.starts_with("{\"type\":\"room"))
        .collect();
    // But for the first line, which says from where the numbers count.
    assert_eq!(back[1..], room[1..]);
    server.stop();
}

const GUILD: &str = "guild@conference.localhost";

/// A room that delivers to bob, who is not in it. He has had "one"; "two" and "three" wait for him.
fn with_an_absent_member() -> (Place, Server) {
    let place = Place::new();
    let server = place.serve();
    place.add(&["alice", "bob"]);
    let mut alice = Client::online(server.plain, "alice", "a");
    alice.send(&format!(
        "<presence to='{GUILD}/Alice'><x xmlns='http://jabber.org/protocol/muc'/></presence>"
    ));
    alice.expect("code='201'");
    let form = [
        field("FORM_TYPE", "http://jabber.org/protocol/muc#roomconfig"),
        field("muc#roomconfig_persistentroom", "1"),
        field("x-roomconfig_delivertomembers", "1"),
    ];
    let query = "<query xmlns='http://jabber.org/protocol/muc#owner'>\
                 <x xmlns='jabber:x:data' type='submit'>";
    let form = format!("{query}{}</x></query>", form.concat());
    iq(&mut alice, "set", GUILD, &form);
    let member = "<query xmlns='http://jabber.org/protocol/muc#admin'>\
                  <item jid='bob@localhost' affiliation='member'/></query>";
    iq(&mut alice, "set", GUILD, member);
    let mut bob = Client::online(server.plain, "bob", "b");
    say(&mut alice, GUILD, "one");
    bob.expect("<body>one</body>");
    bob.send("</stream:stream>");
    bob.rest();
    say(&mut alice, GUILD, "two");
    say(&mut alice, GUILD, "three");
    (place, server)
}

/// What bob is given when he logs in: all before his own answer to a last message.
fn given_to_bob(server: &Server) -> Vec<usize> {
    let mut bob = Client::online(server.plain, "bob", "c");
    let mut heard = bob.expect("<body>three</body>");
    bob.say("bob", "self");
    heard.push_str(&bob.expect("<body>self</body>"));
    let times = |body: &str| heard.matches(&format!("<body>{body}</body>")).count();
    ["one", "two", "three"].map(times).to_vec()
}

/// A member who is in no room is owed the same messages on the server that he moves to: what he has
/// had does not come again, and what he has not had is not lost.
#[test]
fn what_members_have_had_moves_with_their_room() {
    let (place, server) = with_an_absent_member();
    let lines = place.must(&["export"]);
    let marks = lines.lines().filter(|line| line.contains("room_members"));
    let marks: Vec<&str> = marks.collect();
    assert!(
        marks.len() == 1 && marks[0].contains("\"jid\":\"bob@localhost\",\"next\":1}"),
        "{lines}"
    );
    for is_live in [false, true] {
        let other = Place::new();
        let early = is_live.then(|| other.serve());
        let imported = other.run_with(&["import", "-"], &lines);
        assert_eq!(imported.code, 0, "{}", imported.err);
        assert_eq!(sorted(&other.must(&["export"])), sorted(&lines));
        let running = early.unwrap_or_else(|| other.serve());
        assert_eq!(given_to_bob(&running), [0, 1, 1], "{is_live}");
        running.stop();
        assert!(other.must(&["verify"]).contains(": good"));
    }
    // The same where the room comes back with higher numbers than it had.
    let room = lines
        .lines()
        .filter(|line| line.starts_with("{\"type\":\"room"));
    let room: Vec<&str> = room.collect();
    place.must(&["room", "destroy", GUILD]);
    let back = place.run_with(&["import", "-"], &room.join("\n"));
    assert_eq!(back.code, 0, "{}", back.err);
    assert_eq!(given_to_bob(&server), [0, 1, 1]);
    let bad = marks[0].replace("\"next\":1", "\"next\":18446744073709551615");
    let mut refused = room[..room.len() - 1].to_vec();
    refused.push(&bad);
    place.must(&["room", "destroy", GUILD]);
    let refused = place.run_with(&["import", "-"], &refused.join("\n"));
    assert!(
        refused.err.contains("a number that leaves none"),
        "{}",
        refused.err
    );
    server.stop();
}

#[test]
fn operators_look_into_nodes_and_end_them() {
    let (place, server) = furnished();
    let mut bob = Client::online(server.plain, "bob", "c");
    let listed = place.must(&["pubsub", "list"]);
    assert_eq!(
        listed,
        "pubsub.localhost \"empty & old\" with 0 items, 0 subscriptions \"\"\n\
         pubsub.localhost \"news\" with 70 items, 1 subscriptions \"News\"\n"
    );
    let listed = place.must(&["pubsub", "list", "alice@localhost", "--json"]);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    assert!(listed.contains("\"node\":\"urn:x:mood\""), "{listed}");
    let shown = place.must(&["pubsub", "show", "pubsub.localhost", "news"]);
    for wanted in ["alice@localhost", "70 of ", "pubsub#max_items  200"] {
        assert!(shown.contains(wanted), "{wanted}: {shown}");
    }
    let items = place.must(&["pubsub", "items", "pubsub.localhost", "news"]);
    assert_eq!(items.lines().count(), 70, "{items}");
    assert!(items.starts_with("\"i0\" "), "{items}");
    assert!(items.contains("i69 &amp; more"), "{items}");
    let people = place.must(&["pubsub", "affiliations", "pubsub.localhost", "news"]);
    assert_eq!(people, "alice@localhost owner\nbob@localhost publisher\n");
    let people = place.must(&[
        "pubsub",
        "subscriptions",
        "pubsub.localhost",
        "news",
        "--json",
    ]);
    assert_eq!(
        people,
        "{\"is\":\"subscribed\",\"jid\":\"bob@localhost\"}\n"
    );

    place.must(&["pubsub", "purge", "pubsub.localhost", "news"]);
    bob.expect("<purge node='news'/>");
    assert_eq!(
        place.must(&["pubsub", "items", "pubsub.localhost", "news"]),
        ""
    );
    place.must(&["pubsub", "delete", "pubsub.localhost", "news"]);
    bob.expect("<delete node='news'/>");
    place.must(&["pubsub", "delete", "alice@localhost", "urn:x:mood"]);
    let listed = place.must(&["pubsub", "list", "alice@localhost"]);
    assert!(!listed.contains("mood"), "{listed}");
    for (arguments, wanted) in [
        (
            ["delete", "pubsub.localhost", "news"],
            "has no node \"news\"",
        ),
        (["purge", "alice@localhost", "urn:x:mood"], "has no node"),
        (["show", "pubsub.localhost", "news"], "has no node \"news\""),
        (
            ["items", "nobody@localhost", "n"],
            "no account nobody@localhost",
        ),
        (
            ["show", "elsewhere.example", "n"],
            "one of pubsub.localhost",
        ),
        (["show", "a b@localhost", "n"], "has no nodes here"),
        (["delete", "a@elsewhere.example", "n"], "elsewhere.example"),
    ] {
        let outcome = place.run(&[&["pubsub"][..], &arguments].concat());
        assert_eq!(outcome.code, 1, "{arguments:?}: {}", outcome.err);
        assert!(
            outcome.err.contains(wanted),
            "{arguments:?}: {}",
            outcome.err
        );
    }
    server.stop();
    // On a stopped server too.
    let listed = place.must(&["pubsub", "list"]);
    assert_eq!(listed.lines().count(), 1, "{listed}");
    place.must(&["pubsub", "delete", "pubsub.localhost", "empty & old"]);
    assert_eq!(place.must(&["pubsub", "list"]), "");
}

/// A roster and a block list as large as they may be, every name of which is longer as JSON, move
/// in a backup and in an export. Lines of this length were exported and could not be imported.
#[test]
fn an_account_at_its_bounds_moves() {
    let place = Place::new();
    let mut lines = String::from(
        "{\"type\":\"account\",\"jid\":\"full@localhost\",\"created\":0,\"locked\":false,\"scram\":[]}\n\
         {\"type\":\"roster\",\"jid\":\"full@localhost\",\"items\":[",
    );
    let name = "\\\"".repeat(1_000);
    for contact in 0..1_000 {
        let comma = if contact > 0 { "," } else { "" };
        let _ = write!(
            lines,
            "{comma}{{\"jid\":\"c{contact}@localhost\",\"name\":\"{name}\",\"subscription\":\"both\"}}"
        );
    }
    lines += "]}\n{\"type\":\"blocklist\",\"jid\":\"full@localhost\",\"blocked\":[";
    for blocked in 0..520 {
        let comma = if blocked > 0 { "," } else { "" };
        let _ = write!(lines, "{comma}\"{}{blocked}@x\"", "b".repeat(1_000));
    }
    lines += "]}\n";
    assert!(lines.lines().any(|line| line.len() > 2_000_000));
    let file = place.path("full.jsonl");
    fs::write(&file, &lines).unwrap();
    place.must(&["import", file.to_str().unwrap()]);
    let export = place.must(&["export"]);
    let backup = place.path("full.roost");
    let backup = backup.to_str().unwrap();
    place.must(&["backup", backup]);

    let (restored, imported) = (Place::new(), Place::new());
    restored.must(&["restore", backup]);
    fs::write(&file, &export).unwrap();
    imported.must(&["import", file.to_str().unwrap()]);
    assert_eq!(restored.must(&["export"]), export);
    assert_eq!(imported.must(&["export"]), export);
}
