//! The order of one monitor of a job: its plan, its input, and its limits. It contains no commands and no code;
//! interface names are requests that the host's policy may reject.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use prost::Message;
use tuple::{Origin, Schema};

use super::expression::{address, read_address};
use super::monitor::ADDRESSES_MAX;
use super::refused::{Lack, Lacks, Refused};
use crate::{Plan, TapTable};

/// The version of the form of orders.
pub const ORDER_FORM: u32 = 1;
/// What is found goes to topics of Kafka.
const TOPICS: &str = "topics";
const FEATURES: [&str; 1] = [TOPICS];
/// Most bytes of orders: a plan's, and as many again.
pub const ORDER_BYTES_MAX: usize = 2 * super::BYTES_MAX;
/// Most interfaces, or labels.
const NAMES_MAX: usize = 1024;
/// Where packets come from.
const INTERFACES: &str = "interfaces";

/// The order sent to a monitor at its start. Its period ([`crate::Span`]) and sample (`sample_seed`) are part of the
/// plan and the same for all monitors of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobOrder {
    /// The job.
    pub job: u64,
    /// Which version of what the job is.
    pub generation: u64,
    /// Which start of the job's monitor on this host.
    pub attempt: u32,
    /// What it does.
    pub plan: Plan,
    /// With what texts are redacted before they leave; `None`: they leave as they are.
    pub redaction: Option<Key>,
    /// What is captured.
    pub capture: Capture,
    /// Packets of LIMIT that it may take until it receives more; `None`: as in the plan.
    pub packets_max: Option<u64>,
    /// Memory, in bytes.
    pub memory_max: u64,
    /// Thousandths of a core that it may take, all its threads together; 0: no bound.
    pub cpu_millis: u32,
    /// Number of workers; 0: one per core.
    pub workers: u32,
    /// Whose addresses are whose, at its start.
    pub taps: TapTable,
    /// Origin of its tuples, set by the host of the monitor.
    pub origin: Origin,
    /// Kafka topics for the results: the cells of each pipeline, or the tuples of each input without pipelines. Empty:
    /// results go to the process that started the monitor. The host determines the Kafka cluster.
    pub topics: Vec<String>,
}

/// What is captured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    /// Interfaces by name, `*` for any run of characters; empty: as the host likes.
    pub interfaces: Vec<String>,
    /// A capture filter in libpcap's language.
    pub filter: Option<String>,
}

/// The secret key of hashed texts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key(pub [u8; 16]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// No `Debug` by derive: it would show the key.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
struct Form {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(string, repeated, tag = "2")]
    needs: Vec<String>,
    #[prost(uint64, tag = "3")]
    job: u64,
    #[prost(uint64, tag = "4")]
    generation: u64,
    #[prost(uint32, tag = "5")]
    attempt: u32,
    /// A message of its own.
    #[prost(bytes = "vec", tag = "6")]
    plan: Vec<u8>,
    #[prost(bytes = "vec", optional, tag = "7")]
    redaction: Option<Vec<u8>>,
    /// Always `interfaces`.
    #[prost(string, tag = "8")]
    packets: String,
    #[prost(string, repeated, tag = "9")]
    names: Vec<String>,
    #[prost(string, optional, tag = "10")]
    filter: Option<String>,
    #[prost(uint64, optional, tag = "11")]
    packets_max: Option<u64>,
    #[prost(uint64, tag = "12")]
    memory_max: u64,
    #[prost(uint32, tag = "13")]
    cpu_millis: u32,
    /// Has to be there: orders that were cut short before it would be orders without a key.
    #[prost(uint32, optional, tag = "14")]
    workers: Option<u32>,
    /// Each of 4 bytes or 16, network order.
    #[prost(bytes = "vec", repeated, tag = "20")]
    taps_own: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "21")]
    taps_others: Vec<Vec<u8>>,
    /// How many those are, where there are any: a table that was cut short would be another one.
    #[prost(uint32, optional, tag = "22")]
    taps_count: Option<u32>,
    #[prost(string, optional, tag = "17")]
    agent: Option<String>,
    #[prost(btree_map = "string, string", tag = "18")]
    labels: BTreeMap<String, String>,
    /// One text, spaces between them: cut short it would be others.
    #[prost(string, optional, tag = "23")]
    topics: Option<String>,
}

