//! What a stanza costs beyond its bytes, where that is more than to handle it: its client may send
//! the less in the time that follows.

use std::time::Duration;

use xml::Frame;

use crate::limits::SUBSCRIPTION_COST;

/// As time of what its client may send ([`net::Cx::charge`]).
pub(super) fn of(frame: &Frame) -> Duration {
    let is_subscription = || {
        matches!(
            frame.attr("type").as_deref(),
            Some("subscribe" | "subscribed" | "unsubscribe" | "unsubscribed")
        )
    };
    match frame.is_named("presence") && is_subscription() {
        true => SUBSCRIPTION_COST,
        false => Duration::ZERO,
    }
}
