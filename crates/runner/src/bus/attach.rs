//! Attaches untrusted cells to the engine.

use arrow_array::RecordBatch;
use stream::{Engine, MalformedPartial};

/// Attaches the cells of a pipeline, and returns an error for each cell with impossible values.
pub fn attach(engine: &mut Engine, pipeline: usize, cells: &RecordBatch) -> Vec<MalformedPartial> {
    let rows = cells.num_rows();
    match engine.partial_of_cells(pipeline, cells) {
        Ok(partial) => {
            engine.attach(partial);
            Vec::new()
        }
        Err(why) if rows <= 1 => vec![why],
        // Bisection finds the invalid cells; the others count.
        Err(_) => {
            let halves = [
                cells.slice(0, rows / 2),
                cells.slice(rows / 2, rows - rows / 2),
            ];
            halves
                .iter()
                .flat_map(|half| attach(engine, pipeline, half))
                .collect()
        }
    }
}
