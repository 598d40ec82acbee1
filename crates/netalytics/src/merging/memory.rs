//! Managed memory that a query's job needs of a slot of Flink's, compared with what slots have before the job starts: Flink itself would fail
//! only when the job's tasks run, and start them again and again.

use anyhow::bail;
use flink::Gateway;
use plan::Plan;
use stream::flink_sql::slot_memory_bytes;

const MIB: u64 = 1 << 20;

/// Compares the query's need with the smallest slot. Where Flink's REST interface is not within reach the job is started all the same.
pub fn check(gateway: &Gateway, plan: &Plan) -> anyhow::Result<()> {
    let needed = slot_memory_bytes(plan.dataflow.pipelines.len());
    let Some(slots) = gateway.cluster().and_then(|cluster| cluster.slot_memory().ok().flatten()) else {
        return Ok(());
    };
    if slots.bytes < needed {
        bail!(
            "Flink's slots have too little managed memory for this query: it needs {} MiB, and a slot has {} MiB; set \
             taskmanager.memory.managed.size to at least {} MiB for the {} slots of a TaskManager \
             (taskmanager.numberOfTaskSlots), or ask fewer processors at once",
            needed.div_ceil(MIB),
            slots.bytes / MIB,
            needed.div_ceil(MIB) * slots.number,
            slots.number,
        );
    }
    Ok(())
}
