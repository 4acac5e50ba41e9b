//! How often each thing happened in a world, beside its states: kept in them, it would make many of
//! one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Steps of a world by what happened in them.
#[derive(Clone, Debug)]
pub(crate) struct Reached {
    names: &'static [&'static str],
    times: Arc<Vec<AtomicU64>>,
}

impl Reached {
    pub(crate) fn new(names: &'static [&'static str]) -> Self {
        let times = names.iter().map(|_| AtomicU64::new(0)).collect();
        Reached {
            names,
            times: Arc::new(times),
        }
    }

    /// One more step in which this happened.
    pub(crate) fn note(&self, happened: &[bool]) {
        for (times, _) in self.times.iter().zip(happened).filter(|(_, did)| **did) {
            times.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What happened, and in how many steps.
    pub(crate) fn table(&self) -> Vec<(&'static str, u64)> {
        let times = self.times.iter().map(|times| times.load(Ordering::Relaxed));
        let all = self.names.iter().copied().zip(times);
        all.filter(|(_, times)| *times > 0).collect()
    }
}

/// Each thing that may happen, with its name in the table.
macro_rules! seen {
    ($($field:ident: $name:literal,)*) => {
        /// What happened in the last step. It makes no state another one.
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct Seen {
            $(pub(crate) $field: bool,)*
        }

        impl Seen {
            pub(crate) const NAMES: &[&'static str] = &[$($name,)*];

            pub(crate) fn all(&self) -> [bool; Seen::NAMES.len()] {
                [$(self.$field,)*]
            }
        }

        impl PartialEq for Seen {
            fn eq(&self, _: &Seen) -> bool {
                true
            }
        }

        impl Eq for Seen {}

        impl std::hash::Hash for Seen {
            fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
        }
    };
}
pub(crate) use seen;
