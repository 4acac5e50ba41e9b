//! Random sequences of requests against a small executable model of access. After each step the
//! sender must have been told exactly what the model says, the nodes must be what the model has,
//! and the event must have reached exactly those whom the model names. A shrunk sequence is printed
//! when that fails.

mod rules;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::test_runner::{Config as Runs, TestError, TestRunner};

use crate::access::{AccessModel, Affiliation, PublishModel, SubscriptionState};
use crate::bugs::Bug;
use crate::tests::{World, condition, form, publish_options};
use crate::{Event, Options, Owner, PubsubLimits, account_defaults};
use rules::Model;

/// One request. Users, nodes and items are small numbers; user 0 owns what there is first.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    Create {
        user: u8,
        node: u8,
        access: AccessModel,
    },
    Configure {
        user: u8,
        node: u8,
        change: Change,
    },
    Delete {
        user: u8,
        node: u8,
    },
    Purge {
        user: u8,
        node: u8,
    },
    Publish {
        user: u8,
        node: u8,
        item: u8,
        /// The access model that it has as a precondition.
        only_if: Option<AccessModel>,
    },
    Retract {
        user: u8,
        node: u8,
        item: u8,
    },
    Subscribe {
        user: u8,
        node: u8,
    },
    Unsubscribe {
        user: u8,
        node: u8,
    },
    Decide {
        user: u8,
        node: u8,
        target: u8,
        allow: bool,
    },
    Affiliate {
        user: u8,
        node: u8,
        target: u8,
        affiliation: Affiliation,
    },
    SetSubscription {
        user: u8,
        node: u8,
        target: u8,
        state: SubscriptionState,
    },
    Retrieve {
        user: u8,
        node: u8,
    },
    List {
        user: u8,
    },
    /// Another kind of contact of the account: none, contact, contact in the group.
    Relate {
        target: u8,
        relation: u8,
    },
    /// A session comes online or goes.
    Presence {
        user: u8,
        is_online: bool,
    },
}

/// One field of a configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    Access(AccessModel),
    Publish(PublishModel),
    ItemsMax(u8),
}

pub(crate) const USERS: u8 = 4;
const NODES: u8 = 2;
const ITEMS: u8 = 4;
const GROUP: &str = "g";

/// The bare address of a user; of an account, user 0 is the account.
pub(crate) fn bare(user: u8) -> String {
    format!("person{user}@x.example")
}

pub(crate) fn full(user: u8) -> String {
    format!("person{user}@x.example/d")
}

pub(crate) fn node(node: u8) -> String {
    format!("node{node}")
}

fn item(item: u8) -> String {
    format!("item{item}")
}

fn command() -> impl Strategy<Value = Command> {
    let (user, one, item) = (0..USERS, 0..NODES, 0..ITEMS);
    let who = (prop_oneof![2 => Just(0), 3 => user.clone()], one);
    let access = proptest::sample::select(AccessModel::ALL);
    let affiliation = proptest::sample::select(Affiliation::ALL);
    let state = proptest::sample::select(SubscriptionState::ALL);
    let target = user.clone();
    prop_oneof![
        2 => (who.clone(), access.clone())
            .prop_map(|((user, node), access)| Command::Create { user, node, access }),
        3 => (who.clone(), change())
            .prop_map(|((user, node), change)| Command::Configure { user, node, change }),
        1 => who.clone().prop_map(|(user, node)| Command::Delete { user, node }),
        1 => who.clone().prop_map(|(user, node)| Command::Purge { user, node }),
        6 => (who.clone(), item.clone(), proptest::option::weighted(0.2, access)).prop_map(
            |((user, node), item, only_if)| Command::Publish { user, node, item, only_if }
        ),
        2 => (who.clone(), item)
            .prop_map(|((user, node), item)| Command::Retract { user, node, item }),
        4 => who.clone().prop_map(|(user, node)| Command::Subscribe { user, node }),
        1 => who.clone().prop_map(|(user, node)| Command::Unsubscribe { user, node }),
        2 => (who.clone(), target.clone(), any::<bool>()).prop_map(
            |((user, node), target, allow)| Command::Decide { user, node, target, allow }
        ),
        4 => (who.clone(), target.clone(), affiliation).prop_map(
            |((user, node), target, affiliation)| {
                Command::Affiliate { user, node, target, affiliation }
            }
        ),
        2 => (who.clone(), target.clone(), state).prop_map(
            |((user, node), target, state)| {
                Command::SetSubscription { user, node, target, state }
            }
        ),
        3 => who.prop_map(|(user, node)| Command::Retrieve { user, node }),
        1 => user.clone().prop_map(|user| Command::List { user }),
        1 => (target, 0..3_u8)
            .prop_map(|(target, relation)| Command::Relate { target, relation }),
        1 => (user, any::<bool>())
            .prop_map(|(user, is_online)| Command::Presence { user, is_online }),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => proptest::sample::select(AccessModel::ALL).prop_map(Change::Access),
        2 => proptest::sample::select(PublishModel::ALL).prop_map(Change::Publish),
        1 => (1..=3_u8).prop_map(Change::ItemsMax),
    ]
}

