//! The tuple of a stream.

use tuple::TupleWriter;
use wire::Timestamp;

use super::connection::Http2Connection;
use super::projection::{GRPC, HTTP2, Http2Projection};
use super::streams::{Http2Message, Http2Stream, StreamOutcome, part};
use super::{fields, frames, grpc};
use crate::http::fields::{self as http_fields, ALL, GET_ONLY};
use crate::http::url;
use crate::{ParserOutput, TupleQuality};

impl Http2Connection {
    /// Writes the tuple of a stream and removes it.
    pub(super) fn write(&mut self, id: u32, out: &mut ParserOutput<'_>) {
        let Some(mut stream) = self.streams.take(id) else {
            return;
        };
        for message in [&mut stream.request, &mut stream.response] {
            if message.stalled_at.take().is_some() {
                self.stalled = self.stalled.saturating_sub(1);
            }
        }
        if stream.outcome.is_none() && stream.response.is_ended {
            stream.outcome = Some((StreamOutcome::EndStream, stream.response.last));
        }
        if stream.request.is_seen || stream.response.is_seen {
            let wanted = self
                .wanted
                .get_or_insert_with(|| Box::new(Http2Projection::new(out)));
            let has_lost = self.windows_unknown && !out.flow.midstream;
            let first = !self.emitted && out.flow.midstream;
            emit(&stream, wanted, quality(&stream, first, has_lost), out);
            self.emitted = true;
        }
        self.streams.give_back(stream);
    }
}

fn emit(
    stream: &Http2Stream,
    wanted: &Http2Projection,
    quality: TupleQuality,
    out: &mut ParserOutput<'_>,
) {
    let times = (begin(stream).unwrap_or(out.now), Some(end(stream)));
    out.request = stream.place.filter(|_| stream.request.is_seen);
    let keep = |variant| variant == ALL || variant == GET_ONLY && stream.is_get;
    out.emit(times, quality, keep, |w| write_http(stream, wanted, 0, w));
    let is_grpc = is_grpc(stream);
    let keep = |variant| variant == HTTP2 || variant == GRPC && is_grpc;
    out.emit(times, quality, keep, |w| {
        write_http(stream, wanted, 1, w);
        write_own(stream, wanted, is_grpc, w);
    });
}

fn begin(stream: &Http2Stream) -> Option<Timestamp> {
    let seen = |message: &Http2Message| {
        message
            .is_seen
            .then_some(message.first.unwrap_or(message.last))
    };
    seen(&stream.request).or(seen(&stream.response))
}

/// Time of the last byte, or of the frame that ended the stream.
fn end(stream: &Http2Stream) -> Timestamp {
    let last = stream.request.last.max(stream.response.last);
    match stream.outcome {
        Some((StreamOutcome::Reset(_) | StreamOutcome::GoAway, ts)) => last.max(ts),
        _ => last,
    }
}

fn quality(stream: &Http2Stream, first: bool, has_lost: bool) -> TupleQuality {
    let Http2Stream {
        request, response, ..
    } = stream;
    let messages = [request, response];
    let any = |is: fn(&Http2Message) -> bool| messages.iter().any(|message| is(message));
    let unresolved = any(|message| message.unresolved > 0);
    match () {
        () if any(|message| !message.is_seen) => TupleQuality::Half,
        () if first || unresolved && !has_lost => TupleQuality::Midstream,
        () if any(|message| message.found) => TupleQuality::Resync,
        () if unresolved || any(|message| message.gap) || !response.is_ended => {
            TupleQuality::GapBody
        }
        () if response_time(stream).is_none() => TupleQuality::Untimed,
        () => TupleQuality::Exact,
    }
}

/// Whether the stream is a gRPC call: by the content type, or if that is unknown, by messages that fill both bodies.
fn is_grpc(stream: &Http2Stream) -> bool {
    let Http2Stream {
        request, response, ..
    } = stream;
    let is_filled =
        |message: &Http2Message| message.messages.count > 0 && message.messages.is_between();
    request.is_grpc
        || response.is_grpc
        || request.unresolved > 0
            && request.texts.get(part::CONTENT_TYPE).is_none()
            && is_filled(request)
            && is_filled(response)
}

/// Time from the last byte of the request to the first byte of the response; of a response that began earlier,
/// from the head of the request.
fn response_time(stream: &Http2Stream) -> Option<i64> {
    let Http2Stream {
        request, response, ..
    } = stream;
    if !request.is_seen || !response.is_seen {
        return None;
    }
    let answered = response.first?;
    let whole = request.end().filter(|asked| *asked <= answered);
    let is_streaming = request.is_grpc && !request.gap;
    let asked = whole.or_else(|| is_streaming.then_some(request.head_last))?;
    Some(answered.since(asked)).filter(|time| *time >= 0)
}

/// Time from the last byte of the request to the last byte of the response.
fn total_time(stream: &Http2Stream) -> Option<i64> {
    let asked = stream.request.end()?;
    let told = stream.response.end()?;
    Some(told.since(asked)).filter(|time| *time >= 0)
}

