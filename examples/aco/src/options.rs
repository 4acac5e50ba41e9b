//! The words of the command line.
//!
//! Owns reading them strictly: a word that means nothing, or a number out of its bounds, is an
//! error. Deliberately not here: doing anything.

use std::fmt;
use std::time::Duration;

use crate::params::{ANTS_MAX, Dice, Heuristic, Params, ROUNDS_MAX, Search};
use crate::plan::MEMBERS_MAX;

/// What is printed for help.
pub const USAGE: &str = "\
usage: aco tl [option]... INPUT ANTS GLOBAL LOCAL
       aco ml [option]... INPUT DEGREE DUP ANTS GLOBAL LOCAL
       aco gr|sr [option]... INPUT DEGREE DUP ANTS GLOBAL LOCAL
       aco node NAME@HOST:PORT [COOKIE]

tl: a master and its colonies. ml: branches between them, of at most DEGREE children, and DUP
colonies at each place. gr: as ml, and members have names and are replaced when they are lost. sr:
as gr over nodes, with a group for each branch. node: offers a node until its input ends.
INPUT has 3N+1 integers: N, N durations, N weights, N due dates. GLOBAL rounds of LOCAL iterations.

 n=PLACES      places for colonies, spread over the shards (default: one for each shard)
 auto          as many shards as the machine has processors
 shards=N      threads (default 1)
 repl=N        so many runs; each is printed
 v, vv         the best cost after each round; also the tree
 sched         print the order, its cost and the time
 time          print the time only
 R             one line: jobs ants global local cost time1 time2
 N             a seed from the clock
 seed=N        this seed (default 1)
 cyclic        random numbers .09, .19, ... .99, again and again
 ne            pheromone does not evaporate
 a= b= rho= q0= tau0=   influence of pheromone (1.0) and heuristic (2.0), evaporation (0.1), how
               often the best choice is taken (0.9), pheromone at the beginning
 mdd edd au mixed       the heuristic (mdd)
 o1 o2 o12 o21 local search: interchange, insertion, one after the other
 monkey=MS     gr, sr: on each shard or node a random member is killed so often
 nodes=FILE    gr, sr: over these nodes instead of shards, n of them
 me=NAME       nodes: what the master's node is called (NAME@HOST:PORT); it may be one of them
 need=RULE     nodes: only those with such attributes, as cores>=2, or so near, as distance<=0.5
 network=FILE  nodes: which are near each other; places are given to the nearest first
 cookie=TEXT   nodes: those of the same cookie link with each other (default aco)
 stop          end when no round can be better: at cost 0
";

/// Which tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Two levels.
    Tl,
    /// More.
    Ml,
    /// More, with names and recovery.
    Gr,
    /// As `Gr`, with a group of nodes for each branch.
    Sr,
}

/// What is printed in the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// Cost and both times.
    #[default]
    Usual,
    /// The order too.
    Schedule,
    /// The second time alone.
    Time,
    /// One line of columns.
    R,
}

/// Where the seed comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seed {
    /// This one.
    Given(u64),
    /// The clock.
    Clock,
    /// None is needed: the numbers are cyclic.
    Cyclic,
}

/// What the command line says.
#[derive(Clone, Debug, PartialEq)]
pub struct Words {
    /// Which tree.
    pub variant: Variant,
    /// The file of the instance.
    pub input: String,
    /// Children of a branch, at most.
    pub degree: u32,
    /// Colonies at each place.
    pub dup: u32,
    /// Places; `None` is one for each shard.
    pub places: Option<u32>,
    /// Threads; `None` is one for each processor.
    pub shards: Option<u16>,
    /// Runs.
    pub runs: u32,
    /// 1 with `v`, 2 with `vv`.
    pub verbosity: u8,
    /// What is printed.
    pub output: Output,
    /// The seed.
    pub seed: Seed,
    /// Whether a round that cost nothing is the last.
    pub stop: bool,
    /// The monkey's interval.
    pub monkey: Option<Duration>,
    /// The file with the names of nodes.
    pub nodes: Option<String>,
    /// What the master's node is called.
    pub me: Option<String>,
    /// What the nodes must be, as [`group::placement`] reads it.
    pub needs: Vec<String>,
    /// The file with the description of the network.
    pub network: Option<String>,
    /// The secret that nodes share.
    pub cookie: String,
    /// All else. Its dice are a placeholder until the seed is known.
    pub params: Params,
}

