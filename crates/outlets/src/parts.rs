//! What an outlet is made of, by its scheme: who makes messages of rows, and who takes them there.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::address::{Address, Scheme};
use crate::lines::Lines;
use crate::otlp::{self, Requests};
use crate::outlets::Limits;
use crate::prometheus::{Board, Posting, Scrapes};
use crate::redis::{Commands, Keys, Server};
use crate::tally::Tally;
use crate::tcp::Tcp;
use crate::webhook::{self, Batches};
use crate::worker::{Mapping, Transport};

/// What makes an outlet's messages, and what takes them there.
pub type Parts = (Box<dyn Mapping>, Box<dyn Transport>);

/// The parts of an outlet. `tallies`: of all outlets beside it, for a page that tells of them. `run` begins the identifiers of
/// messages.
///
/// # Errors
/// A sentence.
pub fn parts(
    address: &Address,
    limits: &Limits,
    tallies: &[(String, Arc<Tally>)],
    run: u64,
) -> Result<Parts, String> {
    Ok(match address.scheme {
        Scheme::Tcp | Scheme::TcpTls => (Box::new(Lines::default()), Box::new(Tcp::new(address)?)),
        Scheme::Prometheus => {
            let board = Board::new(limits.series_max, tallies.to_vec());
            (Box::new(Posting::new(board.clone())), Box::new(Scrapes::new(address, board)?))
        }
        Scheme::Redis | Scheme::RedisTls => {
            let keys = Keys {
                prefix: address.text("prefix", "netalytics").to_owned(),
                entries_max: address.number("entries", 100_000)?,
                seconds: address.number("keep", 3600)?,
            };
            (Box::new(Commands::new(keys)), Box::new(Server::new(address)?))
        }
        Scheme::Webhook | Scheme::WebhookTls => {
            (Box::new(Batches::default()), Box::new(webhook::Receiver::new(address, run)?))
        }
        Scheme::Otlp | Scheme::OtlpTls => {
            (Box::new(Requests::new(limits.series_max, now_ns)), Box::new(otlp::Collector::new(address)?))
        }
    })
}

/// Nanoseconds since 1970, for what has no time of its own.
fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
