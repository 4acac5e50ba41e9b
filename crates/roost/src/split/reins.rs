//! What the keeper at the edge and a home say to each other: lines of JSON over a pair of sockets
//! that the home has as its standard input. Owns the words; who ends, is noticed by the end of the
//! lines.
//!
//! | keeper | home |
//! |---|---|
//! | | `here`: it has read its configuration, and knows this format of the store |
//! | `serve`: open the store, nobody else has it | `serving`, or `failed` and it ends |
//! | | `turning`, each second as long as every shard turns |
//! | `leave`: let go of everything | its end, once the store is closed |
//! | `reload` | |
//! | `stop`: the server stops | its end |

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The version of these words. Others are not understood.
pub(super) const VERSION: u32 = 1;

/// Bytes of a line.
const LINE_MAX: u64 = 64 * 1_024;

/// For a line to be taken.
const WRITE_WITHIN: Duration = Duration::from_secs(5);

/// What the keeper wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "order")]
pub(super) enum Order {
    /// Open the store, and serve.
    Serve {
        /// Which home of the edge's this is: later ones have higher numbers.
        tenure: u32,
        /// Its slot, which names its folder.
        slot: usize,
        /// The life of the edge.
        edge: u64,
    },
    /// Let go of everything: another home takes over.
    Leave,
    /// Read the configuration again.
    Reload,
    /// The server stops.
    Stop,
}

/// What a home says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "report")]
pub(super) enum Report {
    /// It is there, and could serve.
    Here {
        /// [`VERSION`].
        version: u32,
        /// The version of its program.
        program: String,
        /// The format of the store that it writes.
        format: u32,
    },
    /// It serves.
    Serving {
        /// The key of the slot hash, in hexadecimal digits.
        slot_key: String,
    },
    /// Every shard turns.
    Turning,
    /// It cannot serve, and ends.
    Failed {
        /// A sentence.
        why: String,
    },
}

/// Says one line.
pub(super) fn say(mut to: &UnixStream, what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// A pair of ends.
pub(super) fn pair() -> io::Result<(UnixStream, UnixStream)> {
    let (here, there) = UnixStream::pair()?;
    here.set_write_timeout(Some(WRITE_WITHIN))?;
    Ok((here, there))
}

/// Hears lines until the other side ends, or says something that is none.
pub(super) fn listen<T: DeserializeOwned>(from: &UnixStream, mut hear: impl FnMut(T)) {
    let mut reader = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut reader).take(LINE_MAX).read_until(b'\n', &mut line);
        match read.map(|_| serde_json::from_slice(&line)) {
            Ok(Ok(said)) => hear(said),
            Ok(Err(_)) | Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: what one side says the other one hears, in order, until it ends; what is no line of
    /// these ends it as well, however long it is.
    #[test]
    fn lines_are_heard_until_the_end() {
        let (here, there) = pair().expect("a pair");
        let here_says = Report::Here {
            version: VERSION,
            program: "1".to_owned(),
            format: 4,
        };
        for report in [&here_says, &Report::Turning] {
            say(&there, report).expect("said");
        }
        (&there)
            .write_all(b"{\"report\":\"unheard_of\"}\n")
            .expect("written");
        say(&there, &Report::Turning).expect("said");
        drop(there);
        let mut heard = Vec::new();
        listen(&here, |report: Report| heard.push(report));
        assert_eq!(heard, [here_says, Report::Turning]);
        let (here, there) = pair().expect("a pair");
        let long = std::thread::spawn(move || {
            let endless = vec![b'x'; 2 * LINE_MAX as usize];
            let _ = (&there).write_all(&endless);
        });
        listen(&here, |report: Report| panic!("{report:?}"));
        drop(here);
        long.join().expect("written");
    }
}
