//! Random sequences of requests against a small executable model of roles and affiliations. After
//! each step the room must be what the model is, every occupant's view (rebuilt from the presences
//! that he was sent) must be what the room would show him, and nobody may have been sent a real
//! address that he may not see. A shrunk sequence is printed when that fails.

mod rules;

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config as Runs, TestError, TestRunner};
use xml::Frame;

use crate::affiliation::{Affiliation, Role};
use crate::bugs::Bug;
use crate::config::Whois;
use crate::tests::{ROOM, World, condition};
use crate::{Options, RoomLimits};
use rules::Model;

/// One request. Users, sessions and nicks are small numbers.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    Join {
        user: u8,
        device: u8,
        nick: u8,
        knows_password: bool,
    },
    Present {
        user: u8,
        device: u8,
        nick: u8,
    },
    Leave {
        user: u8,
        device: u8,
    },
    Lose {
        user: u8,
        device: u8,
    },
    Say {
        user: u8,
        device: u8,
    },
    Subject {
        user: u8,
        device: u8,
    },
    Whisper {
        user: u8,
        device: u8,
        nick: u8,
    },
    Role {
        user: u8,
        device: u8,
        nick: u8,
        role: Role,
    },
    Affiliate {
        user: u8,
        device: u8,
        target: u8,
        affiliation: Affiliation,
    },
    Register {
        user: u8,
        nick: u8,
    },
    Unregister {
        user: u8,
    },
    Invite {
        user: u8,
        device: u8,
        target: u8,
    },
    Configure {
        user: u8,
        change: Change,
    },
    List {
        user: u8,
        device: u8,
        affiliation: Affiliation,
    },
}

/// One field of the configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    Nothing,
    Moderated(bool),
    MembersOnly(bool),
    Password(bool),
    Whois(Whois),
    Persistent(bool),
    SubjectForAll(bool),
    Invites(bool),
    Visible(bool),
}

pub(crate) const USERS: u8 = 4;
const NICKS: u8 = 4;
pub(crate) const OCCUPANTS_MAX: usize = 3;
pub(crate) const OVER_MAX: usize = 1;

pub(crate) fn bare(user: u8) -> String {
    format!("person{user}@real.example")
}

pub(crate) fn full(user: u8, device: u8) -> String {
    format!("person{user}@real.example/d{device}")
}

pub(crate) fn nick(nick: u8) -> String {
    format!("nick{nick}")
}

