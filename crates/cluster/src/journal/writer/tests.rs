//! What each answer does to the one publish under way, and every bound of what waits.

use super::*;

const RANGE: u16 = 3;

fn range() -> RangeId {
    RangeId::from_index(RANGE).unwrap()
}

fn options() -> Options {
    Options {
        batch_bytes_max: 8,
        queue_appends_max: 3,
        queue_bytes_max: 16,
        ..Options::default()
    }
}

fn writer() -> Writer {
    let author = Author {
        node: "a".to_owned(),
        incarnation: 1,
    };
    Writer::new(
        options(),
        Start {
            author,
            epoch: 2,
            last: 10,
            number: 5,
            level: Level::FIRST,
            positions: vec![(range(), Position::new(7))],
        },
    )
}

fn append(writer: &mut Writer, token: Token, bytes: &'static [u8]) -> Result<(), Refused> {
    writer.append(Moment::ZERO, token, range(), Bytes::from_static(bytes))
}

fn effects(writer: &mut Writer) -> Vec<Effect> {
    std::iter::from_fn(|| writer.poll()).collect()
}

fn published(writer: &mut Writer) -> Publish {
    match writer.poll() {
        Some(Effect::Publish(publish)) => publish,
        other => panic!("{other:?}"),
    }
}

fn at(millis: u64) -> Moment {
    Moment::from_nanos(millis * 1_000_000)
}

/// Goal: one publish is under way at a time, it names the sequence that it expects, and what was
/// collected meanwhile goes with the next one, as far as it fits.
#[test]
fn appends_are_collected_while_one_publish_is_under_way() {
    let mut writer = writer();
    append(&mut writer, 1, b"one").unwrap();
    let first = published(&mut writer);
    assert_eq!((first.expected, first.id.as_str()), (10, "a.1.6"));
    for (token, bytes) in [(2, b"two!"), (3, b"tree"), (4, b"four")] {
        append(&mut writer, token, bytes).unwrap();
    }
    assert_eq!(writer.poll(), None);
    writer.on_answer(Moment::ZERO, first.number, Answer::Stored(11));
    let Some(Effect::Committed { seq, tokens, .. }) = writer.poll() else {
        panic!("not committed");
    };
    assert_eq!((seq, tokens), (11, vec![(1, Position::new(8))]));
    let second = published(&mut writer);
    assert_eq!((second.expected, second.number), (11, 7));
    let Body::Appends { runs, entries, .. } = Message::decode(&second.payload).unwrap().body else {
        panic!("no appends");
    };
    assert_eq!(runs, [Run::new(range(), Position::new(9), 2)]);
    assert_eq!(entries.len(), 2);
}

/// Goal: each bound of what waits refuses with its own word, and what was taken is not touched.
#[test]
fn what_is_too_much_is_refused() {
    let mut writer = writer();
    assert_eq!(append(&mut writer, 1, b"too large"), Err(Refused::TooLarge));
    let foreign = RangeId::from_index(RANGE + 1).unwrap();
    let refused = writer.append(Moment::ZERO, 1, foreign, Bytes::new());
    assert_eq!(refused, Err(Refused::NotHome));
    append(&mut writer, 1, b"").unwrap();
    append(&mut writer, 2, b"12345678").unwrap();
    append(&mut writer, 3, b"1234567").unwrap();
    assert_eq!(append(&mut writer, 4, b"12"), Err(Refused::Busy));
    append(&mut writer, 4, b"1").unwrap();
    assert_eq!(append(&mut writer, 5, b""), Err(Refused::Busy));
}

