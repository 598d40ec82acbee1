//! Captures and recordings as seen by clients: permissions to list, query, and remove them.

use std::fs;
use std::sync::Arc;

use tuple::Batch;

use crate::jobs::limits::PastLimits;
use crate::jobs::permissions::{may_ask, must_own};
use crate::jobs::query_checker::QueryChecker;
use crate::queries::past::{AnswerOrigin, PastQuery, PastResponse, PastTable};
use crate::results::hub::ResultHub;
use crate::store::access::{AccessRole, ClientAccess};
use crate::store::persist_error::PersistError;
use crate::store::recorded_flow::{FlowPart, FlowRequest, RecordedFlow};
use crate::store::recording_store::{
    ReadLimits, RecordingAnswer, RecordingEntry, RecordingKind, RecordingQueryError,
    RecordingStore, RecordingView,
};
use crate::store::service_error::ServiceError;

/// Requests about captures and recordings.
pub(crate) struct RecordingRequests {
    recording_store: Option<RecordingStore>,
    queries: QueryChecker,
    hub: Arc<ResultHub>,
    limits: PastLimits,
}

impl RecordingRequests {
    /// Accepts requests about the files in `recording_store`, if any.
    pub(crate) fn new(
        recording_store: Option<RecordingStore>,
        queries: QueryChecker,
        hub: Arc<ResultHub>,
        limits: PastLimits,
    ) -> RecordingRequests {
        RecordingRequests {
            recording_store,
            queries,
            hub,
            limits,
        }
    }

    /// Ends uploads that make no progress.
    pub(crate) fn expire_uploads(&self) {
        if let Some(recording_store) = &self.recording_store {
            recording_store.sent().expire();
        }
    }

    pub(crate) fn store(&self) -> Result<&RecordingStore, ServiceError> {
        self.recording_store
            .as_ref()
            .ok_or_else(|| ServiceError::Unknown("this server has no recordings".into()))
    }

    /// Entries that `who` may see.
    pub(crate) fn list(&self, who: &ClientAccess) -> Result<Vec<RecordingView>, ServiceError> {
        let all = self.store()?.all();
        Ok(all
            .into_iter()
            .filter(|entry| may_know(who, entry))
            .map(|entry| entry.told)
            .collect())
    }

    pub(crate) fn get(&self, who: &ClientAccess, id: &str) -> Result<RecordingEntry, ServiceError> {
        let found = self.store()?.one(id).filter(|entry| may_know(who, entry));
        found.ok_or_else(|| {
            ServiceError::Unknown("the recording does not exist or was deleted".into())
        })
    }

    /// Answers a query from a capture or recording.
    pub(crate) fn ask(
        &self,
        who: &ClientAccess,
        id: &str,
        asked: &PastQuery,
    ) -> Result<PastResponse, ServiceError> {
        let query = self
            .queries
            .check(&asked.query)
            .map_err(ServiceError::Query)?;
        let entry = self.get(who, id)?;
        let is_own = entry.told.owner.as_ref() == Some(&who.name);
        let is_folded = entry
            .looked
            .as_ref()
            .is_some_and(|looked| looked.is_redacted);
        // A user may query own uploads without restriction.
        if !is_own {
            may_ask(who, &planner::lower(&query))?;
            if !is_folded && who.role < AccessRole::Raw {
                return Err(ServiceError::Forbidden(
                    "texts of this recording are not redacted: it needs the role raw".into(),
                ));
            }
        }
        let limits = self.limits;
        let limits = ReadLimits {
            time: limits.time,
            bytes: limits.bytes.saturating_mul(4),
            rows_max: asked.rows_max,
            confidence: asked.confidence,
        };
        let read = self
            .store()?
            .reader()
            .ask(&entry.path, &query, limits)
            .map_err(|why| self.refused(why))?;
        let RecordingAnswer {
            results,
            period,
            baseline,
            tuples,
            mut notes,
        } = read;
        let mut made = Vec::new();
        for (place, one) in results.into_iter().enumerate() {
            let rows: Vec<(Batch, Vec<String>)> = one
                .batches
                .into_iter()
                .map(|batch| (batch, Vec::new()))
                .collect();
            let answered = PastTable::made(
                place,
                one.processor,
                one.keys,
                (&one.schema, &one.columns),
                &rows,
            );
            let answered = PastTable {
                left_out: one.left_out,
                ..answered.ok_or(PersistError::Damaged)?
            };
            if answered.left_out > 0 {
                notes.push(format!(
                    "{} rows more than {} of {} are omitted: request fewer (SINCE, WHERE, LIMIT n ROWS)",
                    answered.left_out, asked.rows_max, answered.result.table
                ));
            }
            self.hub.meters.query_rows_left_out.add(answered.left_out);
            made.push(answered);
        }
        let recording = Some(entry.told.id);
        Ok(PastResponse {
            results: made,
            job: None,
            recording,
            from: AnswerOrigin::Recording,
            period,
            baseline,
            tuples,
            notes,
        })
    }

