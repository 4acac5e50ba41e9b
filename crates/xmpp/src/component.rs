//! The stream of an external component (XEP-0114 version 1.6) as the server sees it: a program that
//! serves a domain over a stream of its own. A machine without sockets, clock or randomness:
//! elements go in; bytes for the component and effects for the caller come out.
//!
//! | stage | event | next stage | what is written |
//! |---|---|---|---|
//! | header | a header for a domain that is served | handshake | our header, with an id |
//! | header | one for another domain | closed | `host-unknown` |
//! | handshake | the hash of the id and the secret | attaching | nothing |
//! | handshake | anything else | closed | `not-authorized` |
//! | attaching | the domain takes it | open | `<handshake/>`, by the domain itself |
//! | attaching | the domain has a component | closed | `conflict` |
//! | open | a stanza from the domain | open | an error, if it is malformed |
//! | open | one from elsewhere | closed | `invalid-from` |

use std::borrow::Cow;

use subtle::ConstantTimeEq as _;
use xml::build::Writer;
use xml::{Frame, FrameRef, StreamHeader};

use crate::addr;
use crate::error::{self, Condition, StanzaError, StreamError};
use crate::ns;
use crate::sasl;
use crate::stanza;

/// The answer to a handshake that is right (XEP-0114 section 3).
pub const ACCEPTED: &[u8] = b"<handshake/>";

/// What the caller has to do, in order.
#[derive(Debug)]
pub enum Effect {
    /// The component is who it says: its domain is asked whether it takes the stream. Then
    /// [`Component::attached`] is called, or [`Component::abort`].
    Attach,
    /// A stanza, its addresses normalised, its `from` of the component's domain.
    Stanza(Frame),
    /// The end of the stream has been written: close once it is sent.
    Close,
}

type Effects = Vec<Effect>;

enum Stage {
    Header,
    /// The secret's hash, in lower-case hexadecimal.
    Handshake(String),
    Attaching,
    Open,
    Closed,
}

/// One stream of a component.
pub struct Component {
    id: String,
    domain: String,
    stage: Stage,
    has_header: bool,
}

impl Component {
    /// A stream of which nothing has come. `id` is hard to guess and never used twice.
    pub fn new(id: String) -> Component {
        Component {
            id,
            domain: String::new(),
            stage: Stage::Header,
            has_header: false,
        }
    }

    /// The domain that the component says it serves; empty before it said so.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// Whether it has shown that it knows the secret.
    pub fn is_known(&self) -> bool {
        matches!(self.stage, Stage::Attaching | Stage::Open)
    }

