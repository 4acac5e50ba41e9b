//! The configuration of a node (XEP-0060 sections 8.2 and 16.4.4): every field, how it is shown and
//! how it is read.

use serde::{Deserialize, Serialize};
use xml::Frame;
use xml::build::Writer;
use xmpp::addr;
use xmpp::error::Condition;
use xmpp::form::{self, Fields, FormWriter, Submission, flag};

use crate::access::{AccessModel, PublishModel, SendLast};
use crate::error::Refusal;
use crate::limits::PubsubLimits;
use crate::options::Options;

pub(crate) const FORM_TYPE: &str = "http://jabber.org/protocol/pubsub#node_config";

/// How a node behaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// Its name for people.
    pub title: String,
    /// What it is for.
    pub description: String,
    /// The language of its items, empty if it has none.
    pub language: String,
    /// The namespace of its payloads, empty for any.
    pub payload_type: String,
    /// Whom to ask about it.
    pub contacts: Vec<String>,
    /// Subscribers are told of what is published.
    pub notifies: bool,
    /// They get the payload with it.
    pub delivers_payloads: bool,
    /// They are told of a new configuration.
    pub notifies_config: bool,
    /// They are told that the node is deleted.
    pub notifies_delete: bool,
    /// They are told of items that are removed, whoever removes them asks for it or not.
    pub notifies_retract: bool,
    /// Owners are told who subscribes and who no longer does.
    pub notifies_sub: bool,
    /// Items are kept.
    pub keeps_items: bool,
    /// How many of them.
    pub items_max: u32,
    /// For how many seconds; zero for ever.
    pub item_expire_seconds: u32,
    /// It can be subscribed to.
    pub takes_subscriptions: bool,
    /// Who may subscribe and retrieve.
    pub access: AccessModel,
    /// Whose groups may, if a roster decides.
    pub groups: Vec<String>,
    /// Who may publish.
    pub publish: PublishModel,
    /// Bytes of a payload; zero for what the service allows.
    pub payload_bytes_max: u32,
    /// When the last item is sent without being asked for.
    pub send_last: SendLast,
    /// Notifications are messages of type `headline`, which are not stored for who is offline.
    pub is_headline: bool,
    /// Items name who published them.
    pub names_publisher: bool,
}

impl Default for Config {
    /// Of a service with a name of its own.
    fn default() -> Self {
        Config {
            title: String::new(),
            description: String::new(),
            language: String::new(),
            payload_type: String::new(),
            contacts: Vec::new(),
            notifies: true,
            delivers_payloads: true,
            notifies_config: false,
            notifies_delete: true,
            notifies_retract: false,
            notifies_sub: false,
            keeps_items: true,
            items_max: 10,
            item_expire_seconds: 0,
            takes_subscriptions: true,
            access: AccessModel::Open,
            groups: Vec::new(),
            publish: PublishModel::Publishers,
            payload_bytes_max: 0,
            send_last: SendLast::OnSub,
            is_headline: true,
            names_publisher: false,
        }
    }
}

const ACCESS: &[(&str, &str)] = &[
    ("Those whom an owner approves", "authorize"),
    ("Everybody", "open"),
    ("Those who see the owner's presence", "presence"),
    ("Those in groups of the owner's roster", "roster"),
    ("Members only", "whitelist"),
];
const PUBLISH: &[(&str, &str)] = &[
    ("Publishers", "publishers"),
    ("Subscribers", "subscribers"),
    ("Everybody", "open"),
];
const LAST: &[(&str, &str)] = &[
    ("Never", "never"),
    ("To those who subscribe", "on_sub"),
    ("To those who come online too", "on_sub_and_presence"),
];
const KINDS: &[(&str, &str)] = &[("Normal", "normal"), ("Headline", "headline")];
const REPLIES: &[(&str, &str)] = &[("The owner", "owner"), ("The publisher", "publisher")];

const NO_PAIRS: Pairs<'static> = &[];

/// What a kind of service offers of all this.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offers<'a> {
    pub(crate) limits: &'a PubsubLimits,
}

impl Config {
    /// Writes the form for an owner with the present values (section 8.2.2), or, as `result`, the
    /// values alone.
    pub(crate) fn write(&self, writer: &mut Writer<'_>, kind: &str) {
        let is_form = kind == "form";
        let mut form = FormWriter::new(writer, kind, FORM_TYPE);
        let mut field = |name: &str, kind: &str, label: &str, values: &[&str], options: Pairs| {
            let (label, options) = if is_form {
                (label, options)
            } else {
                ("", NO_PAIRS)
            };
            form.field((name, kind, label), values, options);
        };
        for (name, label, value) in self.texts() {
            field(name, "text-single", label, &[&value], NO_PAIRS);
        }
        for (name, label, value) in self.flags() {
            let value = if value { "1" } else { "0" };
            field(name, "boolean", label, &[value], NO_PAIRS);
        }
        for (name, label, value, options) in self.choices() {
            field(name, "list-single", label, &[value], options);
        }
        let groups: Vec<&str> = self.groups.iter().map(String::as_str).collect();
        let name = "pubsub#roster_groups_allowed";
        field(name, "list-multi", "Groups that may", &groups, NO_PAIRS);
        let contacts: Vec<&str> = self.contacts.iter().map(String::as_str).collect();
        let name = "pubsub#contact";
        field(name, "jid-multi", "Whom to ask", &contacts, NO_PAIRS);
        form.close();
    }

