//! In which order lines of an export come: what makes something comes before what belongs to it.
//! Whoever imports a file looks at all of it with this before anything is changed.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::BuildHasher as _;

use super::{Bad, Line, bad};

/// Whose lines are being read.
#[derive(Debug)]
enum Group {
    Account {
        jid: String,
        nodes: Nodes,
    },
    Service {
        jid: String,
        nodes: Nodes,
    },
    Room {
        jid: String,
        last: Option<u64>,
        is_open: bool,
    },
}

/// Nodes of one address so far.
#[derive(Debug, Default)]
struct Nodes {
    /// By name, with the place of the last item.
    known: BTreeMap<String, u64>,
    numbers: BTreeSet<u64>,
}

/// Looks at the lines of an export one after the other.
#[derive(Debug, Default)]
pub struct Order {
    group: Option<Group>,
    /// Hashes of what has begun: eight bytes for each account of a large file.
    begun: HashSet<u64>,
    hasher: RandomState,
}

impl Order {
    /// Takes the next line. True if it is for an account that no line has made: it has to be there
    /// already.
    ///
    /// # Errors
    /// What is wrong with it: it is no line of an export, or it is at the wrong place.
    pub fn take(&mut self, text: &str) -> Result<bool, String> {
        self.check(&super::parse(text)?).map_err(|bad| bad.message)
    }

    fn check(&mut self, line: &Line) -> Result<bool, Bad> {
        // Two ways to write an address name one thing. What is no address is refused later.
        let jid = line.jid();
        let jid =
            xmpp::addr::normalize(jid).map_or_else(|_| jid.into(), |normal| normal.into_owned());
        let mut is_stray = false;
        match line {
            Line::Account { .. } => {
                self.begin(&jid)?;
                let nodes = Nodes::default();
                self.group = Some(Group::Account { jid, nodes });
            }
            Line::Service(_) => {
                self.begin(&jid)?;
                let nodes = Nodes::default();
                self.group = Some(Group::Service { jid, nodes });
            }
            Line::Room(_) => {
                self.begin(&jid)?;
                self.group = Some(Group::Room {
                    jid,
                    last: None,
                    is_open: false,
                });
            }
            // These may be given to accounts that are there.
            Line::Roster { .. }
            | Line::Blocklist { .. }
            | Line::Vcard { .. }
            | Line::Private { .. }
            | Line::Directory { .. } => {
                let is_own = matches!(&self.group, Some(Group::Account { jid: own, .. })
                    if *own == jid);
                if !is_own {
                    is_stray = !self.begun.contains(&self.hasher.hash_one(&*jid));
                    self.group = None;
                }
            }
            Line::RoomAffiliations(_) => {
                self.room(&jid)?;
            }
            Line::RoomMessage(message) => {
                let (last, _) = self.room(&jid)?;
                if last.is_some_and(|last| last >= message.number) {
                    return Err(bad("a message whose number does not follow the last one"));
                }
                *last = Some(message.number);
            }
            Line::RoomOpen(_) => *self.room(&jid)?.1 = true,
            Line::RoomMembers(_) => self.open_room(&jid)?,
            Line::Node(line) => {
                let nodes = self.nodes(&jid)?;
                if !nodes.numbers.insert(line.number)
                    || nodes.known.insert(line.node.clone(), 0).is_some()
                {
                    return Err(bad("a node whose name or number another one has"));
                }
            }
            Line::NodeAffiliations(line) => drop(self.node(&jid, &line.node)?),
            Line::NodeSubscriptions(line) => drop(self.node(&jid, &line.node)?),
            Line::NodeItem(line) => {
                let last = self.node(&jid, &line.node)?;
                if *last >= line.seq {
                    return Err(bad("an item whose place does not follow the last one"));
                }
                *last = line.seq;
            }
            Line::NodesMoved(_) => {
                self.nodes(&jid)?;
            }
            Line::Part(_) => self.service(&jid)?,
        }
        Ok(is_stray)
    }

    fn begin(&mut self, jid: &str) -> Result<(), Bad> {
        match self.begun.insert(self.hasher.hash_one(jid)) {
            true => Ok(()),
            false => Err(bad(&format!("{jid} is there twice"))),
        }
    }

    fn service(&self, service: &str) -> Result<(), Bad> {
        match &self.group {
            Some(Group::Service { jid, .. }) if jid == service => Ok(()),
            _ => Err(bad("a part that does not follow its service's own line")),
        }
    }

    fn room(&mut self, room: &str) -> Result<(&mut Option<u64>, &mut bool), Bad> {
        match &mut self.group {
            Some(Group::Room { jid, last, is_open }) if jid == room && !*is_open => {
                Ok((last, is_open))
            }
            _ => Err(bad("a line of a room that does not follow that room's own")),
        }
    }

    fn open_room(&self, room: &str) -> Result<(), Bad> {
        match &self.group {
            Some(Group::Room { jid, is_open, .. }) if jid == room && *is_open => Ok(()),
            _ => Err(bad(
                "a line of members that does not follow their room's last one",
            )),
        }
    }

