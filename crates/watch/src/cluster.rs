//! The cluster in a look. Owns its figures and what they are called for Prometheus; the node puts
//! them together.

use serde::{Deserialize, Serialize};

/// The cluster, as one of its nodes sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterSample {
    /// The name of this node.
    pub node: String,
    /// Nodes of the map.
    pub nodes: u64,
    /// Those of them that live.
    pub nodes_alive: u64,
    /// Its lease was renewed lately.
    pub holds_lease: bool,
    /// Streams of the deployment.
    pub streams: u64,
    /// Those that the map gives to this node.
    pub homes_given: u64,
    /// Those of them that it serves.
    pub homes_served: u64,
    /// Those of all that no node serves, as far as this one knows.
    pub homes_moving: u64,
    /// Messages by which the copy of a stream lags on this node: the most of any.
    pub lag_messages: u64,
    /// The same in milliseconds.
    pub lag_ms: u64,
    /// Messages of streams that were applied.
    pub applied: u64,
    /// Times that this node became the home of a stream.
    pub take_overs: u64,
    /// Times that it ceased to be.
    pub tenures_ended: u64,
    /// Appends that were in doubt.
    pub doubts: u64,
    /// Streams of this node that do not acknowledge.
    pub streams_without_quorum: u64,
    /// Servers of the engine that are asked how they are.
    pub engine_servers: u64,
    /// Those of them that are away, each with why.
    pub engine_away: Vec<(String, String)>,
    /// Of the fullest one: its name.
    pub engine_fullest: String,
    /// What it has stored, in bytes.
    pub engine_stored_bytes: u64,
    /// What it may store.
    pub engine_stored_bytes_max: u64,
    /// Copies that cannot go on.
    pub copies_stuck: u64,
    /// Differences from other nodes' copies.
    pub divergences: u64,
    /// Snapshots that were loaded for a copy.
    pub snapshots_loaded: u64,
    /// Times that streams' leaders moved next to this node, their home.
    pub leaders_moved: u64,
    /// Consumers of the engine that were made again.
    pub consumers_replaced: u64,
    /// Events of streams for which there was no room.
    pub events_lost: u64,
    /// Links to the other nodes of the map.
    pub links: Vec<LinkSample>,
    /// Connections of others that were refused.
    pub links_refused: u64,
    /// Bytes that may wait for one node.
    pub link_bytes_max: u64,
    /// When the certificate for links expires, in seconds since 1970.
    pub certificate_expires: Option<u64>,
}

/// The link to another node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkSample {
    /// That node's name.
    pub peer: String,
    /// Packets can leave now.
    pub is_up: bool,
    /// Packets that it has not acknowledged.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Connections that were made.
    pub connections: u64,
    /// Packets that it acknowledged.
    pub taken: u64,
    /// Packets that were sent again.
    pub sent_again: u64,
    /// Packets that came back.
    pub returned: u64,
    /// Packets of it that could not be read here.
    pub unreadable: u64,
    /// Why there is no link.
    pub error: Option<String>,
}

/// A figure of the node: name, help, whether it is a counter, value.
pub(super) type Row<T> = (&'static str, &'static str, bool, fn(&T) -> u64);

/// Figures of the node.
pub(super) const FIGURES: &[Row<ClusterSample>] = &[
    ("nodes", "Nodes of the map", false, |s| s.nodes),
    ("nodes_alive", "Those that renew their lease", false, |s| {
        s.nodes_alive
    }),
    (
        "lease",
        "1 while this node's lease is renewed",
        false,
        |s| u64::from(s.holds_lease),
    ),
    ("streams", "Streams of the deployment", false, |s| s.streams),
    (
        "homes_given",
        "Streams that the map gives to this node",
        false,
        |s| s.homes_given,
    ),
    ("homes_served", "Those of them that it serves", false, |s| {
        s.homes_served
    }),
    (
        "homes_moving",
        "Streams of all that no node serves",
        false,
        |s| s.homes_moving,
    ),
    (
        "lag_messages",
        "Messages that the copy furthest behind lacks",
        false,
        |s| s.lag_messages,
    ),
    (
        "lag_milliseconds",
        "Since when it gets no further",
        false,
        |s| s.lag_ms,
    ),
    (
        "messages_applied_total",
        "Messages of streams applied",
        true,
        |s| s.applied,
    ),
    (
        "take_overs_total",
        "Streams that this node became the home of",
        true,
        |s| s.take_overs,
    ),
    (
        "tenures_ended_total",
        "Tenures of this node that ended",
        true,
        |s| s.tenures_ended,
    ),
    ("doubts_total", "Appends that were in doubt", true, |s| {
        s.doubts
    }),
    (
        "streams_without_quorum",
        "Streams that do not acknowledge",
        false,
        |s| s.streams_without_quorum,
    ),
    (
        "engine_servers",
        "Servers of the engine that are asked",
        false,
        |s| s.engine_servers,
    ),
    (
        "engine_servers_away",
        "Those of them that are away",
        false,
        |s| s.engine_away.len() as u64,
    ),
    (
        "engine_stored_bytes",
        "What the fullest server of the engine has stored",
        false,
        |s| s.engine_stored_bytes,
    ),
    (
        "engine_stored_bytes_max",
        "What that server may store",
        false,
        |s| s.engine_stored_bytes_max,
    ),
    (
        "copies_stuck",
        "Copies of streams that cannot go on",
        false,
        |s| s.copies_stuck,
    ),
    (
        "divergences_total",
        "Differences from other nodes' copies",
        true,
        |s| s.divergences,
    ),
    ("snapshots_loaded_total", "Snapshots loaded", true, |s| {
        s.snapshots_loaded
    }),
    (
        "leaders_moved_total",
        "Leaders of streams moved next to this node",
        true,
        |s| s.leaders_moved,
    ),
    (
        "consumers_replaced_total",
        "Consumers of streams replaced",
        true,
        |s| s.consumers_replaced,
    ),
    (
        "events_lost_total",
        "Events of streams that nobody took",
        true,
        |s| s.events_lost,
    ),
    (
        "link_refused_total",
        "Connections of others refused",
        true,
        |s| s.links_refused,
    ),
    (
        "link_bytes_max",
        "Bytes that may wait for one node",
        false,
        |s| s.link_bytes_max,
    ),
];

/// Figures of each link.
pub(super) const LINK_FIGURES: &[Row<LinkSample>] = &[
    ("up", "1 while packets can leave", false, |l| {
        u64::from(l.is_up)
    }),
    (
        "backlog_packets",
        "Packets that the node has not acknowledged",
        false,
        |l| l.packets,
    ),
    ("backlog_bytes", "Their bytes", false, |l| l.bytes),
    ("connections_total", "Connections made", true, |l| {
        l.connections
    }),
    ("packets_total", "Packets acknowledged", true, |l| l.taken),
    ("packets_again_total", "Packets sent again", true, |l| {
        l.sent_again
    }),
    (
        "packets_returned_total",
        "Packets that came back",
        true,
        |l| l.returned,
    ),
    (
        "packets_unreadable_total",
        "Packets of the node that could not be read here",
        true,
        |l| l.unreadable,
    ),
];

impl ClusterSample {
    /// A sum over links.
    pub(super) fn of_links(&self, figure: fn(&LinkSample) -> u64) -> u64 {
        self.links.iter().map(figure).sum()
    }

    /// Links that are down.
    pub(super) fn links_down(&self) -> impl Iterator<Item = &LinkSample> {
        self.links.iter().filter(|link| !link.is_up)
    }
}
