//! XEP-0199 XMPP Ping 2.0.1: answers pings to a domain and to an account. The server's own pings to
//! silent clients are in `c2s.rs`, which knows how long a connection has been silent.

use super::{AccountHandler, Module, Outcome, Switch, Xep};
use crate::iq::Answer;

const NS: &str = "urn:xmpp:ping";

pub(super) const MODULE: Module = Module {
    name: "ping",
    switch: Switch::ByOperator,
    needs: &[],
    xeps: &[Xep {
        number: 199,
        name: "XMPP Ping",
        version: "2.0.1",
        note: "Both ways: silent clients are pinged and closed if they do not answer.",
    }],
    host_features: &[NS],
    account_features: &[NS],
    account: &[("ping", NS, AccountHandler::Reads(|_, _| Outcome::done()))],
    host: &[("ping", NS, |_| Answer::done())],
};
