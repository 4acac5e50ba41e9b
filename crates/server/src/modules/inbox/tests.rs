//! Which conversations there are, in which order and on which page, and what of them is unread.

use std::sync::Arc;

use stdx::Timestamp;
use store::{Account, EntryFlags, LogEntry, Record, Store};

use super::*;
use crate::options::InboxBounds;

const OWNER: &str = "juliet@localhost";

fn entry(log: &str, seq: u64, peer: &str, is_own: bool, children: &str) -> Record {
    let flags = match is_own {
        true => EntryFlags(EntryFlags::ARCHIVED.0 | EntryFlags::SENT.0),
        false => EntryFlags::ARCHIVED,
    };
    Record::LogAppend {
        user: log.into(),
        entry: LogEntry {
            seq,
            at: Timestamp::from_millis(seq as i64 * 1_000),
            peer: peer.into(),
            flags,
            frame: format!("<message id='m{seq}' type='chat'>{children}</message>")
                .into_bytes()
                .into(),
            ..LogEntry::default()
        },
    }
}

const HI: &str = "<body>hi</body>";

fn store(entries: &[(&str, bool, &str)]) -> Store {
    let store = Store::in_memory();
    let account = Record::AccountPut {
        user: OWNER.to_owned(),
        account: Account::default(),
    };
    store.bulk([account]).unwrap();
    let entries = (1..).zip(entries);
    let entries = entries.map(|(seq, (peer, is_own, children))| {
        entry(OWNER, seq, &format!("{peer}@localhost"), *is_own, children)
    });
    store.bulk(entries).unwrap();
    store
}

fn inbox(bounds: InboxBounds) -> Inbox {
    Inbox {
        owner: OWNER.into(),
        now: Timestamp::from_millis(0),
        bounds,
        nodes: None,
        rooms: Arc::default(),
        hosts: Vec::new(),
    }
}

/// Who, the last entry, and how many are unread.
fn read(store: &Store, bounds: InboxBounds) -> Vec<(String, u64, u64)> {
    let all = inbox(bounds).read(store).unwrap();
    let local = |one: &Conversation| one.address.split('@').next().unwrap().to_owned();
    all.iter()
        .map(|one| (local(one), one.last, one.unread))
        .collect()
}

fn asked(content: &str) -> Result<Asked, Condition> {
    let iq = format!("<iq><inbox xmlns='{NS}' {content}</inbox></iq>");
    let iq = Frame::parse(iq).unwrap();
    let payload = iq.children().next().unwrap();
    Asked::parse(&payload).map_err(|error| error.condition)
}

fn set(content: &str) -> Result<Asked, Condition> {
    asked(&format!("><set xmlns='{NS_RSM}'>{content}</set>"))
}

#[test]
fn conversations_are_in_the_order_of_their_last_messages() {
    let store = store(&[
        ("a", false, HI),
        ("b", false, HI),
        ("a", false, HI),
        ("c", true, HI),
        (
            "b",
            false,
            "<displayed xmlns='urn:xmpp:chat-markers:0' id='m1'/>",
        ),
    ]);
    let of = |who: &str, last, unread| (who.to_owned(), last, unread);
    let all = [of("b", 5, 1), of("c", 4, 0), of("a", 3, 2)];
    assert_eq!(read(&store, InboxBounds::default()), all);
    let conversations = inbox(InboxBounds::default()).read(&store).unwrap();
    let latest: Vec<_> = conversations.iter().map(|one| one.latest).collect();
    assert_eq!(latest, [Some(2), Some(4), Some(3)]);
}

#[test]
fn so_many_entries_are_looked_at() {
    let store = store(&[("a", false, HI), ("b", false, HI), ("b", false, HI)]);
    let bounds = |entries_max| InboxBounds {
        entries_max,
        ..InboxBounds::default()
    };
    let found = |entries_max| read(&store, bounds(entries_max)).len();
    assert_eq!(
        [found(0), found(1), found(2), found(3), found(4)],
        [0, 1, 1, 2, 2]
    );
    assert_eq!(
        read(&store, bounds(1))[0].2,
        1,
        "what was not looked at is not counted"
    );
}

#[test]
fn a_long_log_is_read_in_parts() {
    let said: Vec<(&str, bool, &str)> = (0..1_203).map(|_| ("a", false, HI)).collect();
    let store = store(&said);
    assert_eq!(read(&store, InboxBounds::default())[0].2, 1_203);
}

