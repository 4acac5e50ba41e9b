//! Queries of an archive, as forms that may hold anything and as elements that may be anything:
//! what is understood is within its bounds and says what the form said.

#![no_main]

use id::{id_of, seq_of};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use minidom::Element;
use roost_fuzz::{is_text, stanza_of};
use xml::build::Writer;
use xml::{Framer, Scratch};
use xmpp::addr;

#[allow(dead_code)]
#[path = "../../crates/server/src/modules/stanza_ids/id.rs"]
mod id;
/// The server's own file, for it is not to be seen from outside.
#[allow(dead_code)]
#[path = "../../crates/server/src/modules/mam/query.rs"]
mod query;

// What `query` expects above it.
const NS: &str = "urn:xmpp:mam:2";
const NS_RSM: &str = "http://jabber.org/protocol/rsm";
const FULL_TEXT: &str = "{urn:xmpp:fulltext:0}fulltext";
const PAGE_MAX: u16 = 100;
const PAGE_DEFAULT: u16 = 50;

#[derive(Debug, Arbitrary)]
enum Input<'a> {
    Element(&'a [u8]),
    Form(Vec<(Field, Vec<Value>)>, Vec<(Set, Value)>),
}

#[derive(Clone, Copy, Debug, Arbitrary)]
enum Field {
    Start,
    End,
    With,
    After,
    Before,
    Ids,
    Words,
    Unknown,
}

#[derive(Clone, Copy, Debug, Arbitrary)]
enum Set {
    Max,
    After,
    Before,
    Index,
}

#[derive(Clone, Debug, Arbitrary)]
enum Value {
    Id(u64),
    Number(u32),
    Text(String),
}

impl Value {
    fn text(&self) -> String {
        match self {
            Value::Id(seq) => id_of(*seq),
            Value::Number(number) => number.to_string(),
            Value::Text(text) => text.chars().filter(|c| is_text(*c)).collect(),
        }
    }
}

fuzz_target!(|input: Input<'_>| {
    let xml = match &input {
        Input::Element(bytes) => {
            let (mut framer, mut scratch) = (Framer::new(), Scratch::default());
            let Some(element) = stanza_of(bytes, &mut framer, &mut scratch) else {
                return;
            };
            let Some(child) = element.children().next() else {
                return;
            };
            child.to_xml()
        }
        Input::Form(fields, set) => write(fields, set),
    };
    let Ok(element) = xml.parse::<Element>() else {
        return;
    };
    let Ok(query) = query::Query::parse(&element) else {
        return;
    };
    check(&query);
    if let Input::Form(fields, _) = &input {
        let values = fields.iter().flat_map(|(_, values)| values);
        let texts: Vec<String> = values.map(Value::text).collect();
        for seq in &query.filter.ids {
            assert!(texts.contains(&id_of(*seq)), "an id that nobody named");
        }
    }
});

fn write(fields: &[(Field, Vec<Value>)], set: &[(Set, Value)]) -> String {
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    writer.open("query").attr("xmlns", NS);
    writer
        .open("x")
        .attr("xmlns", "jabber:x:data")
        .attr("type", "submit");
    writer.open("field").attr("var", "FORM_TYPE");
    writer.open("value").text(NS).close().close();
    for (field, values) in fields.iter().take(8) {
        writer.open("field").attr(
            "var",
            match field {
                Field::Start => "start",
                Field::End => "end",
                Field::With => "with",
                Field::After => "after-id",
                Field::Before => "before-id",
                Field::Ids => "ids",
                Field::Words => FULL_TEXT,
                Field::Unknown => "unknown",
            },
        );
        for value in values.iter().take(200) {
            writer.open("value").text(&value.text()).close();
        }
        writer.close();
    }
    writer.close();
    writer.open("set").attr("xmlns", NS_RSM);
    for (name, value) in set.iter().take(8) {
        writer.open(match name {
            Set::Max => "max",
            Set::After => "after",
            Set::Before => "before",
            Set::Index => "index",
        });
        writer.text(&value.text()).close();
    }
    writer.close().close();
    String::from_utf8(out).expect("text")
}

fn check(query: &query::Query) {
    assert!(query.page.max <= PAGE_MAX);
    assert!(query.filter.ids.len() <= usize::from(PAGE_MAX));
    assert!(query.filter.ids.is_sorted_by(|a, b| a < b));
    if let Some(with) = &query.filter.with {
        assert_eq!(addr::normalize(with).as_deref(), Ok(&**with));
    }
    for seq in query.named() {
        assert_eq!(seq_of(&id_of(seq)), Some(seq));
    }
    let (after, before) = query.bounds();
    assert!(query.filter.after <= after && query.page.after <= after);
    for bound in [query.filter.before, query.page.before]
        .into_iter()
        .flatten()
    {
        assert!(before.is_some_and(|before| before <= bound));
    }
}
