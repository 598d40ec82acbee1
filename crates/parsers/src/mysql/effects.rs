//! Effects of finished transactions on the connection (user, default database, prepared statements), and the
//! tuples.

use tuple::TupleWriter;
use wire::Timestamp;

use super::command::{self, DefaultDatabase, Kind};
use super::login;
use super::response::{Outcome, Response};
use super::shorten::shorten;
use super::statements::Statements;
use super::transaction::Request;
use super::tuples::{self, Context, Tuple};
use super::{DATABASE, FINGERPRINT, QUERY, fingerprint};
use crate::pairing::Seen;
use crate::pairing::{self, Transaction};
use crate::{Output, Quality};

/// Maximum length of a statement, without its literals, whose fingerprint is cached.
const SHORT_MAX: usize = 512;

/// Server error for an unknown statement (ER_UNKNOWN_STMT_HANDLER).
const UNKNOWN_STATEMENT: u64 = 1243;

/// Possible effect of missing requests, by their responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Unseen {
    /// No request is missing.
    #[default]
    Nothing,
    /// No response to one was seen yet.
    Unanswered,
    /// All responses answered requests that change neither user nor database.
    Harmless,
    /// Unknown: a response answered something else, or is missing too.
    Anything,
}

/// Effect of a transaction on the parser.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Change {
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
pub struct Effects {
    user: Option<Vec<u8>>,
    database: Option<Vec<u8>>,
    statements: Statements,
    unseen: Unseen,
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

impl Effects {
    /// Determines the wanted columns before the first bytes.
    pub fn start(&mut self, out: &Output<'_>) {
        self.keeps_text = [QUERY, FINGERPRINT, DATABASE].iter().any(|f| out.wants(*f));
    }

    /// Records that requests may be missing.
    pub fn miss_requests(&mut self) {
        self.losses = self.losses.saturating_add(1);
        let unanswered = self.response_lost || self.unseen == Unseen::Anything;
        self.unseen = if unanswered { Unseen::Anything } else { Unseen::Unanswered };
    }

    /// Number of request losses.
    pub fn losses(&self) -> u32 {
        self.losses
    }

    /// Records that responses may be missing.
    pub fn miss_responses(&mut self) {
        self.response_lost = true;
        if self.unseen != Unseen::Nothing {
            self.unseen = Unseen::Anything;
        }
    }

    /// Applies and writes a finished transaction.
    #[inline]
    pub fn conclude(
        &mut self,
        transaction: &mut Transaction<Request, Response>,
        out: &mut Output<'_>,
    ) -> Change {
        let quality = self.quality(transaction, out.flow.midstream);
        let quality = quality.max(self.quality_of_text(transaction));
        let (has_request, has_response) = (transaction.request().is_some(), transaction.response().is_some());
        let ended = transaction.response_ended();
        let silent = transaction.outcome() == pairing::Outcome::Silent;
        let asked = transaction.request().map_or(Timestamp::MIN, |request| request.span.last);
        let told = transaction.response().and_then(|response| response.span);
        let told = told.map_or(transaction.response_first(), |span| span.last);
        let times = (transaction.first(), transaction.complete_at(asked, told));
        let (request, response) = transaction.parts_mut();
        let mut unseen = Request { kind: response.unseen_kind(), ..Request::default() };
        let request = if has_request { request } else { &mut unseen };
        let response = has_response.then_some(&*response);
        self.doubt_account(request, response);
        let over = response.is_some_and(|r| ended && !r.doubtful);
        if let Some(response) = response.filter(|_| ended) {
            self.take_effect(request, response);
        } else if has_request && !silent {
            self.forget_what_may_have_changed(request);
        }
        self.write(times, request, response.map(|r| (r, over)), quality, has_request, out);
        self.keep_statement(request, response.filter(|_| ended), silent, out);
        let failed = response.is_none_or(|r| r.outcome.error.is_some() || !ended);
        match request.kind {
            Kind::Login if !failed => Change::LoggedIn,
            Kind::Connect => Change::End,
            _ if response.is_some_and(|r| r.outcome.endless) => Change::End,
            _ => Change::None,
        }
    }

    fn quality(&mut self, transaction: &Transaction<Request, Response>, midstream: bool) -> Quality {
        let silent = transaction.outcome() == pairing::Outcome::Silent;
        let Some(request) = transaction.request() else { return Quality::Half };
        let first = !std::mem::replace(&mut self.emitted, true);
        let response = match transaction.response() {
            Some(response) if transaction.response_ended() => Some(response),
            None if silent && transaction.request_ended() => None,
            _ => return Quality::Half,
        };
        let holed = request.seen != Seen::Whole || response.is_some_and(|r| r.holed);
        let time = response.and_then(|r| tuples::response_time(request, r));
        match () {
            () if midstream && first => Quality::Midstream,
            () if transaction.resynchronised() => Quality::Resync,
            () if holed => Quality::GapBody,
            () if time.is_some_and(|time| time < 0) => Quality::Untimed,
            () => Quality::Exact,
        }
    }

    /// Quality by the completeness of the statement text, if wanted.
    fn quality_of_text(&self, transaction: &Transaction<Request, Response>) -> Quality {
        let Some(request) = transaction.request().filter(|_| self.keeps_text) else { return Quality::Exact };
        let error = transaction.response().and_then(|response| response.outcome.error);
        let is_whole = match request.kind.has_statement() {
            true => self.statements.is_whole(request.statement) || error == Some(UNKNOWN_STATEMENT),
            false => !request.shortened,
        };
        if is_whole { Quality::Exact } else { Quality::GapBody }
    }

