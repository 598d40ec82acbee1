//! Effects of finished cycles on the connection (account, prepared statements, portals), and the tuples.

use memchr::memchr;
use wire::{TcpSeq, Timestamp};

use super::columns::{FINGERPRINT, QUERY, SUMMARY};
use super::cycle::{PostgresRequest, PostgresRequestKind, PostgresStep, PostgresStepKind};
use super::response::{PostgresCopy, PostgresResponse, PostgresResult};
use super::statements::{DIALECT, PostgresStatements};
use super::tuples::{PostgresAccount, PostgresOutcome, PostgresTuple};
use crate::pairing::{MessageCompleteness, PairedTransaction, TransactionOutcome};
use crate::sql::fingerprint::fingerprint_in;
use crate::sql::statements::statements;
use crate::{ParserOutput, TupleQuality};

/// Maximum length of a Query whose fingerprint is cached.
const SHORT_MAX: usize = 512;
/// Steps before a failed execution that are searched for its statement.
const SCAN_MAX: usize = 1024;
/// SQLSTATE of an unknown statement (`invalid_sql_statement_name`).
const UNKNOWN_STATEMENT: [u8; 5] = *b"26000";

/// Effect of a cycle on the parser.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PostgresSessionChange {
    /// Nothing.
    #[default]
    None,
    /// The server accepts encryption: the next bytes are encrypted.
    Encrypted,
    /// The same: the client continues with another request of its start.
    NotEncrypted,
    /// Nothing that can be parsed follows.
    End,
}

/// A cycle to be written.
struct PostgresCycle<'a> {
    request: &'a PostgresRequest,
    response: Option<&'a PostgresResponse>,
    /// The response is complete.
    is_over: bool,
    has_request: bool,
    quality: TupleQuality,
}

/// The statement that an execution refers to.
struct ExecutedText<'a> {
    name: Option<&'a [u8]>,
    query: Option<&'a [u8]>,
    fingerprint: Option<&'a [u8]>,
    /// The text is complete, and certainly that of the statement.
    is_whole: bool,
}

/// Connection state set by cycles.
#[derive(Default)]
pub struct PostgresSessionState {
    parameters: Option<Vec<u8>>,
    /// Process that serves the connection.
    pub backend_pid: Option<u32>,
    statements: PostgresStatements,
    /// Number of losses of the client's bytes, and the number already accounted for.
    losses: u32,
    settled: u32,
    emitted: bool,
    /// Texts of statements are wanted.
    pub keeps_text: bool,
    /// The last byte of the result before, if known; the earliest time before the first one.
    previous_end: Option<Timestamp>,
    /// Position of that byte's end; none before the first one.
    previous_place: Option<TcpSeq>,
    fingerprint: Vec<u8>,
}

impl PostgresSessionState {
    /// Determines the wanted columns before the first bytes.
    pub fn start(&mut self, out: &ParserOutput<'_>) {
        self.keeps_text = [QUERY, FINGERPRINT, SUMMARY].iter().any(|f| out.wants(*f));
        self.previous_end = (!out.flow.midstream).then_some(Timestamp::MIN);
    }

    /// Records that bytes of the client are missing.
    pub fn miss_requests(&mut self) {
        self.losses = self.losses.saturating_add(1);
    }

    /// Number of losses of the client's bytes.
    pub fn losses(&self) -> u32 {
        self.losses
    }

    /// Applies and writes a finished cycle.
    pub fn conclude(
        &mut self,
        transaction: &mut PairedTransaction<PostgresRequest, PostgresResponse>,
        out: &mut ParserOutput<'_>,
    ) -> PostgresSessionChange {
        let quality = self.quality(transaction, out.flow.midstream);
        let has_request = transaction.request().is_some();
        let has_response = transaction.response().is_some();
        let is_over = transaction.response_ended();
        let first = transaction.first();
        let had_received = transaction.request_ack().zip(self.previous_place);
        if had_received.is_some_and(|(ack, end)| ack.distance(end) >= 0) {
            // The client had the result before, even if a later transmission of it was captured.
            self.previous_end = self.previous_end.min(Some(first));
        }
        let (request, response) = transaction.parts_mut();
        if has_request && request.losses > self.settled {
            self.settled = request.losses;
            self.statements.miss();
        }
        let unseen = PostgresRequest::default();
        let cycle = PostgresCycle {
            request: if has_request { request } else { &unseen },
            response: has_response.then_some(response),
            is_over: is_over && !response.open_end,
            has_request,
            quality,
        };
        self.write_cycle(&cycle, first, out);
        let change = self.take_effect(&cycle);
        let known = cycle.response.filter(|r| cycle.is_over && !r.holed);
        self.previous_end = known.map(|response| response.span.last);
        self.previous_place = known.map(|response| response.end);
        change
    }

