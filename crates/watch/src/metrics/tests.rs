//! The page against a strict reading of its format, and the files of `packaging/` against the page.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use server::watch::{DomainSample, Sample, ShardSample};
use store::{EngineStats, JournalStats};

use super::*;
use crate::alarms::Alarm;
use crate::cluster::{ClusterSample, LinkSample};
use crate::process::ProcessReader;

/// A family of the page.
#[derive(Default)]
struct Family {
    kind: String,
    /// Value by name and labels.
    samples: BTreeMap<(String, Vec<(String, String)>), f64>,
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Reads a page as the strictest reader would: families in one piece with help and type first, no
/// sample twice, counters that end in `_total`, histograms that add up.
fn read(page: &str) -> BTreeMap<String, Family> {
    assert!(page.ends_with('\n'), "the last line has no end");
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').expect("a help text");
            assert!(is_name(name) && !help.trim().is_empty(), "{line}");
            let kind = lines.next().and_then(|line| {
                let (of, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
                (of == name).then(|| kind.to_owned())
            });
            let family = Family {
                kind: kind.expect("a type behind the help"),
                ..Family::default()
            };
            assert!(families.insert(name.to_owned(), family).is_none(), "{line}");
            name.clone_into(&mut current);
            continue;
        }
        let (name, labels, value) = sample(line);
        let family = families.get_mut(&current).expect("help before samples");
        let belongs = match family.kind.as_str() {
            "counter" => name == current && name.ends_with("_total"),
            "gauge" => name == current,
            "histogram" => ["_bucket", "_sum", "_count"]
                .iter()
                .any(|end| name.strip_suffix(end) == Some(&current)),
            other => panic!("type {other}"),
        };
        assert!(belongs, "{line} in {current}");
        let old = family.samples.insert((name, labels), value);
        assert!(old.is_none(), "twice: {line}");
    }
    for (name, family) in &families {
        assert!(!family.samples.is_empty(), "{name} has no sample");
        if family.kind == "histogram" {
            check_histogram(name, family);
        }
    }
    families
}

fn sample(line: &str) -> (String, Vec<(String, String)>, f64) {
    let (head, value) = line.rsplit_once(' ').expect("a value");
    let (name, labels) = match head.split_once('{') {
        None => (head, Vec::new()),
        Some((name, rest)) => {
            let inside = rest.strip_suffix('}').expect("closed labels");
            let labels = inside.split(',').map(|label| {
                let (key, quoted) = label.split_once('=').expect("a label");
                let text = quoted.strip_prefix('"').and_then(|t| t.strip_suffix('"'));
                let text = text.expect("a quoted label");
                assert!(is_name(key) && !text.contains(['"', '\\', '\n']), "{line}");
                (key.to_owned(), text.to_owned())
            });
            (name, labels.collect())
        }
    };
    assert!(is_name(name), "{line}");
    let value: f64 = value.parse().expect("a number");
    assert!(value.is_finite() && value >= 0.0, "{line}");
    (name.to_owned(), labels, value)
}

fn check_histogram(name: &str, family: &Family) {
    let mut buckets: Vec<(f64, f64)> = Vec::new();
    for ((sample, labels), value) in &family.samples {
        if sample.ends_with("_bucket") {
            assert_eq!(labels[0].0, "le");
            buckets.push((labels[0].1.parse().expect("a bound"), *value));
        }
    }
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert!(buckets.is_sorted_by(|a, b| a.1 <= b.1), "{name} shrinks");
    let last = buckets.last().expect("buckets");
    assert_eq!(last.0, f64::INFINITY);
    let count = &family.samples[&(format!("{name}_count"), Vec::new())];
    assert_eq!(last.1, *count, "{name}");
    let sum = family.samples[&(format!("{name}_sum"), Vec::new())];
    assert!((sum > 0.0) == (*count > 0.0), "{name}");
}

/// A look with everything that there can be.
fn look() -> Look {
    let shard = |n: u64| ShardSample {
        counters: Counter::ALL
            .iter()
            .map(|c| (c.name().to_owned(), n + c.index() as u64))
            .collect(),
        gauges: [(Gauge::NetConnections.name().to_owned(), n)].into(),
        ..ShardSample::default()
    };
    let mut buckets = [0; 24];
    (buckets[0], buckets[3], buckets[23]) = (5, 2, 1);
    let mut process = ProcessReader::new(Path::new("/")).read();
    process.memory_max_bytes = Some(1 << 30);
    Look {
        sample: Sample {
            at_ms: 1_795_000_000_000,
            uptime_ms: 61_000,
            shards: vec![shard(10), shard(20)],
            journal: JournalStats {
                records: 40,
                group_records: buckets,
                commit_us: buckets,
                commit_us_sum: 9_000_021,
                ..JournalStats::default()
            },
            store: EngineStats {
                disk_bytes: 7,
                ..EngineStats::default()
            },
            domains: vec![DomainSample {
                domain: "example.org".to_owned(),
                accounts: 3,
                stored_bytes: 4_000,
            }],
            ..Sample::default()
        },
        process,
        cluster: Some(ClusterSample {
            homes_served: 5,
            certificate_expires: Some(1_800_000_000),
            links: ["b", "c"]
                .map(|peer| LinkSample {
                    peer: peer.to_owned(),
                    bytes: 70,
                    ..LinkSample::default()
                })
                .into(),
            ..ClusterSample::default()
        }),
        alarms: vec![Alarm {
            name: Kind::Disk.name().to_owned(),
            since_ms: 0,
            message: "full".to_owned(),
            acknowledged: true,
        }],
    }
}

