//! Points in time and the clocks that tell them.
//!
//! Owns [`Moment`] (monotonic, for deadlines), [`Timestamp`] (wall clock, for people and the wire,
//! with the date profile of XEP-0082) and [`Clock`]. [`SystemClock`] is the only code in the
//! workspace that reads the machine's clock. Deliberately not here: time zones other than UTC on
//! output, leap seconds (one is read as the last moment before it).

use std::fmt;
use std::ops::Add;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ::time::OffsetDateTime;
use ::time::format_description::well_known::Rfc3339;
use rustix::time::{ClockId, clock_gettime};

/// 0000-01-01T00:00:00Z and 9999-12-31T23:59:59.999Z in milliseconds: what XEP-0082 can write.
const FIRST_MS: i64 = -62_167_219_200_000;
const LAST_MS: i64 = 253_402_300_799_999;

/// Nanoseconds since the process (or the simulation) started; never goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

impl Moment {
    /// The start of the process or simulation.
    pub const ZERO: Moment = Moment(0);
    /// Later than anything that will happen: 584 years after the start.
    pub const FAR: Moment = Moment(u64::MAX);

    /// The moment `nanos` after the start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Moment(nanos)
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole milliseconds since the start.
    pub fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Time since `earlier`, or zero when `earlier` is later.
    pub fn saturating_since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;

    /// Saturates at [`Moment::FAR`].
    fn add(self, duration: Duration) -> Moment {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Moment(self.0.saturating_add(nanos))
    }
}

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The moment that is `millis` milliseconds after the Unix epoch.
    pub const fn from_millis(millis: i64) -> Timestamp {
        Timestamp(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub fn as_millis(self) -> i64 {
        self.0
    }

    /// `2026-11-21T01:02:03.045Z`: the XEP-0082 DateTime with three fractional digits.
    pub fn with_millis(self) -> WithMillis {
        WithMillis(self)
    }

    /// Date and time in UTC. What has no four digits of a year becomes the nearest that has.
    fn civil(self) -> OffsetDateTime {
        let ms = self.0.clamp(FIRST_MS, LAST_MS);
        // Within the bounds there is one for every millisecond.
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000)
            .unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;

    fn add(self, duration: Duration) -> Timestamp {
        let ms = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Timestamp(self.0.saturating_add(ms))
    }
}

/// `2026-11-21T01:02:03Z` (XEP-0082 DateTime in UTC, RFC 3339), with milliseconds only if there are
/// any.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.civil();
        if at.millisecond() > 0 {
            return self.with_millis().fmt(f);
        }
        write_seconds(at, f)?;
        f.write_str("Z")
    }
}

/// `2026-11-21T01:02:03`. The library has a description language for formats, which takes memory
/// for each text.
fn write_seconds(at: OffsetDateTime, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
    let (hour, minute, second) = at.to_hms();
    write!(
        f,
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"
    )
}

/// Display form of a [`Timestamp`] with milliseconds; see [`Timestamp::with_millis`].
#[derive(Clone, Copy, Debug)]
pub struct WithMillis(Timestamp);

impl fmt::Display for WithMillis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.0.civil();
        write_seconds(at, f)?;
        write!(f, ".{:03}Z", at.millisecond())
    }
}

/// A text that is no XEP-0082 DateTime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotADate;

impl fmt::Display for NotADate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a date and time of the form 2026-11-21T01:02:03Z")
    }
}

impl std::error::Error for NotADate {}

impl FromStr for Timestamp {
    type Err = NotADate;

    /// Reads the DateTime profile of XEP-0082: years 0000-9999, any fraction, `Z` or an offset.
    fn from_str(text: &str) -> Result<Timestamp, NotADate> {
        // RFC 3339 lets people choose what is between date and time, and small letters.
        let is_profile = text.as_bytes().get(10) == Some(&b'T') && !text.ends_with('z');
        if !is_profile {
            return Err(NotADate);
        }
        let at = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| NotADate)?;
        let ms = at.unix_timestamp_nanos().div_euclid(1_000_000);
        i64::try_from(ms).map(Timestamp).map_err(|_| NotADate)
    }
}

/// Tells the time. Code below the drivers receives times as arguments; only a driver owns a clock.
pub trait Clock: Send + Sync {
    /// Monotonic time.
    fn now(&self) -> Moment;
    /// Wall-clock time.
    fn wall(&self) -> Timestamp;
}

/// The machine's clock. All clones count from the same start.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    /// Nanoseconds of the machine's monotonic clock.
    start: u64,
}

/// The machine's monotonic clock in nanoseconds. A shard reads it several times for a message: the
/// standard library's `Instant`, which carries seconds and nanoseconds apart, takes more
/// instructions than the reading.
fn monotonic_nanos() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl SystemClock {
    /// Starts counting now. A process makes one and clones it for every shard.
    pub fn new() -> Self {
        SystemClock {
            start: monotonic_nanos(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        Moment(monotonic_nanos().saturating_sub(self.start))
    }

    #[allow(clippy::disallowed_methods)] // The one place that reads the machine's clock.
    fn wall(&self) -> Timestamp {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)),
            Err(before) => {
                Timestamp(-i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX))
            }
        }
    }
}

