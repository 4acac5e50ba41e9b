//! The scenario file: what a load does, as TOML. Unknown keys are refused by name.
//!
//! A scenario says nothing about the server's process or about reports; the command line does.

use std::fmt;

use crate::gathering::Place;
use serde::de::{Deserializer, Error as _, Visitor};
use serde::{Deserialize, Serialize};

/// Users a scenario may name at most: message bodies and ring positions carry them as `u32`.
pub const USERS_MAX: u32 = 100_000_000;
/// Contacts per user at most; the flood keeps a bit for each.
pub const CONTACTS_MAX: u32 = 1_024;
/// Phases in one scenario at most.
pub const PHASES_MAX: usize = 64;
/// Largest message body in bytes.
pub const BODY_BYTES_MAX: u32 = 200_000;

/// The scenarios shipped with the tool: name and text.
pub const SHIPPED: &[(&str, &str)] = &[
    ("idle", include_str!("../scenarios/idle.toml")),
    ("chat", include_str!("../scenarios/chat.toml")),
    ("storm", include_str!("../scenarios/storm.toml")),
    ("event", include_str!("../scenarios/event.toml")),
    ("ejabberd-2m", include_str!("../scenarios/ejabberd-2m.toml")),
    ("mobile", include_str!("../scenarios/mobile.toml")),
    ("room", include_str!("../scenarios/room.toml")),
    ("publish", include_str!("../scenarios/publish.toml")),
    ("pingpong", include_str!("../scenarios/pingpong.toml")),
];

/// A whole load: where to, who, how they log in, and what happens phase by phase.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Short name, used in reports.
    pub name: String,
    /// One sentence on what the load stands for.
    #[serde(default)]
    pub about: String,
    /// The server under load.
    #[serde(default)]
    pub server: Server,
    /// The accounts.
    #[serde(default)]
    pub users: Users,
    /// Shares of the mechanisms users log in with.
    #[serde(default)]
    pub auth: Auth,
    /// Shares of the transports users connect by.
    #[serde(default)]
    pub transport: Transport,
    /// What every client does.
    #[serde(default)]
    pub client: Client,
    /// The phases, run one after another.
    #[serde(rename = "phase")]
    pub phases: Vec<Phase>,
}

/// Where the server is.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    /// Address for plaintext and STARTTLS, as `host:port`.
    pub address: String,
    /// The same of further nodes of a cluster: users take all of them in turn, so that those of a
    /// pair come to different nodes.
    pub more_addresses: Vec<String>,
    /// Address for direct TLS, as `host:port`; needed only where `transport.direct` is used.
    pub tls_address: String,
    /// Address for WebSocket without TLS, as `host:port`; needed only where `transport.websocket`
    /// is used.
    pub web_address: String,
    /// The XMPP domain of the accounts.
    pub domain: String,
}

impl Default for Server {
    fn default() -> Server {
        Server {
            address: "127.0.0.1:5222".to_owned(),
            more_addresses: Vec::new(),
            tls_address: "127.0.0.1:5223".to_owned(),
            web_address: "127.0.0.1:5280".to_owned(),
            domain: "localhost".to_owned(),
        }
    }
}

/// The accounts `<prefix>0` to `<prefix><count - 1>`, with ring contacts.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Users {
    /// Accounts that take part.
    pub count: u32,
    /// Accounts that were provisioned, which is the size of the contact ring; 0 means `count`.
    pub provisioned: u32,
    /// Contacts of each user: user i knows i±1 to i±contacts/2. Even; 0 for servers without
    /// rosters.
    pub contacts: u32,
    /// Letters before the number in a user name.
    pub prefix: String,
    /// The password of all accounts.
    pub password: String,
}

impl Default for Users {
    fn default() -> Users {
        Users {
            count: 1_000,
            provisioned: 0,
            contacts: 18,
            prefix: "u".to_owned(),
            password: "pw".to_owned(),
        }
    }
}

/// Shares of mechanisms; they need not add up to one.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Auth {
    /// Share of SCRAM-SHA-1.
    #[serde(default)]
    pub scram_sha_1: f64,
    /// Share of SCRAM-SHA-256.
    #[serde(default)]
    pub scram_sha_256: f64,
    /// Share of PLAIN.
    #[serde(default)]
    pub plain: f64,
}

impl Default for Auth {
    fn default() -> Auth {
        Auth {
            scram_sha_1: 1.0,
            scram_sha_256: 0.0,
            plain: 0.0,
        }
    }
}

