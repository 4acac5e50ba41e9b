//! A client's stream as the server sees it, from the first byte to the bound resource and beyond
//! (RFC 6120 sections 4 to 7): a machine without sockets, clock or randomness. Elements go in;
//! bytes for the peer and effects for the caller come out.

use std::borrow::Cow;
use std::sync::Arc;

use xml::build::Writer;
use xml::{Frame, FrameRef, StreamHeader};

use crate::addr;
use crate::error::{self, Condition, StanzaError, StreamError};
use crate::limits::{AUTH_ATTEMPTS_MAX, LANG_BYTES_MAX, NEGOTIATION_ELEMENTS_MAX};
use crate::negotiation::{Negotiation, Stage};
use crate::ns;
use crate::sasl::{self, ClientFirst, Failure, Hash, Mechanism, PlainMessage, ScramKeys};
use crate::sm;
use crate::stanza;

/// What every client stream of a node has in common.
#[derive(Clone)]
pub struct C2sConfig {
    /// Domains, normalised.
    pub domains: Vec<String>,
    /// Mechanisms that are offered where they fit, strongest first.
    pub mechanisms: Vec<Mechanism>,
    /// Whether a certificate is there, so that TLS can be started.
    pub has_tls: bool,
    /// Whether TLS is required before a login.
    pub require_tls: bool,
    /// Whether PLAIN is offered without TLS.
    pub plain_without_tls: bool,
    /// Whether accounts may be made in-band.
    pub registration: bool,
    /// More features, well-formed, offered before and after the login.
    pub features: Vec<u8>,
    /// More features for those who have authenticated, well-formed.
    pub session_features: Vec<u8>,
    /// What the fake keys of unknown users are made from.
    pub secret: [u8; 32],
    /// Iterations that fake keys claim.
    pub iterations: u32,
}

/// What the caller has to do, in order.
pub enum Effect {
    /// Start TLS: `<proceed/>` has been written; the stream begins anew.
    StartTls,
    /// The stream begins anew on the same connection.
    Restart,
    /// Find an account's keys and call [`C2s::credentials`].
    Lookup {
        /// Bare address.
        user: String,
    },
    /// Check a password on a thread for slow work and call [`C2s::verified`].
    Verify {
        /// Bare address.
        user: String,
        /// The account's keys.
        keys: ScramKeys,
        /// What the client sent.
        password: String,
    },
    /// Make an account and call [`C2s::registered`].
    Register {
        /// Bare address.
        user: String,
        /// Its password.
        password: String,
    },
    /// A login attempt ended that had asked for the account's keys.
    LoginEnded {
        /// Bare address.
        user: String,
        /// How.
        end: LoginEnd,
    },
    /// Bind a resource and call [`C2s::bound`].
    Bind {
        /// Bare address.
        user: String,
        /// What the client would like, normalised.
        resource: Option<String>,
    },
    /// Take up a session of before and call [`C2s::resumed`] (XEP-0198 section 5).
    Resume {
        /// Bare address.
        user: String,
        /// The `<resume/>` element.
        request: Frame,
    },
    /// A stanza of the bound session, its `from` stamped, its `to` normalised.
    Stanza(Frame),
    /// An element of the bound session that is no stanza: of stream management (XEP-0198) or
    /// client state indication (XEP-0352).
    Element(Frame),
    /// The end of the stream has been written: close once it is sent.
    Close,
}

/// How a login attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginEnd {
    /// The client is who it says.
    Succeeded,
    /// The client guessed, and wrong.
    Refused,
    /// Nothing was guessed: the client gave up, sent what is malformed, or could not be answered.
    Abandoned,
}

/// What a client says when it opens a stream (RFC 6120 section 4.7).
#[derive(Clone, Debug, Default)]
pub struct Opening<'a> {
    /// The domain that it wants.
    pub to: Option<Cow<'a, str>>,
    /// The version of XMPP.
    pub version: Option<Cow<'a, str>>,
    /// Its language.
    pub lang: Option<Cow<'a, str>>,
}

