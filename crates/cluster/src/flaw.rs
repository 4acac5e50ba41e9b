//! Mistakes on purpose, which the simulation must find: that shows that it looks where it should.
//! Only this crate's own tests have all of them. Some are bugs on purpose of a whole node too
//! ([`stdx::bugs`]), which no release has.

/// A mistake in the rules of the journal or of leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "some are made by the simulation itself")
)]
pub(crate) enum Flaw {
    /// Ten publishes are under way at a time.
    Pipelines,
    /// What was not acknowledged within the time of a quorum counts as failed.
    TimeOutDecides,
    /// An expectation that was refused counts as failed, without a look at the stream.
    RefusalDecides,
    /// Replicas apply what an older epoch wrote behind a newer one.
    EpochNotChecked,
    /// A new home serves before its replica has read up to its epoch record.
    ServesEarly,
    /// A process that begins again gives out the ids of its predecessor.
    IdWithoutIncarnation,
    /// An acknowledgement counts whatever its sequence is, with ids that come again.
    AnyAcknowledgement,
    /// A home acts without a look at when it last renewed its lease.
    LeaseNotChecked,
    /// The end of a lease is put whatever its entry says by then.
    FenceIsBlind,
    /// What is in doubt is sent again under a new id and at a new place.
    NewIdAfterDoubt,
    /// A replica leaves the records of some messages out, counted from the start of its process.
    ForgetsRecords,
    /// A new home serves although the last message in front of its epoch record was not read.
    ReadsOneLess,
    /// A home acts until its lease lapses, and not for half of that time.
    ActsToTheEnd,
    /// A home that is given a stream in a planned move does not wait until the one before let go.
    DoesNotWait,
    /// What is in doubt when a tenure ends counts as failed.
    DoubtDecides,
    /// A home writes in front of what is void behind its epoch record.
    VoidTakesNoPlace,
}

#[cfg(not(test))]
pub(crate) fn is(flaw: Flaw) -> bool {
    let name = match flaw {
        Flaw::TimeOutDecides => "time_out_decides",
        Flaw::ServesEarly => "serves_early",
        Flaw::ForgetsRecords => "forgets_records",
        _ => return false,
    };
    stdx::bugs::is(name)
}

#[cfg(test)]
pub(crate) use chosen::{is, with};

#[cfg(test)]
mod chosen {
    use std::cell::Cell;

    use super::Flaw;

    thread_local! {
        static CHOSEN: Cell<Option<Flaw>> = const { Cell::new(None) };
    }

    pub(crate) fn is(flaw: Flaw) -> bool {
        CHOSEN.get() == Some(flaw)
    }

    /// Runs something with a mistake in it.
    pub(crate) fn with<T>(flaw: Option<Flaw>, run: impl FnOnce() -> T) -> T {
        CHOSEN.set(flaw);
        let result = run();
        CHOSEN.set(None);
        result
    }
}
