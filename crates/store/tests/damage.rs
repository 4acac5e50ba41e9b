//! What disks, operators and crashes do to a store, for real: killed processes, torn and damaged
//! files, a second server, a folder without permission, a full disk. Each has a defined outcome.
//!
//! Some cases need a process of their own: those run this test binary again, with an ignored test
//! as its main function.

mod common;

use std::env;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use common::{KEY, append, committed, message, put, roster};
use store::{
    AppendFailure, Durability, Engine, FjallEngine, FjallOptions, LocalJournal, OpenError, Options,
    Outcome, Record, Store, StoreError,
};

const USER: &str = "juliet@localhost";
const PATH_VARIABLE: &str = "ROOST_STORE_TEST_PATH";

fn options() -> Options {
    Options {
        slot_key: Some(KEY.to_bytes()),
        ..Options::default()
    }
}

fn open(path: &Path) -> Result<Store, OpenError> {
    Store::open(path, &options())
}

fn child(test: &str, path: &Path) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args([
            test,
            "--exact",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(PATH_VARIABLE, path)
        .stdout(Stdio::piped());
    command
}

fn path_of_child() -> PathBuf {
    PathBuf::from(env::var_os(PATH_VARIABLE).expect("run by another test"))
}

/// Lines that the child prints, without those of the test harness.
fn lines(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines
        .map_while(Result::ok)
        .filter_map(|line| line.split_once("child: ").map(|(_, said)| said.to_owned()))
}

#[allow(clippy::print_stdout)] // How a child talks to its test.
fn say(what: impl std::fmt::Display) {
    println!("\nchild: {what}");
}

// === A second server; a killed one ===

#[test]
#[ignore = "child of a_second_process_is_refused"]
fn child_holds_the_store() {
    let _store = open(&path_of_child()).unwrap();
    say("open");
    std::thread::park();
}

#[test]
fn a_second_process_is_refused_and_a_killed_one_leaves_no_lock() {
    let folder = tempfile::tempdir().unwrap();
    let mut holder = child("child_holds_the_store", folder.path())
        .spawn()
        .unwrap();
    assert_eq!(lines(&mut holder).next().as_deref(), Some("open"));
    match open(folder.path()) {
        Err(error @ OpenError::Locked { pid, .. }) => {
            assert_eq!(pid, Some(holder.id()));
            assert!(
                error.to_string().contains("in use by another process"),
                "{error}"
            );
        }
        other => panic!("{:?}", other.err()),
    }
    holder.kill().unwrap();
    holder.wait().unwrap();
    let store = open(folder.path()).unwrap();
    assert!(
        matches!(open(folder.path()), Err(OpenError::Locked { .. })),
        "nor twice in one process"
    );
    drop(store);
    open(folder.path()).unwrap();
}

#[test]
#[ignore = "child of a_killed_writer_loses_nothing_acknowledged"]
fn child_writes_until_killed() {
    let store = open(&path_of_child()).unwrap();
    let journal = LocalJournal::start(&store).unwrap();
    append(&journal, KEY, vec![put(USER)]);
    let first = store.load_user(USER).unwrap().unwrap().log.next_seq;
    for seq in first.. {
        assert!(committed(&append(
            &journal,
            KEY,
            vec![message(USER, seq, &seq.to_string())]
        )));
        say(seq);
    }
}

/// SIGKILL at any moment: all that was acknowledged is there, in order, and the store verifies.
#[test]
fn a_killed_writer_loses_nothing_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = 0;
    for round in 0..5 {
        let mut writer = child("child_writes_until_killed", folder.path())
            .spawn()
            .unwrap();
        for (count, said) in lines(&mut writer).enumerate() {
            acknowledged = said.parse().unwrap();
            if count == 20 + 37 * round {
                writer.kill().unwrap();
            }
        }
        writer.wait().unwrap();
        let store = open(folder.path()).unwrap();
        let log = store.load_user(USER).unwrap().unwrap().log;
        assert!(
            log.next_seq > acknowledged,
            "{log:?}, acknowledged {acknowledged}"
        );
        let mut after = 0;
        loop {
            let page = store.log_read(USER, after, 1_000).unwrap();
            let Some(last) = page.last() else { break };
            assert_eq!(
                page.iter().map(|e| e.seq).collect::<Vec<_>>(),
                (after + 1..=last.seq).collect::<Vec<_>>()
            );
            after = last.seq;
        }
        assert_eq!(after + 1, log.next_seq);
        let report = store.verify().unwrap();
        assert!(report.is_good(), "{report}");
    }
    assert!(acknowledged > 150, "{acknowledged}");
}

