//! What operators ask a node of a cluster as such, over the control socket: neither its server nor
//! who watches it answers these. Owns the words.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::drain::Draining;
use super::{DrainStatus, Orders, SnapshotStatus};
use crate::node;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "request", deny_unknown_fields)]
pub(crate) enum Request {
    /// Homes go to other nodes, and clients are asked to go within this time.
    Drain {
        /// In milliseconds.
        within_ms: u64,
    },
    /// Neither any more.
    DrainUndo,
    /// How far it is.
    DrainStatus,
    /// Which node is the home of an account, a room or a service.
    Home {
        /// Its address.
        address: String,
    },
    /// Store a snapshot of a stream, or of each.
    Snapshot {
        /// Its number.
        stream: Option<u16>,
    },
    /// How far that is.
    SnapshotStatus,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "response")]
pub(crate) enum Response {
    /// How a drain stands.
    Drain {
        /// The figures.
        status: DrainStatus,
    },
    /// Where something is at home.
    Home {
        /// The node; none for now without.
        node: Option<String>,
    },
    /// What became of snapshots that were asked for.
    Snapshots {
        /// Which.
        status: SnapshotStatus,
    },
    /// It was not done.
    Error {
        /// A word for programs.
        code: String,
        /// A sentence for people.
        message: String,
    },
}

fn refusal(code: &str, message: String) -> Response {
    Response::Error {
        code: code.to_owned(),
        message,
    }
}

/// Carries a request out, on a node of a cluster.
pub(crate) fn call(orders: Option<&Orders>, request: &Request) -> Response {
    let Some(Orders {
        draining,
        snapshots,
    }) = orders
    else {
        let why = match request {
            Request::Snapshot { .. } | Request::SnapshotStatus => {
                "its data is in its folder alone, and roost backup copies it"
            }
            _ => "nobody could take over from it",
        };
        let message = format!("this server is no node of a cluster: {why}");
        return refusal("no_cluster", message);
    };
    match request {
        Request::Drain { within_ms } => draining.begin(Duration::from_millis(*within_ms)),
        Request::DrainUndo => draining.undo(),
        Request::DrainStatus => {}
        Request::Home { address } => return home(draining, address),
        Request::Snapshot { stream } => {
            if let Err((code, why)) = snapshots.order(*stream) {
                return refusal(code, why);
            }
            return Response::Snapshots {
                status: snapshots.status(),
            };
        }
        Request::SnapshotStatus => {
            return Response::Snapshots {
                status: snapshots.status(),
            };
        }
    }
    let status = draining.status();
    Response::Drain { status }
}

fn home(draining: &Draining, address: &str) -> Response {
    match node::bare_address(address) {
        Some(bare) => Response::Home {
            node: draining.home_of(&bare),
        },
        None => refusal(
            "bad_address",
            format!("{address:?} is no address of an account, a room or a service"),
        ),
    }
}
