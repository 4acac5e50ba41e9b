//! XEP-0433 Extended Channel Search 0.1.0: rooms by words, or all of them, in an order, page by
//! page. What is said of a room is what a list of rooms has; no room is loaded for it.

use std::cmp::Reverse;
use std::sync::Arc;

use actor::Name;
use room::{Listed, Whois};
use store::Side;
use xml::build::Writer;
use xml::{Child, Frame};
use xmpp::error::{Condition, StanzaError};
use xmpp::form::{Form, FormWriter, Submission, flag};
use xmpp::ns::DATA_FORMS;

use crate::home::Home;
use crate::host::Said;
use crate::iq::{Answer, Found, Job};
use crate::listing::{Entry, LISTING_PAGE, Listing};

pub(super) const NS: &str = "urn:xmpp:channel-search:0:search";
const FORM_TYPE: &str = "urn:xmpp:channel-search:0:search-params";
const BY_USERS: &str = "{urn:xmpp:channel-search:0:order}nusers";
const BY_ADDRESS: &str = "{urn:xmpp:channel-search:0:order}address";
const NOT_ANONYMOUS: &str = "{urn:xmpp:channel-search:0:anonymity}none";
const SERVICE_TYPE: &str = "xep-0045";
const NS_RSM: &str = "http://jabber.org/protocol/rsm";

/// Rooms of one page.
const PAGE_MAX: usize = 100;
/// Bytes of one page; what is beyond is left to the next one.
const PAGE_BYTES_MAX: usize = 128 * 1024;
/// Bytes of what is searched for.
const QUERY_BYTES_MAX: usize = 256;

/// What a search is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wanted {
    /// All of these; none if all rooms are wanted.
    terms: Vec<String>,
    in_name: bool,
    in_description: bool,
    in_address: bool,
    users_min: u32,
    /// Rooms are of a type that is wanted.
    has_type: bool,
    order: Order,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Order {
    /// Those with most users first.
    #[default]
    Users,
    Address,
}

/// Which part of the result (XEP-0059).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    max: usize,
    after: Option<String>,
    /// Empty for the last page.
    before: Option<String>,
}

/// A room that was found.
#[derive(Clone, Debug)]
struct Hit {
    room: String,
    listed: Listed,
    users: u32,
}

/// Its place in the result.
type Place<'a> = (Reverse<u32>, &'a str);

impl Hit {
    fn place(&self, order: Order) -> Place<'_> {
        match order {
            Order::Users => (Reverse(self.users), &self.room),
            Order::Address => (Reverse(0), &self.room),
        }
    }

    /// Says where the next page goes on.
    fn cursor(&self, order: Order) -> String {
        match order {
            Order::Users => format!("{}/{}", self.users, self.room),
            Order::Address => self.room.clone(),
        }
    }
}

fn parse_cursor(cursor: &str, order: Order) -> Result<Place<'_>, StanzaError> {
    let unknown = || StanzaError::new(Condition::ItemNotFound);
    match order {
        Order::Address => Ok((Reverse(0), cursor)),
        Order::Users => {
            let (users, room) = cursor.split_once('/').ok_or_else(unknown)?;
            let users = users.parse().map_err(|_| unknown())?;
            Ok((Reverse(users), room))
        }
    }
}

fn bad(app: &'static str, text: &'static str) -> StanzaError {
    let error = StanzaError::new(Condition::BadRequest);
    error.with_app(app).with_text(text)
}

/// Answers `<search/>`.
pub(super) fn search(home: &Home, to: &str, payload: &Child<'_>) -> Said {
    let Ok(payload) = Frame::parse(payload.to_xml()) else {
        return Said::error(Condition::BadRequest);
    };
    let Some(x) = payload.child("x", DATA_FORMS) else {
        return Said::Now(Answer::Result(form()));
    };
    let parsed = Frame::parse(x.to_xml()).map_err(|_| StanzaError::new(Condition::BadRequest));
    let parsed = parsed.and_then(|x| match Form::parse(&x, FORM_TYPE) {
        Ok(Form::Submitted(form)) => Ok((Wanted::parse(&form)?, Part::parse(&payload)?)),
        Ok(Form::Cancelled) => Err(StanzaError::new(Condition::BadRequest)),
        Err(condition) => Err(StanzaError::new(condition)),
    });
    let (wanted, part) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return Said::Now(error.into()),
    };
    let domain = to.split_once('.').map_or("", |(_, domain)| domain);
    let is_own = |host: &&String| host.split_once('.').is_some_and(|(_, of)| of == domain);
    let hosts = home.options.rooms.hosts.iter().filter(is_own);
    let hosts: Vec<String> = hosts.cloned().collect();
    let rooms = Arc::clone(&home.rooms);
    let max = home.options.rooms.looked_at_max;
    Said::Read(Job::new(move |store| {
        let listing = Listing {
            store: store.clone(),
            rooms,
        };
        let hits = wanted.find(&listing, &hosts, max)?;
        page(hits, wanted.order, &part)
    }))
}

