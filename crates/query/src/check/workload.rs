//! The processor `workload-profile`: the columns of its parser.

use plan::{Column, Pipeline, ProfileSpec, ResultSelection};
use tuple::common;

use super::condition::builtin;
use super::processor::{CheckedProcessor, K, K_MAX, ProcessorReader};
use crate::blocks::ProcessorBlock;
use crate::error::quoted;
use crate::nearest::one_of;
use crate::{Diagnostic, literal};

/// Default maximum keys per list and window.
const KEYS: usize = 10_000;
/// Maximum distance between the end of the previous operation and the start of a sequential one, in multiples of its
/// size: requests in sequence may be answered, and thus reported, one or two positions out of order.
const NEAR: u64 = 2;
const NEAR_MAX: i128 = 1024;

impl ProcessorReader<'_> {
    /// Checks the processor; `None` on error.
    pub(super) fn workload_profile(mut self) -> Option<CheckedProcessor> {
        let place = self
            .place(ProcessorBlock::WorkloadProfile)
            .unwrap_or_default();
        self.stands_alone(
            ProcessorBlock::WorkloadProfile,
            &["group", "value", "q", "slide", "by", "of"],
        );
        self.nothing_is_selected();
        let key = self.arg("key").and_then(|arg| self.column(arg));
        let k = self.whole_number("k", K_MAX).unwrap_or(K);
        let near = self.near();
        let window = self.window();
        let groups_max = self
            .whole_number("groups_max", KEYS as i128)
            .unwrap_or(KEYS);
        let [schema] = self.scope.inputs else {
            if self.scope.is_complete() {
                self.errors.push(Diagnostic::new(
                    place,
                    "`workload-profile` needs exactly one parser",
                ));
            }
            return None;
        };
        let Some(fact) = schema.facts.workload else {
            let message = "`workload-profile` needs a parser whose tuples are operations";
            let parsers = one_of(self.scope.parsers_with(|facts| facts.workload.is_some()));
            self.errors
                .push(Diagnostic::new(place, message).hint(format!("those are {parsers}")));
            return None;
        };
        let field = |name| self.scope.exact(name);
        let condition = |text| builtin(text, *self.scope, 0);
        let operation = field(fact.operation)?;
        let own_key = schema.key.map(|field| Column { input: 0, field });
        let profile = ProfileSpec {
            operation,
            reads: condition(fact.reads)?,
            writes: condition(fact.writes)?,
            success: schema.facts.success.and_then(condition),
            status: field(fact.status),
            response_time: field("response_time_ns"),
            read_bytes: field(fact.bytes[0]),
            write_bytes: field(fact.bytes[1]),
            size: field("count"),
            offset: field("offset"),
            file: field("file_handle"),
            aligned: field("aligned"),
            checksums: field("block_checksums"),
            object: key.or(own_key.filter(|key| *key != operation)),
            client: Column {
                input: 0,
                field: common::CLIENT_IP,
            },
            k,
            near,
        };
        let name = self.ast.name.text.clone();
        let processor = Pipeline {
            name,
            value_required: false,
            values: Vec::new(),
            group: Vec::new(),
            aggregates: Vec::new(),
            top_k: None,
            window,
            groups_max,
            selection: ResultSelection::default(),
            profile: Some(profile),
        };
        Some(CheckedProcessor {
            processor,
            success: None,
        })
    }

    /// Reports other blocks of the chain, and arguments that this block does not support.
    pub(super) fn stands_alone(&mut self, block: ProcessorBlock, useless: &[&str]) {
        if self.chain.len() > 1 {
            let place = self.place(block).unwrap_or_default();
            let error = Diagnostic::new(place, format!("`{}` stands alone", block.name()));
            self.errors
                .push(error.hint("put the other blocks into another processor"));
        }
        for name in useless {
            if let Some(arg) = self.arg(name) {
                let message = format!("`{name}` has no effect with `{}`", block.name());
                self.errors.push(Diagnostic::new(arg.name.span, message));
            }
        }
    }

    fn near(&mut self) -> u64 {
        let Some(atom) = self.arg("near").and_then(|arg| self.single(arg)) else {
            return NEAR;
        };
        match literal::whole(&atom.text) {
            Ok(n @ 0..=NEAR_MAX) => n as u64,
            _ => {
                let message = format!("{} is not valid for `near`", quoted(&atom.text));
                let error = Diagnostic::new(atom.span, message);
                self.errors
                    .push(error.expected(format!("a whole number from 0 to {NEAR_MAX}")));
                NEAR
            }
        }
    }
}
