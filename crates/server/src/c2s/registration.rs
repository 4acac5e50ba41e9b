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
        let made = match self.may_register(cx, conn, &user) {
            Ok(()) => self.make_account(cx, user, password),
            Err(error) => Err(error),
        };
        if let Err(error) = made {
            conn.machine.registered(Err(error), cx.out());
        }
    }

    /// Whether somebody may have an account of that name, or what he is told.
    fn may_register(
        &mut self,
        cx: &mut Cx<'_>,
        conn: &Conn,
        user: &str,
    ) -> Result<(), StanzaError> {
        let per_hour = self.home.options.registrations_per_hour;
        let (addresses, key) = (&self.home.guard.addresses, AddressKey::of(conn.address));
        if !addresses.may_register(key, per_hour, cx.now()) {
            self.brake(conn.address, cx.now());
            let error = StanzaError::new(Condition::ResourceConstraint)
                .with_text("Too many registrations from this address; try again later.");
            return Err(error);
        }
        let bytes_max = self.home.limits().domain_bytes_max;
        if self.home.guard.shares.is_full(user, bytes_max) {
            cx.mail().stats().count(Counter::StorageRefused);
            self.brake(conn.address, cx.now());
            let error = StanzaError::new(Condition::ResourceConstraint)
                .with_text("The server has no room for another account.");
            return Err(error);
        }
        if self.lists().bans_account(user, cx.mail().wall()) {
            // As if somebody had the name.
            return Err(StanzaError::new(Condition::Conflict));
        }
        Ok(())
    }

    /// Has a thread derive the keys, and the account's actor make the account.
    fn make_account(
        &mut self,
        cx: &mut Cx<'_>,
        user: String,
        password: String,
    ) -> Result<(), StanzaError> {
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
        match filled && self.home.crypto.run(job).is_ok() {
            true => Ok(()),
            false => Err(StanzaError::new(Condition::ResourceConstraint)),
        }
    }
}
