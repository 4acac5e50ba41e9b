//! The query of an archive, read from its element (XEP-0313 sections 4.1 to 4.4).

use minidom::Element;
use stdx::time::Timestamp;
use xmpp::addr;
use xmpp::error::{Condition, StanzaError};
use xmpp::ns::DATA_FORMS;

use super::{FULL_TEXT, NS, NS_RSM, PAGE_DEFAULT, PAGE_MAX, seq_of};

/// Bytes of a query's id, which is in each of its results.
const QUERY_ID_BYTES_MAX: usize = 256;

/// Bytes of a text that is searched for.
const TEXT_BYTES_MAX: usize = 256;

/// What is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query {
    /// What the results are to be labelled with.
    pub query_id: Option<String>,
    /// Which entries match.
    pub filter: Filter,
    /// Which of them are sent.
    pub page: Page,
    /// The page's last entry is sent first.
    pub is_flipped: bool,
}

/// Which entries match: all that every field allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    /// Not before this.
    pub start: Option<Timestamp>,
    /// Not after this.
    pub end: Option<Timestamp>,
    /// To or from this address, normalised. A bare one stands for all its resources.
    pub with: Option<String>,
    /// Behind this place, which must be in the archive.
    pub after: Option<u64>,
    /// In front of this place, which must be in the archive.
    pub before: Option<u64>,
    /// These places, which must be in the archive; empty for any.
    pub ids: Vec<u64>,
    /// All of these are in what people read of it (XEP-0431), in lower case; empty for any.
    pub words: Vec<String>,
}

/// Which part of what matches is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// How many, at most; zero if only their number is asked for.
    pub max: u16,
    /// Behind this place, which must be in the archive.
    pub after: Option<u64>,
    /// In front of this place, which must be in the archive.
    pub before: Option<u64>,
    /// The last of what is left, and not the first.
    pub is_last: bool,
}

impl Default for Page {
    fn default() -> Self {
        Page {
            max: PAGE_DEFAULT,
            after: None,
            before: None,
            is_last: false,
        }
    }
}

fn bad(text: &'static str) -> StanzaError {
    StanzaError::new(Condition::BadRequest).with_text(text)
}

/// An id that was never given out is in no archive.
fn place(id: &str) -> Result<u64, StanzaError> {
    seq_of(id).ok_or_else(|| StanzaError::new(Condition::ItemNotFound))
}

impl Query {
    /// Reads `<query/>`.
    ///
    /// # Errors
    /// `bad-request` for what is malformed, `jid-malformed` for an address that is none,
    /// `item-not-found` for an id that is none of ours, `feature-not-implemented` for a field or an
    /// index that is unknown here, `not-acceptable` for more than [`PAGE_MAX`] ids.
    pub(crate) fn parse(query: &Element) -> Result<Query, StanzaError> {
        let query_id = query.attr("queryid");
        if query_id.is_some_and(|id| id.len() > QUERY_ID_BYTES_MAX) {
            return Err(bad("The query's id is too long."));
        }
        if query.attr("node").is_some() {
            return Err(StanzaError::new(Condition::ItemNotFound));
        }
        let filter = match query.get_child("x", DATA_FORMS) {
            Some(form) => Filter::parse(form)?,
            None => Filter::default(),
        };
        let page = match query.get_child("set", NS_RSM) {
            Some(set) => Page::parse(set)?,
            None => Page::default(),
        };
        Ok(Query {
            query_id: query_id.map(str::to_owned),
            filter,
            page,
            is_flipped: query.has_child("flip-page", NS),
        })
    }

    /// Every place that has to be in the archive, or the answer is `item-not-found`.
    pub(crate) fn named(&self) -> impl Iterator<Item = u64> {
        let Query { filter, page, .. } = self;
        let bounds = [filter.after, filter.before, page.after, page.before];
        let ids = filter.ids.iter().copied();
        bounds.into_iter().flatten().chain(ids)
    }

    /// The places between which the page lies, both excluded.
    pub(crate) fn bounds(&self) -> (Option<u64>, Option<u64>) {
        let Query { filter, page, .. } = self;
        let before = [filter.before, page.before].into_iter().flatten().min();
        (filter.after.max(page.after), before)
    }
}

impl Filter {
    fn parse(form: &Element) -> Result<Filter, StanzaError> {
        if form.attr("type") != Some("submit") {
            return Err(bad("The form is not submitted."));
        }
        let mut filter = Filter::default();
        let mut seen: Vec<&str> = Vec::new();
        for field in form
            .children()
            .filter(|child| child.is("field", DATA_FORMS))
        {
            let name = field
                .attr("var")
                .ok_or_else(|| bad("A field has no name."))?;
            if seen.contains(&name) {
                return Err(bad("The form names a field twice."));
            }
            seen.push(name);
            filter.read(name, field)?;
        }
        if !seen.contains(&"FORM_TYPE") {
            return Err(bad("The form does not say what it is."));
        }
        Ok(filter)
    }

