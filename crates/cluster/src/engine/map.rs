//! The bucket of the map: compare-and-set, a watch, whether it has a leader, and what all nodes of
//! a deployment share.

use async_nats::jetstream::context::KeyValueErrorKind;
use async_nats::jetstream::kv::UpdateErrorKind;
use async_nats::jetstream::{ErrorCode, kv};
use bytes::Bytes;
use futures_util::StreamExt;

use super::{Engine, EngineError, failed, says, silent};
use crate::deployment::{self, Deployment};
use crate::layout::StreamId;
use crate::map::{Home, Key, Node, Revision};

/// The bucket with homes and leases.
#[derive(Clone)]
pub struct Bucket(kv::Store);

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

/// Entries as they change.
pub struct Watch(kv::Watch);

impl Watch {
    /// The next change with its revision, or `None` when the watch is of no use any more.
    pub async fn next(&mut self) -> Option<(Revision, Entry)> {
        loop {
            let entry = self.0.next().await?.ok()?;
            if let Some(found) = Entry::decode(&entry.key, &entry.value) {
                return Some((entry.revision, found));
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
        match self.jetstream.get_key_value(&bucket).await {
            Ok(found) => Ok(Bucket(found)),
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
        self.leader_of(format!("KV_{}", self.layout.map_bucket()))
            .await
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
    /// Changes an entry if it has this revision (0: there is none).
    pub async fn put(&self, expected: Revision, entry: &Entry) -> Put {
        let key = entry.key();
        match self.0.update(key, entry.encode(), expected).await {
            Ok(revision) => Put::Stored(revision),
            Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => Put::Overtaken,
            Err(_) => Put::Silence,
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
        let Err(refused) = self.0.create(deployment::KEY, bytes).await else {
            return Ok(made.clone());
        };
        match self.0.get(deployment::KEY).await {
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
        let entry = self.0.entry(deployment::KEY).await;
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
                let changed = self.0.update(key, bytes, revision).await;
                changed.map(drop).map_err(|error| silent(&error))
            }
            None => {
                let removed = self.0.delete_expect_revision(key, Some(revision)).await;
                removed.map_err(|error| silent(&error))
            }
        }
    }

    /// All entries as they are, each with its revision.
    ///
    /// # Errors
    /// What the engine said.
    pub async fn entries(&self) -> Result<Vec<(Revision, Entry)>, EngineError> {
        let fail = || failed("entries of the map");
        let mut keys = self.0.keys().await.map_err(|error| fail()(&error))?;
        let mut entries = Vec::new();
        while let Some(key) = keys.next().await {
            let key = key.map_err(|error| fail()(&error))?;
            let entry = self.0.entry(&key).await.map_err(|error| fail()(&error))?;
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
        let watched = self.0.watch_with_history(">").await;
        watched
            .map(Watch)
            .map_err(|error| failed("watch of the map")(&error))
    }
}
