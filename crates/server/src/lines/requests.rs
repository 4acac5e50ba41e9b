//! Requests of a client to the account itself that have no answer yet. One that was answered is not
//! done again by the next life of the account, recorded or not (docs/decisions/0136).

use actor::Name;
use xml::Frame;
use xmpp::ns;

use crate::address;

/// More of them than a window holds are not under way.
const REQUESTS_MAX: usize = 64;

/// See the module: with the counts of those stanzas.
#[derive(Debug, Default)]
pub(super) struct Requests(Vec<(u32, Frame)>);

impl Requests {
    /// A stanza of an account's client has this count. True if it is a request whose answer is
    /// waited for from now on.
    pub(super) fn waits_for(&mut self, user: &Name, count: u32, frame: &Frame) -> bool {
        let is_one = self.0.len() < REQUESTS_MAX && is_to_account(user, frame);
        if is_one {
            self.0.push((count, frame.clone()));
        }
        is_one
    }

    /// The client was written a stanza that is in no log: the answer to one of them?
    pub(super) fn answered(&mut self, stanza: &[u8]) {
        if self.0.is_empty() {
            return;
        }
        let Some(id) = id_of_answer(stanza) else {
            return;
        };
        let is_it = |(_, frame): &(u32, Frame)| frame.attr("id").as_deref() == Some(&*id);
        if let Some(at) = self.0.iter().position(is_it) {
            self.0.remove(at);
        }
        if self.0.is_empty() {
            self.0 = Vec::new();
        }
    }

    /// Whether the one with this count has no answer yet.
    pub(super) fn is_open(&self, count: u32) -> bool {
        self.0.iter().any(|(open, _)| *open == count)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(u32, Frame)> {
        self.0.iter()
    }
}

/// Whether it is the account itself that answers a stanza: whatever others were asked, they answer
/// whoever has the session.
fn is_to_account(user: &Name, frame: &Frame) -> bool {
    let kind = frame.attr("type");
    let is_request = matches!(kind.as_deref(), Some("get" | "set"));
    let to = frame.attr("to");
    let is_own = |to: &str| to == &**user || to == address::domain(user);
    frame.name() == "iq"
        && frame.ns() == ns::CLIENT
        && is_request
        && to.as_deref().is_none_or(is_own)
}

/// The id of the request that this stanza answers, if it does.
fn id_of_answer(stanza: &[u8]) -> Option<String> {
    let tag = stanza.strip_prefix(b"<iq ")?;
    // No attribute has one: it is written as an entity.
    let end = tag.iter().position(|byte| *byte == b'>')?;
    let tag = &tag[..end];
    let tag = tag.strip_suffix(b"/").unwrap_or(tag);
    let alone = [b"<iq ", tag, b"/>"].concat();
    let frame = Frame::parse(alone).ok()?;
    let is_answer = matches!(frame.attr("type").as_deref(), Some("result" | "error"));
    let id = frame.attr("id").map(|id| id.into_owned());
    id.filter(|_| is_answer)
}
