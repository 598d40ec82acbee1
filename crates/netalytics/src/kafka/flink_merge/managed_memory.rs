//! Checks the managed memory of Flink's slots against the query's requirement before the job starts. Flink itself would
//! fail only when the tasks run, and restart them repeatedly.

use anyhow::bail;
use flink::SqlGateway;
use plan::Plan;
use stream::flink_sql::slot_memory_bytes;

const MIB: u64 = 1 << 20;

/// Compares the query's requirement with the smallest slot. The check is skipped if Flink's REST interface is not
/// reachable.
pub fn check(gateway: &SqlGateway, plan: &Plan) -> anyhow::Result<()> {
    let needed = slot_memory_bytes(plan.dataflow.pipelines.len());
    let Some(slots) = gateway
        .cluster()
        .and_then(|cluster| cluster.slot_memory().ok().flatten())
    else {
        return Ok(());
    };
    if slots.bytes < needed {
        bail!(
            "Flink's slots have too little managed memory for this query: it needs {} MiB, and a slot has {} MiB; set \
             taskmanager.memory.managed.size to at least {} MiB for the {} slots of a TaskManager \
             (taskmanager.numberOfTaskSlots), or use fewer processors per query",
            needed.div_ceil(MIB),
            slots.bytes / MIB,
            needed.div_ceil(MIB) * slots.number,
            slots.number,
        );
    }
    Ok(())
}
