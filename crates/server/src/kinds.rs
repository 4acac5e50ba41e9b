//! The kinds of entities: which one an address leads to, and the class that makes their actors. It
//! answers for those who cannot take what comes from another shard, because too much waits for them
//! or because they crashed too often. The one place that names every kind.

use std::rc::Rc;

use actor::{Actor, Context, Core, EntityClass, Leave, Mail as _, Name, Reason, Refused, ShardId};
use net::ConnRef;
use wire::Message;

use crate::component::ComponentActor;
use crate::elsewhere::Elsewhere;
use crate::ending::Abort;
use crate::entity::kind::{Other, Row};
use crate::entity::service::ServiceActor;
use crate::entity::{self, Tenant};
use crate::guard::Generation;
use crate::home::Home;
use crate::limits::LINE_BYTES_EACH_MAX;
use crate::message::control::{Control, Keys};
use crate::message::{Said, UserMsg};
use crate::nodes::NodesActor;
use crate::room::{RoomActor, enters};
use crate::set_aside::{SET_ASIDE, SetAsideMsg};
use crate::user::{Shared, User};

/// Every kind. The first that has an address takes it; accounts have all the others.
const KINDS: &[Row] = &[
    row::<RoomActor>(),
    row::<NodesActor>(),
    row::<ServiceActor>(),
    row::<ComponentActor>(),
];

const fn row<T: Tenant>() -> Row {
    Row {
        kind: T::KIND,
        make: entity::make::<T>,
    }
}

/// What an address leads to: entities share mailboxes, the journal's queue and all that becomes of
/// a message on its way, whatever they are.
pub(crate) enum Entity {
    /// An account. There are by far the most of them: none has a box of its own.
    User(User),
    /// Anything else.
    Other(Other),
}

impl Actor for Entity {
    type Msg = UserMsg;

    fn started(&mut self, cx: &mut Context<'_, UserMsg>) {
        match self {
            Entity::User(user) => user.started(cx),
            Entity::Other(other) => other.started(cx),
        }
    }

    fn handle(&mut self, msg: UserMsg, cx: &mut Context<'_, UserMsg>) {
        match self {
            Entity::User(user) => user.handle(msg, cx),
            Entity::Other(other) => other.handle(msg, cx),
        }
    }

    fn may_move(&self) -> Leave {
        match self {
            Entity::User(user) => user.may_move(),
            Entity::Other(other) => other.may_move(),
        }
    }

    fn stopped(&mut self, reason: &Reason, cx: &mut Context<'_, UserMsg>) {
        match self {
            Entity::User(user) => user.stopped(reason, cx),
            Entity::Other(other) => other.stopped(reason, cx),
        }
    }
}

/// Makes the entities of a shard.
pub(crate) struct Kinds {
    home: Rc<Home>,
    users: Rc<Shared>,
}

impl Kinds {
    /// The entities of the shard that `home` belongs to.
    pub(crate) fn new(home: Rc<Home>) -> Self {
        Kinds {
            users: Shared::new(Rc::clone(&home)),
            home,
        }
    }

    fn control(&self, conn: ConnRef, control: Control, core: &mut Core) {
        // A connection that has gone meanwhile needs no answer.
        let _ = self.home.io.control(core, conn, control);
    }
}

impl EntityClass for Kinds {
    type Msg = UserMsg;
    type Actor = Entity;

    /// When everybody comes back at once, each contact announces itself and answers a probe, and
    /// what presence finds no room is lost: a whole roster of both fits twice.
    fn mailbox_max(&self) -> usize {
        let roster = self.home.limits().roster_items_max as usize;
        let shared = self.home.options.mailboxes.shared_min.max(4 * roster);
        shared + self.mailbox_line() + self.mailbox_reserve()
    }

    fn mailbox_reserve(&self) -> usize {
        self.home.options.mailboxes.reserve
    }

