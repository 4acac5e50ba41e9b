//! The model: XEP-0045's rules of roles, affiliations and entering for a handful of users, written
//! down once more and as plainly as possible. It sends nothing and knows no stanza.

use std::collections::BTreeMap;

use super::{Change, Command, OCCUPANTS_MAX, OVER_MAX, full, nick};
use crate::affiliation::{Affiliation, Role};
use crate::config::Whois;

/// Occupants by nick, as they are compared with the room's.
pub(crate) type Present = BTreeMap<String, (Role, Affiliation, Vec<String>)>;

#[derive(Clone, Debug)]
struct Occupant {
    user: u8,
    role: Role,
    devices: Vec<u8>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) exists: bool,
    is_locked: bool,
    is_moderated: bool,
    is_members_only: bool,
    has_password: bool,
    is_persistent: bool,
    subject_for_all: bool,
    no_invites: bool,
    pub(crate) whois: Whois,
    affiliations: BTreeMap<u8, Affiliation>,
    pub(crate) reserved: BTreeMap<u8, u8>,
    here: BTreeMap<u8, Occupant>,
}

type Outcome = Result<(), &'static str>;

fn unless(is_wrong: bool, condition: &'static str) -> Outcome {
    if is_wrong { Err(condition) } else { Ok(()) }
}

impl Model {
    pub(crate) fn affiliation(&self, user: u8) -> Affiliation {
        self.affiliations
            .get(&user)
            .copied()
            .unwrap_or(Affiliation::None)
    }

    pub(crate) fn present(&self) -> Vec<(u8, Role, Vec<String>)> {
        let sessions = |o: &Occupant| o.devices.iter().map(|d| full(o.user, *d)).collect();
        self.here
            .values()
            .map(|o| (o.user, o.role, sessions(o)))
            .collect()
    }

    pub(crate) fn occupants(&self) -> Present {
        let all = self.here.iter().map(|(n, o)| {
            let mut sessions: Vec<String> = o.devices.iter().map(|d| full(o.user, *d)).collect();
            sessions.sort_unstable();
            (nick(*n), (o.role, self.affiliation(o.user), sessions))
        });
        all.collect()
    }

    fn nick_of(&self, user: u8, device: u8) -> Option<u8> {
        let mut all = self.here.iter();
        all.find(|(_, o)| o.user == user && o.devices.contains(&device))
            .map(|(n, _)| *n)
    }

    fn role_of(&self, user: u8, device: u8) -> Role {
        let nick = self.nick_of(user, device);
        nick.and_then(|n| self.here.get(&n))
            .map_or(Role::None, |o| o.role)
    }

    fn entry_role(&self, affiliation: Affiliation) -> Role {
        match (affiliation, self.is_moderated) {
            (Affiliation::Outcast, _) => Role::None,
            (Affiliation::None, true) => Role::Visitor,
            (Affiliation::None, false) | (Affiliation::Member, _) => Role::Participant,
            (Affiliation::Admin | Affiliation::Owner, _) => Role::Moderator,
        }
    }

    /// What a request does, or the condition with which it is refused.
    pub(crate) fn predict(&mut self, command: &Command) -> Outcome {
        match *command {
            Command::Join {
                user,
                device,
                nick,
                knows_password,
            } => self.join(user, device, nick, knows_password),
            Command::Present { user, device, nick } => match self.nick_of(user, device) {
                Some(_) => self.rename(user, device, nick),
                None => {
                    self.is_there(user, device)?;
                    Err("not-acceptable")
                }
            },
            Command::Leave { user, device } | Command::Lose { user, device } => {
                self.leave(user, device);
                self.end();
                Ok(())
            }
            Command::Say { user, device } => {
                self.is_there(user, device)?;
                unless(self.nick_of(user, device).is_none(), "not-acceptable")?;
                unless(self.role_of(user, device) < Role::Participant, "forbidden")
            }
            Command::Subject { user, device } => {
                self.is_there(user, device)?;
                unless(self.nick_of(user, device).is_none(), "not-acceptable")?;
                let role = self.role_of(user, device);
                let may =
                    role == Role::Moderator || (role == Role::Participant && self.subject_for_all);
                unless(!may, "forbidden")
            }
            Command::Whisper { user, device, nick } => {
                self.is_there(user, device)?;
                unless(self.nick_of(user, device).is_none(), "not-acceptable")?;
                unless(!self.here.contains_key(&nick), "item-not-found")
            }
            Command::Role {
                user,
                device,
                nick,
                role,
            } => self.give_role(user, device, nick, role),
            Command::Affiliate {
                user,
                target,
                affiliation,
                ..
            } => self.affiliate(user, target, affiliation),
            Command::Register { user, nick } => self.register(user, nick),
            Command::Unregister { user } => self.unregister(user),
            Command::Invite {
                user,
                device,
                target,
            } => self.invite(user, device, target),
            Command::Configure { user, change } => self.configure(user, change),
            Command::List {
                user,
                device,
                affiliation,
            } => self.list(user, device, affiliation),
        }
    }

    // === presence ===

