//! Plays one seed against one server: carries the plan out, lets everything settle, reads the
//! archives and asks the checker. Owns the loop over sockets and the moments of faults.

mod nodes;
mod others;

use super::Options;
use super::checker::{self, Final, Rules};
use super::device::{DOMAIN, Device, Heard, Shared};
use super::disk::Mood;
use super::link::Cut;
use super::others::{Others, Seen};
use super::plan::{Dice, Faults, KillMoment, Plan, Step};
use super::record::{Fate, History, Message};
use super::server::{Ended, Host, Running, Server, Template};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// How long everything may take to settle at the end, on a machine with other work.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long archives may take to agree after all devices have settled: with tiny bounds a message
/// is handed over for each retry.
const AGREE_TIMEOUT: Duration = Duration::from_secs(30);
/// Turns of the devices and of a server inside this process, each time they are let.
const TURNS_INSIDE: usize = 3;
/// How often devices ask at the end whether what they sent was taken.
const ASK_EVERY: Duration = Duration::from_millis(10);
/// So many times, and they ask the room again, too.
const ROOM_AGAIN_EVERY: usize = 200;
/// Steps that a kill waits for its moment.
const KILL_STEPS_MAX: usize = 12;

/// Steps between two acknowledgements of a member who never enters, where he returns.
const ABSENT_SAYS_EVERY: usize = 5;
/// Messages of the room that he has acknowledged, then his session ends.
const ABSENT_HEARS: usize = 3;

/// What he is given again at the end, by mistake, comes in that time.
const TURNED_OVER: Duration = Duration::from_millis(100);

/// The chance of each step that the actor of an account crashes: of a server inside this process,
/// and of another one, which has to be asked by a command.
const ACTOR_CRASHES: [f32; 2] = [0.08, 0.05];

/// The same that the range of an account moves: the command takes several steps.
const RANGE_MOVES: f32 = 0.3;

/// Steps that a disk stays full or broken.
const DISK_FAULT_STEPS: usize = 8;

/// What became of a seed.
pub(super) struct Outcome {
    pub(super) findings: Vec<String>,
    pub(super) account: String,
    pub(super) tally: Tally,
}

/// Figures of a seed, for the report.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) kills: usize,
    pub(super) actors: usize,
    pub(super) moves: [usize; 2],
    pub(super) messages: usize,
    pub(super) accepted: usize,
    pub(super) deliveries: usize,
    pub(super) refused: usize,
    pub(super) sessions: usize,
    pub(super) devices: usize,
    pub(super) others: Seen,
    pub(super) gaps: Vec<(&'static str, Duration)>,
}

/// Plays one seed.
///
/// # Errors
/// The server cannot be started at all.
pub(super) fn play(template: &Template, seed: u64, options: &Options) -> Result<Outcome, String> {
    let plan = match options.troubles {
        Some(troubles) => Plan::over_nodes(seed, troubles),
        None => Plan::new(seed, options.faults),
    };
    let plan = match options.is_tiny {
        true => plan.with_tiny_bounds(seed),
        false => plan,
    };
    let is_roost = !matches!(template, Template::Prosody);
    let plan = plan.with_room(options.has_rooms && is_roost);
    let server = template.start(&plan)?;
    Ok(Rig::new(seed, plan, server, is_roost).play())
}

/// Plays one seed on a server inside this process.
pub(super) fn play_inside(host: Box<dyn Host>, seed: u64, faults: Faults) -> Outcome {
    let plan = Plan::inside(seed, faults).with_room(true);
    Rig::new(seed, plan, Server::Inside(host), true).play()
}

