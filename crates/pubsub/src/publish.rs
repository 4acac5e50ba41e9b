//! Publishing and removing items (XEP-0060 section 7): what may be published where, publish options
//! as preconditions, and nodes that come into being by it.

use std::sync::Arc;

use stdx::bugs;
use xml::Frame;
use xml::build::Writer;
use xmpp::error::Condition;
use xmpp::form::{Form, Submission, flag};
use xmpp::ns::DATA_FORMS;

use crate::access::{Affiliation, may_publish, may_retract};
use crate::config::Config;
use crate::error::{NS, Refusal};
use crate::record::{Item, Record};
use crate::service::{Ask, Service, node_of};
use crate::state::Node;
use crate::well_known;

const OPTIONS_FORM_TYPE: &str = "http://jabber.org/protocol/pubsub#publish-options";

/// What a request publishes.
struct Publication {
    id: Option<String>,
    payload: Arc<[u8]>,
    /// The namespace of the payload.
    ns: String,
}

impl Service {
    /// Section 7.1.
    pub(crate) fn publish(
        &mut self,
        ask: &Ask<'_>,
        action: &Frame,
        rest: &[Frame],
    ) -> Result<(), Refusal> {
        let name = node_of(action)?;
        let options = publish_options(rest)?;
        let publication = self.publication(action)?;
        let mut records = Vec::new();
        let config = match self.state.node(&name) {
            Some(node) => {
                self.check_publisher(ask, node)?;
                let id = publication.as_ref().and_then(|one| one.id.as_deref());
                self.check_replaced(ask, node, id)?;
                self.check_options(&node.config, options.as_ref())?;
                Arc::clone(&node.config)
            }
            None => {
                let created = self.created_by_publishing(ask, &name, options.as_ref())?;
                let config = Arc::clone(&created.1);
                records.push(created.0);
                config
            }
        };
        self.check_publication(&config, publication.as_ref())?;
        let gives_id = publication.as_ref().is_some_and(|p| p.id.is_none());
        let item = publication.map(|publication| Item {
            id: publication.id.unwrap_or_else(|| self.draw()),
            seq: self.next_place(),
            at: ask.now.at.as_millis(),
            publisher: ask.bare.to_owned(),
            payload: publication.payload,
        });
        if let Some(item) = item.as_ref().filter(|_| config.keeps_items) {
            records.extend(self.kept(&name, ask.bare, &config, item)?);
        }
        let request = ask.frame.clone();
        self.commit(records, Some(ask.frame), ask.now, move |service, now| {
            let mut out = Vec::new();
            let mut writer = Writer::new(&mut out);
            writer.open("pubsub").attr("xmlns", NS);
            writer.open("publish").attr("node", &name);
            if let Some(item) = item.as_ref().filter(|_| gives_id || config.keeps_items) {
                writer.open("item").attr("id", &item.id).close();
            }
            writer.close().close();
            service.answer(&request, &out);
            service.tell_of_item(&name, item.as_ref(), now);
        });
        Ok(())
    }

    /// The item of a request, if there is one.
    fn publication(&self, action: &Frame) -> Result<Option<Publication>, Refusal> {
        let limits = &self.options.limits;
        let mut items = action
            .children()
            .filter(|child| child.name() == "item" && child.ns() == NS);
        let Some(item) = items.next() else {
            return Ok(None);
        };
        if items.next().is_some() {
            // Batches of items are of the past (section 7.1.1).
            return Err(Condition::BadRequest.into());
        }
        let id = item.attr("id").filter(|id| !id.is_empty());
        if id
            .as_ref()
            .is_some_and(|id| id.len() > limits.item_id_bytes_max)
        {
            return Err(Condition::BadRequest.into());
        }
        let id = id.map(std::borrow::Cow::into_owned);
        let mut payloads = item.children();
        let payload = payloads.next();
        if payloads.next().is_some() {
            return Err(Refusal::of(Condition::BadRequest, "invalid-payload"));
        }
        let (ns, payload) = match payload {
            Some(payload) => (payload.ns().to_owned(), payload.as_bytes().into()),
            None => (String::new(), Arc::default()),
        };
        Ok(Some(Publication { id, payload, ns }))
    }

    fn check_publisher(&self, ask: &Ask<'_>, node: &Node) -> Result<(), Refusal> {
        let affiliation = self.affiliation(node, ask.bare);
        #[cfg(test)]
        if self.has_bug(crate::bugs::Bug::MembersPublish) && affiliation == Affiliation::Member {
            return Ok(());
        }
        let is_subscribed = node.is_subscribed(ask.bare, ask.now.at)
            && self.may_enter(node, ask.bare, ask.now).is_ok();
        match may_publish(affiliation, node.config.publish, is_subscribed) {
            true => Ok(()),
            false => Err(Condition::Forbidden.into()),
        }
    }

