//! A `roost` process with a data folder and ports of its own.
//!
//! The contract with the binary is what any operator has: configuration keys, commands, signals,
//! exit codes. Nothing here links the server.

use crate::client::Address;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a server may take to accept connections, and to stop. Generous, because the machine may
/// have much else to do.
const PATIENCE: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(10);
/// How long a command may take; then it is ended, and exits with 124.
const COMMAND_WITHIN: Duration = Duration::from_secs(300);

/// Ports of servers. The system takes none of these for outgoing connections (from 32,768 on by
/// default), so that a server which is killed finds its ports free when it starts again. Those
/// below are for the tests of `bench/`, which run beside.
const PORTS: Range<u16> = 18_000..32_768;

/// Sets of ports that are tried when a server is started for the first time.
const STARTS: usize = 3;

/// The next port that is tried, counted from a place that depends on the process.
static NEXT_PORT: AtomicU32 = AtomicU32::new(0);

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
    settings: Settings,
    environment: Vec<(OsString, OsString)>,
    child: Option<Child>,
    address: Address,
}

impl Roost {
    /// Makes a data folder with these accounts and starts a server on it.
    ///
    /// # Errors
    /// The binary cannot be built, an account cannot be made, or nothing listens in time.
    pub fn start(settings: &Settings, accounts: &[Account]) -> Result<Self, String> {
        let mut server = Self::prepare(settings, accounts)?;
        // Another process may take a port between the moment when it is found free and this one.
        let is_taken = |why: &String| why.contains("Address already in use");
        for _ in 0..STARTS {
            match server.spawn() {
                Err(why) if is_taken(&why) => server.address = free_addresses()?,
                done => return done.map(|()| server),
            }
            server.configure()?;
        }
        server.spawn()?;
        Ok(server)
    }

    /// Makes a data folder with these accounts, for [`Self::start_again`] or [`Self::copy`].
    ///
    /// # Errors
    /// The binary cannot be built, or an account cannot be made.
    pub fn prepare(settings: &Settings, accounts: &[Account]) -> Result<Self, String> {
        let server = Self::place(settings, binary()?)?;
        server.configure()?;
        server.add_accounts(accounts)?;
        Ok(server)
    }

    /// Another server with a copy of this one's data, which must not run, and other settings.
    ///
    /// # Errors
    /// The copy cannot be made.
    pub fn copy(&self, settings: &Settings) -> Result<Self, String> {
        let copy = Self::place(settings, self.binary.clone())?;
        copy_folder(&self.data(), &copy.data()).map_err(text)?;
        copy.configure()?;
        Ok(copy)
    }

    /// Whether the next starts play the version that comes after this one (docs/versions.md).
    pub fn play_next_version(&mut self, is_next: bool) {
        let name = OsString::from("ROOST_NEXT_VERSION");
        self.environment.retain(|(known, _)| *known != name);
        if is_next {
            self.environment.push((name, "1".into()));
        }
    }

    /// Sets variables of the environment for the next starts.
    pub fn set_environment(&mut self, environment: Vec<(OsString, OsString)>) {
        self.environment = environment;
    }

    /// Changes a setting for the next starts.
    pub fn set(&mut self, key: &str, value: &str) {
        self.settings.insert(key.to_owned(), value.to_owned());
    }

