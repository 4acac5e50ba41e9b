//! What a stanza costs beyond its bytes, where that is more than to handle it: its client may send
//! the less in the time that follows.

use std::time::Duration;

use xml::Frame;
use xmpp::ns::DISCO_ITEMS;

use crate::limits::{LIST_COST, SUBSCRIPTION_COST};
use crate::modules::pubsub;

/// As time of what its client may send ([`net::Cx::charge`]).
pub(super) fn of(frame: &Frame) -> Duration {
    match frame.name() {
        "presence" if is_subscription(frame) => SUBSCRIPTION_COST,
        "iq" if asks_for_list(frame) => LIST_COST,
        _ => Duration::ZERO,
    }
}

fn is_subscription(frame: &Frame) -> bool {
    matches!(
        frame.attr("type").as_deref(),
        Some("subscribe" | "subscribed" | "unsubscribe" | "unsubscribed")
    )
}

/// Whether all nodes of a service, or all occupants of a room, are looked at for the answer
/// (XEP-0030 section 4, XEP-0060 sections 5.6 and 5.7), however little of it is asked for.
fn asks_for_list(frame: &Frame) -> bool {
    frame.children().next().is_some_and(|asked| {
        let is_list = |name: &str| matches!(name, "subscriptions" | "affiliations");
        let of_nodes = asked.is("pubsub", pubsub::NS);
        let of_nodes = of_nodes && asked.children().any(|part| is_list(part.name()));
        of_nodes || asked.is("query", DISCO_ITEMS)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(stanza: &str) -> Duration {
        of(&Frame::parse(stanza.as_bytes()).unwrap())
    }

    #[test]
    fn lists_and_subscriptions_cost_more_than_their_bytes() {
        let iq = |inner: &str| cost(&format!("<iq type='get' id='1' to='a'>{inner}</iq>"));
        let nodes = |inner: &str| iq(&format!("<pubsub xmlns='{}'>{inner}</pubsub>", pubsub::NS));
        assert_eq!(iq(&format!("<query xmlns='{DISCO_ITEMS}'/>")), LIST_COST);
        assert_eq!(nodes("<subscriptions/>"), LIST_COST);
        assert_eq!(nodes("<affiliations/>"), LIST_COST);
        assert_eq!(nodes("<items node='a'/>"), Duration::ZERO);
        assert_eq!(iq("<ping xmlns='urn:xmpp:ping'/>"), Duration::ZERO);
        assert_eq!(iq(""), Duration::ZERO);
        assert_eq!(
            cost("<presence type='subscribe' to='a'/>"),
            SUBSCRIPTION_COST
        );
        assert_eq!(cost("<presence type='unavailable'/>"), Duration::ZERO);
    }
}