/// A service and its model.
struct Check {
    world: World,
    model: Model,
}

impl Check {
    fn new(is_account: bool, bug: Option<Bug>) -> Check {
        let options = Options {
            owner: if is_account {
                Owner::Account
            } else {
                Owner::Nobody
            },
            limits: PubsubLimits {
                items_per_node_max: 3,
                ..PubsubLimits::SERVICE
            },
            defaults: account_defaults(),
            auto_creates: is_account,
            features: Vec::new(),
            shared: Vec::new(),
        };
        let address = if is_account {
            bare(0)
        } else {
            "pubsub.x.example".to_owned()
        };
        let mut world = World::with(&address, options);
        world.service.bug = bug;
        Check {
            world,
            model: Model::new(is_account),
        }
    }

    /// One step. `fails` refuses what the service wants to append.
    fn step(&mut self, command: &Command, fails: bool) -> Result<(), String> {
        let before = self.model.clone();
        let expected = self.model.predict(command);
        // What nobody asked for has nobody to tell that it failed.
        let is_asked = !matches!(command, Command::Relate { .. } | Command::Presence { .. });
        self.world.decides = Some(!(fails && is_asked));
        self.world.appends = 0;
        self.perform(command);
        let expected = if fails && is_asked && self.world.appends > 0 {
            self.model = before;
            Err("resource-constraint/wait".to_owned())
        } else {
            expected.map_err(str::to_owned)
        };
        let mail = std::mem::take(&mut self.world.mail);
        let told = self.check_answer(command, expected, &mail)?;
        self.check_nodes()?;
        self.check_events(command, &told, &mail)
    }

