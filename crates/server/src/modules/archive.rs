//! XEP-0313 Message Archive Management 1.1.3 with XEP-0059 Result Set Management 1.0: an account
//! reads its own archive, page by page, and says what is archived. The protocol's forms are in
//! `mam.rs`, the archive is the user's log.

use actor::Context;
use store::{ArchiveDefault, ArchivePrefs, EntryFlags, LogEntry, PageQuery, Record, Store};
use xml::Frame;
use xmpp::error::{Condition, StanzaError};

use super::mam::{self, Fin, NS, NS_EXTENDED, Others, Prefs, Query};
use super::{Module, Xep, stanza_ids};
use crate::iq::{Answer, Found, Request};
use crate::limits::ARCHIVE_PAGE_BYTES;
use crate::message::UserMsg;
use crate::options::Options;
use crate::user::User;

pub(super) const MODULE: Module = Module {
    xeps: &[
        Xep {
            number: 59,
            name: "Result Set Management",
            version: "1.0",
            note: "In queries of archives, of nodes and items, and forwards in the list of rooms.",
        },
        Xep {
            number: 313,
            name: "Message Archive Management",
            version: "1.1.3",
            note: "Of one's own account: by time, address, id; pages of at most 100, flipped \
                   pages, metadata, preferences. Of rooms: by time and id.",
        },
        Xep {
            number: 359,
            name: "Unique and Stable Stanza IDs",
            version: "0.7.0",
            note: "The same id in delivery, resending, carbons and the archive.",
        },
    ],
    host_features: &[],
    account_features: &[NS, NS_EXTENDED, xmpp::ns::STANZA_ID],
    account: &[
        ("query", NS, query),
        ("prefs", NS, prefs),
        ("metadata", NS, metadata),
    ],
    host: &[],
};

/// Whether a feature is not to be announced because there is no archive.
pub(crate) fn is_off(feature: &str, options: &Options) -> bool {
    !options.archive.enabled && feature.starts_with(NS)
}

fn refusal(user: &User, request: &Request<'_>) -> Option<Answer> {
    if !user.home.options.archive.enabled {
        return Some(Answer::error(Condition::ServiceUnavailable));
    }
    (!request.asker.is_owner()).then(|| Answer::error(Condition::Forbidden))
}

fn query(user: &mut User, request: &Request<'_>, cx: &mut Context<'_, UserMsg>) -> Answer {
    if let Some(refusal) = refusal(user, request) {
        return refusal;
    }
    if !request.is_set {
        return Answer::Result(mam::form());
    }
    let query = match request.tree().and_then(|query| Query::parse(&query)) {
        Ok(query) => query,
        Err(error) => return error.into(),
    };
    let asker = request.frame.attr("from").unwrap_or_default().into_owned();
    let owner = user.name.clone();
    user.ask_store_for(request, cx, move |store| {
        page(store, (&owner, &asker), &query, Of::Account)
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

/// A page of results and its end.
pub(crate) fn page(
    store: &Store,
    (owner, asker): (&str, &str),
    query: &Query,
    of: Of,
) -> Result<Found, StanzaError> {
    let failed = |_| StanzaError::new(Condition::InternalServerError);
    let named: Vec<u64> = query.named().collect();
    if !named.is_empty() {
        let found = store.log_entries(owner, &named).map_err(failed)?;
        let found = found
            .iter()
            .filter(|entry| entry.flags.has(EntryFlags::ARCHIVED));
        let mut found: Vec<u64> = found.map(|entry| entry.seq).collect();
        found.dedup();
        if !named.iter().all(|seq| found.contains(seq)) {
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
        store.log_page(owner, &wanted).map_err(failed)?
    } else {
        let mut ids = filter.ids.clone();
        ids.sort_unstable();
        store::Page {
            entries: store.log_entries(owner, &ids).map_err(failed)?,
            complete: true,
            count: Some(ids.len() as u64),
        }
    };
    let size = bounded(&mut found, query.page.is_last);
    let ends = found.first().zip(found.last());
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
        if resource && !is_with(&frame, filter.with.as_deref()) {
            continue;
        }
        let frame = stanza_ids::without_claims(frame, owner);
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

fn metadata(user: &mut User, request: &Request<'_>, cx: &mut Context<'_, UserMsg>) -> Answer {
    if let Some(refusal) = refusal(user, request) {
        return refusal;
    }
    let owner = user.name.clone();
    user.ask_store(request, cx, move |store| {
        let found = store.log_metadata(&owner);
        let found = found.map_err(|_| StanzaError::new(Condition::InternalServerError))?;
        Ok(mam::metadata(found.map(|ends| {
            [(ends.first, ends.first_at), (ends.last, ends.last_at)]
        })))
    })
}

fn prefs(user: &mut User, request: &Request<'_>, _cx: &mut Context<'_, UserMsg>) -> Answer {
    if let Some(refusal) = refusal(user, request) {
        return refusal;
    }
    if request.is_set {
        let prefs = match request.tree().and_then(|prefs| Prefs::parse(&prefs)) {
            Ok(prefs) => to_store(prefs),
            Err(error) => return error.into(),
        };
        user.record(Record::ArchivePrefsPut {
            user: String::from(&*user.name),
            prefs: prefs.clone(),
        });
        user.archive_prefs = (prefs != ArchivePrefs::default()).then(|| Box::new(prefs));
    }
    let mut out = Vec::new();
    of_store(user.archive_prefs.as_deref()).write(&mut out);
    Answer::Result(out)
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

impl User {
    /// Whether a message from or to a bare address is archived.
    pub(crate) fn archives(&self, peer: &str) -> bool {
        if !self.home.options.archive.enabled {
            return false;
        }
        match &self.archive_prefs {
            None => true,
            Some(prefs) => of_store(Some(prefs)).archives(peer, self.roster.find(peer).is_some()),
        }
    }
}
