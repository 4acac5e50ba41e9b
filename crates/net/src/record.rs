//! The TLS side of one connection: ciphertext in, plaintext out, and back, over buffers that the
//! shard lends. Owns rustls' state and the bytes of an incomplete record, nothing else: an idle
//! connection keeps no buffer.

use std::sync::Arc;

use rustls::ProtocolVersion;
use rustls::ServerConfig;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};

use crate::limits::{TLS_INCOMPLETE_MAX, WRITE_CHUNK};
use crate::service::{TlsInfo, TlsVersion};
use crate::tls;

/// Ciphertext bytes that one chunk of [`WRITE_CHUNK`] plaintext bytes can become: a header, an
/// explicit nonce and a tag for each record, and a record more for a key update in between.
pub(crate) const SEALED_MAX: usize = WRITE_CHUNK + 8 * 64;

/// Steps of rustls' machine per call; each record or message is a few. A bound against a loop that
/// makes no progress.
const STEPS_MAX: usize = 100_000;

/// The TLS state of one connection.
pub(crate) struct Tls {
    connection: UnbufferedServerConnection,
    /// Bytes of an incomplete record or handshake message; empty while idle.
    incoming: Vec<u8>,
    /// Present during the handshake.
    learned: Option<Box<Learned>>,
    established: bool,
}

/// What the handshake told on its way.
#[derive(Default)]
struct Learned {
    exporter: Option<[u8; 32]>,
    server_name: Option<Box<str>>,
}

/// What one batch of ciphertext led to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// The handshake ended with this batch.
    pub(crate) established: bool,
    /// The peer sent close_notify.
    pub(crate) closed: bool,
}

impl Tls {
    pub(crate) fn new(config: Arc<ServerConfig>) -> Result<Tls, rustls::Error> {
        let connection = UnbufferedServerConnection::new(config)?;
        Ok(Tls {
            connection,
            incoming: Vec::new(),
            learned: None,
            established: false,
        })
    }

    /// Bytes kept of what is incomplete.
    pub(crate) fn incomplete(&self) -> usize {
        self.incoming.len()
    }

    /// Whether the handshake has ended.
    pub(crate) fn established(&self) -> bool {
        self.established
    }

    /// What was negotiated. The exporter value is given once.
    pub(crate) fn info(&mut self) -> TlsInfo {
        let version = match self.connection.protocol_version() {
            Some(ProtocolVersion::TLSv1_3) => TlsVersion::Tls13,
            _ => TlsVersion::Tls12,
        };
        let learned = self.learned.take().unwrap_or_default();
        TlsInfo {
            sni: learned.server_name,
            alpn: self.connection.alpn_protocol().map(<[u8]>::to_vec),
            exporter: learned.exporter.filter(|_| version == TlsVersion::Tls13),
            version,
        }
    }

    /// Takes ciphertext; appends plaintext to `plain` and answers of the protocol to `wire`. After
    /// an error `wire` holds the alert for the peer.
    pub(crate) fn open(
        &mut self,
        input: &mut [u8],
        plain: &mut Vec<u8>,
        wire: &mut Vec<u8>,
    ) -> Result<Progress, rustls::Error> {
        let result = if self.incoming.is_empty() {
            let consumed = self.step(input, plain, wire);
            if let Ok((consumed, _)) = consumed {
                self.incoming.extend_from_slice(&input[consumed..]);
            }
            consumed
        } else {
            let mut incoming = std::mem::take(&mut self.incoming);
            incoming.extend_from_slice(input);
            let consumed = self.step(&mut incoming, plain, wire);
            if let Ok((consumed, _)) = consumed {
                incoming.drain(..consumed);
                if !incoming.is_empty() {
                    self.incoming = incoming;
                }
            }
            consumed
        };
        let (_, progress) = result?;
        if progress.closed {
            // RFC 8446 section 6.1: what follows a close_notify is ignored.
            self.incoming = Vec::new();
        }
        if self.incoming.len() > TLS_INCOMPLETE_MAX {
            return Err(rustls::Error::General("a record that never ends".into()));
        }
        Ok(progress)
    }

