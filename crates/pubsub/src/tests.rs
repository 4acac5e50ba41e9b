//! Tests by the sections of XEP-0060 and XEP-0163. Owns the small world that they play in: a
//! service whose appends are committed at once, a store, a roster, and everybody's mail.

mod bounds;
mod change;
mod digest;
mod durable;
mod entity;
mod hostile;
mod lists;
mod operator;
mod owner;
mod pep;
mod publisher;
mod rosters;
mod subscriber;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use stdx::Timestamp;
use xml::Frame;

use crate::{Contacts, Effect, Event, Item, Options, PubsubLimits, Record, Service, State};

pub(crate) const SERVICE: &str = "pubsub.denmark.example";
pub(crate) const START: Timestamp = Timestamp::from_millis(1_000_000_000_000);
/// Who makes nodes in these tests.
pub(crate) const HAMLET: &str = "hamlet@denmark.example/elsinore";
pub(crate) const FRANCISCO: &str = "francisco@denmark.example/barracks";
pub(crate) const BERNARDO: &str = "bernardo@denmark.example/post";
pub(crate) const JULIET: &str = "juliet@capulet.example";
pub(crate) const NODE: &str = "princely_musings";
const NS: &str = "http://jabber.org/protocol/pubsub";

/// What an account knows of others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roster {
    /// Who sees its presence, and in which groups they are.
    pub(crate) contacts: BTreeMap<String, BTreeSet<String>>,
    /// Sessions that are available, each with the nodes that interest it.
    pub(crate) sessions: BTreeMap<String, BTreeSet<String>>,
    /// Whose sessions the account itself does not know: their homes do.
    pub(crate) elsewhere: BTreeSet<String>,
}

impl Roster {
    /// What the home of a contact knows: his sessions that are interested in a node.
    pub(crate) fn sessions_of(&self, contact: &str, node: &str) -> Vec<String> {
        let own = self.sessions.iter();
        let own = own.filter(|(session, nodes)| {
            xmpp::addr::bare_part(session) == contact && nodes.contains(node)
        });
        own.map(|(session, _)| session.clone()).collect()
    }
}

impl Contacts for Roster {
    fn sees_presence(&self, _of: &str, bare: &str) -> bool {
        self.contacts.contains_key(bare)
    }

    fn is_in_group(&self, _of: &str, bare: &str, group: &str) -> bool {
        self.contacts
            .get(bare)
            .is_some_and(|groups| groups.contains(group))
    }

    fn interested(&self, node: &str, each: &mut dyn FnMut(&str)) {
        for (session, nodes) in &self.sessions {
            let is_known = !self.elsewhere.contains(xmpp::addr::bare_part(session));
            if is_known && nodes.contains(node) {
                each(session);
            }
        }
        for contact in &self.elsewhere {
            each(contact);
        }
    }
}

/// A question for items: its number, the node, ids and places.
type Asked = (u64, String, Vec<(Box<str>, u64)>);

/// A service and everybody's mail.
pub(crate) struct World {
    pub(crate) service: Service,
    pub(crate) roster: Roster,
    pub(crate) now: Timestamp,
    /// What each address was sent and has not read.
    pub(crate) mail: BTreeMap<String, Vec<String>>,
    /// Everything that was committed.
    pub(crate) journal: Vec<Record>,
    /// What the store has, by node and id.
    pub(crate) store: BTreeMap<(String, String), Item>,
    /// Whether appends are decided at once, and how.
    pub(crate) decides: Option<bool>,
    /// Whether questions are answered at once.
    pub(crate) reads: bool,
    pub(crate) asked: Vec<Asked>,
    pub(crate) appends: usize,
}

impl World {
    pub(crate) fn new() -> World {
        World::with(SERVICE, Options::default())
    }

    pub(crate) fn limited(change: impl FnOnce(&mut PubsubLimits)) -> World {
        let mut options = Options::default();
        change(&mut options.limits);
        World::with(SERVICE, options)
    }

    /// Juliet's account; Romeo is a friend, the nurse is in the group `servants`.
    pub(crate) fn account() -> World {
        World::account_with(|_| {})
    }

    pub(crate) fn account_with(change: impl FnOnce(&mut Options)) -> World {
        let mut options = Options::account();
        change(&mut options);
        let mut world = World::with(JULIET, options);
        let contacts = &mut world.roster.contacts;
        contacts.insert("romeo@montague.example".to_owned(), BTreeSet::new());
        let servants = BTreeSet::from(["servants".to_owned()]);
        contacts.insert("nurse@capulet.example".to_owned(), servants);
        world
    }

    pub(crate) fn with(address: &str, options: Options) -> World {
        World {
            service: Service::new(address, State::default(), Arc::new(options), [7, 9]),
            roster: Roster::default(),
            now: START,
            mail: BTreeMap::new(),
            journal: Vec::new(),
            store: BTreeMap::new(),
            decides: Some(true),
            reads: true,
            asked: Vec::new(),
            appends: 0,
        }
    }

    /// A service with the node of Hamlet and nobody's mail.
    pub(crate) fn denmark() -> World {
        World::with_node(&[])
    }

