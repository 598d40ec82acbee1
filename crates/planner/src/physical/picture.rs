//! A physical plan as an SVG image: the network with its monitors and copies, and the processing of tuples below. For
//! a large network, the racks in use are drawn, and as many others as fit.

use std::fmt::Write;

use super::physical_plan::{MonitorPlace, PacketPath, PhysicalPlan};
use super::text::{aggregator, ends, mode, number};
use crate::topology::{NetworkSite, SiteHost, SitePort, SwitchTier};

/// Maximum number of hosts drawn.
const HOSTS_MAX: usize = 24;
const HOST_WIDTH: f64 = 104.0;
const MARGIN: f64 = 24.0;
const WIDTH_MIN: f64 = 960.0;
/// Vertical positions of tiers and hosts.
const CORE_Y: f64 = 96.0;
const AGGREGATION_Y: f64 = 176.0;
/// Width of a letter in the text below the image.
const LETTERS: f64 = 7.2;

const STYLE: &str = "text{font-family:system-ui,sans-serif;font-size:13px;fill:#1b2733}\
.title{font-size:16px;font-weight:600}.head{font-weight:600;fill:#44556a}.small{font-size:11px;fill:#44556a}\
.node{fill:#f4f6f8;stroke:#8796a5}.covered{fill:#dcebfb;stroke:#1a66b0}.monitor{fill:#fdebd0;stroke:#c06a00}\
.wire{stroke:#b4bfca;stroke-width:1.5;fill:none}.copy{stroke:#c06a00;stroke-width:3;fill:none}\
.rows{stroke:#1f7a4d;stroke-width:2;fill:none;stroke-dasharray:6 4}.step{fill:#e6f4ec;stroke:#1f7a4d}";

/// Draws the plan.
#[must_use]
pub fn to_svg(plan: &PhysicalPlan, site: &NetworkSite) -> String {
    let mut picture = PlanPicture::new(plan, site);
    picture.network();
    picture.dataflow();
    picture.facts();
    picture.finish()
}

struct PlanPicture<'a> {
    plan: &'a PhysicalPlan,
    site: &'a NetworkSite,
    /// The hosts to draw, by rack.
    hosts: Vec<usize>,
    /// Horizontal positions of the switches drawn.
    switches: Vec<Option<f64>>,
    width: f64,
    /// Current vertical position.
    y: f64,
    edge_y: f64,
    body: String,
}

