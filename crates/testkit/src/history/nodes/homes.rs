//! Who is the home of which stream, as `roost cluster status` says again and again, and as nodes
//! say in their logs. Owns what is read there, and the rule that an epoch has one home.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::process::Child;
use std::time::{Duration, Instant};
use stdx::Timestamp;

/// Pause between two looks at the map.
const EVERY: Duration = Duration::from_millis(1_000);
/// A look that takes longer is given up: the engine does not answer.
const LOOK_MAX: Duration = Duration::from_secs(20);

/// What a look at the map showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    /// State by node.
    nodes: BTreeMap<String, String>,
    /// Home, epoch, state and lag by stream.
    streams: BTreeMap<u16, (String, u64, String, u64)>,
}

impl Status {
    /// What is not well with so many nodes and streams.
    pub(super) fn illness(&self, nodes: usize, streams: usize) -> Option<String> {
        let alive = self.nodes.values().filter(|state| *state == "alive");
        let is_well =
            |(_, _, state, lag): &&(String, u64, String, u64)| state == "serving" && *lag == 0;
        let well = self.streams.values().filter(is_well).count();
        (alive.count() != nodes || well != streams).then(|| format!("{self:?}"))
    }
}

/// Reads what `roost cluster status` prints.
pub(super) fn parse(printed: &str) -> Status {
    let mut status = Status::default();
    for line in printed.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["node" | "stream" | "format", ..] | [] => {}
            [stream, home, epoch, state, _, lag, _] if stream.parse::<u16>().is_ok() => {
                let number = |text: &str| text.parse().unwrap_or_default();
                let row = (
                    home.to_owned(),
                    number(epoch),
                    state.to_owned(),
                    number(lag),
                );
                status.streams.insert(number(stream) as u16, row);
            }
            [name, state, ..] => drop(status.nodes.insert(name.to_owned(), state.to_owned())),
            [_] => {}
        }
    }
    status
}

/// What the map said so far.
pub(super) struct Homes {
    every: Duration,
    look_max: Duration,
    under_way: Option<(Child, Instant)>,
    next: Option<Instant>,
    latest: Option<Status>,
    /// What is under way was begun before somebody asked to forget.
    is_old: bool,
    /// By stream and epoch.
    known: BTreeMap<(u16, u64), String>,
    findings: Vec<String>,
}

impl Default for Homes {
    fn default() -> Homes {
        Homes {
            every: EVERY,
            look_max: LOOK_MAX,
            under_way: None,
            next: None,
            latest: None,
            is_old: false,
            known: BTreeMap::new(),
            findings: Vec::new(),
        }
    }
}

impl Homes {
    /// Begins to ask when it is time for it, and takes what was answered. Returns what has changed.
    pub(super) fn look(
        &mut self,
        ask: impl FnOnce() -> Result<Child, String>,
    ) -> Result<Vec<String>, String> {
        let text = |error: std::io::Error| error.to_string();
        let Some((child, since)) = &mut self.under_way else {
            if self.next.is_none_or(|next| Instant::now() >= next) {
                self.under_way = Some((ask()?, Instant::now()));
            }
            return Ok(Vec::new());
        };
        let is_late = since.elapsed() > self.look_max;
        if is_late {
            child.kill().map_err(text)?;
        }
        let Some(status) = child.try_wait().map_err(text)? else {
            return Ok(Vec::new());
        };
        let mut printed = String::new();
        if let Some(mut stdout) = child.stdout.take() {
            stdout.read_to_string(&mut printed).map_err(text)?;
        }
        self.under_way = None;
        self.next = Some(Instant::now() + self.every);
        let is_old = std::mem::take(&mut self.is_old);
        if !status.success() {
            return Ok(vec!["the map cannot be read".to_owned()]);
        }
        let status = parse(&printed);
        let changes = self.take(&status);
        self.latest = (!is_old).then_some(status);
        Ok(changes)
    }

    fn take(&mut self, status: &Status) -> Vec<String> {
        let mut changes = Vec::new();
        for (stream, (home, epoch, state, _)) in &status.streams {
            let before = self.known.insert((*stream, *epoch), home.clone());
            match before {
                Some(before) if before != *home && *epoch > 0 => self.findings.push(format!(
                    "stream {stream} has the homes {before} and {home} in epoch {epoch}"
                )),
                Some(_) => {}
                None => changes.push(format!(
                    "stream {stream} is given to {home} in epoch {epoch} ({state})"
                )),
            }
            let newest = self
                .known
                .range((*stream, 0)..=(*stream, u64::MAX))
                .next_back();
            if let Some(((_, newest), _)) = newest
                && newest > epoch
            {
                // A copy of the bucket may be behind its leader: it says nothing new.
                changes.push(format!(
                    "the map shows epoch {epoch} of stream {stream} again"
                ));
            }
        }
        changes
    }

    pub(super) fn forget(&mut self) {
        self.latest = None;
        self.is_old = self.under_way.is_some();
    }

    pub(super) fn latest(&self) -> Option<&Status> {
        self.latest.as_ref()
    }

    pub(super) fn findings(&self) -> Vec<String> {
        self.findings.clone()
    }
}

