//! A sequence of what people send to a room, well-formed or not, with commits that come late or
//! fail. Nothing panics; whoever asks is answered once; and what a client was told last of itself
//! is what the room believes of it.

#![no_main]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use room::{Effect, Event, Options, Room, RoomLimits};
use roost_fuzz::{is_text, stanza_of};
use stdx::Timestamp;
use xml::{Frame, Framer, Scratch};

const ROOM: &str = "coven@chat.example";
const NICKS: [&str; 4] = ["crone", "wicca", "hag", "\u{202e}x"];
const ROLES: [&str; 5] = ["none", "visitor", "participant", "moderator", "god"];
const AFFILIATIONS: [&str; 6] = ["outcast", "none", "member", "admin", "owner", "god"];
const CHANGES: [(&str, &str); 12] = [
    ("persistentroom", "1"),
    ("persistentroom", "0"),
    ("membersonly", "1"),
    ("membersonly", "0"),
    ("moderatedroom", "1"),
    ("whois", "anyone"),
    ("whois", "none"),
    ("roomsecret", "burn"),
    ("passwordprotectedroom", "0"),
    ("presencebroadcast", "moderator"),
    ("allowpm", "none"),
    ("publicroom", "0"),
];

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    steps: Vec<Step<'a>>,
}

#[derive(Debug, Arbitrary)]
enum Step<'a> {
    Sends {
        user: u8,
        nick: Option<u8>,
        what: What<'a>,
    },
    Goes(u8),
    Commits(bool),
    Later(u16),
}

#[derive(Debug, Arbitrary)]
enum What<'a> {
    Enter(Option<String>, Option<u8>),
    Leave,
    Away,
    Say(String),
    Subject,
    Role(u8, bool, u8),
    Affiliate(u8, u8),
    List(bool, u8),
    Configure(Vec<u8>),
    Form,
    Destroy,
    Register(Option<u8>),
    Invite(u8),
    Decline(u8),
    Voice(Option<(u8, bool)>),
    Disco(bool),
    Ping,
    Comes(u8, String),
    Raw(&'a [u8]),
}

/// What a client was told last of itself, and what it has asked.
#[derive(Default)]
struct Client {
    is_in: bool,
    asked: BTreeMap<String, u32>,
}

struct World {
    room: Room,
    now: i64,
    clients: BTreeMap<String, Client>,
    appends: usize,
    waiting: VecDeque<Event>,
    count: u32,
}

fuzz_target!(|input: Input<'_>| {
    let limits = RoomLimits {
        occupants_max: 3,
        occupants_over_max: 1,
        sessions_per_nick_max: 2,
        affiliations_max: 6,
        items_max: 3,
        pending_max: 2,
        invitations_per_minute_max: 2,
        page_entries_max: 2,
        large_from: 3,
        ..RoomLimits::default()
    };
    let options = Arc::new(Options {
        limits,
        ..Options::default()
    });
    let mut world = World {
        room: Room::new(ROOM, None, options, [7; 16], 1),
        now: 1_000_000_000_000,
        clients: BTreeMap::new(),
        appends: 0,
        waiting: VecDeque::new(),
        count: 0,
    };
    for step in input.steps.iter().take(64) {
        world.step(step);
    }
    while world.appends > 0 {
        world.commit(true);
    }
    assert!(world.waiting.is_empty(), "something waits for nothing");
    for (address, client) in &world.clients {
        assert!(client.asked.is_empty(), "{address}: {:?}", client.asked);
        assert_eq!(client.is_in, world.room.has_session(address), "{address}");
    }
});

impl World {
    fn step(&mut self, step: &Step<'_>) {
        match step {
            Step::Later(seconds) => self.now += i64::from(*seconds) * 1_000,
            Step::Commits(is_committed) if self.appends > 0 => self.commit(*is_committed),
            Step::Commits(_) => {}
            Step::Goes(user) => {
                let address = full(*user);
                // It hears nothing any more.
                self.clients.insert(address.clone(), Client::default());
                self.give(Event::Gone {
                    address: address.into(),
                });
            }
            Step::Sends { user, nick, what } => {
                let from = full(*user);
                self.count += 1;
                let Some(frame) = self.stanza(what) else {
                    return;
                };
                let to =
                    nick.map_or_else(|| ROOM.to_owned(), |nick| format!("{ROOM}/{}", of(nick)));
                let Ok(to) = xmpp::addr::normalize(&to) else {
                    return;
                };
                let frame = frame
                    .edit()
                    .set_attr("from", &from)
                    .set_attr("to", &to)
                    .finish();
                if xmpp::stanza::check(&frame).is_err() {
                    return;
                }
                let is_request = frame.name() == "iq"
                    && matches!(frame.attr_raw("type"), Some("get" | "set"))
                    && nick.is_none();
                let client = self.clients.entry(from).or_default();
                if let Some(id) = frame.attr("id").filter(|_| is_request) {
                    *client.asked.entry(id.into_owned()).or_default() += 1;
                }
                let event = Event::Stanza {
                    frame,
                    may_create: true,
                    managed: None,
                    named: None,
                };
                self.give(event);
            }
        }
    }

