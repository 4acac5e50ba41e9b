//! Light scanning of what a server sends: cuts a byte stream into top-level elements and reads the
//! few attributes and texts a load client needs.
//!
//! It checks only what it must to find the end of an element. Judging a server's XML is not its
//! job: a strict parser here would cost the machine under test more than the client's own work.

use memchr::{memchr, memchr3, memmem};

/// Largest element a client waits for; a server that sends more fails the client's session.
/// A roster of 10,000 contacts takes about 1 MiB.
pub(crate) const ELEMENT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// One thing found at the top level of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item<'a> {
    /// The opening tag of the stream.
    Open(Element<'a>),
    /// A complete child of the stream.
    Stanza(Element<'a>),
    /// The closing tag of the stream.
    Close,
}

/// What one step of the scanner found and how many bytes of the input it is done with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step<'a> {
    /// Bytes to drop from the front of the input.
    pub(crate) consumed: usize,
    /// `None`: more input is needed.
    pub(crate) item: Option<Item<'a>>,
}

/// The input cannot be the XML of a stream; the text says what was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// A complete element (or, for a stream's opening tag, just that tag) as it stood in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Element<'a> {
    bytes: &'a [u8],
    /// Bytes of the start tag, its `>` included.
    tag: usize,
}

/// Finds the next top-level item of `input`. The caller keeps unconsumed bytes and presents them
/// again with more behind them; an incomplete element is scanned anew each time.
pub(crate) fn next(input: &[u8]) -> Result<Step<'_>, Malformed> {
    let mut at = 0;
    loop {
        let blank = input[at..]
            .iter()
            .take_while(|byte| byte.is_ascii_whitespace())
            .count();
        at += blank;
        let rest = &input[at..];
        match rest {
            [] | [b'<'] => {
                return Ok(Step {
                    consumed: at,
                    item: None,
                });
            }
            [b'<', b'?', ..] => match memmem::find(rest, b"?>") {
                Some(end) => at += end + 2,
                None => return incomplete(at, rest),
            },
            [b'<', b'/', ..] => {
                return match memchr(b'>', rest) {
                    Some(end) => Ok(Step {
                        consumed: at + end + 1,
                        item: Some(Item::Close),
                    }),
                    None => incomplete(at, rest),
                };
            }
            [b'<', ..] => {
                let Some(tag) = tag_end(rest) else {
                    return incomplete(at, rest);
                };
                if is_stream_open(rest) {
                    let open = Element {
                        bytes: &rest[..tag],
                        tag,
                    };
                    return Ok(Step {
                        consumed: at + tag,
                        item: Some(Item::Open(open)),
                    });
                }
                return match element_end(rest, tag)? {
                    Some(end) => {
                        let element = Element {
                            bytes: &rest[..end],
                            tag,
                        };
                        Ok(Step {
                            consumed: at + end,
                            item: Some(Item::Stanza(element)),
                        })
                    }
                    None => incomplete(at, rest),
                };
            }
            _ => return Err(Malformed("text between stanzas")),
        }
    }
}

fn incomplete(at: usize, rest: &[u8]) -> Result<Step<'_>, Malformed> {
    if rest.len() > ELEMENT_BYTES_MAX {
        return Err(Malformed("an element larger than 4 MiB"));
    }
    Ok(Step {
        consumed: at,
        item: None,
    })
}

fn is_stream_open(rest: &[u8]) -> bool {
    rest.starts_with(b"<stream:stream")
        && rest
            .get(14)
            .is_some_and(|byte| byte.is_ascii_whitespace() || *byte == b'>')
}

/// Length of the tag at the start of `input`, quotes respected.
fn tag_end(input: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        let found = at + memchr3(b'>', b'"', b'\'', input.get(at..)?)?;
        let byte = input[found];
        if byte == b'>' {
            return Some(found + 1);
        }
        at = found + 1;
        at += memchr(byte, input.get(at..)?)? + 1;
    }
}

