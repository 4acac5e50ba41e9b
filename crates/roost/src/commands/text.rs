//! Text of clients on an operator's terminal: nothing in it moves the cursor, turns the direction
//! of what follows, or looks like a line of ours.

use std::borrow::Cow;

/// What a terminal, or a reader of lines, would take for more than text.
fn is_bad(c: char) -> bool {
    c.is_control() || server::guard::is_directional(c) || matches!(c, '\u{2028}' | '\u{2029}')
}

fn escaped(text: &str, is_bad: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&is_bad) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_bad(c) {
            // As JSON has it, so that JSON stays what it is.
            true => safe.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

/// What a command prints, lines and all.
pub(crate) fn safe(output: &str) -> Cow<'_, str> {
    escaped(output, |c| c != '\n' && is_bad(c))
}

/// A text of a client as a part of a line.
pub(super) fn in_line(text: &str) -> Cow<'_, str> {
    escaped(text, is_bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown_instead() {
        let all = "a\u{1b}[2J\u{9b}2J\r\u{7f}\u{202e}\u{2066}\u{200f}\u{2028}\tä ✓\n";
        let shown = r"a\u001b[2J\u009b2J\u000d\u007f\u202e\u2066\u200f\u2028\u0009ä ✓";
        assert_eq!(safe(all), format!("{shown}\n"));
        assert_eq!(in_line(all), format!(r"{shown}\u000a"));
        assert_eq!(in_line("plain"), "plain");
    }

    #[test]
    fn json_keeps_its_meaning() {
        let value = serde_json::json!({ "name": "a\u{9b}\u{202e}b\n" });
        let text = safe(&value.to_string()).into_owned();
        assert!(!text.chars().any(is_bad), "{text}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).ok(),
            Some(value)
        );
    }
}
