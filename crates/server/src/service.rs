//! The service without its sockets: what a request means, carried out. Everything here may wait for the disk.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use plan::{Plan, Sample};
use tuple::Schema;

use crate::access::{self, Access, Role, Scope};
use crate::alerts::{Alerts, Receiver, Sending};
use crate::delivery::{Deliveries, May, Named, Shown, Unusable};
use crate::fleet::{Fleet, Order, Redaction, Refused, Stop};
use crate::history::History;
use crate::hub::Hub;
use crate::job::{Capture, End, Job, JobId, JobKind, Keep, Outcome, State, TuplesMade};
use crate::leases::Leases;
use crate::limits::Limits;
use crate::meters::Bound;
use crate::store::{NewJob, Remembered, Store, StoreError};
use crate::unkept::Unkept;

/// The file of the first token.
pub const ADMIN_TOKEN: &str = "admin.token";
/// The store.
const STORE: &str = "store.sqlite";

/// A data directory that is this process's.
pub struct Opened {
    folder: PathBuf,
    pub(crate) store: Arc<Store>,
    history: Arc<History>,
    /// What rows are told to.
    pub hub: Arc<Hub>,
    pub(crate) alerts: Arc<Alerts>,
    limits: Limits,
    /// Where the first token is, if it was made just now.
    pub admin_token: Option<PathBuf>,
    /// Addresses that jobs may name as their outlets.
    pub outlets: Named,
    /// Held as long as we are.
    lock: File,
}

impl Opened {
    /// Takes the data directory, which is made if it is missing.
    ///
    /// # Errors
    /// When another process has it, or it cannot be read or written; in words for a person.
    pub fn open(folder: &Path, limits: Limits) -> Result<Opened, String> {
        let name = folder.display();
        let failed = |what: &str, error: &dyn std::fmt::Display| format!("{what} {name}: {error}");
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| failed("cannot make the data directory", &error))?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(folder.join("lock"))
            .map_err(|error| failed("cannot write to the data directory", &error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(format!(
                    "another netalytics serve uses the data directory {name}: end it, or give this one its own with --data"
                ));
            }
            Err(TryLockError::Error(error)) => return Err(failed("cannot lock the data directory", &error)),
        }
        // The store's files are their owner's only, from their first byte on.
        let path = folder.join(STORE);
        OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&path)
            .map_err(|error| failed("cannot write to the data directory", &error))?;
        let store = Store::open(&path).map_err(|error| failed("cannot open the data directory", &error))?;
        let store = Arc::new(store);
        let history = History::open(store.clone(), folder.join("history"))
            .map_err(|error| failed("cannot open the history in", &error))?;
        let history = Arc::new(history);
        let mut boot = [0; 8];
        getrandom::fill(&mut boot).map_err(|error| failed("no random numbers for", &error))?;
        // A number that JavaScript can hold.
        let boot = u64::from_be_bytes(boot) >> 11;
        let alerts = Alerts::open(store.clone(), limits.alerts)
            .map_err(|error| failed("cannot read the alert rules in", &error))?;
        let alerts = Arc::new(alerts);
        let hub = Hub::new(store.clone(), history.clone(), alerts.clone(), limits.clone(), boot);
        let hub = Arc::new(hub);
        let admin_token = first_token(&store, folder)
            .map_err(|error| failed("cannot write the first token into", &error))?;
        let outlets = Named::default();
        Ok(Opened {
            folder: folder.to_owned(),
            store,
            history,
            hub,
            alerts,
            limits,
            admin_token,
            outlets,
            lock,
        })
    }

    /// Who is told of alerts; before the service begins.
    pub fn set_receivers(&self, receivers: Vec<Receiver>) {
        self.alerts.set_receivers(receivers);
    }

    /// The service over this directory, with `fleet` to carry its jobs out. Jobs that had not ended are handed to it.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn serve(self, fleet: Arc<dyn Fleet>) -> Result<Arc<Service>, StoreError> {
        let told = Arc::downgrade(&self.hub);
        let tell =
            move |job, event: &_| told.upgrade().into_iter().for_each(|hub| hub.tell_alert(job, event));
        let sending = Sending::start(&self.alerts, Box::new(tell))?;
        let deliveries =
            Deliveries::new((&self.store, &self.history, &self.hub), self.outlets.clone(), &self.limits);
        let service = Arc::new(Service {
            _sending: sending,
            fleet,
            deliveries,
            shown: Shown::default(),
            schemas: parsers::registry::schemas(),
            submitting: Mutex::new(()),
            leases: Leases::default(),
            opened: self,
        });
        service.resume()?;
        Ok(service)
    }

    /// The store's file in a data directory.
    #[must_use]
    pub fn store_file(folder: &Path) -> PathBuf {
        folder.join(STORE)
    }
}

