//! Members of a room who are delivered to without being in it (docs/rooms.md), in a whole node
//! under a clock and a journal that move when the test says so: each message that the room accepted
//! comes once and in order, whoever is away, whatever is killed, and within the bounds.

#[path = "../common/mod.rs"]
mod common;
mod marks;
mod told;

use std::time::Duration;

use common::world::{Peer, RESUME_TIMEOUT, SM, World, bodies, stanzas};

const ROOM: &str = "coven@conference.localhost";
const MUC: &str = "http://jabber.org/protocol/muc";
const PERSISTENT: &str = "<field var='muc#roomconfig_persistentroom'><value>1</value></field>";
const TO_MEMBERS: &str = "<field var='x-roomconfig_delivertomembers'><value>1</value></field>";

/// One of juliet's devices, that is in no room.
struct Phone {
    peer: Option<Peer>,
    /// Of a session with stream management.
    token: Option<String>,
    heard: String,
}

impl Phone {
    fn on(world: &mut World, is_managed: bool) -> Phone {
        let (mut peer, token) = match is_managed {
            true => {
                let (peer, token) = world.login_managed("juliet", "phone");
                (peer, Some(token))
            }
            false => (world.login("juliet", "phone"), None),
        };
        peer.send("<presence/>");
        Phone {
            peer: Some(peer),
            token,
            heard: String::new(),
        }
    }

    fn read(&mut self) {
        let Some(peer) = &mut self.peer else { return };
        while peer.read() {}
        let ends = ["</message>", "</presence>", "</iq>", "/>"];
        let ends = ends
            .iter()
            .filter_map(|end| Some(peer.seen.rfind(end)? + end.len()));
        if let Some(end) = ends.max() {
            self.heard.extend(peer.seen.drain(..end));
        }
    }

    /// All that it was given since it was there.
    fn said(&mut self, world: &mut World) -> Vec<usize> {
        rest(world);
        self.read();
        bodies(&self.heard)
    }

    fn send(&mut self, text: &str) {
        self.peer.as_mut().expect("a link").send(text);
    }

    fn acknowledge(&mut self) {
        self.read();
        let h = stanzas(&self.heard);
        self.send(&format!("<a {SM} h='{h}'/>"));
    }

    fn resume(&mut self, world: &mut World) {
        let token = self.token.clone().expect("stream management");
        let mut peer = world.connect("juliet");
        peer.resume(&token, stanzas(&self.heard));
        let seen = peer.expect(world, "/>");
        assert!(seen.contains("<resumed"), "{seen}");
        self.peer = Some(peer);
    }

    /// It goes, and its time is up.
    fn off(mut self, world: &mut World) {
        if self.token.is_some() {
            self.acknowledge();
        }
        drop(self);
        world.pass(RESUME_TIMEOUT);
        rest(world);
    }
}

/// Lets all that is left happen.
fn rest(world: &mut World) {
    for _ in 0..20 {
        world.pass(Duration::from_millis(300));
    }
}

fn enter(world: &mut World, user: &str, nick: &str) -> Peer {
    let mut peer = world.login(user, nick);
    let enters = format!("<presence to='{ROOM}/{nick}'><x xmlns='{MUC}'/></presence>");
    peer.ask(world, &enters, "<subject");
    peer.expect(world, "</message>");
    peer
}

fn configuration(fields: &str) -> String {
    format!(
        "<iq type='set' id='config' to='{ROOM}'><query xmlns='{MUC}#owner'>\
         <x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>\
         <value>{MUC}#roomconfig</value></field>{fields}</x></query></iq>"
    )
}

fn affiliation(user: &str, affiliation: &str) -> String {
    format!(
        "<iq type='set' id='member' to='{ROOM}'><query xmlns='{MUC}#admin'>\
         <item jid='{user}@localhost' affiliation='{affiliation}'/></query></iq>"
    )
}

fn affiliate(world: &mut World, romeo: &mut Peer, user: &str, what: &str) {
    romeo.ask(world, &affiliation(user, what), "id='member'");
    rest(world);
}

/// Romeo owns a room that delivers to its members; juliet is one, and has no device there.
fn room(world: &mut World) -> Peer {
    let mut romeo = enter(world, "romeo", "romeo");
    let fields = format!("{PERSISTENT}{TO_MEMBERS}");
    romeo.ask(world, &configuration(&fields), "id='config'");
    affiliate(world, &mut romeo, "juliet", "member");
    romeo
}

fn message(number: usize) -> String {
    format!("<message type='groupchat' to='{ROOM}'><body>{number}</body></message>")
}

fn say(world: &mut World, romeo: &mut Peer, numbers: impl IntoIterator<Item = usize>) {
    for number in numbers {
        romeo.ask(world, &message(number), &format!("<body>{number}</body>"));
    }
}

/// What the room's log has.
fn logged(world: &World) -> Vec<usize> {
    let entries = common::store_on(&world.disk).log_read(ROOM, 0, 1_000);
    let entries = entries.expect("the store is read").into_iter();
    let text = entries.map(|entry| String::from_utf8_lossy(&entry.frame).into_owned());
    bodies(&text.collect::<String>())
}

