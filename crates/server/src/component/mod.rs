//! The domain of a component (XEP-0114, docs/components.md): one actor for all of its addresses, at
//! the home of the domain. It writes to the component's stream what others say to those addresses,
//! and knows what of it the component has read. Owns who is attached and what is under way to it;
//! the stream itself is `component_stream`, and the life that every entity has is in
//! `crate::entity`.
//!
//! Components acknowledge nothing. So a ping follows what is written, and its answer shows that the
//! component has read everything in front of it.
//!
//! | what | a component is there | it is away | its stream ends before the answer |
//! |---|---|---|---|
//! | a message of somebody's log | taken, with the answer | its sender waits to be called (`list`) | it comes again |
//! | a request | written | `remote-server-timeout` | `remote-server-timeout` |
//! | another message | written | `remote-server-timeout` | nothing |
//! | presence for a resource, or about a subscription | written | `remote-server-timeout` | nothing |
//! | other presence | written | nothing | nothing |
//! | a copy of a room | written | the room hears that its occupant is not there | nothing |
//!
//! While so much is under way that was not answered, what comes waits in the mailbox.

mod calls;
mod intake;
mod link;
mod list;

use std::rc::Rc;
use std::time::Duration;

use actor::{Context, Mail as _, Name, Reason, Reply};
use delivery::Marks;
use net::ConnRef;
use stdx::time::Moment;
use store::{Store, StoreError};
use telemetry::{Counter, Gauge};
use wire::Message;
use xmpp::component::ACCEPTED;

use crate::entity::Tenant;
use crate::entity::kind::Kind;
use crate::entity::life::{Decided, Life, Request};
use crate::home::Home;
use crate::leaving::{Bounds, Counters, Leaving};
use crate::message::control::{Control, Ending, ToComponent};
use crate::message::{Delivery, Said, UserMsg};
use crate::operator::{AdminAnswer, AdminCommand};
use calls::{Change, Stored};
use link::Link;
use list::List;

pub(crate) use link::answered_ping;

/// Domains that components serve.
const KIND: Kind = Kind {
    name: "component",
    has: |home, bare| {
        home.component_of(bare)
            .is_some_and(|domain| **domain == *bare)
    },
    loaded: Gauge::Components,
    loads: Counter::ComponentsLoaded,
};

/// What the stream of a component says to its domain.
pub(crate) enum Word {
    /// Its component has shown that it knows the secret; not taken until then, it goes.
    Attach(ConnRef, Moment),
    /// It has answered the ping of this number.
    Answered(ConnRef, u64),
    /// It is gone.
    Gone(ConnRef),
    /// The domain looks whether its component still answers.
    Look,
    /// Senders may be called.
    Call,
    /// A sender was called: whether he heard it.
    Heard(Name, u64, bool),
    /// It is time to call all senders, although the component is away.
    CallAgain,
}

/// One domain.
pub(crate) struct ComponentActor {
    life: Life<Change>,
    /// Up to where messages were taken, by sender and recipient.
    marks: Marks<u64>,
    /// The stream of the component, if it is there.
    link: Option<Link>,
    /// A [`Word::Look`] is on its way.
    will_look: bool,
    /// Who has messages for it.
    list: List,
    /// The store has such an entity.
    is_made: bool,
    /// A [`Word::Call`] is on its way.
    will_call: bool,
    /// A [`Word::CallAgain`] is on its way.
    will_call_again: bool,
}

impl ComponentActor {
    /// How often the component is looked at.
    fn look_every(&self) -> Duration {
        self.life.home.options.components.answer_timeout / 2
    }

    fn attach(&mut self, (conn, until): (ConnRef, Moment), cx: &mut Context<'_, UserMsg>) {
        if cx.now() >= until {
            return; // It waited behind what another one had not read, and has gone.
        }
        let home = Rc::clone(&self.life.home);
        if self.link.is_some() {
            // The other one may be dead without a word: it is asked, and gives way if it is.
            self.ping(cx);
            return end(&home, conn, Ending::Conflict, cx);
        }
        let attached = Control::Component(ToComponent::Attached(cx.myself()));
        let write = |out: &mut Vec<u8>| out.extend_from_slice(ACCEPTED);
        if home.io.control(cx, conn, attached).is_err()
            || home.io.with_out(cx, conn, write).is_err()
        {
            return; // It is gone already.
        }
        tracing::info!(domain = %self.life.name, "a component has come");
        cx.stats().raise(Gauge::ComponentsAttached);
        self.link = Some(Link::new(conn));
        self.look_later(cx);
        self.call_all(cx);
    }

    /// The stream has ended. What nobody knows to be read is not taken.
    fn detach(&mut self, cx: &mut Context<'_, UserMsg>) {
        let Some(link) = self.link.take() else {
            return;
        };
        tracing::info!(domain = %self.life.name, "a component has gone");
        cx.stats().lower(Gauge::ComponentsAttached);
        for sent in link.into_sent() {
            self.is_lost(sent, cx);
        }
    }

    fn look_later(&mut self, cx: &mut Context<'_, UserMsg>) {
        if !std::mem::replace(&mut self.will_look, true) {
            cx.send_after(self.look_every(), UserMsg::own(Word::Look));
        }
    }

    /// A component that does not answer is given up; one that has nothing to answer is asked.
    fn look(&mut self, cx: &mut Context<'_, UserMsg>) {
        self.will_look = false;
        let Some(link) = &self.link else {
            return;
        };
        let silence = link.silence(cx.now());
        if silence >= Some(self.life.home.options.components.answer_timeout) {
            let conn = link.conn;
            end(&self.life.home, conn, Ending::Silent, cx);
            return self.detach(cx);
        }
        self.ping(cx);
        self.look_later(cx);
        // Those who did not hear it.
        self.call_all(cx);
    }

