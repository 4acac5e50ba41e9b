//! Affiliations, subscription states, access models and publish models (XEP-0060 sections 4.1 to
//! 4.5): who may what. Owns the rules, and no node.

use serde::{Deserialize, Serialize};
use xmpp::error::Condition;

use crate::error::Refusal;

macro_rules! names {
    ($(#[$doc:meta])* $name:ident { $($(#[$one:meta])* $variant:ident => $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize,
            Deserialize,
        )]
        pub enum $name { $($(#[$one])* $variant,)* }

        impl $name {
            /// All of them.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// Its name on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }

            /// By its name.
            pub fn parse(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.as_str() == name)
            }
        }
    };
}

names! {
    /// A lasting relation of a bare address to a node (section 4.1).
    Affiliation {
        /// Banned.
        Outcast => "outcast",
        /// No relation.
        #[default]
        None => "none",
        /// May subscribe and retrieve where others may not.
        Member => "member",
        /// Publishes, and removes what he published; neither subscribes nor retrieves.
        PublishOnly => "publish-only",
        /// Subscribes, retrieves, publishes, and removes what he published.
        Publisher => "publisher",
        /// May everything.
        Owner => "owner",
    }
}

names! {
    /// How far a subscription has come (section 4.2).
    SubscriptionState {
        /// There is none.
        #[default]
        None => "none",
        /// An owner has to approve it.
        Pending => "pending",
        /// It has to be configured, and is told nothing until it is.
        Unconfigured => "unconfigured",
        /// It is told everything.
        Subscribed => "subscribed",
    }
}

names! {
    /// Who may subscribe and retrieve (section 4.5).
    AccessModel {
        /// Those who were approved.
        Authorize => "authorize",
        /// Everybody.
        #[default]
        Open => "open",
        /// Those who may see the presence of its owner, at a service of its creator.
        Presence => "presence",
        /// Those of them who are in one of the groups of the owner's roster.
        Roster => "roster",
        /// Members.
        Whitelist => "whitelist",
    }
}

names! {
    /// Who may publish.
    PublishModel {
        /// Publishers and owners.
        #[default]
        Publishers => "publishers",
        /// Subscribers too.
        Subscribers => "subscribers",
        /// Everybody.
        Open => "open",
    }
}

names! {
    /// When the last item is sent without being asked for.
    SendLast {
        /// Never.
        Never => "never",
        /// To those who subscribe.
        #[default]
        OnSub => "on_sub",
        /// To those who come online too.
        OnSubAndPresence => "on_sub_and_presence",
    }
}

/// What the host knows of those whose rosters decide who may enter a node, and who is online: of
/// the account that nodes belong to, and at a service that belongs to nobody, of creators of
/// nodes ([`crate::Service::rosters_for`]). It answers from memory.
pub trait Contacts {
    /// Whether a bare address may see the presence of the account `of`: a contact with a
    /// subscription of `from` or `both`.
    fn sees_presence(&self, of: &str, bare: &str) -> bool;

    /// Whether a contact is in a group of the roster of the account `of`.
    fn is_in_group(&self, of: &str, bare: &str, group: &str) -> bool;

    /// Who may be interested in a node and is not blocked. A full address is a session that is
    /// available with a priority that is not negative, and whose verified capabilities name
    /// `NODE+notify`. A bare address is a contact whose own home knows his sessions and their
    /// capabilities, and finds those that are interested ([`crate::Effect::Notify`]).
    fn interested(&self, node: &str, each: &mut dyn FnMut(&str));
}

/// Nobody is known: of a service that belongs to no account, where no roster decides.
impl Contacts for () {
    fn sees_presence(&self, _of: &str, _bare: &str) -> bool {
        false
    }

    fn is_in_group(&self, _of: &str, _bare: &str, _group: &str) -> bool {
        false
    }

    fn interested(&self, _node: &str, _each: &mut dyn FnMut(&str)) {}
}

/// What an access model asks about one address.
#[derive(Clone, Copy)]
pub(crate) struct Visitor<'a> {
    pub(crate) bare: &'a str,
    pub(crate) affiliation: Affiliation,
    /// Whose roster decides; nobody's if its owner is gone.
    pub(crate) judge: Option<&'a str>,
    pub(crate) contacts: &'a dyn Contacts,
}

