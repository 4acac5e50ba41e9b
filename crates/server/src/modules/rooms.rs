//! XEP-0045 Multi-User Chat 1.35 and what belongs to it, as `docs/xeps.md` lists it. Rooms have
//! addresses of their own, so this file only says what there is; rooms are in `crate::room`, and
//! what they decide in the crate `room`.

use super::{Module, Switch, Xep};

pub(crate) const MODULE: Module = Module {
    name: "rooms",
    switch: Switch::ByOperator,
    needs: &["disco"],
    xeps: &[
        Xep {
            number: 45,
            name: "Multi-User Chat",
            version: "1.35.5",
            note: "At `conference.<domain>` (docs/rooms.md).",
        },
        Xep {
            number: 50,
            name: "Ad-Hoc Commands",
            version: "1.3.0",
            note: "Those of rooms (XEP-0317), and of pending subscriptions (XEP-0060).",
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
        Xep {
            number: 317,
            name: "Hats",
            version: "0.2",
            note: "Made and given by owners of rooms, by the commands of 0.2 and later ones.",
        },
        Xep {
            number: 424,
            name: "Message Retraction",
            version: "0.4.2",
            note: "From client to client; rooms leave tombstones of one's own messages.",
        },
        Xep {
            number: 425,
            name: "Moderated Message Retraction",
            version: "0.3.0",
            note: "By moderators who are in the room, with tombstones in the archive.",
        },
        Xep {
            number: 433,
            name: "Extended Channel Search",
            version: "0.1.0",
            note: "At `search.<domain>`: public rooms of the domain.",
        },
        Xep {
            number: 486,
            name: "MUC Avatars",
            version: "0.1.0",
            note: "Set by owners; the hash is also in presence of the room.",
        },
    ],
    host_features: &[],
    account_features: &[],
    account: &[],
    host: &[],
};
