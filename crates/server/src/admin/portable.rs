//! What a node has as text: the JSON lines of docs/export-format.md, and populations for load
//! tests. Owns the lines of accounts; those of rooms, of nodes, and the way of all of them out and
//! in are in `portable/`.

mod export;
mod import;
mod nodes;
mod order;
mod parts;
mod rooms;
mod text;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use stdx::time::Timestamp;
use store::{Account, DirectoryEntry, Record, RosterItem, ScramHash, ScramKeys, Store, StoreError};

use crate::user::acts::roster;

pub(crate) use export::{Cursor, Export};
pub(crate) use import::{Import, Made};
pub use order::Order;

/// The salt of every provisioned account.
pub(crate) const SHARED_SALT: [u8; 16] = *b"roost-provision!";

/// One line of an export.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type", deny_unknown_fields)]
pub(crate) enum Line {
    /// An account; the first line of each user.
    Account {
        /// Bare address.
        jid: String,
        /// Milliseconds since the Unix epoch.
        created: i64,
        /// Whether its owner may not log in.
        locked: bool,
        /// Keys of its password.
        scram: Vec<Keys>,
    },
    /// Its roster.
    Roster {
        /// Bare address.
        jid: String,
        /// The contacts.
        items: Vec<Contact>,
    },
    /// Its block list.
    Blocklist {
        /// Bare address.
        jid: String,
        /// Blocked addresses.
        blocked: Vec<String>,
    },
    /// Its vCard.
    Vcard {
        /// Bare address.
        jid: String,
        /// The element.
        xml: String,
        /// SHA-1 of the photo, empty if none.
        photo_hash: String,
    },
    /// One element of its private storage.
    Private {
        /// Bare address.
        jid: String,
        /// Namespace of the element.
        ns: String,
        /// Name of the element.
        name: String,
        /// The element.
        xml: String,
    },
    /// What the directory says of it.
    Directory {
        /// Bare address.
        jid: String,
        /// Given name.
        #[serde(default)]
        first: String,
        /// Family name.
        #[serde(default)]
        last: String,
        /// Nickname.
        #[serde(default)]
        nick: String,
        /// Email address.
        #[serde(default)]
        email: String,
    },
    /// A room.
    Room(rooms::RoomLine),
    /// Who is related to it.
    RoomAffiliations(rooms::AffiliationsLine),
    /// A message of its archive.
    RoomMessage(rooms::MessageLine),
    /// It may be entered.
    RoomOpen(rooms::OpenLine),
    /// What of it members have had who are not there.
    RoomMembers(rooms::MembersLine),
    /// A service with nodes.
    Service(nodes::ServiceLine),
    /// A node of it, or of an account.
    Node(nodes::NodeLine),
    /// Who is related to it.
    NodeAffiliations(nodes::NodeAffiliationsLine),
    /// Who is told of it.
    NodeSubscriptions(nodes::NodeSubscriptionsLine),
    /// What was published there.
    NodeItem(nodes::NodeItemLine),
    /// Nodes that are elsewhere now.
    NodesMoved(nodes::NodesMovedLine),
    /// What a small service keeps.
    Part(parts::PartLine),
}

/// Why a line is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bad {
    /// A word for programs.
    pub(crate) code: String,
    /// A sentence for people.
    pub(crate) message: String,
}

/// The line itself is wrong.
fn bad(message: &str) -> Bad {
    Bad {
        code: "bad_line".to_owned(),
        message: message.to_owned(),
    }
}

/// A bare address in normal form, of an account or of a domain.
fn bare(jid: &str) -> Result<String, Bad> {
    let normal = xmpp::addr::normalize(jid);
    let normal = normal.map_err(|error| bad(&format!("{jid:?} is not an address: {error}")))?;
    match normal.contains('/') {
        true => Err(bad(&format!("{jid:?} has a resource"))),
        false => Ok(normal.into_owned()),
    }
}

/// Reads a line.
///
/// # Errors
/// It is none.
fn parse(text: &str) -> Result<Line, String> {
    serde_json::from_str(text).map_err(|error| format!("not a line of an export: {error}"))
}

/// Whose a line is, normalised. `None` if that cannot be read.
pub(crate) fn owner(text: &str) -> Option<String> {
    let line = parse(text).ok()?;
    bare(line.jid()).ok()
}

/// SCRAM keys in Base64.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Keys {
    /// `SHA-1` or `SHA-256`.
    hash: String,
    iterations: u32,
    salt: String,
    stored_key: String,
    server_key: String,
}

/// A contact.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contact {
    jid: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    groups: Vec<String>,
    /// `none`, `to`, `from` or `both`.
    subscription: String,
    #[serde(default)]
    ask: bool,
    #[serde(default)]
    approved: bool,
    #[serde(default = "yes")]
    listed: bool,
    /// The waiting request, as XML.
    #[serde(default)]
    request: Option<String>,
}

