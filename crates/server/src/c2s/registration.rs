//! In-band registration on a stream that has no session yet (XEP-0077 section 3.1): who may, and
//! how an account is made. Accounts that have sessions are `modules/register.rs`.

use actor::{Mail, Name, Reply};
use net::{AddressKey, Cx};
use ring::rand::SecureRandom;
use telemetry::Counter;
use xmpp::error::{Condition, StanzaError};
use xmpp::sasl;

use super::{C2sService, Conn};
use crate::keys::{SALT_BYTES, derive_keys};
use crate::message::UserMsg;
use crate::message::control::Control;
use crate::operator::{AdminAnswer, AdminCommand};

impl C2sService {
    /// A client wants to have an account made.
    pub(super) fn register(
        &mut self,
        cx: &mut Cx<'_>,
        conn: &mut Conn,
        user: String,
        password: String,
    ) {
        if self.is_joined(conn, &user) {
            return self.join(cx, conn, &user);
        }
        let per_hour = self.home.options.registrations_per_hour;
        let (addresses, key) = (&self.home.guard.addresses, AddressKey::of(conn.address));
        if !addresses.may_register(key, per_hour, cx.now()) {
            self.brake(conn.address, cx.now());
            let error = StanzaError::new(Condition::ResourceConstraint)
                .with_text("Too many registrations from this address; try again later.");
            return conn.machine.registered(Err(error), cx.out());
        }
        if self
            .home
            .guard
            .shares
            .is_full(&user, self.home.limits().domain_bytes_max)
        {
            cx.mail().stats().count(Counter::StorageRefused);
            self.brake(conn.address, cx.now());
            let error = StanzaError::new(Condition::ResourceConstraint)
                .with_text("The server has no room for another account.");
            return conn.machine.registered(Err(error), cx.out());
        }
        let now = cx.mail().wall();
        if self.lists().bans_account(&user, now) {
            // As if somebody had the name.
            let error = StanzaError::new(Condition::Conflict);
            return conn.machine.registered(Err(error), cx.out());
        }
        let (remote, handle, id) = (self.remote.clone(), self.handle.clone(), cx.id());
        let (shard, iterations) = (
            self.home.place.shard(&user),
            self.home.options.scram_iterations,
        );
        let mut salt = [0; SALT_BYTES];
        let filled = self.random.fill(&mut salt).is_ok();
        let created = cx.mail().wall();
        let job = move || {
            let Ok(password) = sasl::prepare_password(&password) else {
                return;
            };
            let scram = derive_keys(&password, &salt, iterations);
            let account = store::Account {
                created,
                locked: false,
                scram,
            };
            // The thread has others' keys to derive: it does not wait for the account's answer.
            let reply = Reply::to_callback(move |answer| {
                let result = match answer {
                    Ok(AdminAnswer::Done) => Ok(()),
                    Ok(AdminAnswer::Exists) => Err(Condition::Conflict),
                    _ => Err(Condition::InternalServerError),
                };
                // A connection that is gone needs no answer.
                let _ = remote.control(id, Control::Registered(result));
            });
            let command = Box::new(AdminCommand::Create(account));
            // What finds no room is dropped, and says so by its reply.
            let _ = handle.send_named(
                shard,
                &Name::from(&*user),
                UserMsg::Admin { command, reply },
            );
        };
        if !filled || self.home.crypto.run(job).is_err() {
            let error = StanzaError::new(Condition::ResourceConstraint);
            conn.machine.registered(Err(error), cx.out());
        }
    }
}