    /// Reads a flow of a capture. Packets are not redacted.
    pub(crate) fn follow(
        &self,
        who: &ClientAccess,
        id: &str,
        (flow, part): (u64, FlowPart),
    ) -> Result<RecordedFlow, ServiceError> {
        let entry = self.get(who, id)?;
        let is_own = entry.told.owner.as_ref() == Some(&who.name);
        if !is_own && who.role < AccessRole::Raw {
            return Err(ServiceError::Forbidden(
                "packets are not redacted: they need the role raw".into(),
            ));
        }
        let bytes = self.limits.bytes.saturating_mul(4);
        let asked = FlowRequest::new(flow, part, self.limits.time, bytes);
        let reader = self.store()?.reader();
        let read = reader
            .follow(&entry.path, &asked)
            .map_err(|why| self.refused(why))?;
        let may_read = |flow: &RecordedFlow| {
            is_own || flow.ends.iter().any(|end| who.scope.contains(end.ip()))
        };
        read.filter(may_read)
            .ok_or_else(|| ServiceError::Unknown("this capture has no flow with this id".into()))
    }

    fn refused(&self, why: RecordingQueryError) -> ServiceError {
        match why {
            RecordingQueryError::Wrong(why) => ServiceError::Wrong(why),
            RecordingQueryError::Late(why) => {
                self.hub.meters.queries_given_up.add(1);
                ServiceError::Late(why)
            }
        }
    }

    /// Removes an upload; allowed for its owner and for admins.
    pub(crate) fn remove(&self, who: &ClientAccess, id: &str) -> Result<(), ServiceError> {
        let entry = self.get(who, id)?;
        match &entry.told.owner {
            Some(owner) => must_own(who, owner, "this file", "takes away")?,
            None if who.is_admin_of_all() => {}
            None => {
                return Err(ServiceError::Forbidden(
                    "only an admin can delete recordings in the folder".into(),
                ));
            }
        }
        match entry.told.kind {
            RecordingKind::Upload => self.store()?.sent().remove(id),
            RecordingKind::Capture => fs::remove_file(&entry.path).map_err(PersistError::Disk)?,
            RecordingKind::DataSet
                if entry
                    .looked
                    .is_some_and(|looked| !looked.parsers.is_empty()) =>
            {
                fs::remove_dir_all(&entry.path).map_err(PersistError::Disk)?;
            }
            RecordingKind::DataSet => {
                return Err(ServiceError::Wrong(
                    "this folder has no recording: it is not deleted".into(),
                ));
            }
        }
        Ok(())
    }
}

/// Uploads of others are visible only to admins.
fn may_know(who: &ClientAccess, entry: &RecordingEntry) -> bool {
    entry
        .told
        .owner
        .as_ref()
        .is_none_or(|owner| *owner == who.name || who.is_admin_of_all())
}