fn yes() -> bool {
    true
}

impl Line {
    /// Whose line it is.
    pub(crate) fn jid(&self) -> &str {
        match self {
            Line::Account { jid, .. }
            | Line::Roster { jid, .. }
            | Line::Blocklist { jid, .. }
            | Line::Vcard { jid, .. }
            | Line::Private { jid, .. }
            | Line::Directory { jid, .. } => jid,
            Line::Room(line) => &line.jid,
            Line::RoomAffiliations(line) => &line.jid,
            Line::RoomMessage(line) => &line.jid,
            Line::RoomOpen(line) => &line.jid,
            Line::RoomMembers(line) => &line.jid,
            Line::Service(line) => &line.jid,
            Line::Node(line) => &line.jid,
            Line::NodeAffiliations(line) => &line.jid,
            Line::NodeSubscriptions(line) => &line.jid,
            Line::NodeItem(line) => &line.jid,
            Line::NodesMoved(line) => &line.jid,
            Line::Part(line) => &line.jid,
        }
    }

    fn jid_mut(&mut self) -> &mut String {
        match self {
            Line::Account { jid, .. }
            | Line::Roster { jid, .. }
            | Line::Blocklist { jid, .. }
            | Line::Vcard { jid, .. }
            | Line::Private { jid, .. }
            | Line::Directory { jid, .. } => jid,
            Line::Room(line) => &mut line.jid,
            Line::RoomAffiliations(line) => &mut line.jid,
            Line::RoomMessage(line) => &mut line.jid,
            Line::RoomOpen(line) => &mut line.jid,
            Line::RoomMembers(line) => &mut line.jid,
            Line::Service(line) => &mut line.jid,
            Line::Node(line) => &mut line.jid,
            Line::NodeAffiliations(line) => &mut line.jid,
            Line::NodeSubscriptions(line) => &mut line.jid,
            Line::NodeItem(line) => &mut line.jid,
            Line::NodesMoved(line) => &mut line.jid,
            Line::Part(line) => &mut line.jid,
        }
    }

    fn is_of_room(&self) -> bool {
        matches!(
            self,
            Line::Room(_)
                | Line::RoomAffiliations(_)
                | Line::RoomMessage(_)
                | Line::RoomOpen(_)
                | Line::RoomMembers(_)
        )
    }

    fn may_be_of_service(&self) -> bool {
        matches!(
            self,
            Line::Service(_)
                | Line::Node(_)
                | Line::NodeAffiliations(_)
                | Line::NodeSubscriptions(_)
                | Line::NodeItem(_)
                | Line::NodesMoved(_)
        )
    }

    /// The record that makes it so, of a line of an account.
    ///
    /// # Errors
    /// What is wrong with the line.
    fn into_record(self) -> Result<Record, String> {
        Ok(match self {
            Line::Account {
                jid,
                created,
                locked,
                scram,
            } => {
                let scram: Result<Vec<_>, String> = scram.iter().map(Keys::decode).collect();
                let created = Timestamp::from_millis(created);
                Record::AccountPut {
                    user: jid,
                    account: Account {
                        created,
                        locked,
                        scram: scram?,
                    },
                }
            }
            Line::Roster { jid, items } => {
                let items: Result<Vec<_>, String> =
                    items.into_iter().map(Contact::decode).collect();
                roster::replace_record(&jid, items?)
            }
            Line::Blocklist { jid, blocked } => Record::BlocklistPut { user: jid, blocked },
            Line::Vcard {
                jid,
                xml,
                photo_hash,
            } => Record::VCardPut {
                user: jid,
                xml: xml.into_bytes(),
                photo_hash,
            },
            Line::Private { jid, ns, name, xml } => Record::PrivatePut {
                user: jid,
                ns,
                name,
                xml: xml.into_bytes(),
            },
            Line::Directory {
                jid,
                first,
                last,
                nick,
                email,
            } => Record::DirectoryPut {
                user: jid,
                entry: DirectoryEntry {
                    first,
                    last,
                    nick,
                    email,
                },
            },
            _ => return Err("a line that is not of an account".to_owned()),
        })
    }
}

impl Keys {
    fn encode(keys: &ScramKeys) -> Self {
        Keys {
            hash: match keys.hash {
                ScramHash::Sha1 => "SHA-1".to_owned(),
                ScramHash::Sha256 => "SHA-256".to_owned(),
            },
            iterations: keys.iterations,
            salt: STANDARD.encode(&keys.salt),
            stored_key: STANDARD.encode(&keys.stored_key),
            server_key: STANDARD.encode(&keys.server_key),
        }
    }

