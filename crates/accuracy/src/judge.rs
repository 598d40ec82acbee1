//! Compares the tuples of a damaged capture with those of the whole one.
//!
//! A tuple is known by its connection and its first byte's time: that of a request, or of a response where there is no
//! request. It is *right* if a transaction that begins there has every value that the tuple claims, and nobody has told
//! of it before. `exact` must claim all there is. Anything else is *wrong*: no mark excuses a false value.

use std::collections::{HashMap, HashSet};

use parsers::Quality;
use wire::Endpoint;

use crate::told::Value;
use crate::{Recording, Seen, Told};

/// Fields that tell of the connection, not of the transaction: what `exact` may be silent about.
const OF_THE_CONNECTION: &[&str] = &["user", "database", "query", "fingerprint", "encoding"];
/// The version of a response alone is the response's own.
const OF_EITHER: &str = "http_version";

/// The transactions of a whole capture.
pub struct Truth {
    told: Vec<Told>,
    needs: Vec<Needs>,
    by_request: HashMap<At, Vec<usize>>,
    by_response: HashMap<At, Vec<usize>>,
    /// Those that are in the counts: seen whole.
    counted: Vec<bool>,
}

type At = (Endpoint, Endpoint, i64);

/// The packets that a transaction cannot be found without.
#[derive(Clone, Copy, Default)]
struct Needs {
    request_first: Option<usize>,
    request_last: Option<usize>,
    /// None: there is no response, or it is not known where.
    response_first: Option<usize>,
    response_ts: Option<i64>,
}

/// What became of the transactions of a capture.
#[derive(Clone, Debug, Default)]
pub struct Count {
    /// Transactions that the whole capture has.
    pub transactions: usize,
    /// Those of which the packets with the request's first and last byte and the response's first were all seen.
    pub findable: usize,
    /// Found whole and marked `exact`.
    pub exact: usize,
    /// Found whole with another mark.
    pub marked: usize,
    /// Only one half was told, or both apart.
    pub half: usize,
    /// Nothing was told.
    pub missed: usize,
    /// Tuples that claim what is not so, with why.
    pub wrong: Vec<String>,
}

impl Count {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: Count) {
        self.transactions += other.transactions;
        self.findable += other.findable;
        self.exact += other.exact;
        self.marked += other.marked;
        self.half += other.half;
        self.missed += other.missed;
        self.wrong.extend(other.wrong);
    }
}

impl Truth {
    /// The transactions of a recording, by what `parser` makes of the whole of it.
    #[must_use]
    pub fn of(recording: &Recording, parser: &str) -> Truth {
        let told = recording.play(&recording.whole(), parser);
        let needs: Vec<Needs> = told.iter().map(|t| Needs::of(t, recording)).collect();
        let (mut by_request, mut by_response) = (HashMap::<At, Vec<_>>::new(), HashMap::<At, Vec<_>>::new());
        for (i, (t, needs)) in told.iter().zip(&needs).enumerate() {
            if t.asked {
                by_request.entry((t.client, t.server, t.ts)).or_default().push(i);
            }
            let response = if t.asked { needs.response_ts } else { Some(t.ts) };
            if let Some(ts) = response {
                by_response.entry((t.client, t.server, ts)).or_default().push(i);
            }
        }
        let counted = told.iter().map(|t| t.asked && t.quality == Quality::Exact).collect();
        Truth { told, needs, by_request, by_response, counted }
    }

    /// Everybody who answers.
    #[must_use]
    pub fn servers(&self) -> HashSet<Endpoint> {
        self.told.iter().map(|t| t.server).collect()
    }