/// Whether the store has a part of a room.
fn has_part(world: &World, room: &str, part: &str) -> bool {
    let stored = common::store_on(&world.disk).load_room(room, 0);
    let (_, stored) = stored.expect("the store is read");
    let parts = stored.expect("it is there").parts;
    parts.iter().any(|(own, _)| own == part)
}

#[test]
fn who_is_in_no_room_gets_each_message_once() {
    for (is_managed, is_killed) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut world = World::patient(|_| ());
        let mut romeo = room(&mut world);
        say(&mut world, &mut romeo, 1..=3);
        if is_killed {
            drop(romeo);
            world.crash();
            romeo = enter(&mut world, "romeo", "romeo");
        }
        let mut phone = Phone::on(&mut world, is_managed);
        assert_eq!(
            phone.said(&mut world),
            [1, 2, 3],
            "{is_managed} {is_killed}"
        );
        assert!(phone.heard.contains("<delay "), "{}", phone.heard);
        // It is online now.
        say(&mut world, &mut romeo, 4..=5);
        assert_eq!(phone.said(&mut world), [1, 2, 3, 4, 5]);
        phone.off(&mut world);
        let mut phone = Phone::on(&mut world, is_managed);
        assert_eq!(phone.said(&mut world), [0; 0], "{is_managed} {is_killed}");
        phone.off(&mut world);
        say(&mut world, &mut romeo, [6]);
        let mut phone = Phone::on(&mut world, !is_managed);
        assert_eq!(phone.said(&mut world), [6]);
    }
}

#[test]
fn what_was_said_before_one_was_a_member_is_not_owed() {
    let mut world = World::patient(|_| ());
    let mut romeo = enter(&mut world, "romeo", "romeo");
    let config = configuration(PERSISTENT);
    romeo.ask(&mut world, &config, "id='config'");
    say(&mut world, &mut romeo, [1]);
    affiliate(&mut world, &mut romeo, "juliet", "member");
    let mut phone = Phone::on(&mut world, true);
    say(&mut world, &mut romeo, [2]);
    let config = configuration(TO_MEMBERS);
    romeo.ask(&mut world, &config, "id='config'");
    rest(&mut world);
    say(&mut world, &mut romeo, [3]);
    assert_eq!(phone.said(&mut world), [3]);
    // None for a while: not even afterwards.
    affiliate(&mut world, &mut romeo, "juliet", "none");
    say(&mut world, &mut romeo, [4]);
    affiliate(&mut world, &mut romeo, "juliet", "member");
    say(&mut world, &mut romeo, [5]);
    assert_eq!(phone.said(&mut world), [3, 5]);
}

#[test]
fn who_is_banned_or_without_the_option_gets_nothing() {
    let ban = affiliation("juliet", "outcast");
    let not = TO_MEMBERS.replace(">1<", ">0<");
    for end in [ban, affiliation("juliet", "none"), configuration(&not)] {
        let mut world = World::patient(|_| ());
        let mut romeo = room(&mut world);
        say(&mut world, &mut romeo, [1]);
        romeo.ask(&mut world, &end, "type='result'");
        say(&mut world, &mut romeo, [2]);
        for is_managed in [true, false] {
            let mut phone = Phone::on(&mut world, is_managed);
            assert_eq!(phone.said(&mut world), [0; 0], "{end}");
            phone.off(&mut world);
        }
        // Its home has forgotten the room.
        let rooms = common::store_on(&world.disk).member_rooms("juliet@localhost");
        assert_eq!(rooms.expect("read"), []);
    }
}

#[test]
fn a_room_that_is_destroyed_is_forgotten() {
    let mut world = World::patient(|_| ());
    let mut romeo = room(&mut world);
    say(&mut world, &mut romeo, [1]);
    let destroy = format!(
        "<iq type='set' id='end' to='{ROOM}'><query xmlns='{MUC}#owner'><destroy/></query></iq>"
    );
    romeo.ask(&mut world, &destroy, "id='end'");
    // Another one at its address delivers nothing to who was a member of the first.
    drop(romeo);
    rest(&mut world);
    let mut romeo = enter(&mut world, "romeo", "romeo");
    let fields = format!("{PERSISTENT}{TO_MEMBERS}");
    romeo.ask(&mut world, &configuration(&fields), "id='config'");
    say(&mut world, &mut romeo, [2]);
    let mut phone = Phone::on(&mut world, false);
    assert_eq!(phone.said(&mut world), [0; 0]);
    let rooms = common::store_on(&world.disk).member_rooms("juliet@localhost");
    assert_eq!(rooms.expect("read"), []);
}