/// Length of the whole element whose start tag has `tag` bytes; `None` if its end is not there yet.
fn element_end(input: &[u8], tag: usize) -> Result<Option<usize>, Malformed> {
    if input[tag - 2] == b'/' {
        return Ok(Some(tag));
    }
    let mut depth = 1_u32;
    let mut at = tag;
    loop {
        let Some(open) = memchr(b'<', &input[at..]) else {
            return Ok(None);
        };
        let rest = &input[at + open..];
        let length = match rest.get(1) {
            None => return Ok(None),
            Some(b'/') => {
                let Some(end) = memchr(b'>', rest) else {
                    return Ok(None);
                };
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(at + open + end + 1));
                }
                end + 1
            }
            Some(b'!') => match skip_section(rest)? {
                Some(end) => end,
                None => return Ok(None),
            },
            Some(b'?') => return Err(Malformed("a processing instruction")),
            Some(_) => {
                let Some(end) = tag_end(rest) else {
                    return Ok(None);
                };
                if rest[end - 2] != b'/' {
                    depth += 1;
                }
                end
            }
        };
        at += open + length;
    }
}

/// Length of the CDATA section or comment at the start of `rest`.
fn skip_section(rest: &[u8]) -> Result<Option<usize>, Malformed> {
    for (start, end) in [
        (&b"<![CDATA["[..], &b"]]>"[..]),
        (&b"<!--"[..], &b"-->"[..]),
    ] {
        if rest.starts_with(start) {
            return Ok(memmem::find(&rest[start.len()..], end)
                .map(|found| start.len() + found + end.len()));
        }
        if start.starts_with(rest) {
            return Ok(None);
        }
    }
    Err(Malformed("a declaration inside a stanza"))
}