    fn is_full_for(&self, affiliation: Affiliation) -> bool {
        let over = if affiliation >= Affiliation::Admin {
            OVER_MAX
        } else {
            0
        };
        self.here.len() >= OCCUPANTS_MAX + over
    }

    fn join(&mut self, user: u8, device: u8, nick: u8, knows_password: bool) -> Outcome {
        if !self.exists {
            *self = Model {
                exists: true,
                is_locked: true,
                ..Model::default()
            };
            self.affiliations.insert(user, Affiliation::Owner);
            let devices = vec![device];
            self.here.insert(
                nick,
                Occupant {
                    user,
                    role: Role::Moderator,
                    devices,
                },
            );
            return Ok(());
        }
        if self.nick_of(user, device).is_some() {
            return self.rename(user, device, nick);
        }
        let affiliation = self.affiliation(user);
        unless(
            self.is_locked && affiliation != Affiliation::Owner,
            "item-not-found",
        )?;
        unless(affiliation == Affiliation::Outcast, "forbidden")?;
        let is_outside = self.is_members_only && affiliation == Affiliation::None;
        unless(is_outside, "registration-required")?;
        unless(self.has_password && !knows_password, "not-authorized")?;
        unless(self.is_taken(user, nick), "conflict")?;
        let role = self.entry_role(affiliation);
        let is_full = self.is_full_for(affiliation);
        match self.here.get_mut(&nick) {
            Some(occupant) => occupant.devices.push(device),
            None if is_full => return Err("service-unavailable"),
            None => {
                self.here.insert(
                    nick,
                    Occupant {
                        user,
                        role,
                        devices: vec![device],
                    },
                );
            }
        }
        Ok(())
    }

    fn is_taken(&self, user: u8, nick: u8) -> bool {
        self.reserved
            .iter()
            .any(|(other, n)| *n == nick && *other != user)
            || self.here.get(&nick).is_some_and(|o| o.user != user)
    }

    fn rename(&mut self, user: u8, device: u8, nick: u8) -> Outcome {
        let Some(old) = self.nick_of(user, device).filter(|old| *old != nick) else {
            return Ok(());
        };
        unless(self.is_taken(user, nick), "conflict")?;
        let role = self.here[&old].role;
        let splits = self.here[&old].devices.len() > 1 && !self.here.contains_key(&nick);
        unless(
            splits && self.is_full_for(self.affiliation(user)),
            "service-unavailable",
        )?;
        self.leave(user, device);
        let new = self.here.entry(nick).or_insert(Occupant {
            user,
            role,
            devices: vec![],
        });
        new.devices.push(device);
        Ok(())
    }

    fn leave(&mut self, user: u8, device: u8) {
        for occupant in self.here.values_mut().filter(|o| o.user == user) {
            occupant.devices.retain(|d| *d != device);
        }
        self.here.retain(|_, o| !o.devices.is_empty());
    }

    fn end(&mut self) {
        if self.here.is_empty() && (self.is_locked || !self.is_persistent) {
            *self = Model::default();
        }
    }

    // === requests ===

    /// Requests find no room where there is none, or none that is open to them.
    fn is_reachable(&self, user: u8) -> Outcome {
        let is_hidden = self.is_locked && self.affiliation(user) != Affiliation::Owner;
        unless(!self.exists || is_hidden, "item-not-found")
    }

    /// The same for what is not for the room itself, which those who are there may send.
    fn is_there(&self, user: u8, device: u8) -> Outcome {
        match self.nick_of(user, device) {
            Some(_) => Ok(()),
            None => self.is_reachable(user),
        }
    }

    fn give_role(&mut self, user: u8, device: u8, nick: u8, role: Role) -> Outcome {
        self.is_reachable(user)?;
        unless(self.role_of(user, device) != Role::Moderator, "forbidden")?;
        let Some(target) = self.here.get(&nick).cloned() else {
            return Err("item-not-found");
        };
        let (own, theirs) = (self.affiliation(user), self.affiliation(target.user));
        let takes = role < target.role;
        let is_admins = theirs >= Affiliation::Admin && role != Role::None;
        unless(takes && (is_admins || theirs > own), "not-allowed")?;
        let is_about_moderators =
            role == Role::Moderator || (target.role == Role::Moderator && role != Role::None);
        unless(is_about_moderators && own < Affiliation::Admin, "forbidden")?;
        match role {
            Role::None => {
                self.here.remove(&nick);
            }
            role => {
                if let Some(target) = self.here.get_mut(&nick) {
                    target.role = role;
                }
            }
        }
        self.end();
        Ok(())
    }

    fn affiliate(&mut self, user: u8, target: u8, new: Affiliation) -> Outcome {
        self.is_reachable(user)?;
        let (own, old) = (self.affiliation(user), self.affiliation(target));
        unless(own < Affiliation::Admin, "forbidden")?;
        unless(user == target && new == Affiliation::Outcast, "conflict")?;
        if own == Affiliation::Admin {
            unless(new >= Affiliation::Admin, "forbidden")?;
            unless(old >= Affiliation::Admin, "not-allowed")?;
        }
        let owners = self
            .affiliations
            .values()
            .filter(|a| **a == Affiliation::Owner)
            .count();
        let loses = old == Affiliation::Owner && new != Affiliation::Owner;
        unless(loses && owners == 1, "conflict")?;
        self.set(target, new);
        if new < Affiliation::Member {
            self.reserved.remove(&target);
        }
        self.end();
        Ok(())
    }

