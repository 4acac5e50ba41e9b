//! The report as one HTML page that needs nothing else: style, tables and plots inside.

use std::fmt::Write as _;

use crate::plot::{Line, Plot, escape};
use crate::report::{self, PhaseReport, Report, Second, bytes};
use crate::tally::Timing;

const STYLE: &str = "
:root{color-scheme:light dark;--page:#fcfcfb;--ink:#1b1b1a;--soft:#6b6a66;--grid:#e4e3df;
--band:#f3f2ee;--s0:#2a78d6;--s1:#d9562b;--s2:#1d8f6a;--s3:#8a5bd1;--s4:#b08400;--s5:#c2417f;
--bad:#b3261e;--good:#1d7a4f}
@media(prefers-color-scheme:dark){:root{--page:#1a1a19;--ink:#eceae4;--soft:#a3a19a;
--grid:#3a3936;--band:#232321;--s0:#5b9df0;--s1:#f0835a;--s2:#4dbf97;--s3:#b08af0;--s4:#d8b13e;
--s5:#e67bb0;--bad:#f2857d;--good:#63c796}}
body{background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif;max-width:1360px;
margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}p{margin:.3rem 0}
.soft{color:var(--soft)}.bad{color:var(--bad)}.good{color:var(--good)}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(560px,100%),1fr));gap:1rem}
figure{margin:0}figcaption{font-weight:600;font-size:.9rem;display:flex;gap:1rem;flex-wrap:wrap}
.legend{font-weight:400;display:flex;gap:.9rem}.legend i{display:inline-block;width:14px;height:3px;
margin-right:5px;vertical-align:middle}
svg{width:100%;height:auto}.grid{stroke:var(--grid)}.tick{fill:var(--soft);font-size:11px}
.band{fill:none}.band.odd{fill:var(--band)}.line{fill:none;stroke-width:2;
stroke-linejoin:round;stroke-linecap:round}
.hover{fill:transparent}.hover:hover{fill:var(--soft);fill-opacity:.15}
table{border-collapse:collapse;font-size:.88rem;font-variant-numeric:tabular-nums}
.wide{overflow-x:auto}th,td{padding:.25rem .7rem;text-align:right;
border-bottom:1px solid var(--grid)}
th:first-child,td:first-child{text-align:left}th{font-weight:600;color:var(--soft)}
pre{background:var(--band);padding:.8rem;overflow-x:auto;font-size:.8rem}
.tiles{display:flex;flex-wrap:wrap;gap:2rem;margin:1rem 0}.tiles b{display:block;font-size:1.5rem}
";

/// Seconds further apart had nothing to show in between.
const SECONDS_JOINED: f64 = 2.5;

/// Renders `report`.
pub(crate) fn page(report: &Report) -> String {
    let name = report
        .scenario
        .as_ref()
        .map_or("run", |scenario| scenario.name.as_str());
    let mut out = String::new();
    let _ = write!(
        out,
        "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'>\
         <meta name='viewport' content='width=device-width'><title>flood: {}</title><style>{STYLE}",
        escape(name)
    );
    for number in 0..6 {
        let _ = write!(
            out,
            ".line.s{number}{{stroke:var(--s{number})}}i.s{number}{{background:var(--s{number})}}"
        );
    }
    out.push_str("</style></head><body>\n");
    head(report, name, &mut out);
    tiles(report, &mut out);
    plots(report, &mut out);
    tables(report, &mut out);
    if let Some(scenario) = &report.scenario
        && let Ok(text) = toml::to_string(scenario)
    {
        let _ = write!(out, "<h2>Scenario as run</h2><pre>{}</pre>", escape(&text));
    }
    out.push_str("</body></html>\n");
    out
}

fn head(report: &Report, name: &str, out: &mut String) {
    let scenario = report.scenario.as_ref();
    let machine = &report.machine;
    let _ = write!(
        out,
        "<h1>{}</h1><p>{}</p><p class='soft'>{} users with {} contacts each against {} · {} · \
         {} × {} · Linux {} · {} memory · {} worker(s)</p>",
        escape(name),
        escape(scenario.map_or("", |scenario| &scenario.about)),
        scenario.map_or(0, |scenario| scenario.users.count),
        scenario.map_or(0, |scenario| scenario.users.contacts),
        escape(scenario.map_or("", |scenario| &scenario.server.address)),
        escape(&date(report.started_unix_ms)),
        machine.processors,
        escape(&machine.processor),
        escape(&machine.kernel),
        bytes(machine.memory as f64),
        report.workers,
    );
    for process in &report.server_processes {
        let _ = write!(
            out,
            "<p class='soft'>server: <code>{}</code></p>",
            escape(process)
        );
    }
    if report.is_good() {
        out.push_str("<p class='good'>✓ All checks held.</p>");
    }
    let faults = report.error.iter().chain(&report.faults);
    for fault in faults {
        let _ = write!(out, "<p class='bad'>✗ {}</p>", escape(fault));
    }
    for warning in &report.warnings {
        let _ = write!(out, "<p>⚠ {}</p>", escape(warning));
    }
}

