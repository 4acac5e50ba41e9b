//! Ways between the processes of a cluster: TCP connections that go through this process, so that
//! each direction of each can be cut and mended. A cut way loses nothing: what was written waits,
//! as it does behind a network that is down for less than TCP's patience. New connections are
//! taken and stay silent. Owns sockets and threads; who uses which way is the caller's.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often a way that is cut, or silent, is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes that are passed on at once.
const PIECE_BYTES: usize = 64 * 1024;

/// Which direction of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Flow {
    /// From who connected, and to him.
    Both,
    /// From who connected.
    There,
    /// To who connected.
    Back,
}

#[derive(Default)]
struct Shared {
    is_cut: [AtomicBool; 2],
    is_over: AtomicBool,
}

impl Shared {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Waits while a direction is cut. False if the way is over.
    fn await_open(&self, flow: usize) -> bool {
        while self.is_cut[flow].load(Ordering::Acquire) && !self.is_over() {
            thread::sleep(LOOK);
        }
        !self.is_over()
    }
}

/// One way: a port that leads to another one.
pub(super) struct Way {
    port: u16,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Way {
    /// To a port of this machine.
    pub(super) fn to(port: u16) -> Result<Way, String> {
        let text = |error: std::io::Error| error.to_string();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(text)?;
        let own = listener.local_addr().map_err(text)?.port();
        let target = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let shared = Arc::<Shared>::default();
        let of_thread = Arc::clone(&shared);
        let thread = thread::spawn(move || accept(&listener, target, &of_thread));
        Ok(Way {
            port: own,
            shared,
            thread: Some(thread),
        })
    }

    /// Where it begins.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Cuts or mends a direction.
    pub(super) fn set_cut(&self, flow: Flow, is_cut: bool) {
        let flows: &[usize] = match flow {
            Flow::Both => &[0, 1],
            Flow::There => &[0],
            Flow::Back => &[1],
        };
        for flow in flows {
            self.shared.is_cut[*flow].store(is_cut, Ordering::Release);
        }
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        // Wakes who accepts; if that fails he was awake.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        if let Some(thread) = self.thread.take() {
            // What it panicked of was printed.
            let _ = thread.join();
        }
    }
}

fn accept(listener: &TcpListener, target: SocketAddr, shared: &Arc<Shared>) {
    while let Ok((near, _)) = listener.accept() {
        if shared.is_over() {
            return;
        }
        let shared = Arc::clone(shared);
        thread::spawn(move || join(near, target, &shared));
    }
}

/// Passes on what one side of a connection says to the other, each on a thread.
fn join(near: TcpStream, target: SocketAddr, shared: &Arc<Shared>) {
    // Both directions are needed to connect.
    if !shared.await_open(0) || !shared.await_open(1) {
        return;
    }
    // Who is not there refuses: the connection ends.
    let Ok(far) = TcpStream::connect(target) else {
        return;
    };
    let sides = near
        .try_clone()
        .and_then(|copy| Ok((copy, far.try_clone()?)));
    let Ok((near_again, far_again)) = sides else {
        return;
    };
    let of_thread = Arc::clone(shared);
    thread::spawn(move || pass(far_again, near_again, 1, &of_thread));
    pass(near, far, 0, shared);
}

fn pass(mut from: TcpStream, mut to: TcpStream, flow: usize, shared: &Shared) {
    // Without them the way is only slower.
    let _ = (to.set_nodelay(true), from.set_read_timeout(Some(LOOK)));
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        if !shared.await_open(flow) {
            break;
        }
        match from.read(&mut piece) {
            Ok(0) => break,
            // It was cut while it was waited for.
            Ok(length) => {
                if !shared.await_open(flow) || to.write_all(&piece[..length]).is_err() {
                    break;
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    if shared.await_open(flow) {
        // One that has ended already is what we want.
        let _ = to.shutdown(Shutdown::Write);
    }
    if shared.is_over() {
        let _ = to.shutdown(Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a way passes on what both sides say; a direction that is cut keeps it back, and the
    /// other one does not notice.
    #[test]
    fn a_direction_that_is_cut_keeps_back_what_is_said() {
        let there = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let way = Way::to(there.local_addr().expect("its port").port()).expect("a way");
        let mut near = TcpStream::connect((Ipv4Addr::LOCALHOST, way.port())).expect("a way");
        let (mut far, _) = there.accept().expect("a connection");
        let patience = Some(Duration::from_millis(300));
        near.set_read_timeout(patience).expect("a timeout");
        far.set_read_timeout(patience).expect("a timeout");
        let mut byte = [0];
        near.write_all(b"a").expect("written");
        far.read_exact(&mut byte).expect("passed on");
        assert_eq!(&byte, b"a");
        way.set_cut(Flow::There, true);
        near.write_all(b"b").expect("written");
        far.read_exact(&mut byte).expect_err("kept back");
        far.write_all(b"c").expect("written");
        near.read_exact(&mut byte).expect("passed on");
        assert_eq!(&byte, b"c");
        way.set_cut(Flow::Both, false);
        far.read_exact(&mut byte).expect("passed on at last");
        assert_eq!(&byte, b"b");
        drop(near);
        assert_eq!(far.read(&mut byte).expect("an end"), 0);
    }
}
