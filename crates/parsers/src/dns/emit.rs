//! Writes queries with their outcomes as tuples.

use tuple::TupleWriter;

use super::answer_section::{self, DnsAnswerSection};
use super::codes;
use super::field;
use super::message::{DnsHeader, DnsMessage, DnsQuestion, type_of};
use super::name;
use super::pending_queries::DnsPendingQuery;
use crate::output::ColumnSet;
use crate::{ParserOutput, TupleQuality};

/// Columns that need the answer records.
const RECORDS: ColumnSet = ColumnSet::of(&[field::ANSWERS, field::TTL_MIN]);
const CODE: ColumnSet = ColumnSet::of(&[field::RESPONSE_CODE]);

/// Writes a question with its response, if any.
pub fn tuple(asked: &DnsPendingQuery, answer: Option<&DnsMessage<'_>>, out: &mut ParserOutput<'_>) {
    let mut quality = if asked.gap {
        TupleQuality::GapBody
    } else {
        TupleQuality::Exact
    };
    let mut response_time = None;
    let mut total_time = None;
    match answer {
        Some(answer) => {
            // The missing bytes of a datagram arrived with it, those of a byte stream at an unknown time.
            let ends_seen = answer.place.is_none() || !answer.is_cut() && !asked.gap;
            total_time = ends_seen
                .then(|| answer.span.last.since(asked.span.last))
                .filter(|time| *time >= 0);
            let time = answer.span.first.since(asked.span.last);
            response_time = Some(time).filter(|time| *time >= 0);
            let gap = if answer.is_cut() {
                TupleQuality::GapBody
            } else {
                TupleQuality::Exact
            };
            let untimed = if time < 0 {
                TupleQuality::Untimed
            } else {
                TupleQuality::Exact
            };
            quality = quality
                .max(gap)
                .max(untimed)
                .max(answer.found.unwrap_or(TupleQuality::Exact));
        }
        None => quality = TupleQuality::Half,
    }
    quality = quality.max(asked.found.unwrap_or(TupleQuality::Exact));
    let end = answer.map(|answer| asked.span.last.max(answer.span.last));
    let answer = answer.and_then(|answer| DnsResponseFields::read(answer, out));
    out.emit(
        (asked.span.first, end),
        quality,
        |_| true,
        |w| {
            write_question(
                w,
                asked.header,
                Some(&*asked.question).filter(|question| !question.is_empty()),
            );
            w.u64(field::REQUEST_BYTES, asked.bytes.into());
            w.u64(field::RETRIES, asked.retries.into());
            if let Some(answer) = &answer {
                answer.write(w);
            }
            if let Some(time) = response_time {
                w.i64(field::RESPONSE_TIME, time);
            }
            if let Some(time) = total_time {
                w.i64(field::TOTAL_TIME, time);
            }
        },
    );
}

/// Writes a question or a response without its other half.
pub fn half(message: &DnsMessage<'_>, out: &mut ParserOutput<'_>) {
    let header = message.header;
    let question = match DnsQuestion::read(message.bytes, header) {
        DnsQuestion::Whole(question) => Some(question),
        _ => None,
    };
    let answer = if header.is_answer() {
        DnsResponseFields::read(message, out)
    } else {
        None
    };
    out.emit(
        (message.span.first, None),
        TupleQuality::Half,
        |_| true,
        |w| {
            write_question(w, header, question);
            match &answer {
                Some(answer) => answer.write(w),
                None => w.u64(field::REQUEST_BYTES, message.len.into()),
            }
        },
    );
}

fn write_question(w: &mut TupleWriter, header: DnsHeader, question: Option<&[u8]>) {
    w.u64(field::TRANSACTION_ID, header.id.into());
    w.bool(field::RECURSION_DESIRED, header.recursion_desired());
    if w.wants(field::OPCODE) {
        match codes::opcode(header.opcode()) {
            Some(name) => w.text(field::OPCODE, name.as_bytes()),
            None => w.text(field::OPCODE, header.opcode().to_string().as_bytes()),
        }
    }
    let Some(question) = question else { return };
    if w.wants(field::QUERY_NAME) {
        let mut text = Vec::new();
        if name::write(question, 0, &mut text).is_some() {
            w.text(field::QUERY_NAME, &text);
        }
    }
    codes::with_type_name(type_of(question), |name| w.text(field::QUERY_TYPE, name));
}

/// Wanted contents of a response.
struct DnsResponseFields {
    header: DnsHeader,
    code: u16,
    len: u32,
    answers: Option<DnsAnswerSection>,
}

impl DnsResponseFields {
    fn read(answer: &DnsMessage<'_>, out: &mut ParserOutput<'_>) -> Option<DnsResponseFields> {
        let DnsMessage {
            bytes, header, len, ..
        } = *answer;
        let columns = out.columns();
        let upper = if columns.has_any(CODE) {
            answer_section::upper_code(bytes, header)
        } else {
            0
        };
        let mut answers = None;
        // In an UPDATE, the answer section contains prerequisites.
        let has_answers = header.opcode() != codes::UPDATE;
        if columns.has_any(RECORDS) && has_answers {
            let with_text = out.wants(field::ANSWERS);
            answers = answer_section::read(bytes, header, with_text);
            out.counters.malformed_messages += u64::from(answers.is_none() && !answer.is_cut());
            let long = with_text
                && answers
                    .as_ref()
                    .is_some_and(|answers| answers.text.is_none());
            out.counters.oversized_heads += u64::from(long);
        }
        Some(DnsResponseFields {
            header,
            code: upper | u16::from(header.code()),
            len,
            answers,
        })
    }

    fn write(&self, w: &mut TupleWriter) {
        let DnsResponseFields {
            header,
            code,
            len,
            answers,
        } = self;
        match codes::response_code(*code) {
            Some(name) => w.text(field::RESPONSE_CODE, name.as_bytes()),
            None if w.wants(field::RESPONSE_CODE) => {
                w.text(field::RESPONSE_CODE, format!("RCODE{code}").as_bytes());
            }
            None => {}
        }
        if header.opcode() != codes::UPDATE {
            w.u64(field::ANSWER_COUNT, header.counts[1].into());
        }
        w.bool(field::TRUNCATED, header.is_truncated());
        w.bool(field::AUTHORITATIVE, header.is_authoritative());
        w.u64(field::RESPONSE_BYTES, (*len).into());
        if let Some(answers) = answers {
            if let Some(text) = answers.text.as_ref().filter(|text| !text.is_empty()) {
                w.text(field::ANSWERS, text);
            }
            if let Some(ttl) = answers.ttl_min {
                w.u64(field::TTL_MIN, ttl.into());
            }
        }
    }
}