/// What is known of an account that wants to log in.
pub enum Credentials {
    /// Its keys.
    Known(Vec<ScramKeys>),
    /// There is no such account; the client must not notice.
    Unknown,
    /// The keys of an account that is locked. Who knows the password is told so; anybody else
    /// gets the answer of any other account.
    Locked(Vec<ScramKeys>),
    /// Nobody can say right now.
    Unavailable,
}

/// One client stream. 32 bytes once it is bound.
pub struct C2s {
    config: Arc<C2sConfig>,
    negotiation: Option<Box<Negotiation>>,
    full: Option<Arc<str>>,
}

type Effects = Vec<Effect>;

impl C2s {
    /// A stream of which nothing has come. `id` is hard to guess and never used twice.
    pub fn new(config: Arc<C2sConfig>, id: String) -> Self {
        C2s {
            config,
            negotiation: Some(Box::new(Negotiation::new(id))),
            full: None,
        }
    }

    /// The stream of a session that outlived its home: the caller has said whose it is, and waits
    /// for [`C2s::resumed`]. Its client has had the header.
    pub fn await_adoption(&mut self, user: String, domain: String) {
        if let Some(negotiation) = &mut self.negotiation {
            negotiation.header_sent = true;
            negotiation.domain = domain;
            negotiation.user = Some(user);
            negotiation.stage = Stage::Resuming;
        }
    }

    /// Somebody else went on with the stream, and told its client that it was authenticated: what
    /// is said next begins with a header (RFC 6120 section 6.3.2).
    pub fn begins_anew(&mut self) {
        if let Some(negotiation) = &mut self.negotiation {
            negotiation.restart();
        }
    }

    /// The full address once a resource is bound.
    pub fn full_jid(&self) -> Option<&Arc<str>> {
        self.full.as_ref()
    }

    /// The bare address of a client that has authenticated and not bound yet.
    pub fn authenticated(&self) -> Option<&str> {
        self.negotiation
            .as_ref()
            .and_then(|negotiation| negotiation.user.as_deref())
    }

    /// The bare address whose keys a login attempt that has not ended was given.
    pub fn claimed(&self) -> Option<&str> {
        self.negotiation
            .as_ref()
            .and_then(|negotiation| negotiation.claimed.as_deref())
    }

    /// Whether an answer of the caller is awaited: until then it must hand in nothing.
    pub fn is_waiting(&self) -> bool {
        self.negotiation
            .as_ref()
            .is_some_and(|negotiation| negotiation.stage.is_waiting())
    }

    /// TLS is there. `exporter` is the channel binding of RFC 9266.
    pub fn tls_established(&mut self, exporter: Option<[u8; 32]>) {
        if let Some(negotiation) = &mut self.negotiation {
            negotiation.tls = true;
            negotiation.exporter = exporter;
        }
    }

    /// Whether TLS is there, before a session; and its channel binding, if it has one.
    pub fn tls(&self) -> Option<Option<[u8; 32]>> {
        let negotiation = self.negotiation.as_ref()?;
        negotiation.tls.then_some(negotiation.exporter)
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
        self.begin_if_needed(out);
        error.write(text, out);
        self.close(effects);
    }

    /// Ends the stream of a client that is served at another host, `host:port`.
    pub fn redirect(&mut self, host: &str, out: &mut Vec<u8>, effects: &mut Effects) {
        if self.is_closed() {
            return;
        }
        self.begin_if_needed(out);
        StreamError::write_see_other_host(host, out);
        self.close(effects);
    }

    /// An error is the first thing that is said.
    fn begin_if_needed(&mut self, out: &mut Vec<u8>) {
        if let Some(negotiation) = &mut self.negotiation
            && !negotiation.header_sent
        {
            let domain = self
                .config
                .domains
                .first()
                .map(String::as_str)
                .unwrap_or_default();
            negotiation.write_header(domain, out);
        }
    }

    /// Nothing is written from here on: what still comes finds a stream that has ended.
    fn close(&mut self, effects: &mut Effects) {
        let negotiation = self.negotiation.get_or_insert_with(Box::default);
        negotiation.stage = Stage::Closed;
        effects.push(Effect::Close);
    }

    fn is_closed(&self) -> bool {
        let negotiation = self.negotiation.as_ref();
        negotiation.is_some_and(|negotiation| negotiation.stage == Stage::Closed)
    }