impl<'a> Element<'a> {
    /// The whole element.
    #[cfg(test)]
    fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The qualified name as written, prefix included.
    pub(crate) fn name(&self) -> &'a [u8] {
        let tag = &self.bytes[1..self.tag - 1];
        let end = tag
            .iter()
            .position(|byte| byte.is_ascii_whitespace() || *byte == b'/')
            .unwrap_or(tag.len());
        &tag[..end]
    }

    /// The raw value of the attribute written as `name`; entities are left as they are.
    pub(crate) fn attr(&self, name: &str) -> Option<&'a [u8]> {
        let mut rest = &self.bytes[1 + self.name().len()..self.tag - 1];
        loop {
            let start = rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
            rest = &rest[start..];
            let equals = memchr(b'=', rest)?;
            let key = rest[..equals].trim_ascii_end();
            let value = rest[equals + 1..].trim_ascii_start();
            let quote = *value.first()?;
            let end = memchr(quote, &value[1..])?;
            if key == name.as_bytes() {
                return Some(&value[1..=end]);
            }
            rest = &value[end + 2..];
        }
    }

    /// Whether `needle` occurs in the element's bytes. Needles are chosen so that they cannot
    /// occur in text, where `<` is escaped.
    pub(crate) fn has(&self, needle: &str) -> bool {
        memmem::find(self.bytes, needle.as_bytes()).is_some()
    }

    /// How often `needle` occurs in the element's bytes.
    pub(crate) fn count(&self, needle: &str) -> usize {
        memmem::find_iter(self.bytes, needle.as_bytes()).count()
    }

    /// The text up to the first `<` inside the element itself.
    pub(crate) fn text(&self) -> &'a [u8] {
        let inner = &self.bytes[self.tag..];
        &inner[..memchr(b'<', inner).unwrap_or(0)]
    }

    /// The first descendant that starts with `tag`, such as `<body`, if it is complete.
    pub(crate) fn find(&self, tag: &str) -> Option<Element<'a>> {
        let mut from = self.tag;
        while let Some(found) = memmem::find(&self.bytes[from..], tag.as_bytes()) {
            let rest = &self.bytes[from + found..];
            let after = *rest.get(tag.len())?;
            if after.is_ascii_whitespace() || after == b'>' || after == b'/' {
                let tag = tag_end(rest)?;
                let end = element_end(rest, tag).ok()??;
                return Some(Element {
                    bytes: &rest[..end],
                    tag,
                });
            }
            from += found + tag.len();
        }
        None
    }

    /// The name of the first child: the defined condition of an error, as `not-authorized`.
    pub(crate) fn first_child(&self) -> Option<&'a [u8]> {
        let rest = &self.bytes[self.tag..];
        let start = memchr(b'<', rest)? + 1;
        let name = &rest[start..];
        let end = name.iter().position(|byte| b" />\t\r\n".contains(byte))?;
        (end > 0).then(|| &name[..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = b"<?xml version='1.0'?><stream:stream from='localhost' id='a>b' \
        version='1.0'><stream:features><mechanisms><mechanism>PLAIN</mechanism></mechanisms>\
        </stream:features> \n<message from='u1@d/x' id=\"it's\"><body>a &lt; b > c</body>\
        <x><![CDATA[</message>]]><!-- <x> --></x></message><presence/></stream:stream>";

    fn owned(item: Item<'_>) -> (u8, Vec<u8>) {
        match item {
            Item::Open(element) => (0, element.bytes().to_vec()),
            Item::Stanza(element) => (1, element.bytes().to_vec()),
            Item::Close => (2, Vec::new()),
        }
    }

    fn scan(chunks: impl Iterator<Item = Vec<u8>>) -> Vec<(u8, Vec<u8>)> {
        let mut kept = Vec::new();
        let mut found = Vec::new();
        for chunk in chunks {
            kept.extend_from_slice(&chunk);
            loop {
                let step = next(&kept).unwrap();
                let item = step.item.map(owned);
                kept.drain(..step.consumed);
                match item {
                    Some(item) => found.push(item),
                    None => break,
                }
            }
        }
        assert!(kept.is_empty(), "left over: {kept:?}");
        found
    }

    /// Goal: chunk boundaries never matter. Method: every split into two, and single bytes.
    #[test]
    fn items_are_the_same_however_the_stream_is_cut() {
        let whole = scan(std::iter::once(STREAM.to_vec()));
        assert_eq!(whole.len(), 5);
        assert_eq!(
            whole.iter().map(|item| item.0).collect::<Vec<_>>(),
            [0, 1, 1, 1, 2]
        );
        for cut in 1..STREAM.len() {
            let parts = [STREAM[..cut].to_vec(), STREAM[cut..].to_vec()];
            assert_eq!(scan(parts.into_iter()), whole, "cut at {cut}");
        }
        assert_eq!(scan(STREAM.iter().map(|byte| vec![*byte])), whole);
    }

    #[test]
    fn attributes_and_texts_are_read_from_either_quote() {
        let bytes = b"<message  from='u1@d/x' to = \"y\" data-id='9' id=\"it's\"><body>hi</body>\
            <error type='cancel'><gone xmlns='x'/></error></message>";
        let Some(Item::Stanza(stanza)) = next(bytes).unwrap().item else {
            panic!("no stanza")
        };
        assert_eq!(stanza.name(), b"message");
        assert_eq!(stanza.attr("from"), Some(&b"u1@d/x"[..]));
        assert_eq!(stanza.attr("to"), Some(&b"y"[..]));
        assert_eq!(stanza.attr("id"), Some(&b"it's"[..]));
        assert_eq!(stanza.attr("absent"), None);
        assert_eq!(
            stanza.find("<body").map(|body| body.text()),
            Some(&b"hi"[..])
        );
        assert_eq!(stanza.find("<bod"), None);
        let error = stanza.find("<error").unwrap();
        assert_eq!(error.first_child(), Some(&b"gone"[..]));
    }

    #[test]
    fn what_is_not_a_stream_is_refused() {
        for bytes in [
            &b"HTTP/1.1 400 Bad"[..],
            b"<a><?pi?></a>",
            b"<a><!DOCTYPE x></a>",
        ] {
            assert!(next(bytes).is_err(), "{bytes:?}");
        }
        assert_eq!(next(b"<!").unwrap().item, None);
    }

    proptest::proptest! {
        /// Whatever a server sends, scanning ends without a panic and never consumes too much.
        #[test]
        fn arbitrary_bytes_never_panic(bytes in r#"[-<>/!?'"= a\[\]]{0,64}"#) {
            if let Ok(step) = next(bytes.as_bytes()) {
                assert!(step.consumed <= bytes.len());
                if let Some(Item::Stanza(stanza) | Item::Open(stanza)) = step.item {
                    let _ = (stanza.name(), stanza.attr("a"), stanza.text(), stanza.first_child());
                    let _ = stanza.find("<a");
                }
            }
        }
    }
}