fn tiles(report: &Report, out: &mut String) {
    let mut tiles: Vec<(String, String)> = Vec::new();
    let most = report
        .phases
        .iter()
        .map(|phase| phase.online)
        .max()
        .unwrap_or(0);
    tiles.push((most.to_string(), "users online at most".to_owned()));
    if let Some(memory) = &report.memory {
        let text = format!(
            "resident per user ({} → {} users)",
            memory.users_low, memory.users_high
        );
        tiles.push((bytes(memory.bytes_per_user), text));
    }
    let logins = report
        .phases
        .iter()
        .filter(|phase| phase.cpu_us_per_login.is_some());
    if let Some(phase) = logins.max_by_key(|phase| phase.counts.logins_ok) {
        let cpu = phase.cpu_us_per_login.unwrap_or_default();
        tiles.push((
            format!("{:.3} ms", cpu / 1e3),
            "server CPU per login".to_owned(),
        ));
    }
    let chats = report
        .phases
        .iter()
        .filter(|phase| phase.cpu_us_per_message.is_some());
    if let Some(phase) = chats.max_by_key(|phase| phase.counts.messages_received) {
        let cpu = phase.cpu_us_per_message.unwrap_or_default();
        tiles.push((
            format!("{cpu:.2} µs"),
            format!("server CPU per message ({})", phase.name),
        ));
    }
    out.push_str("<div class='tiles'>");
    for (value, label) in tiles {
        let _ = write!(
            out,
            "<div><b>{}</b><span class='soft'>{}</span></div>",
            escape(&value),
            escape(&label)
        );
    }
    out.push_str("</div>");
}

fn plots(report: &Report, out: &mut String) {
    let bands = bands(report);
    let end = report.series.last().map_or(1.0, |second| second.at);
    let line = |label: &str, value: &dyn Fn(&Second) -> Option<f64>| Line {
        label: label.to_owned(),
        points: report
            .series
            .iter()
            .filter_map(|second| Some((second.at, value(second)?)))
            .collect(),
    };
    let seconds = |x: f64| format!("{x:.0} s");
    let number = |y: f64| compact(y);
    let latency = |y: f64| duration(y);
    let size = |y: f64| bytes(y);
    let plot = |title, lines, log, y_text| {
        let plot = Plot {
            title,
            lines,
            bands: &bands,
            log,
            x_text: &seconds,
            y_text,
            x_range: Some((0.0, end)),
            x_ticks: Vec::new(),
            joined: SECONDS_JOINED,
        };
        plot.render()
    };
    out.push_str("<h2>Over time</h2><div class='plots'>");
    let some = |value: f64| Some(value);
    out.push_str(&plot(
        "Users",
        vec![
            line("online", &|s| some(s.online as f64)),
            line("to come", &|s| some(s.coming as f64)),
        ],
        false,
        &number,
    ));
    out.push_str(&plot(
        "Logins per second",
        vec![
            line("completed", &|s| some(s.logins)),
            line("failed or lost", &|s| some(s.failures)),
        ],
        false,
        &number,
    ));
    out.push_str(&plot(
        "Stanzas per second",
        vec![
            line("messages sent", &|s| some(s.sent)),
            line("messages received", &|s| some(s.received)),
            line("presence received", &|s| some(s.presences)),
        ],
        false,
        &number,
    ));
    out.push_str(&plot(
        "CPU cores in use",
        vec![
            line("server", &|s| some(s.server_cores)),
            line("load", &|s| some(s.load_cores)),
        ],
        false,
        &|y| format!("{y:.1}"),
    ));
    out.push_str(&plot(
        "Login latency (from the scheduled moment)",
        vec![
            line("p50", &|s| s.login_us.map(|(p50, _)| p50 as f64)),
            line("p99", &|s| s.login_us.map(|(_, p99)| p99 as f64)),
        ],
        true,
        &latency,
    ));
    out.push_str(&plot(
        "Message latency (from the scheduled moment)",
        vec![
            line("p50", &|s| s.message_us.map(|(p50, _)| p50 as f64)),
            line("p99", &|s| s.message_us.map(|(_, p99)| p99 as f64)),
        ],
        true,
        &latency,
    ));
    out.push_str(&plot(
        "Memory",
        vec![
            line("server, resident", &|s| some(s.rss as f64)),
            line("TCP buffers of the machine", &|s| some(s.tcp_memory as f64)),
        ],
        false,
        &size,
    ));
    out.push_str("</div><h2>Latency distributions</h2><div class='plots'>");
    for phase in &report.phases {
        out.push_str(&distribution(phase));
    }
    out.push_str("</div>");
}

