//! Digests (XEP-0060 sections 6.3 and 16.4.2): a subscriber who wants to be notified less often is
//! told of all that was published and removed at a node together, once in a while. Owns what waits
//! for that. It is in memory only, as other notifications are: who misses one retrieves the items.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use stdx::Timestamp;
use xml::build::Writer;

use crate::event::Told;
use crate::limits::PubsubLimits;
use crate::notify::write_item;
use crate::record::Item;
use crate::service::{Now, Service};
use crate::state::bare;

/// A node and the address of a subscription.
type Key = (Arc<str>, Arc<str>);

/// What a digest tells of: an item at its place, or that it was removed.
#[derive(Clone, Debug)]
struct Entry {
    id: Box<str>,
    place: Option<u64>,
}

/// What waits for one subscription: of each item what became of it last.
#[derive(Debug)]
struct Digest {
    due: i64,
    entries: Vec<Entry>,
}

/// Everything that waits.
#[derive(Debug, Default)]
pub(crate) struct Digests {
    waiting: BTreeMap<Key, Digest>,
    /// The same by when it is due.
    order: BTreeSet<(i64, Key)>,
    entries: usize,
}

impl Digests {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn next(&self) -> Option<Timestamp> {
        let first = self.order.first();
        first.map(|(due, _)| Timestamp::from_millis(*due))
    }

    /// Adds to a digest, which is due at `due` if it is a new one. False if there are too many.
    /// One that is full, or that is added to while all together have too much, is due at once.
    fn add(&mut self, key: Key, entry: Entry, due: i64, limits: &PubsubLimits) -> bool {
        if !self.waiting.contains_key(&key) {
            if self.waiting.len() >= limits.digests_max {
                return false;
            }
            self.order.insert((due, key.clone()));
            let entries = Vec::new();
            self.waiting.insert(key.clone(), Digest { due, entries });
        }
        let Some(digest) = self.waiting.get_mut(&key) else {
            return false;
        };
        self.entries -= digest.entries.len();
        digest.entries.retain(|old| old.id != entry.id);
        digest.entries.push(entry);
        self.entries += digest.entries.len();
        let is_full = digest.entries.len() >= limits.digest_entries_max
            || self.entries >= limits.digest_entries_total_max;
        if is_full && digest.due > 0 {
            self.order.remove(&(digest.due, key.clone()));
            digest.due = 0;
            self.order.insert((0, key));
        }
        true
    }

    fn take(&mut self, key: &Key) -> Option<Digest> {
        let digest = self.waiting.remove(key)?;
        self.order.remove(&(digest.due, key.clone()));
        self.entries -= digest.entries.len();
        Some(digest)
    }

    /// The first that is due.
    fn take_due(&mut self, now: Timestamp) -> Option<(Key, Vec<Entry>)> {
        let (due, key) = self.order.first()?;
        if *due > now.as_millis() {
            return None;
        }
        let key = key.clone();
        let digest = self.take(&key)?;
        Some((key, digest.entries))
    }

    /// A node has no items any more, or is gone.
    pub(crate) fn forget(&mut self, node: &str) {
        let all = self.waiting.keys().filter(|(name, _)| **name == *node);
        for key in all.cloned().collect::<Vec<_>>() {
            self.take(&key);
        }
    }
}

impl Service {
    /// When something of its own is to be done next: give it [`crate::Event::Due`] then.
    pub fn due(&self) -> Option<Timestamp> {
        // While all readers are busy, the next answer of the store goes on.
        let next = self.digests.next();
        next.filter(|_| self.fetches_left() > 0)
    }

