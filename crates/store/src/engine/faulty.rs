//! The fault-injecting twin of an engine: delays, fails, fills the disk and crashes on demand.
//! Wraps any engine and behaves like the real one in what matters: after one failed commit it
//! refuses all further ones until healed, and what was not synced can be lost.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::engine::{Batch, Engine, EngineStats, Reader, Space, Visit};
use crate::error::StoreError;
use crate::overlay::Overlay;
use crate::store::Durability;

/// The switches of a [`FaultyEngine`]; all of them work while it is in use.
#[derive(Debug, Default)]
pub struct Faults {
    read_delay_us: AtomicU64,
    commit_delay_us: AtomicU64,
    commits_to_fail: AtomicU64,
    keep_failed: AtomicBool,
    heals_to_fail: AtomicU64,
    reads_to_pass: AtomicU64,
    reads_to_fail: AtomicU64,
    disk_full: AtomicBool,
    poisoned: AtomicBool,
    heals: AtomicU64,
}

impl Faults {
    /// Every read takes this much longer.
    pub fn set_read_delay(&self, delay: Duration) {
        self.read_delay_us
            .store(delay.as_micros() as u64, Ordering::SeqCst);
    }

    /// Every commit takes this much longer.
    pub fn set_commit_delay(&self, delay: Duration) {
        self.commit_delay_us
            .store(delay.as_micros() as u64, Ordering::SeqCst);
    }

    /// The next `count` commits fail. With `keep`, the batch survives although its commit failed,
    /// and is seen once the engine is healed: the doubtful half of a failed sync.
    pub fn fail_commits(&self, count: u64, keep: bool) {
        self.keep_failed.store(keep, Ordering::SeqCst);
        self.commits_to_fail.store(count, Ordering::SeqCst);
    }

    /// The next `count` attempts to heal fail.
    pub fn fail_heals(&self, count: u64) {
        self.heals_to_fail.store(count, Ordering::SeqCst);
    }

    /// The next `count` reads fail.
    pub fn fail_reads(&self, count: u64) {
        self.reads_to_fail.store(count, Ordering::SeqCst);
    }

    /// So many reads are done before the ones that fail.
    pub fn pass_reads(&self, count: u64) {
        self.reads_to_pass.store(count, Ordering::SeqCst);
    }

    /// While set, commits are refused for lack of space, and healing does not help.
    pub fn set_disk_full(&self, full: bool) {
        self.disk_full.store(full, Ordering::SeqCst);
    }

    /// How often the engine was healed.
    pub fn heals(&self) -> u64 {
        self.heals.load(Ordering::SeqCst)
    }

    fn read(&self) -> Result<(), StoreError> {
        pause(&self.read_delay_us);
        if take_one(&self.reads_to_pass) {
            return Ok(());
        }
        if take_one(&self.reads_to_fail) {
            return Err(StoreError::Io("injected read failure".to_owned()));
        }
        Ok(())
    }
}

fn pause(micros: &AtomicU64) {
    let micros = micros.load(Ordering::SeqCst);
    if micros > 0 {
        thread::sleep(Duration::from_micros(micros));
    }
}

fn take_one(count: &AtomicU64) -> bool {
    count
        .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1))
        .is_ok()
}

/// Wraps an engine. Commits that were not synced are held back from it, so that
/// [`FaultyEngine::crash`] can lose them.
pub struct FaultyEngine<E> {
    inner: E,
    faults: Arc<Faults>,
    /// Batches committed since the last sync, oldest first.
    unsynced: Mutex<VecDeque<Batch>>,
    /// The batch of a failed commit that survives.
    doubtful: Mutex<Option<Batch>>,
}

impl<E: Engine> FaultyEngine<E> {
    /// Wraps `inner`, without any fault to begin with.
    pub fn new(inner: E) -> FaultyEngine<E> {
        FaultyEngine {
            inner,
            faults: Arc::default(),
            unsynced: Mutex::default(),
            doubtful: Mutex::default(),
        }
    }

    /// The switches.
    pub fn faults(&self) -> Arc<Faults> {
        Arc::clone(&self.faults)
    }

    /// The machine loses power: of the batches that were not synced the first `survivors` are kept,
    /// as a disk may have written some of them, and the rest is gone. Returns how many were lost.
    /// Nothing is in doubt afterwards, as after opening a real engine: the batch of a failed commit
    /// that survives is there if all in front of it are.
    ///
    /// # Errors
    /// Any [`StoreError`] of the wrapped engine.
    pub fn crash(&self, survivors: usize) -> Result<usize, StoreError> {
        let mut unsynced = self.unsynced();
        let kept = survivors.min(unsynced.len());
        for batch in unsynced.drain(..kept) {
            self.inner.commit(batch, Durability::Fsync)?;
        }
        let lost = unsynced.len();
        unsynced.clear();
        let doubtful = self.doubtful().take();
        if let Some(batch) = doubtful.filter(|_| lost == 0) {
            self.inner.commit(batch, Durability::Fsync)?;
        }
        self.faults.poisoned.store(false, Ordering::SeqCst);
        Ok(lost)
    }