/// Latency against "nines": each step right is ten times rarer.
fn distribution(phase: &PhaseReport) -> String {
    let nines = |share: f64| -(1.0 - share).log10();
    let lines = phase
        .timings
        .iter()
        .filter(|timing| timing.timing != Timing::Lag && timing.timing != Timing::Connect)
        .filter(|timing| timing.count > 10)
        .map(|timing| Line {
            label: timing.timing.label().to_owned(),
            points: timing
                .curve
                .iter()
                .map(|(share, us)| (nines(*share), *us as f64))
                .collect(),
        })
        .collect();
    let title = format!("Phase \"{}\"", phase.name);
    let share = |x: f64| match x {
        _ if x < 0.05 => "0%".to_owned(),
        _ => {
            let percent = 100.0 * (1.0 - 10_f64.powf(-x));
            let digits = (x.round() - 2.0).max(0.0) as usize;
            format!("{percent:.digits$}%")
        }
    };
    let plot = Plot {
        title: &title,
        lines,
        bands: &[],
        log: true,
        x_text: &share,
        y_text: &|y| duration(y),
        x_range: None,
        x_ticks: vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        joined: f64::INFINITY,
    };
    plot.render()
}

fn bands(report: &Report) -> Vec<(f64, f64, String)> {
    let mut bands: Vec<(f64, f64, String)> = Vec::new();
    let scenario = report.scenario.as_ref();
    for second in &report.series {
        let name = scenario
            .and_then(|scenario| scenario.phases.get(second.phase))
            .map_or("", |phase| phase.name.as_str());
        match bands.last_mut() {
            Some(last) if last.2 == name => last.1 = second.at,
            _ => {
                let from = bands.last().map_or(0.0, |last| last.1);
                bands.push((from, second.at, name.to_owned()));
            }
        }
    }
    bands
}

fn tables(report: &Report, out: &mut String) {
    out.push_str(
        "<h2>Phases</h2><div class='wide'><table><tr><th>phase</th><th>s</th><th>online</th>\
         <th>logins</th><th>failed</th><th>logins/s</th><th>sent</th><th>received</th><th>lost</th>\
         <th>msg/s</th><th>presence right</th><th>CPU/login</th><th>CPU/message</th>\
         <th>RSS</th></tr>",
    );
    for phase in &report.phases {
        let counts = &phase.counts;
        let presence = phase.presence.map_or("–".to_owned(), |check| {
            format!("{}/{}", check.users_right, check.users_online)
        });
        let login = phase.cpu_us_per_login.map_or("–".to_owned(), duration);
        let message = phase
            .cpu_us_per_message
            .map_or("–".to_owned(), |cpu| format!("{cpu:.2} µs"));
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{:.1}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.0}</td>\
             <td>{}</td><td>{}</td><td>{}</td><td>{:.0}</td><td>{presence}</td><td>{login}</td>\
             <td>{message}</td><td>{}</td></tr>",
            escape(&phase.name),
            phase.seconds,
            phase.online,
            counts.logins_ok,
            counts.logins_failed,
            phase.logins_per_second,
            counts.messages_sent,
            counts.messages_received,
            phase.messages_lost,
            phase.messages_per_second,
            bytes(phase.after.rss as f64),
        );
    }
    out.push_str(
        "</table></div><h2>Latencies</h2><div class='wide'><table><tr><th>phase</th><th>what</th>\
         <th>count</th><th>mean</th><th>p50</th><th>p90</th><th>p99</th><th>p99.9</th>\
         <th>max</th></tr>",
    );
    for phase in &report.phases {
        for timing in &phase.timings {
            let _ = write!(
                out,
                "<tr><td>{}</td><td>{}</td><td>{}</td>",
                escape(&phase.name),
                escape(timing.timing.label()),
                timing.count
            );
            let values = [timing.p50, timing.p90, timing.p99, timing.p999, timing.max];
            let values = values.map(|value| value as f64);
            for value in std::iter::once(timing.mean).chain(values) {
                let _ = write!(out, "<td>{}</td>", duration(value));
            }
            out.push_str("</tr>");
        }
    }
    out.push_str("</table></div>");
    let reasons: Vec<_> = report
        .phases
        .iter()
        .filter(|phase| !phase.reasons.0.is_empty())
        .collect();
    if !reasons.is_empty() {
        out.push_str("<h2>Reasons of failures</h2><table>");
        for phase in reasons {
            for (reason, count) in &phase.reasons.0 {
                let _ = write!(
                    out,
                    "<tr><td>{}</td><td>{count}</td><td>{}</td></tr>",
                    escape(&phase.name),
                    escape(reason)
                );
            }
        }
        out.push_str("</table>");
    }
}

/// A page can have the letter that terminals may lack.
fn duration(us: f64) -> String {
    report::duration(us).replace("us", "µs")
}

fn compact(value: f64) -> String {
    match value {
        _ if value >= 1e6 => format!("{:.1}M", value / 1e6),
        _ if value >= 1e4 => format!("{:.0}k", value / 1e3),
        _ if value >= 1e3 => format!("{:.1}k", value / 1e3),
        _ => format!("{value:.0}"),
    }
}

/// Date and time in UTC from milliseconds since the epoch (days from civil, H. Hinnant).
pub(crate) fn date(unix_ms: u64) -> String {
    let seconds = unix_ms / 1_000;
    let days = (seconds / 86_400) as i64 + 719_468;
    let era = days / 146_097;
    let of_era = days - era * 146_097;
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let (hour, minute) = (seconds % 86_400 / 3_600, seconds % 3_600 / 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}
