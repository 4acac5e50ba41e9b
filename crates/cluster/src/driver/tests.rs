//! The bounds of a driver, without an engine: what happens when a stream's task takes nothing, and
//! when nobody takes events. `tests/engine` reaches them with real ones.

use super::*;

/// A driver of one stream, and what its task would take.
fn stopped(commands_max: usize) -> (Driver, mpsc::Receiver<Command>) {
    let (send, commands) = channel(commands_max);
    let (_, events) = sync_channel(1);
    let driver = Driver {
        store: Store::in_memory(),
        layout: Layout::new("test", 1).unwrap(),
        streams: vec![send],
        progress: vec![Shared::default()],
        events: Mutex::new(events),
        door: Arc::default(),
        clock: SystemClock::new(),
        end: watch::channel(()).0,
        thread: None,
    };
    (driver, commands)
}

const STREAM: StreamId = StreamId(0);

/// Goal: beyond `commands_max` an append is refused at once, and everything else is told that it
/// was not taken; with room again all goes on.
#[test]
fn commands_are_bounded() {
    let (driver, mut commands) = stopped(2);
    let range = driver.layout().ranges(STREAM)[0];
    let mut taken = [driver.append(range, &[]), driver.append(range, &[])];
    let mut refused = driver.append(range, &[]);
    assert_eq!(refused.try_recv(), Ok(Outcome::Refused(Refused::Busy)));
    assert!(
        taken.iter_mut().all(|one| one.try_recv().is_err()),
        "undecided"
    );
    assert!(!driver.take_over(STREAM, 1));
    assert!(!driver.step_down(STREAM));
    let mut snapshot = driver.snapshot(STREAM);
    assert!(snapshot.try_recv().is_ok_and(|result| result.is_err()));
    assert!(commands.try_recv().is_ok());
    assert!(driver.take_over(STREAM, 1));
    assert!(!driver.take_over(STREAM, 2));
    assert_eq!(
        Options::new(options(), layout(), PathBuf::new()).commands_max,
        4_096
    );
}

/// Goal: events that nobody takes wait up to `events_max`; whoever tells is not held up, and knows
/// of the one that was dropped.
#[test]
fn events_are_bounded() {
    let max = Options::new(options(), layout(), PathBuf::new()).events_max;
    assert_eq!(max, 1_024);
    let (tell, taken) = sync_channel(max);
    let events = Events(tell);
    let told = (0..max + 3).filter(|_| events.tell(Event::Quorum(STREAM, true)));
    assert_eq!(told.count(), max);
    assert!(taken.recv().is_ok());
    assert!(events.tell(Event::Quorum(STREAM, false)));
    drop(taken);
    // At the end nobody is there to take it, and nothing was lost.
    assert!(events.tell(Event::Quorum(STREAM, true)));
}

fn options() -> engine::Options {
    engine::Options::new(Vec::new())
}

fn layout() -> Layout {
    Layout::new("test", 1).unwrap()
}
