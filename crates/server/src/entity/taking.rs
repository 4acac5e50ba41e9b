//! A message on its way out of its sender's log, at a room or a service: whether it is taken, so
//! that each is taken once and in order (docs/delivery.md), and the answers to its sender's home.
//! What an account takes is in `user/intake.rs`.

use actor::{Mail, Name};
use delivery::{Marks, Place, Recognised, Refusal};
use store::Seq;
use telemetry::Counter;
use wire::{Message, Source};
use xmpp::error::StanzaError;

use crate::address;
use crate::home::Home;
use crate::message::Delivery;

/// A message on its way out of its sender's log.
#[derive(Clone, Debug)]
pub(crate) struct Taking {
    /// The sender's bare address.
    pub(crate) from: Name,
    pub(crate) source: Source,
}

/// What is to be done with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is taken.
    Take,
    /// The store is asked up to where its sender's messages were taken.
    Ask,
    /// Nothing: its sender's home was told, or will be.
    Over,
}

impl Taking {
    /// That of a stanza, if it is in a log.
    pub(crate) fn of(delivery: &Delivery) -> Option<Taking> {
        let from = delivery.frame.attr("from").unwrap_or_default();
        (delivery.source.seq != 0).then(|| Taking {
            from: Name::from(address::bare(&from)),
            source: delivery.source,
        })
    }

    /// The hash by which marks know the sender.
    pub(crate) fn peer(&self, home: &Home) -> u64 {
        home.place.slots().peer(&self.from)
    }

    /// What becomes of it at `own`. `waiting` is the last place of the sender's log that was taken
    /// and waits for its commit.
    pub(crate) fn judge(
        &self,
        own: &Name,
        marks: &Marks<u64>,
        waiting: Option<Seq>,
        home: &Home,
        mail: &mut impl Mail,
    ) -> Verdict {
        let source = self.source;
        if let Some(last) = waiting {
            // What was taken from its sender before is about to be durable.
            return match () {
                // It is answered with its commit.
                () if source.seq <= last => {
                    mail.stats().count(Counter::MessagesRepeated);
                    Verdict::Over
                }
                () if source.after <= last => Verdict::Take,
                () => self.is_refused(own, Refusal::Early, None, home, mail),
            };
        }
        let (place, after) = (Place::new(source.seq), Place::new(source.after));
        match marks.recognise(self.peer(home), place, after) {
            Recognised::New => Verdict::Take,
            Recognised::Unknown => Verdict::Ask,
            Recognised::Early => self.is_refused(own, Refusal::Early, None, home, mail),
            Recognised::Again => {
                mail.stats().count(Counter::MessagesRepeated);
                self.confirm(own, home, mail);
                Verdict::Over
            }
        }
    }

    fn is_refused(
        &self,
        own: &Name,
        why: Refusal,
        error: Option<StanzaError>,
        home: &Home,
        mail: &mut impl Mail,
    ) -> Verdict {
        self.refuse(own, why, error, home, mail);
        Verdict::Over
    }

    /// It was taken, for good.
    pub(crate) fn learn(&self, marks: &mut Marks<u64>, home: &Home) {
        marks.learn(self.peer(home), Place::new(self.source.seq));
    }

    /// Tells its sender's home that it need not be kept for `own` any more.
    pub(crate) fn confirm(&self, own: &Name, home: &Home, mail: &mut impl Mail) {
        let (by, seq) = (home.place.slots().peer(own), self.source.seq);
        // Lost, it is asked for again.
        home.say(mail, &self.from, Message::Taken { by, seq }, false);
    }

    /// Tells its sender's home that `own` did not take it; `error` is what its sender is told if
    /// that is for good.
    pub(crate) fn refuse(
        &self,
        own: &Name,
        why: Refusal,
        error: Option<StanzaError>,
        home: &Home,
        mail: &mut impl Mail,
    ) {
        let answer = home.not_taken(own, self.source, why, error);
        home.say(mail, &self.from, Message::NotTaken(answer), false);
    }
}
