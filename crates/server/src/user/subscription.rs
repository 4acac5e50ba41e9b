//! The presence-subscription state machine of RFC 6121 section 3 and appendix A: pure functions
//! from a roster item's state and a stanza to the new state and what must happen. It sends nothing.

use super::roster::{Subscription, SubscriptionState};

/// The four subscription stanzas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// `<presence type='subscribe'/>`
    Subscribe,
    /// `<presence type='subscribed'/>`
    Subscribed,
    /// `<presence type='unsubscribe'/>`
    Unsubscribe,
    /// `<presence type='unsubscribed'/>`
    Unsubscribed,
}

impl Action {
    /// The value of the `type` attribute.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Action::Subscribe => "subscribe",
            Action::Subscribed => "subscribed",
            Action::Unsubscribe => "unsubscribe",
            Action::Unsubscribed => "unsubscribed",
        }
    }
}

/// What the user's own server does with a stanza that the user sends (appendix A.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outbound {
    /// State of the roster item afterwards.
    pub state: SubscriptionState,
    /// Whether the stanza goes on to the contact.
    pub route: bool,
    /// Presence that follows a change of what the contact may see.
    pub follow: Follow,
}

/// What the contact's server does with a stanza that arrives (appendix A.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inbound {
    /// State of the roster item afterwards.
    pub state: SubscriptionState,
    /// Whether the stanza is shown to the recipient's clients.
    pub deliver: bool,
    /// A stanza that the server answers on the recipient's behalf.
    pub reply: Option<Action>,
    /// Presence that follows a change of what the sender may see.
    pub follow: Follow,
}

/// Presence that the server sends on behalf of the user after a change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    /// Nothing changes for the other party.
    Nothing,
    /// The other party may now see the user: current presence of every available resource.
    Available,
    /// The other party may not see the user any more: unavailable presence of every resource.
    Unavailable,
}

/// Appendix A.2: the user sends `action` to a contact whose item is in `state`.
pub(crate) fn outbound(mut state: SubscriptionState, action: Action) -> Outbound {
    let (mut route, mut follow) = (true, Follow::Nothing);
    match action {
        Action::Subscribe => state.ask |= !state.subscription.to(),
        Action::Unsubscribe => {
            state.ask = false;
            state.subscription = state.subscription.without_to();
        }
        Action::Subscribed => {
            route = state.pending_in;
            if state.pending_in {
                state.pending_in = false;
                state.subscription = state.subscription.with_from();
                follow = Follow::Available;
            } else if !state.subscription.from() {
                // Section 3.4: approval ahead of the request, kept on this server only.
                state.approved = true;
            }
        }
        Action::Unsubscribed => {
            route = state.pending_in || state.subscription.from();
            if state.subscription.from() {
                follow = Follow::Unavailable;
            }
            state.pending_in = false;
            state.approved = false;
            state.subscription = state.subscription.without_from();
        }
    }
    Outbound {
        state,
        route,
        follow,
    }
}

/// Appendix A.3: `action` arrives from a contact whose item is in `state`.
pub(crate) fn inbound(mut state: SubscriptionState, action: Action) -> Inbound {
    let (mut deliver, mut reply, mut follow) = (false, None, Follow::Nothing);
    match action {
        Action::Subscribe if state.subscription.from() => reply = Some(Action::Subscribed),
        Action::Subscribe if state.approved => {
            state.subscription = state.subscription.with_from();
            state.approved = false;
            reply = Some(Action::Subscribed);
            follow = Follow::Available;
        }
        Action::Subscribe => {
            // Asked again while the first request still waits: the client has seen it already.
            deliver = !state.pending_in;
            state.pending_in = true;
        }
        Action::Unsubscribe => {
            deliver = state.pending_in || state.subscription.from();
            if state.subscription.from() {
                reply = Some(Action::Unsubscribed);
                follow = Follow::Unavailable;
            }
            state.pending_in = false;
            state.subscription = state.subscription.without_from();
        }
        Action::Subscribed => {
            deliver = state.ask && !state.subscription.to();
            if deliver {
                state.ask = false;
                state.subscription = state.subscription.with_to();
            }
        }
        Action::Unsubscribed => {
            deliver = state.ask || state.subscription.to();
            state.ask = false;
            state.subscription = state.subscription.without_to();
        }
    }
    Inbound {
        state,
        deliver,
        reply,
        follow,
    }
}

impl Subscription {
    /// Whether the user receives the contact's presence.
    pub fn to(self) -> bool {
        matches!(self, Subscription::To | Subscription::Both)
    }

    /// Whether the contact receives the user's presence.
    pub fn from(self) -> bool {
        matches!(self, Subscription::From | Subscription::Both)
    }

    fn of(to: bool, from: bool) -> Self {
        match (to, from) {
            (false, false) => Subscription::None,
            (true, false) => Subscription::To,
            (false, true) => Subscription::From,
            (true, true) => Subscription::Both,
        }
    }

    fn with_to(self) -> Self {
        Self::of(true, self.from())
    }

    fn with_from(self) -> Self {
        Self::of(self.to(), true)
    }

    fn without_to(self) -> Self {
        Self::of(false, self.from())
    }

