//! XEP-0313 Message Archive Management 1.1.3 with XEP-0059 Result Set Management 1.0: an account
//! reads its own archive, page by page, and says what is archived. The protocol's forms are in
//! `mam.rs`, the archive is the user's log.

use store::{
    ArchiveDefault, ArchivePrefs, EntryFlags, LogEntry, PageQuery, Seq, Store, StoreError,
};
use xml::Frame;
use xmpp::error::{Condition, StanzaError};

use super::hints::NS_RETRACTION;
use super::mam::{self, Fin, NS, NS_EXTENDED, NS_FULL_TEXT, Others, Prefs, Query};
use super::{AccountHandler, Change, Module, Outcome, Switch, View, Xep};
use crate::iq::{Found, Request};
use crate::limits::{ARCHIVE_PAGE_BYTES, ARCHIVE_SEARCHED_BYTES, IDS_AT_ONCE};

pub(crate) const MODULE: Module = Module {
    name: "archive",
    switch: Switch::ByOperator,
    needs: &[],
    xeps: &[
        Xep {
            number: 59,
            name: "Result Set Management",
            version: "1.0",
            note: "In queries of archives, nodes, items, the directory and the list of rooms.",
        },
        Xep {
            number: 313,
            name: "Message Archive Management",
            version: "1.1.3",
            note: "Of one's own account: by time, address, id; pages of at most 100, flipped \
                   pages, metadata, preferences. Of rooms: by time and id.",
        },
        Xep {
            number: 431,
            name: "Full Text Search in MAM",
            version: "0.2.0",
            note: "Of accounts and rooms: messages that have all of the words.",
        },
    ],
    host_features: &[],
    // XEP-0424 section 2: retractions are archived with what they take back.
    account_features: &[NS, NS_EXTENDED, NS_FULL_TEXT, NS_RETRACTION],
    account: &[
        ("query", NS, AccountHandler::Reads(query)),
        ("prefs", NS, AccountHandler::Reads(prefs)),
        ("metadata", NS, AccountHandler::Reads(metadata)),
    ],
    host: &[],
};

/// Entries of a search that are in memory at a time.
const SEARCHED_AT_ONCE: usize = 500;

fn refusal(request: &Request<'_>) -> Option<Outcome> {
    (!request.asker.is_owner()).then(|| Outcome::error(Condition::Forbidden))
}

fn query(view: &View<'_>, request: &Request<'_>) -> Outcome {
    if let Some(refusal) = refusal(request) {
        return refusal;
    }
    if !request.is_set {
        return Outcome::result(mam::form());
    }
    let query = match request.tree().and_then(|query| Query::parse(&query)) {
        Ok(query) => query,
        Err(error) => return error.into(),
    };
    let asker = request.frame.attr("from").unwrap_or_default().into_owned();
    let owner = view.address().clone();
    let searched_max = view.options().archive.searched_max;
    Outcome::read_page(move |store| {
        page(store, (&owner, &asker), &query, (Of::Account, searched_max))
    })
}

/// Whose archive is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// An account's: the other side of a message is a real address.
    Account,
    /// A room's: who is behind a nick nobody learns from it.
    Room,
}

