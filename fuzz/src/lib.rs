//! What fuzz targets share: a second opinion on XML, and a stanza as it stands in a stream. The
//! targets are in `fuzz_targets/`.

use xml::{Event, FrameRef, Framer, Limits, Scratch};

#[path = "../../crates/xml/tests/oracle/mod.rs"]
pub mod oracle;

/// The start of a stream whose root declares prefixes that stanzas may use.
pub const STREAM: &str = "<stream:stream to='localhost' version='1.0' xmlns='jabber:client' \
                          xmlns:stream='http://etherx.jabber.org/streams' xmlns:e='urn:e' \
                          xmlns:q=\"it's\">";

/// The element that `input` begins with, as the framer finds it in such a stream.
pub fn stanza_of<'a>(
    input: &'a [u8],
    framer: &'a mut Framer,
    scratch: &'a mut Scratch,
) -> Option<FrameRef<'a>> {
    let limits = Limits::default();
    let open = framer.next(STREAM.as_bytes(), &limits, scratch);
    assert!(
        matches!(open, Ok(step) if step.event.is_some()),
        "the header is refused"
    );
    match framer.next(input, &limits, scratch).ok()?.event? {
        Event::Stanza(frame) => Some(frame),
        _ => None,
    }
}

/// Whether XML can carry a character.
pub fn is_text(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{fffd}' | '\u{10000}'..)
}

/// Whether there are characters that `rxml` refuses in names although XML has them there
/// (docs/fuzzing.md).
pub fn has_unread_names(text: &[u8]) -> bool {
    String::from_utf8_lossy(text).contains(|c| matches!(c, '\u{fdf0}'..='\u{fffd}'))
}
