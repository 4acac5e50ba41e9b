//! Line plots as inline SVG: axes with round steps, a legend, shaded phases, values on hover.
//!
//! Colours come from the page's style sheet (`s0`, `s1`, ...), so that a page can be dark.

use std::fmt::Write as _;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 34.0;
/// Hover areas per plot at most, so that an hour's page stays small.
const HOVERS_MAX: usize = 180;

/// One line of a plot.
pub(crate) struct Line {
    pub(crate) label: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A plot and how its axes are labelled.
pub(crate) struct Plot<'a> {
    pub(crate) title: &'a str,
    pub(crate) lines: Vec<Line>,
    /// Shaded parts of the x axis with their names.
    pub(crate) bands: &'a [(f64, f64, String)],
    /// Logarithmic y axis.
    pub(crate) log: bool,
    pub(crate) x_text: &'a dyn Fn(f64) -> String,
    pub(crate) y_text: &'a dyn Fn(f64) -> String,
    /// Range of the x axis; otherwise that of the points.
    pub(crate) x_range: Option<(f64, f64)>,
    /// Fixed x ticks; empty: round steps.
    pub(crate) x_ticks: Vec<f64>,
    /// Points further apart are not joined: nothing was measured in between.
    pub(crate) joined: f64,
}

impl Plot<'_> {
    /// The plot as a `<figure>`; empty if there is nothing to draw.
    pub(crate) fn render(&self) -> String {
        let points = || {
            self.lines
                .iter()
                .flat_map(|line| line.points.iter().copied())
        };
        if points().count() < 2 {
            return String::new();
        }
        let x_low = points().map(|(x, _)| x).fold(f64::INFINITY, f64::min);
        let x_high = points().map(|(x, _)| x).fold(f64::NEG_INFINITY, f64::max);
        let (x_low, x_high) = self.x_range.unwrap_or((x_low, x_high));
        let x_high = x_high.max(x_low + 1e-9);
        let y_high = points().map(|(_, y)| y).fold(0.0, f64::max);
        let y_ticks = if self.log {
            let lowest = points()
                .map(|(_, y)| y)
                .fold(f64::INFINITY, f64::min)
                .max(1.0);
            decades(lowest, y_high.max(10.0))
        } else {
            steps(0.0, if y_high > 0.0 { y_high } else { 1.0 }, 5)
        };
        let (y_first, y_last) = (y_ticks[0], y_ticks[y_ticks.len() - 1]);
        let x = |value: f64| LEFT + (value - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT);
        let y = |value: f64| {
            let share = if self.log {
                (value.max(y_first) / y_first).ln() / (y_last / y_first).ln()
            } else {
                (value - y_first) / (y_last - y_first)
            };
            HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
        };
        let mut out = String::new();
        let _ = write!(
            out,
            "<figure><figcaption>{}{}</figcaption><svg viewBox='0 0 {WIDTH} {HEIGHT}' role='img'>",
            escape(self.title),
            self.legend()
        );
        self.write_bands(&mut out, &x, x_low, x_high);
        for tick in &y_ticks {
            let at = y(*tick);
            let _ = write!(
                out,
                "<line class='grid' x1='{LEFT}' x2='{:.1}' y1='{at:.1}' y2='{at:.1}'/>\
                 <text class='tick' x='{:.1}' y='{:.1}' text-anchor='end'>{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                at + 4.0,
                escape(&(self.y_text)(*tick))
            );
        }
        let x_ticks = if self.x_ticks.is_empty() {
            steps(x_low, x_high, 8)
        } else {
            self.x_ticks.clone()
        };
        for tick in x_ticks
            .iter()
            .filter(|tick| (x_low..=x_high).contains(*tick))
        {
            let _ = write!(
                out,
                "<text class='tick' x='{:.1}' y='{:.1}' text-anchor='middle'>{}</text>",
                x(*tick),
                HEIGHT - BOTTOM + 18.0,
                escape(&(self.x_text)(*tick))
            );
        }
        for (number, line) in self.lines.iter().enumerate() {
            let path = self.path(line, &x, &y);
            let _ = write!(out, "<path class='line s{number}' d='{path}'/>");
        }
        self.write_hovers(&mut out, &x);
        out.push_str("</svg></figure>\n");
        out
    }

    /// The line as path data. A point with nothing on either side becomes a dot, by a stroke of no
    /// length with round ends.
    fn path(&self, line: &Line, x: &dyn Fn(f64) -> f64, y: &dyn Fn(f64) -> f64) -> String {
        let mut path = String::new();
        let mut before = f64::NEG_INFINITY;
        for (px, py) in &line.points {
            let (at, height) = (x(*px), y(*py));
            if before.is_infinite() || px - before > self.joined {
                let _ = write!(path, "M{at:.1} {height:.1}");
            }
            let _ = write!(path, "L{at:.1} {height:.1}");
            before = *px;
        }
        path
    }

    fn legend(&self) -> String {
        if self.lines.len() < 2 {
            return String::new();
        }
        let mut out = String::from("<span class='legend'>");
        for (number, line) in self.lines.iter().enumerate() {
            let _ = write!(
                out,
                "<span><i class='s{number}'></i>{}</span>",
                escape(&line.label)
            );
        }
        out.push_str("</span>");
        out
    }

    fn write_bands(&self, out: &mut String, x: &dyn Fn(f64) -> f64, low: f64, high: f64) {
        for (number, (from, to, name)) in self.bands.iter().enumerate() {
            let (from, to) = (from.clamp(low, high), to.clamp(low, high));
            if to <= from {
                continue;
            }
            let class = if number % 2 == 0 { "band" } else { "band odd" };
            let width = x(to) - x(from);
            let _ = write!(
                out,
                "<rect class='{class}' x='{:.1}' y='{TOP}' width='{width:.1}' height='{:.1}'/>",
                x(from),
                HEIGHT - TOP - BOTTOM
            );
            // A name needs room: about six units a letter.
            if width > name.chars().count() as f64 * 6.0 {
                let _ = write!(
                    out,
                    "<text class='tick' x='{:.1}' y='{:.1}'>{}</text>",
                    x(from) + 4.0,
                    TOP + 11.0,
                    escape(name)
                );
            }
        }
    }

    fn write_hovers(&self, out: &mut String, x: &dyn Fn(f64) -> f64) {
        let Some(longest) = self.lines.iter().max_by_key(|line| line.points.len()) else {
            return;
        };
        let every = longest.points.len().div_ceil(HOVERS_MAX).max(1);
        let width = (WIDTH - LEFT - RIGHT) * every as f64 / longest.points.len() as f64;
        for (at, _) in longest.points.iter().step_by(every) {
            let mut title = (self.x_text)(*at);
            for line in &self.lines {
                if let Some((_, value)) = line.points.iter().find(|(px, _)| px == at) {
                    let _ = write!(title, "; {} {}", line.label, (self.y_text)(*value));
                }
            }
            let _ = write!(
                out,
                "<rect class='hover' x='{:.1}' y='{TOP}' width='{width:.1}' height='{:.1}'>\
                 <title>{}</title></rect>",
                x(*at) - width / 2.0,
                HEIGHT - TOP - BOTTOM,
                escape(&title)
            );
        }
    }
}

