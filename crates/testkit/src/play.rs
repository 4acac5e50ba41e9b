//! Plays a script: one thread, one connection per actor, one step after the other.
//!
//! Accounts, rooms and nodes are renamed from `romeo` to `romeo.KEY`, so that plays share a server
//! and run side by side. Scripts never see it: names are changed in what they send and expect, and
//! back again in what a failure shows.

use crate::client::{Address, Client, Got, Identity, describe};
use crate::pattern::{self, Bindings};
use crate::roost::Account;
use crate::scram::Login;
use crate::script::{Actor, Script, Stage, Step, Verb};
use crate::transport::Kind;
use crate::tree::{Element, NS_STREAMS, escape};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

/// How often a fixture looks whether a roster has changed.
const POLL: Duration = Duration::from_millis(15);
const NS_STREAM_MANAGEMENT: &str = "urn:xmpp:sm:3";
/// The pause between two bytes that trickle.
const TRICKLE: Duration = Duration::from_micros(300);

/// What a play needs of the server it runs against.
pub trait House: Sync {
    /// Where it listens.
    fn address(&self) -> Address;
    /// Runs an operator's command, words split at blanks.
    ///
    /// # Errors
    /// It failed, or this server has no operator.
    fn operate(&self, command: &str) -> Result<(), String>;
    /// Tells the server to stop, and does not wait for it.
    ///
    /// # Errors
    /// It failed, or this server is not ours to stop.
    fn stop(&self) -> Result<(), String>;
    /// Stops the server (without warning if `is_killed`) and starts it again.
    ///
    /// # Errors
    /// It failed, or this server is not ours to restart.
    fn restart(&self, is_killed: bool) -> Result<(), String>;
}

/// The circumstances of one performance.
#[derive(Clone, Debug)]
pub struct Setting {
    /// How the actors connect.
    pub kind: Kind,
    /// What tells this performance's accounts from others'.
    pub key: String,
    /// How long an answer may take.
    pub patience: Duration,
    /// How long silence must last to count as `receives nothing`.
    pub silence: Duration,
}

/// The accounts that a performance needs.
#[must_use]
pub fn accounts(script: &Script, key: &str) -> Vec<Account> {
    let mut all: Vec<Account> = script
        .actors
        .iter()
        .filter(|actor| actor.has_account)
        .map(|actor| Account {
            jid: format!("{}@{}", renamed(&actor.user, key), actor.domain),
            password: password(actor),
        })
        .collect();
    all.sort();
    all.dedup();
    all
}

fn renamed(user: &str, key: &str) -> String {
    format!("{user}.{key}")
}

fn password(actor: &Actor) -> String {
    format!("{}'s secret", actor.user)
}

/// Plays a script to its end.
///
/// # Errors
/// Names the file and line of the step that failed, with what was expected, what came instead, and
/// the latest of what each actor saw and said.
pub fn perform(script: &Script, setting: &Setting, stage: &dyn House) -> Result<(), String> {
    let mut play = Play::new(script, setting, stage);
    for step in &script.steps {
        if let Err(why) = play.step(&step.verb) {
            return Err(play.report(step, &why));
        }
    }
    let last = script.steps.last().ok_or("nothing happens")?;
    play.curtain().map_err(|why| play.report(last, &why))
}

struct Play<'a> {
    script: &'a Script,
    setting: &'a Setting,
    stage: &'a dyn House,
    names: Vec<(String, String)>,
    bindings: Bindings,
    cast: BTreeMap<String, Role>,
}

#[derive(Default)]
struct Role {
    client: Option<Client>,
    ignores_presence: bool,
    ignores_ack_requests: bool,
}

