//! Stanza errors (RFC 6120 section 8.3) and stream errors (section 4.9): every condition, and the
//! stanzas that carry them.

use std::borrow::Cow;

use xml::Frame;
use xml::build::Writer;

use crate::ns;

macro_rules! conditions {
    ($(#[$doc:meta])* $name:ident { $($variant:ident => $text:literal $(, $kind:literal)?;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $(#[doc = concat!("`<", $text, "/>`")] $variant,)*
        }

        impl $name {
            /// Every condition.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// The condition whose element has this name.
            pub fn parse(name: &str) -> Option<$name> {
                $name::ALL.iter().copied().find(|one| one.as_str() == name)
            }

            /// The name of its element.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }

            /// The error type that goes with it, empty where there is none.
            pub fn kind(self) -> &'static str {
                match self { $($name::$variant => concat!("", $($kind)?),)* }
            }
        }
    };
}

conditions! {
    /// The conditions of stanza errors (RFC 6120 section 8.3.3), with their usual types.
    Condition {
        BadRequest => "bad-request", "modify";
        Conflict => "conflict", "cancel";
        FeatureNotImplemented => "feature-not-implemented", "cancel";
        Forbidden => "forbidden", "auth";
        Gone => "gone", "cancel";
        InternalServerError => "internal-server-error", "cancel";
        ItemNotFound => "item-not-found", "cancel";
        JidMalformed => "jid-malformed", "modify";
        NotAcceptable => "not-acceptable", "modify";
        NotAllowed => "not-allowed", "cancel";
        NotAuthorized => "not-authorized", "auth";
        PolicyViolation => "policy-violation", "modify";
        RecipientUnavailable => "recipient-unavailable", "wait";
        Redirect => "redirect", "modify";
        RegistrationRequired => "registration-required", "auth";
        RemoteServerNotFound => "remote-server-not-found", "cancel";
        RemoteServerTimeout => "remote-server-timeout", "wait";
        ResourceConstraint => "resource-constraint", "wait";
        ServiceUnavailable => "service-unavailable", "cancel";
        SubscriptionRequired => "subscription-required", "auth";
        UndefinedCondition => "undefined-condition", "cancel";
        UnexpectedRequest => "unexpected-request", "wait";
    }
}

conditions! {
    /// The conditions of stream errors (RFC 6120 section 4.9.3).
    StreamError {
        BadFormat => "bad-format";
        BadNamespacePrefix => "bad-namespace-prefix";
        Conflict => "conflict";
        ConnectionTimeout => "connection-timeout";
        HostGone => "host-gone";
        HostUnknown => "host-unknown";
        ImproperAddressing => "improper-addressing";
        InternalServerError => "internal-server-error";
        InvalidFrom => "invalid-from";
        InvalidNamespace => "invalid-namespace";
        InvalidXml => "invalid-xml";
        NotAuthorized => "not-authorized";
        NotWellFormed => "not-well-formed";
        PolicyViolation => "policy-violation";
        RemoteConnectionFailed => "remote-connection-failed";
        Reset => "reset";
        ResourceConstraint => "resource-constraint";
        RestrictedXml => "restricted-xml";
        SeeOtherHost => "see-other-host";
        SystemShutdown => "system-shutdown";
        UndefinedCondition => "undefined-condition";
        UnsupportedEncoding => "unsupported-encoding";
        UnsupportedFeature => "unsupported-feature";
        UnsupportedStanzaType => "unsupported-stanza-type";
        UnsupportedVersion => "unsupported-version";
    }
}

/// The types of stanza errors (RFC 6120 section 8.3.2).
pub const KINDS: [&str; 5] = ["auth", "cancel", "continue", "modify", "wait"];

/// What is wrong with a stanza.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StanzaError {
    /// The condition; it decides the type.
    pub condition: Condition,
    /// A sentence for people.
    pub text: Option<Cow<'static, str>>,
    /// An application's own condition, a well-formed element.
    pub app: Option<Cow<'static, str>>,
    /// Another type than the condition's usual one.
    pub kind: Option<&'static str>,
}

impl StanzaError {
    /// An error of a condition.
    pub fn new(condition: Condition) -> Self {
        StanzaError {
            condition,
            text: None,
            app: None,
            kind: None,
        }
    }

    /// Adds a sentence for people.
    #[must_use]
    pub fn with_text(mut self, text: &'static str) -> Self {
        self.text = Some(Cow::Borrowed(text));
        self
    }

