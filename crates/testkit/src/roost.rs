//! A `roost` process with a data folder and ports of its own.
//!
//! The contract with the binary is what any operator has: configuration keys, commands, signals,
//! exit codes. Nothing here links the server.

use crate::client::Address;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a server may take to accept connections, and to stop.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(10);

/// One account to exist from the start.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Account {
    /// Bare address.
    pub jid: String,
    /// Its password.
    pub password: String,
}

/// Configuration as `section.key` (or `key`) to a TOML value.
pub type Settings = BTreeMap<String, String>;

/// A running server.
pub struct Roost {
    folder: TempDir,
    binary: PathBuf,
    child: Option<Child>,
    address: Address,
}

impl Roost {
    /// Makes a data folder with these accounts and starts a server on it.
    ///
    /// # Errors
    /// The binary cannot be built, an account cannot be made, or nothing listens in time.
    pub fn start(settings: &Settings, accounts: &[Account]) -> Result<Self, String> {
        let binary = binary()?;
        let folder = tempfile::Builder::new()
            .prefix("roost-test-")
            .tempdir()
            .map_err(text)?;
        let address = Address {
            plain: free_port()?,
            tls: free_port()?,
        };
        let mut all = Settings::from([
            ("domain".to_owned(), quoted("localhost")),
            (
                "data".to_owned(),
                quoted(&folder.path().join("data").to_string_lossy()),
            ),
            (
                "c2s.listen".to_owned(),
                format!("[{}]", quoted(&address.plain.to_string())),
            ),
            (
                "c2s.listen_tls".to_owned(),
                format!("[{}]", quoted(&address.tls.to_string())),
            ),
            ("c2s.require_tls".to_owned(), "false".to_owned()),
        ]);
        all.extend(settings.clone());
        fs::write(folder.path().join("roost.toml"), toml(&all)).map_err(text)?;
        let mut server = Self {
            folder,
            binary,
            child: None,
            address,
        };
        server.add_accounts(accounts)?;
        server.spawn()?;
        Ok(server)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> Address {
        self.address
    }

    /// The configuration file.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.folder.path().join("roost.toml")
    }

    /// Runs a command of the binary against this server and gives what it printed.
    ///
    /// # Errors
    /// It exits with a failure.
    pub fn run(&self, arguments: &[&str]) -> Result<String, String> {
        let output = Command::new(&self.binary)
            .args(arguments)
            .arg("--config")
            .arg(self.config())
            .stdin(Stdio::null())
            .output()
            .map_err(text)?;
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(stdout);
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        Err(format!(
            "roost {arguments:?} failed ({}): {stdout}{stderr}",
            output.status
        ))
    }

    fn add_accounts(&self, accounts: &[Account]) -> Result<(), String> {
        for account in accounts {
            self.run(&["user", "add", &account.jid, "--password", &account.password])?;
        }
        Ok(())
    }

