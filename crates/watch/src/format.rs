//! Figures in few characters, for lines and screens. Owns the rounding: three digits or more are
//! always right.

/// A count or a rate: `0.4`, `37`, `99999`, `123k`, `45.6M`.
pub(crate) fn number(value: f64) -> String {
    match value {
        v if !v.is_finite() => "-".to_owned(),
        v if v > 0.0 && v < 9.95 && v.fract() > 0.0 => format!("{v:.1}"),
        v if v < 99_999.5 => format!("{v:.0}"),
        v => scaled(v, 1_000.0, &["", "k", "M", "G", "T", "P"]),
    }
}

/// Bytes, in powers of 1,024: `999`, `12.3K`, `456M`.
pub(crate) fn bytes(value: f64) -> String {
    match value {
        v if !v.is_finite() => "-".to_owned(),
        v if v < 999.5 => format!("{v:.0}"),
        v => scaled(v, 1_024.0, &["", "K", "M", "G", "T", "P"]),
    }
}

/// A time given in microseconds: `85us`, `1.2ms`, `3.4s`.
pub(crate) fn micros(value: f64) -> String {
    match value {
        v if !v.is_finite() => "-".to_owned(),
        v if v < 999.5 => format!("{v:.0}us"),
        v if v < 999_500.0 => format!("{}ms", digits(v / 1e3)),
        v => format!("{}s", digits(v / 1e6)),
    }
}

/// A time to wait given in seconds: `0.4s`, `12s`, `3.4m`, `5.6h`, `>99d`.
pub(crate) fn wait(seconds: f64) -> String {
    match seconds {
        s if !s.is_finite() || s >= 99.0 * 86_400.0 => ">99d".to_owned(),
        s if s < 99.5 => format!("{}s", digits(s)),
        s if s < 5_970.0 => format!("{}m", digits(s / 60.0)),
        s if s < 99.5 * 3_600.0 => format!("{}h", digits(s / 3_600.0)),
        s => format!("{}d", digits(s / 86_400.0)),
    }
}

/// A share of one, in percent.
pub(crate) fn percent(share: f64) -> String {
    if share.is_finite() {
        format!("{:.0}", share * 100.0)
    } else {
        "-".to_owned()
    }
}

/// At most so many characters; a longer text ends in `~`.
pub(crate) fn fit(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('~');
    short
}

/// The time of day of a moment since 1970, in UTC.
pub(crate) fn time_of_day(at_ms: i64) -> String {
    let seconds = at_ms.div_euclid(1_000).rem_euclid(86_400);
    format!(
        "{:02}:{:02}:{:02}",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60
    )
}

fn digits(value: f64) -> String {
    if value < 9.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

fn scaled(value: f64, base: f64, units: &[&str]) -> String {
    let (mut value, mut unit) = (value, 0);
    while value >= 999.5 && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    if value < 99.95 && unit > 0 {
        format!("{value:.1}{}", units[unit])
    } else {
        format!("{value:.0}{}", units[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stay_short_and_right() {
        let numbers = [
            (0.0, "0"),
            (0.44, "0.4"),
            (3.0, "3"),
            (9.96, "10"),
            (99_999.0, "99999"),
            (123_456.0, "123k"),
            (45_600_000.0, "45.6M"),
            (f64::NAN, "-"),
        ];
        for (value, text) in numbers {
            assert_eq!(number(value), text);
        }
        let sizes = [
            (999.0, "999"),
            (1_000.0, "1.0K"),
            (12_595.0, "12.3K"),
            (478_150_656.0, "456M"),
        ];
        for (value, text) in sizes {
            assert_eq!(bytes(value), text);
        }
        let times = [(85.0, "85us"), (1_234.0, "1.2ms"), (3_400_000.0, "3.4s")];
        for (value, text) in times {
            assert_eq!(micros(value), text);
        }
        let waits = [
            (0.42, "0.4s"),
            (99.0, "99s"),
            (204.0, "3.4m"),
            (20_160.0, "5.6h"),
            (1e12, ">99d"),
            (f64::INFINITY, ">99d"),
        ];
        for (value, text) in waits {
            assert_eq!(wait(value), text);
        }
        for power in 0..60 {
            let value = 1.37 * f64::from(2).powi(power);
            assert!(number(value).len() <= 5, "{value}");
            assert!(bytes(value).len() <= 5, "{value}");
        }
    }

    #[test]
    fn long_names_are_cut_where_a_character_ends() {
        assert_eq!(fit("ab", 2), "ab");
        assert_eq!(fit("äöü", 2), "ä~");
        assert_eq!(time_of_day(86_399_999), "23:59:59");
        assert_eq!(time_of_day(-1), "23:59:59");
    }
}