    /// Writes the statements of an extended cycle in progress that have results, and removes both. To be called only
    /// while nothing is missing.
    pub fn conclude_part(
        &mut self,
        request: &mut PostgresRequest,
        response: &mut PostgresResponse,
        out: &mut ParserOutput<'_>,
    ) {
        let is_first = !std::mem::replace(&mut self.emitted, true);
        let quality = if is_first && out.flow.midstream {
            TupleQuality::Midstream
        } else {
            TupleQuality::Exact
        };
        let known = request.steps_done as usize + request.steps.len();
        let results = response.results.iter();
        let is_usable = |r: &&PostgresResult| r.error.is_none() && (r.step as usize) < known;
        let n = results.take_while(is_usable).count();
        let Some(last) = n.checked_sub(1).map(|last| response.results[last].step) else {
            return;
        };
        let steps = (last + 1 - request.steps_done) as usize;
        let rest = request.steps.split_off(steps);
        let later = response.results.split_off(n);
        let cycle = PostgresCycle {
            request,
            response: Some(response),
            is_over: true,
            has_request: true,
            quality,
        };
        self.write_extended(&cycle, out);
        request.steps_done += steps as u32;
        request.steps = rest;
        response.results = later;
    }

    fn quality(
        &mut self,
        transaction: &PairedTransaction<PostgresRequest, PostgresResponse>,
        midstream: bool,
    ) -> TupleQuality {
        let is_silent = transaction.outcome() == TransactionOutcome::Silent;
        let Some(request) = transaction.request() else {
            return TupleQuality::Half;
        };
        let is_first = !std::mem::replace(&mut self.emitted, true);
        let response = match transaction.response() {
            Some(response) if transaction.response_ended() => Some(response),
            None if is_silent && transaction.request_ended() => None,
            _ => return TupleQuality::Half,
        };
        let is_holed =
            request.seen != MessageCompleteness::Whole || response.is_some_and(|r| r.holed);
        match () {
            () if midstream && is_first => TupleQuality::Midstream,
            () if transaction.resynchronized() => TupleQuality::Resync,
            () if is_holed => TupleQuality::GapBody,
            () => TupleQuality::Exact,
        }
    }

    fn take_effect(&mut self, cycle: &PostgresCycle<'_>) -> PostgresSessionChange {
        let answer = cycle.response.map(|response| response.first_kind);
        match (cycle.request.kind, answer) {
            (PostgresRequestKind::Ssl, Some(b'S')) | (PostgresRequestKind::Gss, Some(b'G')) => {
                PostgresSessionChange::Encrypted
            }
            (PostgresRequestKind::Ssl | PostgresRequestKind::Gss, _) => {
                PostgresSessionChange::NotEncrypted
            }
            (PostgresRequestKind::Cancel | PostgresRequestKind::Terminate, _) => {
                PostgresSessionChange::End
            }
            _ => {
                if let Some(response) = cycle.response {
                    if response.transaction == Some(b'I') {
                        self.statements.end_transaction();
                    }
                    let replicates = |r: &PostgresResult| r.copy == Some(PostgresCopy::Both);
                    if response.results.iter().any(replicates) {
                        return PostgresSessionChange::End;
                    }
                }
                PostgresSessionChange::None
            }
        }
    }

