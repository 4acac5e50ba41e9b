//! What the tasks of a driver have in common: how often each looks at the time, and how it waits
//! for what may not be there.

use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

/// How often the machines are told the time.
pub(super) const TICK: Duration = Duration::from_millis(50);

/// Ticks, of which those that were missed are not made up for.
pub(super) fn ticks() -> Interval {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}

/// The next of what there is; never, if there is nothing.
pub(super) async fn or_never<T>(next: Option<impl Future<Output = T>>) -> T {
    match next {
        Some(next) => next.await,
        None => std::future::pending().await,
    }
}