    /// The fields of the form with the present values: how a configuration is written where people
    /// may read it.
    pub fn fields(&self) -> Fields {
        let mut out = Vec::new();
        self.write(&mut Writer::new(&mut out), "result");
        // Invariant: what is written is a form.
        Frame::parse(out).map_or_else(|_| Fields::new(), |x| form::shown(&x))
    }

    /// The inverse of [`Config::fields`]. What is not named is as in a new node of a service that
    /// belongs to nobody.
    ///
    /// # Errors
    /// The name of a field that is unknown, or whose value means nothing or is beyond a limit.
    pub fn of_fields(fields: &Fields, options: &Options) -> Result<Config, String> {
        let offers = Offers {
            limits: &options.limits,
        };
        let mut config = Config::default();
        for (name, values) in fields {
            let bare = name.strip_prefix("pubsub#").unwrap_or_default();
            if !matches!(config.set(bare, values, offers), Ok(true)) {
                return Err(name.clone());
            }
        }
        if config.access == AccessModel::Roster && config.groups.is_empty() {
            return Err("pubsub#roster_groups_allowed".to_owned());
        }
        Ok(config)
    }

    fn texts(&self) -> [(&'static str, &'static str, String); 7] {
        let expire = match self.item_expire_seconds {
            0 => "max".to_owned(),
            seconds => seconds.to_string(),
        };
        let (items, bytes) = (self.items_max, self.payload_bytes_max);
        let most = "Bytes of a payload; 0 for what the service allows";
        [
            ("pubsub#title", "Name", self.title.clone()),
            (
                "pubsub#description",
                "Description",
                self.description.clone(),
            ),
            ("pubsub#language", "Language", self.language.clone()),
            (
                "pubsub#type",
                "Namespace of payloads",
                self.payload_type.clone(),
            ),
            ("pubsub#max_items", "Items to keep", items.to_string()),
            ("pubsub#item_expire", "Seconds to keep them", expire),
            ("pubsub#max_payload_size", most, bytes.to_string()),
        ]
    }

    fn choices(&self) -> [(&'static str, &'static str, &'static str, Pairs<'static>); 6] {
        let pick = |holds: bool, yes, no| if holds { yes } else { no };
        let kind = pick(self.is_headline, "headline", "normal");
        let reply = pick(self.names_publisher, "publisher", "owner");
        let (access, publish) = (self.access.as_str(), self.publish.as_str());
        let last = self.send_last.as_str();
        let who = "Who may subscribe and retrieve";
        let when = "When the last item is sent";
        [
            ("pubsub#access_model", who, access, ACCESS),
            ("pubsub#publish_model", "Who may publish", publish, PUBLISH),
            ("pubsub#send_last_published_item", when, last, LAST),
            (
                "pubsub#notification_type",
                "Type of notifications",
                kind,
                KINDS,
            ),
            (
                "pubsub#itemreply",
                "Who is named by an item",
                reply,
                REPLIES,
            ),
            (
                "pubsub#node_type",
                "Type of the node",
                "leaf",
                &[("Leaf", "leaf")],
            ),
        ]
    }

    fn flags(&self) -> [(&'static str, &'static str, bool); 8] {
        [
            (
                "pubsub#deliver_notifications",
                "Subscribers are notified",
                self.notifies,
            ),
            (
                "pubsub#deliver_payloads",
                "With payloads",
                self.delivers_payloads,
            ),
            (
                "pubsub#notify_config",
                "Of a new configuration too",
                self.notifies_config,
            ),
            (
                "pubsub#notify_delete",
                "Of the node's deletion too",
                self.notifies_delete,
            ),
            (
                "pubsub#notify_retract",
                "Of items that are removed too",
                self.notifies_retract,
            ),
            (
                "pubsub#notify_sub",
                "Owners hear of subscriptions",
                self.notifies_sub,
            ),
            ("pubsub#persist_items", "Items are kept", self.keeps_items),
            (
                "pubsub#subscribe",
                "It can be subscribed to",
                self.takes_subscriptions,
            ),
        ]
    }

