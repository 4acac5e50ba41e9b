//! From a crash to the next answer: `crash TIMES` for an actor that its runtime brings back, and
//! `process TIMES` for a whole process that is killed and started again. The figure is the median
//! in microseconds.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use actor::{Actor, Context, EntityClass, Name, Reply, ShardId};
use stdx::time::{Clock, SystemClock};

use super::Args;
use crate::shards::{Shards, WITHIN};

enum Do {
    Crash,
    Answer(Reply<u64>),
}

struct Fragile;

impl Actor for Fragile {
    type Msg = Do;

    fn handle(&mut self, msg: Do, cx: &mut Context<'_, Do>) {
        match msg {
            Do::Crash => panic!("as told"),
            Do::Answer(reply) => reply.send(cx, 1),
        }
    }
}

struct Class;

impl EntityClass for Class {
    type Msg = Do;
    type Actor = Fragile;

    fn activate(&mut self, _: &Name, _: ShardId) -> Fragile {
        Fragile
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

pub(super) fn run(args: &Args) -> Result<f64, String> {
    let times = args.number(0)?;
    // A crash that is expected need not be reported.
    std::panic::set_hook(Box::new(|_| {}));
    let shards = Shards::start(args.shards, |shard| shard.set_class(Class))?;
    let here = ShardId::new(0);
    let mut found = Vec::new();
    for number in 0..times {
        // A name each: one that crashes all the time is left alone for a while.
        let name: Name = format!("fragile-{number}").into();
        let ask = || shards.handle.ask_named(here, &name, Do::Answer, WITHIN);
        ask().map_err(|error| error.to_string())?;
        let began = shards.now();
        let crashed = shards.handle.send_named(here, &name, Do::Crash);
        crashed.map_err(|error| error.to_string())?;
        ask().map_err(|error| error.to_string())?;
        found.push(shards.micros_since(began));
    }
    shards.stop();
    Ok(median(found))
}

/// The child of [`process`]: answers each line until there is none.
pub(crate) fn echo() -> std::io::Result<()> {
    let mut out = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        out.write_all(line?.as_bytes())?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(())
}

pub(super) fn process(args: &Args) -> Result<f64, String> {
    let text = |error: std::io::Error| error.to_string();
    let program = std::env::current_exe().map_err(text)?;
    let start = || {
        let mut child = Command::new(&program)
            .arg("echo")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let missing = || std::io::Error::other("a pipe is missing");
        let mut way_in = child.stdin.take().ok_or_else(missing)?;
        let way_out = child.stdout.take().ok_or_else(missing)?;
        way_in.write_all(b"hello\n")?;
        let mut answer = [0; 6];
        BufReader::new(way_out).read_exact(&mut answer)?;
        Ok::<_, std::io::Error>((child, way_in))
    };
    let clock = SystemClock::new();
    let mut found = Vec::new();
    let (mut child, mut way_in) = start().map_err(text)?;
    for _ in 0..args.number(0)? {
        let began = clock.now();
        child.kill().map_err(text)?;
        child.wait().map_err(text)?;
        (child, way_in) = start().map_err(text)?;
        found.push(clock.now().saturating_since(began).as_nanos() as f64 / 1e3);
    }
    drop(way_in);
    child.wait().map_err(text)?;
    Ok(median(found))
}
