//! Friend graphs like real ones: Barabási–Albert, seeded, with a degree plot and the import format
//! of `docs/export-format.md`.
//!
//! Newcomers befriend users in proportion to how many friends these have already, which gives the
//! many small and few huge rosters of real networks. A cap keeps the hubs within a server's bound
//! on roster sizes; it bends the tail of the distribution and nothing else.

use std::io::{self, Write};

use crate::plot::{Line, Plot, standalone};
use crate::sasl;

/// Most users of a graph.
pub const GRAPH_USERS_MAX: u32 = 50_000_000;
/// Most links of a newcomer.
pub const GRAPH_LINKS_MAX: u32 = 1_000;
/// Draws for one link before the newcomer takes any user instead: reached only where almost
/// everybody who is known is at the cap already.
const DRAWS_MAX: u32 = 64;
/// PBKDF2 iterations of the accounts' keys, as RFC 7677 asks at least.
const ITERATIONS: u32 = 4_096;
/// One salt for all accounts, so that a load client derives one key.
const SALT: &[u8; 16] = b"roost-graph-salt";

/// What a graph is made from.
#[derive(Clone, Copy, Debug)]
pub struct GraphOptions {
    /// Users.
    pub users: u32,
    /// Links each newcomer makes; users have twice as many contacts on average.
    pub links: u32,
    /// Contacts of one user at most.
    pub contacts_max: u32,
    /// The same seed gives the same graph.
    pub seed: u64,
}

/// An undirected graph without loops and double links. Holds 8 bytes per link for each direction
/// while it is built and 4 after.
pub struct Graph {
    /// Where each user's contacts begin in `contacts`; one more than there are users.
    starts: Vec<u64>,
    contacts: Vec<u32>,
}

impl Graph {
    /// Makes the graph.
    ///
    /// # Errors
    /// Options that make no graph, with the reason.
    pub fn generate(options: GraphOptions) -> Result<Graph, String> {
        let GraphOptions {
            users,
            links,
            contacts_max,
            seed,
        } = options;
        if users > GRAPH_USERS_MAX || links == 0 || links > GRAPH_LINKS_MAX {
            return Err(format!(
                "a graph has up to {GRAPH_USERS_MAX} users with 1 to {GRAPH_LINKS_MAX} links each"
            ));
        }
        if users <= links {
            return Err(format!("{users} users are too few for {links} links each"));
        }
        if contacts_max < 2 * links + 1 {
            return Err(format!(
                "contacts are {} on average: the cap is too low",
                2 * links
            ));
        }
        let mut rng = fastrand::Rng::with_seed(seed);
        // Both ends of every link. Drawing an end evenly draws a user by the number of its links.
        let mut ends: Vec<u32> = Vec::with_capacity(2 * users as usize * links as usize);
        let mut degrees = vec![0_u32; users as usize];
        let mut join = |ends: &mut Vec<u32>, one: u32, other: u32| {
            ends.extend([one, other]);
            degrees[one as usize] += 1;
            degrees[other as usize] += 1;
            degrees[other as usize] >= contacts_max
        };
        let mut full = vec![false; users as usize];
        // The first users are all friends: enough for the first newcomer to choose from.
        for one in 1..=links {
            for other in 0..one {
                full[other as usize] |= join(&mut ends, one, other);
            }
        }
        let mut chosen: Vec<u32> = Vec::with_capacity(links as usize);
        for newcomer in links + 1..users {
            chosen.clear();
            let known = ends.len();
            while chosen.len() < links as usize {
                let mut friend = ends[rng.usize(0..known)];
                let mut draws = 1;
                while full[friend as usize] || chosen.contains(&friend) {
                    // Users under the cap exist: the last ones to come have few links yet.
                    friend = match draws < DRAWS_MAX {
                        true => ends[rng.usize(0..known)],
                        false => rng.u32(0..newcomer),
                    };
                    draws += 1;
                }
                chosen.push(friend);
            }
            for friend in &chosen {
                full[*friend as usize] |= join(&mut ends, newcomer, *friend);
            }
        }
        Ok(Graph::index(&degrees, &ends))
    }

