//! Rows as JSON lines, in messages of limited size: the same lines as `--format jsonl`.

use std::sync::Arc;

use sinks::{Jsonl, ResultHead, Sink};
use tuple::Batch;

use crate::queue::Item;
use crate::worker::{Body, Mapping, Message};

/// Maximum rows per message.
const ROWS_MAX: usize = 256;

/// See the module documentation.
#[derive(Default)]
pub struct Lines {
    heads: Option<Arc<[ResultHead]>>,
    number: u64,
}

impl Mapping for Lines {
    fn take(&mut self, item: Item, out: &mut Vec<Message>) {
        match item {
            Item::Heads(heads) => self.heads = Some(heads),
            Item::Rows(result, batch) => {
                for start in (0..batch.rows()).step_by(ROWS_MAX) {
                    let rows = batch.slice(start, ROWS_MAX.min(batch.rows() - start));
                    self.number += 1;
                    out.push(Message {
                        body: Body::Bytes(lines(self.heads.as_deref().unwrap_or_default(), result, &rows)),
                        rows: rows.rows() as u64,
                        number: self.number,
                    });
                }
            }
            Item::Complete | Item::Vitals(_) => {}
        }
    }

    fn finish(&mut self, _: &mut Vec<Message>) {}
}

/// The lines of these rows.
pub fn lines(heads: &[ResultHead], result: usize, rows: &Batch) -> Vec<u8> {
    let mut text = Vec::new();
    let mut jsonl = Jsonl::new(&mut text, heads);
    // A Vec accepts all bytes.
    let _ = jsonl.write(result, rows).and_then(|()| jsonl.finish());
    drop(jsonl);
    text
}