/// Shares of transports; they need not add up to one.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transport {
    /// Share of connections without TLS.
    #[serde(default)]
    pub plaintext: f64,
    /// Share of connections that use STARTTLS.
    #[serde(default)]
    pub starttls: f64,
    /// Share of connections with TLS from the first byte (XEP-0368).
    #[serde(default)]
    pub direct: f64,
    /// Share of connections over WebSocket without TLS (RFC 7395).
    #[serde(default)]
    pub websocket: f64,
}

impl Default for Transport {
    fn default() -> Transport {
        Transport {
            plaintext: 1.0,
            starttls: 0.0,
            direct: 0.0,
            websocket: 0.0,
        }
    }
}

/// What every client does, whatever the phase.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Client {
    /// The resource asked for at binding; messages to full addresses use it.
    pub resource: String,
    /// Fetch the roster at login.
    pub roster: bool,
    /// Send initial presence at login.
    pub presence: bool,
    /// White-space keepalive each so many seconds; 0 for none.
    pub keepalive_seconds: f64,
    /// Use stream management (XEP-0198), and resume where a link died.
    pub stream_management: bool,
    /// A login that takes longer than this has failed.
    pub login_timeout_seconds: f64,
    /// A client whose session was ended by the server comes back after so many seconds; 0: never.
    pub reconnect_seconds: f64,
}

impl Default for Client {
    fn default() -> Client {
        Client {
            resource: "flood".to_owned(),
            roster: true,
            presence: true,
            keepalive_seconds: 0.0,
            stream_management: false,
            login_timeout_seconds: 30.0,
            reconnect_seconds: 0.0,
        }
    }
}

/// One part of a run. Who arrives or is cut off does so first; `seconds` count from when all of
/// them are settled; then activity stops, the rest is awaited, and the checks are made.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Shown in reports.
    pub name: String,
    /// Users who log in.
    #[serde(default)]
    pub arrive: Option<Arrive>,
    /// Users who log out in good order.
    #[serde(default)]
    pub leave: Option<Arrive>,
    /// Links that are cut, and how.
    #[serde(default)]
    pub storm: Option<Storm>,
    /// Users who enter the room or subscribe to the node.
    #[serde(default)]
    pub enter: Option<Enter>,
    /// Whoever is online is active while others arrive, leave or are cut off, instead of waiting
    /// for the end of that. What is on its way to a link that is cut is lost without stream
    /// management.
    #[serde(default)]
    pub meanwhile: bool,
    /// Length of the phase once arrivals are done, in seconds.
    #[serde(default)]
    pub seconds: f64,
    /// Messages between users.
    #[serde(default)]
    pub messages: Option<Messages>,
    /// Presence changes.
    #[serde(default)]
    pub presence: Option<PresenceChanges>,
    /// Sessions that end and begin again.
    #[serde(default)]
    pub sessions: Option<Sessions>,
    /// Links that die one by one.
    #[serde(default)]
    pub link_loss: Option<LinkLoss>,
    /// Archive queries (XEP-0313).
    #[serde(default)]
    pub archive: Option<Archive>,
    /// Longest wait for quiet at the end, in seconds.
    #[serde(default = "settle_default")]
    pub settle_seconds_max: f64,
    /// Leave out the check that everyone sees exactly the contacts that are online.
    #[serde(default)]
    pub skip_presence_check: bool,
}

fn settle_default() -> f64 {
    30.0
}

/// Arrivals or departures.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arrive {
    /// How many: a number, `"all"` or a share such as `"25%"` of the users of the scenario.
    pub users: Amount,
    /// Per second over all processes; without it they all come at once.
    #[serde(default)]
    pub rate: Option<f64>,
}

/// Entries into a room, or subscriptions to a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enter {
    /// Which of the two.
    pub place: Place,
    /// How many of the users, those with the lowest numbers first; who is inside already stays.
    /// The first one makes the room or the node, and has to come in a phase of its own.
    pub users: Amount,
    /// Per second over all processes; without it they all come at once.
    #[serde(default)]
    pub rate: Option<f64>,
}

/// A reconnect storm: links are cut at once and their users come back.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Storm {
    /// How many of the users who are online.
    pub users: Amount,
    /// How their links end.
    #[serde(default)]
    pub how: Cut,
    /// Seconds until they try again.
    #[serde(default)]
    pub back_after_seconds: f64,
    /// Return rate per second over all processes; without it they all come at once.
    #[serde(default)]
    pub rate: Option<f64>,
}

