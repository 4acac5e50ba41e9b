//! Links between nodes that prove who they are.

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;

use testkit::roost::Settings;

use crate::nodes::Nodes;
use crate::person::Person;

/// The three keys.
pub(crate) fn files(folder: &Path, name: &str) -> Settings {
    let quoted = |file: &str| format!("\"{}/{file}\"", folder.display());
    Settings::from([
        (
            "cluster.certificate".to_owned(),
            quoted(&format!("{name}.pem")),
        ),
        ("cluster.key".to_owned(), quoted(&format!("{name}.key"))),
        ("cluster.ca".to_owned(), quoted("ca.pem")),
    ])
}

pub(crate) fn certify(nodes: &mut Nodes, folder: &Path, names: &[&str], more: &[&str]) -> String {
    let folder = folder.to_string_lossy().into_owned();
    let first = ["cluster", "certificates", "--folder", &folder];
    let node = nodes.node("a");
    node.run_plain(&[&first[..], more, names].concat()).unwrap()
}

fn packets_to(nodes: &Nodes, from: &str, to: &str) -> f64 {
    nodes.figure(
        from,
        &format!("roost_cluster_link_packets_total{{peer=\"{to}\"}}"),
    )
}

/// Goal: nodes whose links are encrypted are a cluster. New certificates are taken at a reload,
/// under way, and broken ones are not. A node that cannot prove its name is refused, as is whoever
/// is no node, and the log says why.
#[test]
fn links_prove_who_they_are() {
    let folders = tempfile::tempdir().unwrap();
    let (ours, other) = (folders.path().join("ours"), folders.path().join("other"));
    let mut nodes = Nodes::prepare_with(&["a", "b", "z"], |name| match name {
        // Nobody is to be at home where nobody can be reached.
        "z" => {
            let mut settings = files(&other, name);
            settings.insert("cluster.weight".to_owned(), "0".to_owned());
            settings
        }
        _ => files(&ours, name),
    });
    let refused = nodes.node("a").start_again().unwrap_err();
    assert!(refused.contains("a.pem: No such file"), "{refused}");
    let said = certify(&mut nodes, &ours, &["a", "b"], &[]);
    assert!(said.contains("[cluster]\ncertificate = "), "{said}");
    certify(&mut nodes, &other, &["z"], &[]);
    nodes.create();
    nodes.begin("a");
    nodes.begin("b");
    nodes.await_homes();
    nodes.until("links are up", |nodes| {
        let up = |of: &str, to: &str| {
            nodes.figure(of, &format!("roost_cluster_link_up{{peer=\"{to}\"}}"))
        };
        up("a", "b") + up("b", "a") == 2.0
    });
    let homes = nodes.add_at_different_homes("alice", "bob");
    let mut alice = Person::online(&mut nodes, "alice", &homes.one);
    let mut bob = Person::online(&mut nodes, &homes.other_name, &homes.other);
    let chat = |alice: &mut Person, bob: &mut Person, text: &str| {
        alice.say(&homes.other_name, text);
        alice.await_accepted();
        bob.expect_bodies("alice", [text.to_owned()]);
    };
    chat(&mut alice, &mut bob, "encrypted");
    assert!(packets_to(&nodes, &homes.one, &homes.other) > 0.0);
    let connections = "roost_cluster_link_connections_total{peer=\"b\"}";
    let expires = "roost_cluster_certificate_expires_seconds";
    let (before, expired_at) = (nodes.figure("a", connections), nodes.figure("a", expires));
    certify(&mut nodes, &ours, &["a", "b"], &["--renew", "--days", "30"]);
    nodes.node("a").reload().unwrap();
    nodes.node("b").reload().unwrap();
    nodes.until("the certificates are new", |nodes| {
        nodes.figure("a", connections) > before && nodes.figure("a", expires) < expired_at
    });
    chat(&mut alice, &mut bob, "with new certificates");
    // The key of another one: the old stay in use.
    fs::copy(ours.join("b.key"), ours.join("a.key")).unwrap();
    nodes.node("a").reload().unwrap();
    nodes.until("the reload is refused", |nodes| {
        let log = nodes.log("a");
        log.contains("not reloaded") && log.contains("it is not the key of cluster.certificate")
    });
    chat(&mut alice, &mut bob, "with those of before");
    strangers(&mut nodes);
    chat(&mut alice, &mut bob, "and on");
    for name in ["a", "b", "z"] {
        nodes.node(name).stop().unwrap();
    }
}

/// A node of another CA, and something that is no node.
fn strangers(nodes: &mut Nodes) {
    let refused = nodes.figure("a", "roost_cluster_link_refused_total");
    let mut garbage = TcpStream::connect(nodes.link("a")).unwrap();
    garbage.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    nodes.until("garbage is refused", |nodes| {
        nodes.log("a").contains("it does not speak TLS")
    });
    nodes.begin("z");
    nodes.until("the stranger is refused on both sides", |nodes| {
        let not_ours = "its certificate is not of the CA in cluster.ca";
        nodes.log("a").contains(not_ours) && nodes.log("z").contains(not_ours)
    });
    assert!(nodes.figure("a", "roost_cluster_link_refused_total") >= refused + 2.0);
    let up = "roost_cluster_link_up{peer=\"z\"}";
    assert_eq!(nodes.figure("a", up), 0.0);
    nodes.until("an alarm", |nodes| {
        nodes.figure("a", "roost_alarm{name=\"links\"}") == 1.0
    });
    let alarms = nodes.node("a").run(&["alarm", "list"]).unwrap();
    assert!(alarms.contains("no link to node z: "), "{alarms}");
}