    fn write_cycle(
        &mut self,
        cycle: &PostgresCycle<'_>,
        first: Timestamp,
        out: &mut ParserOutput<'_>,
    ) {
        match cycle.request.kind {
            PostgresRequestKind::Extended => self.write_extended(cycle, out),
            PostgresRequestKind::Query => self.write_query(cycle, out),
            PostgresRequestKind::Unseen if has_results(cycle) => {
                let Some(response) = cycle.response else {
                    return;
                };
                for result in &response.results {
                    let tuple = PostgresTuple {
                        outcome: PostgresOutcome::Result(result, response),
                        ..self.tuple(cycle, None)
                    };
                    self.emit(&tuple, result.span.first, cycle.quality, out);
                }
            }
            kind => {
                if kind == PostgresRequestKind::Login {
                    let body = cycle.request.texts.get(4..);
                    self.parameters = body.map(<[u8]>::to_vec);
                }
                let mut tuple = self.tuple(cycle, command_of(kind));
                let answer = cycle.response.map(|response| response.first_kind);
                match (kind, answer) {
                    (PostgresRequestKind::Ssl, Some(b'S')) => tuple.encoding = Some("tls"),
                    (PostgresRequestKind::Gss, Some(b'G')) => tuple.encoding = Some("gss"),
                    (PostgresRequestKind::Cancel, _) => {
                        let pid = cycle.request.texts.get(4..8).unwrap_or_default();
                        let pid = pid.first_chunk().map(|pid| u32::from_be_bytes(*pid));
                        tuple.account.backend_pid = pid;
                    }
                    _ => {}
                }
                self.emit(&tuple, first, cycle.quality, out);
            }
        }
    }

