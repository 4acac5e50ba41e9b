//! Nodes as a whole: creation, configuration, deletion, purging (XEP-0060 sections 8.1 to 8.5).

use std::sync::Arc;

use stdx::bugs;
use xml::Frame;
use xml::build::Writer;
use xmpp::error::Condition;
use xmpp::form::Form;
use xmpp::ns::DATA_FORMS;

use crate::access::{AccessModel, Affiliation, SubscriptionState, Visitor};
use crate::config::{Config, FORM_TYPE};
use crate::error::{NS, NS_OWNER, Refusal};
use crate::lists::{Changed, subscribed};
use crate::record::Record;
use crate::service::{Ask, Now, Service, node_of};
use crate::state::{Node, bare};

impl Service {
    // === creation ===

    /// Section 8.1.
    pub(crate) fn create(
        &mut self,
        ask: &Ask<'_>,
        action: &Frame,
        rest: &[Frame],
    ) -> Result<(), Refusal> {
        if !ask.may_create {
            return Err(Condition::Forbidden.into());
        }
        if action.attr("type").is_some_and(|kind| kind == "collection") {
            return Err(Refusal::unsupported("collections"));
        }
        let given = action.attr("node").filter(|node| !node.is_empty());
        let is_instant = given.is_none();
        let name = given.map_or_else(|| self.draw(), std::borrow::Cow::into_owned);
        if self.state.node(&name).is_some() {
            return Err(Condition::Conflict.into());
        }
        self.check_creation(ask, &name)?;
        let mut config = self.defaults_of(&name);
        let beside = rest
            .iter()
            .find(|one| one.name() == "configure" && one.ns() == NS);
        if let Some(configure) = beside {
            if configure.attr_raw("node").is_some() {
                return Err(Condition::BadRequest.into());
            }
            if let Some(x) = configure.child("x", DATA_FORMS) {
                config = self.configured(&config, &x)?.ok_or(Condition::BadRequest)?;
            }
        }
        let record = Record::Created {
            node: name.clone(),
            number: self.next_place(),
            at: ask.now.at.as_millis(),
            creator: ask.bare.to_owned(),
            config: Box::new(config),
        };
        let mut out = Vec::new();
        if is_instant {
            let mut writer = Writer::new(&mut out);
            writer.open("pubsub").attr("xmlns", NS);
            writer.open("create").attr("node", &name).close().close();
        }
        let request = ask.frame.clone();
        self.commit(vec![record], Some(ask.frame), ask.now, move |service, _| {
            service.answer(&request, &out);
        });
        Ok(())
    }

    /// Whether one more node of this name is within the bounds.
    pub(crate) fn check_creation(&self, ask: &Ask<'_>, name: &str) -> Result<(), Refusal> {
        let limits = &self.options.limits;
        if name.len() > limits.node_id_bytes_max {
            return Err(Condition::NotAcceptable.into());
        }
        let coming = self.undecided().filter_map(|record| match record {
            Record::Created { creator, .. } => Some(creator.as_str()),
            _ => None,
        });
        let coming: Vec<&str> = coming.collect();
        let own = self
            .state
            .nodes()
            .filter(|(_, node)| *node.creator == *ask.bare);
        let own = own.count() + coming.iter().filter(|who| **who == ask.bare).count();
        let all = self.state.len() + coming.len();
        if all >= limits.nodes_max || own >= limits.nodes_per_creator_max {
            let refusal = Refusal::of(Condition::PolicyViolation, "max-nodes-exceeded");
            return Err(refusal.with_kind("wait"));
        }
        Ok(())
    }

    // === configuration ===

    /// A node that somebody owns.
    pub(crate) fn owned(&self, ask: &Ask<'_>, name: &str) -> Result<(Arc<str>, &Node), Refusal> {
        let (name, node) = self.node(name)?;
        match self.affiliation(node, ask.bare) {
            Affiliation::Owner => Ok((name, node)),
            _ => Err(Condition::Forbidden.into()),
        }
    }

    /// The access model that a request to configure a node asks for.
    pub(crate) fn access_after(&self, node: &Node, request: &Frame) -> Option<AccessModel> {
        let owner = request.child("pubsub", NS_OWNER)?;
        let mut actions = owner.children();
        let configure = actions.find(|action| action.name() == "configure")?;
        let mut forms = configure.children();
        let x = forms.find(|x| x.name() == "x" && x.ns() == DATA_FORMS)?;
        let config = self.configured(&node.config, &x).ok()??;
        Some(config.access)
    }

    /// What a submitted form makes of a configuration; `None` if it was put away.
    fn configured(&self, config: &Config, x: &xml::Child<'_>) -> Result<Option<Config>, Refusal> {
        let x = Frame::parse(x.to_xml()).map_err(|_| Condition::BadRequest)?;
        match Form::parse(&x, FORM_TYPE)? {
            Form::Submitted(form) => Ok(Some(config.with(&form, self.offers(), false)?)),
            Form::Cancelled => Ok(None),
        }
    }

