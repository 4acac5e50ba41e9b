//! `docs/xeps.md`, made from what the modules of the server declare.

use std::fmt::Write as _;

use server::modules::{self, Module, Switch, Xep};

/// Where the document is, from the root of the repository.
pub const PATH: &str = "docs/xeps.md";

/// The document as the code has it now.
#[must_use]
pub fn document() -> String {
    render(&modules::xeps())
}

/// The version of each extension, as the modules declare it.
#[must_use]
pub fn versions() -> Vec<(u16, &'static str)> {
    let all = modules::xeps();
    all.iter()
        .map(|(_, xep)| (xep.number, xep.version))
        .collect()
}

fn render(xeps: &[(Option<&Module>, Xep)]) -> String {
    let mut out = String::from(
        "# Protocol extensions\n\n\
         Made from the code by `make docs`; a test fails when it is out of date. Most extensions \
         are one file each in\n`crates/server/src/modules/`, which declares what stands \
         here.\nThe last column is the key in section `[modules]` \
         ([configuration.md](configuration.md)) that turns an\nextension off; what lives in \
         streams and \
         connections follows their own options (`delivery.stream_management`, the\nlisteners).\n\n\
         | document | name | version | what is there | key |\n|---|---|---|---|---|\n",
    );
    for (module, xep) in xeps {
        let document = match xep.number {
            0 => "RFC".to_owned(),
            number => {
                format!("[XEP-{number:04}](https://xmpp.org/extensions/xep-{number:04}.html)")
            }
        };
        let _ = writeln!(
            out,
            "| {document} | {} | {} | {} | {} |",
            xep.name,
            xep.version,
            xep.note,
            key(*module)
        );
    }
    out
}

fn key(module: Option<&Module>) -> String {
    match module {
        Some(module) if module.switch == Switch::ByOperator => format!("`{}`", module.name),
        Some(_) => "always on".to_owned(),
        None => "elsewhere".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extension_becomes_a_line_with_its_link() {
        let xep = Xep {
            number: 54,
            name: "vcard-temp",
            version: "1.3",
            note: "All.",
        };
        let named = |name: &str| {
            let mut modules = modules::MODULES.iter().copied();
            modules.find(|module| module.name == name)
        };
        let cases = [
            (named("vcard"), "`vcard`"),
            (named("roster"), "always on"),
            (None, "elsewhere"),
        ];
        for (module, key) in cases {
            let text = render(&[(module, xep)]);
            let line = format!(
                "| [XEP-0054](https://xmpp.org/extensions/xep-0054.html) | vcard-temp | 1.3 \
                 | All. | {key} |"
            );
            assert!(text.lines().any(|found| found == line), "{text}");
        }
    }
}
