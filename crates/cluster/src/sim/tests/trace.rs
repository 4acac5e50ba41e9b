//! What happens in a schedule, line by line, in a file of the folder that `SCHEDULE_FOLDER` names:
//! for whoever looks for the cause of a problem. Changes nothing in the schedule.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use stdx::Moment;

use super::stream::To;
use super::world::{Asked, Event};
use crate::journal::message::{Body, Message};
use crate::journal::{Publish, Seq, member};
use crate::map::keeper;

/// The file, if there is one.
pub(super) struct Trace(Option<BufWriter<File>>);

fn message(bytes: &[u8]) -> String {
    let message = Message::decode(bytes).unwrap();
    let what = match &message.body {
        Body::Epoch => "record".to_owned(),
        Body::Appends { runs, .. } => format!("{runs:?}"),
    };
    let (author, epoch) = (message.author, message.epoch);
    let by = format!("{}.{}.{}", author.node, author.incarnation, message.number);
    format!("{by} epoch {epoch} {what}")
}

fn publish(publish: &Publish) -> String {
    format!("behind {}: {}", publish.expected, message(&publish.payload))
}

impl Trace {
    pub(super) fn new(seed: u64) -> Trace {
        let folder = std::env::var_os("SCHEDULE_FOLDER");
        let file = folder.map(|folder| Path::new(&folder).join(format!("{seed}.txt")));
        Trace(file.map(|file| BufWriter::new(File::create(file).unwrap())))
    }

    pub(super) fn say(&mut self, now: Moment, line: impl FnOnce() -> String) {
        if let Some(file) = &mut self.0 {
            writeln!(file, "{:.6} {}", now.as_nanos() as f64 / 1e9, line()).unwrap();
        }
    }

    pub(super) fn event(&mut self, now: Moment, event: &Event) {
        match event {
            Event::Tick(_) | Event::Client | Event::Commit(_) => {}
            Event::Put(..) | Event::Renewed(..) => {}
            Event::Ask((from, _), stream, Asked::Publish(one)) => self.say(now, || {
                format!("stream {stream} is sent by {from}, {}", publish(one))
            }),
            event => self.say(now, || format!("{event:?}")),
        }
    }

    pub(super) fn member(
        &mut self,
        now: Moment,
        (at, _): To,
        stream: usize,
        effect: &member::Effect,
    ) {
        self.say(now, || match effect {
            member::Effect::Publish(one) => format!("{at} of {stream} sends {}", publish(one)),
            effect => format!("{at} of {stream} {effect:?}"),
        });
    }

    pub(super) fn keeper(&mut self, now: Moment, (at, _): To, effect: &keeper::Effect) {
        match effect {
            keeper::Effect::Renew(..) => {}
            effect => self.say(now, || format!("{at} {effect:?}")),
        }
    }

    pub(super) fn committed(&mut self, now: Moment, stream: usize, seq: Seq, bytes: &[u8]) {
        self.say(now, || {
            format!("stream {stream} has {} at {seq}", message(bytes))
        });
    }
}
