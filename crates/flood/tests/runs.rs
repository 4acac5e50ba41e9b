//! Whole runs over real sockets: against the floor program, and against peers that misbehave. A run
//! must always come back with a report that says what was wrong.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use flood::{Amount, Arrive, Options, Report, Reporter, Scenario, Second, WorkerCommand};

/// A time that passes only in a failing test, however busy the machine is.
const LONG_SECONDS: f64 = 300.0;

struct Silent;

impl Reporter for Silent {
    fn note(&mut self, _line: &str) {}
    fn progress(&mut self, _phase: &str, _second: &Second) {}
}

/// Says once that a phase is under way.
struct Herald {
    phase: &'static str,
    tell: SyncSender<()>,
}

impl Reporter for Herald {
    fn note(&mut self, _line: &str) {}
    fn progress(&mut self, phase: &str, _second: &Second) {
        if phase == self.phase {
            // Nobody listens for the second time.
            let _ = self.tell.try_send(());
        }
    }
}

fn scenario(address: SocketAddr, users: u32) -> Scenario {
    let text = format!(
        "name = 'test'\n[server]\naddress = '{address}'\n[users]\ncount = {users}\ncontacts = 0\n\
         [auth]\nplain = 1.0\n[client]\npresence = false\nlogin_timeout_seconds = 60.0\n\
         [[phase]]\nname = 'arrive'\narrive = {{ users = 'all', rate = 500.0 }}\n\
         [[phase]]\nname = 'chat'\nseconds = 1.0\nmessages = {{ in_flight = 1, peer = 'pair' }}\n\
         [[phase]]\nname = 'storm'\nstorm = {{ users = 'all', how = 'reset' }}\n\
         [[phase]]\nname = 'leave'\nleave = {{ users = 'all' }}\n"
    );
    Scenario::parse("test", &text).unwrap()
}

fn run(scenario: &Scenario) -> Report {
    flood::run(scenario, &Options::default(), &mut Silent)
}

/// A listener whose connections are handled by `serve`, for as long as the test runs.
fn peer(serve: fn(TcpStream)) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || serve(stream.unwrap()));
        }
    });
    address
}

/// The one reason why all logins failed.
fn failure(report: &Report, users: u64) -> String {
    assert!(!report.is_good());
    assert_eq!(
        report.phases.len(),
        1,
        "the rest is left out: {:?}",
        report.error
    );
    assert_eq!(
        report.totals.logins_failed, users,
        "{:?}",
        report.phases[0].reasons
    );
    assert!(flood::page(report).contains("nobody could log in"));
    let reasons: Vec<_> = report.phases[0].reasons.0.keys().cloned().collect();
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    reasons[0].clone()
}

#[test]
fn nobody_listening_is_told_without_starting() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let report = run(&scenario(address, 4));
    assert!(report.error.unwrap().contains("connection refused"));
    assert!(report.phases.is_empty());
}

#[test]
fn a_peer_that_hangs_up_is_told() {
    let address = peer(drop);
    // Which of the two it sees depends on who is faster, so that one asks.
    let reason = failure(&run(&scenario(address, 1)), 1);
    assert!(
        reason.contains("closed the connection") || reason.contains("reset"),
        "{reason}"
    );
}

