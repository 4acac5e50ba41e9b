//! The format of conversation scripts (`tests/scripts/*.xmpp`): text in, a play out.
//!
//! ```text
//! # One sentence: the rule that this play shows.
//! # RFC 6121 section 2.1.6
//!
//! [client] romeo  romeo@localhost/orchard
//! [client] juliet juliet@localhost/balcony mechanism=SCRAM-SHA-1
//!
//! romeo is online
//! romeo sends:
//!     <iq type='get' id='1'/>
//! romeo receives:
//!     <iq type='result' id='1' .../>
//! ```
//!
//! Further headers: `[room] coven@conference.localhost` names a room that only this play uses, and
//! `[node] musings` a node of a service (a word that means nothing else in the play),
//! `[server] KEY = VALUE` sets a configuration key of a server for this play (and for others with
//! the same set), `[transports] tcp starttls tls ws wss bosh` restricts where the play runs.
//! [`Verb`] lists what can happen. It does not run anything: see [`crate::play`].

use crate::transport::Kind;
use std::collections::BTreeSet;
use std::time::Duration;

/// A whole script.
#[derive(Clone, Debug)]
pub struct Script {
    /// The file name without its extension.
    pub name: String,
    /// The header comment: the rule and where it is written.
    pub goal: String,
    /// Who takes part.
    pub actors: Vec<Actor>,
    /// Addresses of rooms that are this play's own.
    pub rooms: Vec<String>,
    /// Names of nodes that are this play's own.
    pub nodes: Vec<String>,
    /// Configuration lines `key = value` that the play needs, sorted; empty for the usual server.
    pub server: BTreeSet<String>,
    /// Where the play runs.
    pub transports: Vec<Kind>,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// One connection to be.
#[derive(Clone, Debug)]
pub struct Actor {
    /// The name that the steps use.
    pub name: String,
    /// Local part of the address.
    pub user: String,
    /// Domain of the address.
    pub domain: String,
    /// Resource to ask for; `None` lets the server choose.
    pub resource: Option<String>,
    /// A password other than the account's own.
    pub password: Option<String>,
    /// A mechanism other than the strongest offered.
    pub mechanism: Option<String>,
    /// An authorization identity to ask for.
    pub authzid: Option<String>,
    /// Whether the account exists.
    pub has_account: bool,
}

/// One line of a play.
#[derive(Clone, Debug)]
pub struct Step {
    /// Line number in the file, from 1.
    pub line: usize,
    /// What happens.
    pub verb: Verb,
}

/// How much of a login an actor goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// `opens a connection`: a socket, under TLS if the transport is direct TLS.
    Socket,
    /// `opens a stream`: header and features read, STARTTLS done; nobody is authenticated.
    Stream,
    /// `authenticates`: SASL done and features read again; no resource is bound.
    Authenticated,
    /// `connects`: a resource is bound; no presence was sent.
    Bound,
    /// `is online`: the roster was fetched, presence was sent and came back.
    Online,
}

