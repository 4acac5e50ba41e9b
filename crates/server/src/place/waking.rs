//! How far a range is with users who are to be loaded although nobody asks for them. Counts how
//! often it came here, so that what was done for the time before says nothing of this one.

use std::sync::atomic::{AtomicU32, Ordering};

/// See the module.
#[derive(Debug)]
pub(super) struct Waking {
    /// How often it came, or begins to.
    came: AtomicU32,
    /// Of which time its users may be woken.
    ready: AtomicU32,
    /// Of which time they are.
    woken: AtomicU32,
}

impl Default for Waking {
    /// It is here, and nobody is woken.
    fn default() -> Waking {
        Waking {
            came: AtomicU32::new(1),
            ready: AtomicU32::new(0),
            woken: AtomicU32::new(0),
        }
    }
}

impl Waking {
    /// Whether everybody is there since it came last.
    pub(super) fn is_done(&self) -> bool {
        self.woken.load(Ordering::Acquire) == self.came.load(Ordering::Acquire)
    }

    /// Everybody is.
    pub(super) fn set_done(&self) {
        let came = self.came.load(Ordering::Acquire);
        self.ready.store(came, Ordering::Release);
        self.woken.store(came, Ordering::Release);
    }

    /// It comes. Whoever brings ranges does so alone.
    pub(super) fn comes(&self) {
        self.came.fetch_add(1, Ordering::AcqRel);
    }

    /// It is here, and its users may be woken.
    pub(super) fn is_here(&self) {
        let came = self.came.load(Ordering::Acquire);
        self.ready.store(came, Ordering::Release);
    }

    /// The time for which users are to be woken, if they are not.
    pub(super) fn due(&self) -> Option<u32> {
        let ready = self.ready.load(Ordering::Acquire);
        (self.woken.load(Ordering::Acquire) != ready).then_some(ready)
    }

    /// They are woken, for that time.
    pub(super) fn woken(&self, time: u32) {
        self.woken.store(time, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: whoever is not loaded may be online from before the range is here until its users were
    /// woken, also if it comes once more while they are.
    #[test]
    fn a_range_that_comes_again_is_woken_again() {
        let one = Waking::default();
        assert!(!one.is_done() && one.due().is_none(), "not here yet");
        one.comes();
        assert!(!one.is_done() && one.due().is_none(), "on its way");
        one.is_here();
        let time = one.due().unwrap();
        one.comes();
        assert!(!one.is_done());
        assert_eq!(one.due(), Some(time), "nobody has woken them");
        one.woken(time);
        assert!(!one.is_done(), "that was before it came again");
        assert_eq!(one.due(), None);
        one.is_here();
        one.woken(one.due().unwrap());
        assert!(one.is_done() && one.due().is_none());
    }

    #[test]
    fn a_range_that_stays_is_woken_once() {
        let one = Waking::default();
        one.set_done();
        assert!(one.is_done() && one.due().is_none());
    }
}
