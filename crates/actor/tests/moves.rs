//! Entities that move between shards while others send to them: everything arrives once, in the
//! order of each sender, whatever the shards' turns.

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use actor::limits::Bounds;
use actor::sim::Sim;
use actor::{
    Actor, AtPause, Context, Core, EntityClass, InTheWay, Leave, Mail, Name, Refused, ShardId,
    Whereabouts,
};
use stdx::rand::Rng;
use telemetry::Counter;

/// Set while the entities are on their way.
const COMING: u16 = 1 << 15;

const SHARDS: u16 = 3;

/// An entity of another part than all others.
const OTHER: &str = "of another part";

/// From which sender, and its number there.
type Sent = (usize, u32);

/// What was heard, by the entity or by its class, which is told what it could not take.
#[derive(Clone, Default)]
struct Heard {
    taken: Arc<Mutex<Vec<Sent>>>,
    refused: Arc<Mutex<Vec<Sent>>>,
}

struct Entity {
    heard: Heard,
    may_move: Leave,
}

/// The entity may never move once it has heard this.
const STAY: Sent = (usize::MAX, 0);

/// It may.
const GO: Sent = (usize::MAX, 1);

impl Actor for Entity {
    type Msg = Sent;

    fn handle(&mut self, msg: Sent, _: &mut Context<'_, Sent>) {
        match msg {
            STAY => self.may_move = Leave::Never,
            GO => self.may_move = Leave::Now,
            _ => self.heard.taken.lock().unwrap().push(msg),
        }
    }

    fn may_move(&self) -> Leave {
        self.may_move
    }
}

impl EntityClass for Heard {
    type Msg = Sent;
    type Actor = Entity;

    fn activate(&mut self, _: &Name, _: ShardId) -> Entity {
        Entity {
            heard: self.clone(),
            may_move: Leave::Now,
        }
    }

    fn refused(&mut self, _: &Name, msg: Sent, why: Refused, _: &mut Core) {
        assert_eq!(why, Refused::Full);
        self.refused.lock().unwrap().push(msg);
    }
}

/// Where the one entity is.
#[derive(Clone)]
struct Place(Arc<AtomicU16>);

impl Place {
    fn shard(&self) -> ShardId {
        ShardId::new(self.0.load(Ordering::Acquire) & !COMING)
    }

    fn is_coming(&self) -> bool {
        self.0.load(Ordering::Acquire) & COMING != 0
    }

    fn whereabouts(&self, here: ShardId) -> Whereabouts {
        match self.shard() {
            shard if shard != here => Whereabouts::On(shard),
            _ if self.is_coming() => Whereabouts::Coming,
            _ => Whereabouts::Here,
        }
    }
}

/// Shards that know one entity, which is loaded on the first of them.
struct Scene {
    sim: Sim,
    place: Place,
    heard: Heard,
    name: Name,
}

impl Scene {
    fn new(mut sim: Sim) -> Scene {
        let heard = Heard::default();
        let place = Place(Arc::default());
        let name = Name::from("entity");
        for shard in (0..SHARDS).map(ShardId::new) {
            sim.shard(shard).set_class(heard.clone());
            let known = place.clone();
            let part = |name: &Name| u16::from(&**name == OTHER);
            sim.shard(shard).set_parts::<Sent>(2, part);
            sim.shard(shard)
                .set_locator::<Sent>(move |_| known.whereabouts(shard));
        }
        let mut scene = Scene {
            sim,
            place,
            heard,
            name,
        };
        // What is said only to those that are loaded finds it from here on, too.
        assert!(scene.say(0, (usize::from(SHARDS), 0), true));
        scene.sim.run_until_idle();
        scene
    }

    /// Sends from a shard; false if it comes back.
    fn say(&mut self, from: u16, msg: Sent, activate: bool) -> bool {
        let to = self.place.shard();
        let sender = self.sim.shard(ShardId::new(from));
        let sent = match activate {
            true => sender.send_named(to, &self.name, msg),
            false => sender.send_named_if_active(to, &self.name, msg),
        };
        sent.is_ok()
    }

    fn move_to(&mut self, to: u16) -> Result<usize, InTheWay> {
        let (leaving, arriving) = (self.place.clone(), self.place.clone());
        let from = self.place.shard();
        self.sim.shard(from).core().move_entities::<Sent>(
            ShardId::new(to),
            0,
            move || leaving.0.store(to | COMING, Ordering::Release),
            move |_| arriving.0.store(to, Ordering::Release),
        )
    }

    /// What came from one sender.
    fn taken(&self, sender: usize) -> Vec<u32> {
        let taken = self.heard.taken.lock().unwrap();
        let of_sender = taken.iter().filter(|(from, _)| *from == sender);
        of_sender.map(|(_, number)| *number).collect()
    }
}

