//! XEP-0055 Jabber Search 1.3: accounts that want to be found, at `search.<domain>`. The directory
//! has an address of its own, so this file only says what there is; it is in `crate::search`.

use super::{Module, Switch, Xep};

pub(crate) const MODULE: Module = Module {
    name: "directory",
    switch: Switch::ByOperator,
    needs: &["disco"],
    xeps: &[Xep {
        number: 55,
        name: "Jabber Search",
        version: "1.3",
        note: "At `search.<domain>`, if `directory.enabled`: accounts that entered themselves \
               there (docs/directory.md). Without `xml:lang`.",
    }],
    host_features: &[],
    account_features: &[],
    account: &[],
    host: &[],
};
