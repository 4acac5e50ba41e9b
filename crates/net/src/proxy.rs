//! The PROXY protocol, versions 1 and 2 (haproxy.org, `proxy-protocol.txt`): the header a load
//! balancer puts before the bytes of its client. Owns the parsing of complete and incomplete
//! headers; deliberately leaves trust and timeouts to the acceptor.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes of the longest version 1 header, its line end included.
const V1_MAX: usize = 107;

/// The bytes that open a version 2 header.
const V2_SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// Bytes of a version 2 header before its addresses.
const V2_FIXED: usize = 16;

/// Bytes of addresses and extensions (TLVs) that a version 2 header may carry here. The protocol
/// would allow 65,535; balancers send a few hundred.
const V2_REST_MAX: usize = 4096;

/// Bytes of the longest header accepted.
pub(crate) const HEADER_MAX: usize = V2_FIXED + V2_REST_MAX;

/// What the bytes received so far amount to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// A header may still be forming: wait for more bytes.
    Incomplete,
    /// A header of `consumed` bytes. `source` is `None` where the balancer speaks for itself
    /// (LOCAL, UNKNOWN, unspecified family): then the address of the socket counts.
    Complete {
        consumed: usize,
        source: Option<SocketAddr>,
    },
    /// These bytes do not begin with a header.
    Bad,
}

/// Reads the header at the start of `input`.
pub(crate) fn parse(input: &[u8]) -> Header {
    let shared = input.len().min(V2_SIGNATURE.len());
    if input[..shared] == V2_SIGNATURE[..shared] {
        return if shared < V2_SIGNATURE.len() {
            Header::Incomplete
        } else {
            parse_v2(input)
        };
    }
    parse_v1(input)
}

fn parse_v1(input: &[u8]) -> Header {
    const PREFIX: &[u8] = b"PROXY ";
    let shared = input.len().min(PREFIX.len());
    if input[..shared] != PREFIX[..shared] {
        return Header::Bad;
    }
    let window = &input[..input.len().min(V1_MAX)];
    let Some(end) = window.windows(2).position(|pair| pair == b"\r\n") else {
        return if input.len() >= V1_MAX {
            Header::Bad
        } else {
            Header::Incomplete
        };
    };
    let consumed = end + 2;
    let Ok(line) = std::str::from_utf8(&input[PREFIX.len().min(end)..end]) else {
        return Header::Bad;
    };
    let mut words = line.split(' ');
    let source = match words.next() {
        Some("UNKNOWN") => {
            return Header::Complete {
                consumed,
                source: None,
            };
        }
        Some("TCP4") => v1_source(words, |text| text.parse().ok().map(IpAddr::V4)),
        Some("TCP6") => v1_source(words, |text| text.parse().ok().map(IpAddr::V6)),
        _ => None,
    };
    match source {
        Some(source) => Header::Complete {
            consumed,
            source: Some(source),
        },
        None => Header::Bad,
    }
}

/// `source destination source-port destination-port`, all of them required and checked.
fn v1_source<'a>(
    mut words: impl Iterator<Item = &'a str>,
    address: impl Fn(&str) -> Option<IpAddr>,
) -> Option<SocketAddr> {
    let source = address(words.next()?)?;
    address(words.next()?)?;
    let source_port = port(words.next()?)?;
    port(words.next()?)?;
    words
        .next()
        .is_none()
        .then(|| SocketAddr::new(source, source_port))
}