#[test]
fn while_a_device_is_in_the_room_the_others_get_nothing() {
    for is_managed in [false, true] {
        let mut world = World::patient(|_| ());
        let mut romeo = room(&mut world);
        let mut phone = Phone::on(&mut world, is_managed);
        let mut desktop = enter(&mut world, "juliet", "desktop");
        say(&mut world, &mut romeo, [1]);
        desktop.expect(&mut world, "<body>1</body>");
        assert_eq!(phone.said(&mut world), [0; 0]);
        let leaves = format!("<presence type='unavailable' to='{ROOM}/desktop'/>");
        desktop.ask(&mut world, &leaves, "code='110'");
        rest(&mut world);
        say(&mut world, &mut romeo, [2]);
        assert_eq!(phone.said(&mut world), [2], "{is_managed}");
        // Kicked, it is not there either.
        let enters = format!("<presence to='{ROOM}/desktop'><x xmlns='{MUC}'/></presence>");
        desktop.ask(&mut world, &enters, "<subject");
        let kick = format!(
            "<iq type='set' id='kick' to='{ROOM}'><query xmlns='{MUC}#admin'>\
             <item nick='desktop' role='none'/></query></iq>"
        );
        romeo.ask(&mut world, &kick, "id='kick'");
        rest(&mut world);
        say(&mut world, &mut romeo, [3]);
        assert_eq!(phone.said(&mut world), [2, 3], "{is_managed}");
        // And with its stream.
        desktop.ask(&mut world, &enters, "<subject");
        say(&mut world, &mut romeo, [4]);
        rest(&mut world);
        drop(desktop);
        rest(&mut world);
        say(&mut world, &mut romeo, [5]);
        assert_eq!(phone.said(&mut world), [2, 3, 5], "{is_managed}");
    }
}

/// Whoever was refused counted as one who is in the room, so that the other devices were given
/// nothing until that session ended. One that is refused another nick is in the room still.
#[test]
fn who_is_refused_is_not_in_the_room_unless_she_was_there_before() {
    for is_managed in [false, true] {
        let mut world = World::patient(|_| ());
        let mut romeo = room(&mut world);
        let mut phone = Phone::on(&mut world, false);
        let mut desktop = match is_managed {
            true => world.login_managed("juliet", "desktop").0,
            false => world.login("juliet", "desktop"),
        };
        let enters = |nick| format!("<presence to='{ROOM}/{nick}'><x xmlns='{MUC}'/></presence>");
        desktop.ask(&mut world, &enters("romeo"), "</presence>");
        rest(&mut world);
        say(&mut world, &mut romeo, [1]);
        assert_eq!(phone.said(&mut world), [1], "{is_managed}");
        // The refusal arrives when she has sent another entry.
        desktop.send(&format!("{}{}", enters("romeo"), enters("desktop")));
        desktop.expect(&mut world, "<subject");
        rest(&mut world);
        say(&mut world, &mut romeo, [2]);
        desktop.expect(&mut world, "<body>2</body>");
        assert_eq!(phone.said(&mut world), [1], "{is_managed}");
        // She stays under the nick that she has.
        desktop.ask(&mut world, &enters("romeo"), "type='error'");
        rest(&mut world);
        say(&mut world, &mut romeo, [3]);
        desktop.expect(&mut world, "<body>3</body>");
        assert_eq!(phone.said(&mut world), [1], "{is_managed}");
    }
}

/// That a session was not let in was noted only if its account was a member by then: later its
/// other devices were given nothing.
#[test]
fn who_was_refused_before_she_was_a_member_is_not_in_the_room() {
    for is_managed in [false, true] {
        let mut world = World::patient(|_| ());
        let mut romeo = enter(&mut world, "romeo", "romeo");
        let fields = format!("{PERSISTENT}{TO_MEMBERS}");
        romeo.ask(&mut world, &configuration(&fields), "id='config'");
        let mut phone = Phone::on(&mut world, false);
        let mut desktop = match is_managed {
            true => world.login_managed("juliet", "desktop").0,
            false => world.login("juliet", "desktop"),
        };
        let enters = |nick| format!("<presence to='{ROOM}/{nick}'><x xmlns='{MUC}'/></presence>");
        desktop.ask(&mut world, &enters("romeo"), "</presence>");
        affiliate(&mut world, &mut romeo, "juliet", "member");
        say(&mut world, &mut romeo, [1]);
        assert_eq!(phone.said(&mut world), [1], "{is_managed}");
        // Let in, it is the one that is given what is said.
        desktop.ask(&mut world, &enters("desktop"), "<subject");
        rest(&mut world);
        say(&mut world, &mut romeo, [2]);
        desktop.expect(&mut world, "<body>2</body>");
        assert_eq!(phone.said(&mut world), [1], "{is_managed}");
    }
}

#[test]
fn who_takes_no_messages_gets_them_once_he_does() {
    for is_managed in [false, true] {
        let mut world = World::patient(|_| ());
        let mut romeo = room(&mut world);
        let mut phone = Phone::on(&mut world, is_managed);
        say(&mut world, &mut romeo, [1]);
        assert_eq!(phone.said(&mut world), [1]);
        phone.send("<presence><priority>-1</priority></presence>");
        rest(&mut world);
        say(&mut world, &mut romeo, [2]);
        assert_eq!(phone.said(&mut world), [1]);
        phone.send("<presence type='unavailable'/>");
        rest(&mut world);
        say(&mut world, &mut romeo, [3]);
        assert_eq!(phone.said(&mut world), [1]);
        phone.send("<presence/>");
        assert_eq!(phone.said(&mut world), [1, 2, 3], "{is_managed}");
    }
}