#[test]
fn the_page_is_strictly_well_formed_and_complete() {
    let families = read(&page(&look()));
    for name in Counter::ALL.iter().map(|counter| counter.name()) {
        let family = &families[name];
        assert_eq!((family.kind.as_str(), family.samples.len()), ("counter", 2));
    }
    for name in Gauge::ALL.iter().map(|gauge| gauge.name()) {
        assert_eq!(families[name].kind, "gauge");
    }
    let at = |family: &str, sample: &str, label: Option<(&str, &str)>| {
        let labels = label.map(|(key, value)| (key.to_owned(), value.to_owned()));
        families[family].samples[&(sample.to_owned(), labels.into_iter().collect())]
    };
    let connections = Gauge::NetConnections.name();
    assert_eq!(at(connections, connections, Some(("shard", "1"))), 20.0);
    let sync = "roost_journal_commit_seconds";
    let bucket = "roost_journal_commit_seconds_bucket";
    assert_eq!(at(sync, bucket, Some(("le", "0.000001"))), 5.0);
    assert_eq!(at(sync, bucket, Some(("le", "0.000008"))), 7.0);
    assert_eq!(at(sync, bucket, Some(("le", "+Inf"))), 8.0);
    assert_eq!(
        at(sync, "roost_journal_commit_seconds_sum", None),
        9.000_021
    );
    let stored = "roost_domain_stored_bytes";
    assert_eq!(at(stored, stored, Some(("domain", "example.org"))), 4_000.0);
    let homes = "roost_cluster_homes_served";
    assert_eq!(at(homes, homes, None), 5.0);
    let backlog = "roost_cluster_link_backlog_bytes";
    assert_eq!(at(backlog, backlog, Some(("peer", "c"))), 70.0);
    let alarm = |name: &str| at("roost_alarm", "roost_alarm", Some(("name", name)));
    assert_eq!((alarm("disk"), alarm("memory")), (1.0, 0.0));
    assert_eq!(
        at("roost_uptime_seconds", "roost_uptime_seconds", None),
        61.0
    );
}

#[test]
fn a_look_at_nothing_is_well_formed() {
    let mut look = look();
    look.sample.journal = JournalStats::default();
    look.process = crate::process::ProcessSample::default();
    look.cluster = Some(ClusterSample::default());
    let families = read(&page(&look));
    assert!(!families.contains_key("process_open_fds"));
    assert!(!families.contains_key("roost_cluster_link_up"));
    look.cluster = None;
    let alone = page(&look);
    assert!(!alone.contains("roost_cluster"));
}

/// Every word of a text that looks like the name of one of our figures.
fn names_in(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words
        .filter(|word| word.starts_with("roost_") || word.starts_with("process_"))
        .collect()
}

#[test]
fn dashboard_and_alerts_use_names_that_exist() {
    let page = page(&look());
    let families = read(&page);
    let samples = families.values().flat_map(|family| family.samples.keys());
    let known: BTreeSet<&str> = samples.map(|(name, _)| name.as_str()).collect();
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    for file in ["grafana.json", "alerts.yaml"] {
        let text = std::fs::read_to_string(packaging.join(file)).expect(file);
        let used = names_in(&text);
        assert!(used.len() >= 10, "{file} uses only {used:?}");
        let unknown: Vec<_> = used.difference(&known).collect();
        assert!(unknown.is_empty(), "{file} uses {unknown:?}");
    }
}

#[test]
fn the_dashboard_is_one_that_can_be_imported() {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let text = std::fs::read_to_string(packaging.join("grafana.json")).expect("file");
    let dashboard: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().expect("an id")), "{panel}");
        assert!(panel["title"].as_str().is_some_and(|t| !t.is_empty()));
        let place = &panel["gridPos"];
        let right = place["x"].as_u64().zip(place["w"].as_u64()).expect("place");
        assert!(right.0 + right.1 <= 24, "{panel}");
        if panel["type"] != "row" {
            let targets = panel["targets"].as_array().expect("targets");
            assert!(!targets.is_empty());
        }
    }
    assert!(ids.len() >= 10);
}

/// Prometheus' own judgement of the alerts, where its tool is installed.
#[test]
fn the_alerts_are_valid() {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let mut check = std::process::Command::new("promtool");
    match check
        .args(["check", "rules"])
        .arg(packaging.join("alerts.yaml"))
        .output()
    {
        Ok(checked) => assert!(checked.status.success(), "{checked:?}"),
        // Not installed.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => panic!("promtool: {error}"),
    }
}
