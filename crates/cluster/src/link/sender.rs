//! One peer's task: it connects, introduces itself, sends what waits and hears what was taken. Owns
//! the session, which lives as long as the map has the same process of the peer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::{self, channel};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::frame::{self, Frame, Hello, VERSION, VERSION_MIN, Welcome};
use super::outgoing::Outgoing;
use super::{Peer, PeerId, Shared, Where, lock};

/// Longest wait for a connection and its welcome.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// Pauses between attempts: the first, and the longest.
const AGAIN_AFTER: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// How often a silent connection is looked at.
const TICK: Duration = Duration::from_secs(1);
/// Ticks without a word of the peer after which the connection is given up.
const SILENT_TICKS_MAX: u32 = 5;
/// Bytes that are put together for one write.
const WRITE_BYTES: usize = 64 * 1_024;
/// Packets taken from the queue at once.
const TAKE_MAX: usize = 256;
/// Frames of the peer that wait.
const FRAMES_MAX: usize = 64;

type Queue = mpsc::Receiver<Vec<u8>>;
type Place = watch::Receiver<Option<Where>>;

/// Until the links end.
pub(super) async fn run(id: PeerId, peer: Arc<Peer>, mut queue: Queue, shared: Arc<Shared>) {
    let mut place = peer.place.subscribe();
    let mut session = 0;
    loop {
        let known = place.borrow_and_update().clone();
        let Some(known) = known else {
            tokio::select! {
                // First: what comes with a peer that is known again is for it.
                biased;
                changed = place.changed() => if changed.is_err() { return },
                // Handed over just before the map lost it.
                Some(packet) = queue.recv() => shared.give_back(&peer, [packet]),
            }
            continue;
        };
        session += 1;
        let mut outgoing = Outgoing::new();
        let parts = (&*peer, &mut queue, &*shared);
        run_session(parts, session, &known, &mut outgoing, &mut place).await;
        peer.is_connected.store(false, Ordering::Relaxed);
        shared.give_back(&peer, outgoing.give_up());
        lock(&peer.answers).clear();
        lock(&shared.gone).push(id);
    }
}

type Parts<'a> = (&'a Peer, &'a mut Queue, &'a Shared);

/// As long as the map has this process of the peer at this place.
async fn run_session(
    (peer, queue, shared): Parts<'_>,
    session: u64,
    known: &Where,
    outgoing: &mut Outgoing,
    place: &mut Place,
) {
    let mut pause = AGAIN_AFTER.0;
    loop {
        let connected = tokio::select! {
            connected = connect(peer, shared, session, known) => connected,
            _ = changed(place, known) => return,
        };
        let ended = match connected {
            Ok((reader, writer, received)) => {
                let Ok(freed) = outgoing.connected(received) else {
                    // It knows of packets that never were: another session says what is so.
                    return fail(peer, "the peer counts what was not sent");
                };
                peer.bytes.fetch_sub(freed, Ordering::Relaxed);
                peer.is_connected.store(true, Ordering::Relaxed);
                pause = AGAIN_AFTER.0;
                let (frames, heard) = channel(FRAMES_MAX);
                let reading = tokio::spawn(listen(reader, frames));
                let mut connection = Connection {
                    writer,
                    heard,
                    out: Vec::new(),
                    written: 0,
                };
                let ended = tokio::select! {
                    ended = connection.run((peer, queue, shared), outgoing) => Some(ended),
                    _ = changed(place, known) => None,
                };
                reading.abort();
                ended
            }
            Err(why) => Some(why),
        };
        peer.is_connected.store(false, Ordering::Relaxed);
        let Some(why) = ended else { return };
        fail(peer, &why);
        tokio::select! {
            () = sleep(pause) => {}
            _ = changed(place, known) => return,
        }
        pause = (pause * 2).min(AGAIN_AFTER.1);
    }
}

fn fail(peer: &Peer, why: &str) {
    *lock(&peer.last_error) = Some(why.to_owned());
}

/// Once the map says something else.
async fn changed(place: &mut Place, known: &Where) {
    while place.borrow_and_update().as_ref() == Some(known) {
        if place.changed().await.is_err() {
            return;
        }
    }
}

type Connected = (BufReader<OwnedReadHalf>, OwnedWriteHalf, u64);

async fn connect(
    peer: &Peer,
    shared: &Shared,
    session: u64,
    known: &Where,
) -> Result<Connected, String> {
    match timeout(CONNECT_MAX, introduce(peer, shared, session, known)).await {
        Ok(connected) => connected,
        Err(_) => Err(format!("{} does not answer", known.address)),
    }
}

