//! XEP-0055 Jabber Search 1.3 with XEP-0059 result sets: accounts that want to be found. Who wants
//! to enters himself, by registering with the directory (XEP-0077), and says what is shown; nobody
//! else is told of. Owns the forms, what matches and what is told; entries are the store's.

use std::collections::BTreeMap;

use actor::{Context, Mail};
use store::limits::DIRECTORY_FIELD_BYTES_MAX;
use store::{DirectoryEntry, Store, StoreError};
use telemetry::Counter;
use xml::build::Writer;
use xml::{Child, Frame};
use xmpp::error::{Condition, StanzaError};
use xmpp::form::{Form, FormWriter};
use xmpp::ns::DATA_FORMS;
use xmpp::rsm;

use super::Said;
use crate::address;
use crate::home::Home;
use crate::iq::{Answer, Job};
use crate::message::UserMsg;
use crate::modules::register;

pub(super) const NS: &str = "jabber:iq:search";

/// The fields of XEP-0055 section 2.1, in the order of [`DirectoryEntry::fields`].
const FIELDS: [(&str, &str); 4] = [
    ("first", "Given name"),
    ("last", "Family name"),
    ("nick", "Nickname"),
    ("email", "Email"),
];

/// Bytes of each word that is searched for: fewer would find everybody.
const WORD_BYTES_MIN: usize = 2;

const TO_SEARCH: &str = "Fill in one or more fields. What is found begins with each word.";
const TO_ENTER: &str = "What you fill in here is shown to all users of this server who search for \
                        it. Leave empty what you do not want to show.";