fn play(seed: u64) {
    let mut scene = Scene::new(Sim::new(SHARDS, seed));
    let mut rng = Rng::with_seed(!seed);
    let mut sent = [0; SHARDS as usize];
    let mut moves = 0;
    for _ in 0..500 {
        match rng.u8(..8) {
            0 if !scene.place.is_coming() => {
                let to = rng.u16(..SHARDS);
                if ShardId::new(to) == scene.place.shard() {
                    continue;
                }
                // While something waits for it, it stays.
                match scene.move_to(to) {
                    Ok(_) => moves += 1,
                    Err(in_the_way) => assert_eq!(in_the_way, InTheWay { soon: 1, never: 0 }),
                }
            }
            1..4 => drop(scene.sim.step()),
            _ => {
                let sender = rng.usize(..usize::from(SHARDS));
                let msg = (sender, sent[sender]);
                sent[sender] += 1;
                assert!(scene.say(sender as u16, msg, rng.bool()), "seed {seed}");
            }
        }
    }
    scene.sim.run_until_idle();
    assert!(!scene.place.is_coming(), "seed {seed}: it has arrived");
    assert!(moves > 2, "seed {seed}");
    for (sender, count) in sent.into_iter().enumerate() {
        let all: Vec<u32> = (0..count).collect();
        assert_eq!(scene.taken(sender), all, "seed {seed}, sender {sender}");
    }
}

#[test]
fn what_is_sent_to_an_entity_that_moves_arrives_once_and_in_order() {
    (0..500).for_each(play);
}

/// What has come is for this incarnation: the next one might not understand it.
#[test]
fn an_entity_handles_what_has_come_before_it_moves() {
    let mut scene = Scene::new(Sim::new(SHARDS, 1));
    assert!(scene.say(0, (0, 0), true));
    assert_eq!(scene.move_to(1), Err(InTheWay { soon: 1, never: 0 }));
    assert_eq!(scene.taken(0), [], "nothing has had its turn");
    scene.sim.run_until_idle();
    assert_eq!(scene.taken(0), [0]);
    assert_eq!(scene.move_to(1), Ok(1));
}

/// Whoever cannot move may be able to once he has handled what came: he is asked again then.
#[test]
fn mail_may_end_what_keeps_an_entity() {
    let mut scene = Scene::new(Sim::new(SHARDS, 1));
    assert!(scene.say(0, STAY, true));
    scene.sim.run_until_idle();
    assert_eq!(scene.move_to(1), Err(InTheWay { soon: 0, never: 1 }));
    assert!(scene.say(0, GO, true));
    assert_eq!(scene.move_to(1), Err(InTheWay { soon: 1, never: 0 }));
    scene.sim.run_until_idle();
    assert_eq!(scene.move_to(1), Ok(1));
}

/// What waits while an entity is on its way was accepted: nothing of it is refused because it is
/// more than a mailbox takes at a time.
#[test]
fn more_than_a_mailbox_may_wait_for_an_entity_that_comes() {
    const MAILBOX: usize = 4;
    let mut scene = Scene::new(Sim::new(SHARDS, 1));
    for shard in 0..SHARDS {
        let shard = scene.sim.shard(ShardId::new(shard));
        shard.set_mailbox_max::<Sent>(MAILBOX);
    }
    // Half of what one of them sends is on its way to where the entity was.
    let count = 5 * MAILBOX as u32;
    for number in 0..count / 2 {
        assert!(scene.say(2, (2, number), true));
    }
    assert_eq!(scene.move_to(1), Ok(1));
    for number in 0..count {
        let senders = if number < count / 2 { 0..2 } else { 0..SHARDS };
        for sender in senders {
            assert!(scene.say(sender, (usize::from(sender), number), true));
        }
    }
    assert!(scene.place.is_coming());
    scene.sim.run_until_idle();
    assert!(!scene.place.is_coming());
    let all: Vec<u32> = (0..count).collect();
    for sender in 0..usize::from(SHARDS) {
        assert_eq!(scene.taken(sender), all, "sender {sender}");
    }
    assert_eq!(*scene.heard.refused.lock().unwrap(), []);
    // From then on the bound holds as before.
    let taken = (0..count).filter(|number| scene.say(1, (9, *number), true));
    assert_eq!(taken.count(), MAILBOX);
}

/// What is said to an entity that is paused: what waits, and what passes it.
const WAITS: usize = 0;
const PASSES: usize = 1;
const RECALLS: usize = 2;

impl Scene {
    fn pause(&mut self) -> bool {
        self.pause_part(0)
    }

