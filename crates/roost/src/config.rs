//! The configuration file: finding it, reading it strictly, and explaining what is wrong with it in
//! terms of the file. Owns checks that involve several keys; single values are `value`, the keys
//! are `table`, their documentation is `document`.

mod components;
mod document;
mod nearest;
mod read;
pub(crate) mod table;
pub(crate) mod value;

use std::fmt;
use std::fs;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use net::LISTENERS_MAX;
use store::limits::{PART_BYTES_MAX, PARTS_MAX};

pub(crate) use components::{ComponentSettings, Place as ComponentPlace};
pub(crate) use document::{default_file, markdown};
pub(crate) use read::Values;
pub(crate) use table::{
    Durability, LimitSettings, LogFormat, LogLevel, Makers, Retention, Settings,
};
use value::Plain;
pub(crate) use value::parse_time;

/// Bytes of a configuration file; a larger one is refused unread.
const FILE_BYTES_MAX: u64 = 1_024 * 1_024;

/// Problems that one report spells out.
const PROBLEMS_MAX: usize = 20;

/// Largest stanza in a cluster, in bytes: half of what one change of an account may take.
const CLUSTER_STANZA_BYTES_MAX: u32 = PARTS_MAX * PART_BYTES_MAX as u32 / 2;

/// Where a system-wide installation keeps its file.
const SYSTEM_FILE: &str = "/etc/roost/roost.toml";

/// Name of the file in the working directory or in a data folder.
const LOCAL_FILE: &str = "roost.toml";

/// The settings in force and where they come from.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// The file, if there is one.
    pub(crate) file: Option<PathBuf>,
    /// Every setting; paths are as they are opened.
    pub(crate) settings: Settings,
    /// Domains that components serve.
    pub(crate) components: Vec<ComponentSettings>,
    /// Every key with its value, to tell what a reload changes.
    resolved: Vec<Resolved>,
}

/// One key and its value.
#[derive(Clone, Debug)]
struct Resolved {
    name: String,
    value: Plain,
    is_live: bool,
    is_given: bool,
}

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigError {
    file: Option<PathBuf>,
    problems: Vec<Problem>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Problem {
    line: Option<usize>,
    message: String,
}

impl Problem {
    fn new(message: impl Into<String>) -> Problem {
        Problem {
            line: None,
            message: message.into(),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().take(PROBLEMS_MAX).enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            match &self.file {
                Some(file) => write!(f, "{}", file.display())?,
                None => f.write_str("configuration")?,
            }
            if let Some(line) = problem.line {
                write!(f, ":{line}")?;
            }
            write!(f, ": {}", problem.message)?;
        }
        match self.problems.len().checked_sub(PROBLEMS_MAX) {
            None | Some(0) => Ok(()),
            Some(more) => write!(f, "\nand {more} more problems"),
        }
    }
}

/// Which configuration a command works with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source {
    /// `--config`.
    pub(crate) config: Option<PathBuf>,
    /// `--data`.
    pub(crate) data: Option<PathBuf>,
}

