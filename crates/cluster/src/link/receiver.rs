//! Connections that others made: each brings packets, which are delivered in order, and takes
//! acknowledgements back. Owns the rule that who cannot deliver does not read on.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncWriteExt, BufReader, ReadHalf, WriteHalf, split};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsStream;

use super::credentials::{Credentials, sentence};
use super::frame::{self, Frame, Hello, VERSION, VERSION_MIN, Welcome};
use super::incoming::{Arrived, Incoming};
use super::stream::{Accepted, Listener, Stream};
use super::{Options, Shared, Taken, lock};

/// Pause before a packet is delivered again for which there was no room.
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// Pause after a connection could not be accepted: the process may be out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Bytes read at once; packets that come together are acknowledged together.
const READ_BYTES: usize = 64 * 1_024;

/// Senders that are remembered.
pub(super) const SENDERS_MAX: usize = super::PEERS_MAX;

/// Until the links end.
pub(super) async fn accept(listener: Listener, shared: Arc<Shared>) {
    let places = Arc::new(Semaphore::new(shared.options.connections_max.max(1)));
    loop {
        // It is never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, from)) => {
                let shared = Arc::clone(&shared);
                tokio::spawn(async move {
                    serve(stream, &from, &shared).await;
                    drop(place);
                });
            }
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// One connection.
struct Connection {
    reader: BufReader<ReadHalf<Stream>>,
    writer: WriteHalf<Stream>,
    out: Vec<u8>,
    silence_max: Duration,
    write_within: Duration,
}

impl Connection {
    fn new(stream: Stream, options: &Options) -> Connection {
        let (reader, writer) = split(stream);
        Connection {
            reader: BufReader::with_capacity(READ_BYTES, reader),
            writer,
            out: Vec::new(),
            silence_max: options.silence_max,
            write_within: options.write_within,
        }
    }

    async fn read(&mut self) -> Result<Frame, String> {
        match timeout(self.silence_max, frame::read(&mut self.reader)).await {
            Ok(frame) => frame,
            Err(_) => Err("silence".to_owned()),
        }
    }

    async fn flush(&mut self) -> Result<(), String> {
        let write = async {
            self.writer.write_all(&self.out).await?;
            self.writer.flush().await
        };
        let written = timeout(self.write_within, write).await;
        self.out.clear();
        match written {
            Ok(written) => written.map_err(|error| sentence(&error)),
            Err(_) => Err("acknowledgements are not read".to_owned()),
        }
    }
}

/// A connection from its first byte to its end. Who connected knows of an end that comes later, and
/// says why; one that never was a link is noted here.
async fn serve(stream: Accepted, from: &str, shared: &Arc<Shared>) {
    let mut credentials = shared.credentials.subscribe();
    let in_force = credentials.borrow_and_update().clone();
    let gone = lock(&shared.strangers).enter(shared.options.strangers_max);
    let patience = shared.options.introduce_within;
    let introduced = tokio::select! {
        introduced = introduce(stream, in_force, shared) => introduced,
        () = sleep(patience) => {
            Err(format!("it did not say who it is within {patience:?}: no node, or one that hangs"))
        }
        Ok(()) = gone => Err("it did not say who it is, and others came".to_owned()),
    };
    match introduced {
        Ok((mut connection, hello, begun)) => tokio::select! {
            _ = take(&mut connection, &hello, begun, shared) => {}
            // It connects again, and shows what it has now.
            _ = credentials.changed() => {}
        },
        Err(why) => shared.refuse(format!("a connection from {from} was refused: {why}")),
    }
}

/// Who is there, and whether it may be.
async fn introduce(
    stream: Accepted,
    credentials: Option<Credentials>,
    shared: &Arc<Shared>,
) -> Result<(Connection, Hello, Begun), String> {
    let (stream, shown) = match (stream, &credentials) {
        (Accepted::Unix(stream), _) => (Stream::Unix(stream), None),
        (Accepted::Tcp(stream), None) => (Stream::Plain(stream), None),
        (Accepted::Tcp(stream), Some(credentials)) => {
            let accepted = credentials.acceptor().accept(stream).await;
            let accepted = accepted.map_err(|error| sentence(&error))?;
            let shown = accepted.get_ref().1.peer_certificates();
            let shown = shown.map(<[_]>::to_vec);
            (Stream::Tls(Box::new(TlsStream::Server(accepted))), shown)
        }
    };
    let mut connection = Connection::new(stream, &shared.options);
    let Frame::Hello(hello) = frame::read_first(&mut connection.reader).await? else {
        return Err("it is no node: no hello".to_owned());
    };
    let is_named = match &credentials {
        None => Ok(()),
        Some(_) => Credentials::check_name(shown.as_deref(), &hello.from),
    };
    let begun = match is_named.and_then(|()| begin(&hello, shared)) {
        Ok(begun) => begun,
        Err(why) => {
            Frame::Refused(why.clone()).write(&mut connection.out);
            connection.flush().await?;
            return Err(why);
        }
    };
    let version = hello.version.min(VERSION);
    let welcome = Welcome {
        version,
        incarnation: shared.author.incarnation,
        received: lock(&begun.0).settled(version),
    };
    Frame::Welcome(welcome).write(&mut connection.out);
    connection.flush().await?;
    Ok((connection, hello, begun))
}

/// What is known of the sender, and the number of the connection.
pub(super) type Begun = (Arc<Mutex<Incoming>>, u64);

pub(super) fn begin(hello: &Hello, shared: &Arc<Shared>) -> Result<Begun, String> {
    if hello.version_min > VERSION || hello.version < VERSION_MIN {
        return Err(format!(
            "{} speaks versions {} to {} of links, this node {VERSION_MIN} to {VERSION}: upgrade \
             the older one",
            hello.from, hello.version_min, hello.version
        ));
    }
    if hello.deployment != shared.options.deployment {
        return Err(format!("this is deployment {}", shared.options.deployment));
    }
    if hello.to != shared.author.node {
        return Err(format!("this is node {}", shared.author.node));
    }
    let incoming = {
        let mut all = lock(&shared.incoming);
        if all.len() >= SENDERS_MAX && !all.contains_key(&hello.from) {
            return Err("too many nodes".to_owned());
        }
        Arc::clone(all.entry(hello.from.clone()).or_default())
    };
    let (is_anew, number) = {
        let mut incoming = lock(&incoming);
        (incoming.is_anew(hello), incoming.begin(hello))
    };
    let number = number.ok_or("a later session of this node has begun")?;
    if is_anew {
        // It gave up what it had under way, and what was owed for that.
        shared.is_gone(shared.peer(&hello.from));
    }
    Ok((incoming, number))
}

async fn take(
    connection: &mut Connection,
    hello: &Hello,
    begun: Begun,
    shared: &Arc<Shared>,
) -> Result<(), String> {
    let version = hello.version.min(VERSION);
    loop {
        match connection.read().await? {
            Frame::Packet(position, packet) => {
                let delivered = deliver((position, &packet), hello, &begun, shared);
                let limit = shared.options.deliver_within;
                let delivered = timeout(limit, delivered).await;
                let goes_back = delivered.map_err(|_| "it cannot be heard now".to_owned())??;
                if let Some(answer) = goes_back {
                    Frame::Moved(position, answer).write(&mut connection.out);
                }
            }
            Frame::Ping => {}
            other => return Err(format!("not expected: {other:?}")),
        }
        // What came with it is acknowledged with it.
        if connection.reader.buffer().is_empty() {
            let settled = lock(&begun.0).settled(version);
            Frame::Acknowledged(settled).write(&mut connection.out);
            connection.flush().await?;
        }
    }
}

/// Delivers a packet as soon as it can be, unless it was before. What goes back with it if nobody
/// here has it.
async fn deliver(
    (position, packet): (u64, &[u8]),
    hello: &Hello,
    (incoming, connection): &Begun,
    shared: &Arc<Shared>,
) -> Result<Option<Vec<u8>>, String> {
    let id = shared.peer(&hello.from);
    // Most packets bring about an answer: its sender has to be one that can be given some.
    let may_come = || {
        let peer = shared.by_id(id);
        peer.is_some_and(|peer| peer.may_be_heard(hello.incarnation, &shared.options))
    };
    loop {
        let taken = {
            let mut incoming = lock(incoming);
            match incoming.arrives(*connection, position) {
                Arrived::Known => return Ok(None),
                Arrived::Wrong => return Err("a packet is missing".to_owned()),
                Arrived::Next => {}
            }
            let taken = match may_come() {
                // It went back, which its sender has heard.
                true if packet.is_empty() => Taken::Yes,
                true => (shared.deliver)(id, packet),
                false => Taken::Later,
            };
            if taken != Taken::Later {
                let under_way_max = shared.options.unacknowledged_max;
                incoming.taken(position, taken != Taken::Yes, under_way_max);
            }
            taken
        };
        match taken {
            Taken::Yes => return Ok(None),
            Taken::Later => sleep(BUSY_PAUSE).await,
            Taken::Moved(answer) => return Ok(Some(answer)),
            Taken::Bad(why) => {
                // It comes back to its sender, and is told there what became of it.
                shared.complain(id, &hello.from, &why);
                return Ok(Some(Vec::new()));
            }
        }
    }
}