/// A page of results and its end. A search for words looks at `searched_max` entries.
pub(crate) fn page(
    store: &Store,
    (owner, asker): (&str, &str),
    query: &Query,
    (of, searched_max): (Of, usize),
) -> Result<Found, StanzaError> {
    let failed = |_| StanzaError::new(Condition::InternalServerError);
    let named: Vec<u64> = query.named().collect();
    for few in named.chunks(IDS_AT_ONCE) {
        let found = store.log_entries(owner, few).map_err(failed)?;
        let is_archived = |seq: &u64| {
            let mut found = found.iter();
            found.any(|entry| entry.seq == *seq && entry.flags.has(EntryFlags::ARCHIVED))
        };
        if !few.iter().all(is_archived) {
            return Err(StanzaError::new(Condition::ItemNotFound));
        }
    }
    let filter = &query.filter;
    let (after, before) = query.bounds();
    let (bare, resource) = match &filter.with {
        Some(with) if of == Of::Room => (None, with != owner),
        Some(with) => (Some(xmpp::addr::bare_part(with)), with.contains('/')),
        None => (None, false),
    };
    let mut stopped_at = None;
    let mut found = if filter.ids.is_empty() {
        let wanted = PageQuery {
            with: bare.map(str::to_owned),
            start: filter.start,
            end: filter.end,
            after,
            before,
            flags: EntryFlags::ARCHIVED,
            limit: usize::from(query.page.max),
            backwards: query.page.is_last,
        };
        match filter.words.is_empty() {
            true => store.log_page(owner, &wanted).map_err(failed)?,
            false => {
                let searched = search(store, owner, wanted, &filter.words, searched_max);
                let searched = searched.map_err(failed)?;
                stopped_at = searched.stopped_at;
                searched.page
            }
        }
    } else {
        by_ids(store, owner, query).map_err(failed)?
    };
    let size_before = found.entries.len();
    let size = bounded(&mut found, query.page.is_last);
    let mut ends = found.first().zip(found.last());
    // Nothing that was left out by the bound in bytes is behind it.
    if let Some(stop) = stopped_at.filter(|_| found.entries.len() == size_before) {
        let (first, last) = ends.unwrap_or((stop, stop));
        ends = Some((first.min(stop), last.max(stop)));
    }
    let fin = Fin {
        is_complete: found.complete,
        ends,
        count: found.count,
    };
    let mut leading = Vec::with_capacity(size);
    for entry in &found.entries {
        let Ok(frame) = Frame::parse(&*entry.frame) else {
            tracing::error!(user = owner, seq = entry.seq, "a stored message is damaged");
            continue;
        };
        let is_met = filter.ids.is_empty() || has_words(&frame, &filter.words);
        if resource && !is_with(&frame, filter.with.as_deref()) || !is_met {
            continue;
        }
        let frame = super::stanza_ids::without_claims(frame, owner);
        let mut out = Vec::new();
        let query_id = query.query_id.as_deref();
        mam::write_result(
            (owner, asker),
            query_id,
            (entry.seq, entry.at),
            &frame,
            &mut out,
        );
        leading.push(out);
    }
    if query.is_flipped {
        leading.reverse();
    }
    let mut payload = Vec::new();
    mam::write_fin(fin, &mut payload);
    Ok((leading, payload))
}

/// Those of the named messages that the page asks for; read a few at a time, for they may be large.
fn by_ids(store: &Store, owner: &str, query: &Query) -> Result<store::Page, StoreError> {
    let mut ids = query.filter.ids.clone();
    ids.sort_unstable();
    ids.dedup();
    let count = Some(ids.len() as u64);
    let (after, before) = query.bounds();
    ids.retain(|id| after.is_none_or(|after| *id > after));
    ids.retain(|id| before.is_none_or(|before| *id < before));
    let wanted = ids.len();
    let is_last = query.page.is_last;
    if is_last {
        ids.reverse();
    }
    ids.truncate(usize::from(query.page.max));
    let (mut entries, mut bytes) = (Vec::new(), 0);
    for few in ids.chunks(IDS_AT_ONCE) {
        if bytes <= ARCHIVE_PAGE_BYTES {
            let read = store.log_entries(owner, few)?;
            bytes += read.iter().map(|entry| entry.frame.len()).sum::<usize>();
            entries.extend(read);
        }
    }
    let complete = entries.len() == wanted;
    if is_last {
        entries.reverse();
    }
    Ok(store::Page {
        entries,
        complete,
        count,
    })
}

/// A page of a search.
struct Searched {
    page: store::Page,
    /// The search ended here because it had looked at enough: the next page goes on behind it, also
    /// if nothing was found.
    stopped_at: Option<Seq>,
}

/// Looks at `looked_at_max` of the entries that `wanted` allows, and [`ARCHIVE_SEARCHED_BYTES`] of
/// them, for those with all of the words. What is found has little more bytes than a page.
fn search(
    store: &Store,
    owner: &str,
    wanted: PageQuery,
    words: &[String],
    looked_at_max: usize,
) -> Result<Searched, StoreError> {
    let (limit, backwards) = (wanted.limit, wanted.backwards);
    let (mut found, mut left) = (Vec::new(), looked_at_max);
    let (mut found_bytes, mut bytes) = (0, 0);
    let (mut after, mut before) = (wanted.after, wanted.before);
    let mut searched = Searched {
        page: store::Page::default(),
        stopped_at: None,
    };
    'search: loop {
        if limit == 0 {
            break; // Only how many there are was asked for.
        }
        let part = store.log_page(
            owner,
            &PageQuery {
                after,
                before,
                limit: left.min(SEARCHED_AT_ONCE),
                ..wanted.clone()
            },
        )?;
        let is_last = part.complete;
        let mut entries = part.entries;
        if backwards {
            entries.reverse();
        }
        let end = entries.last().map(|entry| entry.seq);
        left = left.saturating_sub(entries.len());
        for entry in entries {
            bytes += entry.frame.len();
            let frame = Frame::parse(&*entry.frame);
            if frame.is_ok_and(|frame| has_words(&frame, words)) {
                if found.len() == limit || found_bytes > ARCHIVE_PAGE_BYTES {
                    break 'search;
                }
                found_bytes += entry.frame.len();
                found.push(entry);
            }
        }
        if is_last || end.is_none() {
            searched.page.complete = true;
            break;
        }
        match backwards {
            true => before = end,
            false => after = end,
        }
        if left == 0 || bytes >= ARCHIVE_SEARCHED_BYTES {
            searched.stopped_at = end;
            break;
        }
    }
    if backwards {
        found.reverse();
    }
    searched.page.entries = found;
    Ok(searched)
}

