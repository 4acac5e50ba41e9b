//! What a service is made with.

use std::sync::Arc;

use crate::config::Config;
use crate::limits::PubsubLimits;
use crate::well_known;

/// Whom a service belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    /// Nobody: a service with an address of its own.
    #[default]
    Nobody,
    /// The account whose bare address it has (XEP-0163): it owns every node.
    Account,
}

/// What a service is made with.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whom it belongs to.
    pub owner: Owner,
    /// Every bound.
    pub limits: PubsubLimits,
    /// The configuration of a new node that is not well known.
    pub defaults: Config,
    /// Publishing to a node that is not there makes it.
    pub auto_creates: bool,
    /// What the host can do at the address of the service itself, beside what this crate can.
    pub features: Vec<&'static str>,
    /// Configurations that many nodes have: memory has each once for all services that are made
    /// with these options.
    pub shared: Vec<Arc<Config>>,
}

impl Options {
    /// Of accounts (XEP-0163 section 5).
    pub fn account() -> Options {
        let mut options = Options {
            owner: Owner::Account,
            limits: PubsubLimits::ACCOUNT,
            defaults: well_known::account_defaults(),
            auto_creates: true,
            features: Vec::new(),
            shared: Vec::new(),
        };
        options.share_defaults();
        options
    }

    /// Lets memory have the configurations of new nodes of accounts once, as limits and defaults
    /// are now.
    pub fn share_defaults(&mut self) {
        self.shared = well_known::configs(&self.defaults, self.limits.items_per_node_max);
    }
}
