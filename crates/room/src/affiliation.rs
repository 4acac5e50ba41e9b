//! Roles and affiliations with their privileges (XEP-0045 section 5): who may change what. Owns
//! the rules, and no room.

use serde::{Deserialize, Serialize};
use stdx::bugs;
use xmpp::error::Condition;

/// A lasting relation of an address to a room. A later one has every privilege of an earlier one.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum Affiliation {
    /// Banned.
    Outcast,
    /// No relation.
    #[default]
    None,
    /// May enter a members-only room.
    Member,
    /// Bans, and makes members and moderators.
    Admin,
    /// Configures and destroys, and makes admins and owners.
    Owner,
}

impl Affiliation {
    /// Every affiliation.
    pub const ALL: [Affiliation; 5] = [
        Affiliation::Outcast,
        Affiliation::None,
        Affiliation::Member,
        Affiliation::Admin,
        Affiliation::Owner,
    ];

    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Affiliation::Outcast => "outcast",
            Affiliation::None => "none",
            Affiliation::Member => "member",
            Affiliation::Admin => "admin",
            Affiliation::Owner => "owner",
        }
    }

    /// By its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == name)
    }
}

/// What an occupant may do during one visit. A later one has every privilege of an earlier one.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum Role {
    /// Not in the room.
    #[default]
    None,
    /// Without voice.
    Visitor,
    /// With voice.
    Participant,
    /// Kicks, and grants and revokes voice.
    Moderator,
}

impl Role {
    /// Every role.
    pub const ALL: [Role; 4] = [
        Role::None,
        Role::Visitor,
        Role::Participant,
        Role::Moderator,
    ];

    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::None => "none",
            Role::Visitor => "visitor",
            Role::Participant => "participant",
            Role::Moderator => "moderator",
        }
    }

    /// By its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == name)
    }
}

/// The role with which somebody enters (section 5.1.2).
pub(crate) fn default_role(affiliation: Affiliation, is_moderated: bool) -> Role {
    match affiliation {
        Affiliation::Outcast => Role::None,
        Affiliation::None if is_moderated => Role::Visitor,
        Affiliation::None | Affiliation::Member => Role::Participant,
        Affiliation::Admin | Affiliation::Owner => Role::Moderator,
    }
}

/// The role of an occupant whose affiliation changes while he is there. It follows the affiliation
/// up, and down where it was a privilege of the affiliation; what a moderator granted stays.
pub(crate) fn role_after(
    role: Role,
    old: Affiliation,
    new: Affiliation,
    is_moderated: bool,
) -> Role {
    let default = default_role(new, is_moderated);
    match new {
        Affiliation::Outcast => Role::None,
        Affiliation::Admin | Affiliation::Owner => Role::Moderator,
        _ if old >= Affiliation::Admin => default,
        Affiliation::Member => role.max(default),
        Affiliation::None => role,
    }
}

/// Whether `actor` may change somebody's affiliation from `old` to `new` (sections 5.2.1, 9 and
/// 10). What concerns the actor himself is decided by the room.
///
/// # Errors
/// `forbidden` if he has no such privilege, `not-allowed` if it does not extend to this address.
pub(crate) fn may_affiliate(
    actor: Affiliation,
    old: Affiliation,
    new: Affiliation,
) -> Result<(), Condition> {
    match actor {
        Affiliation::Owner => Ok(()),
        Affiliation::Admin if new >= Affiliation::Admin => Err(Condition::Forbidden),
        Affiliation::Admin if bugs::is("admins_ban_admins") => Ok(()),
        Affiliation::Admin if old >= Affiliation::Admin => Err(Condition::NotAllowed),
        Affiliation::Admin => Ok(()),
        _ => Err(Condition::Forbidden),
    }
}

