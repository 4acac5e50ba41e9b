//! Numbers, texts and frames as bytes. Numbers of fixed width are little-endian; the others take
//! seven bits a byte, the lowest first (LEB128), in their shortest form.

use std::sync::Arc;

use xml::Frame;

use crate::limits::{ADDRESS_BYTES_MAX, FRAME_BYTES_MAX};

/// A field that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bad(pub(crate) &'static str);

/// Writes behind what is there. A field over its bound is noted, and ends in an error of the whole.
pub(crate) struct Writer<'a> {
    out: &'a mut Vec<u8>,
    bad: Option<Bad>,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Writer<'a> {
        Writer { out, bad: None }
    }

    pub(crate) fn finish(self) -> Result<(), Bad> {
        self.bad.map_or(Ok(()), Err)
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.out.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    /// A hash or a random number: a short form would be longer.
    pub(crate) fn u64(&mut self, value: u64) {
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }

    /// How many follow.
    pub(crate) fn count(&mut self, count: usize, max: usize, field: &'static str) {
        if count > max {
            self.bad.get_or_insert(Bad(field));
        }
        self.number(count as u64);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8], max: usize, field: &'static str) {
        self.count(bytes.len(), max, field);
        self.out.extend_from_slice(bytes);
    }

    pub(crate) fn address(&mut self, address: &str, field: &'static str) {
        self.bytes(address.as_bytes(), ADDRESS_BYTES_MAX, field);
    }

    pub(crate) fn frame(&mut self, frame: &Frame) {
        self.bytes(frame.as_bytes(), FRAME_BYTES_MAX, "frame");
    }

    pub(crate) fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.u8(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }
}

/// Reads from the front of what is left.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    /// Bytes that are left.
    pub(crate) fn left(&self) -> usize {
        self.0.len()
    }

    fn take(&mut self, length: usize, field: &'static str) -> Result<&'a [u8], Bad> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Bad(field))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Bad> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Bad(field))?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8, Bad> {
        self.array(field).map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16, Bad> {
        self.array(field).map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, Bad> {
        self.array(field).map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self, field: &'static str) -> Result<u64, Bad> {
        self.array(field).map(u64::from_le_bytes)
    }

    pub(crate) fn bool(&mut self, field: &'static str) -> Result<bool, Bad> {
        match self.u8(field)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Bad(field)),
        }
    }

    pub(crate) fn number(&mut self, field: &'static str) -> Result<u64, Bad> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8(field)?;
            // Of the tenth byte one bit is left, and a zero at the end is no shortest form.
            let is_over = shift == 63 && byte > 1 || shift > 0 && byte == 0;
            if is_over {
                return Err(Bad(field));
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Bad(field))
    }

    pub(crate) fn number32(&mut self, field: &'static str) -> Result<u32, Bad> {
        self.number(field)?.try_into().map_err(|_| Bad(field))
    }

    /// How many follow. Each takes a byte at least, so that no more are believed than bytes are
    /// left.
    pub(crate) fn count(&mut self, max: usize, field: &'static str) -> Result<usize, Bad> {
        let count = usize::try_from(self.number(field)?).map_err(|_| Bad(field))?;
        match count <= max && count <= self.left() {
            true => Ok(count),
            false => Err(Bad(field)),
        }
    }

    pub(crate) fn bytes(&mut self, max: usize, field: &'static str) -> Result<&'a [u8], Bad> {
        let length = self.count(max, field)?;
        self.take(length, field)
    }

    pub(crate) fn text(&mut self, max: usize, field: &'static str) -> Result<&'a str, Bad> {
        std::str::from_utf8(self.bytes(max, field)?).map_err(|_| Bad(field))
    }

    pub(crate) fn address(&mut self, field: &'static str) -> Result<Arc<str>, Bad> {
        match self.text(ADDRESS_BYTES_MAX, field)? {
            "" => Err(Bad(field)),
            address => Ok(address.into()),
        }
    }

    /// An element; its index is made anew by the parser, which takes nothing that is no XML.
    pub(crate) fn frame(&mut self) -> Result<Frame, Bad> {
        let bytes = self.bytes(FRAME_BYTES_MAX, "frame")?;
        Frame::parse(bytes).map_err(|_| Bad("frame"))
    }

    pub(crate) fn option<T>(
        &mut self,
        field: &'static str,
        read: impl FnOnce(&mut Self) -> Result<T, Bad>,
    ) -> Result<Option<T>, Bad> {
        match self.bool(field)? {
            true => read(self).map(Some),
            false => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_form() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            Writer::new(&mut bytes).number(value);
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.number("n"), Ok(value));
            assert_eq!(reader.left(), 0);
        }
        let wrong: [&[u8]; 4] = [&[], &[0x80], &[0x80, 0], &[0xff; 10]];
        for bytes in wrong {
            assert_eq!(Reader::new(bytes).number("n"), Err(Bad("n")), "{bytes:?}");
        }
    }

    #[test]
    fn a_count_is_not_believed_beyond_the_bytes() {
        let mut bytes = Vec::new();
        Writer::new(&mut bytes).number(1_000);
        bytes.extend_from_slice(&[0; 999]);
        assert_eq!(Reader::new(&bytes).count(4_096, "n"), Err(Bad("n")));
        bytes.push(0);
        assert_eq!(Reader::new(&bytes).count(4_096, "n"), Ok(1_000));
        assert_eq!(Reader::new(&bytes).count(999, "n"), Err(Bad("n")));
    }

    #[test]
    fn a_field_over_its_bound_is_not_written_unnoticed() {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        writer.bytes(&[0; 9], 8, "short");
        writer.u8(0);
        assert_eq!(writer.finish(), Err(Bad("short")));
    }
}
