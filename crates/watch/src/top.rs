//! `roost top`: a screen about a running server that stays up to date. Owns what is chosen and when
//! to look again; the layout is `frame`, the terminal is `terminal`.

mod frame;
mod terminal;

use std::io::{self, Write as _};
use std::thread;
use std::time::Duration;

use clap::Args;
use stdx::time::{Clock as _, Moment, SystemClock};

use self::frame::{By, Frame, Overview};
use self::terminal::{Key, Terminal};
use super::alarms::waiting;
use super::drain::Backlog;
use super::failure::Failure;
use super::interval::Interval;
use super::look::Look;
use super::watched::Watched;

/// From one look to the next.
const INTERVAL: Duration = Duration::from_secs(1);

/// Columns of a frame that is no terminal's.
const COLUMNS: usize = 130;

/// What `roost top` takes.
#[derive(Clone, Debug, Args)]
pub struct TopArgs {
    /// Print one screen as text and end.
    #[arg(long)]
    once: bool,
}

/// Runs the command until `q` or Ctrl-C.
///
/// # Errors
/// There is no server or no terminal, or one of them went away.
pub fn run(args: &TopArgs, server: &impl Watched) -> Result<(), Failure> {
    if args.once {
        return once(server);
    }
    let mut screen = Screen::new(server.look()?);
    // The screen of before is back when this returns, so that an error can be read.
    let terminal = Terminal::take()?;
    let clock = SystemClock::new();
    let mut next = clock.now() + INTERVAL;
    loop {
        let size = terminal.size();
        let frame = screen.frame(server, size.1);
        terminal.show(&frame, size)?;
        for key in terminal.keys(left(next, clock.now())) {
            if screen.press(key) {
                return Ok(());
            }
        }
        if clock.now() >= next {
            screen.take(server.look()?);
            next = clock.now() + INTERVAL;
        }
    }
}

fn left(next: Moment, now: Moment) -> Duration {
    next.saturating_since(now)
}

fn once(server: &impl Watched) -> Result<(), Failure> {
    let mut screen = Screen::new(server.look()?);
    thread::sleep(INTERVAL);
    screen.take(server.look()?);
    screen.chosen = None;
    let text = screen.frame(server, COLUMNS).text();
    Ok(io::stdout().lock().write_all(text.as_bytes())?)
}

/// What is on the screen.
struct Screen {
    before: Look,
    now: Look,
    backlog: Backlog,
    /// The list and the place in it where the bar is.
    chosen: Option<(By, usize)>,
    /// The user who is looked into.
    user: Option<String>,
}

impl Screen {
    fn new(look: Look) -> Screen {
        let mut backlog = Backlog::default();
        backlog.observe(look.sample.at_ms, waiting(&look));
        Screen {
            before: look.clone(),
            now: look,
            backlog,
            chosen: Some((By::Queue, 0)),
            user: None,
        }
    }

    /// Takes in a new look. Nothing is compared across a restart.
    fn take(&mut self, look: Look) {
        let before = std::mem::replace(&mut self.now, look);
        let interval = Interval {
            before: &before,
            now: &self.now,
        };
        if interval.is_restart() {
            self.backlog = Backlog::default();
            self.before = self.now.clone();
        } else {
            self.before = before;
        }
        self.backlog
            .observe(self.now.sample.at_ms, waiting(&self.now));
    }

    fn frame(&mut self, server: &impl Watched, columns: usize) -> Frame {
        if let Some(jid) = &self.user {
            return match server.inspect(jid) {
                Ok(user) => frame::user(jid, Ok(&user)),
                Err(failure) => frame::user(jid, Err(&failure.to_string())),
            };
        }
        self.keep_inside();
        let overview = Overview {
            interval: Interval {
                before: &self.before,
                now: &self.now,
            },
            backlog: &self.backlog,
            chosen: self.chosen,
            columns,
        };
        overview.frame()
    }

    /// Lists change under the bar, which stays on somebody.
    fn keep_inside(&mut self) {
        if let Some((by, place)) = &mut self.chosen {
            *place = (*place).min(by.list(&self.now).len().saturating_sub(1));
        }
    }

    /// Does what a key says; true if that is to end.
    fn press(&mut self, key: Key) -> bool {
        let (by, place) = self.chosen.unwrap_or((By::Queue, 0));
        let lists = By::ALL.len();
        let index = By::ALL.iter().position(|other| *other == by);
        let index = index.unwrap_or_default();
        match key {
            Key::Quit => return true,
            Key::Back => self.user = None,
            Key::Enter => {
                let list = by.list(&self.now);
                // Not everybody in the lists is a user.
                let who = list.get(place).filter(|top| is_address(&top.who));
                self.user = who.map(|top| top.who.clone());
            }
            _ if self.user.is_some() => {}
            Key::Up => self.chosen = Some((by, place.saturating_sub(1))),
            Key::Down => self.chosen = Some((by, place + 1)),
            Key::Left => self.chosen = Some((By::ALL[(index + lists - 1) % lists], place)),
            Key::Right => self.chosen = Some((By::ALL[(index + 1) % lists], place)),
        }
        self.keep_inside();
        false
    }
}

fn is_address(who: &str) -> bool {
    who.contains('@') && !who.contains(' ')
}

#[cfg(test)]
mod tests {
    use server::watch::{ShardSample, Top};

    use super::*;

    fn top(who: &str, value: u64) -> Top {
        Top {
            who: who.to_owned(),
            value,
        }
    }

    fn look() -> Look {
        let mut look = Look::default();
        look.sample.shards = vec![ShardSample {
            top_queue: vec![top("Port (PortMsg)", 30), top("a@b", 20), top("c@d", 10)],
            top_bytes: vec![top("e@f", 9)],
            top_budgets: vec![top("g@h", 3)],
            ..ShardSample::default()
        }];
        look
    }

    #[test]
    fn the_bar_moves_in_the_lists_and_enter_looks_into_a_user() {
        let mut screen = Screen::new(look());
        screen.press(Key::Enter);
        assert_eq!(screen.user, None, "not a user");
        screen.press(Key::Down);
        screen.press(Key::Enter);
        assert_eq!(screen.user.as_deref(), Some("a@b"));
        screen.press(Key::Down);
        assert_eq!(screen.chosen, Some((By::Queue, 1)), "hidden lists stay");
        screen.press(Key::Back);
        assert_eq!(screen.user, None);
        for _ in 0..9 {
            screen.press(Key::Down);
        }
        assert_eq!(screen.chosen, Some((By::Queue, 2)), "not past the end");
        screen.press(Key::Left);
        assert_eq!(screen.chosen, Some((By::Budgets, 0)));
        screen.press(Key::Right);
        screen.press(Key::Up);
        assert_eq!(screen.chosen, Some((By::Queue, 0)));
        assert!(screen.press(Key::Quit));
    }

    #[test]
    fn nothing_is_compared_across_a_restart() {
        let mut first = look();
        first.sample.uptime_ms = 60_000;
        first.sample.at_ms = 60_000;
        let mut screen = Screen::new(first);
        let mut second = look();
        second.sample.uptime_ms = 1_000;
        second.sample.at_ms = 61_000;
        screen.take(second.clone());
        assert_eq!(screen.before, second);
    }
}