/// How a link ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cut {
    /// The connection is closed without closing the stream.
    #[default]
    Close,
    /// The connection is reset.
    Reset,
    /// Nothing is sent: the server goes on believing in the link.
    Silent,
}

/// Message traffic of a phase.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Messages {
    /// Messages per second over all users, at random moments (an open loop).
    #[serde(default)]
    pub rate: Option<f64>,
    /// Instead of `rate`: seconds each user thinks between messages, from and to.
    #[serde(default)]
    pub think_seconds: Option<[f64; 2]>,
    /// Instead of `rate`: so many messages of each user (of each pair, with `peer = "pair"`) in
    /// flight, answered at once: a closed loop, for throughput. Its latencies are no measure of an
    /// open system.
    #[serde(default)]
    pub in_flight: Option<u32>,
    /// Body sizes in bytes, from and to.
    #[serde(default = "body_default")]
    pub body_bytes: [u32; 2],
    /// Whom users write to.
    #[serde(default)]
    pub peer: Peer,
    /// Address full JIDs (`true`) or bare ones.
    #[serde(default)]
    pub full_jid: bool,
    /// Write to contacts who are offline too.
    #[serde(default)]
    pub to_offline: bool,
}

fn body_default() -> [u32; 2] {
    [60, 60]
}

/// Whom users write to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Peer {
    /// A random contact.
    #[default]
    Contact,
    /// Users 2i and 2i+1 write to each other.
    Pair,
    /// Occupants write to their room: everybody in it is sent a copy.
    Room,
    /// Subscribers publish at their node: everybody there is notified.
    Node,
}

impl Peer {
    /// Where what is written is sent to many.
    pub(crate) fn place(self) -> Option<Place> {
        match self {
            Peer::Contact | Peer::Pair => None,
            Peer::Room => Some(Place::Room),
            Peer::Node => Some(Place::Node),
        }
    }
}

/// Presence changes of a phase.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PresenceChanges {
    /// Mean seconds between two changes of one user.
    pub every_seconds: f64,
}

/// Sessions that end and begin again.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sessions {
    /// Mean length of a session in seconds, exponentially distributed.
    pub mean_seconds: f64,
    /// Mean seconds until the user comes back.
    pub away_seconds: f64,
}

/// Links that die one by one and whose users come back.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkLoss {
    /// Mean seconds between two losses of one user.
    pub every_seconds: f64,
    /// How the link ends.
    #[serde(default)]
    pub how: Cut,
    /// Mean seconds until the user comes back.
    pub away_seconds: f64,
}

/// Archive queries of a phase.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Archive {
    /// Mean seconds between two queries of one user.
    pub every_seconds: f64,
    /// Messages asked for.
    #[serde(default = "page_default")]
    pub page: u32,
}

fn page_default() -> u32 {
    20
}

/// A number of users, absolute or relative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// So many.
    Users(u32),
    /// A share from 0 to 1.
    Share(f64),
}

impl Amount {
    /// The number of users out of `total`.
    pub fn of(self, total: u32) -> u32 {
        match self {
            Amount::Users(users) => users.min(total),
            Amount::Share(share) => (f64::from(total) * share).round() as u32,
        }
    }
}

impl Serialize for Amount {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Amount::Users(users) => serializer.serialize_u32(*users),
            Amount::Share(share) => serializer.serialize_str(&format!("{}%", share * 100.0)),
        }
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Amount, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Amount;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a number of users, \"all\" or a share such as \"25%\"")
            }
            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Amount, E> {
                u32::try_from(value).map(Amount::Users).map_err(E::custom)
            }
            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Amount, E> {
                u32::try_from(value).map(Amount::Users).map_err(E::custom)
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Amount, E> {
                if text == "all" {
                    return Ok(Amount::Share(1.0));
                }
                let share = text
                    .strip_suffix('%')
                    .and_then(|share| share.trim().parse().ok());
                match share {
                    Some(share) if (0.0..=100.0).contains(&share) => {
                        Ok(Amount::Share(share / 100.0))
                    }
                    _ => Err(E::custom(format!(
                        "\"{text}\" is neither \"all\" nor a share"
                    ))),
                }
            }
        }
        deserializer
            .deserialize_any(Reader)
            .map_err(D::Error::custom)
    }
}

