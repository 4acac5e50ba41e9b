//! The handshake: how two nodes prove to each other who they are.
//!
//! Owns what is said before a connection is a link, and the choice between two connections of one
//! pair. Deliberately not here: dialling, and links (`links`).
//!
//! ```text
//! dialler                         acceptor
//!    │ Hello(name, to, life, nonce) ─▶│ versions, names
//!    │◀─ Hello(name, life, nonce)     │
//!    │ Proof(cookie, both nonces) ───▶│ checks it; is there a link already?
//!    │◀─ Proof(cookie, both nonces)   │ linked
//!    │ linked                         │
//! ```
//!
//! Either side may say `Refuse(reason)` instead, and closes.

use ring::hmac;

use super::links::Phase;
use super::{Effect, Machine};
use crate::limits::HELLO_BYTES_MAX;
use crate::types::{NodeName, Refusal};
use crate::wire::{self, Frame, Greeting, Hello, VERSION_MAX, VERSION_MIN};

impl Machine {
    pub(super) fn say_hello(&mut self, id: u64, to: Option<NodeName>, nonce: [u8; 16]) {
        let hello = Hello {
            name: self.me.clone(),
            to,
            life: self.life,
            hidden: self.hidden,
            nonce,
        };
        let greeting = Greeting::Hello {
            version_min: VERSION_MIN,
            version_max: VERSION_MAX,
            hello: Some(hello),
        };
        self.greet(id, &greeting);
    }

    pub(super) fn greet(&mut self, id: u64, greeting: &Greeting) {
        if let Some(conn) = self.conns.get_mut(&id) {
            wire::write_greeting(greeting, &mut conn.out);
            self.dirty.push(id);
        }
    }

    pub(super) fn refuse(&mut self, id: u64, why: Refusal) {
        self.greet(id, &Greeting::Refuse(why));
        self.end_conn(id, why);
    }

    /// Bytes have come.
    pub(crate) fn received(&mut self, id: u64, bytes: &[u8]) {
        let Some(conn) = self.conns.get_mut(&id) else {
            return;
        };
        conn.heard = self.now;
        let mut inbound = std::mem::take(&mut conn.inbound);
        inbound.push(bytes);
        let is_alive = loop {
            let Some(conn) = self.conns.get(&id) else {
                break false;
            };
            let peer = match &conn.phase {
                Phase::Up(peer) => Some(peer.clone()),
                _ => None,
            };
            let max = match peer {
                Some(_) => self.limits.frame_bytes_max,
                None => HELLO_BYTES_MAX,
            };
            let body = match inbound.next(max) {
                Ok(Some(body)) => body,
                Ok(None) => break true,
                Err(_) => {
                    self.break_off(id, Refusal::TooLarge);
                    break false;
                }
            };
            let read = match &peer {
                Some(peer) => wire::read(body).map(|frame| self.frame(peer, frame)),
                None => wire::read_greeting(body).map(|greeting| self.greeted(id, greeting)),
            };
            if read.is_err() {
                self.break_off(id, Refusal::Malformed);
                break false;
            }
        };
        if is_alive && let Some(conn) = self.conns.get_mut(&id) {
            conn.inbound = inbound;
        }
    }

    /// Ends a connection because of what came over it, and says so.
    pub(super) fn break_off(&mut self, id: u64, why: Refusal) {
        match self.conns.get(&id).map(|conn| &conn.phase) {
            Some(Phase::Up(_)) => {
                self.write_to(id, &Frame::Bye(why));
                self.end_conn(id, why);
            }
            Some(_) => self.refuse(id, why),
            None => {}
        }
    }

