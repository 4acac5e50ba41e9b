//! The stream of a client, fed with any bytes in any slices, by a caller whose answers come late or
//! never: it does not panic, what it writes is well-formed, and it ends in an orderly way.
//!
//! The first byte of the input is the configuration. In the rest, the byte 0xff, which no stream
//! has, introduces what the caller does next (see `Session::command`); all else is the client's.

#![no_main]

use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use roost_fuzz::has_unread_names;
use roost_fuzz::oracle::{self, Item};
use xml::{Event, Framer, Limits, Scratch};
use xmpp::addr;
use xmpp::error::{Condition, StanzaError, StreamError};
use xmpp::limits::NEGOTIATION_ELEMENTS_MAX;
use xmpp::ns;
use xmpp::sasl::{self, Hash, Mechanism, ScramKeys};
use xmpp::stream::{C2s, C2sConfig, Credentials, Effect, LoginEnd};

const ALICE: &str = "alice@localhost";
/// Bytes of one element before a session, as in the server.
const ELEMENT_BYTES_MAX: u32 = 8 * 1024;

fuzz_target!(|data: &[u8]| {
    let Some((config, script)) = data.split_first() else {
        return;
    };
    let mut session = Session::new(*config);
    let mut bytes = script.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            0xff => session.command(bytes.next().copied().unwrap_or_default()),
            byte => session.buffer.push(*byte),
        }
    }
    session.finish();
});

struct Session {
    machine: C2s,
    framer: Framer,
    scratch: Scratch,
    buffer: Vec<u8>,
    /// What the client has not been told yet.
    owed: Vec<Answer>,
    /// What was written since the stream last began.
    out: Vec<u8>,
    is_new: bool,
    forgets_input: bool,
    has_account: Account,
    refuses: bool,
    channel: Option<[u8; 32]>,
    looked_up: Option<(String, Account)>,
    logged_in: Option<String>,
    elements: u16,
    closes: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Account {
    Alice,
    Nobody,
    Locked,
    Unavailable,
}

enum Answer {
    Keys(String),
    Verified(Option<bool>),
    Registered,
    Bound(String),
    Resumed(String),
}

fn keys() -> &'static [ScramKeys] {
    static KEYS: OnceLock<Vec<ScramKeys>> = OnceLock::new();
    KEYS.get_or_init(|| {
        let derive = |hash| sasl::derive(hash, "secret", b"0123456789abcdef", 1);
        vec![derive(Hash::Sha1), derive(Hash::Sha256)]
    })
}

impl Session {
    fn new(bits: u8) -> Self {
        let config = C2sConfig {
            domains: vec!["localhost".into(), "other.example".into()],
            mechanisms: Mechanism::ALL.to_vec(),
            has_tls: bits & 1 != 0,
            require_tls: bits & 2 != 0,
            plain_without_tls: bits & 4 != 0,
            registration: bits & 8 != 0,
            features: b"<c xmlns='urn:c'/>".to_vec(),
            session_features: xmpp::sm::FEATURE.to_vec(),
            secret: [7; 32],
            iterations: 1,
        };
        Session {
            machine: C2s::new(Arc::new(config), "id'<".into()),
            framer: Framer::new(),
            scratch: Scratch::default(),
            buffer: Vec::new(),
            owed: Vec::new(),
            out: Vec::new(),
            is_new: false,
            forgets_input: false,
            has_account: Account::Alice,
            refuses: false,
            channel: None,
            looked_up: None,
            logged_in: None,
            elements: 0,
            closes: 0,
        }
    }

    fn command(&mut self, byte: u8) {
        match byte {
            // A read ends here.
            b'0' => self.read(),
            // Everything that is asked for is answered, and more asked, until nothing is left.
            b'1' => self.settle(),
            b'2' => self.has_account = Account::Alice,
            b'3' => self.has_account = Account::Nobody,
            b'4' => self.has_account = Account::Locked,
            b'5' => self.has_account = Account::Unavailable,
            b'6' => self.refuses = !self.refuses,
            b'7' => self.channel = Some([9; 32]),
            b'8' => self.channel = None,
            b'9' => self.abort(StreamError::SystemShutdown),
            b'a' => self.abort(StreamError::Conflict),
            byte => self.buffer.push(byte),
        }
    }

    fn abort(&mut self, error: StreamError) {
        self.step(|machine, out, effects| machine.abort(error, Some("It's <over>."), out, effects));
    }