/// A scenario that cannot be run, and why.
#[derive(Debug, thiserror::Error)]
#[error("scenario {name}: {reason}")]
pub struct ScenarioError {
    /// File or shipped name.
    pub name: String,
    /// What is wrong, with the line where the TOML parser knows it.
    pub reason: String,
}

impl Scenario {
    /// Reads a scenario from TOML; `name` is used in errors only.
    pub fn parse(name: &str, text: &str) -> Result<Scenario, ScenarioError> {
        let error = |reason: String| ScenarioError {
            name: name.to_owned(),
            reason,
        };
        toml::from_str(text).map_err(|reason| error(reason.to_string()))
    }

    /// A shipped scenario by name.
    pub fn shipped(name: &str) -> Option<Result<Scenario, ScenarioError>> {
        let (name, text) = SHIPPED.iter().find(|(shipped, _)| *shipped == name)?;
        Some(Scenario::parse(name, text))
    }

    /// Checks bounds and combinations, after the command line had its say.
    pub fn validate(&self) -> Result<(), ScenarioError> {
        self.fault().map_or(Ok(()), |reason| {
            Err(ScenarioError {
                name: self.name.clone(),
                reason,
            })
        })
    }

    /// Accounts in the contact ring.
    pub fn ring(&self) -> u32 {
        self.users.provisioned.max(self.users.count)
    }

    fn fault(&self) -> Option<String> {
        let users = &self.users;
        if users.count == 0 || self.ring() > USERS_MAX {
            return Some(format!("users.count must be from 1 to {USERS_MAX}"));
        }
        if !users.contacts.is_multiple_of(2) || users.contacts > CONTACTS_MAX {
            return Some(format!(
                "users.contacts must be even and at most {CONTACTS_MAX}"
            ));
        }
        if users.contacts >= self.ring() {
            return Some(format!(
                "a ring of {} users has no room for {} contacts each",
                self.ring(),
                users.contacts
            ));
        }
        if users.prefix.is_empty() || !users.prefix.bytes().all(|b| b.is_ascii_lowercase()) {
            return Some("users.prefix must be small letters a-z".to_owned());
        }
        let auth = [
            self.auth.scram_sha_1,
            self.auth.scram_sha_256,
            self.auth.plain,
        ];
        let transport = [
            self.transport.plaintext,
            self.transport.starttls,
            self.transport.direct,
            self.transport.websocket,
        ];
        let auth = &auth[..];
        let transport = &transport[..];
        for (name, shares) in [("auth", auth), ("transport", transport)] {
            if shares
                .iter()
                .any(|share| !share.is_finite() || *share < 0.0)
                || shares.iter().sum::<f64>() <= 0.0
            {
                return Some(format!("[{name}] needs at least one positive share"));
            }
        }
        if self.client.login_timeout_seconds <= 0.0 {
            return Some("client.login_timeout_seconds must be positive".to_owned());
        }
        if self.phases.is_empty() || self.phases.len() > PHASES_MAX {
            return Some(format!("from 1 to {PHASES_MAX} phases are needed"));
        }
        self.phases.iter().find_map(|phase| {
            let fault = phase.fault(self.users.contacts)?;
            Some(format!("phase \"{}\": {fault}", phase.name))
        })
    }
}

