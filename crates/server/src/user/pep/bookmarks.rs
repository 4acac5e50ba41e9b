//! Bookmarks in three forms (XEP-0402 section 6): the native items count. A list that an older
//! client sets replaces them, and the node of the older form follows them.

use std::sync::{Arc, Mutex, PoisonError};

use actor::Context;
use pubsub::{Changes, Event, Record};
use store::StoreError;
use xml::Frame;
use xml::build::Writer;
use xmpp::error::{Condition, StanzaError};

use super::{Held, PepMsg};
use crate::iq::{Answer, Request};
use crate::message::UserMsg;
use crate::message::credit::Debt;
use crate::modules::bookmarks;
use crate::user::User;
use crate::user::barrier::{Effect, Origin};
use crate::user::own::OwnMsg;

/// The id of the server's own question for all native bookmarks.
const COLLATE: &str = "own-bookmarks";

/// What becomes of a change of bookmarks, in whichever form it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Marked {
    /// No bookmark has changed.
    #[default]
    Nothing,
    /// Native ones: the older form follows.
    Native,
    /// A list of the older form, the payload of its item: native ones follow.
    Storage(Vec<u8>),
}

/// A request for the list in private storage, with what is stored there.
pub(crate) struct Stored {
    held: Held,
    read: Result<Option<Vec<u8>>, StoreError>,
}

impl User {
    pub(crate) fn converts_bookmarks(&self) -> bool {
        self.home.options.modules.has(&bookmarks::MODULE)
    }

    /// What records change of bookmarks.
    pub(super) fn marked(&self, records: &[Record]) -> Marked {
        let mut marked = Marked::Nothing;
        if !self.converts_bookmarks() {
            return marked;
        }
        for record in records {
            match record {
                Record::Published { node, item } if node == bookmarks::STORAGE => {
                    return Marked::Storage(item.payload.to_vec());
                }
                Record::Published { node, .. }
                | Record::Retracted { node, .. }
                | Record::Purged { node }
                | Record::Deleted { node, .. }
                    if node == bookmarks::NODE =>
                {
                    marked = Marked::Native;
                }
                _ => {}
            }
        }
        marked
    }

    /// Bookmarks have changed for good.
    pub(super) fn bookmarks_changed(&mut self, marked: &Marked, cx: &mut Context<'_, UserMsg>) {
        match marked {
            Marked::Nothing => {}
            Marked::Native => self.change_bookmarks(COLLATE, &[], bookmarks::collate, cx),
            Marked::Storage(list) => {
                self.change_bookmarks("own", list, bookmarks::replace, cx);
            }
        }
    }

    /// The server itself asks for all native bookmarks, or changes them; `list` is the list of an
    /// older form, an element.
    fn change_bookmarks(
        &mut self,
        id: &str,
        list: &[u8],
        changes: Changes,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let mut bytes = Vec::with_capacity(list.len() + 256);
        let mut writer = Writer::new(&mut bytes);
        writer.open("iq").attr("type", "set").attr("id", id);
        writer.attr("from", &self.name).attr("to", &self.name);
        writer.open("query").attr("xmlns", xmpp::ns::PRIVATE);
        writer.raw(list).close().close();
        if let Ok(request) = Frame::parse(bytes) {
            let node = bookmarks::NODE.to_owned();
            let event = Event::Change {
                node,
                request,
                changes,
            };
            self.give_nodes(event, Held::default(), cx);
        }
    }

    /// An answer to the account itself: the list that native bookmarks make is published in the
    /// older form.
    pub(super) fn answered_own(&mut self, answer: &Frame, cx: &mut Context<'_, UserMsg>) {
        let is_list = answer.attr("id").as_deref() == Some(COLLATE)
            && answer.attr_raw("type") == Some("result");
        if let Some(list) = answer.children().next().filter(|_| is_list) {
            let list = list.to_xml();
            self.publish_own(bookmarks::STORAGE, "current", list.as_bytes(), cx);
        }
    }

    /// A set of private storage has the list: native bookmarks become what it says, in one append
    /// with what the set stores. Its client is answered by that: what it was told is stored is what
    /// everybody reads from then on, also after a kill. If the list cannot be native, nothing of
    /// the set is stored.
    pub(crate) fn store_bookmarks(
        &mut self,
        set: &Frame,
        list: &[u8],
        (records, debt): (Vec<store::Record>, Option<Debt>),
        cx: &mut Context<'_, UserMsg>,
    ) {
        // Who waits is told by the answer that waits with the change.
        self.comes_from(Origin::Nobody);
        let mut query = Vec::with_capacity(list.len() + 64);
        let mut writer = Writer::new(&mut query);
        writer.open("query").attr("xmlns", xmpp::ns::PRIVATE);
        writer.raw(list).close();
        let request = set.edit().remove_children(|_| true);
        let event = Event::Change {
            node: bookmarks::NODE.to_owned(),
            request: request.append_child(&query).finish(),
            changes: bookmarks::replace,
        };
        let held = Held {
            request: Some(set.clone()),
            debt,
            with_it: records,
            ..Held::default()
        };
        self.give_nodes(event, held, cx);
    }

    /// The list in private storage is asked for: it is made of native bookmarks, and of what is
    /// stored. `None` where bookmarks are not converted.
    pub(crate) fn show_bookmarks(
        &mut self,
        request: &Request<'_>,
        cx: &mut Context<'_, UserMsg>,
    ) -> Option<Answer> {
        if !self.converts_bookmarks() {
            return None;
        }
        let held = Held {
            request: Some(request.frame.clone()),
            debt: request.take_debt(),
            ..Held::default()
        };
        // Behind what is being stored.
        self.emit(Effect::ReadBookmarks(Box::new(held)), cx);
        Some(Answer::Later)
    }

    pub(in crate::user) fn read_bookmarks(&mut self, held: Held, cx: &mut Context<'_, UserMsg>) {
        let (store, name) = (self.home.store.clone(), self.name.clone());
        let held = Arc::new(Mutex::new(Some(held)));
        // Whoever ends up with it answers: the reader, or this actor if there is none.
        let of_reader = Arc::clone(&held);
        let take = |held: &Mutex<Option<Held>>| {
            let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
            held.take().unwrap_or_default()
        };
        let read = move || {
            let read = store.private(&name, bookmarks::STORAGE, "storage");
            let held = take(&of_reader);
            Box::new(Stored { held, read })
        };
        let map = |stored| OwnMsg::Pep(PepMsg::Bookmarks(stored)).into();
        if cx.blocking(&self.home.reads, read, map).is_err() {
            let error = StanzaError::new(Condition::ResourceConstraint);
            self.refuse_held(take(&held), &error, cx);
        }
    }

    pub(super) fn bookmarks_read(&mut self, stored: Stored, cx: &mut Context<'_, UserMsg>) {
        let Stored { held, read } = stored;
        let stored = match read {
            Ok(stored) => stored,
            Err(_) => {
                let error = StanzaError::new(Condition::InternalServerError);
                return self.refuse_held(held, &error, cx);
            }
        };
        let Some(request) = held.request.clone() else {
            return;
        };
        // The machine is shown what is stored in the place of what is asked for.
        let mut query = Vec::new();
        let mut writer = Writer::new(&mut query);
        writer.open("query").attr("xmlns", xmpp::ns::PRIVATE);
        writer.raw(stored.as_deref().unwrap_or_default()).close();
        let request = request.edit().remove_children(|_| true);
        let event = Event::Change {
            node: bookmarks::NODE.to_owned(),
            request: request.append_child(&query).finish(),
            changes: bookmarks::show,
        };
        self.give_nodes(event, held, cx);
    }
}
