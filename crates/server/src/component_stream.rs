//! Streams of components (XEP-0114): what carries bytes between a socket, the stream's machine and
//! the domain's actor, and routes what a component sends. Owns how many may wait with their
//! handshake.
//!
//! ```text
//! socket ─▶ xml: framer ─▶ xmpp: component ─▶ whoever it is for: users, rooms, services, domains
//!        ◀───────────────────────── component: the domain's actor ◀─ whoever writes to it
//! ```

use std::net::IpAddr;
use std::sync::Arc;

use actor::{Addr, Mail as _, Name, Shard};
use net::{AddressKey, Closed, ConnRef, Cx, Peer};
use stdx::time::Moment;
use telemetry::Counter;
use xml::{Event, Frame, Framer};
use xmpp::component::{Component, Effect};
use xmpp::error::{Condition, StanzaError, StreamError};
use xmpp::stanza::{self, IqType, Kind, MessageType, PresenceType};

use crate::address;
use crate::c2s::C2sService;
use crate::component::{Word, answered_ping};
use crate::host;
use crate::iq;
use crate::limits::COMPONENT_NEGOTIATION_BYTES_MAX;
use crate::message::control::{Control, Ending, ToComponent};
use crate::message::credit::Debt;
use crate::message::{AppendError, Delivery, UserMsg};

/// The state of one stream.
pub(crate) struct ComponentStream {
    machine: Component,
    framer: Framer,
    pub(crate) address: IpAddr,
    /// The number of its listener.
    port: u16,
    /// It ends if its domain has not taken it until then.
    until: Moment,
    /// The actor of its domain, which has taken it.
    domain: Option<Addr<UserMsg>>,
}

/// What is told to somebody although nobody waits for it there.
fn activates(kind: Kind, is_for_room: bool) -> bool {
    match kind {
        Kind::Message(MessageType::Error | MessageType::Headline) => false,
        Kind::Iq(IqType::Result | IqType::Error) => false,
        Kind::Presence(PresenceType::Available | PresenceType::Unavailable) => is_for_room,
        Kind::Presence(PresenceType::Error) => false,
        Kind::Message(_) | Kind::Iq(_) | Kind::Presence(_) => true,
    }
}

impl C2sService {
    /// A component has come, to the listener of this number.
    pub(crate) fn begin_component(
        &mut self,
        cx: &mut Cx<'_>,
        peer: &Peer,
        port: u16,
    ) -> ComponentStream {
        let until = cx.now() + self.home.options.components.handshake_timeout;
        cx.set_deadline(Some(until));
        let address = peer.address.ip();
        self.strangers.push((cx.id(), AddressKey::of(address)));
        if let Some(oldest) = self.stranger_too_many() {
            let end = Control::Component(ToComponent::Ends(Ending::Crowded));
            // One that is gone has ended.
            let _ = self.home.io.control(cx.mail(), oldest, end);
        }
        ComponentStream {
            machine: Component::new(self.random_text()),
            framer: Framer::new(),
            address,
            port,
            until,
            domain: None,
        }
    }

    /// The stranger who gives way to the latest one: the oldest of his address, if that has too
    /// many, or of the address that has the most.
    fn stranger_too_many(&mut self) -> Option<ConnRef> {
        let options = &self.home.options.components;
        let count = |key: AddressKey| {
            let same = self.strangers.iter().filter(|(_, other)| *other == key);
            same.count()
        };
        let (_, latest) = *self.strangers.last()?;
        let crowd = if count(latest) > options.strangers_per_address_max {
            latest
        } else if self.strangers.len() > options.strangers_max {
            let keys = self.strangers.iter().map(|(_, key)| *key);
            keys.max_by_key(|key| count(*key))?
        } else {
            return None;
        };
        let at = self.strangers.iter().position(|(_, key)| *key == crowd)?;
        Some(self.strangers.remove(at).0)
    }

    fn is_no_stranger(&mut self, conn: ConnRef) {
        self.strangers.retain(|(other, _)| *other != conn);
    }

