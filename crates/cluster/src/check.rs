//! Whether an engine keeps what a journal promises. Owns the rules and, for each that is broken,
//! the command that mends it. What is observed comes from `observe`; nothing here asks anybody.

use std::fmt;
use std::time::Duration;

use crate::layout::Layout;

/// The oldest server that is known to do what the journal relies on.
pub const VERSION_MIN: (u32, u32) = (2, 14);

/// The engine forgets ids after this; a publish in doubt is sent again for as long at least.
pub const DUPLICATE_WINDOW_MIN: Duration = Duration::from_secs(120);

/// Copies of each stream: one server may be lost.
pub const REPLICAS: usize = 3;

/// Largest message that servers and streams have to take, in bytes: their default.
const MESSAGE_BYTES: u64 = 1_024 * 1_024;

/// Bounds of the check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Most difference between a server's clock and this machine's. Default: 1 s.
    pub skew_max: Duration,
    /// The server that is said to be next to this node ([`crate::engine::Options::near`]).
    pub near: Option<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            skew_max: Duration::from_secs(1),
            near: None,
        }
    }
}

/// What the monitoring port of a server said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// The address that was asked.
    pub monitor: String,
    /// The server's name.
    pub name: String,
    /// Its version: `2.15.2`.
    pub version: String,
    /// Whether it stores streams at all.
    pub has_jetstream: bool,
    /// Whether it syncs each write to the disk.
    pub syncs_always: bool,
    /// Its clock minus ours, and how uncertain that is, in milliseconds.
    pub skew_ms: i64,
    /// Half of the round trip, in milliseconds.
    pub uncertain_ms: i64,
    /// What it has stored, in bytes.
    pub stored_bytes: u64,
    /// What it may store (`max_file_store`), in bytes; 0: it does not say.
    pub stored_bytes_max: u64,
    /// Largest message that it takes (`max_payload`), in bytes; 0: it does not say.
    pub message_bytes_max: u64,
    /// Servers of its cluster, by what the leader of all streams says; 0 if it knows none.
    pub cluster_size: usize,
}

/// A stream's configuration, as far as the journal relies on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Its name.
    pub name: String,
    /// What it listens to.
    pub subjects: Vec<String>,
    /// Copies.
    pub replicas: usize,
    /// Kept in files.
    pub is_file: bool,
    /// A full stream refuses what is new instead of forgetting what is old.
    pub discards_new: bool,
    /// Messages cannot be deleted one by one.
    pub denies_delete: bool,
    /// It can be purged up to a snapshot.
    pub denies_purge: bool,
    /// Messages are forgotten after this; zero: never.
    pub age_max: Duration,
    /// Messages are forgotten above this number; none if not positive.
    pub messages_max: i64,
    /// Bytes above which it refuses what is new; none if not positive.
    pub bytes_max: i64,
    /// The same as of messages for one subject.
    pub messages_per_subject_max: i64,
    /// Messages are kept whatever consumers do.
    pub keeps_all: bool,
    /// Largest message; any if not positive.
    pub message_size_max: i32,
    /// A message may replace all earlier ones.
    pub allows_rollup: bool,
    /// How long ids are known.
    pub duplicate_window: Duration,
    /// It acknowledges.
    pub acknowledges: bool,
    /// It accepts nothing.
    pub is_sealed: bool,
    /// It has a leader.
    pub has_leader: bool,
}

/// Everything that was observed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Monitoring ports that answered.
    pub servers: Vec<Server>,
    /// Monitoring ports that did not, each with why.
    pub silent: Vec<(String, String)>,
    /// The streams that are there, of those that the layout names.
    pub streams: Vec<Stream>,
    /// The streams below the buckets of the map and of snapshots, of those that are there.
    pub buckets: Vec<Stream>,
    /// The names of those of which nobody says whether they are there.
    pub silent_streams: Vec<String>,
}

/// Part of what a server may store at which that is said: beyond all of it nothing is accepted.
const STORED_SHARE: f64 = 0.9;

/// What a problem means for a node that is to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gravity {
    /// It must not serve.
    Wrong,
    /// A server is away: its monitoring port does not answer, or it stores nothing, as one that has
    /// switched JetStream off by itself because its disk was full.
    Absence,
    /// It may serve, but somebody should see to it.
    Warning,
}

/// What is wrong, and what mends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong and why it matters.
    pub what: String,
    /// A command, or a line for a configuration file.
    pub mend: String,
    /// What it means for a node.
    pub gravity: Gravity,
}

