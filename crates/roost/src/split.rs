//! A server as two processes on one machine: an *edge* that holds sockets and TLS, and a *home*
//! that holds everything else, so that the home can be replaced while clients stay. Owns how they
//! are started, tied together and replaced; what goes over a connection is `server::join`, as
//! between two nodes of a cluster.
//!
//! ```text
//! clients ─▶ edge: sockets, TLS, HTTP ── link (a socket file) ──▶ home: accounts, rooms, store
//!              │  keeper: starts, watches and replaces it ─ reins ─▶│
//! commands ───▶└─ control.sock ──────────── what is not for it ────▶└─ its own control.sock
//! ```
//!
//! | file | owns |
//! |---|---|
//! | `edge` | the life of the edge: signals, ports, pages |
//! | `keeper` | which home serves: starts, ends, replaces |
//! | `upgrade` | the order in which one replaces the other, and how that is undone |
//! | `process` | one process of a home, as the keeper sees it |
//! | `home` | the life of a home |
//! | `reins` | what keeper and home say to each other |
//! | `ways` | packets between the two |
//! | `order` | what operators ask |

mod edge;
mod home;
mod keeper;
pub(crate) mod order;
mod process;
mod reins;
mod upgrade;
mod ways;

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

pub(crate) use edge::run as run_edge;
pub(crate) use home::run as run_home;

/// What both sides say that they belong to.
const DEPLOYMENT: &str = "split";

/// The edge's name on its link.
const EDGE: &str = "edge";

/// Homes that may be there at a time, of which one serves. Names and folders are used again.
const SLOTS: usize = 8;

/// The name of the home in a slot.
fn home_name(slot: usize) -> String {
    format!("home-{slot}")
}

/// The folder of one of the processes, inside the data folder.
fn folder(data: &Path, name: &str) -> PathBuf {
    data.join("split").join(name)
}

/// A folder with the socket of a link, held open: through the descriptor its address is short,
/// however long the path is.
struct LinkFolder(File);

impl LinkFolder {
    /// Opens the folder, for this user only, and makes it if it is not there.
    fn open(data: &Path, name: &str) -> io::Result<LinkFolder> {
        let path = folder(data, name);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)?;
        File::open(path).map(LinkFolder)
    }

    fn socket(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/link.sock", self.0.as_raw_fd()))
    }

    /// As a link is told where its peer is.
    fn address(&self) -> String {
        format!("{}{}", cluster::link::UNIX, self.socket().display())
    }
}