    fn read(&mut self, name: &str, field: &Element) -> Result<(), StanzaError> {
        if name == "ids" {
            self.ids = ids(field)?;
            return Ok(());
        }
        // A field that is left blank asks for nothing.
        let value = field.get_child("value", DATA_FORMS).map(Element::text);
        let Some(value) = value.filter(|value| !value.is_empty()) else {
            return Ok(());
        };
        let time = || value.parse().map_err(|_| bad("A time is malformed."));
        match name {
            "FORM_TYPE" if value == NS => {}
            "FORM_TYPE" => return Err(bad("The form is of another type.")),
            "start" => self.start = Some(time()?),
            "end" => self.end = Some(time()?),
            "with" => {
                let with = addr::normalize(&value);
                let with = with.map_err(|_| StanzaError::new(Condition::JidMalformed))?;
                self.with = Some(with.into_owned());
            }
            FULL_TEXT => self.words = words(&value)?,
            "after-id" => self.after = Some(place(&value)?),
            "before-id" => self.before = Some(place(&value)?),
            _ => return Err(StanzaError::new(Condition::FeatureNotImplemented)),
        }
        Ok(())
    }
}

/// The words of a text (XEP-0431 section 3.2 leaves to servers what they mean).
fn words(text: &str) -> Result<Vec<String>, StanzaError> {
    let words = text.split_whitespace();
    let words = words.filter(|word| word.chars().any(char::is_alphanumeric));
    let words: Vec<String> = words.map(str::to_lowercase).collect();
    if words.is_empty() || text.len() > TEXT_BYTES_MAX {
        let text = "A search is for words, 256 bytes at most.";
        return Err(StanzaError::new(Condition::NotAcceptable).with_text(text));
    }
    Ok(words)
}

fn ids(field: &Element) -> Result<Vec<u64>, StanzaError> {
    let values = field
        .children()
        .filter(|child| child.is("value", DATA_FORMS));
    let limit = usize::from(PAGE_MAX);
    let ids = values.take(limit + 1).map(|value| place(&value.text()));
    let mut ids: Vec<u64> = ids.collect::<Result<_, _>>()?;
    if ids.len() > limit {
        let error = StanzaError::new(Condition::NotAcceptable);
        return Err(error.with_text("At most 100 messages can be asked for by id."));
    }
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}

