//! The name productions of XML 1.0 (fifth edition) without the colon: NCName.

/// Byte classes: 1 may start a name, 2 may only continue one, 4 is beyond ASCII.
const CLASS: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => 1,
            b'0'..=b'9' | b'-' | b'.' => 2,
            0x80.. => 4,
            _ => 0,
        };
        byte += 1;
    }
    table
};

/// The class of bytes that only some names have.
pub(crate) const BEYOND_ASCII: u8 = 4;

/// The class of a byte, zero if it cannot be part of a name.
pub(crate) fn name_class(byte: u8) -> u8 {
    CLASS[usize::from(byte)]
}

/// Whether a byte of ASCII may start a name.
pub(crate) fn may_start(byte: u8) -> bool {
    name_class(byte) == 1
}

/// Whether `name`, made of name bytes, is an NCName.
pub(crate) fn is_ncname(name: &[u8]) -> bool {
    let Some(first) = name.first() else {
        return false;
    };
    match CLASS[usize::from(*first)] {
        1 if name.is_ascii() => true,
        1 | 4 => is_ncname_slow(name),
        _ => false,
    }
}

fn is_ncname_slow(name: &[u8]) -> bool {
    let Ok(name) = std::str::from_utf8(name) else {
        return false;
    };
    let mut chars = name.chars();
    chars.next().is_some_and(is_start) && chars.all(is_continue)
}

fn is_start(c: char) -> bool {
    matches!(c,
        'a'..='z' | 'A'..='Z' | '_' | '\u{c0}'..='\u{d6}' | '\u{d8}'..='\u{f6}'
        | '\u{f8}'..='\u{2ff}' | '\u{370}'..='\u{37d}' | '\u{37f}'..='\u{1fff}'
        | '\u{200c}'..='\u{200d}' | '\u{2070}'..='\u{218f}' | '\u{2c00}'..='\u{2fef}'
        | '\u{3001}'..='\u{d7ff}' | '\u{f900}'..='\u{fdcf}' | '\u{fdf0}'..='\u{fffd}'
        | '\u{10000}'..='\u{effff}')
}

fn is_continue(c: char) -> bool {
    is_start(c)
        || matches!(c,
            '-' | '.' | '0'..='9' | '\u{b7}' | '\u{300}'..='\u{36f}' | '\u{203f}'..='\u{2040}')
}
