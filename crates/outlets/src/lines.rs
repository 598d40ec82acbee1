//! Rows as JSON lines, in messages of limited size: the same lines as `--format jsonl`.

use std::sync::Arc;

use sinks::{JsonlSink, ResultHead, Sink};
use tuple::Batch;

use crate::queue::OutletItem;
use crate::worker::{MessageBody, OutletMessage, RowMapping};

/// Maximum rows per message.
const ROWS_MAX: usize = 256;

/// See the module documentation.
#[derive(Default)]
pub struct JsonLinesMapping {
    heads: Option<Arc<[ResultHead]>>,
    number: u64,
}

impl RowMapping for JsonLinesMapping {
    fn take(&mut self, item: OutletItem, out: &mut Vec<OutletMessage>) {
        match item {
            OutletItem::Heads(heads) => self.heads = Some(heads),
            OutletItem::Rows(result, batch) => {
                for start in (0..batch.rows()).step_by(ROWS_MAX) {
                    let rows = batch.slice(start, ROWS_MAX.min(batch.rows() - start));
                    self.number += 1;
                    out.push(OutletMessage {
                        body: MessageBody::Bytes(lines(
                            self.heads.as_deref().unwrap_or_default(),
                            result,
                            &rows,
                        )),
                        rows: rows.rows() as u64,
                        number: self.number,
                    });
                }
            }
            OutletItem::Complete | OutletItem::Vitals(_) => {}
        }
    }

    fn finish(&mut self, _: &mut Vec<OutletMessage>) {}
}

/// The lines of these rows.
pub fn lines(heads: &[ResultHead], result: usize, rows: &Batch) -> Vec<u8> {
    let mut text = Vec::new();
    let mut jsonl = JsonlSink::new(&mut text, heads);
    // A Vec accepts all bytes.
    let _ = jsonl.write(result, rows).and_then(|()| jsonl.finish());
    drop(jsonl);
    text
}
