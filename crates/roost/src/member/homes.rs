//! Which ranges this node serves, brought to what its streams and the map say. Owns what the server
//! was told last; looked at often, so that nothing hangs on an event that was lost.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use cluster::driver::Driver;
use cluster::journal::Epoch;
use cluster::layout::StreamId;
use cluster::link::{Links, Where};
use server::Door;
use server::away::NodeId;

/// What the server was told.
pub(super) struct Homes<'a> {
    driver: &'a Driver,
    links: &'a Links,
    door: &'a Door,
    own: String,
    /// By stream: the tenure in which its ranges are served here, 0 if they are not.
    served: Vec<Epoch>,
    /// By stream: where it is, if not here.
    away: Vec<Option<(String, Epoch)>>,
    peers: BTreeMap<String, Where>,
}

impl<'a> Homes<'a> {
    pub(super) fn new(driver: &'a Driver, links: &'a Links, door: &'a Door, own: String) -> Self {
        let streams = driver.layout().streams().count();
        Homes {
            driver,
            links,
            door,
            own,
            served: vec![0; streams],
            away: vec![None; streams],
            peers: BTreeMap::new(),
        }
    }

    /// Brings the server to what is so now.
    pub(super) fn look(&mut self) {
        let map = self.driver.map();
        let others = map.nodes.iter().filter(|(name, _)| **name != self.own);
        let peers = others.filter_map(|(name, node)| {
            let place = Where {
                incarnation: node.incarnation,
                address: node.link.clone()?,
            };
            // While the engine elects a leader nobody's lease is renewed: a node that answers on
            // its link lives all the same. Were the link given up, streams would end with it.
            let answers = || self.peers.get(name) == Some(&place) && self.links.is_connected(name);
            (node.is_alive || answers()).then(|| (name.clone(), place.clone()))
        });
        let peers: BTreeMap<String, Where> = peers.collect();
        if peers != self.peers {
            self.links.set_peers(&peers);
            self.peers = peers;
        }
        // What needs no commit is fenced by time.
        let may_act = self.driver.may_act();
        for stream in self.driver.layout().streams() {
            let home = map.homes.get(usize::from(stream.0)).cloned().flatten();
            let serving = match may_act {
                true => self.serving(stream, home.as_ref()),
                false => 0,
            };
            self.serve(stream, serving);
            // What is for the home of a node that died waits for the next one.
            let is_there = |node: &String| *node != self.own && self.peers.contains_key(node);
            self.find(
                stream,
                home.filter(|(node, _)| serving == 0 && is_there(node)),
            );
        }
    }

    /// Tells who watches what is served.
    pub(super) fn show(&self, shown: &[AtomicU64]) {
        for (served, shown) in self.served.iter().zip(shown) {
            shown.store(*served, Ordering::Relaxed);
        }
    }

    /// In which tenure a stream is to be served here: not once the map gave it to somebody else,
    /// who may act already while its task here is held up; and not from now on while it
    /// acknowledges nothing, for whoever logs in would lose his stream with his first change.
    fn serving(&self, stream: StreamId, home: Option<&(String, Epoch)>) -> Epoch {
        let progress = self.driver.progress(stream);
        let is_given_away =
            home.is_some_and(|(node, epoch)| *node != self.own && *epoch > progress.serving);
        let is_served = self.served[usize::from(stream.0)] != 0;
        match is_given_away || progress.lacks_quorum && !is_served {
            true => 0,
            false => progress.serving,
        }
    }

    fn serve(&mut self, stream: StreamId, serving: Epoch) {
        let served = &mut self.served[usize::from(stream.0)];
        let ranges = self.driver.layout().ranges(stream);
        if *served != 0 && !self.door.has(&ranges) {
            // A shard found the lease over, and was faster.
            self.door.lose(&ranges);
            *served = 0;
        }
        if *served == serving {
            return;
        }
        if *served != 0 {
            self.door.lose(&ranges);
            self.away[usize::from(stream.0)] = None;
        }
        *served = serving;
        if serving != 0 {
            self.door.gain(&ranges, tenure(serving));
        }
    }

    fn find(&mut self, stream: StreamId, home: Option<(String, Epoch)>) {
        let known = &mut self.away[usize::from(stream.0)];
        if *known == home {
            return;
        }
        let there = home
            .as_ref()
            .map(|(node, epoch)| (NodeId(self.links.peer(node).0), tenure(*epoch)));
        for range in self.driver.layout().ranges(stream) {
            self.door.set_away(range, there);
        }
        *known = home;
    }
}

/// The number by which messages name a tenure. Epochs count homes: there will not be as many.
fn tenure(epoch: Epoch) -> u32 {
    u32::try_from(epoch).unwrap_or(u32::MAX)
}
