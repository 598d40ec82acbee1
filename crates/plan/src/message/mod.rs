//! What crosses the border of a process, as bytes: messages of numbered fields (protobuf), each with a version first.
//!
//! Nothing that is sent depends on the places of columns in schemas, on functions or on statics: schemas, columns, operations,
//! aggregates, types and units go by name. A reader resolves every name against its own registry or refuses, and says all that
//! it lacks at once ([`Refused`]). What it has accepted is sound ([`crate::sound`]): no engine panics at it.
//!
//! **Versions.** [`FORM`] is what a program knows; a message says the least version that its reader has to know. A reader skips
//! fields that it does not know, so: a new field that may be ignored costs nothing; a new field without which a plan would
//! mean something else adds a name to `needs` where it is used; [`FORM`] is raised where old fields change their meaning.
//! New words (operations, aggregates, units …) need neither: a reader that does not know one says so.

mod closing;
mod computed;
mod dataflow;
mod expression;
mod form;
mod monitor;
mod order;
mod pipeline;
mod places;
mod profile;
mod refused;
mod schemas;
mod selection;
mod words;

use std::sync::Arc;

use prost::Message;
use tuple::Schema;

pub use closing::{CLOSING_BYTES_MAX, CLOSING_FORM, Closing, End, Fault};
pub use computed::COMPUTED_MAX;
pub use dataflow::LISTED_MAX;
pub use expression::{DEPTH_MAX, PATTERNS_MAX};
pub use monitor::ADDRESSES_MAX;
pub use order::{Capture, JobOrder, Key, ORDER_BYTES_MAX, ORDER_FORM};
pub use pipeline::{PARTS_MAX, PIPELINES_MAX};
pub use refused::{LACKS_MAX, Lack, Refused};
pub use schemas::INPUTS_MAX;

use self::refused::Lacks;
use self::schemas::Registry;
use crate::{Dataflow, Plan, Taps, sound};

/// The version of the form of plans.
pub const FORM: u32 = 1;
/// What the form has gained since that version, and this program knows.
const FEATURES: [&str; 1] = [TAPS];
/// Which taps tell of a flow is not what it was: a program that does not know of it would have others told, too.
const TAPS: &str = "taps";
/// Most bytes of a plan's message.
pub const BYTES_MAX: usize = 1 << 20;

/// A plan as a message. It is read only where it has at most [`BYTES_MAX`] bytes.
#[must_use]
pub fn encode(plan: &Plan) -> Vec<u8> {
    let message = form::Plan {
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
    let needs_taps = matches!(plan.monitor.taps, Taps::Client | Taps::Ends);
    needs_taps.then(|| TAPS.to_owned()).into_iter().collect()
}

/// The plan of a message; `schemas` are those of this program's parsers by name.
///
/// # Errors
/// When the message is none, or needs what this program lacks.
pub fn decode(bytes: &[u8], schemas: &dyn Fn(&str) -> Option<Arc<Schema>>) -> Result<Plan, Refused> {
    if bytes.len() > BYTES_MAX {
        return Err(Refused { lacks: vec![Lack::TooMany { what: "bytes", max: BYTES_MAX }] });
    }
    let message = form::Plan::decode(bytes).map_err(|e| Refused::malformed(e.to_string()))?;
    let mut lacks = Lacks::default();
    let read = read(&message, &mut Registry::new(schemas), &mut lacks);
    let plan = lacks.or(read)?;
    match sound::check(&plan) {
        unsound if unsound.is_empty() => Ok(plan),
        unsound => {
            let lacks = unsound.into_iter().take(LACKS_MAX).map(Lack::Malformed);
            Err(Refused { lacks: lacks.collect() })
        }
    }
}

fn read(message: &form::Plan, registry: &mut Registry<'_>, lacks: &mut Lacks) -> Option<Plan> {
    lacks.head((message.version, &message.needs), (FORM, &FEATURES))?;
    let monitor = lacks.required(&message.monitor, "what monitors do");
    let monitor = monitor.and_then(|sent| monitor::read_monitor(sent, registry, lacks));
    let dataflow = lacks.required(&message.dataflow, "the dataflow");
    let dataflow = dataflow.and_then(|sent| dataflow::read_dataflow(sent, registry, lacks));
    Some(Plan { query: message.query.clone(), monitor: monitor?, dataflow: dataflow? })
}

#[cfg(test)]
mod tests;