    fn pause_part(&mut self, part: u16) -> bool {
        let core = self.sim.shard(self.place.shard()).core();
        core.pause::<Sent>(part, |(sender, _)| match *sender {
            WAITS => AtPause::Waits,
            PASSES => AtPause::Passes,
            _ => AtPause::Recalls,
        })
    }

    fn is_paused(&mut self) -> bool {
        let core = self.sim.shard(self.place.shard()).core();
        core.is_paused::<Sent>(0)
    }

    /// Says something on the shard where the entity is.
    fn say_here(&mut self, sender: usize, number: u32) {
        let here = self.place.shard().index();
        assert!(self.say(here, (sender, number), true));
        self.sim.run_until_idle();
    }

    /// All that was heard since, in its order.
    fn heard(&self) -> Vec<Sent> {
        let taken = self.heard.taken.lock().unwrap();
        taken.iter().skip(1).copied().collect()
    }
}

/// Goal: what begins something waits; what is under way does not; and where both must stay in
/// order, what waits is handled first.
#[test]
fn what_is_new_waits_while_an_entity_is_paused() {
    let mut scene = Scene::new(Sim::new(SHARDS, 1));
    assert!(scene.pause() && scene.is_paused());
    assert!(!scene.pause(), "one at a time");
    scene.say_here(WAITS, 0);
    scene.say_here(PASSES, 1);
    assert_eq!(scene.heard(), [(PASSES, 1)]);
    scene.say_here(RECALLS, 2);
    scene.say_here(WAITS, 3);
    let recalled = [(PASSES, 1), (WAITS, 0), (RECALLS, 2)];
    assert_eq!(scene.heard(), recalled);
    let here = scene.place.shard();
    scene.sim.shard(here).core().end_pause::<Sent>(0);
    assert!(!scene.is_paused());
    scene.sim.run_until_idle();
    assert_eq!(scene.heard()[3..], [(WAITS, 3)]);
}

/// Goal: what waits follows an entity, in front of what is sent to where it comes to.
#[test]
fn what_waits_goes_along() {
    let mut scene = Scene::new(Sim::new(SHARDS, 1));
    scene.pause();
    for number in 0..10 {
        scene.say_here(WAITS, number);
    }
    assert_eq!(scene.heard(), []);
    assert_eq!(scene.move_to(1), Ok(1));
    assert!(!scene.is_paused());
    // From the shard where it was.
    for number in 10..20 {
        assert!(scene.say(0, (WAITS, number), true));
    }
    scene.sim.run_until_idle();
    assert_eq!(scene.taken(WAITS), (0..20).collect::<Vec<_>>());
    let before = scene.sim.shard(ShardId::new(0)).core();
    assert!(!before.is_paused::<Sent>(0));
}

/// Goal: an entity that ends in a pause, as by a crash, is followed by one that gets what was in
/// its mailbox before what waits.
#[test]
fn what_was_there_before_a_pause_is_handled_before_what_waits() {
    let mut scene = Scene::new(Sim::new(SHARDS, 1));
    let here = scene.place.shard();
    assert!(scene.say(here.index(), (WAITS, 0), true));
    scene.pause();
    assert!(scene.say(here.index(), (WAITS, 1), true));
    let name = Name::clone(&scene.name);
    let shard = scene.sim.shard(here);
    let entity = shard.core().whereis::<Sent>(&name).expect("it is loaded");
    shard.core().kill(entity.id());
    scene.sim.run_until_idle();
    assert_eq!(scene.taken(WAITS), [0]);
    scene.sim.shard(here).core().end_pause::<Sent>(0);
    scene.sim.run_until_idle();
    assert_eq!(scene.taken(WAITS), [0, 1]);
}

/// Goal: with more than may wait a pause is over: nothing is refused, and all stays in order.
#[test]
fn one_more_than_may_wait_ends_a_pause() {
    const PAUSED_MAX: usize = 8;
    let bounds = Bounds {
        paused_max: PAUSED_MAX,
        ..Bounds::USUAL
    };
    let mut scene = Scene::new(Sim::bounded(SHARDS, 1, bounds));
    scene.pause();
    let max = PAUSED_MAX as u32;
    for number in 1..=max {
        scene.say_here(WAITS, number);
    }
    assert!(scene.is_paused());
    scene.say_here(WAITS, max + 1);
    assert!(!scene.is_paused());
    assert_eq!(scene.taken(WAITS), (1..=max + 1).collect::<Vec<_>>());
    assert_eq!(*scene.heard.refused.lock().unwrap(), []);
}