    fn decode(&self) -> Result<ScramKeys, String> {
        let bytes = |text: &str| {
            STANDARD
                .decode(text)
                .map_err(|_| "keys that are not Base64".to_owned())
        };
        let hash = match self.hash.as_str() {
            "SHA-1" => ScramHash::Sha1,
            "SHA-256" => ScramHash::Sha256,
            other => return Err(format!("an unknown hash {other:?}")),
        };
        Ok(ScramKeys {
            hash,
            iterations: self.iterations,
            salt: bytes(&self.salt)?,
            stored_key: bytes(&self.stored_key)?,
            server_key: bytes(&self.server_key)?,
        })
    }
}

impl Contact {
    fn encode(item: &RosterItem) -> Self {
        let subscription = match item.subscription {
            store::Subscription::None => "none",
            store::Subscription::To => "to",
            store::Subscription::From => "from",
            store::Subscription::Both => "both",
        };
        let request = item.pending_in.as_ref();
        Contact {
            jid: item.jid.clone(),
            name: item.name.clone(),
            groups: item.groups.clone(),
            subscription: subscription.to_owned(),
            ask: item.ask,
            approved: item.approved,
            listed: item.listed,
            request: request.map(|xml| String::from_utf8_lossy(xml).into_owned()),
        }
    }

    fn decode(self) -> Result<RosterItem, String> {
        let subscription = match self.subscription.as_str() {
            "none" => store::Subscription::None,
            "to" => store::Subscription::To,
            "from" => store::Subscription::From,
            "both" => store::Subscription::Both,
            other => return Err(format!("an unknown subscription {other:?}")),
        };
        Ok(RosterItem {
            jid: self.jid,
            name: self.name,
            groups: self.groups,
            subscription,
            ask: self.ask,
            approved: self.approved,
            listed: self.listed,
            pending_in: self.request.map(String::into_bytes),
        })
    }
}

/// The lines of one account, but for its nodes.
///
/// # Errors
/// The store's.
fn export(store: &Store, jid: &str) -> Result<Vec<String>, StoreError> {
    let Some(state) = store.load_user(jid)? else {
        return Ok(Vec::new());
    };
    let own = || jid.to_owned();
    let mut lines = vec![
        Line::Account {
            jid: own(),
            created: state.account.created.as_millis(),
            locked: state.account.locked,
            scram: state.account.scram.iter().map(Keys::encode).collect(),
        },
        Line::Roster {
            jid: own(),
            items: state.roster.items.iter().map(Contact::encode).collect(),
        },
    ];
    if !state.blocked.is_empty() {
        lines.push(Line::Blocklist {
            jid: own(),
            blocked: state.blocked,
        });
    }
    let text = |xml: Vec<u8>| String::from_utf8_lossy(&xml).into_owned();
    if let Some(xml) = store.vcard(jid)? {
        lines.push(Line::Vcard {
            jid: own(),
            xml: text(xml),
            photo_hash: state.photo_hash,
        });
    }
    for (ns, name, xml) in store.private_all(jid)? {
        lines.push(Line::Private {
            jid: own(),
            ns,
            name,
            xml: text(xml),
        });
    }
    if let Some(entry) = store.directory_entry(jid)? {
        lines.push(Line::Directory {
            jid: own(),
            first: entry.first,
            last: entry.last,
            nick: entry.nick,
            email: entry.email,
        });
    }
    // Invariant: plain values always serialise.
    Ok(lines
        .iter()
        .map(|line| serde_json::to_string(line).expect("a line serialises"))
        .collect())
}

/// A part of a ring of accounts: u0…, each with contacts on either side.
#[derive(Clone, Debug)]
pub(crate) struct Population {
    /// Their domain.
    pub domain: String,
    /// Accounts of the whole ring.
    pub users: u64,
    /// Contacts of each, an even number; half on either side.
    pub contacts: u64,
    /// First account of this part.
    pub first: u64,
    /// Accounts of this part.
    pub count: u64,
}

impl Population {
    /// The records that make it, two for each account, made one at a time.
    pub(crate) fn records(&self, account: &Account) -> impl Iterator<Item = Record> {
        let Population {
            domain,
            users,
            contacts,
            first,
            count,
        } = self.clone();
        let account = account.clone();
        let last = users.min(first.saturating_add(count));
        let half = (contacts / 2).min(users.saturating_sub(1) / 2);
        (first..last).flat_map(move |number| {
            let jid = |number: u64| format!("u{number}@{domain}");
            let neighbours = (1..=half)
                .flat_map(|step| [(number + step) % users, (number + users - step) % users]);
            let items = neighbours
                .map(|number| roster::mutual_item(jid(number)))
                .collect();
            let user = jid(number);
            let account = Record::AccountPut {
                user: user.clone(),
                account: account.clone(),
            };
            [account, roster::replace_record(&user, items)]
        })
    }
}