/// What can happen in a play; the first name is the actor's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `romeo connects`, and the other stages.
    Enters(String, Stage),
    /// `romeo sends:` the block as it stands.
    Sends(String, String),
    /// `romeo trickles:` the block, a byte at a time.
    Trickles(String, String),
    /// `romeo receives:` these elements and nothing in between.
    Receives(String, String),
    /// `romeo receives in any order:` these elements.
    ReceivesUnordered(String, String),
    /// `romeo receives header:` the start tag of the server's stream, written as an empty element.
    ReceivesHeader(String, String),
    /// `romeo receives nothing` for a moment.
    ReceivesNothing(String),
    /// `romeo receives stream error <a/> or <b/>`, and then the stream is closed.
    ReceivesStreamError(String, Vec<String>),
    /// `romeo fails to log in with <a/> or <b/>`.
    FailsToLogIn(String, Vec<String>),
    /// `romeo is closed` by the server without a stream error.
    IsClosed(String),
    /// `romeo disconnects`: closes the stream and waits for the server to close it too.
    Disconnects(String),
    /// `romeo drops link`: the socket is gone without a word.
    DropsLink(String),
    /// `romeo ignores presence` from now on.
    IgnoresPresence(String),
    /// `romeo ignores ack requests` from now on (XEP-0198 section 4).
    IgnoresAckRequests(String),
    /// `romeo hears of NODE NODE`: sends presence whose capabilities say so (XEP-0115), with a hash
    /// that no client had before, and tells the server what it is the hash of.
    HearsOf(String, Vec<String>),
    /// `romeo negotiates TLS`: the handshake after `<proceed/>`.
    NegotiatesTls(String),
    /// `romeo and juliet are contacts`, in both directions.
    AreContacts(String, String),
    /// `romeo is subscribed to juliet`, in that direction only.
    IsSubscribedTo(String, String),
    /// `operator runs: user kick romeo@localhost`, which must succeed.
    OperatorRuns(String),
    /// `server stops`: it is told to, and nobody waits until it has.
    ServerStops,
    /// `server restarts`, after an orderly stop.
    ServerRestarts,
    /// `server is killed` without warning and started again.
    ServerIsKilled,
    /// `pause 200 ms`.
    Pause(Duration),
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// Names the line and what is wrong with it.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut script = Self {
            name: name.to_owned(),
            goal: String::new(),
            actors: Vec::new(),
            rooms: Vec::new(),
            nodes: Vec::new(),
            server: BTreeSet::new(),
            transports: Kind::ALL.to_vec(),
            steps: Vec::new(),
        };
        let lines: Vec<&str> = text.lines().collect();
        let mut at = 0;
        while at < lines.len() {
            let line = lines[at].trim_end();
            let number = at + 1;
            at += 1;
            let wrong = |why: String| format!("{name}.xmpp:{number}: {why}");
            if line.is_empty() {
                continue;
            }
            if let Some(comment) = line.strip_prefix('#') {
                if script.steps.is_empty() {
                    script.goal.push_str(comment.trim());
                    script.goal.push('\n');
                }
                continue;
            }
            if line.starts_with([' ', '\t']) {
                return Err(wrong(
                    "an indented line belongs under a line that ends in ':'".into(),
                ));
            }
            if line.starts_with('[') {
                script.header(line).map_err(wrong)?;
                continue;
            }
            let block = line.ends_with(':').then(|| block(&lines, &mut at));
            let verb = verb(line, block).map_err(wrong)?;
            script.steps.push(Step { line: number, verb });
        }
        script.check()?;
        Ok(script)
    }

    fn header(&mut self, line: &str) -> Result<(), String> {
        let (kind, rest) = line[1..].split_once(']').ok_or("no ']'")?;
        match kind {
            "client" => self.actors.push(actor(rest)?),
            "room" => {
                let room = rest.trim();
                room.split_once('@').ok_or("the address has no '@'")?;
                self.rooms.push(room.to_owned());
            }
            "node" => self.nodes.push(rest.trim().to_owned()),
            "server" => {
                self.server.insert(rest.trim().to_owned());
            }
            "transports" => {
                self.transports = rest
                    .split_whitespace()
                    .map(|word| Kind::from_name(word).ok_or(format!("no transport {word}")))
                    .collect::<Result<_, _>>()?;
            }
            other => return Err(format!("no header [{other}]")),
        }
        Ok(())
    }

    /// Holds what every script owes its reader: a goal, a source, actors that exist.
    fn check(&self) -> Result<(), String> {
        let name = &self.name;
        if !["RFC ", "XEP-", "XML "]
            .iter()
            .any(|source| self.goal.contains(source))
        {
            return Err(format!(
                "{name}.xmpp: the header names no RFC or XEP section"
            ));
        }
        if self.steps.is_empty() {
            return Err(format!("{name}.xmpp: nothing happens"));
        }
        for step in &self.steps {
            for who in step.verb.actors() {
                if !self.actors.iter().any(|actor| actor.name == who) {
                    return Err(format!("{name}.xmpp:{}: who is {who}?", step.line));
                }
            }
        }
        Ok(())
    }
}

