//! Values of the configuration file: what a key accepts, how its value is read and how it is
//! described. Owns the checks of single values; what keys there are is `table`.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use toml::de::DeValue;

/// Entries of any list.
pub(crate) const LIST_MAX: usize = 256;

/// What a key accepts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// `true` or `false`.
    Switch,
    /// A whole number from `min` to `max` of `unit`.
    Integer {
        min: u64,
        max: u64,
        unit: &'static str,
    },
    /// A time as text: a whole number and its unit, such as "30s".
    Time { min: Duration, max: Duration },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Text of `min` to `max` bytes; empty text stands for none.
    Text { min: usize, max: usize },
    /// An XMPP domain.
    Domain,
    /// A file or folder. `optional`: empty text stands for none.
    Path { optional: bool },
    /// An IP address and a port.
    Address,
    /// An IP address, or a network such as 192.0.2.0/24.
    Network,
    /// Between `min` and [`LIST_MAX`] of these.
    List { min: usize, of: &'static Bound },
}

/// A value that lies within its bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plain {
    Switch(bool),
    Integer(u64),
    Time(Duration),
    Text(String),
    Address(SocketAddr),
    Path(PathBuf),
    List(Vec<Plain>),
}

impl Bound {
    /// Reads a value.
    ///
    /// # Errors
    /// What it should have been instead, as the end of a sentence that starts with the key.
    pub(crate) fn read(&self, value: &DeValue<'_>) -> Result<Plain, String> {
        match self {
            Bound::Switch => value
                .as_bool()
                .map(Plain::Switch)
                .ok_or_else(|| self.not(value)),
            Bound::Integer { min, max, .. } => {
                let integer = value.as_integer().ok_or_else(|| self.not(value))?;
                let number = u64::from_str_radix(&digits(integer.as_str()), integer.radix());
                match number {
                    Ok(number) if (*min..=*max).contains(&number) => Ok(Plain::Integer(number)),
                    _ => Err(format!("{}, not {}", self.takes(), integer.as_str())),
                }
            }
            Bound::List { min, of } => {
                let array = value.as_array().ok_or_else(|| self.not(value))?;
                if array.len() < *min || array.len() > LIST_MAX {
                    return Err(format!("{}, not {}", self.takes(), array.len()));
                }
                let entries = array.iter().map(|entry| of.read(entry.get_ref()));
                Ok(Plain::List(entries.collect::<Result<_, _>>()?))
            }
            _ => {
                let text = value.as_str().ok_or_else(|| self.not(value))?;
                self.read_text(text)
                    .ok_or_else(|| format!("{}, not \"{text}\"", self.takes()))
            }
        }
    }

    fn read_text(&self, text: &str) -> Option<Plain> {
        match self {
            Bound::Time { min, max } => {
                let time = parse_time(text)?;
                (*min..=*max).contains(&time).then_some(Plain::Time(time))
            }
            Bound::Choice(words) => words.contains(&text).then(|| Plain::Text(text.to_owned())),
            Bound::Text { min, max } => {
                let sound = text.is_empty() || (*min..=*max).contains(&text.len());
                sound.then(|| Plain::Text(text.to_owned()))
            }
            Bound::Domain => crate::node::prepare_domain(text).map(Plain::Text),
            Bound::Path { optional } => {
                let sound = (*optional || !text.is_empty()) && !text.contains('\0');
                sound.then(|| Plain::Path(PathBuf::from(text)))
            }
            Bound::Address => text.parse().ok().map(Plain::Address),
            Bound::Network => is_network(text).then(|| Plain::Text(text.to_owned())),
            Bound::Switch | Bound::Integer { .. } | Bound::List { .. } => None,
        }
    }

    fn not(&self, value: &DeValue<'_>) -> String {
        let article = if value.is_integer() || value.is_array() {
            "an"
        } else {
            "a"
        };
        format!("{}, not {article} {}", self.takes(), value.type_str())
    }

    /// What the key takes, as a phrase for error messages.
    fn takes(&self) -> String {
        format!("takes {}", self.describe())
    }

    /// The accepted values in words, for messages and for the documentation.
    pub(crate) fn describe(&self) -> String {
        match self {
            Bound::Switch => "true or false".to_owned(),
            Bound::Integer { min, max, unit } => {
                format!(
                    "a whole number from {} to {} ({unit})",
                    grouped(*min),
                    grouped(*max)
                )
            }
            Bound::Time { min, max } => format!(
                "a time from \"{}\" to \"{}\" (units: ms, s, m, h, d)",
                time_text(*min),
                time_text(*max)
            ),
            Bound::Choice(words) => {
                let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
                format!("one of {}", quoted.join(", "))
            }
            Bound::Text { min, max } => format!("text of {min} to {max} bytes, or \"\" for none"),
            Bound::Domain => "a domain such as \"example.org\"".to_owned(),
            Bound::Path { optional: false } => "a path".to_owned(),
            Bound::Path { optional: true } => "a path, or \"\" for none".to_owned(),
            Bound::Address => {
                "an address and port such as \"127.0.0.1:5222\" or \"[::1]:5222\"".to_owned()
            }
            Bound::Network => {
                "an address or network such as \"127.0.0.0/8\" or \"2001:db8::/32\"".to_owned()
            }
            Bound::List { min, of } => {
                format!(
                    "a list of {min} to {LIST_MAX} entries, each {}",
                    of.describe()
                )
            }
        }
    }
}

/// TOML allows `_` between digits and a leading `+`.
fn digits(text: &str) -> String {
    text.trim_start_matches('+').replace('_', "")
}

/// The units of times, largest first, in milliseconds.
const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

