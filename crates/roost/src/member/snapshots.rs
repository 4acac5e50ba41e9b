//! Snapshots by a schedule: each home stores one of its stream every so many messages, behind which
//! the stream is purged. Owns when; what a snapshot is, and that it is verified first, is the
//! driver's. One at a time on each node.

use cluster::driver::Driver;
use cluster::journal::Seq;
use cluster::layout::StreamId;
use tokio::sync::oneshot::Receiver;
use tokio::sync::oneshot::error::TryRecvError;

/// Messages of a stream between two snapshots.
const MESSAGES: Seq = 100_000;

/// See the module.
pub(super) struct Snapshots<'a> {
    driver: &'a Driver,
    /// By stream: the message from which the next ones are counted.
    from: Vec<Seq>,
    under_way: Option<(StreamId, Receiver<Result<Seq, String>>)>,
}

impl<'a> Snapshots<'a> {
    pub(super) fn new(driver: &'a Driver) -> Self {
        Snapshots {
            driver,
            from: vec![0; driver.layout().streams().count()],
            under_way: None,
        }
    }

    /// Begins one if it is time, and hears what became of the last.
    pub(super) fn look(&mut self) {
        if let Some((stream, result)) = &mut self.under_way {
            let from = &mut self.from[usize::from(stream.0)];
            match result.try_recv() {
                Err(TryRecvError::Empty) => return,
                Ok(Ok(seq)) => {
                    tracing::info!(stream = stream.0, seq, "stored a snapshot");
                    *from = seq;
                }
                Ok(Err(why)) => {
                    tracing::warn!(stream = stream.0, why, "no snapshot was stored");
                    // Not at once again: the stream may be large.
                    *from += MESSAGES / 10;
                }
                Err(TryRecvError::Closed) => {}
            }
            self.under_way = None;
        }
        let is_due = |stream: &StreamId| {
            let progress = self.driver.progress(*stream);
            let from = self.from[usize::from(stream.0)];
            progress.serving != 0 && progress.mark.seq >= from + MESSAGES
        };
        let due = self.driver.layout().streams().find(is_due);
        self.under_way = due.map(|stream| (stream, self.driver.snapshot(stream)));
    }
}
