//! A single server's data becomes the beginning of a deployment. Owns what that changes in the
//! engine and in which order, so that a process that is killed at any moment leaves something that
//! the same call finishes, and nothing that a node would start with.
//!
//! | step | a node that starts behind it | the same call again |
//! |---|---|---|
//! | the deployment's entry, which says that it is not done | refuses | goes on |
//! | each stream: a void message at 1, purged: whatever is in the stream follows a snapshot | refuses | goes on |
//! | the entry says that it is done | serves, if its store has the data or snapshots are there | has nothing to do |
//!
//! The data stays in the server's store, which says since before the first step that it belongs to
//! the deployment ([`store::Store::join`]). The server is its first node and stores the snapshots.

use stdx::Level;
use store::{BEGINNING, DeploymentId};

use crate::deployment::{Deployment, FORMAT, Grown, IsSilence, patiently};
use crate::engine::{self, Bucket, Engine, EngineError};
use crate::journal::message::{Author, Body, Message};
use crate::journal::{Found, Publish, Seq};
use crate::layout::{Layout, StreamId};

/// Looks at a stream, each behind a step, before it counts as one that does not answer.
const LOOKS_MAX: u32 = 8;

/// What is to become the beginning of a deployment.
#[derive(Clone, Debug)]
pub struct Order {
    /// The node that the server is to be.
    pub node: String,
    /// Names the deployment, and never another one.
    pub id: DeploymentId,
    /// The server's key of the slot hash.
    pub slot_key: [u8; 16],
    /// How often its sequence numbers began anew.
    pub numbering: u64,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The engine is empty.
    Free,
    /// It was begun, and not finished.
    Begun,
    /// Every stream begins with the server's data.
    Done,
}

/// Why it cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrowError {
    /// The engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// It has something of somebody else.
    #[error("{0}")]
    Taken(String),
}

impl IsSilence for GrowError {
    fn is_silence(&self) -> bool {
        matches!(self, GrowError::Engine(error) if error.is_silence())
    }
}

/// Says how far it is, and changes nothing. `id` is that of the store, if it has one.
///
/// # Errors
/// [`GrowError`].
pub fn look(
    options: &engine::Options,
    layout: &Layout,
    id: Option<DeploymentId>,
) -> Result<Standing, GrowError> {
    patiently(options, async || {
        let engine = Engine::connect(options, layout.clone()).await?;
        let bucket = engine.map().await?;
        let Some((_, found)) = bucket.find_deployment().await? else {
            let entries = bucket.entries().await?;
            if !entries.is_empty() {
                return Err(taken(layout, "has nodes or homes in its map"));
            }
            for stream in layout.streams() {
                let (_, last) = bounds(&engine, stream).await?;
                if last > 0 {
                    let what = format!("has {last} messages in {}", layout.stream_name(stream));
                    return Err(taken(layout, &what));
                }
            }
            return Ok(Standing::Free);
        };
        match of(layout, id, &found)?.is_done {
            true => Ok(Standing::Done),
            false => Ok(Standing::Begun),
        }
    })
}

/// Makes what [`look`] found [`Standing::Free`] or [`Standing::Begun`] into [`Standing::Done`].
///
/// # Errors
/// [`GrowError`]; what was done until then stays, and another call goes on with it.
pub fn take_in(options: &engine::Options, layout: &Layout, order: &Order) -> Result<(), GrowError> {
    let made = Deployment {
        format: FORMAT.max(Level::known().number()),
        streams: layout.streams().count() as u16,
        slot_key: order.slot_key,
        grown: Some(Grown {
            id: order.id,
            by: order.node.clone(),
            numbering: order.numbering,
            is_done: false,
        }),
    };
    patiently(options, async || {
        let engine = Engine::connect(options, layout.clone()).await?;
        let bucket = engine.map().await?;
        bucket.deployment(&made).await?;
        let (revision, found) = find(&bucket).await?;
        let grown = of(layout, Some(order.id), &found)?;
        if grown.is_done {
            return Ok(());
        }
        for stream in layout.streams() {
            begin(&engine, stream, order).await?;
        }
        let done = Deployment {
            grown: Some(Grown {
                is_done: true,
                by: order.node.clone(),
                // It can only be higher than in an attempt of before.
                numbering: order.numbering,
                ..grown.clone()
            }),
            ..found.clone()
        };
        Ok(bucket.change_deployment(revision, Some(&done)).await?)
    })
}