/// Writes the fields of `http`. `of`: index of the schema in [`Http2Projection::names_in`].
fn write_http(stream: &Http2Stream, wanted: &Http2Projection, of: usize, w: &mut TupleWriter) {
    use http_fields::*;
    let Http2Stream {
        request, response, ..
    } = stream;
    if request.is_seen {
        write_request(request, wanted, w);
        if request.is_ended && !request.frames_lost {
            w.u64(REQUEST_BYTES, request.body_bytes);
        }
    }
    w.text(HTTP_VERSION, b"2");
    if response.is_seen {
        if stream.status != 0 {
            w.u64(STATUS, u64::from(stream.status));
        }
        put(w, CONTENT_TYPE, response.texts.get(part::CONTENT_TYPE));
        if response.is_ended && !response.frames_lost {
            w.u64(RESPONSE_BYTES, response.body_bytes);
        }
        if let Some((first, last)) = response.first.zip(response.end()) {
            w.i64(TRANSFER_TIME_NS, last.since(first));
        }
    }
    if stream.interim != 0 {
        w.u64(INTERIM_STATUS, u64::from(stream.interim));
    }
    if let Some(time) = response_time(stream) {
        w.i64(RESPONSE_TIME_NS, time);
    }
    if let Some(time) = total_time(stream) {
        w.i64(TOTAL_TIME_NS, time);
    }
    if wanted.names_fields {
        for (message, is_request) in [(request, true), (response, false)] {
            if let Some(headers) = &message.headers {
                headers[of].write(wanted.names_in(is_request)[of], w);
            }
        }
    }
}

fn put(w: &mut TupleWriter, field: tuple::FieldId, text: Option<&[u8]>) {
    if let Some(text) = text {
        w.text(field, text);
    }
}

fn write_request(request: &Http2Message, wanted: &Http2Projection, w: &mut TupleWriter) {
    use http_fields::*;
    let text = |part| request.texts.get(part);
    let method = text(part::METHOD);
    put(w, METHOD, method);
    put(w, USER_AGENT, text(part::USER_AGENT));
    let host = text(part::AUTHORITY)
        .or(text(part::HOST))
        .filter(|host| !host.is_empty());
    put(w, HOST, host);
    let Some(target) = text(part::TARGET) else {
        return;
    };
    let (path, query) = url::target(method.unwrap_or_default(), target).path_and_query();
    put(w, PATH, Some(path));
    put(w, URL_QUERY, query.strip_prefix(b"?"));
    if wanted.columns.has(URL) && (host.is_some() || request.unresolved == 0) {
        w.text_parts(URL, &[host.unwrap_or_default(), target]);
    }
    if wanted.columns.has(URL_TEMPLATE) {
        let mut template = Vec::new();
        url::template(path, &mut template);
        w.text(URL_TEMPLATE, &template);
    }
}

/// Writes the fields that only `http2` and `grpc` have.
fn write_own(stream: &Http2Stream, wanted: &Http2Projection, is_grpc: bool, w: &mut TupleWriter) {
    use fields::*;
    let Http2Stream {
        request, response, ..
    } = stream;
    w.u64(STREAM, u64::from(stream.id));
    put(w, AUTHORITY, request.texts.get(part::AUTHORITY));
    put(w, SCHEME, request.texts.get(part::SCHEME));
    w.u64(UNRESOLVED, request.unresolved + response.unresolved);
    if let Some((first, _)) = response
        .first_data
        .filter(|_| !response.frames_lost && !response.gap)
    {
        let asked = request
            .first_data
            .map_or(request.head_last, |(_, last)| last);
        let asked = if asked <= first {
            asked
        } else {
            request.head_last
        };
        if request.is_seen && !request.gap && asked <= first {
            w.i64(FIRST_MESSAGE_TIME_NS, first.since(asked));
        }
    }
    if !stream.windows_unknown {
        w.i64(WINDOW_STALL_NS, request.stall_ns + response.stall_ns);
    }
    if wanted.own.has(END)
        && let Some((outcome, _)) = stream.outcome
    {
        write_outcome(outcome, w);
    }
    if is_grpc {
        write_grpc(stream, w);
    }
}

fn write_outcome(outcome: StreamOutcome, w: &mut TupleWriter) {
    match outcome {
        StreamOutcome::EndStream => w.text(fields::END, b"end_stream"),
        StreamOutcome::GoAway => w.text(fields::END, b"goaway"),
        StreamOutcome::Connection => w.text(fields::END, b"connection"),
        StreamOutcome::Reset(code) => match frames::error_name(code) {
            Some(name) => w.text_parts(fields::END, &[b"rst_stream(", name.as_bytes(), b")"]),
            None => w.text(fields::END, format!("rst_stream({code})").as_bytes()),
        },
    }
}

fn write_grpc(stream: &Http2Stream, w: &mut TupleWriter) {
    use fields::*;
    let Http2Stream {
        request, response, ..
    } = stream;
    let names = request.texts.get(part::TARGET).and_then(grpc::names);
    if let Some((service, method)) = names {
        w.text(GRPC_SERVICE, service);
        w.text(GRPC_METHOD, method);
    }
    for (message, field) in [(request, REQUEST_MESSAGES), (response, RESPONSE_MESSAGES)] {
        if message.is_seen && !message.messages.is_unknown && !message.frames_lost {
            w.u64(field, message.messages.count);
        }
    }
    let trailer = |part, name: &[u8]| {
        let in_body = || grpc::trailer(&response.messages.trailers, name);
        response.texts.get(part).or_else(in_body)
    };
    if let Some(code) = trailer(part::GRPC_STATUS, b"grpc-status") {
        w.text(GRPC_STATUS, grpc::status_name(code));
    }
    if let Some(text) = trailer(part::GRPC_MESSAGE, b"grpc-message") {
        let mut message = Vec::new();
        grpc::decode_message(text, &mut message);
        w.text(GRPC_MESSAGE, &message);
    }
}
