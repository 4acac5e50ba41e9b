//! The operator: commands against the running server, one after the other, beside the clients.
//! Owns what a command that succeeded must have done. One fails if the server is killed meanwhile;
//! what it did until then is not known.

use super::check::To;
use super::seen::{Event, Seen};
use super::{DOMAIN, PASSWORD};
use crate::history::plan::Dice;
use crate::history::record::History;
use crate::history::server::{Running, Server};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// Accounts of one import.
const IMPORTED: usize = 4;

/// What is ordered.
#[derive(Clone, Debug)]
pub(super) enum Order {
    Remove,
    Make,
    /// These accounts, and records for some that are there already, one of them online.
    Import {
        accounts: Vec<String>,
        is_online: bool,
    },
    List,
    Retry,
    /// The sessions of this account end.
    Kick(String),
    /// The accounts.
    Users,
}

impl Order {
    fn events(&self) -> &'static [Event] {
        match self {
            Order::Remove => &[Event::Removed],
            Order::Make => &[Event::MadeAgain],
            Order::Import {
                is_online: true, ..
            } => &[Event::Imported, Event::ImportedOnline],
            Order::Import { .. } => &[Event::Imported],
            Order::List => &[Event::Listed],
            Order::Retry => &[Event::Retried],
            Order::Kick(_) => &[Event::Kicked],
            Order::Users => &[],
        }
    }
}

/// See the module.
pub(super) struct Operator {
    folder: TempDir,
    running: Option<(Order, Running)>,
    imports: usize,
    /// By account: whether it is there, as far as that is known.
    is_there: BTreeMap<String, bool>,
    /// An account was to be removed at some time.
    pub(super) has_removed: bool,
}

impl Operator {
    /// # Errors
    /// There is no folder for its files.
    pub(super) fn new() -> Result<Operator, String> {
        let folder = tempfile::Builder::new().prefix("operator-").tempdir();
        Ok(Operator {
            folder: folder.map_err(|error| error.to_string())?,
            running: None,
            imports: 0,
            is_there: BTreeMap::from([(gone(), true)]),
            has_removed: false,
        })
    }

    pub(super) fn is_busy(&self) -> bool {
        self.running.is_some()
    }

    /// Draws an order; `online` is an account that is, if there is one, and `member` one of the
    /// crowd.
    pub(super) fn draw(
        &mut self,
        dice: &mut Dice,
        online: Option<&str>,
        member: &str,
    ) -> Result<(Order, Option<PathBuf>), String> {
        let is_there = self.is_there.get(&gone()).copied();
        Ok(match dice.below(8) {
            0..3 => match is_there.unwrap_or_else(|| dice.chance(0.5)) {
                true => (Order::Remove, None),
                false => (Order::Make, None),
            },
            3 | 4 => {
                let others = [Some(To::Hub.name()), Some(member), online];
                let (accounts, file) = self.file(others.into_iter().flatten())?;
                let is_online = online.is_some();
                let order = Order::Import {
                    accounts,
                    is_online,
                };
                (order, Some(file))
            }
            5 => (Order::List, None),
            6 => (Order::Retry, None),
            _ => (Order::Kick(format!("{member}@{DOMAIN}")), None),
        })
    }