    fn spawn(&mut self) -> Result<(), String> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log_path())
            .map_err(text)?;
        let child = Command::new(&self.binary)
            .arg("serve")
            .arg("--config")
            .arg(self.config())
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(text)?)
            .stderr(log)
            .spawn()
            .map_err(|why| format!("cannot start {}: {why}", self.binary.display()))?;
        self.child = Some(child);
        self.wait_until_listening()
    }

    fn wait_until_listening(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        for port in [self.address.plain, self.address.tls] {
            while TcpStream::connect_timeout(&port, PATIENCE).is_err() {
                let exited = match self.child.as_mut() {
                    Some(child) => child.try_wait().map_err(text)?,
                    None => None,
                };
                if exited.is_some() || Instant::now() > deadline {
                    return Err(format!(
                        "no server on {port}; its log:\n{}",
                        self.log_tail()
                    ));
                }
                thread::sleep(POLL);
            }
        }
        Ok(())
    }

    /// Sends SIGTERM and does not wait.
    ///
    /// # Errors
    /// It runs no more.
    pub fn begin_to_stop(&mut self) -> Result<(), String> {
        let child = self.child.as_ref().ok_or("the server does not run")?;
        kill_process(Pid::from_child(child), Signal::TERM).map_err(text)
    }

    /// Stops the server with SIGTERM.
    ///
    /// # Errors
    /// It does not exit with success in time, or it wrote of a panic while it ran.
    pub fn stop(&mut self) -> Result<(), String> {
        let Some(mut child) = self.child.take() else {
            return Ok(());
        };
        // A process that has exited but was not waited for still takes signals.
        kill_process(Pid::from_child(&child), Signal::TERM).map_err(text)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            match child.try_wait().map_err(text)? {
                Some(status) if status.success() => return self.no_panic(),
                Some(status) => {
                    return Err(format!(
                        "the server ended with {status}:\n{}",
                        self.log_tail()
                    ));
                }
                None if Instant::now() > deadline => {
                    child.kill().map_err(text)?;
                    child.wait().map_err(text)?;
                    return Err(format!("the server does not stop:\n{}", self.log_tail()));
                }
                None => thread::sleep(POLL),
            }
        }
    }

    /// Ends the server without warning.
    ///
    /// # Errors
    /// It runs no more.
    pub fn kill(&mut self) -> Result<(), String> {
        let mut child = self.child.take().ok_or("the server does not run")?;
        child.kill().map_err(text)?;
        child.wait().map_err(text)?;
        Ok(())
    }

    /// Starts it again on the same data and ports.
    ///
    /// # Errors
    /// Nothing listens in time.
    pub fn start_again(&mut self) -> Result<(), String> {
        self.spawn()
    }

    /// The process id, for tests that measure it.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    fn no_panic(&self) -> Result<(), String> {
        let log = fs::read_to_string(self.log_path()).map_err(text)?;
        match log.lines().find(|line| line.contains("panicked at")) {
            None => Ok(()),
            Some(line) => Err(format!("the server panicked: {line}")),
        }
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("roost.log")
    }

    /// The last lines that the server wrote.
    #[must_use]
    pub fn log_tail(&self) -> String {
        let log = fs::read_to_string(self.log_path()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }
}

impl Drop for Roost {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Nobody is left to tell; a child that is gone already is what we want.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A TOML basic string.
fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Settings as a TOML file: plain keys first, then one table per section.
fn toml(settings: &Settings) -> String {
    let mut out = String::new();
    let mut section = "";
    let (plain, nested): (Vec<_>, Vec<_>) =
        settings.iter().partition(|(key, _)| !key.contains('.'));
    for (key, value) in plain.into_iter().chain(nested) {
        let (table, name) = key.rsplit_once('.').unwrap_or(("", key));
        if table != section {
            let _ = writeln!(out, "\n[{table}]");
            section = table;
        }
        let _ = writeln!(out, "{name} = {value}");
    }
    out
}

/// A port that nobody uses now. Another process could take it before the server does; the server
/// then fails to start and says so.
fn free_port() -> Result<SocketAddr, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(text)?;
    listener.local_addr().map_err(text)
}

/// The binary under test: `ROOST_BIN` if set, else the one beside this test, freshly built.
fn binary() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("ROOST_BIN") {
        return Ok(path.into());
    }
    let test = std::env::current_exe().map_err(text)?;
    let folder = test
        .parent()
        .and_then(Path::parent)
        .ok_or("the test has no target folder")?;
    let profile = folder
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or("debug");
    let profile = if profile == "debug" { "dev" } else { profile };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args([
            "build",
            "--quiet",
            "--package",
            "roost",
            "--profile",
            profile,
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .map_err(text)?;
    if !status.success() {
        return Err("roost does not build".to_owned());
    }
    Ok(folder.join("roost"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_become_one_table_per_section() {
        let settings = Settings::from([
            ("domain".to_owned(), quoted("a\"b")),
            ("c2s.require_tls".to_owned(), "false".to_owned()),
            ("c2s.listen".to_owned(), "[]".to_owned()),
        ]);
        let expected = "domain = \"a\\\"b\"\n\n[c2s]\nlisten = []\nrequire_tls = false\n";
        assert_eq!(toml(&settings), expected);
    }
}
