//! The configuration of a room (XEP-0045 sections 10.2 and 16.5): every field, how it is shown
//! and how it is read. What a change means for those present is decided in `owner`.

use serde::{Deserialize, Deserializer, Serialize};
use xml::Frame;
use xml::build::Writer;
use xmpp::addr;
use xmpp::error::Condition;

use crate::affiliation::Role;
use crate::form::{self, Fields, FormWriter, Submission, flag};
use crate::limits::RoomLimits;

/// The field of ours, which nobody has registered.
const TO_MEMBERS: &str = "x-roomconfig_delivertomembers";
/// Likewise.
const APPROVES: &str = "x-roomconfig_approvemembers";

pub(crate) const FORM_TYPE: &str = "http://jabber.org/protocol/muc#roomconfig";

/// Who is shown real addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Whois {
    /// Nobody: fully anonymous.
    Nobody,
    /// Moderators: semi-anonymous.
    #[default]
    Moderators,
    /// All occupants: non-anonymous.
    Anyone,
}

/// Who may send private messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AllowPm {
    /// All occupants.
    #[default]
    Anyone,
    /// Those with voice.
    Participants,
    /// Moderators.
    Moderators,
    /// Nobody.
    Nobody,
}

/// A set of roles that an occupant can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roles(u8);

impl Roles {
    /// All of them.
    pub const ALL: Roles = Roles(0b111);
    /// None of them.
    pub const NONE: Roles = Roles(0);

    fn bit(role: Role) -> u8 {
        match role {
            Role::None => 0,
            Role::Visitor => 1,
            Role::Participant => 2,
            Role::Moderator => 4,
        }
    }

    /// The set with this role too.
    #[must_use]
    pub fn with(self, role: Role) -> Roles {
        Roles(self.0 | Self::bit(role))
    }

    /// Whether the role is in the set.
    pub fn has(self, role: Role) -> bool {
        self.0 & Self::bit(role) != 0
    }
}

/// How a room behaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// Its name for people.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The language of its discussions, empty if it has none.
    pub lang: String,
    /// Occupants at most; zero for what the service allows.
    pub max_users: u32,
    /// It is found by service discovery.
    pub is_public: bool,
    /// It stays when the last occupant has gone, and over restarts.
    pub is_persistent: bool,
    /// Who has no voice cannot send to all; who enters unaffiliated has none.
    pub is_moderated: bool,
    /// Only members enter.
    pub is_members_only: bool,
    /// What has to be said to enter; empty for none.
    pub password: String,
    /// Who is shown real addresses.
    pub whois: Whois,
    /// Participants may change the subject too.
    pub may_change_subject: bool,
    /// Participants may invite.
    pub may_invite: bool,
    /// Visitors may ask for voice.
    pub may_request_voice: bool,
    /// Anybody may register and become a member, unless the room is members-only and its admins
    /// do not approve them.
    pub may_register: bool,
    /// Everybody is to use his registered nick.
    pub locks_nicks: bool,
    /// Who may send private messages.
    pub allow_pm: AllowPm,
    /// Of whom presence is broadcast.
    pub presence_of: Roles,
    /// Who may ask for lists of affiliations, besides admins and owners.
    pub lists_for: Roles,
    /// Its discussions are logged where the public can read them; a warning, not an archive.
    pub is_logged: bool,
    /// Messages that those who enter are sent.
    pub history_length: u16,
    /// A publish-subscribe node that belongs to it, empty for none.
    pub pubsub: String,
    /// Members are delivered to whether they are in the room or not. Rooms that were configured
    /// before there was this end in front of it.
    #[serde(deserialize_with = "or_false")]
    pub delivers_to_members: bool,
    /// Who registers becomes a member when an admin says so. Rooms that were configured before
    /// there was this end in front of it.
    #[serde(deserialize_with = "or_false")]
    pub approves_members: bool,
}