impl JobOrder {
    /// The orders as a message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let form = Form {
            version: ORDER_FORM,
            needs: if self.topics.is_empty() { Vec::new() } else { vec![TOPICS.to_owned()] },
            job: self.job,
            generation: self.generation,
            attempt: self.attempt,
            plan: super::encode(&self.plan),
            redaction: self.redaction.map(|key| key.0.to_vec()),
            packets: INTERFACES.to_owned(),
            names: self.capture.interfaces.clone(),
            filter: self.capture.filter.clone(),
            packets_max: self.packets_max,
            memory_max: self.memory_max,
            cpu_millis: self.cpu_millis,
            workers: Some(self.workers),
            taps_own: self.taps.own.iter().map(|ip| address(*ip)).collect(),
            taps_others: self.taps.others.iter().map(|ip| address(*ip)).collect(),
            taps_count: Some(self.taps.own.len() + self.taps.others.len())
                .filter(|n| *n > 0)
                .map(|n| n as u32),
            agent: self.origin.agent.clone(),
            labels: self.origin.labels.clone(),
            topics: (!self.topics.is_empty()).then(|| self.topics.join(" ")),
        };
        form.encode_to_vec()
    }

    /// The orders of a message; `schemas` are those of this program's parsers by name.
    ///
    /// # Errors
    /// When the message is none, or needs what this program lacks.
    pub fn decode(bytes: &[u8], schemas: &dyn Fn(&str) -> Option<Arc<Schema>>) -> Result<JobOrder, Refused> {
        if bytes.len() > ORDER_BYTES_MAX {
            return Err(Refused { lacks: vec![Lack::TooMany { what: "bytes", max: ORDER_BYTES_MAX }] });
        }
        let form = Form::decode(bytes).map_err(|e| Refused::malformed(e.to_string()))?;
        let mut lacks = Lacks::default();
        let read = read(form, schemas, &mut lacks);
        lacks.or(read)
    }
}

fn read(form: Form, schemas: &dyn Fn(&str) -> Option<Arc<Schema>>, lacks: &mut Lacks) -> Option<JobOrder> {
    lacks.head((form.version, &form.needs), (ORDER_FORM, &FEATURES))?;
    let plan = match super::decode(&form.plan, schemas) {
        Ok(plan) => Some(plan),
        Err(refused) => {
            refused.lacks.into_iter().for_each(|lack| lacks.add(lack));
            None
        }
    };
    lacks.at_most("interfaces", form.names.len(), NAMES_MAX)?;
    lacks.at_most("labels", form.labels.len(), NAMES_MAX)?;
    let topics = topics(&form, lacks);
    let redaction = match form.redaction.map(<[u8; 16]>::try_from).transpose() {
        Ok(key) => Some(key.map(Key)),
        Err(_) => lacks.malformed("a key of another length"),
    };
    let taps = taps((&form.taps_own, &form.taps_others), form.taps_count, lacks);
    let workers = lacks.required(&form.workers, "the end of the orders").copied();
    let capture = match form.packets.as_str() {
        INTERFACES => Some(Capture { interfaces: form.names, filter: form.filter }),
        word => lacks.word("input", word),
    };
    Some(JobOrder {
        job: form.job,
        generation: form.generation,
        attempt: form.attempt,
        plan: plan?,
        redaction: redaction?,
        capture: capture?,
        packets_max: form.packets_max,
        memory_max: form.memory_max,
        cpu_millis: form.cpu_millis,
        workers: workers?,
        taps: taps?,
        origin: Origin { agent: form.agent, labels: form.labels },
        topics: topics?,
    })
}

/// Orders that were cut short before their topics say that there are some.
fn topics(form: &Form, lacks: &mut Lacks) -> Option<Vec<String>> {
    let topics = form.topics.iter().flat_map(|topics| topics.split(' '));
    let topics: Vec<String> = topics.filter(|topic| !topic.is_empty()).map(str::to_owned).collect();
    if form.needs.iter().any(|need| need == TOPICS) == topics.is_empty() {
        return lacks.malformed("topics that are not whole");
    }
    lacks.at_most("topics", topics.len(), NAMES_MAX)?;
    Some(topics)
}

/// One's own addresses and those of others.
type Addresses<'m> = (&'m [Vec<u8>], &'m [Vec<u8>]);

fn taps((own, others): Addresses<'_>, count: Option<u32>, lacks: &mut Lacks) -> Option<TapTable> {
    if own.len() + others.len() != count.unwrap_or(0) as usize {
        return lacks.malformed("a table of addresses that is not whole");
    }
    lacks.at_most("addresses of taps", own.len().max(others.len()), ADDRESSES_MAX)?;
    let mut read = |sent: &[Vec<u8>]| -> Option<Vec<IpAddr>> {
        sent.iter().map(|bytes| read_address(bytes, lacks)).collect()
    };
    Some(TapTable { own: read(own)?, others: read(others)? })
}
