//! How a script says what it expects: XML with holes.
//!
//! In attribute values and in text:
//!
//! | hole | fits |
//! |---|---|
//! | `{any}` | one or more characters |
//! | `{maybe}` | as a whole attribute value: anything, or no such attribute |
//! | `{capture:NAME}` | like `{any}`, and is remembered as `{NAME}` |
//! | `{NAME}` | the remembered value, or one the runner set such as `{romeo.full}` |
//! | `{number}` | decimal digits |
//! | `{timestamp}` | a UTC date and time of XEP-0082 |
//! | `{either:a\|b}` | one of the alternatives |
//!
//! `...` as the last thing in a start tag allows further attributes; `...` as text allows further
//! children and text. `xml:lang` is ignored unless it is expected, and so are the ids that a server
//! gives to messages (XEP-0359). The order of children means nothing, as in XMPP; white space
//! between elements means nothing either.

use crate::tree::{Element, parse_fragment};
use std::collections::BTreeMap;

/// The attribute that stands for `...` in a start tag.
pub(crate) const MORE: &str = "more..";

/// Values remembered so far, by name.
pub type Bindings = BTreeMap<String, String>;

/// Reads the XML of an expectation.
///
/// # Errors
/// Says what is not well-formed.
pub fn parse(xml: &str) -> Result<Vec<Element>, String> {
    parse_fragment(&mark_open_tags(xml))
}

/// Replaces `...` inside start tags by an attribute that XML allows.
fn mark_open_tags(xml: &str) -> String {
    let mut out = String::with_capacity(xml.len());
    let mut quote = None;
    let mut is_in_tag = false;
    let mut rest = xml;
    while let Some(c) = rest.chars().next() {
        if is_in_tag && quote.is_none() && rest.starts_with("...") {
            out.push_str(" more..=''");
            rest = &rest[3..];
            continue;
        }
        match c {
            '<' if quote.is_none() => is_in_tag = true,
            '>' if quote.is_none() => is_in_tag = false,
            '\'' | '"' if is_in_tag && quote.is_none() => quote = Some(c),
            c if quote == Some(c) => quote = None,
            _ => {}
        }
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    out
}

/// Compares an element with an expectation and remembers what it captures.
///
/// # Errors
/// Names the place and the difference; `bindings` is then unchanged.
pub fn fit(expected: &Element, actual: &Element, bindings: &mut Bindings) -> Result<(), String> {
    let mut trial = bindings.clone();
    fit_element(expected, actual, &mut trial)?;
    *bindings = trial;
    Ok(())
}

fn fit_element(
    expected: &Element,
    actual: &Element,
    bindings: &mut Bindings,
) -> Result<(), String> {
    if (&expected.ns, &expected.name) != (&actual.ns, &actual.name) {
        return Err(format!(
            "expected <{} xmlns='{}'>, not <{} xmlns='{}'>",
            expected.name, expected.ns, actual.name, actual.ns
        ));
    }
    let inside = |why: String| format!("<{}>: {why}", expected.name);
    fit_attributes(expected, actual, bindings).map_err(inside)?;
    fit_content(expected, actual, bindings).map_err(inside)
}

fn fit_attributes(
    expected: &Element,
    actual: &Element,
    bindings: &mut Bindings,
) -> Result<(), String> {
    for ((ns, name), pattern) in &expected.attrs {
        if *name == MORE {
            continue;
        }
        match actual.attrs.get(ns, name) {
            Some(value) => fit_value(pattern, value, bindings)
                .map_err(|why| format!("attribute {name}: {why}"))?,
            None if pattern == "{maybe}" => {}
            None => return Err(format!("attribute {name} is missing")),
        }
    }
    let allows_more = expected.attr(MORE).is_some();
    let extra = actual.attrs.iter().find(|((ns, name), _)| {
        let is_expected = expected.attrs.contains_key(*ns, *name);
        !allows_more && !is_expected && (ns.is_empty() || **name != "lang")
    });
    match extra {
        Some(((_, name), value)) => Err(format!("unexpected attribute {name}='{value}'")),
        None => Ok(()),
    }
}

fn fit_content(
    expected: &Element,
    actual: &Element,
    bindings: &mut Bindings,
) -> Result<(), String> {
    let text = expected.text();
    let allows_more = text.trim() == "...";
    let wanted: Vec<&Element> = expected.children().collect();
    let mut given: Vec<&Element> = actual.children().collect();
    if !wanted.iter().copied().any(is_stanza_id) {
        given.retain(|child| !is_stanza_id(child));
    }
    if !allows_more {
        if wanted.len() != given.len() {
            return Err(children_differ(&wanted, &given));
        }
        fit_value(text.trim(), actual.text().trim(), bindings)?;
    }
    let mut used = vec![false; given.len()];
    assign(&wanted, &given, &mut used, bindings)
}

fn is_stanza_id(element: &Element) -> bool {
    element.is("urn:xmpp:sid:0", "stanza-id")
}

/// Finds a different actual child for each expected one, in any order.
fn assign(
    wanted: &[&Element],
    given: &[&Element],
    used: &mut [bool],
    bindings: &mut Bindings,
) -> Result<(), String> {
    let Some((first, others)) = wanted.split_first() else {
        return Ok(());
    };
    let mut why = None;
    for (index, candidate) in given.iter().enumerate() {
        if used[index] {
            continue;
        }
        let mut trial = bindings.clone();
        let result = fit_element(first, candidate, &mut trial).and_then(|()| {
            used[index] = true;
            assign(others, given, used, &mut trial)
        });
        match result {
            Ok(()) => {
                *bindings = trial;
                return Ok(());
            }
            Err(reason) => {
                used[index] = false;
                if why.is_none() && candidate.is(&first.ns, &first.name) {
                    why = Some(reason);
                }
            }
        }
    }
    Err(why.unwrap_or_else(|| children_differ(wanted, given)))
}

fn children_differ(wanted: &[&Element], given: &[&Element]) -> String {
    let list = |elements: &[&Element]| {
        let names: Vec<_> = elements
            .iter()
            .map(|e| format!("{{{}}}{}", e.ns, e.name))
            .collect();
        if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        }
    };
    format!("expected children {}; got {}", list(wanted), list(given))
}

