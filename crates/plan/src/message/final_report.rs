//! A monitor's final report: the reason for its end, errors, and counters. Counters are identified by name, as in the
//! JSON summary with periods between levels (`packets.filtered.address`), so that versions may have different
//! counters.

use prost::Message;

use super::refusal::{MessageRefusal, UnmetRequirement, UnmetRequirements, shortened};

/// Format version of reports.
pub const CLOSING_FORM: u32 = 1;
const FEATURES: [&str; 0] = [];
/// Maximum size of a report in bytes.
pub const CLOSING_BYTES_MAX: usize = 1 << 20;
/// Maximum number of counters, of errors, and of panics.
const LISTED_MAX: usize = 4096;

/// The final report of a monitor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MonitorFinalReport {
    /// Job number.
    pub job: u64,
    /// Version of the job's definition.
    pub generation: u64,
    /// Number of the start of the job's monitor on this host.
    pub attempt: u32,
    /// Reason for the end.
    pub end: MonitorEndReason,
    /// Counters by name, each name once.
    pub counts: Vec<(String, u64)>,
    /// Time of the first and last packet.
    pub seen: Option<(i64, i64)>,
    /// Errors of the input.
    pub errors: Vec<InputFault>,
    /// Panic messages of workers.
    pub panics: Vec<String>,
    /// The lowest sampling rate of SAMPLE auto, if it changed.
    pub sampling_lowest: Option<f64>,
}

/// The reason for a monitor's end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MonitorEndReason {
    /// End of the input.
    #[default]
    Input,
    /// LIMIT, or the end of the job's period.
    Limit,
    /// On request.
    Stopped,
    /// A failure, with its message.
    Failed(String),
}

/// An error of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputFault {
    /// Path of the file.
    pub path: String,
    /// Byte offset, if known.
    pub offset: Option<u64>,
    /// Description with the position, in one line.
    pub text: String,
    /// Number of packets delivered from this input before the error.
    pub after_packets: u64,
}

impl MonitorFinalReport {
    /// The counter with this name.
    #[must_use]
    pub fn count(&self, name: &str) -> Option<u64> {
        self.counts
            .iter()
            .find(|(counted, _)| counted == name)
            .map(|(_, n)| *n)
    }

    /// Encodes the report.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (end, failure) = match &self.end {
            MonitorEndReason::Input => ("input", None),
            MonitorEndReason::Limit => ("limit", None),
            MonitorEndReason::Stopped => ("stopped", None),
            MonitorEndReason::Failed(text) => ("failed", Some(text.clone())),
        };
        let count = |(name, count): &(String, u64)| CountProto {
            name: name.clone(),
            count: *count,
        };
        let fault = |fault: &InputFault| FaultProto {
            path: fault.path.clone(),
            offset: fault.offset,
            text: fault.text.clone(),
            after_packets: fault.after_packets,
        };
        let form = FinalReportProto {
            version: CLOSING_FORM,
            needs: Vec::new(),
            job: self.job,
            generation: self.generation,
            attempt: self.attempt,
            end: end.to_owned(),
            failure,
            counts: self.counts.iter().map(count).collect(),
            first_ns: self.seen.map(|(first, _)| first),
            last_ns: self.seen.map(|(_, last)| last),
            errors: self.errors.iter().map(fault).collect(),
            panics: self.panics.clone(),
            sampling_lowest: self.sampling_lowest,
        };
        form.encode_to_vec()
    }

    /// Decodes a report.
    ///
    /// # Errors
    /// If the message is invalid or requires features that this program lacks.
    pub fn decode(bytes: &[u8]) -> Result<MonitorFinalReport, MessageRefusal> {
        if bytes.len() > CLOSING_BYTES_MAX {
            return Err(MessageRefusal {
                lacks: vec![UnmetRequirement::TooMany {
                    what: "bytes",
                    max: CLOSING_BYTES_MAX,
                }],
            });
        }
        let form = FinalReportProto::decode(bytes)
            .map_err(|e| MessageRefusal::malformed(e.to_string()))?;
        let mut lacks = UnmetRequirements::default();
        let read = read(form, &mut lacks);
        lacks.or(read)
    }
}

fn read(form: FinalReportProto, lacks: &mut UnmetRequirements) -> Option<MonitorFinalReport> {
    lacks.head((form.version, &form.needs), (CLOSING_FORM, &FEATURES))?;
    let most = form
        .counts
        .len()
        .max(form.errors.len())
        .max(form.panics.len());
    lacks.at_most("counts, errors or panics", most, LISTED_MAX)?;
    let counts: Vec<(String, u64)> = form.counts.into_iter().map(|c| (c.name, c.count)).collect();
    if let Some(name) = twice(&counts) {
        return lacks.malformed(format!("{name} is counted twice"));
    }
    let end = match (form.end.as_str(), form.failure) {
        ("input", None) => MonitorEndReason::Input,
        ("limit", None) => MonitorEndReason::Limit,
        ("stopped", None) => MonitorEndReason::Stopped,
        ("failed", Some(text)) => MonitorEndReason::Failed(text),
        (word, _) => return lacks.word("end", word),
    };
    if form
        .sampling_lowest
        .is_some_and(|rate| !(0.0..=1.0).contains(&rate))
    {
        return lacks.malformed("an invalid sampling rate");
    }
    let fault = |fault: FaultProto| InputFault {
        path: fault.path,
        offset: fault.offset,
        text: fault.text,
        after_packets: fault.after_packets,
    };
    Some(MonitorFinalReport {
        job: form.job,
        generation: form.generation,
        attempt: form.attempt,
        end,
        counts,
        seen: form.first_ns.zip(form.last_ns),
        errors: form.errors.into_iter().map(fault).collect(),
        panics: form.panics,
        sampling_lowest: form.sampling_lowest,
    })
}

/// A duplicate name.
fn twice(counts: &[(String, u64)]) -> Option<String> {
    let mut names: Vec<&str> = counts.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names
        .windows(2)
        .find(|pair| pair[0] == pair[1])
        .map(|pair| shortened(pair[0]))
}

#[derive(Clone, PartialEq, Message)]
struct FinalReportProto {
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
    /// `input`, `limit`, `stopped`, or `failed`.
    #[prost(string, tag = "6")]
    end: String,
    #[prost(string, optional, tag = "7")]
    failure: Option<String>,
    #[prost(message, repeated, tag = "8")]
    counts: Vec<CountProto>,
    #[prost(sfixed64, optional, tag = "9")]
    first_ns: Option<i64>,
    #[prost(sfixed64, optional, tag = "10")]
    last_ns: Option<i64>,
    #[prost(message, repeated, tag = "11")]
    errors: Vec<FaultProto>,
    #[prost(string, repeated, tag = "12")]
    panics: Vec<String>,
    #[prost(double, optional, tag = "13")]
    sampling_lowest: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
struct CountProto {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(uint64, tag = "2")]
    count: u64,
}

#[derive(Clone, PartialEq, Message)]
struct FaultProto {
    #[prost(string, tag = "1")]
    path: String,
    #[prost(uint64, optional, tag = "2")]
    offset: Option<u64>,
    #[prost(string, tag = "3")]
    text: String,
    #[prost(uint64, tag = "4")]
    after_packets: u64,
}
