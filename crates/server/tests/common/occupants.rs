//! Clients with stream management in one room, which count what they are sent, and resume.

use std::time::Duration;

use super::world::{Peer, SM, World, bodies, stanzas};

pub(crate) const ROOM: &str = "coven@conference.localhost";
pub(crate) const MUC: &str = "http://jabber.org/protocol/muc";

/// Presence that enters the room.
pub(crate) fn enters(nick: &str) -> String {
    format!("<presence to='{ROOM}/{nick}'><x xmlns='{MUC}'/></presence>")
}

/// A client with stream management or without enters, whose stanzas the test does not count.
pub(crate) fn enter_as(world: &mut World, user: &str, is_managed: bool) -> Peer {
    let mut peer = match is_managed {
        true => world.login_managed(user, user).0,
        false => world.login(user, user),
    };
    peer.ask(world, &enters(user), "<subject");
    peer
}

/// A client that counts what it is sent, and resumes.
pub(crate) struct Client {
    pub(crate) user: &'static str,
    pub(crate) nick: &'static str,
    pub(crate) token: String,
    pub(crate) peer: Option<Peer>,
    /// Everything that it was sent since it was counted.
    pub(crate) heard: String,
}

impl Client {
    pub(crate) fn login(world: &mut World, user: &'static str, nick: &'static str) -> Client {
        let (peer, token) = world.login_managed(user, nick);
        Client {
            user,
            nick,
            token,
            peer: Some(peer),
            heard: String::new(),
        }
    }

    pub(crate) fn enter(world: &mut World, user: &'static str, nick: &'static str) -> Client {
        let mut client = Client::login(world, user, nick);
        client.send(&enters(nick));
        client.expect(world, "<subject");
        client.expect(world, "</message>");
        client
    }

    pub(crate) fn send(&mut self, text: &str) {
        if let Some(peer) = &mut self.peer {
            peer.send(text);
        }
    }

    pub(crate) fn expect(&mut self, world: &mut World, wanted: &str) {
        let peer = self.peer.as_mut().expect("it has a link");
        let seen = peer.expect(world, wanted);
        self.heard.push_str(&seen);
    }

    /// Takes what has come: whole stanzas.
    pub(crate) fn read(&mut self) {
        let Some(peer) = &mut self.peer else { return };
        while peer.read() {}
        let ends = ["</message>", "</presence>", "</iq>", "/>"];
        let end = ends
            .iter()
            .filter_map(|end| Some(peer.seen.rfind(end)? + end.len()));
        if let Some(end) = end.max() {
            let seen: String = peer.seen.drain(..end).collect();
            self.heard.push_str(&seen);
        }
        self.peer.take_if(|peer| peer.has_ended);
    }

    /// Its stream may end by a fault of the server: then it has no link.
    pub(crate) fn may_end(&mut self) {
        if let Some(peer) = &mut self.peer {
            peer.may_end = true;
        }
    }

    pub(crate) fn handled(&self) -> u32 {
        stanzas(&self.heard)
    }

    pub(crate) fn acknowledge(&mut self) {
        self.read();
        let h = self.handled();
        self.send(&format!("<a {SM} h='{h}'/>"));
    }

    pub(crate) fn say(&mut self, number: usize) {
        self.send(&format!(
            "<message type='groupchat' to='{ROOM}' id='m{number}'><body>{number}</body></message>"
        ));
    }

    pub(crate) fn lose_link(&mut self) {
        self.read();
        self.peer = None;
    }

    pub(crate) fn resume(&mut self, world: &mut World) {
        if self.peer.is_some() {
            return;
        }
        let mut peer = world.connect(self.user);
        peer.resume(&self.token, self.handled());
        let seen = peer.expect(world, "/>");
        assert!(seen.contains("<resumed"), "{}: {seen}", self.nick);
        self.peer = Some(peer);
    }

    /// What everybody said, as this one heard it.
    pub(crate) fn said(&self) -> Vec<usize> {
        bodies(&self.heard)
    }
}

/// A request that configures the room.
pub(crate) fn configures(fields: &str) -> String {
    format!(
        "<iq type='set' id='config' to='{ROOM}'><query xmlns='{MUC}#owner'>\
         <x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>\
         <value>{MUC}#roomconfig</value></field>{fields}</x></query></iq>"
    )
}

pub(crate) fn configure(world: &mut World, owner: &mut Client, fields: &str) {
    owner.send(&configures(fields));
    owner.expect(world, "id='config'");
}

/// Rooms are temporary unless their owner says otherwise.
pub(crate) const TEMPORARY: &str = "";
pub(crate) const PERSISTENT: &str =
    "<field var='muc#roomconfig_persistentroom'><value>1</value></field>";

pub(crate) fn pair(world: &mut World) -> (Client, Client) {
    pair_in(world, PERSISTENT)
}

pub(crate) fn pair_in(world: &mut World, kind: &str) -> (Client, Client) {
    let mut romeo = Client::enter(world, "romeo", "romeo");
    configure(world, &mut romeo, kind);
    let juliet = Client::enter(world, "juliet", "juliet");
    romeo.expect(world, "/juliet'");
    (romeo, juliet)
}

pub(crate) fn kick(world: &mut World, moderator: &mut Client, nick: &str) {
    moderator.send(&format!(
        "<iq type='set' id='kick' to='{ROOM}'><query xmlns='{MUC}#admin'>\
         <item nick='{nick}' role='none'/></query></iq>"
    ));
    moderator.expect(world, "id='kick'");
}

/// Lets all that is left happen.
pub(crate) fn rest(world: &mut World) {
    for _ in 0..20 {
        world.pass(Duration::from_millis(300));
    }
}

/// Who is there, as a client was told.
pub(crate) fn there(client: &Client) -> Vec<String> {
    let mut there = Vec::new();
    for stanza in client.heard.split("<presence ").skip(1) {
        let (_, from) = stanza.split_once("from='").expect("an address");
        let (from, _) = from.split_once('\'').expect("its end");
        let Some((ROOM, nick)) = from.split_once('/') else {
            continue;
        };
        there.retain(|other| other != nick);
        let (tag, _) = stanza.split_once('>').expect("the end of a tag");
        if !tag.contains("type='unavailable'") {
            there.push(nick.to_owned());
        }
    }
    there.sort();
    there
}
