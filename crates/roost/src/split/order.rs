//! What operators ask of a server as two processes, over the control socket. Owns the words.

use serde::{Deserialize, Serialize};

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "request", deny_unknown_fields)]
pub(crate) enum Request {
    /// Have another program be the home.
    Upgrade {
        /// Its path.
        binary: String,
        /// Although the one before could not read the store any more.
        one_way: bool,
        /// Milliseconds for it to serve; then it is undone.
        within_ms: u64,
    },
    /// The figures of this process, for Prometheus.
    Figures,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "response")]
pub(crate) enum Response {
    /// What became of an upgrade.
    Upgraded {
        /// That.
        outcome: Outcome,
    },
    /// Figures.
    Figures {
        /// A page.
        page: String,
    },
    /// It was not done.
    Error {
        /// A word for programs.
        code: String,
        /// A sentence for people.
        message: String,
    },
}

/// What became of an upgrade.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// The version that served before.
    pub(crate) from: String,
    /// The version that serves now.
    pub(crate) to: String,
    /// Why it was undone, or never begun, if so.
    pub(crate) failed: Option<String>,
    /// Nothing changed for anybody: it was never begun.
    pub(crate) is_untouched: bool,
    /// Milliseconds for which there was no home.
    pub(crate) without_home_ms: u64,
    /// Connections that are there.
    pub(crate) connections: u64,
}

/// The answer of a server that is no edge.
pub(crate) fn refusal() -> Response {
    Response::Error {
        code: "not_split".to_owned(),
        message: "this server is one process: with server.split = true, and a restart, it can be \
                  upgraded while it runs"
            .to_owned(),
    }
}