impl<'a> Play<'a> {
    fn new(script: &'a Script, setting: &'a Setting, stage: &'a dyn House) -> Self {
        let mut names = Vec::new();
        let mut bindings = Bindings::new();
        let mut cast = BTreeMap::new();
        for actor in &script.actors {
            let user = renamed(&actor.user, &setting.key);
            let bare = format!("{user}@{}", actor.domain);
            names.push((format!("{}@{}", actor.user, actor.domain), bare.clone()));
            bindings.insert(format!("{}.user", actor.name), user.clone());
            bindings.insert(format!("{}.bare", actor.name), bare.clone());
            bindings.insert(format!("{}.BARE", actor.name), bare.to_uppercase());
            bindings.insert(format!("{}.password", actor.name), password(actor));
            if let Some(resource) = &actor.resource {
                bindings.insert(format!("{}.full", actor.name), format!("{bare}/{resource}"));
            }
            cast.insert(actor.name.clone(), Role::default());
        }
        for room in &script.rooms {
            if let Some((local, domain)) = room.split_once('@') {
                let own = format!("{}@{domain}", renamed(local, &setting.key));
                names.push((room.clone(), own));
            }
        }
        let nodes = script.nodes.iter();
        names.extend(nodes.map(|node| (node.clone(), renamed(node, &setting.key))));
        names.sort();
        names.dedup();
        Self {
            script,
            setting,
            stage,
            names,
            bindings,
            cast,
        }
    }

    fn step(&mut self, verb: &Verb) -> Result<(), String> {
        match verb {
            Verb::Enters(name, stage) => self.enter(name, *stage),
            Verb::Sends(name, block) => {
                let bytes = self.fill(block)?;
                self.client(name)?.send(&bytes)
            }
            Verb::Trickles(name, block) => {
                let bytes = self.fill(block)?;
                let client = self.client(name)?;
                bytes.iter().try_for_each(|byte| {
                    thread::sleep(TRICKLE);
                    client.send(std::slice::from_ref(byte))
                })
            }
            Verb::Receives(name, block) => self
                .expectations(block)?
                .iter()
                .try_for_each(|expected| self.receive(name, expected)),
            Verb::ReceivesUnordered(name, block) => self.receive_unordered(name, block),
            Verb::ReceivesHeader(name, block) => {
                let expected = self.expectations(block)?.remove(0);
                match self.next(name)? {
                    Got::Header(header) => pattern::fit(&expected, &header, &mut self.bindings)
                        .map_err(|why| format!("{why}; got\n{header}")),
                    other => Err(format!(
                        "expected a stream header, got {}",
                        describe(&other)
                    )),
                }
            }
            Verb::ReceivesNothing(name) => self.receive_nothing(name),
            Verb::ReceivesStreamError(name, conditions) => self.stream_error(name, conditions),
            Verb::FailsToLogIn(name, conditions) => self.fail_to_log_in(name, conditions),
            Verb::IsClosed(name) => self.is_closed(name),
            Verb::Disconnects(name) => {
                let ended = self.client(name)?.disconnect();
                self.role(name)?.client = None;
                ended
            }
            Verb::DropsLink(name) => {
                self.client(name)?.drop_link();
                self.role(name)?.client = None;
                Ok(())
            }
            Verb::IgnoresPresence(name) => {
                self.role(name)?.ignores_presence = true;
                Ok(())
            }
            Verb::IgnoresAckRequests(name) => {
                self.role(name)?.ignores_ack_requests = true;
                Ok(())
            }
            Verb::HearsOf(name, nodes) => self.client(name)?.announce(nodes),
            Verb::NegotiatesTls(name) => {
                let domain = self.actor(name)?.domain.clone();
                self.client(name)?.negotiate_tls(&domain)
            }
            Verb::AreContacts(a, b) => self.befriend(a, b, true),
            Verb::IsSubscribedTo(a, b) => self.befriend(a, b, false),
            Verb::OperatorRuns(command) => {
                let command = String::from_utf8_lossy(&self.fill(command)?).into_owned();
                self.stage.operate(&command)
            }
            Verb::ServerStops => self.stage.stop(),
            Verb::ServerRestarts => self.restart(false),
            Verb::ServerIsKilled => self.restart(true),
            Verb::Pause(duration) => {
                thread::sleep(*duration);
                Ok(())
            }
        }
    }

