//! XEP-0313 Message Archive Management 1.1.1 with XEP-0059 Result Set Management 1.0, and XEP-0441
//! preferences 0.2: what is asked, read into plain values, and what is answered, as bytes. Ids are
//! places in the log (`stanza_ids.rs`). Which entries match and who may ask is decided elsewhere.

mod prefs;
mod query;
mod result;

use super::carbons::self_contained;
use super::stanza_ids::{id_of, seq_of};

pub(crate) use prefs::{Others, Prefs};
pub(crate) use query::Query;
pub(crate) use result::{Fin, form, metadata, write_fin, write_result, write_result_in};

/// Queries, results, preferences, and the disco feature.
pub(crate) const NS: &str = "urn:xmpp:mam:2";

/// The disco feature of ids in queries, of flipped pages and of metadata.
pub(crate) const NS_EXTENDED: &str = "urn:xmpp:mam:2#extended";

/// XEP-0431 Full Text Search in MAM 0.2.0: the disco feature.
pub(crate) const NS_FULL_TEXT: &str = "urn:xmpp:fulltext:0";

/// The same: the field of a query.
const FULL_TEXT: &str = "{urn:xmpp:fulltext:0}fulltext";

const NS_RSM: &str = "http://jabber.org/protocol/rsm";

/// Results of one query, at most.
pub(crate) const PAGE_MAX: u16 = 100;

/// Results of a query that does not say how many.
pub(crate) const PAGE_DEFAULT: u16 = 50;
