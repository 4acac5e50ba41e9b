//! Timers: `timer_wheel ACTORS TIMEOUTS`, all to all with (1) or without (0) a timer around every
//! wait; and `timers ACTORS TIMERS`, set and taken back: the figure is timers a second.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use actor::{Actor, Addr, Context, Mail, TimerKey};

use super::Args;
use crate::shards::{Latch, Shards};

/// Far beyond the end of the run.
const LATER: Duration = Duration::from_secs(1_000);

#[derive(Clone)]
enum Ball {
    Go(Arc<[Addr<Ball>]>),
    Ping(Addr<Ball>),
    Pong,
    TooLate,
}

struct Player {
    with_timers: bool,
    timer: Option<TimerKey>,
    left: usize,
    done: SyncSender<u64>,
}

impl Player {
    /// As a receive with a timeout does: the timer of the last wait ends, one for the next begins.
    fn wait_again(&mut self, cx: &mut Context<'_, Ball>) {
        if let Some(timer) = self.timer.take() {
            cx.cancel(timer);
        }
        if self.with_timers && self.left > 0 {
            self.timer = Some(cx.send_after(LATER, Ball::TooLate));
        }
    }
}

impl Actor for Player {
    type Msg = Ball;

    fn handle(&mut self, msg: Ball, cx: &mut Context<'_, Ball>) {
        match msg {
            Ball::Go(all) => {
                let me = cx.myself();
                // A pong from each other, and a ping to answer.
                self.left = self.left.wrapping_add(2 * (all.len() - 1));
                for other in all.iter().filter(|other| **other != me) {
                    let _ = cx.send(*other, Ball::Ping(me));
                }
            }
            Ball::Ping(from) => {
                self.left = self.left.wrapping_sub(1);
                let _ = cx.send(from, Ball::Pong);
            }
            Ball::Pong => self.left = self.left.wrapping_sub(1),
            Ball::TooLate => {}
        }
        self.wait_again(cx);
        if self.left == 0 {
            let _ = self.done.try_send(0);
        }
    }
}

pub(super) fn wheel(args: &Args) -> Result<f64, String> {
    let (count, with_timers) = (args.number(0)?, args.number(1)? > 0);
    let shards = Shards::start(args.shards, move |shard| {
        shard.set_mailbox_max::<Ball>(2 * count);
    })?;
    let began = shards.now();
    let latch = Latch::new(count);
    let done = latch.sender();
    let players = shards.spawn_many(count, move |_| Player {
        with_timers,
        timer: None,
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

/// Timers that one actor has at a time.
const AT_ONCE: usize = 1_000;

struct Setter {
    left: usize,
    done: SyncSender<u64>,
}

impl Actor for Setter {
    type Msg = ();

    fn started(&mut self, cx: &mut Context<'_, ()>) {
        let _ = cx.send(cx.myself(), ());
    }

    fn handle(&mut self, (): (), cx: &mut Context<'_, ()>) {
        let count = AT_ONCE.min(self.left);
        let after = |n: usize| LATER + Duration::from_millis(n as u64 % 997);
        let timers: Vec<TimerKey> = (0..count).map(|n| cx.send_after(after(n), ())).collect();
        for timer in timers {
            cx.cancel(timer);
        }
        self.left -= count;
        if self.left == 0 {
            let _ = self.done.try_send(0);
        } else {
            let _ = cx.send(cx.myself(), ());
        }
    }
}

pub(super) fn set_and_cancel(args: &Args) -> Result<f64, String> {
    let (actors, timers) = (args.number(0)?, args.number(1)?);
    let shards = Shards::start(args.shards, |_| {})?;
    let began = shards.now();
    let latch = Latch::new(actors);
    let done = latch.sender();
    shards.spawn_many(actors, move |_| Setter {
        left: timers,
        done: done.clone(),
    })?;
    latch.wait()?;
    let micros = shards.micros_since(began);
    shards.stop();
    Ok((actors * timers) as f64 / micros * 1e6)
}