impl Verb {
    /// The names of the actors that the step needs.
    #[must_use]
    pub fn actors(&self) -> Vec<&str> {
        match self {
            Self::Enters(a, _)
            | Self::Sends(a, _)
            | Self::Trickles(a, _)
            | Self::Receives(a, _)
            | Self::ReceivesUnordered(a, _)
            | Self::ReceivesHeader(a, _)
            | Self::ReceivesNothing(a)
            | Self::ReceivesStreamError(a, _)
            | Self::FailsToLogIn(a, _)
            | Self::IsClosed(a)
            | Self::Disconnects(a)
            | Self::DropsLink(a)
            | Self::IgnoresPresence(a)
            | Self::IgnoresAckRequests(a)
            | Self::HearsOf(a, _)
            | Self::NegotiatesTls(a) => vec![a],
            Self::AreContacts(a, b) | Self::IsSubscribedTo(a, b) => vec![a, b],
            Self::OperatorRuns(_)
            | Self::ServerStops
            | Self::ServerRestarts
            | Self::ServerIsKilled
            | Self::Pause(_) => Vec::new(),
        }
    }
}

/// The indented lines from `at` on, without their common indentation and trailing blank lines.
fn block(lines: &[&str], at: &mut usize) -> String {
    let start = *at;
    while *at < lines.len() && (lines[*at].trim().is_empty() || lines[*at].starts_with([' ', '\t']))
    {
        *at += 1;
    }
    let body = &lines[start..*at];
    let indent = body
        .iter()
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.len() - line.trim_start().len())
        .min()
        .unwrap_or(0);
    let text: Vec<&str> = body
        .iter()
        .map(|line| line.get(indent..).unwrap_or(""))
        .collect();
    text.join("\n").trim_end().to_owned()
}

fn actor(rest: &str) -> Result<Actor, String> {
    let mut words = rest.split_whitespace();
    let name = words.next().ok_or("the client has no name")?;
    let address = words.next().ok_or("the client has no address")?;
    let (bare, resource) = match address.split_once('/') {
        Some((bare, resource)) => (bare, Some(resource.to_owned())),
        None => (address, None),
    };
    let (user, domain) = bare.split_once('@').ok_or("the address has no '@'")?;
    let mut actor = Actor {
        name: name.to_owned(),
        user: user.to_owned(),
        domain: domain.to_owned(),
        resource,
        password: None,
        mechanism: None,
        authzid: None,
        has_account: true,
    };
    for word in words {
        match word.split_once('=') {
            Some(("password", value)) => actor.password = Some(value.to_owned()),
            Some(("mechanism", value)) => actor.mechanism = Some(value.to_owned()),
            Some(("authzid", value)) => actor.authzid = Some(value.to_owned()),
            None if word == "no-account" => actor.has_account = false,
            _ => return Err(format!("a client has no option {word}")),
        }
    }
    Ok(actor)
}

