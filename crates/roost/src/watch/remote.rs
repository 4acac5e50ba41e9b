//! The server as a watcher sees it from another process: through its control socket, anew for each
//! request, so that a server that was started again meanwhile is the same to it. Owns the patience.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::alarms::Alarm;
use super::look::Look;
use super::request::{Request, Response};
use crate::control::Client;
use crate::door;
use crate::exit::Failure;
use crate::node;

/// How long a server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A server that may be there or not.
pub(crate) struct Remote {
    data: PathBuf,
}

impl Remote {
    /// The server of a data folder, which has to run now.
    ///
    /// # Errors
    /// It does not, or it is not ours to talk to.
    pub(crate) fn open(data: &Path) -> Result<Remote, Failure> {
        let remote = Remote {
            data: data.to_owned(),
        };
        remote.connect()?;
        Ok(remote)
    }

    /// Everything at this moment.
    ///
    /// # Errors
    /// There is no answer.
    pub(crate) fn look(&self) -> Result<Look, Failure> {
        match self.call(&Request::Look)? {
            Response::Look { look } => Ok(*look),
            _ => Err(unexpected()),
        }
    }

    /// The alarms that are raised.
    ///
    /// # Errors
    /// There is no answer.
    pub(crate) fn alarms(&self) -> Result<Vec<Alarm>, Failure> {
        match self.call(&Request::Alarms)? {
            Response::Alarms { alarms } => Ok(alarms),
            _ => Err(unexpected()),
        }
    }

    /// Notes that somebody takes care of an alarm.
    ///
    /// # Errors
    /// It is not raised, or there is no answer.
    pub(crate) fn acknowledge(&self, name: &str) -> Result<(), Failure> {
        let name = name.to_owned();
        self.call(&Request::AlarmAck { name }).map(drop)
    }

    /// One account, looked into.
    ///
    /// # Errors
    /// There is no such account, or no answer.
    pub(crate) fn inspect(&self, jid: &str) -> Result<server::watch::UserSample, Failure> {
        let request = node::Request::UserInspect {
            jid: jid.to_owned(),
        };
        let answer = self.connect()?.call_within(&request, PATIENCE);
        match answer.map_err(|error| Failure::TryAgain(error.to_string()))? {
            node::Response::User { user } => Ok(user),
            node::Response::Error { message, .. } => Err(Failure::Failed(message)),
            _ => Err(unexpected()),
        }
    }

    fn call(&self, request: &Request) -> Result<Response, Failure> {
        let answer = self.connect()?.call_within(request, PATIENCE);
        match answer.map_err(|error| Failure::TryAgain(error.to_string()))? {
            Response::Error { message, .. } => Err(Failure::Failed(message)),
            response => Ok(response),
        }
    }

    fn connect(&self) -> Result<Client, Failure> {
        let data = &self.data;
        let absent = || Failure::Failed(format!("no server runs on {}", data.display()));
        door::connect(data)?.ok_or_else(absent)
    }
}

fn unexpected() -> Failure {
    Failure::Failed("the server's answer is of another version of Roost".to_owned())
}
