//! A server of the engine for tests that greets, answers pings, and nothing else. It shows what is
//! asked, how often, and what goes on meanwhile.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

const INFO: &[u8] = b"INFO {\"server_id\":\"m\",\"server_name\":\"mute\",\"host\":\"127.0.0.1\",\
    \"port\":4222,\"version\":\"2.15.0\",\"proto\":1,\"headers\":true,\"go\":\"\",\
    \"max_payload\":1048576,\"client_id\":1}\r\n";

#[derive(Default)]
struct Heard {
    lines: Vec<String>,
    /// Its connections; nothing once they were cut.
    connections: Option<Vec<TcpStream>>,
}

/// See the module.
pub(crate) struct Mute {
    address: String,
    heard: Arc<Mutex<Heard>>,
}

impl Mute {
    /// Listens until the process ends.
    pub(crate) fn start() -> Mute {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("nats://{}", listener.local_addr().unwrap());
        let heard = Arc::new(Mutex::new(Heard {
            connections: Some(Vec::new()),
            ..Heard::default()
        }));
        let shared = Arc::clone(&heard);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let heard = Arc::clone(&shared);
                if let Some(all) = &mut heard.lock().unwrap().connections {
                    all.push(stream.try_clone().unwrap());
                    let heard = Arc::clone(&heard);
                    thread::spawn(move || serve(stream, &heard));
                }
            }
        });
        Mute { address, heard }
    }

    /// What a node connects to.
    pub(crate) fn address(&self) -> String {
        self.address.clone()
    }

    /// How often something was asked under this subject.
    pub(crate) fn asked(&self, subject: &str) -> usize {
        let heard = self.heard.lock().unwrap();
        let is_it = |line: &&String| line.split(' ').nth(1) == Some(subject);
        heard.lines.iter().filter(is_it).count()
    }

    /// How many connections were made to it.
    pub(crate) fn connections(&self) -> usize {
        let heard = self.heard.lock().unwrap();
        heard.connections.as_ref().map_or(0, Vec::len)
    }

    /// Ends all connections, and takes no more.
    pub(crate) fn cut(&self) {
        let connections = self.heard.lock().unwrap().connections.take();
        for connection in connections.into_iter().flatten() {
            // Its end may have come first.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

fn serve(stream: TcpStream, heard: &Mutex<Heard>) {
    let mut to = stream.try_clone().unwrap();
    // Whoever has left hears nothing.
    let _ = to.write_all(INFO);
    for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        if line == "PING" {
            let _ = to.write_all(b"PONG\r\n");
        } else {
            heard.lock().unwrap().lines.push(line);
        }
    }
}
