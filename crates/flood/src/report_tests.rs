//! Reports from made-up phases: verdicts, tables and pages.

use super::*;
use crate::html;
use crate::tally::Timings;

fn report() -> Report {
    let mut timings = Timings::new(3);
    for us in 1..=10_000_u64 {
        timings.record(Timing::Message, us * 1_000);
    }
    let message = TimingReport::new(Timing::Message, timings.of(Timing::Message));
    let sample = |rss: u64| Sample {
        rss,
        alive: true,
        ..Sample::default()
    };
    let phase = |name: &str, online: u64, rss: u64| PhaseReport {
        name: name.to_owned(),
        online,
        before: sample(1),
        after: sample(rss),
        ..PhaseReport::default()
    };
    let mut chat = phase("chat <&>", 15_000, 90_000_000);
    chat.counts.messages_sent = 10;
    chat.counts.messages_received = 10;
    chat.timings.extend(message);
    Report {
        scenario: Some(Scenario::shipped("chat").unwrap().unwrap()),
        phases: vec![
            phase("first", 1_000, 10_000_000),
            phase("all", 15_000, 52_000_000),
            chat,
        ],
        series: (0..30)
            .map(|at| Second {
                at: f64::from(at),
                online: 10,
                ..Second::default()
            })
            .collect(),
        ..Report::default()
    }
}

#[test]
fn memory_per_user_is_the_slope_to_the_first_full_phase() {
    let mut report = report();
    report.conclude();
    let memory = report.memory.unwrap();
    assert_eq!((memory.users_low, memory.users_high), (1_000, 15_000));
    assert!((memory.bytes_per_user - 3_000.0).abs() < 1e-6, "{memory:?}");
    assert!(report.is_good(), "{:?}", report.faults);
}

#[test]
fn every_failed_check_is_a_fault() {
    let mut report = report();
    let chat = &mut report.phases[2];
    chat.messages_lost = 3;
    chat.counts.logins_failed = 2;
    chat.presence = Some(PresenceCheck {
        missing: 5,
        ..PresenceCheck::default()
    });
    report.conclude();
    assert_eq!(
        report.faults,
        [
            "2 logins failed",
            "3 messages were lost",
            "5 online contacts were not seen"
        ]
    );
    assert!(!report.is_good());
    assert!(report.table().contains("NOT all checks held"));
}

#[test]
fn quantiles_of_a_known_distribution_are_right() {
    let report = report();
    let timing = &report.phases[2].timings[0];
    for (value, expected) in [
        (timing.p50, 5_000),
        (timing.p99, 9_900),
        (timing.max, 10_000),
    ] {
        let error = value.abs_diff(expected);
        assert!(error * 500 <= expected, "{value} instead of {expected}");
    }
    let (share, last) = *timing.curve.last().unwrap();
    assert!(share > 0.999 && last >= 9_990, "{share} {last}");
}

#[test]
fn a_page_is_complete_and_escapes_names() {
    let mut report = report();
    report.error = Some("refused <here>".to_owned());
    report.conclude();
    let page = html::page(&report);
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</body></html>\n"));
    assert!(page.contains("chat &lt;&amp;&gt;") && page.contains("refused &lt;here&gt;"));
    assert!(!page.contains("chat <&>") && !page.contains("http://") && !page.contains("src="));
    assert!(page.matches("<svg").count() >= 4);
    let json = serde_json::to_string(&report).unwrap();
    let again: Report = serde_json::from_str(&json).unwrap();
    assert_eq!(again.phases.len(), 3);
}

#[test]
fn values_are_readable() {
    assert_eq!(duration(12.0), "12 us");
    assert_eq!(duration(1_234.0), "1.23 ms");
    assert_eq!(duration(45_000.0), "45 ms");
    assert_eq!(duration(2_500_000.0), "2.50 s");
    assert_eq!(bytes(2_900.0), "2.90 kB");
    assert_eq!(html::date(1_792_540_923_000), "2026-10-21 00:02 UTC");
}
