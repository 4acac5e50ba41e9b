//! What the engine has to have: it is made here when an operator asks for that, and observed here
//! for `check`.

use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use async_nats::jetstream::{ErrorCode, kv, object_store};

use super::{Engine, EngineError, failed, says};
use crate::check::{self, DUPLICATE_WINDOW_MIN, REPLICAS};
use crate::layout::StreamId;

impl Engine {
    /// Makes every stream and bucket of the layout that is not there. What is there is left as it
    /// is.
    ///
    /// # Errors
    /// What the engine said to the first that it did not make.
    pub async fn create(&self) -> Result<(), EngineError> {
        for stream in self.layout.streams() {
            let config = self.config(stream);
            let name = config.name.clone();
            let made = self.jetstream.get_or_create_stream(config).await;
            made.map_err(|error| failed(format!("stream {name}"))(&error))?;
        }
        let bucket = self.layout.map_bucket();
        if self.jetstream.get_key_value(&bucket).await.is_err() {
            let config = kv::Config {
                bucket: bucket.clone(),
                num_replicas: REPLICAS,
                history: 1,
                ..kv::Config::default()
            };
            let made = self.jetstream.create_key_value(config).await;
            made.map_err(|error| failed(format!("bucket {bucket}"))(&error))?;
        }
        let bucket = self.layout.snapshot_bucket();
        if self.jetstream.get_object_store(&bucket).await.is_err() {
            let config = object_store::Config {
                bucket: bucket.clone(),
                num_replicas: REPLICAS,
                ..object_store::Config::default()
            };
            let made = self.jetstream.create_object_store(config).await;
            made.map_err(|error| failed(format!("bucket {bucket}"))(&error))?;
        }
        Ok(())
    }

    fn config(&self, stream: StreamId) -> Config {
        Config {
            name: self.layout.stream_name(stream),
            subjects: vec![self.layout.subject(stream)],
            retention: RetentionPolicy::Limits,
            storage: StorageType::File,
            num_replicas: REPLICAS,
            discard: DiscardPolicy::New,
            deny_delete: true,
            duplicate_window: DUPLICATE_WINDOW_MIN,
            ..Config::default()
        }
    }

    /// The streams of the layout that are there, those below its buckets, and the names of those of
    /// which nobody says whether they are: only a stream's leader answers, and there may be none
    /// for the moment.
    pub async fn observe_streams(&self) -> (Vec<check::Stream>, Vec<check::Stream>, Vec<String>) {
        let (mut streams, mut buckets, mut silent) = (Vec::new(), Vec::new(), Vec::new());
        let names = self
            .layout
            .streams()
            .map(|one| self.layout.stream_name(one));
        for name in names {
            self.observe(name, &mut streams, &mut silent).await;
        }
        for name in [self.layout.map_stream(), self.layout.snapshot_stream()] {
            self.observe(name, &mut buckets, &mut silent).await;
        }
        (streams, buckets, silent)
    }

    async fn observe(
        &self,
        name: String,
        there: &mut Vec<check::Stream>,
        silent: &mut Vec<String>,
    ) {
        let info = match self.jetstream.get_stream_no_info(&name).await {
            Ok(handle) => handle.get_info().await,
            Err(_) => return silent.push(name),
        };
        let info = match info {
            Ok(info) => info,
            Err(error) if says(&error, ErrorCode::STREAM_NOT_FOUND) => return,
            Err(_) => return silent.push(name),
        };
        let config = info.config;
        let leader = info.cluster.and_then(|cluster| cluster.leader);
        there.push(check::Stream {
            name: config.name,
            subjects: config.subjects,
            replicas: config.num_replicas,
            is_file: config.storage == StorageType::File,
            discards_new: config.discard == DiscardPolicy::New,
            denies_delete: config.deny_delete,
            denies_purge: config.deny_purge,
            age_max: config.max_age,
            messages_max: config.max_messages,
            bytes_max: config.max_bytes,
            messages_per_subject_max: config.max_messages_per_subject,
            keeps_all: config.retention == RetentionPolicy::Limits,
            message_size_max: config.max_message_size,
            allows_rollup: config.allow_rollup,
            duplicate_window: config.duplicate_window,
            acknowledges: !config.no_ack,
            is_sealed: config.sealed,
            has_leader: leader.is_some_and(|leader| !leader.is_empty()),
        });
    }
}
