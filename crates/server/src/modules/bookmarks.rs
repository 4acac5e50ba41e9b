//! XEP-0402 PEP Native Bookmarks 1.2.0, and bookmarks as older clients keep them (XEP-0048,
//! XEP-0411): in private storage, or as one item of a node. The native items are what counts;
//! whatever is set in an older form replaces them, and the older forms are made of them. Owns the
//! forms; when one follows the other is in `user/pep/bookmarks.rs`.

use std::sync::Arc;

use pubsub::{Change, Item};
use xml::Frame;
use xml::build::Writer;

use super::{Module, Switch, Xep};

/// The node of native bookmarks, and their namespace.
pub(crate) const NODE: &str = "urn:xmpp:bookmarks:1";
/// The node of all bookmarks in one item, and their namespace (XEP-0048).
pub(crate) const STORAGE: &str = "storage:bookmarks";

pub(crate) const MODULE: Module = Module {
    name: "bookmarks",
    switch: Switch::ByOperator,
    needs: &["pubsub"],
    xeps: &[
        Xep {
            number: 48,
            name: "Bookmarks",
            version: "1.3",
            note: "The same bookmarks as those of XEP-0402, in private storage and in a node.",
        },
        Xep {
            number: 402,
            name: "PEP Native Bookmarks",
            version: "1.2.0",
            note: "Converted to and from both older forms.",
        },
        Xep {
            number: 411,
            name: "Bookmarks Conversion",
            version: "1.1.0",
            note: "By way of XEP-0402.",
        },
    ],
    host_features: &[],
    account_features: &[
        "urn:xmpp:bookmarks-conversion:0",
        "urn:xmpp:bookmarks:1#compat",
        "urn:xmpp:bookmarks:1#compat-pep",
    ],
    account: &[],
    host: &[],
};

/// Whether an element is the list of an older client.
pub(crate) fn is_storage(name: &str, ns: &str) -> bool {
    (name, ns) == ("storage", STORAGE)
}

/// The list in a request: the one child of what it asks for, or of a publication.
fn storage_of(request: &Frame) -> Option<Frame> {
    let payload = request.children().next()?;
    payload
        .children()
        .find(|child| is_storage(child.name(), child.ns()))
}

/// One bookmark of a list, by the address of its room, as a native item that keeps the extensions
/// of `before`.
fn native(conference: &Frame, before: Option<&Item>) -> Option<(String, Vec<u8>)> {
    let jid = conference.attr("jid")?;
    let jid = xmpp::addr::normalize(&jid).ok()?.into_owned();
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    writer.open("conference").attr("xmlns", NODE);
    for name in ["name", "autojoin"] {
        if let Some(value) = conference.attr(name) {
            // The older form says 1 where the newer says true.
            let value = match (name, &*value) {
                ("autojoin", "1") => "true",
                ("autojoin", "0") => "false",
                _ => &value,
            };
            writer.attr(name, value);
        }
    }
    for name in ["nick", "password"] {
        if let Some(text) = conference
            .child(name, STORAGE)
            .and_then(|child| child.text())
        {
            writer.open(name).text(&text).close();
        }
    }
    let before = before.and_then(|item| Frame::parse(&*item.payload).ok());
    let extensions = before.and_then(|item| {
        let extensions = item.child("extensions", NODE)?;
        Some(extensions.to_xml())
    });
    if let Some(extensions) = extensions {
        writer.raw(extensions.as_bytes());
    }
    writer.close();
    Some((jid, out))
}

