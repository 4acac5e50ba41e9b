//! Everybody plays ping-pong with everybody: `big ACTORS`.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use actor::{Actor, Addr, Context, Mail};

use super::Args;
use crate::shards::{Latch, Shards};

#[derive(Clone)]
enum Ball {
    Go(Arc<[Addr<Ball>]>),
    Ping(Addr<Ball>),
    Pong,
}

struct Player {
    left: usize,
    done: SyncSender<u64>,
}

impl Actor for Player {
    type Msg = Ball;

    fn handle(&mut self, msg: Ball, cx: &mut Context<'_, Ball>) {
        match msg {
            Ball::Go(all) => {
                let me = cx.myself();
                self.left = all.len() - 1;
                for other in all.iter().filter(|other| **other != me) {
                    let _ = cx.send(*other, Ball::Ping(me));
                }
            }
            Ball::Ping(from) => {
                let _ = cx.send(from, Ball::Pong);
            }
            Ball::Pong => {
                self.left -= 1;
                if self.left == 0 {
                    let _ = self.done.try_send(0);
                }
            }
        }
    }
}

pub(super) fn run(args: &Args) -> Result<f64, String> {
    let count = args.number(0)?;
    let shards = Shards::start(args.shards, move |shard| {
        shard.set_mailbox_max::<Ball>(2 * count);
    })?;
    let began = shards.now();
    let latch = Latch::new(count);
    let done = latch.sender();
    let players = shards.spawn_many(count, move |_| Player {
        left: 0,
        done: done.clone(),
    })?;
    let all: Arc<[Addr<Ball>]> = players.as_slice().into();
    shards.tell_all(&players, move |_| Ball::Go(Arc::clone(&all)))?;
    latch.wait()?;
    let micros = shards.micros_since(began);
    shards.stop();
    Ok(micros)
}
