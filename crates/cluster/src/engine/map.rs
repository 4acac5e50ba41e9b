//! The bucket of the map: compare-and-set, a watch, whether it has a leader, and what all nodes of
//! a deployment share.

use async_nats::jetstream::context::KeyValueErrorKind;
use async_nats::jetstream::kv::{CreateErrorKind, UpdateErrorKind};
use async_nats::jetstream::{ErrorCode, kv};
use bytes::Bytes;
use futures_util::StreamExt;

use super::{Engine, EngineError, failed, says, silent};
use crate::deployment::{self, Deployment};
use crate::layout::StreamId;
use crate::map::{Home, Key, Node, Revision};

/// The bucket with homes and leases.
#[derive(Clone)]
pub struct Bucket {
    entries: kv::Store,
    engine: Engine,
}

/// What an entry says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The home of a stream.
    Home(StreamId, Home),
    /// A node of this name.
    Node(String, Node),
    /// What all nodes share.
    Deployment(Deployment),
}

impl Entry {
    fn key(&self) -> String {
        match self {
            Entry::Home(stream, _) => Key::Home(*stream).name(),
            Entry::Node(name, _) => Key::Node(name.clone()).name(),
            Entry::Deployment(_) => deployment::KEY.to_owned(),
        }
    }

    fn encode(&self) -> Bytes {
        let bytes = match self {
            Entry::Home(_, home) => serde_json::to_vec(home),
            Entry::Node(_, node) => serde_json::to_vec(node),
            Entry::Deployment(deployment) => serde_json::to_vec(deployment),
        };
        // Invariant: they are plain structs with string keys.
        bytes.expect("an entry is JSON").into()
    }

    /// Nothing for what is not ours, or was written by somebody who knows better.
    fn decode(key: &str, value: &[u8]) -> Option<Entry> {
        if key == deployment::KEY {
            return serde_json::from_slice(value).ok().map(Entry::Deployment);
        }
        match Key::parse(key)? {
            Key::Home(stream) => {
                let home = serde_json::from_slice(value).ok()?;
                Some(Entry::Home(stream, home))
            }
            Key::Node(name) => {
                let node = serde_json::from_slice(value).ok()?;
                Some(Entry::Node(name, node))
            }
        }
    }
}

/// What a watch shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// An entry is this now.
    Put(Entry),
    /// There is none any more: an operator deleted it with the engine's tools. What is left is a
    /// mark, which has a revision too.
    Gone(Key),
}

/// Entries as they change.
pub struct Watch(kv::Watch);

impl Watch {
    /// The next change with its revision, or `None` when the watch is of no use any more.
    pub async fn next(&mut self) -> Option<(Revision, Change)> {
        loop {
            let entry = self.0.next().await?.ok()?;
            let change = match entry.operation {
                kv::Operation::Put => Entry::decode(&entry.key, &entry.value).map(Change::Put),
                kv::Operation::Delete | kv::Operation::Purge => {
                    Key::parse(&entry.key).map(Change::Gone)
                }
            };
            if let Some(change) = change {
                return Some((entry.revision, change));
            }
        }
    }
}

impl Engine {
    /// The bucket of the map.
    ///
    /// # Errors
    /// What the engine said: [`EngineError::Silent`] unless that is that there is none.
    pub async fn map(&self) -> Result<Bucket, EngineError> {
        let bucket = self.layout.map_bucket();
        let asked = format!("bucket {bucket}");
        let found = self.jetstream.get_key_value(&bucket);
        let Some(found) = self.ask(self.answer_within, found).await else {
            return Err(silent(asked, &"no answer"));
        };
        match found {
            Ok(entries) => Ok(Bucket {
                entries,
                engine: self.clone(),
            }),
            Err(error) if error.kind() == KeyValueErrorKind::InvalidStoreName => {
                Err(failed(asked)(&"a stream has its name that is no bucket"))
            }
            Err(error) if says(&error, ErrorCode::STREAM_NOT_FOUND) => {
                let why = "it is missing: `roost cluster check --create` makes it";
                Err(failed(asked)(&why))
            }
            Err(error) => Err(silent(asked, &error)),
        }
    }

    /// The name of the server that leads the bucket now, and could take a renewal.
    pub async fn map_leader(&self) -> Option<String> {
        self.leader_of(self.layout.map_stream()).await
    }
}

/// What became of a change. The watch says what an entry is in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The entry has this revision now.
    Stored(Revision),
    /// It has another revision than was expected.
    Overtaken,
    /// Nobody answered who could.
    Silence,
}

impl Bucket {
    /// Changes an entry if it has this revision (0: there is none, or it was deleted).
    pub async fn put(&self, expected: Revision, entry: &Entry) -> Put {
        let key = entry.key();
        if expected == 0 {
            let create = self.entries.create(key, entry.encode());
            return match self.engine.ask(self.engine.answer_within, create).await {
                Some(Ok(revision)) => Put::Stored(revision),
                Some(Err(error)) if error.kind() == CreateErrorKind::AlreadyExists => {
                    Put::Overtaken
                }
                Some(Err(_)) | None => Put::Silence,
            };
        }
        let put = self.entries.update(key, entry.encode(), expected);
        match self.engine.ask(self.engine.answer_within, put).await {
            Some(Ok(revision)) => Put::Stored(revision),
            Some(Err(error)) if error.kind() == UpdateErrorKind::WrongLastRevision => {
                Put::Overtaken
            }
            Some(Err(_)) | None => Put::Silence,
        }
    }

