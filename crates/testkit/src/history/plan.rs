//! What one seed does: who takes part, how the server is set up, and what happens next. Everything
//! is drawn from the seed, so that a failing one is played again from its number. Owns chances;
//! it carries nothing out.

use super::disk::Mood;
use super::nodes::{Trouble, Troubles, draw};
use super::others;
use std::time::Duration;

/// Which disturbances a run may choose from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The process is killed and started again.
    pub kills: bool,
    /// The process is stopped for a while.
    pub stops: bool,
    /// At a kill, what was not synced is gone.
    pub unsynced: bool,
    /// The disk is full or fails for a while.
    pub disk: bool,
    /// Links end without a word.
    pub cuts: bool,
    /// Devices lose what they had in memory.
    pub amnesia: bool,
    /// Actors of accounts crash.
    pub actors: bool,
    /// Ranges of accounts move from one shard to another.
    pub moves: bool,
    /// Others write to accounts that are away, crash or are removed, and an operator imports and
    /// asks meanwhile. Against one process alone.
    pub others: bool,
}

impl Faults {
    /// Everything at once.
    pub const ALL: Self = Self {
        kills: true,
        stops: true,
        unsynced: true,
        disk: true,
        cuts: true,
        amnesia: true,
        actors: true,
        moves: true,
        others: true,
    };
}

/// One device of a user.
#[derive(Clone, Debug)]
pub(super) struct DevicePlan {
    pub(super) user: usize,
    pub(super) resource: String,
    /// Stream management, else the weaker promise.
    pub(super) is_managed: bool,
    pub(super) has_carbons: bool,
    /// Answers the server's `<r/>` only now and then.
    pub(super) is_lazy: bool,
}

/// A seed, unfolded.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) users: usize,
    pub(super) devices: Vec<DevicePlan>,
    pub(super) steps: usize,
    pub(super) shards: u16,
    /// Every commit is late by so much.
    pub(super) commit_delay: Duration,
    /// Whether commits wait for the disk.
    pub(super) is_fsync: bool,
    pub(super) page: usize,
    /// One send in so many is a burst, each of the others a single message.
    pub(super) burst_every: usize,
    /// Bytes that most bodies are padded with at most.
    pub(super) padding_max: usize,
    /// Messages that a session is sent ahead of what it acknowledges.
    pub(super) unacked_max: u32,
    /// Steps at which the server is killed.
    pub(super) kills: Vec<usize>,
    /// The step at which the disk stops to work, and how.
    pub(super) disk_fault: Option<(usize, Mood)>,
    /// At a kill, nothing of what was not synced survives; else some of it may.
    pub(super) is_all_lost: bool,
    /// Devices with stream management are in a room too.
    pub(super) has_room: bool,
    /// The last user is a member of it who never enters, with one device.
    pub(super) has_absent: bool,
    /// He acknowledges what he is given, and logs in anew again and again.
    pub(super) absent_returns: bool,
    pub(super) faults: Faults,
    /// What befalls the nodes of a cluster, if it is one.
    pub(super) troubles: Option<Vec<Trouble>>,
    /// Bounds of the server that are as small as its configuration lets them be.
    pub(super) tiny: Option<Tiny>,
}

/// Such bounds, by the keys of the configuration. At some of them messages are refused.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tiny {
    /// `limits.window_max`.
    pub(super) window_max: u16,
    /// `delivery.outbox_max`, and `outbox_per_recipient_max` if that is larger.
    pub(super) outbox_max: u32,
    /// `limits.offline_messages_max`.
    pub(super) offline_messages_max: u32,
    /// `delivery.resume_timeout`, in seconds.
    pub(super) resume_timeout_s: u64,
    /// `delivery.ack_timeout`, in seconds.
    pub(super) ack_timeout_s: u64,
    /// `delivery.return_after`, in seconds, if others are there whose recipients fail for longer.
    pub(super) return_after_s: Option<u64>,
}

impl Tiny {
    fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed.rotate_left(16));
        Self {
            window_max: [1, 2, 4, 64][rng.usize(..4)],
            outbox_max: [1, 2, 4, 10_000][rng.usize(..4)],
            offline_messages_max: [0, 1, 4, 1_000][rng.usize(..4)],
            resume_timeout_s: [1, 2, 600][rng.usize(..3)],
            ack_timeout_s: [1, 2, 60][rng.usize(..3)],
            return_after_s: None,
        }
    }
}

/// When, once it is due, the kill comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KillMoment {
    /// At once, in the middle of what was just sent.
    Now,
    /// As soon as the server acknowledges something.
    OnAck,
    /// As soon as it delivers something.
    OnDelivery,
}

