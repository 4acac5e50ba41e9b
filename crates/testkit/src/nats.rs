//! The engine of a cluster: three `nats-server` processes with a folder and ports of their own,
//! syncing every write, ended by their process ids.

use std::env;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// As many as survive the loss of one.
const SERVERS: usize = 3;

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

/// Ports that nobody listens on now. All are held until the last is known, so that they differ.
///
/// # Errors
/// The system has none to give.
pub fn free_ports(count: usize) -> Result<Vec<u16>, String> {
    let held: Result<Vec<TcpListener>, _> = (0..count)
        .map(|_| TcpListener::bind("127.0.0.1:0"))
        .collect();
    let held = held.map_err(text)?;
    let ports = held.iter().map(|one| one.local_addr());
    let ports: Result<Vec<_>, _> = ports.collect();
    Ok(ports.map_err(text)?.iter().map(|a| a.port()).collect())
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
        let routes: Vec<String> = routes
            .map(|ports| format!("\"nats://127.0.0.1:{}\"", ports[1]))
            .collect();
        let folder = self.folder.path().join(server.to_string());
        let config = format!(
            "server_name: n{server}\nlisten: 127.0.0.1:{client}\nhttp: 127.0.0.1:{monitor}\n\
             jetstream {{ store_dir: \"{}\"\n sync_interval: always\n }}\n\
             cluster {{ name: test\n listen: 127.0.0.1:{route}\n routes: [{}] }}\n",
            folder.display(),
            routes.join(", ")
        );
        let file = self.folder.path().join(format!("{server}.conf"));
        fs::write(&file, config).map_err(text)?;
        let log = self.folder.path().join(format!("{server}.log"));
        let child = Command::new(&self.binary)
            .arg("-c")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(log).map_err(text)?)
            .spawn();
        self.running[server] = Some(child.map_err(text)?);
        Ok(())
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

    /// Addresses of the servers.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        let ports = self.ports.iter();
        ports
            .map(|p| format!("nats://127.0.0.1:{}", p[0]))
            .collect()
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