    fn index(degrees: &[u32], ends: &[u32]) -> Graph {
        let mut starts = Vec::with_capacity(degrees.len() + 1);
        let mut total = 0_u64;
        for degree in degrees {
            starts.push(total);
            total += u64::from(*degree);
        }
        starts.push(total);
        let mut next = starts.clone();
        let mut contacts = vec![0_u32; ends.len()];
        for link in ends.chunks_exact(2) {
            for (one, other) in [(link[0], link[1]), (link[1], link[0])] {
                let place = &mut next[one as usize];
                contacts[*place as usize] = other;
                *place += 1;
            }
        }
        Graph { starts, contacts }
    }

    /// Users.
    pub fn users(&self) -> u32 {
        self.starts.len() as u32 - 1
    }

    /// The contacts of `user`, in the order in which they came to know each other.
    pub fn contacts(&self, user: u32) -> &[u32] {
        let range = self.starts[user as usize] as usize..self.starts[user as usize + 1] as usize;
        &self.contacts[range]
    }

    /// For each number of contacts how many users have at least as many: (contacts, users).
    pub fn degrees(&self) -> Vec<(u32, u32)> {
        let mut counts = std::collections::BTreeMap::new();
        for user in 0..self.users() {
            *counts
                .entry(self.contacts(user).len() as u32)
                .or_insert(0_u32) += 1;
        }
        let mut at_least = 0;
        let mut out: Vec<(u32, u32)> = counts
            .into_iter()
            .rev()
            .map(|(degree, count)| {
                at_least += count;
                (degree, at_least)
            })
            .collect();
        out.reverse();
        out
    }

    /// Median, 99% and largest number of contacts.
    pub fn summary(&self) -> (u32, u32, u32) {
        let degrees = self.degrees();
        let users = f64::from(self.users());
        let over = |share: f64| {
            let wanted = users * (1.0 - share);
            let found = degrees
                .iter()
                .rev()
                .find(|(_, at_least)| f64::from(*at_least) >= wanted);
            found.map_or(0, |(degree, _)| *degree)
        };
        (
            over(0.5),
            over(0.99),
            degrees.last().map_or(0, |(degree, _)| *degree),
        )
    }

    /// The degree plot as a complete SVG document: both axes logarithmic.
    pub fn plot(&self, title: &str) -> String {
        let points = self
            .degrees()
            .into_iter()
            .map(|(d, n)| (f64::from(d).log10(), f64::from(n)))
            .collect();
        let count = |value: f64| match value {
            _ if value >= 1e6 => format!("{:.0}M", value / 1e6),
            _ if value >= 1e3 => format!("{:.0}k", value / 1e3),
            _ => format!("{value:.0}"),
        };
        let plot = Plot {
            title,
            lines: vec![Line {
                label: "users with at least so many contacts".to_owned(),
                points,
            }],
            bands: &[],
            log: true,
            x_text: &|x| count(10_f64.powf(x)),
            y_text: &count,
            x_range: None,
            joined: f64::INFINITY,
            x_ticks: [
                1.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 1e5,
            ]
            .map(f64::log10)
            .to_vec(),
        };
        standalone(&plot.render(), title)
    }

