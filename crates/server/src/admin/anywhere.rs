//! Requests of operators in a cluster: which node answers them. Any node takes any request; what it
//! cannot do itself it asks of the node that can, over the links. Owns that choice, and what
//! several answers come to; a node that is asked by another one asks no third.
//!
//! | request | answered by |
//! |---|---|
//! | about one account, room or service | its home |
//! | queues without a sender, lists of rooms, bans, provisioning | all nodes that live, together |
//! | an import | the homes of its lines |
//! | accounts, nodes, exports, what became of a message | this node, from its copy of everything |
//! | status, samples, backups, faults, and which bans are in force | this node, of itself |

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use stdx::time::Clock as _;
use store::RangeId;
use wire::Errand;
use zeroize::Zeroizing;

use super::{Admin, ELSEWHERE, EraseFrom, Outcome, PAGE_MAX, Request, Response, error, portable};
use crate::away::{Cluster, NodeId};
use crate::errands::{self, Asked, Unanswered};

/// Pause before it is looked again where something is at home.
const PAUSE: Duration = Duration::from_millis(100);

/// Who answers.
enum By {
    /// This node.
    Here,
    /// The home of a bare address.
    Home(String),
    /// All nodes that live.
    All,
    /// The homes of the lines.
    Lines,
}

/// A part of an import: where its lines are at home, and their places in the whole.
type Part = (Option<NodeId>, Vec<usize>);

impl Admin {
    pub(super) fn call_anywhere(&self, cluster: &Cluster, request: Request) -> Outcome {
        match self.answered_by(&request) {
            By::Here => self.try_call(request),
            By::Home(bare) => self.call_home(cluster, &bare, &request),
            By::All => self.call_all(cluster, &request),
            By::Lines => self.import_anywhere(cluster, request),
        }
    }

    /// Addresses that are none are refused here.
    fn answered_by(&self, request: &Request) -> By {
        let own = |jid: &str| self.own_address(jid).map_or(By::Here, By::Home);
        let normal = |jid: &str| {
            let normal = xmpp::addr::normalize(jid);
            normal.map_or(By::Here, |bare| By::Home(bare.into_owned()))
        };
        match request {
            Request::UserAdd { jid, .. }
            | Request::UserDel { jid }
            | Request::UserPasswd { jid, .. }
            | Request::UserLock { jid, .. }
            | Request::UserKick { jid }
            | Request::UserInspect { jid }
            | Request::UserErase {
                jid,
                from: EraseFrom::Own(_),
            } => own(jid),
            Request::UserErase {
                from: EraseFrom::Room(room, _),
                ..
            }
            | Request::RoomShow { room }
            | Request::RoomDestroy { room, .. } => normal(room),
            Request::NodeChange { address, .. } => normal(address),
            Request::QueueDrop { sender, .. }
            | Request::QueueList {
                sender: Some(sender),
            }
            | Request::QueueRetry {
                sender: Some(sender),
                ..
            } => own(sender),
            Request::QueueList { sender: None }
            | Request::QueueRetry { sender: None, .. }
            | Request::RoomList { .. }
            | Request::BanPut { .. }
            | Request::BanRemove { .. }
            | Request::Provision { .. } => By::All,
            Request::Import { check: false, .. } => By::Lines,
            _ => By::Here,
        }
    }

    /// Has the home of an address carry a request out, however it moves meanwhile.
    pub(crate) fn call_home(&self, cluster: &Cluster, bare: &str, request: &Request) -> Outcome {
        let range = self.place.range(bare);
        let until = self.clock.now() + self.options.joined.home_max;
        loop {
            let outcome = match (self.place.is_here(range), self.place.away(range)) {
                (true, _) => Some(self.try_call(request.clone())),
                (false, Some((node, _))) => Some(self.call_at(cluster, node, request)),
                (false, None) => None,
            };
            match outcome {
                Some(outcome) if !is_elsewhere(&outcome) => return outcome,
                _ if self.clock.now() >= until => {
                    let message = format!(
                        "no node serves {bare} at the moment: see `roost cluster status`, and try \
                         again"
                    );
                    return Err(error("busy", &message));
                }
                _ => thread::sleep(PAUSE),
            }
        }
    }

