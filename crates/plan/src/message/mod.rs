//! Serialization between processes: messages of numbered fields (protobuf), each beginning with a version.
//!
//! Messages do not depend on positions of columns in schemas, on functions, or on statics: schemas, columns,
//! operations, aggregates, types, and units are identified by name. A reader resolves every name in its own registry,
//! or rejects the message with all missing items at once ([`MessageRefusal`]). An accepted plan is valid ([`crate::validate`]),
//! so that no engine panics on it.
//!
//! **Versions.** [`FORM`] is the version known to a program; a message states the minimum version required of its
//! reader. Readers skip unknown fields. Therefore, a new field that may be ignored needs no change; a new field that
//! changes the meaning of a plan adds a name to `needs` when it is used; [`FORM`] is incremented if existing fields
//! change their meaning. New words (operations, aggregates, units, …) need neither: a reader that does not support
//! one reports it.

mod column_names;
mod computed;
mod dataflow;
mod enum_words;
mod expression;
mod final_report;
mod monitor;
mod order;
mod pipeline;
mod profile;
mod proto;
mod refusal;
mod schemas;
mod selection;

use std::sync::Arc;

use prost::Message;
use tuple::Schema;

pub use computed::COMPUTED_MAX;
pub use dataflow::LISTED_MAX;
pub use expression::{DEPTH_MAX, PATTERNS_MAX};
pub use final_report::{
    CLOSING_BYTES_MAX, CLOSING_FORM, InputFault, MonitorEndReason, MonitorFinalReport,
};
pub use monitor::ADDRESSES_MAX;
pub use order::{CaptureSpec, JobOrder, ORDER_BYTES_MAX, ORDER_FORM, OrderInput, RedactionKey};
pub use pipeline::{PARTS_MAX, PIPELINES_MAX};
pub use refusal::{LACKS_MAX, MessageRefusal, UnmetRequirement};
pub use schemas::INPUTS_MAX;

use self::refusal::UnmetRequirements;
use self::schemas::SchemaCatalog;
use crate::{Dataflow, Plan, TapSelection, validate};

/// Format version of plans.
pub const FORM: u32 = 1;
/// Features added to the format since that version and supported by this program.
const FEATURES: [&str; 1] = [TAPS];
/// A selection of taps other than the default; a program without this feature would report additional flows.
const TAPS: &str = "taps";
/// Maximum size of a plan's message in bytes.
pub const BYTES_MAX: usize = 1 << 20;

/// Encodes a plan. Messages with more than [`BYTES_MAX`] bytes are rejected by the reader.
#[must_use]
pub fn encode(plan: &Plan) -> Vec<u8> {
    let message = proto::PlanProto {
        version: FORM,
        needs: needs(plan),
        query: plan.query.clone(),
        monitor: Some(monitor::monitor(&plan.monitor)),
        dataflow: Some(dataflow::dataflow(&plan.dataflow)),
    };
    message.encode_to_vec()
}

/// A canonical encoding of a dataflow: equal bytes mean equal dataflows. It is not decoded.
#[must_use]
pub fn bytes_of(dataflow: &Dataflow) -> Vec<u8> {
    dataflow::dataflow(dataflow).encode_to_vec()
}

fn needs(plan: &Plan) -> Vec<String> {
    let needs_taps = matches!(plan.monitor.taps, TapSelection::Client | TapSelection::Ends);
    needs_taps.then(|| TAPS.to_owned()).into_iter().collect()
}

/// Decodes a plan; `schemas` returns the schema of a parser of this program by name.
///
/// # Errors
/// If the message is invalid or requires features that this program lacks.
pub fn decode(
    bytes: &[u8],
    schemas: &dyn Fn(&str) -> Option<Arc<Schema>>,
) -> Result<Plan, MessageRefusal> {
    if bytes.len() > BYTES_MAX {
        return Err(MessageRefusal {
            lacks: vec![UnmetRequirement::TooMany {
                what: "bytes",
                max: BYTES_MAX,
            }],
        });
    }
    let message =
        proto::PlanProto::decode(bytes).map_err(|e| MessageRefusal::malformed(e.to_string()))?;
    let mut lacks = UnmetRequirements::default();
    let read = read(&message, &mut SchemaCatalog::new(schemas), &mut lacks);
    let plan = lacks.or(read)?;
    match validate::check(&plan) {
        unsound if unsound.is_empty() => Ok(plan),
        unsound => {
            let lacks = unsound
                .into_iter()
                .take(LACKS_MAX)
                .map(UnmetRequirement::Malformed);
            Err(MessageRefusal {
                lacks: lacks.collect(),
            })
        }
    }
}

fn read(
    message: &proto::PlanProto,
    registry: &mut SchemaCatalog<'_>,
    lacks: &mut UnmetRequirements,
) -> Option<Plan> {
    lacks.head((message.version, &message.needs), (FORM, &FEATURES))?;
    let monitor = lacks.required(&message.monitor, "the specification of monitors");
    let monitor = monitor.and_then(|sent| monitor::read_monitor(sent, registry, lacks));
    let dataflow = lacks.required(&message.dataflow, "the dataflow");
    let dataflow = dataflow.and_then(|sent| dataflow::read_dataflow(sent, registry, lacks));
    Some(Plan {
        query: message.query.clone(),
        monitor: monitor?,
        dataflow: dataflow?,
    })
}

#[cfg(test)]
mod tests;
