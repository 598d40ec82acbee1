//! Selects the pictures of a result: a map of services, groups over time, distributions, heat maps, or bars.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use sinks::{DisplayZone, units};
use tuple::{FieldId, Unit};

use super::bar_chart::{self, ChartBar};
use super::distribution::{self, GroupHistogram};
use super::heatmap;
use super::line_chart::{self, ChartSeries, SeriesPoint};
use super::rows::{ReportResult, ReportRow, ReportRows};
use super::service_graph::{self, GraphEdge};
use super::svg::{COLORS, ReportFigure};
use super::table::heading;

/// Maximum pictures of each kind: numbers over time, heat maps, bars, edges.
const MEASURES_MAX: usize = 3;
const HEATS_MAX: usize = 4;
const BARS_MAX: usize = 25;
const EDGES_MAX: usize = 50;

/// Data of a result's pictures.
struct ChartSource<'a> {
    result: &'a ReportResult,
    names: Option<&'a HashMap<IpAddr, String>>,
    zone: &'a DisplayZone,
    keys: Vec<FieldId>,
}

/// Pictures, most informative first.
#[must_use]
pub fn pictures(result: &ReportResult, kept: &ReportRows, zone: &DisplayZone) -> Vec<ReportFigure> {
    let names = kept.names.as_ref();
    let of = ChartSource {
        result,
        names,
        zone,
        keys: result.keys(),
    };
    let is_map = result
        .head
        .processor
        .as_deref()
        .is_some_and(|name| name.starts_with("service-map"));
    let window = result.find("window_start");
    if result.kept == 0 || result.find("section").is_some() {
        return Vec::new();
    }
    let mut pictures = Vec::new();
    if is_map {
        pictures.extend(of.map());
    }
    match (window, result.distribution()) {
        (Some(window), Some(spread)) => pictures.extend(of.heats(window, spread)),
        (None, Some(spread)) => pictures.extend(of.spread(spread)),
        _ => {}
    }
    match window {
        Some(window) => {
            pictures.extend(
                result
                    .measures()
                    .into_iter()
                    .take(MEASURES_MAX)
                    .filter_map(|id| of.course(window, id)),
            );
        }
        None if !is_map => pictures.extend(of.ranking()),
        None => {}
    }
    pictures
}