/// A clock that moves only when told to. Clones share one time.
#[derive(Clone, Debug)]
pub struct VirtualClock {
    shared: Arc<VirtualTime>,
}

#[derive(Debug)]
struct VirtualTime {
    now: AtomicU64,
    epoch: AtomicI64,
}

impl VirtualClock {
    /// The wall-clock time at [`Moment::ZERO`] unless told otherwise: 2026-01-01T00:00:00Z.
    pub const START: Timestamp = Timestamp(1_767_225_600_000);

    /// A clock at [`Moment::ZERO`], which is [`VirtualClock::START`] on the wall.
    pub fn new() -> Self {
        Self::with_epoch(Self::START)
    }

    /// A clock at [`Moment::ZERO`], which is `epoch` on the wall.
    pub fn with_epoch(epoch: Timestamp) -> Self {
        let (now, epoch) = (AtomicU64::new(0), AtomicI64::new(epoch.0));
        VirtualClock {
            shared: Arc::new(VirtualTime { now, epoch }),
        }
    }

    /// Moves to `at`; an earlier moment than now is ignored, because time never goes back.
    pub fn set(&self, at: Moment) {
        self.shared.now.fetch_max(at.0, Ordering::SeqCst);
    }

    /// Moves on by `by`.
    pub fn advance(&self, by: Duration) {
        self.set(self.now() + by);
    }

    /// Shifts the wall clock alone, as an administrator or NTP may do. Milliseconds.
    pub fn step_wall(&self, by_ms: i64) {
        self.shared.epoch.fetch_add(by_ms, Ordering::SeqCst);
    }
}

impl Default for VirtualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Moment {
        Moment(self.shared.now.load(Ordering::SeqCst))
    }

    fn wall(&self) -> Timestamp {
        let since_start = (self.now().0 / 1_000_000) as i64;
        Timestamp(self.shared.epoch.load(Ordering::SeqCst) + since_start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_known_instants() {
        assert_eq!(Timestamp(0).to_string(), "1970-01-01T00:00:00Z");
        assert_eq!(
            Timestamp(951_782_400_000).to_string(),
            "2000-02-29T00:00:00Z"
        );
        assert_eq!(
            Timestamp(-1).with_millis().to_string(),
            "1969-12-31T23:59:59.999Z"
        );
        assert_eq!(
            Timestamp(1_795_222_923_045).with_millis().to_string().len(),
            24
        );
    }

    #[test]
    fn parses_what_it_formats() {
        for ms in [
            0,
            1,
            -1,
            951_782_400_000,
            1_795_222_923_045,
            253_402_300_799_999,
        ] {
            let text = Timestamp(ms).with_millis().to_string();
            assert_eq!(text.parse(), Ok(Timestamp(ms)), "{text}");
        }
    }

    #[test]
    fn what_has_no_four_digits_of_a_year_becomes_the_nearest_that_has() {
        let first = "0000-01-01T00:00:00Z";
        assert_eq!(Timestamp(FIRST_MS).to_string(), first);
        assert_eq!(Timestamp(FIRST_MS - 1).to_string(), first);
        assert_eq!(Timestamp(i64::MIN).to_string(), first);
        let last = "9999-12-31T23:59:59.999Z";
        assert_eq!(Timestamp(LAST_MS).to_string(), last);
        assert_eq!(Timestamp(i64::MAX).to_string(), last);
        assert_eq!(first.parse(), Ok(Timestamp(FIRST_MS)));
        assert_eq!(last.parse(), Ok(Timestamp(LAST_MS)));
    }

    #[test]
    fn parses_the_examples_of_xep_0082() {
        let moon: Timestamp = "1969-07-21T02:56:15Z".parse().unwrap();
        assert_eq!("1969-07-20T21:56:15-05:00".parse(), Ok(moon));
        assert_eq!(
            "1969-07-21T02:56:15.1239Z".parse(),
            Ok(Timestamp(moon.0 + 123))
        );
    }

    #[test]
    fn refuses_what_is_no_date() {
        for text in [
            "",
            "2026-11-21",
            "2026-13-01T00:00:00Z",
            "2025-02-29T00:00:00Z",
            "2026-11-21T24:00:00Z",
            "2026-11-21T01:02:03",
            "2026-11-21T01:02:03.Z",
            "2026-11-21T01:02:03+24:00",
            "2026-11-21 01:02:03Z",
            "2026-11-21T01:02:03z",
            "2026-11-21T01:02:03Zulu",
            "2026-11-21T01:02:60Z",
            "２026-11-21T01:02:03Z",
        ] {
            assert_eq!(text.parse::<Timestamp>(), Err(NotADate), "{text}");
        }
    }

    #[test]
    fn virtual_time_is_shared_and_never_goes_back() {
        let clock = VirtualClock::default();
        let other = clock.clone();
        clock.advance(Duration::from_millis(1500));
        other.set(Moment(7));
        assert_eq!(other.now(), Moment(1_500_000_000));
        assert_eq!(other.wall().to_string(), "2026-01-01T00:00:01.500Z");
    }

    #[test]
    fn system_clock_moves_forward() {
        let clock = SystemClock::new();
        let before = clock.now();
        assert!(clock.now() >= before);
        assert!(clock.wall() > Timestamp(1_700_000_000_000));
    }
}