    /// Has another node carry a request out.
    pub(super) fn call_at(&self, cluster: &Cluster, node: NodeId, request: &Request) -> Outcome {
        let bounds = &self.options.joined;
        let within = match request {
            Request::Import { .. } | Request::Provision { .. } => bounds.written_max,
            _ => bounds.errand_max,
        };
        // It may be gone before it answers.
        let name = name_of(cluster, node);
        // Passwords may be in it.
        let question = serde_json::to_vec(request).map(Zeroizing::new);
        let question = question.map_err(|why| error("bad_request", &why.to_string()))?;
        let answer = self.errands.ask(&*cluster.away, node, &question, within);
        let answer = answer.map_err(|why| match why {
            Unanswered::Busy => error(
                "busy",
                &format!("the link to node {name} is busy: try again"),
            ),
            Unanswered::Gone | Unanswered::Silent => error(
                "no_answer",
                &format!(
                    "node {name} did not answer, or is of an older version: whether it did what \
                     was asked is not known"
                ),
            ),
        })?;
        match serde_json::from_slice(&answer) {
            Ok(refused @ (Response::Error { .. } | Response::Refused { .. })) => Err(refused),
            Ok(response) => Ok(response),
            Err(_) => {
                let message = format!("the answer of node {name} is of another version");
                Err(error("no_answer", &message))
            }
        }
    }

    /// Has every node carry a request out. What is missing of one is not passed over.
    fn call_all(&self, cluster: &Cluster, request: &Request) -> Outcome {
        let mut all = vec![self.try_call(request.clone())?];
        let mut failed = Vec::new();
        for (node, name) in cluster.away.others() {
            match self.call_at(cluster, node, request) {
                Ok(response) => all.push(response),
                Err(Response::Error { code, message }) => failed.push((name, code, message)),
                Err(_) => failed.push((name, "no_answer".to_owned(), "no answer".to_owned())),
            }
        }
        let Some((_, code, _)) = failed.first() else {
            return self.merge(request, all);
        };
        let said = failed
            .iter()
            .map(|(name, _, why)| format!("node {name}: {why}"));
        let said: Vec<String> = said.collect();
        let done = match request {
            Request::QueueList { .. } | Request::RoomList { .. } => "what it has is not listed",
            _ => "it was done on the others",
        };
        Err(error(code, &format!("{}; {done}", said.join("; "))))
    }

    /// One answer of several.
    fn merge(&self, request: &Request, all: Vec<Response>) -> Outcome {
        let mut merged: Option<Response> = None;
        for one in all {
            merged = Some(match (merged, one) {
                (None, one) => one,
                (Some(Response::Queues { mut queues }), Response::Queues { queues: more }) => {
                    queues.extend(more);
                    Response::Queues { queues }
                }
                (Some(Response::Counted { count }), Response::Counted { count: more }) => {
                    Response::Counted {
                        count: count + more,
                    }
                }
                (Some(Response::Made { accounts }), Response::Made { accounts: more }) => {
                    Response::Made {
                        accounts: accounts + more,
                    }
                }
                (Some(Response::Rooms { mut rooms }), Response::Rooms { rooms: more }) => {
                    rooms.extend(more);
                    Response::Rooms { rooms }
                }
                (Some(own), _) => own,
            });
        }
        let merged = merged.unwrap_or(Response::Ok);
        match (request, merged) {
            (Request::RoomList { limit, .. }, Response::Rooms { rooms }) => {
                // Each page has the first of its node: so has the whole. Rooms of the store are on
                // all of them.
                let key = |address: &str| (self.place.range(address).index(), address.to_owned());
                let rooms = rooms.into_iter().map(|room| (key(&room.address), room));
                let rooms: BTreeMap<_, _> = rooms.collect();
                let rooms = rooms.into_values().take((*limit).min(PAGE_MAX));
                Ok(Response::Rooms {
                    rooms: rooms.collect(),
                })
            }
            (
                Request::Provision {
                    users,
                    first,
                    count,
                    ..
                },
                Response::Made { accounts },
            ) if accounts < (*count).min(users.saturating_sub(*first)) => {
                let message = format!(
                    "only {accounts} of {count} accounts were made, for homes are moving: do it \
                     again"
                );
                Err(error("busy", &message))
            }
            (_, merged) => Ok(merged),
        }
    }

