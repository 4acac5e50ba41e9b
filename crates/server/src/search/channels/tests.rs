//! What is found, in which order, and on which page.

use room::Listed;
use store::{Record, Store};

use super::*;

fn listed(name: &str, description: &str) -> Listed {
    Listed {
        name: name.to_owned(),
        is_public: true,
        description: description.to_owned(),
        is_open: true,
        ..Listed::default()
    }
}

fn listing(rooms: &[(&str, Listed)]) -> Listing {
    let listing = Listing {
        store: Store::in_memory(),
        rooms: Arc::default(),
    };
    let make = |(room, listed): &(&str, Listed)| Record::RoomMake {
        user: (*room).to_owned(),
        creator: "a@localhost".to_owned(),
        about: listed.encode(),
    };
    listing.store.bulk(rooms.iter().map(make)).unwrap();
    listing
}

fn parse(fields: &[(&str, &[&str])]) -> Result<Wanted, StanzaError> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    let mut form = FormWriter::new(&mut writer, "submit", FORM_TYPE);
    for (name, values) in fields {
        form.field((name, "", ""), values, &[]);
    }
    form.close();
    let frame = Frame::parse(bytes).unwrap();
    match Form::parse(&frame, FORM_TYPE) {
        Ok(Form::Submitted(form)) => Wanted::parse(&form),
        _ => panic!("a form"),
    }
}

fn found(listing: &Listing, fields: &[(&str, &[&str])]) -> Vec<String> {
    let hosts = ["conference.localhost".to_owned()];
    let hits = parse(fields).unwrap().find(listing, &hosts, 1_000).unwrap();
    let local = |hit: Hit| hit.room.split('@').next().unwrap().to_owned();
    hits.into_iter().map(local).collect()
}

fn some() -> Listing {
    let mut hidden = listed("Rust", "hidden");
    hidden.is_public = false;
    let mut closed = listed("Rust, closed", "");
    closed.is_open = false;
    listing(&[
        ("b@conference.localhost", listed("Rust", "A language")),
        (
            "a@conference.localhost",
            listed("Cooking", "No rust at all"),
        ),
        ("rust@conference.localhost", listed("Other", "")),
        ("d@conference.localhost", hidden),
        ("e@conference.localhost", closed),
        ("f@conference.elsewhere", listed("Rust", "")),
    ])
}

#[test]
fn rooms_are_found_by_all_words_where_they_are_looked_for() {
    let listing = some();
    let by_address = ("key", &[BY_ADDRESS][..]);
    let search = |fields: &[(&str, &[&str])]| found(&listing, &[fields, &[by_address]].concat());
    assert_eq!(search(&[("q", &["RUST"])]), ["a", "b", "e", "rust"]);
    assert_eq!(search(&[("q", &["rust lang"])]), ["b"]);
    assert_eq!(search(&[("all", &["true"])]), ["a", "b", "e", "rust"]);
    assert_eq!(search(&[("q", &["java"])]), [""; 0]);
    let no = &["false"][..];
    let names = [
        ("q", &["rust"][..]),
        ("sindescription", no),
        ("sinaddr", no),
    ];
    assert_eq!(search(&names), ["b", "e"]);
    let addresses = [
        ("q", &["rust"][..]),
        ("sindescription", no),
        ("sinname", no),
    ];
    assert_eq!(search(&addresses), ["rust"]);
    let mix = [("all", &["1"][..]), ("types", &["xep-0369"][..])];
    assert_eq!(search(&mix), [""; 0]);
    let both = [
        ("all", &["1"][..]),
        ("types", &["xep-0369", "xep-0045"][..]),
    ];
    assert_eq!(search(&both).len(), 4);
}

#[test]
fn a_search_that_means_nothing_says_why() {
    let app = |fields: &[(&str, &[&str])]| {
        let error = parse(fields).unwrap_err();
        let kind = error.kind.unwrap_or(error.condition.kind());
        (
            error.condition,
            kind,
            error.app.unwrap_or_default().into_owned(),
        )
    };
    for (fields, condition, kind, name) in [
        (
            &[][..],
            Condition::BadRequest,
            "cancel",
            "<no-search-conditions ",
        ),
        (
            &[("q", &["a"][..]), ("all", &["1"][..])][..],
            Condition::BadRequest,
            "modify",
            "<conflicting-fields ",
        ),
        (
            &[("q", &[" ?! "][..])][..],
            Condition::BadRequest,
            "modify",
            "<invalid-search-terms ",
        ),
        (
            &[("q", &["a"][..]), ("key", &["{x}y"][..])][..],
            Condition::FeatureNotImplemented,
            "modify",
            "<invalid-sort-key ",
        ),
        (
            &[("q", &["a"][..]), ("all", &["x"][..])][..],
            Condition::BadRequest,
            "modify",
            "",
        ),
        (
            &[("q", &["a"][..]), ("min_users", &["-"][..])][..],
            Condition::BadRequest,
            "modify",
            "",
        ),
    ] {
        let found = app(fields);
        assert_eq!((found.0, found.1), (condition, kind), "{fields:?}");
        assert!(found.2.starts_with(name), "{fields:?}: {}", found.2);
    }
    let long = "a".repeat(QUERY_BYTES_MAX + 1);
    assert!(
        app(&[("q", &[&long])])
            .2
            .starts_with("<invalid-search-terms ")
    );
    let no = &["0"][..];
    let nowhere = [
        ("q", &["a"][..]),
        ("sinname", no),
        ("sindescription", no),
        ("sinaddress", no),
    ];
    assert!(app(&nowhere).2.starts_with("<conflicting-fields "));
}

