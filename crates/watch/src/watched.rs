//! The server as a watcher in another process sees it. Owns what can be asked of it; how it is
//! reached is the caller's.

use server::watch::UserSample;

use super::alarms::Alarm;
use super::failure::Failure;
use super::look::Look;
use super::request::{Request, Response};

/// A server that may be there or not.
pub trait Watched {
    /// Asks it, anew for each request, so that a server that was started again meanwhile is the
    /// same.
    ///
    /// # Errors
    /// There is no answer, or it is an error.
    fn ask(&self, request: &Request) -> Result<Response, Failure>;

    /// One account, looked into.
    ///
    /// # Errors
    /// There is no such account, or no answer.
    fn inspect(&self, jid: &str) -> Result<UserSample, Failure>;

    /// Everything at this moment.
    ///
    /// # Errors
    /// There is no answer.
    fn look(&self) -> Result<Look, Failure> {
        match self.ask(&Request::Look)? {
            Response::Look { look } => Ok(*look),
            _ => Err(unexpected()),
        }
    }

    /// The alarms that are raised.
    ///
    /// # Errors
    /// There is no answer.
    fn alarms(&self) -> Result<Vec<Alarm>, Failure> {
        match self.ask(&Request::Alarms)? {
            Response::Alarms { alarms } => Ok(alarms),
            _ => Err(unexpected()),
        }
    }

    /// Notes that somebody takes care of an alarm.
    ///
    /// # Errors
    /// It is not raised, or there is no answer.
    fn acknowledge(&self, name: &str) -> Result<(), Failure> {
        let name = name.to_owned();
        self.ask(&Request::AlarmAck { name }).map(drop)
    }
}

fn unexpected() -> Failure {
    Failure::Failed("the server's answer is of another version of Roost".to_owned())
}
