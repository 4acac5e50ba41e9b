//! What is found by which words, what is refused, and what an entry may be.

use store::{Account, Record};

use super::*;

fn put(user: &str, entry: [&str; 4]) -> [Record; 2] {
    let [first, last, nick, email] = entry.map(str::to_owned);
    let entry = DirectoryEntry {
        first,
        last,
        nick,
        email,
    };
    let account = Record::AccountPut {
        user: user.to_owned(),
        account: Account::default(),
    };
    let user = user.to_owned();
    [account, Record::DirectoryPut { user, entry }]
}

fn some() -> Store {
    let store = Store::in_memory();
    let juliet = [
        "Juliet Anne",
        "Capulet-Montague",
        "JuliC",
        "juliet@x.example",
    ];
    store.bulk(put("juliet@localhost", juliet)).unwrap();
    let tybalt = ["Tybalt", "Capulet", "", ""];
    store.bulk(put("tybalt@localhost", tybalt)).unwrap();
    let elsewhere = ["Juliet", "", "", ""];
    store.bulk(put("juliet@elsewhere", elsewhere)).unwrap();
    let silent = Record::AccountPut {
        user: "silent@localhost".to_owned(),
        account: Account::default(),
    };
    store.bulk([silent]).unwrap();
    store
}

fn query(ns: &str, content: &str) -> Frame {
    Frame::parse(format!("<query xmlns='{ns}'>{content}</query>")).unwrap()
}

fn found(store: &Store, content: &str, max: (usize, usize)) -> Vec<String> {
    let wanted = Wanted::parse(&query(NS, content)).unwrap();
    let hits = find(store, &wanted, "localhost", max).unwrap();
    let mut hits: Vec<_> = hits.into_iter().map(|hit| hit.0).collect();
    hits.sort();
    hits
}

#[test]
fn words_are_found_where_they_begin() {
    let (store, max) = (some(), (9, 100));
    let find = |content: &str| found(&store, content, max);
    assert_eq!(find("<first>JUL</first>"), ["juliet@localhost"]);
    assert_eq!(find("<first>anne* jul</first>"), ["juliet@localhost"]);
    assert_eq!(find("<last>mont</last>"), ["juliet@localhost"]);
    let both = ["juliet@localhost", "tybalt@localhost"];
    assert_eq!(find("<last> capulet </last><first/>"), both);
    assert_eq!(find("<last>capulet</last><first>ty</first>"), both[1..]);
    assert_eq!(find("<email>juliet@x.ex</email>"), both[..1]);
    assert_eq!(find("<first>liet</first>"), [""; 0], "not in the middle");
    assert_eq!(find("<nick>silent</nick>"), [""; 0], "who is not listed");
}

#[test]
fn a_search_finds_and_looks_at_so_many() {
    let store = some();
    let capulets = "<last>capulet</last>";
    assert_eq!(found(&store, capulets, (1, 100)).len(), 1);
    assert_eq!(found(&store, capulets, (0, 100)).len(), 0);
    let looked_at: Vec<usize> = (1..4)
        .map(|n| found(&store, capulets, (9, n)).len())
        .collect();
    assert_eq!(looked_at[2], 2);
    assert!(looked_at[0] <= 1 && looked_at.is_sorted());
}

