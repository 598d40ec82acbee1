//! The order of one monitor of a job: its plan, its input, and its limits. It contains no commands and no code;
//! interface names are requests that the host's policy may reject.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use prost::Message;
use tuple::{AgentOrigin, Schema};

use super::expression::{address, read_address};
use super::monitor::ADDRESSES_MAX;
use super::refusal::{MessageRefusal, UnmetRequirement, UnmetRequirements};
use crate::{Plan, TapTable};

/// Format version of orders.
pub const ORDER_FORM: u32 = 1;
/// Feature: results are written to Kafka topics.
const TOPICS: &str = "topics";
const FEATURES: [&str; 1] = [TOPICS];
/// Maximum size of an order in bytes: twice that of a plan.
pub const ORDER_BYTES_MAX: usize = 2 * super::BYTES_MAX;
/// Maximum number of interfaces, and of labels.
const NAMES_MAX: usize = 1024;

/// The order sent to a monitor at its start. Its period ([`crate::TimeSpan`]) and sample (`sample_seed`) are part of the
/// plan and the same for all monitors of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobOrder {
    /// Job number.
    pub job: u64,
    /// Version of the job's definition.
    pub generation: u64,
    /// Number of the start of the job's monitor on this host.
    pub attempt: u32,
    /// The plan.
    pub plan: Plan,
    /// Key for redacting texts before they leave; `None` if they are not redacted.
    pub redaction: Option<RedactionKey>,
    /// Capture parameters.
    pub capture: CaptureSpec,
    /// Maximum number of packets within LIMIT until the monitor is granted more; `None` for the plan's limit.
    pub packets_max: Option<u64>,
    /// Memory limit in bytes.
    pub memory_max: u64,
    /// CPU limit over all threads, in thousandths of a core; 0 is unlimited.
    pub cpu_millis: u32,
    /// Number of workers; 0 for one per core.
    pub workers: u32,
    /// Assignment of addresses to taps, at the start.
    pub taps: TapTable,
    /// Origin of its tuples, set by the host of the monitor.
    pub origin: AgentOrigin,
    /// Kafka topics for the results: the cells of each pipeline, or the tuples of each input without pipelines. Empty:
    /// results go to the process that started the monitor. The host determines the Kafka cluster.
    pub topics: Vec<String>,
}

/// Source of a job's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OrderInput {
    /// Interfaces of the host.
    #[default]
    Interfaces,
    /// Export messages of switches and routers (sFlow, NetFlow, IPFIX) that the host receives.
    Exports,
}

impl OrderInput {
    const ALL: [OrderInput; 2] = [OrderInput::Interfaces, OrderInput::Exports];

    /// Name in messages.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            OrderInput::Interfaces => "interfaces",
            OrderInput::Exports => "exports",
        }
    }
}

/// Capture parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureSpec {
    /// Source of the packets.
    pub input: OrderInput,
    /// Interface names, with `*` for any characters; if empty, selected by the host.
    pub interfaces: Vec<String>,
    /// A capture filter in libpcap's language.
    pub filter: Option<String>,
}

/// The secret key of hashed texts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RedactionKey(pub [u8; 16]);

impl fmt::Debug for RedactionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// `Debug` is not derived because it would reveal the key.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
struct JobOrderProto {
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
    /// A nested message.
    #[prost(bytes = "vec", tag = "6")]
    plan: Vec<u8>,
    #[prost(bytes = "vec", optional, tag = "7")]
    redaction: Option<Vec<u8>>,
    /// [`OrderInput::word`].
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
    /// Required: an order truncated before it might lack the key.
    #[prost(uint32, optional, tag = "14")]
    workers: Option<u32>,
    /// 4 or 16 bytes each, in network order.
    #[prost(bytes = "vec", repeated, tag = "20")]
    taps_own: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "21")]
    taps_others: Vec<Vec<u8>>,
    /// Number of addresses, if any, to detect truncation of the table.
    #[prost(uint32, optional, tag = "22")]
    taps_count: Option<u32>,
    #[prost(string, optional, tag = "17")]
    agent: Option<String>,
    #[prost(btree_map = "string, string", tag = "18")]
    labels: BTreeMap<String, String>,
    /// A single text, separated by spaces, to detect truncation.
    #[prost(string, optional, tag = "23")]
    topics: Option<String>,
}

