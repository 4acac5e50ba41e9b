//! XEP-0115 Entity Capabilities 1.6.0 of clients: which nodes they want to hear of (XEP-0163
//! section 4.3.2). A hash is believed once a client with it has answered with what it is the hash
//! of. Owns the verification, and what a shard remembers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use net::ConnRef;
use stdx::time::Moment;
use xml::Frame;
use xmpp::ns;

use crate::options;

const DATA_FORMS: &str = "jabber:x:data";
/// Behind the name of a node in a feature: the client wants to hear of it.
const NOTIFY: &str = "+notify";
/// Bytes of a hash in its text form; a longer one is none.
const HASH_BYTES_MAX: usize = 64;
/// Bytes of the text that names a client's software.
const NODE_BYTES_MAX: usize = 512;

/// Nodes that a client wants to hear of: verified.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Caps {
    /// In order.
    nodes: Box<[Box<str>]>,
}

impl Caps {
    /// Whether it wants to hear of a node.
    pub(crate) fn wants(&self, node: &str) -> bool {
        let found = self.nodes.binary_search_by(|known| (**known).cmp(node));
        found.is_ok()
    }

    /// Those that were not in `before`.
    pub(crate) fn since(&self, before: Option<&Caps>) -> Arc<[Box<str>]> {
        let is_new = |node: &str| before.is_none_or(|before| !before.wants(node));
        let nodes = self.nodes.iter();
        nodes.filter(|node| is_new(node)).cloned().collect()
    }
}

/// What presence says of a client's capabilities (section 4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// The hash with the name of its function.
    pub(crate) key: Box<str>,
    /// What to ask about: `node#ver`.
    pub(crate) about: String,
}

/// The claim in a presence stanza. A hash of the time before version 1.4 cannot be verified, and
/// functions other than SHA-1, which every client has to offer, are not looked at.
pub(crate) fn claim(presence: &Frame) -> Option<Claim> {
    let c = presence.child("c", ns::CAPS)?;
    let (hash, ver, node) = (c.attr("hash")?, c.attr("ver")?, c.attr("node")?);
    let is_usable = hash == "sha-1"
        && !ver.is_empty()
        && ver.len() <= HASH_BYTES_MAX
        && node.len() <= NODE_BYTES_MAX;
    is_usable.then(|| Claim {
        key: (*ver).into(),
        about: format!("{node}#{ver}"),
    })
}

/// What an answer (`<query/>` of service discovery) proves about the hash `key`: the nodes of
/// interest, at most `interests_max`. `None` if it is not what the hash was made of, or has what
/// section 5.4 forbids.
pub(crate) fn verify(key: &str, query: &Frame, interests_max: usize) -> Option<Caps> {
    let mut identities = BTreeSet::new();
    let mut features = BTreeSet::new();
    let mut forms = BTreeMap::new();
    for child in query.children() {
        let attr = |name: &str| child.attr(name).unwrap_or_default().into_owned();
        let is_new = match (child.name(), child.ns()) {
            ("identity", ns::DISCO_INFO) => identities.insert(format!(
                "{}/{}/{}/{}",
                attr("category"),
                attr("type"),
                attr("xml:lang"),
                attr("name")
            )),
            ("feature", ns::DISCO_INFO) => features.insert(attr("var")),
            ("x", DATA_FORMS) => match form(&child.children().collect::<Vec<_>>())? {
                Some((kind, text)) => forms.insert(kind, text).is_none(),
                None => true,
            },
            _ => true,
        };
        if !is_new {
            return None;
        }
    }
    let mut text = String::new();
    for part in identities.iter().chain(&features) {
        text.push_str(part);
        text.push('<');
    }
    text.extend(forms.into_values());
    if xmpp::sasl::sha1_base64(text.as_bytes()) != key {
        return None;
    }
    // Of the text, not of the features: an answer that passes a feature off as part of an identity
    // or a form has the same text, and must mean the same.
    let nodes = text.split('<').filter_map(|part| part.strip_suffix(NOTIFY));
    let nodes = nodes.filter(|node| !node.is_empty());
    let nodes: BTreeSet<&str> = nodes.take(interests_max).collect();
    Some(Caps {
        nodes: nodes.into_iter().map(Box::from).collect(),
    })
}