    /// Changes an affiliation with what follows for those present.
    fn set(&mut self, user: u8, new: Affiliation) {
        let old = self.affiliation(user);
        match new {
            Affiliation::None => self.affiliations.remove(&user),
            new => self.affiliations.insert(user, new),
        };
        let default = self.entry_role(new);
        let is_out =
            new == Affiliation::Outcast || (self.is_members_only && new == Affiliation::None);
        self.here.retain(|_, o| o.user != user || !is_out);
        for occupant in self.here.values_mut().filter(|o| o.user == user) {
            occupant.role = match new {
                Affiliation::Admin | Affiliation::Owner => Role::Moderator,
                _ if old >= Affiliation::Admin => default,
                Affiliation::Member if occupant.role == Role::Visitor => Role::Participant,
                _ => occupant.role,
            };
        }
    }

    fn register(&mut self, user: u8, nick: u8) -> Outcome {
        self.is_reachable(user)?;
        let affiliation = self.affiliation(user);
        unless(affiliation == Affiliation::Outcast, "not-allowed")?;
        let is_closed = affiliation == Affiliation::None && self.is_members_only;
        unless(is_closed, "not-allowed")?;
        unless(self.is_locked, "item-not-found")?;
        unless(self.is_taken(user, nick), "conflict")?;
        self.reserved.insert(user, nick);
        if affiliation == Affiliation::None {
            self.set(user, Affiliation::Member);
        }
        Ok(())
    }

    fn unregister(&mut self, user: u8) -> Outcome {
        self.is_reachable(user)?;
        let affiliation = self.affiliation(user);
        unless(affiliation == Affiliation::Outcast, "not-allowed")?;
        let is_closed = affiliation == Affiliation::None && self.is_members_only;
        unless(is_closed, "not-allowed")?;
        unless(self.is_locked, "item-not-found")?;
        unless(affiliation == Affiliation::None, "registration-required")?;
        self.reserved.remove(&user);
        if affiliation == Affiliation::Member {
            self.set(user, Affiliation::None);
        }
        self.end();
        Ok(())
    }

    fn invite(&mut self, user: u8, device: u8, target: u8) -> Outcome {
        self.is_there(user, device)?;
        unless(self.nick_of(user, device).is_none(), "not-acceptable")?;
        let role = self.role_of(user, device);
        let may = match self.is_members_only {
            true => self.affiliation(user) >= Affiliation::Admin,
            false => role == Role::Moderator || (role == Role::Participant && !self.no_invites),
        };
        unless(!may, "forbidden")?;
        let is_banned = self.affiliation(target) == Affiliation::Outcast;
        unless(self.is_members_only && is_banned, "forbidden")?;
        if self.is_members_only && self.affiliation(target) == Affiliation::None {
            self.set(target, Affiliation::Member);
        }
        Ok(())
    }

    fn list(&self, user: u8, device: u8, affiliation: Affiliation) -> Outcome {
        self.is_reachable(user)?;
        unless(affiliation == Affiliation::None, "bad-request")?;
        let sees = match self.whois {
            Whois::Anyone => self.nick_of(user, device).is_some(),
            Whois::Moderators => self.role_of(user, device) == Role::Moderator,
            Whois::Nobody => false,
        };
        // Sections 10.5 and 10.8: who the owners and admins are.
        let is_owners = affiliation >= Affiliation::Admin;
        let least = match is_owners {
            true => Affiliation::Owner,
            false => Affiliation::Admin,
        };
        let sees = sees && (!is_owners || self.whois == Whois::Anyone);
        let may = self.affiliation(user) >= least || (sees && affiliation >= Affiliation::Member);
        unless(!may, "forbidden")
    }

    fn configure(&mut self, user: u8, change: Change) -> Outcome {
        self.is_reachable(user)?;
        unless(self.affiliation(user) != Affiliation::Owner, "forbidden")?;
        self.is_locked = false;
        match change {
            Change::Nothing | Change::Visible(_) => {}
            Change::Moderated(on) => self.is_moderated = on,
            Change::Password(on) => self.has_password = on,
            Change::Whois(whois) => self.whois = whois,
            Change::Persistent(on) => self.is_persistent = on,
            Change::SubjectForAll(on) => self.subject_for_all = on,
            Change::Invites(on) => self.no_invites = !on,
            Change::MembersOnly(on) => {
                let affiliations = &self.affiliations;
                let is_member = |o: &Occupant| affiliations.get(&o.user) > Some(&Affiliation::None);
                self.here
                    .retain(|_, o| self.is_members_only || !on || is_member(o));
                self.is_members_only = on;
            }
        }
        self.end();
        Ok(())
    }
}