    /// A tuple of the cycle as a whole.
    fn tuple<'a>(
        &'a self,
        cycle: &PostgresCycle<'a>,
        command: Option<&'static str>,
    ) -> PostgresTuple<'a> {
        let request = cycle.request;
        let seen = cycle.has_request && request.seen != MessageCompleteness::Cut;
        PostgresTuple {
            command,
            query: None,
            fingerprint: None,
            statement_name: None,
            portal: None,
            batch_size: None,
            encoding: None,
            transaction: cycle.response.and_then(|response| response.transaction),
            sent: (cycle.has_request && request.seen.has_end()).then_some(request.span.last),
            request_bytes: seen.then_some(request.wire_bytes),
            copied_bytes: Some(request.copied_bytes)
                .filter(|bytes| *bytes > 0 && self.losses == request.losses),
            // Out of order, it may be that of a later one.
            previous_end: self
                .previous_end
                .filter(|_| cycle.quality < TupleQuality::Resync),
            outcome: whole_outcome(cycle),
            account: PostgresAccount {
                parameters: self.parameters.as_deref(),
                backend_pid: self.backend_pid,
            },
        }
    }

    /// Writes the statements of a Query.
    fn write_query(&mut self, cycle: &PostgresCycle<'_>, out: &mut ParserOutput<'_>) {
        let request = cycle.request;
        let text = (!request.is_text_cut).then_some(&request.texts[..]);
        let results = cycle.response.map_or(&[][..], |response| &response.results);
        let is_several = |text: &&[u8]| {
            let end = text.trim_ascii_end().len();
            memchr(b';', text).is_some_and(|at| at + 1 < end)
        };
        let all = text.filter(is_several).filter(|_| self.keeps_text);
        // One statement is the whole text, with its semicolon.
        let all = all.map(|text| statements(DIALECT, text));
        let all = all.filter(|all| all.len() > 1 && !results.is_empty());
        let is_counted = |n: usize| cycle.quality < TupleQuality::Resync || n == results.len();
        let mut quality = cycle.quality;
        if self.keeps_text && (request.is_text_cut || request.is_shortened) {
            quality = quality.max(TupleQuality::GapBody);
        }
        let mut fingerprint = std::mem::take(&mut self.fingerprint);
        for i in 0..results.len().max(1) {
            let query = match &all {
                Some(all) => all
                    .get(i)
                    .filter(|_| is_counted(all.len()))
                    .and_then(|range| text?.get(range.clone())),
                None => text.filter(|_| i == 0),
            };
            let query = query.filter(|_| self.keeps_text);
            fingerprint.clear();
            if let Some(query) = query.filter(|_| out.wants(FINGERPRINT)) {
                make_fingerprint(query, &mut fingerprint, out);
            }
            let mut tuple = PostgresTuple {
                query,
                fingerprint: query.map(|_| &fingerprint[..]),
                ..self.tuple(cycle, Some("query"))
            };
            if let (Some(result), Some(response)) = (results.get(i), cycle.response) {
                tuple.outcome = PostgresOutcome::Result(result, response);
            }
            self.emit(&tuple, request.span.first, quality, out);
            self.note_end(results.get(i));
        }
        self.fingerprint = fingerprint;
        self.forget_statements(cycle, text);
    }

    fn note_end(&mut self, result: Option<&PostgresResult>) {
        if let Some(result) = result {
            self.previous_end = self.previous_end.max(Some(result.span.last));
        }
    }

    /// Removes statements that SQL of a Query removes.
    fn forget_statements(&mut self, cycle: &PostgresCycle<'_>, text: Option<&[u8]>) {
        let begins = |word: &[u8]| {
            let text = text.map(<[u8]>::trim_ascii_start).unwrap_or_default();
            let head = text.get(..word.len());
            head.is_some_and(|head| head.eq_ignore_ascii_case(word))
        };
        if cycle.has_request && (text.is_none() || begins(b"DEALLOCATE") || begins(b"DISCARD")) {
            self.statements.clear();
        }
    }

    /// Writes the executions of an extended cycle; if there are none, its first step.
    fn write_extended(&mut self, cycle: &PostgresCycle<'_>, out: &mut ParserOutput<'_>) {
        let request = cycle.request;
        let results = cycle.response.map_or(&[][..], |response| &response.results);
        let failed = results.iter().find(|result| result.error.is_some());
        let failed_step = failed.map_or(u32::MAX, |result| result.step);
        let mut results = results.iter().peekable();
        let mut begun = None;
        let mut bytes = 0;
        let mut error = failed;
        let mut written = request.steps_done > 0;
        for (i, step) in request.steps.iter().enumerate() {
            let number = request.steps_done + i as u32;
            if number < failed_step {
                self.apply(step, cycle, out);
            }
            begun.get_or_insert(step.span.first);
            bytes += u64::from(step.wire_bytes);
            if step.kind != PostgresStepKind::Execute {
                continue;
            }
            while results.next_if(|result| result.step < number).is_some() {}
            let result = if number >= failed_step {
                error.take()
            } else {
                results.next_if(|result| result.step == number)
            };
            let outcome = match (result, cycle.response) {
                (Some(result), Some(response)) => PostgresOutcome::Result(result, response),
                (None, Some(_)) if number >= failed_step => PostgresOutcome::Skipped,
                (None, Some(response)) if !written => PostgresOutcome::Begun(response.span.first),
                _ => PostgresOutcome::None,
            };
            let first = begun.take().unwrap_or(step.span.first);
            let sizes = (std::mem::take(&mut bytes), first);
            if number >= failed_step {
                self.write_failed_execution(cycle, i, sizes, outcome, out);
            } else {
                self.write_execution(cycle, i, sizes, outcome, out);
            }
            self.note_end(result);
            written = true;
        }
        if !written || error.is_some() && request.executions > 0 {
            self.write_other_steps(cycle, error, out);
        }
    }

    /// Writes a cycle without executions.
    fn write_other_steps(
        &mut self,
        cycle: &PostgresCycle<'_>,
        error: Option<&PostgresResult>,
        out: &mut ParserOutput<'_>,
    ) {
        let request = cycle.request;
        let step = request.steps.first();
        let command = match step.map(|step| step.kind) {
            // The missing messages may be executions.
            _ if request.seen == MessageCompleteness::Cut => "extended",
            Some(PostgresStepKind::Parse) => "parse",
            Some(PostgresStepKind::Bind) => "bind",
            Some(PostgresStepKind::Describe) => "describe",
            Some(PostgresStepKind::Close) => "close",
            Some(PostgresStepKind::Execute) => "execute",
            None => "sync",
        };
        let is_parse = step.filter(|step| step.kind == PostgresStepKind::Parse);
        let query = is_parse.and_then(|step| request.text(&step.text));
        let mut fingerprint = std::mem::take(&mut self.fingerprint);
        fingerprint.clear();
        if let Some(query) = query.filter(|_| out.wants(FINGERPRINT)) {
            make_fingerprint(query, &mut fingerprint, out);
        }
        let named = step.filter(|step| is_parse.is_some() || step.is_of_statement);
        let mut tuple = PostgresTuple {
            query,
            fingerprint: query.map(|_| &fingerprint[..]),
            statement_name: named.and_then(|step| request.text(&step.name)),
            ..self.tuple(cycle, Some(command))
        };
        if let (Some(result), Some(response)) = (error, cycle.response) {
            tuple.outcome = PostgresOutcome::Result(result, response);
        }
        self.emit(&tuple, request.span.first, cycle.quality, out);
        self.fingerprint = fingerprint;
    }

    /// Writes step `i`, an execution; `sent`: length of the messages of the statement, and arrival of the first.
    fn write_execution(
        &mut self,
        cycle: &PostgresCycle<'_>,
        i: usize,
        sent: (u64, Timestamp),
        outcome: PostgresOutcome<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        let portal = cycle.request.text(&cycle.request.steps[i].name);
        if let Some(portal) = portal {
            self.statements.prepare(portal, out.wants(FINGERPRINT));
        }
        let bound = self.statements.bound(portal, cycle.request.losses);
        let text = ExecutedText {
            name: bound.name,
            query: bound.statement.map(|statement| &statement.text[..]),
            fingerprint: bound
                .statement
                .and_then(|statement| statement.known_fingerprint()),
            is_whole: bound.is_proven && bound.statement.is_some_and(|s| !s.shortened),
        };
        self.emit_execution(cycle, i, sent, (outcome, text), out);
    }

    /// Writes step `i`, an execution that failed or was skipped: its statement may be only in the cycle itself.
    fn write_failed_execution(
        &mut self,
        cycle: &PostgresCycle<'_>,
        i: usize,
        sent: (u64, Timestamp),
        outcome: PostgresOutcome<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        let request = cycle.request;
        let portal = request.text(&request.steps[i].name);
        let earlier = |kind: PostgresStepKind, name: Option<&[u8]>| {
            let is_it = move |s: &&PostgresStep| s.kind == kind && request.text(&s.name) == name;
            request.steps[..i].iter().rev().take(SCAN_MAX).find(is_it)
        };
        let Some(bind) = earlier(PostgresStepKind::Bind, portal) else {
            return self.write_execution(cycle, i, sent, outcome, out);
        };
        let name = request.text(&bind.text);
        let mut fingerprint = std::mem::take(&mut self.fingerprint);
        fingerprint.clear();
        let mut text = ExecutedText {
            name,
            query: None,
            fingerprint: None,
            is_whole: false,
        };
        if let Some(parse) = earlier(PostgresStepKind::Parse, name) {
            text.query = request.text(&parse.text);
            text.is_whole = text.query.is_some() && !parse.is_shortened;
            if let Some(query) = text.query.filter(|_| out.wants(FINGERPRINT)) {
                make_fingerprint(query, &mut fingerprint, out);
                text.fingerprint = Some(&fingerprint);
            }
        } else if let Some(name) = name.filter(|_| i <= SCAN_MAX) {
            self.statements.find(name, out.wants(FINGERPRINT));
            let (statement, is_proven) = self.statements.get(name, request.losses);
            text.query = statement.map(|statement| &statement.text[..]);
            text.fingerprint = statement.and_then(|statement| statement.known_fingerprint());
            text.is_whole = is_proven && statement.is_some_and(|s| !s.shortened);
        }
        self.emit_execution(cycle, i, sent, (outcome, text), out);
        self.fingerprint = fingerprint;
    }

    fn emit_execution(
        &self,
        cycle: &PostgresCycle<'_>,
        i: usize,
        (bytes, first): (u64, Timestamp),
        (outcome, text): (PostgresOutcome<'_>, ExecutedText<'_>),
        out: &mut ParserOutput<'_>,
    ) {
        let request = cycle.request;
        let step = &request.steps[i];
        let result = match &outcome {
            PostgresOutcome::Result(result, _) => Some(*result),
            _ => None,
        };
        let error = result.and_then(|result| result.error.as_ref());
        let is_unknown = error.is_some_and(|error| error.code == UNKNOWN_STATEMENT);
        let mut quality = cycle.quality;
        if self.keeps_text && !text.is_whole && !is_unknown {
            quality = quality.max(TupleQuality::GapBody);
        }
        let is_known = request.seen != MessageCompleteness::Cut;
        let size = if request.executions == 1 {
            request.wire_bytes
        } else {
            bytes
        };
        let tuple = PostgresTuple {
            query: text.query.filter(|_| self.keeps_text),
            fingerprint: text.fingerprint,
            statement_name: text.name,
            portal: request.text(&step.name),
            batch_size: is_known.then_some(request.executions),
            sent: cycle.has_request.then_some(step.span.last),
            request_bytes: is_known.then_some(size),
            outcome,
            ..self.tuple(cycle, Some("execute"))
        };
        self.emit(&tuple, first, quality, out);
    }

    /// Applies a step that succeeded, or whose success is unknown.
    fn apply(
        &mut self,
        step: &PostgresStep,
        cycle: &PostgresCycle<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        let request = cycle.request;
        let name = request.text(&step.name);
        let text = request.text(&step.text);
        match (step.kind, name) {
            (PostgresStepKind::Parse, Some(name)) if self.keeps_text => {
                let max = out.limits.statement_bytes_max;
                let evicted =
                    self.statements
                        .parse(name, text, step.is_shortened, request.losses, max);
                out.counters.evicted_statements += evicted;
            }
            (PostgresStepKind::Bind, Some(portal)) => {
                if let Some(name) = text {
                    self.statements.bind(portal, name);
                }
            }
            (PostgresStepKind::Close, Some(name)) if step.is_of_statement => {
                self.statements.close(name);
            }
            (PostgresStepKind::Parse | PostgresStepKind::Bind, None) => self.statements.miss(),
            _ => {}
        }
    }

    fn emit(
        &self,
        tuple: &PostgresTuple<'_>,
        first: Timestamp,
        quality: TupleQuality,
        out: &mut ParserOutput<'_>,
    ) {
        let is_untimed = tuple.response_time().is_some_and(|time| time < 0);
        let quality = if is_untimed {
            quality.max(TupleQuality::Untimed)
        } else {
            quality
        };
        let copy = match tuple.outcome {
            PostgresOutcome::Result(result, _) => result.copy,
            _ => None,
        };
        let lacks_data = copy == Some(PostgresCopy::In) && tuple.copied_bytes.is_none();
        let quality = if lacks_data {
            quality.max(TupleQuality::GapBody)
        } else {
            quality
        };
        let last = tuple.outcome.times().and_then(|(_, last)| last);
        let sent = tuple
            .sent
            .filter(|_| tuple.command == Some("terminate") || tuple.command == Some("cancel"));
        let end = last.max(sent).map(|end| end.max(first));
        out.emit((first, end), quality, |_| true, |w| tuple.write(w));
    }
}

