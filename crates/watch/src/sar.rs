//! `roost sar`: one line a second about a running server, or about a recorded one. Owns the lines
//! and their headers; what is in a column is `columns`, what is in a file is `record`.

mod columns;
mod record;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use clap::Args;
use stdx::time::{Clock as _, SystemClock};

use self::columns::{COLUMNS, Column};
use self::record::{Reader, Writer};
use super::alarms::waiting;
use super::drain::Backlog;
use super::failure::Failure;
use super::format;
use super::interval::Interval;
use super::look::Look;
use super::watched::Watched;

/// Lines between two headers if nobody says how high the terminal is.
const LINES: usize = 40;

/// Characters of the time in front of each line.
const TIME_WIDTH: usize = 8;

/// The time constants of averages, in seconds.
const WINDOWS_S: [f64; 3] = [1.0, 10.0, 100.0];

/// Columns of which averages are shown unless others are asked for.
const AVERAGED: &str = "login,msgin,msgout,prsout,out,queue,work,commit,cpu";

/// What `roost sar` takes.
#[derive(Clone, Debug, Args)]
pub struct SarArgs {
    /// Seconds between two lines.
    #[arg(long, short, default_value = "1", value_parser = interval, value_name = "SECONDS")]
    interval: Duration,
    /// End after so many lines.
    #[arg(long, short = 'n', value_name = "LINES")]
    count: Option<u64>,
    /// Columns with commas between, or all; see --explain.
    #[arg(long, value_name = "NAMES")]
    columns: Option<String>,
    /// Show averages that fade over 1, 10 and 100 seconds instead of what the interval had.
    #[arg(long)]
    averages: bool,
    /// Write everything that is seen to a new file too, for --replay.
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    record: Option<PathBuf>,
    /// Print the lines of a recording instead, with any columns.
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Say what each column means.
    #[arg(long)]
    explain: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "not a number of seconds".to_owned())?;
    if !(0.1..=3_600.0).contains(&seconds) {
        return Err("0.1 to 3600 seconds are possible".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// What is seen at one time.
#[derive(Clone, Debug, PartialEq)]
enum Entry {
    /// The server.
    Look(Box<Look>),
    /// No server, at this time in milliseconds since 1970.
    Lost(i64),
}

/// Runs the command. A server is opened only if one is needed.
///
/// # Errors
/// There is no server or no such recording, or nobody reads the lines any more.
pub fn run<W: Watched, E: From<Failure>>(
    args: &SarArgs,
    open: impl FnOnce() -> Result<W, E>,
) -> Result<(), E> {
    if args.explain {
        return Ok(explain()?);
    }
    let names = match (&args.columns, args.averages) {
        (Some(names), _) => Some(names.as_str()),
        (None, true) => Some(AVERAGED),
        (None, false) => None,
    };
    let columns = columns::choose(names).map_err(Failure::Usage)?;
    let printer = Printer::new(columns, args.averages, lines_of_terminal());
    let mut output = Output {
        printer,
        left: args.count,
    };
    match &args.replay {
        Some(path) => Ok(replay(path, &mut output)?),
        None => {
            let server = open()?;
            Ok(live(args, &server, &mut output)?)
        }
    }
}

fn explain() -> Result<(), Failure> {
    let mut text = String::new();
    for Column {
        name, group, help, ..
    } in COLUMNS
    {
        text.push_str(&format!("{name:<7} {group:<9} {help}\n"));
    }
    Ok(io::stdout().lock().write_all(text.as_bytes())?)
}

fn replay(path: &std::path::Path, output: &mut Output) -> Result<(), Failure> {
    let mut reader = Reader::open(path)?;
    while let Some(entry) = reader.next()? {
        if output.take(&entry)? {
            break;
        }
    }
    Ok(())
}

fn live(args: &SarArgs, server: &impl Watched, output: &mut Output) -> Result<(), Failure> {
    let mut writer = args.record.as_deref().map(Writer::create).transpose()?;
    let clock = SystemClock::new();
    let mut next = clock.now();
    loop {
        let entry = match server.look() {
            Ok(look) => Entry::Look(Box::new(look)),
            Err(_) => Entry::Lost(clock.wall().as_millis()),
        };
        if let Some(writer) = &mut writer {
            writer.add(&entry)?;
        }
        if output.take(&entry)? {
            return Ok(());
        }
        next = next + args.interval;
        let now = clock.now();
        // A server that was slow to answer is not asked at once again and again.
        if next < now {
            next = now;
        }
        thread::sleep(next.saturating_since(now));
    }
}

/// Lines on their way out.
struct Output {
    printer: Printer,
    left: Option<u64>,
}

impl Output {
    /// Prints what there is to say about an entry; true if it is enough.
    fn take(&mut self, entry: &Entry) -> Result<bool, Failure> {
        let text = self.printer.take(entry);
        let mut out = io::stdout().lock();
        out.write_all(text.lines.as_bytes())?;
        out.flush()?;
        if text.is_figures {
            self.left = self.left.map(|left| left.saturating_sub(1));
        }
        Ok(self.left == Some(0))
    }
}

/// The lines about one entry.
struct Text {
    lines: String,
    /// Whether figures are among them.
    is_figures: bool,
}

/// Makes lines of entries, the same whether they are seen now or were recorded.
struct Printer {
    columns: Vec<&'static Column>,
    averages: Option<Vec<Average>>,
    lines_max: usize,
    /// Lines until the next header.
    lines_left: usize,
    last: Option<Box<Look>>,
    backlog: Backlog,
    is_lost: bool,
}

impl Printer {
    fn new(columns: Vec<&'static Column>, is_averages: bool, lines_max: usize) -> Printer {
        let columns: Vec<_> = match is_averages {
            true => columns.into_iter().filter(|c| c.is_number()).collect(),
            false => columns,
        };
        let averages = is_averages.then(|| vec![Average::default(); columns.len()]);
        Printer {
            columns,
            averages,
            lines_max,
            lines_left: 0,
            last: None,
            backlog: Backlog::default(),
            is_lost: false,
        }
    }

    fn take(&mut self, entry: &Entry) -> Text {
        let mut lines = String::new();
        let look = match entry {
            Entry::Lost(at_ms) => {
                if !std::mem::replace(&mut self.is_lost, true) {
                    let time = format::time_of_day(*at_ms);
                    lines.push_str(&format!(
                        "{time} the server does not answer: waiting for it\n"
                    ));
                }
                return Text {
                    lines,
                    is_figures: false,
                };
            }
            Entry::Look(look) => look,
        };
        let at_ms = look.sample.at_ms;
        let time = format::time_of_day(at_ms);
        let is_lost = std::mem::take(&mut self.is_lost);
        let before = self.last.replace(look.clone());
        let interval = before.as_ref().map(|before| Interval { before, now: look });
        let interval = match interval {
            Some(interval) if interval.is_restart() => {
                let up = look.sample.uptime_ms as f64 / 1e3;
                lines.push_str(&format!(
                    "{time} the server was started again {} ago, as process {}\n",
                    format::wait(up),
                    look.sample.pid
                ));
                self.backlog = Backlog::default();
                None
            }
            Some(_) if is_lost => {
                lines.push_str(&format!("{time} the server answers again\n"));
                interval
            }
            interval => interval,
        };
        self.backlog.observe(at_ms, waiting(look));
        let is_figures = interval.is_some();
        if let Some(interval) = interval {
            if self.lines_left == 0 {
                lines.push_str(&self.header());
                self.lines_left = self.lines_max;
            }
            self.lines_left -= 1;
            lines.push_str(&self.line(&time, &interval));
        }
        Text { lines, is_figures }
    }

    fn line(&mut self, time: &str, interval: &Interval<'_>) -> String {
        let mut line = time.to_owned();
        let drain = self.backlog.drain();
        for (index, column) in self.columns.iter().enumerate() {
            let width = column.width;
            match &mut self.averages {
                None => {
                    let text = column.text(interval, drain);
                    line.push_str(&format!(" {text:>width$}"));
                }
                Some(averages) => {
                    let (value, seconds) = (column.value(interval), interval.seconds());
                    if let Some((value, seconds)) = value.zip(seconds) {
                        averages[index].add(value, seconds);
                    }
                    for mean in averages[index].means() {
                        let text = column.written(mean);
                        line.push_str(&format!(" {text:>width$}"));
                    }
                }
            }
        }
        line.push('\n');
        line
    }

    /// Two lines: what the columns belong to, and their names.
    fn header(&self) -> String {
        let repeat = if self.averages.is_some() {
            WINDOWS_S.len()
        } else {
            1
        };
        let mut groups = " ".repeat(TIME_WIDTH);
        let mut names = format!("{:<TIME_WIDTH$}", "UTC");
        let mut last = "";
        for column in &self.columns {
            let width = column.width;
            let label = match repeat {
                1 if column.group == last => "",
                1 => column.group,
                _ => column.name,
            };
            last = column.group;
            let whole = (width + 1) * repeat;
            // A short column at the start of its group gives the group's name room to the right.
            let missing = names.len().saturating_sub(groups.len());
            groups.push_str(&" ".repeat(missing));
            if !label.is_empty() {
                groups.push_str(&format!(" {label}"));
            }
            if repeat == 1 {
                names.push_str(&format!("{:>whole$}", column.name));
            } else {
                for window in WINDOWS_S {
                    let name = format!("{window}s");
                    names.push_str(&format!(" {name:>width$}"));
                }
            }
        }
        format!("\n{}\n{names}\n", groups.trim_end())
    }
}

/// Means of one figure that fade over the windows. In the beginning, when there is less than a
/// window, they are those of what there is.
#[derive(Clone, Copy, Debug, Default)]
struct Average {
    /// Sum of weighted values, and of weights.
    sums: [(f64, f64); 3],
}

impl Average {
    fn add(&mut self, value: f64, seconds: f64) {
        for ((sum, weight), window) in self.sums.iter_mut().zip(WINDOWS_S) {
            let keep = (-seconds / window).exp();
            *sum = *sum * keep + value * (1.0 - keep);
            *weight = *weight * keep + (1.0 - keep);
        }
    }

    fn means(&self) -> [Option<f64>; 3] {
        self.sums
            .map(|(sum, weight)| (weight > 0.0).then(|| sum / weight))
    }
}

/// Lines of one screen without its header, as far as the shell tells how high it is.
fn lines_of_terminal() -> usize {
    let lines = std::env::var("LINES");
    let rows: Option<usize> = lines.ok().and_then(|rows| rows.parse().ok());
    match rows {
        Some(rows) if rows > 8 => rows - 4,
        _ => LINES,
    }
}

#[cfg(test)]
mod tests;
