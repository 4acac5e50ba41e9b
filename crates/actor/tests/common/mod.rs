//! What the tests of the runtime share: an actor that does what its messages say, and a journal of
//! what happened. Deliberately not here: assertions.
#![allow(dead_code)] // Each test binary uses its own part.

use std::cell::RefCell;
use std::rc::Rc;

use actor::{Actor, ActorId, Context, Name, Reason, ShardId, Signal};

/// The first shard.
pub(crate) const HERE: ShardId = ShardId::new(0);
/// The second shard.
pub(crate) const THERE: ShardId = ShardId::new(1);

/// What happened, in order. Shared by the actors of a simulation, which has one thread.
#[derive(Clone, Default)]
pub(crate) struct Journal(Rc<RefCell<Vec<String>>>);

impl Journal {
    pub(crate) fn note(&self, what: impl Into<String>) {
        self.0.borrow_mut().push(what.into());
    }

    /// Everything since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.borrow_mut())
    }
}

type Job = Box<dyn FnOnce(&mut Doer, &mut Context<'_, Do>) + Send>;

/// A message for a [`Doer`].
pub(crate) enum Do {
    /// Write it into the journal.
    Note(String),
    /// Run it.
    Run(Job),
}

impl Do {
    pub(crate) fn note(text: &str) -> Do {
        Do::Note(text.into())
    }

    pub(crate) fn run(job: impl FnOnce(&mut Doer, &mut Context<'_, Do>) + Send + 'static) -> Do {
        Do::Run(Box::new(job))
    }

    pub(crate) fn panic() -> Do {
        Do::run(|_, _| panic!("as told"))
    }

    pub(crate) fn stop() -> Do {
        Do::run(|_, cx| cx.stop())
    }
}

/// An actor that does what it is told.
pub(crate) struct Doer {
    pub(crate) name: String,
    pub(crate) journal: Journal,
    pub(crate) panics_in_started: bool,
    pub(crate) panics_in_stopped: bool,
    pub(crate) panics_in_drop: bool,
}

impl Doer {
    pub(crate) fn new(name: &str, journal: &Journal) -> Self {
        Doer {
            name: name.into(),
            journal: journal.clone(),
            panics_in_started: false,
            panics_in_stopped: false,
            panics_in_drop: false,
        }
    }

    pub(crate) fn note(&self, what: &str) {
        self.journal.note(format!("{} {what}", self.name));
    }
}

impl Actor for Doer {
    type Msg = Do;

    fn started(&mut self, _: &mut Context<'_, Do>) {
        self.note("started");
        assert!(!self.panics_in_started, "told to panic in started");
    }

    fn handle(&mut self, msg: Do, cx: &mut Context<'_, Do>) {
        match msg {
            Do::Note(text) => self.note(&text),
            Do::Run(job) => job(self, cx),
        }
    }

    fn signal(&mut self, signal: Signal, _: &mut Context<'_, Do>) {
        match signal {
            Signal::Down { reason, .. } => self.note(&format!("down: {reason}")),
            Signal::Exit { reason, .. } => self.note(&format!("exit: {reason}")),
        }
    }

    fn stopped(&mut self, reason: &Reason, _: &mut Context<'_, Do>) {
        self.note(&format!("stopped: {reason}"));
        assert!(!self.panics_in_stopped, "told to panic in stopped");
    }
}

impl Drop for Doer {
    fn drop(&mut self) {
        assert!(
            !self.panics_in_drop || std::thread::panicking(),
            "told to panic in drop"
        );
    }
}

/// Makes every named [`Doer`] on demand and notes what was refused.
pub(crate) struct Doers {
    pub(crate) journal: Journal,
    pub(crate) mailbox_max: usize,
    /// Names that begin with this panic when they are activated.
    pub(crate) bad_prefix: &'static str,
}

impl actor::EntityClass for Doers {
    type Msg = Do;
    type Actor = Doer;

    fn mailbox_max(&self) -> usize {
        self.mailbox_max
    }

    fn activate(&mut self, name: &Name, _: ShardId) -> Doer {
        assert!(
            self.bad_prefix.is_empty() || !name.starts_with(self.bad_prefix),
            "told to panic in activate"
        );
        Doer::new(name, &self.journal)
    }

    fn refused(&mut self, name: &Name, msg: Do, why: actor::Refused, _: &mut actor::Core) {
        let text = match msg {
            Do::Note(text) => text,
            Do::Run(_) => "a job".into(),
        };
        self.journal.note(format!("{name} refused {text}: {why:?}"));
    }
}

/// An id that no actor has any more.
pub(crate) fn gone(sim: &mut actor::sim::Sim, journal: &Journal) -> ActorId {
    use actor::Mail;
    let addr = sim.shard(HERE).spawn(Doer::new("gone", journal));
    sim.shard(HERE).kill(addr.id());
    sim.run_until_idle();
    journal.take();
    addr.id()
}