/// One step of a run. Devices and users are numbers in the plan.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Messages to a user, or to one of its devices.
    Send {
        device: usize,
        user: usize,
        to: Option<usize>,
        count: usize,
    },
    /// A message without a body, which is in no log.
    Typing { device: usize, user: usize },
    /// New presence.
    Presence { device: usize },
    /// A request that is in no log.
    Ping { device: usize },
    /// `</stream:stream>`.
    Close { device: usize },
    /// The link ends without a word.
    Cut { device: usize, reset: bool },
    /// The app is killed: its session is forgotten, and if `outbox` what was not acknowledged too.
    Forget { device: usize, outbox: bool },
    /// Nothing is read for a while.
    Stall { device: usize, steps: usize },
    /// An acknowledgement is asked for.
    Request { device: usize },
    /// What was received is acknowledged unasked.
    Acknowledge { device: usize },
    /// Client state.
    Activity { device: usize, is_active: bool },
    /// The archive is asked for what was missed.
    CatchUp { device: usize },
    /// The process is stopped for so many milliseconds.
    Stop { ms: u64 },
    /// Nothing for so many milliseconds.
    Pause { ms: u64 },
}

const USERS: std::ops::RangeInclusive<usize> = 3..=5;
/// Users of the world; a plan uses the first few.
pub(super) const USERS_MAX: usize = 5;
/// Users of a plan for a server inside this process.
const USERS_INSIDE: usize = 3;
const DEVICES_MAX: usize = 12;
const BURST_MAX: usize = 8;
/// Bytes that a body is padded with at most.
pub(super) const PADDING_MAX: usize = 700;
/// Of a plan for a server inside this process, one send in so many is a burst.
const BURST_EVERY_INSIDE: usize = 3;
/// Bytes that most of its bodies are padded with at most.
const PADDING_MAX_INSIDE: usize = 50;

impl Plan {
    pub(super) fn new(seed: u64, faults: Faults) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let users = rng.usize(USERS);
        let mut devices = Vec::new();
        for user in 0..users {
            for number in 0..rng.usize(1..=3) {
                devices.push(DevicePlan {
                    user,
                    resource: format!("d{number}"),
                    is_managed: number == 0 || rng.f32() < 0.8,
                    has_carbons: rng.f32() < 0.7,
                    is_lazy: rng.f32() < 0.3,
                });
            }
        }
        // Every user keeps one.
        while devices.len() > DEVICES_MAX {
            let more = |device: &DevicePlan| device.resource != "d0";
            let surplus = devices.iter().rposition(more).unwrap_or(devices.len() - 1);
            devices.remove(surplus);
        }
        if faults.moves && seed % 2 == 1 {
            // One without stream management keeps the range of its account where it is.
            devices
                .iter_mut()
                .for_each(|device| device.is_managed = true);
        }
        let steps = rng.usize(90..=160);
        let mut at = |count: usize| {
            let mut steps: Vec<usize> = (0..count).map(|_| rng.usize(15..steps - 10)).collect();
            steps.sort_unstable();
            steps.dedup();
            steps
        };
        let kills = if faults.kills { at(2) } else { Vec::new() };
        let moods = [Mood::Full, Mood::Broken, Mood::Unsyncable];
        let disk_fault = at(usize::from(faults.disk)).first().copied();
        let disk_fault = disk_fault.map(|at| (at, moods[rng.usize(..3)]));
        let delays_ms = [0, 0, 0, 2, 10];
        // Drawn in any case, so that seeds keep the plans they had.
        let shards = rng.u16(1..=2);
        Self {
            users,
            devices,
            steps,
            shards: if faults.moves { 3 - shards % 2 } else { shards },
            commit_delay: Duration::from_millis(delays_ms[rng.usize(..delays_ms.len())]),
            is_fsync: faults.unsynced || rng.bool(),
            page: [2, 5, 20, 50][rng.usize(..4)],
            burst_every: 1,
            padding_max: PADDING_MAX,
            unacked_max: [10, 25, 1_000][(seed % 3) as usize],
            kills,
            disk_fault,
            is_all_lost: rng.bool(),
            has_room: (seed / 2).is_multiple_of(2),
            has_absent: (seed / 4).is_multiple_of(2),
            absent_returns: (seed / 8).is_multiple_of(2),
            faults,
            troubles: None,
            tiny: None,
        }
    }

    /// The same for a cluster, which is played with for as long as something befalls it. All
    /// devices have stream management: without it a session ends with its node.
    pub(super) fn over_nodes(seed: u64, troubles: Troubles) -> Self {
        let faults = Faults {
            cuts: true,
            // What is sent again in another session is free to come out of order: half of the seeds
            // are without.
            amnesia: seed.is_multiple_of(2),
            ..Faults::default()
        };
        let mut plan = Self::new(seed, faults);
        for device in &mut plan.devices {
            device.is_managed = true;
        }
        plan.padding_max = PADDING_MAX_INSIDE;
        plan.burst_every = BURST_EVERY_INSIDE;
        plan.troubles = Some(draw(seed, troubles));
        // It would disturb a journal that stands alone.
        plan.commit_delay = Duration::ZERO;
        plan
    }

    /// The same with bounds of the server that are as small as they may be.
    pub(super) fn with_tiny_bounds(self, seed: u64) -> Self {
        let mut tiny = Tiny::new(seed);
        if self.faults.others {
            tiny.return_after_s = others::returns_soon(seed).then_some(others::RETURN_AFTER_S);
            if others::is_crowded(seed) {
                // Else the crowd comes back instead of being remembered.
                tiny.offline_messages_max = others::CROWDED_MESSAGES_MAX;
            }
        }
        Self {
            unacked_max: 10,
            tiny: Some(tiny),
            ..self
        }
    }

    /// The same with or without the room. Of a member who is away what all his sessions are given
    /// is one sequence, which several devices would share.
    pub(super) fn with_room(mut self, has_room: bool) -> Self {
        self.has_room &= has_room;
        self.has_absent &= self.has_room;
        if let Some(absent) = self.absent() {
            let is_one = |device: &DevicePlan| device.user != absent || device.resource == "d0";
            self.devices.retain(is_one);
        }
        self
    }

    /// The user who is a member of the room and never enters it.
    pub(super) fn absent(&self) -> Option<usize> {
        self.has_absent.then(|| self.users - 1)
    }

    /// Whether messages may be refused: a sender is told by an error.
    pub(super) fn may_refuse(&self) -> bool {
        self.faults.disk || self.tiny.is_some() || self.troubles.is_some()
    }
}

