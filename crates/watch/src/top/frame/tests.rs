//! Screens of looks that were made up.

use server::watch::SessionSample;

use super::*;
use crate::alarms::Alarm;
use crate::cluster::LinkSample;
use crate::process::ProcessSample;

fn look(second: u64) -> Look {
    let top = |who: &str, value: u64| Top {
        who: who.to_owned(),
        value,
    };
    let shard = ShardSample {
        counters: [
            (Counter::Logins.name().to_owned(), 120 * second),
            (Counter::ShardWorkingNanos.name().to_owned(), 95 * second),
            (Counter::ShardIdleNanos.name().to_owned(), 5 * second),
        ]
        .into(),
        gauges: [
            (Gauge::NetConnections.name().to_owned(), 9_100),
            (Gauge::ActorQueueTotal.name().to_owned(), 500 - 100 * second),
        ]
        .into(),
        top_queue: vec![top("juliet@capulet.example", 40)],
        top_bytes: vec![top("romeo@montague.example", 2_048)],
        ..ShardSample::default()
    };
    let mut look = Look::default();
    look.sample.at_ms = second as i64 * 1_000;
    look.sample.uptime_ms = look.sample.at_ms;
    look.sample.connections_max = 10_000;
    look.sample.shards = vec![shard];
    look.process = ProcessSample {
        cpu_us: Some(second * 870_000),
        descriptors: Some(9_150),
        descriptors_max: Some(20_000),
        ..ProcessSample::default()
    };
    look.alarms = vec![Alarm {
        name: "backlog".to_owned(),
        since_ms: 0,
        message: "500 messages wait".to_owned(),
        acknowledged: false,
    }];
    look
}

fn frame(columns: usize) -> Frame {
    let (before, now) = (look(1), look(2));
    let mut backlog = Backlog::default();
    backlog.observe(before.sample.at_ms, waiting(&before));
    backlog.observe(now.sample.at_ms, waiting(&now));
    let overview = Overview {
        interval: Interval {
            before: &before,
            now: &now,
        },
        backlog: &backlog,
        chosen: Some((By::Queue, 0)),
        columns,
    };
    overview.frame()
}

/// The parts of a style.
fn styled(frame: &Frame, style: Style) -> Vec<&str> {
    let parts = frame.lines.iter().flat_map(|line| &line.parts);
    parts
        .filter(|(other, _)| *other == style)
        .map(|(_, text)| text.trim())
        .collect()
}