    /// Runs the machine once and carries out what it asks for.
    fn step(&mut self, run: impl FnOnce(&mut C2s, &mut Vec<u8>, &mut Vec<Effect>)) {
        let mut effects = Vec::new();
        let had = self.out.len();
        run(&mut self.machine, &mut self.out, &mut effects);
        if self.closes > 0 {
            assert_eq!(self.out.len(), had, "written after the end");
            assert!(effects.is_empty(), "asked for after the end");
        }
        for effect in effects {
            self.carry_out(effect);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::StartTls => {
                self.begin_anew();
                self.forgets_input = true;
                self.machine.tls_established(self.channel);
            }
            Effect::Restart => {
                self.begin_anew();
                let user = self.machine.authenticated().map(str::to_owned);
                assert!(
                    user.is_some() && user == self.logged_in,
                    "a login by nobody"
                );
            }
            Effect::Lookup { user } => {
                assert_eq!(addr::normalize(&user).as_deref(), Ok(&*user));
                self.owed.push(Answer::Keys(user));
            }
            Effect::Verify {
                user,
                keys,
                password,
            } => {
                assert_eq!(self.looked_up.as_ref().map(|(name, _)| name), Some(&user));
                let ok = sasl::verify_plain(&keys, &password);
                // Whoever could check it may be busy.
                self.owed
                    .push(Answer::Verified((!self.refuses).then_some(ok)));
            }
            Effect::Register { user, .. } => {
                assert_eq!(addr::normalize(&user).as_deref(), Ok(&*user));
                self.owed.push(Answer::Registered);
            }
            Effect::LoginEnded { user, end } => {
                let (looked_up, account) = self.looked_up.clone().expect("keys were asked for");
                assert_eq!(looked_up, user);
                if end == LoginEnd::Succeeded {
                    assert!(
                        account == Account::Alice && user == ALICE,
                        "a foreign login"
                    );
                    self.logged_in = Some(user);
                }
            }
            Effect::Bind { user, resource } => {
                assert_eq!(self.logged_in.as_ref(), Some(&user));
                let resource = resource.unwrap_or_else(|| "made-up".to_owned());
                self.owed.push(Answer::Bound(format!("{user}/{resource}")));
            }
            Effect::Resume { user, request } => {
                assert_eq!(self.logged_in.as_ref(), Some(&user));
                assert_eq!(
                    (request.name(), request.ns()),
                    ("resume", ns::STREAM_MANAGEMENT)
                );
                self.owed.push(Answer::Resumed(user));
            }
            Effect::Element(frame) => {
                assert!(self.machine.full_jid().is_some());
                assert!(matches!(
                    frame.ns(),
                    ns::STREAM_MANAGEMENT | ns::CLIENT_STATE
                ));
            }
            Effect::Stanza(frame) => {
                let full = self.machine.full_jid().expect("a session").to_string();
                let element = oracle::read_element(frame.as_bytes(), ns::CLIENT);
                let Ok(element) = element else {
                    return assert!(has_unread_names(frame.as_bytes()), "no element: {frame:?}");
                };
                assert_eq!(element.ns, ns::CLIENT);
                assert_eq!(element.attr("from"), Some(&*full));
                if let Some(to) = element.attr("to") {
                    assert_eq!(addr::normalize(to).as_deref(), Ok(to));
                }
                // Routing compares the type as it is written.
                let kind = frame.attr_raw("type").unwrap_or_default();
                let is_plain = kind.bytes().all(|byte| byte.is_ascii_alphabetic());
                let is_same = element.attr("type") == frame.attr_raw("type");
                assert!(is_same || (!is_plain && frame.name() == "message"));
                oracle::check_frame(&frame.as_ref(), &element, ns::CLIENT);
                assert!(xmpp::stanza::check(&frame).is_ok());
            }
            Effect::Close => self.closes += 1,
        }
    }

    fn begin_anew(&mut self) {
        let reading = oracle::read(&self.out);
        assert_eq!(reading.refusal, None, "{:?}", self.text());
        assert!(
            !matches!(reading.items.last(), Some((Item::Close, _))),
            "the stream ended before it begins anew"
        );
        self.out.clear();
        self.is_new = true;
    }

