//! Refusals: a condition of RFC 6120, what XEP-0060 adds to it, and the answer that carries both.

use xml::Frame;
use xml::build::Writer;
use xmpp::error::{Condition, StanzaError};

pub(crate) const NS: &str = "http://jabber.org/protocol/pubsub";
pub(crate) const NS_OWNER: &str = "http://jabber.org/protocol/pubsub#owner";
pub(crate) const NS_EVENT: &str = "http://jabber.org/protocol/pubsub#event";
const NS_ERRORS: &str = "http://jabber.org/protocol/pubsub#errors";

/// Why a request is not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) condition: Condition,
    /// Another type than the condition's usual one.
    kind: Option<&'static str>,
    /// A condition of `pubsub#errors`.
    pub(crate) app: Option<&'static str>,
    /// What is not supported, where that is the condition.
    feature: Option<&'static str>,
    /// Where the node is now, for `gone`.
    uri: Option<String>,
    /// The list entries that could not be changed, a well-formed element.
    entries: Vec<u8>,
}

impl From<Condition> for Refusal {
    fn from(condition: Condition) -> Self {
        Refusal {
            condition,
            kind: None,
            app: None,
            feature: None,
            uri: None,
            entries: Vec::new(),
        }
    }
}

impl Refusal {
    /// A condition with one of `pubsub#errors`.
    pub(crate) fn of(condition: Condition, app: &'static str) -> Refusal {
        Refusal {
            app: Some(app),
            ..condition.into()
        }
    }

    /// `feature-not-implemented`, naming what.
    pub(crate) fn unsupported(feature: &'static str) -> Refusal {
        Refusal {
            app: Some("unsupported"),
            feature: Some(feature),
            ..Condition::FeatureNotImplemented.into()
        }
    }

    /// The node has moved (section 6.1.3.10).
    pub(crate) fn gone(uri: &str) -> Refusal {
        Refusal {
            uri: Some(uri.to_owned()),
            kind: Some("modify"),
            ..Condition::Gone.into()
        }
    }

    pub(crate) fn with_kind(mut self, kind: &'static str) -> Refusal {
        self.kind = Some(kind);
        self
    }

    /// Returns list entries with it (sections 8.8.2.4 and 8.9.2.4).
    pub(crate) fn with_entries(mut self, entries: Vec<u8>) -> Refusal {
        self.entries = entries;
        self
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        let kind = self.kind.unwrap_or(self.condition.kind());
        writer.open("error").attr("type", kind);
        writer
            .open(self.condition.as_str())
            .attr("xmlns", xmpp::ns::STANZA_ERRORS);
        if let Some(uri) = &self.uri {
            writer.text(uri);
        }
        writer.close();
        if let Some(app) = self.app {
            writer.open(app).attr("xmlns", NS_ERRORS);
            if let Some(feature) = self.feature {
                writer.attr("feature", feature);
            }
            writer.close();
        }
        writer.close();
    }
}

/// The error that answers a stanza. `None` where RFC 6120 section 8.3.1 forbids one.
pub(crate) fn reply(frame: &Frame, refusal: &Refusal) -> Option<Frame> {
    let plain = xmpp::error::reply(frame, &StanzaError::new(refusal.condition))?;
    let mut content = refusal.entries.clone();
    refusal.write(&mut content);
    let edit = plain
        .edit()
        .remove_children(|child| child.name() == "error");
    Some(edit.append_child(&content).finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_the_text_asks_for() {
        let iq = Frame::parse("<iq type='set' id='1' from='a@b/c' to='p'/>").unwrap();
        let text = |refusal: &Refusal| {
            let frame = reply(&iq, refusal).unwrap();
            String::from_utf8(frame.as_bytes().to_vec()).unwrap()
        };
        let found = text(&Refusal::unsupported("collections"));
        assert!(
            found.contains("<error type='cancel'><feature-not-implemented"),
            "{found}"
        );
        let app = format!("<unsupported xmlns='{NS_ERRORS}' feature='collections'/>");
        assert!(found.contains(&app), "{found}");
        let found = text(&Refusal::gone("xmpp:p?;node=<n"));
        assert!(found.contains("<error type='modify'><gone"), "{found}");
        assert!(found.contains(">xmpp:p?;node=&lt;n</gone>"), "{found}");
        let entries = Refusal::from(Condition::NotAcceptable).with_entries(b"<pubsub/>".to_vec());
        assert!(text(&entries).contains("<pubsub/><error type='modify'>"));
        let result = Frame::parse("<iq type='result' id='1' from='a@b/c' to='p'/>").unwrap();
        assert!(reply(&result, &entries).is_none());
    }
}
