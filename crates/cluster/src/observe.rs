//! Asks an engine for what `check` needs: its servers at their monitoring ports, its streams by the
//! client. Owns a very small HTTP client, because only a monitoring port says whether a server
//! syncs; without TLS, which those ports have only if somebody puts a proxy before them.

use std::time::Duration;

use serde_json::Value;
use stdx::{Clock, SystemClock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::check::{self, Observed, Problem, Server};
use crate::engine::{self, Engine, EngineError};
use crate::layout::Layout;

/// Largest answer of a monitoring port, in bytes; a larger one is an error.
const ANSWER_BYTES_MAX: u64 = 4 * 1_024 * 1_024;

/// Longest wait for a monitoring port.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// What to check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How to reach the engine.
    pub engine: engine::Options,
    /// Monitoring ports, one for each server: `http://host:8222`.
    pub monitor: Vec<String>,
    /// How things are called, and how many streams there are.
    pub layout: Layout,
    /// Makes what is missing first.
    pub create: bool,
    /// Bounds of the check.
    pub check: check::Options,
}

/// Observes an engine and says what is wrong with it. Blocks for some seconds at most, on a runtime
/// of its own.
///
/// # Errors
/// [`EngineError`] if the engine cannot be reached, or did not make what was missing.
pub fn run(options: &Options) -> Result<Vec<Problem>, EngineError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| EngineError::File(error.to_string()))?;
    runtime.block_on(observe(options))
}

/// The same on a runtime that is there.
///
/// # Errors
/// As [`run`].
pub async fn observe(options: &Options) -> Result<Vec<Problem>, EngineError> {
    let engine = Engine::connect(&options.engine, options.layout.clone()).await?;
    if options.create {
        engine.create().await?;
    }
    let (streams, buckets, silent_streams) = engine.observe_streams().await;
    let mut observed = Observed {
        streams,
        buckets,
        silent_streams,
        ..Observed::default()
    };
    for monitor in &options.monitor {
        match server(monitor).await {
            Ok(server) => observed.servers.push(server),
            Err(why) => observed.silent.push((monitor.clone(), why)),
        }
    }
    Ok(check::check(&options.check, &options.layout, &observed))
}

/// What a monitoring port says of its server. What is about JetStream is not taken from `/varz`: by
/// the source of 2.15, a server that is asked there in the moment before it has started JetStream
/// leaves its configuration out of that page until it ends.
pub(crate) async fn server(monitor: &str) -> Result<Server, String> {
    let clock = SystemClock::new();
    let asked = (clock.now(), clock.wall());
    let vars = get(monitor, "/varz").await?;
    let round_trip = clock.now().saturating_since(asked.0);
    let jetstream = get(monitor, "/jsz").await?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let half = i64::try_from(round_trip.as_millis() / 2).unwrap_or(i64::MAX);
    let theirs = text(&vars["now"]).parse::<stdx::Timestamp>();
    let theirs = theirs.map_err(|_| "it does not say what time it is".to_owned())?;
    let (config, meta) = (&jetstream["config"], &jetstream["meta_cluster"]);
    Ok(Server {
        monitor: monitor.to_owned(),
        name: text(&vars["server_name"]),
        version: text(&vars["version"]),
        has_jetstream: config.is_object() && jetstream["disabled"] != true,
        syncs_always: config["sync_always"].as_bool().unwrap_or_default(),
        skew_ms: theirs.as_millis() - asked.1.as_millis() - half,
        // Rounded up, and a millisecond for each clock's own rounding.
        uncertain_ms: half.saturating_add(2),
        stored_bytes: jetstream["storage"].as_u64().unwrap_or_default(),
        stored_bytes_max: config["max_storage"].as_u64().unwrap_or_default(),
        message_bytes_max: vars["max_payload"].as_u64().unwrap_or_default(),
        cluster_size: meta["cluster_size"].as_u64().unwrap_or_default() as usize,
    })
}

async fn get(monitor: &str, path: &str) -> Result<Value, String> {
    match tokio::time::timeout(ANSWER_WITHIN, fetch(monitor, path)).await {
        Ok(fetched) => fetched,
        Err(_) => Err("no answer in time".to_owned()),
    }
}

async fn fetch(monitor: &str, path: &str) -> Result<Value, String> {
    let host = monitor.strip_prefix("http://");
    let host = host
        .ok_or("only http:// can be asked")?
        .trim_end_matches('/');
    let text = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect(host).await.map_err(text)?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.map_err(text)?;
    let mut answer = Vec::new();
    let mut limited = stream.take(ANSWER_BYTES_MAX);
    limited.read_to_end(&mut answer).await.map_err(text)?;
    parse(&answer)
}

/// The JSON body of an HTTP answer without chunks.
fn parse(answer: &[u8]) -> Result<Value, String> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let (head, body) = answer.split_at(end.ok_or("no HTTP answer")?);
    let head = String::from_utf8_lossy(head);
    let status = head.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        return Err(format!("it answers {status:?}"));
    }
    serde_json::from_slice(&body[4..]).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_are_none_are_refused() {
        let good = b"HTTP/1.0 200 OK\r\nServer: x\r\n\r\n{\"a\":1}";
        assert_eq!(parse(good).unwrap()["a"], 1);
        for bad in [
            &b""[..],
            b"HTTP/1.0 404 Not Found\r\n\r\n{}",
            b"HTTP/1.0 200 OK\r\n\r\n{",
            b"\r\n\r\n",
        ] {
            assert!(parse(bad).is_err());
        }
    }
}