/// Whether an actor may change an occupant's role (sections 5.1.1, 8.2 to 8.4, 9.6 and 9.7).
///
/// # Errors
/// `forbidden` if he has no such privilege, `not-allowed` if it does not extend to this occupant.
pub(crate) fn may_give_role(
    actor: (Role, Affiliation),
    target: (Role, Affiliation),
    new: Role,
) -> Result<(), Condition> {
    let (actor_role, actor_affiliation) = actor;
    let (role, affiliation) = target;
    if actor_role != Role::Moderator {
        return Err(Condition::Forbidden);
    }
    let takes = new < role;
    // What an admin or owner has as such cannot be taken from him by changing his role, and nothing
    // is taken from who stands higher. That is said first: it holds whoever asks (section 8.4).
    let is_admins = new != Role::None && affiliation >= Affiliation::Admin;
    let is_protected = is_admins || affiliation > actor_affiliation;
    if takes && is_protected && !bugs::is("moderators_lose_voice") {
        return Err(Condition::NotAllowed);
    }
    let concerns_moderators =
        new == Role::Moderator || (role == Role::Moderator && new != Role::None);
    if concerns_moderators && actor_affiliation < Affiliation::Admin {
        return Err(Condition::Forbidden);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entering_gives_the_role_of_the_table_in_section_5_1_2() {
        use Affiliation::{Admin, Member, None, Outcast, Owner};
        for (affiliation, moderated, unmoderated) in [
            (Outcast, Role::None, Role::None),
            (None, Role::Visitor, Role::Participant),
            (Member, Role::Participant, Role::Participant),
            (Admin, Role::Moderator, Role::Moderator),
            (Owner, Role::Moderator, Role::Moderator),
        ] {
            assert_eq!(default_role(affiliation, true), moderated);
            assert_eq!(default_role(affiliation, false), unmoderated);
        }
    }

    #[test]
    fn affiliations_are_changed_by_whom_section_5_2_1_names() {
        use Affiliation::{Admin, Member, None, Outcast, Owner};
        use Condition::{Forbidden, NotAllowed};
        for (actor, old, new, expected) in [
            (Member, None, Outcast, Err(Forbidden)),
            (None, None, Member, Err(Forbidden)),
            (Admin, None, Outcast, Ok(())),
            (Admin, Outcast, None, Ok(())),
            (Admin, None, Member, Ok(())),
            (Admin, Member, None, Ok(())),
            (Admin, Member, Admin, Err(Forbidden)),
            (Admin, None, Owner, Err(Forbidden)),
            (Admin, Owner, Outcast, Err(NotAllowed)),
            (Admin, Admin, Member, Err(NotAllowed)),
            (Owner, Owner, Outcast, Ok(())),
            (Owner, None, Owner, Ok(())),
        ] {
            let found = may_affiliate(actor, old, new);
            assert_eq!(found, expected, "{actor:?} {old:?} {new:?}");
        }
    }

    #[test]
    fn roles_are_changed_by_whom_section_5_1_1_names() {
        use Affiliation as A;
        use Condition::{Forbidden, NotAllowed};
        use Role::{Moderator, None, Participant, Visitor};
        for (actor, target, new, expected) in [
            (
                (Participant, A::None),
                (Visitor, A::None),
                Participant,
                Err(Forbidden),
            ),
            (
                (Participant, A::Member),
                (Visitor, A::None),
                None,
                Err(Forbidden),
            ),
            (
                (Moderator, A::None),
                (Visitor, A::None),
                Participant,
                Ok(()),
            ),
            (
                (Moderator, A::None),
                (Participant, A::None),
                Visitor,
                Ok(()),
            ),
            ((Moderator, A::None), (Participant, A::None), None, Ok(())),
            (
                (Moderator, A::None),
                (Participant, A::Member),
                None,
                Err(NotAllowed),
            ),
            (
                (Moderator, A::Member),
                (Participant, A::None),
                Moderator,
                Err(Forbidden),
            ),
            (
                (Moderator, A::Member),
                (Moderator, A::Member),
                Participant,
                Err(Forbidden),
            ),
            (
                (Moderator, A::Admin),
                (Participant, A::None),
                Moderator,
                Ok(()),
            ),
            (
                (Moderator, A::Admin),
                (Moderator, A::Member),
                Participant,
                Ok(()),
            ),
            (
                (Moderator, A::Admin),
                (Moderator, A::Admin),
                Participant,
                Err(NotAllowed),
            ),
            (
                (Moderator, A::Owner),
                (Moderator, A::Admin),
                Visitor,
                Err(NotAllowed),
            ),
            (
                (Moderator, A::Admin),
                (Moderator, A::Owner),
                None,
                Err(NotAllowed),
            ),
            ((Moderator, A::Owner), (Moderator, A::Admin), None, Ok(())),
            // Whoever asks: sections 8.4, 8.5 and 9.7.
            (
                (Moderator, A::None),
                (Moderator, A::Owner),
                Visitor,
                Err(NotAllowed),
            ),
            (
                (Moderator, A::Member),
                (Moderator, A::Admin),
                Participant,
                Err(NotAllowed),
            ),
            (
                (Moderator, A::None),
                (Participant, A::Member),
                Visitor,
                Err(NotAllowed),
            ),
            (
                (Moderator, A::Member),
                (Participant, A::Member),
                Visitor,
                Ok(()),
            ),
        ] {
            let found = may_give_role(actor, target, new);
            assert_eq!(found, expected, "{actor:?} {target:?} {new:?}");
        }
    }

    #[test]
    fn a_role_follows_the_affiliation() {
        use Affiliation::{Admin, Member, None, Outcast};
        use Role::{Moderator, Participant, Visitor};
        assert_eq!(role_after(Visitor, None, Member, true), Participant);
        assert_eq!(role_after(Visitor, None, Admin, true), Moderator);
        assert_eq!(role_after(Moderator, Admin, None, true), Visitor);
        assert_eq!(role_after(Moderator, Admin, Member, true), Participant);
        assert_eq!(role_after(Moderator, None, Member, true), Moderator);
        assert_eq!(role_after(Participant, Member, None, true), Participant);
        assert_eq!(role_after(Moderator, Admin, Outcast, false), Role::None);
    }

    #[test]
    fn names_are_read_back() {
        for one in Affiliation::ALL {
            assert_eq!(Affiliation::parse(one.as_str()), Some(one));
        }
        for one in Role::ALL {
            assert_eq!(Role::parse(one.as_str()), Some(one));
        }
        assert_eq!((Affiliation::parse("god"), Role::parse("")), (None, None));
    }
}
