//! Users, sessions, rosters, presence, routing; one file per extension.