    pub(crate) fn with_node(fields: &[(&str, &str)]) -> World {
        let mut world = World::new();
        world.create(HAMLET, NODE, fields).unwrap();
        world
    }

    /// Gives an event and performs what comes of it.
    pub(crate) fn event(&mut self, event: Event) -> bool {
        match self.service.handle(event, self.now, &self.roster) {
            Ok(effects) => {
                self.perform(effects);
                true
            }
            Err(_) => false,
        }
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Append(records) => {
                    self.appends += 1;
                    let Some(is_committed) = self.decides else {
                        continue;
                    };
                    if is_committed {
                        self.keep(records);
                    }
                    assert!(self.event(Event::Decided { is_committed }));
                }
                Effect::Send { frame, to } => {
                    assert!(frame.attr("to").is_none(), "{frame:?}");
                    assert!(!to.is_empty());
                    for to in to.iter() {
                        self.deliver(to, &frame.edit().set_attr("to", to).finish());
                    }
                }
                Effect::Notify {
                    frame,
                    node,
                    contacts,
                    but,
                } => {
                    // What the homes of contacts do.
                    for contact in contacts.iter() {
                        let sessions = self.roster.sessions_of(contact, &node);
                        let is_new = |to: &String| !but.iter().any(|but| **but == **to);
                        for to in sessions.into_iter().filter(is_new) {
                            self.deliver(&to, &frame.edit().set_attr("to", &to).finish());
                        }
                    }
                }
                Effect::Deliver(frame) => {
                    let to = frame.attr("to").expect("an address").into_owned();
                    self.deliver(&to, &frame);
                }
                Effect::Fetch {
                    ticket,
                    node,
                    items,
                } => {
                    self.asked.push((ticket, node.to_string(), items));
                    if self.reads {
                        self.read_store();
                    }
                }
            }
        }
    }

    pub(crate) fn keep(&mut self, records: Vec<Record>) {
        for record in &records {
            assert_eq!(Record::decode(&record.encode()).as_ref(), Ok(record));
            let node = record.node().to_owned();
            match record {
                Record::Published { item, .. } => {
                    self.store.insert((node, item.id.clone()), item.clone());
                }
                Record::Retracted { items, .. } => {
                    for id in items {
                        self.store.remove(&(node.clone(), id.clone()));
                    }
                }
                Record::Purged { .. } | Record::Deleted { .. } => {
                    self.store.retain(|(name, _), _| *name != node);
                }
                _ => {}
            }
        }
        self.journal.extend(records);
    }

    /// Answers what was asked.
    pub(crate) fn read_store(&mut self) {
        for (ticket, node, items) in std::mem::take(&mut self.asked) {
            let found = items.iter().filter_map(|(id, _)| {
                let key = (node.clone(), id.to_string());
                self.store.get(&key).cloned()
            });
            let items = Some(found.collect());
            assert!(self.event(Event::Fetched { ticket, items }));
        }
    }

    fn deliver(&mut self, to: &str, frame: &Frame) {
        assert_eq!(frame.attr("from").as_deref(), Some(self.service.address()));
        let text = String::from_utf8(frame.as_bytes().to_vec()).unwrap();
        self.mail.entry(to.to_owned()).or_default().push(text);
    }

    /// A stanza of an address to the service.
    #[track_caller]
    pub(crate) fn send(&mut self, from: &str, stanza: &str) {
        assert!(self.try_send(from, stanza), "the service is busy");
    }

    pub(crate) fn try_send(&mut self, from: &str, stanza: &str) -> bool {
        let frame = Frame::parse(stanza).unwrap();
        let edit = frame.edit().set_attr("from", from);
        let frame = edit.set_attr("to", self.service.address()).finish();
        let may_create = !from.starts_with("guest@");
        self.event(Event::Stanza { frame, may_create })
    }

    /// What an address was sent since it looked last.
    pub(crate) fn read(&mut self, who: &str) -> Vec<String> {
        self.mail.remove(who).unwrap_or_default()
    }

    /// The one stanza that an address was sent.
    #[track_caller]
    pub(crate) fn read_one(&mut self, who: &str) -> String {
        let mut mail = self.read(who);
        assert_eq!(mail.len(), 1, "{mail:#?}");
        mail.remove(0)
    }

    /// A request; its answer, or the conditions of its error.
    #[track_caller]
    pub(crate) fn ask(&mut self, who: &str, kind: &str, payload: &str) -> Result<String, String> {
        self.send(who, &format!("<iq type='{kind}' id='q'>{payload}</iq>"));
        self.answer(who)
    }

    /// The answer that an address was sent.
    #[track_caller]
    pub(crate) fn answer(&mut self, who: &str) -> Result<String, String> {
        let mail = self.mail.get_mut(who).expect("an answer");
        let at = mail.iter().position(|one| one.starts_with("<iq"));
        let answer = mail.remove(at.expect("an answer"));
        self.mail.retain(|_, mail| !mail.is_empty());
        match condition(&answer) {
            Some(condition) => Err(condition),
            None => Ok(answer),
        }
    }

    #[track_caller]
    pub(crate) fn set(&mut self, who: &str, content: &str) -> Result<String, String> {
        self.ask(
            who,
            "set",
            &format!("<pubsub xmlns='{NS}'>{content}</pubsub>"),
        )
    }

    #[track_caller]
    pub(crate) fn get(&mut self, who: &str, content: &str) -> Result<String, String> {
        self.ask(
            who,
            "get",
            &format!("<pubsub xmlns='{NS}'>{content}</pubsub>"),
        )
    }

    #[track_caller]
    pub(crate) fn own(&mut self, who: &str, kind: &str, content: &str) -> Result<String, String> {
        self.ask(
            who,
            kind,
            &format!("<pubsub xmlns='{NS}#owner'>{content}</pubsub>"),
        )
    }

    #[track_caller]
    pub(crate) fn create(
        &mut self,
        who: &str,
        node: &str,
        fields: &[(&str, &str)],
    ) -> Result<String, String> {
        let form = form("node_config", fields);
        self.set(
            who,
            &format!("<create node='{node}'/><configure>{form}</configure>"),
        )
    }

    #[track_caller]
    pub(crate) fn configure(
        &mut self,
        who: &str,
        fields: &[(&str, &str)],
    ) -> Result<String, String> {
        let form = form("node_config", fields);
        self.own(
            who,
            "set",
            &format!("<configure node='{NODE}'>{form}</configure>"),
        )
    }

    #[track_caller]
    pub(crate) fn subscribe(&mut self, who: &str) -> Result<String, String> {
        let jid = xmpp::addr::bare_part(who);
        self.set(who, &format!("<subscribe node='{NODE}' jid='{jid}'/>"))
    }

    #[track_caller]
    pub(crate) fn publish(&mut self, who: &str, id: &str) -> Result<String, String> {
        self.publish_at(who, NODE, id, "")
    }

    /// Publishes `<e xmlns='urn:e'>id</e>`, with publish options behind.
    #[track_caller]
    pub(crate) fn publish_at(
        &mut self,
        who: &str,
        node: &str,
        id: &str,
        options: &str,
    ) -> Result<String, String> {
        let item = format!("<item id='{id}'><e xmlns='urn:e'>{id}</e></item>");
        self.set(
            who,
            &format!("<publish node='{node}'>{item}</publish>{options}"),
        )
    }

    #[track_caller]
    pub(crate) fn affiliate(&mut self, who: &str, affiliation: &str) -> Result<String, String> {
        let jid = xmpp::addr::bare_part(who);
        let entry = format!("<affiliation jid='{jid}' affiliation='{affiliation}'/>");
        let list = format!("<affiliations node='{NODE}'>{entry}</affiliations>");
        self.own(HAMLET, "set", &list)
    }

    /// The ids of the items that somebody retrieves.
    #[track_caller]
    pub(crate) fn items(&mut self, who: &str, node: &str) -> Result<Vec<String>, String> {
        let answer = self.get(who, &format!("<items node='{node}'/>"))?;
        let ids = answer.split("<item id='").skip(1);
        Ok(ids
            .map(|rest| rest.split('\'').next().unwrap().to_owned())
            .collect())
    }

    pub(crate) fn later(&mut self, seconds: u64) {
        self.now = self.now + std::time::Duration::from_secs(seconds);
    }
}

