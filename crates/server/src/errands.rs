//! What operators ask of other nodes, on its way: questions that this node asked and that are not
//! answered, and those of others that are not whole, or are carried out. Owns the bounds of both;
//! what is asked is `admin/anywhere.rs`.
//!
//! | bound | at one more |
//! |---|---|
//! | questions under way, of this node and of others | refused as busy |
//! | bytes of a question or an answer | it is dropped, and who waits hears so |
//! | time for an answer | who waits hears that nobody knows |

use std::collections::hash_map::Entry;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustc_hash::FxHashMap;
use wire::limits::ERRAND_BYTES_MAX;
use wire::{Errand, Packet};

use crate::away::{Away, NodeId};

/// Questions of this node under way, and questions of others, whole or not.
const ERRANDS_MAX: usize = 64;

/// Bytes of a question or an answer: the largest of the control socket.
const BYTES_MAX: usize = 40 * 1_024 * 1_024;

/// Pause before a link that takes nothing is tried again, and how often.
const PAUSE: Duration = Duration::from_millis(10);
const ATTEMPTS: u32 = 500;

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// It was not asked: too much is under way, or the link takes nothing.
    Busy,
    /// It was asked, and ended before it answered.
    Gone,
    /// It was asked, and said nothing in time, or more than is taken.
    Silent,
}

/// See the module.
pub(crate) struct Errands {
    state: Mutex<State>,
    max: usize,
    bytes_max: usize,
}

#[derive(Default)]
struct State {
    last: u64,
    waiting: FxHashMap<u64, Waiting>,
    /// Questions of others of which the rest is to come.
    parts: FxHashMap<(NodeId, u64), Vec<u8>>,
    /// Questions of others that are carried out.
    running: usize,
}

struct Waiting {
    node: NodeId,
    bytes: Vec<u8>,
    tell: SyncSender<Result<Vec<u8>, Unanswered>>,
}

/// A question of another node is carried out until this is dropped.
pub(crate) struct Running(Arc<Errands>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
    }
}

/// What a part of a question leads to.
pub(crate) enum Asked {
    /// More is to come, or it was refused before.
    Nothing,
    /// It is whole.
    Whole(Vec<u8>, Running),
    /// There is no room for it.
    Busy,
}

impl Errands {
    pub(crate) fn new() -> Errands {
        Errands::with(ERRANDS_MAX, BYTES_MAX)
    }

