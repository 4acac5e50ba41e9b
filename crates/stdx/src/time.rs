//! Points in time and the clocks that tell them.
//!
//! Owns [`Moment`] (monotonic, for deadlines), [`Timestamp`] (wall clock, for people and the wire,
//! with the date profile of XEP-0082) and [`Clock`]. [`SystemClock`] is the only code in the
//! workspace that reads the machine's clock. Deliberately not here: time zones other than UTC on
//! output, leap seconds (a second 60 is read as 59).

use std::fmt;
use std::ops::Add;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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

    /// Civil date and time of day in UTC: (year, month, day, hour, minute, second, millisecond).
    fn civil(self) -> (i64, u32, u32, u32, u32, u32, u32) {
        let (days, ms) = (self.0.div_euclid(86_400_000), self.0.rem_euclid(86_400_000));
        // Days to civil date over eras of 400 years whose years start in March, so that the leap
        // day is the last day of a year.
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = (day_of_year - (153 * shifted_month + 2) / 5 + 1) as u32;
        let month = if shifted_month < 10 {
            shifted_month + 3
        } else {
            shifted_month - 9
        } as u32;
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let ms = ms as u32;
        (
            year,
            month,
            day,
            ms / 3_600_000,
            ms / 60_000 % 60,
            ms / 1000 % 60,
            ms % 1000,
        )
    }

    fn from_civil(year: i64, month: u32, day: u32, ms_of_day: i64) -> Timestamp {
        let shifted_year = year - i64::from(month <= 2);
        let (era, year_of_era) = (shifted_year.div_euclid(400), shifted_year.rem_euclid(400));
        let shifted_month = i64::from(if month > 2 { month - 3 } else { month + 9 });
        let day_of_year = (153 * shifted_month + 2) / 5 + i64::from(day) - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        Timestamp((era * 146_097 + day_of_era - 719_468) * 86_400_000 + ms_of_day)
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
        let (year, month, day, hour, minute, second, ms) = self.civil();
        if ms > 0 {
            return self.with_millis().fmt(f);
        }
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"
        )
    }
}

/// Display form of a [`Timestamp`] with milliseconds; see [`Timestamp::with_millis`].
#[derive(Clone, Copy, Debug)]
pub struct WithMillis(Timestamp);

impl fmt::Display for WithMillis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day, hour, minute, second, ms) = self.0.civil();
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z"
        )
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

fn digits(bytes: &[u8]) -> Result<u32, NotADate> {
    let mut value = 0u32;
    for byte in bytes {
        if !byte.is_ascii_digit() {
            return Err(NotADate);
        }
        value = value * 10 + u32::from(byte - b'0');
    }
    Ok(value)
}

fn days_in_month(year: u32, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => {
            29
        }
        2 => 28,
        _ => 31,
    }
}

/// Reads the fraction after the seconds: (milliseconds, rest). Further digits are cut off.
fn fraction(rest: &[u8]) -> Result<(u32, &[u8]), NotADate> {
    let Some(tail) = rest.strip_prefix(b".") else {
        return Ok((0, rest));
    };
    let len = tail.iter().take_while(|b| b.is_ascii_digit()).count();
    if len == 0 {
        return Err(NotADate);
    }
    let (read, rest) = tail.split_at(len);
    let places = read.iter().chain(b"00").take(3);
    let ms = places.fold(0, |ms, digit| ms * 10 + u32::from(digit - b'0'));
    Ok((ms, rest))
}

/// Reads the zone: `Z` or `+hh:mm` or `-hh:mm`, as minutes east of UTC.
fn zone(rest: &[u8]) -> Result<i64, NotADate> {
    match rest {
        b"Z" => Ok(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (digits(&[*h1, *h2])?, digits(&[*m1, *m2])?);
            if hours > 23 || minutes > 59 {
                return Err(NotADate);
            }
            let offset = i64::from(hours * 60 + minutes);
            Ok(if *sign == b'-' { -offset } else { offset })
        }
        _ => Err(NotADate),
    }
}

impl FromStr for Timestamp {
    type Err = NotADate;

    /// Reads the DateTime profile of XEP-0082: years 0000-9999, any fraction, `Z` or an offset.
    fn from_str(text: &str) -> Result<Timestamp, NotADate> {
        let b = text.as_bytes();
        if b.len() < 20 || [b[4], b[7], b[10], b[13], b[16]] != *b"--T::" {
            return Err(NotADate);
        }
        let (year, month, day) = (digits(&b[..4])?, digits(&b[5..7])?, digits(&b[8..10])?);
        let (hour, minute) = (digits(&b[11..13])?, digits(&b[14..16])?);
        let second = digits(&b[17..19])?;
        let valid = (1..=12).contains(&month)
            && (1..=days_in_month(year, month)).contains(&day)
            && hour < 24
            && minute < 60
            && second <= 60;
        if !valid {
            return Err(NotADate);
        }
        let (ms, rest) = fraction(&b[19..])?;
        let offset = zone(rest)?;
        let of_day = i64::from((hour * 60 + minute) * 60 + second.min(59)) * 1000 + i64::from(ms);
        let at = Timestamp::from_civil(i64::from(year), month, day, of_day);
        Ok(Timestamp(at.0 - offset * 60_000))
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
    start: Instant,
}

impl SystemClock {
    /// Starts counting now. A process makes one and clones it for every shard.
    #[allow(clippy::disallowed_methods)] // The one place that reads the machine's clock.
    pub fn new() -> Self {
        SystemClock {
            start: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)] // The one place that reads the machine's clock.
    fn now(&self) -> Moment {
        let elapsed = Instant::now().saturating_duration_since(self.start);
        Moment(elapsed.as_secs() * 1_000_000_000 + u64::from(elapsed.subsec_nanos()))
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