    /// Section 8.2.1.
    pub(crate) fn config_form(&mut self, ask: &Ask<'_>, action: &Frame) -> Result<(), Refusal> {
        let name = node_of(action)?;
        let (name, node) = self.owned(ask, &name)?;
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.open("pubsub").attr("xmlns", NS_OWNER);
        writer.open("configure").attr("node", &name);
        node.config.write(&mut writer, "form");
        writer.close().close();
        self.answer(ask.frame, &out);
        Ok(())
    }

    /// Section 8.3.
    pub(crate) fn default_config(&mut self, ask: &Ask<'_>) -> Result<(), Refusal> {
        self.is_there_for(ask)?;
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer
            .open("pubsub")
            .attr("xmlns", NS_OWNER)
            .open("default");
        self.options.defaults.write(&mut writer, "form");
        writer.close().close();
        self.answer(ask.frame, &out);
        Ok(())
    }

    /// Section 8.2.4.
    pub(crate) fn configure(&mut self, ask: &Ask<'_>, action: &Frame) -> Result<(), Refusal> {
        let name = node_of(action)?;
        let (name, node) = self.owned(ask, &name)?;
        let x = action.child("x", DATA_FORMS).ok_or(Condition::BadRequest)?;
        let config = self.configured(&node.config, &x)?;
        let Some(config) = config.filter(|config| *config != *node.config) else {
            self.answer(ask.frame, &[]);
            return Ok(());
        };
        let mut changed = self.after_access(node, &config, ask.now);
        let rest = self.beyond_one_commit(&mut changed);
        let mut records = Vec::new();
        let kept = node.all_items().len();
        if !config.keeps_items && kept > 0 {
            records.push(Record::Purged {
                node: name.to_string(),
            });
        } else if kept > config.items_max as usize {
            let gone = node.all_items().take(kept - config.items_max as usize);
            let gone: Vec<String> = gone.map(|item| item.id.to_string()).collect();
            // A record has a bound of its own.
            let parts = gone.chunks(self.options.limits.entries_max.max(1));
            records.extend(parts.map(|items| Record::Retracted {
                node: name.to_string(),
                items: items.to_vec(),
            }));
        }
        records.push(Record::Configured {
            node: name.to_string(),
            config: Box::new(config),
        });
        records.extend(changed.iter().map(|change| subscribed(&name, node, change)));
        let request = ask.frame.clone();
        self.commit(records, Some(ask.frame), ask.now, move |service, now| {
            service.answer(&request, &[]);
            service.tell_of_changes(&name, &changed, now);
            service.tell_of_configuration(&name, now);
            service.change_rest(name, rest, now);
        });
        Ok(())
    }

    /// What a configuration means for the subscriptions that there are: who may no longer enter is
    /// no subscriber, and where nobody is approved any more nobody waits for an approval (sections
    /// 4.5 and 12.14). Where owners approve from now on, who is subscribed stays it.
    fn after_access(&self, node: &Node, config: &Config, now: Now<'_>) -> Vec<Changed> {
        let (access, groups) = (config.access, &config.groups);
        if (access, groups) == (node.config.access, &node.config.groups) {
            return Vec::new();
        }
        let judge = self.judge_for(node, access);
        let all = node.subscriptions.iter();
        let all = all.filter(|(_, one)| one.is_alive(now.at));
        let changed = all.filter_map(|(address, one)| {
            let visitor = Visitor {
                judge,
                ..self.visitor(node, bare(address), now)
            };
            let is_waiting = one.state == SubscriptionState::Pending;
            let new = match visitor.may_enter(access, groups) {
                Err(_) => SubscriptionState::None,
                Ok(()) if is_waiting && access != AccessModel::Authorize => {
                    SubscriptionState::Subscribed
                }
                Ok(()) => return None,
            };
            Some((Arc::clone(address), new))
        });
        changed.collect()
    }

    /// Takes off the changes that one commit has no room for.
    fn beyond_one_commit(&self, changed: &mut Vec<Changed>) -> Vec<Changed> {
        changed.split_off(changed.len().min(self.options.limits.sweep_max.max(1)))
    }

    /// Changes the subscriptions that one commit had no room for, so many at a time. The node stays
    /// busy meanwhile. If that fails, those who may not enter hear of nothing, and stay in the list
    /// until the access model changes again.
    fn change_rest(&mut self, name: Arc<str>, mut changed: Vec<Changed>, now: Now<'_>) {
        let Some(node) = self.state.node(&name).filter(|_| !changed.is_empty()) else {
            return;
        };
        let rest = self.beyond_one_commit(&mut changed);
        let records = changed.iter().map(|change| subscribed(&name, node, change));
        self.commit(records.collect(), None, now, move |service, now| {
            service.tell_of_changes(&name, &changed, now);
            service.change_rest(name, rest, now);
        });
    }