/// Answers a search, or what an account wants to have shown of itself.
pub(super) fn answer(
    (home, account): (&Home, &str),
    to: &str,
    (payload, is_set): (&Child<'_>, bool),
    cx: &mut Context<'_, UserMsg>,
) -> Said {
    // A domain is searched by its own accounts: another one's are somebody else's users.
    let domain = to.split_once('.').map_or("", |(_, domain)| domain);
    if address::domain(account) != domain {
        return Said::error(Condition::Forbidden);
    }
    let is_registration = payload.ns() == register::NS;
    let Ok(query) = Frame::parse(payload.to_xml()) else {
        return Said::error(Condition::BadRequest);
    };
    match (is_registration, is_set) {
        (true, false) => {
            let account = account.to_owned();
            let job = move |store: &Store| {
                let shown = shown(store, &account).map_err(failed)?;
                Ok((Vec::new(), shown))
            };
            Job::new(job).into()
        }
        (true, true) => match entry(&query) {
            Ok(entry) => Said::Enter(entry),
            Err(error) => Answer::Error(error).into(),
        },
        (false, false) => Answer::Result(form(NS, (false, TO_SEARCH), &Default::default())).into(),
        (false, true) => match Wanted::parse(&query) {
            Ok(wanted) => search((home, account), domain, wanted, cx),
            Err(error) => Answer::Error(error).into(),
        },
    }
}

fn failed(_: StoreError) -> StanzaError {
    StanzaError::new(Condition::InternalServerError)
}

fn refused(condition: Condition, text: &'static str) -> StanzaError {
    StanzaError::new(condition).with_text(text)
}

/// The fields of a request, and whether they came in a form (XEP-0055 section 3, XEP-0077 section
/// 4).
struct Fields {
    values: BTreeMap<&'static str, String>,
    has_form: bool,
}

impl Fields {
    /// # Errors
    /// `bad-request` for what is neither fields nor a form, `not-acceptable` for a value that is
    /// too long or not of one line.
    fn parse(query: &Frame) -> Result<Fields, StanzaError> {
        let bad = |_| StanzaError::new(Condition::BadRequest);
        let mut values = BTreeMap::new();
        let has_form = match query.child("x", DATA_FORMS) {
            Some(x) => {
                let x = Frame::parse(x.to_xml()).map_err(bad)?;
                let form = Form::parse(&x, query.ns()).map_err(StanzaError::new)?;
                let Form::Submitted(form) = form else {
                    return Err(StanzaError::new(Condition::BadRequest));
                };
                for (name, _) in FIELDS {
                    values.insert(name, form.one(name).unwrap_or_default().trim().to_owned());
                }
                true
            }
            None => {
                for (name, _) in FIELDS {
                    let text = query.child(name, query.ns()).map(|field| {
                        let text = field.text().map(|text| text.trim().to_owned());
                        text.ok_or_else(|| StanzaError::new(Condition::BadRequest))
                    });
                    values.insert(name, text.transpose()?.unwrap_or_default());
                }
                false
            }
        };
        let is_bad = |c: char| c.is_control() || crate::guard::is_directional(c);
        let is_refused =
            |value: &String| value.len() > DIRECTORY_FIELD_BYTES_MAX || value.contains(is_bad);
        if values.values().any(is_refused) {
            let text = "A field has one line of at most 256 bytes.";
            return Err(refused(Condition::NotAcceptable, text));
        }
        Ok(Fields { values, has_form })
    }

    fn take(&mut self, name: &str) -> String {
        self.values.remove(name).unwrap_or_default()
    }
}

/// What somebody who registers wants to have shown; nothing if he wants to be taken out.
fn entry(query: &Frame) -> Result<DirectoryEntry, StanzaError> {
    if query.child("remove", register::NS).is_some() {
        return match query.children().count() {
            1 => Ok(DirectoryEntry::default()),
            _ => Err(StanzaError::new(Condition::BadRequest)),
        };
    }
    let mut fields = Fields::parse(query)?;
    let entry = DirectoryEntry {
        first: fields.take("first"),
        last: fields.take("last"),
        nick: fields.take("nick"),
        email: fields.take("email"),
    };
    match entry.is_empty() {
        true => Err(refused(
            Condition::NotAcceptable,
            "Fill in at least one field.",
        )),
        false => Ok(entry),
    }
}

/// What an account is shown of its own entry. One that is not in the directory is offered what its
/// vCard says: nothing of that is shown to others before it is sent back.
fn shown(store: &Store, account: &str) -> Result<Vec<u8>, StoreError> {
    if let Some(entry) = store.directory_entry(account)? {
        return Ok(form(register::NS, (true, TO_ENTER), &entry));
    }
    let card = store
        .vcard(account)?
        .and_then(|card| Frame::parse(card).ok());
    let offered = card.map(|card| of_card(&card)).unwrap_or_default();
    Ok(form(register::NS, (false, TO_ENTER), &offered))
}

fn of_card(card: &Frame) -> DirectoryEntry {
    let of = |parent: &str, name: &str| {
        let parent = card.children().find(|child| child.name() == parent)?;
        let text = match name {
            "" => parent.text()?.trim().to_owned(),
            name => {
                let mut fields = parent.children();
                let field = fields.find(|child| child.name() == name)?;
                field.text()?.trim().to_owned()
            }
        };
        (text.len() <= DIRECTORY_FIELD_BYTES_MAX).then_some(text)
    };
    DirectoryEntry {
        first: of("N", "GIVEN").unwrap_or_default(),
        last: of("N", "FAMILY").unwrap_or_default(),
        nick: of("NICKNAME", "").unwrap_or_default(),
        email: of("EMAIL", "USERID").unwrap_or_default(),
    }
}

/// The fields, as elements and as a form, with the values of an entry.
fn form(ns: &str, (is_registered, text): (bool, &str), entry: &DirectoryEntry) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    writer.open("query").attr("xmlns", ns);
    if is_registered {
        writer.open("registered").close();
    }
    writer.open("instructions").text(text).close();
    let fields = || FIELDS.iter().zip(entry.fields());
    for ((name, _), value) in fields() {
        writer.open(name);
        if !value.is_empty() {
            writer.text(value);
        }
        writer.close();
    }
    let mut form = FormWriter::new(&mut writer, "form", ns);
    for ((name, label), value) in fields() {
        let field = (*name, "text-single", *label);
        form.field(
            field,
            if value.is_empty() {
                &[]
            } else {
                std::slice::from_ref(&value)
            },
            &[],
        );
    }
    form.close();
    writer.close();
    out
}

/// Whom a search is for: the words of each field, in lower case.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    words: [Vec<String>; 4],
    has_form: bool,
    /// Which of those who are found.
    set: Option<rsm::Set>,
}

impl Wanted {
    fn parse(query: &Frame) -> Result<Wanted, StanzaError> {
        let mut fields = Fields::parse(query)?;
        let words = FIELDS.map(|(name, _)| words(&fields.take(name)));
        let mut all = words.iter().flatten().peekable();
        let is_wide = all.peek().is_none() || all.any(|word| word.len() < WORD_BYTES_MIN);
        if is_wide {
            let text = "Search for words of at least two letters.";
            return Err(refused(Condition::NotAcceptable, text));
        }
        let set = query.child("set", rsm::NS).map(|set| set.to_xml());
        let set = set.map(Frame::parse).transpose();
        let set = set.map_err(|_| StanzaError::new(Condition::BadRequest))?;
        Ok(Wanted {
            words,
            has_form: fields.has_form,
            set: rsm::Set::find(set.as_slice()).map_err(StanzaError::new)?,
        })
    }

