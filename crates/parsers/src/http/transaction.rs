//! Stored part of a request until its response, and the tuple of both.

use tuple::TupleWriter;

use super::byte_stream::HttpMessageExtent;
use super::fields::{self, ALL, GET_ONLY, OF_HTTP};
use super::head::{HttpVersion, RequestHead, ResponseHead, kind};
use super::headers::{HeaderValues, RequestedHeaders};
use super::url;
use crate::http2::UpgradedRequest;
use crate::pairing::{PairedTransaction, RequestMatcher};
use crate::{ColumnSet, ParserOutput, TupleQuality};
use wire::Timestamp;

/// Maximum memory for text that a queue slot keeps for the next request.
const KEPT_BYTES: usize = 1024;

/// A request, as far as wanted columns need it.
#[derive(Debug)]
pub struct HttpRequest {
    pub extent: HttpMessageExtent,
    pub method: HttpMethod,
    pub version: Option<HttpVersion>,
    /// Waits for `100 Continue` before it sends its body.
    pub expects_continue: bool,
    has_host: bool,
    has_path: bool,
    has_agent: bool,
    /// Method, host, path, query with its `?`, user agent, and template, concatenated: host, path, and query are the
    /// URL.
    text: Vec<u8>,
    ends: [u32; 6],
    /// Fields named by a query, if any.
    headers: Option<Box<HeaderValues>>,
}

/// A response.
#[derive(Debug)]
pub struct HttpResponse {
    pub extent: HttpMessageExtent,
    pub version: HttpVersion,
    /// 0: none, as in HTTP/0.9.
    pub status: u16,
    /// Status of the last interim response before it; 0: none.
    pub interim: u16,
    has_type: bool,
    content_type: Vec<u8>,
    headers: Option<Box<HeaderValues>>,
}

/// Methods that affect framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpMethod {
    Get,
    Head,
    Connect,
    Other,
}

/// Requirements of the queries, computed once per connection.
#[derive(Debug)]
pub struct HttpProjection {
    columns: ColumnSet,
    /// Kinds of header fields.
    pub fields: u8,
    /// Whether any text of a request is needed.
    texts: bool,
    /// Whether any field of the protocol is needed.
    own: bool,
    /// Named header fields.
    pub headers: Option<Box<RequestedHeaders>>,
}

/// Columns derived from a request's host, path, and query, and from any of its text.
const OF_HOST: ColumnSet = ColumnSet::of(&[fields::HOST, fields::URL]);
const OF_PATH: ColumnSet = ColumnSet::of(&[fields::PATH, fields::URL]);
const OF_QUERY: ColumnSet = ColumnSet::of(&[fields::URL_QUERY, fields::URL]);
/// Columns for which path and query have to be separated.
const OF_PARTS: ColumnSet = ColumnSet::of(&[fields::PATH, fields::URL_QUERY, fields::URL_TEMPLATE]);
const OF_TEXT: ColumnSet = ColumnSet::of(&[
    fields::METHOD,
    fields::HOST,
    fields::PATH,
    fields::URL_QUERY,
    fields::URL,
    fields::URL_TEMPLATE,
    fields::USER_AGENT,
]);

/// All other columns, except those of header fields.
const OF_MESSAGES: ColumnSet = ColumnSet::of(&[
    fields::HTTP_VERSION,
    fields::STATUS,
    fields::INTERIM_STATUS,
    fields::REQUEST_BYTES,
    fields::RESPONSE_BYTES,
    fields::RESPONSE_TIME_NS,
    fields::TRANSFER_TIME_NS,
    fields::CONTENT_TYPE,
]);

impl HttpProjection {
    pub fn new(out: &ParserOutput<'_>) -> HttpProjection {
        let columns = out.columns();
        let headers = RequestedHeaders::of(out, OF_HTTP);
        let field = |wanted: bool, kind: u8| if wanted { kind } else { 0 };
        HttpProjection {
            columns,
            fields: field(columns.has_any(OF_HOST), kind::HOST)
                | field(columns.has(fields::USER_AGENT), kind::USER_AGENT)
                | field(columns.has(fields::CONTENT_TYPE), kind::CONTENT_TYPE),
            texts: columns.has_any(OF_TEXT),
            own: columns.has_any(OF_TEXT) || columns.has_any(OF_MESSAGES) || headers.is_some(),
            headers,
        }
    }
}

