//! XEP-0077 In-Band Registration for those who are logged in: a change of one's own password and
//! the removal of one's own account.

use actor::{Context, Mail};
use xml::build::Writer;
use xmpp::error::{Condition, StanzaError};

use crate::address;
use crate::ending::Abort;
use crate::iq::{Answer, Asker, Request};
use crate::message::{NewPassword, UserMsg};
use crate::modules::register::NS;
use crate::user::{Origin, OwnStanza, User};

pub(super) fn query(
    user: &mut User,
    request: &Request<'_>,
    cx: &mut Context<'_, UserMsg>,
) -> Answer {
    let Asker::Owner(_) = request.asker else {
        return Answer::error(Condition::Forbidden);
    };
    let query = match request.tree() {
        Ok(query) => query,
        Err(error) => return Answer::Error(error),
    };
    let local = address::local(&user.name).unwrap_or_default().to_owned();
    if !request.is_set {
        return form(&local);
    }
    if query.has_child("remove", NS) {
        if query.children().count() != 1 {
            return Answer::error(Condition::BadRequest);
        }
        user.remove_account(cx);
        return Answer::done();
    }
    let text = |name| query.get_child(name, NS).map(minidom::Element::text);
    match (text("username"), text("password")) {
        (Some(name), Some(password)) if name.eq_ignore_ascii_case(&local) => {
            change_password(user, request, &password, cx)
        }
        // Section 3.3: the name is one's own.
        (Some(_), Some(_)) => Answer::error(Condition::NotAllowed),
        _ => Answer::error(Condition::BadRequest),
    }
}

fn form(local: &str) -> Answer {
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    writer.open("query").attr("xmlns", NS);
    writer.open("registered").close();
    writer.open("username").text(local).close();
    writer.open("password").close();
    writer.close();
    Answer::Result(out)
}

/// Deriving keys takes milliseconds: a pool thread does it, and the answer waits for the commit.
fn change_password(
    user: &mut User,
    request: &Request<'_>,
    password: &str,
    cx: &mut Context<'_, UserMsg>,
) -> Answer {
    if user.is_changing_password {
        return StanzaError::new(Condition::ResourceConstraint)
            .with_text("Another change of the password is under way; try again after it.")
            .into();
    }
    let password = match xmpp::sasl::prepare_password(password) {
        Ok(password) => password,
        Err(_) => {
            return StanzaError::new(Condition::NotAcceptable)
                .with_text(
                    "This password is empty, too long or has characters that no password may have.",
                )
                .into();
        }
    };
    let mut salt = vec![0; crate::keys::SALT_BYTES];
    cx.rng().fill(&mut salt);
    let iterations = user.home.options.scram_iterations;
    let (frame, conn) = (request.frame.clone(), request.asker.conn());
    let derive = move || crate::keys::derive_keys(&password, &salt, iterations);
    let begun = user.current_generation();
    let debt = request.take_debt();
    let map = move |scram| {
        UserMsg::NewPassword(Box::new(NewPassword {
            frame,
            conn,
            scram,
            begun,
            debt,
        }))
    };
    match cx.blocking(&user.home.crypto, derive, map) {
        Ok(()) => {
            user.is_changing_password = true;
            Answer::Later
        }
        Err(_) => Answer::error(Condition::ResourceConstraint),
    }
}

impl User {
    /// The keys of a new password are there: stored, then the other sessions end, because whoever
    /// changes a password may be shutting somebody out.
    pub(crate) fn password_derived(
        &mut self,
        password: NewPassword,
        cx: &mut Context<'_, UserMsg>,
    ) {
        self.is_changing_password = false;
        // The credit of the request comes back at the end.
        let NewPassword {
            frame,
            conn,
            scram,
            begun,
            debt: _debt,
        } = password;
        if !self.is_registered() || !self.is_current(begun) {
            // An administrator was faster: the session that asked has ended, and what it asked for
            // must not undo what the administrator did.
            return;
        }
        // Whoever asked hears it too if it cannot be saved.
        let mut sessions = self.sessions.iter();
        let session = sessions.find(|session| Some(session.conn) == conn);
        let own = session.and_then(|session| {
            Some(OwnStanza {
                conn: session.conn,
                link: session.link()?,
                is_counted: session.managed.is_some(),
                frame: frame.clone(),
            })
        });
        if let Some(own) = own {
            self.comes_from(Origin::Session(own));
        }
        self.end_generation(Abort::CredentialsChanged);
        self.put_account(scram, self.is_locked);
        if let (Some(conn), Some(reply)) = (conn, xmpp::stanza::result(&frame, &[])) {
            self.write_frame(conn, &reply, cx);
        }
        self.end_sessions_except(conn, Abort::CredentialsChanged, cx);
    }
}