/// A rendered plot as an SVG document of its own, with its style inside.
pub(crate) fn standalone(figure: &str, title: &str) -> String {
    let start = figure.find("<svg ").map_or(0, |at| at + "<svg ".len());
    let end = figure.find("</figure>").unwrap_or(figure.len());
    let (attributes, content) = figure[start..end].split_once('>').unwrap_or_default();
    format!(
        "<svg xmlns='http://www.w3.org/2000/svg' {attributes}><style>\
         text{{font:11px sans-serif;fill:#6b6a66}}.grid{{stroke:#e4e3df}}\
         .line{{fill:none;stroke:#2a78d6;stroke-width:2;stroke-linecap:round}}.hover{{fill:transparent}}</style>\
         <rect width='100%' height='100%' fill='#fcfcfb'/>\
         <text x='{:.0}' y='{:.0}' text-anchor='end'>{}</text>{content}\n",
        WIDTH - RIGHT - 4.0,
        TOP + 12.0,
        escape(title)
    )
}

/// Round values from `low` or just below to `high` or just above, about `wanted` of them.
pub(crate) fn steps(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let raw = (high - low).max(1e-9) / wanted as f64;
    let power = 10_f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let step = step
        .into_iter()
        .find(|step| *step >= raw * 0.999)
        .unwrap_or(power * 10.0);
    let first = (low / step).floor() as i64;
    let last = (high / step * 0.9999).ceil() as i64;
    (first..=last.max(first + 1))
        .map(|number| number as f64 * step)
        .collect()
}

/// Powers of ten around a range; at least two.
fn decades(low: f64, high: f64) -> Vec<f64> {
    let first = low.log10().floor() as i32;
    let last = (high.log10().ceil() as i32).max(first + 1);
    (first..=last).map(|power| 10_f64.powi(power)).collect()
}

/// Text for HTML and SVG.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_steps_that_cover_the_values() {
        assert_eq!(steps(0.0, 9.0, 5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(steps(0.0, 15_000.0, 5), [0.0, 5_000.0, 10_000.0, 15_000.0]);
        assert_eq!(decades(30.0, 2_000.0), [10.0, 100.0, 1_000.0, 10_000.0]);
        assert_eq!(decades(5.0, 5.0), [1.0, 10.0]);
    }

    #[test]
    fn names_cannot_break_the_page() {
        let plot = Plot {
            title: "<b>",
            lines: vec![Line {
                label: "a&b".to_owned(),
                points: vec![(0.0, 1.0), (1.0, 2.0)],
            }],
            bands: &[(0.0, 1.0, "<i>".to_owned())],
            log: false,
            x_text: &|x| format!("{x}"),
            y_text: &|y| format!("{y}"),
            x_range: None,
            x_ticks: Vec::new(),
            joined: f64::INFINITY,
        };
        let svg = plot.render();
        assert!(svg.contains("&lt;b&gt;") && svg.contains("&lt;i&gt;") && !svg.contains("<i>"));
        assert!(svg.contains("M66.0"), "{svg}");
    }

    #[test]
    fn lines_are_broken_where_nothing_was_measured() {
        let plot = |joined| Plot {
            title: "",
            lines: vec![Line {
                label: String::new(),
                points: vec![(0.0, 1.0), (1.0, 2.0), (30.0, 3.0), (31.0, 4.0)],
            }],
            bands: &[],
            log: false,
            x_text: &|x| format!("{x}"),
            y_text: &|y| format!("{y}"),
            x_range: None,
            x_ticks: Vec::new(),
            joined,
        };
        assert_eq!(plot(2.5).render().matches('M').count(), 2);
        assert_eq!(plot(f64::INFINITY).render().matches('M').count(), 1);
    }
}
