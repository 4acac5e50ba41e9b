//! Which workloads in which sizes, and everyone's figures side by side.
//!
//! Owns the sizes, running the contestants in turn, medians, and the table. Each figure comes from
//! a process of its own, so that nobody inherits another workload's memory. Deliberately not here:
//! the workloads.

use std::path::PathBuf;
use std::process::Command;

/// How large the workloads are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sizes {
    /// Whether it works.
    Tiny,
    /// A second or less each.
    Short,
    /// Several.
    Long,
}

impl Sizes {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "tiny" => Some(Sizes::Tiny),
            "short" => Some(Sizes::Short),
            "long" => Some(Sizes::Long),
            _ => None,
        }
    }
}

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Micros,
    Bytes,
    PerSecond,
}

impl Unit {
    fn word(self) -> &'static str {
        match self {
            Unit::Micros => "us",
            Unit::Bytes => "bytes",
            Unit::PerSecond => "per second",
        }
    }

    /// How much better the first figure is than the second: above 1 is better.
    fn advantage(self, ours: f64, theirs: f64) -> f64 {
        match self {
            Unit::PerSecond => ours / theirs,
            Unit::Micros | Unit::Bytes => theirs / ours,
        }
    }
}

/// One line of the table.
struct Case {
    name: &'static str,
    /// What the line is called.
    title: &'static str,
    unit: Unit,
    tiny: &'static [u64],
    short: &'static [u64],
    long: &'static [u64],
}

