//! The documentation of the configuration, printed from the table of keys: the commented default
//! file and the reference page. Owns their layout only.

use std::fmt::Write as _;

use super::components;
use super::table::{Key, SECTIONS};

/// The default file: every key with its meaning, bound and default, commented out.
pub(crate) fn default_file() -> String {
    let mut out = String::from(
        "# Configuration of Roost. Every key is shown with its default; remove the # before a key\n\
         # to change it. Keys marked (reload) are applied by SIGHUP, the others take a restart.\n\
         # Unknown keys are refused. Check a file with: roost check-config FILE\n",
    );
    for section in SECTIONS {
        out.push('\n');
        for line in section.help {
            let _ = writeln!(out, "#{line}");
        }
        if !section.name.is_empty() {
            let _ = writeln!(out, "[{}]", section.name);
        }
        for key in section.keys {
            out.push('\n');
            for line in key.help {
                let _ = writeln!(out, "#{line}");
            }
            let reload = if key.is_live { " (reload)" } else { "" };
            for line in wrapped(&format!("Takes {}.{reload}", key.bound.describe()), 96) {
                let _ = writeln!(out, "# {line}");
            }
            let _ = writeln!(out, "#{} = {}", key.name, key.default);
        }
    }
    out + &components::default_file()
}

/// The reference page.
pub(crate) fn markdown() -> String {
    let mut out = String::from(
        "# Configuration\n\n\
         <!-- Printed by `roost config --markdown` from crates/roost/src/config/table.rs. -->\n\n\
         One TOML file; every key has a default, so an empty file (or none) is a working server.\n\
         `roost config` prints the commented default file, `roost check-config FILE` checks one.\n\
         Unknown keys are refused by name, with the nearest known one.\n\n\
         A command finds its configuration in this order: the file of `--config`; `roost.toml`\n\
         in the folder of `--data`; without both, `./roost.toml`; the defaults if there is a\n\
         `./roost-data`; `/etc/roost/roost.toml`; the defaults. `--data` overrides the key\n\
         `data`.\n\n\
         Keys marked *reload* are applied by SIGHUP (`systemctl reload roost`); the others take a\n\
         restart. What happens at each limit is in [limits.md](limits.md).\n",
    );
    for section in SECTIONS {
        let title = match section.name {
            "" => "Top of the file".to_owned(),
            name => format!("`[{name}]`"),
        };
        let _ = write!(out, "\n## {title}\n\n{}\n\n", joined(section.help));
        out.push_str("| key | default | takes | meaning |\n|---|---|---|---|\n");
        for key in section.keys {
            let _ = writeln!(out, "{}", row(key));
        }
    }
    out + &components::markdown()
}

fn row(key: &Key) -> String {
    let reload = if key.is_live { " *reload*" } else { "" };
    let cells = [
        format!("`{}`{reload}", key.name),
        format!("`{}`", key.default),
        key.bound.describe(),
        joined(key.help),
    ];
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    format!("| {} |", cells.join(" | "))
}

fn joined(lines: &[&str]) -> String {
    lines
        .iter()
        .map(|line| line.trim())
        .collect::<Vec<_>>()
        .join(" ")
}

pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
