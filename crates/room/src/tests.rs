//! Tests by the sections of XEP-0045. Owns the small world that they play in: a room whose appends
//! are committed at once, and everybody's mail.

mod admin;
mod approve;
mod bounds;
mod card;
mod durable;
mod enter;
mod hats;
mod hostile;
mod large;
mod members;
mod owner;
mod present;
mod retract;
mod talk;

use std::collections::BTreeMap;
use std::sync::Arc;

use stdx::Timestamp;
use xml::Frame;

use crate::{Effect, Event, Options, Placed, Present, Record, Room, RoomLimits};

pub(crate) const ROOM: &str = "coven@chat.example";
const START: Timestamp = Timestamp::from_millis(1_000_000_000_000);

/// A room and everybody's mail.
pub(crate) struct World {
    pub(crate) room: Room,
    pub(crate) now: Timestamp,
    /// What each address was sent and has not read.
    pub(crate) mail: BTreeMap<String, Vec<String>>,
    /// Everything that was committed.
    pub(crate) journal: Vec<Record>,
    /// Whether appends are decided at once, and how.
    pub(crate) decides: Option<bool>,
    pub(crate) appends: usize,
    pub(crate) has_ended: bool,
    /// Who was to be told that he is delivered to.
    pub(crate) new_members: Vec<String>,
    /// Who is there, as it is kept.
    pub(crate) kept: BTreeMap<String, Vec<u8>>,
    /// How often that was written.
    pub(crate) keeps: usize,
    /// Whether the room hears that it was.
    pub(crate) keeps_at_once: bool,
    /// What homes were told of where the log is owed from.
    pub(crate) here: Vec<(String, u32, Option<u64>)>,
    /// Where messages to all were.
    pub(crate) placed: Vec<Placed>,
    options: Arc<Options>,
}

impl World {
    pub(crate) fn new() -> World {
        World::with(Options {
            locks_new: false,
            ..Options::default()
        })
    }

    pub(crate) fn limited(change: impl FnOnce(&mut RoomLimits)) -> World {
        let mut options = Options {
            locks_new: false,
            ..Options::default()
        };
        change(&mut options.limits);
        World::with(options)
    }

    pub(crate) fn with(options: Options) -> World {
        let options = Arc::new(options);
        World {
            room: Room::new(ROOM, None, Arc::clone(&options), [7; 16], 1),
            now: START,
            mail: BTreeMap::new(),
            journal: Vec::new(),
            decides: Some(true),
            appends: 0,
            has_ended: false,
            new_members: Vec::new(),
            kept: BTreeMap::new(),
            keeps: 0,
            keeps_at_once: true,
            here: Vec::new(),
            placed: Vec::new(),
            options,
        }
    }