const fn case(
    name: &'static str,
    title: &'static str,
    unit: Unit,
    sizes: [&'static [u64]; 3],
) -> Case {
    let [tiny, short, long] = sizes;
    Case {
        name,
        title,
        unit,
        tiny,
        short,
        long,
    }
}

const US: Unit = Unit::Micros;

/// The lines. Where the published sizes take microseconds, larger ones are taken.
const CASES: &[Case] = &[
    case(
        "bang",
        "bang",
        US,
        [&[4, 100], &[158, 1_580], &[158, 15_800]],
    ),
    case("big", "big", US, [&[8], &[500], &[1_500]]),
    case("ehb", "ehb", US, [&[1, 20], &[16, 100], &[16, 1_000]]),
    case(
        "genstress",
        "genstress",
        US,
        [&[2, 4, 10], &[32, 158, 2_000], &[32, 158, 20_000]],
    ),
    case("mbrot", "mbrot", US, [&[2, 16], &[8, 400], &[8, 1_200]]),
    case(
        "orbit",
        "orbit",
        US,
        [&[124, 1_000, 4], &[124, 20_000, 4], &[124, 100_000, 4]],
    ),
    case(
        "parallel",
        "parallel",
        US,
        [&[2, 100], &[20, 50_000], &[20, 200_000]],
    ),
    case("ran", "ran", US, [&[2, 100], &[8, 100_000], &[32, 100_000]]),
    case(
        "serialmsg",
        "serialmsg",
        US,
        [&[2, 20, 8], &[32, 5_000, 64], &[32, 50_000, 64]],
    ),
    case(
        "timer_wheel",
        "timer wheel, timers",
        US,
        [&[8, 1], &[250, 1], &[1_000, 1]],
    ),
    case(
        "timer_wheel",
        "timer wheel, none",
        US,
        [&[8, 0], &[250, 0], &[1_000, 0]],
    ),
    case(
        "timers",
        "timers set and cancelled",
        Unit::PerSecond,
        [&[2, 2_000], &[8, 200_000], &[8, 1_000_000]],
    ),
    case(
        "cross",
        "messages between shards",
        Unit::PerSecond,
        [&[2, 100, 4], &[16, 50_000, 64], &[16, 500_000, 64]],
    ),
    case(
        "memory",
        "idle actors, resident",
        Unit::Bytes,
        [&[1_000], &[1_000_000], &[1_000_000]],
    ),
    case(
        "crash",
        "crash to next answer",
        US,
        [&[5], &[500], &[2_000]],
    ),
    case(
        "process",
        "process killed to next answer",
        US,
        [&[2], &[20], &[100]],
    ),
    case(
        "ets_test",
        "table, writers and readers",
        US,
        [&[2, 2, 50], &[64, 64, 10_000], &[64, 64, 50_000]],
    ),
    case(
        "ets_bench",
        "set, insert",
        US,
        [
            &[0, 0, 64, 100],
            &[0, 0, 262_144, 1_000_000],
            &[0, 0, 2_097_152, 4_000_000],
        ],
    ),
    case(
        "ets_bench",
        "set, lookup",
        US,
        [
            &[0, 1, 64, 100],
            &[0, 1, 262_144, 2_000_000],
            &[0, 1, 2_097_152, 4_000_000],
        ],
    ),
    case(
        "ets_bench",
        "set, 1 % update",
        US,
        [
            &[0, 2, 64, 100],
            &[0, 2, 262_144, 2_000_000],
            &[0, 2, 2_097_152, 4_000_000],
        ],
    ),
    case(
        "ets_bench",
        "set, 10 % update",
        US,
        [
            &[0, 3, 64, 100],
            &[0, 3, 262_144, 2_000_000],
            &[0, 3, 2_097_152, 4_000_000],
        ],
    ),
    case(
        "ets_bench",
        "set, delete",
        US,
        [
            &[0, 4, 64, 100],
            &[0, 4, 262_144, 1_000_000],
            &[0, 4, 2_097_152, 4_000_000],
        ],
    ),
    case(
        "ets_bench",
        "ordered, insert",
        US,
        [
            &[1, 0, 64, 100],
            &[1, 0, 262_144, 1_000_000],
            &[1, 0, 2_097_152, 4_000_000],
        ],
    ),
    case(
        "ets_bench",
        "ordered, lookup",
        US,
        [
            &[1, 1, 64, 100],
            &[1, 1, 262_144, 2_000_000],
            &[1, 1, 2_097_152, 4_000_000],
        ],
    ),
    case(
        "ets_bench",
        "ordered, 1 % update",
        US,
        [
            &[1, 2, 64, 100],
            &[1, 2, 262_144, 2_000_000],
            &[1, 2, 2_097_152, 4_000_000],
        ],
    ),
    case(
        "ets_bench",
        "ordered, 10 % update",
        US,
        [
            &[1, 3, 64, 100],
            &[1, 3, 262_144, 2_000_000],
            &[1, 3, 2_097_152, 4_000_000],
        ],
    ),
    case(
        "ets_bench",
        "ordered, delete",
        US,
        [
            &[1, 4, 64, 100],
            &[1, 4, 262_144, 1_000_000],
            &[1, 4, 2_097_152, 4_000_000],
        ],
    ),
    case(
        "ets_random_ops",
        "set, mix 100/0/0/0",
        US,
        [
            &[0, 100, 100, 100, 0, 0, 0],
            &[0, 1_500_000, 1_000_000, 100, 0, 0, 0],
            &[0, 15_000_000, 1_000_000, 100, 0, 0, 0],
        ],
    ),
    case(
        "ets_random_ops",
        "set, mix 50/50/0/0",
        US,
        [
            &[0, 100, 100, 50, 50, 0, 0],
            &[0, 1_500_000, 1_000_000, 50, 50, 0, 0],
            &[0, 15_000_000, 1_000_000, 50, 50, 0, 0],
        ],
    ),
    case(
        "ets_random_ops",
        "set, mix 20/10/70/0",
        US,
        [
            &[0, 100, 100, 20, 10, 70, 0],
            &[0, 1_500_000, 1_000_000, 20, 10, 70, 0],
            &[0, 15_000_000, 1_000_000, 20, 10, 70, 0],
        ],
    ),
    case(
        "ets_random_ops",
        "set, mix 1/0/99/0",
        US,
        [
            &[0, 100, 100, 1, 0, 99, 0],
            &[0, 1_500_000, 1_000_000, 1, 0, 99, 0],
            &[0, 15_000_000, 1_000_000, 1, 0, 99, 0],
        ],
    ),
    case(
        "ets_random_ops",
        "ordered, mix 100/0/0/0",
        US,
        [
            &[1, 100, 100, 100, 0, 0, 0],
            &[1, 1_500_000, 1_000_000, 100, 0, 0, 0],
            &[1, 15_000_000, 1_000_000, 100, 0, 0, 0],
        ],
    ),
    case(
        "ets_random_ops",
        "ordered, mix 50/50/0/0",
        US,
        [
            &[1, 100, 100, 50, 50, 0, 0],
            &[1, 1_500_000, 1_000_000, 50, 50, 0, 0],
            &[1, 15_000_000, 1_000_000, 50, 50, 0, 0],
        ],
    ),
    case(
        "ets_random_ops",
        "ordered, mix 20/10/70/0",
        US,
        [
            &[1, 100, 100, 20, 10, 70, 0],
            &[1, 1_500_000, 1_000_000, 20, 10, 70, 0],
            &[1, 15_000_000, 1_000_000, 20, 10, 70, 0],
        ],
    ),
    case(
        "ets_random_ops",
        "ordered, mix 1/0/99/0",
        US,
        [
            &[1, 100, 100, 1, 0, 99, 0],
            &[1, 1_500_000, 1_000_000, 1, 0, 99, 0],
            &[1, 15_000_000, 1_000_000, 1, 0, 99, 0],
        ],
    ),
    case(
        "ets_bulk",
        "set, batches of 100",
        US,
        [&[0, 400, 100], &[0, 1_000_000, 100], &[0, 4_000_000, 100]],
    ),
    case(
        "ets_bulk",
        "ordered, batches of 100",
        US,
        [&[1, 400, 100], &[1, 1_000_000, 100], &[1, 4_000_000, 100]],
    ),
    case(
        "ets_range",
        "ordered, pages of 100",
        US,
        [&[300, 100], &[1_000_000, 100], &[4_000_000, 100]],
    ),
];

/// What is to be compared.
#[derive(Debug)]
pub(crate) struct Suite {
    pub(crate) only: Vec<String>,
    pub(crate) sizes: Sizes,
    pub(crate) shards: u16,
    pub(crate) rounds: usize,
    pub(crate) erlang: Option<PathBuf>,
    pub(crate) rivals: Option<PathBuf>,
    pub(crate) json: Option<PathBuf>,
}

impl Default for Suite {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Suite {
            only: Vec::new(),
            sizes: Sizes::Short,
            shards: processors.min(16) as u16,
            rounds: 3,
            erlang: None,
            rivals: None,
            json: None,
        }
    }
}

