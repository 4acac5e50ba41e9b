//! One peer's task: it connects, introduces itself, sends what waits and hears what was taken. Owns
//! the session, which lives as long as the map has the same process of the peer.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::io::{AsyncWriteExt, BufReader, ReadHalf, WriteHalf, split};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc::{self, channel};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsStream;

use super::credentials::{Credentials, sentence, server_name};
use super::frame::{self, Frame, Hello, VERSION, VERSION_MIN, Welcome};
use super::outgoing::{Freed, Outgoing};
use super::stream::Stream;
use super::{Peer, PeerId, Shared, UNIX, Where, lock};

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
        peer.life.store(known.incarnation, Ordering::Release);
        let mut outgoing = Outgoing::new();
        let parts = (&*peer, &mut queue, &*shared);
        run_session(parts, session, &known, &mut outgoing, &mut place).await;
        peer.life.store(0, Ordering::Release);
        peer.is_connected.store(false, Ordering::Relaxed);
        peer.is_refusing.store(false, Ordering::Relaxed);
        peer.silent_ticks.store(0, Ordering::Relaxed);
        let answers = outgoing.answers();
        peer.unanswered.fetch_sub(answers, Ordering::Relaxed);
        let (left, freed) = outgoing.give_up();
        peer.free(freed);
        shared.give_back(&peer, left);
        forget_answers(&peer);
        shared.is_gone(id);
    }
}