    fn perform(&mut self, command: &Command) {
        const NS: &str = "http://jabber.org/protocol/pubsub";
        let iq = |kind: &str, ns: &str, content: String| {
            format!("<iq type='{kind}' id='q'><pubsub xmlns='{ns}'>{content}</pubsub></iq>")
        };
        let own_ns = format!("{NS}#owner");
        let (set, own) = (|c| iq("set", NS, c), |c| iq("set", &own_ns, c));
        let (user, stanza) = match *command {
            Command::Create {
                user,
                node: n,
                access,
            } => {
                let fields = with_groups(access);
                let form = form("node_config", &fields);
                let content = format!("<create node='{}'/><configure>{form}</configure>", node(n));
                (user, set(content))
            }
            Command::Configure {
                user,
                node: n,
                change,
            } => {
                let count = if let Change::ItemsMax(count) = change {
                    count
                } else {
                    0
                };
                let count = count.to_string();
                let fields = match change {
                    Change::Access(access) => with_groups(access),
                    Change::Publish(model) => vec![("publish_model", model.as_str())],
                    Change::ItemsMax(_) => vec![("max_items", count.as_str())],
                };
                let form = form("node_config", &fields);
                (
                    user,
                    own(format!("<configure node='{}'>{form}</configure>", node(n))),
                )
            }
            Command::Delete { user, node: n } => {
                (user, own(format!("<delete node='{}'/>", node(n))))
            }
            Command::Purge { user, node: n } => (user, own(format!("<purge node='{}'/>", node(n)))),
            Command::Publish {
                user,
                node: n,
                item: i,
                only_if,
            } => {
                let options = only_if.map(|access| publish_options(&with_groups(access)));
                let content = format!(
                    "<publish node='{}'><item id='{}'><e xmlns='urn:e'/></item></publish>{}",
                    node(n),
                    item(i),
                    options.unwrap_or_default()
                );
                (user, set(content))
            }
            Command::Retract {
                user,
                node: n,
                item: i,
            } => {
                let (node, item) = (node(n), item(i));
                let content =
                    format!("<retract node='{node}' notify='1'><item id='{item}'/></retract>");
                (user, set(content))
            }
            Command::Subscribe { user, node: n } => (
                user,
                set(format!(
                    "<subscribe node='{}' jid='{}'/>",
                    node(n),
                    bare(user)
                )),
            ),
            Command::Unsubscribe { user, node: n } => (
                user,
                set(format!(
                    "<unsubscribe node='{}' jid='{}'/>",
                    node(n),
                    bare(user)
                )),
            ),
            Command::Decide {
                user,
                node: n,
                target,
                allow,
            } => {
                let (node, target) = (node(n), bare(target));
                let allow = if allow { "1" } else { "0" };
                let fields = [
                    ("node", &*node),
                    ("subscriber_jid", &*target),
                    ("allow", allow),
                ];
                let form = form("subscribe_authorization", &fields);
                (user, format!("<message id='q'>{form}</message>"))
            }
            Command::Affiliate {
                user,
                node: n,
                target,
                affiliation,
            } => {
                let (node, target, name) = (node(n), bare(target), affiliation.as_str());
                let entry = format!("<affiliation jid='{target}' affiliation='{name}'/>");
                (
                    user,
                    own(format!(
                        "<affiliations node='{node}'>{entry}</affiliations>"
                    )),
                )
            }
            Command::SetSubscription {
                user,
                node: n,
                target,
                state,
            } => {
                let (node, target, name) = (node(n), bare(target), state.as_str());
                let entry = format!("<subscription jid='{target}' subscription='{name}'/>");
                (
                    user,
                    own(format!(
                        "<subscriptions node='{node}'>{entry}</subscriptions>"
                    )),
                )
            }
            Command::Retrieve { user, node: n } => {
                (user, iq("get", NS, format!("<items node='{}'/>", node(n))))
            }
            Command::List { user } => {
                let query = "<query xmlns='http://jabber.org/protocol/disco#items'/>";
                (user, format!("<iq type='get' id='q'>{query}</iq>"))
            }
            Command::Relate { target, relation } => return self.relate(target, relation),
            Command::Presence { user, is_online } => {
                let sessions = &mut self.world.roster.sessions;
                match is_online {
                    true => sessions.insert(full(user), (0..NODES).map(node).collect()),
                    false => sessions.remove(&full(user)),
                };
                return;
            }
        };
        self.world.send(&full(user), &stanza);
    }

    fn relate(&mut self, target: u8, relation: u8) {
        let contacts = &mut self.world.roster.contacts;
        contacts.remove(&bare(target));
        let groups = match relation {
            0 => None,
            1 => Some(BTreeSet::new()),
            _ => Some(BTreeSet::from([GROUP.to_owned()])),
        };
        if let Some(groups) = groups {
            contacts.insert(bare(target), groups);
        }
        let bare = bare(target).into();
        assert!(self.world.event(Event::Related { bare }));
    }

    /// The sender has been told exactly what the model says; what the model says is told to others.
    fn check_answer(
        &self,
        command: &Command,
        expected: Result<rules::Told, String>,
        mail: &BTreeMap<String, Vec<String>>,
    ) -> Result<rules::Told, String> {
        let errors = mail.values().flatten().filter_map(|one| condition(one));
        let found: Vec<String> = errors.collect();
        match expected {
            Err(condition) if found == [condition.clone()] => Ok(rules::Told::default()),
            Ok(told) if found.is_empty() => Ok(told),
            expected => Err(format!(
                "{command:?}: expected {expected:?}, found {found:?}"
            )),
        }
    }

