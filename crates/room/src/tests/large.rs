//! The policy for large rooms: who is told of whom, and what entering costs.

use super::*;

fn crowd(count: usize, large_from: u32) -> World {
    let mut world = World::limited(|limits| limits.large_from = large_from);
    for n in 0..count {
        world.join(&format!("u{n}@example.org/x"), &format!("n{n}"));
    }
    world
}

#[test]
fn in_a_large_room_who_speaks_is_announced_first() {
    let mut world = crowd(5, 3);
    let (third, fourth, fifth) = ("u2@example.org/x", "u3@example.org/x", "u4@example.org/x");
    // Two were announced while the room was small.
    assert_eq!(
        world
            .read(fifth)
            .iter()
            .filter(|one| one.starts_with("<presence"))
            .count(),
        3
    );
    world.forget_mail();
    let hi = "<message type='groupchat'><body>hi</body></message>";
    world.send(fourth, "", hi);
    let seen = world.read(third);
    assert_eq!(seen.len(), 2, "{seen:#?}");
    has(&seen[0], &["<presence", "/n3'", "role='participant'"]);
    has(&seen[1], &["<message", "/n3'"]);
    world.forget_mail();
    world.send(fourth, "", hi);
    assert_eq!(world.read(third).len(), 1);
    // Who was never announced leaves unseen.
    world.forget_mail();
    world.send(fifth, "n4", "<presence type='unavailable'/>");
    has(&world.read_one(fifth), &["code='110'"]);
    assert!(world.mail.is_empty(), "{:?}", world.mail);
}

#[test]
fn moderators_are_always_announced() {
    let mut world = crowd(4, 2);
    world.forget_mail();
    world
        .admin("u0@example.org/x", "<item nick='n3' role='moderator'/>")
        .unwrap();
    has(
        &world.read_one("u2@example.org/x"),
        &["/n3'", "role='moderator'"],
    );
}

#[test]
fn entries_to_a_large_room_cost_the_same_for_each() {
    let mut world = crowd(8, 8);
    let mut stanzas = |from: usize, to: usize| {
        world.forget_mail();
        for n in from..to {
            world.join(&format!("u{n}@example.org/x"), &format!("n{n}"));
        }
        world.mail.values().map(Vec::len).sum::<usize>()
    };
    let (first, second) = (stanzas(8, 200), stanzas(200, 392));
    assert_eq!(
        first, second,
        "as many entries cause as many stanzas, however many are there"
    );
    assert_eq!(first, 192 * (7 + 2));
}

#[test]
fn who_comes_back_to_a_room_that_is_small_again_is_announced() {
    let mut world = crowd(3, 3);
    let (second, third) = ("u1@example.org/x", "u2@example.org/x");
    world.send("u0@example.org/x", "n0", "<presence type='unavailable'/>");
    world.forget_mail();
    world.join(third, "n2");
    has(&world.read_one(second), &["/n2'", "role='participant'"]);
}
