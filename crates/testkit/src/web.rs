//! Streams over WebSocket and BOSH for clients that speak streams: what a client writes to a stream
//! is cut into elements and sent as these transports want it, and what comes back is put together
//! to a stream again. So every script runs over them as it is.
//!
//! What cannot be cut, because it is broken on purpose, is sent as it is, in one piece.

pub(crate) mod bosh;
pub(crate) mod websocket;

use crate::tree::NS_STREAMS;

/// One piece of a stream that a client writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// The start tag of the root.
    Open(String),
    /// An element, or something that is none.
    Element(Vec<u8>),
    /// The end of the root.
    Close,
}

/// Cuts what a client writes; what is incomplete stays until it is asked for.
#[derive(Default)]
pub(crate) struct Cutter {
    rest: Vec<u8>,
}

impl Cutter {
    /// Takes one write of a client, which ends with the end of an element or is broken.
    pub(crate) fn cut(&mut self, bytes: &[u8]) -> Vec<Piece> {
        self.rest.extend_from_slice(bytes);
        let mut pieces = Vec::new();
        loop {
            let start = self.rest.iter().position(|b| !b.is_ascii_whitespace());
            self.rest.drain(..start.unwrap_or(self.rest.len()));
            if self.rest.is_empty() {
                return pieces;
            }
            let (piece, length) = self.first();
            self.rest.drain(..length);
            pieces.extend(piece);
        }
    }

    fn first(&self) -> (Option<Piece>, usize) {
        let rest = &self.rest;
        let tag = tag_end(rest);
        if rest.starts_with(b"<?xml") {
            return (None, tag.unwrap_or(rest.len()));
        }
        if rest.starts_with(b"</stream:stream") {
            return (Some(Piece::Close), tag.unwrap_or(rest.len()));
        }
        if rest.starts_with(b"<stream:stream") {
            let end = tag.unwrap_or(rest.len());
            let text = String::from_utf8_lossy(&rest[..end]).into_owned();
            return (Some(Piece::Open(text)), end);
        }
        let end = element_end(rest).unwrap_or(rest.len());
        (Some(Piece::Element(rest[..end].to_vec())), end)
    }
}

/// Behind the tag at the start.
fn tag_end(bytes: &[u8]) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in bytes.iter().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at + 1),
            (None, b'"' | b'\'') => quote = Some(*byte),
            (Some(open), byte) if open == *byte => quote = None,
            _ => {}
        }
    }
    None
}

/// Behind the element at the start, `None` if it does not end, or is none.
pub(crate) fn element_end(bytes: &[u8]) -> Option<usize> {
    let (mut at, mut depth) = (0, 0usize);
    loop {
        let rest = bytes.get(at..)?;
        let next = rest.iter().position(|byte| *byte == b'<')?;
        at += next;
        let rest = &bytes[at..];
        if rest.starts_with(b"<![CDATA[") {
            let end = rest.windows(3).position(|three| three == b"]]>")?;
            at += end + 3;
            continue;
        }
        if rest.starts_with(b"<!") || rest.starts_with(b"<?") {
            return None;
        }
        let end = tag_end(rest)?;
        at += end;
        if rest.starts_with(b"</") {
            depth = depth.checked_sub(1)?;
        } else if rest[end - 2] != b'/' {
            depth += 1;
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

/// The attributes of a tag, values as they stand between their quotes.
pub(crate) fn attributes(tag: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let name_end = tag.find(|c: char| c.is_whitespace()).unwrap_or(tag.len());
    let mut rest = &tag[name_end..];
    while let Some((name, tail)) = rest.split_once('=') {
        let tail = tail.trim_start();
        let Some(quote) = tail.chars().next().filter(|c| matches!(c, '\'' | '"')) else {
            break;
        };
        let Some((value, tail)) = tail[1..].split_once(quote) else {
            break;
        };
        found.push((name.trim().to_owned(), value.to_owned()));
        rest = tail;
    }
    found
}

/// The header of the stream that an answer opens.
pub(crate) fn header(attributes: &[(String, String)]) -> String {
    let mut text = String::from("<?xml version='1.0'?><stream:stream");
    for (name, value) in attributes {
        if !name.starts_with("xmlns") {
            text.push_str(&format!(" {name}='{value}'"));
        }
    }
    text.push_str(&format!(
        " xmlns='jabber:client' xmlns:stream='{NS_STREAMS}'>"
    ));
    text
}

/// The value of one attribute.
pub(crate) fn attribute<'a>(all: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = all.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_cut_where_its_elements_end() {
        let mut cutter = Cutter::default();
        let pieces = cutter.cut(
            b"<?xml version='1.0'?><stream:stream to='a>b' xmlns='c'> <a x='/>'><a/>\
              <![CDATA[</a>]]></a>\n<b/><!-- no --></stream:stream>",
        );
        let element = |text: &str| Piece::Element(text.as_bytes().to_vec());
        assert_eq!(
            pieces[0],
            Piece::Open("<stream:stream to='a>b' xmlns='c'>".to_owned())
        );
        assert_eq!(pieces[1], element("<a x='/>'><a/><![CDATA[</a>]]></a>"));
        assert_eq!(pieces[2], element("<b/>"));
        assert_eq!(pieces[3], element("<!-- no --></stream:stream>"));
        assert_eq!(cutter.cut(b"</stream:stream>"), [Piece::Close]);
        let all = attributes("<open a='1' b=\"it's\" c ='3'/>");
        assert_eq!(attribute(&all, "b"), Some("it's"));
        assert_eq!(all.len(), 3);
    }
}
