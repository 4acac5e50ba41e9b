//! What a stream costs its home: how many messages it had lately. Owns the unit and the memory,
//! which is long enough that homes do not follow every burst.

/// Looks that are remembered, about: half a minute of them.
const LOOKS: u64 = 64;

/// The load of one stream. Every node that follows it counts the same, so that a new home goes on
/// where the one before was.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load {
    /// Messages of the last [`LOOKS`] looks, in parts of that many.
    parts: u64,
}

impl Load {
    /// So many messages came since the last look.
    pub fn add(&mut self, messages: u64) {
        self.parts -= self.parts / LOOKS;
        self.parts = self.parts.saturating_add(messages.saturating_mul(LOOKS));
    }

    /// Messages of the last [`LOOKS`] looks.
    pub fn value(&self) -> u32 {
        u32::try_from(self.parts / LOOKS).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a steady load is its rate, a burst counts little and is forgotten, and no number of
    /// messages is too many.
    #[test]
    fn a_load_is_what_came_lately() {
        let mut load = Load::default();
        (0..1_000).for_each(|_| load.add(10));
        assert!(load.value().abs_diff(640) <= 10, "{load:?}");
        load.add(100);
        assert!(load.value().abs_diff(730) <= 10, "{load:?}");
        (0..10_000).for_each(|_| load.add(0));
        assert_eq!(load.value(), 0);
        load.add(u64::MAX);
        load.add(u64::MAX);
        assert_eq!(load.value(), u32::MAX);
    }
}
