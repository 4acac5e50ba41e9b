//! A node without ban and allow lists asks others for theirs, until one answers. Owns the thread,
//! and how often; what is taken over is the server's.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use server::admin::Admin;

/// Times that others are asked soon, each after a pause: they may start together with this one.
const SOON: (u32, Duration) = (60, Duration::from_secs(1));

/// Pause before each time after those: the first of a cluster has nobody to ask, for however long.
const LATER: Duration = Duration::from_secs(60);

/// Part of a pause, after which the end of the process is noticed.
const STEP: Duration = Duration::from_millis(100);

/// Begins to ask, unless there is a file of the lists.
pub(super) fn ask(admin: Admin, data: &Path, is_over: &Arc<AtomicBool>) -> Option<JoinHandle<()>> {
    if data.join("bans").exists() {
        return None;
    }
    let is_over = Arc::clone(is_over);
    let ask = move || {
        let rest = |pause: Duration| {
            for _ in 0..pause.as_millis() / STEP.as_millis() {
                if is_over.load(Ordering::Acquire) {
                    return false;
                }
                thread::sleep(STEP);
            }
            true
        };
        // Also if there is a file by now: what is banned meanwhile is banned here too.
        ask_until(rest, || admin.take_lists().is_some());
    };
    let thread = thread::Builder::new().name("lists".to_owned()).spawn(ask);
    thread
        .inspect_err(|error| tracing::error!(%error, "other nodes are not asked for their bans"))
        .ok()
}

/// Asks until somebody has answered. `rest` says whether the process goes on after a pause.
fn ask_until(mut rest: impl FnMut(Duration) -> bool, mut is_answered: impl FnMut() -> bool) {
    for asked in 0_u32.. {
        let pause = if asked < SOON.0 { SOON.1 } else { LATER };
        if !rest(pause) || is_answered() {
            return;
        }
        if asked + 1 == SOON.0 {
            tracing::warn!(
                asked = SOON.0,
                "no other node has said which lists of bans it has: this one has none, and asks \
                 again each minute"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a node asks often after its start, and then slowly for as long as nobody answers; not
    /// after that, nor when the process ends.
    #[test]
    fn others_are_asked_until_one_answers() {
        let mut pauses = Vec::new();
        let mut asked = 0;
        let rest = |pause| {
            pauses.push(pause);
            true
        };
        ask_until(rest, || {
            asked += 1;
            asked == 100
        });
        assert_eq!(pauses.len(), 100);
        assert!(pauses[..60].iter().all(|one| *one == SOON.1));
        assert!(pauses[60..].iter().all(|one| *one == LATER));
        let mut rests = 0;
        let rest = |_| {
            rests += 1;
            rests < 70
        };
        ask_until(rest, || false);
        assert_eq!(rests, 70);
    }
}