fn hits(users: &[u32]) -> Vec<Hit> {
    let hit = |(n, users): (usize, &u32)| Hit {
        room: format!("r{n}@x"),
        listed: listed("", ""),
        users: *users,
    };
    let mut hits: Vec<Hit> = users.iter().enumerate().map(hit).collect();
    hits.sort_by(|a, b| a.place(Order::Users).cmp(&b.place(Order::Users)));
    hits
}

fn part(max: usize, after: Option<&str>, before: Option<&str>) -> Part {
    Part {
        max,
        after: after.map(str::to_owned),
        before: before.map(str::to_owned),
    }
}

fn rooms_of(part: &Part) -> (Vec<String>, String) {
    let (_, out) = page(hits(&[1, 5, 0, 5, 2]), Order::Users, part).unwrap();
    let text = String::from_utf8(out).unwrap();
    let rooms = text.split("address='").skip(1);
    let rooms = rooms.map(|rest| rest.split('@').next().unwrap().to_owned());
    (rooms.collect(), text)
}

#[test]
fn pages_follow_each_other_forwards_and_backwards() {
    let (first, text) = rooms_of(&part(2, None, None));
    assert_eq!(first, ["r1", "r3"]);
    assert!(text.contains("<first index='0'>5/r1@x</first><last>5/r3@x</last><count>5</count>"));
    assert_eq!(rooms_of(&part(2, Some("5/r3@x"), None)).0, ["r4", "r0"]);
    assert_eq!(rooms_of(&part(2, Some("1/r0@x"), None)).0, ["r2"]);
    assert_eq!(rooms_of(&part(2, Some("0/r2@x"), None)).0, [""; 0]);
    let (last, text) = rooms_of(&part(2, None, Some("")));
    assert_eq!(last, ["r0", "r2"]);
    assert!(text.contains("<first index='3'>"), "{text}");
    assert_eq!(rooms_of(&part(2, None, Some("1/r0@x"))).0, ["r3", "r4"]);
    assert_eq!(rooms_of(&part(0, None, None)).0, [""; 0]);
    for unknown in ["x", "x/y", ""] {
        let error = page(hits(&[1]), Order::Users, &part(1, Some(unknown), None));
        assert_eq!(error.err().unwrap().condition, Condition::ItemNotFound);
    }
}

#[test]
fn a_page_is_bounded_in_bytes_and_a_search_in_rooms() {
    let mut large = hits(&[0; 200]);
    for hit in &mut large {
        hit.listed.description = "x".repeat(PAGE_BYTES_MAX / 3);
    }
    let (_, out) = page(large, Order::Users, &part(PAGE_MAX, None, None)).unwrap();
    assert!(out.len() < PAGE_BYTES_MAX + 1_024, "{}", out.len());
    assert_eq!(String::from_utf8(out).unwrap().matches("<item ").count(), 2);
    let hosts = ["conference.localhost".to_owned()];
    let all = parse(&[("all", &["1"])]).unwrap();
    let found = |max| all.find(&some(), &hosts, max).unwrap().len();
    assert_eq!([found(9), found(4), found(3), found(1)], [4, 4, 3, 1]);
}

/// Hidden rooms took the places of others: with enough of them nobody found a room any more.
#[test]
fn hidden_rooms_do_not_hide_others() {
    let names: Vec<String> = (0..300)
        .map(|n| format!("h{n}@conference.localhost"))
        .collect();
    let hidden = Listed {
        is_public: false,
        ..listed("Rust", "")
    };
    let mut rooms: Vec<(&str, Listed)> = names
        .iter()
        .map(|name| (name.as_str(), hidden.clone()))
        .collect();
    rooms.push(("z@conference.localhost", listed("Rust", "")));
    let listing = listing(&rooms);
    let hosts = ["conference.localhost".to_owned()];
    let rust = parse(&[("q", &["rust"])]).unwrap();
    assert_eq!(rust.find(&listing, &hosts, 1).unwrap().len(), 1);
}

/// The bound is for all domains together, and more than one page is read.
#[test]
fn a_search_goes_on_through_pages_and_domains() {
    let hosts = [
        "conference.localhost".to_owned(),
        "rooms.localhost".to_owned(),
    ];
    let count = LISTING_PAGE + 10;
    let names: Vec<String> = hosts
        .iter()
        .flat_map(|host| (0..count).map(move |n| format!("r{n}@{host}")))
        .collect();
    let rooms: Vec<(&str, Listed)> = names
        .iter()
        .map(|name| (name.as_str(), listed("", "")))
        .collect();
    let listing = listing(&rooms);
    let all = parse(&[("all", &["1"])]).unwrap();
    let found = |max| all.find(&listing, &hosts, max).unwrap().len();
    for max in [1, LISTING_PAGE, count, count + 1, 2 * count - 1] {
        assert_eq!(found(max), max);
    }
    assert_eq!(found(10 * count), 2 * count);
}

#[test]
fn of_a_closed_room_nobody_learns_who_is_there() {
    let hit = |is_open| Hit {
        room: "r@x".to_owned(),
        listed: Listed {
            is_open,
            ..listed("", "d")
        },
        users: 0,
    };
    let text = |is_open| String::from_utf8(item(&hit(is_open))).unwrap();
    assert!(text(true).contains("<nusers>0</nusers>"));
    assert!(text(true).contains("<is-open>true</is-open>"));
    assert!(!text(false).contains("nusers") && !text(false).contains("is-open"));
    assert!(text(false).contains("<description>d</description>"));
}
