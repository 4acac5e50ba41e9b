//! What a home does about messages and epochs that it did not write, up to its next append.

use store::{Store, appended};

use super::*;
use crate::journal::message::Body;
use crate::journal::replica;
use crate::layout::{Layout, StreamId};

const NOW: Moment = Moment::ZERO;

struct Fixture {
    follower: Follower,
    member: Member,
    range: RangeId,
}

fn author(node: &str) -> Author {
    Author {
        node: node.to_owned(),
        incarnation: 1,
    }
}

fn fixture() -> Fixture {
    let follower = Follower::new(&Store::in_memory()).unwrap();
    let ranges = Layout::new("test", 64).unwrap().ranges(StreamId(0));
    let range = ranges[0];
    let replica = Replica::new(replica::Options::default(), 0, ranges, &follower).unwrap();
    Fixture {
        member: Member::new(Options::default(), author("home"), replica),
        follower,
        range,
    }
}

impl Fixture {
    /// The record of another node's epoch.
    fn record(&mut self, seq: Seq, epoch: Epoch) {
        let record = Message {
            author: author("other"),
            number: epoch,
            epoch,
            body: Body::Epoch,
            level: Level::FIRST,
        };
        let follower = &mut self.follower;
        self.member.on_message(NOW, seq, &record.encode(), follower);
    }

    fn effects(&mut self) -> Vec<Effect> {
        std::iter::from_fn(|| self.member.poll()).collect()
    }

    fn published(&mut self) -> Publish {
        match self.member.poll() {
            Some(Effect::Publish(publish)) => publish,
            other => panic!("{other:?}"),
        }
    }

    /// It becomes the home with a record behind `last`.
    fn serve(&mut self, epoch: Epoch, last: Seq) {
        self.member.take_over(NOW, epoch);
        assert_eq!(self.effects(), [Effect::AskLast]);
        self.member.on_last(NOW, Some(last));
        let record = self.published();
        let (seq, payload) = (last + 1, record.payload);
        self.member
            .on_message(NOW, seq, &payload, &mut self.follower);
        assert_eq!(self.effects(), [Effect::Serving { epoch, seq }]);
    }
}

/// Goal: the record of an older epoch that comes too late, behind that of the home, ends nothing,
/// and the home's next append goes behind it: in front of it the leader would refuse it, and once
/// the record was purged nothing would ever say why.
#[test]
fn a_void_message_behind_the_record_is_passed() {
    let mut one = fixture();
    one.record(1, 1);
    one.serve(3, 1);
    one.record(3, 2);
    assert_eq!(one.effects(), []);
    let bytes = Bytes::from(appended::encode(Level::FIRST, &[]));
    one.member.append(NOW, 7, one.range, bytes).unwrap();
    let publish = one.published();
    assert_eq!(publish.expected, 3);
    let answer = Answer::Stored(4);
    one.member
        .on_answer(NOW, publish.number, answer, &mut one.follower);
    let committed = Effect::Committed(vec![(7, Position::new(1))]);
    assert_eq!(one.effects(), [committed]);
    assert_eq!(one.member.mark(), StreamMark { seq: 4, epoch: 3 });
}

/// Goal: an epoch that is older than the stream's, as a map gives out that was lost, is not begun.
/// Its record would be void, and the replica would wait for it for ever; whoever gave it hears that
/// it ended, and gives a newer one.
#[test]
fn an_epoch_of_before_is_not_begun() {
    let mut one = fixture();
    one.record(1, 5);
    one.member.take_over(NOW, 4);
    assert!(matches!(&one.effects()[..], [Effect::Ended(4, _)]));
    assert_eq!(one.member.role(), Role::Following);
    one.serve(6, 1);
}