/// Reads a flag that may be missing at the end.
fn or_false<'a, D: Deserializer<'a>>(from: D) -> Result<bool, D::Error> {
    Ok(bool::deserialize(from).unwrap_or(false))
}

impl Default for Config {
    fn default() -> Self {
        Config {
            name: String::new(),
            description: String::new(),
            lang: String::new(),
            max_users: 0,
            is_public: true,
            is_persistent: false,
            is_moderated: false,
            is_members_only: false,
            password: String::new(),
            whois: Whois::default(),
            may_change_subject: false,
            may_invite: true,
            may_request_voice: true,
            may_register: true,
            locks_nicks: false,
            allow_pm: AllowPm::default(),
            presence_of: Roles::ALL,
            lists_for: Roles::ALL,
            is_logged: false,
            history_length: 20,
            pubsub: String::new(),
            delivers_to_members: false,
            approves_members: false,
        }
    }
}

/// What a submission of the form says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Submitted {
    pub(crate) config: Config,
    /// Who is to be an admin, if the form says so.
    pub(crate) admins: Option<Vec<String>>,
    /// Who is to be an owner, if the form says so.
    pub(crate) owners: Option<Vec<String>>,
}

const ROLES: [(&str, &str); 3] = [
    ("Moderators", "moderator"),
    ("Participants", "participant"),
    ("Visitors", "visitor"),
];
const PMS: [(&str, &str); 4] = [
    ("Anyone", "anyone"),
    ("Those with voice", "participants"),
    ("Moderators only", "moderators"),
    ("Nobody", "none"),
];
const WHOIS: [(&str, &str); 3] = [
    ("Moderators only", "moderators"),
    ("Anyone", "anyone"),
    ("Nobody", "none"),
];

fn roles(set: Roles) -> Vec<&'static str> {
    let all = [Role::Moderator, Role::Participant, Role::Visitor];
    all.into_iter()
        .filter(|role| set.has(*role))
        .map(Role::as_str)
        .collect()
}

impl AllowPm {
    fn as_str(self) -> &'static str {
        match self {
            AllowPm::Anyone => "anyone",
            AllowPm::Participants => "participants",
            AllowPm::Moderators => "moderators",
            AllowPm::Nobody => "none",
        }
    }

    /// Whether it allows those of a role.
    pub fn allows(self, role: Role) -> bool {
        match self {
            AllowPm::Anyone => true,
            AllowPm::Participants => role >= Role::Participant,
            AllowPm::Moderators => role == Role::Moderator,
            AllowPm::Nobody => false,
        }
    }
}

impl Whois {
    fn as_str(self) -> &'static str {
        match self {
            Whois::Nobody => "none",
            Whois::Moderators => "moderators",
            Whois::Anyone => "anyone",
        }
    }
}

fn number(text: &mut String, value: u32) -> &str {
    *text = value.to_string();
    text
}

