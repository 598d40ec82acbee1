//! Nobody shall notice which engine ran: random queries over captures give the same rows over the packets, from tuples and from cells that
//! several hosts have published, by this program and by Flink.
//!
//! `NETALYTICS_QUERIES=500` draws so many queries from new seeds, `NETALYTICS_QUERIES_SEED=7` begins with that seed, and with
//! `NETALYTICS_QUERIES_FLINK=10` Flink, which needs seconds for each job, takes part in one query of ten (0: in none). What differs is made as small as it can be before
//! it is told.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use testkit::cluster::Cluster;
use testkit::rng::Rng;

use super::engines::{Engines, Found, Way};
use super::opinion::Opinion;
use super::questions::{self, Question};

/// What the page of processors has, for Flink to merge of tuples and of cells.
const PAGE: &[&str] = &[
    "(diff-group: group=url_template)",
    "(group-count-sum-avg-min-max-rate: group=status, value=response_bytes, w=200ms)",
    "(group-stddev-distinct: group=method, value=response_bytes, w=400ms, slide=100ms)",
    "(group-hist-cdf: group=server_port, w=1s)",
    "(group-success-ratio: group=url_template, of=(status >= 500) AS failed)",
    "(count-throughput-rate: value=response_bytes, w=100ms)",
    "(group-share-count: group=client_ip)",
    "(group-sum-top-k: group=url_template, value=response_bytes, k=3, w=200ms)",
    "(group-max-top-k: group=url_template, value=response_time, k=3, w=200ms)",
    "(group-quantile-top-k: group=url_template, q=0.5,0.9, k=2, w=400ms)",
    "(group-count-top-k: group=path, k=4) HAVING count > 2 ORDER BY path LIMIT 3 ROWS",
    "(group-count: group=path)",
];
/// What is no sum: Flink passes it on, where it was counted by those who publish.
const OF_CELLS: &[&str] =
    &["(workload-profile: w=1s)", "(group-stddev: group=method, value=response_time / 1ms AS ms)"];

/// Processors of a query: one job of Flink's merges them all.
const PROCESSORS: usize = 6;
/// A seed whose queries are the same in every run.
const SEED: u64 = 17;
/// So many simpler queries are tried where one differs.
const SIMPLER_MAX: usize = 40;

/// What was compared.
#[derive(Default)]
struct Figures {
    queries: usize,
    processors: usize,
    rows: usize,
    /// Rows that DuckDB has agreed to.
    third: usize,
    aside: usize,
    refused: usize,
    differences: Vec<String>,
}

pub fn holds(cluster: &Cluster) {
    let engines = Engines::start(cluster);
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
    let first = number("NETALYTICS_QUERIES_SEED").unwrap_or(now % 1_000_000_000);
    let seeds: Vec<u64> = match number("NETALYTICS_QUERIES") {
        Some(n) => (0..n).map(|i| first + i).collect(),
        None => vec![first, SEED, SEED + 1, SEED + 2],
    };
    eprintln!("seeds {seeds:?}");
    let opinion = engines.opinion();
    let opinion = opinion.as_ref();
    let mut figures = Figures::default();
    let flink_every = number("NETALYTICS_QUERIES_FLINK").unwrap_or(1);
    let ways = |query: u64| match flink_every {
        0 => &Way::ALL[..2],
        every if !query.is_multiple_of(every) => &Way::ALL[..2],
        _ => &Way::ALL[..],
    };
    for processors in [PAGE, OF_CELLS] {
        one(&engines, opinion, &questions::given("http", processors), ways(0), 0, &mut figures);
    }
    // A job takes Flink seconds: in every run one query that nobody has asked before.
    let is_short = number("NETALYTICS_QUERIES").is_none();
    for seed in seeds {
        let mut random = Rng::new(seed);
        let table = &engines.tables[random.below(engines.tables.len() as u64) as usize];
        let mut is_valid = |question: &Question| engines.is_valid(question);
        let question = questions::draw(&mut random, table, PROCESSORS, &mut is_valid);
        let ways = if is_short && seed != first { &Way::ALL[..2] } else { ways(seed - first) };
        one(&engines, opinion, &question, ways, seed, &mut figures);
    }
    let Figures { queries, processors, rows, third, aside, refused, differences } = figures;
    eprintln!(
        "{queries} queries with {processors} processors: {rows} rows compared, {third} of them with DuckDB's, {aside} queries aside, {refused} refused by Flink, {} differences",
        differences.len()
    );
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

/// Asks one of all engines.
fn one(
    engines: &Engines,
    opinion: Option<&Opinion>,
    question: &Question,
    ways: &[Way],
    seed: u64,
    figures: &mut Figures,
) {
    figures.queries += 1;
    figures.processors += question.processors.len();
    let Some(expected) = engines.over_packets(question) else {
        figures.aside += 1;
        return;
    };
    if let Some(opinion) = opinion {
        match opinion.compare(question, &expected) {
            Ok(rows) => figures.third += rows,
            Err(why) => {
                figures.differences.push(format!("seed {seed}, DuckDB: {}\n{why}", question.text("")))
            }
        }
    }
    engines.publish_cells(question);
    for way in ways.iter().copied() {
        let started = Instant::now();
        let found = engines.compare(question, way, &expected);
        if figures.queries.is_multiple_of(20) {
            eprintln!("query {}: {way:?} took {:?}", figures.queries, started.elapsed());
        }
        match found {
            Found::Equal(rows) => figures.rows += rows,
            Found::Refused => figures.refused += 1,
            Found::Different(how) => {
                engines.forget_cells();
                // What failed says why.
                let (small, why) = match how.starts_with("exit code") {
                    true => (question.clone(), how),
                    false => shrunk(engines, question.clone(), way, how),
                };
                let text = small.text("");
                let told = format!("seed {seed}, {way:?}: {text}\n{why}");
                eprintln!("{told}");
                figures.differences.push(told);
                return;
            }
        }
    }
    engines.forget_cells();
}

/// The simplest query found that still differs, and how.
fn shrunk(engines: &Engines, mut question: Question, way: Way, mut why: String) -> (Question, String) {
    let mut tried = 0;
    'simpler: loop {
        for simpler in question.simpler().into_iter().filter(|simpler| engines.is_valid(simpler)) {
            tried += 1;
            if tried > SIMPLER_MAX {
                return (question, why);
            }
            let Some(expected) = engines.over_packets(&simpler) else { continue };
            if way.reads_cells() {
                engines.publish_cells(&simpler);
            }
            let found = engines.compare(&simpler, way, &expected);
            engines.forget_cells();
            if let Found::Different(how) = found {
                (question, why) = (simpler, how);
                continue 'simpler;
            }
        }
        return (question, why);
    }
}