    /// Gives an event and performs what comes of it.
    pub(crate) fn event(&mut self, event: Event) -> bool {
        match self.room.handle(event, self.now) {
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
                        self.journal.extend(records);
                    }
                    assert!(self.event(Event::Decided { is_committed }));
                }
                Effect::Keep(parts) => {
                    self.keeps += parts.len();
                    for (name, part) in parts {
                        match part.is_empty() {
                            true => self.kept.remove(&name),
                            false => self.kept.insert(name, part),
                        };
                    }
                    if self.keeps_at_once {
                        self.room.kept();
                    }
                }
                Effect::Here {
                    address,
                    number,
                    since,
                    ..
                } => self.here.push((address.to_string(), number, since)),
                Effect::Send { frame, to, placed } => {
                    self.placed.extend(placed);
                    assert!(frame.attr("to").is_none(), "{frame:?}");
                    for to in to.iter() {
                        self.deliver(to, &frame.edit().set_attr("to", to).finish());
                    }
                }
                Effect::Deliver(frame) | Effect::Tell { frame, .. } => {
                    let to = frame.attr("to").expect("an address").into_owned();
                    self.deliver(&to, &frame);
                }
                Effect::Refuse { request, error } => {
                    if let Some(reply) = xmpp::error::reply(&request, &error) {
                        let to = reply.attr("to").expect("an address").into_owned();
                        self.deliver(&to, &reply);
                    }
                }
                // Tests ask [`Room::unconfirmed`] themselves.
                Effect::Ask => {}
                Effect::Members(new) => self.new_members.extend(new),
                Effect::Ended => self.has_ended = true,
            }
        }
    }

    fn deliver(&mut self, to: &str, frame: &Frame) {
        let from = frame.attr("from").expect("a sender");
        assert!(xmpp::addr::bare_part(&from) == ROOM, "{frame:?}");
        let text = String::from_utf8(frame.as_bytes().to_vec()).unwrap();
        self.mail.entry(to.to_owned()).or_default().push(text);
    }

    /// Whether the store has the room.
    pub(crate) fn is_durable(&self) -> bool {
        let limits = &self.options.limits;
        crate::State::of(self.journal.clone(), limits).is_some()
    }

    /// The process ends without a word, and a new one begins.
    pub(crate) fn restart(&mut self) {
        let limits = &self.options.limits;
        let state = crate::State::of(self.journal.clone(), limits);
        self.room = Room::new(ROOM, state, Arc::clone(&self.options), [8; 16], 1);
        let kept = self.kept.values();
        let kept = kept.map(|part| Present::decode(part).expect("a part"));
        self.room.recover(kept.collect(), self.now);
        self.forget_mail();
        self.here.clear();
    }

    /// A stanza of a real address to the room (`""`) or a nick.
    pub(crate) fn send(&mut self, from: &str, nick: &str, stanza: &str) {
        self.send_as(from, nick, stanza, None);
    }

    /// The same of a session that is managed, with its number.
    pub(crate) fn send_as(&mut self, from: &str, nick: &str, stanza: &str, managed: Option<u32>) {
        let to = if nick.is_empty() {
            ROOM.to_owned()
        } else {
            format!("{ROOM}/{nick}")
        };
        let frame = Frame::parse(stanza).unwrap();
        let frame = frame
            .edit()
            .set_attr("from", from)
            .set_attr("to", &to)
            .finish();
        assert!(
            self.event(Event::Stanza {
                frame,
                may_create: true,
                managed,
                named: None,
            }),
            "the room is busy"
        );
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

    pub(crate) fn forget_mail(&mut self) {
        self.mail.clear();
    }

    pub(crate) fn join(&mut self, who: &str, nick: &str) {
        self.send(
            who,
            nick,
            "<presence><x xmlns='http://jabber.org/protocol/muc'/></presence>",
        );
    }

    pub(crate) fn join_managed(&mut self, who: &str, nick: &str, number: u32) {
        let join = "<presence><x xmlns='http://jabber.org/protocol/muc'/></presence>";
        self.send_as(who, nick, join, Some(number));
    }

    /// The condition of the one error that an address is sent for a stanza.
    #[track_caller]
    pub(crate) fn refused(&mut self, who: &str, nick: &str, stanza: &str) -> String {
        self.read(who);
        self.send(who, nick, stanza);
        condition(&self.read_one(who)).expect("an error")
    }

    /// A request to the room; the payload of its result, or the condition of its error.
    #[track_caller]
    pub(crate) fn ask(&mut self, who: &str, kind: &str, payload: &str) -> Result<String, String> {
        self.send(who, "", &format!("<iq type='{kind}' id='q'>{payload}</iq>"));
        let mail = self.mail.get_mut(who).expect("an answer");
        let at = mail
            .iter()
            .position(|one| one.starts_with("<iq"))
            .expect("an answer");
        let answer = mail.remove(at);
        self.mail.retain(|_, mail| !mail.is_empty());
        match condition(&answer) {
            Some(condition) => Err(condition),
            None => Ok(answer),
        }
    }

    #[track_caller]
    pub(crate) fn admin(&mut self, who: &str, item: &str) -> Result<String, String> {
        let query = format!("<query xmlns='http://jabber.org/protocol/muc#admin'>{item}</query>");
        self.ask(who, "set", &query)
    }

    #[track_caller]
    pub(crate) fn list(&mut self, who: &str, item: &str) -> Result<String, String> {
        let query = format!("<query xmlns='http://jabber.org/protocol/muc#admin'>{item}</query>");
        self.ask(who, "get", &query)
    }

    #[track_caller]
    pub(crate) fn configure(
        &mut self,
        who: &str,
        fields: &[(&str, &str)],
    ) -> Result<String, String> {
        let fields: String = fields
            .iter()
            .map(|(name, value)| {
                let name = match *name {
                    "maxhistoryfetch" => "muc#maxhistoryfetch".to_owned(),
                    name if name.starts_with("x-") => name.to_owned(),
                    name => format!("muc#roomconfig_{name}"),
                };
                let values = value.split(' ').map(|v| format!("<value>{v}</value>"));
                format!("<field var='{name}'>{}</field>", values.collect::<String>())
            })
            .collect();
        let query = format!(
            "<query xmlns='http://jabber.org/protocol/muc#owner'>\
             <x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>\
             <value>http://jabber.org/protocol/muc#roomconfig</value></field>{fields}</x></query>"
        );
        self.ask(who, "set", &query)
    }

    /// A room with an owner, a member of no affiliation and another one, and no mail.
    pub(crate) fn coven() -> World {
        let mut world = World::new();
        for (who, nick) in [(CRONE, "crone"), (WICCA, "wicca"), (HAG, "hag")] {
            world.join(who, nick);
        }
        world.forget_mail();
        world
    }
}

/// The owner of [`World::coven`].
pub(crate) const CRONE: &str = "crone1@example.org/desktop";
pub(crate) const WICCA: &str = "wiccarocks@example.org/laptop";
pub(crate) const HAG: &str = "hag66@example.org/pda";
pub(crate) const HECATE: &str = "hecate@example.org/broom";

/// The condition of an error stanza.
pub(crate) fn condition(stanza: &str) -> Option<String> {
    let (_, rest) = stanza.split_once("<error type='")?;
    let (kind, rest) = rest.split_once("'><")?;
    let (condition, _) = rest.split_once(' ')?;
    Some(format!("{condition}/{kind}"))
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
