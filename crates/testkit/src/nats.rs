//! The engine of a cluster: three `nats-server` processes with a folder and ports of their own,
//! syncing every write, ended by their process ids. Each engine has a name and a password of its
//! own: what an earlier world has left behind may know its ports, and is refused.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::roost::free_address;

/// As many as survive the loss of one.
const SERVERS: usize = 3;

/// Whom its clients log in as.
const USER: &str = "roost";

/// What is in lines of a server's log that say what went wrong.
const TROUBLES: [&str; 4] = ["[WRN]", "[ERR]", "[FTL]", "JetStream Shutdown"];

/// The servers of one engine.
pub struct Nats {
    folder: TempDir,
    binary: PathBuf,
    /// Of each: for clients, for the others, for monitoring.
    ports: Vec<[u16; 3]>,
    running: Vec<Option<Child>>,
}

/// The server that `make nats` builds, or the one that `NATS_SERVER` names.
fn binary() -> Result<PathBuf, String> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/nats/nats-server");
    let named = env::var_os("NATS_SERVER").map(PathBuf::from);
    let binary = named.unwrap_or(built);
    match binary.exists() {
        true => Ok(binary),
        false => Err(format!(
            "{} is missing: `make nats` builds it, which needs Go",
            binary.display()
        )),
    }
}

/// Ports that nobody listens on now, all different. The system gives none of them to connections
/// that go out, so that a process which is killed finds its own free when it starts again.
///
/// # Errors
/// There are none.
pub fn free_ports(count: usize) -> Result<Vec<u16>, String> {
    (0..count).map(|_| Ok(free_address()?.port())).collect()
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Nats {
    /// Starts them. They answer a moment later.
    ///
    /// # Errors
    /// There is no such binary, or it cannot be started.
    pub fn start() -> Result<Self, String> {
        let ports = free_ports(3 * SERVERS)?;
        let mut nats = Self {
            folder: tempfile::tempdir().map_err(text)?,
            binary: binary()?,
            ports: ports.chunks(3).map(|p| [p[0], p[1], p[2]]).collect(),
            running: (0..SERVERS).map(|_| None).collect(),
        };
        for server in 0..SERVERS {
            nats.run(server)?;
        }
        Ok(nats)
    }

    /// Starts one, with what it had.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn run(&mut self, server: usize) -> Result<(), String> {
        let [client, route, monitor] = self.ports[server];
        let routes = self.ports.iter();
        let (name, own) = (self.name(), Nats::server_name(server));
        let routes: Vec<String> = routes
            .map(|ports| format!("\"nats://127.0.0.1:{}\"", ports[1]))
            .collect();
        let folder = self.folder.path().join(server.to_string());
        let config = format!(
            "server_name: {own}\nlisten: 127.0.0.1:{client}\nhttp: 127.0.0.1:{monitor}\n\
             jetstream {{ store_dir: \"{}\"\n sync_interval: always\n }}\n\
             authorization {{ user: {USER}, password: \"{name}\" }}\n\
             cluster {{ name: \"{name}\"\n listen: 127.0.0.1:{route}\n routes: [{}] }}\n",
            folder.display(),
            routes.join(", ")
        );
        let file = self.folder.path().join(format!("{server}.conf"));
        fs::write(&file, config).map_err(text)?;
        let log = File::options()
            .append(true)
            .create(true)
            .open(self.log(server));
        let log = log.map_err(text)?;
        let child = Command::new(&self.binary)
            .arg("-c")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        self.running[server] = Some(child.map_err(text)?);
        Ok(())
    }

    fn log(&self, server: usize) -> PathBuf {
        self.folder.path().join(format!("{server}.log"))
    }

    /// The warnings and errors in a server's log, over all its starts.
    #[must_use]
    pub fn troubles(&self, server: usize) -> String {
        let log = fs::read_to_string(self.log(server)).unwrap_or_default();
        let is_trouble = |line: &&str| TROUBLES.iter().any(|kind| line.contains(kind));
        log.lines()
            .filter(is_trouble)
            .collect::<Vec<&str>>()
            .join("\n")
    }

    /// SIGKILL.
    ///
    /// # Errors
    /// It runs no more.
    pub fn kill(&mut self, server: usize) -> Result<(), String> {
        let mut child = self.running[server].take().ok_or("it does not run")?;
        child.kill().map_err(text)?;
        child.wait().map(drop).map_err(text)
    }

    /// Sends a signal to one that runs.
    ///
    /// # Errors
    /// It runs no more.
    pub fn signal(&self, server: usize, signal: Signal) -> Result<(), String> {
        let child = self.running[server].as_ref().ok_or("it does not run")?;
        kill_process(Pid::from_child(child), signal).map_err(text)
    }

    /// Where each is reached by clients.
    #[must_use]
    pub fn ports(&self) -> Vec<u16> {
        self.ports.iter().map(|ports| ports[0]).collect()
    }

    /// Addresses of the servers, with their password.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        let (name, ports) = (self.name(), self.ports.iter());
        ports
            .map(|p| format!("nats://{USER}:{name}@127.0.0.1:{}", p[0]))
            .collect()
    }

    /// The name of a server.
    #[must_use]
    pub fn server_name(server: usize) -> String {
        format!("n{server}")
    }

    /// The name of this engine, and its password.
    fn name(&self) -> String {
        let folder = self.folder.path().file_name().unwrap_or_default();
        let is_plain = |letter: &char| letter.is_ascii_alphanumeric();
        folder.to_string_lossy().chars().filter(is_plain).collect()
    }

    /// Their monitoring ports.
    #[must_use]
    pub fn monitors(&self) -> Vec<String> {
        let ports = self.ports.iter();
        ports
            .map(|p| format!("http://127.0.0.1:{}", p[2]))
            .collect()
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        for server in 0..SERVERS {
            // One that was killed already is what we want.
            let _ = self.kill(server);
        }
    }
}