/// Goal: each part that is paused goes on by itself, also at the bound.
#[test]
fn parts_are_paused_each_by_itself() {
    const PAUSED_MAX: usize = 2;
    let bounds = Bounds {
        paused_max: PAUSED_MAX,
        ..Bounds::USUAL
    };
    let mut scene = Scene::new(Sim::bounded(SHARDS, 1, bounds));
    let other = Name::from(OTHER);
    let say_other = |scene: &mut Scene, number: u32| {
        let here = scene.place.shard();
        let sent = scene
            .sim
            .shard(here)
            .send_named(here, &other, (WAITS, number));
        assert!(sent.is_ok());
        scene.sim.run_until_idle();
    };
    assert!(scene.pause() && scene.pause_part(1));
    scene.say_here(WAITS, 0);
    say_other(&mut scene, 10);
    say_other(&mut scene, 11);
    scene.say_here(WAITS, 1);
    assert_eq!(scene.heard(), []);
    say_other(&mut scene, 12);
    assert_eq!(scene.taken(WAITS), [10, 11, 12]);
    assert!(scene.is_paused());
    let here = scene.place.shard();
    scene.sim.shard(here).core().end_pause::<Sent>(0);
    scene.sim.run_until_idle();
    assert_eq!(scene.taken(WAITS), [10, 11, 12, 0, 1]);
}

/// There is a bound for all that wait together; beyond it each sender is told, and nobody else
/// loses anything.
#[test]
fn one_more_than_may_wait_for_entities_that_come_is_refused() {
    const COMING_MAX: usize = 8;
    let bounds = Bounds {
        coming_max: COMING_MAX,
        ..Bounds::USUAL
    };
    let mut scene = Scene::new(Sim::bounded(SHARDS, 1, bounds));
    assert_eq!(scene.move_to(1), Ok(1));
    let direct: Vec<u32> = (0..20)
        .filter(|number| scene.say(1, (1, *number), true))
        .collect();
    assert_eq!(direct, (0..COMING_MAX as u32).collect::<Vec<_>>());
    // On its way from another shard it finds no room either.
    assert!(scene.say(2, (2, 0), true));
    scene.sim.run_until_idle();
    assert_eq!(scene.taken(1), direct);
    assert_eq!(scene.taken(2), []);
    assert_eq!(*scene.heard.refused.lock().unwrap(), [(2, 0)]);
    // It has arrived, and the room is there again.
    assert!(scene.say(2, (2, 1), true));
    scene.sim.run_until_idle();
    assert_eq!(scene.taken(2), [1]);
}

/// A panic in what a shard does for another one takes nothing with it that comes behind: else the
/// entity would be on its way for ever.
#[test]
fn an_entity_arrives_behind_calls_that_panic() {
    let mut scene = Scene::new(Sim::new(SHARDS, 1));
    let shards = [1, 2].map(ShardId::new);
    let here = scene.sim.shard(ShardId::new(0));
    for shard in shards {
        assert!(here.run_on(shard, |_| panic!("on purpose")));
    }
    assert_eq!(scene.move_to(1), Ok(1));
    assert!(scene.say(2, (2, 0), true));
    scene.sim.run_until_idle();
    assert!(!scene.place.is_coming());
    assert_eq!(scene.taken(2), [0]);
    for shard in shards {
        let panics = scene.sim.shard(shard).counter(Counter::CallPanics);
        assert_eq!(panics, 1);
    }
}

/// One that may not move keeps all others there.
#[test]
fn those_that_may_not_move_stay_together() {
    let mut scene = Scene::new(Sim::new(SHARDS, 1));
    assert!(scene.say(0, STAY, true));
    let (here, there) = (ShardId::new(0), ShardId::new(1));
    let other = Name::from("other");
    scene.sim.shard(here).send_named(here, &other, GO).unwrap();
    scene.sim.run_until_idle();
    let leave = || panic!("nothing leaves");
    let core = scene.sim.shard(here).core();
    let moved = core.move_entities::<Sent>(there, 0, leave, |_| {});
    assert_eq!(moved, Err(InTheWay { soon: 0, never: 1 }));
    assert_eq!(scene.sim.shard(here).actors(), 2);
}

/// What an entity costs is the cost of its part.
#[test]
fn costs_are_told_apart() {
    let mut sim = Sim::new(1, 1);
    let here = ShardId::new(0);
    sim.shard(here).set_class(Heard::default());
    sim.shard(here).set_parts::<Sent>(2, |_| 1);
    let name = Name::from("entity");
    sim.shard(here).send_named(here, &name, GO).unwrap();
    sim.run_until_idle();
    let costs = sim.shard(here).core().costs::<Sent>();
    assert!(costs[0] == 0 && costs[1] > 0, "{costs:?}");
}
