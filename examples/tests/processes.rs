//! What the tests of the examples share: nodes as processes of the operating system, on addresses
//! of their own.
//!
//! Deliberately not here: what the nodes do.

#[path = "../../crates/group/tests/common/ports.rs"]
mod ports;

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

/// A port that is free now, as the name of a node there.
pub(crate) fn free_name(number: usize) -> String {
    let host = format!("127.0.0.{}", number + 1);
    format!("n{number}@{host}:{}", ports::free_port(&host))
}

/// A process that is ended with the test.
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    pub(crate) fn start(program: &str, words: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).spawn().expect("a process");
        let out = child.stdout.take().expect("a pipe");
        Process {
            input: child.stdin.take(),
            lines: BufReader::new(out).lines(),
            child,
        }
    }

    /// The next line that it prints, if there is one.
    pub(crate) fn line(&mut self) -> Option<String> {
        self.lines.next().map(|line| line.expect("text"))
    }

    /// All that it prints until it ends.
    pub(crate) fn rest(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.line()).collect()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it runs");
    }

    /// Closes its input, with which a node ends.
    pub(crate) fn finish(&mut self) -> ExitStatus {
        self.input = None;
        self.child.wait().expect("its end")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Three nodes, two of them started with `node NAME`, and a master that `words` are given to with
/// their names. The last node is killed as soon as it works. What the master said, once the other
/// node has ended with its input.
pub(crate) fn kill_one_of_three(
    program: &str,
    words: impl FnOnce(&[String]) -> Vec<String>,
) -> Vec<String> {
    let names: Vec<String> = (0..3).map(free_name).collect();
    let start = |name: &String| Process::start(program, &["node", name]);
    let mut others: Vec<Process> = names[1..].iter().map(start).collect();
    for other in &mut others {
        assert_eq!(other.line().as_deref(), Some("listening"));
    }
    let words = words(&names);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut master = Process::start(program, &words);
    assert_eq!(others[1].line().as_deref(), Some("working"));
    others[1].kill();
    let said = master.rest();
    assert!(others[0].finish().success());
    said
}
