//! A folder with a configuration, and the server on it. Owns the process: it is killed when the
//! test ends, however it ends.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// How long anything may take that the server was asked for. Nobody waits as long if all is well.
const PATIENCE: Duration = Duration::from_secs(20);

/// Lines that may wait between the process and the test.
const LINES_MAX: usize = 100_000;

/// A folder with a configuration file and room for data.
pub(crate) struct Place {
    folder: TempDir,
    binary: PathBuf,
    settings: BTreeMap<String, String>,
}

impl Place {
    /// A place whose server takes clients in plain on free ports.
    pub(crate) fn new() -> Place {
        Place::of(env!("CARGO_BIN_EXE_roost"))
    }

    /// The same for another build of the program.
    pub(crate) fn of(binary: impl Into<PathBuf>) -> Place {
        let folder = tempfile::Builder::new()
            .prefix("roost-binary-")
            .tempdir()
            .expect("a folder");
        let mut place = Place {
            settings: BTreeMap::new(),
            binary: binary.into(),
            folder,
        };
        let data = format!("{:?}", place.data());
        for (key, value) in [
            ("domain", "\"localhost\""),
            ("data", &data),
            ("c2s.listen", "[\"127.0.0.1:0\"]"),
            ("c2s.listen_tls", "[\"127.0.0.1:0\"]"),
            ("c2s.require_tls", "false"),
            ("auth.plain_without_tls", "true"),
            ("auth.scram_iterations", "4096"),
            ("http.listen", "[\"127.0.0.1:0\"]"),
            ("http.listen_tls", "[\"127.0.0.1:0\"]"),
            ("server.drain_timeout", "\"5s\""),
        ] {
            place.settings.insert(key.into(), value.into());
        }
        place.write();
        place
    }

    /// Sets a key to a TOML value.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> &mut Place {
        self.settings.insert(key.into(), value.into());
        self.write();
        self
    }

    /// Leaves a key to its default.
    pub(crate) fn unset(&mut self, key: &str) {
        self.settings.remove(key);
        self.write();
    }

    fn write(&self) {
        let mut text = String::new();
        let (plain, nested): (Vec<_>, Vec<_>) = self
            .settings
            .iter()
            .partition(|(key, _)| !key.contains('.'));
        let mut section = "";
        for (key, value) in plain.into_iter().chain(nested) {
            let (table, name) = key.split_once('.').unwrap_or(("", key));
            if table != section {
                let _ = writeln!(text, "[{table}]");
                section = table;
            }
            let _ = writeln!(text, "{name} = {value}");
        }
        fs::write(self.config(), text).expect("configuration");
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The configuration file.
    pub(crate) fn config(&self) -> PathBuf {
        self.path("roost.toml")
    }

    /// The data folder.
    pub(crate) fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// A command on this place.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(arguments).env_remove("NOTIFY_SOCKET");
        command.arg("--config").arg(self.config());
        command
    }

    /// Runs a command on this place, with something on its standard input.
    pub(crate) fn run_with(&self, arguments: &[&str], input: &str) -> Outcome {
        run(self.command(arguments), input)
    }

    /// Runs a command on this place.
    pub(crate) fn run(&self, arguments: &[&str]) -> Outcome {
        self.run_with(arguments, "")
    }

    /// Runs a command that must do what it is asked for. Returns what it printed.
    pub(crate) fn must(&self, arguments: &[&str]) -> String {
        let outcome = self.run(arguments);
        assert_eq!(outcome.code, 0, "{arguments:?}: {}", outcome.err);
        outcome.out
    }

    /// Makes accounts with the password `secret`.
    pub(crate) fn add(&self, users: &[&str]) {
        for user in users {
            let jid = format!("{user}@localhost");
            self.must(&["user", "add", &jid, "--password", "secret"]);
        }
    }

    /// The command of a server here, not started.
    pub(crate) fn server(&self) -> Command {
        let mut command = self.command(&["serve"]);
        command.stdout(Stdio::piped());
        command
    }

    /// Runs a server that does not start.
    pub(crate) fn serve_in_vain(&self) -> Outcome {
        run(self.server(), "")
    }

    /// Starts a server and waits until it takes clients.
    pub(crate) fn serve(&self) -> Server {
        Server::start(self.server())
    }
}