impl JobOrder {
    /// Encodes the order.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let form = JobOrderProto {
            version: ORDER_FORM,
            needs: if self.topics.is_empty() {
                Vec::new()
            } else {
                vec![TOPICS.to_owned()]
            },
            job: self.job,
            generation: self.generation,
            attempt: self.attempt,
            plan: super::encode(&self.plan),
            redaction: self.redaction.map(|key| key.0.to_vec()),
            packets: self.capture.input.word().to_owned(),
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

    /// Decodes an order; `schemas` returns the schema of a parser of this program by name.
    ///
    /// # Errors
    /// If the message is invalid or requires features that this program lacks.
    pub fn decode(
        bytes: &[u8],
        schemas: &dyn Fn(&str) -> Option<Arc<Schema>>,
    ) -> Result<JobOrder, MessageRefusal> {
        if bytes.len() > ORDER_BYTES_MAX {
            return Err(MessageRefusal {
                lacks: vec![UnmetRequirement::TooMany {
                    what: "bytes",
                    max: ORDER_BYTES_MAX,
                }],
            });
        }
        let form =
            JobOrderProto::decode(bytes).map_err(|e| MessageRefusal::malformed(e.to_string()))?;
        let mut lacks = UnmetRequirements::default();
        let read = read(form, schemas, &mut lacks);
        lacks.or(read)
    }
}

fn read(
    form: JobOrderProto,
    schemas: &dyn Fn(&str) -> Option<Arc<Schema>>,
    lacks: &mut UnmetRequirements,
) -> Option<JobOrder> {
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
        Ok(key) => Some(key.map(RedactionKey)),
        Err(_) => lacks.malformed("a key of another length"),
    };
    let taps = taps((&form.taps_own, &form.taps_others), form.taps_count, lacks);
    let workers = lacks
        .required(&form.workers, "the end of the orders")
        .copied();
    let mut inputs = OrderInput::ALL.into_iter();
    let capture = match inputs.find(|of| of.word() == form.packets) {
        Some(input) => Some(CaptureSpec {
            input,
            interfaces: form.names,
            filter: form.filter,
        }),
        None => lacks.word("input", &form.packets),
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
        origin: AgentOrigin {
            agent: form.agent,
            labels: form.labels,
        },
        topics: topics?,
    })
}

/// Decodes the topics. If an order is truncated before them, `needs` still names them.
fn topics(form: &JobOrderProto, lacks: &mut UnmetRequirements) -> Option<Vec<String>> {
    let topics = form.topics.iter().flat_map(|topics| topics.split(' '));
    let topics: Vec<String> = topics
        .filter(|topic| !topic.is_empty())
        .map(str::to_owned)
        .collect();
    if form.needs.iter().any(|need| need == TOPICS) == topics.is_empty() {
        return lacks.malformed("incomplete topics");
    }
    lacks.at_most("topics", topics.len(), NAMES_MAX)?;
    Some(topics)
}

/// Own addresses and those of other taps.
type AddressLists<'m> = (&'m [Vec<u8>], &'m [Vec<u8>]);

fn taps(
    (own, others): AddressLists<'_>,
    count: Option<u32>,
    lacks: &mut UnmetRequirements,
) -> Option<TapTable> {
    if own.len() + others.len() != count.unwrap_or(0) as usize {
        return lacks.malformed("an incomplete table of addresses");
    }
    lacks.at_most(
        "addresses of taps",
        own.len().max(others.len()),
        ADDRESSES_MAX,
    )?;
    let mut read = |sent: &[Vec<u8>]| -> Option<Vec<IpAddr>> {
        sent.iter()
            .map(|bytes| read_address(bytes, lacks))
            .collect()
    };
    Some(TapTable {
        own: read(own)?,
        others: read(others)?,
    })
}
