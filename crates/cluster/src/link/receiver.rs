//! Connections that others made: each brings packets, which are delivered in order, and takes
//! acknowledgements back. Owns the rule that who cannot deliver does not read on.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::frame::{self, Frame, Hello, VERSION, VERSION_MIN, Welcome};
use super::incoming::{Arrived, Incoming};
use super::{Shared, Taken, lock};

/// Connections at a time; one more waits to be accepted.
const CONNECTIONS_MAX: usize = 1_024;

/// Longest silence of a sender, who says something each second.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Longest wait for who does not read acknowledgements.
const WRITE_MAX: Duration = Duration::from_secs(10);

/// Pause before a packet is delivered again for which there was no room.
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// Pause after a connection could not be accepted: the process may be out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Bytes read at once; packets that come together are acknowledged together.
const READ_BYTES: usize = 64 * 1_024;

/// Senders that are remembered.
const SENDERS_MAX: usize = super::PEERS_MAX;

/// Until the links end.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // It is never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let shared = Arc::clone(&shared);
                tokio::spawn(async move {
                    // Who connects says what is wrong; here nobody waits for it.
                    let _ = serve(stream, &shared).await;
                    drop(place);
                });
            }
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// One connection.
struct Connection {
    reader: BufReader<tokio::net::tcp::OwnedReadHalf>,
    writer: tokio::net::tcp::OwnedWriteHalf,
    out: Vec<u8>,
}

impl Connection {
    async fn read(&mut self) -> Result<Frame, String> {
        match timeout(SILENCE_MAX, frame::read(&mut self.reader)).await {
            Ok(frame) => frame,
            Err(_) => Err("silence".to_owned()),
        }
    }

    async fn flush(&mut self) -> Result<(), String> {
        let written = timeout(WRITE_MAX, self.writer.write_all(&self.out)).await;
        self.out.clear();
        match written {
            Ok(written) => written.map_err(|error| error.to_string()),
            Err(_) => Err("acknowledgements are not read".to_owned()),
        }
    }
}

async fn serve(stream: TcpStream, shared: &Arc<Shared>) -> Result<(), String> {
    // What is written is written at once.
    let _ = stream.set_nodelay(true);
    let (reader, writer) = stream.into_split();
    let mut connection = Connection {
        reader: BufReader::with_capacity(READ_BYTES, reader),
        writer,
        out: Vec::new(),
    };
    let Frame::Hello(hello) = connection.read().await? else {
        return Err("no hello".to_owned());
    };
    let begun = begin(&hello, shared);
    let (incoming, number) = match begun {
        Ok(begun) => begun,
        Err(why) => {
            Frame::Refused(why.clone()).write(&mut connection.out);
            connection.flush().await?;
            return Err(why);
        }
    };
    let welcome = Welcome {
        version: hello.version.min(VERSION),
        incarnation: shared.author.incarnation,
        received: lock(&incoming).received(),
    };
    Frame::Welcome(welcome).write(&mut connection.out);
    connection.flush().await?;
    take(&mut connection, &hello.from, (&incoming, number), shared).await
}

/// What is known of the sender, and the number of the connection.
type Begun = (Arc<Mutex<Incoming>>, u64);

fn begin(hello: &Hello, shared: &Arc<Shared>) -> Result<Begun, String> {
    if hello.version_min > VERSION || hello.version < VERSION_MIN {
        return Err(format!(
            "{} speaks versions {} to {} of links, this node {VERSION_MIN} to {VERSION}",
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
        let id = shared.peer(&hello.from);
        lock(&shared.gone).push(id);
    }
    Ok((incoming, number))
}

async fn take(
    connection: &mut Connection,
    from: &str,
    (incoming, number): (&Mutex<Incoming>, u64),
    shared: &Arc<Shared>,
) -> Result<(), String> {
    let peer = shared.peer(from);
    loop {
        match connection.read().await? {
            Frame::Packet(position, packet) => loop {
                let arrived = {
                    let mut incoming = lock(incoming);
                    match incoming.arrives(number, position) {
                        Arrived::Known => break,
                        Arrived::Wrong => return Err("a packet is missing".to_owned()),
                        Arrived::Next => {}
                    }
                    let taken = (shared.deliver)(peer, &packet);
                    if taken != Taken::Later {
                        incoming.taken();
                    }
                    taken
                };
                match arrived {
                    Taken::Yes => break,
                    Taken::Later => sleep(BUSY_PAUSE).await,
                    Taken::Moved(answer) => {
                        Frame::Moved(position, answer).write(&mut connection.out);
                        break;
                    }
                    Taken::Bad(why) => {
                        shared.complain(from, &why);
                        break;
                    }
                }
            },
            Frame::Ping => {}
            other => return Err(format!("not expected: {other:?}")),
        }
        // What came with it is acknowledged with it.
        if connection.reader.buffer().is_empty() {
            let received = lock(incoming).received();
            Frame::Acknowledged(received).write(&mut connection.out);
            connection.flush().await?;
        }
    }
}