    fn is_met(&self, entry: &DirectoryEntry) -> bool {
        let mut fields = self.words.iter().zip(entry.fields());
        fields.all(|(words, field)| {
            let field = field.to_lowercase();
            words.iter().all(|word| has_word(&field, word))
        })
    }
}

/// The words of a field; many clients put asterisks around what may be a part.
fn words(text: &str) -> Vec<String> {
    let words = text.split_whitespace().map(|word| word.trim_matches('*'));
    let words = words.filter(|word| word.chars().any(char::is_alphanumeric));
    words.map(str::to_lowercase).collect()
}

/// Whether a field, or a word in it, begins so.
fn has_word(field: &str, word: &str) -> bool {
    let mut is_start = true;
    field.char_indices().any(|(at, c)| {
        let was_start = std::mem::replace(&mut is_start, !c.is_alphanumeric());
        was_start && field[at..].starts_with(word)
    })
}

/// What is found of one account.
type Hit = (String, DirectoryEntry);

fn search(
    (home, account): (&Home, &str),
    domain: &str,
    wanted: Wanted,
    cx: &mut Context<'_, UserMsg>,
) -> Said {
    let options = &home.options.directory;
    let max = (options.searches_per_minute, options.searchers_max);
    if !home.searches.borrow_mut().admits(account, cx.now(), max) {
        cx.stats().count(Counter::QuestionsRefused);
        home.brake(&actor::Name::from(account), cx.now());
        let text = "Too many searches; try again in a minute.";
        return Answer::Error(refused(Condition::ResourceConstraint, text)).into();
    }
    let domain = domain.to_owned();
    let max = (options.results_max, options.looked_at_max);
    Job::new(move |store| {
        let hits = find(store, &wanted, &domain, max).map_err(failed)?;
        Ok((Vec::new(), results(&hits, &wanted)?))
    })
    .into()
}

/// The first accounts that are found, in the order of the directory, which nobody chooses.
fn find(
    store: &Store,
    wanted: &Wanted,
    domain: &str,
    (results_max, looked_at_max): (usize, usize),
) -> Result<Vec<Hit>, StoreError> {
    let (mut hits, mut looked_at) = (Vec::new(), 0);
    if results_max > 0 {
        store.visit_directory(|user, entry| {
            looked_at += 1;
            if address::domain(user) == domain && wanted.is_met(entry) {
                hits.push((user.to_owned(), entry.clone()));
            }
            hits.len() < results_max && looked_at < looked_at_max
        })?;
    }
    Ok(hits)
}

/// Those of the hits that are asked for. However they are paged, there are no more.
fn results(hits: &[Hit], wanted: &Wanted) -> Result<Vec<u8>, StanzaError> {
    let keys = (hits.len(), |at: usize| hits[at].0.as_str());
    let page = rsm::page(keys, wanted.set.as_ref(), (usize::MAX, u64::MAX), |_| 0);
    let page = page.map_err(StanzaError::new)?;
    let hits = &hits[page.range.clone()];
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    writer.open("query").attr("xmlns", NS);
    if !wanted.has_form {
        for (user, entry) in hits {
            writer.open("item").attr("jid", user);
            for ((name, _), value) in FIELDS.iter().zip(entry.fields()) {
                writer.open(name).text(value).close();
            }
            writer.close();
        }
    } else {
        result_form(&mut writer, hits);
    }
    page.write(&mut writer);
    writer.close();
    Ok(out)
}

/// XEP-0055 section 3, with the table of XEP-0004 section 3.4.
fn result_form(writer: &mut Writer<'_>, hits: &[Hit]) {
    writer
        .open("x")
        .attr("xmlns", DATA_FORMS)
        .attr("type", "result");
    writer
        .open("field")
        .attr("var", "FORM_TYPE")
        .attr("type", "hidden");
    writer.open("value").text(NS).close().close();
    let columns = || {
        std::iter::once(("jid", "Address", "jid-single"))
            .chain(FIELDS.map(|(name, label)| (name, label, "text-single")))
    };
    writer.open("reported");
    for (name, label, kind) in columns() {
        writer.open("field").attr("var", name).attr("label", label);
        writer.attr("type", kind).close();
    }
    writer.close();
    for (user, entry) in hits {
        writer.open("item");
        let values = std::iter::once(user.as_str()).chain(entry.fields());
        for ((name, ..), value) in columns().zip(values) {
            writer.open("field").attr("var", name);
            writer.open("value").text(value).close().close();
        }
        writer.close();
    }
    writer.close();
}

#[cfg(test)]
mod tests;
