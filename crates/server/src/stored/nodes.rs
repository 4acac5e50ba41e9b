//! The nodes of a service or an account as the store has them: the records of its machine as those
//! of the store, and back.
//!
//! | record of the machine | in the store |
//! |---|---|
//! | `Created`, `Configured` | part `0` of the node: always the whole head |
//! | `Affiliated`, `Subscribed` | parts `a` and `s` with the address |
//! | `Published`, `Retracted`, `Purged` | items |
//! | `Deleted` | nothing is left of the node; where it moved is in part `m` of number 0 |
//!
//! Part `n` of number 0 says of an account that it may have nodes: who wants to know need not read
//! them. It stays when the last node goes.

use std::collections::BTreeMap;
use std::sync::Arc;

use pubsub::{Affiliation, Meta, Options, Record, State, SubscriptionState};
use store::{NodeEntry, Store, StoreError};

/// Parts of a node. They are read in the order of their names, and what makes a node comes first.
const HEAD: &str = "0";
const AFFILIATED: &str = "a";
const SUBSCRIBED: &str = "s";
/// The number of what no node has.
const NO_NODE: u64 = 0;
const MOVED: &str = "m";
const MARK: &str = "n";

// ---- Reading -----------------------------------------------------------------------------------

/// The state of a service as the store has it, and whether it has one. Blocks.
pub(crate) fn read(
    store: &Store,
    name: &str,
    options: &Options,
) -> Result<(State, bool), StoreError> {
    let corrupt = |why: String| StoreError::Corrupt(format!("{name}: {why}"));
    let mut state = State::default();
    let mut names: BTreeMap<u64, String> = BTreeMap::new();
    let is_made = store.load_nodes(name, |entry| {
        match entry {
            NodeEntry::Part {
                node: NO_NODE,
                part: MARK,
                ..
            } => {}
            NodeEntry::Part {
                node: NO_NODE,
                value,
                ..
            } => {
                let moved = Record::decode_all(&value).map_err(|e| corrupt(e.to_string()))?;
                for record in moved {
                    state.apply(record, options);
                }
            }
            NodeEntry::Part { node, part, value } => {
                let record = Record::decode(&value);
                let record =
                    record.map_err(|error| corrupt(format!("part {part} of {node}: {error}")))?;
                if part == HEAD {
                    names.insert(node, record.node().to_owned());
                }
                state.apply(record, options);
            }
            NodeEntry::Item { node, item } => {
                let missing = || corrupt(format!("node {node} has items and no head"));
                let node = names.get(&node).ok_or_else(missing)?;
                let meta = Meta {
                    id: item.id.into(),
                    seq: item.seq,
                    at: item.at,
                    publisher: item.publisher.into(),
                    bytes: item.bytes,
                };
                state.add_item(node, meta);
            }
        }
        Ok(())
    })?;
    Ok((state, is_made))
}

/// As [`read`], without items. Blocks.
pub(crate) fn read_heads(
    store: &Store,
    name: &str,
    options: &Options,
) -> Result<(State, bool), StoreError> {
    let corrupt = |why: String| StoreError::Corrupt(format!("{name}: {why}"));
    let mut state = State::default();
    let is_made = store.load_node_parts(name, |entry| {
        if let NodeEntry::Part { node, part, value } = entry
            && (node, part) != (NO_NODE, MARK)
        {
            let records = match node {
                NO_NODE => Record::decode_all(&value),
                _ => Record::decode(&value).map(|record| vec![record]),
            };
            for record in records.map_err(|error| corrupt(error.to_string()))? {
                state.apply(record, options);
            }
        }
        Ok(())
    })?;
    Ok((state, is_made))
}

/// Those of these accounts that may have nodes. Blocks.
pub(crate) fn with_nodes<T: AsRef<str>>(
    store: &Store,
    accounts: Vec<T>,
) -> Result<Vec<T>, StoreError> {
    store.with_part(accounts, (NO_NODE, MARK))
}

/// The record that says of an account that it may have nodes.
pub(crate) fn mark(user: &str) -> store::Record {
    store::Record::NodePut {
        user: user.to_owned(),
        node: NO_NODE,
        part: MARK.to_owned(),
        value: vec![1],
    }
}

/// Items of a node, those that are there. Blocks.
pub(crate) fn items(
    store: &Store,
    name: &str,
    number: u64,
    items: &[(Box<str>, u64)],
) -> Result<Vec<pubsub::Item>, StoreError> {
    let found = store.items(name, number, items.iter().map(|(id, _)| &**id))?;
    let item = |item: store::Item| pubsub::Item {
        id: item.id,
        seq: item.seq,
        at: item.at,
        publisher: item.publisher,
        payload: Arc::from(&*item.payload),
    };
    Ok(found.into_iter().map(item).collect())
}

// ---- Writing -----------------------------------------------------------------------------------

/// Writes the records of one append as those of the store.
struct Translation<'a> {
    user: &'a str,
    state: &'a State,
    /// Heads of nodes that this append makes or changes.
    heads: BTreeMap<String, Record>,
    stored: Vec<store::Record>,
}

