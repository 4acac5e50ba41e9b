//! XEP-0045 Multi-User Chat 1.35 and what belongs to it, as `docs/xeps.md` lists it. Rooms have
//! addresses of their own, so this file only says what there is; rooms are in `crate::room`, and
//! what they decide in the crate `room`.

use super::{Module, Xep};

pub(super) const MODULE: Module = Module {
    xeps: &[
        Xep {
            number: 45,
            name: "Multi-User Chat",
            version: "1.35.1",
            note: "At `conference.<domain>` (docs/rooms.md).",
        },
        Xep {
            number: 249,
            name: "Direct MUC Invitations",
            version: "1.2",
            note: "From client to client.",
        },
        Xep {
            number: 410,
            name: "MUC Self-Ping (Schrödinger's Chat)",
            version: "1.1.0",
            note: "The room answers for the client.",
        },
        Xep {
            number: 421,
            name: "Occupant identifiers for semi-anonymous MUCs",
            version: "1.0.0",
            note: "In presence and messages of rooms.",
        },
    ],
    host_features: &[],
    account_features: &[],
    account: &[],
    host: &[],
};