    /// Asks the component whether it has read what it was sent, unless it is being asked.
    fn ping(&mut self, cx: &mut Context<'_, UserMsg>) {
        let home = &self.life.home;
        if let Some(link) = &mut self.link {
            let host = home.options.domains.first().map_or("", String::as_str);
            link.ping((host, &self.life.name), home, cx);
        }
    }

    fn answered(&mut self, conn: ConnRef, number: u64, cx: &mut Context<'_, UserMsg>) {
        let Some(link) = self.link.as_mut().filter(|link| link.conn == conn) else {
            return;
        };
        for sent in link.answered(number) {
            self.is_read(sent, cx);
        }
        if self.link.as_ref().is_some_and(Link::has_sent) {
            self.ping(cx);
        }
    }
}

/// Ends a stream.
fn end(home: &Home, conn: ConnRef, why: Ending, cx: &mut Context<'_, UserMsg>) {
    let end = Control::Component(ToComponent::Ends(why));
    // One that is gone has ended.
    let _ = home.io.control(cx, conn, end);
}

impl Tenant for ComponentActor {
    const KIND: &'static Kind = &KIND;
    type Stored = Stored;
    type Word = Word;
    type Change = Change;

    fn new(name: Name, home: Rc<Home>) -> Self {
        // What others are sent leaves at once.
        let counters = Counters {
            sent: None,
            dropped: Counter::ActorDropped,
        };
        let bounds = Bounds {
            turn_max: 1,
            waits_max: 1,
        };
        let pairs_max = home.options.components.pairs_max;
        ComponentActor {
            life: Life::new(name, home, Leaving::new(bounds, counters)),
            marks: Marks::new([], pairs_max, false),
            link: None,
            will_look: false,
            list: List::default(),
            is_made: false,
            will_call: false,
            will_call_again: false,
        }
    }

    fn life(&self) -> &Life<Change> {
        &self.life
    }

    fn life_mut(&mut self) -> &mut Life<Change> {
        &mut self.life
    }

    fn read(&self) -> impl FnOnce(&Store) -> Result<Stored, StoreError> + Send + 'static {
        let name = self.life.name.clone();
        move |store| calls::read(store, &name)
    }

    fn recover(
        &mut self,
        stored: Stored,
        _cx: &mut Context<'_, UserMsg>,
    ) -> Result<(), StoreError> {
        self.is_made = stored.is_some();
        self.list = List::recover(stored.unwrap_or_default());
        Ok(())
    }

    fn ready(&mut self, cx: &mut Context<'_, UserMsg>) {
        self.call_again_later(cx);
        if self.link.is_some() {
            // It could not be read for a while.
            self.call_all(cx);
        }
    }

    fn said(&mut self, said: Said, cx: &mut Context<'_, UserMsg>) {
        let Said { message, debt } = said;
        match message {
            Message::Stanza(stanza) => self.deliver(Delivery { stanza, debt }, cx),
            Message::Copy(copy) => self.copy(&copy, cx),
            // Words between accounts, rooms and their homes here: a component hears of presence
            // and of nodes by stanzas.
            Message::Probe { .. }
            | Message::Taken { .. }
            | Message::NotTaken(_)
            | Message::ToRoom(_)
            | Message::OfRoom(_)
            | Message::Interest(_)
            | Message::NodeEvent(_) => {}
        }
    }

    fn word(&mut self, word: Word, cx: &mut Context<'_, UserMsg>) {
        match word {
            Word::Attach(conn, until) => self.attach((conn, until), cx),
            Word::Answered(conn, number) => self.answered(conn, number, cx),
            Word::Gone(conn) => {
                if self.link.as_ref().is_some_and(|link| link.conn == conn) {
                    self.detach(cx);
                }
            }
            Word::Look => self.look(cx),
            Word::Call => {
                self.will_call = false;
                self.call_some(cx);
            }
            Word::Heard(sender, call, is_heard) => self.heard(sender, call, is_heard, cx),
            Word::CallAgain => self.call_again(cx),
        }
    }

    fn administer(
        &mut self,
        _command: AdminCommand,
        reply: Reply<AdminAnswer>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        reply.send(cx, AdminAnswer::Absent);
    }

    fn decided(&mut self, decided: Decided<Change>, cx: &mut Context<'_, UserMsg>) {
        self.recorded(decided, cx);
    }

    /// Who is on the list has to be called.
    fn is_idle(&self) -> bool {
        self.link.is_none() && self.list.is_empty()
    }

    fn must_come_back(&self) -> bool {
        !self.list.is_empty()
    }

    /// What is under way to the component is known here alone.
    fn must_stay(&self) -> bool {
        self.link.is_some()
    }

    fn must_hold(&self) -> bool {
        let options = &self.life.home.options.components;
        let link = self.link.as_ref();
        link.is_some_and(|link| link.is_full(options))
    }

    fn unanswered(&self) -> Vec<Request> {
        let link = self.link.as_ref();
        link.map(Link::requests).unwrap_or_default()
    }

    /// The component comes again, to the next life.
    fn ended(&mut self, _reason: &Reason, cx: &mut Context<'_, UserMsg>) {
        if let Some(link) = self.link.take() {
            cx.stats().lower(Gauge::ComponentsAttached);
            end(&self.life.home, link.conn, Ending::Crashed, cx);
        }
    }
}