impl Plan {
    /// A plan for a server inside this process: three users, at least 200 steps, one crash. Less is
    /// sent than to a process, because its worth is the order of what happens, and messages that
    /// only repeat it take the time of other orders.
    pub(super) fn inside(seed: u64, faults: Faults) -> Self {
        let mut plan = Self::new(seed, faults);
        let mut rng = fastrand::Rng::with_seed(seed.rotate_left(32));
        plan.users = USERS_INSIDE;
        plan.devices.retain(|device| device.user < USERS_INSIDE);
        plan.steps = rng.usize(200..=240);
        plan.kills.truncate(1);
        plan.burst_every = BURST_EVERY_INSIDE;
        plan.padding_max = PADDING_MAX_INSIDE;
        plan
    }
}

/// Draws what happens next.
pub(super) struct Dice {
    rng: fastrand::Rng,
}

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        // Another stream than the one that made the plan.
        Self {
            rng: fastrand::Rng::with_seed(seed ^ 0x9e37_79b9_7f4a_7c15),
        }
    }

    pub(super) fn chance(&mut self, of: f32) -> bool {
        self.rng.f32() < of
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.rng.usize(..bound)
    }

    pub(super) fn kill_moment(&mut self) -> KillMoment {
        [KillMoment::Now, KillMoment::OnAck, KillMoment::OnDelivery][self.below(3)]
    }

    pub(super) fn step(&mut self, plan: &Plan) -> Step {
        let rng = &mut self.rng;
        let device = rng.usize(..plan.devices.len());
        let user = rng.usize(..plan.users);
        let faults = plan.faults;
        match rng.u32(..100) {
            0..42 => {
                let of_user: Vec<usize> = (0..plan.devices.len())
                    .filter(|at| plan.devices[*at].user == user)
                    .collect();
                let to = (rng.f32() < 0.25).then(|| of_user[rng.usize(..of_user.len())]);
                // Without a draw where all are bursts: seeds keep the plans they had for processes.
                let is_burst = plan.burst_every == 1 || rng.usize(..plan.burst_every) == 0;
                let count = if is_burst {
                    rng.usize(1..=BURST_MAX)
                } else {
                    1
                };
                Step::Send {
                    device,
                    user,
                    to: to.filter(|to| *to != device),
                    count,
                }
            }
            42..47 => Step::Typing { device, user },
            47..50 => Step::Presence { device },
            50..53 => Step::Ping { device },
            53..56 => Step::Close { device },
            56..66 if faults.cuts => Step::Cut {
                device,
                reset: rng.bool(),
            },
            66..69 if faults.amnesia => Step::Forget {
                device,
                outbox: rng.bool(),
            },
            69..73 => Step::Stall {
                device,
                steps: rng.usize(1..12),
            },
            73..79 => Step::Request { device },
            79..85 => Step::Acknowledge { device },
            85..88 => Step::Activity {
                device,
                is_active: rng.bool(),
            },
            88..91 => Step::CatchUp { device },
            91..93 if faults.stops => Step::Stop { ms: rng.u64(5..60) },
            _ => Step::Pause { ms: rng.u64(0..8) },
        }
    }
}