    /// Whether the answer to [`Effect::Attach`] is awaited: until then nothing may be handed in.
    pub fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::Attaching)
    }

    /// The domain has taken the stream, and answers the handshake.
    pub fn attached(&mut self) {
        if self.is_waiting() {
            self.stage = Stage::Open;
        }
    }

    /// Ends the stream with an error.
    pub fn abort(
        &mut self,
        error: StreamError,
        text: Option<&str>,
        out: &mut Vec<u8>,
        effects: &mut Effects,
    ) {
        if self.is_closed() {
            return;
        }
        if !self.has_header {
            self.write_header(out);
        }
        error.write(text, out);
        self.close(effects);
    }

    fn is_closed(&self) -> bool {
        matches!(self.stage, Stage::Closed)
    }

    fn close(&mut self, effects: &mut Effects) {
        self.stage = Stage::Closed;
        effects.push(Effect::Close);
    }

    /// The framer refused the input.
    pub fn handle_xml_error(
        &mut self,
        error: xml::Error,
        out: &mut Vec<u8>,
        effects: &mut Effects,
    ) {
        let text = error.to_string();
        self.abort(StreamError::of_xml(error), Some(&text), out, effects);
    }

    /// The component ended its stream.
    pub fn handle_close(&mut self, out: &mut Vec<u8>, effects: &mut Effects) {
        if !self.is_closed() {
            out.extend_from_slice(b"</stream:stream>");
            self.close(effects);
        }
    }

    /// A stream header. `secret_of` gives the secret of a domain that is served here by a
    /// component.
    pub fn handle_header<'s>(
        &mut self,
        header: &StreamHeader<'_>,
        secret_of: impl FnOnce(&str) -> Option<&'s str>,
        out: &mut Vec<u8>,
        effects: &mut Effects,
    ) {
        if self.is_closed() {
            return;
        }
        if let Err((error, text)) = check_names(header) {
            return self.abort(error, Some(text), out, effects);
        }
        let to = header.attr("to").unwrap_or_default();
        let domain = addr::prepare_domain(&to).map(|domain| domain.to_string());
        let Some((domain, secret)) = domain
            .ok()
            .and_then(|domain| secret_of(&domain).map(|secret| (domain, secret)))
        else {
            let text = Some("No component of that domain is served here.");
            return self.abort(StreamError::HostUnknown, text, out, effects);
        };
        self.domain = domain;
        self.write_header(out);
        let expected = sasl::sha1_hex(format!("{}{secret}", self.id).as_bytes());
        self.stage = Stage::Handshake(expected);
    }

    fn write_header(&mut self, out: &mut Vec<u8>) {
        self.has_header = true;
        out.extend_from_slice(b"<?xml version='1.0'?>");
        let mut writer = Writer::new(out);
        writer.open("stream:stream").attr("id", &self.id);
        if !self.domain.is_empty() {
            writer.attr("from", &self.domain);
        }
        writer
            .attr("xmlns", ns::COMPONENT_ACCEPT)
            .attr("xmlns:stream", ns::STREAMS)
            .close();
        // The tag stays open: it ends with the stream.
        out.truncate(out.len() - 2);
        out.push(b'>');
    }

    /// A top-level element.
    pub fn handle_element(
        &mut self,
        frame: &FrameRef<'_>,
        out: &mut Vec<u8>,
        effects: &mut Effects,
    ) {
        match &self.stage {
            Stage::Closed => {}
            Stage::Header | Stage::Attaching => {
                let text = Some("Open the stream first.");
                self.abort(StreamError::NotAuthorized, text, out, effects);
            }
            Stage::Handshake(expected) => {
                let given = frame.text().unwrap_or_default();
                let is_right = given.trim().as_bytes().ct_eq(expected.as_bytes());
                if frame.is_named("handshake") && bool::from(is_right) {
                    self.stage = Stage::Attaching;
                    return effects.push(Effect::Attach);
                }
                let text = Some("The handshake is wrong.");
                self.abort(StreamError::NotAuthorized, text, out, effects);
            }
            Stage::Open => {
                if let Err(error) = self.handle_stanza(frame, out, effects) {
                    self.abort(error, None, out, effects);
                }
            }
        }
    }

    /// # Errors
    /// What ends the stream.
    fn handle_stanza(
        &self,
        frame: &FrameRef<'_>,
        out: &mut Vec<u8>,
        effects: &mut Effects,
    ) -> Result<(), StreamError> {
        let is_stanza = ["message", "presence", "iq"].map(|name| frame.is_named(name));
        let is_ours = frame.is_of(ns::CLIENT) || frame.is_of(ns::COMPONENT_ACCEPT);
        if !is_ours || !is_stanza.contains(&true) {
            return Err(StreamError::UnsupportedStanzaType);
        }
        let from = frame.attr("from").ok_or(StreamError::InvalidFrom)?;
        let from = addr::normalize(&from).map_err(|_| StreamError::InvalidFrom)?;
        if addr::split(&from).domain != self.domain {
            return Err(StreamError::InvalidFrom);
        }
        let to = frame.attr("to");
        let normal = to.as_deref().map(addr::normalize);
        let kind = frame.attr("type");
        // Within the server a stanza is of the namespace of clients, which goes without saying.
        let mut edit = frame.edit().remove_attr("xmlns").set_attr("from", &from);
        if let Some(Ok(to)) = &normal {
            edit = edit.set_attr("to", to);
        }
        // What routing compares has one spelling.
        if let Some(Cow::Owned(kind)) = &kind {
            edit = edit.set_attr("type", kind);
        }
        let mut bytes = Vec::new();
        edit.write(&mut bytes);
        let stanza = Frame::parse(bytes).map_err(|_| StreamError::NotWellFormed)?;
        let condition = match normal {
            None => Some(Condition::BadRequest),
            Some(Err(_)) => Some(Condition::JidMalformed),
            Some(Ok(_)) => stanza::check(&stanza).err(),
        };
        match condition {
            None => effects.push(Effect::Stanza(stanza)),
            Some(condition) => {
                if let Some(reply) = error::reply(&stanza, &StanzaError::new(condition)) {
                    out.extend_from_slice(reply.as_bytes());
                }
            }
        }
        Ok(())
    }
}