    /// What others send must not keep the owner out, nor what he does unanswered.
    fn may_use_reserve(msg: &UserMsg) -> bool {
        match msg {
            UserMsg::Said(said) => match said.message {
                Message::Stanza(_)
                | Message::Copy(_)
                | Message::Probe { .. }
                | Message::Interest(_)
                | Message::NodeEvent(_) => false,
                // Answers, which their senders wait for.
                Message::Taken { .. }
                | Message::NotTaken(_)
                | Message::ToRoom(_)
                | Message::OfRoom(_) => true,
            },
            // Messages, as others send them.
            UserMsg::CameBack(_) => false,
            _ => true,
        }
    }

    /// When a whole hall comes into one room at once, each waits for his turn.
    fn mailbox_line(&self) -> usize {
        self.home.options.mailboxes.line
    }

    /// Who enters a room or leaves it. The bytes that wait are bounded by this, and by the credits
    /// of those who sent them.
    fn may_stand_in_line(msg: &UserMsg) -> bool {
        let UserMsg::Said(Said {
            message: Message::Stanza(stanza),
            ..
        }) = msg
        else {
            return false;
        };
        let frame = &stanza.frame;
        let leaves = || frame.attr_raw("type") == Some("unavailable");
        stanza.resource.is_some()
            && frame.as_bytes().len() <= LINE_BYTES_EACH_MAX
            && (enters(frame) || frame.name() == "presence" && leaves())
    }

    fn activate(&mut self, name: &Name, _shard: ShardId) -> Entity {
        let (name, home) = (Name::clone(name), Rc::clone(&self.home));
        if home.is_elsewhere(&name) {
            return Entity::Other(Box::new(Elsewhere::new(name, home)));
        }
        let mut rows = KINDS.iter();
        match rows.find(|row| (row.kind.has)(&home, &name)) {
            Some(row) => Entity::Other((row.make)(name, home)),
            None => Entity::User(User::new(name, Rc::clone(&self.users))),
        }
    }

    fn refused(&mut self, name: &Name, msg: UserMsg, why: Refused, core: &mut Core) {
        match msg {
            UserMsg::Said(said) => self.home.not_heard(name, said, why, core),
            UserMsg::Stanza { conn, frame } => {
                self.control(conn, Control::Refused(frame), core);
                let _ = self.home.io.credit(core, conn, 1);
            }
            // Its client would wait for an answer.
            UserMsg::Resume { conn, .. } => self.control(conn, Control::Abort(Abort::Crash), core),
            UserMsg::Introduced(introduced) => {
                self.control(introduced.conn, Control::Abort(Abort::Crash), core);
            }
            UserMsg::Credentials { conn, .. } => {
                // Nobody gets in with these.
                let begun = Generation::default();
                self.control(conn, Control::Keys(Keys::Unavailable, begun), core);
            }
            // Without an answer its client would wait until its deadline.
            UserMsg::Bind { conn, .. } | UserMsg::Started { conn } => {
                self.control(conn, Control::Abort(Abort::Crash), core);
            }
            // A session must not outlive its connection: this goes past everything that waits.
            UserMsg::Closed { conn, is_lost } => {
                if let Some(user) = core.whereis::<UserMsg>(name) {
                    let _ = core.send_priority(user, UserMsg::Closed { conn, is_lost });
                }
            }
            // A login that never ends would be in the way of others.
            UserMsg::LoginEnded { conn, end } => {
                if let Some(user) = core.whereis::<UserMsg>(name) {
                    let _ = core.send_priority(user, UserMsg::LoginEnded { conn, end });
                }
            }
            // It has something to be done, and nobody else would load it.
            UserMsg::Wake if why == Refused::Quarantined => {
                if let Some(set_aside) = core.whereis(SET_ASIDE) {
                    let begins = SetAsideMsg::Begins(Name::clone(name));
                    let _ = core.send_priority(set_aside, begins);
                }
            }
            // Asked again by the next login; or dropped, and whoever asked hears it as a time-out.
            _ => {}
        }
    }
}
