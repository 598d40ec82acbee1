//! All engines agree: random queries over captures return the same rows over the packets, and from tuples and cells
//! published by several hosts, merged by this program and by Flink; DuckDB agrees over a recording.
//!
//! `NETALYTICS_QUERIES=2000` runs that number of queries with new seeds, including captures of the corpus and samples;
//! `NETALYTICS_QUERIES_SECONDS=600` as many as fit into that time. `NETALYTICS_QUERIES_SEED=7` starts with that seed,
//! and `NETALYTICS_QUERIES_FLINK=10` runs one query of ten in Flink, which needs seconds per job (0: none). Five run
//! concurrently. Differing queries are minimized before they are reported.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use testkit::cluster::TestCluster;
use testkit::rng::SeededRng;

use super::engines::{Engines, Found, Way};
use super::opinion::Witness;
use super::questions::{self, Question};
use super::world::World;

/// Processors of the documentation, merged by Flink from tuples and cells.
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
/// Not additive: Flink passes them on, counted by publishers.
const OF_CELLS: &[&str] = &[
    "(workload-profile: w=1s)",
    "(group-stddev: group=method, value=response_time / 1ms AS ms)",
];

/// Processors per query: one Flink job merges all of them.
const PROCESSORS: usize = 6;
/// Seeds used in every run; the last is of a sample.
const SEEDS: [u64; 3] = [17, 18, 401];
/// First seed of short runs: Flink once lost data here when overloaded.
const FIRST_SEED: u64 = 3_727_920_667;
/// Maximum simpler queries tried for a difference.
const SIMPLER_MAX: usize = 40;
/// Concurrent queries: most of their time is waiting.
const AT_ONCE: usize = 5;

/// A query and its engines.
struct Asked {
    seed: u64,
    question: Question,
    ways: &'static [Way],
}

/// Comparisons and rows by way.
#[derive(Default)]
struct Figures {
    queries: usize,
    processors: usize,
    joins: usize,
    samples: usize,
    of_tuples: usize,
    ways: [(usize, usize); Way::ALL.len()],
    /// Rows confirmed by DuckDB.
    third: usize,
    aside: usize,
    different: Vec<(Asked, Option<Way>, String)>,
}

/// Queries to run.
struct Plan {
    first: u64,
    queries: Option<u64>,
    until: Option<Instant>,
    flink_every: u64,
}

impl Plan {
    fn of_environment() -> Plan {
        let number = |name: &str| {
            std::env::var(name)
                .ok()
                .and_then(|text| text.parse::<u64>().ok())
        };
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("after 1970")
            .as_nanos() as u64;
        let seconds = number("NETALYTICS_QUERIES_SECONDS");
        let queries = number("NETALYTICS_QUERIES").or(seconds.map(|_| u64::MAX));
        // Long runs use new seeds.
        let first = queries.map_or(FIRST_SEED, |_| World::at_home(now / 1000 % 1_000_000_000));
        Plan {
            first: number("NETALYTICS_QUERIES_SEED").unwrap_or(first),
            queries,
            until: seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds)),
            flink_every: number("NETALYTICS_QUERIES_FLINK").unwrap_or(1),
        }
    }

    /// All seeds, and whether Flink takes part: in a short run for one query only, because a job takes seconds.
    fn seeds(&self) -> Box<dyn Iterator<Item = (u64, bool)> + '_> {
        let every = self.flink_every;
        match self.queries {
            None => Box::new(
                [(self.first, every > 0)]
                    .into_iter()
                    .chain(SEEDS.map(|seed| (seed, false))),
            ),
            Some(n) => Box::new(
                (0..n)
                    .take_while(|_| self.until.is_none_or(|until| Instant::now() < until))
                    .map(move |i| (self.first + i, every > 0 && i.is_multiple_of(every))),
            ),
        }
    }
}

/// Ways applicable to a query.
fn ways(question: &Question, with_flink: bool) -> &'static [Way] {
    match (question.processors.is_empty(), with_flink) {
        (false, true) => &Way::ALL,
        (false, false) => &[Way::Tuples, Way::Cells],
        (true, true) => &[Way::Tuples, Way::FlinkTuples],
        (true, false) => &[Way::Tuples],
    }
}