/// Makes the first token, if there is none at all, and says in which file it is.
fn first_token(store: &Store, folder: &Path) -> io::Result<Option<PathBuf>> {
    if !store.tokens().map_err(io::Error::other)?.is_empty() {
        return Ok(None);
    }
    let path = folder.join(ADMIN_TOKEN);
    // Left of a start that was killed between this and the store.
    let _ = fs::remove_file(&path);
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path)?;
    let made =
        access::make(store, ("admin", Role::Admin, &Scope::default()), None).map_err(io::Error::other)?;
    let Some(made) = made else { return Ok(None) };
    let written = writeln!(file, "{}", made.secret).and_then(|()| file.sync_all());
    if let Err(error) = written {
        // A token that nobody can read is none.
        let _ = store.remove_token(made.token.id);
        return Err(error);
    }
    Ok(Some(path))
}

/// A job as somebody asks for it.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The query.
    pub query: String,
    /// What it is called; else after its number.
    pub name: String,
    /// Whether it ends by itself.
    pub kind: JobKind,
    /// Labels of agents.
    pub on: BTreeMap<String, String>,
    /// Its own.
    pub labels: BTreeMap<String, String>,
    /// Whether texts are folded.
    pub redaction: Redaction,
    /// What agents capture.
    pub capture: Capture,
    /// How many seconds it goes on when nobody renews it.
    pub lease_seconds: Option<u32>,
    /// Where its rows go: names of outlets, or addresses.
    pub to: Vec<String>,
    /// What is kept for queries that come later.
    pub keep: Keep,
}

/// Why something is not done.
#[derive(Debug, thiserror::Error)]
pub enum Denied {
    /// The query is wrong.
    #[error("the query is wrong")]
    Query(Vec<query::Diagnostic>),
    /// It can be read, and asks for what cannot be had so.
    #[error("{0}")]
    Wrong(String),
    /// Nothing that was kept answers it.
    #[error("{0}")]
    NotKept(String),
    /// It took longer than it may.
    #[error("{0}")]
    Late(String),
    /// The token does not allow it.
    #[error("{0}")]
    Forbidden(String),
    /// What was sent is not understood.
    #[error("{0}")]
    Invalid(String),
    /// An outlet cannot be used.
    #[error("{0}")]
    Outlet(String),
    /// Too many already.
    #[error("{0}")]
    Quota(String),
    /// The key was sent with another request.
    #[error("this Idempotency-Key was sent before with another request")]
    KeyReused,
    /// Nobody carries it out.
    #[error(transparent)]
    Fleet(#[from] Refused),
    /// There is no such thing, or the token may not know of it.
    #[error("{0}")]
    Unknown(String),
    /// The store or the history.
    #[error(transparent)]
    Unkept(#[from] Unkept),
}

impl From<StoreError> for Denied {
    fn from(error: StoreError) -> Denied {
        Denied::Unkept(error.into())
    }
}

/// The service.
pub struct Service {
    /// Sends notifications of alerts; ends first.
    _sending: Sending,
    opened: Opened,
    pub(crate) fleet: Arc<dyn Fleet>,
    pub(crate) schemas: Vec<Arc<Schema>>,
    /// One job is submitted at a time: its key is looked up and noted in one go.
    submitting: Mutex<()>,
    leases: Leases,
    pub(crate) deliveries: Deliveries,
    /// What scrapers see of results.
    pub(crate) shown: Shown,
}

impl Service {
    /// What rows are told to.
    #[must_use]
    pub fn hub(&self) -> &Arc<Hub> {
        &self.opened.hub
    }

    /// What was asked.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.opened.store
    }

    pub(crate) fn alerts(&self) -> &Alerts {
        &self.opened.alerts
    }

    pub(crate) fn history(&self) -> &History {
        &self.opened.history
    }

    /// What it may take.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.opened.limits
    }