    /// Hands what was received to the machine, as far as it takes it.
    fn read(&mut self) {
        while self.closes == 0 && !self.machine.is_waiting() {
            if std::mem::take(&mut self.is_new) {
                self.framer.reset();
            }
            let limits = Limits {
                stanza_bytes: ELEMENT_BYTES_MAX,
                ..Limits::default()
            };
            let input = std::mem::take(&mut self.buffer);
            let mut framer = std::mem::take(&mut self.framer);
            let mut scratch = std::mem::take(&mut self.scratch);
            let (consumed, is_stuck) = match framer.next(&input, &limits, &mut scratch) {
                Err(error) => {
                    self.step(|machine, out, effects| {
                        machine.handle_xml_error(error, out, effects)
                    });
                    (input.len(), true)
                }
                Ok(step) => {
                    let is_stuck = step.event.is_none() && step.consumed == 0;
                    match step.event {
                        None => {}
                        Some(Event::Open(header)) => self.step(|machine, out, effects| {
                            machine.handle_header(&header, out, effects)
                        }),
                        Some(Event::Close) => self.step(C2s::handle_close),
                        Some(Event::Stanza(frame)) => {
                            self.elements += u16::from(self.machine.full_jid().is_none());
                            self.step(|machine, out, effects| {
                                machine.handle_element(&frame, "server", out, effects);
                            });
                        }
                    }
                    (step.consumed, is_stuck)
                }
            };
            (self.buffer, self.framer, self.scratch) = (input, framer, scratch);
            self.buffer.drain(..consumed);
            if std::mem::take(&mut self.forgets_input) {
                self.buffer.clear();
            }
            assert!(
                self.elements <= NEGOTIATION_ELEMENTS_MAX + 1,
                "no end of a negotiation"
            );
            if is_stuck {
                break;
            }
        }
    }

    fn answer(&mut self, answer: Answer) {
        match answer {
            Answer::Keys(user) => {
                let account = match self.has_account {
                    Account::Alice if user != ALICE => Account::Nobody,
                    account => account,
                };
                let credentials = match account {
                    Account::Alice => Credentials::Known(keys().to_vec()),
                    Account::Nobody => Credentials::Unknown,
                    Account::Locked => Credentials::Locked(keys().to_vec()),
                    Account::Unavailable => Credentials::Unavailable,
                };
                self.looked_up = Some((user, account));
                self.step(|machine, out, effects| machine.credentials(credentials, out, effects));
            }
            Answer::Verified(ok) => {
                self.step(|machine, out, effects| machine.verified(ok, out, effects));
            }
            Answer::Registered => {
                let result = match self.refuses {
                    true => Err(StanzaError::new(Condition::Conflict).with_text("Taken.")),
                    false => Ok(()),
                };
                self.step(|machine, out, _| machine.registered(result, out));
            }
            Answer::Bound(full) => {
                let result = match self.refuses {
                    true => Err(StanzaError::new(Condition::ResourceConstraint)),
                    false => Ok(full.into()),
                };
                self.step(|machine, out, _| machine.bound(result, out));
            }
            Answer::Resumed(user) => {
                let full = (!self.refuses).then(|| format!("{user}/before").into());
                self.step(|machine, _, _| machine.resumed(full));
            }
        }
    }

    fn settle(&mut self) {
        self.read();
        while let Some(answer) = self.owed.pop() {
            self.answer(answer);
            self.read();
        }
    }

    fn finish(mut self) {
        self.settle();
        self.abort(StreamError::ConnectionTimeout);
        assert_eq!(self.closes, 1, "a stream ends once");
        let reading = oracle::read(&self.out);
        assert_eq!(reading.refusal, None, "{}", self.text());
        let Some(((Item::Close, end), items)) = reading.items.split_last() else {
            panic!("no end: {}", self.text());
        };
        assert_eq!(*end, self.out.len(), "{}", self.text());
        assert!(matches!(items.first(), Some((Item::Open(_), _))));
        for (at, (item, _)) in items.iter().enumerate().skip(1) {
            let Item::Stanza(element) = item else {
                panic!("text between stanzas: {}", self.text());
            };
            if (&*element.ns, &*element.name) == (ns::STREAMS, "error") {
                assert_eq!(at + 1, items.len(), "something behind an error");
                let condition = element.children().next().expect("a condition");
                assert_eq!(condition.ns, ns::STREAM_ERRORS);
                let known = StreamError::ALL.iter();
                assert_eq!(
                    known.filter(|one| one.as_str() == condition.name).count(),
                    1
                );
            }
        }
        // What comes too late for a stream that has ended.
        self.answer(Answer::Keys(ALICE.to_owned()));
        self.answer(Answer::Verified(Some(true)));
        self.answer(Answer::Registered);
        self.answer(Answer::Bound(format!("{ALICE}/late")));
        self.answer(Answer::Resumed(ALICE.to_owned()));
        self.step(C2s::handle_close);
        self.step(|machine, out, effects| {
            machine.handle_xml_error(xml::Error::TooLarge, out, effects)
        });
        assert!(self.machine.is_waiting());
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }
}