#[test]
fn so_many_bytes_are_looked_at() {
    let said: Vec<(&str, bool, &str)> = (0..1_203).map(|_| ("a", false, HI)).collect();
    let store = store(&said);
    let frame = format!("<message id='m1000' type='chat'>{HI}</message>").len();
    let unread = |bytes_max| {
        let bounds = InboxBounds {
            bytes_max,
            ..InboxBounds::default()
        };
        read(&store, bounds)[0].2
    };
    assert_eq!([unread(1), unread(500 * frame)], [500, 1_000]);
    assert_eq!(unread(1_203 * frame), 1_203);
}

#[test]
fn a_page_goes_on_where_the_last_one_ended() {
    let said: Vec<(&str, bool, &str)> = ["a", "b", "c", "d", "e"]
        .map(|who| (who, who == "c", HI))
        .into();
    let store = store(&said);
    let all = inbox(InboxBounds::default()).read(&store).unwrap();
    let page = |content: &str| {
        let part = set(content).unwrap().page_of(&all)?;
        let shown = part.conversations().count();
        let fin = String::from_utf8(part.fin(&all, shown)).unwrap();
        let who: String = part.listed[part.from..part.to]
            .iter()
            .map(|one| &one.address[..1])
            .collect();
        Ok::<_, StanzaError>((who, fin))
    };
    let (first, fin) = page("<max>2</max>").unwrap();
    assert_eq!(first, "ed");
    assert_eq!(
        fin,
        format!(
            "<fin xmlns='{NS}' total='5' unread='4' all-unread='4'><set xmlns='{NS_RSM}'>\
             <first index='0'>5000/5/e@localhost</first><last>4000/4/d@localhost</last>\
             <count>5</count></set></fin>"
        )
    );
    let next = |cursor: &str| {
        page(&format!("<max>2</max><after>{cursor}</after>"))
            .unwrap()
            .0
    };
    assert_eq!(next("4000/4/d@localhost"), "cb");
    assert_eq!(next("4000/4/zz"), "cb", "a place where nothing is any more");
    assert_eq!(next("2000/2/b@localhost"), "a");
    assert_eq!(next("1000/1/a@localhost"), "");
    let last = |cursor: &str| {
        page(&format!("<max>2</max><before>{cursor}</before>"))
            .unwrap()
            .0
    };
    assert_eq!(last(""), "ba");
    assert_eq!(last("2000/2/b@localhost"), "dc");
    assert_eq!(last("5000/5/e@localhost"), "");
    assert_eq!(page("<max>0</max>").unwrap().0, "");
    for bad in ["x", "x/y", "1/y", "1/x/y"] {
        let refused = page(&format!("<after>{bad}</after>")).unwrap_err();
        assert_eq!(refused.condition, Condition::ItemNotFound);
    }
    let unread = asked("unread-only='true'>").unwrap();
    let unread = unread.page_of(&all).unwrap();
    assert_eq!(unread.listed.len(), 4, "what one said oneself is read");
}

#[test]
fn a_page_has_a_bound_in_bytes() {
    let store = store(&[("a", false, HI), ("b", false, HI)]);
    let all = inbox(InboxBounds::default()).read(&store).unwrap();
    let large = format!(
        "<message><body>{}</body></message>",
        "x".repeat(ARCHIVE_PAGE_BYTES)
    );
    let message = || {
        Some((
            1,
            Timestamp::from_millis(0),
            Frame::parse(large.clone()).unwrap(),
        ))
    };
    let mut page = Page {
        to: (OWNER, "juliet@localhost/r"),
        query_id: "q",
        leading: Vec::new(),
        bytes: 0,
    };
    assert!(page.takes(&all[0], message()), "one always fits");
    assert!(!page.takes(&all[1], message()));
    assert_eq!(page.leading.len(), 1);
}

#[test]
fn a_query_that_means_nothing_is_refused() {
    use Condition::{BadRequest, FeatureNotImplemented};

    assert_eq!(set("<max>many</max>"), Err(BadRequest));
    assert_eq!(set("<max><b/></max>"), Err(BadRequest));
    assert_eq!(set("<index>1</index>"), Err(FeatureNotImplemented));
    assert_eq!(asked("messages='maybe'>"), Err(BadRequest));
    assert_eq!(set("<max>4000</max>").unwrap().max, PAGE_MAX);
    let plain = asked(">").unwrap();
    assert!(plain.messages && !plain.unread_only && plain.max == PAGE_DEFAULT);
}
