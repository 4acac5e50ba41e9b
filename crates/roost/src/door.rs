//! The way to a server's data, whether it runs or not: through its control socket, or by a node of
//! our own without listeners. Owns the decision, and turns refusals into exit codes.

use std::path::Path;

use crate::config::Config;
use crate::control::{CallError, Client};
use crate::exit::Failure;
use crate::node::{self, Request, Response, Running};

/// Whether a command may begin a new store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// It makes accounts: the first one may come before the first start.
    Create,
    /// There is nothing that it could work on.
    Refuse,
}

/// Where requests go.
pub(crate) enum Door {
    /// To a running server.
    Running(Box<Client>),
    /// To a node of our own on the data of a stopped one.
    Stopped(Box<Running>),
}

impl Door {
    /// Opens the door to the data of a configuration.
    ///
    /// # Errors
    /// There is no data, or somebody else has it.
    pub(crate) fn open(config: &Config, absent: Absent) -> Result<Door, Failure> {
        let data = &config.settings.node.data;
        match connect(data)? {
            Some(client) => Ok(Door::Running(Box::new(client))),
            None => {
                if absent == Absent::Refuse {
                    require_store(data)?;
                }
                Ok(Door::Stopped(Box::new(Running::start_stopped(config)?)))
            }
        }
    }

    /// Carries a request out.
    ///
    /// # Errors
    /// It was refused or failed, or there was no answer.
    pub(crate) fn call(&mut self, request: Request) -> Result<Response, Failure> {
        match self.try_call(request)? {
            Response::Error { code, message } => Err(refused(&code, message)),
            response => Ok(response),
        }
    }

    /// Carries a request out, and gives refusals as they are.
    ///
    /// # Errors
    /// There was no answer.
    pub(crate) fn try_call(&mut self, request: Request) -> Result<Response, Failure> {
        match self {
            Door::Running(client) => client.call(&request).map_err(|error| match error {
                CallError::TooLong(_) => Failure::Failed(error.to_string()),
                CallError::NoAnswer(_) => Failure::TryAgain(error.to_string()),
            }),
            Door::Stopped(running) => Ok(running.call(request)),
        }
    }
}

/// Connects to the server that runs on the data folder, if one does.
///
/// # Errors
/// There is one, but it is not ours to talk to.
pub(crate) fn connect(data: &Path) -> Result<Option<Client>, Failure> {
    Client::connect(data).map_err(|error| {
        let advice = "run the command as the user of the server or as root";
        Failure::Failed(format!("{}: {error}: {advice}", data.display()))
    })
}

/// Refuses a data folder without a store, which is most often a wrong path.
///
/// # Errors
/// There is none.
pub(crate) fn require_store(data: &Path) -> Result<(), Failure> {
    if node::store_folder(data).is_dir() {
        return Ok(());
    }
    let message = format!(
        "there is no data in {}: name the folder with --data",
        data.display()
    );
    Err(Failure::Failed(message))
}

/// The exit code of a refusal.
pub(crate) fn refused(code: &str, message: String) -> Failure {
    match code {
        "busy" | "no_answer" | "timeout" => Failure::TryAgain(message),
        "bad_line" => Failure::Data(message),
        _ => Failure::Failed(message),
    }
}
