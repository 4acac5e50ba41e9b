//! What the processes of a run tell each other, as bytes.
//!
//! Owns the messages and their encoding. Deliberately not here: what they mean to whom.

use group::{Body, NodeName, Pid};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::credit::Credit;
use crate::route::Layout;
use crate::stats::WorkerStats;
use crate::worker::{Batch, Conf};

pub(crate) const MASTER: &str = "orbit-master";
pub(crate) const TEAM: &str = "orbit-team";
pub(crate) const GATEWAY: &str = "orbit-gateway";
pub(crate) const WORKER: &str = "orbit-worker";

/// What is to be computed, and where.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// What, and how.
    pub conf: Conf,
    /// The nodes with workers. Those that cannot be reached at the beginning are left out.
    pub nodes: Vec<NodeName>,
    /// Workers of each node.
    pub workers_each: u32,
    /// Groups to cut the nodes into; 0 is all to all, without groups.
    pub groups: u32,
    /// Gateways of each group.
    pub gateways: u32,
    /// The first node of a group has its team and gateways, and no workers, if there is another.
    pub separate: bool,
}

/// What a team is spawned with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TeamArgs {
    pub(crate) job: Job,
    pub(crate) attempt: u32,
    pub(crate) number: u32,
    pub(crate) layout: Layout,
    /// The nodes of this team.
    pub(crate) nodes: Vec<NodeName>,
    /// Where its workers are to run, in order.
    pub(crate) places: Vec<NodeName>,
    pub(crate) master: Pid,
}

/// What a worker is spawned with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WorkerArgs {
    pub(crate) conf: Conf,
    pub(crate) layout: Layout,
    pub(crate) me: u32,
    pub(crate) team: Pid,
}

/// Whom a worker or gateway can reach.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Peers {
    /// The own group.
    pub(crate) group: u32,
    /// The number of the group's first worker.
    pub(crate) first: u32,
    /// The group's workers.
    pub(crate) workers: Vec<Pid>,
    /// Gateways by group; a worker knows those of its own group alone.
    pub(crate) gateways: Vec<Vec<Pid>>,
    /// For gateways: how workers are spread over groups.
    pub(crate) layout: Option<Layout>,
}

/// Messages to a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum ToWorker {
    Batch(Batch),
    Taken(u32),
    /// The team has the credit.
    Returned,
    /// Go on; from itself.
    Work,
    Finish,
}

/// Something on its way through gateways.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Relay {
    pub(crate) to: u32,
    pub(crate) msg: ToWorker,
}

/// Messages to a team.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum ToTeam {
    /// The gateways of all groups: get ready.
    Gateways(Vec<Vec<Pid>>),
    /// The first vertex, for one of its workers.
    First(Batch),
    Return(u32, Credit),
    /// The master has the credit.
    Returned,
    Finish,
    Result(Box<WorkerStats>),
}

/// Messages to the master.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum ToMaster {
    /// A team has all its processes; these are its gateways.
    Started(u32, Vec<Pid>),
    /// All its processes know whom to reach.
    Ready(u32),
    Return(u32, Credit),
    Results(u32, Vec<WorkerStats>),
}

/// The bytes of a message.
pub(crate) fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    // Invariant: every type here is plain data, which always has an encoding.
    postcard::to_stdvec(value).expect("plain data is encoded")
}

/// The message of some bytes; `None` if they are none.
pub(crate) fn decode<T: DeserializeOwned>(body: &Body) -> Option<T> {
    postcard::from_bytes(body).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_and_garbage_does_not() {
        let batch = Batch {
            from: Some(3),
            vertices: vec![0, 1, u32::MAX - 1],
            credit: 70,
        };
        let relay = Relay {
            to: 9,
            msg: ToWorker::Batch(batch),
        };
        let bytes = encode(&relay);
        assert_eq!(decode::<Relay>(&bytes.clone().into()), Some(relay));
        for cut in 0..bytes.len() {
            assert_eq!(decode::<Relay>(&bytes[..cut].to_vec().into()), None);
        }
        assert_eq!(decode::<ToTeam>(&vec![0xff; 40].into()), None);
    }
}
