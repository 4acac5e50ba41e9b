//! Small things std lacks: a generational slab, a timer wheel, time as a value. Nothing here knows
//! what Roost is.

pub mod slab;
pub mod time;
pub mod wheel;