impl Default for HttpRequest {
    fn default() -> Self {
        HttpRequest {
            extent: HttpMessageExtent::at(Timestamp::MIN),
            method: HttpMethod::Other,
            version: None,
            expects_continue: false,
            has_host: false,
            has_path: false,
            has_agent: false,
            text: Vec::new(),
            ends: [0; 6],
            headers: None,
        }
    }
}

impl HttpRequest {
    /// Replaces the contents by the request of `head`, as far as wanted.
    #[inline]
    pub fn become_one(&mut self, head: &RequestHead<'_>, wanted: &HttpProjection) {
        self.method = HttpMethod::of(head.line.method);
        self.version = head.line.version;
        self.expects_continue = head.expects_continue;
        self.text.clear();
        if wanted.texts {
            self.keep_texts(head, wanted.columns);
        }
    }

    fn keep_texts(&mut self, head: &RequestHead<'_>, columns: ColumnSet) {
        let line = &head.line;
        let target = url::target(line.method, line.target);
        let host = target.authority.or(head.host).filter(|h| !h.is_empty());
        self.has_host = host.is_some();
        self.has_agent = head.user_agent.is_some();
        let (path, query) = if columns.has_any(OF_PARTS) {
            target.path_and_query()
        } else {
            (target.resource, &b""[..])
        };
        self.keep(0, columns.has(fields::METHOD), line.method);
        self.keep(1, columns.has_any(OF_HOST), host.unwrap_or_default());
        self.keep(2, columns.has_any(OF_PATH), path);
        self.keep(3, columns.has_any(OF_QUERY), query);
        self.keep(
            4,
            columns.has(fields::USER_AGENT),
            head.user_agent.unwrap_or_default(),
        );
        // CONNECT has no path.
        self.has_path = self.method != HttpMethod::Connect || !path.is_empty();
        if columns.has(fields::URL_TEMPLATE) && self.has_path {
            url::template(path, &mut self.text);
        }
        self.ends[5] = self.text.len() as u32;
    }

    #[cold]
    pub fn keep_headers(&mut self, head: &[u8], named: &RequestedHeaders) {
        self.headers
            .get_or_insert_default()
            .become_those_of(head, &named.request);
    }

    #[inline]
    fn keep(&mut self, i: usize, wanted: bool, part: &[u8]) {
        if wanted {
            self.text.extend_from_slice(part);
        }
        self.ends[i] = self.text.len() as u32;
    }

    /// Whether it is an HTTP/0.9 request, without version and head.
    pub fn is_simple(&self) -> bool {
        self.version == Some(*b"0.9")
    }

    /// Memory of its text in bytes.
    #[inline]
    pub fn text_bytes(&self) -> usize {
        self.text.len()
            + self
                .headers
                .as_ref()
                .map_or(0, |headers| headers.text_bytes())
    }

    /// The request as that of stream 1 of HTTP/2, whose last byte arrived at `ts`.
    #[cold]
    pub fn upgraded(&self, ts: Timestamp) -> UpgradedRequest<'_> {
        UpgradedRequest {
            method: self.parts(0, 0),
            host: self.has_host.then(|| self.parts(1, 1)),
            target: self.parts(2, 3),
            user_agent: self.has_agent.then(|| self.parts(4, 4)),
            ts,
        }
    }

    /// The parts `first` to `last`.
    fn parts(&self, first: usize, last: usize) -> &[u8] {
        let start = first.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start as usize..self.ends[last] as usize]
    }

    fn write_texts(&self, columns: ColumnSet, w: &mut TupleWriter) {
        let mut put = |field, i| {
            if columns.has(field) {
                w.text(field, self.parts(i, i));
            }
        };
        put(fields::METHOD, 0);
        if self.has_host {
            put(fields::HOST, 1);
        }
        if self.has_path {
            put(fields::PATH, 2);
            put(fields::URL_TEMPLATE, 5);
        }
        if self.has_agent {
            put(fields::USER_AGENT, 4);
        }
        if columns.has(fields::URL_QUERY)
            && let Some(query) = self.parts(3, 3).strip_prefix(b"?")
        {
            w.text(fields::URL_QUERY, query);
        }
        if columns.has(fields::URL) {
            w.text(fields::URL, self.parts(1, 3));
        }
    }
}

