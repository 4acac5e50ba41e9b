//! A room of many occupants over a server that is killed: half of them with stream management, over
//! links that are lost again and again. Everybody of these must be given every message once, in one
//! order, whatever happens (docs/rooms.md). The others must be given nothing twice.
//!
//! Clients are in several processes, since one may open only so many descriptors; each is one
//! thread over sockets that never block. Owns the coordinator: it starts and kills the server,
//! tells the processes what to do, and compares what they heard.

mod client;
mod crowd;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::roost::{Account, Roost, Settings};
use client::Heard;
use crowd::Crowd;

const DOMAIN: &str = "localhost";
const PASSWORD: &str = "occupant";
const ROOM: &str = "many@conference.localhost";
/// Occupants who speak.
const SPEAKERS: usize = 4;

/// What to play.
#[derive(Clone, Debug)]
pub struct Options {
    /// Occupants, every second one with stream management.
    pub occupants: usize,
    /// Processes that they are in.
    pub processes: usize,
    /// Messages a second, by all speakers.
    pub rate: u64,
    /// How long they speak.
    pub time: Duration,
    /// How often the server is killed meanwhile.
    pub kills: u32,
    /// How long a link of a managed occupant lasts, about.
    pub flaps: Duration,
    /// Of everything that is by chance.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Messages that were said.
    pub said: usize,
    /// Copies that were heard.
    pub copies: usize,
    /// Sessions that were resumed.
    pub resumed: usize,
    /// What must not be.
    pub faults: Vec<String>,
}

fn hash_of(heard: &[Heard]) -> u64 {
    heard.iter().fold(0xcbf2_9ce4_8422_2325, |hash, heard| {
        let (who, which) = heard.what;
        let parts = [heard.id, u64::from(who), u64::from(which)];
        parts.iter().fold(hash, |hash: u64, part| {
            (hash ^ part).wrapping_mul(0x0100_0000_01b3).rotate_left(17)
        })
    })
}

/// A process with a part of the occupants.
struct Part {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Part {
    fn start(program: &str, arguments: &[String]) -> Result<Part, String> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {program}: {error}"))?;
        let input = child.stdin.take().ok_or("no input")?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        Ok(Part {
            child,
            input,
            output,
        })
    }

    fn tell(&mut self, line: &str) -> Result<(), String> {
        writeln!(self.input, "{line}").map_err(|error| error.to_string())
    }

