//! The session of RFC 3921 section 3, which RFC 6121 has no use for: announced as optional, and
//! answered for the clients that ask for it all the same.

use super::Module;
use crate::iq::Answer;
use xmpp::ns;

pub(super) const MODULE: Module = Module {
    xeps: &[],
    host_features: &[],
    account_features: &[],
    account: &[("session", ns::SESSION, |_, _, _| Answer::done())],
    host: &[("session", ns::SESSION, |_| Answer::done())],
};