    fn without_from(self) -> Self {
        Self::of(self.to(), false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Subscription::{Both, From, None, To};

    fn state(subscription: Subscription, flags: &str) -> SubscriptionState {
        SubscriptionState {
            subscription,
            ask: flags.contains('o'),
            pending_in: flags.contains('i'),
            approved: flags.contains('a'),
        }
    }

    /// The nine states of appendix A.1; `o` is pending out, `i` pending in.
    const STATES: [(Subscription, &str); 9] = [
        (None, ""),
        (None, "o"),
        (None, "i"),
        (None, "oi"),
        (To, ""),
        (To, "i"),
        (From, ""),
        (From, "o"),
        (Both, ""),
    ];

    /// One row per state of `STATES`: route, then the new state.
    fn check_outbound(action: Action, rows: [(bool, Subscription, &str); 9]) {
        for ((subscription, flags), (route, after, after_flags)) in STATES.into_iter().zip(rows) {
            let got = outbound(state(subscription, flags), action);
            assert_eq!(
                (got.route, got.state),
                (route, state(after, after_flags)),
                "{action:?} in {subscription:?} {flags:?}"
            );
        }
    }

    fn check_inbound(action: Action, rows: [(bool, Subscription, &str); 9]) {
        for ((subscription, flags), (deliver, after, after_flags)) in STATES.into_iter().zip(rows) {
            let got = inbound(state(subscription, flags), action);
            assert_eq!(
                (got.deliver, got.state),
                (deliver, state(after, after_flags)),
                "{action:?} in {subscription:?} {flags:?}"
            );
        }
    }

    #[test]
    fn outbound_subscribe_follows_table_a_2_1() {
        check_outbound(
            Action::Subscribe,
            [
                (true, None, "o"),
                (true, None, "o"),
                (true, None, "oi"),
                (true, None, "oi"),
                (true, To, ""),
                (true, To, "i"),
                (true, From, "o"),
                (true, From, "o"),
                (true, Both, ""),
            ],
        );
    }

    #[test]
    fn outbound_unsubscribe_follows_table_a_2_2() {
        check_outbound(
            Action::Unsubscribe,
            [
                (true, None, ""),
                (true, None, ""),
                (true, None, "i"),
                (true, None, "i"),
                (true, None, ""),
                (true, None, "i"),
                (true, From, ""),
                (true, From, ""),
                (true, From, ""),
            ],
        );
    }

    #[test]
    fn outbound_subscribed_follows_table_a_2_3_and_pre_approves_otherwise() {
        check_outbound(
            Action::Subscribed,
            [
                (false, None, "a"),
                (false, None, "oa"),
                (true, From, ""),
                (true, From, "o"),
                (false, To, "a"),
                (true, Both, ""),
                (false, From, ""),
                (false, From, "o"),
                (false, Both, ""),
            ],
        );
    }

    #[test]
    fn outbound_unsubscribed_follows_table_a_2_4() {
        check_outbound(
            Action::Unsubscribed,
            [
                (false, None, ""),
                (false, None, "o"),
                (true, None, ""),
                (true, None, "o"),
                (false, To, ""),
                (true, To, ""),
                (true, None, ""),
                (true, None, "o"),
                (true, To, ""),
            ],
        );
    }

    #[test]
    fn inbound_subscribe_follows_table_a_3_1() {
        check_inbound(
            Action::Subscribe,
            [
                (true, None, "i"),
                (true, None, "oi"),
                (false, None, "i"),
                (false, None, "oi"),
                (true, To, "i"),
                (false, To, "i"),
                (false, From, ""),
                (false, From, "o"),
                (false, Both, ""),
            ],
        );
    }

    #[test]
    fn inbound_unsubscribe_follows_table_a_3_2() {
        check_inbound(
            Action::Unsubscribe,
            [
                (false, None, ""),
                (false, None, "o"),
                (true, None, ""),
                (true, None, "o"),
                (false, To, ""),
                (true, To, ""),
                (true, None, ""),
                (true, None, "o"),
                (true, To, ""),
            ],
        );
    }

    #[test]
    fn inbound_subscribed_follows_table_a_3_3() {
        check_inbound(
            Action::Subscribed,
            [
                (false, None, ""),
                (true, To, ""),
                (false, None, "i"),
                (true, To, "i"),
                (false, To, ""),
                (false, To, "i"),
                (false, From, ""),
                (true, Both, ""),
                (false, Both, ""),
            ],
        );
    }

    #[test]
    fn inbound_unsubscribed_follows_table_a_3_4() {
        check_inbound(
            Action::Unsubscribed,
            [
                (false, None, ""),
                (true, None, ""),
                (false, None, "i"),
                (true, None, "i"),
                (true, None, ""),
                (true, None, "i"),
                (false, From, ""),
                (true, From, ""),
                (true, From, ""),
            ],
        );
    }

    #[test]
    fn a_request_that_was_approved_ahead_is_answered_by_the_server() {
        let got = inbound(state(None, "a"), Action::Subscribe);
        assert_eq!(got.reply, Some(Action::Subscribed));
        assert_eq!(got.follow, Follow::Available);
        assert_eq!(got.state, state(From, ""));
        assert!(!got.deliver);
    }

    #[test]
    fn a_request_from_a_subscriber_is_confirmed_again() {
        let got = inbound(state(Both, ""), Action::Subscribe);
        assert_eq!(got.reply, Some(Action::Subscribed));
        assert_eq!(got.follow, Follow::Nothing);
    }

    #[test]
    fn an_approval_ahead_can_be_withdrawn() {
        let got = outbound(state(None, "a"), Action::Unsubscribed);
        assert!(!got.route);
        assert_eq!(got.state, state(None, ""));
    }
}