/// Whether a node may start all the same: nothing is wrong but that a minority of `servers` is
/// away. The loss of one server is what the others are for, and a node that was lost with it has to
/// come back meanwhile.
pub fn may_start(problems: &[Problem], servers: usize) -> bool {
    let count = |gravity| problems.iter().filter(|one| one.gravity == gravity).count();
    count(Gravity::Wrong) == 0 && count(Gravity::Absence) * 2 < servers.max(1)
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n    {}", self.what, self.mend)
    }
}

fn problem(what: String, mend: String) -> Problem {
    Problem {
        what,
        mend,
        gravity: Gravity::Wrong,
    }
}

/// Everything that is wrong; empty: a node may serve.
pub fn check(options: &Options, layout: &Layout, observed: &Observed) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (monitor, why) in &observed.silent {
        problems.push(Problem {
            what: format!("the monitoring port {monitor} does not answer: {why}"),
            mend: "nats-server -m 8222  # or http_port: 8222 in its configuration".to_owned(),
            gravity: Gravity::Absence,
        });
    }
    for server in &observed.servers {
        check_server(options, server, &mut problems);
    }
    let known = observed.servers.len() + observed.silent.len();
    let largest = observed
        .servers
        .iter()
        .map(|server| server.cluster_size)
        .max();
    match largest.unwrap_or_default() {
        size if known > 0 && size < REPLICAS => problems.push(problem(
            format!("the engine has {size} servers with JetStream; {REPLICAS} survive one's loss"),
            "nats-server --cluster nats://HOST:6222 --routes nats://OTHER:6222 --jetstream"
                .to_owned(),
        )),
        size if size > known => problems.push(problem(
            format!("the engine has {size} servers and {known} monitoring ports are configured"),
            "monitor = [\"http://HOST:8222\", …]  # one for each server".to_owned(),
        )),
        _ => {}
    }
    if known == 0 {
        problems.push(problem(
            "no monitoring port is configured: only there a server says whether it syncs"
                .to_owned(),
            "monitor = [\"http://HOST:8222\", …]".to_owned(),
        ));
    }
    let mut names: Vec<&str> = observed.servers.iter().map(|one| &*one.name).collect();
    names.sort_unstable();
    check_near(options, observed, &names, &mut problems);
    for twice in names.windows(2).filter(|two| two[0] == two[1]) {
        problems.push(problem(
            format!(
                "two monitoring ports are of {}: another server is not asked",
                twice[0]
            ),
            "monitor = [\"http://HOST:8222\", …]  # one for each server".to_owned(),
        ));
    }
    for stream in layout.streams() {
        let name = layout.stream_name(stream);
        match observed.streams.iter().find(|there| there.name == name) {
            Some(there) => check_stream(there, &layout.subject(stream), &mut problems),
            None => problems.push(absent(observed, &name)),
        }
    }
    for name in [layout.map_stream(), layout.snapshot_stream()] {
        match observed.buckets.iter().find(|there| there.name == name) {
            Some(there) => check_bucket(there, &mut problems),
            None => problems.push(absent(observed, &name)),
        }
    }
    problems
}

/// A name that no server has is never a leader's, and nobody would see why.
fn check_near(options: &Options, observed: &Observed, names: &[&str], problems: &mut Vec<Problem>) {
    let Some(near) = &options.near else { return };
    // One that is away may be it.
    if observed.silent.is_empty() && !names.is_empty() && !names.contains(&&**near) {
        problems.push(Problem {
            what: format!(
                "no server of the engine is called {near}: they are {}",
                names.join(", ")
            ),
            mend: format!(
                "cluster.engine_near = {:?}  # the one next to this node",
                names[0]
            ),
            gravity: Gravity::Warning,
        });
    }
}

/// A stream that is not there, or does not say so.
fn absent(observed: &Observed, name: &String) -> Problem {
    match observed.silent_streams.contains(name) {
        true => problem(
            format!("{name} does not answer: it has no leader, or the engine is overloaded"),
            "nats server report jetstream  # says which servers are gone; start them".to_owned(),
        ),
        false => problem(
            format!("the stream {name} is missing"),
            "roost cluster check --create".to_owned(),
        ),
    }
}