    // === Entering and leaving ===

    fn enter(&mut self, name: &str, stage: Stage) -> Result<(), String> {
        let identity = self.identity(name)?;
        let kind = self.setting.kind;
        let mut client = self.open(&identity)?;
        let mut walk = || -> Result<(), String> {
            if stage == Stage::Stream {
                client.open_stream(kind, &identity.domain)?;
            }
            if stage == Stage::Authenticated {
                let features = client.open_stream(kind, &identity.domain)?;
                client
                    .authenticate(&identity, &features)?
                    .map_err(|condition| format!("authentication was refused: {condition}"))?;
                client.send_header(&identity.domain)?;
                client.expect_features()?;
            }
            if stage >= Stage::Bound {
                client.log_in(kind, &identity)?;
            }
            if stage == Stage::Online {
                client.go_online()?;
            }
            Ok(())
        };
        let result = walk();
        if stage >= Stage::Bound {
            self.bindings
                .insert(format!("{name}.full"), client.full_jid.clone());
        }
        self.role(name)?.client = Some(client);
        result
    }

    fn open(&self, identity: &Identity) -> Result<Client, String> {
        let patience = self.setting.patience;
        Client::open(
            self.stage.address(),
            self.setting.kind,
            &identity.domain,
            patience,
        )
    }

    fn identity(&self, name: &str) -> Result<Identity, String> {
        let actor = self.actor(name)?;
        let login = Login {
            user: renamed(&actor.user, &self.setting.key),
            password: actor.password.clone().unwrap_or_else(|| password(actor)),
            authzid: actor.authzid.as_ref().map(|id| self.rename(id)),
        };
        Ok(Identity {
            login,
            domain: actor.domain.clone(),
            resource: actor.resource.clone(),
            mechanism: actor.mechanism.clone(),
        })
    }

    fn fail_to_log_in(&mut self, name: &str, conditions: &[String]) -> Result<(), String> {
        let identity = self.identity(name)?;
        let mut client = self.open(&identity)?;
        let outcome = client
            .open_stream(self.setting.kind, &identity.domain)
            .and_then(|features| client.authenticate(&identity, &features));
        self.role(name)?.client = Some(client);
        match outcome? {
            Err(refusal) if conditions.contains(&refusal) => Ok(()),
            Err(refusal) => Err(format!(
                "refused with <{refusal}/>, not with {conditions:?}"
            )),
            Ok(()) => Err("the login succeeded".to_owned()),
        }
    }

    fn restart(&mut self, is_killed: bool) -> Result<(), String> {
        self.stage.restart(is_killed)?;
        self.cast.values_mut().for_each(|role| role.client = None);
        Ok(())
    }

    // === Receiving ===

    fn next(&mut self, name: &str) -> Result<Got, String> {
        let patience = self.setting.patience;
        self.next_within(name, patience)
    }

