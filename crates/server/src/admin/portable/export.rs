//! What a node has, page by page, as lines: accounts with their nodes, rooms, services. Owns the
//! cursor, which a page ends with wherever it has become long enough.

use serde::{Deserialize, Serialize};
use store::{EntryFlags, PageQuery, Seq, Store, StoreError};

use super::{Line, nodes, parts, rooms};
use crate::admin::Admin;
use crate::modules::service::Service;
use crate::options::Options;
use crate::stored;

/// Bytes of lines with which a page is long enough.
const PAGE_BYTES: usize = 1024 * 1024;

/// Items and messages that are read at a time.
const READ: usize = 64;

/// What comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Section {
    #[default]
    Accounts,
    Rooms,
    Services,
}

/// Where the next page starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cursor {
    section: Section,
    /// The last one that is done, or begun.
    after: Option<String>,
    /// It is begun: the number of the node and the last item of it, or the last message.
    inside: Option<(u64, Seq)>,
}

impl Cursor {
    /// As it was given out; the start if there is none.
    pub(crate) fn read(text: Option<&str>) -> Option<Cursor> {
        text.map_or(Some(Cursor::default()), |text| {
            serde_json::from_str(text).ok()
        })
    }

    fn write(&self) -> String {
        // Invariant: plain values always serialise.
        serde_json::to_string(self).expect("a cursor serialises")
    }

    fn section(section: Section) -> Cursor {
        Cursor {
            section,
            ..Cursor::default()
        }
    }
}

/// One page while it is made.
pub(crate) struct Export<'a> {
    pub(crate) store: &'a Store,
    pub(crate) options: &'a Options,
    services: &'static [&'static Service],
    /// The lines so far.
    pub(crate) lines: Vec<String>,
    bytes: usize,
}

