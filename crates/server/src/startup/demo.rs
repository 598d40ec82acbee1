//! Support for demonstrations: a token for the agent, and example jobs.

use std::time::{Duration, Instant};

use crate::api::service::Service;
use crate::job::{JobSpec, RetainedRows};
use crate::store::access::{self, AccessRole, ClientAccess, NetworkScope};
use crate::store::service_error::ServiceError;
use crate::store::sqlite::{StoreError, now_ns};

/// Validity of a page's token.
const DAY_NS: i64 = 86_400_000_000_000;
/// Polling interval for the connection of the agent.
const LOOK_EVERY: Duration = Duration::from_millis(100);

impl Service {
    /// Creates a token for an agent of this name and revokes the previous one.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn renew_agent_token(&self, agent: &str) -> Result<String, StoreError> {
        self.renew_token(agent, AccessRole::Agent, None)
    }

    /// Creates an admin token for a browser, valid for one day, and revokes the previous one.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn renew_page_token(&self, name: &str) -> Result<String, StoreError> {
        self.renew_token(name, AccessRole::Admin, Some(now_ns() + DAY_NS))
    }

    fn renew_token(
        &self,
        name: &str,
        role: AccessRole,
        expires: Option<i64>,
    ) -> Result<String, StoreError> {
        for token in self
            .store()
            .tokens
            .all()?
            .iter()
            .filter(|token| token.name == name)
        {
            self.store().tokens.remove(token.id)?;
        }
        let made = access::make(
            &self.store().tokens,
            name,
            role,
            &NetworkScope::default(),
            expires,
        )?;
        Ok(made.map(|made| made.secret).unwrap_or_default())
    }

    /// Starts standing jobs, each with its name and retention, once an agent is connected; gives up after `patience`.
    /// Jobs that already run are not started again.
    ///
    /// # Errors
    /// `ServiceError` when a job is rejected.
    pub fn demonstrate(
        &self,
        jobs: &[(&str, &str, RetainedRows)],
        patience: Duration,
    ) -> Result<(), ServiceError> {
        let until = Instant::now() + patience;
        while !self.jobs.fleet.agents().iter().any(|agent| agent.connected)
            && Instant::now() < until
        {
            std::thread::sleep(LOOK_EVERY);
        }
        let who = ClientAccess {
            id: 0,
            name: "demo".into(),
            role: AccessRole::Admin,
            scope: NetworkScope::default(),
        };
        for (name, query, keep) in jobs {
            let spec = JobSpec {
                keep: *keep,
                ..JobSpec::standing(query, name)
            };
            self.jobs
                .submit(&who, &spec, &[], Some((name, query.as_bytes())))?;
        }
        Ok(())
    }
}
