//! The session of RFC 3921 section 3, which RFC 6121 has no use for: announced as optional, and
//! answered for the clients that ask for it all the same.

use super::{AccountHandler, Module, Outcome, Switch};
use crate::iq::Answer;
use xmpp::ns;

/// The stream feature (RFC 3921 section 3), which says that nobody needs it.
pub(crate) const FEATURE: &[u8] =
    b"<session xmlns='urn:ietf:params:xml:ns:xmpp-session'><optional/></session>";

pub(crate) const MODULE: Module = Module {
    name: "session",
    switch: Switch::ByOperator,
    needs: &[],
    xeps: &[],
    host_features: &[],
    account_features: &[],
    account: &[(
        "session",
        ns::SESSION,
        AccountHandler::Reads(|_, _| Outcome::done()),
    )],
    host: &[("session", ns::SESSION, |_| Answer::done())],
};
