//! Requests of a client to the account itself that have no answer yet. One that was answered is not
//! done again by the next life of the account, recorded or not (docs/decisions/0136); one that a
//! record says was handled, and that was not answered, is answered with an error.

use actor::Name;
use xml::Frame;
use xmpp::error::{Condition, StanzaError};
use xmpp::ns;

use super::near::is_up_to;
use crate::address;

/// See the module: with the counts of those stanzas.
#[derive(Debug, Default)]
pub(super) struct Requests(Vec<(u32, Frame)>);

impl Requests {
    /// A stanza of an account's client has this count. True if it is a request whose answer is
    /// waited for from now on, as those of so many others.
    pub(super) fn waits_for(
        &mut self,
        user: &Name,
        (count, frame): (u32, &Frame),
        most: usize,
    ) -> bool {
        let is_one = self.0.len() < most && is_to_account(user, frame);
        if is_one {
            self.0.push((count, frame.clone()));
        }
        is_one
    }

    /// The client was written a stanza that is in no log: gives the count of the request that it
    /// answers, if it is one of them. Others may send it answers with any id.
    pub(super) fn answered(&mut self, user: &Name, stanza: &[u8]) -> Option<u32> {
        if self.0.is_empty() {
            return None;
        }
        let answer = answer(stanza)?;
        let from = answer.attr("from");
        if !from.as_deref().is_none_or(|from| is_own(user, from)) {
            return None;
        }
        let id = answer.attr("id");
        let is_it = |(_, frame): &(u32, Frame)| frame.attr("id") == id;
        let (count, _) = self.0.remove(self.0.iter().position(is_it)?);
        if self.0.is_empty() {
            self.0 = Vec::new();
        }
        Some(count)
    }

    /// The one with this count has no answer to come.
    pub(super) fn forget(&mut self, count: u32) {
        self.0.retain(|(open, _)| *open != count);
    }

    /// Those up to a count.
    pub(super) fn up_to(&self, count: u32) -> Requests {
        let all = self.0.iter();
        Requests(
            all.filter(|(own, _)| is_up_to(*own, count))
                .cloned()
                .collect(),
        )
    }

    /// The count of the first of them.
    pub(super) fn first(&self) -> Option<u32> {
        self.0.first().map(|(count, _)| *count)
    }

    /// Whether the one with this count has no answer yet.
    pub(super) fn is_open(&self, count: u32) -> bool {
        self.0.iter().any(|(open, _)| *open == count)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(u32, Frame)> {
        self.0.iter()
    }
}

/// What a request is answered by the next life of the account, if the last one has handled it and
/// died before the answer left.
pub(crate) fn lost_answer(request: &Frame) -> Option<Vec<u8>> {
    let error = StanzaError::new(Condition::InternalServerError)
        .with_text("The request may have been carried out.");
    let answer = xmpp::error::reply(request, &error)?;
    Some(answer.as_bytes().to_vec())
}

/// Whether it is the account itself that answers a stanza: whatever others were asked, they answer
/// whoever has the session.
fn is_to_account(user: &Name, frame: &Frame) -> bool {
    let kind = frame.attr("type");
    let is_request = matches!(kind.as_deref(), Some("get" | "set"));
    let to = frame.attr("to");
    frame.name() == "iq"
        && frame.ns() == ns::CLIENT
        && is_request
        && to.as_deref().is_none_or(|to| is_own(user, to))
}

/// The account, or the server that it is at.
pub(crate) fn is_own(user: &Name, other: &str) -> bool {
    *other == **user || other == address::domain(user)
}

/// The first tag of a stanza that answers a request.
fn answer(stanza: &[u8]) -> Option<Frame> {
    let frame = stanza
        .starts_with(b"<iq ")
        .then(|| Frame::of_start_tag(stanza))??;
    let is_answer = matches!(frame.attr("type").as_deref(), Some("result" | "error"));
    (is_answer && frame.attr("id").is_some()).then_some(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(xml: &str) -> Frame {
        Frame::parse(xml.as_bytes().to_vec()).expect("a stanza")
    }

    /// Goal: with as many requests as may wait, a further one is not waited for, until one of them
    /// has its answer.
    #[test]
    fn requests_that_wait_are_bounded() {
        let ask = |id: u32| {
            parsed(&format!(
                "<iq xmlns='jabber:client' type='get' id='{id}'><q xmlns='q'/></iq>"
            ))
        };
        let (user, mut requests) = (Name::from("a@x"), Requests::default());
        assert!(requests.waits_for(&user, (1, &ask(1)), 1));
        assert!(!requests.waits_for(&user, (2, &ask(2)), 1));
        let answered = requests.answered(&user, b"<iq type='result' id='1' to='a@x/r'/>");
        assert_eq!((answered, requests.is_open(2)), (Some(1), false));
        assert!(requests.waits_for(&user, (3, &ask(3)), 1));
        assert_eq!(requests.first(), Some(3));
    }
}