pub(crate) fn parse_time(text: &str) -> Option<Duration> {
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let number: u64 = text[..end].parse().ok()?;
    let unit = text[end..].trim_start();
    let (_, milliseconds) = UNITS.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*milliseconds).map(Duration::from_millis)
}

/// A time in the largest unit that gives a whole number.
pub(crate) fn time_text(time: Duration) -> String {
    let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    if milliseconds == 0 {
        return "0s".to_owned();
    }
    let fits = |(_, unit): &&(&str, u64)| milliseconds.is_multiple_of(*unit);
    let (name, unit) = UNITS.iter().find(fits).unwrap_or(&("ms", 1));
    format!("{}{name}", milliseconds / unit)
}

/// A number with its digits in groups of three, as TOML allows it.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push('_');
        }
        out.push(digit);
    }
    out
}

fn is_network(text: &str) -> bool {
    let (address, prefix) = text
        .split_once('/')
        .map_or((text, None), |(a, p)| (a, Some(p)));
    let Ok(address) = address.parse::<IpAddr>() else {
        return false;
    };
    let longest = if address.is_ipv4() { 32 } else { 128 };
    prefix.is_none_or(|prefix| prefix.parse::<u8>().is_ok_and(|bits| bits <= longest))
}

impl Plain {
    /// The value as TOML, for reports of what changed.
    pub(crate) fn toml(&self) -> String {
        match self {
            Plain::Switch(value) => value.to_string(),
            Plain::Integer(value) => grouped(*value),
            Plain::Time(value) => format!("\"{}\"", time_text(*value)),
            Plain::Text(value) => format!("{value:?}"),
            Plain::Address(value) => format!("\"{value}\""),
            Plain::Path(value) => format!("{value:?}"),
            Plain::List(entries) => {
                let mut out = "[".to_owned();
                for (index, entry) in entries.iter().enumerate() {
                    let comma = if index > 0 { ", " } else { "" };
                    let _ = write!(out, "{comma}{}", entry.toml());
                }
                out + "]"
            }
        }
    }
}

/// Types of settings. `None` only if the table gives a key a bound that its type cannot hold, which
/// the test of the defaults finds.
pub(crate) trait FromPlain: Sized {
    fn from_plain(plain: &Plain) -> Option<Self>;
}

macro_rules! from_plain {
    ($($type:ty: $pattern:pat => $value:expr;)+) => {
        $(impl FromPlain for $type {
            fn from_plain(plain: &Plain) -> Option<Self> {
                match plain {
                    $pattern => $value,
                    _ => None,
                }
            }
        })+
    };
}

from_plain! {
    bool: Plain::Switch(value) => Some(*value);
    u16: Plain::Integer(value) => u16::try_from(*value).ok();
    u32: Plain::Integer(value) => u32::try_from(*value).ok();
    u64: Plain::Integer(value) => Some(*value);
    Duration: Plain::Time(value) => Some(*value);
    String: Plain::Text(value) => Some(value.clone());
    SocketAddr: Plain::Address(value) => Some(*value);
    PathBuf: Plain::Path(value) => Some(value.clone());
}

impl FromPlain for Option<PathBuf> {
    fn from_plain(plain: &Plain) -> Option<Self> {
        let path = PathBuf::from_plain(plain)?;
        Some((!path.as_os_str().is_empty()).then_some(path))
    }
}

impl FromPlain for Option<String> {
    fn from_plain(plain: &Plain) -> Option<Self> {
        let text = String::from_plain(plain)?;
        Some((!text.is_empty()).then_some(text))
    }
}

impl<T: FromPlain> FromPlain for Vec<T> {
    fn from_plain(plain: &Plain) -> Option<Self> {
        match plain {
            Plain::List(entries) => entries.iter().map(T::from_plain).collect(),
            _ => None,
        }
    }
}

/// Defines an enumeration whose values are words of the configuration file.
macro_rules! choice {
    ($(#[doc = $doc:literal])+ $Name:ident {
        $($(#[doc = $text:literal])+ $Variant:ident = $word:literal,)+
    }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $Name {
            $($(#[doc = $text])+ $Variant,)+
        }

        impl $Name {
            /// The words that stand for the values.
            pub(crate) const WORDS: &'static [&'static str] = &[$($word),+];
        }

        impl $crate::config::value::FromPlain for $Name {
            fn from_plain(plain: &$crate::config::value::Plain) -> Option<Self> {
                match plain {
                    $crate::config::value::Plain::Text(word) => match word.as_str() {
                        $($word => Some($Name::$Variant),)+
                        _ => None,
                    },
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use choice;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let cases = [
            ("30s", Some(30_000)),
            ("2 m", Some(120_000)),
            ("1h", Some(3_600_000)),
            ("250ms", Some(250)),
            ("7d", Some(604_800_000)),
            ("30", None),
            ("s", None),
            ("-1s", None),
            ("1.5s", None),
            ("1y", None),
            ("99999999999999999999s", None),
        ];
        for (text, expected) in cases {
            let expected = expected.map(Duration::from_millis);
            assert_eq!(parse_time(text), expected, "{text}");
        }
        for milliseconds in [0, 1, 999, 1_000, 60_000, 90_000, 86_400_000] {
            let time = Duration::from_millis(milliseconds);
            assert_eq!(parse_time(&time_text(time)), Some(time));
        }
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(262_144), "262_144");
        assert_eq!(grouped(1_000_000), "1_000_000");
    }

    #[test]
    fn networks_need_a_fitting_prefix() {
        for good in ["127.0.0.0/8", "::1", "2001:db8::/32", "192.0.2.1"] {
            assert!(is_network(good), "{good}");
        }
        for bad in [
            "localhost",
            "127.0.0.1/33",
            "::/129",
            "1.2.3/8",
            "1.2.3.4/",
            "",
        ] {
            assert!(!is_network(bad), "{bad}");
        }
    }
}