impl<'a> PlanPicture<'a> {
    fn new(plan: &'a PhysicalPlan, site: &'a NetworkSite) -> PlanPicture<'a> {
        let hosts = drawn(plan, site);
        let width = (hosts.len() as f64 * HOST_WIDTH + 2.0 * MARGIN).max(WIDTH_MIN);
        let has_aggregation = site
            .switches
            .iter()
            .any(|switch| switch.tier == SwitchTier::Aggregation);
        let edge_y = if has_aggregation { 256.0 } else { 196.0 };
        let switches = vec![None; site.switches.len()];
        let mut picture = PlanPicture {
            plan,
            site,
            hosts,
            switches,
            width,
            y: edge_y,
            edge_y,
            body: String::new(),
        };
        picture.middles();
        picture
    }

    /// Horizontal position of a host.
    fn host_x(&self, place: usize) -> f64 {
        let left = (self.width - self.hosts.len() as f64 * HOST_WIDTH) / 2.0;
        left + (place as f64 + 0.5) * HOST_WIDTH
    }

    /// Positions of switches: edge switches are centered above their hosts, others above the switches below them.
    fn middles(&mut self) {
        for switch in 0..self.site.switches.len() {
            let mut at: Vec<f64> = Vec::new();
            for (place, host) in self.hosts.iter().enumerate() {
                if self.site.hosts[*host].at.switch == switch {
                    at.push(self.host_x(place));
                }
            }
            self.switches[switch] = middle(&at);
        }
        for tier in [SwitchTier::Aggregation, SwitchTier::Core] {
            let of: Vec<usize> = (0..self.site.switches.len())
                .filter(|at| self.site.switches[*at].tier == tier)
                .collect();
            let joined: Vec<(usize, f64)> = of
                .iter()
                .filter_map(|at| {
                    let links = self
                        .site
                        .links
                        .iter()
                        .filter(|link| link.ends[1].switch == *at);
                    let below: Vec<f64> = links
                        .filter_map(|link| self.switches[link.ends[0].switch])
                        .collect();
                    Some((*at, middle(&below)?))
                })
                .collect();
            // Spread horizontally if several are above the same switches.
            let step = (self.width - 2.0 * MARGIN) / (joined.len().max(1) as f64);
            for (place, (at, x)) in joined.iter().enumerate() {
                let apart = MARGIN + (place as f64 + 0.5) * step;
                self.switches[*at] = Some(if joined.len() == 1 { *x } else { apart });
            }
        }
    }

    fn tier_y(&self, switch: usize) -> f64 {
        match self.site.switches[switch].tier {
            SwitchTier::Edge => self.edge_y,
            SwitchTier::Aggregation => AGGREGATION_Y,
            SwitchTier::Core => CORE_Y,
        }
    }

    fn network(&mut self) {
        let hosts_y = self.edge_y + 104.0;
        for link in &self.site.links {
            let [a, b] = link
                .ends
                .map(|end| (self.switches[end.switch], self.tier_y(end.switch)));
            if let ((Some(ax), ay), (Some(bx), by)) = (a, b) {
                self.line("wire", (ax, ay - 18.0), (bx, by + 18.0));
            }
        }
        for place in 0..self.hosts.len() {
            let host = &self.site.hosts[self.hosts[place]];
            let Some(x) = self.switches[host.at.switch] else {
                continue;
            };
            let to = (self.host_x(place), hosts_y - 26.0);
            let copies = self.copies_to(host.at);
            let class = if copies.is_some() { "copy" } else { "wire" };
            self.line(class, (x, self.edge_y + 18.0), to);
        }
        for (switch, x) in self.switches.clone().into_iter().enumerate() {
            let Some(x) = x else { continue };
            let sniffs = self
                .plan
                .monitors
                .iter()
                .any(|part| part.place == MonitorPlace::Switch(switch));
            let covers = self
                .plan
                .covered
                .iter()
                .any(|covering| covering.switch == switch);
            let class = match (sniffs, covers) {
                (true, _) => "monitor",
                (false, true) => "covered",
                (false, false) => "node",
            };
            let y = self.tier_y(switch);
            self.node(class, (x, y), (112.0, 36.0));
            self.text("", (x, y - 1.0), &self.site.switches[switch].name.clone());
            let below = match self.plan.switch(switch) {
                Some(part) if part.way == PacketPath::Sniffer => "monitor at its ports".to_owned(),
                Some(part) if part.landing.is_some() => {
                    format!("{} rules, a tunnel", part.rules.len())
                }
                Some(part) if !part.rules.is_empty() => format!("{} rules", part.rules.len()),
                Some(_) => "mirror of ports".to_owned(),
                None => String::new(),
            };
            self.text("small", (x, y + 13.0), &below);
        }
        for place in 0..self.hosts.len() {
            self.host(place, hosts_y);
        }
        self.y = hosts_y + 44.0;
        let left = self.site.hosts.len() - self.hosts.len();
        let undrawn = if left > 0 {
            format!("; {left} hosts are not drawn")
        } else {
            String::new()
        };
        let legend =
            format!("blue: flows are covered here; orange: monitors, and copies to them{undrawn}");
        self.left("small", (MARGIN, self.y), &legend);
        self.y += 10.0;
    }

    fn host(&mut self, place: usize, y: f64) {
        let site = self.site;
        let index = self.hosts[place];
        let host: &SiteHost = &site.hosts[index];
        let x = self.host_x(place);
        let monitor = self
            .plan
            .monitors
            .iter()
            .find(|part| part.place == MonitorPlace::Host(index as u32));
        let covered = self
            .plan
            .covered
            .iter()
            .any(|covering| covering.hosts.contains(&(index as u32)));
        let aggregates = self
            .plan
            .aggregators
            .iter()
            .any(|part| part.host == index as u32);
        let class = match (monitor, covered) {
            (Some(_), _) => "monitor",
            (None, _) if aggregates => "monitor",
            (None, true) => "covered",
            (None, false) => "node",
        };
        self.node(class, (x, y), (HOST_WIDTH - 12.0, 52.0));
        self.text("", (x, y - 10.0), &short(&host.name, 13));
        let address = host
            .addresses
            .first()
            .map(ToString::to_string)
            .unwrap_or_default();
        self.text("small", (x, y + 5.0), &short(&address, 15));
        match (monitor.is_some(), aggregates) {
            (true, true) => self.text("small", (x, y + 20.0), "monitor, aggr."),
            (true, false) => self.text("small", (x, y + 20.0), "monitor"),
            (false, true) => self.text("small", (x, y + 20.0), "aggregator"),
            (false, false) => {}
        }
        if let Some(mbps) = self.copies_to(host.at).filter(|_| monitor.is_some()) {
            let between = self.switches[host.at.switch].map_or(x, |from| f64::midpoint(from, x));
            self.left(
                "small",
                (between + 10.0, y - 60.0),
                &format!("{} Mb/s", number(mbps)),
            );
        }
    }

    /// Mb/s of copies to a port.
    fn copies_to(&self, at: SitePort) -> Option<f64> {
        let part = self
            .plan
            .switches
            .iter()
            .find(|part| super::model::lands(part) == Some(at))?;
        let monitor = self
            .plan
            .monitors
            .iter()
            .find(|monitor| monitor.switch == part.switch)?;
        Some(monitor.mbps)
    }

    /// Draws the steps from copied packets to rows.
    fn dataflow(&mut self) {
        let dataflow = &self.plan.dataflow;
        let parsers: Vec<String> = dataflow
            .inputs
            .iter()
            .map(|input| format!("{}, {} columns", input.schema.name, input.columns.len()))
            .collect();
        let results = match dataflow.pipelines.as_slice() {
            [] => "the tuples themselves".to_owned(),
            pipelines => pipelines
                .iter()
                .map(|p| p.name.clone())
                .collect::<Vec<_>>()
                .join(", "),
        };
        let count = self.plan.monitors.len();
        let monitors = match (count, &self.plan.export) {
            (_, Some(_)) => "exports".to_owned(),
            (1, None) => "1 monitor".to_owned(),
            (count, None) => format!("{count} monitors"),
        };
        let mut steps = vec![
            ("packets", mode(self.plan)),
            ("tuples", format!("{monitors}: {}", parsers.join("; "))),
            (
                "collected",
                "one engine, in the process that runs the query".to_owned(),
            ),
            ("result", results),
        ];
        match self.plan.aggregators.as_slice() {
            [] => {}
            all => {
                let hosts: Vec<&str> = all.iter().map(|part| part.name.as_str()).collect();
                steps.insert(2, ("aggregated", format!("on {}", hosts.join(", "))));
            }
        }
        let top = self.y + 16.0;
        let step = (self.width - 2.0 * MARGIN) / steps.len() as f64;
        let letters = ((step - 44.0) / 6.3) as usize;
        for (place, (head, what)) in steps.iter().enumerate() {
            let x = MARGIN + (place as f64 + 0.5) * step;
            let width = step - 28.0;
            let height = 82.0;
            if place > 0 {
                let from = x - step / 2.0 - 14.0;
                self.line(
                    "rows",
                    (from, top + height / 2.0),
                    (from + 28.0, top + height / 2.0),
                );
            }
            self.node("step", (x, top + height / 2.0), (width, height));
            self.text("head", (x, top + 20.0), head);
            for (line, text) in wrapped(what, letters).iter().take(3).enumerate() {
                self.text("small", (x, top + 38.0 + 15.0 * line as f64), text);
            }
        }
        self.y = top + 100.0;
    }

    /// Prints coverage, reasons, resources, and limitations.
    fn facts(&mut self) {
        let plan = self.plan;
        let taken = &plan.taken;
        let copied: f64 = taken.copied.0.iter().sum();
        let mut facts: Vec<(&str, String)> = Vec::new();
        for covering in &plan.covered {
            let clients = ends(&covering.clients);
            let servers = ends(&covering.servers);
            let supposed = if covering.rates.supposed {
                ", estimated"
            } else {
                ""
            };
            let mbps = number(covering.rates.mbps);
            facts.push((
                "flows",
                format!(
                    "{}: {clients} to {servers}, {mbps} Mb/s{supposed}",
                    covering.name
                ),
            ));
        }
        facts.extend(
            plan.uncovered
                .iter()
                .map(|text| ("not covered", text.clone())),
        );
        facts.push(("why", plan.choice.why.clone()));
        let merged = plan.aggregators.iter();
        facts.extend(merged.map(|part| {
            (
                "aggregated",
                format!("{}: {}", part.name, aggregator(plan, part)),
            )
        }));
        facts.extend(
            plan.unaggregated
                .iter()
                .map(|why| ("not aggregated", why.clone())),
        );
        facts.push((
            "takes",
            format!(
                "{} Mb/s of copies, {} Mb/s of results, {:.4} cores {}, {:.4} of switches, {:.2} µs per copied packet",
                number(copied),
                number(taken.results_mbps),
                taken.monitor_cores,
                plan.monitors_are(),
                taken.switch_cores,
                taken.delay_us
            ),
        ));
        match plan.lacks.as_slice() {
            [] => facts.push(("lacks", "nothing: the result covers all packets".to_owned())),
            lacks => facts.extend(lacks.iter().map(|lack| ("lacks", lack.clone()))),
        }
        let letters = ((self.width - 2.0 * MARGIN - 96.0) / LETTERS) as usize;
        self.y += 14.0;
        for (head, what) in facts {
            self.left("head", (MARGIN, self.y), head);
            for line in wrapped(&what, letters) {
                self.left("", (MARGIN + 96.0, self.y), &line);
                self.y += 19.0;
            }
        }
    }

    fn finish(self) -> String {
        let width = self.width;
        let height = self.y + 10.0;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">\n\
             <title>Plan of a query in a network</title>\n<style>{STYLE}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
        );
        let letters = ((width - 2.0 * MARGIN) / 8.6) as usize;
        let query = self
            .plan
            .query
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        for (line, text) in wrapped(&query, letters).iter().take(2).enumerate() {
            let y = 28.0 + 20.0 * line as f64;
            let _ = writeln!(
                out,
                "<text class=\"title\" x=\"{MARGIN}\" y=\"{y}\">{}</text>",
                escaped(text)
            );
        }
        out.push_str(&self.body);
        out.push_str("</svg>\n");
        out
    }

    fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let (x1, y1) = from;
        let (x2, y2) = to;
        let _ = writeln!(
            self.body,
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        );
    }

    fn node(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
        let left = x - width / 2.0;
        let top = y - height / 2.0;
        let _ = writeln!(
            self.body,
            "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"6\"/>"
        );
    }

    fn text(&mut self, class: &str, at: (f64, f64), text: &str) {
        self.write(class, at, text, "middle");
    }

    fn left(&mut self, class: &str, at: (f64, f64), text: &str) {
        self.write(class, at, text, "start");
    }

    fn write(&mut self, class: &str, (x, y): (f64, f64), text: &str, anchor: &str) {
        if !text.is_empty() {
            let _ = writeln!(
                self.body,
                "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
                escaped(text)
            );
        }
    }
}

