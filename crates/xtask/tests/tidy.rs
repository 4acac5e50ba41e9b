//! Applies every rule of this crate to the repository. A failure lists all places at once.

use cargo_metadata::MetadataCommand;
use xtask::{
    TrackedFile, changelog, layers, modules, root, rules, sections, source, tracked_files, xeps,
};

fn check(findings: Vec<String>) {
    assert!(
        findings.is_empty(),
        "{} findings:\n{}",
        findings.len(),
        findings.join("\n")
    );
}

fn files() -> Vec<TrackedFile> {
    tracked_files().expect("git lists the files")
}

/// Applies a rule to every file whose name ends in one of these.
fn check_files(endings: &[&str], rule: impl Fn(&str, &str) -> Vec<String>) {
    let files = files();
    let chosen = files
        .iter()
        .filter(|file| endings.iter().any(|end| file.path.ends_with(end)));
    let mut count = 0;
    let findings = chosen
        .inspect(|_| count += 1)
        .flat_map(|file| rule(&file.path, &file.text));
    let findings = findings.collect();
    assert!(count > 0, "no file ends in {endings:?}");
    check(findings);
}

#[test]
fn crates_depend_downwards_and_libraries_have_owners() {
    let manifest = root().join("Cargo.toml");
    let metadata = MetadataCommand::new()
        .manifest_path(manifest)
        .no_deps()
        .exec();
    check(layers::check(&layers::edges(
        &metadata.expect("cargo reads the manifests"),
    )));
}

#[test]
fn modules_of_the_server_import_downwards() {
    check(modules::check(&files()));
}

#[test]
fn every_file_opens_with_module_docs() {
    check_files(&[".rs"], rules::module_docs);
}

#[test]
fn every_unwrap_states_its_invariant() {
    check_files(&[".rs"], rules::unwraps);
}

#[test]
fn no_banned_call_is_made() {
    check_files(&[".rs"], rules::banned_calls);
}

#[test]
fn no_leftover_is_merged() {
    check_files(
        &[".rs", ".md", ".toml", ".py", ".mjs", "Makefile"],
        rules::leftovers,
    );
}

#[test]
fn lines_are_at_most_100_columns_wide() {
    check_files(&[".rs", ".toml", ".py", ".mjs", "Makefile"], rules::columns);
}

#[test]
fn long_files_have_a_reason() {
    check_files(&[".rs", ".py", ".mjs"], rules::file_length);
}

#[test]
fn functions_of_the_heart_are_short() {
    check_files(&[".rs"], rules::function_length);
}

/// Half of the heart's files are shorter than this, tests left out.
#[test]
fn files_of_the_heart_are_short() {
    const MEDIAN_MAX: usize = 250;
    for folder in rules::HEART {
        let is_of_it = |file: &&TrackedFile| {
            file.path.starts_with(folder)
                && file.path.ends_with(".rs")
                && !source::is_test_path(&file.path)
        };
        let files = files();
        let own = files.iter().filter(is_of_it);
        let mut lengths: Vec<usize> = own.map(|file| file.text.lines().count()).collect();
        lengths.sort_unstable();
        let median = lengths[lengths.len() / 2];
        assert!(median < MEDIAN_MAX, "{folder}: a median of {median} lines");
    }
}

#[test]
fn unsafe_code_has_a_reason() {
    check_files(&[".rs"], rules::unsafe_code);
}

#[test]
fn no_file_names_a_machine_or_a_registry() {
    let endings = [
        ".rs", ".md", ".toml", ".py", ".mjs", ".json", ".txt", ".npmrc", "Makefile", "run", ".xmpp",
    ];
    check_files(&endings, rules::places);
}

#[test]
fn no_file_is_dead() {
    let files = files();
    let rust: Vec<(&str, &str)> = files
        .iter()
        .filter(|file| file.path.ends_with(".rs"))
        .map(|file| (file.path.as_str(), file.text.as_str()))
        .collect();
    check(
        rust.iter()
            .flat_map(|(path, _)| rules::dead_file(path, &rust))
            .collect(),
    );
}

#[test]
fn every_script_is_named_by_a_sentence() {
    check_files(&[".xmpp"], |path, _| rules::script_name(path));
}

#[test]
fn the_changelog_has_its_shape() {
    check_files(&["CHANGELOG.md"], |_, text| changelog::check(text));
}

#[test]
fn the_list_of_extensions_is_up_to_date() {
    let there = std::fs::read_to_string(root().join(xeps::PATH));
    let there = there.expect("the list of extensions is there");
    assert_eq!(there, xeps::document(), "`make docs` writes {}", xeps::PATH);
}

#[test]
fn scripts_and_tests_name_sections_that_are_there() {
    check(sections::check(&files()));
}

#[test]
fn extensions_and_their_sections_are_of_one_version() {
    check(sections::other_versions(&xeps::versions()));
}

#[test]
fn the_list_of_sections_is_up_to_date() {
    let there = std::fs::read_to_string(root().join(sections::PATH));
    let there = there.expect("the list of sections is there");
    let path = sections::PATH;
    assert_eq!(
        there,
        sections::document(&files()),
        "`make docs` writes {path}"
    );
}