/// What is wrong with the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadWords(pub String);

impl fmt::Display for BadWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadWords {}

fn bad<T>(what: impl Into<String>) -> Result<T, BadWords> {
    Err(BadWords(what.into()))
}

/// A whole number from `low` to `high`.
fn whole(key: &str, text: &str, low: u64, high: u64) -> Result<u64, BadWords> {
    match text.parse::<u64>() {
        Ok(number) if (low..=high).contains(&number) => Ok(number),
        _ => bad(format!("{key} is a whole number from {low} to {high}")),
    }
}

/// A number from `low` to `high`.
fn real(key: &str, text: &str, low: f64, high: f64) -> Result<f64, BadWords> {
    match text.parse::<f64>() {
        Ok(number) if (low..=high).contains(&number) => Ok(number),
        _ => bad(format!("{key} is a number from {low} to {high}")),
    }
}

impl Words {
    /// Reads the words after the program's name.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn parse(words: &[String]) -> Result<Words, BadWords> {
        let (first, rest) = match words.split_first() {
            Some(found) => found,
            None => return bad("the first word is tl, ml, gr, sr or node"),
        };
        let (variant, count) = match first.as_str() {
            "tl" => (Variant::Tl, 4),
            "ml" => (Variant::Ml, 6),
            "gr" => (Variant::Gr, 6),
            "sr" => (Variant::Sr, 6),
            _ => return bad("the first word is tl, ml, gr, sr or node"),
        };
        let mut found = Words {
            variant,
            input: String::new(),
            degree: MEMBERS_MAX as u32,
            dup: 1,
            places: None,
            shards: Some(1),
            runs: 1,
            verbosity: 0,
            output: Output::Usual,
            seed: Seed::Given(1),
            stop: false,
            monkey: None,
            nodes: None,
            me: None,
            needs: Vec::new(),
            network: None,
            cookie: "aco".into(),
            params: Params::default(),
        };
        if rest.len() < count {
            return bad(format!("{first} takes {count} words after its options"));
        }
        let (options, fixed) = rest.split_at(rest.len() - count);
        for option in options {
            found.option(option)?;
        }
        found.positions(fixed)?;
        let has_names = matches!(variant, Variant::Gr | Variant::Sr);
        if found.monkey.is_some() && !has_names {
            return bad("only members of gr and sr have names to be killed by");
        }
        if found.nodes.is_some() != found.me.is_some() || found.nodes.is_some() && !has_names {
            return bad("nodes= and me= go together, with gr and sr");
        }
        if found.nodes.is_none() && (found.network.is_some() || !found.needs.is_empty()) {
            return bad("need= and network= choose among nodes=");
        }
        if variant == Variant::Sr && found.nodes.is_none() {
            return bad("sr needs nodes= and me=");
        }
        Ok(found)
    }

    fn positions(&mut self, words: &[String]) -> Result<(), BadWords> {
        self.input.clone_from(&words[0]);
        let mut rest = &words[1..];
        if self.variant != Variant::Tl {
            self.degree = whole("DEGREE", &rest[0], 2, MEMBERS_MAX as u64)? as u32;
            self.dup = whole("DUP", &rest[1], 1, 1_000)? as u32;
            rest = &rest[2..];
        }
        self.params.ants = whole("ANTS", &rest[0], 1, u64::from(ANTS_MAX))? as u32;
        self.params.rounds = whole("GLOBAL", &rest[1], 1, u64::from(ROUNDS_MAX))? as u32;
        self.params.iterations = whole("LOCAL", &rest[2], 1, u64::from(ROUNDS_MAX))? as u32;
        Ok(())
    }

    fn option(&mut self, word: &str) -> Result<(), BadWords> {
        if let Some((key, value)) = word.split_once('=') {
            return self.setting(key, value);
        }
        match word {
            "auto" => self.shards = None,
            "v" => self.verbosity = self.verbosity.max(1),
            "vv" => self.verbosity = 2,
            "sched" => self.output = Output::Schedule,
            "time" => self.output = Output::Time,
            "R" => self.output = Output::R,
            "N" => self.seed = Seed::Clock,
            "cyclic" => {
                self.seed = Seed::Cyclic;
                self.params.dice = Dice::Cyclic;
            }
            "ne" => self.params.evaporates = false,
            "stop" => self.stop = true,
            "mdd" => self.params.heuristic = Heuristic::Mdd,
            "edd" => self.params.heuristic = Heuristic::Edd,
            "au" => self.params.heuristic = Heuristic::Au,
            "mixed" => self.params.heuristic = Heuristic::Mixed,
            "o1" => self.params.search = Search::Interchange,
            "o2" => self.params.search = Search::Insertion,
            "o12" => self.params.search = Search::InterchangeInsertion,
            "o21" => self.params.search = Search::InsertionInterchange,
            _ => return bad(format!("unknown option {word}")),
        }
        Ok(())
    }

    fn setting(&mut self, key: &str, value: &str) -> Result<(), BadWords> {
        let params = &mut self.params;
        match key {
            "n" => self.places = Some(whole(key, value, 1, 1_000)? as u32),
            "shards" => self.shards = Some(whole(key, value, 1, 1_024)? as u16),
            "repl" => self.runs = whole(key, value, 1, 1_000)? as u32,
            "seed" => self.seed = Seed::Given(whole(key, value, 0, u64::MAX)?),
            "monkey" => {
                self.monkey = Some(Duration::from_millis(whole(key, value, 1, 3_600_000)?));
            }
            "nodes" => self.nodes = Some(value.into()),
            "me" => self.me = Some(value.into()),
            "need" => self.needs.push(value.into()),
            "network" => self.network = Some(value.into()),
            "cookie" => self.cookie = value.into(),
            "a" => params.alpha = real(key, value, 0.0, 100.0)?,
            "b" => params.beta = real(key, value, 0.0, 100.0)?,
            "rho" => params.rho = real(key, value, 0.0, 1.0)?,
            "q0" => params.q0 = real(key, value, 0.0, 1.0)?,
            "tau0" => params.tau0 = Some(real(key, value, f64::MIN_POSITIVE, 1e9)?),
            _ => return bad(format!("unknown option {key}=")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Words, BadWords> {
        let words: Vec<String> = line.split(' ').map(String::from).collect();
        Words::parse(&words)
    }

    #[test]
    fn every_option_is_read() {
        let words = parse(
            "gr v vv n=4 repl=3 R N ne a=0.5 b=3 rho=0.2 q0=0.8 tau0=0.01 mixed o21 stop \
             shards=2 monkey=1000 file 2 1 10 20 30",
        );
        let words = words.unwrap();
        assert_eq!((words.degree, words.dup, words.places), (2, 1, Some(4)));
        assert_eq!((words.runs, words.verbosity, words.stop), (3, 2, true));
        assert_eq!((words.output, words.seed), (Output::R, Seed::Clock));
        assert_eq!(words.monkey, Some(Duration::from_secs(1)));
        let params = words.params;
        assert_eq!((params.alpha, params.beta, params.rho), (0.5, 3.0, 0.2));
        assert_eq!((params.q0, params.tau0), (0.8, Some(0.01)));
        assert_eq!(
            (params.ants, params.rounds, params.iterations),
            (10, 20, 30)
        );
        assert_eq!(params.heuristic, Heuristic::Mixed);
        assert_eq!(params.search, Search::InsertionInterchange);
        assert!(!params.evaporates);
        let words =
            parse("gr nodes=x me=y need=cores>=2 need=ssd network=z file 2 1 1 2 3").unwrap();
        assert_eq!(words.needs, ["cores>=2", "ssd"]);
        assert_eq!(words.network.as_deref(), Some("z"));
        let words = parse("tl auto cyclic sched edd o1 time file 1 2 3").unwrap();
        assert_eq!((words.shards, words.seed), (None, Seed::Cyclic));
        assert_eq!(words.output, Output::Time);
    }

    #[test]
    fn words_that_mean_nothing_are_errors() {
        for line in [
            "",
            "xl file 1 2 3",
            "tl file 1 2",
            "tl what file 1 2 3",
            "tl file 0 2 3",
            "tl file 1 2 x",
            "tl q0=1.5 file 1 2 3",
            "tl rho=nan file 1 2 3",
            "tl z=1 file 1 2 3",
            "tl monkey=5 file 1 2 3",
            "sr file 2 1 1 1 1",
            "gr nodes=x file 2 1 1 1 1",
            "ml nodes=x me=y file 2 1 1 1 1",
            "gr need=ssd file 2 1 1 1 1",
            "ml file 1 1 1 1 1",
            "ml file 2 1 2000 1 1",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
