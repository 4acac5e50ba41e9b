//! What a client hears: the outcome of its login, acknowledgements, messages, errors and pages of
//! its archive.

use super::super::PASSWORD;
use super::super::check::Back;
use super::{Client, End, Errand, NS_MAM, NS_RSM, NS_SM, Phase};
use crate::history::reader::Element;
use crate::tree::NS_CLIENT;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const NS_SID: &str = "urn:xmpp:sid:0";
const NS_SASL: &str = "urn:ietf:params:xml:ns:xmpp-sasl";
const NS_FORWARD: &str = "urn:xmpp:forward:0";

impl Client {
    pub(super) fn hear(&mut self, element: Element<'_>) {
        match (element.ns(), element.name()) {
            (_, "features") => self.features(),
            (NS_SASL, "success") => {
                if let Some(link) = &mut self.link {
                    link.restart();
                }
                self.phase = Phase::LoggedIn;
                self.open_stream();
            }
            (NS_SASL, _) => self.ends(End::NoLogin),
            (NS_SM, "enabled") => {
                self.received = 0;
                self.begin();
            }
            (NS_SM, "r") => self.acknowledge(),
            (NS_SM, "a") => self.acknowledged(element),
            (NS_CLIENT, name) => {
                self.received = self.received.wrapping_add(1);
                match name {
                    "iq" => self.answer(element),
                    "message" => self.message(element),
                    _ => self.heard.is_shown |= name == "presence",
                }
            }
            // An error of the stream, or stream management that is refused.
            _ => self.over(),
        }
    }

    fn features(&mut self) {
        if self.phase == Phase::Login {
            let plain = STANDARD.encode(format!("\0{}\0{PASSWORD}", self.name));
            self.tell(&format!(
                "<auth xmlns='{NS_SASL}' mechanism='PLAIN'>{plain}</auth>"
            ));
        } else if self.phase == Phase::LoggedIn {
            self.phase = Phase::Binding;
            self.tell(
                "<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>\
                 <resource>r</resource></bind></iq>",
            );
        }
    }

    fn acknowledged(&mut self, element: Element<'_>) {
        let h = element.attr("h").and_then(|h| h.parse().ok());
        self.heard.accepted = h.unwrap_or(self.heard.accepted);
        if let Errand::Write(stanzas) = &self.errand
            && self.heard.accepted >= stanzas.len()
            && self.phase == Phase::Ready
        {
            self.acknowledge();
            self.tell("</stream:stream>");
            self.phase = Phase::Closing;
        }
    }

    fn answer(&mut self, element: Element<'_>) {
        let is_result = element.attr("type") == Some("result");
        match element.attr("id") {
            Some("bind") if is_result && matches!(self.errand, Errand::Crash) => self.begin(),
            Some("bind") if is_result => {
                self.phase = Phase::Enabling;
                self.tell(&format!("<enable xmlns='{NS_SM}'/>"));
            }
            Some("bind") => self.ends(End::Lost),
            Some("archive") => self.page(element),
            _ => {}
        }
    }

    fn page(&mut self, element: Element<'_>) {
        let Some(fin) = element.child(NS_MAM, "fin") else {
            self.fault = Some(format!("no archive: {}", element.source()));
            return;
        };
        let set = fin.child(NS_RSM, "set");
        let last = set.and_then(|set| set.child(NS_RSM, "last"));
        match last.map(Element::text) {
            Some(last) if fin.attr("complete") != Some("true") => {
                self.ask_page(&format!("<after>{last}</after>"));
            }
            _ => self.heard.archive = self.pages.take(),
        }
    }

    fn message(&mut self, element: Element<'_>) {
        if let Some(result) = element.child(NS_MAM, "result") {
            let inner = result.child(NS_FORWARD, "forwarded");
            let inner = inner.and_then(|inner| inner.child(NS_CLIENT, "message"));
            let number = inner.filter(|inner| !is_error(*inner)).and_then(number);
            self.pages.iter_mut().for_each(|pages| pages.extend(number));
            return;
        }
        self.heard.has_news = true;
        if !is_error(element) {
            return self.heard.given.extend(number(element));
        }
        let id = element.attr("id").and_then(|id| id.strip_prefix('b'));
        let Some(number) = id.and_then(|id| id.parse().ok()) else {
            return;
        };
        let id = element.child(NS_SID, "stanza-id");
        self.heard.backs.push(Back {
            number,
            id: id.and_then(|id| id.attr("id")).map(str::to_owned),
            is_doubtful: element.source().contains("may have been delivered"),
        });
    }
}

fn is_error(message: Element<'_>) -> bool {
    message.attr("type") == Some("error")
}

/// The number of a message of the crowd, which is the first word of its body.
fn number(message: Element<'_>) -> Option<usize> {
    let body = message.child(NS_CLIENT, "body")?.text();
    body.split(' ').next()?.strip_prefix('b')?.parse().ok()
}