    fn nodes(&mut self, owner: &str) -> Result<&mut Nodes, Bad> {
        match &mut self.group {
            Some(Group::Account { jid, nodes } | Group::Service { jid, nodes }) if jid == owner => {
                Ok(nodes)
            }
            _ => Err(bad(
                "a line of a node that does not follow its account's or service's own",
            )),
        }
    }

    fn node(&mut self, owner: &str, node: &str) -> Result<&mut u64, Bad> {
        let found = self.nodes(owner)?.known.get_mut(node);
        found.ok_or_else(|| bad("a line of a node that does not follow that node's own"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCOUNT: &str = r#"{"type":"account","jid":"a@x","created":0,"locked":false,"scram":[]}"#;
    const ROSTER: &str = r#"{"type":"roster","jid":"a@x","items":[]}"#;
    const SERVICE: &str = r#"{"type":"service","jid":"p.x"}"#;
    const ROOM: &str = r#"{"type":"room","jid":"r@c.x","creator":"a@x","created":0,"first":1,
        "secret":"","config":{}}"#;
    const OPEN: &str = r#"{"type":"room_open","jid":"r@c.x"}"#;

    const MEMBERS: &str = r#"{"type":"room_members","jid":"r@c.x","items":[]}"#;

    fn node(jid: &str, name: &str, number: u64) -> String {
        format!(
            r#"{{"type":"node","jid":"{jid}","node":"{name}","number":{number},
               "creator":"a@x","created":0,"config":{{}}}}"#
        )
    }

    fn item(node: &str, seq: u64) -> String {
        format!(
            r#"{{"type":"node_item","jid":"p.x","node":"{node}","id":"i","seq":{seq},
               "at":0,"publisher":"a@x","xml":""}}"#
        )
    }

    fn message(number: u64) -> String {
        format!(
            r#"{{"type":"room_message","jid":"r@c.x","number":{number},"at":0,
               "sender":"a@x","xml":"<message/>"}}"#
        )
    }

    /// The number of the first line that is at the wrong place.
    fn wrong(lines: &[&str]) -> Option<usize> {
        let mut order = Order::default();
        lines.iter().position(|line| order.take(line).is_err())
    }

    #[test]
    fn what_belongs_to_something_follows_it() {
        let (n, m) = (node("p.x", "n", 1), node("p.x", "m", 2));
        let (first, second) = (message(0), message(3));
        let good = [
            ACCOUNT,
            ROSTER,
            &node("a@x", "n", 1),
            SERVICE,
            &n,
            &item("n", 5),
            &m,
            &item("m", 4),
            &item("n", 6),
            ROOM,
            &first,
            &second,
            OPEN,
            MEMBERS,
            MEMBERS,
        ];
        assert_eq!(wrong(&good), None);
        for (bad, at) in [
            (vec![n.as_str()], 0),
            (vec![ACCOUNT, &n], 1),
            (vec![ACCOUNT, ACCOUNT], 1),
            (vec![ACCOUNT, ROOM, ACCOUNT], 2),
            (vec![SERVICE, &n, &n], 2),
            (vec![SERVICE, &n, &node("p.x", "o", 1)], 2),
            (vec![SERVICE, &n, &item("m", 5)], 2),
            (vec![SERVICE, &n, ROOM, &m], 3),
            (
                vec![
                    ACCOUNT,
                    &node("a@x", "n", 1),
                    r#"{"type":"roster","jid":"b@x","items":[]}"#,
                    &node("a@x", "m", 2),
                ],
                3,
            ),
            (vec![OPEN], 0),
            (vec![ROOM, OPEN, &first], 2),
            (vec![ROOM, MEMBERS, OPEN], 1),
            (vec![ROOM, OPEN, SERVICE, MEMBERS], 3),
            (vec![ROOM, &second, &first], 2),
        ] {
            assert_eq!(wrong(&bad), Some(at), "{bad:?}");
        }
    }

    #[test]
    fn an_address_is_the_same_however_it_is_written() {
        let shout = |line: &str| line.replace("a@x", "A@X").replace("r@c.x", "R@c.X");
        assert_eq!(wrong(&[ACCOUNT, &shout(ACCOUNT)]), Some(1));
        assert_eq!(wrong(&[ROOM, &shout(ROOM)]), Some(1));
        let own = [ACCOUNT, &shout(ROSTER), &node("A@x", "n", 1)];
        assert_eq!(wrong(&own), None);
        assert_eq!(wrong(&[ROOM, &shout(OPEN)]), None);
    }

    #[test]
    fn a_line_for_an_account_that_is_not_in_the_file_is_a_stray() {
        let strays = |lines: &[&str]| {
            let mut order = Order::default();
            let taken = lines.iter().map(|line| order.take(line).unwrap());
            taken.collect::<Vec<bool>>()
        };
        assert_eq!(strays(&[ROSTER, ACCOUNT, ROSTER]), [true, false, false]);
        let other = ROSTER.replace("a@x", "b@x");
        let later = [ACCOUNT, &other, ROSTER];
        assert_eq!(strays(&later), [false, true, false]);
    }
}
