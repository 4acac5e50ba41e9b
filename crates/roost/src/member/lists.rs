//! A node without ban and allow lists asks others for theirs, for a while after its start. Owns the
//! thread; what is taken over is the server's.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use server::admin::Admin;

/// Times that others are asked: the first of a cluster has nobody to ask.
const ATTEMPTS: u32 = 60;

/// Steps of the pause between two of them, so that the end of the process is noticed.
const STEPS: (u32, Duration) = (10, Duration::from_millis(100));

/// Begins to ask, unless there is a file of the lists.
pub(super) fn ask(admin: Admin, data: &Path, is_over: &Arc<AtomicBool>) -> Option<JoinHandle<()>> {
    if data.join("bans").exists() {
        return None;
    }
    let is_over = Arc::clone(is_over);
    let ask = move || {
        for _ in 0..ATTEMPTS {
            for _ in 0..STEPS.0 {
                if is_over.load(Ordering::Acquire) {
                    return;
                }
                thread::sleep(STEPS.1);
            }
            if admin.take_lists().is_some() {
                return;
            }
        }
    };
    let thread = thread::Builder::new().name("lists".to_owned()).spawn(ask);
    thread
        .inspect_err(|error| tracing::error!(%error, "other nodes are not asked for their bans"))
        .ok()
}
