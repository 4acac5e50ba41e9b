//! Tells systemd how the process is (sd_notify(3)), and shows its watchdog that every shard still
//! turns. Owns what is said and when; without systemd nothing is.

use std::io;
use std::thread;
use std::time::Duration;

use sd_notify::NotifyState;

/// The server takes clients.
pub(crate) fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// The server is reading its configuration again; [`ready`] ends it.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        // Without the time, newer versions of systemd would take it for a failure.
        Err(error) => tracing::warn!(%error, "the clock cannot be read"),
    }
}

/// The server closes its streams.
pub(crate) fn stopping() {
    tell(&[
        NotifyState::Stopping,
        NotifyState::Status("closing streams"),
    ]);
}

/// Shows the watchdog, if there is one, three times in its interval that all is well. It is not
/// if a shard does not turn within a third of the interval: unless that passes, systemd ends the
/// server and starts it again.
///
/// # Errors
/// There is no thread to do so.
pub(crate) fn watch(is_turning: impl Fn(Duration) -> bool + Send + 'static) -> io::Result<()> {
    let Some(interval) = sd_notify::watchdog_enabled() else {
        return Ok(());
    };
    let third = interval / 3;
    let show = move || {
        loop {
            if is_turning(third) {
                tell(&[NotifyState::Watchdog]);
                thread::sleep(third);
            } else {
                tracing::error!("a shard took no turn for {third:?}: the watchdog is not told");
            }
        }
    };
    let thread = thread::Builder::new().name("watchdog".to_owned());
    thread.spawn(show).map(drop)
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "the supervisor behind NOTIFY_SOCKET cannot be told");
    }
}