    /// Applies a response's effects.
    fn take_effect(&mut self, request: &Request, response: &Response) {
        if request.kind != Kind::Unseen && !response.holed {
            self.response_lost = false;
        }
        if matches!(request.kind, Kind::Login | Kind::Command(command::CHANGE_USER)) {
            self.take_account(request);
        }
        if response.outcome.error.is_some() {
            return;
        }
        if let Kind::Command(command::CHANGE_USER | command::RESET_CONNECTION) = request.kind {
            self.statements.clear();
        }
        let asked = request.database_after();
        let changed = match (&response.outcome.database, &asked) {
            // The request contains what the missing part of the response would.
            (DefaultDatabase::Unread, DefaultDatabase::Is(_)) | (DefaultDatabase::Unchanged, _) => &asked,
            (told, _) => told,
        };
        changed.apply(&mut self.database);
    }

    /// Clears state that the request may have changed, if its success is unknown.
    fn forget_what_may_have_changed(&mut self, request: &Request) {
        if matches!(request.kind, Kind::Login | Kind::Command(command::CHANGE_USER)) {
            self.take_account(request);
        } else if request.database_after() != DefaultDatabase::Unchanged {
            self.database = None;
        }
    }

    fn take_account(&mut self, request: &Request) {
        let account = login::read_account(&request.text);
        self.user = account.map(|(user, _)| user.to_vec());
        self.database = account.map(|(_, name)| name.to_vec()).filter(|name| !name.is_empty());
    }

    /// Clears user and database if a missing request may have been `USE` or `COM_CHANGE_USER`, unless its
    /// response answered something else.
    fn doubt_account(&mut self, request: &Request, response: Option<&Response>) {
        if request.kind == Kind::Unseen && self.unseen != Unseen::Nothing {
            let changes_nothing = |o: &Outcome| {
                o.rows.is_some() || o.error.is_some() || o.affected_rows.is_some_and(|rows| rows > 0)
            };
            self.unseen = match (self.unseen, response) {
                (Unseen::Anything, _) => Unseen::Anything,
                (_, Some(response)) if changes_nothing(&response.outcome) => Unseen::Harmless,
                _ => Unseen::Anything,
            };
        }
        if request.losses > self.settled {
            self.settled = request.losses;
            // Losses after the request arrived count for the next one.
            let next = if self.losses > self.settled { Unseen::Anything } else { Unseen::Nothing };
            if let Unseen::Unanswered | Unseen::Anything = std::mem::replace(&mut self.unseen, next) {
                (self.user, self.database) = (None, None);
            }
        }
    }

    fn keep_statement(
        &mut self,
        request: &mut Request,
        response: Option<&Response>,
        silent: bool,
        out: &mut Output<'_>,
    ) {
        match (request.kind, response.and_then(|r| r.outcome.statement)) {
            (Kind::Command(command::STMT_PREPARE), Some(id)) if self.keeps_text => {
                if request.text_cut {
                    self.statements.insert_unread(id);
                } else {
                    let (text, max) = (std::mem::take(&mut request.text), out.limits.statement_bytes_max);
                    let evicted = self.statements.insert(id, text, request.shortened, max);
                    out.counters.evicted_statements += evicted;
                }
            }
            (Kind::Command(command::STMT_PREPARE), _) => self.statements.preparation_failed(),
            (Kind::Command(command::STMT_CLOSE), _) if silent => self.statements.remove(request.statement),
            _ => {}
        }
    }

    fn write(
        &mut self,
        times: (Timestamp, Option<Timestamp>),
        request: &Request,
        response: Option<(&Response, bool)>,
        quality: Quality,
        is_seen: bool,
        out: &mut Output<'_>,
    ) {
        let statement =
            if request.kind.has_statement() { self.statements.find(request.statement) } else { None };
        let wants_fingerprint = out.wants(FINGERPRINT);
        let (query, fingerprint): (Option<&[u8]>, Option<&[u8]>) = match (statement, request.kind) {
            (Some(statement), _) => {
                if wants_fingerprint {
                    statement.fingerprint();
                }
                (Some(&statement.text), statement.known_fingerprint())
            }
            (None, Kind::Command(code)) if request.kind.has_text() && !request.text_cut => {
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
        let context = Context {
            query,
            fingerprint,
            user: self.user.as_deref().filter(|_| is_known),
            database: self.database.as_deref().filter(|_| is_known),
            encoding: self.encoding,
        };
        let tuple = Tuple { request: is_seen.then_some(request), kind: request.kind, response };
        let fill = |w: &mut TupleWriter| tuples::write(w, &tuple, &context);
        out.emit(times, quality, |_| true, fill);
    }
}

/// Sets `fingerprint` to that of `sql`; cached for statements that differ in their literals only.
fn make_fingerprint(sql: &[u8], scratch: &mut Vec<u8>, fingerprint: &mut Vec<u8>, out: &mut Output<'_>) {
    fingerprint.clear();
    scratch.clear();
    match out.memo() {
        Some(memo) if shorten(sql, SHORT_MAX, scratch) => {
            memo.append(scratch, fingerprint, fingerprint::fingerprint);
        }
        _ => fingerprint::fingerprint(sql, fingerprint),
    }
}
