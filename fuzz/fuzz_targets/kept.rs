//! Any bytes as what a server and an agent find on their disks, and as what a server answers to who prints it: rows, jobs, lanes,
//! silences, a host's policy. The first byte says as what. None of it panics, and rows that are taken are of their schema.
#![no_main]

use std::sync::{Arc, LazyLock};

use agent::policy::Policy;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use server::ColumnHead;
use tuple::{Batch, Schema};

/// A column of every type.
static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    let columns = [
        ("window_start", "i64", "epoch_ns"),
        ("client_ip", "ip", ""),
        ("count", "u64", ""),
        ("id", "u64", "id"),
        ("p99", "f64", "ns"),
        ("path", "text", ""),
        ("hist", "json", ""),
        ("ok", "bool", ""),
    ];
    let heads = columns.map(|(name, of, unit)| json!({"name": name, "type": of, "unit": unit, "doc": ""}));
    let heads: Vec<ColumnHead> =
        serde_json::from_value(Value::from(heads.to_vec())).expect("heads of columns");
    server::schema("t", &heads).expect("a schema")
});

fn fits(batch: &Batch) {
    for id in batch.present() {
        assert_eq!(batch.column(id).map(|column| column.len()), Some(batch.rows()));
    }
}

/// Rows as the store has them, with changes: each a place and a byte.
fn changed(changes: &[u8]) -> Vec<u8> {
    static ROWS: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let row = json!(["1795000000000000000", "10.0.0.1", 7, "00ff", 1.5, "/cart", {"buckets": []}, true]);
        let rows = server::read_rows(&vec![row; 5], &SCHEMA).expect("rows");
        server::fuzzing::store_rows(&rows)
    });
    let mut bytes = ROWS.clone();
    for [low, high, byte] in changes.as_chunks().0 {
        let at = usize::from(u16::from_le_bytes([*low, *high])) % bytes.len();
        bytes[at] = *byte;
    }
    bytes
}

fn rows(bytes: &[u8]) {
    server::fuzzing::stored_rows(bytes, &SCHEMA).iter().for_each(fits);
    server::read_arrow(bytes, &SCHEMA).iter().flatten().for_each(fits);
}

fuzz_target!(|input: &[u8]| match input {
    [0, rest @ ..] => rows(rest),
    [1, rest @ ..] => rows(&changed(rest)),
    [2, rest @ ..] => {
        if let Ok(Value::Array(answered)) = serde_json::from_slice(rest) {
            server::read_rows(&answered, &SCHEMA).iter().for_each(fits);
        }
    }
    [3, rest @ ..] => {
        if let Ok(heads) = serde_json::from_slice::<Vec<ColumnHead>>(rest) {
            let _ = server::schema("t", &heads);
        }
    }
    [which, rest @ ..] => {
        let text = String::from_utf8_lossy(rest);
        match which % 3 {
            0 => server::fuzzing::saved(&text),
            1 => server::fuzzing::asked(&text),
            _ => drop(Policy::parse(&text)),
        }
    }
    _ => {}
});
