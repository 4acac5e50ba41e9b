//! What a line of an account may say: texts and elements that clients can be sent as they are, and
//! addresses in normal form. What it makes of them is in `portable.rs`; lines of rooms and nodes
//! look at their own.

use serde_json::Value;
use xml::Frame;

use super::{Bad, Contact, Line, bad, bare};

/// An address in normal form, bare or full.
pub(super) fn address(jid: &str) -> Result<String, Bad> {
    let normal = xmpp::addr::normalize(jid);
    let normal = normal.map_err(|error| bad(&format!("{jid:?} is not an address: {error}")))?;
    Ok(normal.into_owned())
}

/// Refuses a line with a character that XML has no form for, in any of its texts: a client that
/// was sent it would leave, and come back to the same.
pub(super) fn check_characters(line: &str) -> Result<(), Bad> {
    // JSON has to escape nearly all of them, so most lines are not looked at twice.
    let is_suspect = ["\\u", "\\b", "\\f", "\u{fffe}", "\u{ffff}"];
    if !is_suspect.iter().any(|sign| line.contains(sign)) {
        return Ok(());
    }
    match serde_json::from_str::<Value>(line) {
        Ok(value) if has_foreign(&value) => Err(bad("a character that XML does not have")),
        _ => Ok(()),
    }
}

/// As deep as JSON may be nested.
fn has_foreign(value: &Value) -> bool {
    let is_foreign = |text: &str| !text.chars().all(xml::escape::is_char);
    match value {
        Value::String(text) => is_foreign(text),
        Value::Array(values) => values.iter().any(has_foreign),
        Value::Object(fields) => fields
            .iter()
            .any(|(name, value)| is_foreign(name) || has_foreign(value)),
        _ => false,
    }
}

fn is_element(xml: &str, name: &str, ns: Option<&str>) -> bool {
    Frame::parse(xml)
        .is_ok_and(|frame| frame.name() == name && ns.is_none_or(|ns| frame.ns() == ns))
}

impl Line {
    /// Normalises the addresses of a line of an account, and refuses what is no element.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn check(&mut self) -> Result<(), Bad> {
        match self {
            Line::Roster { items, .. } => items.iter_mut().try_for_each(Contact::check),
            Line::Blocklist { blocked, .. } => blocked.iter_mut().try_for_each(|blocked| {
                *blocked = address(blocked)?;
                Ok(())
            }),
            Line::Vcard { xml, .. } if !is_element(xml, "vCard", Some("vcard-temp")) => {
                Err(bad("xml that is no <vCard/>"))
            }
            Line::Private { xml, ns, name, .. } if !is_element(xml, name, Some(ns)) => {
                Err(bad("xml that is not the element that it is named"))
            }
            _ => Ok(()),
        }
    }
}

impl Contact {
    fn check(&mut self) -> Result<(), Bad> {
        self.jid = bare(&self.jid)?;
        match &self.request {
            Some(xml) if !is_element(xml, "presence", None) => {
                Err(bad("a request that is no <presence/>"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(fields: &str) -> Result<String, Bad> {
        let text = format!(r#"{{"jid":"a@x",{fields}}}"#);
        check_characters(&text)?;
        let mut line = super::super::parse(&text).expect("a line");
        line.check()?;
        Ok(serde_json::to_string(&line).unwrap())
    }

    #[test]
    fn what_no_client_can_be_sent_is_refused() {
        for bad in [
            r#""type":"directory","nick":"a\u0001""#,
            r#""type":"directory","nick":"\b""#,
            "\"type\":\"directory\",\"nick\":\"\u{ffff}\"",
            r#""type":"roster","items":[{"jid":"b@x","subscription":"to","groups":["\u001b"]}]"#,
            r#""type":"roster","items":[{"jid":"b@ x","subscription":"to"}]"#,
            r#""type":"roster","items":[{"jid":"b@x","subscription":"to","request":"<presence>"}]"#,
            r#""type":"blocklist","blocked":["b@/"]"#,
            r#""type":"vcard","photo_hash":"","xml":"<vCard xmlns='vcard-temp'>""#,
            r#""type":"vcard","photo_hash":"","xml":"<vCard xmlns='urn:x'/>""#,
            r#""type":"private","ns":"urn:x","name":"e","xml":"<e xmlns='urn:y'/>""#,
            r#""type":"private","ns":"urn:x","name":"e","xml":"<e xmlns='urn:x'/></iq>""#,
        ] {
            assert!(line(bad).is_err(), "{bad}");
        }
        for good in [
            r#""type":"directory","nick":"\u00e9\t\n""#,
            r#""type":"vcard","photo_hash":"","xml":"<vCard xmlns='vcard-temp'/>""#,
            r#""type":"private","ns":"urn:x","name":"e","xml":"<e xmlns='urn:x'><f/></e>""#,
            r#""type":"roster","items":[{"jid":"b@x","subscription":"none",
                "request":"<presence type='subscribe'/>"}]"#,
        ] {
            assert!(line(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn addresses_are_normalised() {
        let roster = r#""type":"roster","items":[{"jid":"B@X","subscription":"both"}]"#;
        assert!(line(roster).unwrap().contains("\"b@x\""));
        let blocked = r#""type":"blocklist","blocked":["B@X/Desk","X"]"#;
        let blocked = line(blocked).unwrap();
        assert!(blocked.contains(r#"["b@x/Desk","x"]"#), "{blocked}");
    }
}
