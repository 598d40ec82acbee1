//! Generates load for a server. `service.py` starts it and reads its CPU time; this program sets kind and rate, and
//! measures the same work in memory.

mod agent;
mod agents;
mod api;
mod memory;
mod said;

use clap::Parser;

/// One kind of load.
#[derive(Parser)]
enum Load {
    /// Agents that send a partial result with this number of groups for every window of a job.
    Agents(agents::Flags),
    /// Requests at a steady rate, and live streams.
    Api(api::Flags),
    /// Cost of encoding, decoding, and merging the same partial results, without network and disk.
    Memory(memory::Flags),
}

fn main() {
    let figures = match Load::parse() {
        Load::Agents(flags) => agents::run(&flags),
        Load::Api(flags) => api::run(&flags),
        Load::Memory(flags) => memory::run(&flags),
    };
    println!("{figures}");
}
