//! The engine's client: the few requests that the journal and the map make of it. The only module
//! beside its own parts that names async-nats. Owns what each answer means; decides nothing.

mod access;
mod leader;
mod map;
mod object;
mod parts;
mod setup;
#[cfg(test)]
pub(crate) mod tests;

pub use access::Access;
pub use leader::Standing;
pub use map::{Bucket, Change, Entry, Put, Watch};
pub(crate) use parts::PARTS_KEPT;

use std::error::Error;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::context::{GetStreamError, GetStreamErrorKind};
use async_nats::jetstream::{self, ErrorCode, stream};
use async_nats::{
    Client, ConnectOptions, HeaderMap, ReconnectToServer, Request, client::RequestErrorKind, header,
};
use bytes::Bytes;
use serde::Deserialize;

use crate::journal::{Answer, Found, Publish, Seq};
use crate::layout::{Layout, StreamId};

/// How to reach the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Addresses of its servers: `nats://host:4222` or `tls://…`, with `user:password@` before the
    /// host if it asks (what a URL does not allow there as `%` and two digits), or `token@`. What
    /// the first one says that says anything goes for all.
    pub servers: Vec<String>,
    /// Files by which a node and these servers know each other. Default: none.
    pub access: Access,
    /// The name of the one next to this node, which leads the streams whose home is here as far as
    /// it can. The node begins with the first of the servers then. Default: none; any of them
    /// leads, and any is connected to.
    pub near: Option<String>,
    /// Longest wait for a connection to one of them, and for its greeting. Default: 2 s.
    pub connect_within: Duration,
    /// Pause between pings. A server that has answered none of three is left for another one: one
    /// that is stopped, or behind a cut, closes nothing. Default: 500 ms, so that a node whose
    /// server falls silent has another one before its lease lapses.
    pub ping_every: Duration,
    /// Longest wait for an answer; what then happens is the asker's business. Without a connection
    /// it is not waited for at all. Default: 2 s.
    pub answer_within: Duration,
    /// Longest wait for the next part of a snapshot or a list: for one that is gone the engine's
    /// client would wait for ever. Default: 5 s.
    pub part_within: Duration,
    /// How long a node that starts asks an engine that does not answer: an election after a server
    /// was lost takes up to ten seconds. One question goes on top. Default: 30 s.
    pub silence_max: Duration,
    /// Pause between two such questions. Default: 250 ms.
    pub silence_pause: Duration,
}

impl Options {
    /// Defaults for these servers.
    pub fn new(servers: Vec<String>) -> Options {
        Options {
            servers,
            access: Access::default(),
            near: None,
            connect_within: Duration::from_secs(2),
            ping_every: Duration::from_millis(500),
            answer_within: Duration::from_secs(2),
            part_within: Duration::from_secs(5),
            silence_max: Duration::from_secs(30),
            silence_pause: Duration::from_millis(250),
        }
    }
}

/// Why the engine could not be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// No connection.
    #[error("the engine cannot be reached: {0}")]
    Unreachable(String),
    /// A request failed.
    #[error("{asked}: {why}")]
    Failed {
        /// What was asked.
        asked: String,
        /// What came back.
        why: String,
    },
    /// Nobody answered a request who could: an election, or no majority. Asking again helps.
    #[error("{asked}: {why}; the engine elects a leader, or most of its servers are away")]
    Silent {
        /// What was asked.
        asked: String,
        /// What came back.
        why: String,
    },
    /// There is no room for a snapshot.
    #[error(
        "the bucket {bucket} of the engine is full ({why}): make room on the disks of its servers, \
         or raise the limit of the stream OBJ_{bucket}"
    )]
    Full {
        /// Its name.
        bucket: String,
        /// What came back.
        why: String,
    },
    /// A file of this machine.
    #[error("{0}")]
    File(String),
}

fn failed(asked: impl Into<String>) -> impl FnOnce(&dyn std::fmt::Display) -> EngineError {
    let asked = asked.into();
    move |why| EngineError::Failed {
        asked,
        why: why.to_string(),
    }
}

/// Whether the engine answered with this code.
fn says(error: &(dyn Error + 'static), code: ErrorCode) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let kind = error.downcast_ref().map(GetStreamError::kind);
        let said = match &kind {
            Some(GetStreamErrorKind::JetStream(said)) => Some(said),
            _ => error.downcast_ref::<jetstream::Error>(),
        };
        if said.is_some_and(|said| said.error_code() == code) {
            return true;
        }
        cause = error.source();
    }
    false
}