pub fn holds(cluster: &TestCluster) {
    let plan = Plan::of_environment();
    let begun = Instant::now();
    let witness = Witness::start();
    let witness = witness.as_ref();
    eprintln!("seeds from {}", plan.first);
    let mut figures = Figures::default();
    let mut engines = Engines::start(cluster, World::of(World::at_home(0)));
    let mut batch = Batch::default();
    for processors in [PAGE, OF_CELLS] {
        let question = questions::given("http", processors);
        let ways = ways(&question, plan.flink_every > 0);
        batch.add(
            Asked {
                seed: 0,
                question,
                ways,
            },
            &engines,
            witness,
            &mut figures,
        );
    }
    for (seed, with_flink) in plan.seeds() {
        if !engines.is_in(World::of(seed)) {
            batch.ask(&engines, witness, &mut figures);
            engines.move_to(World::of(seed));
        }
        let mut random = SeededRng::new(seed);
        let table = &engines.tables[random.below(engines.tables.len() as u64) as usize];
        let mut is_valid = |question: &Question| engines.is_valid(question);
        let question = questions::draw(
            &mut random,
            table,
            engines.sample(),
            PROCESSORS,
            &mut is_valid,
        );
        let ways = ways(&question, with_flink);
        batch.add(
            Asked {
                seed,
                question,
                ways,
            },
            &engines,
            witness,
            &mut figures,
        );
    }
    batch.ask(&engines, witness, &mut figures);
    eprintln!("{}, in {:.0?}", figures.told(), begun.elapsed());
    let told: Vec<String> = figures.different.iter().map(Figures::difference).collect();
    assert!(told.is_empty(), "{}", told.join("\n\n"));
}

/// Concurrent queries without common cells, which would be in the same topic.
#[derive(Default)]
struct Batch {
    all: Vec<Asked>,
    topics: BTreeSet<String>,
}

impl Batch {
    fn add(
        &mut self,
        asked: Asked,
        engines: &Engines,
        witness: Option<&Witness>,
        figures: &mut Figures,
    ) {
        let topics = engines.topics(&asked.question);
        if self.all.len() == AT_ONCE || !self.topics.is_disjoint(&topics) {
            self.ask(engines, witness, figures);
        }
        self.topics.extend(topics);
        self.all.push(asked);
    }

    fn ask(&mut self, engines: &Engines, witness: Option<&Witness>, figures: &mut Figures) {
        let all = std::mem::take(&mut self.all);
        let found: Vec<Figures> = std::thread::scope(|scope| {
            let ask = |asked| scope.spawn(move || one(engines, witness, asked));
            let asking: Vec<_> = all.into_iter().map(ask).collect();
            asking
                .into_iter()
                .map(|one| one.join().expect("its own words stand above"))
                .collect()
        });
        let before = figures.queries / 50;
        for of in found {
            figures.add(of, engines);
        }
        let topics = std::mem::take(&mut self.topics);
        engines.forget(|topic| topics.contains(topic));
        if figures.queries / 50 > before {
            eprintln!("{}", figures.told());
        }
    }
}