    /// The data directory.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.opened.folder
    }

    /// Looks after what waits: to be called about every ten seconds.
    pub fn look_after(&self) {
        if let Err(error) = self.hub().look_after() {
            tracing::warn!("{error}");
        }
    }

    /// Jobs that had not ended when the server did.
    fn resume(&self) -> Result<(), StoreError> {
        for job in self.store().unfinished_jobs()? {
            let end = |why: &str| {
                let end = End::new(Outcome::Failed, why);
                self.store().set_state(job.id, &State::Ended(end), None)
            };
            let Ok(query) = self.checked(&job.query) else {
                end("this version of the program does not understand the query any more")?;
                continue;
            };
            if job.tuples.is_some() && job.tuples != tuples_made(&query) {
                end("this version of the program makes other tuples: start it again")?;
                continue;
            }
            let plan = Arc::new(planner::lower(&query));
            self.leases.begin(job.id, job.lease_seconds);
            if let Err(refused) = self.fleet.start(&order(&job, plan)) {
                self.store().set_state(job.id, &State::Planned, Some(&refused.to_string()))?;
            } else if job.state == State::Draining {
                self.fleet.stop(job.id, Stop::Asked);
            }
        }
        for id in self.store().jobs_delivering()? {
            let job = self.store().job(id)?;
            // Of a query that is not understood any more there are no new rows, and nobody knows what those that are there mean.
            let Some(Ok(plan)) = job.map(|job| self.plan(&job.query)) else { continue };
            self.deliveries.begin(id, &plan)?;
        }
        Ok(())
    }

    /// The plan of a query.
    pub(crate) fn plan(&self, text: &str) -> Result<Arc<Plan>, Vec<query::Diagnostic>> {
        self.checked(text).map(|query| Arc::new(planner::lower(&query)))
    }

    /// Makes a job of `asked`, or finds the one that the same request made. `key`: what it was sent with, and its body.
    /// Returns whether it is new.
    pub fn submit(
        &self,
        who: &Access,
        asked: &Submission,
        key: Option<(&str, &[u8])>,
    ) -> Result<(Job, bool), Denied> {
        let _one = self.submitting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((key, body)) = key {
            match self.store().remembered(&who.name, key, body)? {
                Remembered::New => {}
                Remembered::Same(id) => return Ok((self.job(who, id)?, false)),
                Remembered::Other => return Err(Denied::KeyReused),
            }
        }
        let query = self.checked(&asked.query).map_err(Denied::Query)?;
        let (plan, tuples) = (Arc::new(planner::lower(&query)), tuples_made(&query));
        may_ask(who, &plan, asked.redaction)?;
        can_keep(&query, asked)?;
        self.check_quotas(who)?;
        self.may_deliver(who, &asked.to, &plan)?;
        let new = NewJob {
            name: asked.name.clone(),
            query: asked.query.clone(),
            kind: asked.kind,
            owner: who.name.clone(),
            on: asked.on.clone(),
            labels: asked.labels.clone(),
            redacted: asked.redaction == Redaction::Folded,
            capture: asked.capture.clone(),
            lease_seconds: asked.lease_seconds,
            to: asked.to.iter().map(|to| (to.clone(), RandomState::new().hash_one(to))).collect(),
            keep: asked.keep,
            tuples,
        };
        let job = self.store().add_job(&new, key)?;
        if let Err(refused) = self.fleet.start(&order(&job, plan.clone())) {
            self.store().forget_job(job.id)?;
            return Err(refused.into());
        }
        self.leases.begin(job.id, job.lease_seconds);
        self.deliveries.begin(job.id, &plan)?;
        Ok((self.job(who, job.id)?, true))
    }

    /// Whether `who` may have one more job.
    fn check_quotas(&self, who: &Access) -> Result<(), Denied> {
        let Limits { jobs_max, jobs_per_owner_max, .. } = *self.limits();
        let (bound, why) = if self.store().unfinished_count()? >= jobs_max {
            let why = format!("{jobs_max} jobs have not ended, and there may be no more (--jobs-max)");
            (Bound::Jobs, why)
        } else if self.store().unfinished_count_of(&who.name)? >= jobs_per_owner_max {
            let why = format!(
                "{jobs_per_owner_max} jobs of {} have not ended, and one owner may have no more (--jobs-per-owner)",
                who.name
            );
            (Bound::JobsPerOwner, why)
        } else {
            return Ok(());
        };
        self.hub().meters.reached(bound);
        Err(Denied::Quota(why))
    }

    /// A job that `who` may know of.
    pub fn job(&self, who: &Access, id: JobId) -> Result<Job, Denied> {
        let job = self.store().job(id)?.filter(|job| self.may_see(who, job));
        let mut job = [job.ok_or_else(|| Denied::Unknown(format!("there is no job {id}")))?];
        self.tell(&mut job)?;
        let [job] = job;
        Ok(job)
    }

    /// Adds to jobs, as the store has them, what else is known.
    pub(crate) fn tell(&self, jobs: &mut [Job]) -> Result<(), StoreError> {
        self.hub().add_unwritten(jobs);
        self.deliveries.tell(jobs)
    }

    /// Whether `who` may have a job's rows delivered there, and they can be.
    fn may_deliver(&self, who: &Access, to: &[String], plan: &Plan) -> Result<(), Denied> {
        let may = if who.role >= Role::Admin { May::GiveAddresses } else { May::UseNames };
        self.deliveries.named().check(to, may, plan).map_err(|unusable| match unusable {
            Unusable::Wrong(why) => Denied::Outlet(why),
            Unusable::Forbidden(why) => Denied::Forbidden(why),
        })?;
        if !to.is_empty() && !self.deliveries.has_room(to.len()) {
            self.hub().meters.reached(Bound::Outlets);
            let most = self.limits().outlets_max;
            return Err(Denied::Quota(format!(
                "jobs have {most} outlets, and there may be no more (--outlets-max)"
            )));
        }
        Ok(())
    }

    /// Whether `who` may know of a job: its query keeps to the token's networks.
    pub fn may_see(&self, who: &Access, job: &Job) -> bool {
        who.scope == Scope::default()
            || self.plan(&job.query).is_ok_and(|plan| who.scope.allows(&plan.monitor))
    }

    /// Whether `who` may see a job's rows: tuples and texts that are not folded are for *raw*.
    pub fn may_see_rows(&self, who: &Access, job: &Job) -> Result<(), Denied> {
        match job.redacted || who.role >= Role::Raw {
            true => Ok(()),
            false => {
                Err(Denied::Forbidden("this job's texts are not folded: its rows need the role raw".into()))
            }
        }
    }

    /// Stops a job.
    pub fn stop(&self, who: &Access, id: JobId) -> Result<Job, Denied> {
        let job = self.own(who, id, "stops")?;
        self.end(&job, Stop::Asked)?;
        self.job(who, id)
    }

    /// Lets a job with a lease go on for as long again.
    pub fn renew(&self, who: &Access, id: JobId) -> Result<Job, Denied> {
        let job = self.own(who, id, "renews")?;
        self.leases.renew(job.id);
        Ok(job)
    }

    /// Ends jobs whose leases nobody has renewed.
    pub(crate) fn end_abandoned(&self) {
        for id in self.leases.over() {
            let ended = match self.store().job(id) {
                Ok(Some(job)) => self.end(&job, Stop::Abandoned),
                Ok(None) => Ok(()),
                Err(error) => Err(error.into()),
            };
            match ended {
                Ok(()) => self.leases.forget(id),
                Err(error) => tracing::warn!("job {id}, which nobody wants any more, does not end: {error}"),
            }
        }
    }

    /// A job with which `who` may do what its owner may.
    fn own(&self, who: &Access, id: JobId, what: &str) -> Result<Job, Denied> {
        let job = self.job(who, id)?;
        match job.owner == who.name || who.role >= Role::Admin {
            true => Ok(job),
            false => Err(Denied::Forbidden(format!(
                "job {id} belongs to {}: only that token or an admin's {what} it",
                job.owner
            ))),
        }
    }

    fn end(&self, job: &Job, stop: Stop) -> Result<(), Denied> {
        match job.state {
            State::Ended(_) => {}
            // Nobody has it: there is nothing to wait for.
            State::Planned if job.reason.is_some() => {
                let end = End::new(stop.outcome(), "stopped before it ran");
                self.hub().turn(job.id, State::Ended(end), None)?;
            }
            _ => {
                self.hub().turn(job.id, State::Draining, None)?;
                self.fleet.stop(job.id, stop);
            }
        }
        Ok(())
    }
}

