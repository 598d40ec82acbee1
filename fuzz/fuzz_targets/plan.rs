//! Arbitrary bytes as the message of a plan: no panic; an accepted plan round-trips, and an engine accepts it.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use plan::message::{decode, encode};
use stream::{Engine, EngineConfig};
use tuple::Schema;

static SCHEMAS: LazyLock<Vec<Arc<Schema>>> = LazyLock::new(parsers::registry::schemas);

fuzz_target!(|bytes: &[u8]| {
    let known = |name: &str| SCHEMAS.iter().find(|schema| schema.name == name).cloned();
    match decode(bytes, &known) {
        Ok(plan) => {
            let _ = Engine::worker(&plan.dataflow, EngineConfig::default());
            let sent = encode(&plan);
            assert_eq!(decode(&sent, &known).as_ref(), Ok(&plan));
        }
        Err(refused) => assert!(!refused.lacks.is_empty() && !refused.to_string().is_empty()),
    }
});
