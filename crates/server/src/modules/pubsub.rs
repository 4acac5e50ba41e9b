//! XEP-0060 Publish-Subscribe, as `docs/xeps.md` lists it. Services have addresses of their own, so
//! this file only says what there is; services are in `crate::nodes`, and what they decide in the
//! crate `pubsub`.

use super::{Module, Xep};

pub(super) const MODULE: Module = Module {
    xeps: &[Xep {
        number: 60,
        name: "Publish-Subscribe",
        version: "1.26.0",
        note: "At `pubsub.<domain>` (docs/pubsub.md).",
    }],
    host_features: &[],
    account_features: &[],
    account: &[],
    host: &[],
};
