//! Delivery to members who are not there: to whom, and who is new among them.

use super::*;

const TO_MEMBERS: &str = "x-roomconfig_delivertomembers";
const OWNER_BARE: &str = "crone1@example.org";

/// A room that delivers to its members, one of whom is not there.
fn delivering() -> World {
    let mut world = World::coven();
    world
        .admin(
            CRONE,
            "<item jid='hecate@example.org' affiliation='member'/>",
        )
        .unwrap();
    let fields = [("persistentroom", "1"), (TO_MEMBERS, "1")];
    world.configure(CRONE, &fields).unwrap();
    world
}

fn take(world: &mut World) -> Vec<String> {
    let mut new = std::mem::take(&mut world.new_members);
    new.sort();
    new
}

fn delivers_to(world: &World, bare: &str) -> bool {
    let state = world.room.state();
    state.is_some_and(|state| state.delivers_to(bare))
}

#[test]
fn members_are_delivered_to_if_the_owner_wants_it() {
    let mut world = World::coven();
    let member = "<item jid='hecate@example.org' affiliation='member'/>";
    world.admin(CRONE, member).unwrap();
    world.configure(CRONE, &[("persistentroom", "1")]).unwrap();
    assert_eq!(take(&mut world), [""; 0]);
    assert_eq!(world.room.absent_members(), [""; 0]);
    world.configure(CRONE, &[(TO_MEMBERS, "1")]).unwrap();
    assert_eq!(take(&mut world), [OWNER_BARE, "hecate@example.org"]);
    // The owner is there.
    assert_eq!(world.room.absent_members(), ["hecate@example.org"]);
    world.join(HECATE, "hecate");
    assert_eq!(world.room.absent_members(), [""; 0]);
    world.configure(CRONE, &[(TO_MEMBERS, "0")]).unwrap();
    assert!(!delivers_to(&world, "hecate@example.org"));
    assert_eq!(take(&mut world), [""; 0]);
}

#[test]
fn whoever_becomes_a_member_is_new_once() {
    let mut world = delivering();
    take(&mut world);
    let affiliate = |world: &mut World, affiliation: &str| {
        let item = format!("<item jid='nobody@example.org' affiliation='{affiliation}'/>");
        world.admin(CRONE, &item).unwrap();
        take(world)
    };
    assert_eq!(affiliate(&mut world, "member"), ["nobody@example.org"]);
    assert_eq!(affiliate(&mut world, "admin"), [""; 0]);
    assert_eq!(affiliate(&mut world, "outcast"), [""; 0]);
    assert!(!delivers_to(&world, "nobody@example.org"));
    assert_eq!(affiliate(&mut world, "owner"), ["nobody@example.org"]);
    // A domain is no account.
    let domain = "<item jid='example.net' affiliation='member'/>";
    world.admin(CRONE, domain).unwrap();
    assert_eq!(take(&mut world), [""; 0]);
}

/// Who has not said the password may not follow what is said, but for owners, who are shown it.
#[test]
fn a_password_keeps_members_out() {
    let mut world = delivering();
    world
        .configure(
            CRONE,
            &[("passwordprotectedroom", "1"), ("roomsecret", "s")],
        )
        .unwrap();
    assert!(!delivers_to(&world, "hecate@example.org"));
    assert!(delivers_to(&world, OWNER_BARE));
    take(&mut world);
    world
        .configure(CRONE, &[("passwordprotectedroom", "0")])
        .unwrap();
    assert_eq!(take(&mut world), ["hecate@example.org"]);
}

#[test]
fn a_temporary_room_delivers_to_nobody() {
    let mut world = delivering();
    world.configure(CRONE, &[("persistentroom", "0")]).unwrap();
    assert!(!delivers_to(&world, "hecate@example.org"));
    assert_eq!(world.room.absent_members(), [""; 0]);
}
