//! Effects of finished transactions on the connection (user, default database, prepared statements), and the
//! tuples.

use tuple::TupleWriter;
use wire::Timestamp;

use super::columns::{DATABASE, FINGERPRINT, QUERY, SUMMARY};
use super::command::{self, DefaultDatabase, MysqlRequestKind};
use super::login;
use super::response::{MysqlOutcome, MysqlResponse};
use super::transaction::MysqlRequest;
use super::tuples::{self, MysqlTupleContext, MysqlTupleSource};
use crate::pairing::MessageCompleteness;
use crate::pairing::{self, PairedTransaction};
use crate::sql::prepared::PreparedStatements;
use crate::sql::shorten::shorten;
use crate::sql::{SqlDialect, fingerprint};
use crate::{ParserOutput, TupleQuality};

/// Maximum length of a statement, without its literals, whose fingerprint is cached.
const SHORT_MAX: usize = 512;

/// Server error for an unknown statement (ER_UNKNOWN_STMT_HANDLER).
const UNKNOWN_STATEMENT: u64 = 1243;

/// Possible effect of missing requests, by their responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum MysqlUnseenEffects {
    /// No request is missing.
    #[default]
    Nothing,
    /// A request is missing, and no response to it was seen yet.
    Unanswered,
    /// All responses answered requests that change neither user nor database.
    Harmless,
    /// Unknown: a response answered something else, or is missing too.
    Anything,
}

/// Effect of a transaction on the parser.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MysqlSessionChange {
    /// Nothing.
    #[default]
    None,
    /// The client is logged in.
    LoggedIn,
    /// Nothing that can be parsed follows.
    End,
}

/// Connection state set by transactions.
#[derive(Default)]
pub struct MysqlSessionState {
    user: Option<Vec<u8>>,
    database: Option<Vec<u8>>,
    statements: PreparedStatements,
    unseen: MysqlUnseenEffects,
    /// Number of request losses, and the number already accounted for.
    losses: u32,
    settled: u32,
    /// A response before the next one may be missing.
    response_lost: bool,
    emitted: bool,
    pub keeps_text: bool,
    /// Value of the `encoding` column.
    pub encoding: Option<&'static str>,
    fingerprint: Vec<u8>,
    scratch: Vec<u8>,
}

impl MysqlSessionState {
    /// Determines the wanted columns before the first bytes.
    pub fn start(&mut self, out: &ParserOutput<'_>) {
        self.keeps_text = [QUERY, FINGERPRINT, SUMMARY, DATABASE]
            .iter()
            .any(|f| out.wants(*f));
    }

    /// Records that requests may be missing.
    pub fn miss_requests(&mut self) {
        self.losses = self.losses.saturating_add(1);
        let unanswered = self.response_lost || self.unseen == MysqlUnseenEffects::Anything;
        self.unseen = if unanswered {
            MysqlUnseenEffects::Anything
        } else {
            MysqlUnseenEffects::Unanswered
        };
    }

    /// Number of request losses.
    pub fn losses(&self) -> u32 {
        self.losses
    }

    /// Records that responses may be missing.
    pub fn miss_responses(&mut self) {
        self.response_lost = true;
        if self.unseen != MysqlUnseenEffects::Nothing {
            self.unseen = MysqlUnseenEffects::Anything;
        }
    }

    /// Applies and writes a finished transaction.
    #[inline]
    pub fn conclude(
        &mut self,
        transaction: &mut PairedTransaction<MysqlRequest, MysqlResponse>,
        out: &mut ParserOutput<'_>,
    ) -> MysqlSessionChange {
        let quality = self.quality(transaction, out.flow.midstream);
        let quality = quality.max(self.quality_of_text(transaction));
        let has_request = transaction.request().is_some();
        let has_response = transaction.response().is_some();
        let ended = transaction.response_ended();
        let silent = transaction.outcome() == pairing::TransactionOutcome::Silent;
        let asked = transaction
            .request()
            .map_or(Timestamp::MIN, |request| request.span.last);
        let told = transaction.response().and_then(|response| response.span);
        let told = told.map_or(transaction.response_first(), |span| span.last);
        let times = (transaction.first(), transaction.complete_at(asked, told));
        let (request, response) = transaction.parts_mut();
        let mut unseen = MysqlRequest {
            kind: response.unseen_kind(),
            ..MysqlRequest::default()
        };
        let request = if has_request { request } else { &mut unseen };
        let response = has_response.then_some(&*response);
        self.doubt_account(request, response);
        let over = response.is_some_and(|r| ended && !r.doubtful);
        if let Some(response) = response.filter(|_| ended) {
            self.take_effect(request, response);
        } else if has_request && !silent {
            self.forget_what_may_have_changed(request);
        }
        self.write(
            times,
            request,
            response.map(|r| (r, over)),
            quality,
            has_request,
            out,
        );
        self.keep_statement(request, response.filter(|_| ended), silent, out);
        let failed = response.is_none_or(|r| r.outcome.error.is_some() || !ended);
        match request.kind {
            MysqlRequestKind::Login if !failed => MysqlSessionChange::LoggedIn,
            MysqlRequestKind::Connect => MysqlSessionChange::End,
            _ if response.is_some_and(|r| r.outcome.endless) => MysqlSessionChange::End,
            _ => MysqlSessionChange::None,
        }
    }

