//! What a search for words finds, and how it goes on where it stopped.

use stdx::Timestamp;
use store::{Account, Record};

use super::*;

const OWNER: &str = "juliet@localhost";

fn store(bodies: &[&str]) -> Store {
    let store = Store::in_memory();
    let account = Record::AccountPut {
        user: OWNER.to_owned(),
        account: Account::default(),
    };
    store.bulk([account]).unwrap();
    let entries = (1..).zip(bodies).map(|(seq, body)| Record::LogAppend {
        user: OWNER.into(),
        entry: LogEntry {
            seq,
            at: Timestamp::from_millis(seq as i64),
            peer: "romeo@localhost".into(),
            flags: EntryFlags::ARCHIVED,
            frame: format!("<message><body>{body}</body></message>")
                .into_bytes()
                .into(),
            ..LogEntry::default()
        },
    });
    store.bulk(entries).unwrap();
    store
}

/// A query for words, with a result set.
fn query(words: &str, set: &str) -> Query {
    let query = format!(
        "<query xmlns='{NS}'><x xmlns='jabber:x:data' type='submit'>\
         <field var='FORM_TYPE'><value>{NS}</value></field>\
         <field var='{{urn:xmpp:fulltext:0}}fulltext'><value>{words}</value></field></x>\
         <set xmlns='http://jabber.org/protocol/rsm'>{set}</set></query>"
    );
    Query::parse(&query.parse().unwrap()).unwrap()
}

/// The places that were found, and the end of the page.
fn found(store: &Store, query: &Query, searched_max: usize) -> (Vec<u64>, String) {
    let ends = (OWNER, "juliet@localhost/r");
    let (leading, fin) = page(store, ends, query, (Of::Account, searched_max)).unwrap();
    let places = leading.into_iter().map(|result| {
        let result = String::from_utf8(result).unwrap();
        let id = result.split(" id='").nth(1).unwrap();
        super::super::stanza_ids::seq_of(&id[..16]).unwrap()
    });
    (places.collect(), String::from_utf8(fin).unwrap())
}

#[test]
fn all_words_are_in_the_text() {
    let store = store(&[
        "Wherefore art thou",
        "art",
        "ART wherefore",
        "there&amp;fore",
        "\u{11e}",
    ]);
    let places = |words: &str| found(&store, &query(words, ""), 100).0;
    assert_eq!(places("wherefore art"), [1, 3]);
    assert_eq!(places("FORE"), [1, 3, 4], "also in the middle of a word");
    assert_eq!(places("e&amp;f"), [4]);
    assert_eq!(places("\u{11f}"), [5]);
    assert_eq!(places("body"), [0; 0], "names of elements are no text");
}

#[test]
fn a_page_ends_with_its_last_result() {
    let store = store(&["a1", "b", "a2", "a3", "b"]);
    let (places, fin) = found(&store, &query("a", "<max>2</max>"), 100);
    assert_eq!(places, [1, 3]);
    assert!(
        !fin.contains("complete") && fin.contains("<last>0000000000000003</last>"),
        "{fin}"
    );
    let (places, fin) = found(
        &store,
        &query("a", "<max>2</max><after>0000000000000003</after>"),
        100,
    );
    assert_eq!(places, [4]);
    assert!(fin.contains("complete='true'"), "{fin}");
    let (places, fin) = found(&store, &query("a", "<max>2</max><before/>"), 100);
    assert_eq!(places, [3, 4]);
    assert!(!fin.contains("complete") && fin.contains("<first>0000000000000003</first>"));
    let (places, fin) = found(&store, &query("a", "<max>3</max><before/>"), 100);
    assert_eq!(places, [1, 3, 4]);
    assert!(fin.contains("complete='true'"), "{fin}");
    assert_eq!(found(&store, &query("a", "<max>0</max>"), 100).0, [0; 0]);
}

#[test]
fn a_search_goes_on_where_it_stopped() {
    let store = store(&["b", "a", "b", "b", "a", "b"]);
    for is_last in [false, true] {
        for searched_max in 1..8 {
            let (mut set, mut all, mut pages) = (String::new(), Vec::new(), 0);
            if is_last {
                set = "<before/>".to_owned();
            }
            loop {
                let (places, fin) = found(&store, &query("a", &set), searched_max);
                all.extend(places);
                pages += 1;
                if fin.contains("complete='true'") {
                    break;
                }
                let (name, way) = match is_last {
                    true => ("first", "before"),
                    false => ("last", "after"),
                };
                let cursor = fin
                    .split(&format!("<{name}>"))
                    .nth(1)
                    .expect("a place to go on");
                set = format!("<{way}>{}</{way}>", &cursor[..16]);
                assert!(pages < 10, "it ends");
            }
            all.sort_unstable();
            assert_eq!(all, [2, 5], "{searched_max}");
            assert!(pages >= 6usize.div_ceil(searched_max), "{searched_max}");
        }
    }
}