#[test]
fn a_lost_link_loses_and_doubles_nothing() {
    let mut world = World::patient(|_| ());
    let mut romeo = room(&mut world);
    let mut phone = Phone::on(&mut world, true);
    say(&mut world, &mut romeo, 1..=2);
    assert_eq!(phone.said(&mut world), [1, 2]);
    // What is under way never arrives.
    say(&mut world, &mut romeo, [3]);
    phone.peer = None;
    rest(&mut world);
    say(&mut world, &mut romeo, [4]);
    phone.resume(&mut world);
    assert_eq!(phone.said(&mut world), [1, 2, 3, 4]);
    // What it never acknowledged is another one's, when its time is up.
    phone.peer = None;
    say(&mut world, &mut romeo, [5]);
    world.pass(RESUME_TIMEOUT);
    rest(&mut world);
    let mut other = Phone::on(&mut world, false);
    let said = other.said(&mut world);
    assert_eq!(said.last(), Some(&5));
    assert!(said.is_sorted_by(|a, b| a < b), "{said:?}");
}

/// Whoever sends its presence right behind the word that has its stanzas counted was given nothing
/// until the next message was said: when it became available, it did not read yet.
#[test]
fn a_session_that_is_there_before_it_is_counted_is_given_what_waits() {
    let mut world = World::patient(|_| ());
    let mut romeo = room(&mut world);
    say(&mut world, &mut romeo, 1..=2);
    rest(&mut world);
    let mut peer = world.login("juliet", "phone");
    world.hold();
    peer.send(&format!("<enable {SM} resume='true'/><presence/>"));
    world.work();
    world.let_go();
    peer.expect(&mut world, "<enabled");
    let mut phone = Phone {
        peer: Some(peer),
        token: None,
        heard: String::new(),
    };
    assert_eq!(phone.said(&mut world), [1, 2]);
}

/// A session that was given nothing of the room yet has no record of it. What was said while it
/// had no link, or what its home had asked for and not recorded, comes once it goes on, although
/// nothing more is said.
#[test]
fn a_session_that_was_given_nothing_yet_is_given_what_was_said_once_it_goes_on() {
    for is_killed in [false, true] {
        let mut world = World::patient(|_| ());
        let mut romeo = enter(&mut world, "romeo", "romeo");
        let fields = format!("{PERSISTENT}{TO_MEMBERS}");
        romeo.ask(&mut world, &configuration(&fields), "id='config'");
        // From here on nothing has to be read for what he says.
        say(&mut world, &mut romeo, [0]);
        affiliate(&mut world, &mut romeo, "juliet", "member");
        let mut phone = Phone::on(&mut world, true);
        assert_eq!(phone.said(&mut world), [0; 0]);
        if is_killed {
            phone.peer = None;
            world.work();
            say(&mut world, &mut romeo, 1..=2);
            drop(romeo);
            world.crash();
            phone.resume(&mut world);
        } else {
            world.node().set_late_reads(true);
            world.node().stall_reads(true);
            say(&mut world, &mut romeo, 1..=2);
            world.pass(Duration::from_millis(300));
            // Its home has asked for them.
            world.node().kill("juliet@localhost");
            world.work();
            world.node().stall_reads(false);
            world.node().set_late_reads(false);
        }
        assert_eq!(phone.said(&mut world), [1, 2], "{is_killed}");
    }
}

/// What is written to a session without stream management was recorded before.
#[test]
fn what_was_written_is_not_written_again_after_a_kill() {
    let mut world = World::patient(|_| ());
    let mut romeo = room(&mut world);
    say(&mut world, &mut romeo, 1..=3);
    let mut phone = Phone::on(&mut world, false);
    assert_eq!(phone.said(&mut world), [1, 2, 3]);
    drop((phone, romeo));
    world.crash();
    let mut romeo = enter(&mut world, "romeo", "romeo");
    say(&mut world, &mut romeo, [4]);
    let mut phone = Phone::on(&mut world, false);
    assert_eq!(phone.said(&mut world), [4]);
}

#[test]
fn who_leaves_the_room_is_not_given_again_what_it_has() {
    let mut world = World::patient(|_| ());
    let mut romeo = room(&mut world);
    let mut desktop = Phone::on(&mut world, true);
    desktop.send(&format!(
        "<presence to='{ROOM}/desktop'><x xmlns='{MUC}'/></presence>"
    ));
    rest(&mut world);
    say(&mut world, &mut romeo, 1..=2);
    // It has acknowledged nothing yet.
    assert_eq!(desktop.said(&mut world), [1, 2]);
    desktop.send(&format!(
        "<presence type='unavailable' to='{ROOM}/desktop'/>"
    ));
    rest(&mut world);
    say(&mut world, &mut romeo, [3]);
    assert_eq!(desktop.said(&mut world), [1, 2, 3]);
}