fn verb(line: &str, block: Option<String>) -> Result<Verb, String> {
    if let Some(command) = line.strip_prefix("operator runs: ") {
        return Ok(Verb::OperatorRuns(command.trim().to_owned()));
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let name = words[0].to_owned();
    let tail = words[1..].join(" ");
    if let Some(block) = block {
        if block.is_empty() {
            return Err(format!("nothing is indented under '{line}'"));
        }
        return match tail.as_str() {
            "sends:" => Ok(Verb::Sends(name, block)),
            "trickles:" => Ok(Verb::Trickles(name, block)),
            "receives:" => Ok(Verb::Receives(name, block)),
            "receives in any order:" => Ok(Verb::ReceivesUnordered(name, block)),
            "receives header:" => Ok(Verb::ReceivesHeader(name, block)),
            _ => Err(format!("nobody can '{tail}'")),
        };
    }
    if let Some(rest) = tail.strip_prefix("receives stream error ") {
        return Ok(Verb::ReceivesStreamError(name, conditions(rest)?));
    }
    if let Some(rest) = tail.strip_prefix("fails to log in with ") {
        return Ok(Verb::FailsToLogIn(name, conditions(rest)?));
    }
    match (words.as_slice(), tail.as_str()) {
        ([a, "and", b, "are", "contacts"], _) => {
            Ok(Verb::AreContacts((*a).to_owned(), (*b).to_owned()))
        }
        ([a, "is", "subscribed", "to", b], _) => {
            Ok(Verb::IsSubscribedTo((*a).to_owned(), (*b).to_owned()))
        }
        ([_, "hears", "of", nodes @ ..], _) if !nodes.is_empty() => {
            let nodes = nodes.iter().map(|node| (*node).to_owned());
            Ok(Verb::HearsOf(name, nodes.collect()))
        }
        (["pause", number, "ms"], _) => number
            .parse()
            .map(|ms| Verb::Pause(Duration::from_millis(ms)))
            .map_err(|_| format!("{number} is not a number")),
        (["server", ..], "stops") => Ok(Verb::ServerStops),
        (["server", ..], "restarts") => Ok(Verb::ServerRestarts),
        (["server", ..], "is killed") => Ok(Verb::ServerIsKilled),
        (_, "opens a connection") => Ok(Verb::Enters(name, Stage::Socket)),
        (_, "opens a stream") => Ok(Verb::Enters(name, Stage::Stream)),
        (_, "authenticates") => Ok(Verb::Enters(name, Stage::Authenticated)),
        (_, "connects") => Ok(Verb::Enters(name, Stage::Bound)),
        (_, "is online") => Ok(Verb::Enters(name, Stage::Online)),
        (_, "receives nothing") => Ok(Verb::ReceivesNothing(name)),
        (_, "is closed") => Ok(Verb::IsClosed(name)),
        (_, "disconnects") => Ok(Verb::Disconnects(name)),
        (_, "drops link") => Ok(Verb::DropsLink(name)),
        (_, "ignores presence") => Ok(Verb::IgnoresPresence(name)),
        (_, "ignores ack requests") => Ok(Verb::IgnoresAckRequests(name)),
        (_, "negotiates TLS") => Ok(Verb::NegotiatesTls(name)),
        _ => Err(format!("cannot read '{line}'")),
    }
}

fn conditions(text: &str) -> Result<Vec<String>, String> {
    let one = |word: &str| {
        let name = word
            .trim()
            .strip_prefix('<')
            .and_then(|rest| rest.strip_suffix("/>"));
        name.map(str::to_owned)
            .ok_or(format!("'{word}' is not of the form <condition/>"))
    };
    text.split(" or ").map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "# A rule.\n# RFC 6121 section 1\n\n\
        [client] romeo romeo@localhost/orchard mechanism=PLAIN\n\
        [client] juliet juliet@localhost\n[transports] tls\n\n\
        romeo and juliet are contacts\nromeo sends:\n    <a>\n      <b/>\n    </a>\n\n    <c/>\n\
        \njuliet receives stream error <x/> or <y/>\npause 20 ms\n";

    #[test]
    fn a_sample_is_read_in_full() {
        let script = Script::parse("sample", SAMPLE).unwrap();
        assert_eq!(script.goal, "A rule.\nRFC 6121 section 1\n");
        assert_eq!(script.actors[0].mechanism.as_deref(), Some("PLAIN"));
        assert_eq!(script.actors[1].resource, None);
        assert_eq!(script.transports, [Kind::DirectTls]);
        let verbs: Vec<_> = script.steps.iter().map(|step| step.verb.clone()).collect();
        let expected = [
            Verb::AreContacts("romeo".into(), "juliet".into()),
            Verb::Sends("romeo".into(), "<a>\n  <b/>\n</a>\n\n<c/>".into()),
            Verb::ReceivesStreamError("juliet".into(), vec!["x".into(), "y".into()]),
            Verb::Pause(Duration::from_millis(20)),
        ];
        assert_eq!(verbs, expected);
        assert_eq!(script.steps[2].line, 16);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let rows = [
            (
                "# RFC 1\n[client] a a@b\na sings\n",
                "x.xmpp:3: cannot read 'a sings'",
            ),
            (
                "# RFC 1\n[client] a a@b\na sends:\n",
                "x.xmpp:3: nothing is indented",
            ),
            (
                "# RFC 1\n[client] a a@b\nb connects\n",
                "x.xmpp:3: who is b?",
            ),
            ("[client] a a@b\na connects\n", "names no RFC or XEP"),
            ("# RFC 1\n[actor] a\n", "x.xmpp:2: no header [actor]"),
            ("# RFC 1\n  <a/>\n", "x.xmpp:2: an indented line"),
            ("# RFC 1\n[client] a a@b\n", "nothing happens"),
        ];
        for (text, message) in rows {
            let error = Script::parse("x", text).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
    }
}