    fn with(max: usize, bytes_max: usize) -> Errands {
        let state = State {
            // Those of an earlier life of this process mean nothing to it.
            last: fastrand::u64(..),
            ..State::default()
        };
        Errands {
            state: Mutex::new(state),
            max,
            bytes_max,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks a node, and waits for its answer so long at most.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn ask(
        &self,
        away: &dyn Away,
        node: NodeId,
        question: &[u8],
        within: Duration,
    ) -> Result<Vec<u8>, Unanswered> {
        let (tell, told) = sync_channel(1);
        let number = {
            let mut state = self.lock();
            if state.waiting.len() >= self.max {
                return Err(Unanswered::Busy);
            }
            state.last = state.last.wrapping_add(1);
            let (number, bytes) = (state.last, Vec::new());
            state.waiting.insert(number, Waiting { node, bytes, tell });
            number
        };
        let is_sent = send(away, node, (number, false), question);
        let answer = match is_sent {
            false => Err(Unanswered::Busy),
            true => told.recv_timeout(within).unwrap_or_else(|why| {
                Err(match why {
                    RecvTimeoutError::Timeout => Unanswered::Silent,
                    RecvTimeoutError::Disconnected => Unanswered::Gone,
                })
            }),
        };
        self.lock().waiting.remove(&number);
        answer
    }

    /// A part of an answer came.
    pub(crate) fn answered(&self, node: NodeId, errand: &Errand) {
        let mut state = self.lock();
        let Entry::Occupied(mut waiting) = state.waiting.entry(errand.number) else {
            return;
        };
        if waiting.get().node != node {
            return;
        }
        let is_over = waiting.get().bytes.len() + errand.bytes.len() > self.bytes_max;
        waiting.get_mut().bytes.extend_from_slice(&errand.bytes);
        if is_over || errand.is_last {
            let Waiting { bytes, tell, .. } = waiting.remove();
            // Who waited may have given up.
            let _ = tell.try_send(match is_over {
                true => Err(Unanswered::Silent),
                false => Ok(bytes),
            });
        }
    }

    /// A part of a question of another node came.
    pub(crate) fn asked(self: &Arc<Self>, node: NodeId, errand: Errand) -> Asked {
        let mut state = self.lock();
        let State { parts, running, .. } = &mut *state;
        let is_full = parts.len() + *running >= self.max;
        let key = (node, errand.number);
        let mut bytes = match parts.remove(&key) {
            Some(bytes) => bytes,
            None if is_full => return Asked::Busy,
            None => Vec::new(),
        };
        if bytes.len() + errand.bytes.len() > self.bytes_max {
            // What follows of it begins anew, and is none.
            return Asked::Busy;
        }
        bytes.extend_from_slice(&errand.bytes);
        if !errand.is_last {
            parts.insert(key, bytes);
            return Asked::Nothing;
        }
        *running += 1;
        Asked::Whole(bytes, Running(Arc::clone(self)))
    }

    /// A question came back: nobody has it.
    pub(crate) fn returned(&self, number: u64) {
        if let Some(waiting) = self.lock().waiting.remove(&number) {
            let _ = waiting.tell.try_send(Err(Unanswered::Gone));
        }
    }

    /// A process of a node is gone: it neither answers nor asks any more.
    pub(crate) fn forget(&self, node: NodeId) {
        let mut state = self.lock();
        state.waiting.retain(|_, waiting| waiting.node != node);
        state.parts.retain(|(from, _), _| *from != node);
    }
}

/// An answer that is short, as a packet.
pub(crate) fn short_answer(number: u64, bytes: &[u8]) -> Option<Vec<u8>> {
    let errand = Packet::Errand(Errand {
        number,
        is_answer: true,
        is_last: true,
        bytes: bytes.to_vec(),
    });
    let mut packet = Vec::new();
    errand.encode(&mut packet).ok().map(|()| packet)
}

/// Sends a question or an answer in parts. False if the link does not take it; a part of it may
/// have gone then, of which nothing comes.
pub(crate) fn send(
    away: &dyn Away,
    node: NodeId,
    (number, is_answer): (u64, bool),
    bytes: &[u8],
) -> bool {
    let count = bytes.len().div_ceil(ERRAND_BYTES_MAX).max(1);
    for part in 0..count {
        let from = part * ERRAND_BYTES_MAX;
        let end = bytes.len().min(from + ERRAND_BYTES_MAX);
        let errand = Packet::Errand(Errand {
            number,
            is_answer,
            is_last: part + 1 == count,
            bytes: bytes[from..end].to_vec(),
        });
        let mut packet = Vec::new();
        if let Err(why) = errand.encode(&mut packet) {
            tracing::error!(%why, "a request has no form as bytes");
            return false;
        }
        let mut attempts = 0;
        while let Err(refused) = away.send(node, packet) {
            attempts += 1;
            if attempts >= ATTEMPTS {
                return false;
            }
            std::thread::sleep(PAUSE);
            packet = refused;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use stdx::Level;

    use super::*;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);

    /// Carries everything into the errands of another node, which answers what it was asked.
    struct Echo {
        asks: Arc<Errands>,
        answers: Arc<Errands>,
        /// What is sent is not taken.
        is_full: bool,
        /// Nobody answers.
        is_silent: bool,
    }

    impl Away for Echo {
        fn send(&self, to: NodeId, packet: Vec<u8>) -> Result<(), Vec<u8>> {
            if self.is_full {
                return Err(packet);
            }
            let Ok(Packet::Errand(errand)) = Packet::decode(&packet) else {
                panic!("another packet");
            };
            let number = errand.number;
            if errand.is_answer {
                self.asks.answered(to, &errand);
            } else if let Asked::Whole(bytes, _running) = self.answers.asked(A, errand)
                && !self.is_silent
            {
                assert!(send(self, B, (number, true), &bytes));
            }
            Ok(())
        }

        fn keep(&self, packet: Vec<u8>) -> Result<(), Vec<u8>> {
            Err(packet)
        }

        fn answer(&self, _to: NodeId, _packet: Vec<u8>) {}

        fn level(&self) -> Level {
            Level::FIRST
        }

        fn may_act(&self) -> bool {
            true
        }

        fn clients(&self, _range: store::RangeId) -> Option<String> {
            None
        }
    }

    fn echo(max: usize, bytes_max: usize) -> Echo {
        Echo {
            asks: Arc::new(Errands::with(max, bytes_max)),
            answers: Arc::new(Errands::with(max, bytes_max)),
            is_full: false,
            is_silent: false,
        }
    }

    fn ask(echo: &Echo, bytes: &[u8]) -> Result<Vec<u8>, Unanswered> {
        let within = Duration::from_millis(50);
        echo.asks.ask(echo, B, bytes, within)
    }

    /// Goal: what is longer than a part arrives whole, both ways, and nothing is left of it.
    #[test]
    fn long_questions_and_answers_arrive_whole() {
        let echo = echo(2, 5 * ERRAND_BYTES_MAX);
        for bytes in [
            0,
            1,
            ERRAND_BYTES_MAX,
            ERRAND_BYTES_MAX + 1,
            3 * ERRAND_BYTES_MAX + 7,
        ] {
            let question: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
            assert_eq!(ask(&echo, &question), Ok(question));
        }
        for side in [&echo.asks, &echo.answers] {
            let state = side.lock();
            assert_eq!(
                (state.waiting.len(), state.parts.len(), state.running),
                (0, 0, 0)
            );
        }
    }

    /// Goal: a question that is larger than any is not carried out, and an answer that is, is none.
    #[test]
    fn what_is_too_large_is_no_answer() {
        let mut echo = echo(2, ERRAND_BYTES_MAX);
        let large = vec![7; 2 * ERRAND_BYTES_MAX];
        assert_eq!(ask(&echo, &large), Err(Unanswered::Silent));
        echo.answers = Arc::new(Errands::with(2, 4 * ERRAND_BYTES_MAX));
        assert_eq!(ask(&echo, &large), Err(Unanswered::Silent));
        assert!(echo.asks.lock().waiting.is_empty());
    }

    /// Goal: who is silent, gone, or takes nothing is told apart.
    #[test]
    fn who_does_not_answer_is_told_apart() {
        let mut echo = echo(1, 100);
        echo.is_silent = true;
        assert_eq!(ask(&echo, b"?"), Err(Unanswered::Silent));
        let (asks, within) = (Arc::clone(&echo.asks), Duration::from_secs(20));
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| echo.asks.ask(&echo, B, b"?", within));
            while asks.lock().waiting.is_empty() {
                std::thread::yield_now();
            }
            assert_eq!(ask(&echo, b"one more"), Err(Unanswered::Busy));
            asks.forget(A);
            assert!(!asking.is_finished());
            asks.forget(B);
            assert_eq!(asking.join().unwrap(), Err(Unanswered::Gone));
        });
    }

    /// Goal: questions of others have a bound, whether they are whole or not; each that ends makes
    /// room, and what a node that is gone began is forgotten.
    #[test]
    fn questions_of_others_are_bounded() {
        let errands = Arc::new(Errands::with(2, 100));
        let part = |number, is_last| Errand {
            number,
            is_answer: false,
            is_last,
            bytes: vec![1],
        };
        assert!(matches!(errands.asked(A, part(1, false)), Asked::Nothing));
        let whole = errands.asked(A, part(2, true));
        assert!(matches!(errands.asked(B, part(1, true)), Asked::Busy));
        drop(whole);
        assert!(matches!(errands.asked(B, part(1, false)), Asked::Nothing));
        errands.forget(A);
        let both = errands.asked(B, part(1, true));
        assert!(matches!(both, Asked::Whole(bytes, _) if bytes == [1, 1]));
    }
}
