//! Bytes in values and records, in one piece: what `serde` would write and read one by one. The
//! encoding is the same, a length and the bytes. For `#[serde(with = "…")]`.

use std::fmt;

use serde::de::Visitor;
use serde::{Deserializer, Serializer};

pub(crate) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
    to.serialize_bytes(bytes)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    from.deserialize_byte_buf(Bytes)
}

struct Bytes;

impl Visitor<'_> for Bytes {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
    }
}

/// The same for bytes that may not be there.
pub(crate) mod optional {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize)]
    struct Borrowed<'a>(#[serde(with = "super")] &'a [u8]);

    #[derive(Deserialize)]
    struct Owned(#[serde(with = "super")] Vec<u8>);

    pub(crate) fn serialize<S: Serializer>(
        bytes: &Option<Vec<u8>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        bytes.as_deref().map(Borrowed).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Vec<u8>>, D::Error> {
        let bytes = Option::<Owned>::deserialize(from)?;
        Ok(bytes.map(|Owned(bytes)| bytes))
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct OneByOne(Vec<u8>, Option<Vec<u8>>, u8);

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct InOnePiece(
        #[serde(with = "super")] Vec<u8>,
        #[serde(with = "super::optional")] Option<Vec<u8>>,
        u8,
    );

    /// Goal: what was written before is read, and the other way round.
    #[test]
    fn bytes_are_encoded_like_a_sequence_of_them() {
        for length in [0, 1, 127, 128, 20_000] {
            let bytes: Vec<u8> = (0..length).map(|at: usize| at as u8).collect();
            for other in [None, Some(Vec::new()), Some(bytes.clone())] {
                let before = OneByOne(bytes.clone(), other.clone(), 7);
                let now = InOnePiece(bytes.clone(), other, 7);
                let encoded = postcard::to_allocvec(&before).unwrap();
                assert_eq!(postcard::to_allocvec(&now).unwrap(), encoded);
                assert_eq!(postcard::from_bytes::<InOnePiece>(&encoded).unwrap(), now);
                for cut in [0, encoded.len() / 2, encoded.len() - 1] {
                    assert!(postcard::from_bytes::<InOnePiece>(&encoded[..cut]).is_err());
                }
            }
        }
    }

    /// Goal: a length that is a lie makes no allocation of that size.
    #[test]
    fn a_length_beyond_the_end_is_an_error() {
        let lie = [0xff, 0xff, 0xff, 0xff, 0x7f, 1, 2, 3];
        assert!(postcard::from_bytes::<InOnePiece>(&lie).is_err());
    }
}
