//! Many senders, one receiver: `bang SENDERS MESSAGES`.
//!
//! A mailbox has a bound, so each sender has at most [`WINDOW`] messages that are not acknowledged.

use std::sync::mpsc::SyncSender;

use actor::{Actor, Addr, Context, Mail};

use super::Args;
use crate::shards::{Latch, Shards};

const WINDOW: usize = 1_024;
const ACK: usize = WINDOW / 2;

enum In {
    Item,
    /// The last of so many.
    Last(usize, Addr<Out>),
}

struct Receiver {
    left: usize,
    done: SyncSender<u64>,
}

impl Actor for Receiver {
    type Msg = In;

    fn handle(&mut self, msg: In, cx: &mut Context<'_, In>) {
        self.left -= 1;
        if let In::Last(count, from) = msg {
            let _ = cx.send(from, Out(count));
        }
        if self.left == 0 {
            let _ = self.done.try_send(0);
        }
    }
}

/// So many more may be sent.
struct Out(usize);

struct Sender {
    to: Addr<In>,
    left: usize,
    window: usize,
}

impl Sender {
    fn pour(&mut self, cx: &mut Context<'_, Out>) {
        while self.left > 0 && self.window > 0 {
            self.left -= 1;
            self.window -= 1;
            let sent = WINDOW - self.window;
            let item = if sent.is_multiple_of(ACK) || self.window == 0 {
                In::Last(ACK, cx.myself())
            } else {
                In::Item
            };
            let _ = cx.send(self.to, item);
        }
    }
}

impl Actor for Sender {
    type Msg = Out;

    fn started(&mut self, cx: &mut Context<'_, Out>) {
        self.pour(cx);
    }

    fn handle(&mut self, Out(more): Out, cx: &mut Context<'_, Out>) {
        self.window += more;
        self.pour(cx);
    }
}

pub(super) fn run(args: &Args) -> Result<f64, String> {
    let (senders, messages) = (args.number(0)?, args.number(1)?);
    let shards = Shards::start(args.shards, move |shard| {
        shard.set_mailbox_max::<In>(senders * WINDOW);
    })?;
    let began = shards.now();
    let latch = Latch::new(1);
    let done = latch.sender();
    let receiver = shards.spawn_many(1, move |_| Receiver {
        left: senders * messages,
        done: done.clone(),
    })?;
    let to = receiver[0];
    shards.spawn_many(senders, move |_| Sender {
        to,
        left: messages,
        window: WINDOW,
    })?;
    latch.wait()?;
    let micros = shards.micros_since(began);
    shards.stop();
    Ok(micros)
}
