//! Table tests of addresses, and properties that hold the fast path to the slow one.

use proptest::prelude::*;

use super::*;

#[test]
fn addresses_have_one_normal_form() {
    let table = [
        // written, normal form ("" = refused)
        ("alice@example.com", "alice@example.com"),
        ("Alice@Example.COM/Home", "alice@example.com/Home"),
        ("example.com", "example.com"),
        ("example.com.", "example.com"),
        ("alice@example.com./r", "alice@example.com/r"),
        ("example.com/r@s/t", "example.com/r@s/t"),
        ("alice@example.com/a@b/c d", "alice@example.com/a@b/c d"),
        ("127.0.0.1", "127.0.0.1"),
        ("a@[::1]/x", "a@[::1]/x"),
        ("tréville@musketeers.lit", "tréville@musketeers.lit"),
        ("BÜCHER@bücher.example", "bücher@bücher.example"),
        ("a@xn--bcher-kva.example", "a@bücher.example"),
        ("a@XN--BCHER-KVA.example", "a@bücher.example"),
        ("\u{ff21}lice@example.com", "alice@example.com"),
        ("\u{fb01}n@example.com", "fin@example.com"),
        ("a\u{ad}b@example.com", "ab@example.com"),
        ("", ""),
        ("@example.com", ""),
        ("alice@", ""),
        ("alice@example.com/", ""),
        ("/r", ""),
        ("alice@/r", ""),
        ("a@b@c", ""),
        ("a b@example.com", ""),
        ("a\"b@example.com", ""),
        ("a'b@example.com", ""),
        ("a\u{ff20}b@example.com", ""),
        ("alice@ex ample.com", ""),
        ("alice@-a.example", ""),
        ("alice@a-.example", ""),
        ("alice@a..b", ""),
        ("alice@.", ""),
        ("alice@ex\u{ff0f}ample", ""),
        ("alice@example.com/\u{7}", ""),
        ("alice@example.com/\u{1F916}", ""),
        ("\u{5d0}a@example.com", ""),
        ("alice@xn--\u{fc}.example", ""),
    ];
    for (written, normal) in table {
        let parsed = parse(written)
            .map(|jid| jid.into_inner())
            .unwrap_or_default();
        assert_eq!(parsed, normal, "{written:?}");
        assert_eq!(
            normalize(written).map(Cow::into_owned).unwrap_or_default(),
            normal
        );
    }
}

#[test]
fn homographs_stay_different_users() {
    let latin = parse("alice@example.com").unwrap();
    let cyrillic = parse("\u{430}lice@example.com").unwrap();
    assert_ne!(latin, cyrillic);
}

#[test]
fn parts_at_their_bounds() {
    let node = "a".repeat(1023);
    let domain = format!(
        "{}.{}.{}.{}",
        "a".repeat(63),
        "b".repeat(63),
        "c".repeat(63),
        "d".repeat(61)
    );
    assert_eq!(domain.len(), 253);
    let longest = format!("{node}@{domain}/{node}");
    assert!(is_normal(&longest));
    assert!(parse(&longest).is_ok());
    for over in [
        format!("a{node}@x"),
        format!("x/a{node}"),
        format!("d{domain}"),
        format!("{}.x", "a".repeat(64)),
        format!("é{node}@x"),
        "x".repeat(ADDRESS_BYTES_MAX + 1),
    ] {
        assert!(!is_normal(&over));
        assert!(parse(&over).is_err(), "{} bytes", over.len());
    }
}

#[test]
fn bare_and_full_are_told_apart() {
    assert_eq!(parse_bare("a@b/c"), Err(AddressError::Resource));
    assert_eq!(parse_full("a@b"), Err(AddressError::Resource));
    assert_eq!(parse_bare("A@b").unwrap().as_str(), "a@b");
    assert_eq!(parse_full("a@b/C").unwrap().as_str(), "a@b/C");
    assert_eq!(bare_of(&parse("a@b/c/d").unwrap()), "a@b");
    assert_eq!(
        split("b/c@d"),
        Parts {
            node: None,
            domain: "b",
            resource: Some("c@d")
        }
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_fast_path_accepts_only_normal_addresses(
        text in "[a-zA-Z0-9@/.\\-_ xn'\"&é]{0,40}",
    ) {
        if is_normal(&text) {
            let parsed = parse_slowly(&text).unwrap();
            prop_assert_eq!(parsed.as_str(), &text);
        }
    }

    #[test]
    fn the_normal_form_is_a_fixed_point(text in "\\PC{0,12}@?\\PC{1,12}/?\\PC{0,12}") {
        if let Ok(jid) = parse(&text) {
            let again = parse(jid.as_str()).unwrap();
            prop_assert_eq!(&again, &jid);
            let parts = split(jid.as_str());
            prop_assert_eq!(parts.node, jid.node().map(|n| n.as_str()));
            prop_assert_eq!(parts.domain, jid.domain().as_str());
            prop_assert_eq!(parts.resource, jid.resource().map(|r| r.as_str()));
            prop_assert!(jid.as_str().len() <= ADDRESS_BYTES_MAX);
        }
    }
}
