//! Arbitrary bytes as a file of a recording, whole or truncated with a journal. The reader turns panics of the Parquet
//! library into errors; panics of our own code are findings.
#![no_main]

use std::sync::{Arc, Once};

use libfuzzer_sys::fuzz_target;
use tuple::{DataType, Field, Schema, Unit};

/// A column of every type.
fn schema() -> Arc<Schema> {
    let fields = [
        ("ts", DataType::I64, Unit::EpochNanoseconds),
        ("client_ip", DataType::Ip, Unit::None),
        ("client_port", DataType::U64, Unit::None),
        ("quality", DataType::Text, Unit::None),
        ("client_guessed", DataType::Bool, Unit::None),
        ("ts_end", DataType::I64, Unit::EpochNanoseconds),
    ];
    let fields = fields
        .map(|(name, data_type, unit)| Field::new(name, data_type, unit, ""))
        .to_vec();
    Arc::new(Schema {
        name: "t".into(),
        version: 1,
        doc: "".into(),
        fields,
        measure: None,
        key: None,
        parts: &[],
        facts: &tuple::SchemaFacts::NONE,
    })
}

/// libFuzzer's hook ends the process at every panic; this one ignores those that the reader catches.
fn let_library_panics_pass() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let abort = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let is_ours = panic
                .location()
                .is_none_or(|place| place.file().contains("crates/"));
            if is_ours {
                abort(panic);
            }
        }));
    });
}

fuzz_target!(|input: &[u8]| {
    let_library_panics_pass();
    match input {
        [1, low, high, rest @ ..] => {
            let at = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
            let (journal, file) = rest.split_at(at);
            let _ = recording::count_rows(file.to_vec(), Some(journal), schema());
        }
        file => {
            let _ = recording::count_rows(file.to_vec(), None, schema());
        }
    }
});
