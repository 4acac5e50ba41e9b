//! Requests to the room that change nothing, and the table of all requests: discovery (XEP-0045
//! sections 6.4, 6.5 and 7.12, XEP-0030, XEP-0128) and ping (XEP-0199).

use stdx::Timestamp;
use xml::Frame;
use xml::build::Writer;
use xmpp::error::Condition;
use xmpp::{addr, ns, rsm};

use crate::admin::NS_ADMIN;
use crate::affiliation::Affiliation;
use crate::card::NS_VCARD;
use crate::command::NS_COMMANDS;
use crate::config::{Config, Whois};
use crate::enter::NS_MUC;
use crate::form::FormWriter;
use crate::hats::NS_HATS;
use crate::owner::NS_OWNER;
use crate::retract::{NS_MODERATE, NS_RETRACT, NS_TOMBSTONE};
use crate::room::Room;

const NS_MAM: &str = "urn:xmpp:mam:2";
/// Ids in queries, flipped pages and where the archive begins and ends.
const NS_MAM_EXTENDED: &str = "urn:xmpp:mam:2#extended";
const NS_FULL_TEXT: &str = "urn:xmpp:fulltext:0";
const NODE_NICK: &str = "x-roomuser-item";
const NODE_TRAFFIC: &str = "http://jabber.org/protocol/muc#traffic";
const FORM_TYPE: &str = "http://jabber.org/protocol/muc#roominfo";

/// What a room can do, beside its type.
pub const FEATURES: &[&str] = &[
    ns::DISCO_INFO,
    ns::DISCO_ITEMS,
    NS_COMMANDS,
    NS_MUC,
    "http://jabber.org/protocol/muc#request",
    "http://jabber.org/protocol/muc#self-ping-optimization",
    "http://jabber.org/protocol/muc#stable_id",
    "jabber:iq:register",
    "jabber:x:conference",
    NS_MODERATE,
    NS_RETRACT,
    NS_TOMBSTONE,
    NS_HATS,
    "urn:xmpp:occupant-id:0",
    "urn:xmpp:ping",
    "urn:xmpp:sid:0",
    NS_VCARD,
    rsm::NS,
];

/// The features that name the type of a room (section 16.3).
pub(crate) fn type_features(config: &Config) -> [&'static str; 6] {
    let pick = |holds: bool, yes, no| if holds { yes } else { no };
    [
        pick(config.is_public, "muc_public", "muc_hidden"),
        pick(config.is_members_only, "muc_membersonly", "muc_open"),
        pick(config.is_moderated, "muc_moderated", "muc_unmoderated"),
        match config.whois {
            Whois::Anyone => "muc_nonanonymous",
            Whois::Moderators => "muc_semianonymous",
            Whois::Nobody => "muc_fullyanonymous",
        },
        pick(
            !config.password.is_empty(),
            "muc_passwordprotected",
            "muc_unsecured",
        ),
        pick(config.is_persistent, "muc_persistent", "muc_temporary"),
    ]
}

impl Room {
    /// A request to the room itself.
    pub(crate) fn iq(&mut self, frame: &Frame, is_set: bool, from: &str, now: Timestamp) {
        let Some(payload) = frame.children().next() else {
            return self.refuse(frame, Condition::BadRequest);
        };
        let Some(state) = &self.state else {
            return self.refuse(frame, Condition::ItemNotFound);
        };
        let (name, ns) = (payload.name().to_owned(), payload.ns().to_owned());
        // To others a room that is not configured yet is not there.
        if state.is_locked && self.affiliation_of(from) != Affiliation::Owner {
            return self.refuse(frame, Condition::ItemNotFound);
        }
        match (name.as_str(), ns.as_str()) {
            ("query", NS_ADMIN) => self.administer(frame, is_set, from, now),
            ("query", NS_OWNER) => self.own(frame, is_set, from, now),
            ("query", ns::REGISTER) => self.register(frame, is_set, from, now),
            ("query", ns::DISCO_INFO | ns::DISCO_ITEMS) | ("ping", ns::PING) if is_set => {
                self.refuse(frame, Condition::NotAllowed);
            }
            ("query", ns::DISCO_INFO) => self.disco_info(frame, &payload, from),
            ("query", ns::DISCO_ITEMS) => self.disco_items(frame, &payload, from),
            ("ping", ns::PING) => self.answer(frame, &[]),
            ("command", NS_COMMANDS) => self.command(frame, is_set, from, now),
            ("vCard", NS_VCARD) => self.card(frame, is_set, from, now),
            ("moderate", NS_MODERATE) => self.moderate(frame, is_set, from, now),
            _ => self.refuse(frame, Condition::ServiceUnavailable),
        }
    }

    fn disco_info(&mut self, frame: &Frame, query: &xml::Child<'_>, from: &str) {
        match query.attr("node").as_deref() {
            Some(NODE_NICK) => self.reserved_nick_info(frame, from),
            // Section 18.1.1.
            Some(NODE_TRAFFIC) => self.refuse(frame, Condition::FeatureNotImplemented),
            Some(node) if self.command_info(frame, from, node) => {}
            Some(_) => self.refuse(frame, Condition::ItemNotFound),
            None => self.room_info(frame, from),
        }
    }

