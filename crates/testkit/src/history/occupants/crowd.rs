//! The clients of one process, and what the coordinator tells it: a line each.
//!
//! | line | what the process does | what it says |
//! |---|---|---|
//! | `make` | its first client makes the room | `made` |
//! | `enter` | all enter | `in`, once |
//! | `speak MS` | those that speak say something every so many ms each; links flap | |
//! | `quiet` | nobody says anything more | `said N`, once all of it is acknowledged |
//! | `hear N` | links stay; waits until every managed client has heard so many | the result |

use std::collections::HashMap;
use std::io::{Write as _, stdout};
use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::client::Client;
use super::{SPEAKERS, hash_of};

/// What the coordinator says comes by lines of its input.
const LINE_BYTES: usize = 256;
/// Clients that log in at the same time.
const LOGINS_MAX: usize = 40;
/// Time in which everybody must have heard everything.
const PATIENCE: Duration = Duration::from_secs(120);
const TICK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Waits,
    Makes,
    Enters,
    Speaks,
    Quiet,
    Hears { count: usize, until: Instant },
}

/// What a process plays.
pub(super) struct Crowd {
    clients: Vec<Client>,
    address: SocketAddr,
    flaps_every: Duration,
    step: Step,
    has_said: bool,
    every: Duration,
    speak_at: Instant,
    input: Vec<u8>,
}

impl Crowd {
    pub(super) fn new(who: Range<usize>, address: SocketAddr, seed: u64, flaps: Duration) -> Self {
        Crowd {
            clients: who.map(|number| Client::new(number, seed)).collect(),
            address,
            flaps_every: flaps,
            step: Step::Waits,
            has_said: false,
            every: Duration::from_secs(1),
            speak_at: Instant::now(),
            input: Vec::new(),
        }
    }

    /// Plays until it is over.
    pub(super) fn run(mut self) -> Result<(), String> {
        let mut items = Vec::new();
        loop {
            let now = Instant::now();
            self.move_on(now);
            if self.is_over(now) {
                return self.result();
            }
            for at in self.wait()? {
                self.clients[at].read(&mut items, now);
            }
            for client in &mut self.clients {
                client.flush(now);
            }
        }
    }

    /// Clients with something to read; what the coordinator says is taken on the way.
    fn wait(&mut self) -> Result<Vec<usize>, String> {
        let stdin = std::io::stdin();
        let mut polled = vec![PollFd::new(&stdin, PollFlags::IN)];
        let mut who = Vec::new();
        for (at, client) in self.clients.iter().enumerate() {
            if let Some(link) = client.link() {
                let mut flags = PollFlags::IN;
                flags.set(PollFlags::OUT, link.backlog() > 0);
                polled.push(PollFd::new(&link.socket, flags));
                who.push(at);
            }
        }
        match poll(&mut polled, Some(&TICK)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.to_string()),
        }
        let is_told = !polled[0].revents().is_empty();
        let ready = polled[1..].iter().zip(who);
        let ready = ready.filter(|(fd, _)| !fd.revents().is_empty());
        let ready: Vec<usize> = ready.map(|(_, at)| at).collect();
        drop(polled);
        if is_told {
            self.listen()?;
        }
        Ok(ready)
    }

    fn listen(&mut self) -> Result<(), String> {
        let mut buffer = [0; LINE_BYTES];
        let read = rustix::io::read(std::io::stdin(), &mut buffer);
        let read = read.map_err(|error| error.to_string())?;
        if read == 0 {
            return Err("the coordinator is gone".to_owned());
        }
        self.input.extend_from_slice(&buffer[..read]);
        while let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.input.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line).into_owned();
            self.told(line.trim())?;
        }
        Ok(())
    }

    fn told(&mut self, line: &str) -> Result<(), String> {
        let (word, number) = line.split_once(' ').unwrap_or((line, "0"));
        let number: u64 = number.parse().map_err(|_| format!("what is {line:?}"))?;
        self.has_said = false;
        self.step = match word {
            "make" => Step::Makes,
            "enter" => Step::Enters,
            "speak" => {
                self.every = Duration::from_millis(number);
                Step::Speaks
            }
            "quiet" => Step::Quiet,
            "hear" => Step::Hears {
                count: usize::try_from(number).unwrap_or(usize::MAX),
                until: Instant::now() + PATIENCE,
            },
            _ => return Err(format!("what is {line:?}")),
        };
        Ok(())
    }

    fn move_on(&mut self, now: Instant) {
        let flaps =
            (self.step == Step::Speaks || self.step == Step::Quiet).then_some(self.flaps_every);
        let under_way = self.clients.iter();
        let under_way = under_way.filter(|client| !client.is_in() && !client.is_off());
        let mut logins = LOGINS_MAX.saturating_sub(under_way.count());
        let playing = match self.step {
            Step::Waits => 0,
            Step::Makes => 1,
            _ => self.clients.len(),
        };
        for client in &mut self.clients[..playing] {
            if client.is_off() && logins > 0 {
                client.connect(self.address, now);
                logins -= usize::from(!client.is_off());
            }
            if flaps.is_none() {
                client.flap(None, now);
            }
            client.look_at_time(flaps, now);
        }
        match self.step {
            Step::Makes if self.clients[0].is_in() => self.say_once("made"),
            Step::Enters if self.clients.iter().all(Client::is_in) => self.say_once("in"),
            Step::Speaks if self.speak_at <= now => {
                self.speak_at = now + self.every;
                let speak = self.clients.iter_mut().filter(|client| is_speaker(client));
                for client in speak {
                    client.say();
                }
            }
            Step::Quiet if self.clients.iter().all(Client::is_settled) => {
                let said: u32 = self.clients.iter().map(|client| client.said).sum();
                self.say_once(&format!("said {said}"));
            }
            _ => {}
        }
    }

    fn say_once(&mut self, line: &str) {
        if !std::mem::replace(&mut self.has_said, true) {
            say(line);
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        let Step::Hears { count, until } = self.step else {
            return false;
        };
        let managed = || self.clients.iter().filter(|client| client.is_managed);
        managed().all(|client| client.heard.len() >= count) || now >= until
    }

    /// A line for what is wrong, one for each managed client, and one for all.
    fn result(mut self) -> Result<(), String> {
        let mut known: HashMap<u64, (u32, u32)> = HashMap::new();
        for client in &mut self.clients {
            for heard in &client.heard {
                let what = *known.entry(heard.id).or_insert(heard.what);
                if what != heard.what {
                    let id = heard.id;
                    client.faults.push(format!("{id:x} is two messages"));
                }
            }
        }
        for client in &self.clients {
            let number = client.number;
            for fault in &client.faults {
                say(&format!("fault {number} {}", fault.replace('\n', " ")));
            }
            if client.is_managed {
                let (count, hash) = (client.heard.len(), hash_of(&client.heard));
                say(&format!("heard {number} {count} {hash:016x}"));
            }
        }
        let resumed: u32 = self.clients.iter().map(|client| client.resumed).sum();
        let copies: usize = self.clients.iter().map(|client| client.heard.len()).sum();
        say(&format!("over {resumed} {copies}"));
        Ok(())
    }
}

fn is_speaker(client: &Client) -> bool {
    client.is_managed && client.number < 2 * SPEAKERS
}

fn say(line: &str) {
    let mut out = stdout().lock();
    // A coordinator that is gone is noticed by the input.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
