//! XEP-0012 Last Activity 2.0: how long the server has been up, and when a contact was last here,
//! for those who may see the contact's presence.

use xml::build::Writer;
use xmpp::error::Condition;

use super::{AccountHandler, Module, Outcome, Switch, View, Xep};
use crate::iq::{Answer, Request};
use crate::modules::HostRequest;

const NS: &str = "jabber:iq:last";

pub(super) const MODULE: Module = Module {
    name: "last_activity",
    switch: Switch::ByOperator,
    needs: &[],
    xeps: &[Xep {
        number: 12,
        name: "Last Activity",
        version: "2.0",
        note: "Of the domain (up-time) and of accounts, for subscribers only.",
    }],
    host_features: &[NS],
    account_features: &[NS],
    account: &[("query", NS, AccountHandler::Reads(of_account))],
    host: &[("query", NS, uptime)],
};

fn uptime(request: &HostRequest<'_>) -> Answer {
    if request.is_set {
        return Answer::error(Condition::NotAllowed);
    }
    let up = request.now.as_millis() - request.started.as_millis();
    Answer::Result(answer(up, ""))
}

fn of_account(view: &View<'_>, request: &Request<'_>) -> Outcome {
    if request.is_set {
        return Outcome::error(Condition::NotAllowed);
    }
    if !may_ask(request) {
        // Section 4: those without a subscription must not learn anything.
        return Outcome::error(Condition::Forbidden);
    }
    if view.is_available() {
        return Outcome::result(answer(0, ""));
    }
    match view.last_seen() {
        Some((at, status)) => {
            Outcome::result(answer(view.now().as_millis() - at.as_millis(), status))
        }
        None => Outcome::error(Condition::ItemNotFound),
    }
}

fn may_ask(request: &Request<'_>) -> bool {
    use crate::iq::Asker;
    matches!(
        request.asker,
        Asker::Owner(_)
            | Asker::Other {
                is_subscriber: true
            }
    )
}

fn answer(millis: i64, status: &str) -> Vec<u8> {
    let seconds = (millis / 1000).max(0).to_string();
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    writer
        .open("query")
        .attr("xmlns", NS)
        .attr("seconds", &seconds);
    if !status.is_empty() {
        writer.text(status);
    }
    writer.close();
    out
}
