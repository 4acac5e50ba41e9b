//! Which web pages may speak with the server (RFC 6454, RFC 6455 section 10.2): those of its own
//! domains, those it serves itself, and those that the operator names. A client that is no browser
//! names no origin and is not asked.

use std::net::IpAddr;

/// Whether a page of `origin` may use the server that it addressed as `host`.
///
/// A page is at home where its host is a domain of the server; or where it is the host that was
/// addressed, and that is a domain of the server, below one, or no name that others could make
/// point here: an address, or `localhost`. Otherwise a page whose name is made to point here
/// (DNS rebinding) would be let in.
pub(super) fn is_allowed(
    origin: Option<&str>,
    host: Option<&str>,
    domains: &[String],
    listed: &[String],
) -> bool {
    let Some(origin) = origin else {
        return true;
    };
    if listed
        .iter()
        .any(|item| item == "*" || item.eq_ignore_ascii_case(origin))
    {
        return true;
    }
    let Some((_, page)) = origin.split_once("://") else {
        return false;
    };
    let page = name(page);
    if domains
        .iter()
        .any(|domain| domain.eq_ignore_ascii_case(page))
    {
        return true;
    }
    let host = host.map(name).unwrap_or_default();
    page.eq_ignore_ascii_case(host) && cannot_be_rebound(page, domains)
}

fn cannot_be_rebound(name: &str, domains: &[String]) -> bool {
    let address = name.trim_start_matches('[').trim_end_matches(']');
    let is_below = |domain: &String| {
        let name = name.to_ascii_lowercase();
        let before = name.strip_suffix(&domain.to_ascii_lowercase());
        before.is_some_and(|before| before.ends_with('.'))
    };
    name.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok()
        || domains.iter().any(is_below)
}

/// A host without its port.
fn name(host: &str) -> &str {
    let end = match host.find(']') {
        Some(end) => end + 1,
        None => host.find(':').unwrap_or(host.len()),
    };
    &host[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_others_are_kept_out() {
        let domains = ["example.org".to_owned(), "localhost".to_owned()];
        let listed = ["https://app.example.net".to_owned()];
        let cases = [
            (None, "example.org", true),
            (Some("https://example.org"), "example.org", true),
            (Some("https://example.org"), "xmpp.example.org:5443", true),
            (Some("https://EXAMPLE.org:8443"), "example.org", true),
            (Some("https://chat.example.org"), "chat.example.org", true),
            (Some("https://chat.example.org"), "example.org", false),
            (Some("https://example.org.evil.net"), "example.org", false),
            (Some("https://evilexample.org"), "evilexample.org", false),
            (Some("http://localhost:8080"), "localhost:5280", true),
            (Some("http://127.0.0.1:5280"), "127.0.0.1:5280", true),
            (Some("http://127.0.0.1"), "127.0.0.2:5280", false),
            (Some("http://[::1]:1"), "[::1]:5280", true),
            (Some("https://rebound.evil.net"), "rebound.evil.net", false),
            (Some("https://evil.net"), "example.org", false),
            (Some("https://app.example.net"), "example.org", true),
            (Some("http://app.example.net"), "example.org", false),
            (Some("null"), "example.org", false),
            (Some(""), "example.org", false),
        ];
        for (origin, host, expected) in cases {
            let allowed = is_allowed(origin, Some(host), &domains, &listed);
            assert_eq!(allowed, expected, "{origin:?} at {host}");
        }
        let all = ["*".to_owned()];
        assert!(is_allowed(Some("null"), None, &domains, &all));
        assert!(!is_allowed(Some("https://evil.net"), None, &domains, &[]));
    }
}
