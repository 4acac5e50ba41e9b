//! XEP-0486: the room's picture.

use super::*;

const CARD: &str = "<vCard xmlns='vcard-temp'><PHOTO><TYPE>image/png</TYPE>\
                    <BINVAL>\n aGVs bG8=</BINVAL></PHOTO></vCard>";
/// SHA-1 of "hello".
const HASH: &str = "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d";
const EMPTY: &str = "<vCard xmlns='vcard-temp'/>";
const INFO: &str = "<query xmlns='http://jabber.org/protocol/disco#info'/>";

#[test]
fn an_owner_sets_the_picture_and_all_are_told() {
    let mut world = World::coven();
    world.configure(CRONE, &[("persistentroom", "1")]).unwrap();
    world.forget_mail();
    world.send(CRONE, "", &format!("<iq type='set' id='q'>{CARD}</iq>"));
    for who in [CRONE, WICCA, HAG] {
        let mail = world.read(who).concat();
        has(
            &mail,
            &["<status code='104'/>", &format!("<photo>{HASH}</photo>")],
        );
    }
    has(
        &world.ask(HECATE, "get", EMPTY).unwrap(),
        &["<BINVAL>", "image/png"],
    );
    let field = format!(
        "<field var='muc#roominfo_avatarhash' type='text-multi' label='Avatar hash'>\
         <value>{HASH}</value></field>"
    );
    let info = world.ask(HECATE, "get", INFO).unwrap();
    has(&info, &[&field, "<feature var='vcard-temp'/>"]);
    // The same again is no change.
    world.ask(CRONE, "set", CARD).unwrap();
    assert!(world.mail.is_empty());
    world.restart();
    world.join(HECATE, "hecate");
    let mail = world.read(HECATE);
    has(
        &mail.concat(),
        &[HASH, "<presence from='coven@chat.example' "],
    );
    has(&mail[0], &["110"]);
    world.join(CRONE, "crone");
    world.forget_mail();
    world.send(CRONE, "", &format!("<iq type='set' id='q'>{EMPTY}</iq>"));
    has(&world.read(HECATE).concat(), &["104", "<photo/>"]);
    lacks(&world.ask(HECATE, "get", INFO).unwrap(), &["avatarhash"]);
    let none = world.ask(HECATE, "get", EMPTY).unwrap_err();
    assert_eq!(none, "item-not-found/cancel");
    world.join(HAG, "hag");
    lacks(&world.read(HAG).concat(), &["<photo"]);
}

#[test]
fn who_is_no_owner_and_what_is_no_picture_is_refused() {
    let mut world = World::limited(|limits| {
        limits.card_bytes_max = 300;
        limits.card_photos_max = 1;
    });
    for (who, nick) in [(CRONE, "crone"), (HAG, "hag")] {
        world.join(who, nick);
    }
    let refused = |world: &mut World, who: &str, card: &str| world.ask(who, "set", card).err();
    let error = |error: &str| Some(error.to_owned());
    assert_eq!(refused(&mut world, HAG, CARD), error("forbidden/auth"));
    let broken = CARD.replace("bG8=", "bG8");
    assert_eq!(
        refused(&mut world, CRONE, &broken),
        error("bad-request/modify")
    );
    let large = CARD.replace(
        "<PHOTO>",
        &format!("<NOTE>{}</NOTE><PHOTO>", "x".repeat(300)),
    );
    assert_eq!(
        refused(&mut world, CRONE, &large),
        error("not-acceptable/modify")
    );
    let photo = "<PHOTO><BINVAL>aGVs</BINVAL></PHOTO>";
    let two = format!("<vCard xmlns='vcard-temp'>{photo}{photo}</vCard>");
    assert_eq!(
        refused(&mut world, CRONE, &two),
        error("not-acceptable/modify")
    );
    world.ask(CRONE, "set", CARD).unwrap();
}

#[test]
fn a_room_that_becomes_persistent_keeps_its_picture_and_its_hats() {
    let mut world = World::coven();
    world.ask(CRONE, "set", CARD).unwrap();
    assert!(world.journal.is_empty());
    world.configure(CRONE, &[("persistentroom", "1")]).unwrap();
    world.restart();
    has(&world.ask(HECATE, "get", INFO).unwrap(), &[HASH]);
}