    /// Who may not remove an item does not put another one in its place either: where everybody may
    /// publish, nobody takes the words of others away, or has them for his own.
    fn check_replaced(&self, ask: &Ask<'_>, node: &Node, id: Option<&str>) -> Result<(), Refusal> {
        let item = id.and_then(|id| node.item(id, ask.now.at));
        let Some(item) = item.filter(|_| node.config.keeps_items) else {
            return Ok(());
        };
        let is_own = *item.publisher == *ask.bare;
        match may_retract(self.affiliation(node, ask.bare), is_own) {
            true => Ok(()),
            false => Err(Condition::Forbidden.into()),
        }
    }

    /// Section 7.1.5: every option is a precondition. One that is unknown here cannot be met.
    fn check_options(&self, config: &Config, options: Option<&Submission>) -> Result<(), Refusal> {
        let Some(options) = options else {
            return Ok(());
        };
        #[cfg(test)]
        if self.has_bug(crate::bugs::Bug::PreconditionsDoNotCount) {
            return Ok(());
        }
        match config.with(options, self.offers(), true) {
            _ if bugs::is("options_do_not_count") => Ok(()),
            Ok(wanted) if wanted == *config => Ok(()),
            _ => Err(Refusal::of(Condition::Conflict, "precondition-not-met")),
        }
    }

    /// Sections 7.1.4 and 7.1.5: the node that a publication makes, with the options as its
    /// configuration.
    fn created_by_publishing(
        &mut self,
        ask: &Ask<'_>,
        name: &str,
        options: Option<&Submission>,
    ) -> Result<(Record, Arc<Config>), Refusal> {
        if self.is_account() && !ask.may_create {
            // Others are not told which nodes there are.
            return Err(Condition::Forbidden.into());
        }
        if !self.options.auto_creates || !ask.may_create {
            return Err(Condition::ItemNotFound.into());
        }
        let mut config = self.defaults_of(name);
        if let Some(options) = options {
            let wanted = config.with(options, self.offers(), true);
            let unmet = Refusal::of(Condition::Conflict, "precondition-not-met");
            config = wanted.map_err(|refusal| match refusal.app {
                Some(_) => refusal,
                None => unmet,
            })?;
        }
        self.check_creation(ask, name)?;
        let record = Record::Created {
            node: name.to_owned(),
            number: self.next_place(),
            at: ask.now.at.as_millis(),
            creator: ask.bare.to_owned(),
            config: Box::new(config.clone()),
        };
        Ok((record, Arc::new(config)))
    }

    /// The configuration that a new node of a name has.
    pub(crate) fn defaults_of(&self, name: &str) -> Config {
        let defaults = &self.options.defaults;
        match self.is_account() {
            true => well_known::config(name, defaults, self.options.limits.items_per_node_max),
            false => defaults.clone(),
        }
    }

    /// Section 7.1.3: whether an item is of the node's kind.
    fn check_publication(
        &self,
        config: &Config,
        item: Option<&Publication>,
    ) -> Result<(), Refusal> {
        let bad = |app| Err(Refusal::of(Condition::BadRequest, app));
        let Some(item) = item else {
            return match config.keeps_items || config.delivers_payloads {
                true => bad("item-required"),
                false => Ok(()),
            };
        };
        if !config.keeps_items && !config.delivers_payloads {
            return bad("item-forbidden");
        }
        if config.delivers_payloads && item.payload.is_empty() {
            return bad("payload-required");
        }
        let has_payload = !item.payload.is_empty();
        if has_payload && !config.payload_type.is_empty() && config.payload_type != item.ns {
            return bad("invalid-payload");
        }
        let most = self.options.limits.item_bytes_max;
        let most = match config.payload_bytes_max {
            0 => most,
            own => own.min(most),
        };
        if item.payload.len() > most as usize {
            return Err(Refusal::of(Condition::NotAcceptable, "payload-too-big"));
        }
        Ok(())
    }