/// The type of a form and what it adds to the text (section 5.1 item 7). `Some(None)` if it has no
/// type and does not count; `None` if it is ill-formed (section 5.4 item 3.5).
fn form(fields: &[Frame]) -> Option<Option<(String, String)>> {
    let mut kind: Option<String> = None;
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for field in fields.iter().filter(|field| field.name() == "field") {
        let var = field.attr("var").unwrap_or_default().into_owned();
        let values = field.children().filter(|child| child.name() == "value");
        let values: Vec<String> = values
            .map(|value| value.text().unwrap_or_default().into_owned())
            .collect();
        if var == "FORM_TYPE" {
            let mut distinct = values.iter().collect::<BTreeSet<_>>().into_iter();
            let (Some(first), None) = (distinct.next(), distinct.next()) else {
                return None;
            };
            // One that is not hidden is no type.
            let is_hidden = field.attr("type").as_deref() == Some("hidden");
            kind = is_hidden.then(|| first.clone());
            if !is_hidden {
                return Some(None);
            }
        } else {
            all.entry(var).or_default().extend(values);
        }
    }
    let Some(kind) = kind else { return Some(None) };
    let mut text = format!("{kind}<");
    for (var, values) in all {
        text.push_str(&var);
        text.push('<');
        for value in values {
            text.push_str(&value);
            text.push('<');
        }
    }
    Some(Some((kind, text)))
}

/// What to do about a claim.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// It is verified.
    Known(Arc<Caps>),
    /// This client is asked; the number is that of the question.
    Ask(u32),
    /// Another one has been asked, or too many have.
    Wait,
}

struct Asked {
    key: Box<str>,
    conn: ConnRef,
    number: u32,
    since: Moment,
}

/// What a shard knows of capabilities. Bounds and what happens at them: [`options::Caps`].
pub(crate) struct Table {
    limits: options::Caps,
    known: BTreeMap<Box<str>, Arc<Caps>>,
    /// Of those that are known, the oldest first.
    order: VecDeque<Box<str>>,
    asked: Vec<Asked>,
    number: u32,
}

impl Table {
    pub(crate) fn new(limits: options::Caps) -> Table {
        Table {
            limits,
            known: BTreeMap::new(),
            order: VecDeque::new(),
            asked: Vec::new(),
            number: 0,
        }
    }

    /// A session, named by `conn`, has made a claim.
    pub(crate) fn look(&mut self, key: &str, conn: ConnRef, now: Moment) -> Look {
        if let Some(caps) = self.known.get(key) {
            return Look::Known(Arc::clone(caps));
        }
        let timeout = self.limits.answer_timeout;
        self.asked
            .retain(|asked| now.saturating_since(asked.since) < timeout);
        let is_asked = self.asked.iter().any(|asked| *asked.key == *key);
        if is_asked || self.asked.len() >= self.limits.asked_max {
            return Look::Wait;
        }
        self.number = self.number.wrapping_add(1);
        self.asked.push(Asked {
            key: key.into(),
            conn,
            number: self.number,
            since: now,
        });
        Look::Ask(self.number)
    }

    /// An answer has come from the session: the hash that it was asked about, if it was asked with
    /// this number.
    pub(crate) fn answered(&mut self, conn: ConnRef, number: u32) -> Option<Box<str>> {
        let mut asked = self.asked.iter();
        let at = asked.position(|asked| asked.conn == conn && asked.number == number)?;
        Some(self.asked.swap_remove(at).key)
    }

