//! What a domain does with the list of those who have messages for it: it records who comes on it
//! and goes off it, and calls them in turns.

use actor::{Context, Name};
use delivery::Refusal;
use store::{NodeEntry, Record, Store, StoreError};

use super::link::Logged;
use super::list::{Entered, part_of, sender_of};
use super::{ComponentActor, Word};
use crate::entity::Tenant as _;
use crate::entity::life::{Decided, Phase};
use crate::entity::service::NO_NODE;
use crate::limits::COMPONENT_CALL_DEADLINE;
use crate::message::UserMsg;

/// What an append is for.
pub(crate) enum Change {
    /// A sender comes on the list.
    On(Name),
    /// He goes off it.
    Off(Name),
}

/// Who is on the list; `None` if the store has nothing of the domain.
pub(crate) type Stored = Option<Vec<Name>>;

/// Reads the list.
///
/// # Errors
/// The store's.
pub(super) fn read(store: &Store, name: &str) -> Result<Stored, StoreError> {
    let mut senders = Vec::new();
    let is_made = store.load_node_parts(name, |entry| {
        if let NodeEntry::Part { node, part, .. } = entry
            && node == NO_NODE
        {
            senders.extend(sender_of(part));
        }
        Ok(())
    })?;
    Ok(is_made.then_some(senders))
}

impl ComponentActor {
    /// A message of a sender's log has come, and the component is away: the sender hears so once he
    /// is on the list.
    pub(super) fn list(&mut self, logged: &Logged, cx: &mut Context<'_, UserMsg>) {
        if self.life.phase == Phase::Unreadable {
            // Nobody knows who is on the list.
            return self.refuse(logged, Refusal::Unreadable, cx);
        }
        let max = self.life.home.options.components.listed_max;
        match self.list.enter(logged, max) {
            Entered::Listed => {
                self.refuse(logged, Refusal::Away, cx);
                // The component may have come between his message and this.
                self.call_if_there(&logged.from, cx);
            }
            Entered::Record => {
                self.put(Change::On(logged.from.clone()), cx);
                self.call_again_later(cx);
            }
            Entered::Soon => {}
            Entered::Full => self.refuse(logged, Refusal::Full, cx),
        }
    }

    fn put(&mut self, change: Change, cx: &mut Context<'_, UserMsg>) {
        let user = || String::from(&*self.life.name);
        let (sender, value) = match &change {
            Change::On(sender) => (sender, vec![1]),
            Change::Off(sender) => (sender, Vec::new()),
        };
        let make = (!self.is_made).then(|| Record::ServiceMake { user: user() });
        let put = Record::NodePut {
            user: user(),
            node: NO_NODE,
            part: part_of(sender),
            value,
        };
        let records = make.into_iter().chain([put]).collect();
        self.life.append(records, change, (None, None), cx);
    }

    /// A record is durable, or never will be.
    pub(super) fn recorded(&mut self, decided: Decided<Change>, cx: &mut Context<'_, UserMsg>) {
        let is_durable = decided.result.is_ok();
        self.is_made |= is_durable;
        match decided.what {
            Change::On(sender) => {
                let why = match is_durable {
                    true => Refusal::Away,
                    false => Refusal::Unreadable,
                };
                for logged in self.list.entered(&sender, is_durable) {
                    self.refuse(&logged, why, cx);
                }
                self.call_if_there(&sender, cx);
            }
            Change::Off(sender) if !is_durable => {
                self.list.is_listed_still(&sender);
                self.call_again_later(cx);
            }
            Change::Off(_) => {}
        }
    }

    // ---- Calls ---------------------------------------------------------------------------------

    fn call_if_there(&mut self, sender: &Name, cx: &mut Context<'_, UserMsg>) {
        if self.link.is_some() {
            self.list.call(sender);
            self.call_some(cx);
        }
    }

    /// Everybody on the list is called, in turns.
    pub(super) fn call_all(&mut self, cx: &mut Context<'_, UserMsg>) {
        self.list.call_all();
        self.call_later(cx);
    }

    fn call_later(&mut self, cx: &mut Context<'_, UserMsg>) {
        if self.list.has_turns() && !std::mem::replace(&mut self.will_call, true) {
            let pause = self.life.home.options.components.call_pause;
            cx.send_after(pause, UserMsg::own(Word::Call));
        }
    }

    /// Calls as many as may be called at a time; nobody while the component has enough to read.
    pub(super) fn call_some(&mut self, cx: &mut Context<'_, UserMsg>) {
        if self.must_hold() {
            return self.call_later(cx);
        }
        let max = self.life.home.options.components.calls_max;
        while let Some((sender, call)) = self.list.next(max) {
            let shard = self.life.home.place.shard(&sender);
            let called = sender.clone();
            let heard = move |answer: Result<(), _>| {
                UserMsg::own(Word::Heard(called, call, answer.is_ok()))
            };
            let deadline = COMPONENT_CALL_DEADLINE;
            cx.ask_named(shard, &sender, UserMsg::Called, deadline, heard);
        }
        self.call_later(cx);
    }

    /// A call was answered, or will not be.
    pub(super) fn heard(
        &mut self,
        sender: Name,
        call: u64,
        is_heard: bool,
        cx: &mut Context<'_, UserMsg>,
    ) {
        if self.list.answered(&sender, call, is_heard) {
            self.put(Change::Off(sender), cx);
        }
    }

    /// The list is looked at again after a while, as long as there is somebody on it.
    pub(super) fn call_again_later(&mut self, cx: &mut Context<'_, UserMsg>) {
        if !self.list.is_empty() && !std::mem::replace(&mut self.will_call_again, true) {
            let pause = self.life.home.options.components.call_again;
            cx.send_after(pause, UserMsg::own(Word::CallAgain));
        }
    }

    pub(super) fn call_again(&mut self, cx: &mut Context<'_, UserMsg>) {
        self.will_call_again = false;
        self.call_all(cx);
        self.call_again_later(cx);
    }
}