#[test]
fn a_peer_that_is_no_xmpp_server_is_told() {
    let address = peer(|mut stream| {
        let _ = stream.read(&mut [0; 1_024]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        // Until the other side hangs up.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let reason = failure(&run(&scenario(address, 4)), 4);
    assert!(reason.contains("text between stanzas"), "{reason}");
}

#[test]
fn a_peer_that_says_nothing_is_given_up() {
    let address = peer(|mut stream| {
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let mut hasty = scenario(address, 4);
    hasty.client.login_timeout_seconds = 1.0;
    let reason = failure(&run(&hasty), 4);
    assert!(
        reason.contains("timeout awaiting stream features"),
        "{reason}"
    );
}

/// The floor program of bench/floor, ended with the test.
struct Floor {
    child: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Floor {
    fn start() -> Floor {
        let folder = tempfile::tempdir().unwrap();
        let program: PathBuf = folder.path().join("floor");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/floor/floor.c");
        // Rust links with the same compiler, so that it is there wherever this test is built.
        let compiled = Command::new("cc")
            .args(["-O1", "-o"])
            .arg(&program)
            .arg(&source)
            .status();
        assert!(compiled.unwrap().success(), "cannot compile the floor");
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let port = address.port().to_string();
        let child = Command::new(&program)
            .arg(port)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        for _ in 0..3_000 {
            if TcpStream::connect(address).is_ok() {
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
        Floor {
            child,
            address,
            _folder: folder,
        }
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Goal: in one thread and in three processes alike, everything is accounted for.
#[test]
fn a_run_against_the_floor_accounts_for_everything() {
    let floor = Floor::start();
    let worker = WorkerCommand {
        program: env!("CARGO_BIN_EXE_flood").into(),
        arguments: vec!["--worker".into()],
    };
    for workers in [1, 3] {
        let options = Options {
            pids: vec![floor.child.id()],
            workers,
            worker_command: Some(worker.clone()),
            ..Options::default()
        };
        let report = flood::run(&scenario(floor.address, 50), &options, &mut Silent);
        assert!(report.is_good(), "{}", report.table());
        assert_eq!(report.workers, workers);
        let [arrive, chat, storm, leave] = &report.phases[..] else {
            panic!("{} phases", report.phases.len())
        };
        assert_eq!((arrive.online, arrive.counts.logins_ok), (50, 50));
        assert!(chat.counts.messages_received > 0, "{:?}", chat.counts);
        assert_eq!(chat.messages_lost, 0);
        assert_eq!(
            (storm.counts.sessions_ended, storm.counts.logins_ok),
            (50, 50)
        );
        assert_eq!((leave.online, leave.counts.sessions_ended), (0, 50));
        assert_eq!(report.totals.logins_started, 100);
        assert!(chat.after.alive && chat.after.rss > 0);
    }
}

/// Goal: where not everybody is there, those who are have their partners.
#[test]
fn partners_come_together() {
    let floor = Floor::start();
    let mut scenario = scenario(floor.address, 50);
    let phases = &mut scenario.phases;
    phases[0].arrive.as_mut().unwrap().users = Amount::Users(10);
    phases.truncate(2);
    let report = run(&scenario);
    assert!(report.is_good(), "{}", report.table());
    assert_eq!(report.phases[1].online, 10);
    assert!(report.totals.messages_received > 0);
}

/// Goal: at an event whoever is online writes while others arrive.
#[test]
fn activity_goes_on_while_others_arrive() {
    let floor = Floor::start();
    let mut scenario = scenario(floor.address, 50);
    let phases = &mut scenario.phases;
    phases[0].arrive.as_mut().unwrap().users = Amount::Users(20);
    phases.truncate(2);
    phases[1].meanwhile = true;
    phases[1].seconds = 0.0;
    phases[1].arrive = Some(Arrive {
        users: Amount::Share(1.0),
        rate: Some(30.0),
    });
    let report = run(&scenario);
    // Who has no partner yet writes to nobody: the floor keeps nothing.
    assert_eq!(report.error, None);
    assert_eq!(report.phases[1].online, 50);
    assert!(report.phases[1].counts.messages_received > 0);
}

/// Goal: a server that dies in the middle ends the run with a report of what was done until then.
#[test]
fn a_server_that_dies_ends_the_run_with_its_report() {
    let mut floor = Floor::start();
    let options = Options {
        pids: vec![floor.child.id()],
        ..Options::default()
    };
    let mut scenario = scenario(floor.address, 20);
    scenario.phases[1].seconds = LONG_SECONDS;
    scenario.phases[1].settle_seconds_max = 1.0;
    let (tell, chatting) = sync_channel(1);
    let mut herald = Herald {
        phase: "chat",
        tell,
    };
    let running = thread::spawn(move || flood::run(&scenario, &options, &mut herald));
    chatting.recv().unwrap();
    floor.child.kill().unwrap();
    floor.child.wait().unwrap();
    let report = running.join().unwrap();
    assert_eq!(
        report.error.as_deref(),
        Some("the server's process is gone")
    );
    assert_eq!(
        report.phases.len(),
        2,
        "the phase it died in is part of the report"
    );
    assert_eq!(report.totals.sessions_lost, 20, "{:?}", report.totals);
    assert!(
        report.series.last().unwrap().at < LONG_SECONDS,
        "the run does not wait for the dead"
    );
}
