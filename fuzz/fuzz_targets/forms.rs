//! Forms (XEP-0004) as clients submit them: any element, and configurations of rooms and nodes with
//! any values. What is understood is what the form says, within its bounds, and means the same
//! when it is written again.

#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use roost_fuzz::{is_text, stanza_of};
use xml::build::Writer;
use xml::{Frame, Framer, Scratch};
use xmpp::form::{Fields, Form, FormWriter, Submission};
use xmpp::limits::FORM_FIELDS_MAX;

const FORM_TYPE: &str = "urn:example:form";

#[derive(Debug, Arbitrary)]
enum Input<'a> {
    Element(&'a [u8]),
    Room(Vec<(u8, Vec<Value>)>),
    Node(bool, Vec<(u8, Vec<Value>)>),
}

#[derive(Debug, Arbitrary)]
enum Value {
    Flag(bool),
    Number(u32),
    Word(u8),
    Text(String),
}

/// Values that mean something somewhere.
const WORDS: [&str; 20] = [
    "max",
    "none",
    "open",
    "presence",
    "roster",
    "whitelist",
    "authorize",
    "publishers",
    "subscribers",
    "never",
    "on_sub_and_presence",
    "headline",
    "normal",
    "publisher",
    "anyone",
    "moderators",
    "participants",
    "moderator",
    "visitor",
    "alice@localhost/Phone",
];

impl Value {
    fn text(&self) -> String {
        match self {
            Value::Flag(flag) => if *flag { "1" } else { "0" }.to_owned(),
            Value::Number(number) => number.to_string(),
            Value::Word(at) => WORDS[usize::from(*at) % WORDS.len()].to_owned(),
            Value::Text(text) => text.chars().filter(|c| is_text(*c)).collect(),
        }
    }
}

fuzz_target!(|input: Input<'_>| {
    match &input {
        Input::Element(bytes) => {
            let (mut framer, mut scratch) = (Framer::new(), Scratch::default());
            let Some(stanza) = stanza_of(bytes, &mut framer, &mut scratch) else {
                return;
            };
            for child in stanza.children() {
                let x = Frame::parse(child.to_xml()).expect("a child is an element");
                if let Ok(Form::Submitted(form)) = Form::parse(&x, FORM_TYPE) {
                    is_read_back(&form);
                }
            }
        }
        Input::Room(values) => room(&fields(&room::Config::default().fields(), values)),
        Input::Node(is_account, values) => {
            let known = pubsub::Config::default().fields();
            node(*is_account, &fields(&known, values));
        }
    }
});

/// Fields that are known, with any values.
fn fields(known: &Fields, values: &[(u8, Vec<Value>)]) -> Fields {
    let names: Vec<&String> = known.keys().collect();
    let chosen = values.iter().map(|(at, values)| {
        let name = names[usize::from(*at) % names.len()].clone();
        (name, values.iter().map(Value::text).collect())
    });
    let fields: Fields = chosen.collect();
    if fields.len() < FORM_FIELDS_MAX {
        is_read_back(&Submission::of(fields.clone()));
    }
    fields
}

/// A submission is within its bounds, and is read from what it is written as.
fn is_read_back(form: &Submission) {
    let own: Vec<(&str, &[String])> = form.fields().collect();
    assert!(own.len() <= FORM_FIELDS_MAX);
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    let mut again = FormWriter::new(&mut writer, "submit", FORM_TYPE);
    for (name, values) in own.iter().filter(|(name, _)| *name != "FORM_TYPE") {
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        again.field((name, "", ""), &values, &[]);
        assert_eq!(form.one(name), values.first().copied());
    }
    again.close();
    let x = Frame::parse(out).expect("what is written is an element");
    let Ok(Form::Submitted(read)) = Form::parse(&x, FORM_TYPE) else {
        panic!("a submission is not read: {x:?}");
    };
    let without_type = |form: &Submission| {
        let fields = form.fields().filter(|(name, _)| *name != "FORM_TYPE");
        let owned = fields.map(|(name, values)| (name.to_owned(), values.to_vec()));
        owned.collect::<Vec<_>>()
    };
    assert_eq!(without_type(form), without_type(&read));
}

fn room(fields: &Fields) {
    let limits = room::RoomLimits::default();
    let Ok(config) = room::Config::of_fields(fields, &limits) else {
        return;
    };
    for text in [&config.name, &config.description, &config.password] {
        assert!(text.len() <= limits.text_bytes_max);
    }
    assert!(config.history_length <= limits.history_max);
    assert!(config.max_users <= limits.occupants_max);
    let again = room::Config::of_fields(&config.fields(), &limits);
    assert_eq!(again, Ok(config));
}

fn node(is_account: bool, fields: &Fields) {
    let options = match is_account {
        true => pubsub::Options::account(),
        false => pubsub::Options::default(),
    };
    let limits = &options.limits;
    let Ok(config) = pubsub::Config::of_fields(fields, &options) else {
        return;
    };
    assert!((1..=limits.items_per_node_max).contains(&config.items_max));
    assert!(config.payload_bytes_max <= limits.item_bytes_max);
    assert!(config.groups.len() <= limits.names_max && config.contacts.len() <= limits.names_max);
    let again = pubsub::Config::of_fields(&config.fields(), &options);
    assert_eq!(again, Ok(config));
}
