//! What the fuzz target of links runs: a node that is told anything. Not for users.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use stdx::Moment;

use crate::limits::Limits;
use crate::node::{Effect, Machine, Settings};
use crate::types::NodeName;
use crate::wire;

/// The most bytes that a node answers to a byte, beside a constant: a question may be answered by
/// everything that the node knows, which is little here.
const ANSWER_FACTOR: usize = 64;
const ANSWER_BYTES: usize = 64 << 10;

fn machine(name: &str, seed: u64) -> Option<Machine> {
    let limits = Limits {
        frame_bytes_max: 4_096,
        processes_max: 8,
        groups_max: 4,
        names_max: 16,
        members_max: 8,
        links_max: 8,
        pending_max: 8,
        operations_max: 16,
        tombstones_max: 4,
        ..Limits::default()
    };
    let settings = Settings {
        name: NodeName::new(name).ok()?,
        life: 1,
        hidden: false,
        cookie: b"secret".to_vec(),
        limits: Arc::new(limits),
        seed,
        shards: 1,
        functions: BTreeSet::from(["worker".into()]),
        many_names: false,
        config: Vec::new(),
        saved: None,
        attributes: Vec::new(),
        #[cfg(test)]
        bug: None,
    };
    Some(Machine::new(settings, Moment::ZERO))
}

/// Hands to `to` what `from` has written.
fn carry(from: &mut Machine, to: &mut Machine, conn: u64) {
    for effect in from.effects(true) {
        if let Effect::Write { bytes, .. } = effect {
            to.received(conn, &bytes);
        }
    }
}

/// A node is told `input` by a stranger, then by a node that it is linked with; time passes. It
/// must not panic, nor answer without measure.
pub fn link(input: &[u8]) {
    let (Some(mut here), Some(mut there)) = (machine("a", 1), machine("b", 2)) else {
        return;
    };
    let stranger = here.incoming();
    here.received(stranger, input);
    here.effects(true);

    let conn = here.incoming();
    let Some(far) = dial(&mut there) else {
        return;
    };
    there.opened(far);
    for _ in 0..4 {
        carry(&mut there, &mut here, conn);
        carry(&mut here, &mut there, far);
    }
    here.started(256);
    let mut written = 0;
    for piece in input.chunks(97) {
        here.received(conn, piece);
        for effect in here.effects(true) {
            if let Effect::Write { bytes, .. } = effect {
                written += bytes.len();
            }
        }
    }
    assert!(
        written <= input.len() * ANSWER_FACTOR + ANSWER_BYTES,
        "{written} bytes for {}",
        input.len()
    );
    for second in 1..60 {
        here.tick(Moment::ZERO + Duration::from_secs(second));
        here.effects(true);
    }
    here.stop();
}

fn dial(node: &mut Machine) -> Option<u64> {
    node.command(
        crate::node::Caller::Nobody,
        crate::Command::Connect(NodeName::new("a").ok()?),
    );
    node.effects(true)
        .into_iter()
        .find_map(|effect| match effect {
            Effect::Dial { conn, .. } => Some(conn),
            _ => None,
        })
}

/// Whatever is read as a frame is written as the same frame.
pub fn frame(input: &[u8]) {
    if let Ok(frame) = wire::read(input) {
        let mut out = Vec::new();
        if wire::write(&frame, usize::MAX, &mut out).is_ok() {
            // Numbers that are not compare with nothing, themselves included: the bytes decide.
            let again = wire::read(&out[4..]).map(|frame| {
                let mut again = Vec::new();
                let _ = wire::write(&frame, usize::MAX, &mut again);
                again
            });
            assert_eq!(again.as_ref(), Ok(&out), "{frame:?}");
        }
    }
    let _ = wire::read_greeting(input);
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::any;
    use proptest::proptest;

    proptest! {
        #[test]
        fn a_node_that_is_told_anything_goes_on(bytes in vec(any::<u8>(), 0..300)) {
            super::link(&bytes);
            super::frame(&bytes);
        }

        // Frames of two and more bytes, so that the prefixes are right more often.
        #[test]
        fn a_node_that_is_told_short_frames_goes_on(
            bodies in vec(vec(0_u8..24, 1..40), 0..20),
        ) {
            let mut bytes = Vec::new();
            for body in &bodies {
                bytes.extend_from_slice(&(body.len() as u32).to_be_bytes());
                bytes.extend_from_slice(body);
                super::frame(body);
            }
            super::link(&bytes);
        }
    }
}
