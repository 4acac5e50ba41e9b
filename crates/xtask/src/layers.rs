//! The layer rule: an edge between crates goes only to a strictly smaller layer, and each outside
//! library has the crates that may name it written down.

use cargo_metadata::{DependencyKind, Metadata};

/// The layer of every crate of the workspace, as design and root manifest have it.
const LAYERS: &[(&str, u8)] = &[
    ("stdx", 0),
    ("telemetry", 1),
    ("xml", 1),
    ("actor", 2),
    ("delivery", 2),
    ("store", 2),
    ("xmpp", 2),
    ("net", 3),
    ("pubsub", 3),
    ("room", 3),
    ("wire", 3),
    ("flood", 4),
    ("group", 4),
    ("server", 4),
    ("cluster", 5),
    ("watch", 5),
    ("roost", 6),
    ("testkit", 6),
    ("aco", 6),
    ("orbit", 6),
    ("bench-actors", 7),
    ("xtask", 6),
];

/// Edges that the layers would allow and the design forbids.
const FORBIDDEN: &[(&str, &str, &str)] = &[
    ("actor", "xml", "the runtime knows nothing of XMPP"),
    ("store", "xml", "records know nothing of XMPP"),
    ("net", "xml", "sockets know nothing of XMPP"),
    ("net", "xmpp", "sockets know nothing of XMPP"),
    ("net", "store", "sockets know nothing of storage"),
    ("group", "xml", "nodes and groups know nothing of XMPP"),
    ("group", "xmpp", "nodes and groups know nothing of XMPP"),
    ("wire", "actor", "what crosses a wire has no handles"),
    (
        "wire",
        "store",
        "what crosses a wire has no pages of the store",
    ),
    ("cluster", "xml", "a journal knows nothing of XMPP"),
    ("cluster", "xmpp", "a journal knows nothing of XMPP"),
    ("cluster", "server", "a journal knows nothing of entities"),
    ("watch", "net", "what looks on opens no sockets"),
    ("testkit", "server", "tests drive the binary from outside"),
    (
        "testkit",
        "xml",
        "the test client reads with rxml, as a second opinion",
    ),
];

/// The crates that may name an outside library. One owner is the rule; `flood` and `testkit` are
/// clients with sockets of their own, because they must not share the server's mistakes.
const OWNERS: &[(&str, &[&str])] = &[
    ("async-nats", &["cluster"]),
    ("axum", &["roost"]),
    ("base64", &["net", "xmpp", "server", "flood", "testkit"]),
    ("byteview", &["store"]),
    ("cargo_metadata", &["xtask"]),
    ("clap", &["roost", "flood", "watch"]),
    ("crossbeam-queue", &["actor"]),
    ("fjall", &["store"]),
    ("futures-util", &["cluster"]),
    ("hashbrown", &["actor", "stdx"]),
    ("hdrhistogram", &["flood"]),
    ("httparse", &["net"]),
    ("idna", &["xmpp", "roost"]),
    ("jid", &["xmpp"]),
    ("libtest-mimic", &["testkit"]),
    ("minidom", &["server"]),
    ("mio", &["net", "flood"]),
    ("percent-encoding", &["cluster"]),
    (
        "postcard",
        &[
            "store", "group", "pubsub", "room", "cluster", "orbit", "aco",
        ],
    ),
    ("quick-xml", &["testkit"]),
    ("rcgen", &["roost"]),
    (
        "ring",
        &["net", "xmpp", "room", "server", "flood", "testkit", "group"],
    ),
    ("rpassword", &["roost"]),
    ("rustls", &["net", "flood", "testkit", "cluster"]),
    ("roxmltree", &["testkit"]),
    ("rxml", &["testkit"]),
    ("sd-notify", &["roost"]),
    ("signal-hook", &["roost", "flood", "watch"]),
    ("siphasher", &["actor", "store", "cluster"]),
    ("socket2", &["net", "flood"]),
    ("stateright", &["delivery"]),
    ("stringprep", &["xmpp"]),
    ("strsim", &["roost"]),
    ("subtle", &["xmpp"]),
    ("tempfile", &["testkit"]),
    ("time", &["stdx"]),
    ("tokio", &["roost", "cluster"]),
    ("tokio-rustls", &["cluster"]),
    ("toml", &["roost", "flood", "group"]),
    ("tower-http", &["roost"]),
    ("tracing-subscriber", &["roost"]),
    ("tungstenite", &["testkit"]),
];