fn silent(asked: impl Into<String>, why: &dyn std::fmt::Display) -> EngineError {
    EngineError::Silent {
        asked: asked.into(),
        why: why.to_string(),
    }
}

/// A connection to the engine. Clones share it.
#[derive(Clone)]
pub struct Engine {
    client: Client,
    jetstream: jetstream::Context,
    layout: Layout,
    answer_within: Duration,
    part_within: Duration,
}

/// What a publish is answered with.
#[derive(Deserialize)]
struct Reply {
    error: Option<ReplyError>,
    seq: Option<Seq>,
}

#[derive(Deserialize)]
struct ReplyError {
    code: u32,
    #[serde(default)]
    err_code: u32,
    #[serde(default)]
    description: String,
}

/// `10071`: wrong last sequence.
const WRONG_SEQUENCE: u32 = 10_071;
/// `10158`: a message with this id is being stored.
const IN_PROCESS: u32 = 10_158;
/// Codes from here on are about the engine's state, not about the request.
const UNAVAILABLE: u32 = 500;

/// What the bytes of a reply mean. What decides nothing is [`Answer::Silence`].
fn answer(reply: &[u8]) -> Answer {
    match serde_json::from_slice(reply) {
        Ok(Reply {
            error: Some(error), ..
        }) => match error.err_code {
            WRONG_SEQUENCE => Answer::WrongSequence,
            IN_PROCESS => Answer::Silence,
            _ if error.code >= UNAVAILABLE => Answer::Silence,
            code => Answer::Refused(format!("{} ({code})", error.description)),
        },
        Ok(Reply { seq: Some(seq), .. }) => Answer::Stored(seq),
        _ => Answer::Silence,
    }
}

/// Has the first connection be to the first server, and fail if that one does not answer. One that
/// is lost is followed by one to any: the server may be silent still, and asking it takes longer
/// than a lease lasts.
fn first(connect: ConnectOptions) -> ConnectOptions {
    connect.reconnect_to_server_callback(async |servers, _| {
        let first = servers.into_iter().next();
        let first = first.filter(|one| !one.did_connect && one.failed_attempts == 0);
        first.map(|one| ReconnectToServer {
            addr: one.addr,
            delay: Some(Duration::ZERO),
        })
    })
}

impl Engine {
    /// Connects. The connection is made anew by itself whenever it is lost.
    ///
    /// # Errors
    /// [`EngineError::Unreachable`] if no server answers in time, or lets this node in;
    /// [`EngineError::File`] if a file of [`Access`] is of no use.
    pub async fn connect(options: &Options, layout: Layout) -> Result<Engine, EngineError> {
        let connect = ConnectOptions::new()
            .name("roost")
            .connection_timeout(options.connect_within)
            .ping_interval(options.ping_every)
            .request_timeout(Some(options.answer_within));
        let connect = options.access.apply(connect, &options.servers).await?;
        let servers = || options.servers.clone();
        let near = match options.near {
            Some(_) => first(connect.clone()).connect(servers()).await.ok(),
            None => None,
        };
        let connected = match near {
            Some(client) => Ok(client),
            None => connect.connect(servers()).await,
        };
        let client = connected.map_err(|error| EngineError::Unreachable(error.to_string()))?;
        let mut jetstream = jetstream::new(client.clone());
        jetstream.set_timeout(options.answer_within);
        Ok(Engine {
            client,
            jetstream,
            layout,
            answer_within: options.answer_within,
            part_within: options.part_within,
        })
    }

    /// Waits for what is asked of the engine, for so long at most. Nothing without a connection:
    /// the client would keep what is asked, with each repetition, and send all of it once it has
    /// one; its own bound does not count while it has no room for more.
    async fn ask<T>(&self, within: Duration, asking: impl Future<Output = T>) -> Option<T> {
        if self.client.connection_state() != State::Connected {
            return None;
        }
        tokio::time::timeout(within, asking).await.ok()
    }

    /// Waits for the next part of what was asked for.
    async fn part<T>(&self, asked: &str, next: impl Future<Output = T>) -> Result<T, EngineError> {
        let came = tokio::time::timeout(self.part_within, next).await;
        came.map_err(|_| silent(asked, &"a part of it does not come"))
    }