/// What makes the rows of a query, where they are tuples.
fn tuples_made(query: &query::Query) -> Option<TuplesMade> {
    let sample = match query.sample {
        Sample::All => "all".into(),
        Sample::Auto => "auto".into(),
        Sample::Fraction(share) => share.to_string(),
    };
    let parsers = query.inputs.iter().map(|input| (input.schema.name.to_string(), input.schema.version));
    query.processors.is_empty().then(|| TuplesMade { parsers: parsers.collect(), sample })
}

/// Whether a job can be what is asked for: it has no past, and tuples are kept whole.
fn can_keep(query: &query::Query, asked: &Submission) -> Result<(), Denied> {
    let keeps = asked.keep == Keep::Tuples;
    let rows = &query.rows;
    let why = if !query.period.is_open() || query.baseline.is_some() {
        "a job sees what comes from now on: SINCE, UNTIL and BASELINE ask of what was kept (POST /api/v1/query), and LIMIT says \
         how long a job lasts"
    } else if keeps && asked.kind != JobKind::Standing {
        "tuples are kept by standing jobs: say that it is one (kind, --standing)"
    } else if keeps && !query.processors.is_empty() {
        "what is kept are tuples, of which any results can be made later: leave out PROCESS"
    } else if keeps
        && (!rows.order.is_empty() || rows.rows_max.is_some() || query.limit != plan::Limit::default())
    {
        "tuples are kept for good, as they come: leave out ORDER BY and LIMIT"
    } else if keeps && query.sample == Sample::Auto {
        "at a rate that changes tuples cannot be scaled later: say which share of the flows, as in SAMPLE 0.1"
    } else {
        return Ok(());
    };
    Err(Denied::Wrong(why.into()))
}