/// Members who are online hear of what is said during the pause behind a round only when that is
/// over. A room that was evicted then, or crashed, with nobody in it who could come back told them
/// when it was used the next time.
#[test]
fn a_room_that_nobody_is_in_any_more_tells_members_of_the_last_message() {
    for is_killed in [false, true] {
        let mut world = World::patient(|options| {
            options.delivery.limits.idle_eviction = Duration::from_millis(10);
        });
        let mut romeo = room(&mut world);
        let mut phone = Phone::on(&mut world, false);
        assert_eq!(phone.said(&mut world), [0; 0]);
        say(&mut world, &mut romeo, 1..=2);
        romeo.send(&format!("<presence type='unavailable' to='{ROOM}/romeo'/>"));
        romeo.expect(&mut world, "type='unavailable'");
        if is_killed {
            world.node().kill(ROOM);
            world.work();
        }
        for _ in 0..5 {
            world.pass(Duration::from_millis(10));
        }
        assert_eq!(phone.said(&mut world), [1, 2], "{is_killed}");
    }
}

/// At each commit of a room with messages and a member who is online, the node is killed.
#[test]
fn a_kill_between_commits_loses_and_doubles_nothing() {
    let mut commits = Vec::new();
    for steps in 0..20 {
        let mut world = World::patient(|_| ());
        let mut romeo = room(&mut world);
        let mut phone = Phone::on(&mut world, true);
        say(&mut world, &mut romeo, [1]);
        assert_eq!(phone.said(&mut world), [1]);
        phone.acknowledge();
        world.work();
        world.hold();
        let mut committed = 0;
        for step in 0..steps {
            if step % 3 == 0 {
                romeo.send(&message(2 + step / 3));
            }
            if step % 4 == 1 {
                phone.acknowledge();
            }
            world.pass(Duration::from_millis(300));
            committed += usize::from(world.try_one());
        }
        commits.push(committed);
        phone.read();
        phone.peer = None;
        drop(romeo);
        world.crash();
        let mut romeo = enter(&mut world, "romeo", "romeo");
        say(&mut world, &mut romeo, [99]);
        phone.resume(&mut world);
        assert_eq!(phone.said(&mut world), logged(&world), "steps {steps}");
    }
    // Each commit was the last one once: of the room's, and of the home's.
    assert!(commits.last() > Some(&12), "{commits:?}");
}

/// The same while the account becomes a member, and then for who logs in afterwards.
#[test]
fn a_kill_while_somebody_becomes_a_member_keeps_what_is_said_from_then_on() {
    for is_managed in [false, true] {
        for steps in 0.. {
            let mut world = World::patient(|_| ());
            let mut romeo = enter(&mut world, "romeo", "romeo");
            let fields = format!("{PERSISTENT}{TO_MEMBERS}");
            romeo.ask(&mut world, &configuration(&fields), "id='config'");
            rest(&mut world);
            world.hold();
            romeo.send(&affiliation("juliet", "member"));
            world.work();
            romeo.send(&message(1));
            let mut is_over = false;
            for _ in 0..steps {
                world.work();
                is_over |= !world.try_one();
            }
            drop(romeo);
            world.crash();
            let is_member = has_part(&world, ROOM, "ajuliet@localhost");
            let mut romeo = enter(&mut world, "romeo", "romeo");
            say(&mut world, &mut romeo, [2]);
            rest(&mut world);
            let mut phone = Phone::on(&mut world, is_managed);
            let expected = match is_member {
                true => logged(&world),
                false => Vec::new(),
            };
            assert_eq!(phone.said(&mut world), expected, "steps {steps}");
            phone.off(&mut world);
            let mut phone = Phone::on(&mut world, is_managed);
            assert_eq!(phone.said(&mut world), [0; 0], "steps {steps}");
            if is_over {
                assert!(steps > 2, "{steps}");
                break;
            }
        }
    }
}

#[test]
fn a_full_disk_delays_and_doubles_nothing() {
    for is_managed in [false, true] {
        let mut world = World::patient(|_| ());
        let mut romeo = room(&mut world);
        say(&mut world, &mut romeo, 1..=2);
        let mut phone = Phone::on(&mut world, is_managed);
        world.switches().set_full(true);
        assert_eq!(phone.said(&mut world), [0; 0], "{is_managed}");
        world.switches().set_full(false);
        rest(&mut world);
        assert_eq!(phone.said(&mut world), [1, 2], "{is_managed}");
        say(&mut world, &mut romeo, [3]);
        assert_eq!(phone.said(&mut world), [1, 2, 3], "{is_managed}");
        world.switches().set_full(true);
        phone.off(&mut world);
        world.switches().set_full(false);
        assert_eq!(Phone::on(&mut world, is_managed).said(&mut world), [0; 0]);
    }
}

