//! The functions whose closure is the orbit.
//!
//! Owns the five generators over `0..size` and the sets of them that have names. Deliberately not
//! here: which vertices are known. The Fibonacci numbers inside are computed by naive recursion on
//! purpose: that makes the work per vertex irregular, which is what the benchmark is about. A table
//! of them ([`Fib::Table`]) leaves only the work of the runtime.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The largest space, so that a vertex fits four bytes and one value is left for "none".
pub const SIZE_MAX: u32 = u32::MAX - 1;

/// The largest argument that a generator asks the Fibonacci function for.
const FIB_MAX: usize = 30;

/// How Fibonacci numbers are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fib {
    /// By naive recursion, as the published benchmark does: up to a few milliseconds for one.
    #[default]
    Naive,
    /// From a table.
    Table,
}

/// `fib(0) = fib(1) = 1`, in exponential time.
fn naive(n: u32) -> u64 {
    if n < 2 {
        1
    } else {
        naive(n - 1) + naive(n - 2)
    }
}

const TABLE: [u64; FIB_MAX + 1] = {
    let mut table = [1; FIB_MAX + 1];
    let mut n = 2;
    while n <= FIB_MAX {
        table[n] = table[n - 1] + table[n - 2];
        n += 1;
    }
    table
};

impl Fib {
    fn of(self, n: u32) -> i128 {
        i128::from(match self {
            Fib::Naive => naive(std::hint::black_box(n)),
            Fib::Table => TABLE[n as usize],
        })
    }
}

/// One function from a vertex to a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Generator {
    /// Linear in the vertex.
    F1,
    /// Quadratic.
    F2,
    /// Cubic.
    F3,
    /// A constant of three, seldom an expensive one.
    F4,
    /// A constant of three, very seldom a very expensive one.
    F5,
}

impl Generator {
    /// The image of `x` in a space of `size` vertices.
    pub fn image(self, x: u32, size: u32, fib: Fib) -> u32 {
        let n = i128::from(x);
        let at = x % 16;
        let value = match self {
            Generator::F1 => fib.of(at) + n,
            Generator::F2 => fib.of(5 + at) + 2 * n * n + 5 * n - 1,
            Generator::F3 => fib.of(10 + at) - n * n * n + 8 * n,
            Generator::F4 => {
                let k = match x % 100 {
                    0..49 => 1,
                    49..98 => 2,
                    _ => 3,
                };
                fib.of(8 * k + 3) - 1
            }
            Generator::F5 => {
                let k = match x % 1000 {
                    0..900 => 1,
                    900..999 => 2,
                    _ => 3,
                };
                fib.of(10 * k) + 1
            }
        };
        // The remainder of four bytes' worth of space fits four bytes.
        (value.unsigned_abs() % u128::from(size)) as u32
    }
}

/// A set of generators, by its name: `g` and the digits of its members in ascending order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generators(Vec<Generator>);

impl Generators {
    /// The members.
    pub fn iter(&self) -> impl Iterator<Item = Generator> + '_ {
        self.0.iter().copied()
    }

    /// The member at a position.
    ///
    /// # Panics
    /// At [`Generators::count`] and beyond.
    pub fn at(&self, index: usize) -> Generator {
        self.0[index]
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// The text does not name a set of generators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoGenerators;

impl fmt::Display for NoGenerators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a set of generators is `g` and some of 12345 in ascending order")
    }
}

impl std::error::Error for NoGenerators {}

impl FromStr for Generators {
    type Err = NoGenerators;

    fn from_str(name: &str) -> Result<Self, NoGenerators> {
        let digits = name.strip_prefix('g').ok_or(NoGenerators)?;
        if digits.is_empty() || !digits.as_bytes().is_sorted_by(|a, b| a < b) {
            return Err(NoGenerators);
        }
        let one = |digit: char| match digit {
            '1' => Ok(Generator::F1),
            '2' => Ok(Generator::F2),
            '3' => Ok(Generator::F3),
            '4' => Ok(Generator::F4),
            '5' => Ok(Generator::F5),
            _ => Err(NoGenerators),
        };
        digits
            .chars()
            .map(one)
            .collect::<Result<_, _>>()
            .map(Generators)
    }
}

impl fmt::Display for Generators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("g")?;
        for generator in &self.0 {
            write!(f, "{}", *generator as u8 + 1)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_fibonacci_agree() {
        for n in 0..=FIB_MAX as u32 {
            assert_eq!(Fib::Naive.of(n), Fib::Table.of(n));
        }
    }

    #[test]
    fn images_stay_in_the_space_at_its_largest() {
        let all: Generators = "g12345".parse().unwrap();
        for size in [1, 2, 60_000_000, SIZE_MAX] {
            for x in [0, 1, 98, 999, size - 1] {
                assert!(all.iter().all(|g| g.image(x, size, Fib::Table) < size));
            }
        }
    }

    #[test]
    fn names_of_sets_are_read_strictly() {
        for name in ["g1", "g13", "g12345"] {
            assert_eq!(name.parse::<Generators>().unwrap().to_string(), name);
        }
        for bad in ["", "g", "12", "g21", "g11", "g6", "g0", "g1 ", "G1"] {
            assert_eq!(bad.parse::<Generators>(), Err(NoGenerators));
        }
    }
}