    /// What all nodes share: as it is, or as it is made by this.
    ///
    /// # Errors
    /// [`EngineError::Silent`], or what is there cannot be read.
    pub async fn deployment(&self, made: &Deployment) -> Result<Deployment, EngineError> {
        let asked = "the deployment's entry in the map";
        // Invariant: it is a plain struct.
        let bytes: Bytes = serde_json::to_vec(made).expect("an entry is JSON").into();
        let Err(refused) = self.entries.create(deployment::KEY, bytes).await else {
            return Ok(made.clone());
        };
        match self.entries.get(deployment::KEY).await {
            Ok(Some(found)) => {
                serde_json::from_slice(&found).map_err(|error| failed(asked)(&error))
            }
            // Another node was faster, and a copy of the bucket may not have it yet.
            Ok(None) => Err(silent(asked, &refused)),
            Err(error) => Err(silent(asked, &error)),
        }
    }

    /// What all nodes share, with its revision, if anything is there.
    ///
    /// # Errors
    /// [`EngineError::Silent`], or what is there cannot be read.
    pub async fn find_deployment(&self) -> Result<Option<(Revision, Deployment)>, EngineError> {
        let asked = "the deployment's entry in the map";
        let entry = self.entries.entry(deployment::KEY).await;
        let entry = entry.map_err(|error| silent(asked, &error))?;
        let Some(entry) = entry.filter(|entry| entry.operation == kv::Operation::Put) else {
            return Ok(None);
        };
        let found = serde_json::from_slice(&entry.value);
        let found = found.map_err(|error| failed(asked)(&error))?;
        Ok(Some((entry.revision, found)))
    }

    /// Changes what all nodes share, if it has this revision; forgets it without another one.
    ///
    /// # Errors
    /// [`EngineError::Silent`], also if it has another revision: it is to be looked at again.
    pub async fn change_deployment(
        &self,
        revision: Revision,
        to: Option<&Deployment>,
    ) -> Result<(), EngineError> {
        let silent = |error: &dyn std::fmt::Display| silent("the deployment's entry", error);
        let key = deployment::KEY;
        match to {
            Some(to) => {
                // Invariant: it is a plain struct.
                let bytes: Bytes = serde_json::to_vec(to).expect("an entry is JSON").into();
                let changed = self.entries.update(key, bytes, revision).await;
                changed.map(drop).map_err(|error| silent(&error))
            }
            None => {
                let removed = self
                    .entries
                    .delete_expect_revision(key, Some(revision))
                    .await;
                removed.map_err(|error| silent(&error))
            }
        }
    }

    /// Forgets a node whose entry has this revision.
    ///
    /// # Errors
    /// [`EngineError::Silent`], also if it has another revision: it is to be looked at again.
    pub async fn forget(&self, node: &str, revision: Revision) -> Result<(), EngineError> {
        let key = Key::Node(node.to_owned()).name();
        let removed = self.entries.delete_expect_revision(&key, Some(revision));
        let removed = removed.await;
        removed.map_err(|error| silent(format!("the entry of node {node}"), &error))
    }

    /// The last life of a node's process, if the map has an entry of it.
    ///
    /// # Errors
    /// [`EngineError::Silent`].
    pub async fn life(&self, node: &str) -> Result<Option<u64>, EngineError> {
        let key = Key::Node(node.to_owned()).name();
        let found = self.entries.get(&key).await;
        let found = found.map_err(|error| silent("this node's entry in the map", &error))?;
        match found.and_then(|value| Entry::decode(&key, &value)) {
            Some(Entry::Node(_, node)) => Ok(Some(node.incarnation)),
            _ => Ok(None),
        }
    }

    /// All entries as they are, each with its revision.
    ///
    /// # Errors
    /// What the engine said.
    pub async fn entries(&self) -> Result<Vec<(Revision, Entry)>, EngineError> {
        let fail = || failed("entries of the map");
        let mut keys = self.entries.keys().await.map_err(|error| fail()(&error))?;
        let mut entries = Vec::new();
        while let Some(key) = keys.next().await {
            let key = key.map_err(|error| fail()(&error))?;
            let entry = self
                .entries
                .entry(&key)
                .await
                .map_err(|error| fail()(&error))?;
            let entry = entry
                .and_then(|entry| Some((entry.revision, Entry::decode(&entry.key, &entry.value)?)));
            entries.extend(entry);
        }
        Ok(entries)
    }

    /// All entries as they are, and then every change.
    ///
    /// # Errors
    /// What the engine said.
    pub async fn watch(&self) -> Result<Watch, EngineError> {
        let fail = || failed("watch of the map");
        let watched = self.entries.watch_with_history(">");
        let watched = self.engine.ask(self.engine.part_within, watched).await;
        let watched = watched.ok_or_else(|| fail()(&"no answer"))?;
        watched.map(Watch).map_err(|error| fail()(&error))
    }
}
