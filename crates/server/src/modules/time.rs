//! XEP-0202 Entity Time 2.0, in the format of XEP-0082. The server's clock is UTC.

use xml::build::Writer;
use xmpp::error::Condition;

use super::{Module, Switch, Xep};
use crate::iq::Answer;
use crate::modules::HostRequest;

const NS: &str = "urn:xmpp:time";

pub(super) const MODULE: Module = Module {
    name: "time",
    switch: Switch::ByOperator,
    needs: &[],
    xeps: &[Xep {
        number: 202,
        name: "Entity Time",
        version: "2.0",
        note: "For the domain, in UTC.",
    }],
    host_features: &[NS],
    account_features: &[],
    account: &[],
    host: &[("time", NS, time)],
};

fn time(request: &HostRequest<'_>) -> Answer {
    if request.is_set {
        return Answer::error(Condition::NotAllowed);
    }
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    writer.open("time").attr("xmlns", NS);
    writer.open("tzo").text("+00:00").close();
    writer.open("utc").text(&request.now.to_string()).close();
    writer.close();
    Answer::Result(out)
}