impl Wanted {
    /// Sections 3.2.2.2 to 3.2.2.6.
    fn parse(form: &Submission) -> Result<Wanted, StanzaError> {
        let bad_flag = || StanzaError::new(Condition::BadRequest);
        let flag_of = |names: &[&str], default: bool| {
            let value = names.iter().find_map(|name| form.one(name));
            value.map_or(Ok(default), |value| flag(value).ok_or_else(bad_flag))
        };
        let query = form.one("q").filter(|query| !query.is_empty());
        let is_all = flag_of(&["all"], false)?;
        match (query, is_all) {
            (Some(_), true) => {
                return Err(bad(
                    "<conflicting-fields xmlns='urn:xmpp:channel-search:0:error'>\
                     <var>all</var><var>q</var></conflicting-fields>",
                    "Cannot both return all results and search by keywords.",
                ));
            }
            (None, false) => {
                let error = bad(
                    "<no-search-conditions xmlns='urn:xmpp:channel-search:0:error'/>",
                    "Search for something, or for all entries.",
                );
                return Err(error.with_kind("cancel"));
            }
            _ => {}
        }
        let order = match form.one("key").unwrap_or(BY_USERS) {
            BY_USERS => Order::Users,
            BY_ADDRESS => Order::Address,
            _ => {
                let error = StanzaError::new(Condition::FeatureNotImplemented);
                let app = "<invalid-sort-key xmlns='urn:xmpp:channel-search:0:error'/>";
                return Err(error.with_kind("modify").with_app(app));
            }
        };
        let mut types = form.fields().filter(|(name, _)| *name == "types");
        let users_min = form.one("min_users").filter(|value| !value.is_empty());
        let users_min = users_min.map_or(Ok(0), str::parse);
        let wanted = Wanted {
            terms: terms(query.unwrap_or_default()),
            in_name: flag_of(&["sinname"], true)?,
            in_description: flag_of(&["sindescription"], true)?,
            // The document has both names for it.
            in_address: flag_of(&["sinaddress", "sinaddr"], true)?,
            users_min: users_min.map_err(|_| bad_flag())?,
            has_type: types.all(|(_, types)| types.iter().any(|one| one == SERVICE_TYPE)),
            order,
        };
        let is_too_long = query.is_some_and(|query| query.len() > QUERY_BYTES_MAX);
        if query.is_some() && (wanted.terms.is_empty() || is_too_long) {
            return Err(bad(
                "<invalid-search-terms xmlns='urn:xmpp:channel-search:0:error'/>",
                "Search terms must have letters or digits, and 256 bytes at most.",
            ));
        }
        let has_place = wanted.in_name || wanted.in_description || wanted.in_address;
        if query.is_some() && !has_place {
            return Err(bad(
                "<conflicting-fields xmlns='urn:xmpp:channel-search:0:error'>\
                 <var>q</var><var>sinname</var><var>sindescription</var><var>sinaddress</var>\
                 </conflicting-fields>",
                "Search in the name, the description or the address.",
            ));
        }
        Ok(wanted)
    }

    /// Whether a room is one of those.
    fn is_met(&self, room: &str, listed: &Listed) -> bool {
        let name = listed.name.to_lowercase();
        let description = listed.description.to_lowercase();
        let has = |term: &String| {
            self.in_name && name.contains(term)
                || self.in_description && description.contains(term)
                || self.in_address && room.contains(term)
        };
        self.has_type && self.terms.iter().all(has)
    }

    /// Looks at so many rooms, at most, and at none that not everybody may know of.
    fn find(
        &self,
        listing: &Listing,
        hosts: &[String],
        looked_at_max: usize,
    ) -> Result<Vec<Hit>, StanzaError> {
        let mut hits = Vec::new();
        let mut left = looked_at_max;
        for host in hosts {
            let mut after: Option<Name> = None;
            loop {
                let page =
                    listing.public(host, Side::Behind(after.as_deref()), left.min(LISTING_PAGE));
                let page = page.map_err(|_| StanzaError::new(Condition::InternalServerError))?;
                left -= page.entries.len();
                let met = page.entries.into_iter();
                hits.extend(met.filter_map(|entry| self.hit(listing, entry)));
                if !page.has_more || left == 0 {
                    break;
                }
                after = page.last;
            }
        }
        hits.sort_by(|a, b| a.place(self.order).cmp(&b.place(self.order)));
        Ok(hits)
    }

    fn hit(&self, listing: &Listing, entry: Entry) -> Option<Hit> {
        if !self.is_met(&entry.room, &entry.listed) {
            return None;
        }
        // Who is there is not told of a room that not everybody may enter.
        let users = match entry.listed.is_open {
            true => listing.rooms.occupants(&entry.room),
            false => 0,
        };
        (users >= self.users_min).then(|| Hit {
            room: String::from(&*entry.room),
            listed: entry.listed,
            users,
        })
    }
}

/// The words of a query.
fn terms(query: &str) -> Vec<String> {
    let words = query
        .split_whitespace()
        .filter(|word| word.chars().any(char::is_alphanumeric));
    words.map(str::to_lowercase).collect()
}

