//! The orbit by one worker in one loop: what everything else is compared with.

use crate::generator::Generators;
use crate::stats::{Outcome, WorkerStats};
use crate::table::Vertices;
use crate::worker::Conf;

use stdx::time::Clock;

/// Computes the orbit of vertex 0 on the caller's thread.
pub fn run(conf: &Conf, clock: &impl Clock) -> Outcome {
    let began = clock.now();
    let mut known = Vertices::new(conf.slots(1));
    let mut stats = WorkerStats::new(0);
    let mut unexpanded = vec![0];
    known.insert(0);
    let generators: &Generators = &conf.generators;
    while let Some(x) = unexpanded.pop() {
        for generator in generators.iter() {
            let y = generator.image(x, conf.size, conf.fib);
            stats.vertices_recvd += 1;
            if known.insert(y) {
                unexpanded.push(y);
            }
        }
    }
    let wall_time = clock.now().saturating_since(began);
    (stats.fill, stats.table_bytes) = (known.fill(), known.bytes());
    Outcome::new(wall_time, Vec::new(), vec![stats])
}
