//! `docs/xeps.md`, made from what the modules of the server declare.

use std::fmt::Write as _;

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Number in the XSF's series; 0 for an RFC.
    pub number: u16,
    /// Name as its document has it.
    pub name: &'a str,
    /// The version that the code follows.
    pub version: &'a str,
    /// What is there and what is not.
    pub note: &'a str,
}

/// The whole document.
#[must_use]
pub fn render(rows: &[Row<'_>]) -> String {
    let mut out = String::from(
        "# Protocol extensions\n\n\
         Made from the code by `cargo run -p xtask -- xeps`; the tidy test fails when it is out of \
         date. Each extension is\none file in `crates/server/src/modules/`, which declares what \
         stands here.\n\n\
         | document | name | version | what is there |\n|---|---|---|---|\n",
    );
    for row in rows {
        let document = match row.number {
            0 => "RFC".to_owned(),
            number => {
                format!("[XEP-{number:04}](https://xmpp.org/extensions/xep-{number:04}.html)")
            }
        };
        let _ = writeln!(
            out,
            "| {document} | {} | {} | {} |",
            row.name, row.version, row.note
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extension_becomes_a_line_with_its_link() {
        let row = Row {
            number: 54,
            name: "vcard-temp",
            version: "1.3",
            note: "All.",
        };
        let text = render(&[row]);
        let line =
            "| [XEP-0054](https://xmpp.org/extensions/xep-0054.html) | vcard-temp | 1.3 | All. |";
        assert!(text.lines().any(|found| found == line), "{text}");
    }
}