    /// Remembers what is verified.
    pub(crate) fn learn(&mut self, key: Box<str>, caps: &Arc<Caps>) {
        if self.known.contains_key(&key) {
            return;
        }
        if self.known.len() >= self.limits.known_max {
            let known = &self.known;
            let is_unused = |key: &str| {
                let caps = known.get(key);
                caps.is_none_or(|caps| Arc::strong_count(caps) == 1)
            };
            let Some(at) = self.order.iter().position(|key| is_unused(key)) else {
                return;
            };
            if let Some(old) = self.order.remove(at) {
                self.known.remove(&old);
            }
        }
        self.order.push_back(key.clone());
        self.known.insert(key, Arc::clone(caps));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use stdx::slab::Key;

    use super::*;

    /// The example of section 5.2.
    const SIMPLE: &str = "<query xmlns='http://jabber.org/protocol/disco#info' \
        node='http://code.google.com/p/exodus#QgayPKawpkPSDYmwT/WM94uAlu0='>\
        <identity category='client' name='Exodus 0.9.1' type='pc'/>\
        <feature var='http://jabber.org/protocol/caps'/>\
        <feature var='http://jabber.org/protocol/disco#info'/>\
        <feature var='http://jabber.org/protocol/disco#items'/>\
        <feature var='http://jabber.org/protocol/muc'/></query>";

    /// The example of section 5.3.
    const COMPLEX: &str = "<query xmlns='http://jabber.org/protocol/disco#info' \
        node='http://psi-im.org#q07IKJEyjvHSyhy//CH0CxmKi8w='>\
        <identity xml:lang='en' category='client' name='Psi 0.11' type='pc'/>\
        <identity xml:lang='el' category='client' name='Ψ 0.11' type='pc'/>\
        <feature var='http://jabber.org/protocol/caps'/>\
        <feature var='http://jabber.org/protocol/disco#info'/>\
        <feature var='http://jabber.org/protocol/disco#items'/>\
        <feature var='http://jabber.org/protocol/muc'/>\
        <x xmlns='jabber:x:data' type='result'>\
        <field var='FORM_TYPE' type='hidden'><value>urn:xmpp:dataforms:softwareinfo</value></field>\
        <field var='ip_version'><value>ipv4</value><value>ipv6</value></field>\
        <field var='os'><value>Mac</value></field>\
        <field var='os_version'><value>10.5.1</value></field>\
        <field var='software'><value>Psi</value></field>\
        <field var='software_version'><value>0.11</value></field></x></query>";

    fn check(key: &str, xml: &str) -> Option<Caps> {
        verify(key, &Frame::parse(xml).unwrap(), 8)
    }

    #[test]
    fn section_5_the_examples_are_verified() {
        assert!(check("QgayPKawpkPSDYmwT/WM94uAlu0=", SIMPLE).is_some());
        assert!(check("q07IKJEyjvHSyhy//CH0CxmKi8w=", COMPLEX).is_some());
        assert_eq!(check("q07IKJEyjvHSyhy//CH0CxmKi8w=", SIMPLE), None);
    }

    #[test]
    fn section_5_4_what_is_ill_formed_proves_nothing() {
        let key = "QgayPKawpkPSDYmwT/WM94uAlu0=";
        let muc = "<feature var='http://jabber.org/protocol/muc'/>";
        let exodus = "<identity category='client' name='Exodus 0.9.1' type='pc'/>";
        for twice in [muc, exodus] {
            let changed = SIMPLE.replace(twice, &twice.repeat(2));
            assert_eq!(check(key, &changed), None, "{twice}");
        }
        let form = |kind: &str| {
            format!(
                "<x xmlns='jabber:x:data' type='result'>\
                 <field var='FORM_TYPE' type='hidden'>{kind}</field></x></query>"
            )
        };
        let with = |form: String| SIMPLE.replace("</query>", &form);
        let two = form("<value>a</value><value>b</value>");
        assert_eq!(check(key, &with(two)), None);
        let counted = form("<value>a</value>");
        assert_eq!(check(key, &with(counted.clone())), None, "a form counts");
        let shown = counted.replace(" type='hidden'", "");
        assert!(check(key, &with(shown)).is_some(), "no type, no form");
    }

    fn with_features(vars: &[&str]) -> (String, String) {
        let mut sorted = vars.to_vec();
        sorted.sort_unstable();
        let text: String = sorted.iter().map(|var| format!("{var}<")).collect();
        let features: String = vars
            .iter()
            .map(|var| format!("<feature var='{var}'/>"))
            .collect();
        let xml =
            format!("<query xmlns='http://jabber.org/protocol/disco#info'>{features}</query>");
        (xmpp::sasl::sha1_base64(text.as_bytes()), xml)
    }

    #[test]
    fn nodes_are_found_by_name_and_only_so_many() {
        let (key, xml) = with_features(&["b+notify", "a+notify", "a", "a!+notify", "+notify"]);
        let caps = check(&key, &xml).unwrap();
        assert!(caps.wants("a") && caps.wants("a!") && caps.wants("b"));
        assert!(!caps.wants("") && !caps.wants("c"));
        let few = verify(&key, &Frame::parse(&*xml).unwrap(), 1).unwrap();
        assert_eq!(few.nodes.len(), 1);
        let names: Vec<String> = caps
            .since(Some(&few))
            .iter()
            .map(|n| n.to_string())
            .collect();
        assert_eq!(names.len(), 2, "{names:?}");
        assert_eq!(caps.since(None).len(), 3);
    }

    /// The text of a hash does not say where identities end and forms begin. Whoever moves features
    /// there proves the same hash, and takes nothing away from it.
    #[test]
    fn another_answer_with_the_same_text_means_the_same() {
        let vars = [
            "http://a.example/b/c+notify",
            "urn:d",
            "urn:e+notify",
            "urn:f+notify",
        ];
        let (key, honest) = with_features(&vars);
        let honest = check(&key, &honest).unwrap();
        let identity = "<identity category='http:' type='' xml:lang='a.example' \
                        name='b/c+notify'/>";
        let form = "<x xmlns='jabber:x:data'><field var='FORM_TYPE' type='hidden'>\
                    <value>urn:d</value></field>\
                    <field var='urn:e+notify'><value>urn:f+notify</value></field></x>";
        let open = "<query xmlns='http://jabber.org/protocol/disco#info'>";
        let merged = "<feature var='urn:d&lt;urn:e+notify&lt;urn:f+notify'/>";
        for rest in [form, merged] {
            let forged = check(&key, &format!("{open}{identity}{rest}</query>"));
            assert_eq!(forged.as_ref(), Some(&honest), "{rest}");
        }
    }

    #[test]
    fn a_claim_needs_a_hash_that_can_be_verified() {
        let found = |c: &str| claim(&Frame::parse(format!("<presence>{c}</presence>")).unwrap());
        let c = "<c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='n' ver='v'/>";
        assert_eq!(found(c).unwrap().about, "n#v");
        for (from, to) in [
            (" hash='sha-1'", ""),
            ("sha-1", "md5"),
            ("ver='v'", "ver=''"),
            ("protocol/caps", "protocol/other"),
        ] {
            assert_eq!(found(&c.replace(from, to)), None, "{to}");
        }
        let long = format!("ver='{}'", "v".repeat(HASH_BYTES_MAX + 1));
        assert_eq!(found(&c.replace("ver='v'", &long)), None);
    }

    fn conn(index: u32) -> ConnRef {
        ConnRef {
            shard: actor::ShardId::new(0),
            id: Key {
                index,
                generation: 1,
            },
        }
    }

    fn table(known_max: usize, asked_max: usize) -> Table {
        Table::new(options::Caps {
            known_max,
            asked_max,
            answer_timeout: Duration::from_secs(5),
            interests_max: 4,
        })
    }

    #[test]
    fn one_client_is_asked_and_only_its_answer_counts() {
        let mut table = table(4, 1);
        let now = Moment::default();
        assert_eq!(table.look("a", conn(1), now), Look::Ask(1));
        assert_eq!(table.look("a", conn(2), now), Look::Wait);
        assert_eq!(table.look("b", conn(2), now), Look::Wait, "too many");
        assert_eq!(table.answered(conn(2), 1), None, "it was not asked");
        assert_eq!(table.answered(conn(1), 2), None, "nor with this number");
        assert_eq!(table.answered(conn(1), 1).as_deref(), Some("a"));
        assert_eq!(table.answered(conn(1), 1), None, "once");
        // Nothing was learned: the next one is asked, and so is who comes after a time-out.
        assert_eq!(table.look("a", conn(2), now), Look::Ask(2));
        let later = now + Duration::from_secs(5);
        assert_eq!(table.look("a", conn(3), later), Look::Ask(3));
    }

    #[test]
    fn what_sessions_have_is_not_forgotten() {
        let mut table = table(2, 4);
        let now = Moment::default();
        let used = Arc::new(Caps::default());
        table.learn("used".into(), &used);
        table.learn("old".into(), &Arc::new(Caps::default()));
        table.learn("new".into(), &Arc::new(Caps::default()));
        assert!(matches!(table.look("used", conn(1), now), Look::Known(_)));
        assert!(matches!(table.look("old", conn(1), now), Look::Ask(_)));
        let Look::Known(_new) = table.look("new", conn(1), now) else {
            panic!("it is known");
        };
        table.learn("more".into(), &Arc::new(Caps::default()));
        assert!(matches!(table.look("more", conn(1), now), Look::Ask(_)));
    }
}
