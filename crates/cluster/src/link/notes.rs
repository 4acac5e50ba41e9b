//! What an operator reads of links. Owns that it is bounded: whoever connects again and again, or
//! many at once, fill no log.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use stdx::Moment;

/// Something that happened to a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// It is good news.
    pub is_good: bool,
    /// A sentence.
    pub text: String,
}

/// The same is said once in this time.
const WINDOW: Duration = Duration::from_secs(60);

/// Notes that are said in that time; the others are counted.
const SAID_MAX: usize = 32;

/// Notes of one kind of source.
pub(super) struct Notes {
    waiting: VecDeque<Note>,
    since: Moment,
    said: BTreeSet<String>,
    unsaid: u64,
}

impl Notes {
    pub(super) fn new() -> Notes {
        Notes {
            waiting: VecDeque::new(),
            since: Moment::ZERO,
            said: BTreeSet::new(),
            unsaid: 0,
        }
    }

    /// Something happened.
    pub(super) fn say(&mut self, now: Moment, is_good: bool, text: String) {
        if now.saturating_since(self.since) >= WINDOW {
            self.since = now;
            self.said.clear();
            if self.unsaid > 0 {
                let text = format!(
                    "{} more notes on links were left out of the log in a minute",
                    std::mem::take(&mut self.unsaid)
                );
                self.push(false, text);
            }
        }
        if self.said.len() >= SAID_MAX || !self.said.insert(text.clone()) {
            self.unsaid += 1;
            return;
        }
        self.push(is_good, text);
    }

    fn push(&mut self, is_good: bool, text: String) {
        // If nobody takes them, the oldest go.
        if self.waiting.len() > SAID_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back(Note { is_good, text });
    }

    /// What was said since this was asked last.
    pub(super) fn take(&mut self) -> VecDeque<Note> {
        std::mem::take(&mut self.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(notes: &mut Notes) -> Vec<String> {
        notes.take().into_iter().map(|note| note.text).collect()
    }

    /// Goal: the same is said once a minute, and how much was left out is said with the next note.
    #[test]
    fn the_same_is_said_once_a_minute() {
        let mut notes = Notes::new();
        let now = Moment::ZERO + Duration::from_secs(100);
        for _ in 0..5 {
            notes.say(now, false, "a".to_owned());
        }
        notes.say(now, true, "b".to_owned());
        assert_eq!(texts(&mut notes), ["a", "b"]);
        notes.say(now + WINDOW, false, "a".to_owned());
        let said = texts(&mut notes);
        assert!(said[0].starts_with("4 more notes"), "{said:?}");
        assert_eq!(said[1], "a");
    }

    /// Goal: many different notes are bounded, whether somebody takes them or not.
    #[test]
    fn a_flood_is_counted() {
        let mut notes = Notes::new();
        for minute in 0..3 {
            let now = Moment::ZERO + WINDOW * (minute + 1);
            (0..1_000).for_each(|n| notes.say(now, false, format!("{minute} {n}")));
        }
        let said = texts(&mut notes);
        assert_eq!(said.len(), SAID_MAX + 1);
        let more = format!("{} more", 1_000 - SAID_MAX);
        assert!(said[0].starts_with(&more), "{}", said[0]);
    }
}
