//! What an orderly close leaves to the next opening, and what a kill in the middle of one leaves.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use store::{Change, Durability, Engine, FjallEngine, FjallOptions, Reader, Space};

/// Values of 1 KiB that are written; more than a write buffer holds.
const VALUES: usize = 6 * 1_024;

fn open(path: &Path) -> FjallEngine {
    FjallEngine::open(path, FjallOptions::default()).unwrap()
}

fn key(number: usize) -> String {
    format!("key {number:06}")
}

fn value(number: usize) -> Vec<u8> {
    format!("{number:>256}").into_bytes()
}

fn write(engine: &FjallEngine, space: Space, numbers: impl Iterator<Item = usize>) {
    let changes = numbers.map(|number| Change {
        space,
        key: key(number).into_bytes().into(),
        value: Some(value(number).repeat(4).into()),
    });
    engine.commit(changes.collect(), Durability::Fsync).unwrap();
}

/// One small value that stays in its write buffer, then many in another space, some twice.
fn fill(engine: &FjallEngine) {
    write(engine, Space::Meta, 0..1);
    for first in (0..VALUES).step_by(64) {
        write(engine, Space::State, first..first + 64);
    }
    write(engine, Space::State, 0..8);
}

fn check(engine: &FjallEngine) {
    let meta = engine.get(Space::Meta, key(0).as_bytes()).unwrap();
    assert_eq!(meta, Some(value(0).repeat(4)));
    let mut seen = 0;
    engine
        .scan(Space::State, b"", b"", &mut |found, what| {
            assert_eq!(found, key(seen).as_bytes());
            assert_eq!(what, value(seen).repeat(4));
            seen += 1;
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(seen, VALUES);
}

fn journals(path: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(path).unwrap().map(|file| file.unwrap().path());
    files
        .filter(|path| path.extension().is_some_and(|e| e == "jnl"))
        .collect()
}

fn journal_bytes(path: &Path) -> u64 {
    let all = journals(path);
    all.iter()
        .map(|path| path.metadata().unwrap().blocks() * 512)
        .sum()
}

/// To read a long journal took seconds, at every start, for what had been written long before.
#[test]
fn a_store_that_was_closed_has_no_long_journal_to_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    fill(&engine);
    assert!(journal_bytes(folder.path()) > 4 * 1_024 * 1_024);
    drop(engine);
    assert!(journal_bytes(folder.path()) < 64 * 1_024);
    assert_eq!(journals(folder.path()).len(), 1);
    let engine = open(folder.path());
    check(&engine);
    // What is written next counts, and is there after a close that has little to do.
    write(&engine, Space::Log, 5..6);
    drop(engine);
    let engine = open(folder.path());
    check(&engine);
    let found = engine.get(Space::Log, key(5).as_bytes()).unwrap();
    assert_eq!(found, Some(value(5).repeat(4)));
}

/// Killed between the new journal and the end of the old one, or before either: nothing is missing,
/// nothing that was changed later is as it was, and the next close is as good.
#[test]
fn a_close_that_was_interrupted_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    fill(&engine);
    let old = journals(folder.path());
    let kept: Vec<Vec<u8>> = old.iter().map(|path| fs::read(path).unwrap()).collect();
    drop(engine);
    for (path, bytes) in old.iter().zip(&kept) {
        assert!(!path.exists(), "{path:?}");
        fs::write(path, bytes).unwrap();
    }
    let engine = open(folder.path());
    check(&engine);
    let change = Change {
        space: Space::State,
        key: key(VALUES).into_bytes().into(),
        value: Some(value(VALUES).repeat(4).into()),
    };
    engine.commit(vec![change], Durability::Fsync).unwrap();
    drop(engine);
    let engine = open(folder.path());
    let found = engine.get(Space::State, key(VALUES).as_bytes()).unwrap();
    assert_eq!(found, Some(value(VALUES).repeat(4)));
}

/// A disk that takes longer than a close may: the journal stays, and the next opening reads it.
#[test]
fn a_close_that_takes_too_long_leaves_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let impatient = FjallOptions {
        close_within: Duration::ZERO,
        ..FjallOptions::default()
    };
    let engine = FjallEngine::open(folder.path(), impatient).unwrap();
    fill(&engine);
    let before = journals(folder.path());
    drop(engine);
    assert!(before.iter().all(|journal| journal.exists()));
    check(&open(folder.path()));
}

/// While a reader is left the library may still write: the journal stays as it is.
#[test]
fn a_close_while_somebody_reads_leaves_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    fill(&engine);
    let reader = engine.snapshot().unwrap();
    let before = journals(folder.path());
    drop(engine);
    assert_eq!(journals(folder.path()), before);
    assert!(
        reader
            .get(Space::Meta, key(0).as_bytes())
            .unwrap()
            .is_some()
    );
    drop(reader);
    check(&open(folder.path()));
}