#[test]
fn places_that_are_named_have_the_words_too() {
    let store = store(&["a", "b"]);
    let mut query = query("a", "");
    query.filter.ids = vec![1, 2];
    assert_eq!(found(&store, &query, 100).0, [1]);
}

/// A client that asked for more than a page has got the same page for ever.
#[test]
fn places_that_are_named_come_page_by_page() {
    let large = "a ".repeat(ARCHIVE_PAGE_BYTES / 5);
    let store = store(&[large.as_str(); 5]);
    for (way, last) in [("after", "last"), ("before", "first")] {
        let (mut all, mut set) = (Vec::new(), String::new());
        if way == "before" {
            set = "<before/>".to_owned();
        }
        for _ in 0..3 {
            let mut query = query("", &set);
            query.filter.ids = vec![5, 1, 2, 4, 2, 3];
            let (places, fin) = found(&store, &query, 100);
            assert!(fin.contains("<count>5</count>"), "{fin}");
            assert_eq!(fin.contains("complete='true'"), places.len() == 1, "{fin}");
            all.extend(places);
            let cursor = fin.split(&format!("<{last}")).nth(1).unwrap();
            let cursor = cursor.split('>').nth(1).unwrap();
            set = format!("<{way}>{}</{way}>", &cursor[..16]);
        }
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3, 4, 5], "{way}");
    }
    let mut none = query("", "<max>0</max>");
    none.filter.ids = vec![1, 2];
    let (places, fin) = found(&store, &none, 100);
    assert!(
        places.is_empty() && fin.contains("<count>2</count>"),
        "{fin}"
    );
}

/// Messages may be large: what is read for one query, and what of it is in memory at a time, does
/// not grow with them.
#[test]
fn a_query_reads_so_many_bytes_and_holds_a_page_of_them() {
    let large = "a ".repeat(ARCHIVE_PAGE_BYTES / 4);
    let count = ARCHIVE_SEARCHED_BYTES / large.len() + 60;
    let store = store(&vec![large.as_str(); count]);
    let searched = |word: &str| {
        let wanted = PageQuery {
            flags: EntryFlags::ARCHIVED,
            limit: 100,
            ..PageQuery::default()
        };
        search(&store, OWNER, wanted, &[word.to_owned()], usize::MAX).unwrap()
    };
    let found = searched("a");
    let bytes: usize = found.page.entries.iter().map(|one| one.frame.len()).sum();
    let at_most = ARCHIVE_PAGE_BYTES + large.len() + 100;
    assert!((ARCHIVE_PAGE_BYTES..at_most).contains(&bytes), "{bytes}");
    assert!(!found.page.complete && found.stopped_at.is_none());
    let none = searched("b");
    let stop = none.stopped_at.expect("it says where it stopped");
    let least = (ARCHIVE_SEARCHED_BYTES / large.len()) as u64;
    assert!((least..count as u64).contains(&stop), "{stop}");
    assert!(none.page.entries.is_empty() && !none.page.complete);
    // Page by page all of them are found, each once.
    let (mut all, mut set) = (Vec::new(), String::new());
    loop {
        let (places, fin) = found_by(&store, &set);
        let last = *places.last().expect("each page has some");
        all.extend(places);
        if fin.contains("complete='true'") {
            break;
        }
        set = format!("<after>{last:016x}</after>");
    }
    let expected: Vec<u64> = (1..=count as u64).collect();
    assert_eq!(all, expected);
}

fn found_by(store: &Store, set: &str) -> (Vec<u64>, String) {
    found(store, &query("a", set), usize::MAX)
}

/// How much of a log one query looks at on a server as it is installed.
#[test]
fn a_query_looks_at_no_more_than_it_may() {
    use crate::options::ARCHIVE_SEARCHED_MAX;

    let mut bodies = vec!["and so on and so forth, for as long as a message usually is"; 20_100];
    bodies[ARCHIVE_SEARCHED_MAX] = "needle";
    let store = store(&bodies);
    let (places, fin) = found(&store, &query("needle", ""), ARCHIVE_SEARCHED_MAX);
    assert_eq!(places, [0; 0]);
    let stop = format!("<last>{}</last>", super::super::stanza_ids::id_of(20_000));
    assert!(!fin.contains("complete") && fin.contains(&stop), "{fin}");
    let after = "<after>0000000000004e20</after>";
    let (places, fin) = found(&store, &query("needle", after), ARCHIVE_SEARCHED_MAX);
    assert_eq!(places, [20_001]);
    assert!(fin.contains("complete='true'"), "{fin}");
}
