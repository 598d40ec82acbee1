//! The seed of hashes in results.

/// Seed of hashes that affect results (replicates, estimates of `distinct`). Constant across runs.
pub(crate) const RESULT_SEED: u64 = 0x6e65_7461_6c79_7469;
