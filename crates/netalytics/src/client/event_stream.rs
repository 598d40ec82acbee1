//! Events of a job from the server's live stream (server-sent events). They signal new rows and contain open windows;
//! final rows are read by number, so lost events and disconnections are harmless. A thread receives the events and
//! reconnects.

use std::io::{self, BufRead, BufReader};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use connect::RetryPolicy;
use serde_json::Value;

use crate::client::server_client::{ServerClient, ServerRequest};

/// Silence after which a stream is abandoned; the server sends something at least every ten seconds.
const SILENCE: Duration = Duration::from_secs(25);

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub enum JobEvent {
    /// New rows may be available.
    Rows,
    /// Content of an open window.
    Open {
        /// Index of the result.
        result: usize,
        /// Rows as lists of cells.
        rows: Value,
    },
    /// State of the job.
    Job(Value),
    /// The server is reachable.
    Alive,
}

/// See the module documentation.
pub struct JobEventStream {
    remote: ServerClient,
    path: String,
    heard: Receiver<JobEvent>,
    last: Instant,
}

impl JobEventStream {
    /// Subscribes to the events of a job.
    ///
    /// # Errors
    /// `io::Error` if the system cannot create a thread.
    pub fn begin(remote: &ServerClient, job: &str) -> io::Result<JobEventStream> {
        let path = format!("/api/v1/stream?jobs={job}");
        let remote = remote.patient(None);
        let heard = listen(&remote, &path)?;
        Ok(JobEventStream {
            remote,
            path,
            heard,
            last: Instant::now(),
        })
    }

    /// Waits up to `patience` for events.
    ///
    /// # Errors
    /// `io::Error` if the system cannot create a thread.
    pub fn wait(&mut self, patience: Duration) -> io::Result<Vec<JobEvent>> {
        let first = match self.heard.recv_timeout(patience) {
            Ok(news) => news,
            Err(why) => {
                if why == RecvTimeoutError::Disconnected {
                    std::thread::sleep(patience);
                }
                if self.last.elapsed() > SILENCE {
                    // The previous thread ends when its channel is closed.
                    self.heard = listen(&self.remote, &self.path)?;
                    self.last = Instant::now();
                }
                return Ok(Vec::new());
            }
        };
        self.last = Instant::now();
        Ok(std::iter::once(first)
            .chain(self.heard.try_iter())
            .collect())
    }
}

fn listen(remote: &ServerClient, path: &str) -> io::Result<Receiver<JobEvent>> {
    let (tell, heard) = channel();
    let remote = remote.clone();
    let path = path.to_owned();
    let mut delays = RetryPolicy::EVENTS.delays(u64::from(std::process::id()));
    let call = move || {
        loop {
            if let Ok(response) = remote.open(&ServerRequest::plain("GET", &path))
                && read(BufReader::new(response.into_body().into_reader()), &tell).is_err()
            {
                return;
            }
            std::thread::sleep(delays.next_delay());
            // Missed events are replaced by reading the rows.
            if tell.send(JobEvent::Rows).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new()
        .name("watch".into())
        .spawn(call)?;
    Ok(heard)
}

/// The receiver was dropped.
struct ReceiverGone;

/// Reads a stream to its end.
fn read(mut stream: impl BufRead, tell: &Sender<JobEvent>) -> Result<(), ReceiverGone> {
    let mut kind = String::new();
    let mut data = String::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        match stream.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return Ok(()),
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\n', '\r']);
        match text.split_once(':') {
            Some(("event", value)) => kind = value.trim_start().to_owned(),
            Some(("data", value)) => data.push_str(value.trim_start()),
            Some(("", _)) => tell.send(JobEvent::Alive).map_err(|_| ReceiverGone)?,
            None if text.is_empty() => {
                for news in of_event(&kind, &data) {
                    tell.send(news).map_err(|_| ReceiverGone)?;
                }
                kind.clear();
                data.clear();
            }
            _ => {}
        }
    }
}

/// Converts a server event.
fn of_event(kind: &str, data: &str) -> Vec<JobEvent> {
    let Ok(data) = serde_json::from_str::<Value>(data) else {
        return Vec::new();
    };
    match kind {
        "snapshot" => vec![JobEvent::Rows, JobEvent::Job(data)],
        "job" => vec![JobEvent::Job(data)],
        "window" if data["state"] == "open" => {
            let result = data["result"]
                .as_u64()
                .and_then(|result| usize::try_from(result).ok());
            let open = |result| JobEvent::Open {
                result,
                rows: data["rows"].clone(),
            };
            result.map(open).into_iter().collect()
        }
        "window" | "gap" => vec![JobEvent::Rows],
        _ => vec![JobEvent::Alive],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_news() {
        let stream = "event: hello\ndata: {}\n\n:\n\nevent: window\nid: 1:2\ndata: {\"state\": \"open\", \"result\": 1, \"rows\": [[1]]}\n\n\
                      event: window\ndata: {\"state\": \"closed\"}\r\n\r\nevent: job\ndata: {\"state\": \"ended\"}\n\nevent: job\ndata: {";
        let (tell, heard) = channel();
        assert!(read(stream.as_bytes(), &tell).is_ok());
        let open = JobEvent::Open {
            result: 1,
            rows: json!([[1]]),
        };
        let ended = JobEvent::Job(json!({ "state": "ended" }));
        let all: Vec<JobEvent> = heard.try_iter().collect();
        assert_eq!(
            all,
            [
                JobEvent::Alive,
                JobEvent::Alive,
                open,
                JobEvent::Rows,
                ended
            ]
        );
        drop(heard);
        assert!(read(stream.as_bytes(), &tell).is_err());
    }
}