    fn next_within(&mut self, name: &str, wait: Duration) -> Result<Got, String> {
        let deadline = Instant::now() + wait;
        let role = self
            .cast
            .get_mut(name)
            .ok_or_else(|| format!("who is {name}?"))?;
        let client = role
            .client
            .as_mut()
            .ok_or_else(|| format!("{name} is not connected"))?;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match client.next(left)? {
                Got::Element(element) if role.ignores_presence && element.name == "presence" => {}
                Got::Element(element)
                    if role.ignores_ack_requests && element.is(NS_STREAM_MANAGEMENT, "r") => {}
                other => return Ok(other),
            }
        }
    }

    fn receive(&mut self, name: &str, expected: &Element) -> Result<(), String> {
        match self.next(name)? {
            Got::Element(element) => pattern::fit(expected, &element, &mut self.bindings)
                .map_err(|why| format!("{why}\nexpected\n{expected}\ngot\n{element}")),
            other => Err(format!("expected\n{expected}\ngot {}", describe(&other))),
        }
    }

    fn receive_unordered(&mut self, name: &str, block: &str) -> Result<(), String> {
        let mut missing = self.expectations(block)?;
        while !missing.is_empty() {
            let element = match self.next(name)? {
                Got::Element(element) => element,
                other => {
                    let list: Vec<_> = missing.iter().map(ToString::to_string).collect();
                    return Err(format!(
                        "expected also\n{}\ngot {}",
                        list.join("\n"),
                        describe(&other)
                    ));
                }
            };
            let bindings = &mut self.bindings;
            let found = missing
                .iter()
                .position(|expected| pattern::fit(expected, &element, bindings).is_ok());
            match found {
                Some(index) => missing.remove(index),
                None => return Err(format!("nobody expected\n{element}")),
            };
        }
        Ok(())
    }

    fn receive_nothing(&mut self, name: &str) -> Result<(), String> {
        let silence = self.setting.silence;
        let is_bound = !self.client(name)?.full_jid.is_empty();
        if is_bound {
            self.client(name)?.sync()?;
        }
        match self.next_within(name, silence)? {
            Got::Nothing => Ok(()),
            other => Err(format!("expected nothing, got {}", describe(&other))),
        }
    }

    fn stream_error(&mut self, name: &str, conditions: &[String]) -> Result<(), String> {
        let error = loop {
            match self.next(name)? {
                Got::Header(_) => {}
                Got::Element(element) if element.is(NS_STREAMS, "features") => {}
                Got::Element(element) => break element,
                other => {
                    return Err(format!("expected a stream error, got {}", describe(&other)));
                }
            }
        };
        let is_expected = error.is(NS_STREAMS, "error")
            && error.children().any(|child| {
                child.ns == "urn:ietf:params:xml:ns:xmpp-streams"
                    && conditions.iter().any(|condition| child.name == **condition)
            });
        if !is_expected {
            return Err(format!(
                "expected the stream error <{}/>, got\n{error}",
                conditions[0]
            ));
        }
        self.is_closed(name)
    }

    fn is_closed(&mut self, name: &str) -> Result<(), String> {
        for awaited in [Got::StreamEnd, Got::LinkEnd] {
            let got = self.next(name)?;
            if got != awaited {
                return Err(format!(
                    "expected {}, got {}",
                    describe(&awaited),
                    describe(&got)
                ));
            }
        }
        self.role(name)?.client = None;
        Ok(())
    }

    /// At the end nobody may have anything left to read.
    fn curtain(&mut self) -> Result<(), String> {
        let names: Vec<String> = self.cast.keys().cloned().collect();
        for name in names {
            let is_bound = match &self.cast[&name].client {
                Some(client) => client.is_connected() && !client.full_jid.is_empty(),
                None => false,
            };
            if !is_bound {
                continue;
            }
            self.client(&name)?.sync()?;
            match self.next_within(&name, Duration::from_millis(1))? {
                Got::Nothing => {}
                other => return Err(format!("{name} was left with {}", describe(&other))),
            }
        }
        Ok(())
    }

    // === Fixtures ===

    /// Makes `a` see `b`'s presence, and the other way round too if `is_mutual`, by the ordinary
    /// protocol with connections of its own, which are gone again afterwards.
    fn befriend(&mut self, a: &str, b: &str, is_mutual: bool) -> Result<(), String> {
        let (mut alice, alice_bare) = self.extra(a)?;
        let (mut bob, bob_bare) = self.extra(b)?;
        ask(&mut alice, &alice_bare, &mut bob, &bob_bare)?;
        let mut wanted = ("to", "from");
        if is_mutual {
            ask(&mut bob, &bob_bare, &mut alice, &alice_bare)?;
            wanted = ("both", "both");
        }
        self.await_subscription(&mut alice, &bob_bare, wanted.0)?;
        self.await_subscription(&mut bob, &alice_bare, wanted.1)?;
        // Whatever one says of its leaving must have reached the other before the play begins. What
        // is sent from one to another arrives in order, so a message says that it has.
        for client in [&mut alice, &mut bob] {
            client.send(b"<presence type='unavailable'/>")?;
        }
        say_goodbye(&mut alice, &mut bob)?;
        say_goodbye(&mut bob, &mut alice)?;
        alice.disconnect()?;
        bob.disconnect()
    }

    fn extra(&self, name: &str) -> Result<(Client, String), String> {
        let mut identity = self.identity(name)?;
        identity.resource = Some("fixture".to_owned());
        let mut client = self.open(&identity)?;
        client.log_in(self.setting.kind, &identity)?;
        client.go_online()?;
        Ok((
            client,
            format!("{}@{}", identity.login.user, identity.domain),
        ))
    }

    fn await_subscription(
        &self,
        client: &mut Client,
        contact: &str,
        wanted: &str,
    ) -> Result<(), String> {
        let deadline = Instant::now() + self.setting.patience;
        let mut round = 0;
        while Instant::now() < deadline {
            round += 1;
            let id = format!("fixture-{round}");
            let get = format!("<iq type='get' id='{id}'><query xmlns='jabber:iq:roster'/></iq>");
            client.send(get.as_bytes())?;
            let answer = client.wait_for("the roster", |iq, _| iq.attr("id") == Some(&id))?;
            let query = answer
                .child("jabber:iq:roster", "query")
                .ok_or("no roster")?;
            let item = query
                .children()
                .find(|item| item.attr("jid") == Some(contact));
            if item.and_then(|item| item.attr("subscription")) == Some(wanted) {
                return Ok(());
            }
            thread::sleep(POLL);
        }
        Err(format!(
            "the fixture never reached subscription='{wanted}' for {contact}"
        ))
    }

    // === Names and text ===

    fn actor(&self, name: &str) -> Result<&Actor, String> {
        let found = self.script.actors.iter().find(|actor| actor.name == name);
        found.ok_or_else(|| format!("who is {name}?"))
    }

    fn role(&mut self, name: &str) -> Result<&mut Role, String> {
        self.cast
            .get_mut(name)
            .ok_or_else(|| format!("who is {name}?"))
    }

    fn client(&mut self, name: &str) -> Result<&mut Client, String> {
        let client = self.role(name)?.client.as_mut();
        client.ok_or_else(|| format!("{name} is not connected"))
    }

    fn expectations(&self, block: &str) -> Result<Vec<Element>, String> {
        pattern::parse(&self.rename(block))
    }

    /// Renames every actor's bare address, every room's and every node, wherever it stands alone.
    fn rename(&self, text: &str) -> String {
        let mut out = text.to_owned();
        for (from, to) in &self.names {
            out = replace_whole(&out, from, to);
        }
        out
    }

    /// The bytes to send: addresses renamed, holes filled.
    fn fill(&self, block: &str) -> Result<Vec<u8>, String> {
        let text = self.rename(block);
        let mut out = Vec::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(open) = rest.find('{') {
            let length = rest[open..].find('}').ok_or("a '{' without '}'")?;
            out.extend_from_slice(&rest.as_bytes()[..open]);
            self.fill_hole(&rest[open + 1..open + length], &mut out)?;
            rest = &rest[open + length + 1..];
        }
        out.extend_from_slice(rest.as_bytes());
        Ok(out)
    }

    /// `{NAME}`, `{base64:TEXT}`, `{hex:BYTES}`, `{repeat:COUNT:TEXT}`. Inside the last two, names
    /// stand between bars: `{base64:n,,n=|romeo.user|,r=abc}`; `\0` is a zero byte.
    fn fill_hole(&self, hole: &str, out: &mut Vec<u8>) -> Result<(), String> {
        match hole.split_once(':') {
            None => {
                let value = self.bindings.get(hole);
                let value = value.ok_or_else(|| format!("nothing is known as {{{hole}}}"))?;
                out.extend_from_slice(escape(value).as_bytes());
            }
            Some(("base64", inner)) => {
                let mut inner = inner.replace("\\0", "\0");
                for (name, value) in &self.bindings {
                    inner = inner.replace(&format!("|{name}|"), value);
                }
                out.extend_from_slice(STANDARD.encode(inner).as_bytes());
            }
            Some(("hex", digits)) => {
                for at in (0..digits.len()).step_by(2) {
                    let pair = digits.get(at..at + 2).ok_or("half a byte")?;
                    out.push(u8::from_str_radix(pair, 16).map_err(|_| "not hexadecimal")?);
                }
            }
            Some(("repeat", inner)) => {
                let (count, text) = inner.split_once(':').ok_or("{repeat:COUNT:TEXT}")?;
                let count = count.parse().map_err(|_| "the count is not a number")?;
                out.extend_from_slice(text.repeat(count).as_bytes());
            }
            Some(_) => return Err(format!("cannot fill {{{hole}}}")),
        }
        Ok(())
    }

    fn report(&self, step: &Step, why: &str) -> String {
        let script = self.script;
        let mut text = format!("tests/scripts/{}.xmpp:{}: {why}\n", script.name, step.line);
        for (name, role) in &self.cast {
            if let Some(client) = &role.client {
                text.push_str(&format!("  {name}'s latest:\n{}", client.transcript()));
            }
        }
        for (short, long) in &self.names {
            text = text.replace(long, short);
        }
        text
    }
}