// === Values ===

#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Any(Option<String>),
    Number,
    Timestamp,
    Either(Vec<String>),
}

fn fit_value(pattern: &str, value: &str, bindings: &mut Bindings) -> Result<(), String> {
    if pattern == "{maybe}" {
        return Ok(());
    }
    let pieces = pieces(pattern, bindings)?;
    let mut captured = Vec::new();
    if fit_pieces(&pieces, value, &mut captured) {
        bindings.extend(captured);
        return Ok(());
    }
    Err(format!(
        "expected {:?}, got {value:?}",
        fill(pattern, bindings)
    ))
}

/// The text of a pattern with every known name replaced, for messages.
fn fill(pattern: &str, bindings: &Bindings) -> String {
    let mut out = pattern.to_owned();
    for (name, value) in bindings {
        out = out.replace(&format!("{{{name}}}"), value);
    }
    out
}

fn pieces(pattern: &str, bindings: &Bindings) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut rest = pattern;
    while let Some(open) = rest.find('{') {
        let Some(length) = rest[open..].find('}') else {
            break;
        };
        if open > 0 {
            pieces.push(Piece::Literal(rest[..open].to_owned()));
        }
        let hole = &rest[open + 1..open + length];
        rest = &rest[open + length + 1..];
        pieces.push(match hole.split_once(':') {
            None if hole == "any" => Piece::Any(None),
            None if hole == "number" => Piece::Number,
            None if hole == "timestamp" => Piece::Timestamp,
            Some(("capture", name)) => Piece::Any(Some(name.to_owned())),
            Some(("either", choices)) => Piece::Either(
                choices
                    .split('|')
                    .map(|choice| fill(choice, bindings))
                    .collect(),
            ),
            _ => match bindings.get(hole) {
                Some(value) => Piece::Literal(value.clone()),
                None => return Err(format!("nothing is known as {{{hole}}}")),
            },
        });
    }
    if !rest.is_empty() {
        pieces.push(Piece::Literal(rest.to_owned()));
    }
    Ok(pieces)
}

fn fit_pieces(pieces: &[Piece], value: &str, captured: &mut Vec<(String, String)>) -> bool {
    let Some((first, others)) = pieces.split_first() else {
        return value.is_empty();
    };
    let strip = |prefix: &str, captured: &mut Vec<_>| {
        value
            .strip_prefix(prefix)
            .is_some_and(|rest| fit_pieces(others, rest, captured))
    };
    match first {
        Piece::Literal(text) => strip(text, captured),
        Piece::Either(choices) => choices.iter().any(|choice| strip(choice, captured)),
        Piece::Timestamp => timestamp(value).is_some_and(|stamp| strip(stamp, captured)),
        Piece::Number => {
            let digits = value.len() - value.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            digits > 0 && strip(&value[..digits], captured)
        }
        Piece::Any(name) => {
            let ends = value
                .char_indices()
                .map(|(at, c)| at + c.len_utf8())
                .collect::<Vec<_>>();
            ends.into_iter().rev().any(|end| {
                let before = captured.len();
                if let Some(name) = name {
                    captured.push((name.clone(), value[..end].to_owned()));
                }
                let fits = fit_pieces(others, &value[end..], captured);
                if !fits {
                    captured.truncate(before);
                }
                fits
            })
        }
    }
}

