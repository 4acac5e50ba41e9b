//! A domain of rooms itself: what it is, and which rooms there are that everybody may know of
//! (XEP-0045 sections 6.1 to 6.3, XEP-0030 with XEP-0059). It keeps no state: the home of whoever
//! asks answers, and reads the list of rooms if need be.

use std::sync::Arc;

use xml::build::Writer;
use xml::{Child, Frame};
use xmpp::error::{Condition, StanzaError};
use xmpp::ns;
use xmpp::stanza::{self, IqType, Kind, MessageType};

use super::temporary::Listing;
use crate::address;
use crate::home::Home;
use crate::iq::{self, Answer, Found, Job};
use crate::modules::disco;

const NS_MUC: &str = "http://jabber.org/protocol/muc";
const NS_RSM: &str = "http://jabber.org/protocol/rsm";

/// Rooms on one page of the list, at most.
const ITEMS_MAX: usize = 100;

/// What a domain of rooms says.
pub(crate) enum Said {
    /// Nothing, where RFC 6120 section 8 wants silence.
    Nothing,
    /// This.
    Now(Answer),
    /// What the store says.
    Read(Job),
}

impl Said {
    /// An error by its condition alone.
    pub(crate) fn error(condition: Condition) -> Said {
        Said::Now(Answer::error(condition))
    }
}

/// A request to a service that keeps no state: its payload, and whether it sets something.
///
/// # Errors
/// The stanza is none: what the service says to it.
pub(crate) fn request(frame: &Frame) -> Result<(Child<'_>, bool), Said> {
    let is_set = match stanza::parse_kind(frame) {
        Ok(Kind::Iq(IqType::Get)) => false,
        Ok(Kind::Iq(IqType::Set)) => true,
        Ok(Kind::Message(MessageType::Error | MessageType::Headline)) => return Err(Said::Nothing),
        Ok(Kind::Message(_)) => return Err(Said::error(Condition::ServiceUnavailable)),
        Ok(Kind::Iq(_) | Kind::Presence(_)) | Err(_) => return Err(Said::Nothing),
    };
    let Some(payload) = iq::payload(frame) else {
        return Err(Said::error(Condition::BadRequest));
    };
    match frame.attr("to").is_some_and(|to| to.contains('/')) {
        true => Err(Said::error(Condition::ServiceUnavailable)),
        false => Ok((payload, is_set)),
    }
}

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
            // Of XEP-0317 and XEP-0486 it is the service that says so.
            let features = [
                disco::NS_INFO,
                disco::NS_ITEMS,
                NS_MUC,
                NS_RSM,
                "urn:xmpp:hats:0",
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
    after: Option<String>,
    /// A set was asked for (XEP-0059).
    is_asked_for: bool,
}

impl Page {
    fn parse(query: &Child<'_>) -> Result<Page, Condition> {
        let mut page = Page {
            max: ITEMS_MAX,
            after: None,
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
                "after" => {
                    let after = xmpp::addr::normalize(text.trim());
                    page.after = Some(after.map_err(|_| Condition::ItemNotFound)?.into_owned());
                }
                // Backwards is an option of the document that nobody has asked for yet.
                _ => return Err(Condition::FeatureNotImplemented),
            }
        }
        Ok(page)
    }
}

fn read(home: &Home, host: &str, page: Page) -> Said {
    let (rooms, host) = (Arc::clone(&home.rooms), host.to_owned());
    let options = &home.options.rooms;
    let max = (options.looked_at_max, options.passed_over_max);
    Said::Read(Job::new(move |store| {
        let listing = Listing {
            store: store.clone(),
            rooms,
        };
        items(&listing, &host, &page, max)
    }))
}

/// A page of the list. It looks at so many rooms, and at many more while none of them may be known
/// of: those beyond are not listed.
fn items(
    listing: &Listing,
    host: &str,
    page: &Page,
    (looked_at_max, passed_over_max): (usize, usize),
) -> Result<Found, StanzaError> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut looked_at = 0;
    let mut is_complete = true;
    let visited = listing.visit(page.after.as_deref(), |entry| {
        let looked_at_max = match found.is_empty() {
            true => passed_over_max,
            false => looked_at_max.min(passed_over_max),
        };
        if found.len() >= page.max || looked_at >= looked_at_max {
            is_complete = false;
            return false;
        }
        looked_at += 1;
        if entry.listed.is_public && address::domain(&entry.room) == host {
            found.push((String::from(&*entry.room), entry.listed.name));
        }
        true
    });
    visited.map_err(|_| StanzaError::new(Condition::InternalServerError))?;
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

    /// Rooms that hide, but for the last ones, in the order of the list.
    fn listing(hidden: usize, public: usize) -> Listing {
        let store = Store::in_memory();
        let slots = store.slot_key();
        let mut names: Vec<String> = (0..hidden + public)
            .map(|n| format!("r{n}@{HOST}"))
            .collect();
        names.sort_by_key(|room| (slots.slot(room).range().index(), room.clone()));
        let make = |(place, user): (usize, String)| Record::RoomMake {
            user,
            creator: "a@localhost".to_owned(),
            about: Listed {
                is_public: place >= hidden,
                ..Listed::default()
            }
            .encode(),
        };
        store.bulk(names.into_iter().enumerate().map(make)).unwrap();
        Listing {
            store,
            rooms: Arc::default(),
        }
    }

    /// How many rooms a page has, and whether it says that there may be more.
    fn page(listing: &Listing, max: (usize, usize)) -> (usize, bool) {
        let page = Page {
            max: ITEMS_MAX,
            after: None,
            is_asked_for: false,
        };
        let (_, out) = items(listing, HOST, &page, max).unwrap();
        let out = String::from_utf8(out).unwrap();
        (out.matches("<item ").count(), out.contains("<set "))
    }

    #[test]
    fn so_many_hidden_rooms_are_passed_over_for_a_page() {
        let listing = listing(40, 5);
        assert_eq!(page(&listing, (10, 1_000)), (1, true));
        assert_eq!(page(&listing, (100, 1_000)), (5, false));
        // The first public room is the last that is looked at, or one too far.
        assert_eq!(page(&listing, (10, 41)), (1, true));
        assert_eq!(page(&listing, (10, 40)), (0, true));
    }
}