impl Translation<'_> {
    /// The head of a node as this append leaves it so far.
    fn head(&self, name: &str) -> Option<Record> {
        let own = self.heads.get(name).cloned();
        own.or_else(|| {
            let node = self.state.node(name)?;
            Some(Record::Created {
                node: name.to_owned(),
                number: node.number,
                at: node.created.as_millis(),
                creator: node.creator.to_string(),
                config: Box::new((*node.config).clone()),
            })
        })
    }

    /// Number and creator of a node.
    fn node(&self, name: &str) -> Option<(u64, String)> {
        match self.head(name)? {
            Record::Created {
                number, creator, ..
            } => Some((number, creator)),
            _ => None,
        }
    }

    fn put(&mut self, node: u64, part: String, value: Vec<u8>) {
        self.stored.push(store::Record::NodePut {
            user: self.user.to_owned(),
            node,
            part,
            value,
        });
    }

    fn put_head(&mut self, number: u64, head: Record) {
        self.put(number, HEAD.to_owned(), head.encode());
        self.heads.insert(head.node().to_owned(), head);
    }

    /// A record of a node that is not there changes nothing.
    fn add(&mut self, record: Record) -> Option<()> {
        let user = || self.user.to_owned();
        match record {
            Record::Created { number, .. } => self.put_head(number, record),
            Record::Configured { node, config: new } => {
                let mut head = self.head(&node)?;
                if let Record::Created { number, config, .. } = &mut head {
                    *config = new;
                    let number = *number;
                    self.put_head(number, head);
                }
            }
            Record::Affiliated {
                ref node,
                ref address,
                affiliation,
            } => {
                let (number, creator) = self.node(node)?;
                // Who made a node is its owner unless it is written that he is not.
                let is_kept = affiliation != Affiliation::None || *address == creator;
                let value = if is_kept { record.encode() } else { Vec::new() };
                self.put(number, format!("{AFFILIATED}{address}"), value);
            }
            Record::Subscribed {
                ref node,
                ref address,
                subscription,
            } => {
                let (number, _) = self.node(node)?;
                let is_kept = subscription.state != SubscriptionState::None;
                let value = if is_kept { record.encode() } else { Vec::new() };
                self.put(number, format!("{SUBSCRIBED}{address}"), value);
            }
            Record::Published { node, item } => {
                let put = store::Record::ItemPut {
                    user: user(),
                    node: self.node(&node)?.0,
                    item: store::Item {
                        id: item.id,
                        seq: item.seq,
                        at: item.at,
                        publisher: item.publisher,
                        payload: store::SharedBytes::beginning(item.payload, usize::MAX),
                    },
                };
                self.stored.push(put);
            }
            Record::Retracted { node, items: ids } => {
                let (user, node) = (user(), self.node(&node)?.0);
                self.stored
                    .push(store::Record::ItemsRemove { user, node, ids });
            }
            Record::Purged { node } => {
                let (user, node) = (user(), self.node(&node)?.0);
                self.stored.push(store::Record::ItemsClear { user, node });
            }
            Record::Deleted { node, .. } => {
                let (user, node) = (user(), self.node(&node)?.0);
                self.stored.push(store::Record::NodeRemove { user, node });
            }
        }
        Some(())
    }
}

/// What becomes of the list of deleted nodes that are elsewhere now; true if it changes.
fn move_on(moved: &mut Vec<Record>, record: &Record, max: usize) -> bool {
    let before = moved.len();
    match record {
        Record::Created { node, .. } => moved.retain(|old| old.node() != node),
        Record::Deleted {
            node,
            moved_to: Some(_),
        } => {
            moved.retain(|old| old.node() != node);
            moved.push(record.clone());
            let above = moved.len().saturating_sub(max);
            moved.drain(..above);
            return true;
        }
        _ => {}
    }
    moved.len() != before
}

/// The records of the store for those of a machine at `user` in `state`. `moved` are the deleted
/// nodes that are elsewhere now, as the last append left them, and then as this one does.
pub(crate) fn translate(
    (user, state): (&str, &State),
    (moved, moved_max): (&mut Vec<Record>, usize),
    records: Vec<Record>,
) -> Vec<store::Record> {
    let mut translation = Translation {
        user,
        state,
        heads: BTreeMap::new(),
        stored: Vec::with_capacity(records.len() + 2),
    };
    let mut is_moved = false;
    for record in records {
        is_moved |= move_on(moved, &record, moved_max);
        translation.add(record);
    }
    if is_moved {
        let value = match moved.is_empty() {
            true => Vec::new(),
            false => Record::encode_all(moved),
        };
        translation.put(NO_NODE, MOVED.to_owned(), value);
    }
    translation.stored
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deleted(node: &str, uri: &str) -> Record {
        Record::Deleted {
            node: node.to_owned(),
            moved_to: Some(uri.to_owned()),
        }
    }

    #[test]
    fn only_so_many_moves_are_remembered_and_a_node_made_anew_has_not_moved() {
        let mut moved = Vec::new();
        for name in ["a", "b", "c"] {
            assert!(move_on(&mut moved, &deleted(name, "xmpp:x"), 2));
        }
        assert_eq!(moved, [deleted("b", "xmpp:x"), deleted("c", "xmpp:x")]);
        assert!(move_on(&mut moved, &deleted("b", "xmpp:y"), 2));
        assert_eq!(moved, [deleted("c", "xmpp:x"), deleted("b", "xmpp:y")]);
        let made = |node: &str| Record::Created {
            node: node.to_owned(),
            number: 1,
            at: 0,
            creator: "a@b".to_owned(),
            config: Box::default(),
        };
        assert!(!move_on(&mut moved, &made("a"), 2));
        assert!(move_on(&mut moved, &made("c"), 2));
        assert_eq!(moved, [deleted("b", "xmpp:y")]);
        // What is remembered is read back.
        let read = Record::decode_all(&Record::encode_all(&moved)).unwrap();
        let options = Options::default();
        let state = State::of(read, &options);
        assert_eq!(state.moved_to("b"), Some("xmpp:y"));
    }
}
