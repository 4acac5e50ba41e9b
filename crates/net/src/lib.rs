//! Sockets, TLS and the poll loop that drives a shard. Knows bytes and connections, no XMPP.

mod address;
mod bucket;
mod cx;
mod driver;
mod limits;
mod listen;
mod port;
mod proxy;
mod service;
mod session;
mod table;
mod tls;

pub use address::{Network as AddressRange, NetworkError};
pub use bucket::Rate;
pub use cx::Cx;
pub use driver::{Driver, DriverSeed, Network, Shared};
pub use limits::{Limits, connections_allowed, descriptor_limit, raise_descriptor_limit};
pub use listen::Listener;
pub use port::{Gone, Io, RemoteIo};
pub use service::{Closed, ConnRef, Peer, Service, TlsInfo};
pub use tls::{ALPN_CLIENT, Certificate, TlsConfig, TlsError, TlsSettings};