impl Rig {
    fn play(self) -> Outcome {
        let mut rig = self;
        let seed = rig.seed;
        let played = match rig.server.cluster() {
            Some(_) => rig.run_over_nodes(),
            None => rig.bring_others().and_then(|()| rig.run()),
        };
        let is_played = played.is_ok();
        if let Err(why) = played {
            rig.history.violation(why);
        }
        let mut findings = rig.settle();
        if is_played {
            findings.extend(rig.settle_others());
        }
        let history = &rig.history;
        let is_accepted = |message: &&Message| message.fate == Fate::Accepted;
        let is_refused = |message: &&Message| message.fate == Fate::Refused;
        let mut account = format!("seed {seed}\n{:#?}\n\n", rig.plan);
        account.push_str(history.account());
        account.push_str("\nthe server's log:\n");
        account.push_str(&rig.server.log_tail());
        if !findings.is_empty() {
            account.push_str("\n\nfindings:\n");
            account.push_str(&findings.join("\n"));
            account.push('\n');
        }
        let tally = Tally {
            kills: history.kills,
            actors: history.actors,
            moves: history.moves,
            messages: history.messages.len(),
            accepted: history.messages.iter().filter(is_accepted).count(),
            refused: history.messages.iter().filter(is_refused).count(),
            deliveries: history.chains.iter().map(|c| c.deliveries.len()).sum(),
            sessions: history.chains.len(),
            devices: rig.devices.len(),
            others: rig.others.as_ref().map(Others::seen).unwrap_or_default(),
            gaps: rig.gaps(),
        };
        Outcome {
            findings,
            account,
            tally,
        }
    }
}

struct Rig {
    seed: u64,
    plan: Plan,
    server: Server,
    dice: Dice,
    /// When actors crash, and which: drawn apart, so that everything else is as without that.
    crashes: Dice,
    /// The same of ranges that move.
    moves: Dice,
    /// The command that moves one.
    moving: Option<Running>,
    /// Accounts beside those of the devices.
    others: Option<Others>,
    devices: Vec<Device>,
    history: History,
    is_roost: bool,
    is_disk_bad: bool,
    step: usize,
    started: Instant,
    /// A kill that waits for its moment, and the step at which it comes anyway.
    armed: Option<(KillMoment, usize)>,
}

impl Rig {
    fn new(seed: u64, plan: Plan, mut server: Server, is_roost: bool) -> Self {
        let mut history = History::new(plan.users);
        history.time = server.inside().map(|host| host.now());
        let devices = plan.devices.iter().cloned().enumerate();
        Self {
            seed,
            devices: devices.map(|(at, plan)| Device::new(at, plan)).collect(),
            history,
            dice: Dice::new(seed),
            crashes: Dice::new(seed.rotate_left(24)),
            moves: Dice::new(seed.rotate_left(40)),
            moving: None,
            others: None,
            plan,
            server,
            is_roost,
            is_disk_bad: false,
            step: 0,
            started: Instant::now(),
            armed: None,
        }
    }

    /// Everybody at once: the devices and what they share.
    fn split(&mut self) -> (&mut Vec<Device>, Shared<'_>) {
        let has_such_faults = self.plan.faults.actors || self.plan.faults.moves;
        let shared = Shared {
            history: &mut self.history,
            seed: self.seed,
            page: self.plan.page,
            padding_max: self.plan.padding_max,
            has_ordered_ids: self.is_roost,
            is_disk_bad: self.is_disk_bad,
            actors_crash: self.plan.faults.actors,
            ranges_move: self.plan.faults.moves,
            streams_stay: has_such_faults && !self.plan.may_refuse(),
            has_room: self.plan.has_room,
            absent: self.plan.absent(),
            stays_in_room: !self.plan.may_refuse(),
            reuses_ids: !self.plan.may_refuse(),
            heard: Heard::default(),
        };
        (&mut self.devices, shared)
    }