// === Torn and damaged files ===

fn journal_file(path: &Path) -> PathBuf {
    let files = fs::read_dir(path.join("db"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    files
        .filter(|path| path.extension().is_some_and(|e| e == "jnl"))
        .max()
        .unwrap()
}

/// A journal cut off anywhere, as a crash without a sync leaves it, is a store as of some group
/// before: whole groups of ten messages, never a part of one.
#[test]
fn a_torn_journal_shows_whole_groups() {
    let folder = tempfile::tempdir().unwrap();
    let original = folder.path().join("original");
    {
        let store = open(&original).unwrap();
        let journal = LocalJournal::start(&store).unwrap();
        append(&journal, KEY, vec![put(USER)]);
        for group in 0..30u64 {
            let records = (1..=10)
                .map(|n| message(USER, group * 10 + n, "x"))
                .collect();
            assert!(committed(&append(&journal, KEY, records)));
        }
    }
    let bytes = fs::read(journal_file(&original)).unwrap();
    let written = bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1;
    // The account is in the first few hundred bytes; before it there is nothing to look at.
    let start = bytes
        .windows(4)
        .position(|four| four == b"user")
        .unwrap_or(2_000);
    let mut seen = std::collections::BTreeSet::new();
    for cut in (start.max(2_000)..=written).step_by((written / 60).max(1)) {
        let copy = folder.path().join(format!("cut{cut}"));
        copy_folder(&original, &copy);
        OpenOptions::new()
            .write(true)
            .open(journal_file(&copy))
            .unwrap()
            .set_len(cut as u64)
            .unwrap();
        // Cut while it was closed, it is refused.
        match open(&copy) {
            Err(OpenError::Corrupt(why)) => assert!(why.contains("the end is missing"), "{why}"),
            other => assert!(
                other.is_ok() && cut + 100 > written,
                "cut at {cut} of {written}"
            ),
        }
        // After a crash there is no note of how much there was.
        fs::remove_file(copy.join("appends")).unwrap();
        let store = open(&copy).unwrap();
        let Some(user) = store.load_user(USER).unwrap() else {
            continue;
        };
        assert_eq!(user.log.count % 10, 0, "cut at {cut}");
        assert_eq!(
            store.log_read(USER, 0, 1_000).unwrap().len() as u64,
            user.log.count
        );
        let report = store.verify().unwrap();
        assert!(report.is_good(), "cut at {cut}: {report}");
        seen.insert(user.log.count);
        drop(store);
        fs::remove_dir_all(copy).unwrap();
    }
    assert!(seen.len() > 10, "{seen:?}");
}

fn copy_folder(from: &Path, to: &Path) {
    let status = Command::new("cp")
        .args(["-r", "--sparse=always"])
        .arg(from)
        .arg(to)
        .status();
    assert!(status.unwrap().success());
}

fn files_below(path: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Any file of a store cut in half, emptied, overwritten or gone: the store is refused as damaged,
/// or the verification says so, or the data is all there. Never a panic, never a store that
/// silently lost an account.
#[test]
fn damaged_files_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let original = folder.path().join("original");
    {
        let path = original.join("db");
        drop(open(&original).unwrap());
        let engine = Arc::new(FjallEngine::open(&path, FjallOptions::default()).unwrap());
        let shared: Arc<dyn Engine> = Arc::<FjallEngine>::clone(&engine);
        let store = Store::with_engine(shared, Durability::Fsync, KEY).unwrap();
        store
            .bulk((0..400).flat_map(|n| {
                let user = format!("u{n}@localhost");
                [
                    put(&user),
                    Record::RosterReplace {
                        user,
                        roster: roster(8),
                    },
                ]
            }))
            .unwrap();
        engine.compact().unwrap();
    }
    assert_eq!(open(&original).unwrap().verify().unwrap().accounts, 400);
    type Damage = fn(&Path, &[u8]);
    let damages: [(&str, Damage); 4] = [
        ("cut", |path, bytes| {
            fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("emptied", |path, _| fs::write(path, b"").unwrap()),
        ("overwritten", |path, bytes| {
            fs::write(path, vec![0xa5; bytes.len()]).unwrap();
        }),
        ("removed", |path, _| fs::remove_file(path).unwrap()),
    ];
    let (mut refused, mut harmless) = (0, Vec::new());
    for file in files_below(&original) {
        let relative = file.strip_prefix(&original).unwrap().to_owned();
        let length = fs::metadata(&file).unwrap().len();
        if relative.ends_with("lock") || length == 0 {
            continue;
        }
        for (name, damage) in damages {
            let copy = folder.path().join("copy");
            copy_folder(&original, &copy);
            let bytes = fs::read(copy.join(&relative)).unwrap();
            damage(&copy.join(&relative), &bytes);
            match open(&copy).map(|store| store.verify()) {
                Err(OpenError::Corrupt(_) | OpenError::Store(StoreError::Corrupt(_))) => {
                    refused += 1;
                }
                Ok(Err(StoreError::Corrupt(_))) => refused += 1,
                Ok(Ok(report)) if !report.is_good() => refused += 1,
                Ok(Ok(report)) => {
                    assert_eq!(report.accounts, 400, "{} {name}", relative.display());
                    harmless.push(format!("{} {name}", relative.display()));
                }
                Ok(Err(error)) => panic!("{} {name}: {error}", relative.display()),
                Err(error) => panic!("{} {name}: {error}", relative.display()),
            }
            fs::remove_dir_all(&copy).unwrap();
        }
    }
    assert!(refused > 20, "{refused} refused, harmless: {harmless:#?}");
}

#[test]
fn a_store_without_its_files_is_not_recreated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    open(&path).unwrap().bulk([put(USER)]).unwrap();
    for lost in ["db/version", "marker", "db"] {
        let copy = folder.path().join("copy");
        copy_folder(&path, &copy);
        let lost = copy.join(lost);
        if lost.is_dir() {
            fs::remove_dir_all(&lost).unwrap();
        } else {
            fs::remove_file(&lost).unwrap();
        }
        let result = open(&copy);
        assert!(
            matches!(result, Err(OpenError::Corrupt(_))),
            "{}: {:?}",
            lost.display(),
            result.err()
        );
        fs::remove_dir_all(copy).unwrap();
    }
    // A folder of something else is left alone.
    fs::create_dir(folder.path().join("other")).unwrap();
    fs::write(folder.path().join("other/marker"), "not ours").unwrap();
    assert!(matches!(
        open(&folder.path().join("other")),
        Err(OpenError::Corrupt(_))
    ));
}

// === No permission ===

#[test]
#[ignore = "child of a_folder_without_permission_is_an_error"]
fn child_opens_without_permission() {
    match open(&path_of_child()) {
        Err(OpenError::ReadOnly(_)) => say("read-only"),
        other => say(format!("{:?}", other.err())),
    }
}

#[test]
fn a_folder_without_permission_is_an_error() {
    // Root may write anywhere: the child runs as nobody then.
    let folder = tempfile::Builder::new().tempdir_in("/tmp").unwrap();
    let is_root = fs::metadata(folder.path()).unwrap().uid() == 0;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let existing = folder.path().join("existing");
    drop(open(&existing).unwrap());
    fs::set_permissions(&existing, fs::Permissions::from_mode(0o555)).unwrap();
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    fs::set_permissions(&empty, fs::Permissions::from_mode(0o555)).unwrap();
    let readable = folder.path().join("test-binary");
    fs::copy(env::current_exe().unwrap(), &readable).unwrap();
    for path in [&existing, &empty, &empty.join("below")] {
        let mut command = Command::new(&readable);
        command
            .args([
                "child_opens_without_permission",
                "--exact",
                "--ignored",
                "--nocapture",
            ])
            .current_dir("/")
            .env(PATH_VARIABLE, path)
            .stdout(Stdio::piped());
        if is_root {
            command.uid(65_534);
        }
        let mut child = command.spawn().unwrap();
        let said: Vec<String> = lines(&mut child).collect();
        assert_eq!(said, ["read-only"], "{}", path.display());
        child.wait().unwrap();
    }
    fs::set_permissions(&existing, fs::Permissions::from_mode(0o755)).unwrap();
}

// === A full disk ===

/// Whether a refusal says that the disk is full. What meets the end of the disk itself, and not the
/// reserve, is in doubt.
fn is_named(refusal: &Outcome) -> bool {
    match refusal {
        Outcome::Failed(AppendFailure::Full) => true,
        Outcome::Failed(AppendFailure::Unavailable(why)) => why.contains("full"),
        Outcome::InDoubt(doubt) => doubt.why().contains("full"),
        _ => false,
    }
}

/// Appends one message as soon as that is possible again; gives its place.
fn append_when_there_is_room(store: &Store, journal: &LocalJournal) -> u64 {
    for _ in 0..600 {
        match store.load_user(USER) {
            Ok(user) => {
                let next = user.unwrap().log.next_seq;
                let message = message(USER, next, "there is room");
                if committed(&append(journal, KEY, vec![message])) {
                    return next;
                }
            }
            Err(error) => assert!(matches!(error, StoreError::Unavailable(_)), "{error}"),
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("refused although there is room");
}

/// Appends until the disk is full, then checks that reads go on, refusals are named, `make_room` is
/// enough to go on in the same process, and nothing acknowledged is missing. Returns refusals.
fn fill_and_recover(path: &Path, engine: FjallOptions, make_room: impl FnOnce()) {
    let options = Options {
        engine,
        ..options()
    };
    let store = Store::open(path, &options).unwrap();
    let journal = LocalJournal::start(&store).unwrap();
    assert!(committed(&append(&journal, KEY, vec![put(USER)])));
    // Digits of a fraction: the journal compresses what repeats.
    let body: String = (0..12_000u64)
        .map(|n| format!("{:05}", n.pow(3) * 7_919 % 99_991))
        .collect();
    let mut acknowledged = 0;
    let refusal = loop {
        match append(&journal, KEY, vec![message(USER, acknowledged + 1, &body)]) {
            Outcome::Committed(_) => acknowledged += 1,
            refusal => break refusal,
        }
        assert!(acknowledged < 10_000, "the disk never filled");
    };
    assert!(is_named(&refusal), "{refusal:?} after {acknowledged}");
    for _ in 0..3 {
        let Ok(user) = store.load_user(USER) else {
            // The commit that met the end of the disk is in doubt until there is room.
            let log = store.log_read(USER, acknowledged - 1, 1).unwrap();
            assert_eq!(log.len(), 1, "reads go on");
            continue;
        };
        let log = user.unwrap().log;
        assert!(log.next_seq > acknowledged, "reads go on: {log:?}");
        // With little room left a small append may still succeed; it then counts.
        if committed(&append(
            &journal,
            KEY,
            vec![message(USER, log.next_seq, &body)],
        )) {
            acknowledged = log.next_seq;
        }
    }
    make_room();
    acknowledged = append_when_there_is_room(&store, &journal);
    let check = |store: &Store| {
        let report = store.verify().unwrap();
        assert!(report.is_good(), "{report}");
        assert!(store.load_user(USER).unwrap().unwrap().log.next_seq > acknowledged);
        assert!(
            report.log_entries >= acknowledged,
            "{report}, {acknowledged} acknowledged"
        );
    };
    check(&store);
    let reopened = store.stats().reopened;
    drop(journal);
    drop(store);
    check(&Store::open(path, &options).unwrap());
    say(format!(
        "recovered: {acknowledged} acknowledged, reopened {reopened}"
    ));
}

#[test]
#[ignore = "child of a_file_size_limit_is_a_full_disk"]
fn child_meets_the_file_size_limit() {
    // The second flush would come at 80 MiB, after the journal has met its limit; and there is no
    // reserve: the write itself must fail.
    let engine = FjallOptions {
        write_buffer_bytes: 40 << 20,
        reserve_bytes: 0,
        ..FjallOptions::default()
    };
    fill_and_recover(&path_of_child(), engine, || ());
}

/// The kernel refuses to let the journal grow (RLIMIT_FSIZE): a really failing write, in the
/// engine's own journal. The engine is reopened in process and goes on in another file.
#[test]
fn a_file_size_limit_is_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let mut shell = Command::new("sh");
    // In blocks of 512 bytes: just above the 64 MiB that the engine preallocates.
    shell
        .args(["-c", "trap '' XFSZ; ulimit -f 131080; exec \"$0\" \"$@\""])
        .arg(env::current_exe().unwrap())
        .args([
            "child_meets_the_file_size_limit",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .env(PATH_VARIABLE, folder.path())
        .stdout(Stdio::piped());
    let mut child = shell.spawn().unwrap();
    let said: Vec<String> = lines(&mut child).collect();
    assert!(child.wait().unwrap().success(), "{said:?}");
    assert!(
        said[0].contains("recovered") && !said[0].ends_with("reopened 0"),
        "{said:?}"
    );
}

/// The mount point for a small file system, made by a shell in its own name space.
fn with_small_disk(test: &str, megabytes: u32) -> Option<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let mount =
        format!("mount -t tmpfs -o size={megabytes}m roost-test \"$ROOST_STORE_TEST_PATH\"");
    let mut unshare = Command::new("unshare");
    unshare
        .args(["--user", "--map-root-user", "--mount", "sh", "-c"])
        .arg(format!(
            "{mount} || {{ echo 'child: no mount'; exit 0; }}; exec \"$0\" \"$@\""
        ))
        .arg(env::current_exe().unwrap())
        .args([test, "--exact", "--ignored", "--nocapture"])
        .env(PATH_VARIABLE, folder.path())
        .stdout(Stdio::piped());
    let mut child = unshare.spawn().ok()?;
    let said: Vec<String> = lines(&mut child).collect();
    let status = child.wait().unwrap();
    let unavailable = said.is_empty() && !status.success() && status.code() == Some(1);
    if unavailable || said == ["no mount"] {
        let _ = writeln!(
            std::io::stderr(),
            "no small disk to be had here: not tested"
        );
        return None;
    }
    assert!(status.success(), "{said:?}");
    Some(said)
}

fn ballast(path: &Path, megabytes: usize) -> PathBuf {
    let file = path.join("ballast");
    fs::write(&file, vec![1; megabytes << 20]).unwrap();
    file
}

#[test]
#[ignore = "child of a_full_disk_without_a_reserve"]
fn child_fills_the_disk() {
    let path = path_of_child();
    let ballast = ballast(&path, 24);
    let engine = FjallOptions {
        write_buffer_bytes: 1 << 20,
        reserve_bytes: 0,
        ..FjallOptions::default()
    };
    fill_and_recover(&path.join("data"), engine, || {
        fs::remove_file(ballast).unwrap();
    });
}

/// Flushes and journal writes meet the end of the disk, whichever comes first.
#[test]
fn a_full_disk_without_a_reserve() {
    if let Some(said) = with_small_disk("child_fills_the_disk", 48) {
        assert!(said[0].contains("recovered"), "{said:?}");
    }
}

#[test]
#[ignore = "child of a_full_disk_with_a_reserve"]
fn child_fills_the_disk_to_the_reserve() {
    let path = path_of_child();
    let ballast = ballast(&path, 24);
    let engine = FjallOptions {
        write_buffer_bytes: 1 << 20,
        reserve_bytes: 12 << 20,
        ..FjallOptions::default()
    };
    fill_and_recover(&path.join("data"), engine, || {
        fs::remove_file(ballast).unwrap();
    });
}

/// With a reserve the engine never meets the end of the disk: nothing had to be reopened.
#[test]
fn a_full_disk_with_a_reserve() {
    if let Some(said) = with_small_disk("child_fills_the_disk_to_the_reserve", 64) {
        assert!(said[0].ends_with("reopened 0"), "{said:?}");
    }
}

/// Bytes that nothing compresses.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut noise = Vec::with_capacity(bytes);
    while noise.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        noise.extend_from_slice(&state.to_le_bytes());
    }
    noise
}

/// One of the items that fill the store.
fn item(number: u64, seed: u64) -> Record {
    Record::PrivatePut {
        user: USER.to_owned(),
        ns: "urn:noise".to_owned(),
        name: format!("n{number:04}"),
        xml: noise(seed, 64 << 10),
    }
}

/// Leaves only `kilobytes` of the disk.
fn leave(path: &Path, kilobytes: u64) -> PathBuf {
    let stat = rustix::fs::statvfs(path).unwrap();
    let free = stat.f_bavail * stat.f_frsize;
    let file = path.join("ballast");
    let size = free.saturating_sub(kilobytes << 10);
    fs::write(&file, vec![1; usize::try_from(size).unwrap()]).unwrap();
    file
}

/// Fills the store, leaves no room for what it holds a second time, and lets the engine write it
/// into a table for the first time, or merge the table with a later one. The store must go on when
/// there is room again, in this process, with all that it acknowledged.
fn background_work_meets_the_end(has_tables: bool) {
    const ITEMS: u64 = 128;
    let path = path_of_child();
    let options = FjallOptions {
        write_buffer_bytes: 64 << 20,
        reserve_bytes: 0,
        ..FjallOptions::default()
    };
    let must = |journal: &LocalJournal, record| {
        let outcome = append(journal, KEY, vec![record]);
        assert!(committed(&outcome), "{outcome:?}");
    };
    let open = || {
        let engine = FjallEngine::open(&path.join("data"), options.clone()).unwrap();
        let engine = Arc::new(engine);
        let shared: Arc<dyn Engine> = Arc::<FjallEngine>::clone(&engine);
        let store = Store::with_engine(shared, Durability::Fsync, KEY).unwrap();
        let journal = LocalJournal::start(&store).unwrap();
        (engine, store, journal)
    };
    let (mut engine, mut store, mut journal) = open();
    must(&journal, put(USER));
    (0..ITEMS).for_each(|number| must(&journal, item(number, number)));
    if has_tables {
        engine.compact().unwrap();
        // What the compaction made superfluous goes when the engine is opened.
        drop((journal, store, engine));
        (engine, store, journal) = open();
        // A table for which there is room, but which overlaps the other.
        let some = (0..ITEMS).step_by(8);
        some.for_each(|number| must(&journal, item(number, number)));
    }
    let ballast = leave(&path, 4 << 10);
    assert!(engine.compact().is_err(), "there was room");
    // Reads go on, and whatever is refused is named.
    let refused = append(&journal, KEY, vec![message(USER, 1, "no room")]);
    assert!(committed(&refused) || is_named(&refused), "{refused:?}");
    assert_eq!(store.private_all(USER).unwrap().len() as u64, ITEMS);
    fs::remove_file(ballast).unwrap();
    append_when_there_is_room(&store, &journal);
    engine.compact().unwrap();
    let report = store.verify().unwrap();
    assert!(report.is_good(), "{report}");
    let items = store.private_all(USER).unwrap();
    assert_eq!(items.len() as u64, ITEMS);
    for (number, (_, name, xml)) in (0..).zip(&items) {
        assert_eq!(
            (name, xml),
            (&format!("n{number:04}"), &noise(number, 64 << 10))
        );
    }
    let is_refused = !committed(&refused);
    let reopened = engine.stats().reopened;
    say(format!("refused {is_refused}, reopened {reopened}"));
}

#[test]
#[ignore = "child of a_flush_meets_the_end_of_the_disk"]
fn child_flushes_without_room() {
    background_work_meets_the_end(false);
}

/// The journal has room, the table that the write buffer becomes has none.
#[test]
fn a_flush_meets_the_end_of_the_disk() {
    if let Some(said) = with_small_disk("child_flushes_without_room", 64) {
        assert!(said[0].starts_with("refused"), "{said:?}");
    }
}

#[test]
#[ignore = "child of a_compaction_meets_the_end_of_the_disk"]
fn child_compacts_without_room() {
    background_work_meets_the_end(true);
}

/// Tables cannot be merged for want of room.
#[test]
fn a_compaction_meets_the_end_of_the_disk() {
    if let Some(said) = with_small_disk("child_compacts_without_room", 128) {
        assert!(said[0].starts_with("refused"), "{said:?}");
    }
}