fn port(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

fn parse_v2(input: &[u8]) -> Header {
    let Some(fixed) = input.get(..V2_FIXED) else {
        return Header::Incomplete;
    };
    let (version, command) = (fixed[12] >> 4, fixed[12] & 0x0f);
    let length = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if version != 2 || command > 1 || length > V2_REST_MAX {
        return Header::Bad;
    }
    let consumed = V2_FIXED + length;
    let Some(rest) = input.get(V2_FIXED..consumed) else {
        return Header::Incomplete;
    };
    if command == 0 {
        return Header::Complete {
            consumed,
            source: None,
        };
    }
    // The low half of the byte is the transport; only streams (1) make sense on a TCP listener.
    let source = match fixed[13] {
        0x00 => {
            return Header::Complete {
                consumed,
                source: None,
            };
        }
        0x11 => rest.first_chunk::<12>().map(|part| {
            let address = Ipv4Addr::new(part[0], part[1], part[2], part[3]);
            SocketAddr::new(IpAddr::V4(address), u16::from_be_bytes([part[8], part[9]]))
        }),
        0x21 => rest.first_chunk::<36>().map(|part| {
            let mut address = [0; 16];
            address.copy_from_slice(&part[..16]);
            let port = u16::from_be_bytes([part[32], part[33]]);
            SocketAddr::new(IpAddr::V6(Ipv6Addr::from(address)), port)
        }),
        _ => None,
    };
    match source {
        Some(source) => Header::Complete {
            consumed,
            source: Some(source),
        },
        None => Header::Bad,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(consumed: usize, source: &str) -> Header {
        let source = (!source.is_empty()).then(|| source.parse().expect("address"));
        Header::Complete { consumed, source }
    }

    fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let mut bytes = V2_SIGNATURE.to_vec();
        bytes.extend([0x20 | command, family]);
        bytes.extend((rest.len() as u16).to_be_bytes());
        bytes.extend(rest);
        bytes
    }

    #[test]
    fn version_1_table() {
        let rows: &[(&[u8], Header)] = &[
            (
                b"PROXY TCP4 192.0.2.1 198.51.100.1 5000 5222\r\n<",
                complete(45, "192.0.2.1:5000"),
            ),
            (
                b"PROXY TCP6 2001:db8::1 ::1 65535 5222\r\n",
                complete(39, "[2001:db8::1]:65535"),
            ),
            (b"PROXY UNKNOWN\r\n", complete(15, "")),
            (b"PROXY UNKNOWN ffff::1 ffff::1 1 2\r\n", complete(35, "")),
            (b"", Header::Incomplete),
            (b"PRO", Header::Incomplete),
            (
                b"PROXY TCP4 192.0.2.1 198.51.100.1 5000 5222\r",
                Header::Incomplete,
            ),
            (b"PROXY TCP4 2001:db8::1 ::1 1 2\r\n", Header::Bad),
            (b"PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n", Header::Bad),
            (b"PROXY TCP4 192.0.2.1 192.0.2.2 +1 2\r\n", Header::Bad),
            (b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n", Header::Bad),
            (b"PROXY TCP4 192.0.2.1 1 2\r\n", Header::Bad),
            (b"PROXY \r\n", Header::Bad),
            (b"PROXY UDP4 192.0.2.1 192.0.2.2 1 2\r\n", Header::Bad),
            (b"proxy TCP4 192.0.2.1 192.0.2.2 1 2\r\n", Header::Bad),
            (b"<stream:stream", Header::Bad),
            (&[b'P'; 200], Header::Bad),
        ];
        for (input, expected) in rows {
            assert_eq!(
                parse(input),
                *expected,
                "{}",
                String::from_utf8_lossy(input)
            );
        }
        let mut endless = b"PROXY UNKNOWN ".to_vec();
        endless.resize(V1_MAX, b'x');
        assert_eq!(parse(&endless), Header::Bad);
    }

    #[test]
    fn version_2_table() {
        let v4 = [192, 0, 2, 9, 198, 51, 100, 1, 0x13, 0x88, 0x14, 0x66];
        let mut with_extension = v4.to_vec();
        with_extension.extend([4, 0, 1, 0]);
        let mut v6 = vec![0x20, 1, 0xd, 0xb8];
        v6.resize(36, 0);
        v6[15] = 7;
        v6[33] = 80;
        let rows: Vec<(Vec<u8>, Header)> = vec![
            (v2(1, 0x11, &v4), complete(28, "192.0.2.9:5000")),
            (v2(1, 0x11, &with_extension), complete(32, "192.0.2.9:5000")),
            (v2(1, 0x21, &v6), complete(52, "[2001:db8::7]:80")),
            (v2(0, 0x00, &[]), complete(16, "")),
            (v2(0, 0x11, &v4), complete(28, "")),
            (v2(1, 0x00, &[]), complete(16, "")),
            (v2(1, 0x12, &v4), Header::Bad),
            (v2(1, 0x31, &[0; 216]), Header::Bad),
            (v2(2, 0x11, &v4), Header::Bad),
            (v2(1, 0x11, &v4[..11]), Header::Bad),
            (v2(1, 0x11, &vec![0; V2_REST_MAX + 1]), Header::Bad),
        ];
        for (input, expected) in rows {
            assert_eq!(parse(&input), expected, "{input:?}");
            if let Header::Complete { consumed, .. } = expected {
                for cut in 0..consumed {
                    assert_eq!(parse(&input[..cut]), Header::Incomplete, "cut at {cut}");
                }
            }
        }
        let mut version_3 = v2(1, 0x11, &v4);
        version_3[12] = 0x31;
        assert_eq!(parse(&version_3), Header::Bad);
    }
}