fn check_server(options: &Options, server: &Server, problems: &mut Vec<Problem>) {
    let name = &server.name;
    if version(&server.version) < Some(VERSION_MIN) {
        let (major, minor) = VERSION_MIN;
        problems.push(problem(
            format!(
                "{name} is version {}; {major}.{minor} is needed",
                server.version
            ),
            "go install github.com/nats-io/nats-server/v2@latest".to_owned(),
        ));
    }
    if !server.has_jetstream {
        problems.push(Problem {
            what: format!("{name} runs without JetStream"),
            mend: "nats-server --jetstream --store_dir FOLDER  # it may have switched it off, as \
                   its log says: make room on its disk and restart it"
                .to_owned(),
            gravity: Gravity::Absence,
        });
    } else if !server.syncs_always {
        problems.push(problem(
            format!("{name} acknowledges before its disk has it: a power cut loses messages"),
            "jetstream { sync_interval: always }  # in its configuration; then restart it"
                .to_owned(),
        ));
    }
    let takes = server.message_bytes_max;
    if takes > 0 && takes < MESSAGE_BYTES {
        problems.push(problem(
            format!("{name} takes messages of {takes} bytes at most; {MESSAGE_BYTES} are needed"),
            "max_payload: 1MB  # in its configuration; then restart it".to_owned(),
        ));
    }
    let (bytes, max) = (server.stored_bytes, server.stored_bytes_max);
    if max > 0 && bytes as f64 >= max as f64 * STORED_SHARE {
        problems.push(Problem {
            what: format!(
                "{name} has stored {bytes} bytes of at most {max}: then it takes nothing"
            ),
            mend: "jetstream { max_file_store: … }  # in its configuration; then restart it, or \
                   make room: roost cluster snapshot"
                .to_owned(),
            gravity: Gravity::Warning,
        });
    }
    let skew_max = i64::try_from(options.skew_max.as_millis()).unwrap_or(i64::MAX);
    if server.skew_ms.abs() > skew_max + server.uncertain_ms {
        problems.push(problem(
            format!(
                "the clock of {name} differs by {} ms from this machine's",
                server.skew_ms
            ),
            "timedatectl set-ntp true  # on both".to_owned(),
        ));
    }
}

fn version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn to_edit(stream: &Stream, what: &str, flags: &str) -> Problem {
    let name = &stream.name;
    let mend = format!("nats stream edit {name} --force {flags}");
    problem(format!("{name} {what}"), mend)
}

fn check_copies(stream: &Stream, problems: &mut Vec<Problem>) {
    let copies = stream.replicas;
    if copies < REPLICAS {
        let what = format!("has {copies} copies; {REPLICAS} survive one server's loss");
        problems.push(to_edit(stream, &what, "--replicas 3"));
    }
}

fn check_leader(stream: &Stream, problems: &mut Vec<Problem>) {
    if !stream.has_leader {
        problems.push(problem(
            format!(
                "{} has no leader: a majority of its servers is gone",
                stream.name
            ),
            "nats server report jetstream  # says which; start them".to_owned(),
        ));
    }
}

fn check_stream(stream: &Stream, subject: &str, problems: &mut Vec<Problem>) {
    let name = &stream.name;
    check_copies(stream, problems);
    let mut edit = |is_wrong: bool, what: &str, flags: &str| {
        if is_wrong {
            problems.push(to_edit(stream, what, flags));
        }
    };
    edit(
        !stream.discards_new,
        "forgets what is old when it is full",
        "--discard new",
    );
    edit(
        !stream.age_max.is_zero(),
        "forgets messages by their age",
        "--max-age 0s",
    );
    edit(
        stream.messages_max > 0,
        "forgets messages above a number",
        "--max-msgs -1",
    );
    edit(
        stream.bytes_max > 0,
        "accepts nothing above a number of bytes",
        "--max-bytes -1",
    );
    edit(
        stream.messages_per_subject_max > 0,
        "forgets messages above a number for a subject",
        "--max-msgs-per-subject -1",
    );
    edit(
        stream.allows_rollup,
        "lets one message replace all others",
        "--no-allow-rollup",
    );
    edit(
        stream.duplicate_window < DUPLICATE_WINDOW_MIN,
        "forgets ids in under two minutes: a publish in doubt could be stored twice",
        "--dupe-window 2m",
    );
    edit(
        (1..MESSAGE_BYTES as i32).contains(&stream.message_size_max),
        "refuses messages of under 1 MB",
        "--max-msg-size -1",
    );
    edit(
        stream.subjects != [subject],
        "listens to other subjects",
        &format!("--subjects {subject}"),
    );
    edit(!stream.acknowledges, "does not acknowledge", "--ack");
    let is_fixed = !stream.is_file
        || !stream.denies_delete
        || stream.denies_purge
        || !stream.keeps_all
        || stream.is_sealed;
    if is_fixed {
        let what = "was made with what cannot be changed: it must be in files, keep all messages \
                    (retention: limits), deny deletion, allow a purge, and not be sealed";
        problems.push(problem(
            format!("{name} {what}"),
            format!("nats stream rm {name} && roost cluster check --create  # this loses its data"),
        ));
    }
    check_leader(stream, problems);
}