    fn quality(
        &mut self,
        transaction: &PairedTransaction<MysqlRequest, MysqlResponse>,
        midstream: bool,
    ) -> TupleQuality {
        let silent = transaction.outcome() == pairing::TransactionOutcome::Silent;
        let Some(request) = transaction.request() else {
            return TupleQuality::Half;
        };
        let first = !std::mem::replace(&mut self.emitted, true);
        let response = match transaction.response() {
            Some(response) if transaction.response_ended() => Some(response),
            None if silent && transaction.request_ended() => None,
            _ => return TupleQuality::Half,
        };
        let holed = request.seen != MessageCompleteness::Whole || response.is_some_and(|r| r.holed);
        let time = response.and_then(|r| tuples::response_time(request, r));
        match () {
            () if midstream && first => TupleQuality::Midstream,
            () if transaction.resynchronized() => TupleQuality::Resync,
            () if holed => TupleQuality::GapBody,
            () if time.is_some_and(|time| time < 0) => TupleQuality::Untimed,
            () => TupleQuality::Exact,
        }
    }

    /// Quality by the completeness of the statement text, if wanted.
    fn quality_of_text(
        &self,
        transaction: &PairedTransaction<MysqlRequest, MysqlResponse>,
    ) -> TupleQuality {
        let Some(request) = transaction.request().filter(|_| self.keeps_text) else {
            return TupleQuality::Exact;
        };
        let error = transaction
            .response()
            .and_then(|response| response.outcome.error);
        let is_whole = if request.kind.has_statement() {
            self.statements.is_whole(request.statement) || error == Some(UNKNOWN_STATEMENT)
        } else {
            !request.shortened
        };
        if is_whole {
            TupleQuality::Exact
        } else {
            TupleQuality::GapBody
        }
    }

    /// Applies a response's effects.
    fn take_effect(&mut self, request: &MysqlRequest, response: &MysqlResponse) {
        if request.kind != MysqlRequestKind::Unseen && !response.holed {
            self.response_lost = false;
        }
        if matches!(
            request.kind,
            MysqlRequestKind::Login | MysqlRequestKind::Command(command::CHANGE_USER)
        ) {
            self.take_account(request);
        }
        if response.outcome.error.is_some() {
            return;
        }
        if let MysqlRequestKind::Command(command::CHANGE_USER | command::RESET_CONNECTION) =
            request.kind
        {
            self.statements.clear();
        }
        let asked = request.database_after();
        let changed = match (&response.outcome.database, &asked) {
            // The request contains what the missing part of the response would.
            (DefaultDatabase::Unread, DefaultDatabase::Is(_)) | (DefaultDatabase::Unchanged, _) => {
                &asked
            }
            (told, _) => told,
        };
        changed.apply(&mut self.database);
    }

    /// Clears state that the request may have changed, if its success is unknown.
    fn forget_what_may_have_changed(&mut self, request: &MysqlRequest) {
        if matches!(
            request.kind,
            MysqlRequestKind::Login | MysqlRequestKind::Command(command::CHANGE_USER)
        ) {
            self.take_account(request);
        } else if request.database_after() != DefaultDatabase::Unchanged {
            self.database = None;
        }
    }

    fn take_account(&mut self, request: &MysqlRequest) {
        let account = login::read_account(&request.text);
        self.user = account.map(|(user, _)| user.to_vec());
        self.database = account
            .map(|(_, name)| name.to_vec())
            .filter(|name| !name.is_empty());
    }