/// Whether all words are in what people read of a message.
fn has_words(frame: &Frame, words: &[String]) -> bool {
    if words.is_empty() {
        return true;
    }
    let mut text = String::new();
    for child in frame.children() {
        if matches!(child.name(), "body" | "subject") && child.ns() == xmpp::ns::CLIENT {
            text.push_str(&child.text().unwrap_or_default().to_lowercase());
            text.push('\n');
        }
    }
    words.iter().all(|word| text.contains(word.as_str()))
}

/// A page has a bound in bytes too: what is beyond it is left to the next one.
fn bounded(page: &mut store::Page, is_last: bool) -> usize {
    let mut bytes = 0;
    let mut fits = |entry: &LogEntry| {
        bytes += entry.frame.len();
        bytes <= ARCHIVE_PAGE_BYTES
    };
    let all = page.entries.len();
    let fitting = if is_last {
        page.entries
            .iter()
            .rev()
            .take_while(|entry| fits(entry))
            .count()
    } else {
        page.entries.iter().take_while(|entry| fits(entry)).count()
    };
    let kept = fitting.max(1).min(all);
    if kept < all {
        page.complete = false;
        if is_last {
            page.entries.drain(..all - kept);
        } else {
            page.entries.truncate(kept);
        }
    }
    kept
}

/// Whether a message is from or to a full address.
fn is_with(frame: &Frame, with: Option<&str>) -> bool {
    ["from", "to"]
        .iter()
        .any(|name| frame.attr(name).as_deref() == with)
}

fn metadata(view: &View<'_>, request: &Request<'_>) -> Outcome {
    if let Some(refusal) = refusal(request) {
        return refusal;
    }
    let owner = view.address().clone();
    Outcome::read(move |store| ends(store, &owner))
}

/// Where an archive begins and ends (XEP-0313 section 5).
pub(crate) fn ends(store: &Store, owner: &str) -> Result<Vec<u8>, StanzaError> {
    let found = store.log_metadata(owner);
    let found = found.map_err(|_| StanzaError::new(Condition::InternalServerError))?;
    Ok(mam::metadata(found.map(|ends| {
        [(ends.first, ends.first_at), (ends.last, ends.last_at)]
    })))
}

fn prefs(view: &View<'_>, request: &Request<'_>) -> Outcome {
    if let Some(refusal) = refusal(request) {
        return refusal;
    }
    let shown = |prefs: Option<&ArchivePrefs>| {
        let mut out = Vec::new();
        of_store(prefs).write(&mut out);
        Outcome::result(out)
    };
    if !request.is_set {
        return shown(view.archive_prefs());
    }
    match request.tree().and_then(|prefs| Prefs::parse(&prefs)) {
        Ok(prefs) => {
            let prefs = to_store(prefs);
            shown(Some(&prefs)).and(Change::ArchivePrefs(prefs))
        }
        Err(error) => error.into(),
    }
}

fn to_store(prefs: Prefs) -> ArchivePrefs {
    ArchivePrefs {
        default: match prefs.others {
            Others::Always => ArchiveDefault::Always,
            Others::Never => ArchiveDefault::Never,
            Others::Roster => ArchiveDefault::Roster,
        },
        always: prefs.always,
        never: prefs.never,
    }
}

fn of_store(prefs: Option<&ArchivePrefs>) -> Prefs {
    let prefs = prefs.cloned().unwrap_or_default();
    Prefs {
        others: match prefs.default {
            ArchiveDefault::Always => Others::Always,
            ArchiveDefault::Never => Others::Never,
            ArchiveDefault::Roster => Others::Roster,
        },
        always: prefs.always,
        never: prefs.never,
    }
}

/// Whether an account's preferences have a message from or to a bare address archived.
pub(crate) fn archives(prefs: &ArchivePrefs, peer: &str, is_contact: bool) -> bool {
    of_store(Some(prefs)).archives(peer, is_contact)
}

#[cfg(test)]
mod tests;