/// One direction of a subscription: `alice` asks, `bob` grants.
fn ask(
    alice: &mut Client,
    alice_bare: &str,
    bob: &mut Client,
    bob_bare: &str,
) -> Result<(), String> {
    alice.send(format!("<presence to='{bob_bare}' type='subscribe'/>").as_bytes())?;
    bob.wait_for("a subscription request", |element, _| {
        element.attr("type") == Some("subscribe") && element.attr("from") == Some(alice_bare)
    })?;
    bob.send(format!("<presence to='{alice_bare}' type='subscribed'/>").as_bytes())?;
    alice.wait_for("the approval", |element, _| {
        element.attr("type") == Some("subscribed") && element.attr("from") == Some(bob_bare)
    })?;
    Ok(())
}

fn say_goodbye(from: &mut Client, to: &mut Client) -> Result<(), String> {
    let goodbye = format!("<message to='{}' type='headline'/>", to.full_jid);
    from.send(goodbye.as_bytes())?;
    let sender = from.full_jid.clone();
    to.wait_for("a goodbye", |element, _| {
        element.name == "message" && element.attr("from") == Some(&sender)
    })?;
    Ok(())
}

/// Replaces `from` where it is not the tail of a longer address part.
fn replace_whole(text: &str, from: &str, to: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(from) {
        let before = rest[..at].chars().next_back();
        let is_whole = !before.is_some_and(|c| c.is_alphanumeric() || ".-_".contains(c));
        let after = rest[at + from.len()..].chars().next();
        let is_whole = is_whole && !after.is_some_and(|c| c.is_alphanumeric() || ".-".contains(c));
        out.push_str(&rest[..at]);
        out.push_str(if is_whole { to } else { from });
        rest = &rest[at + from.len()..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_addresses_are_renamed() {
        let renamed = replace_whole(
            "romeo@localhost/x dromeo@localhost 'romeo@localhost' romeo@localhost.example",
            "romeo@localhost",
            "R",
        );
        assert_eq!(renamed, "R/x dromeo@localhost 'R' romeo@localhost.example");
    }
}
