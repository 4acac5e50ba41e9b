//! Disks that are not as they should be: in use, read-only, damaged, full.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::client::Client;
use crate::place::{Outcome, Place, Server, run};

#[test]
fn a_second_server_on_the_same_data_is_refused_and_the_first_goes_on() {
    let place = Place::new();
    place.add(&["alice"]);
    let server = place.serve();
    let mut alice = Client::online(server.plain, "alice", "a");
    let second = place.serve_in_vain();
    assert_eq!(second.code, 1, "{}", second.err);
    let process = format!("process {}", server.id());
    assert!(second.err.contains(&process), "{process}: {}", second.err);
    alice.sync();
    assert_eq!(server.page("/readyz").0, 200);
    server.stop();
}

#[test]
fn a_folder_that_is_none_or_read_only_is_named() {
    let place = Place::new();
    fs::write(place.data(), "a file").expect("a file");
    let outcome = place.serve_in_vain();
    assert_eq!(outcome.code, 1, "{}", outcome.err);
    let data = place.data().display().to_string();
    assert!(outcome.err.contains(&data), "{}", outcome.err);

    let place = Place::new();
    place.add(&["alice"]);
    let data = place.data().display().to_string();
    let script = format!("mount --bind '{data}' '{data}' && mount -o remount,bind,ro '{data}'");
    let Some(command) = with_mount(&script, &place) else {
        return;
    };
    let outcome = run(command, "");
    assert_eq!(outcome.code, 1, "{}", outcome.err);
    for expected in [data.as_str(), "read-only"] {
        assert!(
            outcome.err.contains(expected),
            "{expected}: {}",
            outcome.err
        );
    }
}

#[test]
fn a_truncated_store_exits_with_65_and_says_what_to_do() {
    let place = Place::new();
    place.add(&["alice", "bob"]);
    assert_eq!(place.run(&["verify"]).code, 0);
    halve(&place.data().join("store/db"));
    for outcome in [place.serve_in_vain(), place.run(&["verify"])] {
        assert_eq!(outcome.code, 65, "{}", outcome.err);
        assert!(outcome.err.contains("restore"), "{}", outcome.err);
    }
}

#[test]
fn a_full_disk_refuses_messages_and_loses_none_that_it_took() {
    let place = Place::new();
    let (roost, config) = (env!("CARGO_BIN_EXE_roost"), place.config());
    let data = place.data().display().to_string();
    let mut script =
        format!("mkdir -p '{data}' && mount -t tmpfs -o size=96m,mode=700 tmpfs '{data}'");
    for user in ["alice", "bob"] {
        script.push_str(&format!(
            " && '{roost}' user add {user}@localhost --password secret --config '{}' >&2",
            config.display()
        ));
    }
    let Some(command) = with_mount(&script, &place) else {
        return;
    };
    let mut server = Server::start(command);
    let seen_by_server = format!("/proc/{}/root{data}", server.id());
    let mut alice = Client::online(server.plain, "alice", "a");
    alice.say("bob", "taken-before");
    // What is accepted is in the store when the next change of the same user is.
    alice.send("<iq type='set' id='card'><vCard xmlns='vcard-temp'><FN>Alice</FN></vCard></iq>");
    alice.expect("id='card'");

    let ballast = Path::new(&seen_by_server).join("ballast");
    let file = File::create(&ballast).expect("a file");
    let free = rustix::fs::fstatvfs(&file).expect("the room");
    let bytes = free.f_bavail * free.f_frsize - 8 * 1024 * 1024;
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes).expect("filled");
    alice.say("bob", "refused");
    let refusal = alice.expect("</message>");
    assert!(refusal.contains("id='refused'"), "{refusal}");
    assert!(refusal.contains("<resource-constraint"), "{refusal}");
    let carol = inside(
        &server,
        &place,
        &["user", "add", "carol@localhost", "--password", "pw"],
    );
    assert_ne!(carol.code, 0, "{}", carol.out);
    let why = "the store could not be read or written";
    assert!(carol.err.contains(why), "{}", carol.err);
    server.wait_for("could not be made durable user=alice@localhost error=Full");
    let status = inside(&server, &place, &["status"]);
    assert_eq!(status.code, 0, "{}", status.err);
    alice.sync();

    fs::remove_file(&ballast).expect("removed");
    drop(file);
    // A process that another test is just starting may hold the file for a moment longer.
    let room = || {
        let free = rustix::fs::statvfs(&seen_by_server).expect("the room");
        free.f_bavail * free.f_frsize
    };
    let began = Instant::now();
    while room() < bytes {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "it is still held"
        );
        std::thread::yield_now();
    }
    alice.say("bob", "taken-after");
    let answer = alice.sync();
    assert!(!answer.contains("error"), "{answer}");
    let mut bob = Client::online(server.plain, "bob", "b");
    let first = bob.expect("</message>");
    assert!(first.contains("taken-before"), "{first}");
    let second = bob.expect("</message>");
    assert!(second.contains("taken-after"), "{second}");
    drop((alice, bob));
    server.signal(Signal::TERM);
    let (code, log) = server.end();
    assert_eq!(code, 0, "{log}");
}

/// The command of a server that has mounts of its own, `None` where that is not allowed.
fn with_mount(script: &str, place: &Place) -> Option<Command> {
    let probe = "mount -t tmpfs tmpfs /proc/sys";
    let allowed = Command::new("unshare")
        .args(["-m", "sh", "-c", probe])
        .output();
    match allowed {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            return skip(&why);
        }
        Err(error) => return skip(&error.to_string()),
    }
    let mut command = Command::new("unshare");
    let script = format!("{script} && exec \"$0\" \"$@\"");
    command.args(["-m", "sh", "-c", &script]);
    command.stdout(Stdio::null());
    let server = place.server();
    command.arg(server.get_program()).args(server.get_args());
    Some(command)
}

#[allow(clippy::print_stderr)] // A test that does not run says so.
fn skip(why: &str) -> Option<Command> {
    eprintln!("not tested: mounts take root: {why}");
    None
}

/// Runs a command on the mounts of a server.
fn inside(server: &Server, place: &Place, arguments: &[&str]) -> Outcome {
    let mut command = Command::new("nsenter");
    command.args(["-m", "-t", &server.id().to_string()]);
    command.arg(env!("CARGO_BIN_EXE_roost")).args(arguments);
    command.arg("--config").arg(place.config());
    run(command, "")
}

/// Cuts every file below a folder to half its length.
fn halve(folder: &Path) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            halve(&path);
        } else {
            let file = File::options().write(true).open(&path).expect("a file");
            let length = file.metadata().expect("its length").len();
            file.set_len(length / 2).expect("cut");
        }
    }
}
