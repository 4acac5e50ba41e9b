//! Whose a store is: that of a server which stands alone, or of a node of one deployment. Owns what
//! is refused, in words that say what to do.

use std::path::Path;

use cluster::status::{self, Status};
use stdx::Level;
use store::{DeploymentId, Moved, SlotKey, Store, StoreError, StreamMark};

use super::{layout, open_failure, store_folder, store_options};
use crate::config::Config;
use crate::exit::Failure;

/// What the stores of a deployment's nodes have in common.
#[derive(Clone, Debug)]
pub(crate) struct Belongs {
    /// The key of the slot hash.
    pub(crate) slot_key: [u8; 16],
    /// At which level it is written.
    pub(crate) level: Level,
    /// A single server's data began it.
    pub(crate) grown: Option<GrownFrom>,
}

/// What a deployment has from the server that began it.
#[derive(Clone, Debug)]
pub(crate) struct GrownFrom {
    /// Names it.
    pub(crate) id: DeploymentId,
    /// The node that was the server.
    pub(crate) by: String,
    /// How often sequence numbers have begun anew.
    pub(crate) numbering: u64,
    /// Streams of which there is no snapshot: who does not have their beginning cannot get it.
    pub(crate) unsaved: Vec<u16>,
}

fn unreadable(error: StoreError) -> Failure {
    Failure::Failed(error.to_string())
}

/// Opens the store of a data folder, and makes it if it is not there: one of that deployment, or
/// that of a server which stands alone.
///
/// # Errors
/// In words that say what to do.
pub(crate) fn open_store(config: &Config, belongs: Option<&Belongs>) -> Result<Store, Failure> {
    let numbering = |belongs: &Belongs| {
        let grown = belongs.grown.as_ref();
        grown.map_or(0, |grown| grown.numbering)
    };
    let options = store::Options {
        slot_key: belongs.map(|belongs| belongs.slot_key),
        numbering: belongs.map(numbering),
        level: belongs.map(|belongs| belongs.level),
        ..store_options(config)
    };
    let store = open(config, &options)?;
    match belongs {
        None => check_alone(&store, config)?,
        Some(belongs) => check_node(&store, config, belongs)?,
    }
    Ok(store)
}

/// Opens the store of a data folder, whosever it is.
///
/// # Errors
/// As [`open_store`].
pub(crate) fn open_any(config: &Config) -> Result<Store, Failure> {
    open(config, &store_options(config))
}

fn open(config: &Config, options: &store::Options) -> Result<Store, Failure> {
    let store = Store::open(&store_folder(&config.settings.node.data), options);
    store.map_err(|error| open_failure(&error, config))
}

/// Whether it is of a node of a cluster.
///
/// # Errors
/// It cannot be read.
pub(crate) fn is_of_node(store: &Store) -> Result<bool, Failure> {
    let has_id = store.deployment().map_err(unreadable)?.is_some();
    Ok(has_id || store.follows_streams().map_err(unreadable)?)
}

fn check_alone(store: &Store, config: &Config) -> Result<(), Failure> {
    if !is_of_node(store)? {
        return Ok(());
    }
    Err(Failure::Failed(format!(
        "{} is of a node of a cluster: a server that stands alone cannot go on with it. With the \
         node's configuration, roost cluster grow finishes what it has begun, and roost cluster \
         grow --undo takes it back; otherwise roost backup, and roost restore into an empty \
         folder, make a single server of it",
        config.settings.node.data.display()
    )))
}

