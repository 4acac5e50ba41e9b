//! Small things std lacks: generational slab, bounded ring, timer wheel, clock.

pub mod time;