impl Visitor<'_> {
    fn sees_presence(&self) -> bool {
        let sees = |of| self.contacts.sees_presence(of, self.bare);
        self.judge.is_some_and(sees)
    }

    fn is_in_one_of(&self, groups: &[String]) -> bool {
        let mut groups = groups.iter();
        let is_in = |of: &str, group: &str| self.contacts.is_in_group(of, self.bare, group);
        groups.any(|group| self.judge.is_some_and(|of| is_in(of, group)))
    }

    /// Whether he may subscribe, and retrieve unless that takes an approval (sections 6.1.3 and
    /// 6.5.1). An explicit affiliation opens what the access model closes.
    ///
    /// # Errors
    /// The error that the text asks for.
    pub(crate) fn may_enter(&self, model: AccessModel, groups: &[String]) -> Result<(), Refusal> {
        let refused = |app| Err(Refusal::of(Condition::NotAuthorized, app));
        match self.affiliation {
            Affiliation::Outcast | Affiliation::PublishOnly => {
                return Err(Condition::Forbidden.into());
            }
            Affiliation::Member | Affiliation::Publisher | Affiliation::Owner => return Ok(()),
            Affiliation::None => {}
        }
        match model {
            AccessModel::Open | AccessModel::Authorize => Ok(()),
            AccessModel::Presence if self.sees_presence() => Ok(()),
            AccessModel::Presence => refused("presence-subscription-required"),
            AccessModel::Roster if self.sees_presence() && self.is_in_one_of(groups) => Ok(()),
            AccessModel::Roster => refused("not-in-roster-group"),
            AccessModel::Whitelist => Err(Refusal::of(Condition::NotAllowed, "closed-node")),
        }
    }

    /// Whether a session of his is told without a subscription (section 9.1): the owner of
    /// everything, others as their presence allows.
    pub(crate) fn is_told_unasked(&self, model: AccessModel, groups: &[String]) -> bool {
        match (self.affiliation, model) {
            (Affiliation::Outcast | Affiliation::PublishOnly, _) => false,
            (Affiliation::Owner, _) | (_, AccessModel::Open) => true,
            (_, AccessModel::Presence) => self.sees_presence(),
            (_, AccessModel::Roster) => self.sees_presence() && self.is_in_one_of(groups),
            (_, AccessModel::Authorize | AccessModel::Whitelist) => false,
        }
    }
}

/// Whether he may publish (section 7.1).
pub(crate) fn may_publish(
    affiliation: Affiliation,
    model: PublishModel,
    is_subscribed: bool,
) -> bool {
    match (affiliation, model) {
        (Affiliation::Outcast, _) => false,
        (Affiliation::PublishOnly | Affiliation::Publisher | Affiliation::Owner, _) => true,
        (_, PublishModel::Publishers) => false,
        (_, PublishModel::Subscribers) => is_subscribed,
        (_, PublishModel::Open) => true,
    }
}