    /// How things are called.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Sends a publish and waits for its answer. Without a connection nothing is sent.
    pub async fn publish(&self, stream: StreamId, publish: &Publish) -> Answer {
        let mut headers = HeaderMap::new();
        headers.insert(header::NATS_MESSAGE_ID, publish.id.as_str());
        let expected = publish.expected.to_string();
        headers.insert(header::NATS_EXPECTED_LAST_SEQUENCE, expected.as_str());
        let name = self.layout.stream_name(stream);
        headers.insert(header::NATS_EXPECTED_STREAM, name.as_str());
        let request = Request::new()
            .headers(headers)
            .payload(publish.payload.clone())
            .timeout(Some(self.answer_within));
        let subject = self.layout.subject(stream);
        let sent = self.client.send_request(subject, request);
        match self.ask(self.answer_within, sent).await {
            Some(Ok(reply)) => answer(&reply.payload),
            // It never left, and never will.
            Some(Err(error)) if error.kind() == RequestErrorKind::MaxPayloadExceeded => {
                Answer::Refused(error.to_string())
            }
            Some(Err(_)) | None => Answer::Silence,
        }
    }

    async fn handle(&self, stream: StreamId) -> Option<stream::Stream<()>> {
        let name = self.layout.stream_name(stream);
        self.jetstream.get_stream_no_info(name).await.ok()
    }

    /// What the stream's leader has at a sequence.
    pub async fn read(&self, stream: StreamId, seq: Seq) -> Found {
        let Some(handle) = self.handle(stream).await else {
            return Found::Silence;
        };
        let asked = handle.get_raw_message(seq);
        match self.ask(self.answer_within, asked).await {
            Some(Ok(message)) => Found::Message(message.payload),
            Some(Err(error)) => match error.kind() {
                stream::LastRawMessageErrorKind::NoMessageFound => Found::Absent,
                _ => Found::Silence,
            },
            None => Found::Silence,
        }
    }

    /// First and last sequence, from the stream's leader.
    pub async fn bounds(&self, stream: StreamId) -> Option<(Seq, Seq)> {
        let standing = self.standing(stream).await?;
        Some((standing.first, standing.last))
    }

    /// Forgets everything before a sequence.
    ///
    /// # Errors
    /// What the engine said.
    pub async fn purge(&self, stream: StreamId, before: Seq) -> Result<(), EngineError> {
        let fail = || failed(format!("purge of {}", self.layout.stream_name(stream)));
        let handle = self.handle(stream).await;
        let handle = handle.ok_or_else(|| fail()(&"the stream does not answer"))?;
        let purged = handle.purge().sequence(before).into_future();
        let purged = self.ask(self.answer_within, purged).await;
        let purged = purged.ok_or_else(|| fail()(&"no answer"))?;
        purged.map(drop).map_err(|error| fail()(&error))
    }

    /// Removes a stream with all that is in it; one that is not there is removed already.
    ///
    /// # Errors
    /// What the engine said.
    pub async fn remove(&self, stream: StreamId) -> Result<(), EngineError> {
        let name = self.layout.stream_name(stream);
        match self.jetstream.delete_stream(&name).await {
            Err(error) if !says(&error, ErrorCode::STREAM_NOT_FOUND) => {
                Err(silent(format!("removal of {name}"), &error))
            }
            _ => Ok(()),
        }
    }

    /// Messages from a sequence on, in order. Ends with an error when the consumer is of no use any
    /// more; another one is made then.
    ///
    /// # Errors
    /// What the engine said.
    pub async fn messages(&self, stream: StreamId, from: Seq) -> Result<Messages, EngineError> {
        let fail = || failed(format!("consumer of {}", self.layout.stream_name(stream)));
        let handle = self.handle(stream).await;
        let handle = handle.ok_or_else(|| fail()(&"the stream does not answer"))?;
        let config = jetstream::consumer::pull::OrderedConfig {
            deliver_policy: jetstream::consumer::DeliverPolicy::ByStartSequence {
                start_sequence: from,
            },
            ..Default::default()
        };
        let made = self.ask(self.part_within, async {
            let consumer = handle.create_consumer(config).await;
            let consumer = consumer.map_err(|error| fail()(&error))?;
            consumer.messages().await.map_err(|error| fail()(&error))
        });
        let messages = made.await.ok_or_else(|| fail()(&"no answer"))??;
        Ok(Messages(Box::pin(messages)))
    }
}

type Ordered = jetstream::consumer::pull::Ordered;

/// A stream's messages as they are committed.
pub struct Messages(std::pin::Pin<Box<Ordered>>);

impl Messages {
    /// The next message with its sequence; `None` when the consumer is of no use any more.
    pub async fn next(&mut self) -> Option<(Seq, Bytes)> {
        use futures_util::StreamExt;
        let message = self.0.next().await?.ok()?;
        let seq = message.info().ok()?.stream_sequence;
        Some((seq, message.payload.clone()))
    }
}