    /// Lines are given to their homes. What moves meanwhile is given to the next one.
    fn import_anywhere(&self, cluster: &Cluster, request: Request) -> Outcome {
        let Request::Import { lines, strays, .. } = request else {
            return self.try_call(request);
        };
        let ranges: Vec<Option<RangeId>> = lines
            .iter()
            .map(|line| portable::owner(line).map(|owner| self.place.range(&owner)))
            .collect();
        let mut left: Vec<usize> = (0..lines.len()).collect();
        let mut made = [0; 3];
        let until = self.clock.now() + self.options.joined.home_max;
        loop {
            let mut again = Vec::new();
            let (parts, homeless) = self.by_home(&ranges, &left);
            again.extend(homeless);
            for (node, places) in parts {
                let part = part_of(&lines, &strays, &places);
                let outcome = match node {
                    None => self.try_call(part),
                    Some(node) => self.call_at(cluster, node, &part),
                };
                match outcome {
                    Ok(Response::Imported {
                        accounts,
                        rooms,
                        nodes,
                    }) => {
                        for (sum, more) in made.iter_mut().zip([accounts, rooms, nodes]) {
                            *sum += more;
                        }
                    }
                    // It took nothing of it.
                    ref moved if is_elsewhere(moved) => again.extend(places),
                    Err(Response::Refused {
                        index,
                        code,
                        message,
                    }) => {
                        let index = places.get(index).copied().unwrap_or_default();
                        return Err(Response::Refused {
                            index,
                            code,
                            message,
                        });
                    }
                    other => return other,
                }
            }
            if again.is_empty() {
                let [accounts, rooms, nodes] = made;
                return Ok(Response::Imported {
                    accounts,
                    rooms,
                    nodes,
                });
            }
            if self.clock.now() >= until {
                let message = "no node serves some of it at the moment: some may have been made, \
                               see `roost cluster status`";
                return Err(error("busy", message));
            }
            again.sort_unstable();
            left = again;
            thread::sleep(PAUSE);
        }
    }

    /// Lines by the node where they are at home, and those that have none now. Whose line it is
    /// nobody knows is refused here.
    fn by_home(&self, ranges: &[Option<RangeId>], left: &[usize]) -> (Vec<Part>, Vec<usize>) {
        let mut parts: BTreeMap<Option<NodeId>, Vec<usize>> = BTreeMap::new();
        let mut homeless = Vec::new();
        for at in left {
            let home = match ranges[*at] {
                None => Some(None),
                Some(range) if self.place.is_here(range) => Some(None),
                Some(range) => self.place.away(range).map(|(node, _)| Some(node)),
            };
            match home {
                Some(home) => parts.entry(home).or_default().push(*at),
                None => homeless.push(*at),
            }
        }
        (parts.into_iter().collect(), homeless)
    }

    /// An operator of another node asks something. It is carried out on a thread of its own.
    pub(crate) fn asked_by(&self, node: NodeId, errand: Errand) {
        let Some(cluster) = self.options.cluster.clone() else {
            return;
        };
        let number = errand.number;
        let refuse = |cluster: &Cluster| {
            let busy = error(
                "busy",
                "too many requests of operators at a time: try again",
            );
            // From here nothing may wait.
            if let Some(packet) = errands::short_answer(number, &bytes_of(&busy)) {
                cluster.away.answer(node, packet);
            }
        };
        match self.errands.asked(node, errand) {
            Asked::Nothing => {}
            Asked::Busy => refuse(&cluster),
            Asked::Whole(question, running) => {
                let (admin, asked_by) = (self.clone(), cluster.clone());
                let run = move || {
                    let question = Zeroizing::new(question);
                    let response = match serde_json::from_slice::<Request>(&question) {
                        Ok(request) => {
                            let node = name_of(&cluster, node);
                            tracing::info!(?request, node, "asked by another node");
                            admin.try_call(request).unwrap_or_else(|error| error)
                        }
                        Err(_) => error(
                            "bad_request",
                            "that node is of another version, and does not know this request",
                        ),
                    };
                    let answer = bytes_of(&response);
                    if !errands::send(&*cluster.away, node, (number, true), &answer) {
                        tracing::warn!("the answer to an operator of another node did not go");
                    }
                    drop(running);
                };
                let thread = thread::Builder::new().name("errand".to_owned());
                if thread.spawn(run).is_err() {
                    refuse(&asked_by);
                }
            }
        }
    }
}

/// The lines at these places, as an import of their own.
fn part_of(lines: &[String], strays: &[usize], places: &[usize]) -> Request {
    let is_stray = |at: &usize| strays.binary_search(&places[*at]).is_ok();
    Request::Import {
        lines: places.iter().map(|at| lines[*at].clone()).collect(),
        check: false,
        strays: (0..places.len()).filter(is_stray).collect(),
    }
}

fn is_elsewhere(outcome: &Outcome) -> bool {
    matches!(outcome, Err(Response::Error { code, .. }) if code == ELSEWHERE)
}

fn name_of(cluster: &Cluster, node: NodeId) -> String {
    let others = cluster.away.others();
    let name = others.into_iter().find(|(other, _)| *other == node);
    name.map_or_else(|| "that has just gone".to_owned(), |(_, name)| name)
}

/// What says nothing is of another version to whoever reads it.
fn bytes_of(response: &Response) -> Vec<u8> {
    serde_json::to_vec(response).unwrap_or_default()
}
