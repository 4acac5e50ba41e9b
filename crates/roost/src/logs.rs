//! The log: lines on standard error, for people or as JSON, with a level that can change while the
//! server runs. Owns the set-up; what is logged is up to those who log, and passwords are of a type
//! that cannot be.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Registry, fmt, reload};

use crate::config::{LogFormat, LogLevel};

/// Changes the level of the log.
pub(crate) struct LogControl {
    level: reload::Handle<LevelFilter, Registry>,
}

impl LogControl {
    /// Starts the log of this process. Only the first call has an effect.
    pub(crate) fn start(level: LogLevel, format: LogFormat) -> LogControl {
        let (filter, handle) = reload::Layer::new(filter(level));
        let registry = tracing_subscriber::registry().with(filter);
        let is_terminal = io::stderr().is_terminal();
        let lines = fmt::layer().with_writer(io::stderr).with_ansi(is_terminal);
        // A refusal means that there is a log already, which is all we want.
        let _ = match format {
            LogFormat::Human => registry.with(lines).try_init(),
            LogFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
        };
        LogControl { level: handle }
    }

    /// Applies a new level.
    pub(crate) fn set_level(&self, level: LogLevel) {
        // It fails only if the log is gone, and then nobody is left to be told.
        let _ = self.level.reload(filter(level));
    }
}

/// Has panics logged like everything else, once each.
pub(crate) fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic
            .location()
            .map_or_else(String::new, ToString::to_string);
        let message = panic.payload_as_str().unwrap_or("no message");
        tracing::error!("panicked at {place}: {message}");
    }));
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}
