//! Map of services, from clients on the left to servers on the right. Hosts and edges have a fixed layout, independent
//! of their numbers (`web/src/layers.ts` does the same on the page).

use std::collections::{BTreeMap, BTreeSet};

use sinks::units;

use super::svg::{SvgCanvas, WIDTH};

const BOX: f64 = 190.0;
const HEAD: f64 = 30.0;
const ROW: f64 = 22.0;
const GAP: f64 = 18.0;
const TOP: f64 = 14.0;
/// Iterations that move hosts to the mean position of their neighbors.
const ROUNDS: usize = 6;

/// A client and a service.
pub struct GraphEdge {
    /// Client.
    pub client: String,
    /// Server.
    pub server: String,
    /// Protocol and port.
    pub service: String,
    /// 99th percentile of response times, in ns.
    pub p99_ns: Option<f64>,
    /// Number of requests.
    pub weight: f64,
    /// Whether requests fail.
    pub fails: bool,
}

/// Draws the edges.
#[must_use]
pub fn draw(edges: &[GraphEdge], label: &str) -> String {
    let mut services: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for edge in edges {
        services.entry(&edge.client).or_default();
        services
            .entry(&edge.server)
            .or_default()
            .insert(&edge.service);
    }
    let pairs: Vec<(&str, &str)> = edges
        .iter()
        .map(|edge| (edge.client.as_str(), edge.server.as_str()))
        .collect();
    let layers = layers(&services.keys().copied().collect::<Vec<_>>(), &pairs);
    let height_of = |host: &str| HEAD + services[host].len() as f64 * ROW;
    let tall = |layer: &Vec<&str>| layer.iter().map(|host| height_of(host) + GAP).sum::<f64>();
    let height = layers.iter().map(tall).fold(0.0, f64::max) + 2.0 * TOP;
    let apart = ((WIDTH - BOX - 80.0) / (layers.len().max(2) - 1) as f64).min(330.0);
    let mut place: BTreeMap<&str, (usize, f64, f64)> = BTreeMap::new();
    for (nth, layer) in layers.iter().enumerate() {
        let mut y = (height - tall(layer) + GAP) / 2.0;
        for &host in layer {
            place.insert(host, (nth, 10.0 + nth as f64 * apart, y));
            y += height_of(host) + GAP;
        }
    }
    let row_of = |host: &str, service: &str| {
        services[host]
            .iter()
            .position(|one| *one == service)
            .unwrap_or(0) as f64
    };
    let most = edges.iter().map(|edge| edge.weight).fold(1.0, f64::max);
    let mut svg = SvgCanvas::new(height, label);
    for edge in edges {
        let (of, x1, y1) = place[edge.client.as_str()];
        let (to, x2, y2) = place[edge.server.as_str()];
        let x1 = x1 + BOX;
        let y1 = y1 + HEAD / 2.0;
        let y2 = y2 + HEAD + (row_of(&edge.server, &edge.service) + 0.5) * ROW;
        // An edge within a layer, or to an earlier one, is drawn around.
        let is_back = to <= of;
        let x2 = if is_back { x2 + BOX } else { x2 };
        let bend = if is_back {
            60.0
        } else {
            ((x2 - x1) / 2.0).max(50.0)
        };
        let turn = if is_back { x2 + bend } else { x2 - bend };
        let path = format!(
            "M{x1:.1} {y1:.1}C{:.1} {y1:.1} {turn:.1} {y2:.1} {x2:.1} {y2:.1}",
            x1 + bend
        );
        let class = if edge.fails { "edge failing" } else { "edge" };
        let stroke = 1.0 + 4.0 * (edge.weight / most).max(0.0).sqrt();
        svg.path(
            &path,
            &format!("class=\"{class}\" stroke-width=\"{stroke:.1}\""),
        );
    }
    for (host, (_, x, y)) in place {
        svg.rect([x, y], [BOX, height_of(host)], "rx=\"7\" class=\"box\"");
        svg.text([x + 10.0, y + 20.0], "start", "name", host, 26);
        for (nth, service) in services[host].iter().enumerate() {
            let y = y + HEAD + nth as f64 * ROW;
            let into = || {
                edges
                    .iter()
                    .filter(|edge| edge.server == host && edge.service == *service)
            };
            let class = if into().any(|edge| edge.fails) {
                "failing"
            } else {
                ""
            };
            svg.line([x, y], [x + BOX, y], "grid");
            svg.text([x + 10.0, y + 15.0], "start", "", service, 17);
            if let Some(worst) = into().filter_map(|edge| edge.p99_ns).reduce(f64::max) {
                svg.text(
                    [x + BOX - 10.0, y + 15.0],
                    "end",
                    class,
                    &units::duration(worst),
                    10,
                );
            }
        }
    }
    svg.end()
}

