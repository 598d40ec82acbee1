//! Arbitrary text as stored state of servers and agents, and as responses to clients: jobs, lanes, silences, policies,
//! rows. The first byte selects which. Nothing panics, and accepted rows match their schema.
#![no_main]

use std::sync::{Arc, LazyLock};

use agent::policy::HostPolicy;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use server::ColumnHead;
use tuple::{Batch, Schema};

/// A column of every type.
static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(server::fuzzing::every_type);

fn fits(batch: &Batch) {
    for id in batch.present() {
        assert_eq!(
            batch.column(id).map(|column| column.len()),
            Some(batch.rows())
        );
    }
}

fuzz_target!(|input: &[u8]| match input {
    [0, rest @ ..] => {
        if let Ok(Value::Array(answered)) = serde_json::from_slice(rest) {
            server::read_rows(&answered, &SCHEMA).iter().for_each(fits);
        }
    }
    [1, rest @ ..] => {
        if let Ok(heads) = serde_json::from_slice::<Vec<ColumnHead>>(rest) {
            let _ = server::schema("t", &heads);
        }
    }
    [which, rest @ ..] => {
        let text = String::from_utf8_lossy(rest);
        match which % 3 {
            0 => server::fuzzing::saved(&text),
            1 => server::fuzzing::asked(&text),
            _ => drop(HostPolicy::parse(&text)),
        }
    }
    _ => {}
});
