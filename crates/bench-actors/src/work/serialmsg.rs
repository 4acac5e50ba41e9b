//! Everything through one: `serialmsg PAIRS MESSAGES BYTES`. Generators send to a dispatcher, which
//! sends on to their receivers; each generator waits for its receiver after every window.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use actor::{Actor, Addr, Context, Mail};

use super::Args;
use crate::shards::{Latch, Shards};

const WINDOW: usize = 256;

/// A message on its way, with its number and its receiver.
struct Parcel {
    to: usize,
    number: usize,
    body: Arc<[u8]>,
}

enum Post {
    Receivers(Arc<[Addr<Mailed>]>),
    Parcel(Parcel),
}

struct Dispatcher {
    receivers: Arc<[Addr<Mailed>]>,
}

impl Actor for Dispatcher {
    type Msg = Post;

    fn handle(&mut self, msg: Post, cx: &mut Context<'_, Post>) {
        match msg {
            Post::Receivers(receivers) => self.receivers = receivers,
            Post::Parcel(parcel) => {
                let _ = cx.send(self.receivers[parcel.to], Mailed::Parcel(parcel));
            }
        }
    }
}

enum Mailed {
    Generator(Addr<More>),
    Parcel(Parcel),
}

struct Receiver {
    generator: Option<Addr<More>>,
    bytes: u64,
    left: usize,
    done: SyncSender<u64>,
}

impl Actor for Receiver {
    type Msg = Mailed;

    fn handle(&mut self, msg: Mailed, cx: &mut Context<'_, Mailed>) {
        match msg {
            Mailed::Generator(generator) => self.generator = Some(generator),
            Mailed::Parcel(parcel) => {
                self.left -= 1;
                self.bytes += parcel.body.len() as u64;
                if self.left == 0 {
                    let _ = self.done.try_send(self.bytes);
                } else if parcel.number.is_multiple_of(WINDOW)
                    && let Some(generator) = self.generator
                {
                    let _ = cx.send(generator, More);
                }
            }
        }
    }
}

struct More;

struct Generator {
    number: usize,
    sent: usize,
    messages: usize,
    body: Arc<[u8]>,
    dispatcher: Addr<Post>,
}

impl Actor for Generator {
    type Msg = More;

    fn handle(&mut self, More: More, cx: &mut Context<'_, More>) {
        for _ in 0..WINDOW.min(self.messages - self.sent) {
            self.sent += 1;
            let parcel = Parcel {
                to: self.number,
                number: self.sent,
                body: Arc::clone(&self.body),
            };
            let _ = cx.send(self.dispatcher, Post::Parcel(parcel));
        }
    }
}

pub(super) fn run(args: &Args) -> Result<f64, String> {
    let (pairs, messages, bytes) = (args.number(0)?, args.number(1)?, args.number(2)?);
    let shards = Shards::start(args.shards, move |shard| {
        shard.set_mailbox_max::<Post>(pairs * WINDOW);
    })?;
    let began = shards.now();
    let latch = Latch::new(pairs);
    let done = latch.sender();
    let make = move |_| Dispatcher {
        receivers: Arc::new([]),
    };
    let dispatcher = shards.spawn_many(1, make)?;
    let receivers = shards.spawn_many(pairs, move |_| Receiver {
        generator: None,
        bytes: 0,
        left: messages,
        done: done.clone(),
    })?;
    let to = dispatcher[0];
    let body: Arc<[u8]> = vec![b'x'; bytes].into();
    let generators = shards.spawn_many(pairs, move |number| Generator {
        number,
        sent: 0,
        messages,
        body: Arc::clone(&body),
        dispatcher: to,
    })?;
    let known = generators.clone();
    shards.tell_all(&receivers, move |number| Mailed::Generator(known[number]))?;
    let all: Arc<[Addr<Mailed>]> = receivers.as_slice().into();
    shards.tell_all(&dispatcher, move |_| Post::Receivers(Arc::clone(&all)))?;
    // The shards have heard of each other before the first message goes out.
    shards.settle()?;
    shards.tell_all(&generators, |_| More)?;
    let sum = latch.wait()?;
    let micros = shards.micros_since(began);
    shards.stop();
    if sum != (pairs * messages * bytes) as u64 {
        return Err(format!("{sum} bytes arrived"));
    }
    Ok(micros)
}
