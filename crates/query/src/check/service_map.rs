//! The processor `service-map`: an ordinary pipeline with pairs of client and service as groups. Its aggregates
//! depend on the parser's columns.

use plan::{AggregateColumn, AggregateFunction, AggregatedValue, Column, GroupBy, Pipeline};
use tuple::{Unit, common};

use super::condition::builtin;
use super::processor::{CheckedProcessor, GROUPS, GROUPS_MAX, ProcessorReader};
use crate::Diagnostic;
use crate::blocks::ProcessorBlock;

/// Fields with the bytes of either direction, by their names in parsers.
const BYTES: &[&str] = &[
    "request_bytes",
    "response_bytes",
    "client_bytes",
    "server_bytes",
    "value_bytes",
    "packet_bytes",
];
/// Field with the application protocol.
const APPLICATION: &str = "application";
/// Field with the time up to the last byte of the response, and the names of its sum and its high quantile.
const TOTAL_TIME: &str = "total_time_ns";
const P99_OF_TOTAL: &str = "p99_total_time_ns";
/// The median, and a high quantile.
const QUANTILES: [(f64, &str); 2] = [(0.5, "p50_ns"), (0.99, "p99_ns")];

impl ProcessorReader<'_> {
    /// Checks the processor; `None` on error.
    pub(super) fn service_map(mut self) -> Option<CheckedProcessor> {
        let place = self.place(ProcessorBlock::ServiceMap).unwrap_or_default();
        self.stands_alone(
            ProcessorBlock::ServiceMap,
            &["group", "value", "key", "k", "q", "by", "of", "near"],
        );
        let window = self.window();
        let groups_max = self
            .whole_number("groups_max", GROUPS_MAX)
            .unwrap_or(GROUPS);
        let [schema] = self.scope.inputs else {
            if self.scope.is_complete() {
                let error = Diagnostic::new(place, "`service-map` needs exactly one parser");
                self.errors.push(
                    error.hint("use one query per parser, or `netalytics map` for all protocols"),
                );
            }
            return None;
        };
        let column = |field| Column { input: 0, field };
        let ends = [common::CLIENT_IP, common::SERVER_IP, common::SERVER_PORT].map(column);
        let group: Vec<GroupBy> = ends
            .into_iter()
            .chain(self.scope.exact(APPLICATION))
            .map(|column| GroupBy {
                column,
                name: self.scope.field(column).name.to_string(),
            })
            .collect();
        let mut aggregates = vec![
            AggregateFunction::Count.into(),
            AggregateFunction::Rate.into(),
        ];
        let success = schema
            .facts
            .success
            .and_then(|text| builtin(text, *self.scope, 0));
        aggregates.extend(success.map(|condition| AggregateFunction::Success(condition).into()));
        let is_success = aggregates.len() > 2;
        let mut values = Vec::new();
        if let Some(field) = schema
            .measure
            .filter(|field| schema.field(*field).unit == Unit::Nanoseconds)
        {
            values.push(AggregatedValue {
                column: column(field),
                unit: Unit::Nanoseconds,
            });
            let named = |aggregate, value, name: &str| AggregateColumn {
                aggregate,
                value,
                name: Some(name.into()),
            };
            aggregates.push(named(AggregateFunction::Sum, 0, "time_ns"));
            aggregates
                .extend(QUANTILES.map(|(q, name)| named(AggregateFunction::Quantile(q), 0, name)));
            if let Some(column) = self.scope.exact(TOTAL_TIME) {
                values.push(AggregatedValue {
                    column,
                    unit: Unit::Nanoseconds,
                });
                aggregates.push(named(AggregateFunction::Sum, 1, TOTAL_TIME));
                aggregates.push(named(AggregateFunction::Quantile(0.99), 1, P99_OF_TOTAL));
            }
        }
        for (name, column) in BYTES
            .iter()
            .filter_map(|name| Some((*name, self.scope.exact(name)?)))
        {
            let value = values.len();
            values.push(AggregatedValue {
                column,
                unit: Unit::Bytes,
            });
            aggregates.push(AggregateColumn {
                aggregate: AggregateFunction::Sum,
                value,
                name: Some(name.into()),
            });
        }
        let mut processor = Pipeline {
            name: self.ast.name.text.clone(),
            values,
            value_required: false,
            group,
            aggregates,
            top_k: None,
            window,
            groups_max,
            selection: plan::ResultSelection::default(),
            profile: None,
        };
        processor.selection = self.selection(&processor);
        Some(CheckedProcessor {
            processor,
            success: is_success.then_some((0, place)),
        })
    }
}
