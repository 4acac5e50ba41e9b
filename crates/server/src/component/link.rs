//! The stream of a component as its domain knows it: what was written there, and how much of it the
//! component has shown to have read.

use std::collections::VecDeque;
use std::time::Duration;

use actor::{Context, Mail as _, Name};
use net::ConnRef;
use stdx::time::Moment;
use store::Seq;
use telemetry::Counter;
use wire::Source;
use xml::Frame;
use xml::build::Writer;
use xmpp::component;
use xmpp::ns;

use crate::entity::life::Request;
use crate::home::Home;
use crate::message::UserMsg;
use crate::options::Components;

/// What the ids of our pings begin with; a number follows.
const PING: &str = "roost-read-";

/// A message on its way out of its sender's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Logged {
    /// The sender's bare address.
    pub(super) from: Name,
    /// The bare address at the component.
    pub(super) to: Name,
    pub(super) source: Source,
}

/// What was written.
pub(super) enum Sent {
    /// It is taken when it is read.
    Logged(Logged),
    /// Whoever asked hears it if this is never read.
    Request(Request),
    /// Nobody waits for it.
    Other,
}

/// A stream that is there.
pub(super) struct Link {
    pub(super) conn: ConnRef,
    /// What nobody knows to be read, with its bytes.
    sent: VecDeque<(Sent, usize)>,
    bytes: usize,
    ping: Option<Ping>,
    last_ping: u64,
}

/// A ping that was not answered.
struct Ping {
    at: Moment,
    /// So many of [`Link::sent`] are in front of it.
    covers: usize,
}

impl Link {
    pub(super) fn new(conn: ConnRef) -> Link {
        Link {
            conn,
            sent: VecDeque::new(),
            bytes: 0,
            ping: None,
            last_ping: 0,
        }
    }

    /// Writes a stanza; `to` if it has none. False if the stream is gone.
    pub(super) fn write(
        &mut self,
        (frame, to): (&Frame, Option<&str>),
        sent: Sent,
        home: &Home,
        cx: &mut Context<'_, UserMsg>,
    ) -> bool {
        let mut bytes = 0;
        let write = |out: &mut Vec<u8>| {
            let before = out.len();
            component::write(frame, to, out);
            bytes = out.len() - before;
        };
        if home.io.with_out(cx, self.conn, write).is_err() {
            return false;
        }
        cx.stats().count(Counter::ComponentStanzasOut);
        self.bytes += bytes;
        self.sent.push_back((sent, bytes));
        true
    }

    /// Asks whether everything was read, unless that was asked and not answered.
    pub(super) fn ping(
        &mut self,
        (host, domain): (&str, &str),
        home: &Home,
        cx: &mut Context<'_, UserMsg>,
    ) {
        if self.ping.is_some() {
            return;
        }
        let id = format!("{PING}{}", self.last_ping + 1);
        let write = |out: &mut Vec<u8>| {
            let mut writer = Writer::new(out);
            writer.open("iq").attr("type", "get").attr("id", &id);
            writer.attr("from", host).attr("to", domain);
            writer.open("ping").attr("xmlns", ns::PING).close().close();
        };
        if home.io.with_out(cx, self.conn, write).is_ok() {
            self.last_ping += 1;
            self.ping = Some(Ping {
                at: cx.now(),
                covers: self.sent.len(),
            });
        }
    }

    /// How long the ping that is under way was not answered.
    pub(super) fn silence(&self, now: Moment) -> Option<Duration> {
        let ping = self.ping.as_ref();
        ping.map(|ping| now.saturating_since(ping.at))
    }

    /// The component has answered a ping: what was in front of it.
    pub(super) fn answered(&mut self, number: u64) -> Vec<Sent> {
        if number != self.last_ping {
            return Vec::new();
        }
        let covers = self.ping.take().map_or(0, |ping| ping.covers);
        let read: Vec<(Sent, usize)> = self.sent.drain(..covers).collect();
        self.bytes -= read.iter().map(|(_, bytes)| bytes).sum::<usize>();
        read.into_iter().map(|(sent, _)| sent).collect()
    }

    /// Whether something was written that nobody knows to be read.
    pub(super) fn has_sent(&self) -> bool {
        !self.sent.is_empty()
    }

    /// Whether no more may be written before the component answers.
    pub(super) fn is_full(&self, options: &Components) -> bool {
        self.sent.len() >= options.sent_max || self.bytes >= options.sent_bytes_max
    }

    /// The last message of one sender's log for one recipient that is under way.
    pub(super) fn last_of(&self, from: &str, to: &str) -> Option<Seq> {
        let logged = self.sent.iter().rev().filter_map(|(sent, _)| match sent {
            Sent::Logged(logged) => Some(logged),
            Sent::Request(_) | Sent::Other => None,
        });
        let mut own = logged.filter(|logged| *logged.from == *from && *logged.to == *to);
        own.next().map(|logged| logged.source.seq)
    }

    /// A message that is under way was handed over once more: its answer names that.
    pub(super) fn comes_again(&mut self, again: &Logged) {
        for (sent, _) in &mut self.sent {
            if let Sent::Logged(logged) = sent
                && (&logged.from, &logged.to) == (&again.from, &again.to)
                && logged.source.seq == again.source.seq
            {
                logged.source.attempt = again.source.attempt;
            }
        }
    }

    /// Requests that were not read.
    pub(super) fn requests(&self) -> Vec<Request> {
        let requests = self.sent.iter().filter_map(|(sent, _)| match sent {
            Sent::Request(request) => Some(request.clone()),
            Sent::Logged(_) | Sent::Other => None,
        });
        requests.collect()
    }

    /// The stream is gone: what was not read, in order.
    pub(super) fn into_sent(self) -> impl Iterator<Item = Sent> {
        self.sent.into_iter().map(|(sent, _)| sent)
    }
}

/// The number of the ping that a stanza of a component answers, whatever the answer is.
pub(crate) fn answered_ping(frame: &Frame) -> Option<u64> {
    let is_answer = matches!(frame.attr_raw("type"), Some("result" | "error"));
    let id = frame
        .attr_raw("id")
        .filter(|_| frame.is_named("iq") && is_answer)?;
    id.strip_prefix(PING)?.parse().ok()
}
