//! What watchers ask over the control socket. Owns the words; they are those of the control
//! socket's other requests, but the process answers these, not its node.

use serde::{Deserialize, Serialize};

use super::alarms::Alarm;
use super::look::Look;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "request", deny_unknown_fields)]
pub enum Request {
    /// Everything at this moment.
    Look,
    /// The alarms that are raised.
    Alarms,
    /// Somebody takes care of an alarm.
    AlarmAck {
        /// Its name.
        name: String,
    },
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "response")]
pub enum Response {
    /// Done.
    Ok,
    /// Everything.
    Look {
        /// The figures.
        look: Box<Look>,
    },
    /// Alarms.
    Alarms {
        /// Those that are raised.
        alarms: Vec<Alarm>,
    },
    /// It was not done.
    Error {
        /// A word for programs.
        code: String,
        /// A sentence for people.
        message: String,
    },
}