/// Libraries without a say in the architecture: any crate may use them.
const COMMON: &[&str] = &[
    "bytes",
    "fastrand",
    "libc",
    "memchr",
    "rustc-hash",
    "rustix",
    "serde",
    "serde_json",
    "smallvec",
    "thiserror",
    "tracing",
    "zeroize",
];

/// One edge of the crate graph.
#[derive(Clone, Debug)]
pub struct Edge {
    /// The crate that depends.
    pub from: String,
    /// What it depends on.
    pub to: String,
    /// Needed by tests and benchmarks only.
    pub is_dev: bool,
}

/// The edges that leave the workspace's crates.
#[must_use]
pub fn edges(metadata: &Metadata) -> Vec<Edge> {
    let mut edges = Vec::new();
    for package in metadata.workspace_packages() {
        for dependency in &package.dependencies {
            edges.push(Edge {
                from: package.name.to_string(),
                to: dependency.name.clone(),
                is_dev: dependency.kind == DependencyKind::Development,
            });
        }
    }
    edges
}

/// What is wrong with these edges.
#[must_use]
pub fn check(edges: &[Edge]) -> Vec<String> {
    edges
        .iter()
        .filter_map(|edge| check_edge(edge).err())
        .collect()
}

fn layer(name: &str) -> Option<u8> {
    LAYERS
        .iter()
        .find(|(listed, _)| *listed == name)
        .map(|(_, layer)| *layer)
}

fn check_edge(Edge { from, to, is_dev }: &Edge) -> Result<(), String> {
    let Some(own) = layer(from) else {
        return Err(format!(
            "{from} has no layer: give it one in crates/xtask/src/layers.rs"
        ));
    };
    if let Some(other) = layer(to) {
        if other >= own && !(*is_dev && to == "testkit") {
            return Err(format!(
                "{from} (layer {own}) must not depend on {to} (layer {other})"
            ));
        }
        let forbidden = FORBIDDEN.iter().find(|(a, b, _)| a == from && b == to);
        return match forbidden {
            Some((_, _, why)) => Err(format!("{from} must not depend on {to}: {why}")),
            None => Ok(()),
        };
    }
    if *is_dev || COMMON.contains(&to.as_str()) {
        return Ok(());
    }
    match OWNERS.iter().find(|(library, _)| library == to) {
        Some((_, owners)) if owners.contains(&from.as_str()) => Ok(()),
        Some((_, owners)) => Err(format!("{from} names {to}, which belongs to {owners:?}")),
        None => Err(format!(
            "{to} (used by {from}) has no owner: list it in layers.rs"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(from: &str, to: &str, is_dev: bool) -> Vec<String> {
        check(&[Edge {
            from: from.to_owned(),
            to: to.to_owned(),
            is_dev,
        }])
    }

    #[test]
    fn edges_that_go_up_or_sideways_are_found() {
        assert!(found("server", "net", false).is_empty());
        assert!(found("net", "server", false)[0].contains("layer 3"));
        assert_eq!(found("xml", "telemetry", false).len(), 1);
        assert_eq!(found("flood", "server", false).len(), 1);
        assert_eq!(found("net", "xmpp", false).len(), 1);
        assert_eq!(found("new", "stdx", false).len(), 1);
        assert!(found("server", "testkit", true).is_empty());
        assert_eq!(found("server", "testkit", false).len(), 1);
    }

    #[test]
    fn libraries_outside_their_owner_are_found() {
        assert!(found("net", "rustls", false).is_empty());
        assert!(found("server", "rustls", false)[0].contains("belongs to"));
        assert!(found("server", "unheard-of", false)[0].contains("no owner"));
        assert!(found("xml", "rxml", true).is_empty());
        assert_eq!(found("xml", "rxml", false).len(), 1);
        assert!(found("xml", "memchr", false).is_empty());
    }
}