    /// Takes input; returns what it used.
    pub(crate) fn receive_component(
        &mut self,
        cx: &mut Cx<'_>,
        stream: &mut ComponentStream,
        input: &[u8],
    ) -> usize {
        let mut used = 0;
        while cx.has_window() && !cx.is_ending() && !stream.machine.is_waiting() {
            let limits = xml::Limits {
                stanza_bytes: match stream.machine.is_known() {
                    true => self.home.limits().stanza_bytes_max,
                    false => COMPONENT_NEGOTIATION_BYTES_MAX,
                },
                ..xml::Limits::default()
            };
            let mut effects = Vec::new();
            let ComponentStream {
                machine, framer, ..
            } = stream;
            let step = match framer.next(&input[used..], &limits, &mut self.scratch) {
                Ok(step) => step,
                Err(error) => {
                    machine.handle_xml_error(error, cx.out(), &mut effects);
                    self.carry_out_component(cx, stream, effects);
                    return input.len();
                }
            };
            used += step.consumed;
            let is_incomplete = step.event.is_none() && step.consumed == 0;
            match step.event {
                None => {}
                Some(Event::Open(header)) => {
                    let options = Arc::clone(&self.home.options);
                    let secret_of = |domain: &str| {
                        let mut served = options.components.served.iter();
                        let found =
                            served.find(|one| one.domain == domain && one.port == stream.port);
                        found.map(|one| one.secret.reveal())
                    };
                    machine.handle_header(&header, secret_of, cx.out(), &mut effects);
                }
                Some(Event::Stanza(frame)) => {
                    machine.handle_element(&frame, cx.out(), &mut effects);
                }
                Some(Event::Close) => machine.handle_close(cx.out(), &mut effects),
            }
            self.carry_out_component(cx, stream, effects);
            if is_incomplete {
                break;
            }
        }
        cx.set_paused(stream.machine.is_waiting());
        used
    }

    fn carry_out_component(
        &mut self,
        cx: &mut Cx<'_>,
        stream: &mut ComponentStream,
        effects: Vec<Effect>,
    ) {
        for effect in effects {
            match effect {
                Effect::Attach => {
                    self.is_no_stranger(cx.id());
                    let attach = Word::Attach(cx.id(), stream.until);
                    if self.tell_domain(cx, stream, attach).is_err() {
                        let text = "The server cannot take this now; try again later.";
                        let error = StreamError::ResourceConstraint;
                        self.end_component(cx, stream, error, text);
                    }
                }
                Effect::Stanza(frame) => self.component_says(cx, stream, frame),
                Effect::Close => {
                    // What comes for it from here on does not go over any more.
                    match stream.domain {
                        Some(_) => {
                            let _ = self.tell_domain(cx, stream, Word::Gone(cx.id()));
                        }
                        None => self.note_refused(cx, stream),
                    }
                    cx.close_after_flush();
                }
            }
        }
    }

    /// It ends before its domain took it: its secret is another one, or its domain, or it said
    /// something else; the error that it was sent says what.
    fn note_refused(&mut self, cx: &mut Cx<'_>, stream: &ComponentStream) {
        cx.mail().stats().count(Counter::ComponentsRefused);
        if let Some(more) = self.failed_logins.due(cx.now()) {
            let domain = stream.machine.domain();
            tracing::warn!(domain, address = %stream.address, more, "a component was not let in");
        }
    }

    fn tell_domain(&self, cx: &mut Cx<'_>, stream: &ComponentStream, word: Word) -> Result<(), ()> {
        let name = Name::from(stream.machine.domain());
        let (shard, msg) = (self.home.place.shard(&name), UserMsg::own(word));
        let sent = match stream.domain {
            // Past what waits there for the very answer that this may be.
            Some(domain) => cx.mail().send_priority(domain, msg),
            None => cx.mail().send_named(shard, &name, msg),
        };
        sent.map_err(|_| ())
    }

    fn end_component(
        &mut self,
        cx: &mut Cx<'_>,
        stream: &mut ComponentStream,
        error: StreamError,
        text: &str,
    ) {
        let mut effects = Vec::new();
        let machine = &mut stream.machine;
        if stream.domain.is_some() {
            let (domain, address) = (machine.domain(), stream.address);
            tracing::warn!(domain, %address, "the stream of a component ends: {text}");
        }
        machine.abort(error, Some(text), cx.out(), &mut effects);
        self.carry_out_component(cx, stream, effects);
    }

    // ---- What a component sends ----------------------------------------------------------------

    fn component_says(&mut self, cx: &mut Cx<'_>, stream: &mut ComponentStream, frame: Frame) {
        cx.mail().stats().count(Counter::ComponentStanzasIn);
        let Ok(kind) = stanza::parse_kind(&frame) else {
            return; // The machine has checked it.
        };
        let to = frame.attr("to").unwrap_or_default().into_owned();
        let (bare, resource) = address::split(&to);
        let (local, domain) = address::parts(bare);
        let home = &self.home;
        if local.is_some() && home.serves(domain) || home.is_entity(bare) {
            let resource = resource.map(Into::into);
            return self.pass_on_from_component(cx, bare, Delivery::new(resource, frame), kind);
        }
        if home.hosts_accounts(bare) {
            if let Some(number) = answered_ping(&frame) {
                // An actor that is gone has ended the stream.
                let _ = self.tell_domain(cx, stream, Word::Answered(cx.id(), number));
            } else if let Some(reply) = host::answer(home, &frame, cx.mail().wall()) {
                cx.out().extend_from_slice(reply.as_bytes());
            }
            return;
        }
        if home.hosts_rooms(bare) {
            return self.ask_rooms_for_component(cx, &frame);
        }
        let condition = match home.serves(domain) {
            true => Condition::ServiceUnavailable,
            false => Condition::RemoteServerNotFound,
        };
        answer_with(cx, &frame, &StanzaError::new(condition));
    }