    /// Its data folder.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn place(settings: &Settings, binary: PathBuf) -> Result<Self, String> {
        let folder = tempfile::Builder::new()
            .prefix("roost-test-")
            .tempdir()
            .map_err(text)?;
        let data = folder.path().join("data");
        let mut all = Settings::from([
            ("domain".to_owned(), quoted("localhost")),
            ("data".to_owned(), quoted(&data.to_string_lossy())),
            ("c2s.require_tls".to_owned(), "false".to_owned()),
        ]);
        all.extend(settings.clone());
        Ok(Self {
            folder,
            binary,
            settings: all,
            environment: Vec::new(),
            child: None,
            address: free_addresses()?,
        })
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
        let config = self.config().to_string_lossy().into_owned();
        let place = ["--config", &config];
        self.run_plain(&[arguments, &place[..]].concat())
    }

    /// Runs a command of the binary that is about no server.
    ///
    /// # Errors
    /// It exits with a failure.
    pub fn run_plain(&self, arguments: &[&str]) -> Result<String, String> {
        self.run_in(&[], arguments)
    }

    fn run_in(
        &self,
        environment: &[(OsString, OsString)],
        arguments: &[&str],
    ) -> Result<String, String> {
        let output = Command::new("timeout")
            .arg(COMMAND_WITHIN.as_secs().to_string())
            .arg(&self.binary)
            .args(arguments)
            .envs(environment.iter().cloned())
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

    /// Runs a command against this server in the environment that it is started with.
    ///
    /// # Errors
    /// It exits with a failure.
    pub fn run_alike(&self, arguments: &[&str]) -> Result<String, String> {
        let config = self.config().to_string_lossy().into_owned();
        let place = ["--config", &config];
        self.run_in(&self.environment, &[arguments, &place[..]].concat())
    }

    /// Begins to run a command of the binary against this server; its output is kept for whoever
    /// waits for it.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn begin_to_run(&self, arguments: &[&str]) -> Result<Child, String> {
        Command::new(&self.binary)
            .args(arguments)
            .arg("--config")
            .arg(self.config())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(text)
    }

    /// Keys depend on the password and not on who has it: one account of each password is added,
    /// and the others are imported with its keys, all at once.
    pub(crate) fn add_accounts(&self, accounts: &[Account]) -> Result<(), String> {
        let mut passwords: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for account in accounts {
            passwords
                .entry(&account.password)
                .or_default()
                .push(&account.jid);
        }
        for (password, jids) in &passwords {
            self.run(&["user", "add", jids[0], "--password", password])?;
        }
        let lines = match accounts.len() > passwords.len() {
            true => self.run(&["export"])?,
            false => return Ok(()),
        };
        let mut copies = String::new();
        for jids in passwords.values() {
            let mark = format!("\"jid\":{}", quoted(jids[0]));
            let own = |line: &&str| line.contains("\"account\"") && line.contains(&mark);
            let line = lines
                .lines()
                .find(own)
                .ok_or("an account was not exported")?;
            for jid in jids.iter().skip(1) {
                let copy = line.replacen(&mark, &format!("\"jid\":{}", quoted(jid)), 1);
                let _ = writeln!(copies, "{copy}");
            }
        }
        let file = self.folder.path().join("accounts.jsonl");
        fs::write(&file, copies).map_err(text)?;
        self.run(&["import", "--quiet", &file.to_string_lossy()])?;
        Ok(())
    }

    /// Writes the configuration: with the ports that the server has, or else with any.
    fn configure(&self) -> Result<(), String> {
        let mut all = self.settings.clone();
        for (key, address) in [
            ("c2s.listen", self.address.plain),
            ("c2s.listen_tls", self.address.tls),
            ("http.listen", self.address.web),
            ("http.listen_tls", self.address.web_tls),
        ] {
            let listed = format!("[{}]", quoted(&address.to_string()));
            all.entry(key.to_owned()).or_insert(listed);
        }
        fs::write(self.config(), toml(&all)).map_err(text)
    }

    fn spawn(&mut self) -> Result<(), String> {
        let before = self.log().len();
        self.launch()?;
        self.address = self.wait_until_listening(before)?;
        Ok(())
    }

    fn launch(&mut self) -> Result<(), String> {
        if self.child.is_some() {
            self.kill()?; // It did not listen in time.
        }
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log_path())
            .map_err(text)?;
        let child = Command::new(&self.binary)
            .arg("serve")
            .arg("--config")
            .arg(self.config())
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(text)?)
            .stderr(log)
            .spawn()
            .map_err(|why| format!("cannot start {}: {why}", self.binary.display()))?;
        self.child = Some(child);
        Ok(())
    }

    /// Waits until the server says where it listens, in what it logs behind its first `before`
    /// bytes.
    fn wait_until_listening(&mut self, before: usize) -> Result<Address, String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let exited = match self.child.as_mut() {
                Some(child) => child.try_wait().map_err(text)?,
                None => None,
            };
            if let Some(address) = addresses(self.log().get(before..).unwrap_or_default()) {
                return Ok(address);
            }
            if exited.is_some() || Instant::now() > deadline {
                return Err(format!("no server; its log:\n{}", self.log_tail()));
            }
            thread::sleep(POLL);
        }
    }

    /// Sends SIGTERM and does not wait.
    ///
    /// # Errors
    /// It runs no more.
    pub fn begin_to_stop(&mut self) -> Result<(), String> {
        let child = self.child.as_ref().ok_or("the server does not run")?;
        kill_process(Pid::from_child(child), Signal::TERM).map_err(text)
    }

    /// Sends SIGHUP: it reads its configuration and certificates again.
    ///
    /// # Errors
    /// It runs no more.
    pub fn reload(&self) -> Result<(), String> {
        let child = self.child.as_ref().ok_or("the server does not run")?;
        kill_process(Pid::from_child(child), Signal::HUP).map_err(text)
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
        self.configure()?;
        self.spawn()
    }

    /// Starts it again on the same data, and does not wait until it listens.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn begin_to_start(&mut self) -> Result<(), String> {
        self.configure()?;
        self.launch()
    }

    /// Whether it has ended by itself since it was started, and how. Said once.
    ///
    /// # Errors
    /// The system does not know.
    pub fn has_ended(&mut self) -> Result<Option<ExitStatus>, String> {
        let Some(child) = self.child.as_mut() else {
            return Ok(None);
        };
        let status = child.try_wait().map_err(text)?;
        if status.is_some() {
            self.child = None;
        }
        Ok(status)
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// It runs no more.
    pub fn signal(&self, signal: Signal) -> Result<(), String> {
        let child = self.child.as_ref().ok_or("the server does not run")?;
        kill_process(Pid::from_child(child), signal).map_err(text)
    }

    /// The process id, for tests that measure it.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    fn no_panic(&self) -> Result<(), String> {
        match self.log().lines().find(|line| line.contains("panicked at")) {
            None => Ok(()),
            Some(line) => Err(format!("the server panicked: {line}")),
        }
    }

    /// Everything that it wrote, over all its lives.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("roost.log")
    }

    /// The last lines that the server wrote.
    #[must_use]
    pub fn log_tail(&self) -> String {
        let log = self.log();
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

/// Copies the files of a folder and of the folders in it.
fn copy_folder(source: &Path, target: &Path) -> std::io::Result<()> {
    fs::create_dir_all(target)?;
    for entry in fs::read_dir(source)? {
        let entry = entry?;
        let place = target.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_folder(&entry.path(), &place)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), place)?;
        }
    }
    Ok(())
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

