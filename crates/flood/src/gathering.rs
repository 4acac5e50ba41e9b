//! Rooms (XEP-0045) and nodes (XEP-0060) as a client meets them: how it takes part in one, what it
//! says there, and how it recognises what comes from there.

use std::io::Write as _;

use serde::{Deserialize, Serialize};

use crate::scan::Element;
use crate::session::{Event, Profile, Stamp};

/// Name of the room and of the node of a run, at the services of the users' domain.
const NAME: &str = "flood";
/// Ids of the requests that a user makes for each place.
const IDS: [(&str, Place); 3] = [
    ("gather-room", Place::Room),
    ("gather-node", Place::Node),
    ("gather-say", Place::Node),
];

/// Where what one user says is sent to many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// A room at `conference.<domain>`: who takes part is an occupant.
    Room,
    /// A node at `pubsub.<domain>`: who takes part is subscribed.
    Node,
}

impl Place {
    /// Both.
    pub(crate) const ALL: [Place; 2] = [Place::Room, Place::Node];
}

/// The address of the room.
pub(crate) fn room(domain: &str) -> String {
    format!("{NAME}@conference.{domain}")
}

fn service(domain: &str) -> String {
    format!("pubsub.{domain}")
}

/// What a user writes to take part. User 0 comes first and makes a node that is not there; a room
/// is made by whoever enters it first, as its answer tells him.
pub(crate) fn write_entry(place: Place, profile: &Profile, user: u32, out: &mut Vec<u8>) {
    let Profile {
        prefix,
        domain,
        resource,
        ..
    } = profile;
    // Invariant: writing to a Vec cannot fail.
    let _ = match place {
        Place::Room => write!(
            out,
            "<presence to='{}/{prefix}{user}'><x xmlns='http://jabber.org/protocol/muc'>\
             <history maxstanzas='0'/></x></presence>",
            profile.room
        ),
        Place::Node => write!(
            out,
            "<iq type='set' to='{}' id='gather-node'>\
             <pubsub xmlns='http://jabber.org/protocol/pubsub'>\
             <subscribe node='{NAME}' jid='{prefix}{user}@{domain}/{resource}'/></pubsub></iq>",
            service(domain)
        ),
    };
}

/// Makes the node: everybody may publish, and items are not kept by a server that can do so.
pub(crate) fn write_node(profile: &Profile, out: &mut Vec<u8>) {
    let _ = write!(
        out,
        "<iq type='set' to='{}' id='gather-make'>\
         <pubsub xmlns='http://jabber.org/protocol/pubsub'><create node='{NAME}'/><configure>\
         <x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE' type='hidden'>\
         <value>http://jabber.org/protocol/pubsub#node_config</value></field>\
         <field var='pubsub#publish_model'><value>open</value></field>\
         </x></configure></pubsub></iq>",
        service(&profile.domain)
    );
}

/// Accepts the defaults of a room that was made (XEP-0045 section 10.1.2).
pub(crate) fn write_defaults(profile: &Profile, out: &mut Vec<u8>) {
    let _ = write!(
        out,
        "<iq type='set' to='{}' id='gather-room'>\
         <query xmlns='http://jabber.org/protocol/muc#owner'>\
         <x xmlns='jabber:x:data' type='submit'/></query></iq>",
        profile.room
    );
}

/// Writes what `stamp.sender` says to all, padded to `length` bytes.
pub(crate) fn write_saying(
    place: Place,
    profile: &Profile,
    stamp: Stamp,
    length: u32,
    out: &mut Vec<u8>,
) {
    let id = (stamp.sender, stamp.sequence);
    match place {
        Place::Room => {
            let _ = write!(
                out,
                "<message to='{}' type='groupchat' id='{}-{}'><body>",
                profile.room, id.0, id.1
            );
            stamp.write(length, out);
            out.extend_from_slice(b"</body></message>");
        }
        Place::Node => {
            let _ = write!(
                out,
                "<iq type='set' to='{}' id='gather-say'>\
                 <pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='{NAME}'>\
                 <item id='{}-{}'><said xmlns='urn:flood'>",
                service(&profile.domain),
                id.0,
                id.1
            );
            stamp.write(length, out);
            out.extend_from_slice(b"</said></item></publish></pubsub></iq>");
        }
    }
}

/// What a stanza from the room or the service means; `None` if it is from elsewhere.
pub(crate) fn read<'a>(profile: &Profile, stanza: Element<'a>) -> Option<Event<'a>> {
    let from = stanza.attr("from").unwrap_or_default();
    let is_error = stanza.attr("type") == Some(b"error");
    if stanza.name() == b"iq" {
        return answer(stanza, is_error);
    }
    let in_room = from.starts_with(profile.room.as_bytes());
    match stanza.name() {
        b"presence" if in_room && is_error => Some(refused(Place::Room, stanza)),
        b"presence" if in_room => Some(occupant(stanza)),
        b"message" if in_room && is_error => Some(refused(Place::Room, stanza)),
        b"message" if in_room => {
            let body = stanza.find("<body").map(|body| body.text());
            Some(copy(Place::Room, stanza, body))
        }
        b"message" if stanza.has("http://jabber.org/protocol/pubsub#event") => {
            let said = stanza.find("<said").map(|said| said.text());
            Some(copy(Place::Node, stanza, said))
        }
        _ => None,
    }
}