fn has_results(cycle: &PostgresCycle<'_>) -> bool {
    cycle
        .response
        .is_some_and(|response| !response.results.is_empty())
}

/// Outcome of a cycle that has no statements.
fn whole_outcome<'a>(cycle: &PostgresCycle<'a>) -> PostgresOutcome<'a> {
    match cycle.response {
        None => PostgresOutcome::None,
        Some(response) if !cycle.is_over => PostgresOutcome::Begun(response.span.first),
        // A login that was refused.
        Some(response) => match response.results.last() {
            Some(result) => PostgresOutcome::Result(result, response),
            None => PostgresOutcome::Whole(response),
        },
    }
}

fn command_of(kind: PostgresRequestKind) -> Option<&'static str> {
    Some(match kind {
        PostgresRequestKind::Unseen => return None,
        PostgresRequestKind::Ssl => "ssl_request",
        PostgresRequestKind::Gss => "gss_request",
        PostgresRequestKind::Cancel => "cancel",
        PostgresRequestKind::Login => "login",
        PostgresRequestKind::Query => "query",
        PostgresRequestKind::Extended => "execute",
        PostgresRequestKind::FunctionCall => "function_call",
        PostgresRequestKind::Terminate => "terminate",
    })
}

/// Appends the fingerprint of `sql`; short ones are cached.
fn make_fingerprint(sql: &[u8], fingerprint: &mut Vec<u8>, out: &mut ParserOutput<'_>) {
    let make = |sql: &[u8], to: &mut Vec<u8>| fingerprint_in(DIALECT, sql, to);
    match out.memo().filter(|_| sql.len() <= SHORT_MAX) {
        Some(memo) => memo.append(sql, fingerprint, make),
        None => make(sql, fingerprint),
    }
}
