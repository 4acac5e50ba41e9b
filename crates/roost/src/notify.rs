//! Tells systemd how the process is (sd_notify(3)): one datagram to the socket that it names in the
//! environment. Owns the messages; without systemd it does nothing.

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The way to the supervisor, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Supervisor {
    socket: Option<OsString>,
}

impl Supervisor {
    /// The supervisor that the environment names.
    pub(crate) fn from_environment() -> Supervisor {
        Supervisor {
            socket: std::env::var_os("NOTIFY_SOCKET"),
        }
    }

    /// The server takes clients.
    pub(crate) fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// The server is reading its configuration again; [`Supervisor::ready`] ends it.
    pub(crate) fn reloading(&self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let microseconds = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}"));
    }

    /// The server closes its streams.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=closing streams");
    }

    fn send(&self, message: &str) {
        let Some(socket) = &self.socket else { return };
        if let Err(error) = send_to(socket.as_bytes(), message) {
            tracing::warn!(%error, "the supervisor behind NOTIFY_SOCKET cannot be told");
        }
    }
}

fn send_to(socket: &[u8], message: &str) -> io::Result<()> {
    let address = match socket.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(socket))?,
    };
    UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_reach_the_supervisor() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("socket");
        let supervisor = Supervisor {
            socket: Some(path.into_os_string()),
        };
        let receive = || {
            let mut buffer = [0; 256];
            let length = socket.recv(&mut buffer).expect("datagram");
            String::from_utf8_lossy(&buffer[..length]).into_owned()
        };
        supervisor.ready("2 addresses");
        assert_eq!(receive(), "READY=1\nSTATUS=2 addresses");
        supervisor.reloading();
        assert!(receive().starts_with("RELOADING=1\nMONOTONIC_USEC="));
        supervisor.stopping();
        assert!(receive().starts_with("STOPPING=1\n"));
        Supervisor::default().ready("nobody listens");
    }
}
