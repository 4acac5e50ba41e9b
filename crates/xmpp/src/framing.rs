//! What a server writes to a stream, cut into what stands alone: for transports that carry one
//! element at a time and no stream around them, WebSocket (RFC 7395 section 3.3) and BOSH
//! (XEP-0124 section 6). Whoever writes, a machine or a user, writes a stream and knows nothing of
//! this; it looks at tags only, because it gets only what was parsed or written here.

use memchr::memchr;

use crate::ns;

/// One piece of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// The start tag of its root.
    Open(&'a [u8]),
    /// A complete top-level element.
    Element(&'a [u8]),
    /// The end of its root.
    Close,
}

const DECLARATION: &[u8] = b"<?xml version='1.0'?>";
const ROOT: &[u8] = b"<stream:stream";
const ROOT_END: &[u8] = b"</stream:stream>";

/// The pieces of what was written to a stream, in order.
pub fn pieces(written: &[u8]) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = written;
    std::iter::from_fn(move || {
        rest = rest.strip_prefix(DECLARATION).unwrap_or(rest);
        if rest.is_empty() {
            return None;
        }
        let (piece, length) = if rest.starts_with(ROOT_END) {
            (Piece::Close, ROOT_END.len())
        } else if rest.starts_with(ROOT) {
            let end = tag_end(rest);
            (Piece::Open(&rest[..end]), end)
        } else {
            // What is no element is not written; if it were, it would leave as it is.
            let end = xml::element_end(rest).unwrap_or(rest.len());
            (Piece::Element(&rest[..end]), end)
        };
        rest = &rest[length..];
        Some(piece)
    })
}

/// Behind the start tag that the input begins with.
fn tag_end(input: &[u8]) -> usize {
    let mut at = 0;
    while let Some(byte) = input.get(at) {
        at += 1;
        match byte {
            b'>' => return at,
            b'"' | b'\'' => at += memchr(*byte, &input[at..]).map_or(input.len(), |end| end + 1),
            _ => {}
        }
    }
    input.len()
}

/// The attributes of a start tag: names, and values with their quotes.
fn attributes(tag: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let mut rest = &tag[name_end(tag)..];
    std::iter::from_fn(move || {
        let start = rest.iter().position(|byte| !is_space(byte))?;
        let equals = memchr(b'=', rest).filter(|_| !matches!(rest[start], b'>' | b'/'))?;
        let name = rest[start..equals].trim_ascii_end();
        let open = equals + 1 + rest[equals + 1..].iter().position(|byte| !is_space(byte))?;
        let close = open + 1 + memchr(rest[open], &rest[open + 1..])?;
        let value = &rest[open..=close];
        rest = &rest[close + 1..];
        Some((name, value))
    })
}

/// Behind the name of a start tag.
fn name_end(tag: &[u8]) -> usize {
    let is_end = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'/' | b'>');
    tag.iter().position(is_end).unwrap_or(tag.len())
}

/// Writes an element with the declarations that the stream's root would have made for it
/// (RFC 7395 section 3.3.3): its content namespace, and the prefix of the stream's own elements.
pub fn write_alone(element: &[u8], out: &mut Vec<u8>) {
    let name = name_end(element);
    let tag = &element[..tag_end(element)];
    let (missing, ns) = match element.starts_with(b"<stream:") {
        true => (&b"xmlns:stream"[..], ns::STREAMS),
        false => (&b"xmlns"[..], ns::CLIENT),
    };
    out.extend_from_slice(&element[..name]);
    if !attributes(tag).any(|(attribute, _)| attribute == missing) {
        out.push(b' ');
        out.extend_from_slice(missing);
        out.extend_from_slice(b"='");
        out.extend_from_slice(ns.as_bytes());
        out.push(b'\'');
    }
    out.extend_from_slice(&element[name..]);
}

/// Writes the `<open/>` of a stream's header (RFC 7395 section 3.4).
pub fn write_open(header: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"<open xmlns='");
    out.extend_from_slice(ns::FRAMING.as_bytes());
    out.push(b'\'');
    for (name, value) in attributes(header) {
        if !name.starts_with(b"xmlns") {
            out.push(b' ');
            out.extend_from_slice(name);
            out.push(b'=');
            out.extend_from_slice(value);
        }
    }
    out.extend_from_slice(b"/>");
}

/// The end of a stream over WebSocket (RFC 7395 section 3.6).
pub const CLOSE: &[u8] = b"<close xmlns='urn:ietf:params:xml:ns:xmpp-framing'/>";

#[cfg(test)]
mod tests {
    use super::*;

    fn text(piece: Piece<'_>) -> String {
        let mut out = Vec::new();
        match piece {
            Piece::Open(tag) => write_open(tag, &mut out),
            Piece::Element(element) => write_alone(element, &mut out),
            Piece::Close => out.extend_from_slice(CLOSE),
        }
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn a_stream_falls_into_pieces_that_stand_alone() {
        let stream = "<?xml version='1.0'?><stream:stream id='a>b' from=\"x\" version='1.0' \
                      xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>\
                      <stream:features><sub xmlns='urn:a'/></stream:features>\
                      <message to='a'><body>1 > 0 <!--no-->]]></body></message>"
            .replace("<!--no-->]]>", "<![CDATA[</message>]]>")
            + "<iq type='result'/><r xmlns='urn:xmpp:sm:3'/>\
               <presence id=\"x='y'\" xmlns = 'jabber:client'><x xmlns='urn:b'/></presence>\
               <stream:error><reset xmlns='urn:c'/></stream:error></stream:stream>";
        let pieces: Vec<String> = pieces(stream.as_bytes()).map(text).collect();
        let expected = [
            "<open xmlns='urn:ietf:params:xml:ns:xmpp-framing' id='a>b' from=\"x\" version='1.0'/>",
            "<stream:features xmlns:stream='http://etherx.jabber.org/streams'>\
             <sub xmlns='urn:a'/></stream:features>",
            "<message xmlns='jabber:client' to='a'><body>1 > 0 <![CDATA[</message>]]></body>\
             </message>",
            "<iq xmlns='jabber:client' type='result'/>",
            "<r xmlns='urn:xmpp:sm:3'/>",
            "<presence id=\"x='y'\" xmlns = 'jabber:client'><x xmlns='urn:b'/></presence>",
            "<stream:error xmlns:stream='http://etherx.jabber.org/streams'><reset xmlns='urn:c'/>\
             </stream:error>",
            "<close xmlns='urn:ietf:params:xml:ns:xmpp-framing'/>",
        ];
        assert_eq!(pieces, expected);
    }

    #[test]
    fn nothing_is_lost_of_what_is_no_stream() {
        for odd in [
            "<",
            "<a",
            "<a b='",
            "text",
            "<a b=",
            "</b>",
            "<stream:stream a='",
        ] {
            let all: Vec<Piece<'_>> = pieces(odd.as_bytes()).collect();
            assert_eq!(all.len(), 1, "{odd}");
            let _ = text(all[0]);
        }
    }
}
