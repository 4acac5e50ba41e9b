//! The server of these tests: an edge and a home, as processes. Its clients are those of the
//! cluster's tests, which name a node.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use testkit::roost::{Account, Roost, Settings};

pub(crate) const PASSWORD: &str = "pencil";
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) struct Nodes {
    server: Roost,
}

impl Nodes {
    /// A server as two processes, with these accounts.
    pub(crate) fn split(users: &[&str]) -> Nodes {
        Nodes::split_with(users, Settings::new())
    }

    /// The same with more settings.
    pub(crate) fn split_with(users: &[&str], more: Settings) -> Nodes {
        let mut settings = Settings::from([
            ("server.split".to_owned(), "true".to_owned()),
            ("auth.scram_iterations".to_owned(), "4096".to_owned()),
        ]);
        settings.extend(more);
        let account = |user: &&str| Account {
            jid: format!("{user}@localhost"),
            password: PASSWORD.to_owned(),
        };
        let accounts: Vec<_> = users.iter().map(account).collect();
        let server = Roost::start(&settings, &accounts).unwrap();
        Nodes { server }
    }

    /// There is one node, whatever it is called.
    pub(crate) fn node(&mut self, _name: &str) -> &mut Roost {
        &mut self.server
    }

    /// Runs a command against it.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<String, String> {
        self.server.run(arguments)
    }

    /// The program that runs.
    pub(crate) fn program(&self) -> PathBuf {
        let pid = self.server.pid().expect("it runs");
        fs::read_link(format!("/proc/{pid}/exe")).expect("its program")
    }

    /// Processes of homes, by the process that started them.
    pub(crate) fn homes(&self) -> Vec<u32> {
        let pid = self.server.pid().expect("it runs");
        let mut homes = Vec::new();
        for task in fs::read_dir(format!("/proc/{pid}/task")).expect("tasks") {
            let path = task.expect("a task").path().join("children");
            let children = fs::read_to_string(path).unwrap_or_default();
            homes.extend(
                children
                    .split_whitespace()
                    .filter_map(|pid| pid.parse::<u32>().ok()),
            );
        }
        homes
    }

    /// Everything that both processes wrote.
    pub(crate) fn log(&self) -> String {
        self.server.log()
    }

    /// No process has the store.
    pub(crate) fn homes_are_gone(&self) -> bool {
        let lock = fs::File::open(self.server.data().join("store/lock")).unwrap();
        lock.try_lock().is_ok()
    }

    /// Ends the home without warning.
    pub(crate) fn kill_home(&self) {
        let home = self.signal_home(Signal::KILL);
        self.until("it is gone", |nodes| !nodes.homes().contains(&home));
    }

    /// Sends the home a signal; gives its process.
    pub(crate) fn signal_home(&self, signal: Signal) -> u32 {
        let homes = self.homes();
        assert_eq!(homes.len(), 1, "one home");
        let pid = Pid::from_raw(homes[0] as i32).expect("a process");
        kill_process(pid, signal).expect("it is there");
        homes[0]
    }

    /// A file of the data folder.
    pub(crate) fn file(&self, name: &str) -> String {
        fs::read_to_string(self.server.data().join(name)).expect("a file")
    }

    /// A program of a few lines beside the configuration.
    pub(crate) fn script(&self, name: &str, lines: &str) -> String {
        let path = self.server.config().with_file_name(name);
        fs::write(&path, format!("#!/bin/sh\n{lines}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.to_string_lossy().into_owned()
    }

    /// What it answers to a request for a page: status and body.
    pub(crate) fn page(&self, path: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(self.server.address().web).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let status = answer.split(' ').nth(1)?.parse().ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        Some((status, body.trim().to_owned()))
    }

    /// A figure, by its name, over all shards.
    pub(crate) fn figure(&self, figure: &str) -> f64 {
        let (_, page) = self.page("/metrics").expect("figures");
        let lines = page.lines().filter_map(|line| line.rsplit_once(' '));
        let named = |of: &str| of == figure || of.starts_with(&format!("{figure}{{"));
        let values = lines.filter(|(of, _)| named(of));
        values.map(|(_, value)| value.parse::<f64>().unwrap()).sum()
    }

    /// Waits until it is so.
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&Nodes) -> bool) {
        let started = Instant::now();
        while !is_so(self) {
            assert!(
                started.elapsed() < PATIENCE,
                "{what}\n{}",
                self.server.log_tail()
            );
            thread::sleep(PAUSE);
        }
    }
}