    fn with<R>(&mut self, device: usize, f: impl FnOnce(&mut Device, &mut Shared<'_>) -> R) -> R {
        let (devices, mut shared) = self.split();
        f(&mut devices[device], &mut shared)
    }
}

// === impl Rig: the play ===

impl Rig {
    fn run(&mut self) -> Result<(), String> {
        for step in 0..self.plan.steps {
            self.step = step;
            if self.plan.kills.contains(&step) {
                self.armed = Some((self.dice.kill_moment(), step + KILL_STEPS_MAX));
            }
            self.work_on_disk(step)?;
            self.reconnect();
            self.enter();
            self.turn_over_absent();
            let next = self.dice.step(&self.plan);
            self.carry_out(next)?;
            self.crash_an_actor()?;
            self.move_a_range()?;
            self.tend_others()?;
            match self.armed {
                Some((KillMoment::Now, _)) => {
                    for device in &mut self.devices {
                        device.flush();
                    }
                    let wait = Duration::from_micros(self.dice.below(3_000) as u64);
                    match self.server.inside() {
                        Some(host) if wait.as_micros() > 1_000 => host.work()?,
                        Some(_) => {}
                        None => std::thread::sleep(wait),
                    }
                    self.kill()?;
                }
                Some((_, last)) if step >= last => self.kill()?,
                _ => {}
            }
            let wait = Duration::from_millis(self.dice.below(4) as u64);
            self.pump(wait)?;
        }
        if self.armed.is_some() {
            self.kill()?;
        }
        self.let_others_finish()
    }

    /// The actor of an account crashes now and then.
    fn crash_an_actor(&mut self) -> Result<(), String> {
        let chance = ACTOR_CRASHES[usize::from(self.server.inside().is_none())];
        if !self.plan.faults.actors || !self.crashes.chance(chance) {
            return Ok(());
        }
        for device in &mut self.devices {
            device.flush();
        }
        let user = self.crashes.below(self.plan.users);
        let crashed = self.server.crash_actor(&format!("u{user}@{DOMAIN}"))?;
        let Some(account) = crashed else {
            return Ok(()); // There was none for a moment.
        };
        let mut users = 0..self.plan.users;
        let user = users.find(|user| account == format!("u{user}@{DOMAIN}"));
        self.history.actor_crashed(user);
        self.history
            .note("actor", format_args!("of {account} crashes"));
        Ok(())
    }

    /// The range of an account moves to another shard now and then, while everybody goes on. One of
    /// which something is under way for too long stays.
    fn move_a_range(&mut self) -> Result<(), String> {
        // Of a server inside this process its host moves them.
        if !self.plan.faults.moves || self.server.inside().is_some() {
            return Ok(());
        }
        if let Some(moving) = &mut self.moving {
            let Some(Ended { said, .. }) = moving.has_ended()? else {
                return Ok(());
            };
            if !said.contains("already") {
                let has_moved = said.contains("moved from");
                self.history.moves[usize::from(!has_moved)] += 1;
            }
            self.history.note("range", said.trim());
            self.moving = None;
        }
        if !self.moves.chance(RANGE_MOVES) {
            return Ok(());
        }
        let user = self.moves.below(self.plan.users);
        let shard = self.moves.below(usize::from(self.plan.shards));
        let account = format!("u{user}@{DOMAIN}");
        let arguments = ["range", "move", &account, &shard.to_string()];
        self.moving = self.server.begin_to_run(&arguments)?;
        self.history
            .note("range", format_args!("of {account} shall go to {shard}"));
        Ok(())
    }

    /// The disk fails for a while, and is good again.
    fn work_on_disk(&mut self, step: usize) -> Result<(), String> {
        let Some((from, mood)) = self.plan.disk_fault else {
            return Ok(());
        };
        if step == from {
            self.history.note("disk", format_args!("{mood:?}"));
            self.server.set_disk(mood)?;
            self.is_disk_bad = true;
            self.history.was_disk_bad = true;
            self.history.crashes += 1;
        } else if step == from + DISK_FAULT_STEPS {
            self.history.note("disk", "good again");
            self.history.crashes += 1;
            self.server.set_disk(Mood::Good)?;
        }
        Ok(())
    }