    /// Writes a file with new accounts and with records for others.
    fn file<'a>(
        &mut self,
        others: impl Iterator<Item = &'a str>,
    ) -> Result<(Vec<String>, PathBuf), String> {
        let number = self.imports;
        self.imports += 1;
        let accounts = (0..IMPORTED).map(|at| format!("i{number}-{at}@{DOMAIN}"));
        let accounts: Vec<String> = accounts.collect();
        let mut lines = String::new();
        for jid in &accounts {
            let own = "\"created\":1800000000000,\"locked\":false,\"scram\":[]";
            let _ = writeln!(lines, "{{\"type\":\"account\",\"jid\":\"{jid}\",{own}}}");
        }
        let others = others.map(|name| format!("{name}@{DOMAIN}"));
        for jid in accounts.iter().cloned().chain(others) {
            let xml = format!("<note xmlns='urn:example'>{number}</note>");
            let own = format!("\"ns\":\"urn:example\",\"name\":\"note\",\"xml\":\"{xml}\"");
            let _ = writeln!(lines, "{{\"type\":\"private\",\"jid\":\"{jid}\",{own}}}");
        }
        let file = self.folder.path().join(format!("import-{number}.jsonl"));
        fs::write(&file, lines).map_err(|error| error.to_string())?;
        Ok((accounts, file))
    }

    /// Begins with an order.
    pub(super) fn begin(
        &mut self,
        order: Order,
        file: Option<PathBuf>,
        server: &Server,
    ) -> Result<(), String> {
        let gone = gone();
        let file = file.unwrap_or_default();
        let file = file.to_string_lossy();
        let arguments: &[&str] = match &order {
            Order::Remove => &["user", "del", &gone],
            Order::Make => &["user", "add", &gone, "--password", PASSWORD],
            Order::Import { .. } => &["import", "--quiet", &file],
            Order::List => &["queue", "list"],
            Order::Retry => &["queue", "retry"],
            Order::Kick(jid) => &["user", "kick", jid],
            Order::Users => &["user", "list"],
        };
        self.has_removed |= matches!(order, Order::Remove);
        // Until it has ended nobody knows.
        if let Order::Remove | Order::Make = order {
            self.is_there.remove(&gone);
        }
        let running = server.begin_to_run(arguments)?;
        self.running = running.map(|running| (order, running));
        Ok(())
    }

    /// What the command that runs has said, once it has ended; `None` as well if it failed.
    pub(super) fn look(
        &mut self,
        history: &mut History,
        seen: &mut Seen,
    ) -> Result<Option<(Order, String)>, String> {
        let Some((order, running)) = &mut self.running else {
            return Ok(None);
        };
        let Some(ended) = running.has_ended()? else {
            return Ok(None);
        };
        let said = ended.said.trim().to_owned();
        let how = if ended.is_success { "done" } else { "failed" };
        history.note("others", format_args!("{order:?} {how}: {said}"));
        let order = order.clone();
        self.running = None;
        if !ended.is_success {
            seen.note(Event::Failed);
            return Ok(None);
        }
        order.events().iter().for_each(|event| seen.note(*event));
        match &order {
            Order::Remove => drop(self.is_there.insert(gone(), false)),
            Order::Make => drop(self.is_there.insert(gone(), true)),
            Order::Import { accounts, .. } => {
                let there = accounts.iter().map(|jid| (jid.clone(), true));
                self.is_there.extend(there);
            }
            Order::List | Order::Retry | Order::Kick(_) | Order::Users => {}
        }
        Ok(Some((order, said)))
    }

    /// The server is about to be killed: the command must not find that none runs, for then it
    /// would open the data itself.
    pub(super) fn hold(&mut self) -> Result<(), String> {
        match &mut self.running {
            Some((_, running)) => running.hold(),
            None => Ok(()),
        }
    }

    /// The server is there again.
    pub(super) fn go_on(&mut self) -> Result<(), String> {
        match &mut self.running {
            Some((_, running)) => running.go_on(),
            None => Ok(()),
        }
    }

    /// What is wrong with the accounts that there are, a line each.
    pub(super) fn check(&self, users: &str) -> Vec<String> {
        let users: BTreeSet<&str> = users.lines().collect();
        let is_wrong = |(jid, is_there): &(&String, &bool)| users.contains(&***jid) != **is_there;
        let wrong = self.is_there.iter().filter(is_wrong);
        wrong
            .map(|(jid, is_there)| match is_there {
                true => format!("{jid} was made, and is not there"),
                false => format!("{jid} was removed, and is there"),
            })
            .collect()
    }
}

/// The address of the account that is removed and made again.
pub(super) fn gone() -> String {
    format!("{}@{DOMAIN}", To::Gone.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_did_and_does_not_hold_is_found() {
        let mut operator = Operator::new().expect("a folder");
        operator.is_there.insert("i0-0@localhost".to_owned(), true);
        let all = "c0@localhost\ngone@localhost\ni0-0@localhost";
        assert_eq!(operator.check(all), Vec::<String>::new());
        let wrong = operator.check("c0@localhost\ngone@localhost");
        assert_eq!(wrong, ["i0-0@localhost was made, and is not there"]);
        operator.is_there.insert(gone(), false);
        assert_eq!(
            operator.check(all),
            ["gone@localhost was removed, and is there"]
        );
        // While nobody knows whether it was removed, both are fine.
        operator.is_there.remove(&gone());
        assert_eq!(operator.check(all), Vec::<String>::new());
    }
}
