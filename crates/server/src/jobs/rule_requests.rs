//! Requests on alerts: permissions to create and see rules and silences.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::job::{Job, JobId, JobSpec, RedactionMode};
use crate::jobs::job_requests::JobRequests;
use crate::jobs::permissions::{may_ask, must_own};
use crate::rules::alerts::{
    AlertRegistry, AlertRule, AlertSilence, AlertView, CompiledSilence, ReceiverTestResult,
    RuleError, RuleRequest, RuleView, SilenceScope,
};
use crate::store::access::{AccessRole, ClientAccess};
use crate::store::service_error::ServiceError;
use crate::store::sqlite::{JobStore, now_ns};

/// Reason why a rule or a silence is rejected.
pub enum RuleRejection {
    /// Invalid, with a message.
    Wrong(String),
    /// The query is invalid: its text and errors.
    Query(String, Vec<query::Diagnostic>),
    /// The condition is invalid: its text and errors.
    Condition(String, Vec<query::Diagnostic>),
    /// The name exists.
    Taken(String),
    /// Rejected for another reason.
    Denied(ServiceError),
}

impl<E: Into<ServiceError>> From<E> for RuleRejection {
    fn from(denied: E) -> RuleRejection {
        RuleRejection::Denied(denied.into())
    }
}

/// A silence as requested.
pub struct NewSilence {
    /// Matchers.
    pub matchers: Vec<String>,
    /// Start, in nanoseconds since the epoch.
    pub starts_ns: i64,
    /// End, in nanoseconds since the epoch.
    pub ends_ns: i64,
    /// Reason.
    pub comment: String,
}

/// Requests about alert rules and silences.
pub struct RuleRequests {
    jobs: Arc<JobRequests>,
    /// Running rules.
    pub alerts: Arc<AlertRegistry>,
    store: JobStore,
    /// Serializes changes of rules.
    changing: Mutex<()>,
}

impl RuleRequests {
    /// Accepts requests about the rules of `alerts`.
    pub fn new(
        jobs: Arc<JobRequests>,
        alerts: Arc<AlertRegistry>,
        store: JobStore,
    ) -> RuleRequests {
        RuleRequests {
            jobs,
            alerts,
            store,
            changing: Mutex::new(()),
        }
    }

    /// Adds a rule.
    pub fn add(&self, who: &ClientAccess, asked: &RuleRequest) -> Result<RuleView, RuleRejection> {
        let _one = self.one_ruling();
        let most = self.alerts.limits().rules_max;
        if self.alerts.rules_count() >= most {
            return Err(ServiceError::Quota(format!(
                "there are {most} alert rules, which is the maximum (--alert-rules-max)"
            ))
            .into());
        }
        let taken = || RuleRejection::Taken(format!("rule {} already exists", asked.name));
        if self
            .alerts
            .rules()
            .iter()
            .any(|rule| rule.asked.name == asked.name)
        {
            return Err(taken());
        }
        let (rule, job) = self.rule_over(who, asked)?;
        match self.alerts.add(&who.name, job, &rule) {
            Ok(Some(shown)) => Ok(shown),
            result => {
                self.leave(who, rule.owns_job().then_some(job));
                Err(result.err().map_or_else(taken, RuleRejection::from))
            }
        }
    }

    /// Replaces a rule; the name stays.
    pub fn replace(
        &self,
        who: &ClientAccess,
        id: i64,
        asked: &RuleRequest,
    ) -> Result<RuleView, RuleRejection> {
        let _one = self.one_ruling();
        let known = self.own_rule(who, id)?;
        if known.asked.name != asked.name {
            return Err(RuleRejection::Wrong(format!(
                "the name of a rule cannot change: this one is {}",
                known.asked.name
            )));
        }
        let owned = known.asked.query.is_some().then_some(known.job_id);
        let same = |asked: &RuleRequest| (asked.query.clone(), asked.on.clone(), asked.redact);
        let (rule, job) = match owned {
            // The job continues.
            Some(job) if same(&known.asked) == same(asked) && asked.job.is_none() => {
                (self.checked_rule(asked, &self.jobs.get(who, job)?)?, job)
            }
            _ => self.rule_over(who, asked)?,
        };
        let gone = || ServiceError::Unknown(format!("alert rule {id} does not exist"));
        let shown = self.alerts.replace(id, job, &rule)?.ok_or_else(gone)?;
        self.leave(who, owned.filter(|old| *old != job));
        Ok(shown)
    }