    /// Runs the machine over `input` until it needs more; returns the bytes used.
    fn step(
        &mut self,
        input: &mut [u8],
        plain: &mut Vec<u8>,
        wire: &mut Vec<u8>,
    ) -> Result<(usize, Progress), rustls::Error> {
        let mut consumed = 0;
        let mut progress = Progress::default();
        for _ in 0..STEPS_MAX {
            let UnbufferedStatus { mut discard, state } =
                self.connection.process_tls_records(&mut input[consumed..]);
            let mut done = false;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        discard += record.discard;
                        plain.extend_from_slice(record.payload);
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    encode(wire, |space| data.encode(space))?;
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => progress.closed = true,
                Ok(ConnectionState::ReadEarlyData(_)) => {
                    // Early data is not offered (`max_early_data_size` is 0): replay would be
                    // accepted as input.
                    return Err(rustls::Error::General("early data was not offered".into()));
                }
                Ok(_) => done = true,
                Err(error) => {
                    self.alert(wire);
                    return Err(error);
                }
            }
            consumed += discard;
            if !self.established {
                if let Some(exporter) = tls::take_exporter() {
                    self.learned.get_or_insert_default().exporter = Some(exporter);
                }
                if let Some(name) = tls::take_server_name() {
                    self.learned.get_or_insert_default().server_name = Some(name);
                }
                if !self.connection.is_handshaking() {
                    self.established = true;
                    progress.established = true;
                }
            }
            if done {
                return Ok((consumed, progress));
            }
        }
        Err(rustls::Error::General(
            "the handshake makes no progress".into(),
        ))
    }

    /// Collects the alert that rustls queued with an error.
    fn alert(&mut self, wire: &mut Vec<u8>) {
        // One alert is one record; the second round clears the transmit state.
        for _ in 0..4 {
            match self.connection.process_tls_records(&mut []).state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    if encode(wire, |space| data.encode(space)).is_err() {
                        return;
                    }
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                _ => return,
            }
        }
    }

    /// Encrypts at most [`WRITE_CHUNK`] bytes of `plain` into `sealed`, which holds at least
    /// [`SEALED_MAX`]; returns the ciphertext's length.
    pub(crate) fn seal(&mut self, plain: &[u8], sealed: &mut [u8]) -> Result<usize, rustls::Error> {
        debug_assert!(plain.len() <= WRITE_CHUNK && sealed.len() >= SEALED_MAX);
        let mut written = 0;
        for _ in 0..8 {
            match self.connection.process_tls_records(&mut []).state? {
                ConnectionState::EncodeTlsData(mut data) => {
                    written += data.encode(&mut sealed[written..]).map_err(encode_error)?;
                }
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::WriteTraffic(mut traffic) => {
                    let space = &mut sealed[written..];
                    return Ok(written + traffic.encrypt(plain, space).map_err(encrypt_error)?);
                }
                // After the peer's close_notify its machine reports that once, then writes on.
                ConnectionState::PeerClosed => {}
                _ => break,
            }
        }
        Err(rustls::Error::General(
            "the connection cannot take output".into(),
        ))
    }

    /// Writes close_notify into `sealed`; 0 when the state allows none.
    pub(crate) fn close_notify(&mut self, sealed: &mut [u8]) -> usize {
        for _ in 0..8 {
            match self.connection.process_tls_records(&mut []).state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    return traffic.queue_close_notify(sealed).unwrap_or(0);
                }
                Ok(ConnectionState::PeerClosed) => {}
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                _ => return 0,
            }
        }
        0
    }
}

/// Lets rustls encode at the end of `wire`, growing it once when the first guess is too small.
fn encode(
    wire: &mut Vec<u8>,
    mut encode: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>,
) -> Result<(), rustls::Error> {
    const GUESS: usize = 1024;
    let start = wire.len();
    wire.resize(start + GUESS, 0);
    let written = match encode(&mut wire[start..]) {
        Err(EncodeError::InsufficientSize(needed)) => {
            wire.resize(start + needed.required_size, 0);
            encode(&mut wire[start..])
        }
        other => other,
    };
    match written {
        Ok(written) => {
            wire.truncate(start + written);
            Ok(())
        }
        Err(error) => {
            wire.truncate(start);
            Err(encode_error(error))
        }
    }
}

fn encode_error(error: EncodeError) -> rustls::Error {
    rustls::Error::General(error.to_string())
}

fn encrypt_error(error: EncryptError) -> rustls::Error {
    rustls::Error::General(error.to_string())
}
