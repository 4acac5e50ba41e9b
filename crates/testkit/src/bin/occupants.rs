//! `occupants`: a room of many over a server that is killed (docs/reliability.md). Owns the command
//! line only.
#![allow(clippy::print_stdout, clippy::print_stderr)] // A program for people.

use std::process::ExitCode;
use std::time::Duration;
use testkit::history::occupants::{Options, play_part, run};

const HELP: &str = "\
A room of many occupants, half of them with stream management over links that are lost again and
again, and a server that is killed meanwhile. Each of these must hear every message once, and all in
one order. ROOST_BIN names the server under test.

  --occupants N   [2000]
  --processes N   that they are in [2]
  --rate N        messages a second [20]
  --seconds N     how long they speak [60]
  --kills N       of the server meanwhile [2]
  --flaps MS      how long a link lasts, about [10000]
  --seed S        [1]
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let played = match arguments.get(1).map(String::as_str) {
        Some("--part") => play_part(&arguments[2..]).map(|()| true),
        Some("--help" | "-h") => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        _ => parse(arguments[1..].iter()).and_then(|options| play(&options)),
    };
    match played {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("occupants: {why}");
            ExitCode::FAILURE
        }
    }
}

fn play(options: &Options) -> Result<bool, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let summary = run(options, &program.to_string_lossy(), &|line| {
        println!("{line}");
    })?;
    for fault in &summary.faults {
        println!("{fault}");
    }
    println!(
        "{} messages to {} occupants: {} copies, {} sessions resumed; {} faults",
        summary.said,
        options.occupants,
        summary.copies,
        summary.resumed,
        summary.faults.len()
    );
    Ok(summary.faults.is_empty())
}

fn parse<'a>(mut arguments: impl Iterator<Item = &'a String>) -> Result<Options, String> {
    let mut options = Options {
        occupants: 2_000,
        processes: 2,
        rate: 20,
        time: Duration::from_secs(60),
        kills: 2,
        flaps: Duration::from_secs(10),
        seed: 1,
    };
    while let Some(argument) = arguments.next() {
        let value = arguments.next();
        let number = value.and_then(|value| value.parse::<u64>().ok());
        let number = number.ok_or_else(|| format!("{argument} needs a number"))?;
        match argument.as_str() {
            "--occupants" => options.occupants = number.max(16) as usize,
            "--processes" => options.processes = number.max(1) as usize,
            "--rate" => options.rate = number.max(1),
            "--seconds" => options.time = Duration::from_secs(number),
            "--kills" => options.kills = number as u32,
            "--flaps" => options.flaps = Duration::from_millis(number.max(100)),
            "--seed" => options.seed = number,
            _ => return Err(format!("what is {argument}?")),
        }
    }
    Ok(options)
}