/// Who becomes a member while his home can record nothing is told of it again.
#[test]
fn a_home_that_could_not_record_it_is_told_again() {
    let mut world = World::patient(|_| ());
    let mut romeo = enter(&mut world, "romeo", "romeo");
    let fields = format!("{PERSISTENT}{TO_MEMBERS}");
    romeo.ask(&mut world, &configuration(&fields), "id='config'");
    rest(&mut world);
    world.hold();
    romeo.send(&affiliation("juliet", "member"));
    world.work();
    world.let_one_go();
    world.refuse_one();
    world.let_go();
    rest(&mut world);
    say(&mut world, &mut romeo, [1]);
    let mut phone = Phone::on(&mut world, true);
    assert_eq!(phone.said(&mut world), [1]);
}

#[test]
fn a_backlog_and_the_rooms_of_one_account_have_bounds() {
    let mut world = World::patient(|options| {
        options.delivery.limits.member_backlog_max = 2;
        options.delivery.limits.member_rooms_max = 1;
    });
    let mut romeo = room(&mut world);
    say(&mut world, &mut romeo, 1..=5);
    let mut phone = Phone::on(&mut world, false);
    assert_eq!(phone.said(&mut world), [4, 5]);
    say(&mut world, &mut romeo, [6]);
    assert_eq!(phone.said(&mut world), [4, 5, 6]);
    // A second room finds no place.
    let of_other = |text: String| text.replace(ROOM, OTHER);
    other_room(&mut world, &mut romeo);
    romeo.ask(&mut world, &of_other(message(7)), "<body>7</body>");
    assert_eq!(phone.said(&mut world), [4, 5, 6]);
    let rooms = common::store_on(&world.disk).member_rooms("juliet@localhost");
    assert_eq!(rooms.expect("read").len(), 1);
    // It does not count as told, and its home is not told all the time: the room is forgotten.
    let leaves = format!("<presence type='unavailable' to='{OTHER}/romeo'/>");
    romeo.ask(&mut world, &leaves, "code='110'");
    for _ in 0..20 {
        world.pass(Duration::from_secs(5));
    }
    assert!(has_part(&world, OTHER, "m"), "it was never told");
    let loaded = world.node().stats().gauge(telemetry::Gauge::RoomsLoaded);
    assert_eq!(loaded, 1, "its home is told for ever");
    // Once there is a place for it, it gets one when it is used again, and nothing is missing.
    affiliate(&mut world, &mut romeo, "juliet", "none");
    phone.off(&mut world);
    let mut phone = Phone::on(&mut world, false);
    assert_eq!(phone.said(&mut world), [0; 0]);
    romeo.ask(&mut world, &enters_other(), "<subject");
    rest(&mut world);
    romeo.ask(&mut world, &of_other(message(8)), "<body>8</body>");
    assert_eq!(phone.said(&mut world), [7, 8]);
}

/// Nobody takes all places of a member with rooms of his own: those of others find some.
#[test]
fn the_rooms_of_one_maker_have_a_bound_of_their_own() {
    for (max, expected) in [(1, &[ROOM][..]), (2, &[ROOM, OTHER])] {
        let mut world = World::patient(|options| {
            options.delivery.limits.member_rooms_max = 4;
            options.delivery.limits.member_rooms_of_one_max = max;
        });
        let noted = |world: &World| {
            let rooms = common::store_on(&world.disk).member_rooms("juliet@localhost");
            let rooms = rooms.expect("read").into_iter();
            rooms.map(|(room, _)| room).collect::<Vec<_>>()
        };
        let mut romeo = room(&mut world);
        other_room(&mut world, &mut romeo);
        assert_eq!(noted(&world), expected);
        // Another one's room has a place all the same.
        world.register("nurse");
        let mut nurse = world.login("nurse", "kitchen");
        let of_nurse = |text: String| text.replace(OTHER, "third@conference.localhost");
        nurse.ask(&mut world, &of_nurse(enters_other()), "<subject");
        let of_nurse = |text: String| text.replace(ROOM, "third@conference.localhost");
        let fields = format!("{PERSISTENT}{TO_MEMBERS}");
        nurse.ask(&mut world, &of_nurse(configuration(&fields)), "id='config'");
        let member = of_nurse(affiliation("juliet", "member"));
        nurse.ask(&mut world, &member, "id='member'");
        rest(&mut world);
        let mut expected: Vec<&str> = expected.to_vec();
        expected.push("third@conference.localhost");
        assert_eq!(noted(&world), expected);
        // The first one's next room gets a place when there is one for him again.
        affiliate(&mut world, &mut romeo, "juliet", "none");
        let mut phone = Phone::on(&mut world, false);
        assert_eq!(phone.said(&mut world), [0; 0]);
        for _ in 0..200 {
            world.pass(Duration::from_secs(5));
        }
        assert!(noted(&world).contains(&OTHER.to_owned()));
        assert!(!noted(&world).contains(&ROOM.to_owned()));
    }
}

const OTHER: &str = "other@conference.localhost";

fn enters_other() -> String {
    format!("<presence to='{OTHER}/romeo'><x xmlns='{MUC}'/></presence>")
}