/// Writes a stanza for a component: without the namespace of clients, as everything in its stream
/// is of the stream's own; and with a `to` if it has none.
pub fn write(frame: &Frame, to: Option<&str>, out: &mut Vec<u8>) {
    let has_ns = frame.attr_raw("xmlns") == Some(ns::CLIENT);
    match to {
        None if !has_ns => out.extend_from_slice(frame.as_bytes()),
        None => frame.edit().remove_attr("xmlns").write(out),
        Some(to) => {
            let edit = frame.edit().set_attr("to", to);
            match has_ns {
                true => edit.remove_attr("xmlns").write(out),
                false => edit.write(out),
            }
        }
    }
}

fn check_names(header: &StreamHeader<'_>) -> Result<(), (StreamError, &'static str)> {
    if header.name() != "stream" || header.ns() != ns::STREAMS {
        return Err((
            StreamError::InvalidNamespace,
            "The stream's namespace is wrong.",
        ));
    }
    if header.content_ns() != ns::COMPONENT_ACCEPT {
        return Err((
            StreamError::InvalidNamespace,
            "The content must be jabber:component:accept.",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use xml::{Event, Framer, Limits, Scratch};

    use super::*;

    const OPEN: &str = "<stream:stream to='irc.example.org' xmlns='jabber:component:accept' \
                        xmlns:stream='http://etherx.jabber.org/streams'>";

    struct Peer {
        machine: Component,
        framer: Framer,
        effects: Vec<Effect>,
    }

    impl Peer {
        fn new() -> Peer {
            Peer {
                machine: Component::new("3BF96D32".into()),
                framer: Framer::new(),
                effects: Vec::new(),
            }
        }

        fn open() -> Peer {
            let mut peer = Peer::new();
            peer.send(OPEN);
            peer.send(&handshake("3BF96D32", "secret"));
            assert!(matches!(peer.effects[..], [Effect::Attach]));
            peer.effects.clear();
            peer.machine.attached();
            peer
        }

        fn send(&mut self, input: &str) -> String {
            let (mut out, mut rest) = (Vec::new(), input.as_bytes());
            let mut scratch = Scratch::default();
            let secret_of = |domain: &str| (domain == "irc.example.org").then_some("secret");
            while !rest.is_empty() {
                let step = self.framer.next(rest, &Limits::default(), &mut scratch);
                let step = step.expect("well-formed");
                let (machine, effects) = (&mut self.machine, &mut self.effects);
                match step.event {
                    Some(Event::Open(header)) => {
                        machine.handle_header(&header, secret_of, &mut out, effects);
                    }
                    Some(Event::Stanza(frame)) => machine.handle_element(&frame, &mut out, effects),
                    Some(Event::Close) => machine.handle_close(&mut out, effects),
                    None => panic!("incomplete: {input}"),
                }
                rest = &rest[step.consumed..];
            }
            String::from_utf8(out).expect("UTF-8")
        }

        /// The stanzas that went on.
        fn stanzas(&mut self) -> Vec<String> {
            let effects = self.effects.drain(..);
            let stanzas = effects.filter_map(|effect| match effect {
                Effect::Stanza(frame) => Some(format!("{frame:?}")),
                Effect::Attach | Effect::Close => None,
            });
            stanzas.collect()
        }

        fn has_closed(&self) -> bool {
            matches!(self.effects.last(), Some(Effect::Close))
        }
    }

    fn handshake(id: &str, secret: &str) -> String {
        let hash = sasl::sha1_hex(format!("{id}{secret}").as_bytes());
        format!("<handshake>{hash}</handshake>")
    }

    #[test]
    fn who_knows_the_secret_is_let_in() {
        let mut peer = Peer::new();
        let header = peer.send(OPEN);
        assert!(header.contains("from='irc.example.org'"), "{header}");
        assert!(header.contains("id='3BF96D32'"), "{header}");
        assert!(!peer.machine.is_known());
        assert_eq!(peer.send(&handshake("3BF96D32", "secret")), "");
        assert!(peer.machine.is_known() && peer.machine.is_waiting());
        peer.machine.attached();
        assert!(!peer.machine.is_waiting());
        assert_eq!(peer.send("</stream:stream>"), "</stream:stream>");
        assert!(peer.has_closed());
    }

    #[test]
    fn everybody_else_is_told_why_not() {
        let wrong = [
            (handshake("3BF96D32", "other"), "<not-authorized"),
            (handshake("other", "secret"), "<not-authorized"),
            ("<handshake/>".to_owned(), "<not-authorized"),
            (
                "<message from='irc.example.org' to='a@b'/>".to_owned(),
                "<not-authorized",
            ),
        ];
        for (said, expected) in wrong {
            let mut peer = Peer::new();
            peer.send(OPEN);
            let seen = peer.send(&said);
            assert!(
                seen.contains(expected) && peer.has_closed(),
                "{said}: {seen}"
            );
            assert!(!peer.machine.is_known());
        }
        let headers = [
            (OPEN.replace("irc.", "other."), "<host-unknown"),
            (OPEN.replace("to='irc.example.org'", ""), "<host-unknown"),
            (
                OPEN.replace("component:accept", "client"),
                "<invalid-namespace",
            ),
            (OPEN.replace("etherx", "other"), "<invalid-namespace"),
        ];
        for (header, expected) in headers {
            let mut peer = Peer::new();
            let seen = peer.send(&header);
            assert!(
                seen.contains(expected) && peer.has_closed(),
                "{header}: {seen}"
            );
            // What still comes finds a stream that has ended.
            assert_eq!(peer.send(&handshake("3BF96D32", "secret")), "");
        }
    }

    #[test]
    fn stanzas_are_from_the_domain_and_have_normal_addresses() {
        let mut peer = Peer::open();
        let sent = "<message from='#Room@IRC.example.org/x' to='Romeo@Example.NET' \
                    xmlns='jabber:component:accept'><body>hi</body></message>";
        assert_eq!(peer.send(sent), "");
        let seen = peer.stanzas().concat();
        assert!(seen.contains("from='#room@irc.example.org/x'"), "{seen}");
        assert!(seen.contains("to='romeo@example.net'"), "{seen}");
        assert!(!seen.contains("xmlns"), "{seen}");
        for from in ["from='romeo@example.net'", "from='x.irc.example.org'", ""] {
            let mut peer = Peer::open();
            let seen = peer.send(&format!("<presence {from} to='romeo@example.net'/>"));
            assert!(
                seen.contains("<invalid-from") && peer.has_closed(),
                "{from}: {seen}"
            );
            assert!(peer.stanzas().is_empty());
        }
    }

    #[test]
    fn what_is_malformed_is_answered_and_the_stream_goes_on() {
        let mut peer = Peer::open();
        let cases = [
            ("<message id='1' from='irc.example.org'/>", "<bad-request"),
            (
                "<message id='1' from='irc.example.org' to='a@@b'/>",
                "<jid-malformed",
            ),
            (
                "<iq id='1' type='get' from='irc.example.org' to='a@b'/>",
                "<bad-request",
            ),
        ];
        for (sent, expected) in cases {
            let seen = peer.send(sent);
            assert!(
                seen.contains(expected) && seen.contains("id='1'"),
                "{sent}: {seen}"
            );
        }
        assert!(peer.effects.is_empty());
        let seen = peer.send("<x xmlns='urn:x'/>");
        assert!(seen.contains("<unsupported-stanza-type"), "{seen}");
    }

    #[test]
    fn what_is_written_has_the_namespace_of_the_stream() {
        let frame = Frame::parse("<message xmlns='jabber:client' from='a@b'><body/></message>");
        let mut out = Vec::new();
        write(&frame.expect("a frame"), Some("x@irc"), &mut out);
        let frame = Frame::parse("<presence from='a@b'/>").expect("a frame");
        write(&frame, None, &mut out);
        let seen = String::from_utf8(out).expect("UTF-8");
        assert!(!seen.contains("xmlns"), "{seen}");
        assert!(
            seen.contains("to='x@irc'") && seen.ends_with("<presence from='a@b'/>"),
            "{seen}"
        );
    }
}
