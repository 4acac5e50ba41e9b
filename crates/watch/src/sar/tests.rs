//! Lines of looks that were made up, and of the same looks recorded and replayed.

use server::watch::{ShardSample, Top};
use telemetry::{Counter, Gauge};

use super::*;

/// A look at a server that was started at `start`.
fn look(start: i64, second: i64, logins: u64, queue: u64) -> Entry {
    let mut look = Look::default();
    look.sample.pid = start as u32;
    look.sample.at_ms = (start + second) * 1_000;
    look.sample.uptime_ms = second * 1_000;
    look.sample.shards = vec![ShardSample {
        counters: [
            (Counter::Logins.name().to_owned(), logins),
            (
                Counter::ShardWorkingNanos.name().to_owned(),
                750 * second as u64,
            ),
            (
                Counter::ShardIdleNanos.name().to_owned(),
                250 * second as u64,
            ),
        ]
        .into(),
        gauges: [
            (Gauge::ActorQueueTotal.name().to_owned(), queue),
            (Gauge::NetConnections.name().to_owned(), 15_000),
        ]
        .into(),
        top_queue: vec![Top {
            who: "somebody@localhost".to_owned(),
            value: queue,
        }],
        ..ShardSample::default()
    }];
    look.process.cpu_us = Some(900_000 * second as u64);
    look.process.resident_bytes = Some(47 << 20);
    Entry::Look(Box::new(look))
}

fn printer(columns: &str, is_averages: bool) -> Printer {
    Printer::new(
        columns::choose(Some(columns)).expect("columns"),
        is_averages,
        3,
    )
}

fn lines(printer: &mut Printer, entries: &[Entry]) -> String {
    let texts = entries.iter().map(|entry| printer.take(entry).lines);
    texts.collect()
}

#[test]
fn a_line_for_each_interval_and_a_header_for_each_screen() {
    let entries: Vec<Entry> = (0..5)
        .map(|n| look(1_000, n, 70 * n as u64, 900 - 100 * n as u64))
        .collect();
    let mut printer = printer("conn,login,queue,drain,owner,work,cpu,rss,p99", false);
    let expected = "
         users        actors                      shards % process   journal
UTC        conn login queue drain          owner work  cpu   rss   p99
00:16:41  15000    70   800 44.1s somebody@loca~   75   90 47.0M     -
00:16:42  15000    70   700 21.2s somebody@loca~   75   90 47.0M     -
00:16:43  15000    70   600 13.3s somebody@loca~   75   90 47.0M     -
";
    let text = lines(&mut printer, &entries[..4]);
    let figures = |text: &str| -> Vec<Vec<String>> {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
        text.lines().map(words).collect()
    };
    let (found, expected) = (figures(&text), figures(expected));
    assert_eq!(found[..3], expected[..3], "{text}");
    for (found, expected) in found[3..].iter().zip(&expected[3..]) {
        assert_eq!(found[..4], expected[..4], "{text}");
        assert_eq!(found[5..], expected[5..], "{text}");
    }
    let more = lines(&mut printer, &entries[4..]);
    assert!(more.starts_with('\n'), "a header again: {more:?}");
    assert_eq!(more.lines().count(), 4);
    let widths: Vec<usize> = text
        .lines()
        .skip(2)
        .map(|line| line.chars().count())
        .collect();
    assert!(widths.iter().all(|width| *width == widths[0]), "{text}");
}

#[test]
fn a_server_that_goes_and_comes_back_is_told_about() {
    let entries = [
        look(1_000, 5, 0, 0),
        look(1_000, 6, 10, 0),
        Entry::Lost(1_007_000),
        Entry::Lost(1_008_000),
        look(1_008, 1, 3, 0),
        look(1_008, 2, 5, 0),
        Entry::Lost(1_011_000),
        look(1_008, 4, 25, 0),
    ];
    let text = lines(&mut printer("login", false), &entries);
    let told: Vec<&str> = text.lines().filter(|line| line.contains(':')).collect();
    assert_eq!(
        told,
        [
            "00:16:46    10",
            "00:16:47 the server does not answer: waiting for it",
            "00:16:49 the server was started again 1.0s ago, as process 1008",
            "00:16:50     2",
            "00:16:51 the server does not answer: waiting for it",
            "00:16:52 the server answers again",
            "00:16:52    10",
        ]
    );
}

#[test]
fn averages_fade_and_begin_with_what_there_is() {
    let mut entries = vec![look(0, 0, 0, 0)];
    for second in 1..=200 {
        entries.push(look(0, second, 50 * second as u64, 0));
    }
    for second in 201..=210 {
        entries.push(look(0, second, 10_000, 0));
    }
    let text = lines(&mut printer("login,owner", true), &entries);
    let figures: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.contains(':'))
        .map(|line| line.split_whitespace().skip(1).collect())
        .collect();
    assert_eq!(figures[0], ["50", "50", "50"]);
    assert_eq!(figures[199], ["50", "50", "50"]);
    // Ten seconds of nothing: e to the -10, to the -1, to the -0.1.
    assert_eq!(figures[209], ["0.0", "18", "45"]);
    assert!(text.contains("1s   10s  100s"), "{text}");
}

#[test]
fn a_replay_prints_the_same_lines() {
    let entries = [
        look(1_000, 5, 0, 3),
        look(1_000, 6, 10, 2),
        Entry::Lost(1_007_000),
        look(1_008, 1, 3, 0),
        look(1_008, 2, 5, 0),
    ];
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("r");
    let mut writer = Writer::create(&path).expect("new");
    for entry in &entries {
        writer.add(entry).expect("written");
    }
    let mut reader = Reader::open(&path).expect("a recording");
    let mut replayed = Vec::new();
    while let Some(entry) = reader.next().expect("sound") {
        replayed.push(entry);
    }
    let all = || printer("all", false);
    assert_eq!(lines(&mut all(), &entries), lines(&mut all(), &replayed));
}