    /// Clears user and database if a missing request may have been `USE` or `COM_CHANGE_USER`, unless its
    /// response answered something else.
    fn doubt_account(&mut self, request: &MysqlRequest, response: Option<&MysqlResponse>) {
        if request.kind == MysqlRequestKind::Unseen && self.unseen != MysqlUnseenEffects::Nothing {
            let changes_nothing = |o: &MysqlOutcome| {
                o.rows.is_some()
                    || o.error.is_some()
                    || o.affected_rows.is_some_and(|rows| rows > 0)
            };
            self.unseen = match (self.unseen, response) {
                (MysqlUnseenEffects::Anything, _) => MysqlUnseenEffects::Anything,
                (_, Some(response)) if changes_nothing(&response.outcome) => {
                    MysqlUnseenEffects::Harmless
                }
                _ => MysqlUnseenEffects::Anything,
            };
        }
        if request.losses > self.settled {
            self.settled = request.losses;
            // Losses after the request arrived count for the next one.
            let next = if self.losses > self.settled {
                MysqlUnseenEffects::Anything
            } else {
                MysqlUnseenEffects::Nothing
            };
            if let MysqlUnseenEffects::Unanswered | MysqlUnseenEffects::Anything =
                std::mem::replace(&mut self.unseen, next)
            {
                self.user = None;
                self.database = None;
            }
        }
    }

    fn keep_statement(
        &mut self,
        request: &mut MysqlRequest,
        response: Option<&MysqlResponse>,
        silent: bool,
        out: &mut ParserOutput<'_>,
    ) {
        match (request.kind, response.and_then(|r| r.outcome.statement)) {
            (MysqlRequestKind::Command(command::STMT_PREPARE), Some(id)) if self.keeps_text => {
                if request.text_cut {
                    self.statements.insert_unread(id);
                } else {
                    let text = std::mem::take(&mut request.text);
                    let max = out.limits.statement_bytes_max;
                    let evicted = self.statements.insert(id, text, request.shortened, max);
                    out.counters.evicted_statements += evicted;
                }
            }
            (MysqlRequestKind::Command(command::STMT_PREPARE), _) => {
                self.statements.preparation_failed()
            }
            (MysqlRequestKind::Command(command::STMT_CLOSE), _) if silent => {
                self.statements.remove(request.statement)
            }
            _ => {}
        }
    }

    fn write(
        &mut self,
        times: (Timestamp, Option<Timestamp>),
        request: &MysqlRequest,
        response: Option<(&MysqlResponse, bool)>,
        quality: TupleQuality,
        is_seen: bool,
        out: &mut ParserOutput<'_>,
    ) {
        let statement = if request.kind.has_statement() {
            self.statements.find(request.statement)
        } else {
            None
        };
        let wants_fingerprint = out.wants(FINGERPRINT);
        let (query, fingerprint): (Option<&[u8]>, Option<&[u8]>) = match (statement, request.kind) {
            (Some(statement), _) => {
                if wants_fingerprint {
                    statement.fingerprint(SqlDialect::MySql);
                }
                (Some(&statement.text), statement.known_fingerprint())
            }
            (None, MysqlRequestKind::Command(code))
                if request.kind.has_text() && !request.text_cut =>
            {
                let is_sql = code != command::INIT_DB;
                if is_sql && wants_fingerprint {
                    make_fingerprint(&request.text, &mut self.scratch, &mut self.fingerprint, out);
                }
                (Some(&request.text), is_sql.then_some(&self.fingerprint))
            }
            _ => (None, None),
        };
        // Missing requests may have changed them; a row written after a loss may precede it.
        let is_known = is_seen && request.losses >= self.settled;
        let context = MysqlTupleContext {
            query,
            fingerprint,
            user: self.user.as_deref().filter(|_| is_known),
            database: self.database.as_deref().filter(|_| is_known),
            encoding: self.encoding,
        };
        let tuple = MysqlTupleSource {
            request: is_seen.then_some(request),
            kind: request.kind,
            response,
        };
        let fill = |w: &mut TupleWriter| tuples::write(w, &tuple, &context);
        out.emit(times, quality, |_| true, fill);
    }
}

/// Sets `fingerprint` to that of `sql`; cached for statements that differ in their literals only.
fn make_fingerprint(
    sql: &[u8],
    scratch: &mut Vec<u8>,
    fingerprint: &mut Vec<u8>,
    out: &mut ParserOutput<'_>,
) {
    fingerprint.clear();
    scratch.clear();
    match out.memo() {
        Some(memo) if shorten(sql, SHORT_MAX, scratch) => {
            memo.append(scratch, fingerprint, fingerprint::fingerprint);
        }
        _ => fingerprint::fingerprint(sql, fingerprint),
    }
}
