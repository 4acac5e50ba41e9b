//! Entities that move between shards while others send to them: everything arrives once, in the
//! order of each sender, whatever the shards' turns.

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use actor::sim::Sim;
use actor::{Actor, Context, EntityClass, InTheWay, Leave, Mail, Name, ShardId, Whereabouts};
use stdx::rand::Rng;

/// Set while the entities are on their way.
const COMING: u16 = 1 << 15;

/// From which sender, and its number there.
type Sent = (usize, u32);

struct Entity(Arc<Mutex<Vec<Sent>>>);

impl Actor for Entity {
    type Msg = Sent;

    fn handle(&mut self, msg: Sent, _: &mut Context<'_, Sent>) {
        self.0.lock().unwrap().push(msg);
    }

    fn may_move(&self) -> Leave {
        Leave::Now
    }
}

struct Class(Arc<Mutex<Vec<Sent>>>);

impl EntityClass for Class {
    type Msg = Sent;
    type Actor = Entity;

    fn activate(&mut self, _: &Name, _: ShardId) -> Entity {
        Entity(Arc::clone(&self.0))
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

const SHARDS: u16 = 3;

fn play(seed: u64) {
    let mut sim = Sim::new(SHARDS, seed);
    let mut rng = Rng::with_seed(!seed);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let place = Place(Arc::default());
    let name = Name::from("entity");
    for shard in (0..SHARDS).map(ShardId::new) {
        sim.shard(shard).set_class(Class(Arc::clone(&heard)));
        let known = place.clone();
        sim.shard(shard).set_parts::<Sent>(1, |_| 0);
        sim.shard(shard)
            .set_locator::<Sent>(move |_| known.whereabouts(shard));
    }
    // What is said only to those that are loaded finds it from here on, too.
    let first: Sent = (usize::from(SHARDS), 0);
    let here = place.shard();
    sim.shard(here).send_named(here, &name, first).unwrap();
    sim.run_until_idle();
    let mut sent = [0; SHARDS as usize];
    let mut moves = 0;
    for _ in 0..500 {
        match rng.u8(..8) {
            0 if !place.is_coming() => {
                let to = ShardId::new(rng.u16(..SHARDS));
                if to == place.shard() {
                    continue;
                }
                let (leaving, arriving) = (place.clone(), place.clone());
                let from = place.shard();
                let moved = sim.shard(from).core().move_entities::<Sent>(
                    to,
                    0,
                    move || leaving.0.store(to.index() | COMING, Ordering::Release),
                    move |_| arriving.0.store(to.index(), Ordering::Release),
                );
                // While something waits for it, it stays.
                match moved {
                    Ok(_) => moves += 1,
                    Err(in_the_way) => assert_eq!(in_the_way, InTheWay { soon: 1, never: 0 }),
                }
            }
            1..4 => drop(sim.step()),
            _ => {
                let sender = rng.usize(..usize::from(SHARDS));
                let msg = (sender, sent[sender]);
                sent[sender] += 1;
                let to = place.shard();
                let sender = sim.shard(ShardId::new(sender as u16));
                let taken = match rng.bool() {
                    true => sender.send_named(to, &name, msg),
                    false => sender.send_named_if_active(to, &name, msg),
                };
                assert!(taken.is_ok(), "seed {seed}");
            }
        }
    }
    sim.run_until_idle();
    assert!(!place.is_coming(), "seed {seed}: it has arrived");
    assert!(moves > 2, "seed {seed}");
    for (sender, count) in sent.into_iter().enumerate() {
        let heard = heard.lock().unwrap();
        let of_sender = heard.iter().filter(|(from, _)| *from == sender);
        let numbers: Vec<u32> = of_sender.map(|(_, number)| *number).collect();
        let all: Vec<u32> = (0..count).collect();
        assert_eq!(numbers, all, "seed {seed}, sender {sender}");
    }
}

#[test]
fn what_is_sent_to_an_entity_that_moves_arrives_once_and_in_order() {
    (0..500).for_each(play);
}

/// One that may not move keeps all others there.
#[test]
fn those_that_may_not_move_stay_together() {
    struct Stays;

    impl Actor for Stays {
        type Msg = ();

        fn handle(&mut self, (): (), _: &mut Context<'_, ()>) {}
    }

    struct Staying;

    impl EntityClass for Staying {
        type Msg = ();
        type Actor = Stays;

        fn activate(&mut self, _: &Name, _: ShardId) -> Stays {
            Stays
        }
    }

    let mut sim = Sim::new(2, 1);
    let (here, there) = (ShardId::new(0), ShardId::new(1));
    sim.shard(here).set_class(Staying);
    sim.shard(here).set_parts::<()>(2, |_| 1);
    let name = Name::from("stays");
    sim.shard(here).send_named(here, &name, ()).unwrap();
    sim.run_until_idle();
    let leave = || panic!("nothing leaves");
    let core = sim.shard(here).core();
    let moved = core.move_entities::<()>(there, 1, leave, |_| {});
    assert_eq!(moved, Err(InTheWay { soon: 0, never: 1 }));
    // It has cost its part something.
    let costs = core.costs::<()>();
    assert!(costs[0] == 0 && costs[1] > 0, "{costs:?}");
}
