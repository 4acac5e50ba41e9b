//! The answers that are given without asking anybody: their heads, and what pages of other origins
//! may read of them. A connection's answers are written by `http`.

/// What a page of another origin is told that it may read (the fetch standard's CORS protocol).
pub(super) enum Cors {
    /// The request names no origin, or one that is not let in.
    None,
    /// This one may.
    Origin(Box<str>),
}

impl Cors {
    pub(super) fn of(origin: Option<&str>) -> Cors {
        origin.map_or(Cors::None, |origin| Cors::Origin(origin.into()))
    }
}

/// One answer.
pub(super) struct Answer {
    status: u16,
    headers: String,
    body: Vec<u8>,
    is_head_only: bool,
}

/// Status codes that are answered here, and what they are called.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        411 => "Length Required",
        413 => "Content Too Large",
        426 => "Upgrade Required",
        431 => "Request Header Fields Too Large",
        _ => "Service Unavailable",
    }
}

impl Answer {
    fn new(status: u16, headers: String, body: Vec<u8>) -> Answer {
        Answer {
            status,
            headers,
            body,
            is_head_only: false,
        }
    }

    /// The `<body/>` of a session over BOSH. What is in it comes from anybody, and its client may
    /// have asked for it as a page: a browser that shows it as one runs nothing of it.
    pub(super) fn body(body: Vec<u8>, content: Option<Box<str>>) -> Answer {
        let kind = content.as_deref().unwrap_or("text/xml; charset=utf-8");
        let headers = format!(
            "Content-Type: {kind}\r\nCache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nContent-Security-Policy: sandbox\r\n"
        );
        Answer::new(200, headers, body)
    }

    /// What a page may do, for its browser.
    pub(super) fn preflight() -> Answer {
        let headers = "Allow: POST, OPTIONS, GET\r\n\
                       Access-Control-Allow-Methods: POST, OPTIONS, GET\r\n\
                       Access-Control-Allow-Headers: content-type\r\n\
                       Access-Control-Max-Age: 7200\r\n";
        Answer::new(204, headers.to_owned(), Vec::new())
    }

    /// For a person who looks where only programs are answered.
    pub(super) fn hint(is_head_only: bool) -> Answer {
        let text = b"XMPP over BOSH: clients send their requests here by POST.\n";
        let headers = "Content-Type: text/plain\r\n".to_owned();
        Answer {
            is_head_only,
            ..Answer::new(200, headers, text.to_vec())
        }
    }

    /// A request that is not taken; the connection closes.
    pub(super) fn error(status: u16) -> Answer {
        let more = match status {
            405 => "Allow: GET, POST, OPTIONS\r\n",
            426 => "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n",
            503 => "Retry-After: 1\r\n",
            _ => "",
        };
        let headers = format!("Content-Type: text/plain\r\n{more}");
        Answer::new(status, headers, format!("{}\n", reason(status)).into())
    }

    /// As it leaves.
    pub(super) fn bytes(mut self, cors: &Cors, closes: bool) -> Vec<u8> {
        let status = self.status;
        let mut text = format!("HTTP/1.1 {status} {}\r\n{}", reason(status), self.headers);
        if let Cors::Origin(origin) = cors {
            text.push_str(&format!(
                "Access-Control-Allow-Origin: {origin}\r\nVary: Origin\r\n"
            ));
        }
        text.push_str(match (closes, status) {
            (true, 426) => "Connection: upgrade, close\r\n",
            (true, _) => "Connection: close\r\n",
            (false, _) => "Connection: keep-alive\r\n",
        });
        if status != 204 {
            text.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        text.push_str("\r\n");
        let mut bytes = text.into_bytes();
        if !self.is_head_only {
            bytes.append(&mut self.body);
        }
        bytes
    }
}

/// The answer to a handshake (RFC 6455 section 4.2.2).
pub(super) fn switching(accept: &str, out: &mut Vec<u8>) {
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: xmpp\r\n\r\n"
    );
    out.extend_from_slice(head.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// XEP-0124 section 7.1 lets a client ask for a type that browsers show.
    #[test]
    fn what_sessions_are_sent_is_no_page_that_does_anything() {
        for content in [None, Some("text/html".into()), Some("text/xml".into())] {
            let bytes = Answer::body(b"<body/>".to_vec(), content).bytes(&Cors::None, false);
            let text = String::from_utf8(bytes).unwrap();
            let head = text.split("\r\n\r\n").next().unwrap();
            assert!(
                head.contains("\r\nContent-Security-Policy: sandbox\r\n"),
                "{head}"
            );
        }
    }
}