impl Config {
    /// Whether anybody may enter who is not banned, without a password and without being a member.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_members_only && self.password.is_empty()
    }

    /// The form for an owner, with the present values (section 10.1.3). Occupant counts above
    /// `occupants_max` are not offered.
    pub(crate) fn write_form(
        &self,
        writer: &mut Writer<'_>,
        admins: &[&str],
        owners: &[&str],
        occupants_max: u32,
    ) {
        let mut form = FormWriter::new(writer, "form", FORM_TYPE);
        self.write_texts(&mut form, occupants_max);
        self.write_flags(&mut form);
        let one = "list-single";
        let pm = (
            "muc#roomconfig_allowpm",
            one,
            "Who may send private messages",
        );
        form.field(pm, &[self.allow_pm.as_str()], &PMS);
        let whois = ("muc#roomconfig_whois", one, "Who sees real addresses");
        form.field(whois, &[self.whois.as_str()], &WHOIS);
        let many = "list-multi";
        let presence = (
            "muc#roomconfig_presencebroadcast",
            many,
            "Roles whose presence is told",
        );
        form.field(presence, &roles(self.presence_of), &ROLES);
        let lists = (
            "muc#roomconfig_getmemberlist",
            many,
            "Roles that may ask for member lists",
        );
        form.field(lists, &roles(self.lists_for), &ROLES);
        let addresses = "jid-multi";
        form.field(
            ("muc#roomconfig_roomadmins", addresses, "Admins"),
            admins,
            &[],
        );
        form.field(
            ("muc#roomconfig_roomowners", addresses, "Owners"),
            owners,
            &[],
        );
        form.close();
    }

    /// The fields of the form with the present values, but for who is admin or owner: how a
    /// configuration is written where people may read it.
    pub fn fields(&self) -> Fields {
        let mut out = Vec::new();
        self.write_form(&mut Writer::new(&mut out), &[], &[], u32::MAX);
        // Invariant: what is written is a form.
        let mut fields = Frame::parse(out).map_or_else(|_| Fields::new(), |x| form::shown(&x));
        fields.retain(|name, _| !is_of_people(name));
        fields
    }

    /// The inverse of [`Config::fields`]. What is not named is as in a new room.
    ///
    /// # Errors
    /// The name of a field that is unknown, or whose value means nothing or is beyond a limit.
    pub fn of_fields(fields: &Fields, limits: &RoomLimits) -> Result<Config, String> {
        let known = Config::default().fields();
        for (name, values) in fields {
            let one = Fields::from([(name.clone(), values.clone())]);
            let is_alone = name == "muc#roomconfig_passwordprotectedroom";
            let is_bad = !is_alone
                && Config::default()
                    .with(&Submission::of(one), limits)
                    .is_err();
            if is_bad || !known.contains_key(name) {
                return Err(name.clone());
            }
        }
        let submission = Submission::of(fields.clone());
        let submitted = Config::default().with(&submission, limits);
        let submitted = submitted.map_err(|_| "muc#roomconfig_passwordprotectedroom".to_owned())?;
        Ok(submitted.config)
    }

    fn write_texts(&self, form: &mut FormWriter<'_, '_>, occupants_max: u32) {
        let single = "text-single";
        let mut text = String::new();
        for (name, label, value) in [
            ("muc#roomconfig_roomname", "Name", &self.name),
            ("muc#roomconfig_roomdesc", "Description", &self.description),
            ("muc#roomconfig_lang", "Language", &self.lang),
            ("muc#roomconfig_pubsub", "Associated node", &self.pubsub),
        ] {
            form.field((name, single, label), &[value], &[]);
        }
        let password = ("muc#roomconfig_roomsecret", "text-private", "Password");
        form.field(password, &[&self.password], &[]);
        let history = (
            "muc#maxhistoryfetch",
            single,
            "Messages for those who enter",
        );
        form.field(
            history,
            &[number(&mut text, u32::from(self.history_length))],
            &[],
        );
        let steps = [
            10,
            20,
            30,
            50,
            100,
            200,
            500,
            1_000,
            5_000,
            20_000,
            self.max_users,
        ];
        let mut steps: Vec<u32> = steps
            .into_iter()
            .filter(|n| (1..=occupants_max).contains(n))
            .collect();
        steps.sort_unstable();
        steps.dedup();
        let steps: Vec<String> = steps.iter().map(u32::to_string).collect();
        let steps = steps.iter().map(|n| (n.as_str(), n.as_str()));
        let steps: Vec<_> = steps.chain([("As the service allows", "none")]).collect();
        let value = if self.max_users == 0 {
            "none"
        } else {
            number(&mut text, self.max_users)
        };
        let users = (
            "muc#roomconfig_maxusers",
            "list-single",
            "Occupants at most",
        );
        form.field(users, &[value], &steps);
    }

    fn write_flags(&self, form: &mut FormWriter<'_, '_>) {
        for (name, label, value) in [
            (
                "muc#roomconfig_publicroom",
                "Listed publicly",
                self.is_public,
            ),
            (
                "muc#roomconfig_persistentroom",
                "Persistent",
                self.is_persistent,
            ),
            (
                "muc#roomconfig_moderatedroom",
                "Moderated",
                self.is_moderated,
            ),
            (
                "muc#roomconfig_membersonly",
                "Members only",
                self.is_members_only,
            ),
            (
                "muc#roomconfig_passwordprotectedroom",
                "A password is needed",
                !self.password.is_empty(),
            ),
            (
                "muc#roomconfig_changesubject",
                "Occupants may change the subject",
                self.may_change_subject,
            ),
            (
                "muc#roomconfig_allowinvites",
                "Occupants may invite",
                self.may_invite,
            ),
            (
                "muc#roomconfig_allowvoicerequests",
                "Visitors may ask for voice",
                self.may_request_voice,
            ),
            (
                "muc#roomconfig_allowregister",
                "Anybody may register",
                self.may_register,
            ),
            (
                "muc#roomconfig_locknicks",
                "Registered nicks only",
                self.locks_nicks,
            ),
            (
                "muc#roomconfig_enablelogging",
                "Logged publicly",
                self.is_logged,
            ),
            (
                TO_MEMBERS,
                "Members get what is said without being there",
                self.delivers_to_members,
            ),
            (
                APPROVES,
                "Admins approve who registers",
                self.approves_members,
            ),
        ] {
            form.field(
                (name, "boolean", label),
                &[if value { "1" } else { "0" }],
                &[],
            );
        }
    }

    /// What the configuration would be after a submission: fields that it does not name stay.
    ///
    /// # Errors
    /// `not-acceptable` for a value that means nothing, is too long or names too many;
    /// `jid-malformed` for an address that is none. Fields that are unknown here are ignored.
    pub(crate) fn with(
        &self,
        submission: &Submission,
        limits: &RoomLimits,
    ) -> Result<Submitted, Condition> {
        let mut submitted = Submitted {
            config: self.clone(),
            admins: None,
            owners: None,
        };
        let mut is_protected = None;
        for (name, values) in submission.fields() {
            let first = values.first().map_or("", String::as_str);
            match name {
                TO_MEMBERS => submitted.config.delivers_to_members = boolean(first)?,
                APPROVES => submitted.config.approves_members = boolean(first)?,
                _ => {}
            }
            let Some(name) = name.strip_prefix("muc#") else {
                continue;
            };
            let first = values.first().map_or("", String::as_str);
            match name.strip_prefix("roomconfig_").unwrap_or(name) {
                "passwordprotectedroom" => is_protected = Some(boolean(first)?),
                "roomadmins" => submitted.admins = Some(addresses(values, limits)?),
                "roomowners" => submitted.owners = Some(addresses(values, limits)?),
                name => submitted.config.set(name, first, values, limits)?,
            }
        }
        match is_protected {
            Some(true) if submitted.config.password.is_empty() => Err(Condition::NotAcceptable),
            Some(false) => {
                submitted.config.password.clear();
                Ok(submitted)
            }
            _ => Ok(submitted),
        }
    }

    fn set(
        &mut self,
        name: &str,
        first: &str,
        values: &[String],
        limits: &RoomLimits,
    ) -> Result<(), Condition> {
        let text = || match first.len() <= limits.text_bytes_max {
            true => Ok(first.to_owned()),
            false => Err(Condition::NotAcceptable),
        };
        match name {
            "roomname" => self.name = text()?,
            "roomdesc" => self.description = text()?,
            "lang" => self.lang = text()?,
            "pubsub" => self.pubsub = text()?,
            "roomsecret" => self.password = text()?,
            "maxusers" => self.max_users = max_users(first, limits)?,
            "maxhistoryfetch" => {
                let length: u32 = first.parse().map_err(|_| Condition::NotAcceptable)?;
                let length = u16::try_from(length).unwrap_or(u16::MAX);
                self.history_length = length.min(limits.history_max);
            }
            "publicroom" => self.is_public = boolean(first)?,
            "persistentroom" => self.is_persistent = boolean(first)?,
            "moderatedroom" => self.is_moderated = boolean(first)?,
            "membersonly" => self.is_members_only = boolean(first)?,
            "changesubject" => self.may_change_subject = boolean(first)?,
            "allowinvites" => self.may_invite = boolean(first)?,
            "allowvoicerequests" => self.may_request_voice = boolean(first)?,
            "allowregister" => self.may_register = boolean(first)?,
            "locknicks" => self.locks_nicks = boolean(first)?,
            "enablelogging" => self.is_logged = boolean(first)?,
            "allowpm" => {
                let all = [
                    AllowPm::Anyone,
                    AllowPm::Participants,
                    AllowPm::Moderators,
                    AllowPm::Nobody,
                ];
                let found = all.into_iter().find(|one| one.as_str() == first);
                self.allow_pm = found.ok_or(Condition::NotAcceptable)?;
            }
            "whois" => {
                let all = [Whois::Nobody, Whois::Moderators, Whois::Anyone];
                let found = all.into_iter().find(|one| one.as_str() == first);
                self.whois = found.ok_or(Condition::NotAcceptable)?;
            }
            "presencebroadcast" => self.presence_of = role_set(values)?,
            "getmemberlist" => self.lists_for = role_set(values)?,
            _ => {}
        }
        Ok(())
    }
}