#[test]
fn what_is_found_is_told_page_by_page() {
    let store = some();
    let told = |set: &str| -> Result<String, StanzaError> {
        let set = format!("<set xmlns='{}'>{set}</set>", rsm::NS);
        let wanted = Wanted::parse(&query(NS, &format!("<last>capulet</last>{set}")))?;
        let hits = find(&store, &wanted, "localhost", (9, 100)).unwrap();
        let told = results(&hits, &wanted)?;
        Ok(String::from_utf8(told).unwrap())
    };
    let mut all = found(&store, "<last>capulet</last>", (9, 100));
    let first = told("<max>1</max>").unwrap();
    let other = all
        .iter()
        .position(|user| !first.contains(&format!("jid='{user}'")));
    let (other, one) = (all.remove(other.unwrap()), all.remove(0));
    let ends = |user: &str, at: u8| {
        format!(
            "<first index='{at}'>{user}</first><last>{user}</last><count>2</count></set></query>"
        )
    };
    assert!(first.ends_with(&ends(&one, 0)), "{first}");
    assert_eq!(first.matches("<item ").count(), 1);
    let second = told(&format!("<max>1</max><after>{one}</after>")).unwrap();
    assert!(second.ends_with(&ends(&other, 1)), "{second}");
    assert_eq!(told("<max>1</max><before/>").unwrap(), second);
    let counted = told("<max>0</max>").unwrap();
    assert!(
        counted.contains("<count>2</count>") && !counted.contains("<item"),
        "{counted}"
    );
    let refused = |set: &str| told(set).unwrap_err().condition;
    assert_eq!(
        refused("<after>silent@localhost</after>"),
        Condition::ItemNotFound
    );
    assert_eq!(refused("<max>all</max>"), Condition::BadRequest);
}

#[test]
fn a_search_for_everybody_is_refused() {
    for wide in [
        "",
        "<first/>",
        "<first>*</first>",
        "<first>a</first>",
        "<first>ju a</first>",
        "<misc>juliet</misc>",
    ] {
        let refused = Wanted::parse(&query(NS, wide)).unwrap_err();
        assert_eq!(refused.condition, Condition::NotAcceptable, "{wide}");
    }
    assert!(
        Wanted::parse(&query(NS, "<first>\u{674e}</first>")).is_ok(),
        "one that is long"
    );
}

#[test]
fn what_is_no_line_is_no_field() {
    let (long, most) = ("x".repeat(257), "x".repeat(256));
    let parse = |field: &str| {
        let content = format!("<nick>{field}</nick>");
        let parsed = entry(&query(register::NS, &content));
        parsed.map_err(|error| error.condition)
    };
    assert!(parse(&most).is_ok());
    for bad in [&*long, "a\nb", "a\u{202e}b", "", " "] {
        assert_eq!(parse(bad), Err(Condition::NotAcceptable), "{bad}");
    }
    assert_eq!(parse("<b/>"), Err(Condition::BadRequest));
    let removed = |content| entry(&query(register::NS, content));
    assert_eq!(removed("<remove/>").unwrap(), DirectoryEntry::default());
    assert!(removed("<remove/><nick>x</nick>").is_err());
}

#[test]
fn who_is_not_listed_is_offered_what_the_card_says() {
    let store = some();
    let user = "silent@localhost";
    let text = |store: &Store| String::from_utf8(shown(store, user).unwrap()).unwrap();
    assert!(text(&store).contains("<first/><last/><nick/><email/>"));
    let card = format!(
        "<vCard xmlns='vcard-temp'><N><GIVEN>Si</GIVEN><FAMILY>{}</FAMILY></N>\
         <NICKNAME>s&amp;t</NICKNAME><EMAIL><USERID>a@b</USERID></EMAIL></vCard>",
        "x".repeat(300)
    );
    let set = Record::VCardPut {
        user: user.to_owned(),
        xml: card.into_bytes(),
        photo_hash: String::new(),
    };
    store.bulk([set]).unwrap();
    let offered = text(&store);
    let fields = "<first>Si</first><last/><nick>s&amp;t</nick><email>a@b</email>";
    assert!(offered.contains(fields), "{offered}");
    assert!(!offered.contains("<registered/>"));
    assert_eq!(
        found(&store, "<first>Si</first>", (9, 100)),
        [""; 0],
        "it is an offer"
    );
    store.bulk(put(user, ["", "", "own", ""])).unwrap();
    let own = text(&store);
    assert!(own.contains("<registered/>") && own.contains("<first/><last/><nick>own</nick>"));
}
