//! Records requested changes and their outcomes in the audit log.

use std::fmt::Display;

use crate::store::sqlite::AuditLog;

/// See the module documentation.
pub struct AuditTrail {
    log: AuditLog,
}

impl AuditTrail {
    /// Records in `log`.
    pub fn new(log: AuditLog) -> AuditTrail {
        AuditTrail { log }
    }

    /// Records an operation of `who` (a token or an address) on `object` and its outcome.
    pub fn note(&self, who: &str, act: &str, object: &str, outcome: &str) {
        // The operation is not undone.
        if let Err(error) = self.log.add(who, act, object, outcome) {
            tracing::error!("the audit log lacks {act} {object} by {who}: {error}");
        }
    }

    /// Records an operation with a result.
    pub fn note_result<T, E: Display>(
        &self,
        who: &str,
        act: &str,
        object: &str,
        result: &Result<T, E>,
    ) {
        let outcome = result
            .as_ref()
            .map_or_else(ToString::to_string, |_| "done".to_owned());
        self.note(who, act, object, &outcome);
    }
}
