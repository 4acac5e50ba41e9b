//! What the engine's things are called, and which ranges share a stream. Owns the names and the
//! division; whether these things are there, and right, is asked elsewhere.

use store::{RANGES, RangeId};

/// Most streams that a deployment can have: one for each range.
pub const STREAMS_MAX: u16 = RANGES;

/// Streams of a deployment unless its operator chooses otherwise.
pub const STREAMS_DEFAULT: u16 = 16;

/// One replicated stream: the journal of several ranges, and the unit of home and take-over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u16);

/// How a deployment divides its ranges, and what it calls its things. Fixed when it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    prefix: String,
    streams: u16,
}

/// Why a layout cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The ranges cannot be divided evenly.
    #[error("{0} streams: choose a power of two from 1 to {STREAMS_MAX}")]
    Streams(u16),
    /// The name would not do as a part of a subject.
    #[error("{0:?} is no name: 1 to 32 letters, digits, - or _")]
    Prefix(String),
}

impl Layout {
    /// `prefix` is the deployment's name, with which everything in the engine begins.
    ///
    /// # Errors
    /// A number of streams that does not divide the ranges, or a name with characters that a
    /// subject gives a meaning.
    pub fn new(prefix: &str, streams: u16) -> Result<Layout, LayoutError> {
        if streams == 0 || !RANGES.is_multiple_of(streams) {
            return Err(LayoutError::Streams(streams));
        }
        let is_good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if prefix.is_empty() || prefix.len() > 32 || !prefix.chars().all(is_good) {
            return Err(LayoutError::Prefix(prefix.to_owned()));
        }
        Ok(Layout {
            prefix: prefix.to_owned(),
            streams,
        })
    }

    /// All streams.
    pub fn streams(&self) -> impl Iterator<Item = StreamId> + use<> {
        (0..self.streams).map(StreamId)
    }

    /// The stream that a range's appends go to.
    pub fn stream_of(&self, range: RangeId) -> StreamId {
        StreamId(range.index() / (RANGES / self.streams))
    }

    /// The ranges that share a stream: a contiguous run.
    pub fn ranges(&self, stream: StreamId) -> Vec<RangeId> {
        RangeId::all()
            .filter(|range| self.stream_of(*range) == stream)
            .collect()
    }

    /// Name of a stream in the engine.
    pub fn stream_name(&self, stream: StreamId) -> String {
        format!("{}-{}", self.prefix, stream.0)
    }

    /// The one subject of a stream.
    pub fn subject(&self, stream: StreamId) -> String {
        format!("{}.journal.{}", self.prefix, stream.0)
    }

    /// Name of the bucket with homes and leases.
    pub fn map_bucket(&self) -> String {
        format!("{}-map", self.prefix)
    }

    /// Name of the stream below it.
    pub fn map_stream(&self) -> String {
        format!("KV_{}", self.map_bucket())
    }

    /// Name of the bucket with snapshots.
    pub fn snapshot_bucket(&self) -> String {
        format!("{}-snapshots", self.prefix)
    }

    /// Name of the stream below it.
    pub fn snapshot_stream(&self) -> String {
        format!("OBJ_{}", self.snapshot_bucket())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_divide_the_ranges_evenly_and_in_order() {
        for streams in [1, 2, 16, 128] {
            let layout = Layout::new("roost", streams).unwrap();
            let mut all = Vec::new();
            for stream in layout.streams() {
                let ranges = layout.ranges(stream);
                assert_eq!(ranges.len(), usize::from(RANGES / streams));
                all.extend(ranges);
            }
            assert!(all.into_iter().eq(RangeId::all()));
        }
        assert_eq!(Layout::new("roost", 3), Err(LayoutError::Streams(3)));
        assert_eq!(Layout::new("roost", 0), Err(LayoutError::Streams(0)));
        for name in ["", "a.b", "a b", "*", &"x".repeat(33)] {
            assert!(matches!(Layout::new(name, 16), Err(LayoutError::Prefix(_))));
        }
    }
}