    /// The framer refused the input.
    pub fn handle_xml_error(
        &mut self,
        error: xml::Error,
        out: &mut Vec<u8>,
        effects: &mut Effects,
    ) {
        self.abort(
            StreamError::of_xml(error),
            Some(&error.to_string()),
            out,
            effects,
        );
    }

    /// The peer ended its stream (section 4.4).
    pub fn handle_close(&mut self, out: &mut Vec<u8>, effects: &mut Effects) {
        if self.is_closed() {
            return;
        }
        out.extend_from_slice(b"</stream:stream>");
        self.close(effects);
    }

    /// A stream header (section 4.7).
    pub fn handle_header(
        &mut self,
        header: &StreamHeader<'_>,
        out: &mut Vec<u8>,
        effects: &mut Effects,
    ) {
        if self.is_closed() {
            return;
        }
        let opening = Opening {
            to: header.attr("to"),
            version: header.attr("version"),
            lang: header.attr("xml:lang"),
        };
        let checked = Self::check_names(header).and_then(|()| self.check_opening(opening));
        self.answer_opening(checked, out, effects);
    }

    /// The opening of a stream that has no header: `<open/>` (RFC 7395 section 3.4), or a request
    /// for a BOSH session or its restart (XEP-0206 sections 3 and 5). It is answered by a header
    /// like any other: `framing` rewrites it.
    pub fn handle_opening(
        &mut self,
        opening: Opening<'_>,
        out: &mut Vec<u8>,
        effects: &mut Effects,
    ) {
        if self.is_closed() {
            return;
        }
        let is_due = self.negotiation.as_ref();
        let checked = match is_due.is_some_and(|negotiation| negotiation.stage == Stage::Header) {
            true => self.check_opening(opening),
            false => Err((StreamError::BadFormat, Some("The stream is open already."))),
        };
        self.answer_opening(checked, out, effects);
    }