#[test]
fn figures_are_shown_and_those_over_their_limit_are_red() {
    let frame = frame(130);
    let text = frame.text();
    for expected in [
        "connections 9100 of 10000",
        "logins/s 120",
        "cpu % 87",
        "descriptors 9150 of 20000",
        "alarm backlog: 500 messages wait; since 00:00:00 UTC",
        "waiting 300   gone in ",
        "juliet@capulet.example     40",
        "romeo@montague.example   2.0K",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let red = styled(&frame, Style::Alert);
    let alarm = "alarm backlog: 500 messages wait; since 00:00:00 UTC";
    assert_eq!(red, ["9100 of 10000", alarm, "300", "95"], "{text}");
    let chosen = styled(&frame, Style::Chosen);
    assert_eq!(chosen, ["juliet@capulet.example     40"]);
}

/// Goal: while messages wait for who does not keep up there is a line in red, and how many came
/// back.
#[test]
fn what_waits_for_who_does_not_keep_up_is_shown() {
    assert!(!frame(130).text().contains("queues"));
    let (mut before, mut now) = (look(1), look(2));
    for (look, second) in [(&mut before, 1), (&mut now, 2)] {
        let shard = &mut look.sample.shards[0];
        for (gauge, value) in [(Gauge::QueueMessages, 64), (Gauge::QueueSenders, 3)] {
            shard.gauges.insert(gauge.name().to_owned(), value);
        }
        let back = Counter::MessagesReturned.name().to_owned();
        shard.counters.insert(back, 5 * second);
    }
    let frame = without_backlog(&before, &now);
    let text = frame.text();
    let expected = "queues      messages for who does not keep up 64   senders 3   came back/s 5";
    assert!(text.contains(expected), "{text}");
    let red = styled(&frame, Style::Alert);
    assert!(red.contains(&"64") && red.contains(&"5"), "{red:?}");
}

/// Goal: rooms and nodes have a line while there are any, and what they could not send is red.
#[test]
fn rooms_and_nodes_are_shown_while_there_are_any() {
    assert!(!frame(130).text().contains("occupants"));
    let (mut before, mut now) = (look(1), look(2));
    for (look, second) in [(&mut before, 1), (&mut now, 2)] {
        let shard = &mut look.sample.shards[0];
        for (gauge, value) in [
            (Gauge::RoomsLoaded, 3),
            (Gauge::RoomOccupants, 350),
            (Gauge::RoomCopiesWaiting, 77),
            (Gauge::RoomsBehind, 1),
            (Gauge::PubsubNodes, 2),
        ] {
            shard.gauges.insert(gauge.name().to_owned(), value);
        }
        for (counter, value) in [
            (Counter::RoomMessages, 10 * second),
            (Counter::RoomCopies, 3_500 * second),
            (Counter::RoomMemberMessages, 7 * second),
            (Counter::RoomJoinsRefused, 5 * second),
            (Counter::RoomCopiesDropped, 4 * second),
            (Counter::PubsubItems, 6 * second),
        ] {
            shard.counters.insert(counter.name().to_owned(), value);
        }
    }
    let frame = without_backlog(&before, &now);
    let text = frame.text();
    for expected in [
        "rooms       loaded 3   occupants 350   messages/s 10   copies/s 3500   to members/s 7",
        "   waiting 77   refused/s 5   without room/s 4",
        "nodes       loaded 2   items/s 6   copies/s 0",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let red = styled(&frame, Style::Alert);
    assert!(red.contains(&"4") && red.contains(&"77"), "{text}");
}

/// Goal: who looks sees whether ranges move, and what that costs those whose streams follow.
#[test]
fn moves_of_ranges_are_shown_once_there_are_any() {
    assert!(!frame(130).text().contains("ranges"));
    let (before, mut now) = (look(1), look(2));
    for (counter, value) in [
        (Counter::RangesMoved, 4),
        (Counter::RangesStayed, 1),
        (Counter::RangeGapMicros, 800),
        (Counter::RangesPaused, 2),
        (Counter::RangePauseMicros, 3_000_000),
        (Counter::RangeStreams, 10),
        (Counter::RangeStreamMicros, 25_000),
    ] {
        let shard = &mut now.sample.shards[0];
        shard.counters.insert(counter.name().to_owned(), value);
    }
    let text = without_backlog(&before, &now).text();
    let expected = "ranges      moved 4   stayed 1   mean gap 200us   paused 2   mean pause 1.5s";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("streams 10   mean wait 2.5ms"), "{text}");
}

/// What is shown of a node in which nothing waits.
fn without_backlog(before: &Look, now: &Look) -> Frame {
    let overview = Overview {
        interval: Interval { before, now },
        backlog: &Backlog::default(),
        chosen: None,
        columns: 130,
    };
    overview.frame()
}

/// Goal: a node of a cluster has two lines more, and what is not as it should be is red.
#[test]
fn a_node_of_a_cluster_shows_it() {
    let link = |is_up, taken| LinkSample {
        is_up,
        taken,
        packets: 2,
        bytes: 2_048,
        ..LinkSample::default()
    };
    let sample = |taken| ClusterSample {
        node: "a".to_owned(),
        nodes: 3,
        nodes_alive: 2,
        holds_lease: true,
        streams: 16,
        homes_given: 6,
        homes_served: 6,
        homes_moving: 4,
        engine_servers: 3,
        engine_away: vec![("http://n3:8222".to_owned(), "refused".to_owned())],
        engine_stored_bytes: 7,
        engine_stored_bytes_max: 10,
        links: vec![link(true, taken), link(false, 0)],
        ..ClusterSample::default()
    };
    let (mut before, mut now) = (look(1), look(2));
    (before.cluster, now.cluster) = (Some(sample(10)), Some(sample(17)));
    let frame = without_backlog(&before, &now);
    let text = frame.text();
    for expected in [
        "cluster     node a   lease yes   nodes 2 of 3   homes 6 of 16   moving 4   lag 0   \
         engine 2 of 3, 70% full",
        "links       up 1 of 2   packets/s 7   waiting 4   in 4.0K",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let red = styled(&frame, Style::Alert);
    assert!(
        ["2 of 3", "4", "1 of 2", "2 of 3, 70% full"]
            .iter()
            .all(|one| red.contains(one)),
        "{red:?}"
    );
    assert!(!red.contains(&"6 of 16"), "{red:?}");
}

#[test]
fn every_shard_has_a_line_under_its_heading() {
    let text = frame(130).text();
    let mut lines = text.lines().skip_while(|line| !line.starts_with("shard"));
    let head: Vec<&str> = lines
        .next()
        .expect("a heading")
        .split_whitespace()
        .collect();
    let shard: Vec<&str> = lines.next().expect("a line").split_whitespace().collect();
    assert_eq!(head[..4], ["shard", "conn", "sess", "login/s"]);
    assert_eq!(shard[..4], ["0", "9100", "0", "120"]);
    assert_eq!(shard[10], "95");
}

#[test]
fn narrow_terminals_have_the_lists_below_each_other() {
    let wide = frame(130).lines.len();
    let narrow = frame(40);
    assert!(narrow.lines.len() > wide);
    let text = narrow.text();
    let titles: Vec<&str> = By::ALL.iter().map(|by| by.title()).collect();
    for title in titles {
        assert!(text.lines().any(|line| line == title), "{title}: {text}");
    }
}

#[test]
fn a_user_is_shown_with_its_sessions() {
    let sample = UserSample {
        locked: true,
        roster_items: 18,
        roster_bytes: 2_048,
        pending_messages: 3,
        sessions: vec![SessionSample {
            resource: "balcony".to_owned(),
            available: true,
            priority: -1,
            directed: 2,
            backlog_bytes: Some(4_096),
        }],
        ..UserSample::default()
    };
    let frame = user("juliet@capulet.example", Ok(&sample));
    let text = frame.text();
    assert!(text.contains("contacts 18   in 2.0K   blocked 0"), "{text}");
    let session = text.lines().last().expect("a session");
    let words: Vec<&str> = session.split_whitespace().collect();
    assert_eq!(words, ["balcony", "yes", "-1", "2", "4.0K"]);
    assert_eq!(styled(&frame, Style::Alert), ["yes"]);
    let gone = user("x@y", Err("there is no account x@y"));
    assert_eq!(styled(&gone, Style::Alert), ["there is no account x@y"]);
}
