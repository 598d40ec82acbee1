//! What is kept of a request until its response comes, and the tuple made of both.

use tuple::{FieldId, TupleWriter};

use super::head::{RequestHead, ResponseHead, Version};
use super::{fields, url};
use crate::in_order::Exchange;
use crate::{Output, Quality, Span};

/// Text buffers kept for the next requests, and the most each may hold.
const SPARES_MAX: usize = 8;
const SPARE_BYTES_MAX: usize = 2048;

/// A request, as far as wanted columns need it.
#[derive(Debug)]
pub struct Request {
    pub span: Span,
    pub body_bytes: u64,
    /// Bytes of its body are missing.
    pub gap: bool,
    /// Where its body ended is not known.
    pub end_lost: bool,
    pub method: Method,
    pub version: Option<Version>,
    /// Waits for `100 Continue` before it sends its body.
    pub expects_continue: bool,
    has_host: bool,
    has_query: bool,
    has_agent: bool,
    /// Method, host, path, query and user agent, one after another.
    text: Vec<u8>,
    ends: [u32; 5],
}

/// A response.
#[derive(Debug)]
pub struct Response {
    pub span: Span,
    pub body_bytes: u64,
    pub gap: bool,
    pub end_lost: bool,
    pub version: Version,
    /// 0: none, as in HTTP/0.9.
    pub status: u16,
    /// Status of the last interim response before it; 0: none.
    pub interim: u16,
    content_type: Option<Vec<u8>>,
}

/// Methods that change what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
    Connect,
    Other,
}

/// Which texts the queries at hand need; found out once a flow.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    method: bool,
    host: bool,
    path: bool,
    query: bool,
    template: bool,
    agent: bool,
    content_type: bool,
}

/// Buffers for texts, used again and again.
#[derive(Debug, Default)]
pub struct Texts {
    spare: Vec<Vec<u8>>,
}

impl Wanted {
    pub fn new(out: &Output<'_>) -> Wanted {
        let any = |ids: &[FieldId]| ids.iter().any(|id| out.wants(*id));
        Wanted {
            method: any(&[fields::METHOD]),
            host: any(&[fields::HOST, fields::URL]),
            path: any(&[fields::PATH, fields::URL, fields::URL_TEMPLATE]),
            query: any(&[fields::URL_QUERY, fields::URL]),
            template: any(&[fields::URL_TEMPLATE]),
            agent: any(&[fields::USER_AGENT]),
            content_type: any(&[fields::CONTENT_TYPE]),
        }
    }
}

impl Texts {
    fn take(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    fn give(&mut self, mut text: Vec<u8>) {
        if self.spare.len() < SPARES_MAX && text.capacity() <= SPARE_BYTES_MAX && text.capacity() > 0 {
            text.clear();
            self.spare.push(text);
        }
    }

    /// Takes the buffers of an exchange that has been written.
    pub fn recycle(&mut self, exchange: Exchange<Request, Response>) {
        if let Some(request) = exchange.request {
            self.give(request.text);
        }
        if let Some(text) = exchange.response.and_then(|r| r.content_type) {
            self.give(text);
        }
    }
}

impl Request {
    /// Keeps what is wanted of `head`.
    pub fn new(head: &RequestHead<'_>, span: Span, wanted: Wanted, texts: &mut Texts) -> Request {
        let line = &head.line;
        let target = url::target(line.method, line.target);
        let host = target.authority.or(head.host).filter(|h| !h.is_empty());
        let mut text = texts.take();
        let mut ends = [0; 5];
        let parts = [
            (wanted.method, line.method),
            (wanted.host, host.unwrap_or_default()),
            (wanted.path, target.path),
            (wanted.query, target.query.unwrap_or_default()),
            (wanted.agent, head.user_agent.unwrap_or_default()),
        ];
        for ((wanted, part), end) in parts.into_iter().zip(&mut ends) {
            if wanted {
                text.extend_from_slice(part);
            }
            *end = text.len() as u32;
        }
        Request {
            span,
            body_bytes: 0,
            gap: false,
            end_lost: false,
            method: Method::of(line.method),
            version: line.version,
            expects_continue: head.expects_continue,
            has_host: host.is_some(),
            has_query: target.query.is_some(),
            has_agent: head.user_agent.is_some(),
            text,
            ends,
        }
    }

    /// Without a version and a head: HTTP/0.9.
    pub fn is_simple(&self) -> bool {
        self.version == Some(*b"0.9")
    }