/// Where a server may listen.
fn free_addresses() -> Result<Address, String> {
    Ok(Address {
        plain: free_address()?,
        tls: free_address()?,
        web: free_address()?,
        web_tls: free_address()?,
        also_web: None,
    })
}

/// An address of this machine that nobody listens at.
pub(crate) fn free_address() -> Result<SocketAddr, String> {
    let count = u32::from(PORTS.end - PORTS.start);
    let first = std::process::id().wrapping_mul(7_919);
    for _ in 0..count {
        let step = NEXT_PORT.fetch_add(1, Ordering::Relaxed);
        let port = PORTS.start + (first.wrapping_add(step) % count) as u16;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    Err(format!("no port of {PORTS:?} is free"))
}

/// The addresses in the lines that a server prints when it listens.
fn addresses(printed: &str) -> Option<Address> {
    let of = |kind: &str| {
        let mut lines = printed.lines().map(str::trim);
        lines.find_map(|line| line.strip_suffix(kind)?.trim_end().parse().ok())
    };
    Some(Address {
        plain: of("  STARTTLS")?,
        tls: of("  direct TLS")?,
        web: of("  HTTP")?,
        web_tls: of("  HTTPS")?,
        also_web: None,
    })
}

/// The binary under test: `ROOST_BIN` if set, else the one beside this test, freshly built.
fn binary() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("ROOST_BIN") {
        return Ok(path.into());
    }
    let test = std::env::current_exe().map_err(text)?;
    // Tests are in a folder `deps` beside the programs.
    let beside = test.parent().ok_or("the test has no target folder")?;
    let folder = match beside.parent() {
        Some(parent) if beside.ends_with("deps") => parent,
        _ => beside,
    };
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

    #[test]
    fn addresses_are_read_from_what_the_server_prints() {
        let first = "INFO listening address=127.0.0.1:9\nRoost serves localhost from x\n  \
            127.0.0.1:34473  STARTTLS\n  127.0.0.1:39";
        assert!(addresses(first).is_none());
        let rest = "279  direct TLS\n  127.0.0.1:5280  HTTP\n  127.0.0.1:5281  HTTP";
        assert!(addresses(&format!("{first}{rest}")).is_none());
        let address = addresses(&format!("{first}{rest}S\nStop it\n")).unwrap();
        let ports = [address.plain, address.tls, address.web, address.web_tls];
        let ports = ports.map(|address| address.port());
        assert_eq!(ports, [34473, 39279, 5280, 5281]);
    }
}
