//! What a stream remembers until a resource is bound; dropped then.

use xml::Frame;
use xml::build::Writer;

use crate::ns;
use crate::sasl::{ClientFirst, Mechanism, Scram};
use crate::stream::C2sConfig;

/// Where the negotiation stands.
#[derive(Default)]
pub(crate) enum Stage {
    #[default]
    Header,
    Features,
    InitialResponse,
    ScramKeys(ClientFirst),
    PlainKeys(String),
    Proof(Box<Scram>),
    PlainProof,
    Registering(Frame),
    Binding(String),
    Resuming,
    Closed,
}

impl PartialEq for Stage {
    fn eq(&self, other: &Stage) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl Stage {
    /// Whether the caller owes an answer.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(
            self,
            Stage::ScramKeys(_)
                | Stage::PlainKeys(_)
                | Stage::PlainProof
                | Stage::Registering(_)
                | Stage::Binding(_)
                | Stage::Resuming
                | Stage::Closed
        )
    }
}

#[derive(Default)]
pub(crate) struct Negotiation {
    pub(crate) stage: Stage,
    pub(crate) id: String,
    restarts: u8,
    pub(crate) domain: String,
    pub(crate) lang: Option<Box<str>>,
    pub(crate) header_sent: bool,
    pub(crate) tls: bool,
    pub(crate) exporter: Option<[u8; 32]>,
    pub(crate) mechanism: Option<Mechanism>,
    pub(crate) nonce: String,
    pub(crate) claimed: Option<String>,
    pub(crate) locked: bool,
    pub(crate) user: Option<String>,
    pub(crate) attempts: u8,
    pub(crate) elements: u16,
}

impl Negotiation {
    pub(crate) fn new(id: String) -> Self {
        Negotiation {
            id,
            ..Negotiation::default()
        }
    }

    /// The stream begins anew; a new stream has a new id (RFC 6120 section 4.7.3).
    pub(crate) fn restart(&mut self) {
        self.stage = Stage::Header;
        self.header_sent = false;
        self.restarts += 1;
    }

    pub(crate) fn write_header(&mut self, domain: &str, out: &mut Vec<u8>) {
        self.header_sent = true;
        let id = format!("{}{}", self.id, self.restarts);
        let lang = self.lang.as_deref().unwrap_or("en");
        out.extend_from_slice(b"<?xml version='1.0'?>");
        let at = out.len();
        let mut writer = Writer::new(out);
        writer
            .open("stream:stream")
            .attr("id", &id)
            .attr("from", domain);
        writer.attr("version", "1.0").attr("xml:lang", lang);
        writer
            .attr("xmlns", ns::CLIENT)
            .attr("xmlns:stream", ns::STREAMS)
            .close();
        // The tag stays open: it ends with the stream.
        debug_assert!(out.ends_with(b"/>") && out.len() > at);
        out.truncate(out.len() - 2);
        out.push(b'>');
    }

    /// Whether the client has authenticated and nothing of it is under way.
    pub(crate) fn may_bind(&self) -> bool {
        self.user.is_some() && self.stage == Stage::Features
    }

    /// Whether a mechanism may be used on this stream as it is now.
    pub(crate) fn offers(&self, config: &C2sConfig, mechanism: Mechanism) -> bool {
        let allowed = config.mechanisms.contains(&mechanism) && (self.tls || !config.require_tls);
        match mechanism {
            Mechanism::Plain => allowed && (self.tls || config.plain_without_tls),
            _ if mechanism.is_plus() => allowed && self.exporter.is_some(),
            _ => allowed,
        }
    }

    pub(crate) fn write_features(&self, config: &C2sConfig, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.open("stream:features");
        if self.user.is_some() {
            writer.open("bind").attr("xmlns", ns::BIND).close();
            writer
                .open("ver")
                .attr("xmlns", ns::ROSTER_VERSIONING)
                .close();
            writer.open("sub").attr("xmlns", ns::PRE_APPROVAL).close();
            writer.raw(&config.features).raw(&config.session_features);
            writer.close();
            return;
        }
        if !self.tls && config.has_tls {
            writer.open("starttls").attr("xmlns", ns::TLS);
            if config.require_tls {
                writer.open("required").close();
            }
            writer.close();
        }
        let mut offered = config
            .mechanisms
            .iter()
            .filter(|mechanism| self.offers(config, **mechanism))
            .peekable();
        if offered.peek().is_some() {
            writer.open("mechanisms").attr("xmlns", ns::SASL);
            for mechanism in offered {
                writer.open("mechanism").text(mechanism.as_str()).close();
            }
            writer.close();
            if self.exporter.is_some() {
                writer
                    .open("sasl-channel-binding")
                    .attr("xmlns", ns::SASL_CHANNEL_BINDING);
                writer
                    .open("channel-binding")
                    .attr("type", "tls-exporter")
                    .close()
                    .close();
            }
        }
        if config.registration && (self.tls || !config.require_tls) {
            writer
                .open("register")
                .attr("xmlns", ns::REGISTER_FEATURE)
                .close();
        }
        writer.raw(if config.require_tls && !self.tls {
            b""
        } else {
            &config.features
        });
        writer.close();
    }
}
