//! Format levels: one number for the forms in which a program writes what another version of it may
//! read: records, messages of streams, values of a store, packets between nodes. Owns the number,
//! and which levels this program knows; which form a level has is said beside each form.
//!
//! A program reads every level that it knows, and writes at the one that its deployment (in a
//! cluster) or its store (on a single server) has agreed upon, which is raised by an operator once
//! nobody has to go back: `docs/versions.md`. Whoever meets a level that it does not know stops
//! and says *upgrade*.
//!
//! | level | came with | new in it |
//! |---|---|---|
//! | 1 | the first version | |
//! | 2 | what a cluster may have grown from | a deployment may begin with a single server's data |
//! | 3 | what is larger than a message of a stream | records of parts of an append |
//! | | requests over BOSH that come to any node | the packets about them |

/// A format level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u32);

impl Level {
    /// What everybody knows.
    pub const FIRST: Level = Level(1);

    /// The newest that a release of this program knows.
    pub const NEWEST: Level = Level(3);

    /// The level of this number.
    pub const fn new(number: u32) -> Level {
        Level(number)
    }

    /// Its number.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The newest that this process knows: [`Level::NEWEST`], but for a process that plays the next
    /// version.
    pub fn known() -> Level {
        match is_next_version() {
            true => Level(Level::NEWEST.0 + 1),
            false => Level::NEWEST,
        }
    }

    /// Whether only the next version knows it, as tests play that. A constant in releases.
    pub const fn is_next(self) -> bool {
        cfg!(debug_assertions) && self.0 > Level::NEWEST.0
    }

    /// The version that something is written with at this level. Each of `versions` comes with the
    /// level that it came with, in order; the next version's level has one more.
    pub fn version(self, versions: &[(Level, u8)]) -> u8 {
        let agreed = versions.iter().rev().find(|(since, _)| *since <= self);
        let (_, version) = agreed.or(versions.first()).copied().unwrap_or_default();
        version + u8::from(self.is_next())
    }
}

impl Default for Level {
    fn default() -> Level {
        Level::FIRST
    }
}

impl std::fmt::Display for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether this process plays the version that comes after this one: `ROOST_NEXT_VERSION` is set,
/// in a build with debug assertions. It knows one level more, in which one record, one value, one
/// packet and the messages of streams have other forms. Tests run such processes beside ordinary
/// ones, which are the previous version then; no release has this.
#[cfg(debug_assertions)]
fn is_next_version() -> bool {
    use std::sync::OnceLock;

    static IS: OnceLock<bool> = OnceLock::new();
    *IS.get_or_init(|| std::env::var_os("ROOST_NEXT_VERSION").is_some())
}

/// See above: never.
#[cfg(not(debug_assertions))]
const fn is_next_version() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_has_the_newest_version_that_came_until_then() {
        let versions = [(Level(1), 9), (Level(2), 10)];
        assert_eq!(Level(1).version(&versions), 9);
        assert_eq!(Level(2).version(&versions), 10);
        assert_eq!(Level::NEWEST.version(&versions), 10);
        // The version after this one has one more.
        let next = Level(Level::NEWEST.0 + 1);
        assert_eq!(next.version(&versions), 11);
        // Level 0 was never given to anything.
        assert_eq!(Level(0).version(&versions), 9);
        assert_eq!(Level(2).version(&versions[..1]), 9);
    }

    #[test]
    fn an_ordinary_process_knows_what_a_release_knows() {
        assert_eq!(Level::known(), Level::NEWEST);
        assert!(!Level::NEWEST.is_next());
    }
}