/// Whether two native items say the same, whatever the order of what they say.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    fn said(payload: &[u8]) -> Option<Vec<(String, String)>> {
        let item = Frame::parse(payload).ok()?;
        let autojoin = match item.attr("autojoin").as_deref() {
            Some("true" | "1") => "true",
            _ => "false",
        };
        let mut all = vec![("autojoin".to_owned(), autojoin.to_owned())];
        let name = item.attr("name").unwrap_or_default().into_owned();
        all.push(("name".to_owned(), name));
        for child in item.children().filter(|child| child.ns() == NODE) {
            if matches!(child.name(), "nick" | "password") {
                let text = child.text().unwrap_or_default().into_owned();
                all.push((child.name().to_owned(), text));
            }
        }
        all.sort();
        Some(all)
    }
    said(one).is_some_and(|one| said(other) == Some(one))
}

/// The native items become those of the list in the request.
pub(crate) fn replace(request: &Frame, items: Option<&[Item]>) -> Change {
    let Some(storage) = storage_of(request) else {
        return Change::default();
    };
    let items = items.unwrap_or_default();
    let mut kept: Vec<String> = Vec::new();
    let mut put: Vec<(String, Arc<[u8]>)> = Vec::new();
    let conferences = storage.children();
    for conference in conferences.filter(|child| child.name() == "conference") {
        let Ok(conference) = Frame::parse(conference.to_xml()) else {
            continue;
        };
        let jid = conference.attr("jid").unwrap_or_default().into_owned();
        let jid = xmpp::addr::normalize(&jid).map(|jid| jid.into_owned());
        let before = jid
            .ok()
            .and_then(|jid| items.iter().find(|item| item.id == jid));
        let Some((jid, payload)) = native(&conference, before) else {
            continue;
        };
        if kept.contains(&jid) {
            continue;
        }
        if before.is_none_or(|before| !is_same(&before.payload, &payload)) {
            put.push((jid.clone(), payload.into()));
        }
        kept.push(jid);
    }
    let gone = items.iter().filter(|item| !kept.contains(&item.id));
    Change {
        remove: gone.map(|item| item.id.clone()).collect(),
        put,
        answer: Vec::new(),
    }
}

fn write_storage(writer: &mut Writer<'_>, items: &[Item], more: &[Frame]) {
    writer.open("storage").attr("xmlns", STORAGE);
    for item in items {
        let Ok(native) = Frame::parse(&*item.payload) else {
            continue;
        };
        if (native.name(), native.ns()) != ("conference", NODE) {
            continue;
        }
        writer.open("conference").attr("jid", &item.id);
        for name in ["name", "autojoin"] {
            if let Some(value) = native.attr(name) {
                writer.attr(name, &value);
            }
        }
        for name in ["nick", "password"] {
            if let Some(text) = native.child(name, NODE).and_then(|child| child.text()) {
                writer.open(name).text(&text).close();
            }
        }
        writer.close();
    }
    for other in more {
        writer.raw(other.as_bytes());
    }
    writer.close();
}

/// Answers a request for the list in private storage. The request has what private storage has,
/// which counts where there are no native bookmarks yet; of the rest only what is no room does.
pub(crate) fn show(request: &Frame, items: Option<&[Item]>) -> Change {
    let stored = storage_of(request);
    let mut answer = Vec::new();
    let mut writer = Writer::new(&mut answer);
    writer.open("query").attr("xmlns", xmpp::ns::PRIVATE);
    match (items, stored) {
        (None, Some(stored)) => {
            writer.raw(stored.as_bytes());
        }
        (items, stored) => {
            let more = stored.iter().flat_map(Frame::children);
            let more: Vec<Frame> = more
                .filter(|child| child.name() != "conference")
                .filter_map(|child| Frame::parse(child.to_xml()).ok())
                .collect();
            write_storage(&mut writer, items.unwrap_or_default(), &more);
        }
    }
    writer.close();
    Change {
        answer,
        ..Change::default()
    }
}

/// The list that native bookmarks make, for the node of the older form.
pub(crate) fn collate(_request: &Frame, items: Option<&[Item]>) -> Change {
    let mut answer = Vec::new();
    write_storage(
        &mut Writer::new(&mut answer),
        items.unwrap_or_default(),
        &[],
    );
    Change {
        answer,
        ..Change::default()
    }
}