    fn greeted(&mut self, id: u64, greeting: Greeting) {
        let Some(conn) = self.conns.get_mut(&id) else {
            return;
        };
        match (greeting, &conn.phase) {
            (Greeting::Refuse(why), _) => {
                self.effects.push(Effect::Close { conn: id });
                self.closed(id, why);
            }
            (
                Greeting::Hello {
                    version_min,
                    version_max,
                    hello,
                },
                Phase::Hello,
            ) => {
                let is_known = version_min <= VERSION_MAX && version_max >= VERSION_MIN;
                match hello {
                    _ if !is_known => self.refuse(id, Refusal::Version),
                    Some(hello) => self.hello(id, hello),
                    None => self.refuse(id, Refusal::Malformed),
                }
            }
            (Greeting::Proof(proof), Phase::Proof(hello)) => {
                let hello = hello.clone();
                self.proved(id, hello, &proof);
            }
            _ => self.refuse(id, Refusal::Malformed),
        }
    }

    fn hello(&mut self, id: u64, hello: Hello) {
        let Some(conn) = self.conns.get_mut(&id) else {
            return;
        };
        let has_dialled = conn.dialled.is_some();
        let is_it = match &conn.dialled {
            Some(node) => *node == hello.name,
            None => hello.to.as_ref() == Some(&self.me),
        };
        if hello.name == self.me || !is_it {
            let is_same = hello.name == self.me;
            let why = if is_same {
                Refusal::SameName
            } else {
                Refusal::OtherName
            };
            return self.refuse(id, why);
        }
        let nonce = conn.nonce;
        conn.phase = Phase::Proof(hello.clone());
        if has_dialled {
            let proof = self.proof(true, &self.me, &hello.name, nonce, hello.nonce);
            self.greet(id, &Greeting::Proof(proof));
        } else {
            self.say_hello(id, None, nonce);
        }
    }

    /// What the dialler (or acceptor) `who` says to prove that it knows the secret.
    fn proof(
        &self,
        dialled: bool,
        who: &NodeName,
        to: &NodeName,
        own: [u8; 16],
        other: [u8; 16],
    ) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(if dialled { b"dial" } else { b"take" });
        for name in [who, to] {
            context.update(&(name.as_str().len() as u32).to_be_bytes());
            context.update(name.as_str().as_bytes());
        }
        context.update(&own);
        context.update(&other);
        let tag = context.sign();
        let mut proof = [0; 32];
        proof.copy_from_slice(tag.as_ref());
        proof
    }

    fn proved(&mut self, id: u64, hello: Hello, proof: &[u8; 32]) {
        let Some(conn) = self.conns.get(&id) else {
            return;
        };
        let (has_dialled, nonce) = (conn.dialled.is_some(), conn.nonce);
        let expected = self.proof(!has_dialled, &hello.name, &self.me, hello.nonce, nonce);
        // Both sides are messages of the same length under our key: equal or not, in constant time.
        let is_good = hmac::verify(&self.key, &expected, hmac::sign(&self.key, proof).as_ref());
        if is_good.is_err() {
            return self.refuse(id, Refusal::Cookie);
        }
        if let Err(why) = self.make_way(id, &hello) {
            return self.refuse(id, why);
        }
        if !has_dialled {
            let proof = self.proof(false, &self.me, &hello.name, nonce, hello.nonce);
            self.greet(id, &Greeting::Proof(proof));
        }
        self.link_up(id, &hello);
    }

    /// Decides between this connection and another with the same node.
    fn make_way(&mut self, id: u64, hello: &Hello) -> Result<(), Refusal> {
        let Some(peer) = self.peers.get(&hello.name) else {
            return Ok(());
        };
        if let Some(up) = peer.up {
            if hello.life == peer.life {
                return Err(Refusal::Duplicate);
            }
            if hello.life < peer.life {
                return Err(Refusal::OldLife);
            }
            self.end_conn(up, Refusal::OldLife);
        }
        let dialing = self.peers.get(&hello.name).and_then(|peer| peer.dialing);
        match dialing {
            Some(ours) if ours != id => {
                if self.me < hello.name {
                    return Err(Refusal::Duplicate);
                }
                // Ours gives way; what waits for it goes over this one.
                self.forget_conn(ours);
                self.effects.push(Effect::Close { conn: ours });
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