async fn introduce(
    peer: &Peer,
    shared: &Shared,
    session: u64,
    known: &Where,
) -> Result<Connected, String> {
    let text = |error: std::io::Error| format!("{}: {error}", known.address);
    let stream = TcpStream::connect(&known.address).await.map_err(text)?;
    // What is written is written at once.
    let _ = stream.set_nodelay(true);
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let mut out = Vec::new();
    Frame::Hello(Hello {
        version_min: VERSION_MIN,
        version: VERSION,
        deployment: shared.options.deployment.clone(),
        from: shared.author.node.clone(),
        incarnation: shared.author.incarnation,
        session,
        to: peer.name.clone(),
    })
    .write(&mut out);
    writer.write_all(&out).await.map_err(text)?;
    match frame::read(&mut reader).await? {
        Frame::Welcome(Welcome { incarnation, .. }) if incarnation != known.incarnation => {
            Err("another life of the node answers than the map has".to_owned())
        }
        Frame::Welcome(welcome) => Ok((reader, writer, welcome.received)),
        Frame::Refused(why) => Err(why),
        other => Err(format!("not expected: {other:?}")),
    }
}

/// Hands on what the peer says.
async fn listen(mut reader: BufReader<OwnedReadHalf>, to: mpsc::Sender<Result<Frame, String>>) {
    loop {
        let frame = frame::read(&mut reader).await;
        let is_over = frame.is_err();
        if to.send(frame).await.is_err() || is_over {
            return;
        }
    }
}

struct Connection {
    writer: OwnedWriteHalf,
    heard: mpsc::Receiver<Result<Frame, String>>,
    out: Vec<u8>,
    written: usize,
}

impl Connection {
    /// Until it ends: why.
    async fn run(&mut self, (peer, queue, shared): Parts<'_>, outgoing: &mut Outgoing) -> String {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut taken = Vec::new();
        let mut silent = 0;
        loop {
            self.fill(outgoing);
            let has_room = outgoing.len() < shared.options.unacknowledged_max;
            tokio::select! {
                written = self.writer.write(&self.out[self.written..]), if self.has_output() => {
                    match written {
                        Ok(0) => return "the connection ended".to_owned(),
                        Ok(bytes) => self.written += bytes,
                        Err(error) => return error.to_string(),
                    }
                }
                frame = self.heard.recv() => {
                    silent = 0;
                    let frame = frame.unwrap_or_else(|| Err("the connection ended".to_owned()));
                    if let Err(why) = frame.and_then(|frame| hear(frame, peer, shared, outgoing)) {
                        return why;
                    }
                }
                count = queue.recv_many(&mut taken, TAKE_MAX), if has_room => {
                    if count == 0 {
                        return "the links end".to_owned();
                    }
                    taken.drain(..).for_each(|packet| outgoing.push(packet));
                }
                () = peer.has_answers.notified() => {
                    let answers = std::mem::take(&mut *lock(&peer.answers));
                    for answer in answers {
                        peer.bytes.fetch_add(answer.len(), Ordering::Relaxed);
                        outgoing.push(answer);
                    }
                }
                _ = ticks.tick() => {
                    silent += 1;
                    if silent > SILENT_TICKS_MAX {
                        return "silence".to_owned();
                    }
                    if !self.has_output() {
                        Frame::Ping.write(&mut self.out);
                    }
                }
            }
        }
    }

    fn has_output(&self) -> bool {
        self.written < self.out.len()
    }

    /// Puts together what is written next, once all before it has been.
    fn fill(&mut self, outgoing: &mut Outgoing) {
        if self.has_output() {
            return;
        }
        self.out.clear();
        self.written = 0;
        while self.out.len() < WRITE_BYTES
            && let Some((position, packet)) = outgoing.next()
        {
            frame::write_packet(&mut self.out, position, packet);
        }
        if self.out.capacity() > 16 * WRITE_BYTES && self.out.is_empty() {
            self.out = Vec::new();
        }
    }
}

fn hear(frame: Frame, peer: &Peer, shared: &Shared, outgoing: &mut Outgoing) -> Result<(), String> {
    let impossible = |_| "the peer speaks of what was not sent".to_owned();
    match frame {
        Frame::Acknowledged(received) => {
            let freed = outgoing.acknowledged(received).map_err(impossible)?;
            peer.bytes.fetch_sub(freed, Ordering::Relaxed);
        }
        Frame::Moved(position, _) => {
            let packet = outgoing.moved(position).map_err(impossible)?.to_vec();
            // Its own place is freed with the acknowledgement.
            lock(&shared.returned).push_back(packet);
        }
        other => return Err(format!("not expected: {other:?}")),
    }
    Ok(())
}