fn order(job: &Job, plan: Arc<Plan>) -> Order {
    Order {
        id: job.id,
        plan,
        on: job.on.clone(),
        kind: job.kind,
        capture: Capture { interfaces: job.interfaces.clone(), filter: job.capture_filter.clone() },
        redaction: if job.redacted { Redaction::Folded } else { Redaction::Raw },
    }
}

/// Whether a token allows a query.
fn may_ask(who: &Access, plan: &Plan, redaction: Redaction) -> Result<(), Denied> {
    if who.role < Role::Raw && plan.dataflow.pipelines.is_empty() {
        return Err(Denied::Forbidden(
            "a query without PROCESS asks for the tuples themselves, which needs the role raw".into(),
        ));
    }
    if who.role < Role::Raw && redaction == Redaction::Raw {
        return Err(Denied::Forbidden("texts that are not folded need the role raw".into()));
    }
    if !who.scope.allows(&plan.monitor) {
        return Err(Denied::Forbidden(
            "this token is for some networks only: say FROM or TO with addresses inside them, and no others"
                .into(),
        ));
    }
    Ok(())
}

impl Drop for Opened {
    fn drop(&mut self) {
        // Said so that the field is seen to be of use: the lock goes with the file.
        let _ = self.lock.unlock();
    }
}
