//! `roost queue` and `roost trace`: messages that wait for recipients who cannot be given them, and
//! what became of one message.

use std::io;

use super::text::in_line;
use super::{print, unexpected};
use crate::cli::{Place, QueueCommand};
use crate::door::{self, Absent, Door};
use crate::exit::Failure;
use crate::node::{Request, Response};

pub(super) fn run(command: QueueCommand) -> Result<(), Failure> {
    match command {
        QueueCommand::List {
            sender,
            json,
            place,
        } => list(&place, sender, json),
        QueueCommand::Retry {
            sender,
            recipient,
            place,
        } => {
            let count = count(&place, Request::QueueRetry { sender, recipient })?;
            print(&format!("{count} tried again\n"))
        }
        QueueCommand::Drop {
            sender,
            recipient,
            place,
        } => {
            let count = count(&place, Request::QueueDrop { sender, recipient })?;
            print(&format!("{count} messages come back to their sender\n"))
        }
    }
}

/// Only a running server hands messages over.
fn ask(place: &Place, request: Request) -> Result<Response, Failure> {
    let config = place.source().load()?;
    let data = &config.settings.node.data;
    let Some(client) = door::connect(data)? else {
        return Err(Failure::Failed(format!(
            "no server runs on {}: messages are handed over as soon as one does",
            data.display()
        )));
    };
    Door::Running(Box::new(client)).call(request)
}

fn count(place: &Place, request: Request) -> Result<u64, Failure> {
    match ask(place, request)? {
        Response::Counted { count } => Ok(count),
        _ => Err(unexpected()),
    }
}

fn list(place: &Place, sender: Option<String>, json: bool) -> Result<(), Failure> {
    let Response::Queues { queues } = ask(place, Request::QueueList { sender })? else {
        return Err(unexpected());
    };
    if json {
        let text = serde_json::to_string(&queues).map_err(io::Error::from)?;
        return print(&format!("{text}\n"));
    }
    let lines = queues.iter().map(|queue| {
        let why = if queue.why.is_empty() {
            "slow"
        } else {
            &*queue.why
        };
        let why = in_line(why);
        format!(
            "{} -> {}: {} messages, the oldest {} of {}; {why}, {} failed attempts, {}\n",
            queue.sender,
            queue.recipient,
            queue.messages,
            in_line(&queue.oldest_id),
            stdx::time::Timestamp::from_millis(queue.oldest_ms),
            queue.failures,
            queue.next,
        )
    });
    print(&lines.collect::<String>())
}

pub(super) fn trace(place: &Place, id: String, by: Option<String>) -> Result<(), Failure> {
    let mut door = Door::open(&place.source().load()?, Absent::Refuse)?;
    match door.call(Request::Trace { id, by })? {
        Response::Traced { lines } => {
            let lines = lines.iter().map(|line| in_line(line).into_owned() + "\n");
            print(&lines.collect::<String>())
        }
        _ => Err(unexpected()),
    }
}