impl<'a> Export<'a> {
    pub(crate) fn new(admin: &'a Admin) -> Export<'a> {
        Export {
            store: &admin.store,
            options: &admin.options,
            services: admin.services,
            lines: Vec::new(),
            bytes: 0,
        }
    }

    fn push(&mut self, line: &Line) {
        // Invariant: plain values always serialise.
        self.add(serde_json::to_string(line).expect("a line serialises"));
    }

    fn add(&mut self, line: String) {
        self.bytes += line.len();
        self.lines.push(line);
    }

    fn is_full(&self) -> bool {
        self.bytes >= PAGE_BYTES
    }

    /// Makes a page of at most `limit` accounts, rooms and services. Returns where the next one
    /// starts, if there is more.
    pub(crate) fn page(
        &mut self,
        mut cursor: Cursor,
        limit: usize,
    ) -> Result<Option<String>, StoreError> {
        for _ in 0..limit {
            let next = match cursor.section {
                Section::Accounts => self.account(&cursor)?,
                Section::Rooms => self.room(&cursor)?,
                Section::Services => self.service(&cursor)?,
            };
            let Some(next) = next else { return Ok(None) };
            cursor = next;
            if self.is_full() {
                break;
            }
        }
        Ok(Some(cursor.write()))
    }

    /// The next account, or the next part of one.
    fn account(&mut self, cursor: &Cursor) -> Result<Option<Cursor>, StoreError> {
        let after = cursor.after.as_deref();
        let machine = &*self.options.pep.machine;
        let (jid, from) = match (after, cursor.inside) {
            (Some(begun), Some(from)) => (begun.to_owned(), from),
            _ => {
                let next = self.store.accounts(None, after, 1)?.pop();
                let Some(jid) = next else {
                    return Ok(Some(Cursor::section(Section::Rooms)));
                };
                for line in super::export(self.store, &jid)? {
                    self.add(line);
                }
                (jid, (0, 0))
            }
        };
        let has_nodes = !stored::nodes::with_nodes(self.store, vec![&*jid])?.is_empty();
        let inside = match has_nodes {
            true => self.nodes(&jid, machine, from)?,
            false => None,
        };
        Ok(Some(Cursor {
            after: Some(jid),
            inside,
            ..*cursor
        }))
    }

    /// The next room, or the next part of one.
    fn room(&mut self, cursor: &Cursor) -> Result<Option<Cursor>, StoreError> {
        let after = cursor.after.as_deref();
        let (jid, begun) = match (after, cursor.inside) {
            (Some(begun), Some((_, last))) => (begun.to_owned(), Some(last)),
            _ => match self.store.rooms(after, 1)?.pop() {
                Some((jid, _)) => (jid, None),
                None => return Ok(Some(Cursor::section(Section::Services))),
            },
        };
        let done = Cursor {
            after: Some(jid.clone()),
            inside: None,
            ..*cursor
        };
        let (_, Some(room)) = self.store.load_room(&jid, 0)? else {
            return Ok(Some(done));
        };
        let head = rooms::RoomHead::of(&jid, &room)?;
        if !head.is_persistent() {
            return Ok(Some(done));
        }
        let query = |after: Option<Seq>, limit: usize| PageQuery {
            flags: EntryFlags::ARCHIVED,
            after,
            limit,
            ..PageQuery::default()
        };
        let oldest = self.store.log_page(&jid, &query(None, 1))?.first();
        if begun.is_none() {
            let (line, affiliations) = rooms::head_lines(&jid, &room, oldest)?;
            self.push(&Line::Room(line));
            for line in affiliations {
                self.push(&Line::RoomAffiliations(line));
            }
        }
        let base = rooms::base_of(&head, oldest);
        let mut last = begun;
        loop {
            let page = self.store.log_page(&jid, &query(last, READ))?;
            for entry in &page.entries {
                self.push(&Line::RoomMessage(rooms::message_line(&jid, base, entry)));
                last = Some(entry.seq);
            }
            if page.complete || page.entries.is_empty() {
                break;
            }
            if self.is_full() {
                let inside = last.map(|last| (0, last));
                return Ok(Some(Cursor { inside, ..done }));
            }
        }
        if !head.is_locked {
            self.push(&Line::RoomOpen(rooms::open_line(&jid)));
            for line in rooms::member_lines(self.store, &jid, &room, base)? {
                self.push(&Line::RoomMembers(line));
            }
        }
        Ok(Some(done))
    }

    /// The next service, or the next part of one.
    fn service(&mut self, cursor: &Cursor) -> Result<Option<Cursor>, StoreError> {
        let with_nodes = &self.options.pubsub.hosts;
        let machine = &*self.options.pubsub.machine;
        let domains = &self.options.domains;
        let small = self.services.iter().flat_map(|one| one.hosts(domains));
        let hosts: Vec<String> = with_nodes.iter().cloned().chain(small).collect();
        let at = cursor.after.as_deref().map_or(0, |after| {
            let known = hosts.iter().position(|host| host == after);
            let is_begun = cursor.inside.is_some();
            known.map_or(hosts.len(), |at| at + usize::from(!is_begun))
        });
        let Some(jid) = hosts.get(at) else {
            return Ok(None);
        };
        let from = match cursor.inside {
            Some(from) => from,
            None => {
                let jid = jid.clone();
                if self.store.load_node_parts(&jid, |_| Ok(()))? {
                    self.push(&Line::Service(nodes::ServiceLine { jid }));
                }
                (0, 0)
            }
        };
        let inside = match with_nodes.contains(jid) {
            true => self.nodes(jid, machine, from)?,
            false => {
                for line in parts::lines(self.store, jid)? {
                    self.push(&Line::Part(line));
                }
                None
            }
        };
        Ok(Some(Cursor {
            after: Some(jid.clone()),
            inside,
            ..*cursor
        }))
    }

    /// Nodes behind a number, and items of that node behind a place. Returns where it stopped
    /// because the page is long enough.
    fn nodes(
        &mut self,
        jid: &str,
        machine: &pubsub::Options,
        from: (u64, Seq),
    ) -> Result<Option<(u64, Seq)>, StoreError> {
        let (state, _) = stored::nodes::read(self.store, jid, machine)?;
        if from == (0, 0)
            && let Some(line) = nodes::moved_line(jid, &state)
        {
            self.push(&Line::NodesMoved(line));
        }
        let mut all: Vec<_> = state.nodes().collect();
        all.sort_by_key(|(_, node)| node.number);
        for (name, node) in all.into_iter().filter(|(_, node)| node.number >= from.0) {
            let mut last = 0;
            if node.number == from.0 {
                last = from.1;
            } else {
                let (line, affiliations, subscriptions) = nodes::head_lines(jid, name, node);
                self.push(&Line::Node(line));
                for line in affiliations {
                    self.push(&Line::NodeAffiliations(line));
                }
                for line in subscriptions {
                    self.push(&Line::NodeSubscriptions(line));
                }
            }
            let items = node.all_items().filter(|item| item.seq > last);
            let items: Vec<_> = items.map(|item| (item.id.clone(), item.seq)).collect();
            for part in items.chunks(READ) {
                for item in stored::nodes::items(self.store, jid, node.number, part)? {
                    self.push(&Line::NodeItem(nodes::item_line(jid, name, item)));
                }
                last = part.last().map_or(last, |(_, seq)| *seq);
                if self.is_full() {
                    return Ok(Some((node.number, last)));
                }
            }
            if self.is_full() {
                return Ok(Some((node.number, Seq::MAX)));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back_and_what_is_none_is_refused() {
        assert_eq!(Cursor::read(None), Some(Cursor::default()));
        let cursor = Cursor {
            section: Section::Rooms,
            after: Some("r@x".to_owned()),
            inside: Some((1, 7)),
        };
        assert_eq!(Cursor::read(Some(&cursor.write())), Some(cursor));
        for text in ["", "a@b", "{}", "{\"section\":\"Else\"}"] {
            assert_eq!(Cursor::read(Some(text)), None, "{text}");
        }
    }
}
