//! Parts of the service that queries of the past use.

use std::sync::Arc;

use crate::jobs::job_requests::JobRequests;
use crate::jobs::limits::PastLimits;
use crate::results::hub::ResultHub;
use crate::store::history::RowHistory;
use crate::store::sqlite::{FrameStore, JobStore, ResultStore, SegmentStore, ServerStore};

/// Answers queries of the past.
pub(crate) struct PastQueries {
    pub(super) jobs: Arc<JobRequests>,
    pub(super) hub: Arc<ResultHub>,
    pub(super) history: Arc<RowHistory>,
    pub(super) store: PastStores,
    pub(super) limits: PastLimits,
}

/// Stores that such queries read.
pub(super) struct PastStores {
    pub(super) jobs: JobStore,
    pub(super) results: ResultStore,
    pub(super) segments: SegmentStore,
    pub(super) frames: FrameStore,
}

impl PastQueries {
    /// Answers from `store` and `history`.
    pub(crate) fn new(
        jobs: Arc<JobRequests>,
        hub: Arc<ResultHub>,
        history: Arc<RowHistory>,
        store: &ServerStore,
        limits: PastLimits,
    ) -> PastQueries {
        let store = PastStores {
            jobs: store.jobs.clone(),
            results: store.results.clone(),
            segments: store.segments.clone(),
            frames: store.frames.clone(),
        };
        PastQueries {
            jobs,
            hub,
            history,
            store,
            limits,
        }
    }
}
