//! One table of everything that is counted. To add an event, append a line.
//!
//! Names are stable once released: dashboards and alarms refer to them. Lines are only ever
//! appended, never renamed or reordered. `Counter`s only grow; `Gauge`s go up and down.

macro_rules! catalogue {
    ($(#[$doc:meta])* $type:ident { $($variant:ident => $name:literal, $help:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum $type {
            $(#[doc = $help] $variant,)*
        }

        impl $type {
            /// Every entry, in the order of the catalogue.
            pub const ALL: &'static [$type] = &[$($type::$variant,)*];
            /// Number of entries.
            pub const COUNT: usize = Self::ALL.len();

            /// The stable name under which it is exported.
            pub fn name(self) -> &'static str {
                match self { $($type::$variant => $name,)* }
            }

            /// What it counts, for people.
            pub fn help(self) -> &'static str {
                match self { $($type::$variant => $help,)* }
            }

            /// Position in blocks of values.
            pub fn index(self) -> usize {
                self as usize
            }
        }
    };
}

catalogue! {
    /// Events that are counted since the start of the process.
    Counter {
        ActorTurns => "roost_actor_turns_total", "Shard turns taken";
        ActorRuns => "roost_actor_runs_total", "Times an actor was taken from the run queue";
        ActorMessages => "roost_actor_messages_total", "Messages handled by actors";
        ActorSpawned => "roost_actor_spawned_total", "Actors started";
        ActorStopped => "roost_actor_stopped_total", "Actors ended for any reason";
        ActorActivated => "roost_actor_activated_total", "Named entities activated on demand";
        ActorPanics => "roost_actor_panics_total", "Panics caught in actors";
        CallPanics => "roost_call_panics_total", "Panics caught in what shards do for each other";
        ActorRestarts => "roost_actor_restarts_total", "Children restarted by supervisors";
        ActorEscalations => "roost_actor_escalations_total", "Supervisors that gave up";
        ActorQuarantined => "roost_actor_quarantined_total", "Names put into quarantine";
        ActorMailboxFull => "roost_actor_mailbox_full_total", "Sends refused by a full mailbox";
        ActorGone => "roost_actor_gone_total", "Sends to an address whose actor has ended";
        ActorRefused => "roost_actor_refused_total", "Messages handed to a class's refusal";
        ActorDropped => "roost_actor_dropped_total", "Messages dropped with no sender to tell";
        ActorLimit => "roost_actor_limit_total", "Actors ended for exceeding a bound of their own";
        ActorAsks => "roost_actor_asks_total", "Requests that wait for a reply";
        ActorAskTimeouts => "roost_actor_ask_timeouts_total", "Requests whose deadline passed";
        ActorLateReplies => "roost_actor_late_replies_total", "Replies that came too late";
        ActorTimersFired => "roost_actor_timers_fired_total", "Timers that fired";
        ActorRemoteSent => "roost_actor_remote_sent_total", "Messages sent to other shards";
        ActorRemoteReceived => "roost_actor_remote_received_total", "Messages from other threads";
        ActorRemoteBatches => "roost_actor_remote_batches_total", "Batches sent to other shards";
        ActorInboxFull => "roost_actor_inbox_full_total", "Batches kept back by a full inbox";
        ActorPoolFull => "roost_actor_pool_full_total", "Blocking jobs refused by a full pool";
        ActorSpawnRefused => "roost_actor_spawn_refused_total", "Actors not started: at the bound";
        ShardWorkingNanos => "roost_shard_working_nanoseconds_total", "Time in actors and I/O";
        ShardPollingNanos => "roost_shard_polling_nanoseconds_total", "Time in polls that had work";
        ShardIdleNanos => "roost_shard_idle_nanoseconds_total", "Time asleep in polls";
        NetAccepted => "roost_net_accepted_total", "Connections admitted";
        NetRefusedAddress => "roost_net_refused_address_total", "Refused: too many of one address";
        NetRefusedLimit => "roost_net_refused_limit_total", "Refused: at the connection limit";
        NetRefusedProxy => "roost_net_refused_proxy_total", "Refused: PROXY header not trusted";
        NetPaced => "roost_net_paced_total", "Connections that had to wait for their turn";
        NetOutOfDescriptors => "roost_net_out_of_descriptors_total", "Accepts without a descriptor";
        NetBytesIn => "roost_net_bytes_in_total", "Bytes read from sockets";
        NetBytesOut => "roost_net_bytes_out_total", "Bytes written to sockets";
        NetReads => "roost_net_reads_total", "Reads that gave bytes";
        NetWrites => "roost_net_writes_total", "Flushes that wrote bytes";
        NetThrottled => "roost_net_throttled_total", "Reads paused by the rate of a connection";
        NetHandedOver => "roost_net_handed_over_total", "Connections sent to another shard";
        NetMoved => "roost_net_moved_total", "Connections sent to another shard under their name";
        NetControlsFull => "roost_net_controls_full_total", "Messages to connections refused";
        NetTlsHandshakes => "roost_net_tls_handshakes_total", "TLS handshakes completed";
        NetClosedByPeer => "roost_net_closed_by_peer_total", "Connections ended by the peer";
        NetClosedByUs => "roost_net_closed_by_us_total", "Connections ended by the service";
        NetBroken => "roost_net_broken_total", "Connections that broke";
        NetBacklog => "roost_net_backlog_total", "Closed: the peer does not read";
        NetOverflow => "roost_net_overflow_total", "Closed: endless incomplete input";
        NetTlsFailed => "roost_net_tls_failed_total", "Closed: TLS failed";
        NetTimeouts => "roost_net_timeouts_total", "Closed: too slow";
        NetShutdown => "roost_net_shutdown_total", "Closed: the node stopped";
        NetCrashed => "roost_net_crashed_total", "Closed: a handler panicked";
        Logins => "roost_logins_total", "Sessions that bound a resource";
        LoginsFailed => "roost_logins_failed_total", "Logins refused: a wrong password or account";
        MessagesIn => "roost_messages_in_total", "Messages taken from clients";
        MessagesOut => "roost_messages_out_total", "Messages written to clients";
        PresencesIn => "roost_presences_in_total", "Presence stanzas taken from clients";
        PresencesOut => "roost_presences_out_total", "Presence stanzas written to clients";
        IqsIn => "roost_iqs_in_total", "IQ stanzas taken from clients";
        MessagesKept => "roost_messages_kept_total", "Messages put into the log of an absent user";
        MessagesRefused => "roost_messages_refused_total", "Messages refused: the inbox is full";
        MessagesReturned => "roost_messages_returned_total", "Accepted messages that came back";
        StanzasBounced => "roost_stanzas_bounced_total", "Stanzas answered with an error";
        ChangesFailed => "roost_changes_failed_total", "Changes that could not be made durable";
        UsersLoaded => "roost_users_loaded_total", "Accounts read from the store";
        ShardRestarts => "roost_shard_restarts_total", "Shards started over after a panic";
        ChaosKilled => "roost_chaos_killed_total", "Accounts ended by `roost chaos`";
        ChaosPanics => "roost_chaos_panics_total", "Shards that `roost chaos` made panic";
        ChaosDropped => "roost_chaos_dropped_total", "Links dropped by `roost chaos`";
        ChaosStalls => "roost_chaos_stalls_total", "Times that `roost chaos` stalled reads";
        ChaosHangs => "roost_chaos_hangs_total", "Shards that `roost chaos` made hang";
        ChaosDelays => "roost_chaos_delays_total", "Times that `roost chaos` delayed the store";
        ChaosFailures => "roost_chaos_failures_total", "Commits failed by `roost chaos`";
        MessagesAccepted => "roost_messages_accepted_total", "Messages put into their sender's log";
        MessagesRepeated => "roost_messages_repeated_total", "Messages that came again";
        MessagesRequeued => "roost_messages_requeued_total", "Messages that wait again";
        ForwardsRetried => "roost_forwards_retried_total", "Messages handed over again";
        CarbonsOut => "roost_carbons_out_total", "Copies of messages written to other devices";
        SessionsDetached => "roost_sessions_detached_total", "Sessions that lost their link";
        SessionsResumed => "roost_sessions_resumed_total", "Sessions taken up again";
        HomesOutlived => "roost_homes_outlived_total", "Connections that went on at another home";
        CrashesOutlived => "roost_crashes_outlived_total", "Connections that went on after a crash";
        HomesMissed => "roost_homes_missed_total", "Connections whose account had no home in time";
        SessionsExpired => "roost_sessions_expired_total", "Sessions not taken up in time";
        SessionsOverflowed => "roost_sessions_overflowed_total", "Sessions that fell behind";
        StanzasSpared => "roost_stanzas_spared_total", "Stanzas that slow clients were spared";
        StanzasResent => "roost_stanzas_resent_total", "Stanzas sent again at a resumption";
        LinksSilent => "roost_links_silent_total", "Connections given up: no acknowledgement came";
        ShardLongTurns => "roost_shard_long_turns_total", "Stretches of work of 10 ms and more";
        LoginsPaced => "roost_logins_paced_total", "Logins that had to wait for their turn";
        LoginsRefused => "roost_logins_refused_total", "Logins refused for now: too many waited";
        LoginsOutdated => "roost_logins_outdated_total", "Logins ended: their account changed";
        QuestionsPaused => "roost_questions_paused_total", "Times that a client had to read first";
        QuestionsOfAddressPaused => "roost_questions_of_address_paused_total", "An address waited";
        QuestionsRefused => "roost_questions_refused_total", "Requests refused: too many waited";
        BansApplied => "roost_bans_applied_total", "Connections closed: their address is banned";
        RoomsLoaded => "roost_rooms_loaded_total", "Rooms read from the store";
        RoomsRefused => "roost_rooms_refused_total", "Rooms not made: their makers have too many";
        RoomJoinsRefused => "roost_room_joins_refused_total", "Entries into rooms refused";
        RoomMessages => "roost_room_messages_total", "Messages that rooms made durable";
        RoomCopies => "roost_room_copies_total", "Copies that rooms sent to their occupants";
        RoomMemberMessages => "roost_room_member_messages_total", "Given to members not there";
        RoomCopiesDropped => "roost_room_copies_dropped_total", "Copies that found no room";
        PubsubLoaded => "roost_pubsub_services_loaded_total", "Services read from the store";
        PubsubItems => "roost_pubsub_items_total", "Items that services with nodes made durable";
        PubsubCopies => "roost_pubsub_copies_total", "Copies that services sent to subscribers";
        PubsubCopiesDropped => "roost_pubsub_copies_dropped_total", "Copies that found no room";
        PepLoaded => "roost_pep_loaded_total", "Nodes of accounts read from the store";
        PepItems => "roost_pep_items_total", "Items that accounts made durable at their nodes";
        PepEvents => "roost_pep_events_total", "Events of nodes given to contacts or sessions";
        PepDropped => "roost_pep_dropped_total", "Events or questions for nodes without room";
        CapsAsked => "roost_caps_asked_total", "Clients asked for unknown capabilities";
        CapsFalse => "roost_caps_false_total", "Capabilities that did not match their hash";
        StorageRefused => "roost_storage_refused_total", "Changes refused: the domain is full";
        ServicesLoaded => "roost_services_loaded_total", "Small services read from the store";
        ServiceChanges => "roost_service_changes_total", "Changes that small services made durable";
        RangesMoved => "roost_ranges_moved_total", "Ranges that came from another shard";
        RangesStayed => "roost_ranges_stayed_total", "Moves of ranges that could not be";
        RangeGapMicros => "roost_range_gap_microseconds_total", "Time of ranges on their way";
        RangesPaused => "roost_ranges_paused_total", "Busy ranges that were paused to move";
        RangePauseMicros => "roost_range_pause_microseconds_total", "Time of ranges in a pause";
        RangeStreams => "roost_range_streams_total", "Streams that followed their accounts";
        RangeStreamMicros => "roost_range_stream_microseconds_total", "Time in which those waited";
        BoshPassed => "roost_bosh_passed_total", "Requests over BOSH for other nodes' sessions";
        BoshUnanswered => "roost_bosh_unanswered_total", "Connections closed for want of an answer";
        ComponentsLoaded => "roost_components_loaded_total", "Domains of components taken up";
        ComponentStanzasIn => "roost_component_stanzas_in_total", "Stanzas taken from components";
        ComponentStanzasOut => "roost_component_stanzas_out_total", "Stanzas written to components";
        ComponentsAway => "roost_components_away_total", "Stanzas for components that were away";
        ComponentsRefused => "roost_components_refused_total", "Streams of components refused";
    }
}

