//! The terminal of `roost top`: raw while it is held, as it was before when it is let go, by a
//! panic too. Owns keys and the screen; what is on it is `frame`. The modes are set by stty(1),
//! which is wherever there is a terminal, so that no library is needed for two calls.

use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::panic;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::frame::{Frame, Style};
use crate::failure::Failure;

/// Another screen, without a cursor; what was there comes back later.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";

/// The screen from before.
const LEAVE: &str = "\x1b[0m\x1b[?25h\x1b[?1049l";

/// The size if the terminal does not tell: rows and columns.
const SIZE: (usize, usize) = (24, 80);

/// Bytes of keys read at a time.
const KEYS_BYTES: usize = 64;

/// What a key means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Up,
    Down,
    Left,
    Right,
    Enter,
    Back,
    Quit,
}

/// A terminal that is held.
pub(super) struct Terminal {
    modes: Modes,
    is_told_to_stop: Arc<AtomicBool>,
}

impl Terminal {
    /// Takes the terminal of standard input and output.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn take() -> Result<Terminal, Failure> {
        let none = |error: io::Error| {
            Failure::Failed(format!(
                "there is no terminal ({error}): roost top --once prints one screen as text"
            ))
        };
        let modes = Modes {
            saved: stty(&["-g"]).map_err(none)?,
        };
        let is_told_to_stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&is_told_to_stop)).map_err(none)?;
        }
        // What a panic says would be lost with the other screen.
        let (restored, before) = (modes.clone(), panic::take_hook());
        panic::set_hook(Box::new(move |info| {
            restored.restore();
            before(info);
        }));
        let terminal = Terminal {
            modes,
            is_told_to_stop,
        };
        stty(&["-icanon", "-echo", "-isig", "-ixon", "min", "1"]).map_err(none)?;
        write(ENTER).map_err(none)?;
        Ok(terminal)
    }

    /// Rows and columns.
    pub(super) fn size(&self) -> (usize, usize) {
        let size = stty(&["size"]).unwrap_or_default();
        let mut words = size.split_whitespace().map(str::parse);
        match (words.next(), words.next()) {
            (Some(Ok(rows)), Some(Ok(columns))) if rows > 0 && columns > 0 => (rows, columns),
            _ => SIZE,
        }
    }

    /// Shows a frame.
    ///
    /// # Errors
    /// The terminal has gone.
    pub(super) fn show(&self, frame: &Frame, size: (usize, usize)) -> io::Result<()> {
        write(&painted(frame, size))
    }

    /// The keys that come within a time; [`Key::Quit`] if the terminal has gone, or a signal came.
    pub(super) fn keys(&self, within: Duration) -> Vec<Key> {
        let timeout = Timespec {
            tv_sec: i64::try_from(within.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(within.subsec_nanos()),
        };
        let stdin = io::stdin();
        let mut polled = [PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
        let ready = poll(&mut polled, Some(&timeout));
        if self.is_told_to_stop.load(Ordering::Relaxed) {
            return vec![Key::Quit];
        }
        match ready {
            Ok(0) | Err(rustix::io::Errno::INTR) => Vec::new(),
            Err(_) => vec![Key::Quit],
            Ok(_) => {
                let mut bytes = [0; KEYS_BYTES];
                match rustix::io::read(stdin.as_fd(), &mut bytes) {
                    Ok(0) => vec![Key::Quit],
                    Ok(length) => keys_of(&bytes[..length]),
                    Err(rustix::io::Errno::INTR) => Vec::new(),
                    Err(_) => vec![Key::Quit],
                }
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.modes.restore();
    }
}

/// How the terminal was.
#[derive(Clone)]
struct Modes {
    saved: String,
}

impl Modes {
    /// As often as one likes. A terminal that has gone needs nothing.
    fn restore(&self) {
        let _ = write(LEAVE);
        let _ = stty(&[self.saved.trim()]);
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn stty(words: &[&str]) -> io::Result<String> {
    let mut command = Command::new("stty");
    let output = command.args(words).stdin(Stdio::inherit()).output()?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(io::Error::other(why));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A frame as the terminal takes it: each line to its end, without a flicker.
fn painted(frame: &Frame, (rows, columns): (usize, usize)) -> String {
    let mut text = String::from("\x1b[H");
    for (index, line) in frame.lines.iter().take(rows).enumerate() {
        if index > 0 {
            text.push_str("\r\n");
        }
        let mut left = columns;
        for (style, part) in &line.parts {
            let shown: String = part.chars().take(left).collect();
            left -= shown.chars().count();
            let code = match style {
                Style::Plain => "",
                Style::Head => "\x1b[1m",
                Style::Alert => "\x1b[1;31m",
                Style::Chosen => "\x1b[7m",
            };
            text.push_str(code);
            text.push_str(&shown);
            if !code.is_empty() {
                text.push_str("\x1b[0m");
            }
        }
        text.push_str("\x1b[K");
    }
    text.push_str("\x1b[J");
    text
}

/// Keys as terminals send them. What is none of ours is passed over.
fn keys_of(mut bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    while let [first, rest @ ..] = bytes {
        let (key, length) = match (first, rest) {
            (0x1b, [b'[' | b'O', letter, ..]) => {
                let key = match letter {
                    b'A' => Some(Key::Up),
                    b'B' => Some(Key::Down),
                    b'C' => Some(Key::Right),
                    b'D' => Some(Key::Left),
                    _ => None,
                };
                (key, 3)
            }
            (0x1b | 0x7f | 0x08, _) => (Some(Key::Back), 1),
            (b'\r' | b'\n', _) => (Some(Key::Enter), 1),
            (b'q' | b'Q' | 0x03 | 0x04, _) => (Some(Key::Quit), 1),
            (b'k', _) => (Some(Key::Up), 1),
            (b'j', _) => (Some(Key::Down), 1),
            (b'h', _) => (Some(Key::Left), 1),
            (b'l', _) => (Some(Key::Right), 1),
            _ => (None, 1),
        };
        keys.extend(key);
        bytes = bytes.get(length..).unwrap_or_default();
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::super::frame::Line;
    use super::*;

    #[test]
    fn keys_are_what_terminals_send() {
        let cases: [(&[u8], &[Key]); 8] = [
            (b"\x1b[A\x1bOB", &[Key::Up, Key::Down]),
            (b"\x1b[C\x1b[D", &[Key::Right, Key::Left]),
            (b"\r", &[Key::Enter]),
            (b"\x1b", &[Key::Back]),
            (b"q", &[Key::Quit]),
            (b"\x03", &[Key::Quit]),
            (b"xyz\xff", &[]),
            (b"\x1b[", &[Key::Back]),
        ];
        for (bytes, keys) in cases {
            assert_eq!(keys_of(bytes), keys, "{bytes:?}");
        }
    }

    #[test]
    fn frames_never_leave_the_screen() {
        let mut line = Line::default();
        line.parts.push((Style::Alert, "äöü".to_owned()));
        line.parts.push((Style::Plain, "abc".to_owned()));
        let frame = Frame {
            lines: vec![line.clone(), line.clone(), line],
        };
        let painted = painted(&frame, (2, 4));
        let line = "\x1b[1;31mäöü\x1b[0ma\x1b[K";
        assert_eq!(painted, format!("\x1b[H{line}\r\n{line}\x1b[J"));
    }
}