/// A submitted form.
pub(crate) fn form(kind: &str, fields: &[(&str, &str)]) -> String {
    let fields = fields.iter().map(|(name, value)| {
        let values = value.split(' ').map(|v| format!("<value>{v}</value>"));
        format!(
            "<field var='pubsub#{name}'>{}</field>",
            values.collect::<String>()
        )
    });
    let fields: String = fields.collect();
    format!(
        "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>\
         <value>{NS}#{kind}</value></field>{fields}</x>"
    )
}

pub(crate) fn publish_options(fields: &[(&str, &str)]) -> String {
    let form = form("publish-options", fields);
    format!("<publish-options>{form}</publish-options>")
}

/// The conditions of an error stanza: RFC 6120's with its type, and that of `pubsub#errors`.
pub(crate) fn condition(stanza: &str) -> Option<String> {
    let (_, rest) = stanza.split_once("<error type='")?;
    let (kind, rest) = rest.split_once("'><")?;
    let (condition, rest) = rest.split_once(' ')?;
    let app = rest.split_once(" xmlns='http://jabber.org/protocol/pubsub#errors'");
    let app = app.and_then(|(before, _)| before.rsplit_once('<'));
    Some(match app {
        Some((_, app)) => format!("{condition}/{kind} {app}"),
        None => format!("{condition}/{kind}"),
    })
}

/// Everything of `parts` is in the text.
#[track_caller]
pub(crate) fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

/// Nothing of `parts` is in the text.
#[track_caller]
pub(crate) fn lacks(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(!text.contains(part), "{part} in {text}");
    }
}

#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(found: Result<T, String>, expected: &str) {
    assert_eq!(found.unwrap_err(), expected);
}
