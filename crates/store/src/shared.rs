//! Bytes that a record shares with whoever made it, so that a message is not copied on its way to
//! the journal. Owns nothing but their type.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::octets;

/// A shared buffer, or as much of its beginning as is meant.
#[derive(Clone, Default)]
pub struct SharedBytes {
    buffer: Arc<[u8]>,
    len: usize,
}

impl SharedBytes {
    /// The first `len` bytes of a buffer, or all of it if it has fewer.
    pub fn beginning(buffer: Arc<[u8]>, len: usize) -> SharedBytes {
        let len = len.min(buffer.len());
        SharedBytes { buffer, len }
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

impl From<Vec<u8>> for SharedBytes {
    fn from(bytes: Vec<u8>) -> SharedBytes {
        SharedBytes::from(&bytes[..])
    }
}

impl From<&[u8]> for SharedBytes {
    fn from(bytes: &[u8]) -> SharedBytes {
        SharedBytes {
            buffer: Arc::from(bytes),
            len: bytes.len(),
        }
    }
}

impl PartialEq for SharedBytes {
    fn eq(&self, other: &SharedBytes) -> bool {
        **self == **other
    }
}

impl Eq for SharedBytes {}

impl fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl Serialize for SharedBytes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(self)
    }
}

impl<'de> Deserialize<'de> for SharedBytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<SharedBytes, D::Error> {
        octets::deserialize(from).map(SharedBytes::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_is_read_and_encoded_like_bytes_of_its_own() {
        let buffer: Arc<[u8]> = Arc::from(&b"<message/>index"[..]);
        let shared = SharedBytes::beginning(Arc::clone(&buffer), 10);
        assert_eq!(shared, SharedBytes::from(b"<message/>".to_vec()));
        assert_eq!(SharedBytes::beginning(buffer, 99).len(), 15);
        let encoded = postcard::to_allocvec(&shared).unwrap();
        assert_eq!(encoded, postcard::to_allocvec(&shared.to_vec()).unwrap());
        let decoded: SharedBytes = postcard::from_bytes(&encoded).unwrap();
        assert_eq!(decoded, shared);
    }
}
