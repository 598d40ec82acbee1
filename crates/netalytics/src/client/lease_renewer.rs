//! Keeps a job running: renews its lease, and asks the server to stop it when the run should end, independent of other
//! requests.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use capture::live::StopSignal;
use connect::RetryPolicy;

use crate::client::server_client::{ServerClient, ServerRequest, ServerRequestError};

/// Interval at which the thread checks whether to stop.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Timeout of a response.
const PATIENCE: Duration = Duration::from_secs(5);

/// State of the job known to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum JobRunState {
    /// Running.
    Wanted,
    /// The stop request was received.
    Stopped,
    /// The run is complete.
    Over,
}

/// See the module documentation.
pub struct LeaseRenewer {
    known: Arc<AtomicU8>,
}

impl LeaseRenewer {
    /// Renews the lease of a job until `stop` is set, then stops the job.
    ///
    /// # Errors
    /// `io::Error` if the system cannot create a thread.
    pub fn begin(
        remote: &ServerClient,
        job: &str,
        lease: Duration,
        stop: &StopSignal,
    ) -> io::Result<LeaseRenewer> {
        let known = Arc::new(AtomicU8::new(JobRunState::Wanted as u8));
        let keeper = LeaseRenewer {
            known: known.clone(),
        };
        let remote = remote.patient(Some(PATIENCE));
        let stop = stop.clone();
        let job = job.to_owned();
        let keep = move || keep(&remote, &job, lease, &stop, &known);
        std::thread::Builder::new()
            .name("keeper".into())
            .spawn(keep)?;
        Ok(keeper)
    }

    /// Waits for a limited time until the server has received the stop request; returns whether it has.
    pub fn is_stopped(&self) -> bool {
        let until = Instant::now() + 2 * PATIENCE;
        while self.known.load(Ordering::Relaxed) == JobRunState::Wanted as u8 {
            if Instant::now() > until {
                return false;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        true
    }
}

impl Drop for LeaseRenewer {
    fn drop(&mut self) {
        self.known.store(JobRunState::Over as u8, Ordering::Relaxed);
    }
}

fn keep(remote: &ServerClient, job: &str, lease: Duration, stop: &StopSignal, known: &AtomicU8) {
    let every = lease / 3;
    let mut delays = RetryPolicy::COMMAND.delays(u64::from(std::process::id()));
    let mut renew_at = Instant::now() + every;
    let mut stop_at = Instant::now();
    let is = |what: JobRunState| known.load(Ordering::Relaxed) == what as u8;
    while !is(JobRunState::Over) {
        let now = Instant::now();
        if stop.is_asked() && is(JobRunState::Wanted) && stop_at <= now {
            match remote.try_ask(&ServerRequest::plain(
                "DELETE",
                &format!("/api/v1/jobs/{job}"),
            )) {
                Ok(_) | Err(ServerRequestError::Refused(_)) => {
                    known.store(JobRunState::Stopped as u8, Ordering::Relaxed)
                }
                Err(ServerRequestError::Nobody(_) | ServerRequestError::Later(_)) => {
                    stop_at = Instant::now() + delays.next_delay()
                }
            }
        }
        if renew_at <= now {
            let renewed = remote.try_ask(&ServerRequest::plain(
                "POST",
                &format!("/api/v1/jobs/{job}/renew"),
            ));
            renew_at = Instant::now()
                + if renewed.is_ok() {
                    every
                } else {
                    every.min(delays.next_delay())
                };
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
