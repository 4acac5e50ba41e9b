//! Bytes of one stream in, stream items out, by way of `rxml`.
//!
//! One reader lasts from a stream header to the next restart; it knows nothing of sockets.

use crate::tree::{Builder, Built};
use rxml::error::EndOrError;
use rxml::{Event, Options, Parse, Parser, WithOptions};
use std::collections::VecDeque;

/// The longest run of text or the longest name that a test client reads.
const TOKEN_BYTES_MAX: usize = 16 * 1024 * 1024;

/// An incremental reader of one XML stream.
pub struct StreamReader {
    parser: Parser,
    builder: Builder,
    ready: VecDeque<Built>,
}

impl Default for StreamReader {
    fn default() -> Self {
        let options = Options {
            max_token_length: TOKEN_BYTES_MAX,
            ..Options::default()
        };
        Self {
            parser: Parser::with_options(options),
            builder: Builder::default(),
            ready: VecDeque::new(),
        }
    }
}

impl StreamReader {
    /// Takes bytes from the server.
    ///
    /// # Errors
    /// Says what is not well-formed: always the server's fault.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        loop {
            match self.parser.parse(&mut bytes, false) {
                Ok(Some(event)) => self.take(event),
                Ok(None) | Err(EndOrError::NeedMoreData) => return Ok(()),
                Err(EndOrError::Error(error)) => {
                    let rest = String::from_utf8_lossy(bytes);
                    return Err(format!(
                        "the server's XML is broken: {error}; near {rest:?}"
                    ));
                }
            }
        }
    }

    fn take(&mut self, event: Event) {
        let Some(built) = self.builder.event(event) else {
            return;
        };
        // RFC 6120 section 6.4.6: after `<success/>` the next byte begins a new stream.
        let is_restart = matches!(&built, Built::Element(element)
            if element.is("urn:ietf:params:xml:ns:xmpp-sasl", "success"));
        if is_restart {
            self.parser = new_parser();
            self.builder = Builder::default();
        }
        self.ready.push_back(built);
    }

    /// The next complete item.
    pub fn next_item(&mut self) -> Option<Built> {
        self.ready.pop_front()
    }
}

fn new_parser() -> Parser {
    Parser::with_options(Options {
        max_token_length: TOKEN_BYTES_MAX,
        ..Options::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_out_as_soon_as_they_are_complete_at_any_split() {
        let stream = "<?xml version='1.0'?><stream:stream xmlns='jabber:client' \
            xmlns:stream='http://etherx.jabber.org/streams' id='1'> <iq id='a'><x/></iq>\
            <iq id='b'/></stream:stream>";
        for split in 0..stream.len() {
            let mut reader = StreamReader::default();
            reader.feed(&stream.as_bytes()[..split]).unwrap();
            reader.feed(&stream.as_bytes()[split..]).unwrap();
            let items: Vec<_> = std::iter::from_fn(|| reader.next_item()).collect();
            assert_eq!(items.len(), 4, "split at {split}");
            assert!(matches!(&items[0], Built::Root(root) if root.attr("id") == Some("1")));
            assert!(matches!(&items[2], Built::Element(iq) if iq.attr("id") == Some("b")));
            assert_eq!(items[3], Built::End);
        }
    }

    #[test]
    fn a_new_stream_begins_right_after_success() {
        let mut reader = StreamReader::default();
        let bytes = "<s:stream xmlns:s='u' id='1'>\
            <success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>\
            <?xml version='1.0'?><s:stream xmlns:s='u' id='2'>";
        reader.feed(bytes.as_bytes()).unwrap();
        let items: Vec<_> = std::iter::from_fn(|| reader.next_item()).collect();
        assert!(matches!(&items[2], Built::Root(root) if root.attr("id") == Some("2")));
    }

    #[test]
    fn broken_xml_is_an_error() {
        assert!(StreamReader::default().feed(b"<a><b></a>").is_err());
    }
}
