//! Requests over BOSH, as bytes and as any sequence of ids, losses, time and output: a request gets
//! at most one answer, payloads are taken once and in order, what is held and remembered has its
//! bounds, and every answer is one well-formed element.

#![no_main]

use std::collections::HashSet;
use std::time::Duration;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use roost_fuzz::stanza_of;
use stdx::time::Moment;
use xml::{Frame, Framer, Scratch};
use xmpp::bosh::{Action, Limits, Request, Session};
use xmpp::framing::{Piece, pieces, write_alone};

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    hold: u8,
    wait: u8,
    acks: bool,
    steps: Vec<Step>,
    raw: &'a [u8],
    element: &'a [u8],
}

#[derive(Debug, Arbitrary)]
enum Step {
    Ask {
        /// How far from the next id.
        offset: i8,
        has_payload: bool,
        terminates: bool,
        restarts: bool,
        pause: Option<u16>,
        ack: Option<i8>,
    },
    Write(u8),
    End,
    Lose(u8),
    Wait(u8),
}

const FIRST: u64 = 1_000;

fn body(rid: u64, more: &str, has_payload: bool) -> Request {
    let payload = if has_payload {
        "<iq xmlns='jabber:client'/>"
    } else {
        ""
    };
    let text = format!(
        "<body xmlns='http://jabber.org/protocol/httpbind' xmlns:x='urn:xmpp:xbosh' \
         rid='{rid}' {more}>{payload}</body>"
    );
    let request = Request::parse(
        text.as_bytes(),
        &xml::Limits::default(),
        &mut Scratch::default(),
    );
    request.expect("a request")
}

struct Play {
    session: Session<u32>,
    actions: Vec<Action<u32>>,
    /// Tickets that have no answer yet.
    open: HashSet<u32>,
    next: u64,
    is_over: bool,
}

impl Play {
    /// Looks at what the session wanted.
    fn check(&mut self) {
        for action in self.actions.drain(..) {
            match action {
                Action::Answer(ticket, body) => {
                    assert!(self.open.remove(&ticket), "answered twice");
                    Frame::parse(body).expect("one element");
                }
                Action::Drop(ticket) => assert!(self.open.remove(&ticket), "answered already"),
                Action::Take(request) => {
                    assert!(!self.is_over && request.rid >= self.next, "out of order");
                    self.next = request.rid + 1;
                }
                Action::Over => {
                    assert!(!self.is_over, "over twice");
                    self.is_over = true;
                }
            }
        }
        // Held, early, and one that makes room for itself.
        assert!(self.open.len() <= 3 * 3 + 2, "{} wait", self.open.len());
    }
}

fuzz_target!(|input: Input<'_>| {
    let limits = xml::Limits::default();
    let _ = Request::parse(input.raw, &limits, &mut Scratch::default());
    let (mut framer, mut scratch) = (Framer::new(), Scratch::default());
    if let Some(element) = stanza_of(input.element, &mut framer, &mut scratch) {
        alone(&element.to_frame());
    }
    let more = format!(
        "to='localhost' hold='{}' wait='{}' {}",
        input.hold,
        input.wait,
        if input.acks { "ack='1'" } else { "" }
    );
    let limits = Limits {
        remembered_bytes_max: 1_000,
        ..Limits::default()
    };
    let mut now = Moment::ZERO;
    let first = body(FIRST, &more, false);
    let mut play = Play {
        session: Session::new(&first, 0, "sid".to_owned(), limits, now),
        actions: Vec::new(),
        open: HashSet::from([0]),
        next: FIRST + 1,
        is_over: false,
    };
    let mut written = Vec::new();
    for (number, step) in input.steps.iter().take(128).enumerate() {
        let ticket = number as u32 + 1;
        match step {
            Step::Ask {
                offset,
                has_payload,
                terminates,
                restarts,
                pause,
                ack,
            } => {
                let rid = play
                    .next
                    .saturating_add_signed(i64::from(*offset) % 5)
                    .max(1);
                let mut more = String::new();
                if *terminates {
                    more.push_str(" type='terminate'");
                }
                if *restarts {
                    more.push_str(" x:restart='true'");
                }
                if let Some(pause) = pause {
                    more.push_str(&format!(" pause='{pause}'"));
                }
                if let Some(ack) = ack {
                    let ack = play.next.saturating_add_signed(i64::from(*ack));
                    more.push_str(&format!(" ack='{ack}'"));
                }
                play.open.insert(ticket);
                let request = body(rid, &more, *has_payload);
                play.session
                    .handle_request(request, ticket, now, &mut play.actions);
            }
            Step::Write(count) => {
                for _ in 0..count % 4 {
                    written.extend_from_slice(b"<message><body>hi</body></message>");
                }
            }
            Step::End => written.extend_from_slice(b"</stream:stream>"),
            Step::Lose(which) => {
                let lost = play.open.iter().nth(usize::from(*which)).copied();
                if let Some(lost) = lost {
                    play.open.remove(&lost);
                    play.session.handle_lost(lost, now);
                }
            }
            Step::Wait(seconds) => {
                now = now + Duration::from_secs(u64::from(*seconds));
                play.session.handle_deadline(now, &mut play.actions);
                assert!(play.session.deadline() > now, "nothing is overdue");
            }
        }
        play.check();
        play.session
            .handle_output(&mut written, now, &mut play.actions);
        play.check();
    }
    assert!(
        !play.is_over || play.open.is_empty(),
        "nobody waits for what is over"
    );
});

/// An element that leaves alone is the same element.
fn alone(frame: &Frame) {
    let mut out = Vec::new();
    let all: Vec<Piece<'_>> = pieces(frame.as_bytes()).collect();
    assert_eq!(all, [Piece::Element(frame.as_bytes())]);
    write_alone(frame.as_bytes(), &mut out);
    let again = Frame::parse(out).expect("an element");
    assert_eq!((again.name(), again.ns()), (frame.name(), frame.ns()));
}