/// Goal: silence decides nothing. The identical publish goes again, new appends are refused while
/// there is no quorum, and the acknowledgement ends that state.
#[test]
fn silence_sends_the_identical_publish_again() {
    let mut writer = writer();
    append(&mut writer, 1, b"one").unwrap();
    let first = published(&mut writer);
    assert_eq!(writer.next_time(), Some(at(500)));
    writer.on_answer(at(400), first.number, Answer::Silence);
    writer.on_time(at(500));
    assert_eq!(effects(&mut writer), [Effect::Publish(first.clone())]);
    writer.on_time(at(1_000));
    let again = [Effect::Publish(first.clone()), Effect::Quorum(false)];
    assert_eq!(effects(&mut writer), again);
    assert_eq!(append(&mut writer, 2, b"two"), Err(Refused::NoQuorum));
    writer.on_answer(at(9_000), first.number, Answer::Stored(11));
    let all = effects(&mut writer);
    assert!(matches!(&all[0], Effect::Committed { seq: 11, .. }));
    assert_eq!(all[1], Effect::Quorum(true));
    append(&mut writer, 2, b"two").unwrap();
}

/// Goal: a refused expectation is no proof: the leader's message decides, and nothing there leaves
/// it open.
#[test]
fn a_refused_expectation_is_looked_up() {
    let mut writer = writer();
    append(&mut writer, 1, b"one").unwrap();
    let first = published(&mut writer);
    writer.on_answer(at(1), first.number, Answer::WrongSequence);
    assert_eq!(effects(&mut writer), [Effect::Read(11)]);
    writer.on_found(at(2), 11, &Found::Absent);
    assert_eq!(effects(&mut writer), []);
    writer.on_time(at(502));
    assert_eq!(effects(&mut writer), [Effect::Publish(first.clone())]);
    writer.on_answer(at(503), first.number, Answer::WrongSequence);
    writer.on_found(at(504), 11, &Found::Message(first.payload));
    assert_eq!(effects(&mut writer)[0], Effect::Read(11));
    assert_eq!(writer.unanswered_since(), None);
}

/// Goal: a foreign message ends the tenure, and everything is certain.
#[test]
fn a_foreign_message_fences() {
    let mut writer = writer();
    append(&mut writer, 1, b"one").unwrap();
    let first = published(&mut writer);
    append(&mut writer, 2, b"two").unwrap();
    writer.on_answer(at(1), first.number, Answer::WrongSequence);
    writer.poll();
    writer.on_found(at(2), 11, &Found::Message(Bytes::from_static(b"other")));
    let ended = Effect::Ended {
        why: End::Fenced,
        in_doubt: Vec::new(),
    };
    let all = [Effect::Failed(vec![1]), Effect::Failed(vec![2]), ended];
    assert_eq!(effects(&mut writer), all);
    assert_eq!(append(&mut writer, 3, b""), Err(Refused::NotHome));
}

/// Goal: an answer that cannot be ends the tenure with its publish in doubt, and what waits fails.
#[test]
fn any_other_answer_ends_the_tenure() {
    for answer in [Answer::Stored(12), Answer::Refused("no".to_owned())] {
        let mut writer = writer();
        append(&mut writer, 1, b"one").unwrap();
        let first = published(&mut writer);
        append(&mut writer, 2, b"two").unwrap();
        writer.on_answer(at(1), first.number, answer);
        let all = effects(&mut writer);
        assert_eq!(all[0], Effect::Failed(vec![2]));
        let Effect::Ended { in_doubt, .. } = &all[1] else {
            panic!("{all:?}");
        };
        assert_eq!((in_doubt[0].seq, in_doubt[0].tokens[0].0), (11, 1));
    }
}

/// Goal: a void message that is met while nothing is under way takes its place and no more: the
/// next publish goes behind it. Anything else there ends the tenure.
#[test]
fn what_is_void_takes_a_place_and_no_more() {
    let mut writer = writer();
    writer.on_foreign(11, true);
    append(&mut writer, 1, b"one").unwrap();
    let first = published(&mut writer);
    assert_eq!(first.expected, 11);
    writer.on_answer(at(1), first.number, Answer::Stored(12));
    // What was there before says nothing.
    writer.on_foreign(11, false);
    let all = effects(&mut writer);
    assert!(matches!(&all[..], [Effect::Committed { seq: 12, .. }]));
    writer.on_foreign(13, false);
    let in_doubt = Vec::new();
    let why = End::Fenced;
    assert_eq!(effects(&mut writer), [Effect::Ended { why, in_doubt }]);
}
