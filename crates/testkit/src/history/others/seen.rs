//! How often each thing happened among the others, so that a long run in which one never did fails.

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::history) enum Event {
    /// A message of the crowd was acknowledged.
    Accepted,
    /// One came back.
    CameBack,
    /// More senders wrote to one account than its memory tells apart.
    Crowded,
    /// The actor of an account crashed at what its own client said.
    Crashed,
    /// A message came back at which its recipient's actor crashed twice.
    Poisoned,
    /// A login was refused because its account is quarantined.
    Quarantined,
    /// An account was removed.
    Removed,
    /// It was made again.
    MadeAgain,
    /// A file with accounts and records was imported.
    Imported,
    /// A record in it was for an account that is online.
    ImportedOnline,
    /// Queues were listed.
    Listed,
    /// Queues were tried again.
    Retried,
    /// The sessions of an account were ended.
    Kicked,
    /// A command failed, or its server was killed meanwhile.
    Failed,
}

impl Event {
    const ALL: [(Event, &'static str); 14] = [
        (Event::Accepted, "messages were acknowledged"),
        (Event::CameBack, "came back"),
        (Event::Crowded, "crowds of more than 150 senders"),
        (Event::Crashed, "crashes of a recipient"),
        (Event::Poisoned, "came back because of crashes"),
        (Event::Quarantined, "quarantines"),
        (Event::Removed, "accounts removed"),
        (Event::MadeAgain, "made again"),
        (Event::Imported, "imports"),
        (Event::ImportedOnline, "for accounts that were online"),
        (Event::Listed, "lists of queues"),
        (Event::Retried, "retries of queues"),
        (Event::Kicked, "accounts kicked"),
        (Event::Failed, "commands failed"),
    ];
}

/// How often each happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen([usize; Event::ALL.len()]);

impl Seen {
    pub(in crate::history) fn note(&mut self, event: Event) {
        self.0[event as usize] += 1;
    }

    pub(in crate::history) fn set(&mut self, event: Event, times: usize) {
        self.0[event as usize] = times;
    }

    pub(in crate::history) fn add(&mut self, more: &Seen) {
        for (sum, more) in self.0.iter_mut().zip(more.0) {
            *sum += more;
        }
    }

    /// What never happened. That a command fails is a matter of the moment of a kill.
    #[must_use]
    pub fn never(&self) -> Vec<&'static str> {
        let all = Event::ALL.iter();
        let all = all.filter(|(event, _)| *event != Event::Failed);
        let never = all.filter(|(event, _)| self.0[*event as usize] == 0);
        never.map(|(_, name)| *name).collect()
    }
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, (event, name)) in Event::ALL.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{} {name}", self.0[*event as usize])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_happened_is_named() {
        let mut seen = Seen::default();
        assert_eq!(seen.never().len(), Event::ALL.len() - 1);
        for (at, (event, _)) in Event::ALL.iter().enumerate() {
            assert_eq!(*event as usize, at, "each has its place");
            if *event != Event::Quarantined {
                seen.note(*event);
            }
        }
        let mut sum = seen;
        sum.add(&seen);
        assert_eq!(sum.never(), ["quarantines"]);
        let said = sum.to_string();
        assert!(
            said.starts_with("2 messages were acknowledged, 2 came back, "),
            "{said}"
        );
    }
}
