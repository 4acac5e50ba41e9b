//! XEP-0012 Last Activity 2.0: how long the server has been up, and when a contact was last here,
//! for those who may see the contact's presence.

use actor::{Context, Mail};
use xml::build::Writer;
use xmpp::error::Condition;

use super::{Module, Xep};
use crate::host::HostRequest;
use crate::iq::{Answer, Request};
use crate::message::UserMsg;
use crate::user::User;

const NS: &str = "jabber:iq:last";

pub(super) const MODULE: Module = Module {
    xeps: &[Xep {
        number: 12,
        name: "Last Activity",
        version: "2.0",
        note: "Of the domain (up-time) and of accounts, for subscribers only.",
    }],
    host_features: &[NS],
    account_features: &[NS],
    account: &[("query", NS, of_account)],
    host: &[("query", NS, uptime)],
};

fn uptime(request: &HostRequest<'_>) -> Answer {
    if request.is_set {
        return Answer::error(Condition::NotAllowed);
    }
    answer(
        request.now.as_millis() - request.home.started.as_millis(),
        "",
    )
}

fn of_account(user: &mut User, request: &Request<'_>, cx: &mut Context<'_, UserMsg>) -> Answer {
    if request.is_set {
        return Answer::error(Condition::NotAllowed);
    }
    if !may_ask(request) {
        // Section 4: those without a subscription must not learn anything.
        return Answer::error(Condition::Forbidden);
    }
    if user
        .sessions
        .iter()
        .any(crate::user::session::Session::is_available)
    {
        return answer(0, "");
    }
    match user.last.as_deref() {
        Some((at, status)) => answer(cx.wall().as_millis() - at.as_millis(), status),
        None => Answer::error(Condition::ItemNotFound),
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

fn answer(millis: i64, status: &str) -> Answer {
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
    Answer::Result(out)
}
