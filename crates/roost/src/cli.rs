//! The command line. Owns its words and their help; what a command does is `commands` and `serve`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use watch::sar::SarArgs;
use watch::top::TopArgs;

use crate::commands::{ChaosArgs, ClusterCommand};
use crate::config::{Source, parse_time};
use crate::doctor::DoctorArgs;
use crate::exit;
use crate::secret::Secret;

/// Roost, an XMPP server.
///
/// Commands work on the server that runs on the data folder, through its control socket, or on a
/// stopped one directly.
#[derive(Debug, Parser)]
#[command(name = "roost", version, after_help = exit::HELP, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server until SIGTERM or SIGINT; SIGHUP reloads certificates, limits and log
    /// level.
    Serve(Place),
    /// What an edge starts.
    #[command(hide = true)]
    Home(Place),
    /// Have another program serve, while clients stay: of a server with server.split = true
    /// (docs/upgrade.md). Undone if it does not serve in time.
    Upgrade(UpgradeArgs),
    /// Check a configuration file and say everything that is wrong with it.
    CheckConfig {
        /// The file; without it, the one that serve would use.
        file: Option<PathBuf>,
    },
    /// Print the default configuration file with every key explained.
    Config {
        /// Print the reference page of the documentation instead.
        #[arg(long)]
        markdown: bool,
    },
    /// Manage accounts.
    #[command(subcommand)]
    User(UserCommand),
    /// Keep addresses and accounts out, now and after a restart (docs/security.md).
    #[command(subcommand)]
    Ban(BanCommand),
    /// Let addresses and accounts in whatever is banned; what allowed addresses do is not counted
    /// (docs/security.md).
    #[command(subcommand)]
    Allow(BanCommand),
    /// Say how the running server is.
    Status {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Write all accounts with all that is theirs, all rooms and all nodes as JSON lines
    /// (docs/export-format.md). Holds the keys of passwords: keep it safe.
    Export {
        /// Where to; - is standard output. A file is made readable for its owner only.
        #[arg(long, short, default_value = "-")]
        output: PathBuf,
        #[command(flatten)]
        place: Place,
    },
    /// Read accounts, rooms and nodes from JSON lines (docs/export-format.md). A file with a line
    /// that cannot be taken changes nothing.
    Import {
        /// Where from; - is standard input.
        file: PathBuf,
        /// No progress.
        #[arg(long, short)]
        quiet: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Make many accounts for load tests: u0, u1, … with ring contacts in both directions, and
    /// one salt for all, so that a load client derives one key.
    Provision {
        /// Their domain.
        #[arg(long)]
        domain: String,
        /// How many accounts.
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
        users: u64,
        /// Contacts of each, half on either side of the ring.
        #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1_000))]
        contacts: u64,
        /// The password of all.
        #[arg(long)]
        password: Secret,
        /// No progress.
        #[arg(long, short)]
        quiet: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Write a consistent copy of the data to one file while the server runs. Holds the keys of
    /// passwords: keep it safe. Of a stopped node of a cluster too, if no other one runs, and it
    /// has all that the streams have.
    Backup {
        /// A file that does not exist yet.
        file: PathBuf,
        /// Of a stopped node of a cluster: take what it has, though the engine may have more.
        #[arg(long)]
        as_is: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Make the store of a data folder that has none from a backup: that of a single server, also
    /// if the backup is of a node of a cluster.
    Restore {
        /// The backup.
        file: PathBuf,
        #[command(flatten)]
        place: Place,
    },
    /// Read every value of the store and check that all fits together; the server may run.
    Verify {
        #[command(flatten)]
        place: Place,
    },
    /// Say whether this machine is set up for a number of connections, and what to change.
    Doctor(DoctorArgs),
    /// A cluster: its engine, its nodes (docs/cluster.md).
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Empty a node of a cluster before it is stopped: its homes go to other nodes one by one, and
    /// its clients are asked to come again, spread over the time that is left. Load balancers are
    /// told at once (/readyz). Waits, and says what is left (docs/cluster.md).
    Drain(DrainArgs),
    /// Say at which format level everything is written, in a cluster also which levels each node
    /// knows (docs/versions.md).
    Level(LevelArgs),
    /// Say what the running server does, a line a second (docs/watching.md).
    Sar {
        #[command(flatten)]
        args: SarArgs,
        #[command(flatten)]
        place: Place,
    },
    /// Show what the running server does, kept up to date: arrows and Enter look into a user, q
    /// ends (docs/watching.md).
    Top {
        #[command(flatten)]
        args: TopArgs,
        #[command(flatten)]
        place: Place,
    },
    /// Alarms of the running server (docs/watching.md).
    #[command(subcommand)]
    Alarm(AlarmCommand),
    /// Messages that wait for recipients who cannot be given them (docs/delivery.md).
    #[command(subcommand)]
    Queue(QueueCommand),
    /// Ranges of the accounts, rooms and services, and the shards that they are on
    /// (docs/watching.md).
    #[command(subcommand)]
    Range(RangeCommand),
    /// Rooms (docs/rooms.md).
    #[command(subcommand)]
    Room(RoomCommand),
    /// Nodes of services and of accounts (docs/pubsub.md).
    #[command(subcommand)]
    Pubsub(PubsubCommand),
    /// Say what became of a message, by its stanza-id (XEP-0359).
    Trace {
        /// The id: 16 hexadecimal digits.
        id: String,
        /// The account or room in whose log it has that id: the `by` of the stanza-id. Without it,
        /// all logs are looked at.
        #[arg(long, value_name = "JID")]
        by: Option<String>,
        #[command(flatten)]
        place: Place,
    },
    /// Cause faults on the running server, if its configuration allows it
    /// (docs/reliability.md).
    Chaos {
        #[command(flatten)]
        args: ChaosArgs,
        #[command(flatten)]
        place: Place,
    },
    /// Make friends like real ones (Barabási–Albert) as accounts for `roost import`.
    Graph(flood::GraphArgs),
    /// Put an XMPP server under load and report what it did.
    Flood(flood::Args),
}

/// The format level.
#[derive(Clone, Debug, Args)]
pub(crate) struct LevelArgs {
    /// Write at the newest level that this program knows from now on. Programs that do not know it
    /// cannot take the data up any more: refused while a node of a cluster has one.
    #[arg(long)]
    pub(crate) raise: bool,
    /// Do not wait for this node, which does not live: it has to be upgraded before it comes back.
    /// May be given several times.
    #[arg(long, value_name = "NODE", requires = "raise")]
    pub(crate) without: Vec<String>,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// How to empty a node.
#[derive(Clone, Debug, Args)]
pub(crate) struct DrainArgs {
    /// Time until all clients have been asked to go; homes have half of it.
    #[arg(long, value_name = "TIME", value_parser = drain_time, default_value = "60s")]
    pub(crate) within: Duration,
    /// Have homes and clients again.
    #[arg(long)]
    pub(crate) undo: bool,
    /// Print JSON at the end, and nothing before.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// What is to serve.
#[derive(Clone, Debug, Args)]
pub(crate) struct UpgradeArgs {
    /// The program [default: the one that this command is].
    #[arg(long, value_name = "FILE")]
    pub(crate) binary: Option<PathBuf>,
    /// Time for it to open the store and serve.
    #[arg(long, value_name = "TIME", value_parser = upgrade_time, default_value = "30s")]
    pub(crate) within: Duration,
    /// Also if the program of before could not read what it leaves: nothing is undone then.
    #[arg(long)]
    pub(crate) one_way: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// The longest time for a home to serve: streams wait no longer than half a minute.
const UPGRADE_MAX: Duration = Duration::from_secs(600);

fn upgrade_time(text: &str) -> Result<Duration, String> {
    let given = time(text)?;
    match given <= UPGRADE_MAX {
        true => Ok(given),
        false => Err("at most 10m".to_owned()),
    }
}

/// The longest drain: who needs longer begins another one.
const DRAIN_MAX: Duration = Duration::from_secs(24 * 3_600);

fn drain_time(text: &str) -> Result<Duration, String> {
    let given = time(text)?;
    match given <= DRAIN_MAX {
        true => Ok(given),
        false => Err("at most 24h".to_owned()),
    }
}

/// What can be done to accounts.
#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Make an account.
    Add {
        /// Its address: name@domain.
        jid: String,
        #[command(flatten)]
        password: PasswordSource,
        #[command(flatten)]
        place: Place,
    },
    /// Remove an account with all that is its; its contacts are told.
    Del {
        /// Its address: name@domain.
        jid: String,
        #[command(flatten)]
        place: Place,
    },
    /// Give an account a new password, which ends its sessions.
    Passwd {
        /// Its address: name@domain.
        jid: String,
        #[command(flatten)]
        password: PasswordSource,
        #[command(flatten)]
        place: Place,
    },
    /// Keep an account from logging in, and end its sessions.
    Lock {
        /// Its address: name@domain.
        jid: String,
        #[command(flatten)]
        place: Place,
    },
    /// Let a locked account log in again.
    Unlock {
        /// Its address: name@domain.
        jid: String,
        #[command(flatten)]
        place: Place,
    },
    /// Erase what an account said: in its own archive and in rooms. What others have in their
    /// archives stays.
    Erase {
        /// Its address: name@domain.
        jid: String,
        #[command(flatten)]
        place: Place,
    },
    /// End an account's sessions; its clients may come back.
    Kick {
        /// Its address: name@domain.
        jid: String,
        #[command(flatten)]
        place: Place,
    },
    /// Print the addresses of all accounts, one a line, in no particular order.
    List {
        /// Of this domain only.
        #[arg(long)]
        domain: Option<String>,
        #[command(flatten)]
        place: Place,
    },
}

/// What can be done to a list.
#[derive(Debug, Subcommand)]
pub(crate) enum BanCommand {
    /// Put an address (192.0.2.7), a network (192.0.2.0/24) or an account (name@domain) on it.
    Add {
        /// The address, network or account.
        what: String,
        /// For this long, as in 90s, 10m, 24h, 7d; without it, until it is removed.
        #[arg(long = "for", value_name = "TIME", value_parser = time)]
        time: Option<Duration>,
        /// Why, for whoever reads the list.
        #[arg(long, default_value = "")]
        reason: String,
        #[command(flatten)]
        place: Place,
    },
    /// Take it off.
    Remove {
        /// As it is on the list.
        what: String,
        #[command(flatten)]
        place: Place,
    },
    /// Print the list, an entry a line: what, until when, why.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: Place,
    },
}

fn time(text: &str) -> Result<Duration, String> {
    let time = parse_time(text).filter(|time| !time.is_zero());
    time.ok_or_else(|| "a time is a number with s, m, h or d".to_owned())
}

/// What can be done about rooms.
#[derive(Debug, Subcommand)]
pub(crate) enum RoomCommand {
    /// Print all rooms, one a line.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Print what a room is and who owns it.
    Show {
        /// Its address: name@conference.domain.
        room: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: Place,
    },
    /// End a room for good: its occupants are told, and nothing of it is kept.
    Destroy {
        /// Its address: name@conference.domain.
        room: String,
        /// Why, for its occupants.
        #[arg(long)]
        reason: Option<String>,
        #[command(flatten)]
        place: Place,
    },
}

/// What can be done about nodes.
#[derive(Debug, Subcommand)]
pub(crate) enum PubsubCommand {
    /// Print the nodes, one a line: address, name, how many items and subscriptions, title.
    List {
        /// Of this service or account; without it, of all services.
        #[arg(value_name = "ADDRESS")]
        address: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Print what a node is, who owns it and how it is configured.
    Show {
        #[command(flatten)]
        node: NodePlace,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the items of a node, the oldest first.
    Items {
        #[command(flatten)]
        node: NodePlace,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print who is related to a node: owners, publishers, members, outcasts.
    Affiliations {
        #[command(flatten)]
        node: NodePlace,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print who is subscribed to a node.
    Subscriptions {
        #[command(flatten)]
        node: NodePlace,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Remove all items of a node; its subscribers are told if it is configured so.
    Purge {
        #[command(flatten)]
        node: NodePlace,
    },
    /// End a node for good with all that is in it; its subscribers are told.
    Delete {
        #[command(flatten)]
        node: NodePlace,
    },
}

/// Which node.
#[derive(Debug, Args)]
pub(crate) struct NodePlace {
    /// The service, as pubsub.domain, or the account, as name@domain.
    pub(crate) address: String,
    /// The name of the node.
    pub(crate) node: String,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// What can be done about messages that wait for their recipients' homes.
#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// Print what waits, one recipient of one sender a line.
    List {
        /// Of this sender only.
        #[arg(long, value_name = "JID")]
        sender: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Try again at once, instead of after the next pause.
    Retry {
        /// What this sender sent only.
        #[arg(long, value_name = "JID")]
        sender: Option<String>,
        /// What waits for this recipient only.
        #[arg(long, value_name = "JID")]
        recipient: Option<String>,
        #[command(flatten)]
        place: Place,
    },
    /// Return what waits for a recipient to its sender now, as errors.
    Drop {
        /// Who sent it: name@domain.
        sender: String,
        /// Whom it waits for: name@domain.
        recipient: String,
        #[command(flatten)]
        place: Place,
    },
}

/// What can be done about ranges.
#[derive(Debug, Subcommand)]
pub(crate) enum RangeCommand {
    /// Print which ranges each shard has, one shard a line.
    List {
        /// Print JSON: the shard of each range.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Move a range to another shard while its clients are at work. It stays where it is if
    /// somebody would notice.
    Move {
        /// Its number, from 0; or name@domain, for the range that this account or room is in.
        range: String,
        /// The number of the shard, from 0.
        shard: u16,
        #[command(flatten)]
        place: Place,
    },
}

/// What can be done about alarms.
#[derive(Debug, Subcommand)]
pub(crate) enum AlarmCommand {
    /// Print the alarms that are raised, one a line.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Note that somebody takes care of an alarm, until it is cleared.
    Ack {
        /// Its name.
        name: String,
        #[command(flatten)]
        place: Place,
    },
}

/// Which server.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Place {
    /// Configuration file [default: DATA/roost.toml, ./roost.toml, /etc/roost/roost.toml].
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Data folder, instead of the one that the configuration names [default: ./roost-data].
    #[arg(long, short, value_name = "FOLDER")]
    data: Option<PathBuf>,
}

impl Place {
    /// The same place on another command line.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let one = |name: &str, path: &PathBuf| [name.into(), path.clone().into_os_string()];
        let config = self.config.iter().flat_map(|path| one("--config", path));
        let data = self.data.iter().flat_map(|path| one("--data", path));
        config.chain(data).collect()
    }

    /// The configuration it stands for.
    pub(crate) fn source(&self) -> Source {
        Source {
            config: self.config.clone(),
            data: self.data.clone(),
        }
    }
}

/// Where a password comes from; without either, it is asked for at the terminal.
#[derive(Clone, Debug, Args)]
pub(crate) struct PasswordSource {
    /// The password. Others on this machine can see it in the list of processes: for tests.
    #[arg(long, conflicts_with = "password_file")]
    pub(crate) password: Option<Secret>,
    /// A file whose first line is the password; - is standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_drain_has_a_bounded_time() {
        let parse = |within: &str| {
            let line = ["roost", "drain", "--within", within];
            Cli::try_parse_from(line).is_ok()
        };
        assert!(parse("24h") && parse("1ms") && !parse("25h") && !parse("0s"));
    }

    #[test]
    fn parsed_passwords_are_not_printed() {
        let line = [
            "roost",
            "user",
            "add",
            "a@b",
            "--password",
            "hunter2",
            "--data",
            "d",
        ];
        let parsed = Cli::try_parse_from(line).expect("parsed");
        assert!(!format!("{parsed:?}").contains("hunter2"));
    }
}
