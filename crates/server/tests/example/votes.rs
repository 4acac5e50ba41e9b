//! A vote: each account has one, and may change its mind. An example: nobody has specified it.

use std::collections::BTreeMap;

use server::modules::service::{Outcome, Request, Service, View};
use xml::build::Writer;
use xmpp::error::Condition;

const NS: &str = "urn:example:votes";

pub(crate) const SERVICE: Service = Service {
    host: "votes",
    identity: ("component", "generic", "Votes"),
    features: &[NS],
    bytes_max: 64 * 1024,
    handle,
};

/// A part is what an account has voted for.
fn handle(view: &View<'_>, request: &Request<'_>) -> Outcome {
    let payload = &request.payload;
    if (payload.name(), payload.ns()) != ("vote", NS) {
        return Outcome::error(Condition::ServiceUnavailable);
    }
    let choice = payload.attr("for");
    match choice {
        Some(choice) if request.is_set => {
            Outcome::result(Vec::new()).and_put(request.account(), choice.as_bytes().to_vec())
        }
        None if !request.is_set => Outcome::result(counted(view)),
        _ => Outcome::error(Condition::BadRequest),
    }
}

fn counted(view: &View<'_>) -> Vec<u8> {
    let mut counts: BTreeMap<&[u8], u32> = BTreeMap::new();
    for (_, choice) in view.parts("") {
        *counts.entry(choice).or_default() += 1;
    }
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    writer.open("votes").attr("xmlns", NS);
    for (choice, count) in counts {
        let choice = String::from_utf8_lossy(choice);
        writer.open("choice").attr("for", &choice);
        writer.text(&count.to_string()).close();
    }
    writer.close();
    out
}