    fn unsynced(&self) -> MutexGuard<'_, VecDeque<Batch>> {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn doubtful(&self) -> MutexGuard<'_, Option<Batch>> {
        self.doubtful.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sync(&self, batch: Batch) -> Result<(), StoreError> {
        let mut unsynced = self.unsynced();
        while let Some(earlier) = unsynced.pop_front() {
            self.inner.commit(earlier, Durability::Memory)?;
        }
        self.inner.commit(batch, Durability::Fsync)
    }
}

impl<E: Engine> Reader for FaultyEngine<E> {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.faults.read()?;
        for batch in self.unsynced().iter().rev() {
            if let Some(change) = batch.iter().find(|c| c.space == space && *c.key == *key) {
                return Ok(change.value.as_deref().map(<[u8]>::to_vec));
            }
        }
        self.inner.get(space, key)
    }

    fn scan(
        &self,
        space: Space,
        start: &[u8],
        end: &[u8],
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        self.faults.read()?;
        let batches: Vec<Batch> = self.unsynced().iter().cloned().collect();
        if batches.is_empty() {
            return self.inner.scan(space, start, end, visit);
        }
        Overlay::over(&self.inner, batches.into_iter().flatten())
            .scan_merged(space, start, end, visit)
    }

    fn scan_back(
        &self,
        space: Space,
        start: &[u8],
        end: &[u8],
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        if self.unsynced().is_empty() {
            self.faults.read()?;
            return self.inner.scan_back(space, start, end, visit);
        }
        backwards(visit, |visit| self.scan(space, start, end, visit))
    }
}

/// Visits what `scan` finds from its end. Holds all of it: good enough for a twin, which needs it
/// only while something is not synced.
fn backwards(
    visit: Visit<'_>,
    scan: impl FnOnce(Visit<'_>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut found: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    scan(&mut |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    })?;
    for (key, value) in found.iter().rev() {
        if visit(key, value).is_break() {
            break;
        }
    }
    Ok(())
}

/// A snapshot of the wrapped engine with what was not synced at the time.
struct FaultySnapshot {
    inner: Box<dyn Reader>,
    unsynced: Vec<Batch>,
    faults: Arc<Faults>,
}

impl Reader for FaultySnapshot {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.faults.read()?;
        for batch in self.unsynced.iter().rev() {
            if let Some(change) = batch.iter().find(|c| c.space == space && *c.key == *key) {
                return Ok(change.value.as_deref().map(<[u8]>::to_vec));
            }
        }
        self.inner.get(space, key)
    }

    fn scan(
        &self,
        space: Space,
        start: &[u8],
        end: &[u8],
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        self.faults.read()?;
        if self.unsynced.is_empty() {
            return self.inner.scan(space, start, end, visit);
        }
        Overlay::over(&*self.inner, self.unsynced.iter().flatten().cloned())
            .scan_merged(space, start, end, visit)
    }

    fn scan_back(
        &self,
        space: Space,
        start: &[u8],
        end: &[u8],
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        if self.unsynced.is_empty() {
            self.faults.read()?;
            return self.inner.scan_back(space, start, end, visit);
        }
        backwards(visit, |visit| self.scan(space, start, end, visit))
    }
}

impl<E: Engine> Engine for FaultyEngine<E> {
    fn snapshot(&self) -> Result<Box<dyn Reader>, StoreError> {
        let unsynced = self.unsynced();
        Ok(Box::new(FaultySnapshot {
            inner: self.inner.snapshot()?,
            unsynced: unsynced.iter().cloned().collect(),
            faults: self.faults(),
        }))
    }

    fn commit(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        pause(&self.faults.commit_delay_us);
        if self.faults.poisoned.load(Ordering::SeqCst) {
            return Err(StoreError::Poisoned("injected".to_owned()));
        }
        if self.faults.disk_full.load(Ordering::SeqCst) {
            return Err(StoreError::Full);
        }
        if take_one(&self.faults.commits_to_fail) {
            self.faults.poisoned.store(true, Ordering::SeqCst);
            if self.faults.keep_failed.load(Ordering::SeqCst) {
                *self.doubtful() = Some(batch);
            }
            return Err(StoreError::Io("injected commit failure".to_owned()));
        }
        match durability {
            Durability::Fsync => self.sync(batch),
            Durability::Memory => {
                self.unsynced().push_back(batch);
                Ok(())
            }
        }
    }

    fn heal(&self) -> Result<(), StoreError> {
        if !self.faults.poisoned.load(Ordering::SeqCst) {
            return self.inner.heal();
        }
        if self.faults.disk_full.load(Ordering::SeqCst) {
            return Err(StoreError::Full);
        }
        if take_one(&self.faults.heals_to_fail) {
            return Err(StoreError::Unavailable("injected".to_owned()));
        }
        self.inner.heal()?;
        if let Some(batch) = self.doubtful().take() {
            self.sync(batch)?;
        }
        self.faults.heals.fetch_add(1, Ordering::SeqCst);
        self.faults.poisoned.store(false, Ordering::SeqCst);
        Ok(())
    }

    fn is_settled(&self) -> bool {
        !self.faults.poisoned.load(Ordering::SeqCst)
    }

    fn stats(&self) -> EngineStats {
        self.inner.stats()
    }
}
