//! Partial results: arbitrary bytes, and valid ones with edits. They are rejected, or round-trip, and can be attached and
//! printed.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use netalytics_fuzz::dataflows::{config, dataflows, detached};
use plan::Dataflow;
use stream::Engine;

/// Dataflows, and the partial results that a worker of each sends.
static VALID: LazyLock<Vec<(Dataflow, Vec<u8>)>> = LazyLock::new(|| {
    let encoded = |flow: Dataflow| {
        let bytes = detached(&flow).encode();
        (flow, bytes)
    };
    dataflows().into_iter().map(encoded).collect()
});

/// Arbitrary bytes, or edits of valid ones of four bytes each: position, kind, and byte.
fn bytes_of(input: &[u8], valid: &[u8]) -> Vec<u8> {
    let Some((0, edits)) = input.split_first().map(|(mode, rest)| (mode % 2, rest)) else {
        return input.get(1..).unwrap_or_default().to_vec();
    };
    let mut bytes = valid.to_vec();
    for [low, high, how, byte] in edits.as_chunks().0 {
        let at = usize::from(u16::from_le_bytes([*low, *high])) % bytes.len().max(1);
        match how % 4 {
            0 if at < bytes.len() => bytes[at] = *byte,
            1 => bytes.insert(at, *byte),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            3 if at < bytes.len() => bytes[at] ^= 1 << (byte % 8),
            _ => {}
        }
    }
    bytes
}

fuzz_target!(|input: &[u8]| {
    let Some((which, input)) = input.split_first() else {
        return;
    };
    let (flow, valid) = &VALID[usize::from(*which) % VALID.len()];
    let bytes = bytes_of(input, valid);
    let mut engine = Engine::new(flow, config());
    let Ok(partial) = engine.decode_partial(&bytes) else {
        return;
    };
    let again = partial.encode();
    let back = engine
        .decode_partial(&again)
        .expect("decoded values can be encoded");
    assert_eq!(back.encode(), again);
    // Relayed by a worker, and together with a valid part.
    let mut worker = Engine::worker(flow, config());
    worker.attach(partial);
    worker.attach(back);
    engine.attach(worker.detach_all());
    engine.attach(engine.decode_partial(valid).expect("it is valid"));
    let mut out = Vec::new();
    engine.make_room(&mut out);
    engine.advance(60, &mut out);
    engine.finish(&mut out);
});
