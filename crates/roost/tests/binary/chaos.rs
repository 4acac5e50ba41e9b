//! Faults on purpose: only where they are allowed, counted, and survived.

use crate::client::Client;
use crate::place::{Place, Server};
use crate::resume::{bodies, managed};

#[test]
fn faults_are_refused_unless_the_configuration_allows_them() {
    let place = Place::new();
    place.add(&["alice"]);
    let server = place.serve();
    let refused = place.run(&["chaos", "--drop-links", "10ms"]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("[chaos]"), "{}", refused.err);
    assert_eq!(place.run(&["chaos"]).code, 64);
    server.stop();
    assert_eq!(place.run(&["chaos", "--drop-links", "10ms"]).code, 1);
}

#[test]
fn a_server_stands_every_fault_and_counts_it() {
    let mut place = Place::new();
    place
        .set("chaos.enabled", "true")
        .set("server.shards", "2")
        .add(&["alice", "bob"]);
    let server = place.serve();
    let _alice = Client::online(server.plain, "alice", "a");
    let said = place.must(&[
        "chaos",
        "--kill-actors=50ms",
        "--panic-shards=400ms",
        "--drop-links=50ms",
        "--stall-reads=100ms",
        "--hang-shards=400ms",
        "--delay-store=10ms",
        "--fail-commits=100ms",
        "--for=2s",
    ]);
    assert!(
        said.contains("the actor of alice@localhost is killed"),
        "{said}"
    );
    for word in ["panics", "reads nothing", "hangs"] {
        assert!(said.contains(word), "{said}");
    }

    // Nothing stays broken. Commits that were to fail, of either kind, may be the next ones.
    for user in ["carol@localhost", "chris@localhost"] {
        place.run(&["user", "add", user, "--password", "x"]);
    }
    place.must(&["user", "add", "dave@localhost", "--password", "x"]);
    let mut alice = Client::online(server.plain, "alice", "a");
    let mut bob = Client::online(server.plain, "bob", "b");
    alice.say("bob", "after the storm");
    bob.expect("after the storm</body>");
    let (status, page) = server.page("/metrics");
    assert_eq!(status, 200);
    for counter in [
        "killed", "panics", "dropped", "stalls", "hangs", "delays", "failures",
    ] {
        let counted = |line: &str| {
            line.starts_with(&format!("roost_chaos_{counter}_total{{")) && !line.ends_with(" 0")
        };
        assert!(page.lines().any(counted), "{counter}: {page}");
    }
    server.kill();
}

/// A client of a session that can be resumed, who counts what it is sent and says.
struct Counting {
    client: Client,
    said: usize,
    heard: usize,
}

impl Counting {
    fn new(server: &Server, user: &str) -> Counting {
        let (client, _) = managed(server, user);
        Counting {
            client,
            said: 0,
            heard: 0,
        }
    }

    fn says(&mut self, to: &str, body: usize) {
        self.client.say(to, &body.to_string());
        self.said += 1;
    }

    /// Hears these bodies and no others, and acknowledges everything.
    fn hears(&mut self, wanted: std::ops::Range<usize>) {
        let last = wanted.end - 1;
        let mut heard = self.client.expect(&format!("<body>{last}</body>"));
        heard += &self.client.expect("</message>");
        assert!(!heard.contains("<stream:"), "{heard}");
        assert!(bodies(&heard).into_iter().eq(wanted), "{heard}");
        let stanzas = ["<message ", "<presence ", "<iq "];
        self.heard += stanzas
            .iter()
            .map(|name| heard.matches(name).count())
            .sum::<usize>();
        self.client.acknowledge(self.heard);
    }
}

/// Actors are killed at any moment, at least 200 of them, while their clients chat: no stream ends,
/// everything arrives once and in order, and counts agree to the end.
#[test]
fn crashes_of_actors_end_no_stream() {
    let mut place = Place::new();
    place
        .set("chaos.enabled", "true")
        .set("server.shards", "2")
        .add(&["alice", "bob"]);
    let server = place.serve();
    let mut alice = Counting::new(&server, "alice");
    let mut bob = Counting::new(&server, "bob");
    let mut body = 0;
    let said = std::thread::scope(|scope| {
        let chaos = ["chaos", "--kill-actors=10ms", "--for=8s"];
        let place = &place;
        let chaos = scope.spawn(move || place.must(&chaos));
        while !chaos.is_finished() {
            for (from, to, name) in [(0, 1, "bob"), (1, 0, "alice")] {
                let both = &mut [&mut alice, &mut bob];
                let first = body;
                for _ in 0..=body % 5 {
                    both[from].says(name, body);
                    body += 1;
                }
                both[to].hears(first..body);
            }
        }
        chaos.join().expect("it ends")
    });
    let killed = said.matches("is killed").count();
    assert!(killed >= 200, "{killed} of {body} messages: {said}");
    for client in [&mut alice, &mut bob] {
        let said = client.said;
        client.client.expect_accepted(said);
    }
    let (_, page) = server.page("/metrics");
    let outlived = page
        .lines()
        .filter(|line| line.starts_with("roost_crashes_outlived_total{"));
    assert!(outlived.clone().any(|line| !line.ends_with(" 0")), "{page}");
    server.kill();
}