impl Source {
    /// Reads the configuration: the file of `--config`, else roost.toml in the folder of `--data`.
    /// With neither: ./roost.toml, else the defaults if ./roost-data exists, else the system's
    /// file, else the defaults. `--data` overrides what the file says.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(crate) fn load(&self) -> Result<Config, ConfigError> {
        let file = self.file();
        let mut config = match file {
            Some(file) => Config::read(&file)?,
            None => Config::parse("", None)?,
        };
        if let Some(data) = &self.data {
            config.settings.node.data.clone_from(data);
        }
        Ok(config)
    }

    fn file(&self) -> Option<PathBuf> {
        let existing = |path: PathBuf| path.is_file().then_some(path);
        match (&self.config, &self.data) {
            (Some(file), _) => Some(file.clone()),
            (None, Some(data)) => existing(data.join(LOCAL_FILE)),
            (None, None) => existing(PathBuf::from(LOCAL_FILE)).or_else(|| {
                let is_here = Path::new("roost-data").is_dir();
                (!is_here)
                    .then(|| existing(PathBuf::from(SYSTEM_FILE)))
                    .flatten()
            }),
        }
    }
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(crate) fn read(file: &Path) -> Result<Config, ConfigError> {
        let refuse = |message: String| ConfigError {
            file: Some(file.to_owned()),
            problems: vec![Problem::new(message)],
        };
        let opened = fs::File::open(file).map_err(|e| refuse(format!("cannot be read: {e}")))?;
        let mut text = String::new();
        let length = opened
            .take(FILE_BYTES_MAX + 1)
            .read_to_string(&mut text)
            .map_err(|e| refuse(format!("cannot be read: {e}")))?;
        if length as u64 > FILE_BYTES_MAX {
            return Err(refuse(format!("is larger than {FILE_BYTES_MAX} bytes")));
        }
        Config::parse(&text, Some(file))
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(crate) fn parse(text: &str, file: Option<&Path>) -> Result<Config, ConfigError> {
        let refuse = |problems| ConfigError {
            file: file.map(Path::to_owned),
            problems,
        };
        let mut values = Values::parse(text).map_err(|problem| refuse(vec![problem]))?;
        let settings = Settings::read(&mut values);
        let components = values.components();
        let (resolved, problems) = values.finish();
        let (Some(settings), []) = (settings, problems.as_slice()) else {
            return Err(refuse(problems));
        };
        let mut config = Config {
            file: file.map(Path::to_owned),
            settings,
            components,
            resolved,
        };
        let mut problems = config.contradictions();
        problems.extend(config.component_contradictions());
        if !problems.is_empty() {
            return Err(refuse(problems));
        }
        if let Some(folder) = file.and_then(Path::parent) {
            config.place_paths(folder);
        }
        let components = config.components.iter_mut();
        let read = components.filter_map(|component| component.read_secret().err());
        let problems: Vec<Problem> = read.map(Problem::new).collect();
        match problems.is_empty() {
            true => Ok(config),
            false => Err(refuse(problems)),
        }
    }

    /// Relative paths start at the folder of the file.
    fn place_paths(&mut self, folder: &Path) {
        let node = &mut self.settings.node;
        node.data = folder.join(&node.data);
        let tls = &mut self.settings.tls;
        let web = &mut self.settings.web;
        let cluster = &mut self.settings.cluster;
        let paths = [
            &mut tls.certificate,
            &mut tls.key,
            &mut tls.folder,
            &mut web.folder,
            &mut cluster.certificate,
            &mut cluster.key,
            &mut cluster.ca,
            &mut cluster.engine_ca,
            &mut cluster.engine_certificate,
            &mut cluster.engine_key,
            &mut cluster.engine_credentials,
        ];
        for path in paths {
            *path = path.take().map(|path| folder.join(path));
        }
        let components = self.components.iter_mut();
        components.for_each(|component| component.place_paths(folder));
    }

    /// What is wrong with keys together that are right by themselves.
    fn contradictions(&self) -> Vec<Problem> {
        let Settings {
            node,
            c2s,
            tls,
            auth,
            limits,
            rooms,
            pubsub,
            ..
        } = &self.settings;
        let mut problems = Vec::new();
        let mut refuse = |message: String| problems.push(Problem::new(message));
        for (index, domain) in node.domains.iter().enumerate() {
            if *domain == node.domain || node.domains[..index].contains(domain) {
                refuse(format!(
                    "domain {domain} is given twice: remove one from `domains`"
                ));
            }
        }
        let own = self.domains();
        let search_host = &rooms.search_host;
        for host in self.room_hosts().iter().filter(|host| own.contains(host)) {
            refuse(format!(
                "{host} is a domain of accounts: give rooms another `rooms.host` than {}",
                rooms.host
            ));
        }
        let rooms = self.room_hosts();
        let mut nodes = self.pubsub_hosts().into_iter();
        if let Some(host) = nodes.find(|host| own.contains(host) || rooms.contains(host)) {
            refuse(format!(
                "{host} is a domain of accounts or rooms: give nodes another `pubsub.host` than {}",
                pubsub.host
            ));
        }
        let nodes = self.pubsub_hosts();
        let is_taken = |host: &String| {
            own.contains(host) || self.room_hosts().contains(host) || nodes.contains(host)
        };
        let mut searches = self.search_hosts();
        searches.extend(self.directory_hosts());
        if let Some(host) = searches.iter().find(|host| is_taken(host)) {
            refuse(format!(
                "{host} is a domain of accounts, rooms or nodes: give searches another \
                 `rooms.search_host` than {search_host}"
            ));
        }
        match (&tls.certificate, &tls.key) {
            (Some(_), None) => refuse("`tls.certificate` needs `tls.key` beside it".to_owned()),
            (None, Some(_)) => refuse("`tls.key` needs `tls.certificate` beside it".to_owned()),
            _ => {}
        }
        let addresses = self.client_addresses();
        for (index, address) in addresses.iter().enumerate() {
            if address.port() != 0 && addresses[..index].contains(address) {
                refuse(format!(
                    "{address} is given twice: a port has one kind of connection"
                ));
            }
        }
        let shared = |at: usize| {
            let place = &self.components[at].place;
            self.components[..at].iter().any(|one| one.place == *place)
        };
        let of_components = (0..self.components.len()).filter(|at| !shared(*at));
        let places = addresses.len() + of_components.count();
        if places > LISTENERS_MAX {
            refuse(format!(
                "`c2s.listen`, `c2s.listen_tls`, `http.listen`, `http.listen_tls` and components \
                 have {places} places to listen at: there may be {LISTENERS_MAX}"
            ));
        }
        let needs_tls = |mechanism: &String| {
            mechanism.ends_with("-PLUS") || (mechanism == "PLAIN" && !auth.plain_without_tls)
        };
        if !c2s.require_tls && !c2s.listen.is_empty() && auth.mechanisms.iter().all(needs_tls) {
            let message = "with `c2s.require_tls = false` there must be a mechanism in \
                           `auth.mechanisms` that works without TLS, such as SCRAM-SHA-256";
            refuse(message.to_owned());
        }
        if limits.backlog_bytes_max < u64::from(limits.stanza_bytes_max) {
            let message = "`limits.backlog_bytes_max` must be at least `limits.stanza_bytes_max`: \
                           otherwise nobody could receive the largest stanza";
            refuse(message.to_owned());
        }
        problems.extend(self.cluster_contradictions());
        for (module, needed) in crate::node::modules_off(self) {
            let name = format!("modules.{module}");
            if let Some(needed) = needed.filter(|_| self.is_given(&name) && !self.is_off(&name)) {
                problems.push(Problem::new(format!(
                    "`{name}` needs `modules.{needed}`, which is off"
                )));
            }
        }
        problems
    }

    /// Where clients are listened for, in every way.
    fn client_addresses(&self) -> Vec<&SocketAddr> {
        let Settings { c2s, http, .. } = &self.settings;
        let xmpp = c2s.listen.iter().chain(&c2s.listen_tls);
        xmpp.chain(&http.listen).chain(&http.listen_tls).collect()
    }

    /// The same for components.
    fn component_contradictions(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut refuse = |message: String| problems.push(Problem::new(message));
        let others = [
            self.domains(),
            self.room_hosts(),
            self.pubsub_hosts(),
            self.search_hosts(),
            self.directory_hosts(),
        ];
        let others = others.concat();
        let clients = self.client_addresses();
        for (at, component) in self.components.iter().enumerate() {
            let domain = &component.domain;
            if others.contains(domain) {
                refuse(format!(
                    "{domain} is served by the server itself: a component needs another domain"
                ));
            }
            if self.components[..at]
                .iter()
                .any(|other| other.domain == *domain)
            {
                refuse(format!(
                    "[[components]] with the domain {domain} is given twice"
                ));
            }
            if let ComponentPlace::Address(address) = &component.place
                && address.port() != 0
                && clients.contains(&address)
            {
                refuse(format!(
                    "{address} is given twice: a port has one kind of connection"
                ));
            }
        }
        if !self.components.is_empty() && (self.is_clustered() || self.settings.server.split) {
            let message = "[[components]] are for a server that is one process and stands alone: \
                           they cannot be had with `cluster.engine` or `server.split`";
            refuse(message.to_owned());
        }
        problems
    }

    /// The same for section [cluster].
    fn cluster_contradictions(&self) -> Vec<Problem> {
        let Settings {
            cluster,
            chaos,
            debug,
            ..
        } = &self.settings;
        let mut problems = Vec::new();
        if !self.is_clustered() {
            return problems;
        }
        let mut refuse = |message: String| problems.push(Problem::new(message));
        let is_name = |name: &str| {
            let is_good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            name.len() <= 32 && name.chars().all(is_good)
        };
        match &cluster.name {
            None => {
                refuse("`cluster.engine` needs `cluster.name`: what this node is called".into());
            }
            Some(name) if !is_name(name) => refuse(format!(
                "`cluster.name` {name:?} is no name: 1 to 32 letters, digits, - or _"
            )),
            Some(_) => {}
        }
        if self.settings.server.split {
            refuse(
                "`server.split` is for a server that stands alone: in a cluster, nodes are \
                 upgraded one after the other (docs/cluster.md)"
                    .into(),
            );
        }
        let stanza_bytes = self.settings.limits.stanza_bytes_max;
        if stanza_bytes > CLUSTER_STANZA_BYTES_MAX {
            refuse(format!(
                "`limits.stanza_bytes_max` is at most {CLUSTER_STANZA_BYTES_MAX} in a cluster: one \
                 change of an account has to fit into the stream, not {stanza_bytes}"
            ));
        }
        if cluster.monitor.is_empty() {
            let message = "`cluster.engine` needs `cluster.monitor`: the monitoring port of each \
                           of its servers, which alone says whether that server syncs";
            refuse(message.to_owned());
        }
        if let Err(why) = crate::node::layout(self) {
            refuse(format!("`cluster.deployment` or `cluster.streams`: {why}"));
        }
        let is_engine = |one: &&String| !one.starts_with("nats://") && !one.starts_with("tls://");
        for one in cluster.engine.iter().filter(is_engine) {
            refuse(format!(
                "`cluster.engine` {one:?} is no server: write nats://host:4222, or tls://"
            ));
        }
        if cluster.engine_certificate.is_some() != cluster.engine_key.is_some() {
            let message = "`cluster.engine_certificate` and `cluster.engine_key` belong together: \
                           give both, or none";
            refuse(message.to_owned());
        }
        let has_user = cluster.engine.iter().any(|one| one.contains('@'));
        if has_user && cluster.engine_credentials.is_some() {
            let message = "`cluster.engine_credentials` says who this node is: leave the user \
                           before the host out of `cluster.engine`";
            refuse(message.to_owned());
        }
        if chaos.enabled || !debug.commit_delay.is_zero() {
            let message = "`chaos.enabled` and `debug.commit_delay` disturb a journal that stands \
                           alone: switch them off in a cluster";
            refuse(message.to_owned());
        }
        problems.extend(self.link_contradictions());
        problems
    }

    /// The same for links between nodes.
    fn link_contradictions(&self) -> Vec<Problem> {
        let cluster = &self.settings.cluster;
        let mut problems = Vec::new();
        let mut refuse = |message: String| problems.push(Problem::new(message));
        let listen = cluster.listen;
        let files = [&cluster.certificate, &cluster.key, &cluster.ca];
        let given = files.iter().filter(|file| file.is_some()).count();
        if given != 0 && given != files.len() {
            let message = "`cluster.certificate`, `cluster.key` and `cluster.ca` belong together: \
                           give all three, or none";
            refuse(message.to_owned());
        }
        if given == 0 && !listen.ip().is_loopback() {
            refuse(format!(
                "`cluster.listen` {listen}: without `cluster.certificate`, `cluster.key` and \
                 `cluster.ca` links are not encrypted, and only a loopback address is accepted, \
                 such as 127.0.0.1:5290; `roost cluster certificates` makes the files"
            ));
        }
        let name = cluster.name.as_deref().unwrap_or_default();
        if given != 0 && !cluster::link::is_certifiable(name) {
            refuse(format!(
                "`cluster.name` {name:?} cannot be in a certificate: with `cluster.certificate` it \
                 is of small letters, digits, - and _, has a letter, and does not begin or end \
                 with -"
            ));
        }
        if listen.port() == 0 {
            refuse("`cluster.listen` needs a port: other nodes must know it".to_owned());
        }
        match &cluster.address {
            None if listen.ip().is_unspecified() => refuse(format!(
                "`cluster.listen` {listen} names every address: say in `cluster.address` where \
                 other nodes reach this one, such as \"a.example.org:{}\"",
                listen.port()
            )),
            Some(address) if !is_place(address) => refuse(format!(
                "`cluster.address` {address:?} is no host with a port, such as a.example.org:5290"
            )),
            _ => {}
        }
        problems
    }

    /// Whether this is a node of a cluster.
    pub(crate) fn is_clustered(&self) -> bool {
        !self.settings.cluster.engine.is_empty()
    }

    /// What an operator should know about a configuration that is valid, a sentence each.
    pub(crate) fn notes(&self) -> Vec<String> {
        let Settings {
            c2s,
            auth,
            store,
            chaos,
            debug,
            ..
        } = &self.settings;
        let mut notes = Vec::new();
        if c2s.listen.is_empty() && c2s.listen_tls.is_empty() {
            notes.push("no client can connect: c2s.listen and c2s.listen_tls are empty".into());
        }
        if !c2s.require_tls && c2s.listen.iter().any(|address| !address.ip().is_loopback()) {
            notes.push("clients may log in without TLS: c2s.require_tls is false".into());
        }
        if auth.plain_without_tls {
            notes.push("passwords may travel unencrypted: auth.plain_without_tls is true".into());
        }
        if store.durability == Durability::Memory && !self.is_clustered() {
            let note = "accepted messages may be lost with the machine: store.durability is memory";
            notes.push(note.into());
        }
        for component in &self.components {
            if let ComponentPlace::Address(address) = &component.place
                && !address.ip().is_loopback()
            {
                notes.push(format!(
                    "the stream of component {} is not encrypted: it comes to {address}",
                    component.domain
                ));
            }
        }
        for (module, needed) in crate::node::modules_off(self) {
            if let Some(needed) = needed {
                notes.push(format!(
                    "modules.{module} is off too: it needs modules.{needed}"
                ));
            }
        }
        if !self.is_clustered() && self.is_given("cluster.name") {
            notes.push("section [cluster] does nothing: cluster.engine is empty".into());
        }
        if chaos.enabled {
            notes.push("roost chaos may cause faults: chaos.enabled is true".into());
        }
        if debug.panic_hook.is_some()
            || !debug.crash_after.is_zero()
            || !debug.commit_delay.is_zero()
            || !debug.read_delay.is_zero()
            || debug.messages_as_bytes
            || debug.move_sockets
        {
            notes.push("section [debug] is in use: this is a server for tests".into());
        }
        notes
    }

    /// All domains, the default one first.
    pub(crate) fn domains(&self) -> Vec<String> {
        let node = &self.settings.node;
        std::iter::once(&node.domain)
            .chain(&node.domains)
            .cloned()
            .collect()
    }

    /// The domains of rooms; none without rooms.
    pub(crate) fn room_hosts(&self) -> Vec<String> {
        let rooms = &self.settings.rooms;
        self.hosts(rooms.enabled, &rooms.host)
    }

    /// The addresses of the directory; none without one.
    pub(crate) fn directory_hosts(&self) -> Vec<String> {
        let settings = &self.settings;
        self.hosts(settings.directory.enabled, &settings.rooms.search_host)
    }

    /// The addresses at which rooms are searched; none without rooms.
    pub(crate) fn search_hosts(&self) -> Vec<String> {
        let rooms = &self.settings.rooms;
        self.hosts(rooms.enabled && rooms.search, &rooms.search_host)
    }

    /// The addresses of services with nodes; none without them.
    pub(crate) fn pubsub_hosts(&self) -> Vec<String> {
        let pubsub = &self.settings.pubsub;
        self.hosts(pubsub.enabled, &pubsub.host)
    }

    /// What is in front of every domain.
    fn hosts(&self, is_enabled: bool, host: &str) -> Vec<String> {
        let domains = self.domains().into_iter().filter(|_| is_enabled);
        domains.map(|domain| format!("{host}.{domain}")).collect()
    }

    /// Whether the file says something about this key (`section.key`).
    pub(crate) fn is_given(&self, name: &str) -> bool {
        self.resolved
            .iter()
            .any(|key| key.name == name && key.is_given)
    }

    /// Names of the extensions that the file switches off.
    pub(crate) fn switched_off(&self) -> impl Iterator<Item = &str> {
        let off = self.resolved.iter().filter(|key| self.is_off(&key.name));
        off.filter_map(|key| key.name.strip_prefix("modules."))
    }

    fn is_off(&self, name: &str) -> bool {
        let mut keys = self.resolved.iter();
        keys.any(|key| key.name == name && key.value == Plain::Switch(false))
    }

    /// Takes over the values of `new` that a running server has applied.
    pub(crate) fn accept_live(&mut self, new: &Config) {
        for (old, new) in self.resolved.iter_mut().zip(&new.resolved) {
            if new.is_live {
                old.value = new.value.clone();
            }
        }
    }

    /// The keys whose values differ in `new`, as lines for the log: those that a running server
    /// takes over, and those that take a restart.
    pub(crate) fn changes(&self, new: &Config) -> (Vec<String>, Vec<String>) {
        let (mut live, mut later) = (Vec::new(), Vec::new());
        for (old, new) in self.resolved.iter().zip(&new.resolved) {
            if old.value != new.value {
                let line = format!(
                    "{} = {} (was {})",
                    new.name,
                    new.value.toml(),
                    old.value.toml()
                );
                if new.is_live { &mut live } else { &mut later }.push(line);
            }
        }
        if self.components != new.components {
            later.push("[[components]] are others".to_owned());
        }
        (live, later)
    }
}

/// Whether a text is a host and a port.
fn is_place(text: &str) -> bool {
    let parts = text.rsplit_once(':');
    parts.is_some_and(|(host, port)| {
        !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0)
    })
}

#[cfg(test)]
mod tests;