fn answer(iq: Element<'_>, is_error: bool) -> Option<Event<'_>> {
    if !is_error && iq.attr("type") != Some(b"result") {
        return None;
    }
    let id = iq.attr("id")?;
    if id == b"gather-make" {
        // A node that an earlier run left is as good.
        let is_there = !is_error || iq.has("<conflict");
        return Some(if is_there {
            Event::Made
        } else {
            refused(Place::Node, iq)
        });
    }
    let (id, place) = IDS.iter().find(|(name, _)| name.as_bytes() == id)?;
    Some(match (is_error, *id) {
        (true, _) => refused(*place, iq),
        (false, "gather-say") => Event::None,
        (false, _) => Event::Entered(*place),
    })
}

fn refused(place: Place, stanza: Element<'_>) -> Event<'_> {
    let condition = stanza.find("<error").and_then(|error| error.first_child());
    Event::Refused(place, condition.unwrap_or(b"undefined-condition"))
}

/// Presence of an occupant: of interest only when it is one's own (status 110). Who made the room
/// (201) has to accept its defaults before anybody else may enter.
fn occupant(stanza: Element<'_>) -> Event<'_> {
    let has = |code: u16| {
        stanza.has(&format!("code='{code}'")) || stanza.has(&format!("code=\"{code}\""))
    };
    match (has(110), stanza.attr("type")) {
        (true, None) if has(201) => Event::Locked,
        (true, None) => Event::Entered(Place::Room),
        (true, Some(b"unavailable")) => Event::Refused(Place::Room, b"put out of the room"),
        _ => Event::OtherPresence,
    }
}

/// What is said now, unlike the subject and what was said before.
fn copy<'a>(place: Place, stanza: Element<'a>, text: Option<&[u8]>) -> Event<'a> {
    match text.and_then(Stamp::read) {
        Some(stamp) if !stanza.has("<delay") => Event::Copy(place, stamp),
        _ => Event::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::{self, Item};

    fn profile() -> Profile {
        Profile {
            domain: "localhost".to_owned(),
            room: room("localhost"),
            prefix: "u".to_owned(),
            password: "pw".to_owned(),
            resource: "flood".to_owned(),
            roster: false,
            presence: true,
            stream_management: false,
        }
    }

    fn meaning(stanza: &str) -> String {
        let Some(Item::Stanza(element)) = scan::next(stanza.as_bytes()).unwrap().item else {
            panic!("{stanza} is no stanza");
        };
        read(&profile(), element).map_or("elsewhere".to_owned(), |event| format!("{event:?}"))
    }

    #[test]
    fn what_comes_from_a_room_or_a_node_is_recognised() {
        let said = "Stamp { sender: 8, sequence: 3, at: 99, pair: false, delayed: false }";
        let room = "from='flood@conference.localhost/u8'";
        for (stanza, expected) in [
            (
                format!("<presence {room}><x/></presence>"),
                "OtherPresence".to_owned(),
            ),
            (
                format!("<presence {room}><status code=\"110\"/></presence>"),
                "Entered(Room)".into(),
            ),
            (
                format!("<presence {room}><status code='201'/><status code='110'/></presence>"),
                "Locked".to_owned(),
            ),
            (
                format!("<presence {room} type='error'><error><conflict/></error></presence>"),
                format!("Refused(Room, {:?})", b"conflict"),
            ),
            (
                format!("<message {room}><body>flood c 8 3 99 padding</body></message>"),
                format!("Copy(Room, {said})"),
            ),
            (
                format!("<message {room}><body>flood c 8 3 99 x</body><delay/></message>"),
                "None".to_owned(),
            ),
            (
                format!("<message {room}><subject/></message>"),
                "None".to_owned(),
            ),
            (
                "<message from='pubsub.localhost'><event \
                 xmlns='http://jabber.org/protocol/pubsub#event'><items node='flood'>\
                 <item id='8-3'><said xmlns='urn:flood'>flood c 8 3 99 </said></item></items>\
                 </event></message>"
                    .to_owned(),
                format!("Copy(Node, {said})"),
            ),
            (
                "<iq type='result' id='gather-node'/>".to_owned(),
                "Entered(Node)".to_owned(),
            ),
            (
                "<iq type='result' id='gather-room'/>".to_owned(),
                "Entered(Room)".to_owned(),
            ),
            (
                "<iq type='result' id='gather-make'/>".to_owned(),
                "Made".to_owned(),
            ),
            (
                "<iq type='error' id='gather-make'><error><conflict/></error></iq>".to_owned(),
                "Made".to_owned(),
            ),
            (
                "<iq type='error' id='gather-say'><error><forbidden/></error></iq>".to_owned(),
                format!("Refused(Node, {:?})", b"forbidden"),
            ),
            (
                "<iq type='get' id='gather-node'/>".to_owned(),
                "elsewhere".to_owned(),
            ),
            (
                "<message from='u8@localhost'><body>x</body></message>".into(),
                "elsewhere".into(),
            ),
        ] {
            assert_eq!(meaning(&stanza), expected, "{stanza}");
        }
    }
}