    fn hear(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) => Err("a process of clients has ended".to_owned()),
            Ok(_) => Ok(line.trim().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn hear_of(&mut self, word: &str) -> Result<String, String> {
        let line = self.hear()?;
        let rest = line.strip_prefix(word).map(str::trim);
        rest.map(str::to_owned)
            .ok_or_else(|| format!("{line:?} instead of {word:?}"))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Plays it; `say` is told how far it is. `program` is this program, which plays a part of the
/// occupants with `--part`.
///
/// # Errors
/// The server or a process does not do what any must.
pub fn run(options: &Options, program: &str, say: &dyn Fn(&str)) -> Result<Summary, String> {
    let account = |number| Account {
        jid: format!("o{number}@{DOMAIN}"),
        password: PASSWORD.to_owned(),
    };
    let accounts: Vec<Account> = (0..options.occupants).map(account).collect();
    let settings = Settings::from([
        ("auth.plain_without_tls".to_owned(), "true".to_owned()),
        ("auth.scram_iterations".to_owned(), "4096".to_owned()),
        ("archive.enabled".to_owned(), "true".to_owned()),
    ]);
    let mut roost = Roost::start(&settings, &accounts)?;
    let mut parts = start_parts(options, program, roost.address().plain)?;
    parts[0].tell("make")?;
    parts[0].hear_of("made")?;
    for part in &mut parts {
        part.tell("enter")?;
    }
    for part in &mut parts {
        part.hear_of("in")?;
    }
    say(&format!("{} are in the room", options.occupants));
    speak(options, &mut parts, &mut roost, say)?;
    let said = quiet(&mut parts)?;
    say(&format!("{said} messages were said"));
    for part in &mut parts {
        part.tell(&format!("hear {said}"))?;
    }
    let summary = compare(&mut parts, said)?;
    roost.stop()?;
    Ok(summary)
}

fn start_parts(options: &Options, program: &str, address: SocketAddr) -> Result<Vec<Part>, String> {
    let each = options.occupants.div_ceil(options.processes.max(1));
    // All speakers are in the first one.
    let each = each.max(2 * SPEAKERS);
    let mut parts = Vec::new();
    let mut first = 0;
    while first < options.occupants {
        let last = (first + each).min(options.occupants);
        let arguments = [
            "--part".to_owned(),
            first.to_string(),
            last.to_string(),
            address.to_string(),
            options.seed.to_string(),
            options.flaps.as_millis().to_string(),
        ];
        parts.push(Part::start(program, &arguments)?);
        first = last;
    }
    Ok(parts)
}

/// They speak; the server is killed now and then, at even distances.
fn speak(
    options: &Options,
    parts: &mut [Part],
    roost: &mut Roost,
    say: &dyn Fn(&str),
) -> Result<(), String> {
    let every = 1_000 * SPEAKERS as u64 / options.rate.max(1);
    for part in parts.iter_mut() {
        part.tell(&format!("speak {every}"))?;
    }
    for kill in 0..=options.kills {
        thread::sleep(options.time / (options.kills + 1));
        if kill < options.kills {
            let before = Instant::now();
            roost.kill()?;
            roost.start_again()?;
            let took = before.elapsed().as_millis();
            say(&format!(
                "the server was killed, and listened after {took} ms"
            ));
        }
    }
    Ok(())
}

fn quiet(parts: &mut [Part]) -> Result<usize, String> {
    let mut all = 0;
    for part in parts.iter_mut() {
        part.tell("quiet")?;
    }
    for part in parts {
        let said = part.hear_of("said")?;
        all += said.parse::<usize>().map_err(|error| error.to_string())?;
    }
    Ok(all)
}

/// What each managed occupant heard must be what all others did.
fn compare(parts: &mut [Part], said: usize) -> Result<Summary, String> {
    let mut summary = Summary {
        said,
        ..Summary::default()
    };
    let mut common: Option<String> = None;
    for part in parts {
        loop {
            let line = part.hear()?;
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            match words[..] {
                ["fault", ..] => summary.faults.push(line.clone()),
                ["heard", number, count, hash] => {
                    if count.parse::<usize>() != Ok(said) {
                        let fault = format!("{number} heard {count} of {said}");
                        summary.faults.push(fault);
                    }
                    if *common.get_or_insert_with(|| hash.to_owned()) != *hash {
                        let fault = format!("{number} heard something else than others");
                        summary.faults.push(fault);
                    }
                }
                ["over", resumed, copies] => {
                    summary.resumed += resumed.parse::<usize>().unwrap_or(0);
                    summary.copies += copies.parse::<usize>().unwrap_or(0);
                    break;
                }
                _ => return Err(format!("what is {line:?}")),
            }
        }
    }
    Ok(summary)
}

/// Plays a part: what follows `--part`.
///
/// # Errors
/// The arguments mean nothing, or the coordinator is gone.
pub fn play_part(arguments: &[String]) -> Result<(), String> {
    let [first, last, address, seed, flaps] = arguments else {
        return Err("--part FIRST LAST ADDRESS SEED FLAPS_MS".to_owned());
    };
    let number = |text: &String| text.parse::<u64>().map_err(|_| format!("what is {text}"));
    let who = number(first)? as usize..number(last)? as usize;
    let address = address.parse().map_err(|_| format!("what is {address}"))?;
    let flaps = Duration::from_millis(number(flaps)?);
    Crowd::new(who, address, number(seed)?, flaps).run()
}
