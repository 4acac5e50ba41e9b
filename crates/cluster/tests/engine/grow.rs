//! A single server's data becomes the beginning of a deployment, in a real engine: in steps that
//! can be repeated and taken back, and never over what somebody else has there.

use cluster::deployment::{self, Deployment, Grown};
use cluster::engine::Engine;
use cluster::grow::{self, GrowError, Order, Standing};
use cluster::journal::message::{Author, Body, Message};
use cluster::journal::{Answer, Publish};
use cluster::layout::StreamId;

use crate::servers::Servers;
use crate::{STREAM, layout};

fn order(id: u8) -> Order {
    Order {
        node: "a".to_owned(),
        id: [id; 16],
        slot_key: [3; 16],
        numbering: 5,
    }
}

fn bounds(servers: &Servers) -> Vec<Option<(u64, u64)>> {
    servers.ask(&layout(), async |engine: Engine| {
        let mut bounds = Vec::new();
        for stream in layout().streams() {
            bounds.push(engine.bounds(stream).await);
        }
        bounds
    })
}

fn is_taken<T: std::fmt::Debug>(result: Result<T, GrowError>, what: &str) {
    match result {
        Err(GrowError::Taken(why)) => assert!(why.contains(what), "{why}"),
        other => panic!("{other:?}"),
    }
}

/// Goal: whatever a killed attempt has left, the next one finishes it: the entry that is not done,
/// a stream with its first message, one that is purged behind it. Who has another id changes
/// nothing.
#[test]
fn a_take_in_can_be_repeated() {
    let servers = Servers::start(true);
    servers.create(&layout());
    let engine = servers.options();
    assert_eq!(grow::look(&engine, &layout(), None), Ok(Standing::Free));
    // What an attempt leaves that was killed behind the first stream's message.
    servers.ask(&layout(), async |engine: Engine| {
        let begun = Deployment {
            format: deployment::FORMAT,
            streams: 2,
            slot_key: [3; 16],
            grown: Some(Grown {
                id: [7; 16],
                by: "a".to_owned(),
                numbering: 4,
                is_done: false,
            }),
        };
        let bucket = engine.map().await.unwrap();
        assert_eq!(bucket.deployment(&begun).await, Ok(begun));
        let answer = engine.publish(STREAM, &first_message()).await;
        assert_eq!(answer, Answer::Stored(1));
    });
    let look = |id: Option<u8>| grow::look(&engine, &layout(), id.map(|id| [id; 16]));
    assert_eq!(look(Some(7)), Ok(Standing::Begun));
    is_taken(look(Some(8)), "has a deployment already");
    is_taken(look(None), "has a deployment already");
    is_taken(
        grow::take_in(&engine, &layout(), &order(8)),
        "has a deployment already",
    );
    for _ in 0..2 {
        grow::take_in(&engine, &layout(), &order(7)).unwrap();
        assert_eq!(look(Some(7)), Ok(Standing::Done));
        assert_eq!(bounds(&servers), [Some((2, 1)), Some((2, 1))]);
    }
    let found = deployment::join(&engine, &layout(), [9; 16]).unwrap();
    assert_eq!(
        (found.slot_key, found.format),
        ([3; 16], deployment::FORMAT)
    );
    let grown = found.grown.unwrap();
    assert_eq!((grown.numbering, grown.is_done), (5, true));
    let unsaved = deployment::unsaved(&engine, &layout()).unwrap();
    assert_eq!(unsaved, [StreamId(0), StreamId(1)]);
    is_taken(
        grow::undo(&engine, &layout(), [7; 16]).map(drop),
        "the cluster has begun",
    );
}

/// Goal: what is taken back leaves an engine that can be used again, also if that was cut short;
/// and streams with content are never touched.
#[test]
fn a_take_in_can_be_taken_back_and_spares_others() {
    let servers = Servers::start(true);
    servers.create(&layout());
    let engine = servers.options();
    assert_eq!(grow::undo(&engine, &layout(), [7; 16]), Ok(false));
    let begin = || {
        servers.ask(&layout(), async |engine: Engine| {
            let grown = Grown {
                id: [7; 16],
                by: "a".to_owned(),
                numbering: 4,
                is_done: false,
            };
            let begun = Deployment {
                format: deployment::FORMAT,
                streams: 2,
                slot_key: [3; 16],
                grown: Some(grown),
            };
            engine
                .map()
                .await
                .unwrap()
                .deployment(&begun)
                .await
                .unwrap();
            engine.publish(STREAM, &first_message()).await
        })
    };
    assert_eq!(begin(), Answer::Stored(1));
    // An attempt to take it back was killed when the first stream was gone.
    servers.ask(&layout(), async |engine: Engine| {
        engine.remove(STREAM).await.unwrap();
    });
    assert_eq!(grow::undo(&engine, &layout(), [8; 16]), Ok(false));
    assert_eq!(grow::undo(&engine, &layout(), [7; 16]), Ok(true));
    servers.create(&layout());
    assert_eq!(
        grow::look(&engine, &layout(), Some([7; 16])),
        Ok(Standing::Free)
    );
    assert_eq!(bounds(&servers), [Some((0, 0)), Some((0, 0))]);
    // Somebody else's message, in a deployment that nobody knows.
    let answer = servers.ask(&layout(), async |engine: Engine| {
        let mut theirs = first_message();
        theirs.payload = "theirs".into();
        engine.publish(STREAM, &theirs).await
    });
    assert_eq!(answer, Answer::Stored(1));
    is_taken(
        grow::look(&engine, &layout(), None),
        "has 1 messages in test-0",
    );
    is_taken(
        grow::take_in(&engine, &layout(), &order(7)),
        "has messages in its streams",
    );
    assert_eq!(bounds(&servers)[0], Some((1, 1)));
}

fn first_message() -> Publish {
    let message = Message {
        author: Author {
            node: "a".to_owned(),
            incarnation: 1,
        },
        number: 1,
        epoch: 0,
        body: Body::Epoch,
        level: stdx::Level::FIRST,
    };
    Publish {
        number: 1,
        expected: 0,
        id: message.id(),
        payload: message.encode(),
    }
}