/// Romeo makes another room that delivers to juliet.
fn other_room(world: &mut World, romeo: &mut Peer) {
    romeo.ask(world, &enters_other(), "<subject");
    let of_other = |text: String| text.replace(ROOM, OTHER);
    let fields = format!("{PERSISTENT}{TO_MEMBERS}");
    romeo.ask(world, &of_other(configuration(&fields)), "id='config'");
    let member = of_other(affiliation("juliet", "member"));
    romeo.ask(world, &member, "id='member'");
    rest(world);
}

/// Nobody asks an account whether it wants to be a member: rooms that it blocks take no place.
#[test]
fn a_room_that_is_blocked_takes_no_place_from_another() {
    for is_noted_first in [false, true] {
        let mut world = World::patient(|options| {
            options.delivery.limits.member_rooms_max = 1;
        });
        let mut juliet = world.login("juliet", "phone");
        let block = format!(
            "<iq type='set' id='b'><block xmlns='urn:xmpp:blocking'><item jid='{ROOM}'/></block>\
             </iq>"
        );
        let rooms = |world: &World| {
            let rooms = common::store_on(&world.disk).member_rooms("juliet@localhost");
            let rooms = rooms.expect("read").into_iter();
            rooms.map(|(room, _)| room).collect::<Vec<_>>()
        };
        let mut romeo = match is_noted_first {
            true => {
                let romeo = room(&mut world);
                assert_eq!(rooms(&world), [ROOM]);
                juliet.ask(&mut world, &block, "id='b'");
                romeo
            }
            false => {
                juliet.ask(&mut world, &block, "id='b'");
                let romeo = room(&mut world);
                assert_eq!(rooms(&world), [""; 0]);
                romeo
            }
        };
        other_room(&mut world, &mut romeo);
        assert_eq!(rooms(&world), [OTHER], "{is_noted_first}");
    }
}

/// Homes that can record nothing do not answer, for longer than the room asks: so many are told at
/// a time, each loads one account, and once they can all know.
#[test]
fn so_many_homes_are_told_at_a_time_that_they_have_a_member() {
    const MEMBERS: usize = 10;
    let mut world = World::patient(|options| options.rooms.tells.at_once = 4);
    for number in 0..MEMBERS {
        world.register(&format!("m{number}"));
    }
    let mut romeo = room(&mut world);
    // Whoever was made is not loaded any more.
    world.pass(Duration::from_secs(60));
    rest(&mut world);
    let loaded = |world: &mut World| {
        world.pass(Duration::from_millis(300));
        world.pass(Duration::from_millis(300));
        let stats = world.node().stats();
        stats.counter(telemetry::Counter::UsersLoaded)
    };
    let before = loaded(&mut world);
    world.hold();
    let item = |n: usize| format!("<item jid='m{n}@localhost' affiliation='member'/>");
    let items: String = (0..MEMBERS).map(item).collect();
    romeo.send(&format!(
        "<iq type='set' id='bulk' to='{ROOM}'><query xmlns='{MUC}#admin'>{items}</query></iq>"
    ));
    world.work();
    // What the room has to record is first.
    world.let_one_go();
    assert_eq!(loaded(&mut world) - before, 4);
    world.pass(Duration::from_secs(3));
    assert_eq!(loaded(&mut world) - before, 4);
    // The others have their turn.
    for told in [8, 10] {
        world.pass(Duration::from_secs(5));
        assert_eq!(loaded(&mut world) - before, told);
    }
    for _ in 0..30 {
        world.pass(Duration::from_secs(60));
    }
    world.let_go();
    let mut rounds = 0;
    while has_part(&world, ROOM, "m") {
        world.pass(Duration::from_millis(300));
        rounds += 1;
        assert!(rounds < 1_000, "homes are told for ever");
    }
    let store = common::store_on(&world.disk);
    for number in 0..MEMBERS {
        let rooms = store.member_rooms(&format!("m{number}@localhost"));
        assert_eq!(rooms.expect("read").len(), 1, "m{number}");
    }
}

/// A home that has no place for a room is told of it again after a pause, for as long as the room
/// is in use. Once there is a place nothing is missing, whichever it hears first: that it has a
/// member, or that something was said. What was said before was lost in the second case.
#[test]
fn a_home_without_a_place_is_told_again_after_a_pause() {
    const PAUSE: Duration = Duration::from_secs(600);
    for is_said_more in [false, true] {
        let mut world = World::patient(|options| {
            options.delivery.limits.member_rooms_max = 1;
            options.rooms.tells.later = PAUSE;
        });
        let mut romeo = room(&mut world);
        other_room(&mut world, &mut romeo);
        let of_other = |text: String| text.replace(ROOM, OTHER);
        romeo.ask(&mut world, &of_other(message(1)), "<body>1</body>");
        let phone = Phone::on(&mut world, false);
        // It is told five times in a row, and twice more after a pause, in vain.
        for _ in 0..6 {
            world.pass(Duration::from_secs(5));
        }
        for _ in 0..2 {
            world.pass(PAUSE);
            rest(&mut world);
        }
        affiliate(&mut world, &mut romeo, "juliet", "none");
        phone.off(&mut world);
        let mut phone = Phone::on(&mut world, false);
        assert_eq!(
            phone.said(&mut world),
            [0; 0],
            "it is not told all the time"
        );
        let mut all = vec![1];
        if is_said_more {
            romeo.ask(&mut world, &of_other(message(2)), "<body>2</body>");
            all.push(2);
        } else {
            world.pass(PAUSE);
        }
        assert_eq!(phone.said(&mut world), all, "{is_said_more}");
        world.pass(PAUSE);
        romeo.ask(&mut world, &of_other(message(3)), "<body>3</body>");
        all.push(3);
        assert_eq!(phone.said(&mut world), all, "{is_said_more}");
    }
}

