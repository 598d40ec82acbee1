//! The parts of the service that requests use.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::gateway::fleet::Fleet;
use crate::jobs::action_requests::ActionRequests;
use crate::jobs::audit_trail::AuditTrail;
use crate::jobs::enrollment::EnrollmentRequests;
use crate::jobs::job_requests::{JobQuotas, JobRequests};
use crate::jobs::limits::ServiceLimits;
use crate::jobs::rule_requests::RuleRequests;
use crate::queries::past::PastQueries;
use crate::queries::recordings::RecordingRequests;
use crate::results::delivery::{NamedOutlets, OutletDeliveries, ResultsMetricsPage};
use crate::results::hub::ResultHub;
use crate::rules::actions::{ActionExecutors, ActionRegistry};
use crate::rules::alerts::{AlertRegistry, AlertSenderThreads};
use crate::store::directory_lock::FileLock;
use crate::store::history::RowHistory;
use crate::store::recording_store::RecordingStore;
use crate::store::sqlite::{ServerStore, StoreError};

/// See the module documentation.
pub struct Service {
    /// Sends notifications of alerts; dropped first.
    _sending: AlertSenderThreads,
    /// Carries out the decisions of actions.
    _carrying: ActionExecutors,
    pub(crate) rules: RuleRequests,
    pub(crate) actions: ActionRequests,
    pub(crate) past: PastQueries,
    pub(crate) recordings: RecordingRequests,
    pub(crate) enrollments: EnrollmentRequests,
    pub(crate) audit: AuditTrail,
    pub(crate) jobs: Arc<JobRequests>,
    /// Metrics of results.
    pub(crate) shown: ResultsMetricsPage,
    hub: Arc<ResultHub>,
    store: ServerStore,
    pub(crate) history: Arc<RowHistory>,
    limits: ServiceLimits,
    folder: PathBuf,
    /// Dropped last, so that the next process that opens the data directory finds no active thread.
    _lock: FileLock,
}

/// Parts of an opened data directory that the service uses.
pub(crate) struct ServiceParts {
    /// The data directory.
    pub folder: PathBuf,
    pub store: ServerStore,
    pub history: Arc<RowHistory>,
    pub hub: Arc<ResultHub>,
    pub alerts: Arc<AlertRegistry>,
    pub actions: Arc<ActionRegistry>,
    /// Addresses that jobs may use as outlets by name.
    pub outlets: NamedOutlets,
    /// Captures and recordings available for queries.
    pub recording_store: Option<RecordingStore>,
    pub limits: ServiceLimits,
    pub lock: FileLock,
}

impl Service {
    /// Starts the service with `fleet` as executor, and resubmits jobs that had not ended.
    ///
    /// # Errors
    /// `StoreError` when the store cannot be read.
    pub(crate) fn start(
        parts: ServiceParts,
        fleet: Arc<dyn Fleet>,
    ) -> Result<Arc<Service>, StoreError> {
        let ServiceParts {
            folder,
            store,
            history,
            hub,
            alerts,
            actions,
            outlets,
            recording_store,
            limits,
            lock,
        } = parts;
        let told = Arc::downgrade(&hub);
        let tell = move |job, event: &_| {
            told.upgrade()
                .into_iter()
                .for_each(|hub| hub.notify_alert(job, event))
        };
        let of_agents = Arc::downgrade(&fleet);
        hub.listen_to_alerts(Box::new(move |job, alert| {
            if alert["state"] == "firing"
                && let Some(fleet) = of_agents.upgrade()
            {
                fleet.preserve_packets(job, alert["rule"].as_str().unwrap_or_default());
            }
        }));
        let sending = AlertSenderThreads::start(&alerts, Box::new(tell))?;
        let deliveries =
            OutletDeliveries::new((&store, &history, &hub), outlets.clone(), limits.delivery());
        let carrying = ActionExecutors::start(&actions, outlets);
        let quotas = JobQuotas::of(&limits);
        let jobs = Arc::new(JobRequests::new(
            fleet,
            deliveries,
            hub.clone(),
            store.jobs.clone(),
            quotas,
        ));
        let service = Arc::new(Service {
            _sending: sending,
            _carrying: carrying,
            rules: RuleRequests::new(jobs.clone(), alerts, store.jobs.clone()),
            actions: ActionRequests::new(jobs.clone(), actions),
            past: PastQueries::new(
                jobs.clone(),
                hub.clone(),
                history.clone(),
                &store,
                limits.past,
            ),
            recordings: RecordingRequests::new(
                recording_store,
                jobs.queries.clone(),
                hub.clone(),
                limits.past,
            ),
            enrollments: EnrollmentRequests::new(store.enrollments.clone()),
            audit: AuditTrail::new(store.audit.clone()),
            jobs,
            shown: ResultsMetricsPage::default(),
            hub,
            store,
            history,
            limits,
            folder,
            _lock: lock,
        });
        service.jobs.resume()?;
        Ok(service)
    }

    /// The hub that receives rows.
    #[must_use]
    pub fn hub(&self) -> &Arc<ResultHub> {
        &self.hub
    }

    /// The stores.
    #[must_use]
    pub fn store(&self) -> &ServerStore {
        &self.store
    }

    /// The limits.
    #[must_use]
    pub fn limits(&self) -> &ServiceLimits {
        &self.limits
    }

    /// The data directory.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Housekeeping, called about every ten seconds.
    pub fn look_after(&self) {
        if let Err(error) = self.hub.look_after() {
            tracing::warn!("{error}");
        }
        self.recordings.expire_uploads();
    }
}