/// Runs a query on all engines.
fn one(engines: &Engines, witness: Option<&Witness>, asked: Asked) -> Figures {
    let Asked { question, ways, .. } = &asked;
    let mut figures = Figures {
        queries: 1,
        processors: question.processors.len(),
        joins: usize::from(question.parse.contains(", ")),
        samples: usize::from(question.sample.is_some()),
        of_tuples: usize::from(question.processors.is_empty()),
        ..Figures::default()
    };
    let Some(expected) = engines.over_packets(question) else {
        figures.aside += 1;
        return figures;
    };
    if let Some(witness) = witness {
        match engines.opinion(witness).compare(question, &expected) {
            Ok(rows) => figures.third += rows,
            Err(why) => {
                figures.different.push((asked, None, why));
                return figures;
            }
        }
    }
    let is_late = ways.contains(&Way::Cells) && engines.publish_cells(question) > 0;
    for way in ways.iter().copied() {
        let sayable = if way == Way::FlinkTuples {
            engines.sayable(question)
        } else {
            Some(question.clone())
        };
        let found = match sayable {
            None => Found::Aside,
            Some(part) if part.processors.len() < question.processors.len() => {
                let expected = engines
                    .over_packets(&part)
                    .expect("it is part of what was exact");
                engines.compare(&part, way, &expected)
            }
            Some(_) => engines.compare(question, way, &expected),
        };
        match found {
            Found::Equal(rows) => {
                let of_way = &mut figures.ways[way as usize];
                *of_way = (of_way.0 + 1, of_way.1 + rows);
            }
            Found::Aside => figures.aside += 1,
            Found::Different(_) if is_late && way.reads_cells() => figures.aside += 1,
            Found::Different(how) => {
                figures.different.push((asked, Some(way), how));
                return figures;
            }
        }
    }
    figures
}

impl Figures {
    /// Adds the results of a query. Differences are minimized now that nothing else runs.
    fn add(&mut self, of: Figures, engines: &Engines) {
        self.queries += of.queries;
        self.processors += of.processors;
        self.joins += of.joins;
        self.samples += of.samples;
        self.of_tuples += of.of_tuples;
        for (all, of) in self.ways.iter_mut().zip(of.ways) {
            *all = (all.0 + of.0, all.1 + of.1);
        }
        self.third += of.third;
        self.aside += of.aside;
        for (asked, way, how) in of.different {
            let capture = engines.capture(&asked.question).to_owned();
            // A failure has its own message.
            let smaller = way.filter(|_| !how.starts_with("exit code"));
            let told = match smaller {
                Some(way) => {
                    let topics = engines.topics(&asked.question);
                    engines.forget(|topic| topics.contains(topic));
                    let (question, how) = shrunk(engines, asked.question, way, how);
                    (Asked { question, ..asked }, Some(way), how)
                }
                None => (asked, way, how),
            };
            let told = (told.0, told.1, format!("{}\nof {capture}", told.2));
            eprintln!("{}", Figures::difference(&told));
            self.different.push(told);
        }
    }

    fn difference((asked, way, how): &(Asked, Option<Way>, String)) -> String {
        let way = way.map_or_else(|| "DuckDB".to_owned(), |way| format!("{way:?}"));
        format!(
            "seed {}, {way}: {}\n{how}",
            asked.seed,
            asked.question.text("")
        )
    }

    fn told(&self) -> String {
        let of_way = |(way, (queries, rows)): (&Way, &(usize, usize))| {
            format!("{way:?} {queries} with {rows}")
        };
        let ways: Vec<String> = Way::ALL.iter().zip(&self.ways).map(of_way).collect();
        format!(
            "{} queries ({} processors, {} joins, {} of samples, {} of tuples alone); alike: {} rows; DuckDB {} rows; {} aside, {} differences",
            self.queries,
            self.processors,
            self.joins,
            self.samples,
            self.of_tuples,
            ways.join(", "),
            self.third,
            self.aside,
            self.different.len()
        )
    }
}

/// The simplest query found with a difference, and the difference.
fn shrunk(
    engines: &Engines,
    mut question: Question,
    way: Way,
    mut why: String,
) -> (Question, String) {
    let mut tried = 0;
    'simpler: loop {
        for simpler in question
            .simpler()
            .into_iter()
            .filter(|simpler| engines.is_valid(simpler))
        {
            tried += 1;
            if tried > SIMPLER_MAX {
                return (question, why);
            }
            let Some(expected) = engines.over_packets(&simpler) else {
                continue;
            };
            let topics = engines.topics(&simpler);
            if way.reads_cells() {
                engines.publish_cells(&simpler);
            }
            let found = engines.compare(&simpler, way, &expected);
            engines.forget(|topic| topics.contains(topic));
            if let Found::Different(how) = found {
                question = simpler;
                why = how;
                continue 'simpler;
            }
        }
        return (question, why);
    }
}