impl RequestMatcher<HttpRequest> for HttpResponse {
    /// The end of the body depends on the request's method.
    fn doubt(&mut self) {
        self.extent.end_lost = true;
    }
}

impl Default for HttpResponse {
    fn default() -> Self {
        HttpResponse {
            extent: HttpMessageExtent::at(Timestamp::MIN),
            version: *b"0.9",
            status: 0,
            interim: 0,
            has_type: false,
            content_type: Vec::new(),
            headers: None,
        }
    }
}

impl HttpResponse {
    /// Replaces the contents by the response of `head`.
    #[inline]
    pub fn become_one(&mut self, head: &ResponseHead<'_>, interim: u16) {
        self.version = head.version;
        self.status = head.status;
        self.interim = interim;
        self.content_type.clear();
        // The content type is parsed only if a column needs it.
        self.has_type = head.content_type.is_some();
        if let Some(value) = head.content_type {
            self.content_type.extend_from_slice(value);
        }
    }

    #[cold]
    pub fn keep_headers(&mut self, head: &[u8], named: &RequestedHeaders) {
        self.headers
            .get_or_insert_default()
            .become_those_of(head, &named.response);
    }

    /// Resets to an HTTP/0.9 response, which has a body only.
    pub fn become_simple(&mut self) {
        *self = HttpResponse::default();
    }

    fn write(&self, columns: ColumnSet, first: Timestamp, to_head: bool, w: &mut TupleWriter) {
        if self.status != 0 {
            w.u64(fields::STATUS, u64::from(self.status));
        }
        if self.interim != 0 {
            w.u64(fields::INTERIM_STATUS, u64::from(self.interim));
        }
        if self.has_type {
            w.text(fields::CONTENT_TYPE, &self.content_type);
        }
        // The request was unknown when the response arrived: bytes after the head are not its body.
        let no_body = to_head && self.extent.body_bytes > 0;
        if no_body {
            w.u64(fields::RESPONSE_BYTES, 0);
        } else if !self.extent.end_lost {
            w.u64(fields::RESPONSE_BYTES, self.extent.body_bytes);
            if columns.has(fields::TRANSFER_TIME_NS)
                && let Some(last) = self.extent.end()
            {
                w.i64(fields::TRANSFER_TIME_NS, last.since(first));
            }
        }
    }
}

impl HttpMethod {
    #[inline]
    fn of(name: &[u8]) -> HttpMethod {
        match name {
            b"GET" => HttpMethod::Get,
            b"HEAD" => HttpMethod::Head,
            b"CONNECT" => HttpMethod::Connect,
            _ => HttpMethod::Other,
        }
    }
}

/// Frees the memory of a written transaction above the limit.
pub fn trim(transaction: &mut PairedTransaction<HttpRequest, HttpResponse>) {
    let (request, response) = transaction.parts_mut();
    for text in [&mut request.text, &mut response.content_type] {
        if text.capacity() > KEPT_BYTES {
            *text = Vec::new();
        }
    }
    for headers in [&mut request.headers, &mut response.headers] {
        if headers
            .as_ref()
            .is_some_and(|headers| headers.text_bytes() > KEPT_BYTES)
        {
            *headers = None;
        }
    }
}

/// Writes the tuple of `transaction`. `first`: it is the first of its connection.
#[inline]
pub fn emit(
    transaction: &PairedTransaction<HttpRequest, HttpResponse>,
    first: bool,
    wanted: &HttpProjection,
    out: &mut ParserOutput<'_>,
) {
    let is_get = transaction
        .request()
        .is_some_and(|r| r.method == HttpMethod::Get);
    let quality = quality(transaction, first && out.flow.midstream);
    out.emit(
        (transaction.first(), complete_at(transaction)),
        quality,
        |variant| variant == ALL || variant == GET_ONLY && is_get,
        |w| {
            if wanted.own {
                write(transaction, wanted, w);
            }
        },
    );
}