/// Without an archive a room keeps what its members are promised.
#[test]
fn without_an_archive_as_much_is_kept_as_members_are_given() {
    let mut world = World::patient(|options| {
        let mut machine = room::Options::clone(&options.rooms.machine);
        machine.limits.history_max = 1;
        options.rooms.machine = machine.into();
        options.rooms.kept_for_sessions = 2;
        options.archive.enabled = false;
        options.delivery.limits.member_backlog_max = 5;
        options.delivery.limits.retention_every = 1;
    });
    let mut romeo = room(&mut world);
    say(&mut world, &mut romeo, 1..=20);
    rest(&mut world);
    let mut phone = Phone::on(&mut world, true);
    assert_eq!(phone.said(&mut world), [16, 17, 18, 19, 20]);
    assert!(logged(&world).len() <= 7, "{:?}", logged(&world));
}

/// While a change that makes a member is undecided, the word to homes of members before it may
/// arrive: should the node be killed then, the next life of the room tells the new one's.
#[test]
fn what_homes_have_to_be_told_stays_recorded_under_a_change_that_needs_it() {
    for steps in 0.. {
        // What is held is let go one by one.
        let mut world = World::patient(|options| {
            options.commits.batch_appends = 1;
            options.commits.batch_appends_each = 1;
        });
        let mut romeo = enter(&mut world, "romeo", "romeo");
        let fields = format!("{PERSISTENT}{TO_MEMBERS}");
        romeo.ask(&mut world, &configuration(&fields), "id='config'");
        rest(&mut world);
        world.hold();
        romeo.send(&affiliation("nurse", "member"));
        romeo.send(&affiliation("juliet", "member"));
        let mut is_over = false;
        for _ in 0..steps {
            world.work();
            is_over |= !world.try_one();
        }
        let is_member = has_part(&world, ROOM, "ajuliet@localhost");
        drop(romeo);
        world.crash();
        let mut romeo = enter(&mut world, "romeo", "romeo");
        say(&mut world, &mut romeo, [1]);
        let mut phone = Phone::on(&mut world, true);
        let expected = if is_member { vec![1] } else { vec![] };
        assert_eq!(phone.said(&mut world), expected, "steps {steps}");
        if is_over {
            assert!(steps > 3, "{steps}");
            break;
        }
    }
}

/// What a room costs whose members are all away: each home is told once that the account is a
/// member, at most so many at a time; what is said then loads nobody.
#[test]
fn ten_thousand_members_who_are_away_cost_nothing_when_something_is_said() {
    const MEMBERS: usize = 10_000;
    let mut world = World::patient(|options| {
        let mut machine = room::Options::clone(&options.rooms.machine);
        machine.limits.affiliations_max = 2 * MEMBERS;
        machine.limits.affiliation_bytes_max = 64 * MEMBERS;
        options.rooms.machine = machine.into();
    });
    let mut romeo = room(&mut world);
    for hundred in 0..MEMBERS / 100 {
        let item = |n: usize| {
            let number = 100 * hundred + n;
            format!("<item jid='m{number}@localhost' affiliation='member'/>")
        };
        let items: String = (0..100).map(item).collect();
        let set = format!(
            "<iq type='set' id='bulk{hundred}.' to='{ROOM}'><query xmlns='{MUC}#admin'>\
             {items}</query></iq>"
        );
        romeo.ask(&mut world, &set, &format!("id='bulk{hundred}.'"));
        romeo.seen.clear();
    }
    let mut rounds = 0;
    while has_part(&world, ROOM, "m") {
        world.pass(Duration::from_millis(300));
        rounds += 1;
        assert!(rounds < 1_000, "homes are told for ever");
    }
    rest(&mut world);
    let loaded = |world: &mut World| {
        let stats = world.node().stats();
        stats.counter(telemetry::Counter::UsersLoaded)
    };
    let before = loaded(&mut world);
    say(&mut world, &mut romeo, 1..=20);
    rest(&mut world);
    assert_eq!(loaded(&mut world) - before, 0);
    let mut phone = Phone::on(&mut world, true);
    assert_eq!(phone.said(&mut world), (1..=20).collect::<Vec<_>>());
}
