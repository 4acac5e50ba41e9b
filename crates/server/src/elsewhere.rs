//! What comes for somebody who is at home on another node: it loads nobody. Owns the actor that
//! takes what was left in a mailbox when its range went away, or came a moment too late, and what
//! becomes of packets that no node took.
//!
//! | comes | then |
//! |---|---|
//! | what another entity said | it is sent on to the home |
//! | a message of its sender's log | its sender's home decides whether it goes on |
//! | anything of a connection | its stream ends: who comes again is led to the home |
//! | an administrator's command | it is dropped, which whoever asked hears |
//! | anything else | it was for the life that ended here, and goes with it |

use std::rc::Rc;
use std::time::Duration;

use actor::{Actor, Context, Mail as _, Name, Refused};
use net::ConnRef;
use wire::{Message, Stanza};

use crate::address;
use crate::ending::Abort;
use crate::home::Home;
use crate::message::control::Control;
use crate::message::{CameBack, Said, UserMsg};

/// After so long it makes way; what comes later brings another one to life.
const REST: Duration = Duration::from_secs(1);

/// The actor of a name that is at home elsewhere.
pub(crate) struct Elsewhere {
    name: Name,
    home: Rc<Home>,
}

impl Elsewhere {
    pub(crate) fn new(name: Name, home: Rc<Home>) -> Elsewhere {
        Elsewhere { name, home }
    }

    fn redirect(&self, conn: ConnRef, cx: &mut Context<'_, UserMsg>) {
        // A connection that has gone meanwhile needs no answer.
        let _ = self.home.io.control(cx, conn, Control::Abort(Abort::Moved));
    }
}

impl Actor for Elsewhere {
    type Msg = UserMsg;

    fn started(&mut self, cx: &mut Context<'_, UserMsg>) {
        cx.send_after(REST, UserMsg::Idle);
    }

    fn handle(&mut self, msg: UserMsg, cx: &mut Context<'_, UserMsg>) {
        match msg {
            UserMsg::Said(said) => {
                let activate = activates(&said.message);
                pass_on(&self.home, (self.name.clone(), said, activate), cx);
            }
            UserMsg::Credentials { conn, .. }
            | UserMsg::Bind { conn, .. }
            | UserMsg::Resume { conn, .. }
            | UserMsg::Started { conn }
            | UserMsg::Stanza { conn, .. }
            | UserMsg::Refused { conn, .. }
            | UserMsg::LostAnswer { conn, .. }
            | UserMsg::Keys { conn, .. } => self.redirect(conn, cx),
            UserMsg::Introduced(introduced) => self.redirect(introduced.conn, cx),
            UserMsg::Idle => cx.stop(),
            _ => {}
        }
    }
}

/// Whether a message is one for which its recipient is loaded, as far as it shows.
fn activates(message: &Message) -> bool {
    match message {
        Message::Stanza(Stanza { frame, .. }) => frame.name() != "presence",
        Message::ToRoom(_) => true,
        _ => false,
    }
}

/// Sends something on to where its recipient is at home now. What cannot go there is as if the
/// recipient had no room for it.
fn pass_on(
    home: &Home,
    (name, said, activate): (Name, Said, bool),
    cx: &mut Context<'_, impl Send + 'static>,
) {
    let said = match said {
        Said {
            message: Message::Stanza(stanza),
            ..
        } if stanza.source.seq != 0 => return hand_back(home, name, stanza, cx),
        said => said,
    };
    let at = (home.place.shard(&name), &name);
    if let Some(said) = home.send(cx, at, said, activate) {
        home.not_heard(&name, said, Refused::Full, cx);
    }
}

/// A message of a log goes on by its sender's home alone, and only if it is the latest attempt:
/// a copy of an earlier one could be taken after the message has come back to its sender
/// (docs/delivery.md, "What comes back"). If that home is this node, the sender is asked. Another
/// one hears that the message was not taken, and tries again if this was its latest attempt.
fn hand_back(home: &Home, to: Name, stanza: Stanza, cx: &mut Context<'_, impl Send + 'static>) {
    let from = Name::from(address::bare(
        &stanza.frame.attr("from").unwrap_or_default(),
    ));
    if home.is_elsewhere(&from) {
        return home.not_heard(&to, Message::Stanza(stanza).into(), Refused::Full, cx);
    }
    let shard = home.place.shard(&from);
    let came_back = UserMsg::CameBack(Box::new(CameBack { to, stanza }));
    // A sender who is not loaded has made no attempt that counts. One without room hands it over
    // again by itself.
    let _ = cx.send_named_if_active(shard, &from, came_back);
}

/// A packet that came back.
pub(crate) struct Returned {
    /// Whom it was for.
    pub(crate) to: Name,
    /// What it said.
    pub(crate) said: Said,
    /// Whether it is said to one who is not loaded.
    pub(crate) activate: bool,
    /// Nobody has it any more: its sender is told.
    pub(crate) is_over: bool,
}

/// Sends packets of its shard that came back once more.
pub(crate) struct ReturnsActor(pub(crate) Rc<Home>);

impl Actor for ReturnsActor {
    type Msg = Returned;

    fn handle(&mut self, msg: Returned, cx: &mut Context<'_, Returned>) {
        let Returned {
            to,
            said,
            activate,
            is_over,
        } = msg;
        match is_over {
            true => self.0.not_heard(&to, said, Refused::Full, cx),
            false => pass_on(&self.0, (to, said, activate), cx),
        }
    }
}