impl ChartSource<'_> {
    fn unit(&self, id: FieldId) -> Unit {
        self.result
            .schema()
            .map_or(Unit::None, |schema| schema.field(id).unit)
    }

    fn heading(&self, id: FieldId) -> String {
        self.result
            .schema()
            .map(|schema| heading(schema.field(id)).to_owned())
            .unwrap_or_default()
    }

    fn key(&self, line: &ReportRow<'_>) -> String {
        if self.keys.is_empty() {
            self.result.head.processor.clone().unwrap_or_default()
        } else {
            line.key(&self.keys, self.names)
        }
    }

    /// Groups by weight, descending.
    fn heaviest(&self, weight: FieldId) -> Vec<String> {
        let mut weights: BTreeMap<String, f64> = BTreeMap::new();
        for line in self.result.lines() {
            *weights.entry(self.key(&line)).or_default() += line.number(weight).unwrap_or(0.0);
        }
        let mut all: Vec<(String, f64)> = weights.into_iter().collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        all.into_iter().map(|(key, _)| key).collect()
    }

    /// Column that orders the groups: their count, if available; otherwise `otherwise`.
    fn weight(&self, otherwise: FieldId) -> FieldId {
        self.result.find("count").unwrap_or(otherwise)
    }

    fn interval(&self, line: &ReportRow<'_>, id: FieldId) -> Option<(f64, Option<f64>)> {
        let [low, high] = self.result.interval(id)?;
        Some((line.number(low)?, line.number(high)))
    }

    fn course(&self, window: FieldId, id: FieldId) -> Option<ReportFigure> {
        let groups = self.heaviest(self.weight(id));
        let drawn = &groups[..groups.len().min(COLORS)];
        let mut points: BTreeMap<&str, Vec<SeriesPoint>> = BTreeMap::new();
        for line in self.result.lines() {
            let (Some(at_ns), Some(value)) = (line.time(window), line.number(id)) else {
                continue;
            };
            let key = self.key(&line);
            if let Some(name) = drawn.iter().find(|name| **name == key) {
                points.entry(name).or_default().push(SeriesPoint {
                    at_ns,
                    value,
                    band: self.interval(&line, id),
                });
            }
        }
        let course = |name: &String| {
            Some(ChartSeries {
                name: name.clone(),
                points: points.remove(name.as_str())?,
            })
        };
        let courses: Vec<ChartSeries> = drawn.iter().filter_map(course).collect();
        if courses.iter().all(|course| course.points.len() < 2) {
            return None;
        }
        let slide = self.result.head.slide_ns.unwrap_or(1);
        let has_band = courses
            .iter()
            .flat_map(|course| &course.points)
            .any(|point| matches!(point.band, Some((_, Some(_)))));
        let band = if has_band {
            "; shaded: 95 % intervals, where both ends are known"
        } else {
            ""
        };
        let name = self.heading(id);
        let label = format!("{name} of {} groups over time", courses.len());
        Some(ReportFigure {
            caption: format!(
                "{name} by window{band}{}",
                left_out(groups.len(), drawn.len(), "group")
            ),
            svg: line_chart::draw(&courses, self.unit(id), slide, self.zone, &label),
            legend: courses.into_iter().map(|course| course.name).collect(),
        })
    }

    fn spread(&self, id: FieldId) -> Vec<ReportFigure> {
        let of = |line: ReportRow<'_>| GroupHistogram {
            name: self.key(&line),
            buckets: line.buckets(id),
        };
        let mut all: Vec<GroupHistogram> = self
            .result
            .lines()
            .map(of)
            .filter(|spread| !spread.buckets.is_empty())
            .collect();
        let groups = all.len();
        all.truncate(COLORS);
        if all.is_empty() {
            return Vec::new();
        }
        let name = self.heading(id);
        let unit = self.unit(id);
        let more = left_out(groups, all.len(), "group");
        vec![
            ReportFigure {
                caption: format!(
                    "Histogram of each group; the highest bar is its most frequent value{more}"
                ),
                svg: distribution::histograms(
                    &all,
                    unit,
                    &format!("{name} of {} groups as histograms", all.len()),
                ),
                legend: Vec::new(),
            },
            ReportFigure {
                caption: format!("Share of values up to a size{more}"),
                svg: distribution::shares(
                    &all,
                    unit,
                    &format!("{name} of {} groups: shares up to a value", all.len()),
                ),
                legend: all.iter().map(|spread| spread.name.clone()).collect(),
            },
        ]
    }

    fn heats(&self, window: FieldId, id: FieldId) -> Vec<ReportFigure> {
        let mut groups: BTreeMap<String, heatmap::HeatmapWindows> = BTreeMap::new();
        for line in self.result.lines() {
            if let Some(start) = line.time(window) {
                groups
                    .entry(self.key(&line))
                    .or_default()
                    .insert(start, line.buckets(id));
            }
        }
        let weight = |windows: &heatmap::HeatmapWindows| {
            windows.values().flatten().map(|(_, n)| n).sum::<f64>()
        };
        let mut all: Vec<(String, heatmap::HeatmapWindows)> = groups.into_iter().collect();
        all.sort_by(|a, b| weight(&b.1).total_cmp(&weight(&a.1)));
        let found = all.len();
        let slide = self.result.head.slide_ns.unwrap_or(1);
        all.truncate(HEATS_MAX);
        let drawn = all.len();
        let picture = |(name, windows): (String, heatmap::HeatmapWindows)| ReportFigure {
            caption: format!(
                "{name}: {} by window; dark is few, bright is many{}",
                self.heading(id),
                left_out(found, drawn, "group")
            ),
            svg: heatmap::draw(
                &windows,
                self.unit(id),
                slide,
                self.zone,
                &format!("Heat map of {name} over {} windows", windows.len()),
            ),
            legend: Vec::new(),
        };
        all.into_iter().map(picture).collect()
    }

    /// Bars of one number per group; for a ranking, the number by which it is sorted.
    fn ranking(&self) -> Option<ReportFigure> {
        let measures = self.result.measures();
        let falls = |id: &FieldId| {
            let all: Vec<f64> = self
                .result
                .lines()
                .filter_map(|line| line.number(*id))
                .collect();
            all.len() > 1
                && all.windows(2).all(|two| two[0] >= two[1])
                && all[0] > all[all.len() - 1]
        };
        let ranked = self
            .result
            .find("rank")
            .and_then(|_| measures.iter().copied().find(falls));
        let id = ranked.or(measures.first().copied())?;
        if self.keys.is_empty() || self.result.kept < 2 {
            return None;
        }
        let bar = |line: ReportRow<'_>| {
            Some(ChartBar {
                name: self.key(&line),
                value: line.number(id)?,
                interval: self.interval(&line, id),
            })
        };
        let bars: Vec<ChartBar> = self.result.lines().filter_map(bar).take(BARS_MAX).collect();
        let name = self.heading(id);
        Some(ReportFigure {
            caption: format!("{name}{}", left_out(self.result.kept, bars.len(), "row")),
            svg: bar_chart::draw(
                &bars,
                self.unit(id),
                &format!("{name} of {} groups as bars", bars.len()),
            ),
            legend: Vec::new(),
        })
    }

    /// Map of services; over windows: sum of counts, and maximum of times.
    fn map(&self) -> Option<ReportFigure> {
        let find = |name: &str| self.result.find(name);
        let [client, server, port] = ["client_ip", "server_ip", "server_port"].map(find);
        let client = client?;
        let server = server?;
        let mut edges: BTreeMap<[String; 3], GraphEdge> = BTreeMap::new();
        let shown = |line: &ReportRow<'_>, id: Option<FieldId>| {
            id.and_then(|id| line.shown(id, self.names))
                .unwrap_or_default()
        };
        for line in self.result.lines() {
            let protocol = shown(&line, find("application"));
            let service = [protocol, shown(&line, port)].join(" ").trim().to_owned();
            let ends = [
                shown(&line, Some(client)),
                shown(&line, Some(server)),
                service,
            ];
            let number = |name: &str| find(name).and_then(|id| line.number(id));
            let [from, to, service] = ends.clone();
            let edge = edges.entry(ends).or_insert(GraphEdge {
                client: from,
                server: to,
                service,
                p99_ns: None,
                weight: 0.0,
                fails: false,
            });
            edge.weight += number("count").unwrap_or(1.0);
            edge.p99_ns = edge
                .p99_ns
                .into_iter()
                .chain(number("p99"))
                .reduce(f64::max);
            edge.fails |= number("success").is_some_and(|share| share < 1.0);
        }
        drawn_map(edges.into_values().collect())
    }
}

/// Map of the most frequent edges.
#[must_use]
pub fn drawn_map(mut edges: Vec<GraphEdge>) -> Option<ReportFigure> {
    if edges.is_empty() {
        return None;
    }
    edges.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    let all = edges.len();
    edges.truncate(EDGES_MAX);
    Some(ReportFigure {
        caption: format!(
            "Requests between hosts, and the 99th percentile of each service; line width is the request rate, red marks failures{}",
            left_out(all, edges.len(), "edge")
        ),
        svg: service_graph::draw(
            &edges,
            &format!(
                "{} edges between hosts; the table lists them as rows",
                edges.len()
            ),
        ),
        legend: Vec::new(),
    })
}

fn left_out(all: usize, drawn: usize, what: &str) -> String {
    match all - drawn {
        0 => String::new(),
        1 => format!("; one more {what} is not drawn"),
        n => format!("; {} more {what}s are not drawn", units::plain(n as f64)),
    }
}
