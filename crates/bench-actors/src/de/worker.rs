//! The processes of DE-Bench: those that are asked, and those that give commands.
//!
//! Owns what each command is and how long it took. Deliberately not here: what figures are made of
//! it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use group::{Answer, Command, Event, Mode, Name, NodeName, Options, Pid, Process, Reason, Scope};
use stdx::time::{Clock, Moment, SystemClock};

/// How long a command may take.
pub(super) const WITHIN: Duration = Duration::from_secs(60);

/// The commands. A name that is registered is looked up and taken back before the next command.
pub(super) const COMMANDS: [&str; 10] = [
    "spawning",
    "remote_call",
    "gen_server_call",
    "fsm_server_call",
    "global_register",
    "global_whereis",
    "global_unregister",
    "local_register",
    "local_whereis",
    "local_unregister",
];

/// One figure: which command, how long it took, whether it succeeded.
pub(super) type Figure = (usize, Duration, bool);

/// What all workers know.
pub(super) struct Plan {
    pub(super) targets: OnceLock<Vec<Target>>,
    pub(super) figures: SyncSender<Figure>,
    pub(super) stop: AtomicBool,
    pub(super) clock: SystemClock,
}

/// What a worker needs to know of a node.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) name: NodeName,
    pub(super) server: Pid,
    pub(super) machine: Pid,
    pub(super) caller: Pid,
    /// The group in which its names are.
    pub(super) group: Name,
    /// The group that it is alone in.
    pub(super) alone: Name,
}

/// A node's functions.
pub(super) fn offer(options: Options, plan: &Arc<Plan>) -> Options {
    let plan = Arc::clone(plan);
    options
        .function("server", |_| Box::new(Server) as Box<dyn Process>)
        .function("brief", |_| Box::new(Brief) as Box<dyn Process>)
        .function("machine", |_| {
            Box::new(Machine { is_open: false }) as Box<dyn Process>
        })
        .function("caller", |_| Box::new(Caller) as Box<dyn Process>)
        .function("worker", move |args| {
            let number = |at: usize| args.get(at).copied().map_or(0, usize::from);
            let plan = Arc::clone(&plan);
            Box::new(Worker::new(plan, number(0), number(1))) as Box<dyn Process>
        })
}

/// Answers what it is asked.
struct Server;

impl Process for Server {
    fn handle(&mut self, event: Event, cx: &mut Scope<'_, '_>) {
        if let Event::Request { from, body } = event {
            // A node that is too busy drops the question, which its asker hears of.
            let _ = cx.reply(from, body);
        }
    }
}

/// Has two states, and answers with the one that it leaves.
struct Machine {
    is_open: bool,
}

impl Process for Machine {
    fn handle(&mut self, event: Event, cx: &mut Scope<'_, '_>) {
        if let Event::Request { from, .. } = event {
            self.is_open = !self.is_open;
            let _ = cx.reply(from, vec![u8::from(!self.is_open)]);
        }
    }
}

/// Calls the function that it is told the number of, as the server of remote calls of a node.
struct Caller;

type Function = fn(&[u8]) -> Vec<u8>;

/// What may be called from elsewhere.
const FUNCTIONS: [Function; 1] = [<[u8]>::to_vec];

impl Process for Caller {
    fn handle(&mut self, event: Event, cx: &mut Scope<'_, '_>) {
        if let Event::Request { from, body } = event
            && let Some((number, args)) = body.split_first()
            && let Some(function) = FUNCTIONS.get(usize::from(*number))
        {
            let _ = cx.reply(from, function(args));
        }
    }
}

/// Ends as soon as it has begun.
struct Brief;

impl Process for Brief {
    fn started(&mut self, cx: &mut Scope<'_, '_>) {
        cx.stop(Reason::Normal);
    }

    fn handle(&mut self, _: Event, _: &mut Scope<'_, '_>) {}
}

/// Gives one command after the other until it is told to stop.
struct Worker {
    plan: Arc<Plan>,
    own: usize,
    number: usize,
    names: u64,
    /// The command under way, and when it was given.
    now: Option<(usize, Moment)>,
    /// The process whose name is registered, looked up or taken back.
    named: Option<Pid>,
}

impl Worker {
    fn new(plan: Arc<Plan>, own: usize, number: usize) -> Self {
        Worker {
            plan,
            own,
            number,
            names: 0,
            now: None,
            named: None,
        }
    }