impl Part {
    fn parse(search: &Frame) -> Result<Part, StanzaError> {
        let mut part = Part {
            max: PAGE_MAX,
            after: None,
            before: None,
        };
        let Some(set) = search.child("set", NS_RSM) else {
            return Ok(part);
        };
        for child in set.children() {
            let text = child.text().unwrap_or_default();
            match child.name() {
                "max" => {
                    let max: Result<usize, _> = text.trim().parse();
                    let max = max.map_err(|_| StanzaError::new(Condition::BadRequest))?;
                    part.max = max.min(PAGE_MAX);
                }
                "after" => part.after = Some(text.into_owned()),
                "before" => part.before = Some(text.into_owned()),
                _ => return Err(StanzaError::new(Condition::FeatureNotImplemented)),
            }
        }
        Ok(part)
    }
}

fn form() -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    writer.open("search").attr("xmlns", NS);
    let mut form = FormWriter::new(&mut writer, "form", FORM_TYPE);
    form.field(("q", "text-single", "Search for"), &[], &[]);
    let all = ("all", "boolean", "Return all entries (ignore search terms)");
    form.field(all, &["false"], &[]);
    for (name, label) in [
        ("sinname", "Search in name"),
        ("sindescription", "Search in description"),
        ("sinaddress", "Search in address"),
    ] {
        form.field((name, "boolean", label), &["true"], &[]);
    }
    form.field(
        ("min_users", "text-single", "Minimum number of users"),
        &["0"],
        &[],
    );
    let types = [("XEP-0045 Multi-User Chat", SERVICE_TYPE)];
    form.field(
        ("types", "list-multi", "Service types"),
        &[SERVICE_TYPE],
        &types,
    );
    let orders = [
        ("Number of online users", BY_USERS),
        ("Address", BY_ADDRESS),
    ];
    form.field(
        ("key", "list-single", "Sort results by"),
        &[BY_USERS],
        &orders,
    );
    form.close();
    writer.close();
    out
}

/// A part of what was found.
fn page(hits: Vec<Hit>, order: Order, part: &Part) -> Result<Found, StanzaError> {
    let count = hits.len();
    let from = match &part.after {
        Some(after) => {
            let after = parse_cursor(after, order)?;
            hits.partition_point(|hit| hit.place(order) <= after)
        }
        None => 0,
    };
    let to = match part.before.as_deref() {
        Some(before) if !before.is_empty() => {
            let before = parse_cursor(before, order)?;
            hits.partition_point(|hit| hit.place(order) < before)
        }
        _ => count,
    };
    let found = &hits[from.min(to)..to];
    let mut out = Vec::new();
    let fits = |items: &Vec<Vec<u8>>, one: &[u8]| {
        let bytes: usize = items.iter().map(Vec::len).sum();
        items.len() < part.max && (items.is_empty() || bytes + one.len() <= PAGE_BYTES_MAX)
    };
    let mut items: Vec<Vec<u8>> = Vec::new();
    let is_backwards = part.before.is_some();
    let mut rest = found.iter();
    let mut next = || match is_backwards {
        true => rest.next_back(),
        false => rest.next(),
    };
    while let Some(hit) = next() {
        let one = item(hit);
        if !fits(&items, &one) {
            break;
        }
        items.push(one);
    }
    let shown = match is_backwards {
        true => &found[found.len() - items.len()..],
        false => &found[..items.len()],
    };
    if is_backwards {
        items.reverse();
    }
    let mut writer = Writer::new(&mut out);
    writer.open("result").attr("xmlns", NS);
    for one in &items {
        writer.raw(one);
    }
    writer.open("set").attr("xmlns", NS_RSM);
    if let (Some(first), Some(last)) = (shown.first(), shown.last()) {
        let index = if is_backwards { to - shown.len() } else { from };
        writer.open("first").attr("index", &index.to_string());
        writer.text(&first.cursor(order)).close();
        writer.open("last").text(&last.cursor(order)).close();
    }
    writer.open("count").text(&count.to_string()).close();
    writer.close().close();
    Ok((Vec::new(), out))
}

/// Section 4.2.
fn item(hit: &Hit) -> Vec<u8> {
    let listed = &hit.listed;
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    writer.open("item").attr("address", &hit.room);
    let users = hit.users.to_string();
    let users = if listed.is_open { users.as_str() } else { "" };
    let anonymity = match listed.whois {
        Whois::Anyone => NOT_ANONYMOUS,
        Whois::Moderators => "muc_semianonymous",
        Whois::Nobody => "",
    };
    for (name, text) in [
        ("name", listed.name.as_str()),
        ("description", listed.description.as_str()),
        ("language", listed.lang.as_str()),
        ("nusers", users),
        ("service-type", SERVICE_TYPE),
        ("is-open", if listed.is_open { "true" } else { "" }),
        ("anonymity-mode", anonymity),
    ] {
        if !text.is_empty() {
            writer.open(name).text(text).close();
        }
    }
    writer.close();
    out
}

#[cfg(test)]
mod tests;
