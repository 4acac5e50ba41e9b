//! Hackbench: `ehb GROUPS LOOPS`. In each group twenty senders send to twenty receivers, twelve
//! words a message, and wait for an acknowledgement after every hundred to one receiver.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use actor::{Actor, Addr, Context, Mail};

use super::Args;
use crate::shards::{Latch, Shards};

const SIDE: usize = 20;
const ACK: usize = 100;
/// Rounds that one handler sends, so that what waits stays in the cache.
const SLICE: usize = 5;

/// What a receiver takes: the payload, and whom to acknowledge it to.
struct Data {
    payload: [u64; 12],
    ack: Option<Addr<Go>>,
}

struct Receiver {
    sum: u64,
}

impl Actor for Receiver {
    type Msg = Data;

    fn handle(&mut self, msg: Data, cx: &mut Context<'_, Data>) {
        self.sum = self.sum.wrapping_add(msg.payload[11]);
        if let Some(ack) = msg.ack {
            let _ = cx.send(ack, Go::Ack);
        }
    }
}

enum Go {
    Begin(Arc<[Addr<Data>]>),
    Ack,
    /// Go on; from itself.
    On,
}

struct Sender {
    receivers: Arc<[Addr<Data>]>,
    sent: usize,
    loops: usize,
    waits: usize,
    is_on: bool,
    done: SyncSender<u64>,
}

impl Sender {
    /// Sends to all until acknowledgements are due or others should have their turn.
    fn pour(&mut self, cx: &mut Context<'_, Go>) {
        for _ in 0..SLICE {
            if self.waits > 0 || self.sent == self.loops {
                return;
            }
            self.sent += 1;
            let is_due = self.sent.is_multiple_of(ACK) || self.sent == self.loops;
            for receiver in self.receivers.iter() {
                let ack = is_due.then(|| cx.myself());
                let payload = [self.sent as u64; 12];
                let _ = cx.send(*receiver, Data { payload, ack });
            }
            if is_due {
                self.waits = self.receivers.len();
            }
        }
        // One message to itself at a time, behind which everything else has its turn.
        if !std::mem::replace(&mut self.is_on, true) {
            let _ = cx.send(cx.myself(), Go::On);
        }
    }
}

impl Actor for Sender {
    type Msg = Go;

    fn handle(&mut self, msg: Go, cx: &mut Context<'_, Go>) {
        match msg {
            Go::Begin(receivers) => self.receivers = receivers,
            Go::Ack => {
                self.waits -= 1;
                if self.waits == 0 && self.sent == self.loops {
                    let _ = self.done.try_send(0);
                }
            }
            Go::On => self.is_on = false,
        }
        self.pour(cx);
    }
}

pub(super) fn run(args: &Args) -> Result<f64, String> {
    let (groups, loops) = (args.number(0)?, args.number(1)?);
    let shards = Shards::start(args.shards, move |shard| {
        shard.set_mailbox_max::<Data>(SIDE * ACK);
    })?;
    let began = shards.now();
    let latch = Latch::new(groups * SIDE);
    let done = latch.sender();
    let receivers = shards.spawn_many(groups * SIDE, |_| Receiver { sum: 0 })?;
    let senders = shards.spawn_many(groups * SIDE, move |_| Sender {
        receivers: Arc::new([]),
        sent: 0,
        loops,
        waits: 0,
        is_on: false,
        done: done.clone(),
    })?;
    let sides: Vec<Arc<[Addr<Data>]>> = receivers.chunks(SIDE).map(Arc::from).collect();
    shards.tell_all(&senders, move |number| {
        Go::Begin(Arc::clone(&sides[number / SIDE]))
    })?;
    latch.wait()?;
    let micros = shards.micros_since(began);
    shards.stop();
    Ok(micros)
}
