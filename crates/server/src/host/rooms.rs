//! A domain of rooms itself: what it is, and which rooms there are that everybody may know of
//! (XEP-0045 sections 6.1 to 6.3, XEP-0030 with XEP-0059). It keeps no state: the home of whoever
//! asks answers, and reads the list of rooms if need be.

use std::sync::Arc;

use store::Side;
use xml::build::Writer;
use xml::{Child, Frame};
use xmpp::error::{Condition, StanzaError};
use xmpp::ns;

use super::{Said, request};
use crate::home::Home;
use crate::iq::{Answer, Found, Job};
use crate::listing::Listing;
use crate::modules::disco;

const NS_RSM: &str = "http://jabber.org/protocol/rsm";

/// Rooms on one page of the list, at most.
const ITEMS_MAX: usize = 100;

/// Answers a stanza to a domain of rooms.
pub(crate) fn answer(home: &Home, frame: &Frame) -> Said {
    let (payload, is_set) = match request(frame) {
        Ok(request) => request,
        Err(said) => return said,
    };
    let to = frame.attr("to").unwrap_or_default();
    let has_node = payload.attr("node").is_some();
    match (payload.name(), payload.ns()) {
        ("query", disco::NS_INFO | disco::NS_ITEMS) | ("ping", ns::PING) if is_set => {
            Said::error(Condition::NotAllowed)
        }
        ("query", disco::NS_INFO | disco::NS_ITEMS) if has_node => {
            Said::error(Condition::ItemNotFound)
        }
        ("ping", ns::PING) => Said::Now(Answer::done()),
        ("query", disco::NS_INFO) => {
            // Of XEP-0317 and XEP-0486 it is the service that says so, and of XEP-0421 too, as all
            // rooms have such ids.
            let features = [
                disco::NS_INFO,
                disco::NS_ITEMS,
                ns::MUC,
                NS_RSM,
                "urn:xmpp:hats:0",
                "urn:xmpp:occupant-id:0",
                ns::PING,
                "vcard-temp",
            ];
            Said::Now(disco::info(
                None,
                &[("conference", "text", "Rooms")],
                &features,
            ))
        }
        ("query", disco::NS_ITEMS) => match Page::parse(&payload) {
            Ok(page) => read(home, &to, page),
            Err(condition) => Said::error(condition),
        },
        _ => Said::error(Condition::ServiceUnavailable),
    }
}

/// Which part of the list is asked for.
struct Page {
    max: usize,
    place: Option<String>,
    /// What is before the place is asked for, or the end of the list.
    is_backwards: bool,
    /// A set was asked for (XEP-0059).
    is_asked_for: bool,
}

impl Page {
    fn parse(query: &Child<'_>) -> Result<Page, Condition> {
        let mut page = Page {
            max: ITEMS_MAX,
            place: None,
            is_backwards: false,
            is_asked_for: false,
        };
        let mut children = query.children();
        let Some(set) = children.find(|child| child.ns() == NS_RSM) else {
            return Ok(page);
        };
        page.is_asked_for = true;
        for child in set.children() {
            let text = child.text().ok_or(Condition::BadRequest)?;
            match child.name() {
                "max" => {
                    let max: usize = text.trim().parse().map_err(|_| Condition::BadRequest)?;
                    page.max = max.min(ITEMS_MAX);
                }
                "before" if text.trim().is_empty() => {
                    (page.place, page.is_backwards) = (None, true);
                }
                name @ ("after" | "before") => {
                    let place = xmpp::addr::normalize(text.trim());
                    let place = place.map_err(|_| Condition::ItemNotFound)?;
                    page.place = Some(place.into_owned());
                    page.is_backwards = name == "before";
                }
                // Places are not counted: a page costs what it shows.
                _ => return Err(Condition::FeatureNotImplemented),
            }
        }
        Ok(page)
    }

    fn side(&self) -> Side<'_> {
        match self.is_backwards {
            true => Side::Before(self.place.as_deref()),
            false => Side::Behind(self.place.as_deref()),
        }
    }
}

fn read(home: &Home, host: &str, page: Page) -> Said {
    let (rooms, host) = (Arc::clone(&home.rooms), host.to_owned());
    Said::Read(Job::new(move |store| {
        let listing = Listing {
            store: store.clone(),
            rooms,
        };
        items(&listing, &host, &page)
    }))
}

/// A page of the list. It costs what it shows.
fn items(listing: &Listing, host: &str, page: &Page) -> Result<Found, StanzaError> {
    let found = listing.public(host, page.side(), page.max);
    let found = found.map_err(|_| StanzaError::new(Condition::InternalServerError))?;
    let is_complete = !found.has_more;
    let found: Vec<(String, String)> = found
        .entries
        .into_iter()
        .map(|entry| (String::from(&*entry.room), entry.listed.name))
        .collect();
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    writer.open("query").attr("xmlns", disco::NS_ITEMS);
    for (room, name) in &found {
        writer.open("item").attr("jid", room);
        if !name.is_empty() {
            writer.attr("name", name);
        }
        writer.close();
    }
    if page.is_asked_for || !is_complete {
        writer.open("set").attr("xmlns", NS_RSM);
        if let (Some((first, _)), Some((last, _))) = (found.first(), found.last()) {
            writer.open("first").text(first).close();
            writer.open("last").text(last).close();
        }
        writer.close();
    }
    writer.close();
    Ok((Vec::new(), out))
}

#[cfg(test)]
mod tests {
    use room::Listed;
    use store::{Record, Store};

    use super::*;

    const HOST: &str = "conference.localhost";

    /// So many rooms that hide, and so many that do not.
    fn listing(hidden: usize, public: usize) -> Listing {
        let store = Store::in_memory();
        let make = |n: usize| Record::RoomMake {
            user: format!("r{n:06}@{HOST}"),
            creator: "a@localhost".to_owned(),
            about: Listed {
                is_public: n >= hidden,
                ..Listed::default()
            }
            .encode(),
        };
        store.bulk((0..hidden + public).map(make)).unwrap();
        Listing {
            store,
            rooms: Arc::default(),
        }
    }

    /// How many rooms a page has, and whether it says that there may be more.
    fn page(listing: &Listing, max: Option<usize>) -> (usize, bool) {
        let page = Page {
            max: max.unwrap_or(ITEMS_MAX),
            place: None,
            is_backwards: false,
            is_asked_for: false,
        };
        let (_, out) = items(listing, HOST, &page).unwrap();
        let out = String::from_utf8(out).unwrap();
        (out.matches("<item ").count(), out.contains("<set "))
    }

    #[test]
    fn a_page_ends_at_its_bound_also_if_none_was_asked_for() {
        let all = listing(0, ITEMS_MAX);
        assert_eq!(page(&all, None), (ITEMS_MAX, false));
        let more = listing(0, ITEMS_MAX + 1);
        assert_eq!(page(&more, None), (ITEMS_MAX, true));
        assert_eq!(page(&more, Some(7)), (7, true));
        assert_eq!(page(&more, Some(0)), (0, true));
    }

    #[test]
    fn hidden_rooms_hide_no_others() {
        assert_eq!(page(&listing(20_000, 5), None), (5, false));
        assert_eq!(page(&listing(20_000, 0), None), (0, false));
    }
}