/// Hosts in layers: each after all its clients, except for edges that close a cycle.
fn layers<'a>(hosts: &[&'a str], edges: &[(&'a str, &'a str)]) -> Vec<Vec<&'a str>> {
    let next: BTreeMap<&str, BTreeSet<&str>> = hosts
        .iter()
        .map(|host| {
            (
                *host,
                edges
                    .iter()
                    .filter(|(from, to)| from == host && to != host)
                    .map(|(_, to)| *to)
                    .collect(),
            )
        })
        .collect();
    let asked: BTreeSet<&str> = edges
        .iter()
        .filter(|(from, to)| from != to)
        .map(|(_, to)| *to)
        .collect();
    let mut search = CycleSearch {
        next: &next,
        state: BTreeMap::new(),
        kept: Vec::new(),
        sorted: Vec::new(),
    };
    let first = hosts.iter().filter(|host| !asked.contains(*host));
    first.chain(hosts).for_each(|host| search.visit(host));
    let mut layer: BTreeMap<&str, usize> = BTreeMap::new();
    for host in search.sorted.iter().rev() {
        let at = *layer.entry(host).or_default();
        for (_, to) in search.kept.iter().filter(|(from, _)| from == host) {
            let of = layer.entry(to).or_default();
            *of = (*of).max(at + 1);
        }
    }
    let mut found: Vec<Vec<&str>> =
        vec![Vec::new(); layer.values().max().map_or(0, |most| most + 1)];
    hosts.iter().for_each(|host| found[layer[host]].push(host));
    let mut place: BTreeMap<&str, f64> = BTreeMap::new();
    fn number<'a>(layer: &[&'a str], place: &mut BTreeMap<&'a str, f64>) {
        place.extend(
            layer
                .iter()
                .enumerate()
                .map(|(i, host)| (*host, i as f64 / (layer.len().max(2) - 1) as f64)),
        );
    }
    found.iter().for_each(|layer| number(layer, &mut place));
    for round in 0..ROUNDS {
        for nth in 0..found.len() {
            let nth = if round % 2 == 0 {
                nth
            } else {
                found.len() - 1 - nth
            };
            let middle = |host: &str| {
                let joined =
                    edges
                        .iter()
                        .filter_map(|(from, to)| match (*from == host, *to == host) {
                            (true, false) => Some(place[to]),
                            (false, true) => Some(place[from]),
                            _ => None,
                        });
                let all: Vec<f64> = joined.collect();
                if all.is_empty() {
                    place[host]
                } else {
                    all.iter().sum::<f64>() / all.len() as f64
                }
            };
            let mut layer: Vec<(f64, &str)> = found[nth]
                .iter()
                .map(|host| (middle(host), *host))
                .collect();
            layer.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(b.1)));
            found[nth] = layer.into_iter().map(|(_, host)| host).collect();
            number(&found[nth], &mut place);
        }
    }
    found
}

/// Searches for edges that close no cycle.
struct CycleSearch<'a, 'n> {
    next: &'n BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// Visited hosts, and whether they are complete.
    state: BTreeMap<&'a str, bool>,
    kept: Vec<(&'a str, &'a str)>,
    sorted: Vec<&'a str>,
}

impl<'a> CycleSearch<'a, '_> {
    /// Recursion is limited by the number of hosts in the picture, which is small.
    fn visit(&mut self, host: &'a str) {
        if self.state.contains_key(host) {
            return;
        }
        self.state.insert(host, false);
        for &to in self.next.get(host).into_iter().flatten() {
            if self.state.get(to) == Some(&false) {
                continue;
            }
            self.kept.push((host, to));
            self.visit(to);
        }
        self.state.insert(host, true);
        self.sorted.push(host);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_placed_after_their_clients_and_cycles_end() {
        let edges = [
            ("user", "web"),
            ("web", "db"),
            ("web", "cache"),
            ("cache", "db"),
            ("db", "web"),
            ("web", "web"),
        ];
        assert_eq!(
            layers(&["cache", "db", "user", "web"], &edges),
            [vec!["user"], vec!["web"], vec!["cache"], vec!["db"]]
        );
    }
}
