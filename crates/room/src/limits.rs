//! Every bound of this crate, with its unit, its production value and what happens at it.

/// Bounds of one room. All of them are values, so that a test can make them 1, 2 or 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomLimits {
    /// Occupants (nicks). One more is answered `service-unavailable` of type `wait`, unless he is
    /// an admin or an owner (XEP-0045 section 7.2.9). A room's own limit may be lower.
    pub occupants_max: u32,
    /// Occupants that admins and owners may add beyond it; behind them they are refused too.
    pub occupants_over_max: u32,
    /// Sessions of one nick; one more is answered `resource-constraint`.
    pub sessions_per_nick_max: u16,
    /// Bytes of a nick; a longer one is `not-acceptable`.
    pub nick_bytes_max: usize,
    /// Bytes of what an occupant's presence says besides; more is `not-acceptable`.
    pub presence_bytes_max: usize,
    /// Addresses with an affiliation; one more is `resource-constraint`.
    pub affiliations_max: usize,
    /// Bytes of these addresses with their nicks and reasons; more is `resource-constraint`. They
    /// are in memory, and lists of them are one answer.
    pub affiliation_bytes_max: usize,
    /// Items of one request of an admin, and addresses of one field; more is `not-acceptable`.
    pub items_max: usize,
    /// Messages that a room keeps for those who enter; the oldest makes way.
    pub history_max: u16,
    /// Bytes of them; the oldest makes way. Memory holds each twice: as it is in the log, and as it
    /// is sent.
    pub history_bytes_max: usize,
    /// Bytes of one text of the configuration; a longer one is `not-acceptable`.
    pub text_bytes_max: usize,
    /// Bytes of a message that sets a subject; a longer one is `not-acceptable`.
    pub subject_bytes_max: usize,
    /// Bytes of a message to all; a longer one is `not-acceptable`.
    pub message_bytes_max: usize,
    /// Bytes of a reason; a longer one is left out.
    pub reason_bytes_max: usize,
    /// Hats of a room (XEP-0317); one more is `resource-constraint`.
    pub hats_max: usize,
    /// Hats that somebody has, each for each; one more is `resource-constraint`. What is told of a
    /// hat that goes is told of all of them.
    pub hats_worn_max: usize,
    /// Bytes of a hat's URI, and of its title; a longer one is `not-acceptable`.
    pub hat_text_bytes_max: usize,
    /// Bytes of all hats and whose they are; more is `resource-constraint`.
    pub hat_bytes_max: usize,
    /// Bytes of the room's card (XEP-0486); a larger one is `not-acceptable`.
    pub card_bytes_max: usize,
    /// Pictures in it; more is `not-acceptable`.
    pub card_photos_max: usize,
    /// Invitations, declined ones, requests for voice and requests to register that a room passes
    /// on in a minute, each kind for itself; one more is `resource-constraint`.
    pub invitations_per_minute_max: u16,
    /// Owners and admins that a request to register is put to, owners first; the rest is not asked.
    pub approvers_max: usize,
    /// Addresses that one message invites; more is `not-acceptable`.
    pub invitations_per_message_max: usize,
    /// Occupants of one answer to who is there; what is behind them is had by result sets
    /// (XEP-0059).
    pub page_entries_max: usize,
    /// Bytes of the entries of one such answer.
    pub page_bytes_max: u64,
    /// Messages that wait for their record; with one more the room is busy and takes nothing.
    pub pending_max: usize,
    /// Occupants who left of whom it is remembered that they are gone, for clients that may not
    /// have heard of it: the first one is forgotten.
    pub gone_max: usize,
    /// Milliseconds for which that is remembered.
    pub gone_for_ms: i64,
    /// Milliseconds for which a persistent room goes on to keep who is there once the last managed
    /// session has left. Its first one brings about a record for each occupant that it is told of:
    /// one that comes and goes must not do so each time.
    pub unmanaged_for_ms: i64,
    /// Occupants from which on presence is told only of moderators and of those who have spoken.
    pub large_from: u32,
}

impl Default for RoomLimits {
    fn default() -> Self {
        RoomLimits {
            occupants_max: 20_000,
            occupants_over_max: 100,
            sessions_per_nick_max: 16,
            nick_bytes_max: 128,
            presence_bytes_max: 2_048,
            affiliations_max: 5_000,
            affiliation_bytes_max: 1024 * 1024,
            items_max: 200,
            history_max: 100,
            history_bytes_max: 256 * 1024,
            text_bytes_max: 2_048,
            subject_bytes_max: 4_096,
            message_bytes_max: 64 * 1024,
            reason_bytes_max: 512,
            hats_max: 64,
            hats_worn_max: 256,
            hat_text_bytes_max: 256,
            hat_bytes_max: 64 * 1024,
            card_bytes_max: 64 * 1024,
            card_photos_max: 4,
            invitations_per_minute_max: 30,
            approvers_max: 16,
            invitations_per_message_max: 10,
            page_entries_max: 500,
            page_bytes_max: 128 * 1024,
            pending_max: 64,
            gone_max: 1_000,
            gone_for_ms: 24 * 3_600 * 1_000,
            unmanaged_for_ms: 60_000,
            large_from: 256,
        }
    }
}

/// How much of one thing may be passed on in a minute.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Budget {
    minute: i64,
    used: u16,
}

impl Budget {
    /// Takes one; false if the minute has none left.
    pub(crate) fn take(&mut self, now: stdx::Timestamp, per_minute_max: u16) -> bool {
        let minute = now.as_millis().div_euclid(60_000);
        if self.minute != minute {
            *self = Budget { minute, used: 0 };
        }
        let has_left = self.used < per_minute_max;
        self.used += u16::from(has_left);
        has_left
    }
}
