//! The process looking at itself. Owns putting a look together for whoever asks, and the thread
//! that watches over the alarms.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use server::admin::Admin;

use super::alarms::{Alarms, Change, Kind, NotAcknowledged};
use super::cluster::ClusterSample;
use super::look::Look;
use super::process::ProcessReader;
use super::request::{Request, Response};

/// How often the alarms are looked at.
const ALARMS_INTERVAL: Duration = Duration::from_secs(1);

/// Gives the figures of the cluster that a node belongs to; nothing once the node has ended.
pub type Cluster = Box<dyn Fn() -> Option<ClusterSample> + Send + Sync>;

/// Sees everything; shared by the threads that tell about it.
pub struct Observer {
    admin: Admin,
    reader: ProcessReader,
    alarms: Mutex<Alarms>,
    cluster: Option<Cluster>,
}

impl Observer {
    /// Of a node, with its data folder and the bytes that its store keeps free there; and its
    /// cluster, if it belongs to one.
    pub fn new(
        admin: Admin,
        data: &Path,
        reserve_bytes: u64,
        cluster: Option<Cluster>,
    ) -> Observer {
        Observer {
            admin,
            cluster,
            reader: ProcessReader::new(data),
            alarms: Mutex::new(Alarms::new(reserve_bytes)),
        }
    }

    /// How it is now.
    pub fn look(&self) -> Look {
        Look {
            sample: self.admin.sample(),
            process: self.reader.read(),
            cluster: self.cluster.as_ref().and_then(|cluster| cluster()),
            alarms: self.alarms().raised(),
        }
    }

    /// Answers somebody who watches.
    pub fn call(&self, request: Request) -> Response {
        match request {
            Request::Look => Response::Look {
                look: Box::new(self.look()),
            },
            Request::Alarms => Response::Alarms {
                alarms: self.alarms().raised(),
            },
            Request::AlarmAck { name } => match self.alarms().acknowledge(&name) {
                Ok(()) => {
                    tracing::info!(alarm = name, "alarm acknowledged");
                    Response::Ok
                }
                Err(why) => not_acknowledged(&name, why),
            },
        }
    }

    /// Watches over the alarms until the process ends.
    ///
    /// # Errors
    /// There is no thread for it.
    pub fn watch(self: &Arc<Observer>) -> io::Result<()> {
        let observer = Arc::clone(self);
        let watch = move || {
            loop {
                observer.check();
                thread::sleep(ALARMS_INTERVAL);
            }
        };
        thread::Builder::new()
            .name("alarms".to_owned())
            .spawn(watch)?;
        Ok(())
    }

    /// Looks once, and logs what changed.
    fn check(&self) {
        let look = self.look();
        for change in self.alarms().observe(&look) {
            match change {
                Change::Raised(kind, message) => {
                    tracing::warn!(alarm = kind.name(), "alarm raised: {message}");
                }
                Change::Cleared(kind) => {
                    tracing::info!(alarm = kind.name(), "alarm cleared");
                }
            }
        }
    }

    fn alarms(&self) -> MutexGuard<'_, Alarms> {
        self.alarms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn not_acknowledged(name: &str, why: NotAcknowledged) -> Response {
    let (code, message) = match why {
        NotAcknowledged::NotRaised => ("not_raised", format!("the alarm {name} is not raised")),
        NotAcknowledged::Unknown => {
            let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
            let names = names.join(", ");
            (
                "no_such_alarm",
                format!("there is no alarm {name:?}: there are {names}"),
            )
        }
    };
    Response::Error {
        code: code.to_owned(),
        message,
    }
}