    /// Takes those who want digests out of an audience: what they are to hear of waits. Of what is
    /// not kept nothing could be told later.
    pub(crate) fn hold_back(
        &mut self,
        name: &str,
        told: Told,
        (id, place): (&str, Option<u64>),
        now: Now<'_>,
    ) -> Told {
        let Some((name, node)) = self.state.name(name).zip(self.state.node(name)) else {
            return told;
        };
        if self.is_account() || !node.config.keeps_items {
            return told;
        }
        let every = |address: &Arc<str>| {
            let found = node.subscription(address, now.at)?;
            // An import may have a lower number than the options allow.
            let ms = found.digest_ms.max(self.options.limits.digest_ms_min);
            (found.digest_ms > 0).then_some(i64::from(ms))
        };
        let all = told
            .to
            .iter()
            .map(|address| (Arc::clone(address), every(address)));
        let all: Vec<(Arc<str>, Option<i64>)> = all.collect();
        let mut to: Vec<Arc<str>> = Vec::with_capacity(all.len());
        for (address, every) in all {
            let Some(every) = every else {
                to.push(address);
                continue;
            };
            let key = (Arc::clone(&name), Arc::clone(&address));
            let due = now.at.as_millis() + every;
            let id = id.into();
            let entry = Entry { id, place };
            if !self.digests.add(key, entry, due, &self.options.limits) {
                to.push(address);
            }
        }
        Told {
            to: to.into(),
            contacts: told.contacts,
        }
    }

    /// Sends the digests that are due, as many as items can be asked for now.
    pub(crate) fn send_digests(&mut self, now: Now<'_>) {
        while self.fetches_left() > 0
            && let Some((key, entries)) = self.digests.take_due(now.at)
        {
            self.send_digest(key, entries, now);
        }
    }

    fn send_digest(&mut self, (name, to): Key, entries: Vec<Entry>, now: Now<'_>) {
        let Some(node) = self.state.node(&name).filter(|node| node.config.notifies) else {
            return;
        };
        let subscription = node.subscription(&to, now.at);
        if !self.is_told(node, bare(&to), subscription, now, false) {
            return;
        }
        let (number, config) = (node.number, Arc::clone(&node.config));
        let wanted = entries.iter();
        let wanted = wanted.filter_map(|entry| Some((entry.id.clone(), entry.place?)));
        self.fetch(
            &Arc::clone(&name),
            wanted.collect(),
            move |service, items| {
                let is_read = items.is_some();
                let items = items.into_iter().flatten().map(|item| (item.seq, item));
                let items: BTreeMap<u64, Item> = items.collect();
                let written = entries.iter().map(|entry| {
                    let mut out = Vec::new();
                    let mut writer = Writer::new(&mut out);
                    match entry.place.map(|place| items.get(&place)) {
                        None => {
                            writer.open("retract").attr("id", &entry.id).close();
                        }
                        Some(Some(item)) => {
                            let (names, payloads) =
                                (config.names_publisher, config.delivers_payloads);
                            write_item(&mut writer, item, names, payloads);
                        }
                        // What cannot be read now is named; what is gone again is nothing.
                        Some(None) if !is_read => {
                            writer.open("item").attr("id", &entry.id).close();
                        }
                        Some(None) => {}
                    }
                    out
                });
                let bytes_max = service.options.limits.page_bytes_max as usize;
                for part in parts(written, bytes_max) {
                    let mut content = Vec::with_capacity(part.len() + 128);
                    let mut writer = Writer::new(&mut content);
                    writer.open("items").attr("node", &name).raw(&part).close();
                    let frame = service.event(number, config.is_headline, &content);
                    service.send(frame, [Arc::clone(&to)].into());
                }
            },
        );
    }
}

/// Puts elements together, so many bytes at most unless one alone has more.
fn parts(elements: impl Iterator<Item = Vec<u8>>, bytes_max: usize) -> Vec<Vec<u8>> {
    let mut parts: Vec<Vec<u8>> = Vec::new();
    for element in elements.filter(|element| !element.is_empty()) {
        match parts.last_mut() {
            Some(last) if last.len() + element.len() <= bytes_max => last.extend(element),
            _ => parts.push(element),
        }
    }
    parts
}