/// Takes back what [`take_in`] began and did not finish. Streams that it has written to are
/// removed. Whether there was anything.
///
/// # Errors
/// [`GrowError`], also if it was finished.
pub fn undo(
    options: &engine::Options,
    layout: &Layout,
    id: DeploymentId,
) -> Result<bool, GrowError> {
    patiently(options, async || {
        let engine = Engine::connect(options, layout.clone()).await?;
        let bucket = engine.map().await?;
        let Some((revision, found)) = bucket.find_deployment().await? else {
            return Ok(false);
        };
        let is_ours = found.grown.as_ref().is_some_and(|grown| grown.id == id);
        if !is_ours {
            return Ok(false);
        }
        if of(layout, Some(id), &found)?.is_done {
            return Err(GrowError::Taken(
                "the cluster has begun: what was accepted since then is in its streams; \
                 docs/cluster.md says how to shrink it to one server"
                    .to_owned(),
            ));
        }
        for stream in layout.streams() {
            // One that does not answer may be missing: an attempt of before was cut short.
            if engine.bounds(stream).await.is_none_or(|(_, last)| last > 0) {
                engine.remove(stream).await?;
            }
        }
        bucket.change_deployment(revision, None).await?;
        Ok(true)
    })
}

fn taken(layout: &Layout, what: &str) -> GrowError {
    let bucket = layout.map_bucket();
    GrowError::Taken(format!(
        "the engine {what} already ({bucket}): these belong to another cluster; choose another \
         `cluster.deployment`, or remove them from the engine if nobody needs them"
    ))
}

/// What the deployment says of the data that it began with, if that is ours.
fn of<'a>(
    layout: &Layout,
    id: Option<DeploymentId>,
    found: &'a Deployment,
) -> Result<&'a Grown, GrowError> {
    let grown = found.grown.as_ref().filter(|grown| Some(grown.id) == id);
    let grown = grown.ok_or_else(|| taken(layout, "has a deployment"))?;
    let streams = layout.streams().count();
    if usize::from(found.streams) != streams {
        return Err(GrowError::Taken(format!(
            "it was begun with {} streams, and `cluster.streams` is {streams} now: set it back, or \
             undo what was begun first",
            found.streams
        )));
    }
    Ok(grown)
}

async fn find(bucket: &Bucket) -> Result<(u64, Deployment), GrowError> {
    let found = bucket.find_deployment().await?;
    Ok(found.ok_or_else(|| silence("the deployment's entry", "a copy does not have it yet"))?)
}

fn silence(asked: &str, why: &str) -> EngineError {
    EngineError::Silent {
        asked: asked.to_owned(),
        why: why.to_owned(),
    }
}

async fn bounds(engine: &Engine, stream: StreamId) -> Result<(Seq, Seq), EngineError> {
    let name = engine.layout().stream_name(stream);
    let found = engine.bounds(stream).await;
    found.ok_or_else(|| silence(&name, "its leader does not answer"))
}

/// Has a stream begin behind [`BEGINNING`].
async fn begin(engine: &Engine, stream: StreamId, order: &Order) -> Result<(), GrowError> {
    let record = Message {
        author: Author {
            node: order.node.clone(),
            incarnation: u64::from_be_bytes(order.id[..8].try_into().unwrap_or_default()),
        },
        number: u64::from(stream.0) + 1,
        // Lower than any that the map gives out: a replica that met it would pass it over.
        epoch: BEGINNING.epoch,
        body: Body::Epoch,
        // Whoever knows no other one passes it over.
        level: Level::FIRST,
    };
    for _ in 0..LOOKS_MAX {
        match bounds(engine, stream).await? {
            (_, 0) => {
                let publish = Publish {
                    number: record.number,
                    expected: 0,
                    id: record.id(),
                    payload: record.encode(),
                };
                // The next look says what became of it.
                engine.publish(stream, &publish).await;
            }
            (first, BEGINNING_SEQ) if first > BEGINNING_SEQ => return Ok(()),
            (_, BEGINNING_SEQ) => match engine.read(stream, BEGINNING_SEQ).await {
                Found::Message(bytes) => match Message::decode(&bytes) {
                    Ok(found) if found.epoch == BEGINNING.epoch && found.body == Body::Epoch => {
                        engine.purge(stream, BEGINNING_SEQ + 1).await?;
                    }
                    _ => return Err(taken(engine.layout(), "has messages in its streams")),
                },
                Found::Absent | Found::Silence => {}
            },
            (_, last) => {
                let name = engine.layout().stream_name(stream);
                let what = format!("has {last} messages in {name}");
                return Err(taken(engine.layout(), &what));
            }
        }
    }
    let name = engine.layout().stream_name(stream);
    Err(silence(&name, "it does not take its beginning").into())
}

const BEGINNING_SEQ: Seq = BEGINNING.seq;
