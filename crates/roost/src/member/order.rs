//! What operators ask a node of a cluster as such, over the control socket: neither its server nor
//! who watches it answers these. Owns the words.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::DrainStatus;
use super::drain::Draining;
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
    /// It was not done.
    Error {
        /// A word for programs.
        code: String,
        /// A sentence for people.
        message: String,
    },
}

/// Carries a request out, on a node of a cluster.
pub(crate) fn call(draining: Option<&Draining>, request: &Request) -> Response {
    let Some(draining) = draining else {
        return Response::Error {
            code: "no_cluster".to_owned(),
            message: "this server is no node of a cluster: nobody could take over from it"
                .to_owned(),
        };
    };
    match request {
        Request::Drain { within_ms } => draining.begin(Duration::from_millis(*within_ms)),
        Request::DrainUndo => draining.undo(),
        Request::DrainStatus => {}
        Request::Home { address } => return home(draining, address),
    }
    let status = draining.status();
    Response::Drain { status }
}

fn home(draining: &Draining, address: &str) -> Response {
    match node::bare_address(address) {
        Some(bare) => Response::Home {
            node: draining.home_of(&bare),
        },
        None => Response::Error {
            code: "bad_address".to_owned(),
            message: format!("{address:?} is no address of an account, a room or a service"),
        },
    }
}
