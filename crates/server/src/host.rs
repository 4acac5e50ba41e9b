//! Stanzas for addresses of this server that keep no state: its domains, and those of rooms
//! (`rooms`). The shard of whoever asks answers.

pub(crate) mod rooms;

use stdx::time::Timestamp;
use xml::{Child, Frame};
use xmpp::error::{Condition, StanzaError};
use xmpp::stanza::{self, IqType, Kind, MessageType};

use crate::home::Home;
use crate::iq::{self, Answer, Job};
use crate::modules::{self, HostRequest};

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
                            options: &home.options,
                            services: home.extensions.services,
                            started: home.started,
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

/// What an address that keeps no state says.
pub(crate) enum Said {
    /// Nothing, where RFC 6120 section 8 wants silence.
    Nothing,
    /// This.
    Now(Answer),
    /// What the store says.
    Read(Job),
}

impl Said {
    /// An error by its condition alone.
    pub(crate) fn error(condition: Condition) -> Said {
        Said::Now(Answer::error(condition))
    }
}

/// A request to a service that keeps no state: its payload, and whether it sets something.
///
/// # Errors
/// The stanza is none: what the service says to it.
pub(crate) fn request(frame: &Frame) -> Result<(Child<'_>, bool), Said> {
    let is_set = match stanza::parse_kind(frame) {
        Ok(Kind::Iq(IqType::Get)) => false,
        Ok(Kind::Iq(IqType::Set)) => true,
        Ok(Kind::Message(MessageType::Error | MessageType::Headline)) => return Err(Said::Nothing),
        Ok(Kind::Message(_)) => return Err(Said::error(Condition::ServiceUnavailable)),
        Ok(Kind::Iq(_) | Kind::Presence(_)) | Err(_) => return Err(Said::Nothing),
    };
    let Some(payload) = iq::payload(frame) else {
        return Err(Said::error(Condition::BadRequest));
    };
    match frame.attr("to").is_some_and(|to| to.contains('/')) {
        true => Err(Said::error(Condition::ServiceUnavailable)),
        false => Ok((payload, is_set)),
    }
}