// Not inlined into the loop over the taps, before which its tests would be evaluated.
#[inline(never)]
fn write(
    transaction: &PairedTransaction<HttpRequest, HttpResponse>,
    wanted: &HttpProjection,
    w: &mut TupleWriter,
) {
    let request = transaction.request();
    let response = transaction.response();
    let columns = wanted.columns;
    if let Some(request) = request {
        if wanted.texts {
            request.write_texts(columns, w);
        }
        if !request.extent.end_lost {
            w.u64(fields::REQUEST_BYTES, request.extent.body_bytes);
        }
    }
    if let Some(response) = response {
        let to_head = request.is_some_and(|r| r.method == HttpMethod::Head);
        response.write(columns, transaction.response_first(), to_head, w);
    }
    if let Some(named) = &wanted.headers {
        write_headers(request, response, named, w);
    }
    if columns.has(fields::HTTP_VERSION)
        && let Some(version) = request.map_or(response.map(|r| r.version), |r| r.version)
    {
        w.text(fields::HTTP_VERSION, &version);
    }
    if let Some(time) = response_time(transaction).filter(|time| *time >= 0) {
        w.i64(fields::RESPONSE_TIME_NS, time);
    }
    if columns.has(fields::TOTAL_TIME_NS)
        && let Some(time) = total_time(transaction).filter(|time| *time >= 0)
    {
        w.i64(fields::TOTAL_TIME_NS, time);
    }
}

#[cold]
fn write_headers(
    request: Option<&HttpRequest>,
    response: Option<&HttpResponse>,
    named: &RequestedHeaders,
    w: &mut TupleWriter,
) {
    if let Some(values) = request.and_then(|request| request.headers.as_ref()) {
        values.write(&named.request, w);
    }
    if let Some(values) = response.and_then(|response| response.headers.as_ref()) {
        values.write(&named.response, w);
    }
}

/// Time from the last byte of the request to the first byte of the response, if both were seen. Negative if
/// the response began before the request was complete, or timestamps are wrong.
fn response_time(transaction: &PairedTransaction<HttpRequest, HttpResponse>) -> Option<i64> {
    let (request, _) = transaction.request().zip(transaction.response())?;
    let asked = request.extent.end()?;
    Some(transaction.response_first().since(asked))
}

/// Time from the last byte of the request to the last byte of the response, if both were seen. Negative if the response
/// was complete before the request, or timestamps are wrong.
fn total_time(transaction: &PairedTransaction<HttpRequest, HttpResponse>) -> Option<i64> {
    let (request, response) = transaction.request().zip(transaction.response())?;
    // Bytes after a response to HEAD are not its body.
    let counts_others = request.method == HttpMethod::Head && response.extent.body_bytes > 0;
    let is_whole = transaction.request_ended() && transaction.response_ended() && !counts_others;
    let (asked, told) = request.extent.end().zip(response.extent.end())?;
    is_whole.then(|| told.since(asked))
}

/// Time of the last byte. `None`: now, for a body without a known end, whose connection neither ended nor
/// lost bytes there.
fn complete_at(transaction: &PairedTransaction<HttpRequest, HttpResponse>) -> Option<Timestamp> {
    if transaction
        .response()
        .is_some_and(|response| response.extent.end_lost && !response.extent.last_lost)
    {
        return None;
    }
    let asked = transaction
        .request()
        .map_or(Timestamp::MIN, |request| request.extent.last);
    let told = transaction
        .response()
        .map_or(Timestamp::MIN, |response| response.extent.last);
    transaction.complete_at(asked, told.max(transaction.response_first()))
}

fn quality(
    transaction: &PairedTransaction<HttpRequest, HttpResponse>,
    midstream: bool,
) -> TupleQuality {
    let Some(request) = transaction.request() else {
        return TupleQuality::Half;
    };
    let Some(response) = transaction.response() else {
        return TupleQuality::Half;
    };
    match () {
        () if midstream => TupleQuality::Midstream,
        () if transaction.resynchronized() => TupleQuality::Resync,
        () if request.extent.gap || response.extent.gap => TupleQuality::GapBody,
        () if response_time(transaction).is_some_and(|time| time < 0) => TupleQuality::Untimed,
        () => TupleQuality::Exact,
    }
}
