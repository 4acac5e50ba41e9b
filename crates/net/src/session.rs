//! TLS of one connection over rustls' unbuffered form: the shard lends every buffer, and an idle
//! connection keeps none.

use std::sync::Arc;

use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};

use crate::service::TlsInfo;
use crate::tls::{TlsConfig, take_exporter};

/// The TLS state of one connection.
pub(crate) struct Session {
    conn: Box<UnbufferedServerConnection>,
    /// Bytes of a record that is not complete.
    incoming: Vec<u8>,
    established: bool,
    exporter: Option<[u8; 32]>,
}

/// What a step produced.
pub(crate) struct Progress {
    /// The handshake ended in this step.
    pub(crate) established: Option<TlsInfo>,
    /// The peer said that it will send no more.
    pub(crate) closed: bool,
}

/// TLS has failed; the alert, if any, has been queued.
pub(crate) struct Failed;

impl Session {
    pub(crate) fn new(config: &TlsConfig) -> Result<Self, Failed> {
        let conn =
            UnbufferedServerConnection::new(Arc::clone(&config.config)).map_err(|_| Failed)?;
        Ok(Session {
            conn: Box::new(conn),
            incoming: Vec::new(),
            established: false,
            exporter: None,
        })
    }

    pub(crate) fn is_established(&self) -> bool {
        self.established
    }

    /// Takes bytes from the wire; plaintext goes to `plain`, what must be sent to `wire`.
    pub(crate) fn read(
        &mut self,
        input: &[u8],
        plain: &mut Vec<u8>,
        wire: &mut Vec<u8>,
    ) -> Result<Progress, Failed> {
        let mut incoming = std::mem::take(&mut self.incoming);
        incoming.extend_from_slice(input);
        let mut progress = Progress { established: None, closed: false };
        let mut used = 0;
        let result = loop {
            let UnbufferedStatus { mut discard, state } =
                self.conn.process_tls_records(&mut incoming[used..]);
            let again = match state {
                Err(_) => {
                    used += discard;
                    // A fatal alert may be waiting to be sent.
                    self.drain_alert(wire);
                    break Err(Failed);
                }
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    let mut failed = false;
                    while let Some(record) = traffic.next_record() {
                        match record {
                            Ok(record) => {
                                discard += record.discard;
                                plain.extend_from_slice(record.payload);
                            }
                            Err(_) => failed = true,
                        }
                    }
                    if failed {
                        break Err(Failed);
                    }
                    true
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    encode(wire, |room| match data.encode(room) {
                        Ok(written) => Ok(written),
                        Err(EncodeError::InsufficientSize(size)) => Err(size.required_size),
                        Err(_) => Ok(0),
                    });
                    true
                }
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    data.done();
                    true
                }
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
                    progress.closed = true;
                    false
                }
                Ok(ConnectionState::WriteTraffic(_)) => {
                    if !self.established {
                        self.established = true;
                        progress.established = Some(TlsInfo { exporter: None });
                    }
                    false
                }
                Ok(ConnectionState::BlockedHandshake) => false,
                Ok(_) => break Err(Failed),
            };
            used += discard;
            if let Some(exporter) = take_exporter() {
                self.exporter = Some(exporter);
            }
            if !again {
                break Ok(progress);
            }
        };
        if used < incoming.len() {
            incoming.drain(..used);
            self.incoming = incoming;
        }
        let mut progress = result?;
        if let Some(info) = &mut progress.established {
            info.exporter = self.exporter.take();
        }
        Ok(progress)
    }

    fn drain_alert(&mut self, wire: &mut Vec<u8>) {
        // Bounded: a failed connection has at most an alert or two.
        for _ in 0..4 {
            match self.conn.process_tls_records(&mut []).state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    encode(wire, |room| match data.encode(room) {
                        Ok(written) => Ok(written),
                        Err(EncodeError::InsufficientSize(size)) => Err(size.required_size),
                        Err(_) => Ok(0),
                    });
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                _ => return,
            }
        }
    }

    /// Encrypts `plain` behind what `wire` holds already.
    pub(crate) fn write(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), Failed> {
        self.with_traffic(|traffic| {
            encode(wire, |room| match traffic.encrypt(plain, room) {
                Ok(written) => Ok(written),
                Err(EncryptError::InsufficientSize(size)) => Err(size.required_size),
                Err(_) => Ok(0),
            });
        })
    }

    /// Queues the end of TLS.
    pub(crate) fn close(&mut self, wire: &mut Vec<u8>) {
        let _ = self.with_traffic(|traffic| {
            encode(wire, |room| match traffic.queue_close_notify(room) {
                Ok(written) => Ok(written),
                Err(EncryptError::InsufficientSize(size)) => Err(size.required_size),
                Err(_) => Ok(0),
            });
        });
    }

    fn with_traffic(
        &mut self,
        f: impl FnOnce(&mut rustls::unbuffered::WriteTraffic<'_, rustls::server::ServerConnectionData>),
    ) -> Result<(), Failed> {
        // Every state but this one was worked off when the peer's last bytes were read.
        match self.conn.process_tls_records(&mut []).state {
            Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                f(&mut traffic);
                Ok(())
            }
            _ => Err(Failed),
        }
    }
}

/// Grows `wire` until `write` fits.
fn encode(wire: &mut Vec<u8>, mut write: impl FnMut(&mut [u8]) -> Result<usize, usize>) {
    const FIRST_TRY: usize = 512;
    let from = wire.len();
    let mut room = FIRST_TRY;
    loop {
        wire.resize(from + room, 0);
        match write(&mut wire[from..]) {
            Ok(written) => return wire.truncate(from + written),
            Err(required) => room = required.max(room + 1),
        }
    }
}