impl Phase {
    fn fault(&self, contacts: u32) -> Option<String> {
        let actions = [
            self.arrive.is_some(),
            self.leave.is_some(),
            self.storm.is_some(),
            self.enter.is_some(),
        ];
        if actions.iter().filter(|action| **action).count() > 1 {
            return Some("only one of arrive, leave, storm and enter fits into a phase".to_owned());
        }
        let rates = [
            self.arrive.as_ref().and_then(|arrive| arrive.rate),
            self.leave.as_ref().and_then(|leave| leave.rate),
            self.storm.as_ref().and_then(|storm| storm.rate),
            self.enter.as_ref().and_then(|enter| enter.rate),
            self.messages.as_ref().and_then(|messages| messages.rate),
            self.presence
                .as_ref()
                .map(|presence| presence.every_seconds),
            self.sessions.as_ref().map(|sessions| sessions.mean_seconds),
            self.link_loss.as_ref().map(|loss| loss.every_seconds),
            self.archive.as_ref().map(|archive| archive.every_seconds),
        ];
        if rates
            .iter()
            .flatten()
            .any(|rate| !rate.is_finite() || *rate <= 0.0)
        {
            return Some("rates and intervals must be positive".to_owned());
        }
        if !(self.seconds >= 0.0 && self.settle_seconds_max >= 0.0) {
            return Some("seconds must not be negative".to_owned());
        }
        let messages = self.messages.as_ref()?;
        let modes = [
            messages.rate.is_some(),
            messages.think_seconds.is_some(),
            messages.in_flight.is_some(),
        ];
        if modes.iter().filter(|mode| **mode).count() != 1 {
            return Some("messages need one of rate, think_seconds and in_flight".to_owned());
        }
        if let Some([from, to]) = messages.think_seconds
            && !(from >= 0.0 && to >= from && to > 0.0)
        {
            return Some("messages.think_seconds must be a range of positive seconds".to_owned());
        }
        let [from, to] = messages.body_bytes;
        if from > to || to > BODY_BYTES_MAX {
            return Some(format!(
                "messages.body_bytes is a range up to {BODY_BYTES_MAX}"
            ));
        }
        if messages.peer.place().is_some() {
            if messages.in_flight.is_some() {
                return Some("messages to a room or a node need rate or think_seconds".to_owned());
            }
            let moves =
                actions.contains(&true) || self.sessions.is_some() || self.link_loss.is_some();
            if moves {
                // How many copies there have to be could not be said.
                return Some("nobody may come or go while a room or a node is used".to_owned());
            }
        }
        if messages.peer == Peer::Contact && contacts == 0 {
            return Some("without contacts, messages need peer = \"pair\"".to_owned());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_scenarios_are_valid() {
        for (name, _) in SHIPPED {
            let scenario = Scenario::shipped(name).unwrap().unwrap();
            scenario.validate().unwrap();
            assert_eq!(scenario.name, *name);
            assert!(!scenario.about.is_empty());
        }
    }

    #[test]
    fn unknown_keys_are_refused_by_name() {
        for (text, key) in [
            ("name='x'\nphases=[]", "phases"),
            ("name='x'\n[users]\ncuont=3\n[[phase]]\nname='a'", "cuont"),
            (
                "name='x'\n[[phase]]\nname='a'\narrive={users='all',rat=3}",
                "rat",
            ),
            (
                "name='x'\n[[phase]]\nname='a'\nmessages={rate=3,size=3}",
                "size",
            ),
        ] {
            let error = Scenario::parse("x.toml", text).unwrap_err().to_string();
            assert!(error.contains(&format!("`{key}`")), "{error}");
            assert!(error.contains("x.toml"), "{error}");
        }
    }

    #[test]
    fn impossible_combinations_are_refused_with_their_reason() {
        for (text, reason) in [
            ("[users]\ncount=0", "users.count"),
            ("[users]\ncontacts=3", "even"),
            ("[users]\ncount=10\ncontacts=10", "no room"),
            ("[auth]\nplain=-1.0", "positive share"),
            (
                "[[phase]]\nname='b'\nmessages={body_bytes=[1,2]}",
                "one of rate",
            ),
            (
                "[[phase]]\nname='b'\nmessages={rate=0.0}",
                "must be positive",
            ),
            (
                "[users]\ncontacts=0\n[[phase]]\nname='b'\nmessages={rate=1.0}",
                "pair",
            ),
            (
                "[[phase]]\nname='b'\nmessages={in_flight=1,peer='room'}",
                "need rate",
            ),
            (
                "[[phase]]\nname='b'\nleave={users=1}\nmessages={rate=1.0,peer='node'}",
                "come or go",
            ),
            (
                "[[phase]]\nname='b'\nleave={users=1}\nenter={place='room',users=1}",
                "only one",
            ),
        ] {
            let text = format!("name='x'\n{text}\n[[phase]]\nname='a'");
            let error = Scenario::parse("x", &text)
                .unwrap()
                .validate()
                .unwrap_err()
                .to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn amounts_are_numbers_or_shares() {
        #[derive(Deserialize, Serialize)]
        struct Holder {
            users: Amount,
        }
        for (text, of_200) in [("\"all\"", 200), ("\"25%\"", 50), ("7", 7), ("900", 200)] {
            let holder: Holder = toml::from_str(&format!("users = {text}")).unwrap();
            assert_eq!(holder.users.of(200), of_200, "{text}");
            let again: Holder = toml::from_str(&toml::to_string(&holder).unwrap()).unwrap();
            assert_eq!(again.users.of(200), of_200, "{text}");
        }
        assert!(toml::from_str::<Holder>("users = \"some\"").is_err());
        assert!(toml::from_str::<Holder>("users = \"120%\"").is_err());
    }
}
