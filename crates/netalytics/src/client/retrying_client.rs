//! Requests to a server with retries.

use std::time::{Duration, Instant};

use connect::RetryPolicy;
use serde_json::Value;

use crate::client::server_client::{ServerClient, ServerRequest, ServerRequestError};
use crate::process::output;

/// Time without an answer after which a server is abandoned.
const GIVE_UP: Duration = Duration::from_secs(300);

/// Connection to the server that repeats requests until the server responds.
pub struct RetryingClient {
    /// The server.
    pub remote: ServerClient,
    broken: Option<Instant>,
}

impl RetryingClient {
    /// Before the first request.
    pub fn new(remote: ServerClient) -> RetryingClient {
        RetryingClient {
            remote,
            broken: None,
        }
    }

    /// Repeats a request until it succeeds, is rejected, or has failed for five minutes.
    pub fn ask<T>(
        &mut self,
        mut ask: impl FnMut(&ServerClient) -> Result<T, ServerRequestError>,
    ) -> anyhow::Result<T> {
        let mut delays = RetryPolicy::COMMAND.delays(u64::from(std::process::id()));
        loop {
            let error = match ask(&self.remote) {
                Ok(answer) => {
                    if self.broken.take().is_some() {
                        output::complain("note: the server responds again");
                    }
                    return Ok(answer);
                }
                Err(ServerRequestError::Refused(error)) => return Err(error),
                Err(ServerRequestError::Nobody(error) | ServerRequestError::Later(error)) => error,
            };
            match self.broken {
                None => {
                    output::complain(&format!("note: {error:#}; retrying"));
                    self.broken = Some(Instant::now());
                }
                Some(since) if since.elapsed() > GIVE_UP => return Err(error),
                Some(_) => {}
            }
            std::thread::sleep(delays.next_delay());
        }
    }

    /// Sends a request; returns the JSON response.
    pub fn get(&mut self, path: &str) -> anyhow::Result<Value> {
        self.ask(|remote| remote.try_json(&ServerRequest::plain("GET", path)))
    }
}
