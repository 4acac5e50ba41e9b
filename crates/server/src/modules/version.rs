//! XEP-0092 Software Version 1.1. Tells the name and the version, never the operating system.

use xml::build::Writer;
use xmpp::error::Condition;

use super::{Module, Switch, Xep};
use crate::iq::Answer;
use crate::modules::HostRequest;

const NS: &str = "jabber:iq:version";

pub(super) const MODULE: Module = Module {
    name: "version",
    switch: Switch::ByOperator,
    needs: &[],
    xeps: &[Xep {
        number: 92,
        name: "Software Version",
        version: "1.1",
        note: "Without the operating system.",
    }],
    host_features: &[NS],
    account_features: &[],
    account: &[],
    host: &[("query", NS, version)],
};

fn version(request: &HostRequest<'_>) -> Answer {
    if request.is_set {
        return Answer::error(Condition::NotAllowed);
    }
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    writer.open("query").attr("xmlns", NS);
    writer.open("name").text("Roost").close();
    writer
        .open("version")
        .text(env!("CARGO_PKG_VERSION"))
        .close();
    writer.close();
    Answer::Result(out)
}