    fn answer_opening(
        &mut self,
        checked: Result<(), (StreamError, Option<&'static str>)>,
        out: &mut Vec<u8>,
        effects: &mut Effects,
    ) {
        if let Err((error, text)) = checked {
            return self.abort(error, text, out, effects);
        }
        let config = Arc::clone(&self.config);
        let Some(negotiation) = &mut self.negotiation else {
            return self.abort(StreamError::BadFormat, None, out, effects);
        };
        let domain = negotiation.domain.clone();
        negotiation.write_header(&domain, out);
        negotiation.write_features(&config, out);
        negotiation.stage = Stage::Features;
    }

    fn check_names(header: &StreamHeader<'_>) -> Result<(), (StreamError, Option<&'static str>)> {
        if header.ns() != ns::STREAMS {
            return Err((
                StreamError::InvalidNamespace,
                Some("The stream's namespace is wrong."),
            ));
        }
        if header.name() != "stream" {
            return Err((StreamError::BadFormat, None));
        }
        if header.prefix() != "stream" {
            return Err((
                StreamError::BadNamespacePrefix,
                Some("The prefix must be 'stream'."),
            ));
        }
        if header.content_ns() != ns::CLIENT {
            return Err((
                StreamError::InvalidNamespace,
                Some("The content must be jabber:client."),
            ));
        }
        Ok(())
    }

    fn check_opening(
        &mut self,
        opening: Opening<'_>,
    ) -> Result<(), (StreamError, Option<&'static str>)> {
        let Some(negotiation) = &mut self.negotiation else {
            return Err((StreamError::BadFormat, None));
        };
        let version = opening.version.unwrap_or_default();
        if version
            .split('.')
            .next()
            .and_then(|major| major.parse::<u32>().ok())
            .unwrap_or(0)
            < 1
        {
            return Err((
                StreamError::UnsupportedVersion,
                Some("Version 1.0 is needed."),
            ));
        }
        let Some(to) = opening.to else {
            let default = self.config.domains.first().cloned();
            negotiation.domain = default.ok_or((StreamError::InternalServerError, None))?;
            return Err((
                StreamError::HostUnknown,
                Some("The stream header needs a 'to'."),
            ));
        };
        let domain = addr::prepare_domain(&to)
            .map_err(|_| (StreamError::ImproperAddressing, None))?
            .to_string();
        if !self.config.domains.contains(&domain) {
            return Err((
                StreamError::HostUnknown,
                Some("This server does not serve that domain."),
            ));
        }
        if negotiation.user.is_some() && negotiation.domain != domain {
            return Err((
                StreamError::HostUnknown,
                Some("The domain must stay the same."),
            ));
        }
        negotiation.domain = domain;
        let lang = opening.lang;
        negotiation.lang = lang
            .filter(|lang| lang.len() <= LANG_BYTES_MAX)
            .map(Into::into);
        Ok(())
    }

    /// A top-level element.
    pub fn handle_element(
        &mut self,
        frame: &FrameRef<'_>,
        nonce: &str,
        out: &mut Vec<u8>,
        effects: &mut Effects,
    ) {
        if self.is_closed() {
            return;
        }
        if let Some(full) = &self.full {
            if let Err(error) = handle_stanza(full, frame, out, effects) {
                self.abort(error, None, out, effects);
            }
            return;
        }
        let Some(negotiation) = &mut self.negotiation else {
            return;
        };
        if negotiation.stage == Stage::Header {
            let text = Some("Open the stream first.");
            return self.abort(StreamError::NotAuthorized, text, out, effects);
        }
        negotiation.elements += 1;
        if negotiation.elements > NEGOTIATION_ELEMENTS_MAX {
            let text = Some("Too many elements before a session.");
            return self.abort(StreamError::PolicyViolation, text, out, effects);
        }
        match (frame.name(), frame.ns()) {
            ("starttls", ns::TLS) => self.handle_starttls(out, effects),
            ("auth", ns::SASL) if negotiation.user.is_none() => {
                self.handle_auth(frame, nonce, out, effects);
            }
            ("response", ns::SASL) => self.handle_response(frame, out, effects),
            ("abort", ns::SASL) => self.fail(Failure::Aborted, out, effects),
            ("iq", ns::CLIENT) if negotiation.user.is_some() => {
                self.handle_bind(frame, out, effects);
            }
            ("iq", ns::CLIENT) if self.config.registration => {
                self.handle_registration(frame, out, effects);
            }
            ("resume", ns::STREAM_MANAGEMENT) if negotiation.may_bind() => {
                let user = negotiation.user.clone().unwrap_or_default();
                negotiation.stage = Stage::Resuming;
                let request = frame.to_frame();
                effects.push(Effect::Resume { user, request });
            }
            // XEP-0198 sections 3 and 5: at the wrong time, which ends nothing.
            ("enable" | "resume", ns::STREAM_MANAGEMENT) => {
                sm::write_failed(Condition::UnexpectedRequest, None, out);
            }
            (_, ns::STREAM_MANAGEMENT) if negotiation.may_bind() => {
                sm::write_failed(Condition::UnexpectedRequest, None, out);
            }
            ("iq" | "message" | "presence", ns::CLIENT) => {
                let text = Some("Log in first.");
                self.abort(StreamError::NotAuthorized, text, out, effects);
            }
            _ => self.abort(StreamError::UnsupportedStanzaType, None, out, effects),
        }
    }

    // ---- TLS -----------------------------------------------------------------------------------

    fn handle_starttls(&mut self, out: &mut Vec<u8>, effects: &mut Effects) {
        let Some(negotiation) = &mut self.negotiation else {
            return;
        };
        if negotiation.tls || !self.config.has_tls || negotiation.user.is_some() {
            // Section 5.4.2.2.
            out.extend_from_slice(
                b"<failure xmlns='urn:ietf:params:xml:ns:xmpp-tls'/></stream:stream>",
            );
            return self.close(effects);
        }
        out.extend_from_slice(b"<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>");
        negotiation.restart();
        effects.push(Effect::StartTls);
    }

    // ---- SASL ----------------------------------------------------------------------------------

    fn handle_auth(
        &mut self,
        frame: &FrameRef<'_>,
        nonce: &str,
        out: &mut Vec<u8>,
        effects: &mut Effects,
    ) {
        match self.begin_auth(frame, nonce) {
            Ok(None) => {
                out.extend_from_slice(b"<challenge xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>");
            }
            Ok(Some(effect)) => effects.push(effect),
            Err(failure) => self.fail(failure, out, effects),
        }
    }

    fn begin_auth(&mut self, frame: &FrameRef<'_>, nonce: &str) -> Result<Option<Effect>, Failure> {
        let config = Arc::clone(&self.config);
        let Some(negotiation) = &mut self.negotiation else {
            return Err(Failure::Aborted);
        };
        if negotiation.user.is_some() || negotiation.stage != Stage::Features {
            return Err(Failure::NotAuthorized);
        }
        let name = frame.attr("mechanism").unwrap_or_default();
        let mechanism = Mechanism::parse(&name).ok_or(Failure::InvalidMechanism)?;
        if !negotiation.offers(&config, mechanism) {
            let weak = !negotiation.tls && (config.require_tls || mechanism == Mechanism::Plain);
            return Err(if weak {
                Failure::EncryptionRequired
            } else {
                Failure::InvalidMechanism
            });
        }
        negotiation.mechanism = Some(mechanism);
        negotiation.nonce = nonce.to_owned();
        let text = frame.text().ok_or(Failure::MalformedRequest)?;
        if text.is_empty() {
            // Section 6.4.2: no initial response; the client is asked for it.
            negotiation.stage = Stage::InitialResponse;
            return Ok(None);
        }
        self.first_message(&text).map(Some)
    }

    fn handle_response(&mut self, frame: &FrameRef<'_>, out: &mut Vec<u8>, effects: &mut Effects) {
        let text = frame.text().map(|text| text.into_owned());
        let Some(negotiation) = &mut self.negotiation else {
            return;
        };
        let stage = std::mem::replace(&mut negotiation.stage, Stage::Features);
        let result = match (stage, text) {
            (Stage::InitialResponse, Some(text)) => {
                self.first_message(&text).map(|effect| effects.push(effect))
            }
            (Stage::Proof(scram), Some(text)) => {
                let exporter = negotiation.exporter;
                let answer = sasl::decode(&text)
                    .and_then(|text| scram.finish(&text, exporter.as_ref().map(|key| &key[..])));
                answer.map(|answer| self.succeed(Some(&answer), out, effects))
            }
            (Stage::InitialResponse | Stage::Proof(_), None) => Err(Failure::MalformedRequest),
            _ => Err(Failure::MalformedRequest),
        };
        if let Err(failure) = result {
            self.fail(failure, out, effects);
        }
    }

    fn first_message(&mut self, base64: &str) -> Result<Effect, Failure> {
        let config = Arc::clone(&self.config);
        let Some(negotiation) = &mut self.negotiation else {
            return Err(Failure::Aborted);
        };
        negotiation.stage = Stage::Features;
        let text = sasl::decode(base64)?;
        let mechanism = negotiation.mechanism.ok_or(Failure::MalformedRequest)?;
        let (name, authzid) = if mechanism == Mechanism::Plain {
            let plain = PlainMessage::parse(&text)?;
            let parts = (
                plain.user.clone(),
                Some(plain.authzid.clone()).filter(|id| !id.is_empty()),
            );
            negotiation.stage = Stage::PlainKeys(plain.password);
            parts
        } else {
            let offered_plus = config
                .mechanisms
                .iter()
                .any(|mechanism| mechanism.is_plus() && negotiation.offers(&config, *mechanism));
            let first = ClientFirst::parse(&text, mechanism, offered_plus)?;
            let parts = (first.user.clone(), first.authzid().map(str::to_owned));
            negotiation.stage = Stage::ScramKeys(first);
            parts
        };
        let user = addr::prepare_node(&name).map(|node| format!("{node}@{}", negotiation.domain));
        let Ok(user) = user else {
            negotiation.stage = Stage::Features;
            return Err(Failure::NotAuthorized);
        };
        if let Some(authzid) = authzid {
            // Nobody may act as somebody else here (section 6.3.8).
            let same = addr::parse_bare(&authzid).is_ok_and(|jid| jid.as_str() == user);
            if !same {
                negotiation.stage = Stage::Features;
                return Err(Failure::InvalidAuthzid);
            }
        }
        negotiation.claimed = Some(user.clone());
        Ok(Effect::Lookup { user })
    }

    /// The answer to [`Effect::Lookup`].
    pub fn credentials(
        &mut self,
        credentials: Credentials,
        out: &mut Vec<u8>,
        effects: &mut Effects,
    ) {
        let config = Arc::clone(&self.config);
        let Some(negotiation) = &mut self.negotiation else {
            return;
        };
        if !matches!(negotiation.stage, Stage::ScramKeys(_) | Stage::PlainKeys(_)) {
            return;
        }
        let stage = std::mem::replace(&mut negotiation.stage, Stage::Features);
        let user = negotiation.claimed.clone().unwrap_or_default();
        let wanted = negotiation
            .mechanism
            .and_then(Mechanism::hash)
            .unwrap_or(Hash::Sha256);
        let (mut keys, locked) = match credentials {
            Credentials::Known(keys) => (keys, false),
            Credentials::Unknown => (Vec::new(), false),
            Credentials::Locked(keys) => (keys, true),
            Credentials::Unavailable => {
                return self.fail(Failure::TemporaryAuthFailure, out, effects);
            }
        };
        let keys = match keys.iter().position(|keys| keys.hash == wanted) {
            Some(at) => keys.swap_remove(at),
            None => {
                // An account that has keys for another hash answers alike for this one.
                let iterations = keys
                    .first()
                    .map_or(config.iterations, |keys| keys.iterations);
                sasl::fake_keys(wanted, &config.secret, &user, iterations)
            }
        };
        negotiation.locked = locked;
        match stage {
            Stage::ScramKeys(first) => {
                let (challenge, scram) = first.challenge(keys, &negotiation.nonce);
                negotiation.stage = Stage::Proof(Box::new(scram));
                let mut writer = Writer::new(out);
                writer.open("challenge").attr("xmlns", ns::SASL);
                writer.text(&sasl::encode(&challenge)).close();
            }
            Stage::PlainKeys(password) => {
                negotiation.stage = Stage::PlainProof;
                effects.push(Effect::Verify {
                    user,
                    keys,
                    password,
                });
            }
            other => negotiation.stage = other,
        }
    }

    /// The answer to [`Effect::Verify`]; `None` if nobody can check it at the moment.
    pub fn verified(&mut self, ok: Option<bool>, out: &mut Vec<u8>, effects: &mut Effects) {
        let Some(negotiation) = &mut self.negotiation else {
            return;
        };
        if negotiation.stage != Stage::PlainProof {
            return;
        }
        negotiation.stage = Stage::Features;
        match ok {
            Some(true) => self.succeed(None, out, effects),
            Some(false) => self.fail(Failure::NotAuthorized, out, effects),
            None => self.fail(Failure::TemporaryAuthFailure, out, effects),
        }
    }

    fn succeed(&mut self, data: Option<&str>, out: &mut Vec<u8>, effects: &mut Effects) {
        let Some(negotiation) = &mut self.negotiation else {
            return;
        };
        if negotiation.locked {
            return self.fail(Failure::AccountDisabled, out, effects);
        }
        let Some(user) = negotiation.claimed.take() else {
            return;
        };
        let mut writer = Writer::new(out);
        writer.open("success").attr("xmlns", ns::SASL);
        if let Some(data) = data {
            writer.text(&sasl::encode(data));
        }
        writer.close();
        effects.push(Effect::LoginEnded {
            user: user.clone(),
            end: LoginEnd::Succeeded,
        });
        negotiation.user = Some(user);
        negotiation.restart();
        effects.push(Effect::Restart);
    }

    fn fail(&mut self, failure: Failure, out: &mut Vec<u8>, effects: &mut Effects) {
        let Some(negotiation) = &mut self.negotiation else {
            return;
        };
        negotiation.stage = Stage::Features;
        negotiation.attempts += 1;
        negotiation.locked = false;
        let mut writer = Writer::new(out);
        writer
            .open("failure")
            .attr("xmlns", ns::SASL)
            .open(failure.as_str())
            .close()
            .close();
        if let Some(user) = negotiation.claimed.take() {
            let end = match failure {
                Failure::NotAuthorized => LoginEnd::Refused,
                _ => LoginEnd::Abandoned,
            };
            effects.push(Effect::LoginEnded { user, end });
        }
        if negotiation.attempts >= AUTH_ATTEMPTS_MAX {
            let text = Some("Too many failed logins.");
            self.abort(StreamError::PolicyViolation, text, out, effects);
        }
    }

    // ---- Registration and binding --------------------------------------------------------------

    fn handle_registration(
        &mut self,
        frame: &FrameRef<'_>,
        out: &mut Vec<u8>,
        effects: &mut Effects,
    ) {
        let frame = frame.to_frame();
        let Some(negotiation) = &mut self.negotiation else {
            return;
        };
        let query = frame.child("query", ns::REGISTER);
        let Some(query) = query.filter(|_| stanza::check(&frame).is_ok()) else {
            let text = Some("Log in first.");
            return self.abort(StreamError::NotAuthorized, text, out, effects);
        };
        if self.config.require_tls && !negotiation.tls {
            return refuse(
                &frame,
                StanzaError::new(Condition::NotAllowed).with_text("Start TLS first."),
                out,
            );
        }
        if frame.attr("type").as_deref() == Some("get") {
            let mut writer = Writer::new(out);
            writer.open("iq").attr("type", "result");
            writer.attr("id", &frame.attr("id").unwrap_or_default());
            writer.open("query").attr("xmlns", ns::REGISTER);
            writer
                .open("instructions")
                .text("Choose a name and a password.")
                .close();
            writer.open("username").close().open("password").close();
            writer.close().close();
            return;
        }
        let text = |name| {
            let found = query.children().find(|child| child.name() == name);
            found.and_then(|child| child.text().map(|text| text.into_owned()))
        };
        let user = text("username").and_then(|name| addr::prepare_node(&name).ok());
        match (user, text("password")) {
            (Some(node), Some(password)) if sasl::prepare_password(&password).is_ok() => {
                let user = format!("{node}@{}", negotiation.domain);
                negotiation.stage = Stage::Registering(frame);
                effects.push(Effect::Register { user, password });
            }
            _ => refuse(&frame, StanzaError::new(Condition::NotAcceptable), out),
        }
    }

    /// The answer to [`Effect::Register`].
    pub fn registered(&mut self, result: Result<(), StanzaError>, out: &mut Vec<u8>) {
        let Some(negotiation) = &mut self.negotiation else {
            return;
        };
        match std::mem::replace(&mut negotiation.stage, Stage::Features) {
            Stage::Registering(frame) => match result {
                Ok(()) => {
                    // An account was made: the bound is for what comes to nothing. How many
                    // accounts an address makes has a bound of its own.
                    negotiation.elements = 0;
                    let mut writer = Writer::new(out);
                    writer.open("iq").attr("type", "result");
                    writer
                        .attr("id", &frame.attr("id").unwrap_or_default())
                        .close();
                }
                Err(error) => refuse(&frame, error, out),
            },
            other => negotiation.stage = other,
        }
    }

    fn handle_bind(&mut self, frame: &FrameRef<'_>, out: &mut Vec<u8>, effects: &mut Effects) {
        let frame = frame.to_frame();
        let Some(negotiation) = &mut self.negotiation else {
            return;
        };
        let Some(user) = negotiation.user.clone() else {
            return;
        };
        let request = frame.child("bind", ns::BIND);
        let is_set = frame.attr("type").as_deref() == Some("set") && stanza::check(&frame).is_ok();
        let Some(request) = request.filter(|_| is_set && negotiation.stage == Stage::Features)
        else {
            // Section 7.1: nothing else before a resource is bound.
            let text = Some("Bind a resource first.");
            return self.abort(StreamError::NotAuthorized, text, out, effects);
        };
        let wanted = request.children().find(|child| child.name() == "resource");
        let wanted = wanted.and_then(|child| child.text().map(|text| text.into_owned()));
        let resource = match wanted
            .filter(|text| !text.is_empty())
            .map(|text| addr::prepare_resource(&text))
        {
            None => None,
            Some(Ok(resource)) => Some(resource.to_string()),
            Some(Err(_)) => {
                return refuse(&frame, StanzaError::new(Condition::BadRequest), out);
            }
        };
        negotiation.stage = Stage::Binding(frame.attr("id").unwrap_or_default().into_owned());
        effects.push(Effect::Bind { user, resource });
    }

    /// The answer to [`Effect::Bind`].
    pub fn bound(&mut self, result: Result<Arc<str>, StanzaError>, out: &mut Vec<u8>) {
        let Some(negotiation) = &mut self.negotiation else {
            return;
        };
        let id = match std::mem::replace(&mut negotiation.stage, Stage::Features) {
            Stage::Binding(id) => id,
            other => return negotiation.stage = other,
        };
        let mut writer = Writer::new(out);
        writer.open("iq").attr("id", &id);
        match result {
            Ok(full) => {
                writer
                    .attr("type", "result")
                    .open("bind")
                    .attr("xmlns", ns::BIND);
                writer.open("jid").text(&full).close().close().close();
                self.negotiation = None;
                self.full = Some(full);
            }
            Err(error) => {
                let mut body = Vec::new();
                error.write(&mut body);
                writer.attr("type", "error").raw(&body).close();
            }
        }
    }

    /// The answer to [`Effect::Resume`]: the full address of the session, or `None` if it cannot be
    /// taken up and the client may bind a resource. The caller has written `<resumed/>` or
    /// `<failed/>`.
    pub fn resumed(&mut self, full: Option<Arc<str>>) {
        let Some(negotiation) = &mut self.negotiation else {
            return;
        };
        if negotiation.stage != Stage::Resuming {
            return;
        }
        negotiation.stage = Stage::Features;
        if full.is_some() {
            self.negotiation = None;
            self.full = full;
        }
    }
}

// ---- The bound session -------------------------------------------------------------------------

/// An element of the session `full`. Its stanza is stamped, and refused if it is malformed.
///
/// # Errors
/// What ends the stream.
fn handle_stanza(
    full: &str,
    frame: &FrameRef<'_>,
    out: &mut Vec<u8>,
    effects: &mut Effects,
) -> Result<(), StreamError> {
    let is_named = |name: &&str| frame.is_named(name);
    if !frame.is_of(ns::CLIENT) || !["message", "presence", "iq"].iter().any(is_named) {
        return match (frame.name(), frame.ns()) {
            ("enable" | "resume" | "r" | "a", ns::STREAM_MANAGEMENT)
            | ("active" | "inactive", ns::CLIENT_STATE) => {
                effects.push(Effect::Element(frame.to_frame()));
                Ok(())
            }
            _ => Err(StreamError::UnsupportedStanzaType),
        };
    }
    // Section 8.1.2.1: the address is the server's to give; a wrong one ends the stream.
    if let Some(from) = frame.attr("from") {
        let right = addr::normalize(&from)
            .is_ok_and(|from| *from == *full || *from == *addr::bare_part(full));
        if !right {
            return Err(StreamError::InvalidFrom);
        }
    }
    let to = frame.attr("to");
    let to = to.as_deref().map(addr::normalize);
    let kind = frame.attr("type");
    let mut edit = frame.edit().set_attr("from", full);
    if let Some(Ok(Cow::Owned(normal))) = &to {
        edit = edit.set_attr("to", normal);
    }
    // What routing compares has one spelling, so that `&#101;rror` is not an error to others.
    if let Some(Cow::Owned(kind)) = &kind {
        edit = edit.set_attr("type", kind);
    }
    let stanza = edit.finish();
    if matches!(to, Some(Err(_))) {
        refuse(&stanza, StanzaError::new(Condition::JidMalformed), out);
    } else if let Err(condition) = stanza::check(&stanza) {
        refuse(&stanza, StanzaError::new(condition), out);
    } else {
        effects.push(Effect::Stanza(stanza));
    }
    Ok(())
}

fn refuse(frame: &Frame, error: StanzaError, out: &mut Vec<u8>) {
    if let Some(reply) = error::reply(frame, &error) {
        out.extend_from_slice(reply.as_bytes());
    }
}

#[cfg(test)]
mod tests;