    /// How many transactions are counted, and how many of these have a response whose first packet is not known.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        let counted = || (0..self.told.len()).filter(|i| self.counted[*i]);
        let unknown =
            |i: &usize| self.told[*i].response_time.is_some() && self.needs[*i].response_first.is_none();
        (counted().count(), counted().filter(unknown).count())
    }

    /// Judges what was `told` of what was `seen`.
    #[must_use]
    pub fn judge(&self, told: &[Told], seen: &[Seen]) -> Count {
        let mut found = vec![Found::default(); self.told.len()];
        let mut order: Vec<&Told> = told.iter().collect();
        // Whoever claims most chooses first.
        order.sort_by_key(|t| std::cmp::Reverse(t.values.iter().filter(|(_, v)| v.is_some()).count()));
        let mut count = Count::default();
        for t in order {
            if let Err(why) = self.place(t, &mut found) {
                count.wrong.push(why);
            }
        }
        let packets: HashSet<usize> = seen.iter().map(|s| s.packet).collect();
        for (i, found) in found.iter().enumerate().filter(|(i, _)| self.counted[*i]) {
            count.transactions += 1;
            count.findable += usize::from(self.needs[i].are_met(&packets, &self.told[i]));
            *match (found.request && found.whole, found.exact, found.request || found.response) {
                (true, true, _) => &mut count.exact,
                (true, false, _) => &mut count.marked,
                (false, _, true) => &mut count.half,
                (false, _, false) => &mut count.missed,
            } += 1;
        }
        count
    }

    /// Finds the transaction that a tuple tells of.
    fn place(&self, told: &Told, found: &mut [Found]) -> Result<(), String> {
        let at = (told.client, told.server, told.ts);
        // A half may be a response that says itself what it answers.
        let asked = told.asked && (told.quality != Quality::Half || self.by_request.contains_key(&at));
        let index = if asked { &self.by_request } else { &self.by_response };
        let candidates = index.get(&at).map_or(&[][..], Vec::as_slice);
        let mut fewest = usize::MAX;
        let mut why = String::from("no transaction has its first byte here");
        for &i in candidates {
            let truth = &self.told[i];
            let whole = asked && (told.response_time.is_some() || told.quality != Quality::Half);
            let taken =
                asked && found[i].request || (!asked || told.response_time.is_some()) && found[i].response;
            match (difference(told, asked, truth), taken) {
                (None, false) => {
                    found[i].request |= asked;
                    found[i].response |= !asked || told.response_time.is_some();
                    found[i].whole |= whole;
                    found[i].exact |= told.quality == Quality::Exact;
                    return Ok(());
                }
                (None, true) => (fewest, why) = (0, "told twice".to_owned()),
                (Some((differences, what)), _) => {
                    if differences < fewest {
                        (fewest, why) = (differences, what);
                    }
                }
            }
        }
        Err(format!("{why}: {}", describe(told)))
    }
}

/// What has been told of a transaction.
#[derive(Clone, Copy, Default)]
struct Found {
    request: bool,
    response: bool,
    whole: bool,
    exact: bool,
}

impl Needs {
    fn of(told: &Told, recording: &Recording) -> Needs {
        if !told.asked {
            return Needs::default();
        }
        let request_first = recording.at(told.ts, told.client, told.server);
        let none = Needs { request_first, request_last: request_first, ..Needs::default() };
        let Some(response_time) = told.response_time else { return none };
        // Either the response ended when the tuple was written, or the request was one packet.
        let by_end = told.transfer_time.map(|transfer| told.ts_end - transfer);
        [by_end, Some(told.ts + response_time)]
            .into_iter()
            .flatten()
            .find_map(|response| {
                let request_last = recording
                    .at(response - response_time, told.client, told.server)
                    .filter(|_| response - response_time >= told.ts)?;
                let response_first = recording.at(response, told.server, told.client)?;
                Some(Needs {
                    request_first,
                    request_last: Some(request_last),
                    response_first: Some(response_first),
                    response_ts: Some(response),
                })
            })
            .unwrap_or(none)
    }

    fn are_met(&self, seen: &HashSet<usize>, told: &Told) -> bool {
        let has = |packet: Option<usize>| packet.is_some_and(|p| seen.contains(&p));
        let answered = told.response_time.is_none() || has(self.response_first);
        has(self.request_first) && has(self.request_last) && answered
    }
}

/// How many things a tuple claims that are not so, and one of them.
fn difference(told: &Told, asked: bool, truth: &Told) -> Option<(usize, String)> {
    let exact = told.quality == Quality::Exact;
    let too_early = (exact && told.ts_end < truth.ts_end).then(|| "complete too early".to_owned());
    let values = told.values.iter().zip(&truth.values).filter_map(|((name, told_value), (_, true_value))| {
        let right = match told_value {
            Some(value) if *name == OF_EITHER && !asked => matches!(value, Value::Text(_)),
            Some(_) => told_value == true_value,
            None => !exact || OF_THE_CONNECTION.contains(name) || true_value.is_none(),
        };
        (!right).then(|| format!("{name} is {}", show(true_value.as_ref())))
    });
    let mut differences: Vec<String> = too_early.into_iter().chain(values).collect();
    Some((differences.len(), differences.pop()?))
}

fn describe(told: &Told) -> String {
    let values =
        told.values.iter().filter_map(|(name, v)| Some(format!("{name}={}", show(Some(v.as_ref()?)))));
    let ends = format!("{:?} {}:{}", told.quality, told.client.addr, told.client.port);
    format!("{ends} ts={} ts_end={} {}", told.ts, told.ts_end, values.collect::<Vec<_>>().join(" "))
}

fn show(value: Option<&Value>) -> String {
    match value {
        None => "-".to_owned(),
        Some(Value::Number(n)) => n.to_string(),
        Some(Value::Text(text)) => text.chars().take(60).collect(),
    }
}