/// Somebody whose figures are taken.
struct Contestant {
    name: &'static str,
    words: Vec<String>,
}

/// The figures of one contestant for one case; `None` says that it has no such workload.
type Figures = Option<Vec<f64>>;

/// What a program says that has no such workload.
const NONE: &str = "none";

impl Suite {
    /// Runs everything and prints the table.
    pub(crate) fn run(&self) -> Result<(), String> {
        let contestants = self.contestants()?;
        let mut lines = Vec::new();
        let mut head = String::from("| workload | unit |");
        contestants
            .iter()
            .for_each(|one| head += &format!(" {} |", one.name));
        contestants[1..]
            .iter()
            .for_each(|one| head += &format!(" {} : ours |", one.name));
        println!("{head}\n|{}", "---|".repeat(1 + 2 * contestants.len()));
        for case in CASES {
            let numbers = match self.sizes {
                Sizes::Tiny => case.tiny,
                Sizes::Short => case.short,
                Sizes::Long => case.long,
            };
            if !self.only.is_empty() && !self.only.iter().any(|name| name == case.name) {
                continue;
            }
            let figures = self.measure(case, numbers, &contestants)?;
            println!("{}", row(case, &figures));
            lines.push(json(case, numbers, &contestants, &figures));
        }
        if let Some(path) = &self.json {
            let text = format!(
                "{{\"shards\": {}, \"rounds\": {}, \"cases\": [\n{}\n]}}\n",
                self.shards,
                self.rounds,
                lines.join(",\n")
            );
            std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }

    fn contestants(&self) -> Result<Vec<Contestant>, String> {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut all = vec![Contestant {
            name: "roost",
            words: vec![text(own), "run".into()],
        }];
        if let Some(folder) = &self.erlang {
            let count = self.shards;
            let words = [
                "erl",
                "-noshell",
                "-pa",
                &text(folder.clone()),
                "+P",
                "4000000",
                "+S",
            ];
            let mut words: Vec<String> = words.iter().map(|word| (*word).into()).collect();
            words.extend([
                format!("{count}:{count}"),
                "-run".into(),
                "bench".into(),
                "main".into(),
            ]);
            all.push(Contestant {
                name: "Erlang",
                words,
            });
        }
        if let Some(program) = &self.rivals {
            all.push(Contestant {
                name: "library",
                words: vec![text(program.clone())],
            });
        }
        Ok(all)
    }

    /// Everyone in turn, round after round, so that other work on the machine meets all.
    fn measure(
        &self,
        case: &Case,
        numbers: &[u64],
        contestants: &[Contestant],
    ) -> Result<Vec<Figures>, String> {
        let mut figures: Vec<Figures> = contestants.iter().map(|_| Some(Vec::new())).collect();
        for _ in 0..self.rounds {
            for (one, figures) in contestants.iter().zip(&mut figures) {
                let Some(list) = figures else { continue };
                match self.once(case, numbers, one)? {
                    Some(figure) => list.push(figure),
                    None => *figures = None,
                }
            }
        }
        Ok(figures)
    }

    fn once(&self, case: &Case, numbers: &[u64], one: &Contestant) -> Result<Option<f64>, String> {
        let mut command = Command::new(&one.words[0]);
        command.args(&one.words[1..]).arg(case.name);
        command.arg(self.shards.to_string());
        command.args(numbers.iter().map(u64::to_string));
        let output = command.output();
        let output = output.map_err(|error| format!("{}: {error}", one.words[0]))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let last = said.lines().last().unwrap_or_default().trim();
        if last == NONE {
            return Ok(None);
        }
        match last.parse::<f64>() {
            Ok(figure) if output.status.success() && figure > 0.0 => Ok(Some(figure)),
            _ => Err(format!(
                "{} failed at {}: {said}{}",
                one.name,
                case.title,
                String::from_utf8_lossy(&output.stderr)
            )),
        }
    }
}

fn median(figures: &Figures) -> Option<f64> {
    let mut sorted = figures.clone()?;
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

fn row(case: &Case, figures: &[Figures]) -> String {
    let mut row = format!("| {} | {} |", case.title, case.unit.word());
    let medians: Vec<Option<f64>> = figures.iter().map(median).collect();
    for median in &medians {
        row += &match median {
            Some(figure) => format!(" {figure:.0} |"),
            None => " - |".into(),
        };
    }
    for theirs in &medians[1..] {
        row += &match (medians[0], theirs) {
            (Some(ours), Some(theirs)) => {
                format!(" {:.2} |", case.unit.advantage(ours, *theirs))
            }
            _ => " - |".into(),
        };
    }
    row
}

fn json(case: &Case, numbers: &[u64], contestants: &[Contestant], figures: &[Figures]) -> String {
    let lists = contestants.iter().zip(figures).map(|(one, figures)| {
        let list = figures
            .as_ref()
            .map_or_else(|| "null".into(), |list| format!("{list:?}"));
        format!("{:?}: {list}", one.name)
    });
    format!(
        "{{\"name\": {:?}, \"title\": {:?}, \"unit\": {:?}, \"numbers\": {numbers:?}, {}}}",
        case.name,
        case.title,
        case.unit.word(),
        lists.collect::<Vec<_>>().join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work;

    /// Every line's workload is there and does its job in its smallest size.
    #[test]
    fn every_case_runs() {
        for case in CASES.iter().filter(|case| case.name != "process") {
            let args = work::Args {
                shards: 2,
                numbers: case.tiny.to_vec(),
            };
            let figure = work::run(case.name, &args);
            assert!(figure.is_ok_and(|figure| figure > 0.0), "{}", case.title);
        }
    }

    #[test]
    fn advantages_are_above_one_where_ours_is_better() {
        assert_eq!(Unit::Micros.advantage(1.0, 2.0), 2.0);
        assert_eq!(Unit::Bytes.advantage(4.0, 2.0), 0.5);
        assert_eq!(Unit::PerSecond.advantage(4.0, 2.0), 2.0);
    }
}
