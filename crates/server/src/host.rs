//! Stanzas for a domain of this server itself: IQs that it answers as a service. It keeps no state,
//! so the shard of whoever asks answers at once.

use stdx::time::Timestamp;
use xml::Frame;
use xmpp::error::{Condition, StanzaError};
use xmpp::stanza::{self, IqType, Kind, MessageType};

use crate::home::Home;
use crate::iq::{self, Answer};
use crate::modules;

/// A question to the domain.
pub struct HostRequest<'a> {
    /// The node's state that answers need.
    pub home: &'a Home,
    /// The whole stanza.
    pub frame: &'a Frame,
    /// Its one child.
    pub payload: xml::Child<'a>,
    /// `type='set'` rather than `get`.
    pub is_set: bool,
    /// The time of the question.
    pub now: Timestamp,
}

/// What the domain says to a stanza; `None` where RFC 6120 section 8 wants silence.
pub(crate) fn answer(home: &Home, frame: &Frame, now: Timestamp) -> Option<Frame> {
    let refuse = |condition| xmpp::error::reply(frame, &StanzaError::new(condition));
    match stanza::parse_kind(frame).ok()? {
        Kind::Iq(kind @ (IqType::Get | IqType::Set)) => {
            let to = frame.attr("to");
            if to.is_some_and(|to| to.contains('/')) {
                return refuse(Condition::ServiceUnavailable);
            }
            let payload = iq::payload(frame)?;
            let answer =
                match modules::for_host(&home.options.modules, payload.name(), payload.ns()) {
                    Some(handler) => {
                        let is_set = kind == IqType::Set;
                        handler(&HostRequest {
                            home,
                            frame,
                            payload,
                            is_set,
                            now,
                        })
                    }
                    None => Answer::error(Condition::ServiceUnavailable),
                };
            iq::reply_of(frame, answer)
        }
        Kind::Iq(_) | Kind::Presence(_) => None,
        Kind::Message(MessageType::Error | MessageType::Headline) => None,
        Kind::Message(_) => refuse(Condition::ServiceUnavailable),
    }
}