    /// Section 8.2.5.3.
    fn tell_of_configuration(&mut self, name: &str, now: Now<'_>) {
        let Some(node) = self.state.node(name) else {
            return;
        };
        if !(node.config.notifies && node.config.notifies_config) {
            return;
        }
        let mut content = Vec::new();
        let mut writer = Writer::new(&mut content);
        writer.open("configuration").attr("node", name);
        if node.config.delivers_payloads {
            node.config.write(&mut writer, "result");
        }
        writer.close();
        let to = self.audience(name, now, false);
        self.tell(name, &content, to);
    }

    // === the end ===

    /// Section 8.4.
    pub(crate) fn delete(&mut self, ask: &Ask<'_>, action: &Frame) -> Result<(), Refusal> {
        let name = node_of(action)?;
        let (name, _) = self.owned(ask, &name)?;
        let redirect = action.child("redirect", NS_OWNER);
        let moved_to = match redirect.map(|redirect| redirect.attr("uri")) {
            None => None,
            Some(Some(uri)) if !uri.is_empty() => Some(uri.into_owned()),
            Some(_) => return Err(Condition::BadRequest.into()),
        };
        let bytes_max = self.options.limits.text_bytes_max;
        if moved_to.as_ref().is_some_and(|uri| uri.len() > bytes_max) {
            return Err(Condition::NotAcceptable.into());
        }
        self.remove_node(&name, moved_to, Some(ask.frame), ask.now);
        Ok(())
    }

    /// Removes a node and tells whoever is to be told; `request` is answered then.
    pub(crate) fn remove_node(
        &mut self,
        name: &Arc<str>,
        moved_to: Option<String>,
        request: Option<&Frame>,
        now: Now<'_>,
    ) {
        let Some(node) = self.state.node(name) else {
            return;
        };
        let mut content = Vec::new();
        let mut writer = Writer::new(&mut content);
        writer.open("delete").attr("node", name);
        if let Some(uri) = moved_to
            .as_ref()
            .filter(|_| !bugs::is("delete_without_redirect"))
        {
            writer.open("redirect").attr("uri", uri).close();
        }
        writer.close();
        let (number, config) = (node.number, Arc::clone(&node.config));
        // Who is told is known now: nothing changes at the node while this waits.
        let to = match config.notifies_delete {
            true => self.audience(name, now, true),
            false => crate::event::Told::default(),
        };
        // Later on nobody knows who might have entered: where a node that was not for everybody has
        // gone, its subscribers are told now, and nobody who asks then.
        let is_for_all = matches!(config.access, AccessModel::Open | AccessModel::Authorize);
        let record = Record::Deleted {
            node: name.to_string(),
            moved_to: moved_to.filter(|_| is_for_all),
        };
        let (own, name) = (request.cloned(), Arc::clone(name));
        self.commit(vec![record], request, now, move |service, _| {
            if let Some(request) = &own {
                service.answer(request, &[]);
            }
            service.digests.forget(&name);
            let frame = service.event(number, config.is_headline, &content);
            service.send_told(&name, frame, to);
        });
    }

    /// Section 8.5.
    pub(crate) fn purge(&mut self, ask: &Ask<'_>, action: &Frame) -> Result<(), Refusal> {
        let name = node_of(action)?;
        let (name, node) = self.owned(ask, &name)?;
        if !node.config.keeps_items {
            return Err(Refusal::unsupported("persistent-items"));
        }
        self.empty_node(name, Some(ask.frame), ask.now);
        Ok(())
    }

    /// Removes all items of a node and tells whoever is to be told; `request` is answered then.
    pub(crate) fn empty_node(&mut self, name: Arc<str>, request: Option<&Frame>, now: Now<'_>) {
        let node = self.state.node(&name);
        let is_told = node.is_some_and(|node| node.config.notifies_retract);
        let record = Record::Purged {
            node: name.to_string(),
        };
        let mut content = Vec::new();
        let mut writer = Writer::new(&mut content);
        writer.open("purge").attr("node", &name).close();
        let content = is_told.then_some(content);
        self.take_away((request, now), record, (name, None), content);
    }

    /// Makes it durable that an item is gone, or all of them, answers the request, and tells
    /// subscribers `content`, if they are to be told.
    pub(crate) fn take_away(
        &mut self,
        (request, now): (Option<&Frame>, Now<'_>),
        record: Record,
        (name, item): (Arc<str>, Option<String>),
        content: Option<Vec<u8>>,
    ) {
        let own = request.cloned();
        self.commit(vec![record], request, now, move |service, now| {
            if let Some(request) = &own {
                service.answer(request, &[]);
            }
            if item.is_none() {
                service.digests.forget(&name);
            }
            if let Some(content) = content {
                let mut to = service.audience(&name, now, false);
                if let Some(item) = &item {
                    to = service.hold_back(&name, to, (item, None), now);
                }
                service.tell(&name, &content, to);
            }
        });
    }
}
