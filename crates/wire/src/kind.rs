//! The kinds of packets: their numbers, which are never given out again, and since which version
//! there are such.

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $number:literal, $name:literal, since $since:literal;)*) => {
        /// What a packet is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// Every kind.
            pub const ALL: &'static [Kind] = &[$(Kind::$kind),*];

            /// Its number in a packet.
            pub const fn number(self) -> u8 {
                match self { $(Kind::$kind => $number,)* }
            }

            /// Its name in errors.
            pub const fn name(self) -> &'static str {
                match self { $(Kind::$kind => $name,)* }
            }

            /// The version in which it came.
            pub const fn since(self) -> u8 {
                match self { $(Kind::$kind => $since,)* }
            }

            /// The kind of a number that came with a version: it is written with no other.
            pub fn of(number: u8, version: u8) -> Option<Kind> {
                let kind = match number {
                    $($number => Kind::$kind,)*
                    _ => return None,
                };
                (kind.since() == version).then_some(kind)
            }
        }
    };
}

kinds! {
    /// [`crate::Message::Stanza`].
    Stanza = 1, "stanza", since 1;
    /// [`crate::Message::Copy`].
    Copy = 2, "copy", since 1;
    /// [`crate::Message::Probe`].
    Probe = 3, "probe", since 1;
    /// [`crate::Message::Taken`].
    Taken = 4, "taken", since 1;
    /// [`crate::Message::NotTaken`].
    NotTaken = 5, "not-taken", since 1;
    /// [`crate::Message::Interest`].
    Interest = 6, "interest", since 1;
    /// [`crate::Message::NodeEvent`].
    NodeEvent = 7, "node-event", since 1;
    /// [`crate::ToRoom::Alive`].
    Alive = 16, "alive", since 1;
    /// [`crate::ToRoom::NotHere`].
    NotHere = 17, "not-here", since 1;
    /// [`crate::ToRoom::Back`].
    Back = 18, "back", since 1;
    /// [`crate::ToRoom::Pull`].
    Pull = 19, "pull", since 1;
    /// [`crate::ToRoom::Missed`].
    Missed = 20, "missed", since 1;
    /// [`crate::ToRoom::Noted`].
    Noted = 21, "noted", since 2;
    /// [`crate::OfRoom::Here`].
    Here = 32, "here", since 1;
    /// [`crate::OfRoom::More`].
    More = 33, "more", since 1;
    /// [`crate::OfRoom::Asks`].
    Asks = 34, "asks", since 1;
    /// [`crate::OfRoom::Absent`].
    Absent = 35, "absent", since 1;
    /// [`crate::OfRoom::Page`].
    Page = 36, "page", since 1;
    /// [`crate::OfRoom::Member`].
    Member = 37, "member", since 2;
    /// [`crate::Packet::Credited`].
    Credited = 64, "credited", since 1;
    /// [`crate::Packet::Moved`].
    Moved = 65, "moved", since 1;
    /// [`crate::Packet::Join`].
    Join = 80, "join", since 2;
    /// [`crate::Part::Bytes`].
    JoinedBytes = 81, "joined-bytes", since 2;
    /// [`crate::Part::Room`].
    JoinedRoom = 82, "joined-room", since 2;
    /// [`crate::Part::End`].
    JoinedEnd = 83, "joined-end", since 2;
    /// [`crate::Part::Keeps`].
    JoinedKeeps = 84, "joined-keeps", since 4;
    /// [`crate::Part::Session`].
    JoinedSession = 85, "joined-session", since 4;
    /// [`crate::Part::Mark`].
    JoinedMark = 86, "joined-mark", since 4;
    /// [`crate::Part::Left`].
    JoinedLeft = 87, "joined-left", since 4;
    /// [`crate::Part::Adopted`].
    JoinedAdopted = 88, "joined-adopted", since 4;
    /// [`crate::Part::Marked`].
    JoinedMarked = 90, "joined-marked", since 4;
    /// [`crate::Part::Marked`], with answers among the bytes.
    JoinedMarkedAnswers = 91, "joined-marked-answers", since 5;
    /// [`crate::Packet::Adopt`].
    Adopt = 89, "adopt", since 4;
    /// [`crate::Packet::Adopt`], of a connection that has had answers.
    AdoptAnswered = 92, "adopt-answered", since 5;
    /// A question of [`crate::Errand`].
    Asked = 96, "asked", since 3;
    /// An answer of [`crate::Errand`].
    Answered = 97, "answered", since 3;
    /// [`crate::OfRequest::Came`].
    Request = 104, "request", since 5;
    /// [`crate::OfRequest::Lost`].
    RequestLost = 105, "request-lost", since 5;
    /// [`crate::OfRequest::Answered`].
    RequestAnswered = 106, "request-answered", since 5;
    /// [`crate::OfRequest::Dropped`].
    RequestDropped = 107, "request-dropped", since 5;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::VERSION;

    #[test]
    fn no_number_and_no_name_is_given_twice() {
        for (at, kind) in Kind::ALL.iter().enumerate() {
            let others = &Kind::ALL[..at];
            assert!(others.iter().all(|other| other.number() != kind.number()));
            assert!(others.iter().all(|other| other.name() != kind.name()));
            assert!(kind.since() <= VERSION);
            assert_eq!(Kind::of(kind.number(), kind.since()), Some(*kind));
            assert_eq!(Kind::of(kind.number(), kind.since() - 1), None);
            assert_eq!(Kind::of(kind.number(), kind.since() + 1), None);
        }
    }
}
