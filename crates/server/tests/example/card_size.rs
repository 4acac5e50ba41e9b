//! How many bytes the vCard of an account has, for its owner. An example: nobody has specified it.

use server::modules::{AccountHandler, Module, Outcome, Request, Switch, View};
use xml::build::Writer;
use xmpp::error::{Condition, StanzaError};

const NS: &str = "urn:example:card-size";

pub(crate) const MODULE: Module = Module {
    name: "card_size",
    switch: Switch::ByOperator,
    needs: &["vcard"],
    xeps: &[],
    host_features: &[],
    account_features: &[NS],
    account: &[("size", NS, AccountHandler::Reads(size))],
    host: &[],
};

fn size(view: &View<'_>, request: &Request<'_>) -> Outcome {
    if !request.asker.is_owner() {
        return Outcome::error(Condition::Forbidden);
    }
    if request.is_set {
        return Outcome::error(Condition::NotAllowed);
    }
    let owner = view.address().clone();
    Outcome::read(move |store| {
        let card = store.vcard(&owner);
        let card = card.map_err(|_| StanzaError::new(Condition::InternalServerError))?;
        let bytes = card.map_or(0, |card| card.len()).to_string();
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.open("size").attr("xmlns", NS).text(&bytes).close();
        Ok(out)
    })
}