/// The hosts to draw: those of racks in use first, in their original order.
fn drawn(plan: &PhysicalPlan, site: &NetworkSite) -> Vec<usize> {
    let is_busy = |host: &usize| plan.switch(site.hosts[*host].at.switch).is_some();
    let is_named = |host: &usize| {
        plan.covered
            .iter()
            .any(|covering| covering.hosts.contains(&(*host as u32)))
            || plan
                .monitors
                .iter()
                .any(|part| part.place == MonitorPlace::Host(*host as u32))
            || plan
                .aggregators
                .iter()
                .any(|part| part.host == *host as u32)
    };
    let mut all: Vec<usize> = (0..site.hosts.len()).collect();
    all.sort_by_key(|host| (!is_named(host), !is_busy(host)));
    all.truncate(HOSTS_MAX);
    all.sort_unstable();
    all
}

fn middle(all: &[f64]) -> Option<f64> {
    (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
}

fn short(text: &str, letters: usize) -> String {
    if text.chars().count() > letters {
        text.chars().take(letters - 1).chain(['…']).collect()
    } else {
        text.to_owned()
    }
}

/// Wraps text into lines of at most `letters` characters; longer words are cut.
fn wrapped(text: &str, letters: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        let word = short(word, letters.max(2));
        let last = lines.last_mut().expect("there is always a line");
        if last.is_empty() {
            *last = word;
        } else if last.chars().count() + 1 + word.chars().count() <= letters {
            *last += " ";
            *last += &word;
        } else {
            lines.push(word);
        }
    }
    lines
}

fn escaped(text: &str) -> String {
    let one = |c: char| match c {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        c if c.is_control() => "\u{fffd}".to_owned(),
        c => c.to_string(),
    };
    text.chars().map(one).collect()
}