/// The binary with arguments.
pub(crate) fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roost"));
    command.args(arguments).env_remove("NOTIFY_SOCKET");
    command
}

/// What a process left behind.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs a process to its end, without a terminal.
pub(crate) fn run(mut command: Command, input: &str) -> Outcome {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program");
    let mut stdin = child.stdin.take().expect("its input");
    // A process that does not want its input may be gone already.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let Output {
        status,
        stdout,
        stderr,
    } = child.wait_with_output().expect("its end");
    Outcome {
        code: status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&stdout).into_owned(),
        err: String::from_utf8_lossy(&stderr).into_owned(),
    }
}

/// A server that has started.
pub(crate) struct Server {
    child: Child,
    lines: Receiver<String>,
    log: String,
    /// STARTTLS, or plain.
    pub(crate) plain: SocketAddr,
    /// TLS from the first byte.
    pub(crate) tls: SocketAddr,
    /// Health checks; port 0 without any.
    pub(crate) http: SocketAddr,
}

impl Server {
    /// Runs a server's command until it says that it listens.
    pub(crate) fn start(mut command: Command) -> Server {
        let mut child = command
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server");
        let (sender, lines) = sync_channel(LINES_MAX);
        let error = child.stderr.take().expect("its log");
        thread::spawn(move || {
            for line in BufReader::new(error).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let none = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut server = Server {
            child,
            lines,
            log: String::new(),
            plain: none,
            tls: none,
            http: none,
        };
        let http = server.wait_for("health checks");
        if http.contains("listening") {
            server.http = address(&http);
        }
        let plain = server.wait_for("listening for clients");
        server.plain = address(&plain);
        server.tls = address(&server.wait_for("direct TLS"));
        server.wait_for(": ready");
        server
    }

    /// Waits for a line of the log that was not waited past yet.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("no line with {text:?} in the log:\n{}", self.log);
            };
            let _ = writeln!(self.log, "{line}");
            if line.contains(text) {
                return line;
            }
        }
    }

    /// What it has said to people at its start.
    pub(crate) fn said(&mut self) -> String {
        let output = self.child.stdout.take().expect("its output");
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        let mut said = String::new();
        for line in lines {
            let _ = writeln!(said, "{line}");
            if line.starts_with("Stop it") {
                break;
            }
        }
        said
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a signal");
    }

    /// Reloads the configuration. Returns the lines of the log about it.
    pub(crate) fn reload(&mut self) -> String {
        let before = self.log.len();
        self.signal(Signal::HUP);
        self.wait_for("reloaded");
        self.log[before..].to_owned()
    }

    /// Waits for the end. Returns the exit code and the whole log.
    pub(crate) fn end(mut self) -> (i32, String) {
        // The log ends with the process.
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            let _ = writeln!(self.log, "{line}");
        }
        let status = self.child.wait().expect("its end");
        (status.code().unwrap_or(-1), std::mem::take(&mut self.log))
    }

    /// Stops it in order, and checks that it was. Returns the whole log.
    pub(crate) fn stop(self) -> String {
        self.signal(Signal::TERM);
        let (code, log) = self.end();
        assert_eq!(code, 0, "{log}");
        assert!(!log.contains("panicked"), "{log}");
        log
    }

    /// Ends it without warning.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("its end");
    }

    /// The status and the body of a page.
    pub(crate) fn page(&self, path: &str) -> (u16, String) {
        let mut socket = TcpStream::connect(self.http).expect("HTTP");
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).expect("request");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        (status.expect("a status"), body.to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The value of `address=` in a line of the log.
fn address(line: &str) -> SocketAddr {
    let (_, rest) = line.split_once("address=").expect("an address");
    let text = rest.split(' ').next().expect("a word");
    text.parse().expect("an address")
}
