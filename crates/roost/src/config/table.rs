//! The one table of all configuration keys. Each entry is at once a field of a struct, what the
//! file may say, and its documentation: `roost config` and docs/configuration.md are printed from
//! it. Owns names, defaults and bounds; reading a file is the parent module.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::Values;
use super::value::{Bound, choice};

/// One key.
#[derive(Debug)]
pub(crate) struct Key {
    /// Its name inside its section.
    pub(crate) name: &'static str,
    /// What it does, a line each.
    pub(crate) help: &'static [&'static str],
    /// Its default as TOML.
    pub(crate) default: &'static str,
    /// What it accepts.
    pub(crate) bound: Bound,
    /// Whether SIGHUP applies a change; otherwise it takes a restart.
    pub(crate) is_live: bool,
}

/// A section; the one with the empty name stands before the first `[section]`.
#[derive(Debug)]
pub(crate) struct Section {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it is about, a line each.
    pub(crate) help: &'static [&'static str],
    /// Its keys in the order of the documentation.
    pub(crate) keys: &'static [Key],
}

macro_rules! is_live {
    () => {
        false
    };
    (live) => {
        true
    };
}

macro_rules! settings {
    ($(
        $(#[doc = $about:literal])+
        $section:literal $field:ident: $Section:ident {
            $(
                $(#[doc = $text:literal])+
                $key:ident: $type:ty = $default:expr, $bound:expr $(, $live:ident)?;
            )+
        }
    )+) => {
        $(
            $(#[doc = $about])+
            #[derive(Clone, Debug, PartialEq)]
            pub(crate) struct $Section {
                $($(#[doc = $text])+ pub(crate) $key: $type,)+
            }

            impl $Section {
                fn read(values: &mut Values<'_>) -> Option<$Section> {
                    $(let $key = values.take($section, stringify!($key));)+
                    Some($Section { $($key: $key?,)+ })
                }
            }
        )+

        /// Every setting, by section.
        #[derive(Clone, Debug, PartialEq)]
        pub(crate) struct Settings {
            $($(#[doc = $about])+ pub(crate) $field: $Section,)+
        }

        impl Settings {
            /// Takes every setting out of the values; `None` if one of them was refused.
            pub(super) fn read(values: &mut Values<'_>) -> Option<Settings> {
                $(let $field = $Section::read(values);)+
                Some(Settings { $($field: $field?,)+ })
            }
        }

        /// Every section with its keys.
        pub(crate) const SECTIONS: &[Section] = &[
            $(Section {
                name: $section,
                help: &[$($about),+],
                keys: &[
                    $(Key {
                        name: stringify!($key),
                        help: &[$($text),+],
                        default: $default,
                        bound: $bound,
                        is_live: is_live!($($live)?),
                    },)+
                ],
            },)+
        ];
    };
}

choice! {
    /// What a commit promises.
    Durability {
        /// It is on the disk.
        Fsync = "fsync",
        /// It is in the operating system's hands.
        Memory = "memory",
    }
}

choice! {
    /// Who may make rooms, or nodes.
    Makers {
        /// Every account.
        Everybody = "everybody",
        /// Those on a list.
        Listed = "listed",
    }
}

choice! {
    /// When archived messages go.
    Retention {
        /// By age, number and size.
        Age = "age",
        /// Once everybody has them.
        UntilDelivered = "until-delivered",
    }
}

choice! {
    /// The shape of log lines.
    LogFormat {
        /// For people.
        Human = "human",
        /// One JSON object a line.
        Json = "json",
    }
}

choice! {
    /// The least important events that are logged.
    LogLevel {
        /// Failures.
        Error = "error",
        /// And what an operator should look at.
        Warn = "warn",
        /// And what happens to the server as a whole.
        Info = "info",
        /// And what happens to connections.
        Debug = "debug",
        /// And everything.
        Trace = "trace",
    }
}

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);
/// Shorter than a recipient remembers what it took ([`delivery::OutboxLimits::recognised_for`]).
const RETURN_AFTER_MAX: Duration = Duration::from_secs(5 * 86_400);
const CENTURY: Duration = Duration::from_secs(36_500 * 86_400);
const KIB: u64 = 1_024;
const MIB: u64 = 1_024 * 1_024;
const GIB: u64 = 1_024 * 1_024 * 1_024;
const PIB: u64 = 1_024 * 1_024 * GIB;

/// SASL mechanisms, strongest first.
pub(crate) const MECHANISMS: &[&str] = &[
    "SCRAM-SHA-256-PLUS",
    "SCRAM-SHA-256",
    "SCRAM-SHA-1-PLUS",
    "SCRAM-SHA-1",
    "PLAIN",
];

/// All of them, as TOML.
const MECHANISMS_DEFAULT: &str = "[\"SCRAM-SHA-256-PLUS\", \"SCRAM-SHA-256\", \
                                  \"SCRAM-SHA-1-PLUS\", \"SCRAM-SHA-1\", \"PLAIN\"]";

const fn integer(min: u64, max: u64, unit: &'static str) -> Bound {
    Bound::Integer { min, max, unit }
}

const fn time(min: Duration, max: Duration) -> Bound {
    Bound::Time { min, max }
}

const fn list(min: usize, of: &'static Bound) -> Bound {
    Bound::List { min, of }
}

settings! {
    /// What the server is and where it keeps its data.
    "" node: NodeSettings {
        /// The domain of the server's addresses: users are name@domain.
        domain: String = r#""localhost""#, Bound::Domain;
        /// Further domains of the same server. Each has accounts of its own.
        domains: Vec<String> = "[]", list(0, &Bound::Domain);
        /// The data folder: store, control socket, self-made certificate. One server at a time.
        /// A relative path starts at the folder of this file.
        data: PathBuf = r#""roost-data""#, Bound::Path { optional: false };
    }

    /// Client connections.
    "c2s" c2s: C2s {
        /// Addresses for plain TCP with STARTTLS. May be empty. An entry for all IPv6 addresses is
        /// left out where the system has no IPv6.
        listen: Vec<SocketAddr> = r#"["0.0.0.0:5222", "[::]:5222"]"#, list(0, &Bound::Address);
        /// Addresses for TLS from the first byte (XEP-0368). May be empty.
        listen_tls: Vec<SocketAddr> = r#"["0.0.0.0:5223", "[::]:5223"]"#, list(0, &Bound::Address);
        /// Whether a client must have started TLS before it may log in.
        require_tls: bool = "true", Bound::Switch;
        /// Balancers that send a PROXY header (v1 or v2) before each connection. When this is not
        /// empty, connections from other addresses are refused: a header is never guessed.
        proxies: Vec<String> = "[]", list(0, &Bound::Network);
    }

    /// Certificates. Without any, a self-signed one is made at the first start and kept in the data
    /// folder; clients warn about it. All are read again at SIGHUP; broken ones leave the old in
    /// use.
    "tls" tls: Tls {
        /// PEM file with the certificate chain for every domain that has none in `folder`.
        certificate: Option<PathBuf> = r#""""#, Bound::Path { optional: true }, live;
        /// PEM file with its private key.
        key: Option<PathBuf> = r#""""#, Bound::Path { optional: true }, live;
        /// Folder with certificates by domain, as certbot keeps them: a sub-folder named like the
        /// domain with fullchain.pem and privkey.pem. Chosen by the name the client asks for (SNI).
        folder: Option<PathBuf> = r#""""#, Bound::Path { optional: true }, live;
        /// Whether TLS 1.2 is accepted besides 1.3.
        tls12: bool = "true", Bound::Switch, live;
        /// Whether clients get session tickets, so that a reconnect costs no signature.
        tickets: bool = "true", Bound::Switch, live;
    }

    /// Logging in.
    "auth" auth: Auth {
        /// SASL mechanisms that are offered. Those with -PLUS are offered under TLS 1.3 only (they
        /// need its channel binding), PLAIN under TLS only (see the next key).
        mechanisms: Vec<String> = MECHANISMS_DEFAULT, list(1, &Bound::Choice(MECHANISMS));
        /// Whether PLAIN is offered without TLS too. It shows passwords to everyone on the way.
        plain_without_tls: bool = "false", Bound::Switch;
        /// Iterations of SCRAM keys of new passwords. More cost an attacker more, and every login
        /// of a client too. Existing accounts keep theirs until their next password.
        scram_iterations: u32 = "10_000", integer(4_096, 10_000_000, "iterations");
    }

    /// Accounts that people make themselves (XEP-0077).
    "registration" registration: Registration {
        /// Whether clients may make new accounts.
        enabled: bool = "false", Bound::Switch;
        /// Accounts that one address may make in an hour; beyond it: resource-constraint.
        per_hour: u32 = "5", integer(1, 1_000_000, "accounts an hour and address");
    }

    /// Durable data.
    "store" store: StoreSettings {
        /// What "accepted" promises. "fsync": it is on the disk. "memory": it is in the operating
        /// system's hands, and survives a crash of the server but not of the machine.
        durability: Durability = r#""fsync""#, Bound::Choice(Durability::WORDS);
        /// Block cache.
        cache_bytes: u64 = "8_388_608", integer(MIB, 64 * GIB, "bytes");
        /// Changes are refused (resource-constraint, wait) while the disk has less room than this.
        reserve_bytes: u64 = "33_554_432", integer(0, 1_024 * GIB, "bytes");
    }

    /// Sessions that outlive their connection, and the server (XEP-0198, docs/delivery.md).
    "delivery" delivery: Delivery {
        /// Whether clients may use stream management.
        stream_management: bool = "true", Bound::Switch;
        /// How long a session without a connection is kept. A client may ask for less.
        resume_timeout: Duration = r#""10m""#, time(SECOND, DAY);
        /// For the acknowledgement that the server asked for, while nothing else is heard of the
        /// client, and for ten times that while it says other things; then the connection is given
        /// up, and its session waits for another one.
        ack_timeout: Duration = r#""60s""#, time(SECOND, HOUR);
        /// Messages that a session was sent and has not acknowledged; further ones stay in the log
        /// until it follows again.
        unacked_max: u32 = "1_000", integer(10, 1_000, "messages");
        /// Messages of one user that are accepted and that their recipients do not have yet; one
        /// more is refused (resource-constraint, wait).
        outbox_max: u32 = "10_000", integer(1, 10_000, "messages");
        /// Those of them for one recipient, who cannot be reached.
        outbox_per_recipient_max: u32 = "1_000", integer(1, 10_000, "messages");
        /// After this time a message that its recipient cannot be given comes back to its sender.
        return_after: Duration = r#""1h""#, time(SECOND, RETURN_AFTER_MAX);
    }

    /// The message archive (XEP-0313): every user's messages, for that user.
    "archive" archive: Archive {
        /// Whether messages are archived. Users may say whose are not.
        enabled: bool = "true", Bound::Switch;
        /// "age": messages stay until one of the bounds below is reached. "until-delivered": they
        /// go as soon as every device that they were owed to has acknowledged them.
        retention: Retention = r#""age""#, Bound::Choice(Retention::WORDS);
        /// How old a message gets.
        max_age: Duration = r#""7d""#, time(MINUTE, CENTURY);
        /// Messages of one user; the oldest go first.
        max_messages: u64 = "100_000", integer(100, 1_000_000_000, "messages");
        /// Their bytes; likewise.
        max_bytes: u64 = "268_435_456", integer(MIB, 1_024 * GIB, "bytes");
    }

    /// Extensions, each on or off. One that is off is neither announced nor answered
    /// (service-unavailable), and what it has in the store stays there. One that needs another is
    /// off with it; to ask for it all the same is an error. Changes take a restart.
    "modules" modules: Modules {
        /// The message archive (XEP-0313), as `archive.enabled`.
        archive: bool = "true", Bound::Switch;
        /// Conversion between avatars at nodes and in vCards (XEP-0398). Needs `pubsub` and
        /// `vcard`.
        avatar: bool = "true", Bound::Switch;
        /// The blocking command (XEP-0191). Lists that were made stay in force.
        blocking: bool = "true", Bound::Switch;
        /// Conversion between the forms of bookmarks (XEP-0402, XEP-0411). Needs `pubsub`.
        bookmarks: bool = "true", Bound::Switch;
        /// Copies of messages for the other devices of an account (XEP-0280).
        carbons: bool = "true", Bound::Switch;
        /// Presence and chat states wait for inactive clients (XEP-0352).
        csi: bool = "true", Bound::Switch;
        /// The directory of users (XEP-0055), as `directory.enabled`. Needs `disco`.
        directory: bool = "true", Bound::Switch;
        /// Service discovery (XEP-0030) and the capabilities of the server (XEP-0115). Without it
        /// clients find nothing by themselves, and `directory`, `pubsub` and `rooms` are off.
        disco: bool = "true", Bound::Switch;
        /// One's conversations with what is unread in them (XEP-0430). Needs `archive`.
        inbox: bool = "true", Bound::Switch;
        /// How long the server is up, and since when a contact is away (XEP-0012).
        last_activity: bool = "true", Bound::Switch;
        /// Answers to pings (XEP-0199). The server's own pings of silent clients are
        /// `limits.idle_ping`.
        ping: bool = "true", Bound::Switch;
        /// Private XML storage (XEP-0049).
        private_storage: bool = "true", Bound::Switch;
        /// Nodes of services and of accounts (XEP-0060, XEP-0163), as `pubsub.enabled` and
        /// `pep.enabled`. Needs `disco`.
        pubsub: bool = "true", Bound::Switch;
        /// In-band registration (XEP-0077): a change of the own password, the removal of the own
        /// account, and new accounts as `registration.enabled`.
        register: bool = "true", Bound::Switch;
        /// Rooms (XEP-0045), as `rooms.enabled`. Needs `disco`.
        rooms: bool = "true", Bound::Switch;
        /// The session of RFC 3921, which old clients ask for.
        session: bool = "true", Bound::Switch;
        /// The time of the server (XEP-0202).
        time: bool = "true", Bound::Switch;
        /// vCards (XEP-0054), and the hash of their photo in presence (XEP-0153).
        vcard: bool = "true", Bound::Switch;
        /// The name and version of the server (XEP-0092).
        version: bool = "true", Bound::Switch;
    }

    /// Rooms (XEP-0045, docs/rooms.md), for each domain at a domain of their own.
    "rooms" rooms: Rooms {
        /// Whether there are rooms. Those in the store stay there.
        enabled: bool = "true", Bound::Switch;
        /// What goes in front of a domain, and a dot, where its rooms are: conference.example.org.
        host: String = r#""conference""#, Bound::Domain;
        /// Whether rooms that everybody may know of can be searched (XEP-0433).
        search: bool = "true", Bound::Switch;
        /// What goes in front of a domain, and a dot, where that is: search.example.org. The
        /// directory of users is there too.
        search_host: String = r#""search""#, Bound::Domain;
        /// "everybody" may make rooms, or only those of `creators`: "listed".
        create: Makers = r#""everybody""#, Bound::Choice(Makers::WORDS);
        /// Addresses, and domains for all of their accounts, that may make rooms if only those on
        /// the list may.
        creators: Vec<String> = "[]", list(0, &Bound::Text { min: 1, max: 3_071 });
        /// Rooms that one account has made and that are still there; one more is refused
        /// (resource-constraint).
        per_account_max: u32 = "100", integer(0, 10_000, "rooms");
        /// Occupants of one room; one more is refused (service-unavailable, wait), unless he is an
        /// admin or owner of the room.
        occupants_max: u32 = "20_000", integer(1, 1_000_000, "occupants");
        /// From so many occupants on, presence is told only of moderators and of those who have
        /// spoken.
        large_from: u32 = "256", integer(1, 1_000_000, "occupants");
        /// Messages that those who enter are sent, unless the room's owner wants fewer or more.
        history: u16 = "20", integer(0, 1_000, "messages");
        /// The most that an owner may want.
        history_max: u16 = "100", integer(0, 1_000, "messages");
        /// A message to all; a larger one is refused (not-acceptable).
        message_bytes_max: u32 = "65_536", integer(KIB, 16 * MIB, "bytes");
        /// Copies that a room writes at a time; others' turns come in between.
        copies_per_turn: u32 = "256", integer(1, 1_000_000, "copies");
    }

    /// A directory of users (XEP-0055, docs/directory.md), for each domain at
    /// `rooms.search_host`. It has those who entered themselves, and is searched by accounts of the
    /// same domain.
    "directory" directory: DirectorySettings {
        /// Whether there is one. Entries in the store stay there.
        enabled: bool = "false", Bound::Switch;
        /// Users that one search finds; others are not told of.
        results_max: u32 = "20", integer(1, 100, "users");
        /// Searches of one account a minute; one more is refused (resource-constraint).
        searches_per_minute: u32 = "10", integer(1, 10_000, "searches");
    }

    /// Publish-subscribe (XEP-0060, docs/pubsub.md): a service for each domain, at one of its own.
    "pubsub" pubsub: Pubsub {
        /// Whether there is a service. Its nodes in the store stay there.
        enabled: bool = "true", Bound::Switch;
        /// What goes in front of a domain, and a dot, where its nodes are: pubsub.example.org.
        host: String = r#""pubsub""#, Bound::Domain;
        /// "everybody" may make nodes, or only those of `creators`: "listed".
        create: Makers = r#""everybody""#, Bound::Choice(Makers::WORDS);
        /// Addresses, and domains for all of their accounts, that may make nodes if only those on
        /// the list may.
        creators: Vec<String> = "[]", list(0, &Bound::Text { min: 1, max: 3_071 });
        /// Nodes of one service; one more is refused (policy-violation, max-nodes-exceeded).
        nodes_max: u32 = "10_000", integer(0, 100_000, "nodes");
        /// Nodes that one account has made and that are still there; one more is refused likewise.
        nodes_per_account_max: u32 = "100", integer(0, 100_000, "nodes");
        /// Items that a node may be configured to keep (not-acceptable); then the oldest makes way.
        items_per_node_max: u32 = "1_000", integer(1, 100_000, "items");
        /// One item; a larger one is refused (not-acceptable, payload-too-big).
        item_bytes_max: u32 = "65_536", integer(KIB, MIB, "bytes");
        /// All items of one service; more are refused (resource-constraint).
        bytes_max: u64 = "4_294_967_296", integer(MIB, 1_024 * GIB, "bytes");
        /// Items of the nodes that one account has made, whoever published them; more are refused
        /// likewise.
        bytes_per_account_max: u64 = "268_435_456", integer(MIB, 1_024 * GIB, "bytes");
        /// Subscriptions of one node; one more is refused (policy-violation,
        /// too-many-subscriptions).
        subscriptions_per_node_max: u32 = "10_000", integer(1, 100_000, "subscriptions");
        /// Copies that a service writes at a time; others' turns come in between.
        copies_per_turn: u32 = "256", integer(1, 1_000_000, "copies");
    }

    /// Nodes of accounts: personal eventing (XEP-0163, docs/pubsub.md), with bookmarks, avatars and
    /// the device lists of encryption in it.
    "pep" pep: PepSettings {
        /// Whether accounts have nodes. Those in the store stay there.
        enabled: bool = "true", Bound::Switch;
        /// Nodes of one account; one more is refused (policy-violation, max-nodes-exceeded).
        nodes_max: u32 = "256", integer(0, 10_000, "nodes");
        /// Items that a node may be configured to keep (not-acceptable); then the oldest makes way.
        items_per_node_max: u32 = "1_000", integer(1, 10_000, "items");
        /// One item; a larger one is refused (not-acceptable, payload-too-big).
        item_bytes_max: u32 = "131_072", integer(KIB, MIB, "bytes");
        /// All items of one account; more are refused (resource-constraint).
        bytes_max: u64 = "16_777_216", integer(64 * KIB, 4 * GIB, "bytes");
    }

    /// Bounds. What happens at each is in docs/limits.md. Lowered ones leave what is there already.
    "limits" limits: LimitSettings {
        /// Addresses that connection counts and pacing leave alone.
        exempt_addresses: Vec<String> = r#"["127.0.0.0/8", "::1"]"#, list(0, &Bound::Network);
        /// Connections of the whole server; 0: as many as the descriptor limit allows.
        connections_max: u64 = "0", integer(0, 100_000_000, "connections"), live;
        /// Connections of one address (IPv6: one /64); 0: no bound. More are closed at once.
        connections_per_address_max: u32 = "1_024", integer(0, 100_000_000, "connections"), live;
        /// New connections per second; 0: no bound. Faster arrivals wait for their turn.
        accepts_per_second: u32 = "4_000", integer(0, 1_000_000, "connections a second"), live;
        /// New connections admitted at once after a quiet time.
        accept_burst: u32 = "4_000", integer(1, 1_000_000, "connections"), live;
        /// Largest stanza; a larger one ends the stream with policy-violation. RFC 6120 section
        /// 13.12 asks for at least 10,000.
        stanza_bytes_max: u32 = "262_144", integer(10_000, 16 * MIB, "bytes"), live;
        /// Output waiting for one client; a client that reaches it is disconnected. It is also what
        /// a client that never reads can cost in memory.
        backlog_bytes_max: u64 = "2_097_152", integer(64 * KIB, GIB, "bytes"), live;
        /// Stanzas of one client that are taken in but not yet accepted; then its reads pause.
        window_max: u16 = "64", integer(1, 10_000, "stanzas"), live;
        /// Output waiting for all clients of one address (IPv6: /64) that have more than 64 KiB
        /// waiting each; the client for whom it grows then is disconnected. Addresses in
        /// `exempt_addresses` are not counted.
        backlog_bytes_per_address_max: u64 = "25_165_824", integer(MIB, PIB, "bytes"), live;
        /// Input kept for all clients of one address (IPv6: /64) that keep more than 32 KiB waiting
        /// each: stanzas and requests that are not complete, or came early. The client for whom it
        /// grows then is disconnected. Addresses in `exempt_addresses` are not counted.
        input_bytes_per_address_max: u64 = "25_165_824", integer(MIB, PIB, "bytes"), live;
        /// Input of one client per second, and as much at once after a quiet time; 0: no bound.
        /// Beyond it its reads pause.
        input_bytes_per_second: u64 = "262_144", integer(0, GIB, "bytes a second"), live;
        /// Sessions of one account; one more is refused with resource-constraint.
        sessions_per_user: u32 = "10", integer(1, 1_000, "sessions"), live;
        /// Contacts of one roster; one more is refused with resource-constraint.
        roster_items_max: u32 = "1_000", integer(1, 100_000, "contacts"), live;
        /// Messages that wait for an absent user; one more is refused with resource-constraint.
        offline_messages_max: u32 = "1_000", integer(0, 1_000_000, "messages"), live;
        /// Their bytes; likewise.
        offline_bytes_max: u64 = "16_777_216", integer(0, 4 * GIB, "bytes"), live;
        /// One element of private storage (XEP-0049); a larger one is refused with not-acceptable.
        private_bytes_max: u32 = "65_536", integer(KIB, 8 * MIB, "bytes"), live;
        /// All private storage of one account, names included; more is refused with
        /// resource-constraint.
        private_total_bytes_max: u64 = "1_048_576", integer(KIB, GIB, "bytes"), live;
        /// One vCard (XEP-0054); a larger one is refused with not-acceptable.
        vcard_bytes_max: u32 = "131_072", integer(KIB, 8 * MIB, "bytes"), live;
        /// What all accounts of one domain have stored: messages, rosters, cards, private storage.
        /// At the bound accounts that have more than their share of it (the bound, divided by the
        /// accounts) store nothing more, resource-constraint, and nobody registers.
        domain_bytes_max: u64 = "1_099_511_627_776", integer(64 * KIB, PIB, "bytes"), live;
        /// Questions that the store is asked for clients of one address (IPv6: /64) at a time, such
        /// as pages of the archive; further ones wait. Addresses in `exempt_addresses` are not
        /// counted.
        questions_per_address_max: u32 = "64", integer(1, 65_536, "questions"), live;
        /// Bytes of answers to such questions that clients of one address have not read; at the
        /// bound none of them is asked for more. A question under way counts as 256 KiB.
        answer_bytes_per_address_max: u64 = "25_165_824", integer(MIB, PIB, "bytes"), live;
        /// From the first byte until a client has logged in and bound a resource; then the stream
        /// ends with connection-timeout.
        login_timeout: Duration = r#""60s""#, time(SECOND, HOUR), live;
        /// Silence after which the server pings a client (XEP-0199).
        idle_ping: Duration = r#""5m""#, time(SECOND, DAY), live;
        /// For the answer to that ping; then the stream ends with connection-timeout.
        ping_timeout: Duration = r#""60s""#, time(SECOND, HOUR), live;
    }

    /// A node of a cluster (docs/cluster.md). Without `engine` this server stands alone, with a
    /// journal of its own.
    "cluster" cluster: ClusterSettings {
        /// Servers of the engine, NATS JetStream, such as "nats://n1:4222"; with user:password@
        /// before the host if it asks.
        engine: Vec<String> = "[]", list(0, &Bound::Text { min: 1, max: 512 });
        /// PEM file with the CA that the certificates of the engine's servers are of. Connections
        /// to them are TLS then; without it those to "tls://..." believe the CAs of the system.
        engine_ca: Option<PathBuf> = r#""""#, Bound::Path { optional: true };
        /// PEM file with a certificate chain for the engine's servers, if they ask for one.
        engine_certificate: Option<PathBuf> = r#""""#, Bound::Path { optional: true };
        /// PEM file with its private key.
        engine_key: Option<PathBuf> = r#""""#, Bound::Path { optional: true };
        /// File with a user's JWT and seed for the engine, as `nsc` writes it (.creds), in place of
        /// a user and password in `engine`.
        engine_credentials: Option<PathBuf> = r#""""#, Bound::Path { optional: true };
        /// The name (`server_name`) of the engine's server next to this node: on the same machine,
        /// or in the same zone. It leads the streams whose home is this node as far as it can, and
        /// comes first in `engine`: the node begins with that one. Empty: leaders stay where
        /// elections put them.
        engine_near: Option<String> = r#""""#, Bound::Text { min: 1, max: 256 };
        /// Monitoring ports of all its servers, such as "http://n1:8222": only there a server says
        /// whether it syncs. Asked at the start.
        monitor: Vec<String> = "[]", list(0, &Bound::Text { min: 1, max: 512 });
        /// The name of this node: 1 to 32 letters, digits, - or _. Every node has another one, and
        /// keeps it.
        name: Option<String> = r#""""#, Bound::Text { min: 1, max: 32 };
        /// The name of the deployment, with which everything in the engine begins.
        deployment: String = r#""roost""#, Bound::Text { min: 1, max: 32 };
        /// Streams of the deployment, a power of two: the number of homes that can be spread. Fixed
        /// when it is made.
        streams: u16 = "16", integer(1, 128, "streams");
        /// Address for links of other nodes. Without `certificate` only loopback addresses are
        /// accepted: links are then not encrypted, and everybody who reaches one is believed.
        listen: SocketAddr = r#""127.0.0.1:5290""#, Bound::Address;
        /// Where other nodes reach this one, such as "a.example.org:5290", if not at `listen`.
        address: Option<String> = r#""""#, Bound::Text { min: 3, max: 300 };
        /// PEM file with the certificate chain of this node for links, which are then TLS 1.3 with
        /// certificates on both sides. It has `name` as a DNS name (subjectAltName). All nodes have
        /// one or none has. `roost cluster certificates` makes them.
        certificate: Option<PathBuf> = r#""""#, Bound::Path { optional: true }, live;
        /// PEM file with its private key.
        key: Option<PathBuf> = r#""""#, Bound::Path { optional: true }, live;
        /// PEM file with the CA that the certificates of all nodes are of, and nothing else:
        /// whoever has one of its certificates with the name of a node is that node.
        ca: Option<PathBuf> = r#""""#, Bound::Path { optional: true }, live;
        /// Where clients reach this node, such as "a.example.org:5222". Other nodes send clients
        /// there whose accounts are at home here if they cannot reach this node themselves.
        clients: Option<String> = r#""""#, Bound::Text { min: 3, max: 300 };
        /// Where the node stands. Nodes of one zone fail together.
        zone: String = r#""default""#, Bound::Text { min: 1, max: 64 };
        /// Share of homes, against the others' weights; 0: it follows, and is the home of nothing.
        weight: u32 = "1", integer(0, 1_000, "shares");
    }

    /// The process.
    "server" server: Server {
        /// Threads that carry connections and users; 0: one for each processor.
        shards: u16 = "0", integer(0, 1_024, "threads");
        /// Whether ranges of accounts move between these threads by themselves, so that they are
        /// about equally busy (docs/watching.md). Those of a node of a cluster do not.
        balance: bool = "true", Bound::Switch;
        /// Whether a connection moves to the thread of its user when that one logs in. Off only for
        /// tests.
        hand_over: bool = "true", Bound::Switch;
        /// Whether the server is two processes: an edge that holds sockets and TLS, and a home with
        /// everything else, which `roost upgrade` replaces while clients stay (docs/upgrade.md).
        split: bool = "false", Bound::Switch;
        /// Time to close all streams in order after SIGTERM; what is left then is cut off.
        drain_timeout: Duration = r#""10s""#, time(Duration::ZERO, HOUR), live;
    }

    /// The log, on standard error. It never contains passwords or message bodies.
    "log" log: Log {
        /// Least important events that are logged.
        level: LogLevel = r#""info""#, Bound::Choice(LogLevel::WORDS), live;
        /// "human" for people, "json" for one JSON object a line.
        format: LogFormat = r#""human""#, Bound::Choice(LogFormat::WORDS);
    }

    /// Everything over HTTP (docs/web.md): streams over WebSocket at /xmpp-websocket and BOSH at
    /// /http-bind, /.well-known/host-meta that says so, the web client, health checks at /healthz
    /// (whether the process works) and /readyz (whether it takes clients), figures at /metrics.
    /// What c2s.require_tls and auth.plain_without_tls say holds for streams here too.
    "http" http: Http {
        /// Addresses for plain HTTP. May be empty. If the default one is taken by another program,
        /// the server starts without it and says so; one that is written here must be free.
        listen: Vec<SocketAddr> = r#"["127.0.0.1:5280"]"#, list(0, &Bound::Address);
        /// Addresses for HTTPS, with the certificates of [tls]. Likewise.
        listen_tls: Vec<SocketAddr> = r#"["127.0.0.1:5443"]"#, list(0, &Bound::Address);
        /// Whether streams over WebSocket (RFC 7395) are served.
        websocket: bool = "true", Bound::Switch;
        /// Whether sessions over BOSH (XEP-0124, XEP-0206) are served.
        bosh: bool = "true", Bound::Switch;
        /// Where clients reach this server from outside, such as "https://chat.example.org", for
        /// host-meta and the web client. Without it, that is the host that they asked.
        url: Option<String> = r#""""#, Bound::Text { min: 8, max: 256 };
        /// Web pages of other hosts that may open streams, such as "https://app.example.net"; "*"
        /// lets all in. Pages of the server's own domains and of its own address always may.
        origins: Vec<String> = "[]", list(0, &Bound::Text { min: 1, max: 256 });
        /// Who may see /metrics. A request that came through a proxy never may.
        metrics: Vec<String> = r#"["127.0.0.0/8", "::1"]"#, list(0, &Bound::Network);
        /// Reverse proxies that are believed whom they speak for (X-Forwarded-For), and whether
        /// that client came under TLS (X-Forwarded-Proto).
        proxies: Vec<String> = "[]", list(0, &Bound::Network);
        /// From the first byte of a request to its last; then it is answered 408.
        request_timeout: Duration = r#""15s""#, time(SECOND, HOUR);
        /// Between two requests of a connection; then it is closed.
        idle_timeout: Duration = r#""75s""#, time(SECOND, HOUR);
        /// Longest time that a request of BOSH is held; a client may ask for less.
        bosh_wait_max: Duration = r#""60s""#, time(SECOND, HOUR);
        /// Silence that ends a session over BOSH; twice that for one that polls.
        bosh_inactivity: Duration = r#""60s""#, time(SECOND, HOUR);
        /// Least time between two empty requests of a session over BOSH.
        bosh_polling: Duration = r#""5s""#, time(Duration::ZERO, MINUTE);
        /// Longest pause that a session over BOSH is granted.
        bosh_pause_max: Duration = r#""5m""#, time(SECOND, HOUR);
    }

    /// A client to try at once, in the browser (docs/web.md).
    "web" web: Web {
        /// Whether / shows it, if its files are in `folder`.
        client: bool = "true", Bound::Switch;
        /// Folder of npm packages in which converse.js is, such as web/node_modules. Without it
        /// there is no client to show, and / says so.
        folder: Option<PathBuf> = r#""""#, Bound::Path { optional: true };
    }

    /// Faults on purpose, to see that a deployment stands them (docs/reliability.md).
    "chaos" chaos: ChaosSettings {
        /// Whether `roost chaos` may cause faults on this server. Commits take one more step
        /// between threads while it is true.
        enabled: bool = "false", Bound::Switch;
    }

    /// For tests of the server itself. Leave it alone.
    "debug" debug: Debug {
        /// Delay of every commit.
        commit_delay: Duration = r#""0s""#, time(Duration::ZERO, MINUTE);
        /// Delay of every read of the store.
        read_delay: Duration = r#""0s""#, time(Duration::ZERO, MINUTE);
        /// Time after which the server takes a shard for ended, as after a bug; 0s: never.
        crash_after: Duration = r#""0s""#, time(Duration::ZERO, HOUR);
        /// Whether all that accounts, rooms and services say to each other is written as bytes, as
        /// if it went to another node, and read again.
        messages_as_bytes: bool = "false", Bound::Switch;
        /// Whether the connection of a client moves to another thread behind each stanza, whereas
        /// it stays with its user otherwise. Not in a cluster.
        move_sockets: bool = "false", Bound::Switch;
        /// A secret. A user who sends a message with this text in it has the server fail in the
        /// handling of that user.
        panic_hook: Option<String> = r#""""#, Bound::Text { min: 16, max: 256 };
    }
}