    /// Devices that are away come back after a while.
    fn reconnect(&mut self) {
        for device in 0..self.devices.len() {
            let is_away = !self.devices[device].is_connected();
            if is_away && self.dice.chance(0.25) {
                let sent_to = self.devices[device].take_sent_to();
                let link = self.server.connect(sent_to);
                self.with(device, |device, shared| device.connect(link, shared));
            }
        }
    }

    /// Who is not in the room enters it.
    fn enter(&mut self) {
        for device in 0..self.devices.len() {
            self.with(device, Device::enter);
        }
    }

    /// The device of the member who never enters says what it has, and once it is known that the
    /// server has read so, its next session begins: it must be given nothing of that again.
    fn turn_over_absent(&mut self) {
        let absent = self.plan.absent().filter(|_| self.plan.absent_returns);
        let is_his = |device: &Device| absent == Some(device.plan.user);
        let Some(device) = self.devices.iter().position(is_his) else {
            return;
        };
        if self.step.is_multiple_of(ABSENT_SAYS_EVERY) {
            self.when_ready(device, Device::ping);
        }
        let heard = self.devices[device].chain();
        let heard = heard.map_or(0, |chain| self.history.chains[chain].heard_confirmed);
        let is_done = heard >= ABSENT_HEARS && self.devices[device].is_all_acknowledged();
        if is_done && self.devices[device].is_ready() {
            self.with(device, Device::close);
        }
    }

    fn carry_out(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Send {
                device,
                user,
                to,
                count,
            } => self.compose(device, user, to, count),
            Step::Stop { ms } => {
                self.history
                    .note("server", format_args!("is stopped for {ms} ms"));
                self.server.signal(Signal::STOP)?;
                self.pump(Duration::from_millis(ms))?;
                self.server.signal(Signal::CONT)?;
            }
            Step::Pause { ms } => self.pump(Duration::from_millis(ms))?,
            // Who leaves before everything is acknowledged has to send it again in a new session.
            Step::Close { device } => {
                if self.plan.faults.amnesia || self.devices[device].is_all_acknowledged() {
                    self.with(device, Device::close);
                }
            }
            Step::Cut { device, reset } => {
                let how = if reset { Cut::Reset } else { Cut::Quiet };
                self.with(device, |device, shared| {
                    device.flush();
                    device.cut(how, shared);
                });
            }
            Step::Forget { device, outbox } => {
                self.with(device, |device, shared| device.forget(!outbox, shared));
            }
            Step::Stall { device, steps } => {
                self.devices[device].stalled_until = self.step + steps;
            }
            Step::Typing { device, user } => self.when_ready(device, |device, shared| {
                device.type_to(user, shared);
            }),
            Step::Presence { device } => {
                let is_away = self.dice.chance(0.5);
                self.when_ready(device, |device, shared| device.show(is_away, shared));
            }
            Step::Ping { device } => self.when_ready(device, Device::ping),
            Step::Request { device } => self.when_ready(device, |device, _| device.request()),
            Step::Acknowledge { device } => self.when_ready(device, Device::acknowledge),
            Step::Activity { device, is_active } => {
                self.when_ready(device, |device, _| device.set_activity(is_active));
            }
            Step::CatchUp { device } => self.when_ready(device, |device, _| device.catch_up()),
        }
        Ok(())
    }

