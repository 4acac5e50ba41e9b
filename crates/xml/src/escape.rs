//! Escaping of character data and attribute values. Values are always written in single quotes.

/// Up to so many bytes are looked at in a table, one by one: many at a time are slow to begin with.
const SHORT: usize = 32;

/// What has an entity in attribute values, by byte.
const IN_ATTR: [bool; 256] = {
    let mut table = [false; 256];
    let special = b"&<>'\"\t\n\r";
    let mut at = 0;
    while at < special.len() {
        table[special[at] as usize] = true;
        at += 1;
    }
    table
};

/// Appends `text` as character data.
pub fn text(out: &mut Vec<u8>, text: &str) {
    let is_special = |byte| (byte == b'&') | (byte == b'<') | (byte == b'>') | (byte == b'\r');
    let put = |bytes: &[u8]| out.extend_from_slice(bytes);
    escape(text.as_bytes(), put, is_special, |byte| match byte {
        b'&' => Some(b"&amp;"),
        b'<' => Some(b"&lt;"),
        b'>' => Some(b"&gt;"),
        b'\r' => Some(b"&#xD;"),
        _ => None,
    });
}

/// Appends `value` as the inside of a single-quoted attribute.
pub fn attr(out: &mut Vec<u8>, value: &str) {
    attr_with(value.as_bytes(), |bytes| out.extend_from_slice(bytes));
}

/// The same, into whatever takes bytes.
pub(crate) fn attr_with(value: &[u8], mut put: impl FnMut(&[u8])) {
    let has_entity = |byte: &u8| IN_ATTR[usize::from(*byte)];
    if value.len() <= SHORT && !value.iter().any(has_entity) {
        return put(value);
    }
    let is_quote = |byte| (byte == b'\'') | (byte == b'"');
    let is_space = |byte| (byte == b'\t') | (byte == b'\n') | (byte == b'\r');
    let is_markup = |byte| (byte == b'&') | (byte == b'<') | (byte == b'>');
    let is_special = |byte| is_quote(byte) | is_space(byte) | is_markup(byte);
    escape(value, put, is_special, |byte| match byte {
        b'&' => Some(b"&amp;"),
        b'<' => Some(b"&lt;"),
        b'>' => Some(b"&gt;"),
        b'\'' => Some(b"&apos;"),
        b'"' => Some(b"&quot;"),
        b'\t' => Some(b"&#x9;"),
        b'\n' => Some(b"&#xA;"),
        b'\r' => Some(b"&#xD;"),
        _ => None,
    });
}

/// `is_special` names the bytes that have an entity.
fn escape(
    bytes: &[u8],
    mut put: impl FnMut(&[u8]),
    is_special: impl Fn(u8) -> bool,
    entity: impl Fn(u8) -> Option<&'static [u8]>,
) {
    if !any(bytes, is_special) {
        return put(bytes);
    }
    let mut from = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if let Some(entity) = entity(*byte) {
            put(&bytes[from..at]);
            put(entity);
            from = at + 1;
        }
    }
    put(&bytes[from..]);
}

/// Whether any of the bytes is of a kind. Looks at all of them, many at a time: in nearly every
/// text there is none.
#[inline]
fn any(bytes: &[u8], is_it: impl Fn(u8) -> bool) -> bool {
    bytes.iter().fold(false, |found, byte| found | is_it(*byte))
}

/// Undoes escaping in text that the parser has accepted; `None` if there is nothing to undo.
pub(crate) fn unescape(raw: &str, is_attr: bool) -> Option<String> {
    let special =
        |byte: u8| byte == b'&' || byte == b'\r' || (is_attr && matches!(byte, b'\t' | b'\n'));
    // Of what is below a space the parser has accepted no more than line ends and tabs.
    if !any(raw.as_bytes(), |byte| (byte == b'&') | (byte < b' ')) {
        return None;
    }
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.bytes().position(special) {
        out.push_str(&rest[..at]);
        let tail = &rest[at..];
        rest = match tail.as_bytes()[0] {
            b'&' => match tail.split_once(';') {
                Some((entity, after)) => {
                    out.extend(entity_char(&entity.as_bytes()[1..]));
                    after
                }
                None => "",
            },
            // XML 1.0 section 2.11: a line end is one line feed.
            b'\r' => {
                out.push(if is_attr { ' ' } else { '\n' });
                tail[1..].strip_prefix('\n').unwrap_or(&tail[1..])
            }
            // XML 1.0 section 3.3.3: white space in attributes becomes a space.
            _ => {
                out.push(' ');
                &tail[1..]
            }
        };
    }
    out.push_str(rest);
    Some(out)
}

/// The character that an entity or character reference stands for: the five of XML and numbers.
pub(crate) fn entity_char(name: &[u8]) -> Option<char> {
    match name {
        b"amp" => Some('&'),
        b"lt" => Some('<'),
        b"gt" => Some('>'),
        b"apos" => Some('\''),
        b"quot" => Some('"'),
        [b'#', b'x', digits @ ..] => number(digits, 16),
        [b'#', digits @ ..] => number(digits, 10),
        _ => None,
    }
}

fn number(digits: &[u8], radix: u32) -> Option<char> {
    if digits.is_empty() || digits.len() > 8 {
        return None;
    }
    let mut value = 0u32;
    for digit in digits {
        value = value
            .checked_mul(radix)?
            .checked_add((*digit as char).to_digit(radix)?)?;
    }
    char::from_u32(value).filter(|c| is_char(*c))
}

/// Whether XML can carry a character: the Char production of XML 1.0.
pub fn is_char(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{d7ff}')
        || matches!(c, '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}
