//! The example of docs/extending.md: it is what the page shows, and it does what the page says.

#[path = "example/card_size.rs"]
mod card_size;
mod common;

use common::{Client, options, start_extended};
use server::modules::Module;

static EXTENSIONS: &[&Module] = &[&card_size::MODULE];

const SIZE: &str = "<size xmlns='urn:example:card-size'/>";

#[test]
fn the_guide_shows_the_example_that_is_compiled() {
    let page = include_str!("../../../docs/extending.md");
    let example = include_str!("example/card_size.rs");
    let shown = format!("```rust\n{example}```\n");
    assert!(page.contains(&shown), "copy the example into the page");
}

#[test]
fn the_example_answers_as_the_guide_says() {
    let users = ["romeo", "juliet"];
    let running = start_extended(EXTENSIONS, options(1, true), net::Limits::default(), &users);
    let mut romeo = Client::login(running.address, "romeo", "r");
    // Sent ahead: the second request is answered with what the first one changed.
    romeo.send(&format!(
        "<iq type='set' id='1'><vCard xmlns='vcard-temp'><FN>R</FN></vCard></iq>\
         <iq type='get' id='2'>{SIZE}</iq><iq type='set' id='3'>{SIZE}</iq>"
    ));
    // What the store is asked for may come behind what is known at once.
    let mut seen = String::new();
    while !(seen.contains("</size></iq>") && seen.contains("<not-allowed")) {
        seen += &romeo.expect("</iq>");
    }
    assert!(seen.contains(" id='1'"), "{seen}");
    let card = "<vCard xmlns='vcard-temp'><FN>R</FN></vCard>";
    let expected = format!("<size xmlns='urn:example:card-size'>{}</size>", card.len());
    assert!(seen.contains(&expected), "{seen}");
    let mut juliet = Client::login(running.address, "juliet", "j");
    juliet.send(&format!(
        "<iq type='get' id='4' to='romeo@localhost'>{SIZE}</iq>"
    ));
    let seen = juliet.expect("</iq>");
    assert!(seen.contains("<service-unavailable"), "a stranger: {seen}");
    romeo.send("<presence/>");
    juliet.send("<presence to='romeo@localhost' type='subscribe'/>");
    romeo.expect("type='subscribe'");
    romeo.send(&format!(
        "<presence to='juliet@localhost' type='subscribed'/><iq type='get' id='s'>{SIZE}</iq>"
    ));
    romeo.expect(" id='s'");
    juliet.send(&format!(
        "<iq type='get' id='5' to='romeo@localhost'>{SIZE}</iq>"
    ));
    juliet.expect(" id='5'");
    let seen = juliet.expect("</iq>");
    assert!(seen.contains("<forbidden"), "a contact: {seen}");
}
