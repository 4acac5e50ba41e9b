//! A server that is watched from another process: through its control socket, anew for each
//! request. Owns the patience.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use server::watch::UserSample;
use watch::{Request, Response, Watched};

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

    fn connect(&self) -> Result<Client, watch::Failure> {
        let data = &self.data;
        let absent = || watch::Failure::Failed(format!("no server runs on {}", data.display()));
        let client = door::connect(data);
        let client = client.map_err(|failure| watch::Failure::Failed(failure.to_string()))?;
        client.ok_or_else(absent)
    }

    fn call<A: DeserializeOwned>(&self, request: &impl Serialize) -> Result<A, watch::Failure> {
        let answer = self.connect()?.call_within(request, PATIENCE);
        answer.map_err(|error| watch::Failure::TryAgain(error.to_string()))
    }
}

impl Watched for Remote {
    fn ask(&self, request: &Request) -> Result<Response, watch::Failure> {
        match self.call(request)? {
            Response::Error { message, .. } => Err(watch::Failure::Failed(message)),
            response => Ok(response),
        }
    }

    fn inspect(&self, jid: &str) -> Result<UserSample, watch::Failure> {
        let request = node::Request::UserInspect {
            jid: jid.to_owned(),
        };
        match self.call(&request)? {
            node::Response::User { user } => Ok(user),
            node::Response::Error { message, .. } => Err(watch::Failure::Failed(message)),
            _ => Err(watch::Failure::Failed(
                "the server's answer is of another version of Roost".to_owned(),
            )),
        }
    }
}
