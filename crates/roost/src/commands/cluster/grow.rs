//! `roost cluster grow`: a single server's data becomes the beginning of a cluster. Owns the order:
//! everything is looked at first, then the store says whose it is, then the engine; a process that
//! is killed in between leaves what the same command finishes or takes back.

use std::io::{self, Write as _};
use std::process::ExitCode;

use ::cluster::engine;
use ::cluster::grow::{self, GrowError, Order, Standing};
use ::cluster::layout::Layout;
use clap::Args;
use stdx::time::{Clock as _, SystemClock};
use store::{BEGINNING, DeploymentId, Store, StoreError, StreamMark};

use crate::cli::Place;
use crate::config::Config;
use crate::door;
use crate::exit::Failure;
use crate::{member, node};

/// Which server, with the configuration that it will have as a node.
#[derive(Clone, Debug, Args)]
pub(crate) struct GrowArgs {
    /// Take back what was begun and not finished: the server stands alone again.
    #[arg(long)]
    undo: bool,
    #[command(flatten)]
    place: Place,
}

/// What both directions need.
struct Ground {
    config: Config,
    engine: engine::Options,
    layout: Layout,
}

/// Takes a single server's data into the cluster of its configuration, or takes that back.
///
/// # Errors
/// In words that say what to do; nothing was changed unless they say so.
pub(super) fn run(args: &GrowArgs) -> Result<ExitCode, Failure> {
    let config = args.place.source().load()?;
    if !config.is_clustered() {
        return Err(Failure::Usage(
            "name the configuration that the server will have as a node of the cluster, with a \
             section [cluster] (docs/cluster.md)"
                .to_owned(),
        ));
    }
    let data = &config.settings.node.data;
    if door::connect(data)?.is_some() {
        return Err(Failure::Failed(format!(
            "a server runs on {}: stop it first; what it accepts now would not be in the cluster",
            data.display()
        )));
    }
    door::require_store(data)?;
    let layout = node::layout(&config).map_err(|error| Failure::Usage(error.to_string()))?;
    let engine = node::engine(&config);
    let ground = Ground {
        config,
        engine,
        layout,
    };
    let said = match args.undo {
        true => ground.undo()?,
        false => ground.grow()?,
    };
    io::stdout().lock().write_all(said.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn unreadable(error: StoreError) -> Failure {
    Failure::Failed(error.to_string())
}

fn failed(error: GrowError) -> Failure {
    Failure::Failed(error.to_string())
}

impl Ground {
    fn grow(&self) -> Result<String, Failure> {
        let clock = SystemClock::new();
        let begun = clock.now();
        let config = &self.config;
        member::check(config, &self.engine, &self.layout)?;
        let store = node::open_any(config)?;
        let id = store.deployment().map_err(unreadable)?;
        if id.is_none() {
            self.is_single(&store)?;
        }
        let standing = grow::look(&self.engine, &self.layout, id).map_err(|error| {
            let undo = match id {
                Some(_) => "; roost cluster grow --undo takes back what was begun here",
                None => "",
            };
            Failure::Failed(format!("{error}{undo}"))
        })?;
        let id = match (id, standing) {
            (_, Standing::Done) => {
                return Ok("the data is in the cluster already: start the node\n".to_owned());
            }
            (Some(id), Standing::Begun) => id,
            (id, Standing::Free | Standing::Begun) => self.mark(&store, id)?,
        };
        let order = Order {
            node: config.settings.cluster.name.clone().unwrap_or_default(),
            id,
            slot_key: store.slot_key().to_bytes(),
            numbering: store.numbering().map_err(unreadable)?,
        };
        grow::take_in(&self.engine, &self.layout, &order).map_err(|error| {
            Failure::Failed(format!(
                "{error}\nit was begun and is not finished: run the command again, or with --undo"
            ))
        })?;
        let accounts = store.count_accounts(None).map_err(unreadable)?;
        // Its folder is free when the operator reads on.
        drop(store);
        let took = clock.now().saturating_since(begun).as_millis();
        let (name, place) = (&order.node, self.place());
        Ok(format!(
            "the data of {accounts} accounts is the beginning of the cluster ({took} ms)\n\
             1. start this server, which is node {name} now: roost serve{place}\n\
             2. roost cluster snapshot{place} says when other nodes can have the data\n\
             3. start the other nodes, each with a folder of its own that is empty\n\
             Until 2. is done the data is on this machine alone, as before. A backup of before \
             must not be served again beside the cluster.\n"
        ))
    }

    /// Whether it is the store of a server that stands alone, and there is something in it.
    fn is_single(&self, store: &Store) -> Result<(), Failure> {
        let data = self.config.settings.node.data.display();
        if node::is_of_node(store)? {
            return Err(Failure::Failed(format!(
                "{data} is of a node of a cluster already: there is nothing to take in"
            )));
        }
        if !store.holds_anything().map_err(unreadable)? {
            return Err(Failure::Failed(format!(
                "there is nothing in {data} to take in: start the node, which makes the cluster"
            )));
        }
        Ok(())
    }

    /// From here on no server that stands alone goes on with the store.
    fn mark(&self, store: &Store, id: Option<DeploymentId>) -> Result<DeploymentId, Failure> {
        let id = match id {
            Some(id) => id,
            None => node::random_key().map_err(|error| Failure::Failed(error.to_string()))?,
        };
        let streams = self.layout.streams().count();
        // There are at most `layout::STREAMS_MAX` of them.
        store.join(id, streams as u16).map_err(unreadable)?;
        Ok(id)
    }

    fn undo(&self) -> Result<String, Failure> {
        let store = node::open_any(&self.config)?;
        let Some(id) = store.deployment().map_err(unreadable)? else {
            return Err(Failure::Failed("there is nothing to take back".to_owned()));
        };
        for stream in self.layout.streams() {
            let mark = store.stream_mark(stream.0).map_err(unreadable)?;
            if mark != BEGINNING && mark != StreamMark::default() {
                return Err(Failure::Failed(
                    "this node has served its cluster: docs/cluster.md says how to shrink it to \
                     one server"
                        .to_owned(),
                ));
            }
        }
        let was_begun = grow::undo(&self.engine, &self.layout, id).map_err(failed)?;
        store.stand_alone().map_err(unreadable)?;
        let mut said = "taken back: start the server without [cluster]\n".to_owned();
        if was_begun {
            said.push_str("roost cluster check --create makes streams that were removed\n");
        }
        Ok(said)
    }

    fn place(&self) -> String {
        let file = self.config.file.as_ref();
        file.map_or_else(String::new, |file| format!(" --config {}", file.display()))
    }
}
