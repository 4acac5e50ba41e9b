//! From where on members are told of what is said.

use super::*;

/// Goal: members of a room that becomes persistent are not owed what was said while it was not,
/// and kept no log that anybody could be behind with. Nor is who was there and heard it.
#[test]
fn what_was_said_before_the_room_kept_a_log_is_not_owed() {
    for is_killed in [false, true] {
        let mut world = World::patient(|_| ());
        let mut romeo = enter(&mut world, "romeo", "romeo");
        romeo.send("<presence/>");
        romeo.ask(&mut world, &configuration(""), "id='config'");
        say(&mut world, &mut romeo, 1..=3);
        let fields = format!("{PERSISTENT}{TO_MEMBERS}");
        romeo.ask(&mut world, &configuration(&fields), "id='config'");
        world.hold();
        romeo.send(&affiliation("juliet", "member"));
        world.work();
        world.let_one_go();
        if is_killed {
            drop(romeo);
            world.crash();
            romeo = enter(&mut world, "romeo", "romeo");
        }
        world.let_go();
        rest(&mut world);
        let mut phone = Phone::on(&mut world, true);
        assert_eq!(phone.said(&mut world), [0; 0], "{is_killed}");
        romeo.sync(&mut world);
        romeo.send(&format!(
            "<presence type='unavailable' to='{ROOM}/romeo'/><presence/>"
        ));
        rest(&mut world);
        assert_eq!(bodies(&romeo.sync(&mut world)), [0; 0], "{is_killed}");
    }
}