    /// Writes accounts u0… with these rosters as JSON lines for `roost import`, an account and its
    /// roster at a time. `created_ms` is the accounts' date, milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// The writer's.
    pub fn write_import(
        &self,
        out: &mut impl Write,
        domain: &str,
        password: &str,
        created_ms: u64,
        progress: &mut dyn FnMut(u32),
    ) -> io::Result<()> {
        let scram = sasl::import_keys(password, SALT, ITERATIONS);
        let mut line = Vec::new();
        for user in 0..self.users() {
            line.clear();
            write!(
                line,
                "{{\"type\":\"account\",\"jid\":\"u{user}@{domain}\",\"created\":{created_ms},\
                 \"locked\":false,\"scram\":{scram}}}\n\
                 {{\"type\":\"roster\",\"jid\":\"u{user}@{domain}\",\"items\":["
            )?;
            for (place, contact) in self.contacts(user).iter().enumerate() {
                let comma = if place == 0 { "" } else { "," };
                write!(
                    line,
                    "{comma}{{\"jid\":\"u{contact}@{domain}\",\"subscription\":\"both\"}}"
                )?;
            }
            line.extend_from_slice(b"]}\n");
            out.write_all(&line)?;
            if user % 10_000 == 0 {
                progress(user);
            }
        }
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(users: u32, links: u32) -> GraphOptions {
        GraphOptions {
            users,
            links,
            contacts_max: 1_000,
            seed: 7,
        }
    }

    /// Goal: mutual links, nobody befriends himself or somebody twice, the cap holds, and the
    /// number of links is that of the model.
    #[test]
    fn a_graph_is_simple_and_mutual() {
        for (users, links, contacts_max) in [(2_000, 5, 1_000), (2_000, 5, 20), (12, 11, 23)] {
            let graph = Graph::generate(GraphOptions {
                contacts_max,
                ..options(users, links)
            })
            .unwrap();
            let mut total = 0;
            for user in 0..users {
                let mut contacts = graph.contacts(user).to_vec();
                total += contacts.len();
                assert!(contacts.len() as u32 >= links && contacts.len() as u32 <= contacts_max);
                for contact in &contacts {
                    assert_ne!(*contact, user);
                    assert!(graph.contacts(*contact).contains(&user), "{user} {contact}");
                }
                contacts.sort_unstable();
                contacts.dedup();
                assert_eq!(contacts.len(), graph.contacts(user).len(), "{user} twice");
            }
            let core = (links + 1) * links / 2;
            assert_eq!(total as u32, 2 * (core + (users - links - 1) * links));
        }
    }

    /// Goal: the tail is that of the model. Method: users with at least k contacts fall with the
    /// square of k (the density's exponent is 3), so a fourth of the users at twice the contacts.
    #[test]
    fn degrees_follow_a_power_law() {
        let graph = Graph::generate(GraphOptions {
            contacts_max: 100_000,
            ..options(100_000, 5)
        });
        let degrees = graph.unwrap().degrees();
        let at_least = |wanted: u32| {
            f64::from(
                degrees
                    .iter()
                    .find(|(degree, _)| *degree >= wanted)
                    .unwrap()
                    .1,
            )
        };
        for degree in [20, 40] {
            let ratio = at_least(degree) / at_least(2 * degree);
            assert!((3.2..=4.8).contains(&ratio), "{degree}: {ratio}");
        }
    }

    #[test]
    fn the_seed_decides() {
        let contacts = |seed: u64| {
            let graph = Graph::generate(GraphOptions {
                seed,
                ..options(500, 3)
            })
            .unwrap();
            graph.contacts
        };
        assert_eq!(contacts(1), contacts(1));
        assert_ne!(contacts(1), contacts(2));
    }

    #[test]
    fn impossible_graphs_are_refused() {
        for (users, links, contacts_max, reason) in [
            (5, 5, 99, "too few"),
            (50, 0, 99, "1 to"),
            (50, 5, 10, "cap"),
        ] {
            let options = GraphOptions {
                contacts_max,
                ..options(users, links)
            };
            let error = Graph::generate(options).err().unwrap();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn import_lines_are_json_with_every_contact() {
        let graph = Graph::generate(options(50, 3)).unwrap();
        let mut out = Vec::new();
        graph
            .write_import(&mut out, "localhost", "pw", 5, &mut |_| {})
            .unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 100);
        assert_eq!(lines[0]["scram"][0]["hash"], "SHA-1");
        assert_eq!(lines[98]["jid"], "u49@localhost");
        assert_eq!(lines[99]["type"], "roster");
        assert_eq!(
            lines[99]["items"].as_array().unwrap().len(),
            graph.contacts(49).len()
        );
    }

    #[test]
    fn the_plot_is_a_document_of_its_own() {
        let svg = Graph::generate(options(500, 3)).unwrap().plot("degrees");
        assert!(
            svg.starts_with("<svg xmlns='http://www.w3.org/2000/svg'"),
            "{svg}"
        );
        assert!(svg.ends_with("</svg>\n") && svg.contains("<style>") && svg.contains("<path"));
    }
}