/// Whether a field is no part of a configuration.
fn is_of_people(name: &str) -> bool {
    matches!(
        name,
        "muc#roomconfig_roomadmins" | "muc#roomconfig_roomowners"
    )
}

fn boolean(value: &str) -> Result<bool, Condition> {
    flag(value).ok_or(Condition::NotAcceptable)
}

fn max_users(value: &str, limits: &RoomLimits) -> Result<u32, Condition> {
    if value == "none" || value.is_empty() {
        return Ok(0);
    }
    let max: u32 = value.parse().map_err(|_| Condition::NotAcceptable)?;
    match (1..=limits.occupants_max).contains(&max) {
        true => Ok(max),
        false => Err(Condition::NotAcceptable),
    }
}

fn role_set(values: &[String]) -> Result<Roles, Condition> {
    let mut set = Roles::NONE;
    for value in values {
        match Role::parse(value) {
            Some(role) if role != Role::None => set = set.with(role),
            _ => return Err(Condition::NotAcceptable),
        }
    }
    Ok(set)
}

fn addresses(values: &[String], limits: &RoomLimits) -> Result<Vec<String>, Condition> {
    if values.len() > limits.items_max {
        return Err(Condition::NotAcceptable);
    }
    let mut found = Vec::with_capacity(values.len());
    for value in values.iter().filter(|value| !value.is_empty()) {
        let address = addr::normalize(value).map_err(|_| Condition::JidMalformed)?;
        found.push(addr::bare_part(&address).to_owned());
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::Form;

    fn submit(fields: &[(&str, &[&str])]) -> Result<Submitted, Condition> {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        let mut form = FormWriter::new(&mut writer, "submit", FORM_TYPE);
        for (name, values) in fields {
            form.field((name, "", ""), values, &[]);
        }
        form.close();
        let frame = Frame::parse(bytes).unwrap();
        let Ok(Form::Submitted(form)) = Form::parse(&frame, FORM_TYPE) else {
            panic!()
        };
        Config::default().with(&form, &RoomLimits::default())
    }

    #[test]
    fn every_field_of_the_form_is_read_back() {
        let mut wanted = Config {
            name: "A Dark Cave".to_owned(),
            description: "The place".to_owned(),
            lang: "en".to_owned(),
            max_users: 50,
            is_public: false,
            is_persistent: true,
            is_moderated: true,
            is_members_only: true,
            password: "cauldronburn".to_owned(),
            whois: Whois::Anyone,
            may_change_subject: true,
            may_invite: false,
            may_request_voice: false,
            may_register: false,
            locks_nicks: true,
            allow_pm: AllowPm::Moderators,
            presence_of: Roles::NONE.with(Role::Moderator),
            lists_for: Roles::NONE,
            is_logged: true,
            history_length: 7,
            pubsub: "xmpp:p?;node=n".to_owned(),
            delivers_to_members: true,
            approves_members: true,
        };
        for whois in [Whois::Anyone, Whois::Moderators, Whois::Nobody] {
            wanted.whois = whois;
            let mut bytes = Vec::new();
            wanted.write_form(&mut Writer::new(&mut bytes), &["a@b"], &["c@d"], 1_000);
            // A client that changes nothing submits what it was shown.
            let form = Frame::parse(bytes)
                .unwrap()
                .edit()
                .set_attr("type", "submit")
                .finish();
            assert_eq!(
                Config::of_fields(&wanted.fields(), &RoomLimits::default()),
                Ok(wanted.clone())
            );
            let Ok(Form::Submitted(form)) = Form::parse(&form, FORM_TYPE) else {
                panic!()
            };
            let found = Config::default()
                .with(&form, &RoomLimits::default())
                .unwrap();
            assert_eq!(found.config, wanted);
            assert_eq!(found.admins, Some(vec!["a@b".to_owned()]));
            assert_eq!(found.owners, Some(vec!["c@d".to_owned()]));
        }
    }

    #[test]
    fn values_that_mean_nothing_are_not_acceptable() {
        for (name, value) in [
            ("muc#roomconfig_publicroom", "yes"),
            ("muc#roomconfig_whois", "everybody"),
            ("muc#roomconfig_allowpm", ""),
            ("muc#roomconfig_maxusers", "0"),
            ("muc#roomconfig_maxusers", "20001"),
            ("muc#roomconfig_maxusers", "-1"),
            ("muc#maxhistoryfetch", "many"),
            ("muc#roomconfig_presencebroadcast", "none"),
            ("muc#roomconfig_passwordprotectedroom", "1"),
        ] {
            let found = submit(&[(name, &[value])]);
            assert_eq!(found, Err(Condition::NotAcceptable), "{name}={value}");
        }
        let malformed = submit(&[("muc#roomconfig_roomowners", &["a@b@c"])]);
        assert_eq!(malformed, Err(Condition::JidMalformed));
    }

    #[test]
    fn texts_and_lists_are_bounded() {
        let limits = RoomLimits::default();
        let text = "x".repeat(limits.text_bytes_max);
        assert!(submit(&[("muc#roomconfig_roomname", &[&text])]).is_ok());
        let text = "x".repeat(limits.text_bytes_max + 1);
        let found = submit(&[("muc#roomconfig_roomdesc", &[&text])]);
        assert_eq!(found, Err(Condition::NotAcceptable));
        let many = vec!["a@b"; limits.items_max + 1];
        let found = submit(&[("muc#roomconfig_roomadmins", &many)]);
        assert_eq!(found, Err(Condition::NotAcceptable));
        let found = submit(&[("muc#maxhistoryfetch", &["70000"])]).unwrap();
        assert_eq!(found.config.history_length, limits.history_max);
    }

    #[test]
    fn a_password_goes_with_its_flag() {
        let secret = ("muc#roomconfig_roomsecret", &["s"][..]);
        let on = ("muc#roomconfig_passwordprotectedroom", &["1"][..]);
        let off = ("muc#roomconfig_passwordprotectedroom", &["0"][..]);
        assert_eq!(submit(&[secret, on]).unwrap().config.password, "s");
        assert_eq!(submit(&[secret, off]).unwrap().config.password, "");
        assert_eq!(submit(&[secret]).unwrap().config.password, "s");
        assert!(submit(&[("urn:other", &["?"]), ("muc#unheard_of", &["?"])]).is_ok());
    }
}
