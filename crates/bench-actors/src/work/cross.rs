//! Messages between shards: `cross PAIRS MESSAGES WINDOW`. The two of a pair are on different
//! shards where there are several, and have so many messages under way. The figure is messages a
//! second.

use std::sync::mpsc::SyncSender;

use actor::{Actor, Addr, Context, Mail};

use super::Args;
use crate::shards::{Latch, Shards};

enum Ball {
    Partner(Addr<Ball>, usize),
    Ball,
}

struct Player {
    partner: Option<Addr<Ball>>,
    left: usize,
    done: SyncSender<u64>,
}

impl Actor for Player {
    type Msg = Ball;

    fn handle(&mut self, msg: Ball, cx: &mut Context<'_, Ball>) {
        let serves = match msg {
            Ball::Partner(partner, serves) => {
                self.partner = Some(partner);
                serves
            }
            Ball::Ball => {
                self.left = self.left.saturating_sub(1);
                if self.left == 0 {
                    let _ = self.done.try_send(0);
                    return;
                }
                1
            }
        };
        if let Some(partner) = self.partner {
            for _ in 0..serves {
                let _ = cx.send(partner, Ball::Ball);
            }
        }
    }
}

pub(super) fn run(args: &Args) -> Result<f64, String> {
    let (pairs, messages, window) = (args.number(0)?, args.number(1)?, args.number(2)?);
    let shards = Shards::start(args.shards, |_| {})?;
    let latch = Latch::new(pairs);
    let done = latch.sender();
    // Neighbours in the list are on different shards.
    let players = shards.spawn_many(2 * pairs, move |number| Player {
        partner: None,
        // The one that serves counts; the other plays on.
        left: if number % 2 == 0 {
            messages
        } else {
            usize::MAX
        },
        done: done.clone(),
    })?;
    let known = players.clone();
    let partner = move |number: usize, serves| Ball::Partner(known[number ^ 1], serves);
    let second = partner.clone();
    let (servers, others): (Vec<_>, Vec<_>) = players.chunks(2).map(|two| (two[0], two[1])).unzip();
    shards.tell_all(&others, move |number| second(2 * number + 1, 0))?;
    shards.settle()?;
    let began = shards.now();
    shards.tell_all(&servers, move |number| partner(2 * number, window))?;
    latch.wait()?;
    let micros = shards.micros_since(began);
    shards.stop();
    // Each of the counted ones came back for one that went.
    Ok((2 * pairs * messages) as f64 / micros * 1e6)
}