    fn when_ready(&mut self, device: usize, f: impl FnOnce(&mut Device, &mut Shared<'_>)) {
        if self.devices[device].is_ready() {
            self.with(device, f);
        }
    }

    fn compose(&mut self, device: usize, user: usize, to: Option<usize>, count: usize) {
        let from = self.devices[device].plan.user;
        // What a message to oneself leaves behind is not the same everywhere.
        if user == from && !self.is_roost {
            return;
        }
        let resource = |device: usize| {
            let name = &self.devices[device].plan.resource;
            name.trim_start_matches('d').parse().ok()
        };
        let to_device = to.and_then(resource);
        for _ in 0..count {
            if !self.devices[device].can_compose() {
                break;
            }
            let number = self.history.messages.len();
            self.history.messages.push(Message {
                device,
                from,
                to: user,
                to_device,
                fate: Fate::Unknown,
                floors: None,
                sent_at: 0,
                was_refused: false,
            });
            self.devices[device].compose(number);
        }
        let is_asking = self.dice.chance(0.6);
        let says = self.history.messages.len().is_multiple_of(2);
        self.with(device, |device, shared| {
            if says {
                device.say_to_all(shared);
            }
            device.work(shared);
            if is_asking && device.is_ready() {
                device.request();
            }
        });
    }

    fn kill(&mut self) -> Result<(), String> {
        self.armed = None;
        self.hold_others()?;
        self.server.kill()?;
        self.history.kills += 1;
        self.history.crashes += 1;
        self.history.note("server", "is killed");
        if self.plan.faults.unsynced || self.server.inside().is_some() {
            let is_all_lost = self.plan.is_all_lost;
            let dice = &mut self.dice;
            let lost = self.server.forget(|changes| {
                let kept = dice.below(changes + 1);
                if is_all_lost { 0 } else { kept }
            })?;
            self.history
                .note("disk", format_args!("has lost {lost} changes"));
        }
        // Nobody starts a server on a disk that cannot be written.
        self.server.set_disk(Mood::Good)?;
        self.server.start_again()?;
        self.history.note("server", "listens again");
        self.let_others_go_on()
    }

    /// Time since some moment: the server's, if it has a clock of its own.
    fn now(&mut self) -> Duration {
        let started = self.started;
        self.server
            .inside()
            .map_or_else(|| started.elapsed(), |host| host.now())
    }

    /// Lets a server inside this process work while so much of its time passes.
    fn pump_inside(&mut self, wait: Duration) -> Result<(), String> {
        self.history.time = Some(self.now());
        for _ in 0..TURNS_INSIDE {
            let is_due = self.turn(Instant::now())?;
            if is_due && self.armed.is_some() {
                self.kill()?;
            }
            if let Some(host) = self.server.inside() {
                host.work()?;
            }
        }
        match self.server.inside() {
            Some(host) => host.pass(wait),
            None => Ok(()),
        }
    }

    /// Reads and writes what there is to read and write, for so long.
    fn pump(&mut self, wait: Duration) -> Result<(), String> {
        if self.server.inside().is_some() {
            return self.pump_inside(wait);
        }
        let deadline = Instant::now() + wait;
        self.tend()?;
        loop {
            let is_due = self.turn(deadline)?;
            if is_due && self.armed.is_some() {
                self.kill()?;
            }
            if Instant::now() >= deadline {
                return Ok(());
            }
        }
    }

    /// One look at all sockets. True if the moment of a kill has come.
    fn turn(&mut self, deadline: Instant) -> Result<bool, String> {
        let moment = self.armed.map(|(moment, _)| moment);
        let is_stalled =
            |device: &Device, step: usize| device.stalled_until > step && device.is_ready();
        let step = self.step;
        for device in 0..self.devices.len() {
            self.with(device, |device, shared| {
                device.work(shared);
                device.flush();
            });
        }
        self.turn_others();
        let mut watched = Vec::new();
        let mut fds = Vec::new();
        for device in &self.devices {
            let Some(link) = device.link() else { continue };
            let mut flags = PollFlags::empty();
            if !is_stalled(device, step) {
                flags |= PollFlags::IN;
            }
            if link.backlog() > 0 {
                flags |= PollFlags::OUT;
            }
            watched.push(device.number);
            fds.push(PollFd::new(&link.socket, flags));
        }
        // Behind those that are watched: they have their turn at the next look.
        let others = self.others.iter().flat_map(Others::links);
        fds.extend(others.map(|link| PollFd::new(&link.socket, PollFlags::IN)));
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(|error| error.to_string())?;
        poll(&mut fds, Some(&left)).map_err(|error| format!("poll: {error}"))?;
        let ready = fds.iter().zip(watched).filter(|(fd, _)| {
            let done = fd.revents();
            done.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR)
        });
        let ready: Vec<usize> = ready.map(|(_, device)| device).collect();
        for device in ready {
            if is_stalled(&self.devices[device], step) {
                continue;
            }
            let is_due = self.with(device, |device, shared| {
                let mut is_due = false;
                device.turn(shared, |shared| {
                    is_due |= match moment {
                        Some(KillMoment::OnAck) => shared.heard.ack,
                        Some(KillMoment::OnDelivery) => shared.heard.message,
                        Some(KillMoment::Now) | None => false,
                    };
                    // What was heard with it in one breath is still heard.
                    true
                });
                device.flush();
                is_due
            });
            if is_due {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

// === impl Rig: the end ===

impl Rig {
    /// Everybody comes back, everything is sent, acknowledged and read; then it is checked.
    fn settle(&mut self) -> Vec<String> {
        self.armed = None;
        self.step = usize::MAX;
        let before = self.history.violations.len();
        self.history.note("--", "everybody comes back");
        for device in &mut self.devices {
            device.plan.is_lazy = false;
        }
        if let Err(why) = self.server.set_disk(Mood::Good) {
            self.history.violation(why);
        }
        if let Err(why) = self.settle_devices() {
            self.history.violation(why);
        }
        if self.history.violations.len() > before {
            return self.history.violations.clone();
        }
        if let Some(host) = self.server.inside() {
            host.leave_alone();
        }
        // What is under way between two users may still need a moment.
        let deadline = self.now() + AGREE_TIMEOUT;
        let mut findings = loop {
            if let Err(why) = self.settle_devices().and_then(|()| self.audit()) {
                self.history.violation(why);
            }
            let findings = self.check();
            if findings.is_empty() || self.now() > deadline {
                break findings;
            }
            if let Err(why) = self.pump(Duration::from_millis(150)) {
                self.history.violation(why);
            }
        };
        if findings.is_empty() && !self.plan.may_refuse() && self.server.inside().is_none() {
            findings = match self.turn_over_at_the_end().and_then(|()| self.audit()) {
                Ok(()) => self.check(),
                Err(why) => vec![why],
            };
        }
        findings.into_iter().chain(self.check_nodes()).collect()
    }

    /// The device of the member who never enters has acknowledged all that it was given: its next
    /// session must be given nothing of that again, and first what is said in the room meanwhile.
    /// For servers that are processes.
    fn turn_over_at_the_end(&mut self) -> Result<(), String> {
        let absent = self.plan.absent();
        let is_his = |device: &Device| absent == Some(device.plan.user);
        let Some(device) = self.devices.iter().position(is_his) else {
            return Ok(());
        };
        // What was given last is acknowledged, and known to be.
        self.when_ready(device, Device::ping);
        self.settle_devices()?;
        self.with(device, Device::close);
        self.pump(TURNED_OVER)?;
        let is_there = |device: &Device| device.is_ready() && device.in_room().is_some();
        if let Some(speaker) = self.devices.iter().position(is_there) {
            self.with(speaker, |device, shared| {
                device.say_to_all(shared);
                device.work(shared);
            });
            self.pump(TURNED_OVER)?;
        }
        self.settle_devices()?;
        self.pump(TURNED_OVER)?;
        self.settle_devices()
    }

    fn settle_devices(&mut self) -> Result<(), String> {
        let deadline = self.now() + self.settle_timeout();
        let mut is_asked = vec![false; self.devices.len()];
        let mut rounds = 0_usize;
        loop {
            let mut is_settled = true;
            rounds += 1;
            if rounds.is_multiple_of(ROOM_AGAIN_EVERY) {
                for device in &mut self.devices {
                    device.waits_no_longer();
                }
            }
            for (device, is_asked) in is_asked.iter_mut().enumerate() {
                if !self.devices[device].is_connected() {
                    *is_asked = false;
                    let sent_to = self.devices[device].take_sent_to();
                    let link = self.server.connect(sent_to);
                    self.with(device, |device, shared| device.connect(link, shared));
                }
                if self.devices[device].is_stuck() {
                    return Err(format!("does not log in: {}", self.devices[device].state()));
                }
                if self.devices[device].is_ready() && !*is_asked {
                    *is_asked = true;
                    self.with(device, |device, shared| {
                        device.work(shared);
                        device.set_activity(true);
                        device.acknowledge(shared);
                        device.catch_up();
                        device.work(shared);
                        device.request();
                    });
                }
                self.with(device, Device::enter);
                let is_where_it_should = self.with(device, |device, shared| {
                    !device.has_room(shared) || device.in_room().is_some()
                });
                is_settled &= is_where_it_should;
                is_settled &= *is_asked && self.devices[device].is_settled();
            }
            if is_settled {
                return Ok(());
            }
            if self.now() > deadline {
                let is_open = |device: &&Device| !device.is_settled();
                let open = self.devices.iter().filter(is_open).map(Device::state);
                let open: Vec<String> = open.collect();
                return Err(format!("does not settle: {}", open.join("; ")));
            }
            self.pump(ASK_EVERY)?;
            for device in &mut self.devices {
                if device.is_ready() && !device.is_settled() {
                    device.request();
                }
            }
        }
    }

    /// Reads every user's archive, and what devices still miss.
    fn audit(&mut self) -> Result<(), String> {
        let deadline = self.now() + self.settle_timeout();
        let mut readers = Vec::new();
        for user in 0..self.plan.users {
            let is_reader = |device: &Device| device.plan.user == user && device.is_ready();
            let reader = self.devices.iter().position(is_reader);
            let reader = reader.ok_or(format!("no device of u{user} is there"))?;
            self.with(reader, Device::audit);
            readers.push(reader);
        }
        self.await_queries(deadline)?;
        // One whose stream has ended meanwhile comes back for the next look.
        let in_room = |device: &Device| device.in_room().is_some() && device.is_ready();
        if let Some(reader) = self.devices.iter().position(in_room) {
            self.with(reader, Device::audit_room);
            self.await_queries(deadline)?;
        }
        for device in 0..self.devices.len() {
            self.when_ready(device, |device, shared| {
                device.catch_up();
                device.work(shared);
                device.acknowledge(shared);
                device.request();
            });
        }
        self.await_queries(deadline)?;
        // One that lost its link meanwhile comes back for the next look.
        let is_open = |device: &Device| device.is_connected() && !device.is_settled();
        while self.devices.iter().any(is_open) && self.now() < deadline {
            self.pump(ASK_EVERY)?;
            for device in 0..self.devices.len() {
                self.when_ready(device, |device, _| device.request());
            }
        }
        Ok(())
    }

    fn await_queries(&mut self, deadline: Duration) -> Result<(), String> {
        while self.devices.iter().any(Device::is_querying) {
            if self.now() > deadline {
                return Err("an archive query has no end".to_owned());
            }
            self.pump(Duration::from_millis(2))?;
        }
        Ok(())
    }

    fn check(&mut self) -> Vec<String> {
        self.look_at_homes();
        let finals: Vec<Final<'_>> = self
            .devices
            .iter()
            .map(|device| Final {
                user: device.plan.user,
                is_managed: device.plan.is_managed,
                name: device.name().to_owned(),
                chain: device.chain(),
                known: &device.known,
                there: device.in_room(),
            })
            .collect();
        let rules = Rules {
            has_ordered_ids: self.is_roost,
            may_refuse: self.plan.may_refuse(),
            absent: self.plan.absent(),
            ranges_move: self.plan.faults.moves,
        };
        checker::check(&self.history, &finals, rules)
    }
}