    /// Adds an application's condition.
    #[must_use]
    pub fn with_app(mut self, app: &'static str) -> Self {
        self.app = Some(Cow::Borrowed(app));
        self
    }

    /// Gives it another type than the condition's usual one.
    #[must_use]
    pub fn with_kind(mut self, kind: &'static str) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Writes the `<error/>` element.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer
            .open("error")
            .attr("type", self.kind.unwrap_or(self.condition.kind()));
        writer
            .open(self.condition.as_str())
            .attr("xmlns", ns::STANZA_ERRORS)
            .close();
        if let Some(text) = &self.text {
            writer
                .open("text")
                .attr("xmlns", ns::STANZA_ERRORS)
                .attr("xml:lang", "en");
            writer.text(text).close();
        }
        if let Some(app) = &self.app {
            writer.raw(app.as_bytes());
        }
        writer.close();
    }
}

/// The error stanza that answers `frame`, its addresses swapped. `None` where RFC 6120 section
/// 8.3.1 forbids one: for errors and for IQ results.
pub fn reply(frame: &Frame, error: &StanzaError) -> Option<Frame> {
    let kind = frame.attr("type");
    let kind = kind.as_deref();
    if kind == Some("error") || (frame.name() == "iq" && kind == Some("result")) {
        return None;
    }
    let mut bytes = Vec::with_capacity(256);
    let mut writer = Writer::new(&mut bytes);
    writer.open(frame.name()).attr("type", "error");
    for (theirs, ours) in [("id", "id"), ("from", "to"), ("to", "from")] {
        if let Some(value) = frame.attr(theirs) {
            writer.attr(ours, &value);
        }
    }
    // By this clients tell that they did not enter a room (XEP-0045 sections 7.2.5 to 7.2.10) from
    // what becomes of other presence.
    if frame.name() == "presence" && frame.child("x", ns::MUC).is_some() {
        writer.open("x").attr("xmlns", ns::MUC).close();
    }
    let mut body = Vec::new();
    error.write(&mut body);
    writer.raw(&body).close();
    Frame::parse(bytes).ok()
}

impl StreamError {
    /// Writes the error and the end of the stream. The header must have been written.
    pub fn write(self, text: Option<&str>, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.open("stream:error");
        writer
            .open(self.as_str())
            .attr("xmlns", ns::STREAM_ERRORS)
            .close();
        if let Some(text) = text {
            writer
                .open("text")
                .attr("xmlns", ns::STREAM_ERRORS)
                .attr("xml:lang", "en");
            writer.text(text).close();
        }
        writer.close();
        out.extend_from_slice(b"</stream:stream>");
    }

    /// Writes the error of a client that is served elsewhere (RFC 6120 section 4.9.3.19), and the
    /// end of the stream.
    pub fn write_see_other_host(host: &str, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.open("stream:error");
        writer
            .open(StreamError::SeeOtherHost.as_str())
            .attr("xmlns", ns::STREAM_ERRORS);
        writer.text(host).close().close();
        out.extend_from_slice(b"</stream:stream>");
    }

    /// The stream error for what the framer refuses. One arm for each, so that a new one is not
    /// forgotten.
    pub fn of_xml(error: xml::Error) -> Self {
        match error {
            xml::Error::NotWellFormed(_) | xml::Error::BadVersion | xml::Error::UnboundPrefix => {
                StreamError::NotWellFormed
            }
            xml::Error::Restricted(_) => StreamError::RestrictedXml,
            xml::Error::BadEncoding => StreamError::UnsupportedEncoding,
            xml::Error::TooLarge
            | xml::Error::TooDeep
            | xml::Error::TooManyAttributes
            | xml::Error::TooManyChildren
            | xml::Error::TooManyPrefixes => StreamError::PolicyViolation,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_goes_back_to_its_sender() {
        let frame = Frame::parse("<message from='a@b/c' to='d@e' id='1'/>").unwrap();
        let error = StanzaError::new(Condition::ServiceUnavailable);
        let reply = reply(&frame, &error).unwrap();
        assert_eq!(reply.attr_raw("to"), Some("a@b/c"));
        assert_eq!(reply.attr_raw("from"), Some("d@e"));
        assert_eq!(reply.attr_raw("type"), Some("error"));
        assert!(super::reply(&reply, &error).is_none());
    }

    #[test]
    fn the_specification_knows_22_and_25_conditions() {
        assert_eq!((Condition::ALL.len(), StreamError::ALL.len()), (22, 25));
    }
}