    /// The records of an item that is kept, and of the oldest ones, which make way for it. If the
    /// node is not there, it is made by `creator`.
    fn kept(
        &self,
        name: &str,
        creator: &str,
        config: &Config,
        item: &Item,
    ) -> Result<Vec<Record>, Refusal> {
        let mut freed = 0_u64;
        let mut makes_way: Vec<String> = Vec::new();
        if let Some(node) = self.state.node(name) {
            let replaced = node.all_items().find(|old| *old.id == *item.id);
            freed += replaced.map_or(0, |old| u64::from(old.bytes));
            let count = node.all_items().len() - usize::from(replaced.is_some());
            let gone = (count + 1).saturating_sub(config.items_max as usize);
            #[cfg(test)]
            let gone = match self.has_bug(crate::bugs::Bug::ItemsPileUp) {
                true => 0,
                false => gone,
            };
            let oldest = node.all_items().filter(|old| *old.id != *item.id);
            for old in oldest.take(gone) {
                freed += u64::from(old.bytes);
                makes_way.push(old.id.to_string());
            }
        }
        let bytes = item.payload.len() as u64;
        let creator = self.state.node(name).map_or(creator, |node| &node.creator);
        let mut total = self.state.bytes() + bytes;
        let mut own = self.state.bytes_of(creator) + bytes;
        for record in self.undecided() {
            let Record::Published { node, item } = record else {
                continue;
            };
            let bytes = item.payload.len() as u64;
            total += bytes;
            own += match self.is_created_by(node, creator) {
                true => bytes,
                false => 0,
            };
        }
        let limits = &self.options.limits;
        let is_too_much = total - freed > limits.bytes_max
            || own.saturating_sub(freed) > limits.bytes_per_creator_max;
        // What takes no more room than before is always possible.
        if bytes > freed && is_too_much {
            return Err(Condition::ResourceConstraint.into());
        }
        let mut records = Vec::new();
        if !makes_way.is_empty() {
            records.push(Record::Retracted {
                node: name.to_owned(),
                items: makes_way,
            });
        }
        records.push(Record::Published {
            node: name.to_owned(),
            item: item.clone(),
        });
        Ok(records)
    }

    /// Whether somebody has made a node, or is making it.
    pub(crate) fn is_created_by(&self, name: &str, creator: &str) -> bool {
        if let Some(node) = self.state.node(name) {
            return *node.creator == *creator;
        }
        let makes_it = |record: &Record| match record {
            Record::Created {
                node, creator: who, ..
            } => node == name && who == creator,
            _ => false,
        };
        self.undecided().any(makes_it)
    }

    /// Section 7.2.
    pub(crate) fn retract(&mut self, ask: &Ask<'_>, action: &Frame) -> Result<(), Refusal> {
        let name = node_of(action)?;
        let (name, node) = self.node(&name)?;
        let missing = || Refusal::of(Condition::BadRequest, "item-required");
        let mut items = action
            .children()
            .filter(|child| child.name() == "item" && child.ns() == NS);
        let id = items
            .next()
            .and_then(|item| item.attr("id"))
            .ok_or_else(missing)?;
        if id.is_empty() {
            return Err(missing());
        }
        if items.next().is_some() {
            return Err(Condition::BadRequest.into());
        }
        let wants_notice = match action.attr("notify") {
            None => false,
            Some(notify) => flag(&notify).ok_or(Condition::BadRequest)?,
        };
        let affiliation = self.affiliation(node, ask.bare);
        let item = node.item(&id, ask.now.at);
        let is_own = item.is_some_and(|item| *item.publisher == *ask.bare);
        #[cfg(test)]
        let is_own = is_own
            || (self.has_bug(crate::bugs::Bug::PublishersRemoveAll)
                && affiliation == Affiliation::Publisher);
        // Who may not publish here does not learn which items there are.
        let may_at_all = affiliation >= Affiliation::PublishOnly || is_own;
        if !may_at_all || (item.is_some() && !may_retract(affiliation, is_own)) {
            return Err(Condition::Forbidden.into());
        }
        if !node.config.keeps_items {
            return Err(Refusal::unsupported("persistent-items"));
        }
        let id = item.ok_or(Condition::ItemNotFound)?.id.to_string();
        let is_told = wants_notice || node.config.notifies_retract;
        let is_told = is_told && !bugs::is("retract_is_silent");
        let record = Record::Retracted {
            node: name.to_string(),
            items: vec![id.clone()],
        };
        let mut content = Vec::new();
        let mut writer = Writer::new(&mut content);
        writer.open("items").attr("node", &name);
        writer.open("retract").attr("id", &id).close().close();
        self.take_away(
            (Some(ask.frame), ask.now),
            record,
            (name, Some(id)),
            is_told.then_some(content),
        );
        Ok(())
    }
}

/// The options beside a publication.
fn publish_options(rest: &[Frame]) -> Result<Option<Submission>, Refusal> {
    let options = rest
        .iter()
        .find(|one| one.name() == "publish-options" && one.ns() == NS);
    let Some(options) = options else {
        return Ok(None);
    };
    let form = options
        .child("x", DATA_FORMS)
        .ok_or(Condition::BadRequest)?;
    let form = Frame::parse(form.to_xml()).map_err(|_| Condition::BadRequest)?;
    match Form::parse(&form, OPTIONS_FORM_TYPE)? {
        Form::Submitted(options) => Ok(Some(options)),
        Form::Cancelled => Err(Condition::BadRequest.into()),
    }
}