fn check_node(store: &Store, config: &Config, belongs: &Belongs) -> Result<(), Failure> {
    let data = config.settings.node.data.display();
    let foreign = || {
        Failure::Failed(format!(
            "{data} is of another deployment, or of a server that stood alone: start the node with \
             an empty folder, which is filled from the engine, and import what an export has; or \
             take a single server's data into an engine that is empty with roost cluster grow"
        ))
    };
    if store.slot_key() != SlotKey::new(belongs.slot_key) {
        return Err(foreign());
    }
    let own = store.deployment().map_err(unreadable)?;
    let Some(grown) = &belongs.grown else {
        return match own {
            None => Ok(()),
            Some(_) => Err(foreign()),
        };
    };
    let is_new = own.is_none() && !store.holds_anything().map_err(unreadable)?;
    if own != Some(grown.id) && !is_new {
        return Err(foreign());
    }
    for stream in &grown.unsaved {
        let mark = store.stream_mark(*stream).map_err(unreadable)?;
        if mark == StreamMark::default() {
            return Err(Failure::Failed(format!(
                "node {} has not stored all snapshots yet, from which this node begins: start it \
                 and wait until roost cluster snapshot, there, says that they are stored",
                grown.by
            )));
        }
    }
    match is_new {
        true => store.join(grown.id, 0).map_err(unreadable),
        false => Ok(()),
    }
}

/// Writes a backup of a stopped node, if it has everything that the streams have.
///
/// # Errors
/// It has not, or nobody knows: not refused if it is taken `as_is`.
pub(crate) fn backup_stopped(config: &Config, dest: &Path, as_is: bool) -> Result<Moved, Failure> {
    let store = open_any(config)?;
    if !is_of_node(&store)? {
        return Err(Failure::Failed(format!(
            "{} is not of a node of a cluster: leave [cluster] out, or start the node first",
            config.settings.node.data.display()
        )));
    }
    if !as_is {
        let layout = layout(config).map_err(|error| Failure::Usage(error.to_string()))?;
        let engine = super::engine(config);
        let status = status::read(&engine, &layout).map_err(|error| {
            Failure::Failed(format!(
                "{error}: whether this node has everything is not known; --as-is takes what it has"
            ))
        })?;
        let marks = layout.streams().map(|stream| store.stream_mark(stream.0));
        let marks = marks.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
        has_everything(&status, &marks).map_err(Failure::Failed)?;
    }
    let moved = store.backup(dest);
    moved.map_err(|error| Failure::Failed(format!("{}: {error}", dest.display())))
}

/// Whether nobody writes, and marks are at the ends of the streams.
fn has_everything(status: &Status, marks: &[StreamMark]) -> Result<(), String> {
    let alive = status.nodes.iter().filter(|node| node.is_alive);
    let alive: Vec<&str> = alive.map(|node| node.name.as_str()).collect();
    if !alive.is_empty() {
        return Err(format!(
            "other nodes run ({}), and may accept what this one does not have: stop them first, or \
             make the backup there",
            alive.join(", ")
        ));
    }
    for (stream, mark) in status.streams.iter().zip(marks) {
        let number = stream.stream;
        match stream.last {
            Some(last) if last == mark.seq => {}
            Some(last) => {
                return Err(format!(
                    "stream {number} has {last} messages, and this node has {}: start the node, \
                     wait until it has the rest, and stop it in order; --as-is takes what it has",
                    mark.seq
                ));
            }
            None => {
                return Err(format!(
                    "stream {number} does not answer, and may have more than this node: see roost \
                     cluster check; --as-is takes what the node has"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use cluster::status::{NodeStatus, StreamStatus};

    use super::*;

    /// Goal: only a copy of all that was accepted counts as one.
    #[test]
    fn a_copy_that_may_lack_something_is_refused() {
        let mark = |seq| StreamMark { seq, epoch: 1 };
        let status = |last, is_alive| Status {
            nodes: vec![NodeStatus {
                name: "b".to_owned(),
                is_alive,
                ..NodeStatus::default()
            }],
            streams: vec![StreamStatus {
                last,
                ..StreamStatus::default()
            }],
            ..Status::default()
        };
        assert_eq!(has_everything(&status(Some(7), false), &[mark(7)]), Ok(()));
        for (status, what) in [
            (status(Some(7), true), "(b)"),
            (status(Some(8), false), "has 8 messages"),
            (status(None, false), "does not answer"),
        ] {
            let why = has_everything(&status, &[mark(7)]).unwrap_err();
            assert!(why.contains(what), "{why}");
        }
    }
}
