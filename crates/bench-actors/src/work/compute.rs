//! Workloads that mostly compute: `mbrot WORKERS SIDE`, `parallel ACTORS TIMESTAMPS`,
//! `ran ACTORS NUMBERS`.

use std::hint::black_box;
use std::sync::mpsc::SyncSender;

use actor::{Actor, Context};
use stdx::rand::Rng;
use stdx::time::{Clock, SystemClock};

use super::Args;
use crate::shards::{Latch, Shards};

/// Does one job when it starts, tells the result, and ends.
struct Once<F> {
    job: F,
    done: SyncSender<u64>,
}

impl<F: FnMut() -> u64 + 'static> Actor for Once<F> {
    type Msg = ();

    fn started(&mut self, cx: &mut Context<'_, ()>) {
        let _ = self.done.try_send((self.job)());
        cx.stop();
    }

    fn handle(&mut self, (): (), _: &mut Context<'_, ()>) {}
}

fn each<F: FnMut() -> u64 + 'static>(
    args: &Args,
    count: usize,
    make: impl Fn(usize) -> F + Clone + Send + 'static,
) -> Result<(f64, u64), String> {
    let shards = Shards::start(args.shards, |_| {})?;
    let began = shards.now();
    let latch = Latch::new(count);
    let done = latch.sender();
    shards.spawn_many(count, move |number| Once {
        job: make(number),
        done: done.clone(),
    })?;
    let sum = latch.wait()?;
    let micros = shards.micros_since(began);
    shards.stop();
    Ok((micros, sum))
}

/// Iterations until a point of the plane leaves the circle of radius two, 255 at most.
fn escape(re: f64, im: f64) -> u64 {
    let (mut x, mut y, mut n) = (re, im, 0);
    while n < 255 && x * x + y * y <= 4.0 {
        (x, y) = (x * x - y * y + re, 2.0 * x * y + im);
        n += 1;
    }
    n
}

pub(super) fn mbrot(args: &Args) -> Result<f64, String> {
    let (workers, side) = (args.number(0)?, args.number(1)?);
    let make = move |number| {
        move || {
            let mut sum = 0;
            for row in (number..side).step_by(workers) {
                let im = 4.0 * row as f64 / side as f64 - 2.0;
                for column in 0..side {
                    sum += escape(4.0 * column as f64 / side as f64 - 2.0, im);
                }
            }
            sum
        }
    };
    let (micros, sum) = each(args, workers, make)?;
    black_box(sum);
    Ok(micros)
}

pub(super) fn parallel(args: &Args) -> Result<f64, String> {
    let (actors, stamps) = (args.number(0)?, args.number(1)?);
    let clock = SystemClock::new();
    let make = move |_| {
        move || {
            let list: Vec<u64> = (0..stamps).map(|_| clock.now().as_nanos()).collect();
            u64::from(list.is_sorted())
        }
    };
    let (micros, sorted) = each(args, actors, make)?;
    if sorted != actors as u64 {
        return Err("the clock went back".into());
    }
    Ok(micros)
}

pub(super) fn ran(args: &Args) -> Result<f64, String> {
    let (actors, numbers) = (args.number(0)?, args.number(1)?);
    let make = move |number| {
        move || {
            let mut rng = Rng::with_seed(number as u64);
            let mut list: Vec<u64> = (0..numbers).map(|_| rng.u64(..)).collect();
            list.sort_unstable();
            u64::from(list.is_sorted())
        }
    };
    let (micros, sorted) = each(args, actors, make)?;
    if sorted != actors as u64 {
        return Err("not sorted".into());
    }
    Ok(micros)
}