    fn target(&self, at: usize) -> Option<&Target> {
        self.plan.targets.get()?.get(at)
    }

    /// Notes that a command is given now.
    fn give(&mut self, command: usize) {
        self.now = Some((command, self.plan.clock.now()));
    }

    /// Notes how long the command took.
    fn done(&mut self, is_good: bool) {
        if let Some((command, began)) = self.now.take() {
            let took = self.plan.clock.now().saturating_since(began);
            // Waits while nobody takes figures; an error says that it is over.
            let _ = self.plan.figures.send((command, took, is_good));
        }
    }

    /// The next command; `None` if the node has no room for it.
    fn next(&mut self, cx: &mut Scope<'_, '_>) -> Option<()> {
        let count = self.plan.targets.get().map_or(0, Vec::len);
        if self.plan.stop.load(Ordering::Relaxed) || count < 2 {
            cx.stop(Reason::Normal);
            return Some(());
        }
        // A node other than the own one.
        let step = 1 + cx.rng().usize(..count - 1);
        let target = self.target((self.own + step) % count)?.clone();
        let body = vec![7; 64];
        match cx.rng().usize(..6) {
            0 => {
                self.give(0);
                cx.spawn(&target.name, "brief", Vec::new(), 0).ok()
            }
            1 => {
                self.give(1);
                let call = [&[0], &body[..]].concat();
                cx.call(&target.caller, call, WITHIN, 0).ok()
            }
            2 => {
                self.give(2);
                cx.call(&target.server, body, WITHIN, 0).ok()
            }
            3 => {
                self.give(3);
                cx.call(&target.machine, body, WITHIN, 0).ok()
            }
            kind => {
                // Each name has a process of its own: one may have but one name in a group.
                self.names += 1;
                self.named = Some(cx.spawn_here(Server).ok()?);
                self.name(if kind == 4 { 4 } else { 7 }, cx)
            }
        }
    }

    /// A command about a name: 4 to 6 in the group, 7 to 9 in the one of this node alone.
    fn name(&mut self, command: usize, cx: &mut Scope<'_, '_>) -> Option<()> {
        let own = self.target(self.own)?;
        let group = if command < 7 { &own.group } else { &own.alone };
        let group = Name::clone(group);
        let name = Name::from(format!("{}-{}-{}", self.number, self.own, self.names));
        let pid = self.named.clone()?;
        self.give(command);
        let (node, mode) = (None, Mode::New);
        let what = match command {
            4 | 7 => Command::Register {
                group,
                name,
                pid,
                mode,
            },
            5 | 8 => Command::Whereis { node, group, name },
            _ => Command::Unregister { group, name },
        };
        cx.command(what, 0).ok()
    }

    /// What comes after the answer to a command about a name.
    fn answered(&mut self, answer: Answer, cx: &mut Scope<'_, '_>) -> Option<()> {
        let (command, _) = self.now?;
        let is_good = match answer {
            Answer::Done(done) => done.is_ok(),
            Answer::Whereis(found) => found.is_some() && found == self.named,
            _ => false,
        };
        self.done(is_good);
        if is_good && command != 6 && command != 9 {
            return self.name(command + 1, cx);
        }
        if let Some(pid) = self.named.take() {
            cx.exit(&pid, Reason::Killed).ok()?;
        }
        self.next(cx)
    }
}

impl Process for Worker {
    fn started(&mut self, cx: &mut Scope<'_, '_>) {
        cx.timer(Duration::ZERO, 0);
    }

    fn handle(&mut self, event: Event, cx: &mut Scope<'_, '_>) {
        let given = match event {
            Event::Timer(_) => self.next(cx),
            Event::Spawned { result, .. } => {
                self.done(result.is_ok());
                self.next(cx)
            }
            Event::Reply { result, .. } => {
                self.done(result.is_ok());
                self.next(cx)
            }
            Event::Answer { answer, .. } => self.answered(answer, cx),
            _ => Some(()),
        };
        if given.is_none() {
            self.done(false);
            if let Some(pid) = self.named.take() {
                // Without room for this either it stays until its node stops.
                let _ = cx.exit(&pid, Reason::Killed);
            }
            cx.timer(RETRY, 0);
        }
    }
}

/// How long a worker waits whose node had no room.
const RETRY: Duration = Duration::from_millis(10);
