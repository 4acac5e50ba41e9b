//! XEP-0160 Best Practices for Handling Offline Messages 1.0.1 and XEP-0203 Delayed Delivery 2.0:
//! the stamp that messages carry which were kept for later. Which ones those are is a matter of
//! `hints.rs`; where they are kept is `user/inbox.rs`.

use stdx::time::Timestamp;
use xml::Frame;
use xml::build::Writer;

use super::{Module, Switch, Xep, hints};

const NS_DELAY: &str = "urn:xmpp:delay";

pub(super) const MODULE: Module = Module {
    name: "offline",
    switch: Switch::Always("that accepted messages are kept is what delivery promises"),
    needs: &[],
    xeps: &[
        Xep {
            number: 160,
            name: "Best Practices for Handling Offline Messages",
            version: "1.0.1",
            note: "The pending part of the user's log; bounded by count and bytes.",
        },
        Xep {
            number: 203,
            name: "Delayed Delivery",
            version: "2.0",
            note: "On messages kept for later.",
        },
    ],
    host_features: &["msgoffline"],
    account_features: &[],
    account: &[],
    host: &[],
};

/// Whether a message is kept for an absent recipient (XEP-0160 section 3).
pub fn is_worth_keeping(frame: &Frame) -> bool {
    hints::keep(frame).log
}

/// `<delay/>` with the time at which the server accepted the message.
pub fn delay(domain: &str, at: Timestamp) -> Vec<u8> {
    let mut out = Vec::with_capacity(96);
    let mut writer = Writer::new(&mut out);
    writer
        .open("delay")
        .attr("xmlns", NS_DELAY)
        .attr("from", domain);
    writer.attr("stamp", &at.to_string());
    writer.close();
    out
}