impl Drop for Homes {
    fn drop(&mut self) {
        if let Some((child, _)) = &mut self.under_way {
            // One that has ended is what we want.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The lines in which a node says that it has become the home of a stream.
fn beginnings(log: &str) -> impl Iterator<Item = &str> {
    let mut lines = log.lines();
    std::iter::from_fn(move || {
        lines.find(|line| line.contains("this node is the home of a stream"))
    })
}

/// When a node became the home of each of its streams, and when its lease had ended, and with it
/// every account's actor there, whoever was the home then: either way accounts are loaded anew.
pub(super) fn began(log: &str) -> Vec<Timestamp> {
    let at = |line: &str| line.split_whitespace().next()?.parse().ok();
    let ended = log
        .lines()
        .filter(|line| line.contains("the lease of this node is over"));
    beginnings(log).chain(ended).filter_map(at).collect()
}

/// Tenures that two processes say they began, in the logs of nodes.
pub(super) fn claimed_twice(logs: &[(&str, String)]) -> Vec<String> {
    let mut claims: BTreeMap<(u64, u64), Vec<&str>> = BTreeMap::new();
    for (name, log) in logs {
        for line in beginnings(log) {
            if let (Some(stream), Some(epoch)) = (field(line, "stream="), field(line, "epoch=")) {
                claims.entry((stream, epoch)).or_default().push(name);
            }
        }
    }
    let twice = claims.into_iter().filter(|(_, names)| names.len() > 1);
    twice
        .map(|((stream, epoch), names)| {
            format!("stream {stream} was at home with {names:?} in epoch {epoch}")
        })
        .collect()
}

fn field(line: &str, name: &str) -> Option<u64> {
    let (_, rest) = line.split_once(name)?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    const PRINTED: &str = "\
node             state    zone         weight  homes  link
a                alive    default           1      6  127.0.0.1:5291
b                silent   default           1      5  127.0.0.1:5292

stream home              epoch state        messages     lag ms  leader
     0 a                     3 serving             3          0  n1
     1 b                     1 moving              -          0  none
";

    /// Goal: what the command prints is read, and says what is not well.
    #[test]
    fn a_status_is_read() {
        let status = parse(PRINTED);
        assert_eq!(status.nodes["b"], "silent");
        assert_eq!(
            status.streams[&0],
            ("a".to_owned(), 3, "serving".to_owned(), 0)
        );
        assert!(status.illness(2, 2).is_some());
        let well = PRINTED
            .replace("silent", "alive ")
            .replace("moving ", "serving");
        assert_eq!(parse(&well).illness(2, 2), None);
        assert!(parse(&well).illness(3, 2).is_some());
    }

    /// Goal: a look that is not answered in time is given up, and the next one is taken.
    #[test]
    fn a_look_that_takes_too_long_is_given_up() {
        let mut homes = Homes::default();
        (homes.every, homes.look_max) = (Duration::ZERO, Duration::from_millis(50));
        let command = |name: &str, argument: &str| {
            let mut command = Command::new(name);
            let child = command.arg(argument).stdout(Stdio::piped()).spawn();
            child.map_err(|error| error.to_string())
        };
        let mut next = |name: &str, argument: &str| loop {
            let said = homes.look(|| command(name, argument)).expect("it runs");
            if homes.under_way.is_none() {
                return (said, homes.latest().cloned());
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let given_up = vec!["the map cannot be read".to_owned()];
        assert_eq!(next("sleep", "100"), (given_up, None));
        // One that is answered at once is in time.
        let (changes, latest) = loop {
            let answer = next("echo", PRINTED);
            if answer.1.is_some() {
                break answer;
            }
        };
        assert_eq!(changes.len(), 2, "{changes:?}");
        assert_eq!(latest, Some(parse(PRINTED)));
    }

    /// Goal: who may have forgotten something is known, also where no other home began.
    #[test]
    fn an_end_of_a_lease_counts_as_a_beginning() {
        let log = "2026-01-01T00:00:01Z  INFO this node is the home of a stream stream=2 epoch=7\n\
                   2026-01-01T00:00:02Z  INFO the link to node c is up\n\
                   2026-01-01T00:00:03Z  WARN the lease of this node is over: its entities end\n";
        let seconds = began(log).into_iter();
        let seconds: Vec<i64> = seconds.map(|at| at.as_millis() / 1_000 % 60).collect();
        assert_eq!(seconds, [1, 3]);
    }

    /// Goal: two homes in one epoch are found, whoever says so.
    #[test]
    fn an_epoch_with_two_homes_is_found() {
        let mut homes = Homes::default();
        assert_eq!(homes.take(&parse(PRINTED)).len(), 2);
        let other = PRINTED.replace("     0 a ", "     0 b ");
        homes.take(&parse(&other));
        assert_eq!(homes.findings().len(), 1, "{:?}", homes.findings());
        let line = "INFO this node is the home of a stream stream=2 epoch=7\n";
        let logs = |first: &str| [("a", first.to_owned()), ("b", line.to_owned())];
        assert_eq!(claimed_twice(&logs("")), Vec::<String>::new());
        assert_eq!(claimed_twice(&logs(line)).len(), 1);
        let log = format!("a line\n2026-11-28T07:53:59.181899Z  {line}");
        let at = "2026-11-28T07:53:59.181Z".parse().unwrap();
        assert_eq!(began(&log), [at]);
        assert_eq!(claimed_twice(&logs(&line.replace('7', "8"))).len(), 0);
    }
}