    /// What the configuration would be after a submission: fields that it does not name stay.
    /// Fields that are unknown here are ignored, unless `is_strict`.
    ///
    /// # Errors
    /// `not-acceptable` for a value that means nothing, is too much or is not offered, with what
    /// the text adds where it does; `feature-not-implemented` for collections.
    pub(crate) fn with(
        &self,
        submission: &Submission,
        offers: Offers<'_>,
        is_strict: bool,
    ) -> Result<Config, Refusal> {
        let mut config = self.clone();
        for (name, values) in submission.fields() {
            let is_known = match name.strip_prefix("pubsub#") {
                Some(name) => config.set(name, values, offers)?,
                None => name == "FORM_TYPE",
            };
            if is_strict && !is_known {
                return Err(Condition::NotAcceptable.into());
            }
        }
        if config.access == AccessModel::Roster && config.groups.is_empty() {
            return Err(Condition::NotAcceptable.into());
        }
        Ok(config)
    }

    /// Sets a field; false if there is no such field.
    fn set(&mut self, name: &str, values: &[String], o: Offers<'_>) -> Result<bool, Refusal> {
        let first = values.first().map_or("", String::as_str);
        let limits = o.limits;
        match name {
            "title" => self.title = text(first, limits)?,
            "description" => self.description = text(first, limits)?,
            "language" => self.language = text(first, limits)?,
            "type" => self.payload_type = text(first, limits)?,
            "contact" => self.contacts = addresses(values, limits)?,
            "deliver_notifications" => self.notifies = boolean(first)?,
            "deliver_payloads" => self.delivers_payloads = boolean(first)?,
            "notify_config" => self.notifies_config = boolean(first)?,
            "notify_delete" => self.notifies_delete = boolean(first)?,
            "notify_retract" => self.notifies_retract = boolean(first)?,
            "notify_sub" => self.notifies_sub = boolean(first)?,
            "persist_items" => self.keeps_items = boolean(first)?,
            "subscribe" => self.takes_subscriptions = boolean(first)?,
            "max_items" => self.items_max = items_max(first, limits)?,
            "item_expire" => self.item_expire_seconds = seconds(first)?,
            "max_payload_size" => {
                let bytes: u32 = number(first)?;
                self.payload_bytes_max = bytes.min(limits.item_bytes_max);
            }
            "access_model" => self.access = access_model(first)?,
            "roster_groups_allowed" => self.groups = names(values, limits)?,
            "publish_model" => self.publish = known(PublishModel::parse(first))?,
            "send_last_published_item" => self.send_last = known(SendLast::parse(first))?,
            "notification_type" => self.is_headline = one_of(first, "headline", "normal")?,
            "itemreply" => self.names_publisher = one_of(first, "publisher", "owner")?,
            // XEP-0248 is not supported.
            "node_type" if first == "leaf" => {}
            "collection" if first.is_empty() => {}
            "node_type" | "collection" => return Err(Refusal::unsupported("collections")),
            // Nobody may believe that these hold.
            "purge_offline" | "presence_based_delivery" | "tempsub" => {
                if boolean(first)? {
                    return Err(Condition::NotAcceptable.into());
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

type Pairs<'a> = &'a [(&'a str, &'a str)];

fn known<T>(value: Option<T>) -> Result<T, Refusal> {
    value.ok_or(Condition::NotAcceptable.into())
}

fn boolean(value: &str) -> Result<bool, Refusal> {
    known(flag(value))
}

fn number(value: &str) -> Result<u32, Refusal> {
    known(value.trim().parse().ok())
}

fn one_of(value: &str, yes: &str, no: &str) -> Result<bool, Refusal> {
    known((value == yes || value == no).then_some(value == yes))
}

fn text(value: &str, limits: &PubsubLimits) -> Result<String, Refusal> {
    known((value.len() <= limits.text_bytes_max).then(|| value.to_owned()))
}

fn names(values: &[String], limits: &PubsubLimits) -> Result<Vec<String>, Refusal> {
    known((values.len() <= limits.names_max).then_some(()))?;
    values.iter().map(|value| text(value, limits)).collect()
}

fn addresses(values: &[String], limits: &PubsubLimits) -> Result<Vec<String>, Refusal> {
    known((values.len() <= limits.names_max).then_some(()))?;
    let normal = values.iter().map(|value| addr::normalize(value));
    let normal = normal.map(|one| known(one.ok().map(std::borrow::Cow::into_owned)));
    normal.collect()
}

fn items_max(value: &str, limits: &PubsubLimits) -> Result<u32, Refusal> {
    if value == "max" {
        return Ok(limits.items_per_node_max);
    }
    match number(value)? {
        0 => Err(Condition::NotAcceptable.into()),
        count if count > limits.items_per_node_max => {
            Err(Refusal::of(Condition::NotAcceptable, "max-items-exceeded"))
        }
        count => Ok(count),
    }
}

/// Seconds, or `max` or nothing for ever.
fn seconds(value: &str) -> Result<u32, Refusal> {
    match value {
        "max" | "" => Ok(0),
        value => number(value),
    }
}

fn access_model(value: &str) -> Result<AccessModel, Refusal> {
    let refused = Refusal::of(Condition::NotAcceptable, "unsupported-access-model");
    AccessModel::parse(value).ok_or(refused)
}

#[cfg(test)]
mod tests {
    use xmpp::form::Form;

    use super::*;

    fn submit(fields: &str) -> Submission {
        let x = format!(
            "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>\
             <value>{FORM_TYPE}</value></field>{fields}</x>"
        );
        match Form::parse(&Frame::parse(x).unwrap(), FORM_TYPE) {
            Ok(Form::Submitted(form)) => form,
            _ => panic!("not submitted"),
        }
    }

    const OFFERS: Offers<'_> = Offers {
        limits: &PubsubLimits::SERVICE,
    };

    fn set(name: &str, value: &str) -> Result<Config, Refusal> {
        let field = format!("<field var='pubsub#{name}'><value>{value}</value></field>");
        Config::default().with(&submit(&field), OFFERS, false)
    }

    #[test]
    fn section_8_2_a_form_that_is_sent_back_changes_nothing() {
        let config = Config {
            title: "T & <t>".to_owned(),
            access: AccessModel::Roster,
            groups: vec!["friends".to_owned(), "kin".to_owned()],
            contacts: vec!["a@b".to_owned()],
            items_max: 7,
            item_expire_seconds: 60,
            payload_bytes_max: 99,
            publish: PublishModel::Subscribers,
            send_last: SendLast::Never,
            is_headline: false,
            names_publisher: true,
            notifies_sub: true,
            ..Config::default()
        };
        let fields = config.fields();
        let options = Options::account();
        assert_eq!(Config::of_fields(&fields, &options), Ok(config.clone()));
        for kind in ["form", "result"] {
            let mut out = Vec::new();
            config.write(&mut Writer::new(&mut out), kind);
            let text = String::from_utf8(out).unwrap();
            let text = text.replace(&format!("type='{kind}'"), "type='submit'");
            let form = Form::parse(&Frame::parse(text).unwrap(), FORM_TYPE);
            let Ok(Form::Submitted(form)) = form else {
                panic!("not submitted")
            };
            assert_eq!(
                Config::default().with(&form, OFFERS, true),
                Ok(config.clone())
            );
        }
    }

    #[test]
    fn section_8_2_5_values_that_mean_nothing_are_refused() {
        let long = "x".repeat(2_000);
        for (name, value) in [
            ("title", long.as_str()),
            ("persist_items", "perhaps"),
            ("max_items", "0"),
            ("max_items", "-1"),
            ("item_expire", "soon"),
            ("publish_model", "nobody"),
            ("notification_type", "carrier-pigeon"),
            ("contact", "a@b@c"),
            ("access_model", "roster"),
            ("purge_offline", "1"),
            ("presence_based_delivery", "true"),
            ("tempsub", "1"),
        ] {
            let refusal = set(name, value).unwrap_err();
            assert_eq!(refusal, Condition::NotAcceptable.into(), "{name}");
        }
        let app = |name, value| set(name, value).unwrap_err().app.unwrap();
        assert_eq!(app("max_items", "10001"), "max-items-exceeded");
        assert_eq!(app("access_model", "closed"), "unsupported-access-model");
        assert_eq!(app("node_type", "collection"), "unsupported");
        assert_eq!(app("collection", "news"), "unsupported");
        assert_eq!(set("max_items", "max").unwrap().items_max, 10_000);
        assert_eq!(set("x-mine", "1").unwrap(), Config::default());
    }

    #[test]
    fn section_4_5_all_access_models_are_offered() {
        let mut out = Vec::new();
        Config::default().write(&mut Writer::new(&mut out), "form");
        let text = String::from_utf8(out).unwrap();
        for (_, model) in ACCESS {
            assert!(text.contains(&format!("<value>{model}</value>")), "{model}");
        }
        assert!(text.contains("pubsub#roster_groups_allowed"));
        assert_eq!(
            set("access_model", "presence").unwrap().access,
            AccessModel::Presence
        );
    }

    #[test]
    fn a_configuration_names_only_so_many() {
        let values: String = (0..=PubsubLimits::SERVICE.names_max)
            .map(|n| format!("<value>g{n}</value>"))
            .collect();
        for name in ["roster_groups_allowed", "contact"] {
            let field = format!("<field var='pubsub#{name}'>{values}</field>");
            let found = Config::default().with(&submit(&field), OFFERS, false);
            assert_eq!(found, Err(Condition::NotAcceptable.into()), "{name}");
        }
    }
}
