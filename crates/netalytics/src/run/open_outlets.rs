//! Outlets of a query by its flags: opens them and restricts their threads.

use std::sync::Arc;
use std::time::Duration;

use capture::seccomp::{self, FileAccess, NetworkAccess};
use outlets::address::SystemSecrets;
use outlets::{OutletAddress, OutletLimits, OutletSink};
use query::CheckedQuery;
use sinks::{DeliveryOutcome, ResultHead, Sink, TeeSink};
use tracing::warn;
use tuple::RedactionSecret;

use crate::cli::flags::live::LiveFlags;
use crate::cli::flags::outlets::OutletFlags;
use crate::process::failure::wrong_flags;
use crate::run::privileges;
use crate::run::redaction::behind;

/// Open outlets.
pub struct OpenOutlets(OutletSink);

impl OpenOutlets {
    /// Opens files that may need privileges; `None` without outlets. `query`: text that identifies the rows for
    /// receivers.
    pub fn prepare(flags: &OutletFlags, query: &str) -> anyhow::Result<Option<OpenOutlets>> {
        if flags.to.is_empty() {
            return Ok(None);
        }
        let wrong = |why: String| wrong_flags(format!("--to: {why}"));
        let time = |ns: i64| Duration::from_nanos(ns.unsigned_abs());
        let limits = OutletLimits {
            queue_bytes: flags.to_buffer,
            series_max: flags.to_series,
            retry_max: time(flags.to_retry),
            end_max: time(flags.to_timeout),
        };
        let addresses = addresses(flags)?;
        let outlets =
            OutletSink::prepare(&addresses, limits, query).map_err(|refused| wrong(refused.0))?;
        Ok(Some(OpenOutlets(outlets)))
    }

    /// Starts the threads. In a live capture these may connect, unlike the threads that read packets.
    pub fn start(&mut self, live: &LiveFlags) -> anyhow::Result<()> {
        let is_restricted = privileges::restricts_system_calls(live);
        let first = move || {
            if is_restricted
                && let Err(why) = seccomp::restrict(FileAccess::ReadOnly, NetworkAccess::Internet)
            {
                warn!("{why}");
            }
        };
        Ok(self
            .0
            .start(&(Arc::new(first) as Arc<dyn Fn() + Send + Sync>))?)
    }

    /// Announces the results to the outlets.
    pub fn open(self, heads: &[ResultHead]) -> OutletSink {
        let OpenOutlets(mut outlets) = self;
        outlets.announce(heads);
        outlets
    }

    /// Combines `sink` with the outlets, which have their own redactor.
    pub fn beside(
        self,
        sink: Box<dyn Sink>,
        heads: &[ResultHead],
        secret: Option<RedactionSecret>,
    ) -> Box<dyn Sink> {
        Box::new(TeeSink::new(sink, behind(self.open(heads), secret)))
    }
}

/// Rejects outlets that cannot receive the rows of `query`.
pub fn check(flags: &OutletFlags, query: &CheckedQuery) -> anyhow::Result<()> {
    let addresses = addresses(flags)?;
    if addresses.is_empty() {
        return Ok(());
    }
    let plan = planner::lower(query);
    addresses.iter().try_for_each(|address| {
        outlets::check_rows(address, &plan.dataflow)
            .map_err(|why| wrong_flags(format!("--to {address}: {why}")))
    })
}

fn addresses(flags: &OutletFlags) -> anyhow::Result<Vec<OutletAddress>> {
    let wrong = |why: String| wrong_flags(format!("--to: {why}"));
    flags
        .to
        .iter()
        .map(|to| OutletAddress::read(to, &SystemSecrets).map_err(wrong))
        .collect()
}

/// Message about failed deliveries.
pub fn complaint(delivered: &DeliveryOutcome) -> Option<String> {
    let lost = delivered.lost_rows();
    let causes = delivered.lost.iter().filter(|(_, rows)| *rows > 0);
    let causes: Vec<String> = causes
        .map(|(cause, rows)| format!("{cause} {rows}"))
        .collect();
    let problem = delivered
        .problem
        .as_ref()
        .map_or(String::new(), |problem| format!(": {problem}"));
    let DeliveryOutcome { to, rows, .. } = delivered;
    (lost > 0).then(|| {
        format!(
            "--to {to}: {lost} of {rows} rows were lost ({}){problem}",
            causes.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    /// Attributes of the OpenTelemetry semantic conventions 1.37 (<https://opentelemetry.io/docs/specs/semconv/registry/attributes/>).
    const REGISTRY: &[&str] = &[
        "cassandra.consistency.level",
        "cassandra.page.size",
        "client.address",
        "client.port",
        "db.collection.name",
        "db.namespace",
        "db.operation.batch.size",
        "db.operation.name",
        "db.query.summary",
        "db.query.text",
        "db.response.returned_rows",
        "db.response.status_code",
        "destination.address",
        "destination.port",
        "dns.question.name",
        "error.type",
        "http.request.header.host",
        "http.request.method",
        "http.response.header.content_type",
        "http.response.status_code",
        "messaging.batch.message_count",
        "messaging.client.id",
        "messaging.consumer.group.name",
        "messaging.destination.name",
        "messaging.destination.partition.id",
        "messaging.kafka.offset",
        "messaging.operation.name",
        "network.protocol.version",
        "network.transport",
        "onc_rpc.procedure.name",
        "server.address",
        "server.port",
        "rpc.method",
        "rpc.status_code",
        "source.address",
        "source.port",
        "tls.cipher",
        "tls.client.server_name",
        "tls.next_protocol",
        "tls.protocol.version",
        "url.full",
        "url.path",
        "url.query",
        "url.scheme",
        "url.template",
        "user_agent.original",
    ];

    #[test]
    fn exported_attributes_are_registered_and_of_columns() {
        for (parser, column, attribute) in outlets::attributes() {
            assert!(REGISTRY.contains(&attribute), "{attribute}");
            let has = |schema: &std::sync::Arc<tuple::Schema>| schema.find(column).is_some();
            let is_column = match parser {
                "*" => parsers::registry::schemas().iter().any(has),
                name => parsers::registry::schema(name).as_ref().is_some_and(has),
            };
            assert!(is_column, "{parser}: {column}");
        }
    }
}