/// What is below the map, without which nobody has a lease, or below snapshots, behind which
/// streams are purged.
fn check_bucket(bucket: &Stream, problems: &mut Vec<Problem>) {
    let name = &bucket.name;
    check_copies(bucket, problems);
    if !bucket.age_max.is_zero() {
        let what = "forgets what is in it by its age";
        problems.push(to_edit(bucket, what, "--max-age 0s"));
    }
    if !bucket.is_file {
        problems.push(problem(
            format!("{name} is kept in memory: what is in it goes with the engine's servers"),
            format!(
                "nats stream backup {name} FOLDER  # it cannot be changed; without what is in it \
                 the streams are of no use: keep it, whatever you do (docs/cluster.md)"
            ),
        ));
    }
    check_leader(bucket, problems);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::StreamId;

    fn good(layout: &Layout) -> Observed {
        let server = |name: &str| Server {
            monitor: format!("http://{name}:8222"),
            name: name.to_owned(),
            version: "2.15.2".to_owned(),
            has_jetstream: true,
            syncs_always: true,
            skew_ms: 3,
            uncertain_ms: 5,
            stored_bytes: 1 << 30,
            stored_bytes_max: 4 << 30,
            message_bytes_max: 1 << 20,
            cluster_size: 3,
        };
        let stream = |stream| Stream {
            name: layout.stream_name(stream),
            subjects: vec![layout.subject(stream)],
            replicas: 3,
            is_file: true,
            discards_new: true,
            denies_delete: true,
            denies_purge: false,
            age_max: Duration::ZERO,
            messages_max: -1,
            bytes_max: -1,
            messages_per_subject_max: -1,
            keeps_all: true,
            message_size_max: -1,
            allows_rollup: false,
            duplicate_window: DUPLICATE_WINDOW_MIN,
            acknowledges: true,
            is_sealed: false,
            has_leader: true,
        };
        let bucket = |name: String| Stream {
            name,
            allows_rollup: true,
            denies_delete: false,
            ..stream(StreamId(0))
        };
        Observed {
            servers: ["n1", "n2", "n3"].map(server).to_vec(),
            silent: Vec::new(),
            streams: layout.streams().map(stream).collect(),
            buckets: vec![
                bucket(layout.map_stream()),
                bucket(layout.snapshot_stream()),
            ],
            silent_streams: Vec::new(),
        }
    }

    fn problems(change: impl FnOnce(&mut Observed)) -> Vec<Problem> {
        let layout = Layout::new("roost", 2).unwrap();
        let mut observed = good(&layout);
        change(&mut observed);
        check(&Options::default(), &layout, &observed)
    }

    #[track_caller]
    fn one(mend: &str, change: impl FnOnce(&mut Observed)) {
        let found = problems(change);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].mend.contains(mend), "{found:?}");
    }

    #[test]
    fn an_engine_as_it_should_be_has_no_problem() {
        assert_eq!(problems(|_| {}), []);
    }

    /// Goal: one server of three that is silent, or has switched JetStream off, keeps no node from
    /// starting. Two do, and so does anything else that is wrong beside it.
    #[test]
    fn a_node_starts_while_a_minority_is_away() {
        let starts = |silent: usize, off: usize, syncs: bool| {
            let found = problems(|o| {
                for _ in 0..silent {
                    let lost = o.servers.remove(0);
                    o.silent.push((lost.monitor, "refused".to_owned()));
                }
                for server in &mut o.servers[..off] {
                    (server.has_jetstream, server.syncs_always) = (false, false);
                    server.cluster_size = 0;
                }
                o.servers[off].syncs_always = syncs;
            });
            let count = silent + off + usize::from(!syncs);
            assert_eq!(found.len(), count, "{found:?}");
            may_start(&found, 3)
        };
        assert!(starts(0, 0, true));
        assert!(starts(1, 0, true) && starts(0, 1, true));
        assert!(!starts(2, 0, true) && !starts(0, 2, true) && !starts(1, 1, true));
        assert!(!starts(1, 0, false) && !starts(0, 1, false));
        assert!(may_start(&[], 0));
    }

    /// Goal: what somebody should see to keeps no node from starting.
    #[test]
    fn a_node_starts_with_a_warning() {
        let full = |part: u64| problems(|o| o.servers[0].stored_bytes = (part << 32) / 100);
        assert_eq!(full(89), []);
        let found = full(91);
        assert_eq!(found[0].gravity, Gravity::Warning);
        assert!(found[0].mend.contains("max_file_store"), "{found:?}");
        assert!(found.len() == 1 && may_start(&found, 3));
        let unbounded = problems(|o| o.servers[0].stored_bytes_max = 0);
        assert_eq!(unbounded, []);
    }

    /// Goal: a name that no server has is said, unless the server may be one that is silent.
    #[test]
    fn a_server_that_nobody_knows_is_named() {
        let layout = Layout::new("roost", 2).unwrap();
        let found = |near: &str, is_one_silent: bool| {
            let mut observed = good(&layout);
            if is_one_silent {
                let lost = observed.servers.remove(0);
                observed.silent.push((lost.monitor, "refused".to_owned()));
            }
            let options = Options {
                near: Some(near.to_owned()),
                ..Options::default()
            };
            let found = check(&options, &layout, &observed);
            let warnings = found.iter().filter(|one| one.gravity == Gravity::Warning);
            warnings.map(ToString::to_string).collect::<String>()
        };
        assert_eq!((found("n2", false), found("n1", true)), Default::default());
        let named = found("n4", false);
        assert!(named.contains("no server of the engine is called n4: they are n1, n2, n3"));
        assert!(named.contains("cluster.engine_near"), "{named}");
    }

    /// Goal: each rule finds exactly what breaks it, and names what mends that.
    #[test]
    fn each_rule_names_what_mends() {
        one("go install", |o| o.servers[0].version = "2.9.10".to_owned());
        one("go install", |o| o.servers[0].version = "beta".to_owned());
        one("sync_interval: always", |o| {
            o.servers[1].syncs_always = false;
        });
        one("--jetstream", |o| o.servers[1].has_jetstream = false);
        one("set-ntp", |o| o.servers[2].skew_ms = -1_100);
        one("http_port", |o| {
            let lost = o.servers.remove(0);
            o.silent.push((lost.monitor, "refused".to_owned()));
        });
        one("one for each server", |o| drop(o.servers.remove(0)));
        one("--routes", |o| {
            o.servers.iter_mut().for_each(|s| s.cluster_size = 1);
        });
        one("monitor =", |o| o.servers.clear());
        one("--create", |o| drop(o.streams.remove(1)));
        one("server report", |o| {
            let silent = o.streams.remove(1);
            o.silent_streams.push(silent.name);
        });
        one("--replicas 3", |o| o.streams[0].replicas = 1);
        one("--discard new", |o| o.streams[0].discards_new = false);
        one("--max-age 0s", |o| {
            o.streams[0].age_max = Duration::from_secs(1);
        });
        one("--max-msgs -1", |o| o.streams[0].messages_max = 10);
        one("--max-bytes -1", |o| o.streams[0].bytes_max = 10);
        one("--max-msgs-per-subject", |o| {
            o.streams[0].messages_per_subject_max = 1;
        });
        one("--no-allow-rollup", |o| o.streams[0].allows_rollup = true);
        one("--dupe-window", |o| {
            o.streams[0].duplicate_window = Duration::from_secs(9);
        });
        one("--max-msg-size", |o| o.streams[0].message_size_max = 1_000);
        one("--subjects", |o| o.streams[0].subjects.clear());
        one("--ack", |o| o.streams[0].acknowledges = false);
        one("stream rm", |o| o.streams[0].is_file = false);
        one("stream rm", |o| o.streams[0].denies_delete = false);
        one("stream rm", |o| o.streams[0].keeps_all = false);
        one("stream rm", |o| o.streams[0].is_sealed = true);
        one("server report", |o| o.streams[0].has_leader = false);
        one("max_payload", |o| {
            o.servers[0].message_bytes_max = 1_000_000;
        });
        one("one for each server", |o| {
            o.servers[1].name = o.servers[0].name.clone();
        });
    }

    /// Goal: the same for what is below the buckets.
    #[test]
    fn each_rule_of_buckets_names_what_mends() {
        for bucket in 0..2 {
            one("--create", |o| drop(o.buckets.remove(bucket)));
            one("server report", |o| {
                let silent = o.buckets.remove(bucket);
                o.silent_streams.push(silent.name);
            });
            one("--replicas 3", |o| o.buckets[bucket].replicas = 1);
            one("--max-age 0s", |o| {
                o.buckets[bucket].age_max = Duration::from_secs(1);
            });
            one("stream backup", |o| o.buckets[bucket].is_file = false);
            one("server report", |o| o.buckets[bucket].has_leader = false);
        }
    }
}