    /// Removes a rule, and the job it owns unless another rule uses it.
    pub fn remove(&self, who: &ClientAccess, id: i64) -> Result<(), ServiceError> {
        let _one = self.one_ruling();
        self.own_rule(who, id)?;
        let own = self.alerts.remove(id)?;
        self.leave(who, own);
        Ok(())
    }

    /// Locked while rules and their jobs change: a job does not end while a rule joins it.
    fn one_ruling(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the job of a removed rule unless another rule uses it.
    fn leave(&self, who: &ClientAccess, job: Option<JobId>) {
        let Some(job) = job else { return };
        if self
            .alerts
            .rules()
            .iter()
            .any(|rule| rule.job_id == job && rule.asked.query.is_some())
        {
            return;
        }
        let all = ClientAccess {
            role: AccessRole::Admin,
            scope: Default::default(),
            ..who.clone()
        };
        if let Err(why) = self.jobs.stop(&all, job) {
            tracing::warn!("cannot stop job {job} of a deleted alert rule: {why}");
        }
    }

    /// The rule, and the job of its rows: an existing or a new one.
    fn rule_over(
        &self,
        who: &ClientAccess,
        asked: &RuleRequest,
    ) -> Result<(AlertRule, JobId), RuleRejection> {
        match (&asked.query, &asked.job) {
            (Some(query), None) => {
                let plan = self
                    .jobs
                    .queries
                    .plan(query)
                    .map_err(|errors| RuleRejection::Query(query.clone(), errors))?;
                let rule = self.rule_of(asked, &plan)?;
                if let Some(job) = self.job_of_rules(who, asked, &plan)? {
                    return Ok((rule, job));
                }
                let spec = JobSpec {
                    on: asked.on.clone(),
                    labels: [("alert_rule".to_owned(), asked.name.clone())].into(),
                    redaction: if asked.redact {
                        RedactionMode::Folded
                    } else {
                        RedactionMode::Raw
                    },
                    ..JobSpec::standing(query, &format!("alert: {}", asked.name))
                };
                let (job, _) = self.jobs.submit(who, &spec, &[], None)?;
                Ok((rule, job.id))
            }
            (None, Some(name)) => {
                let job = self.jobs.standing_job(who, name)?;
                self.jobs.may_see_rows(who, &job)?;
                must_own(
                    who,
                    &job.owner,
                    &format!("job {}", job.id),
                    "makes rules over",
                )?;
                Ok((self.checked_rule(asked, &job)?, job.id))
            }
            _ => Err(RuleRejection::Wrong(
                "a rule has either a query or a job".into(),
            )),
        }
    }

    /// A running job of another rule of the same owner, with the same query and agents: both rules evaluate its rows,
    /// and agents run one monitor for both. A query with LIMIT has its own job, because its time starts with it.
    fn job_of_rules(
        &self,
        who: &ClientAccess,
        asked: &RuleRequest,
        plan: &plan::Plan,
    ) -> Result<Option<JobId>, ServiceError> {
        if plan.monitor.limit != plan::QueryLimit::default() {
            return Ok(None);
        }
        let budget = |query: &str| {
            self.jobs
                .queries
                .check(query)
                .ok()
                .map(|query| query.budget)
        };
        for rule in self.alerts.rules() {
            let RuleRequest {
                query: Some(query),
                on,
                redact,
                ..
            } = &rule.asked
            else {
                continue;
            };
            if rule.owner != who.name || (on, redact) != (&asked.on, &asked.redact) {
                continue;
            }
            let may =
                |job: &Job| !job.state.has_ended() && self.jobs.may_see_rows(who, job).is_ok();
            let is_same = self
                .jobs
                .queries
                .plan(query)
                .is_ok_and(|own| own.monitor == plan.monitor && own.dataflow == plan.dataflow)
                && asked
                    .query
                    .as_deref()
                    .is_some_and(|asked| budget(asked) == budget(query));
            if is_same && let Some(job) = self.store.get(rule.job_id)?.filter(may) {
                may_ask(who, plan)?;
                return Ok(Some(job.id));
            }
        }
        Ok(None)
    }

    fn checked_rule(&self, asked: &RuleRequest, job: &Job) -> Result<AlertRule, RuleRejection> {
        let plan = self
            .jobs
            .queries
            .plan_of(job)
            .map_err(|errors| RuleRejection::Query(job.spec.query.clone(), errors))?;
        self.rule_of(asked, &plan)
    }

    fn rule_of(&self, asked: &RuleRequest, plan: &plan::Plan) -> Result<AlertRule, RuleRejection> {
        let wrong = |wrong| match wrong {
            RuleError::Words(words) => RuleRejection::Wrong(words),
            RuleError::Condition(errors) => RuleRejection::Condition(asked.when.clone(), errors),
        };
        let is_known = |name: &str| {
            self.alerts
                .receivers()
                .iter()
                .any(|receiver| receiver.name == name)
        };
        asked.check(&is_known).map_err(wrong)?;
        AlertRule::of(asked.clone(), plan).map_err(wrong)
    }

    /// Rules that `who` may see.
    pub fn list(&self, who: &ClientAccess) -> Vec<RuleView> {
        let mut rules = self.alerts.rules();
        rules.retain(|rule| self.jobs.may_see_rows_of(who, rule.job_id));
        rules
    }

    /// A rule that `who` may see.
    pub fn get(&self, who: &ClientAccess, id: i64) -> Result<RuleView, ServiceError> {
        let rule = self
            .alerts
            .rule(id)
            .filter(|rule| self.jobs.may_see_rows_of(who, rule.job_id));
        rule.ok_or_else(|| ServiceError::Unknown(format!("alert rule {id} does not exist")))
    }

    /// A rule that `who` may change.
    fn own_rule(&self, who: &ClientAccess, id: i64) -> Result<RuleView, ServiceError> {
        let rule = self.get(who, id)?;
        must_own(
            who,
            &rule.owner,
            &format!("the rule {}", rule.asked.name),
            "changes",
        )?;
        Ok(rule)
    }

    /// Alerts that `who` may see.
    pub fn alerts_shown(&self, who: &ClientAccess) -> Vec<AlertView> {
        let mut alerts = self.alerts.shown();
        let mut may = std::collections::BTreeMap::new();
        alerts.retain(|alert| {
            *may.entry(alert.job)
                .or_insert_with(|| self.jobs.may_see_rows_of(who, alert.job))
        });
        alerts
    }

    /// Silences that `who` may see: matchers and comments may name objects outside a token's networks.
    pub fn silences_shown(&self, who: &ClientAccess) -> Vec<AlertSilence> {
        let mut silences = self.alerts.silences();
        silences.retain(|silence| !who.is_scoped() || silence.author == who.name);
        silences
    }

    /// Adds or replaces a silence.
    pub fn keep_silence(
        &self,
        who: &ClientAccess,
        id: Option<i64>,
        asked: NewSilence,
    ) -> Result<AlertSilence, RuleRejection> {
        let known = id.map(|id| self.own_silence(who, id)).transpose()?;
        let most = self.alerts.limits().silences_max;
        if known.is_none() && self.alerts.silences().len() >= most {
            return Err(ServiceError::Quota(format!(
                "there are {most} silences, which is the maximum (--alert-silences-max)"
            ))
            .into());
        }
        let reach = if who.is_admin_of_all() {
            SilenceScope::All
        } else {
            SilenceScope::Own
        };
        let NewSilence {
            matchers,
            starts_ns,
            ends_ns,
            comment,
        } = asked;
        let (id, author) = known.map_or((0, who.name.clone()), |known| (known.id, known.author));
        let silence = AlertSilence {
            id,
            matchers,
            starts_ns,
            ends_ns,
            comment,
            author,
            reach,
        };
        Ok(self
            .alerts
            .keep_silence(CompiledSilence::new(silence).map_err(RuleRejection::Wrong)?)?)
    }

    /// Ends a silence.
    pub fn end_silence(&self, who: &ClientAccess, id: i64) -> Result<AlertSilence, ServiceError> {
        let mut silence = self.own_silence(who, id)?;
        silence.ends_ns = now_ns();
        silence.starts_ns = silence.starts_ns.min(silence.ends_ns - 1);
        let matching = CompiledSilence::new(silence).map_err(ServiceError::Unknown)?;
        Ok(self.alerts.keep_silence(matching)?)
    }

    fn own_silence(&self, who: &ClientAccess, id: i64) -> Result<AlertSilence, ServiceError> {
        let known = self
            .silences_shown(who)
            .into_iter()
            .find(|silence| silence.id == id);
        let known =
            known.ok_or_else(|| ServiceError::Unknown(format!("silence {id} does not exist")))?;
        must_own(who, &known.author, &format!("the silence {id}"), "changes")?;
        Ok(known)
    }

    /// Sends a test notification to a receiver.
    pub fn test_receiver(
        &self,
        who: &ClientAccess,
        name: &str,
    ) -> Result<ReceiverTestResult, ServiceError> {
        let receiver = self
            .alerts
            .receivers()
            .iter()
            .find(|receiver| receiver.name == name);
        let receiver = receiver
            .ok_or_else(|| ServiceError::Unknown(format!("receiver {name} does not exist")))?;
        Ok(receiver.test(&who.name))
    }
}