/// The XEP-0082 UTC timestamp that `value` begins with.
fn timestamp(value: &str) -> Option<&str> {
    const SHAPE: &str = "0000-00-00T00:00:00";
    let fixed = value.get(..SHAPE.len())?;
    let fits = fixed
        .chars()
        .zip(SHAPE.chars())
        .all(|(c, shape)| match shape {
            '0' => c.is_ascii_digit(),
            shape => c == shape,
        });
    let rest = &value[SHAPE.len()..];
    let fraction = rest.strip_prefix('.').map_or(0, |digits| {
        1 + digits.len()
            - digits
                .trim_start_matches(|c: char| c.is_ascii_digit())
                .len()
    });
    (fits && rest[fraction..].starts_with('Z')).then(|| &value[..SHAPE.len() + fraction + 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each row says whether the expectation fits what arrived.
    #[test]
    fn expectations_fit_what_they_should_and_nothing_else() {
        let rows = [
            ("<iq id='1' type='get'/>", "<iq type='get' id='1'/>", true),
            (
                "<message><body/></message>",
                "<message><body/><stanza-id xmlns='urn:xmpp:sid:0' id='1'/></message>",
                true,
            ),
            (
                "<message><stanza-id xmlns='urn:xmpp:sid:0' id='2'/></message>",
                "<message><stanza-id xmlns='urn:xmpp:sid:0' id='1'/></message>",
                false,
            ),
            ("<iq id='1'/>", "<iq id='2'/>", false),
            ("<iq id='1'/>", "<iq id='1' to='x'/>", false),
            ("<iq id='1' .../>", "<iq id='1' to='x'/>", true),
            ("<iq id='1' to='{maybe}'/>", "<iq id='1'/>", true),
            ("<iq id='1' to='x'/>", "<iq id='1'/>", false),
            ("<iq id='1'/>", "<iq id='1' xml:lang='en'/>", true),
            ("<iq id='{any}'/>", "<iq id=''/>", false),
            ("<iq id='a{any}c'/>", "<iq id='abc'/>", true),
            ("<iq id='{number}'/>", "<iq id='12'/>", true),
            ("<iq id='{number}'/>", "<iq id='1x'/>", false),
            (
                "<d stamp='{timestamp}'/>",
                "<d stamp='2026-11-21T01:02:03Z'/>",
                true,
            ),
            (
                "<d stamp='{timestamp}'/>",
                "<d stamp='2026-11-21T01:02:03.123Z'/>",
                true,
            ),
            (
                "<d stamp='{timestamp}'/>",
                "<d stamp='2026-11-21T01:02:03'/>",
                false,
            ),
            ("<q><a/><b/></q>", "<q><b/> <a/></q>", true),
            ("<q><a/></q>", "<q><a/><b/></q>", false),
            ("<q><a/>...</q>", "<q><a/><b/></q>", true),
            ("<q><c/>...</q>", "<q><a/><b/></q>", false),
            (
                "<q><a id='1'/><a id='2'/></q>",
                "<q><a id='2'/><a id='1'/></q>",
                true,
            ),
            (
                "<q><a id='{any}'/><a id='2'/></q>",
                "<q><a id='2'/><a id='1'/></q>",
                true,
            ),
            ("<q><a/><a/></q>", "<q><a/><b/></q>", false),
            ("<body>hi</body>", "<body> hi </body>", true),
            ("<body>hi</body>", "<body>ho</body>", false),
            ("<body>...</body>", "<body>ho</body>", true),
            ("<q xmlns='urn:a'/>", "<q xmlns='urn:b'/>", false),
            ("<a t='{either:x|y}'/>", "<a t='y'/>", true),
            ("<a t='{either:x|y}'/>", "<a t='z'/>", false),
        ];
        for (expected, actual, fits) in rows {
            let pattern = parse(expected).unwrap().remove(0);
            let element = parse_fragment(actual).unwrap().remove(0);
            let result = fit(&pattern, &element, &mut Bindings::new());
            assert_eq!(result.is_ok(), fits, "{expected} and {actual}: {result:?}");
        }
    }

    #[test]
    fn a_capture_is_remembered_and_must_be_repeated() {
        let mut bindings = Bindings::new();
        let pattern = parse("<iq id='{capture:ID}'/>").unwrap().remove(0);
        fit(
            &pattern,
            &parse_fragment("<iq id='q7'/>").unwrap()[0],
            &mut bindings,
        )
        .unwrap();
        assert_eq!(bindings["ID"], "q7");
        let again = parse("<iq id='{ID}'/>").unwrap().remove(0);
        fit(
            &again,
            &parse_fragment("<iq id='q7'/>").unwrap()[0],
            &mut bindings,
        )
        .unwrap();
        let other = fit(
            &again,
            &parse_fragment("<iq id='q8'/>").unwrap()[0],
            &mut bindings,
        );
        assert!(other.unwrap_err().contains("\"q7\""));
        let unknown = parse("<iq id='{X}'/>").unwrap().remove(0);
        assert!(
            fit(
                &unknown,
                &parse_fragment("<iq id='1'/>").unwrap()[0],
                &mut bindings
            )
            .is_err()
        );
    }
}