fn command() -> impl Strategy<Value = Command> {
    let (user, device, one) = (0..USERS, 0..2u8, 0..NICKS);
    let who = (user.clone(), device);
    let role = proptest::sample::select(Role::ALL.to_vec());
    let affiliation = proptest::sample::select(Affiliation::ALL.to_vec());
    prop_oneof![
        6 => (who.clone(), one.clone(), proptest::bool::weighted(0.7)).prop_map(
            |((user, device), nick, knows_password)| {
                Command::Join { user, device, nick, knows_password }
            }
        ),
        2 => (who.clone(), one.clone())
            .prop_map(|((user, device), nick)| Command::Present { user, device, nick }),
        1 => who.clone().prop_map(|(user, device)| Command::Leave { user, device }),
        1 => who.clone().prop_map(|(user, device)| Command::Lose { user, device }),
        2 => who.clone().prop_map(|(user, device)| Command::Say { user, device }),
        1 => who.clone().prop_map(|(user, device)| Command::Subject { user, device }),
        1 => (who.clone(), one.clone())
            .prop_map(|((user, device), nick)| Command::Whisper { user, device, nick }),
        4 => (who.clone(), one.clone(), role).prop_map(
            |((user, device), nick, role)| Command::Role { user, device, nick, role }
        ),
        4 => (who.clone(), user.clone(), affiliation.clone()).prop_map(
            |((user, device), target, affiliation)| {
                Command::Affiliate { user, device, target, affiliation }
            }
        ),
        1 => (user.clone(), one).prop_map(|(user, nick)| Command::Register { user, nick }),
        1 => user.clone().prop_map(|user| Command::Unregister { user }),
        1 => (who.clone(), user.clone())
            .prop_map(|((user, device), target)| Command::Invite { user, device, target }),
        4 => (user, change()).prop_map(|(user, change)| Command::Configure { user, change }),
        1 => (who, affiliation).prop_map(
            |((user, device), affiliation)| Command::List { user, device, affiliation }
        ),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    let whois = [Whois::Nobody, Whois::Moderators, Whois::Anyone];
    prop_oneof![
        4 => Just(Change::Nothing),
        2 => any::<bool>().prop_map(Change::Moderated),
        2 => any::<bool>().prop_map(Change::MembersOnly),
        1 => any::<bool>().prop_map(Change::Password),
        2 => proptest::sample::select(whois.to_vec()).prop_map(Change::Whois),
        2 => any::<bool>().prop_map(Change::Persistent),
        1 => any::<bool>().prop_map(Change::SubjectForAll),
        1 => any::<bool>().prop_map(Change::Invites),
        1 => any::<bool>().prop_map(Change::Visible),
    ]
}

/// A room, its model, and what every session believes.
struct Check {
    world: World,
    model: Model,
    views: BTreeMap<String, BTreeMap<String, (String, String)>>,
}

impl Check {
    fn new(large_from: u32, bug: Option<Bug>) -> Check {
        let limits = RoomLimits {
            occupants_max: OCCUPANTS_MAX as u32,
            occupants_over_max: OVER_MAX as u32,
            large_from,
            ..RoomLimits::default()
        };
        let mut world = World::with(Options {
            limits,
            ..Options::default()
        });
        world.room.bug = bug;
        Check {
            world,
            model: Model::default(),
            views: BTreeMap::new(),
        }
    }

    /// One step. `fails` refuses what the room wants to append.
    fn step(&mut self, command: &Command, fails: bool) -> Result<(), String> {
        let seers = self.seers();
        let before = self.model.clone();
        let expected = self.model.predict(command);
        let gone = matches!(command, Command::Leave { .. } | Command::Lose { .. });
        self.world.decides = Some(!fails || gone);
        self.world.appends = 0;
        self.perform(command);
        let expected = if fails && !gone && self.world.appends > 0 {
            self.model = before;
            Some("resource-constraint")
        } else {
            expected.err()
        };
        let mail = std::mem::take(&mut self.world.mail);
        self.check_answer(command, expected, &mail)?;
        self.check_room()?;
        self.check_addresses(&seers, &mail)?;
        self.update_views(&mail)?;
        self.check_views()
    }

    fn perform(&mut self, command: &Command) {
        let (world, muc) = (&mut self.world, "http://jabber.org/protocol/muc");
        let admin = |item: String| {
            format!("<iq type='set' id='q'><query xmlns='{muc}#admin'>{item}</query></iq>")
        };
        match *command {
            Command::Join {
                user,
                device,
                nick: n,
                knows_password,
            } => {
                let password = if knows_password {
                    "<password>s</password>"
                } else {
                    ""
                };
                let join = format!("<presence><x xmlns='{muc}'>{password}</x></presence>");
                world.send(&full(user, device), &nick(n), &join);
            }
            Command::Present {
                user,
                device,
                nick: n,
            } => {
                world.send(
                    &full(user, device),
                    &nick(n),
                    "<presence><show>away</show></presence>",
                );
            }
            Command::Leave { user, device } => {
                world.send(&full(user, device), "any", "<presence type='unavailable'/>");
            }
            Command::Lose { user, device } => {
                let address = Arc::from(full(user, device));
                assert!(world.event(crate::Event::Gone { address }));
            }
            Command::Say { user, device } => {
                let say = "<message type='groupchat' id='q'><body>b</body></message>";
                world.send(&full(user, device), "", say);
            }
            Command::Subject { user, device } => {
                let subject = "<message type='groupchat' id='q'><subject>s</subject></message>";
                world.send(&full(user, device), "", subject);
            }
            Command::Whisper {
                user,
                device,
                nick: n,
            } => {
                let whisper = "<message type='chat' id='q'><body>w</body></message>";
                world.send(&full(user, device), &nick(n), whisper);
            }
            Command::Role {
                user,
                device,
                nick: n,
                role,
            } => {
                let item = format!("<item nick='{}' role='{}'/>", nick(n), role.as_str());
                world.send(&full(user, device), "", &admin(item));
            }
            Command::Affiliate {
                user,
                device,
                target,
                affiliation,
            } => {
                let (target, name) = (bare(target), affiliation.as_str());
                let item = format!("<item jid='{target}' affiliation='{name}'/>");
                world.send(&full(user, device), "", &admin(item));
            }
            Command::Register { user, nick: n } => {
                let form = format!(
                    "<iq type='set' id='q'><query xmlns='jabber:iq:register'>\
                     <x xmlns='jabber:x:data' type='submit'>\
                     <field var='FORM_TYPE'><value>{muc}#register</value></field>\
                     <field var='muc#register_roomnick'><value>{}</value></field></x></query></iq>",
                    nick(n)
                );
                world.send(&full(user, 0), "", &form);
            }
            Command::Unregister { user } => {
                let query = "<query xmlns='jabber:iq:register'><remove/></query>";
                world.send(
                    &full(user, 0),
                    "",
                    &format!("<iq type='set' id='q'>{query}</iq>"),
                );
            }
            Command::Invite {
                user,
                device,
                target,
            } => {
                let invite = format!("<invite to='{}'/>", bare(target));
                let message =
                    format!("<message id='q'><x xmlns='{muc}#user'>{invite}</x></message>");
                world.send(&full(user, device), "", &message);
            }
            Command::Configure { user, change } => {
                let form = format!(
                    "<iq type='set' id='q'><query xmlns='{muc}#owner'>\
                     <x xmlns='jabber:x:data' type='submit'>\
                     <field var='FORM_TYPE'><value>{muc}#roomconfig</value></field>{}</x></query>\
                     </iq>",
                    fields(change)
                );
                world.send(&full(user, 0), "", &form);
            }
            Command::List {
                user,
                device,
                affiliation,
            } => {
                let item = format!("<item affiliation='{}'/>", affiliation.as_str());
                let get = admin(item).replace("type='set'", "type='get'");
                world.send(&full(user, device), "", &get);
            }
        }
        // A minute goes by, so that no budget runs out.
        self.world.now = self.world.now + std::time::Duration::from_secs(60);
    }

    /// The sender has been told exactly what the model says.
    fn check_answer(
        &self,
        command: &Command,
        expected: Option<&'static str>,
        mail: &BTreeMap<String, Vec<String>>,
    ) -> Result<(), String> {
        let errors = mail
            .iter()
            .flat_map(|(to, all)| all.iter().map(move |one| (to, one)));
        let errors = errors.filter_map(|(to, one)| Some((to, condition(one)?)));
        let errors: Vec<_> = errors.collect();
        let found = errors
            .first()
            .map(|(_, error)| error.split('/').next().unwrap_or(""));
        if found != expected || errors.len() > 1 {
            return Err(format!(
                "{command:?}: expected {expected:?}, found {errors:?}"
            ));
        }
        Ok(())
    }

    fn check_room(&self) -> Result<(), String> {
        let room = &self.world.room;
        let state = room.state();
        if state.is_some() != self.model.exists {
            return Err(format!("the room exists: {}", state.is_some()));
        }
        let Some(state) = state else { return Ok(()) };
        for user in 0..USERS {
            let found = state.affiliation(&bare(user));
            let wanted = self.model.affiliation(user);
            if found != wanted {
                return Err(format!("{} is {found:?}, not {wanted:?}", bare(user)));
            }
            let (found, wanted) = (
                state.reserved_nick(&bare(user)),
                self.model.reserved.get(&user),
            );
            if found != wanted.map(|n| nick(*n)).as_deref() {
                return Err(format!("{} has reserved {found:?}", bare(user)));
            }
        }
        let occupants = room.occupants.iter().map(|(_, o)| {
            let mut sessions: Vec<String> =
                o.sessions.iter().map(|s| s.address.to_string()).collect();
            sessions.sort_unstable();
            (o.nick.to_string(), (o.role, o.affiliation, sessions))
        });
        let found: BTreeMap<_, _> = occupants.collect();
        let wanted = self.model.occupants();
        if found != wanted {
            return Err(format!("occupants are {found:?}\nand should be {wanted:?}"));
        }
        Ok(())
    }

    /// Sessions that may see real addresses at this moment.
    fn seers(&self) -> Vec<String> {
        let mut seers: Vec<String> = Vec::new();
        for (_, role, sessions) in self.model.present() {
            let sees = match self.model.whois {
                Whois::Anyone => true,
                Whois::Moderators => role == Role::Moderator,
                Whois::Nobody => false,
            };
            seers.extend(sessions.iter().filter(|_| sees).cloned());
        }
        for user in 0..USERS {
            if self.model.affiliation(user) >= Affiliation::Admin {
                // Lists are for admins wherever they are.
                seers.extend((0..2).map(|device| full(user, device)));
            }
        }
        seers
    }

    fn check_addresses(
        &self,
        before: &[String],
        mail: &BTreeMap<String, Vec<String>>,
    ) -> Result<(), String> {
        let after = self.seers();
        for (to, all) in mail {
            // An invitation from a non-anonymous room names who invites.
            let is_open = self.model.whois == Whois::Anyone;
            if is_open || before.contains(to) || after.contains(to) {
                continue;
            }
            let own = xmpp::addr::bare_part(to);
            for stanza in all {
                let rest = stanza.replace(own, "");
                if rest.contains("@real.example") {
                    return Err(format!("{to} must not see the address in {stanza}"));
                }
            }
        }
        Ok(())
    }

    fn update_views(&mut self, mail: &BTreeMap<String, Vec<String>>) -> Result<(), String> {
        for (to, all) in mail {
            for stanza in all.iter().filter(|one| one.starts_with("<presence")) {
                let frame = Frame::parse(stanza.as_bytes()).map_err(|e| e.to_string())?;
                let from = frame.attr("from").unwrap_or_default();
                let Some(nick) = xmpp::addr::split(&from).resource else {
                    return Err(format!("presence of nobody: {stanza}"));
                };
                let kind = frame.attr("type");
                if kind.as_deref() == Some("error") {
                    continue;
                }
                let view = self.views.entry(to.clone()).or_default();
                let x = frame.child("x", "http://jabber.org/protocol/muc#user");
                let children: Vec<Frame> = x.map(|x| x.children().collect()).unwrap_or_default();
                let is_own = stanza.contains("code='110'");
                let item = children.iter().find(|child| child.name() == "item");
                let item = item.ok_or("a presence without an item")?;
                let of = |name| item.attr(name).unwrap_or_default().into_owned();
                if kind.is_none() {
                    view.insert(nick.to_owned(), (of("role"), of("affiliation")));
                } else {
                    view.remove(nick);
                    let is_renamed = stanza.contains("code='303'");
                    if is_own && !is_renamed {
                        self.views.remove(to);
                    }
                }
            }
        }
        Ok(())
    }

    /// What each occupant was told is what he would be told if he asked now.
    fn check_views(&self) -> Result<(), String> {
        let room = &self.world.room;
        for (key, occupant) in room.occupants.iter() {
            let shown = room
                .occupants
                .iter()
                .filter(|(k, o)| *k == key || room.is_shown(o));
            let wanted: BTreeMap<String, (String, String)> = shown
                .map(|(_, o)| {
                    let names = (
                        o.role.as_str().to_owned(),
                        o.affiliation.as_str().to_owned(),
                    );
                    (o.nick.to_string(), names)
                })
                .collect();
            for session in &occupant.sessions {
                let found = self
                    .views
                    .get(&*session.address)
                    .cloned()
                    .unwrap_or_default();
                if found != wanted {
                    let who = &session.address;
                    return Err(format!("{who} sees {found:?}\nand should see {wanted:?}"));
                }
            }
        }
        for who in self.views.keys() {
            if !room.has_session(who) {
                return Err(format!("{who} believes to be in the room"));
            }
        }
        Ok(())
    }
}

fn fields(change: Change) -> String {
    let flag = |on: bool| if on { "1" } else { "0" };
    let (name, value) = match change {
        Change::Nothing => return String::new(),
        Change::Moderated(on) => ("moderatedroom", flag(on)),
        Change::MembersOnly(on) => ("membersonly", flag(on)),
        Change::Password(on) => ("roomsecret", if on { "s" } else { "" }),
        Change::Persistent(on) => ("persistentroom", flag(on)),
        Change::SubjectForAll(on) => ("changesubject", flag(on)),
        Change::Invites(on) => ("allowinvites", flag(on)),
        Change::Visible(on) => (
            "presencebroadcast",
            if on {
                "visitor</value><value>participant"
            } else {
                "moderator"
            },
        ),
        Change::Whois(Whois::Anyone) => ("whois", "anyone"),
        Change::Whois(Whois::Moderators) => ("whois", "moderators"),
        Change::Whois(Whois::Nobody) => ("whois", "none"),
    };
    format!("<field var='muc#roomconfig_{name}'><value>{value}</value></field>")
}

/// What a run is made of: whether the room counts as large early, and the requests, each with
/// whether its append fails.
type Plan = (u32, Vec<(Command, bool)>);

fn plans() -> impl Strategy<Value = Plan> {
    let step = (command(), proptest::bool::weighted(0.05));
    (
        proptest::sample::select(vec![2, 3, 99]),
        proptest::collection::vec(step, 1..60),
    )
}

fn run((large_from, steps): Plan, bug: Option<Bug>) -> Result<(), String> {
    let mut check = Check::new(large_from, bug);
    for (command, fails) in &steps {
        check.step(command, *fails)?;
    }
    Ok(())
}

fn explore(cases: u32, bug: Option<Bug>) -> Result<(), String> {
    let runs = Runs {
        cases,
        failure_persistence: None,
        ..Runs::default()
    };
    let rng = proptest::test_runner::TestRng::deterministic_rng(runs.rng_algorithm);
    let mut runner = TestRunner::new_with_rng(runs, rng);
    let result = runner.run(&plans(), |plan| run(plan, bug).map_err(TestCaseError::fail));
    match result {
        Ok(()) => Ok(()),
        Err(TestError::Fail(why, (large_from, steps))) => {
            let steps: Vec<String> = steps.iter().map(|step| format!("{step:?}")).collect();
            Err(format!(
                "{why}\nlarge from {large_from}, in {ROOM}:\n{}",
                steps.join("\n")
            ))
        }
        Err(other) => Err(other.to_string()),
    }
}

/// `ROOM_MODEL_CASES` sets how many sequences are tried.
#[test]
fn a_room_behaves_like_the_model() {
    let cases = std::env::var("ROOM_MODEL_CASES")
        .ok()
        .and_then(|n| n.parse().ok());
    if let Err(why) = explore(cases.unwrap_or(400), None) {
        panic!("{why}");
    }
}

#[test]
fn every_bug_on_purpose_is_found() {
    for bug in Bug::ALL {
        let found = explore(3_000, Some(bug));
        assert!(found.is_err(), "nothing was found of {bug:?}");
    }
}