    fn room_info(&mut self, frame: &Frame, from: &str) {
        let Some(state) = &self.state else { return };
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.open("query").attr("xmlns", ns::DISCO_INFO);
        let config = &state.config;
        writer
            .open("identity")
            .attr("category", "conference")
            .attr("type", "text");
        // Of one without a name, clients show the address.
        if !config.name.is_empty() {
            writer.attr("name", &config.name);
        }
        writer.close();
        for feature in FEATURES.iter().chain(&type_features(config)) {
            writer.open("feature").attr("var", feature).close();
        }
        if config.is_persistent && self.options.has_archive {
            for feature in [NS_MAM, NS_MAM_EXTENDED, NS_FULL_TEXT] {
                writer.open("feature").attr("var", feature).close();
            }
        }
        let (subject, occupants) = match self.may_follow(from) {
            true => (self.subject_text(), self.occupants.len().to_string()),
            false => (String::new(), String::new()),
        };
        let history = config.history_length.to_string();
        let flag = |holds: bool| if holds { "1" } else { "0" };
        let single = "text-single";
        let mut form = FormWriter::new(&mut writer, "result", FORM_TYPE);
        for (name, label, value) in [
            (
                "muc#roominfo_description",
                "Description",
                config.description.as_str(),
            ),
            ("muc#roominfo_subject", "Subject", subject.as_str()),
            ("muc#roominfo_occupants", "Occupants", occupants.as_str()),
            ("muc#roominfo_lang", "Language", config.lang.as_str()),
            (
                "muc#roominfo_pubsub",
                "Associated node",
                config.pubsub.as_str(),
            ),
            (
                "muc#maxhistoryfetch",
                "Messages for those who enter",
                history.as_str(),
            ),
        ] {
            if !value.is_empty() {
                form.field((name, single, label), &[value], &[]);
            }
        }
        let subject = (
            "muc#roominfo_subjectmod",
            "boolean",
            "Occupants may change the subject",
        );
        form.field(subject, &[flag(config.may_change_subject)], &[]);
        let hashes: Vec<&str> = state.card.hashes.iter().map(String::as_str).collect();
        if !hashes.is_empty() {
            let avatar = ("muc#roominfo_avatarhash", "text-multi", "Avatar hash");
            form.field(avatar, &hashes, &[]);
        }
        let name = ("muc#roomconfig_roomname", single, "Name");
        form.field(name, &[&config.name], &[]);
        form.close();
        writer.close();
        self.answer(frame, &out);
    }

    /// Section 7.12: without a reserved nick the answer is empty.
    fn reserved_nick_info(&mut self, frame: &Frame, from: &str) {
        let Some(state) = &self.state else { return };
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.open("query").attr("xmlns", ns::DISCO_INFO);
        writer.attr("node", NODE_NICK);
        if let Some(nick) = state.reserved_nick(addr::bare_part(from)) {
            writer.open("identity").attr("category", "conference");
            writer.attr("type", "text").attr("name", nick).close();
        }
        writer.close();
        self.answer(frame, &out);
    }

    fn subject_text(&self) -> String {
        let subject = self.state.as_ref().and_then(|state| state.subject.as_ref());
        let frame = subject.and_then(|subject| Frame::parse(subject.xml.clone()).ok());
        let child = frame
            .as_ref()
            .and_then(|frame| frame.child("subject", xml::NS_CONTENT));
        child
            .and_then(|child| child.text())
            .unwrap_or_default()
            .into_owned()
    }

    /// Section 6.5: who is there is told to those who are, and to those who could see it by
    /// entering; of a room that hides only to those who are known there.
    fn may_see_occupants(&self, from: &str) -> bool {
        let is_listed = self.state.as_ref().is_some_and(|s| s.config.is_public);
        let is_known = is_listed || self.affiliation_of(from) >= Affiliation::Member;
        self.has_session(from) || (is_known && self.may_follow(from))
    }

    /// Section 6.5, page by page (XEP-0059).
    fn disco_items(&mut self, frame: &Frame, query: &xml::Child<'_>, from: &str) {
        match query.attr("node").as_deref() {
            Some(NS_COMMANDS) => return self.list_commands(frame, from),
            Some(_) => return self.refuse(frame, Condition::ItemNotFound),
            None => {}
        }
        let mut shown: Vec<String> = Vec::new();
        if self.may_see_occupants(from) {
            let occupants = self.occupants.iter().filter(|(_, o)| self.is_shown(o));
            shown.extend(occupants.map(|(_, o)| format!("{}/{}", self.address, o.nick)));
        }
        let limits = &self.options.limits;
        let bounds = (limits.page_entries_max, limits.page_bytes_max);
        let parts: Vec<Frame> = query.children().collect();
        let page = rsm::Set::find(&parts).and_then(|set| {
            let keys = (shown.len(), |at: usize| shown[at].as_str());
            rsm::page(keys, set.as_ref(), bounds, |at| {
                rsm::entry_bytes(&[&shown[at]])
            })
        });
        let page = match page {
            Ok(page) => page,
            Err(condition) => return self.refuse(frame, condition),
        };
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.open("query").attr("xmlns", ns::DISCO_ITEMS);
        for address in &shown[page.range.clone()] {
            writer.open("item").attr("jid", address).close();
        }
        page.write(&mut writer);
        writer.close();
        self.answer(frame, &out);
    }
}
