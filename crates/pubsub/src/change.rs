//! What the host changes at a node of an account by itself: it is shown all items, and says what
//! becomes of them. For what an account keeps in another form too (XEP-0402 section 6).

use std::sync::Arc;

use stdx::Timestamp;
use xml::Frame;
use xml::build::Writer;
use xmpp::error::Condition;

use crate::config::Config;
use crate::error::Refusal;
use crate::record::{Item, Record};
use crate::service::{Ask, Now, Service};

/// What becomes of the items of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Items that are published, by id: an element each that declares what it needs.
    pub put: Vec<(String, Arc<[u8]>)>,
    /// Ids of items that are removed.
    pub remove: Vec<String>,
    /// The payload of the answer to the request.
    pub answer: Vec<u8>,
}

/// Says what becomes of items: given the request, and all items in their order, or nothing if there
/// is no such node.
pub type Changes = fn(&Frame, Option<&[Item]>) -> Change;

impl Service {
    /// Shows the host all items of a node, makes the change that it wants as one, and answers the
    /// request.
    pub(crate) fn change_items(
        &mut self,
        name: &str,
        request: Frame,
        changes: Changes,
        now: Now<'_>,
    ) {
        let at = now.at;
        let node = self.state.node(name);
        let is_there = node.is_some();
        let all = node.map(|node| node.items(at).map(|item| (item.id.clone(), item.seq)));
        let all: Vec<(Box<str>, u64)> = all.map(Iterator::collect).unwrap_or_default();
        let count = all.len();
        let name: Arc<str> = self.state.name(name).unwrap_or_else(|| name.into());
        self.fetch(&Arc::clone(&name), all, move |service, items| {
            let busy = Condition::ResourceConstraint;
            // What the change would be made of must be all of it.
            let all = items.filter(|items| items.len() == count && !service.is_busy(&name));
            let Some(items) = all else {
                return service.refuse(&request, &busy.into());
            };
            let change = changes(&request, is_there.then_some(&items));
            if let Err(refusal) = service.make_change(&name, &request, change, at) {
                service.refuse(&request, &refusal);
            }
        });
    }

    fn make_change(
        &mut self,
        name: &Arc<str>,
        request: &Frame,
        change: Change,
        at: Timestamp,
    ) -> Result<(), Refusal> {
        let Change {
            put,
            remove,
            answer,
        } = change;
        if put.is_empty() && remove.is_empty() {
            self.answer(request, &answer);
            return Ok(());
        }
        let mut records = Vec::new();
        let config = self.config_for_change(name, request, &mut records, at)?;
        self.check_change(name, &config, &put, &remove)?;
        for ids in remove.chunks(self.options.limits.entries_max.max(1)) {
            records.push(Record::Retracted {
                node: name.to_string(),
                items: ids.to_vec(),
            });
        }
        let mut published = Vec::with_capacity(put.len());
        for (id, payload) in put {
            let item = Item {
                id,
                seq: self.next_place(),
                at: at.as_millis(),
                publisher: self.address.to_string(),
                payload,
            };
            records.push(Record::Published {
                node: name.to_string(),
                item: item.clone(),
            });
            published.push(item);
        }
        let (name, request) = (Arc::clone(name), request.clone());
        let contacts = &();
        self.commit(
            records,
            Some(&request.clone()),
            Now { at, contacts },
            move |service, now| {
                service.answer(&request, &answer);
                for id in &remove {
                    let mut content = Vec::new();
                    let mut writer = Writer::new(&mut content);
                    writer.open("items").attr("node", &name);
                    writer.open("retract").attr("id", id).close().close();
                    let to = service.audience(&name, now, false);
                    service.tell(&name, &content, to);
                }
                for item in &published {
                    service.tell_of_item(&name, Some(item), now);
                }
            },
        );
        Ok(())
    }

    /// The configuration of the node, which is made if it is not there.
    fn config_for_change(
        &mut self,
        name: &Arc<str>,
        request: &Frame,
        records: &mut Vec<Record>,
        at: Timestamp,
    ) -> Result<Arc<Config>, Refusal> {
        if let Some(node) = self.state.node(name) {
            return Ok(Arc::clone(&node.config));
        }
        let own = self.address.to_string();
        let ask = Ask {
            frame: request,
            from: &own,
            bare: &own,
            may_create: true,
            now: Now { at, contacts: &() },
        };
        self.check_creation(&ask, name)?;
        let config = self.defaults_of(name);
        records.push(Record::Created {
            node: name.to_string(),
            number: self.next_place(),
            at: at.as_millis(),
            creator: own.clone(),
            config: Box::new(config.clone()),
        });
        Ok(Arc::new(config))
    }

    /// Whether the node may have what it would have. Nothing makes way for it.
    fn check_change(
        &self,
        name: &str,
        config: &Config,
        put: &[(String, Arc<[u8]>)],
        remove: &[String],
    ) -> Result<(), Refusal> {
        let limits = &self.options.limits;
        let is_item = |(id, payload): &(String, Arc<[u8]>)| {
            !id.is_empty()
                && id.len() <= limits.item_id_bytes_max
                && payload.len() <= limits.item_bytes_max as usize
        };
        if !put.iter().all(is_item) {
            return Err(Condition::NotAcceptable.into());
        }
        let goes = |id: &str| remove.iter().any(|gone| gone == id) || put.iter().any(|p| p.0 == id);
        let (mut left, mut freed) = (0, 0_u64);
        for item in self
            .state
            .node(name)
            .iter()
            .flat_map(|node| node.all_items())
        {
            match goes(&item.id) {
                true => freed += u64::from(item.bytes),
                false => left += 1,
            }
        }
        if left + put.len() > config.items_max as usize {
            return Err(Refusal::of(Condition::NotAcceptable, "max-items-exceeded"));
        }
        let bytes: u64 = put.iter().map(|(_, payload)| payload.len() as u64).sum();
        let undecided = self.undecided().map(|record| match record {
            Record::Published { item, .. } => item.payload.len() as u64,
            _ => 0,
        });
        let total = self.state.bytes() + undecided.sum::<u64>() + bytes;
        if bytes > freed && total - freed > limits.bytes_max {
            return Err(Condition::ResourceConstraint.into());
        }
        Ok(())
    }
}
