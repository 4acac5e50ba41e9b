//! Links and monitors: who hears of whose end.
//!
//! Owns both ends of every relation, on one shard or two. A relation is set up by a message to the
//! other shard; if the other actor is gone by then, its end is reported from there.

use stdx::slab::Key;

use crate::core::Core;
use crate::realm::Extra;
use crate::types::{ActorId, MonitorId, Reason, Signal};

impl Core {
    /// Does something where an actor lives.
    fn at(&mut self, who: ActorId, job: impl FnOnce(&mut Core) + Send + 'static) {
        if who.shard == self.id {
            job(self);
        } else {
            self.send_call(who.shard, Box::new(job));
        }
    }

    fn is_there(&mut self, who: ActorId) -> bool {
        self.describe(who).is_some()
    }

    pub(crate) fn monitor(&mut self, me: ActorId, who: ActorId) -> MonitorId {
        self.next_monitor += 1;
        let monitor = MonitorId(self.next_monitor);
        if let Some(extra) = self.extra(me) {
            extra.watching.push((monitor, who));
        }
        self.at(who, move |core| {
            if core.is_there(who) {
                if let Some(extra) = core.extra(who) {
                    extra.watchers.push((monitor, me));
                }
            } else {
                core.signal(
                    me,
                    Signal::Down {
                        monitor,
                        who,
                        reason: Reason::NoActor,
                    },
                );
            }
        });
        monitor
    }

    pub(crate) fn demonitor(&mut self, me: ActorId, monitor: MonitorId) {
        let Some(extra) = self.extra(me) else { return };
        let Some(at) = extra.watching.iter().position(|(id, _)| *id == monitor) else {
            return;
        };
        let (_, who) = extra.watching.swap_remove(at);
        self.forget_watcher(who, monitor, me);
    }

    fn forget_watcher(&mut self, who: ActorId, monitor: MonitorId, me: ActorId) {
        self.at(who, move |core| {
            if core.is_there(who)
                && let Some(extra) = core.extra(who)
            {
                extra.watchers.retain(|watcher| *watcher != (monitor, me));
            }
        });
    }

    pub(crate) fn link(&mut self, me: ActorId, who: ActorId) {
        if me == who {
            return;
        }
        match self.extra(me) {
            Some(extra) if !extra.links.contains(&who) => extra.links.push(who),
            _ => return,
        }
        self.at(who, move |core| {
            if core.is_there(who) {
                if let Some(extra) = core.extra(who)
                    && !extra.links.contains(&me)
                {
                    extra.links.push(me);
                }
            } else {
                core.signal(
                    me,
                    Signal::Exit {
                        who,
                        reason: Reason::NoActor,
                    },
                );
            }
        });
    }

    pub(crate) fn unlink(&mut self, me: ActorId, who: ActorId) {
        if let Some(extra) = self.extra(me) {
            extra.links.retain(|id| *id != who);
        }
        self.at(who, move |core| {
            if core.is_there(who)
                && let Some(extra) = core.extra(who)
            {
                extra.links.retain(|id| *id != me);
            }
        });
    }

    /// Tells everybody who is tied to an actor that it ended.
    pub(crate) fn tell_relations(&mut self, realm: u16, key: Key, extra: Extra, reason: &Reason) {
        let me = self.actor_id(realm, key);
        for (monitor, watcher) in extra.watchers {
            self.signal(
                watcher,
                Signal::Down {
                    monitor,
                    who: me,
                    reason: reason.clone(),
                },
            );
        }
        for linked in extra.links {
            self.signal(
                linked,
                Signal::Exit {
                    who: me,
                    reason: reason.clone(),
                },
            );
        }
        for (monitor, who) in extra.watching {
            self.forget_watcher(who, monitor, me);
        }
    }
}