    /// Memory held for its text.
    pub fn text_bytes(&self) -> usize {
        self.text.len()
    }

    fn part(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        &self.text[start..self.ends[i] as usize]
    }

    fn write(&self, w: &mut TupleWriter, template: &[u8]) {
        let [method, host, path, query, agent] = [0, 1, 2, 3, 4].map(|i| self.part(i));
        w.text(fields::METHOD, method);
        if self.has_host {
            w.text(fields::HOST, host);
        }
        // CONNECT has no path.
        if self.method != Method::Connect || !path.is_empty() {
            w.text(fields::PATH, path);
            w.text(fields::URL_TEMPLATE, template);
        }
        if self.has_query {
            w.text(fields::URL_QUERY, query);
            w.text_parts(fields::URL, &[host, path, b"?", query]);
        } else {
            w.text_parts(fields::URL, &[host, path]);
        }
        if self.has_agent {
            w.text(fields::USER_AGENT, agent);
        }
        if !self.end_lost {
            w.u64(fields::REQUEST_BYTES, self.body_bytes);
        }
    }
}

impl Response {
    pub fn new(
        head: &ResponseHead<'_>,
        span: Span,
        interim: u16,
        wanted: Wanted,
        texts: &mut Texts,
    ) -> Response {
        let content_type = head.content_type.filter(|_| wanted.content_type).map(|value| {
            let mut text = texts.take();
            text.extend_from_slice(value);
            text
        });
        Response {
            version: head.version,
            status: head.status,
            interim,
            content_type,
            ..Response::simple(span)
        }
    }

    /// HTTP/0.9: nothing but a body.
    pub fn simple(span: Span) -> Response {
        Response {
            span,
            body_bytes: 0,
            gap: false,
            end_lost: false,
            version: *b"0.9",
            status: 0,
            interim: 0,
            content_type: None,
        }
    }

    fn write(&self, w: &mut TupleWriter) {
        if self.status != 0 {
            w.u64(fields::STATUS, u64::from(self.status));
        }
        if self.interim != 0 {
            w.u64(fields::INTERIM_STATUS, u64::from(self.interim));
        }
        if let Some(value) = &self.content_type {
            w.text(fields::CONTENT_TYPE, value);
        }
        if !self.end_lost {
            w.u64(fields::RESPONSE_BYTES, self.body_bytes);
            w.i64(fields::TRANSFER_TIME_NS, self.span.last.since(self.span.first));
        }
    }
}

impl Method {
    fn of(name: &[u8]) -> Method {
        match name {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"CONNECT" => Method::Connect,
            _ => Method::Other,
        }
    }
}

/// Writes the tuple of `exchange`. `first`: it is the first of its connection.
pub fn emit(
    exchange: &Exchange<Request, Response>,
    first: bool,
    wanted: Wanted,
    scratch: &mut Vec<u8>,
    out: &mut Output<'_>,
) {
    let (request, response) = (exchange.request.as_ref(), exchange.response.as_ref());
    let Some(ts) = request.map(|r| r.span.first).or(response.map(|r| r.span.first)) else { return };
    let is_get = request.is_some_and(|r| r.method == Method::Get);
    scratch.clear();
    if let Some(request) = request.filter(|_| wanted.template) {
        url::template(request.part(2), scratch);
    }
    let quality = quality(exchange, first && out.flow.midstream);
    out.emit(
        ts,
        quality,
        |variant| variant == super::ALL || is_get,
        |w| {
            if let Some(request) = request {
                request.write(w, scratch);
            }
            if let Some(response) = response {
                response.write(w);
            }
            if let Some(version) = request.map_or(response.map(|r| r.version), |r| r.version) {
                w.text(fields::HTTP_VERSION, &version);
            }
            if let (Some(request), Some(response)) = (request, response)
                && !request.end_lost
            {
                w.i64(fields::RESPONSE_TIME_NS, response.span.first.since(request.span.last));
            }
        },
    );
}

fn quality(exchange: &Exchange<Request, Response>, midstream: bool) -> Quality {
    let (Some(request), Some(response)) = (&exchange.request, &exchange.response) else {
        return Quality::Half;
    };
    match () {
        () if midstream => Quality::Midstream,
        () if exchange.resync => Quality::Resync,
        () if request.gap || response.gap => Quality::GapBody,
        () => Quality::Exact,
    }
}