catalogue! {
    /// Values that go up and down.
    Gauge {
        ActorsAlive => "roost_actors_alive", "Actors present";
        ActorQueueTotal => "roost_actor_queued", "Messages waiting in mailboxes";
        ActorQueueMax => "roost_actor_queue_max", "Longest mailbox seen at the last snapshot";
        ActorQueueNonEmpty => "roost_actor_queue_nonempty", "Mailboxes with a message";
        ActorRunQueue => "roost_actor_run_queue", "Actors waiting to run";
        ActorTimers => "roost_actor_timers", "Timers waiting";
        ActorAsksWaiting => "roost_actor_asks_waiting", "Requests waiting for their reply";
        ActorInbox => "roost_actor_inbox", "Messages from other threads not yet delivered";
        ActorOutgoing => "roost_actor_outgoing", "Messages waiting for room at another shard";
        NetConnections => "roost_net_connections", "Connections open on this shard";
        Sessions => "roost_sessions", "Sessions with a resource bound";
        JournalWaiting => "roost_journal_waiting", "Appends of this shard not committed yet";
        ManagedSessions => "roost_sessions_managed", "Sessions with stream management";
        RoomsLoaded => "roost_rooms", "Rooms that are loaded";
        RoomOccupants => "roost_room_occupants", "Sessions that are in rooms";
        RoomCopiesWaiting => "roost_room_copies_waiting", "Copies that rooms have not sent yet";
        RoomsBehind => "roost_rooms_behind", "Rooms that have been sending for a second or more";
        PubsubServices => "roost_pubsub_services", "Services with nodes that are loaded";
        PubsubNodes => "roost_pubsub_nodes", "Nodes of services that are loaded";
        QueueSenders => "roost_queue_senders", "Senders with messages for who does not keep up";
        QueueMessages => "roost_queue_messages", "Messages that wait for who does not keep up";
        Services => "roost_services", "Small services that are loaded";
        RangesLate => "roost_ranges_late", "Ranges on their way between shards for long";
        Components => "roost_components", "Domains of components that are loaded";
        ComponentsAttached => "roost_components_attached", "Components that are there";
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_counters_end_in_total() {
        let names: HashSet<&str> = Counter::ALL
            .iter()
            .map(|c| c.name())
            .chain(Gauge::ALL.iter().map(|g| g.name()))
            .collect();
        assert_eq!(names.len(), Counter::COUNT + Gauge::COUNT);
        for counter in Counter::ALL {
            assert!(counter.name().starts_with("roost_") && counter.name().ends_with("_total"));
            assert!(!counter.help().is_empty());
        }
    }
}