impl Page {
    /// XEP-0059. Asking for both ends is a range: what lies between, its last page.
    fn parse(set: &Element) -> Result<Page, StanzaError> {
        let mut page = Page::default();
        for child in set.children().filter(|child| child.ns() == NS_RSM) {
            let text = child.text();
            let text = text.trim();
            let id = (!text.is_empty()).then_some(text);
            match child.name() {
                "max" => {
                    let max: u32 = text.parse().map_err(|_| bad("The maximum is no number."))?;
                    page.max = u16::try_from(max).unwrap_or(u16::MAX).min(PAGE_MAX);
                }
                "after" => page.after = id.map(place).transpose()?,
                "before" => {
                    page.before = id.map(place).transpose()?;
                    page.is_last = true;
                }
                // Section 2.6: pages by number would have to be counted.
                "index" => return Err(StanzaError::new(Condition::FeatureNotImplemented)),
                _ => {}
            }
        }
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(content: &str) -> Result<Query, Condition> {
        let query = format!("<query xmlns='{NS}' queryid='f27'>{content}</query>");
        Query::parse(&query.parse().unwrap()).map_err(|error| error.condition)
    }

    fn form(fields: &str) -> Result<Filter, Condition> {
        let form = format!(
            "<x xmlns='jabber:x:data' type='submit'>\
             <field var='FORM_TYPE' type='hidden'><value>{NS}</value></field>{fields}</x>"
        );
        parse(&form).map(|query| query.filter)
    }

    fn set(content: &str) -> Result<Page, Condition> {
        let set = format!("<set xmlns='{NS_RSM}'>{content}</set>");
        parse(&set).map(|query| query.page)
    }

    fn field(name: &str, values: &[&str]) -> String {
        let values: String = values
            .iter()
            .map(|v| format!("<value>{v}</value>"))
            .collect();
        format!("<field var='{name}'>{values}</field>")
    }

    const ID: &str = "000000000000002a";

    #[test]
    fn a_bare_query_asks_for_everything() {
        let query = parse("").unwrap();
        let expected = Query {
            query_id: Some("f27".to_owned()),
            ..Query::default()
        };
        assert_eq!(query, expected);
        assert_eq!((query.page.max, query.bounds()), (50, (None, None)));
        assert!(parse("<flip-page/>").unwrap().is_flipped);
    }

    #[test]
    fn a_form_is_read() {
        let fields = [
            field("start", &["2010-06-07T00:00:00Z"]),
            field("end", &["2010-07-07T15:23:54.123+02:00"]),
            field("with", &["Juliet@Capulet.lit/Balcony"]),
            field("after-id", &["0000000000000001"]),
            field("before-id", &["00000000000000ff"]),
            field("ids", &[ID, "0000000000000002", ID]),
            field(FULL_TEXT, &[" Wherefore  ART - "]),
        ];
        let expected = Filter {
            start: Some("2010-06-07T00:00:00Z".parse().unwrap()),
            end: Some("2010-07-07T13:23:54.123Z".parse().unwrap()),
            with: Some("juliet@capulet.lit/Balcony".to_owned()),
            after: Some(1),
            before: Some(255),
            ids: vec![2, 42],
            words: vec!["wherefore".to_owned(), "art".to_owned()],
        };
        assert_eq!(form(&fields.concat()), Ok(expected));
    }

    #[test]
    fn a_field_left_blank_asks_for_nothing() {
        let fields = [
            "start",
            "end",
            "with",
            "after-id",
            "before-id",
            "ids",
            FULL_TEXT,
        ];
        for name in fields {
            let blank = format!("<field var='{name}'/>");
            assert_eq!(form(&blank), Ok(Filter::default()), "{name}");
        }
        assert_eq!(form(&field("with", &[""])), Ok(Filter::default()));
    }

    #[test]
    fn a_form_that_means_nothing_is_refused() {
        use Condition::{
            BadRequest, FeatureNotImplemented, ItemNotFound, JidMalformed, NotAcceptable,
        };
        for (fields, condition) in [
            (field("start", &["yesterday"]), BadRequest),
            (field("end", &["2010-13-07T00:00:00Z"]), BadRequest),
            (field("with", &["a@b@c"]), JidMalformed),
            (field("after-id", &["28482-98726-73623"]), ItemNotFound),
            (field("before-id", &["1"]), ItemNotFound),
            (field("ids", &[ID, "1"]), ItemNotFound),
            (field("ids", &[ID; 101]), NotAcceptable),
            (field(FULL_TEXT, &["?!"]), NotAcceptable),
            (field(FULL_TEXT, &[&"x".repeat(257)]), NotAcceptable),
            (field("include-groupchat", &["true"]), FeatureNotImplemented),
            (field("with", &["a@b"]).repeat(2), BadRequest),
            (field("FORM_TYPE", &[NS]), BadRequest),
            ("<field/>".to_owned(), BadRequest),
        ] {
            assert_eq!(form(&fields), Err(condition), "{fields}");
        }
        for content in [
            "<x xmlns='jabber:x:data' type='submit'/>",
            "<x xmlns='jabber:x:data' type='cancel'/>",
            "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>urn:example\
             </value></field></x>",
        ] {
            assert_eq!(parse(content), Err(BadRequest), "{content}");
        }
        let of_a_node = format!("<query xmlns='{NS}' node='n'/>").parse().unwrap();
        assert_eq!(
            Query::parse(&of_a_node).unwrap_err().condition,
            ItemNotFound
        );
        let long = "x".repeat(QUERY_ID_BYTES_MAX + 1);
        let labelled = format!("<query xmlns='{NS}' queryid='{long}'/>")
            .parse()
            .unwrap();
        assert_eq!(Query::parse(&labelled).unwrap_err().condition, BadRequest);
    }

    #[test]
    fn pages_are_bounded() {
        let max = |text: &str| set(&format!("<max>{text}</max>")).map(|page| page.max);
        assert_eq!(max("10"), Ok(10));
        assert_eq!(max(" 0 "), Ok(0));
        assert_eq!(max("101"), Ok(100));
        assert_eq!(max("4294967295"), Ok(100));
        for text in ["", "-1", "many", "4294967296"] {
            assert_eq!(max(text), Err(Condition::BadRequest), "{text}");
        }
    }

    #[test]
    fn pages_go_both_ways() {
        let page = Page::default();
        assert_eq!(set(""), Ok(page));
        let (after, before, is_last) = (Some(42), Some(42), true);
        assert_eq!(
            set(&format!("<after>{ID}</after>")),
            Ok(Page { after, ..page })
        );
        assert_eq!(set("<before/>"), Ok(Page { is_last, ..page }));
        assert_eq!(
            set(&format!("<before>{ID}</before>")),
            Ok(Page {
                before,
                is_last,
                ..page
            })
        );
        assert_eq!(set("<after>1</after>"), Err(Condition::ItemNotFound));
        assert_eq!(
            set("<index>3</index>"),
            Err(Condition::FeatureNotImplemented)
        );
    }

    #[test]
    fn a_page_lies_within_what_the_form_allows() {
        let query = |after, before, page_after, page_before| Query {
            filter: Filter {
                after,
                before,
                ids: vec![7],
                ..Filter::default()
            },
            page: Page {
                after: page_after,
                before: page_before,
                ..Page::default()
            },
            ..Query::default()
        };
        let both = query(Some(3), Some(90), Some(10), Some(20));
        assert_eq!(both.bounds(), (Some(10), Some(20)));
        let form = query(Some(3), Some(90), None, None);
        assert_eq!(form.bounds(), (Some(3), Some(90)));
        let page = query(None, None, Some(1), None);
        assert_eq!(page.bounds(), (Some(1), None));
        assert_eq!(both.named().collect::<Vec<_>>(), [3, 90, 10, 20, 7]);
    }
}