/// Whether he may remove an item (section 7.2): owners any, others who publish their own.
pub(crate) fn may_retract(affiliation: Affiliation, is_own: bool) -> bool {
    match affiliation {
        Affiliation::Owner => true,
        Affiliation::Outcast => false,
        _ => is_own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Friends see presence; `best@x` is in the group `best` too.
    struct Roster;

    impl Contacts for Roster {
        fn sees_presence(&self, _of: &str, bare: &str) -> bool {
            matches!(bare, "friend@x" | "best@x")
        }

        fn is_in_group(&self, _of: &str, bare: &str, group: &str) -> bool {
            group == "best" && matches!(bare, "best@x" | "seen@x")
        }

        fn interested(&self, _node: &str, _each: &mut dyn FnMut(&str)) {}
    }

    fn enter(bare: &str, affiliation: Affiliation, model: AccessModel) -> Result<(), Refusal> {
        let contacts = &Roster;
        let visitor = Visitor {
            bare,
            affiliation,
            judge: Some("owner@x"),
            contacts,
        };
        visitor.may_enter(model, &["best".to_owned()])
    }

    /// Section 4.1, table 1, and section 4.5.
    #[test]
    fn section_4_5_who_enters_a_node() {
        use Affiliation::{Member, None, Outcast, Owner, PublishOnly, Publisher};
        for model in AccessModel::ALL {
            for banned in [Outcast, PublishOnly] {
                let found = enter("best@x", banned, *model).unwrap_err();
                assert_eq!(
                    (found.condition, found.app),
                    (Condition::Forbidden, Option::None)
                );
            }
            for known in [Member, Publisher, Owner] {
                assert_eq!(enter("stranger@x", known, *model), Ok(()));
            }
        }
        for (bare, model, expected) in [
            ("stranger@x", AccessModel::Open, Ok(())),
            ("stranger@x", AccessModel::Authorize, Ok(())),
            ("friend@x", AccessModel::Presence, Ok(())),
            (
                "stranger@x",
                AccessModel::Presence,
                Err("presence-subscription-required"),
            ),
            ("best@x", AccessModel::Roster, Ok(())),
            ("friend@x", AccessModel::Roster, Err("not-in-roster-group")),
            ("seen@x", AccessModel::Roster, Err("not-in-roster-group")),
            ("friend@x", AccessModel::Whitelist, Err("closed-node")),
        ] {
            let found = enter(bare, None, model).map_err(|refusal| refusal.app.unwrap());
            assert_eq!(found, expected, "{bare} {model:?}");
        }
    }

    /// Section 9.1.
    #[test]
    fn section_9_1_who_is_told_unasked() {
        use Affiliation::{Member, None, Outcast, Owner, PublishOnly};
        for (bare, affiliation, model, expected) in [
            ("stranger@x", None, AccessModel::Open, true),
            ("stranger@x", Outcast, AccessModel::Open, false),
            ("stranger@x", PublishOnly, AccessModel::Open, false),
            ("stranger@x", Owner, AccessModel::Whitelist, true),
            ("friend@x", None, AccessModel::Presence, true),
            ("stranger@x", Member, AccessModel::Presence, false),
            ("best@x", None, AccessModel::Roster, true),
            ("seen@x", None, AccessModel::Roster, false),
            ("friend@x", Member, AccessModel::Whitelist, false),
            ("friend@x", None, AccessModel::Authorize, false),
        ] {
            let contacts = &Roster;
            let visitor = Visitor {
                bare,
                affiliation,
                judge: Some("owner@x"),
                contacts,
            };
            let found = visitor.is_told_unasked(model, &["best".to_owned()]);
            assert_eq!(found, expected, "{bare} {affiliation:?} {model:?}");
        }
    }

    /// Section 4.1, table 1: publishing and deleting.
    #[test]
    fn section_4_1_who_publishes_and_removes() {
        use Affiliation::{Member, None, Outcast, Owner, PublishOnly, Publisher};
        for (affiliation, own, subscribers, open, other) in [
            (Outcast, false, false, false, false),
            (None, false, true, true, false),
            (Member, false, true, true, false),
            (PublishOnly, true, true, true, false),
            (Publisher, true, true, true, false),
            (Owner, true, true, true, true),
        ] {
            let may = |model, is_subscribed| may_publish(affiliation, model, is_subscribed);
            assert_eq!(may(PublishModel::Publishers, true), own, "{affiliation:?}");
            assert_eq!(
                may(PublishModel::Subscribers, true),
                subscribers,
                "{affiliation:?}"
            );
            assert_eq!(
                may(PublishModel::Subscribers, false),
                own,
                "{affiliation:?}"
            );
            assert_eq!(may(PublishModel::Open, false), open, "{affiliation:?}");
            assert_eq!(may_retract(affiliation, false), other, "{affiliation:?}");
            assert_eq!(may_retract(affiliation, true), affiliation != Outcast);
        }
    }

    #[test]
    fn names_are_read_back() {
        for one in Affiliation::ALL {
            assert_eq!(Affiliation::parse(one.as_str()), Some(*one));
        }
        assert_eq!(AccessModel::parse("god"), None);
        assert_eq!(SendLast::parse("on_sub"), Some(SendLast::OnSub));
    }
}
