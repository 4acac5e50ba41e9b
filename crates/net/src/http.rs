//! The head of an HTTP/1.1 request, without sockets: found, bounded and checked. Owns what makes
//! two readers of one connection disagree about where a request ends, and refuses it; knows no
//! paths and gives no answers.

use std::fmt;

/// Header fields of one request.
pub const HEADERS_MAX: usize = 64;

/// A request's head.
#[derive(Clone, Debug)]
pub struct Head<'a> {
    /// The method, in capitals as it came.
    pub method: &'a str,
    /// The request target.
    pub target: &'a str,
    /// Whether it is of HTTP/1.1, not 1.0.
    pub is_1_1: bool,
    /// Names and values as they came.
    pub headers: Vec<(&'a str, &'a str)>,
    /// Bytes of the head, the empty line included.
    pub bytes: usize,
    /// Bytes of the body behind it, `None` if they come in chunks.
    pub body: Option<usize>,
}

/// Why a head is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// It is not HTTP/1, or says different things about its length: 400.
    Malformed,
    /// It is larger, or has more fields, than is taken: 431.
    TooLarge,
}

impl fmt::Display for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HeadError::Malformed => "a malformed request",
            HeadError::TooLarge => "a request head that is too large",
        })
    }
}

/// Reads the head at the start of the input, `None` while it is incomplete. `scanned` remembers
/// between calls how far its end has been looked for, so that a head that trickles in costs linear
/// time; the caller makes it 0 for each new request.
///
/// # Errors
/// [`HeadError`].
pub fn head<'a>(
    input: &'a [u8],
    bytes_max: usize,
    scanned: &mut usize,
) -> Result<Option<Head<'a>>, HeadError> {
    let from = scanned.saturating_sub(3).min(input.len());
    let found = memchr::memmem::find(&input[from..], b"\r\n\r\n").map(|at| from + at + 4);
    *scanned = input.len();
    let Some(end) = found.filter(|end| *end <= bytes_max) else {
        return match found.is_some() || input.len() > bytes_max {
            true => Err(HeadError::TooLarge),
            false => Ok(None),
        };
    };
    let mut fields = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    let complete = match request.parse(&input[..end]) {
        Ok(status) => status.is_complete(),
        Err(httparse::Error::TooManyHeaders) => return Err(HeadError::TooLarge),
        Err(_) => return Err(HeadError::Malformed),
    };
    let (Some(method), Some(target), Some(version), true) =
        (request.method, request.path, request.version, complete)
    else {
        return Err(HeadError::Malformed);
    };
    let mut headers = Vec::with_capacity(request.headers.len());
    for field in request.headers.iter() {
        let value = std::str::from_utf8(field.value).map_err(|_| HeadError::Malformed)?;
        headers.push((field.name, value));
    }
    let mut head = Head {
        method,
        target,
        is_1_1: version == 1,
        headers,
        bytes: end,
        body: Some(0),
    };
    head.body = head.body_length()?;
    Ok(Some(head))
}

impl<'a> Head<'a> {
    /// The value of a field, the first if there are several.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        self.all(name).next()
    }

    /// The last field of this name: whoever passes a request on adds his own behind what came from
    /// further away.
    pub fn last_header(&self, name: &str) -> Option<&'a str> {
        self.all(name).last()
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &'a str> {
        let mine = move |field: &&(&str, &str)| field.0.eq_ignore_ascii_case(name);
        self.headers.iter().filter(mine).map(|field| field.1)
    }

    /// Whether a field that is a list of words has this one, in any case.
    pub fn lists(&self, name: &str, word: &str) -> bool {
        self.all(name)
            .flat_map(|list| list.split(','))
            .any(|item| item.trim().eq_ignore_ascii_case(word))
    }

    /// The target without its query.
    pub fn path(&self) -> &'a str {
        self.target.split(['?', '#']).next().unwrap_or_default()
    }

    /// Whether another request may follow on this connection (RFC 9112 section 9.3).
    pub fn keeps_alive(&self) -> bool {
        match self.is_1_1 {
            true => !self.lists("connection", "close"),
            false => self.lists("connection", "keep-alive"),
        }
    }

    /// RFC 9112 section 6.3, without its leniencies: they are how requests are smuggled.
    fn body_length(&self) -> Result<Option<usize>, HeadError> {
        let hosts = self.all("host").count();
        if hosts > 1 || (self.is_1_1 && hosts == 0) {
            return Err(HeadError::Malformed);
        }
        let mut lengths = self.all("content-length");
        let coded = self.all("transfer-encoding").next();
        match (lengths.next(), lengths.next(), coded) {
            (None, None, None) => Ok(Some(0)),
            (None, None, Some(coding)) if coding.trim().eq_ignore_ascii_case("chunked") => Ok(None),
            (Some(length), None, None) => {
                let is_number = !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit());
                let length = is_number.then(|| length.parse().ok()).flatten();
                length.map(Some).ok_or(HeadError::Malformed)
            }
            _ => Err(HeadError::Malformed),
        }
    }
}

#[cfg(test)]
mod tests;
