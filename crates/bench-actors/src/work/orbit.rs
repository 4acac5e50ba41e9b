//! The orbit example as a workload: `orbit SET SIZE WORKERS`, where SET is the digits of its
//! generators, Fibonacci numbers by naive recursion.

use orbit::generator::Generators;
use orbit::worker::Conf;

use super::Args;
use crate::shards::WITHIN;

pub(super) fn run(args: &Args) -> Result<f64, String> {
    let (set, size, workers) = (args.number(0)?, args.number(1)?, args.number(2)?);
    let generators: Result<Generators, _> = format!("g{set}").parse();
    let conf = Conf::new(generators.map_err(|error| error.to_string())?, size as u32);
    let outcome = orbit::local::run(&conf, args.shards, workers as u32, WITHIN);
    let outcome = outcome.map_err(|error| error.to_string())?;
    Ok(outcome.wall_time.as_nanos() as f64 / 1e3)
}
