//! Sockets, TLS and the poll loop that drives a shard. Knows bytes and connections, no XMPP.
//!
//! ```text
//! poll ─▶ accept ─▶ read (shared buffer) ─▶ TLS ─▶ Service::receive ─▶ mail to actors
//!                                                                      │ Shard::turn
//! one write per connection ◀─ out buffers ◀─ Io::with_out ◀────────────┘
//! ```
//!
//! [`Network`] binds listeners and makes one [`DriverSeed`] per shard; a seed becomes a [`Driver`]
//! on the thread that runs it. The protocol above the sockets is a [`Service`], told of events with
//! a [`Cx`]. Actors and threads reach connections through [`Io`] and [`RemoteIo`]; the service
//! opens others with an [`Opener`].
//!
//! Invariants: an idle connection holds no buffer; nothing here reads a clock but the driver; every
//! queue and buffer has its bound in `limits`; [`Service::closed`] is called exactly once for each
//! [`Service::accept`].

mod accept;
mod address;
mod bucket;
mod core;
mod cx;
mod disturb;
mod driver;
pub mod http;
mod input;
mod io;
mod kept;
mod limits;
mod link;
mod listen;
mod network;
mod output;
mod passage;
mod port;
mod proxy;
mod record;
mod roaming;
mod service;
mod shed;
mod tls;
mod turns;
mod unread;
pub mod websocket;

pub use crate::core::IoError;
pub use address::{AddressKey, Network as AddressRange, NetworkError};
pub use bucket::Rate;
pub use cx::Cx;
pub use driver::Driver;
pub use io::{Io, RemoteIo};
pub use limits::{
    Limits, READ_BUFFER, connections_allowed, descriptor_limit, raise_descriptor_limit,
};
pub use listen::{Listener, Speaks};
pub use network::{Disturbance, DriverSeed, LISTENERS_MAX, Network, Shared};
pub use passage::Opener;
pub use service::{Closed, ConnRef, Peer, Service, TlsInfo, TlsVersion};
pub use tls::{ALPN_CLIENT, Certificate, TlsConfig, TlsError, TlsSettings};

/// What [`Io`] says of a connection that is not there any more.
pub type Gone = IoError;
