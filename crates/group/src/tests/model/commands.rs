//! Random commands. Each is a handful of numbers, which mean something in every state: so that a
//! shorter list of them is always a list of commands, and shrinking needs no rules.

use proptest::prelude::{Strategy, any};
use proptest::prop_oneof;

use super::state::{FREE, HIDDEN, N, NODES, PROCS, State};

/// What is done, before it is known to whom.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    NewGroup,
    /// A group is made while another one is, or while one grows: see [`Step::along`].
    TwoGroups,
    AddNodes,
    RemoveNodes,
    DeleteGroup,
    Register,
    Reregister,
    Unregister,
    Whereis,
    Send,
    Connect,
    Kill,
    NodeDownUp,
    NodeDown,
    NodeUp,
}

/// A command whose numbers are to be taken modulo what there is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raw {
    kind: Kind,
    at: u8,
    group: u8,
    name: u8,
    node: u8,
    nodes: u16,
}

/// A command in a state.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) kind: Kind,
    pub(super) at: N,
    pub(super) group: u8,
    pub(super) name: u8,
    pub(super) node: N,
    /// Which process of `node`.
    pub(super) which: usize,
    /// Whether `node` is asked, where a command may ask one.
    pub(super) asks_node: bool,
    pub(super) nodes: Vec<N>,
    /// Given so many milliseconds later, while the first is under way.
    pub(super) along: Option<(u64, Box<Step>)>,
}

/// How long after a command another one is given, at most: longer than a new group takes.
const ALONG_MS_MAX: u64 = 16;

/// Commands, with the weights of the published test.
pub(super) fn raw() -> impl Strategy<Value = Raw> {
    use proptest::prelude::Just;
    let kind = prop_oneof![
        5 => Just(Kind::NewGroup),
        5 => Just(Kind::TwoGroups),
        5 => Just(Kind::AddNodes),
        5 => Just(Kind::RemoveNodes),
        5 => Just(Kind::DeleteGroup),
        10 => Just(Kind::Register),
        10 => Just(Kind::Reregister),
        10 => Just(Kind::Unregister),
        10 => Just(Kind::Whereis),
        10 => Just(Kind::Send),
        3 => Just(Kind::Connect),
        3 => Just(Kind::Kill),
        3 => Just(Kind::NodeDownUp),
        2 => Just(Kind::NodeDown),
        3 => Just(Kind::NodeUp),
    ];
    let numbers = (any::<u8>(), any::<u8>(), any::<u8>(), any::<u8>());
    (kind, numbers, any::<u16>()).prop_map(|(kind, (at, group, name, node), nodes)| Raw {
        kind,
        at,
        group,
        name,
        node,
        nodes,
    })
}

impl Raw {
    /// The command that this is in a state; nothing if no node is there to take it.
    pub(super) fn step(self, state: &State) -> Option<Step> {
        let (up, down): (Vec<N>, Vec<N>) = (0..NODES).partition(|n| state.nodes[*n].up);
        let from = match self.kind {
            Kind::NodeUp => &down,
            _ => &up,
        };
        let at = *from.get(usize::from(self.at) % from.len().max(1))?;
        if matches!(self.kind, Kind::TwoGroups) {
            return self.two_groups(state);
        }
        // Mostly a group that the node is in, if it is in one.
        let own: Vec<u8> = state.nodes[at].views.keys().map(|gid| gid.name).collect();
        let group = match self.group % 8 {
            0 => FREE,
            1..=4 if !own.is_empty() => own[usize::from(self.group / 8) % own.len()],
            _ if own.is_empty() && self.group.is_multiple_of(2) => FREE,
            _ => (self.group / 8) % 5,
        };
        let group = match self.kind {
            Kind::NewGroup if !self.group.is_multiple_of(16) => (self.group / 16) % 5,
            _ => group,
        };
        let mut nodes: Vec<N> = (0..NODES).filter(|n| self.nodes >> n & 1 == 1).collect();
        // Few nodes make more groups that overlap in interesting ways; hidden ones are rare.
        nodes.truncate(usize::from(self.node % 6));
        nodes.retain(|n| *n < HIDDEN || self.name.is_multiple_of(3));
        if matches!(self.kind, Kind::NewGroup) && !self.name.is_multiple_of(16) {
            nodes.push(at);
        }
        nodes.sort_unstable();
        nodes.dedup();
        Some(Step {
            kind: self.kind,
            at,
            group,
            name: self.name % 4,
            node: usize::from(self.node) % NODES,
            which: usize::from(self.node / 16) % PROCS,
            asks_node: self.nodes.is_multiple_of(3),
            nodes,
            along: None,
        })
    }

    /// Two commands that overlap, mostly at one node. Two nodes do not make groups of one name:
    /// each would decline what the other asks, which no order of the commands explains.
    fn two_groups(self, state: &State) -> Option<Step> {
        let kind = Kind::NewGroup;
        let mut first = Raw { kind, ..self }.step(state)?;
        let second = Raw {
            kind: match self.name % 4 {
                3 => Kind::AddNodes,
                _ => kind,
            },
            at: match self.at % 3 {
                2 => self.at.rotate_left(3),
                _ => self.at,
            },
            group: self.group.rotate_left(3).wrapping_add(self.name),
            name: self.name.rotate_left(3),
            node: self.node.rotate_left(3),
            nodes: self.nodes.rotate_left(7),
        };
        let mut second = second.step(state)?;
        // Whoever is linked with a node already may lose that link to the other command; and the
        // node itself may become a member of a second group meanwhile.
        let near = state.linked(first.at);
        if let Some(other) = near.get(usize::from(self.name / 4) % near.len().max(1))
            && !first.nodes.is_empty()
        {
            first.nodes.push(*other);
            first.nodes.sort_unstable();
            first.nodes.dedup();
        }
        if second.at != first.at && self.name.is_multiple_of(2) && !second.nodes.is_empty() {
            second.nodes.push(first.at);
            second.nodes.sort_unstable();
            second.nodes.dedup();
        }
        if first.at == second.at || first.group != second.group {
            let after = u64::from(self.node / 6) % ALONG_MS_MAX;
            // Half of them at once.
            let after = if self.node.is_multiple_of(2) {
                0
            } else {
                after
            };
            first.along = Some((after, Box::new(second)));
        }
        Some(first)
    }
}
