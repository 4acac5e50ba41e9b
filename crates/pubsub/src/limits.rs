//! Every bound of this crate, with its unit, its production values and what happens at it.

/// Bounds of one service. All of them are values, so that a test can make them 1, 2 or 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PubsubLimits {
    /// Nodes of the service; one more is `policy-violation` with `max-nodes-exceeded`.
    pub nodes_max: usize,
    /// Nodes that one address has created; one more is refused likewise.
    pub nodes_per_creator_max: usize,
    /// Bytes of the name of a node; a longer one is `not-acceptable`.
    pub node_id_bytes_max: usize,
    /// Items that a node may be configured to keep, and what `max` means; more is `not-acceptable`
    /// with `max-items-exceeded`. At a node's own number the oldest item makes way.
    pub items_per_node_max: u32,
    /// Bytes of the id of an item; a longer one is `bad-request`.
    pub item_id_bytes_max: usize,
    /// Bytes of a payload; a longer one is `not-acceptable` with `payload-too-big`.
    pub item_bytes_max: u32,
    /// Bytes of all payloads that the service keeps; with more, a publication is
    /// `resource-constraint`.
    pub bytes_max: u64,
    /// Bytes of the payloads at the nodes that one address has created, whoever published them;
    /// with more, a publication there is `resource-constraint`. Of a service: nobody fills what is
    /// there for all.
    pub bytes_per_creator_max: u64,
    /// Bytes of the addresses in the lists of the nodes that one address has created, and 64 for
    /// each: owners add nobody more, whom the answer names. Who subscribes himself is bounded by
    /// `subscriptions_per_node_max` alone, and counts.
    pub list_bytes_per_creator_max: u64,
    /// Subscriptions of a node; one more is `policy-violation` with `too-many-subscriptions`.
    pub subscriptions_per_node_max: usize,
    /// Subscriptions of one bare address at a node, each for another resource; one more is refused
    /// likewise.
    pub subscriptions_per_address_max: usize,
    /// Addresses with an affiliation at a node; one more is `not-acceptable`, and named.
    pub affiliations_per_node_max: usize,
    /// Entries of one request that changes a list, and ids of one that asks for items; more is
    /// `not-acceptable`. A record of removed items names as many.
    pub entries_max: usize,
    /// Items, nodes or list entries of one answer; what is behind them is had by result sets
    /// (XEP-0059).
    pub page_entries_max: usize,
    /// Bytes of the entries of one answer, payloads included; an answer has one entry however large
    /// it is.
    pub page_bytes_max: u64,
    /// Bytes of one text of a configuration; a longer one is `not-acceptable`.
    pub text_bytes_max: usize,
    /// Roster groups or contacts that a configuration names; more is `not-acceptable`.
    pub names_max: usize,
    /// Rosters that one question about all nodes of a service is judged by; nodes that go by others
    /// are not in its answer. Each is a read of the store.
    pub rosters_max: usize,
    /// Days for which a subscription may be leased; a longer lease is cut (XEP-0060 section
    /// 12.19).
    pub lease_days_max: u32,
    /// Milliseconds between two digests of a subscription, at least; a lower number is raised.
    pub digest_ms_min: u32,
    /// The same at most; a higher number is cut.
    pub digest_ms_max: u32,
    /// Digests that wait; who would be one more is told at once, as others are.
    pub digests_max: usize,
    /// Items that a digest tells of; with so many it is due at once.
    pub digest_entries_max: usize,
    /// Those of all digests that wait; with so many the one that is added to is due at once.
    pub digest_entries_total_max: usize,
    /// Nodes in which a session that comes online is interested; what is behind them is not looked
    /// at.
    pub interests_max: usize,
    /// Approvals that the owners of a node are asked for in a minute; one more subscription that
    /// would need one is `resource-constraint`.
    pub approvals_per_minute_max: u16,
    /// Deleted nodes whose new place is remembered; the first that moved is forgotten.
    pub moved_max: usize,
    /// Records that wait for the journal; with one more the service is busy.
    pub pending_max: usize,
    /// Answers that wait for items from the store; with one more the service is busy.
    pub fetches_max: usize,
    /// Subscriptions and items that one sweep removes; the next one goes on. Subscriptions that one
    /// review of a node ends; what follows it is looked at after another review. Subscriptions
    /// whose notifications came back while their nodes were being changed: one more stays until
    /// another notification comes back.
    pub sweep_max: usize,
}

impl PubsubLimits {
    /// Of a service with a name of its own.
    pub const SERVICE: PubsubLimits = PubsubLimits {
        nodes_max: 10_000,
        nodes_per_creator_max: 100,
        node_id_bytes_max: 512,
        items_per_node_max: 10_000,
        item_id_bytes_max: 256,
        item_bytes_max: 64 * 1024,
        bytes_max: 4 * 1024 * 1024 * 1024,
        bytes_per_creator_max: 256 * 1024 * 1024,
        list_bytes_per_creator_max: 16 * 1024 * 1024,
        subscriptions_per_node_max: 10_000,
        subscriptions_per_address_max: 16,
        affiliations_per_node_max: 1_000,
        entries_max: 200,
        page_entries_max: 500,
        page_bytes_max: 192 * 1024,
        text_bytes_max: 1_024,
        names_max: 32,
        rosters_max: 16,
        lease_days_max: 365,
        digest_ms_min: 1_000,
        digest_ms_max: 24 * 3_600 * 1_000,
        digests_max: 4_096,
        digest_entries_max: 200,
        digest_entries_total_max: 65_536,
        interests_max: 256,
        approvals_per_minute_max: 30,
        moved_max: 100,
        pending_max: 256,
        fetches_max: 64,
        sweep_max: 256,
    };

    /// Of an account.
    pub const ACCOUNT: PubsubLimits = PubsubLimits {
        nodes_max: 256,
        nodes_per_creator_max: 256,
        items_per_node_max: 1_000,
        item_bytes_max: 128 * 1024,
        bytes_max: 16 * 1024 * 1024,
        bytes_per_creator_max: u64::MAX,
        list_bytes_per_creator_max: 1024 * 1024,
        subscriptions_per_node_max: 1_000,
        affiliations_per_node_max: 200,
        page_entries_max: 1_000,
        moved_max: 4,
        pending_max: 16,
        fetches_max: 16,
        ..Self::SERVICE
    };
}

impl Default for PubsubLimits {
    fn default() -> Self {
        Self::SERVICE
    }
}
