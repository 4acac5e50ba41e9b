//! The shape of `CHANGELOG.md`: what operators read must look the same in every release.

/// The groups of a release, in their order.
const GROUPS: [&str; 3] = ["Safety and performance", "Features", "Internals"];

/// What is wrong with the shape of a changelog.
#[must_use]
pub fn check(text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let mut found = |index: usize, what: &str| {
        findings.push(format!("CHANGELOG.md:{}: {what}", index + 1));
    };
    if !text.starts_with("# Changelog\n") {
        found(0, "it opens with `# Changelog`");
    }
    let mut releases = 0;
    let mut group = None;
    for (index, line) in text.lines().enumerate() {
        if let Some(title) = line.strip_prefix("## ") {
            if releases == 0 && title != "Unreleased" {
                found(index, "the first release is `## Unreleased`");
            }
            if releases > 0 && !is_release(title) {
                found(index, "a release is `## 1.2.3 (2026-01-31)`");
            }
            releases += 1;
            group = None;
        } else if let Some(title) = line.strip_prefix("### ") {
            let position = GROUPS.iter().position(|group| *group == title);
            if position.is_none() {
                found(index, &format!("a group is one of {GROUPS:?}"));
            } else if position <= group {
                found(
                    index,
                    &format!("groups come once and in this order: {GROUPS:?}"),
                );
            }
            group = position;
        } else if line.starts_with("- ") && group.is_none() {
            found(index, "an entry stands in a group");
        } else if line.starts_with("* ") {
            found(index, "an entry begins with `- `");
        }
    }
    if releases == 0 {
        found(0, "there is no release");
    }
    findings
}

fn is_release(title: &str) -> bool {
    let Some((version, date)) = title.split_once(" (") else {
        return false;
    };
    let is_number = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
    let is_version = version.split('.').count() == 3 && version.split('.').all(is_number);
    let date = date.strip_suffix(')').unwrap_or("");
    is_version && date.len() == 10 && date.split('-').count() == 3 && date.split('-').all(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# Changelog\n\nFor operators.\n\n## Unreleased\n\n### Features\n\n- It \
        works.\n\n## 0.1.0 (2026-01-31)\n\n### Safety and performance\n\n- Fast.\n";

    #[test]
    fn a_good_changelog_passes() {
        assert_eq!(check(GOOD), Vec::<String>::new());
    }

    #[test]
    fn a_changelog_of_another_shape_is_found() {
        let bad = [
            GOOD.replace("# Changelog\n\nFor", "# News\n\nFor"),
            GOOD.replace("## Unreleased", "## 0.2.0 (2026-02-01)"),
            GOOD.replace("0.1.0 (2026-01-31)", "0.1 of January"),
            GOOD.replace("### Features", "### Misc"),
            GOOD.replace("### Features\n\n- It", "- It"),
            GOOD.replace("- Fast", "* Fast"),
            GOOD.replace("- Fast.", "- Fast.\n\n### Safety and performance\n"),
            "# Changelog\n".to_owned(),
        ];
        for text in bad {
            assert!(!check(&text).is_empty(), "{text}");
        }
    }
}