    fn check_nodes(&self) -> Result<(), String> {
        let state = self.world.service.state();
        for number in 0..NODES {
            let (found, wanted) = (state.node(&node(number)), self.model.node(number));
            let (Some(found), Some(wanted)) = (found, wanted) else {
                match (found, wanted) {
                    (None, None) => continue,
                    _ => return Err(format!("{} is there: {}", node(number), found.is_some())),
                }
            };
            for user in 0..USERS {
                let affiliation = found.affiliation(&bare(user));
                let subscription = found.subscription(&bare(user), self.world.now);
                let subscription = subscription.map(|one| one.state).unwrap_or_default();
                let is = (affiliation, subscription);
                let should = (wanted.affiliation(user), wanted.subscription(user));
                if is != should {
                    let node = node(number);
                    return Err(format!(
                        "{} is {is:?} at {node}, not {should:?}",
                        bare(user)
                    ));
                }
            }
            let items: Vec<String> = found.all_items().map(|item| item.id.to_string()).collect();
            let wanted: Vec<String> = wanted.items.iter().map(|(i, _)| item(*i)).collect();
            let store = self
                .world
                .store
                .keys()
                .filter(|(name, _)| *name == node(number));
            if items != wanted || store.count() != wanted.len() {
                return Err(format!("{} has {items:?}, not {wanted:?}", node(number)));
            }
        }
        Ok(())
    }

    /// Events have reached those whom the model names, and what was asked for is what may be seen.
    fn check_events(
        &self,
        command: &Command,
        told: &rules::Told,
        mail: &BTreeMap<String, Vec<String>>,
    ) -> Result<(), String> {
        let is_event =
            |one: &String| one.contains("pubsub#event'><items") && !one.contains("delay");
        let got = mail.iter();
        let got = got.filter(|(_, all)| all.iter().any(is_event));
        let got: BTreeSet<&String> = got.map(|(who, _)| who).collect();
        let wanted: BTreeSet<&String> = told.events.iter().collect();
        let twice = mail
            .values()
            .any(|all| all.iter().filter(|one| is_event(one)).count() > 1);
        if got != wanted || twice {
            return Err(format!("{command:?}: {got:?} were told and not {wanted:?}"));
        }
        if let Command::Retrieve { user, .. } | Command::List { user } = command {
            let answer = mail
                .get(&full(*user))
                .map(|all| all.concat())
                .unwrap_or_default();
            let found = answer.matches("<item ").count();
            if found != told.entries {
                return Err(format!(
                    "{command:?}: {found} entries, not {}",
                    told.entries
                ));
            }
        }
        Ok(())
    }
}

fn with_groups(access: AccessModel) -> Vec<(&'static str, &'static str)> {
    match access {
        AccessModel::Roster => vec![("access_model", "roster"), ("roster_groups_allowed", GROUP)],
        access => vec![("access_model", access.as_str())],
    }
}

/// What a run is made of: whether the service is an account's, and the requests, each with whether
/// its append fails.
type Plan = (bool, Vec<(Command, bool)>);

fn plans() -> impl Strategy<Value = Plan> {
    let step = (command(), proptest::bool::weighted(0.05));
    (any::<bool>(), proptest::collection::vec(step, 1..60))
}

fn run((is_account, steps): Plan, bug: Option<Bug>) -> Result<(), String> {
    let mut check = Check::new(is_account, bug);
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
        Err(TestError::Fail(why, (is_account, steps))) => {
            let steps: Vec<String> = steps.iter().map(|step| format!("{step:?}")).collect();
            Err(format!(
                "{why}\nan account's: {is_account}\n{}",
                steps.join("\n")
            ))
        }
        Err(other) => Err(other.to_string()),
    }
}

/// `PUBSUB_MODEL_CASES` sets how many sequences are tried.
#[test]
fn a_service_behaves_like_the_model() {
    let cases = std::env::var("PUBSUB_MODEL_CASES")
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