    /// A stanza for an account, a room or a service goes on, with the credit of the stream; not
    /// with that for a component: one that is slow would hold up what this one answers, and a
    /// component that writes to itself would wait for its own answer.
    fn pass_on_from_component(
        &self,
        cx: &mut Cx<'_>,
        bare: &str,
        mut delivery: Delivery,
        kind: Kind,
    ) {
        let (home, conn) = (&self.home, cx.id());
        let frame = delivery.frame.clone();
        let activates = activates(kind, home.hosts_rooms(address::domain(bare)));
        if home.component_of(bare).is_none() && Debt::goes_along(home, conn, &frame) {
            delivery.debt = Some(Debt::passed_on(home, conn, &frame));
            cx.sent_on();
        }
        let refused = home.pass_on(cx.mail(), &Name::from(bare), delivery, activates);
        if refused.is_some() {
            answer_with(cx, &frame, &AppendError::Busy.to_stanza_error());
        }
    }

    /// What a domain of rooms says, which may have to be read.
    fn ask_rooms_for_component(&self, cx: &mut Cx<'_>, frame: &Frame) {
        match host::rooms::answer(&self.home, frame) {
            host::Said::Nothing => {}
            host::Said::Now(answer) => {
                if let Some(reply) = iq::reply_of(frame, answer) {
                    cx.out().extend_from_slice(reply.as_bytes());
                }
            }
            // The list of rooms is for accounts: its pages are charged to their addresses.
            host::Said::Read(_) => {
                answer_with(cx, frame, &StanzaError::new(Condition::NotAllowed));
            }
        }
    }

    // ---- What becomes of its stream ------------------------------------------------------------

    /// Its domain says something.
    pub(crate) fn told_component(
        &mut self,
        cx: &mut Cx<'_>,
        stream: &mut ComponentStream,
        msg: ToComponent,
    ) {
        let (error, text) = match msg {
            ToComponent::Attached(domain) => {
                stream.domain = Some(domain);
                stream.machine.attached();
                cx.set_deadline(None);
                return cx.set_paused(false);
            }
            ToComponent::Ends(Ending::Conflict) => {
                let text = "The domain has a component already.";
                (StreamError::Conflict, text)
            }
            ToComponent::Ends(Ending::Silent) => {
                (StreamError::ConnectionTimeout, "No answer to a ping.")
            }
            ToComponent::Ends(Ending::Crashed) => {
                let text = "The domain ended by a fault.";
                (StreamError::InternalServerError, text)
            }
            ToComponent::Ends(Ending::Crowded) => {
                let text = "Too many wait with their handshake.";
                (StreamError::ResourceConstraint, text)
            }
        };
        self.end_component(cx, stream, error, text);
    }

    /// Its deadline has come: it has not shaken hands, or its domain did not take it.
    pub(crate) fn component_overdue(&mut self, cx: &mut Cx<'_>, stream: &mut ComponentStream) {
        let text = "The handshake took too long.";
        self.end_component(cx, stream, StreamError::ConnectionTimeout, text);
    }

    /// The node stops.
    pub(crate) fn drain_component(&mut self, cx: &mut Cx<'_>, stream: &mut ComponentStream) {
        let (mut effects, text) = (Vec::new(), Some("The server stops."));
        let machine = &mut stream.machine;
        machine.abort(StreamError::SystemShutdown, text, cx.out(), &mut effects);
        self.carry_out_component(cx, stream, effects);
    }

    /// Its connection is gone.
    pub(crate) fn component_closed(
        &mut self,
        shard: &mut Shard,
        id: ConnRef,
        stream: &ComponentStream,
        why: Closed,
    ) {
        tracing::trace!(?id, ?why, "the connection of a component closed");
        self.is_no_stranger(id);
        let gone = UserMsg::own(Word::Gone(id));
        let name = stream.machine.domain();
        // An actor that is gone has no stream.
        let _ = match stream.domain {
            Some(domain) => shard.send_priority(domain, gone),
            None if name.is_empty() => return,
            // It may be about to be taken.
            None => {
                let place = self.home.place.shard(name);
                shard.send_named_if_active(place, &Name::from(name), gone)
            }
        };
    }
}

fn answer_with(cx: &mut Cx<'_>, frame: &Frame, error: &StanzaError) {
    if let Some(reply) = xmpp::error::reply(frame, error) {
        cx.out().extend_from_slice(reply.as_bytes());
    }
}