/// Those that no session has.
fn forget_answers(peer: &Peer) {
    for answer in lock(&peer.answers).drain(..) {
        let answers = 1;
        peer.free(Freed {
            answers,
            ..Freed::one(answer.len())
        });
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
    let (first_pause, longest_pause) = shared.options.again_after;
    let mut pause = first_pause;
    let mut credentials = shared.credentials.subscribe();
    loop {
        let in_force = credentials.borrow_and_update().clone();
        let connected = tokio::select! {
            connected = connect(peer, shared, (session, known), in_force) => connected,
            _ = changed(place, known) => return,
        };
        let ended = match connected {
            Ok((reader, writer, received)) => {
                let Ok((freed, again)) = outgoing.connected(received) else {
                    // It knows of packets that never were: another session says what is so.
                    return fail(peer, shared, "the peer counts what was not sent");
                };
                begun(peer, shared, freed, again);
                pause = first_pause;
                let (frames, heard) = channel(FRAMES_MAX);
                let taken = peer.taken.load(Ordering::Relaxed);
                let reading = tokio::spawn(listen(reader, frames));
                let mut connection = Connection::new(writer, heard);
                let ended = tokio::select! {
                    ended = connection.run((peer, queue, shared), outgoing) => Some(ended),
                    // At once again, with what the node has now.
                    _ = credentials.changed() => Some(None),
                    _ = changed(place, known) => None,
                };
                reading.abort();
                let is_stuck = peer.taken.load(Ordering::Relaxed) == taken;
                if is_stuck && matches!(ended, Some(Some(_))) && peer.owes_too_much(&shared.options)
                {
                    // It may take none because answers of its own wait here, as many: both sides
                    // would wait for ever.
                    return fail(peer, shared, "it takes no answers: a new session begins");
                }
                ended
            }
            Err(why) => Some(Some(why)),
        };
        peer.is_connected.store(false, Ordering::Relaxed);
        let Some(why) = ended else { return };
        if let Some(why) = why {
            fail(peer, shared, &why);
        }
        tokio::select! {
            () = sleep(pause) => {}
            _ = credentials.changed() => {}
            _ = changed(place, known) => return,
        }
        pause = (pause * 2).min(longest_pause);
    }
}

fn begun(peer: &Peer, shared: &Shared, freed: Freed, again: u64) {
    peer.free(freed);
    peer.taken
        .fetch_add(freed.packets as u64, Ordering::Relaxed);
    peer.sent_again.fetch_add(again, Ordering::Relaxed);
    peer.connections.fetch_add(1, Ordering::Relaxed);
    peer.silent_ticks.store(0, Ordering::Relaxed);
    peer.is_connected.store(true, Ordering::Relaxed);
    *lock(&peer.last_error) = None;
    shared.note(true, format!("the link to node {} is up", peer.name));
}

fn fail(peer: &Peer, shared: &Shared, why: &str) {
    *lock(&peer.last_error) = Some(why.to_owned());
    shared.note(false, format!("no link to node {}: {why}", peer.name));
}

/// Once the map says something else.
async fn changed(place: &mut Place, known: &Where) {
    while place.borrow_and_update().as_ref() == Some(known) {
        if place.changed().await.is_err() {
            return;
        }
    }
}

type Connected = (BufReader<ReadHalf<Stream>>, WriteHalf<Stream>, u64);

async fn connect(
    peer: &Peer,
    shared: &Shared,
    (session, known): (u64, &Where),
    credentials: Option<Credentials>,
) -> Result<Connected, String> {
    let within = shared.options.connect_within;
    let introduced = async {
        let stream = open(peer, known, credentials).await?;
        introduce(stream, peer, shared, (session, known)).await
    };
    match timeout(within, introduced).await {
        Ok(Ok(connected)) => Ok(connected),
        Ok(Err(why)) => Err(format!("{}: {why}", known.address)),
        Err(_) => Err(format!(
            "{} does not answer within {within:?}",
            known.address
        )),
    }
}

/// A connection to a peer that has proved its name, if links are encrypted.
async fn open(
    peer: &Peer,
    known: &Where,
    credentials: Option<Credentials>,
) -> Result<Stream, String> {
    if let Some(path) = known.address.strip_prefix(UNIX) {
        let stream = UnixStream::connect(path).await;
        return stream.map(Stream::Unix).map_err(|error| error.to_string());
    }
    let stream = TcpStream::connect(&known.address).await;
    let error = stream.as_ref().err().map(io::Error::kind);
    let is_refusing = error == Some(io::ErrorKind::ConnectionRefused);
    peer.is_refusing.store(is_refusing, Ordering::Relaxed);
    let stream = stream.map_err(|error| error.to_string())?;
    // What is written is written at once.
    let _ = stream.set_nodelay(true);
    let Some(credentials) = credentials else {
        return Ok(Stream::Plain(stream));
    };
    let name =
        server_name(&peer.name).ok_or("its name cannot be in a certificate: give it another")?;
    let connected = credentials.connector().connect(name, stream).await;
    let connected = connected.map_err(|error| sentence(&error))?;
    Ok(Stream::Tls(Box::new(TlsStream::Client(connected))))
}

async fn introduce(
    stream: Stream,
    peer: &Peer,
    shared: &Shared,
    (session, known): (u64, &Where),
) -> Result<Connected, String> {
    let (reader, mut writer) = split(stream);
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
    // With TLS 1.3 the peer looks at this node's certificate after the handshake has ended here: if
    // it refuses, that can be read, however far the writing came.
    if writer.write_all(&out).await.is_ok() {
        let _ = writer.flush().await;
    }
    match frame::read_first(&mut reader).await? {
        Frame::Welcome(Welcome { version, .. }) if !(VERSION_MIN..=VERSION).contains(&version) => {
            Err(format!(
                "it answers in version {version} of links, this node speaks {VERSION_MIN} to \
                 {VERSION}: upgrade the older one"
            ))
        }
        Frame::Welcome(Welcome { incarnation, .. }) if incarnation != known.incarnation => {
            Err("another life of the node answers than the map has".to_owned())
        }
        Frame::Welcome(welcome) => Ok((reader, writer, welcome.received)),
        Frame::Refused(why) => Err(why),
        other => Err(format!("not expected: {other:?}")),
    }
}

/// Hands on what the peer says.
async fn listen(mut reader: BufReader<ReadHalf<Stream>>, to: mpsc::Sender<Result<Frame, String>>) {
    loop {
        let frame = frame::read(&mut reader).await;
        let is_over = frame.is_err();
        if to.send(frame).await.is_err() || is_over {
            return;
        }
    }
}

struct Connection {
    writer: WriteHalf<Stream>,
    heard: mpsc::Receiver<Result<Frame, String>>,
    out: Vec<u8>,
    written: usize,
    /// Nothing that was written is in the record layer any more.
    is_flushed: bool,
}

impl Connection {
    fn new(writer: WriteHalf<Stream>, heard: mpsc::Receiver<Result<Frame, String>>) -> Connection {
        Connection {
            writer,
            heard,
            out: Vec::new(),
            written: 0,
            is_flushed: true,
        }
    }

    /// Until it ends: why.
    async fn run(
        &mut self,
        (peer, queue, shared): Parts<'_>,
        outgoing: &mut Outgoing,
    ) -> Option<String> {
        let options = &shared.options;
        let mut ticks = interval(options.tick);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut taken = Vec::new();
        loop {
            self.fill(outgoing);
            let has_room = outgoing.len() < options.unacknowledged_max;
            tokio::select! {
                pushed = push(&mut self.writer, &self.out[self.written..]), if self.has_work() => {
                    match pushed {
                        Ok(bytes) => {
                            self.written += bytes;
                            self.is_flushed = bytes == 0;
                        }
                        Err(error) => return Some(sentence(&error)),
                    }
                }
                frame = self.heard.recv() => {
                    let frame = frame.unwrap_or_else(|| Err("the connection ended".to_owned()));
                    if frame.is_ok() {
                        peer.silent_ticks.store(0, Ordering::Relaxed);
                    }
                    if let Err(why) = frame.and_then(|frame| hear(frame, peer, shared, outgoing)) {
                        return Some(why);
                    }
                }
                count = queue.recv_many(&mut taken, TAKE_MAX), if has_room => {
                    if count == 0 {
                        return Some("the links end".to_owned());
                    }
                    taken.drain(..).for_each(|packet| outgoing.push(packet));
                }
                () = peer.has_answers.notified() => {
                    let answers = std::mem::take(&mut *lock(&peer.answers));
                    for answer in answers {
                        outgoing.push_answer(answer);
                    }
                }
                _ = ticks.tick() => {
                    let silent = peer.silent_ticks.fetch_add(1, Ordering::Relaxed) + 1;
                    if silent > options.silent_ticks_max {
                        let silence = options.tick * options.silent_ticks_max;
                        return Some(format!("it said nothing for {silence:?}"));
                    }
                    if !self.has_output() {
                        Frame::Ping.write(&mut self.out);
                    }
                }
            }
        }
    }

    fn has_work(&self) -> bool {
        self.has_output() || !self.is_flushed
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

/// Writes on: so many bytes. None are left when what was written before is on its way. May be
/// cancelled.
async fn push(writer: &mut WriteHalf<Stream>, bytes: &[u8]) -> io::Result<usize> {
    if bytes.is_empty() {
        writer.flush().await?;
        return Ok(0);
    }
    match writer.write(bytes).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        written => Ok(written),
    }
}

fn hear(frame: Frame, peer: &Peer, shared: &Shared, outgoing: &mut Outgoing) -> Result<(), String> {
    let impossible = |_| "the peer speaks of what was not sent".to_owned();
    match frame {
        Frame::Acknowledged(received) => {
            let freed = outgoing.acknowledged(received).map_err(impossible)?;
            peer.free(freed);
            peer.taken
                .fetch_add(freed.packets as u64, Ordering::Relaxed);
        }
        Frame::Moved(position, _) => {
            // Its own place is freed with the acknowledgement.
            if let Some(packet) = outgoing.moved(position).map_err(impossible)? {
                peer.returned.fetch_add(1, Ordering::Relaxed);
                lock(&shared.returned).packets.push_back(packet.to_vec());
            }
        }
        other => return Err(format!("not expected: {other:?}")),
    }
    Ok(())
}
