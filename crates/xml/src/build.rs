//! A small writer for the elements that the server makes itself. It escapes what it is given and
//! closes what it opened; it does not know which element may stand where.

use smallvec::SmallVec;

use crate::escape;

/// Writes elements into a buffer. Names must be literals of the program, values may be anything.
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    open: SmallVec<[(usize, usize); 4]>,
    in_tag: bool,
}

impl<'a> Writer<'a> {
    /// Appends to `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Writer {
            out,
            open: SmallVec::new(),
            in_tag: false,
        }
    }

    fn end_tag(&mut self) {
        if std::mem::take(&mut self.in_tag) {
            self.out.push(b'>');
        }
    }

    /// Opens an element inside the current one.
    pub fn open(&mut self, name: &str) -> &mut Self {
        self.end_tag();
        self.out.push(b'<');
        let at = self.out.len();
        self.out.extend_from_slice(name.as_bytes());
        self.open.push((at, self.out.len()));
        self.in_tag = true;
        self
    }

    /// Adds an attribute to the element that was just opened.
    pub fn attr(&mut self, name: &str, value: &str) -> &mut Self {
        debug_assert!(self.in_tag, "an attribute follows its element's name");
        self.out.push(b' ');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"='");
        escape::attr(self.out, value);
        self.out.push(b'\'');
        self
    }

    /// Adds character data.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.end_tag();
        escape::text(self.out, text);
        self
    }

    /// Adds bytes that are well-formed content already.
    pub fn raw(&mut self, content: &[u8]) -> &mut Self {
        if !content.is_empty() {
            self.end_tag();
            self.out.extend_from_slice(content);
        }
        self
    }

    /// Closes the innermost open element.
    pub fn close(&mut self) -> &mut Self {
        // Invariant: every `close` has its `open` in the same function.
        let (from, to) = self.open.pop().expect("an element is open");
        if std::mem::take(&mut self.in_tag) {
            self.out.extend_from_slice(b"/>");
        } else {
            self.out.extend_from_slice(b"</");
            self.out.extend_from_within(from..to);
            self.out.push(b'>');
        }
        self
    }
}
