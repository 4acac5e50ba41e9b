//! How an id is written: the place of its message, in digits.

/// Digits of an id: always as many, so that ids compare like the places that they stand for.
const DIGITS: usize = 16;

/// The stanza-id of a place in a log.
pub(crate) fn id_of(seq: u64) -> String {
    Digits::of(seq).as_str().to_owned()
}

/// The same without memory of its own.
pub(super) struct Digits([u8; DIGITS]);

impl Digits {
    pub(super) fn of(seq: u64) -> Digits {
        Digits(std::array::from_fn(|at| {
            let shift = 4 * (DIGITS - 1 - at);
            b"0123456789abcdef"[(seq >> shift & 0xf) as usize]
        }))
    }

    pub(super) fn as_str(&self) -> &str {
        // Invariant: digits are ASCII.
        std::str::from_utf8(&self.0).expect("digits")
    }
}

/// The place that a stanza-id stands for, if it is one of ours.
pub(crate) fn seq_of(id: &str) -> Option<u64> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if id.len() != DIGITS || !id.bytes().all(is_digit) {
        return None;
    }
    u64::from_str_radix(id, 16).ok()
}