    /// Gives an event, behind those that wait.
    fn give(&mut self, event: Event) {
        self.waiting.push_back(event);
        self.go_on();
    }

    fn go_on(&mut self) {
        while let Some(event) = self.waiting.pop_front() {
            match self.room.handle(event, Timestamp::from_millis(self.now)) {
                Ok(effects) => self.perform(effects),
                Err(event) => {
                    assert!(self.appends > 0, "busy with nothing");
                    return self.waiting.push_front(event);
                }
            }
        }
    }

    fn commit(&mut self, is_committed: bool) {
        self.appends -= 1;
        let event = Event::Decided { is_committed };
        let now = Timestamp::from_millis(self.now);
        let effects = self.room.handle(event, now).expect("a decision is taken");
        self.perform(effects);
        self.go_on();
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Append(records) => {
                    assert!(!records.is_empty());
                    self.appends += 1;
                }
                Effect::Send { frame, to, .. } => {
                    assert!(frame.attr("to").is_none(), "{frame:?}");
                    for to in to.iter() {
                        self.hears(to, &frame);
                    }
                }
                Effect::Deliver(frame) => {
                    let to = frame.attr("to").expect("an address").into_owned();
                    self.hears(&to, &frame);
                }
                Effect::Refuse { request, error } => {
                    if let Some(reply) = xmpp::error::reply(&request, &error) {
                        let to = reply.attr("to").expect("an address").into_owned();
                        self.hears(&to, &reply);
                    }
                }
                _ => {}
            }
        }
    }

    fn hears(&mut self, to: &str, frame: &Frame) {
        let Some(client) = self.clients.get_mut(to) else {
            return;
        };
        let kind = frame.attr("type");
        if frame.name() == "iq" && matches!(kind.as_deref(), Some("result" | "error")) {
            let id = frame.attr("id").unwrap_or_default().into_owned();
            if let Some(left) = client.asked.get_mut(&id) {
                *left -= 1;
                client.asked.retain(|_, left| *left > 0);
            }
        }
        if frame.name() == "presence" && says_110(frame) {
            client.is_in = kind.is_none();
        }
    }

    fn stanza(&self, what: &What<'_>) -> Option<Frame> {
        let id = self.count;
        let iq =
            |kind: &str, payload: String| format!("<iq type='{kind}' id='q{id}'>{payload}</iq>");
        let admin = |kind, item: String| {
            iq(
                kind,
                format!("<query xmlns='http://jabber.org/protocol/muc#admin'>{item}</query>"),
            )
        };
        let form = |name: &str, fields: String| {
            format!(
                "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>\
                 <value>http://jabber.org/protocol/muc#{name}</value></field>{fields}</x>"
            )
        };
        let field =
            |name: &str, value: &str| format!("<field var='{name}'><value>{value}</value></field>");
        let user = |content: String| {
            format!(
                "<message id='m{id}'><x xmlns='http://jabber.org/protocol/muc#user'>{content}</x>\
                 </message>"
            )
        };
        let text = match what {
            What::Enter(password, history) => {
                let password = password.as_ref().map_or_else(String::new, |password| {
                    format!("<password>{}</password>", clean(password))
                });
                let history =
                    history.map_or_else(String::new, |n| format!("<history maxstanzas='{n}'/>"));
                let x = format!("{password}{history}");
                let muc = "http://jabber.org/protocol/muc";
                format!("<presence id='p{id}'><x xmlns='{muc}'>{x}</x></presence>")
            }
            What::Leave => "<presence type='unavailable'/>".to_owned(),
            What::Away => "<presence><show>away</show></presence>".to_owned(),
            What::Say(text) => {
                format!(
                    "<message type='groupchat' id='m{id}'><body>{}</body></message>",
                    clean(text)
                )
            }
            What::Subject => "<message type='groupchat'><subject>s</subject></message>".to_owned(),
            What::Role(nick, by_address, role) => {
                let whom = match by_address {
                    true => format!("jid='{}'", full(*nick)),
                    false => format!("nick='{}'", of(*nick)),
                };
                admin(
                    "set",
                    format!("<item {whom} role='{}'/>", pick(&ROLES, *role)),
                )
            }
            What::Affiliate(target, affiliation) => {
                let (whom, what) = (full(*target), pick(&AFFILIATIONS, *affiliation));
                admin("set", format!("<item jid='{whom}' affiliation='{what}'/>"))
            }
            What::List(true, role) => {
                admin("get", format!("<item role='{}'/>", pick(&ROLES, *role)))
            }
            What::List(false, affiliation) => {
                let what = pick(&AFFILIATIONS, *affiliation);
                admin("get", format!("<item affiliation='{what}'/>"))
            }
            What::Configure(changes) => {
                let fields = changes.iter().take(4).map(|at| {
                    let (name, value) = CHANGES[usize::from(*at) % CHANGES.len()];
                    field(&format!("muc#roomconfig_{name}"), value)
                });
                let x = form("roomconfig", fields.collect());
                iq(
                    "set",
                    format!("<query xmlns='http://jabber.org/protocol/muc#owner'>{x}</query>"),
                )
            }
            What::Form => iq(
                "get",
                "<query xmlns='http://jabber.org/protocol/muc#owner'/>".to_owned(),
            ),
            What::Destroy => {
                let query =
                    "<query xmlns='http://jabber.org/protocol/muc#owner'><destroy/></query>";
                iq("set", query.to_owned())
            }
            What::Register(nick) => {
                let content = match nick {
                    Some(nick) => form("register", field("muc#register_roomnick", of(*nick))),
                    None => "<remove/>".to_owned(),
                };
                iq(
                    "set",
                    format!("<query xmlns='jabber:iq:register'>{content}</query>"),
                )
            }
            What::Invite(target) => user(format!("<invite to='{}'/>", full(*target))),
            What::Decline(target) => user(format!("<decline to='{}'/>", full(*target))),
            What::Voice(answer) => {
                let fields = match answer {
                    Some((nick, allow)) => {
                        let allow = if *allow { "1" } else { "0" };
                        let nick = field("muc#roomnick", of(*nick));
                        format!("{nick}{}", field("muc#request_allow", allow))
                    }
                    None => field("muc#role", "participant"),
                };
                format!("<message>{}</message>", form("request", fields))
            }
            What::Disco(is_info) => {
                let what = if *is_info { "info" } else { "items" };
                iq(
                    "get",
                    format!("<query xmlns='http://jabber.org/protocol/disco#{what}'/>"),
                )
            }
            What::Ping => iq("get", "<ping xmlns='urn:xmpp:ping'/>".to_owned()),
            What::Comes(kind, id) => {
                let name = pick(&["message", "presence", "iq"], *kind);
                format!(
                    "<{name} type='error' id='{}'><error type='cancel'>\
                     <gone xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></{name}>",
                    clean(id)
                )
            }
            What::Raw(bytes) => {
                let (mut framer, mut scratch) = (Framer::new(), Scratch::default());
                return Some(stanza_of(bytes, &mut framer, &mut scratch)?.to_frame());
            }
        };
        Frame::parse(text).ok()
    }
}

fn pick<'a>(all: &[&'a str], at: u8) -> &'a str {
    all[usize::from(at) % all.len()]
}

fn of(nick: u8) -> &'static str {
    pick(&NICKS, nick)
}

/// Four accounts with two devices each.
fn full(user: u8) -> String {
    format!("u{}@example.org/d{}", user % 4, user / 4 % 2)
}

/// Whether a presence is of its reader's own nick.
fn says_110(frame: &Frame) -> bool {
    let x = frame.child("x", "http://jabber.org/protocol/muc#user");
    let mut children = x.iter().flat_map(|x| x.children());
    children.any(|child| child.attr("code").as_deref() == Some("110"))
}

fn clean(text: &str) -> String {
    let mut out = Vec::new();
    let text: String = text.chars().filter(|c| is_text(*c)).take(200).collect();
    xml::build::Writer::new(&mut out).text(&text);
    String::from_utf8(out)
        .expect("text")
        .replace('\'', "&apos;")
}
