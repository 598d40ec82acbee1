//! Arbitrary bytes as messages between processes: a monitor's orders, its final account, frames on its pipe, frames of the
//! link. The first byte selects which. They are rejected, or round-trip.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use link::{Frame, FrameDecoder};
use plan::message::{JobOrder, MonitorFinalReport};
use tuple::Schema;

static SCHEMAS: LazyLock<Vec<Arc<Schema>>> = LazyLock::new(parsers::registry::schemas);

fn order(bytes: &[u8]) {
    let known = |name: &str| SCHEMAS.iter().find(|schema| schema.name == name).cloned();
    match JobOrder::decode(bytes, &known) {
        Ok(order) => {
            let sent = order.encode();
            assert_eq!(
                JobOrder::decode(&sent, &known)
                    .expect("it was read")
                    .encode(),
                sent
            );
        }
        Err(refused) => assert!(!refused.to_string().is_empty()),
    }
}

fn account(bytes: &[u8]) {
    if let Ok(closing) = MonitorFinalReport::decode(bytes) {
        let sent = closing.encode();
        assert_eq!(
            MonitorFinalReport::decode(&sent)
                .expect("it was read")
                .encode(),
            sent
        );
    }
}

fn pipe(mut bytes: &[u8]) {
    while let Ok(Some(frame)) = collect::MonitorFrame::read(&mut bytes) {
        let mut sent = Vec::new();
        frame.write(&mut sent).expect("there is room");
        let again = collect::MonitorFrame::read(&mut sent.as_slice()).expect("it was read");
        assert_eq!(again.as_ref(), Some(&frame));
    }
}

/// Every frame in the input, split at arbitrary positions.
fn frames(bytes: &[u8], piece: usize) -> Vec<Frame> {
    let mut decoder = FrameDecoder::default();
    let mut frames = Vec::new();
    for piece in bytes.chunks(piece) {
        decoder.push(piece);
        loop {
            match decoder.next() {
                Ok(Some(incoming)) => frames.push(incoming.frame),
                Ok(None) => break,
                Err(_) => return frames,
            }
        }
    }
    frames
}

fuzz_target!(|input: &[u8]| match input {
    [0, rest @ ..] => order(rest),
    [1, rest @ ..] => account(rest),
    [2, rest @ ..] => pipe(rest),
    [_, piece, rest @ ..] => {
        let whole = frames(rest, usize::MAX);
        assert_eq!(frames(rest, usize::from(*piece) + 1), whole);
        let sent = whole
            .iter()
            .flat_map(|frame| frame.encode().concat())
            .collect::<Vec<u8>>();
        assert_eq!(frames(&sent, usize::MAX), whole);
    }
    _ => {}
});
