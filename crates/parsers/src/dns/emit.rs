//! Writes queries with their outcomes as tuples.

use tuple::TupleWriter;

use super::answers::{self, Answers};
use super::codes;
use super::exchanges::Message;
use super::field;
use super::message::{Header, Question, type_of};
use super::name;
use super::waiting::Asked;
use crate::output::Columns;
use crate::{Output, Quality};

/// Columns that need the answer records.
const RECORDS: Columns = Columns::of(&[field::ANSWERS, field::TTL_MIN]);
const CODE: Columns = Columns::of(&[field::RESPONSE_CODE]);

/// Writes a question with its response, if any.
pub fn tuple(asked: &Asked, answer: Option<&Message<'_>>, out: &mut Output<'_>) {
    let mut quality = if asked.gap { Quality::GapBody } else { Quality::Exact };
    let mut response_time = None;
    match answer {
        Some(answer) => {
            let time = answer.span.first.since(asked.span.last);
            response_time = Some(time).filter(|time| *time >= 0);
            let gap = if answer.is_cut() { Quality::GapBody } else { Quality::Exact };
            let untimed = if time < 0 { Quality::Untimed } else { Quality::Exact };
            quality = quality.max(gap).max(untimed).max(answer.found.unwrap_or(Quality::Exact));
        }
        None => quality = Quality::Half,
    }
    quality = quality.max(asked.found.unwrap_or(Quality::Exact));
    let end = answer.map(|answer| asked.span.last.max(answer.span.last));
    let answer = answer.and_then(|answer| Said::read(answer, out));
    out.emit(
        (asked.span.first, end),
        quality,
        |_| true,
        |w| {
            write_question(w, asked.header, Some(&*asked.question).filter(|question| !question.is_empty()));
            w.u64(field::REQUEST_BYTES, asked.bytes.into());
            w.u64(field::RETRIES, asked.retries.into());
            if let Some(answer) = &answer {
                answer.write(w);
            }
            if let Some(time) = response_time {
                w.i64(field::RESPONSE_TIME, time);
            }
        },
    );
}

/// Writes a question or a response without its other half.
pub fn half(message: &Message<'_>, out: &mut Output<'_>) {
    let header = message.header;
    let question = match Question::read(message.bytes, header) {
        Question::Whole(question) => Some(question),
        _ => None,
    };
    let answer = if header.is_answer() { Said::read(message, out) } else { None };
    out.emit(
        (message.span.first, None),
        Quality::Half,
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

fn write_question(w: &mut TupleWriter, header: Header, question: Option<&[u8]>) {
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
struct Said {
    header: Header,
    code: u16,
    len: u32,
    answers: Option<Answers>,
}

impl Said {
    fn read(answer: &Message<'_>, out: &mut Output<'_>) -> Option<Said> {
        let Message { bytes, header, len, .. } = *answer;
        let columns = out.columns();
        let upper = if columns.has_any(CODE) { answers::upper_code(bytes, header) } else { 0 };
        let mut answers = None;
        // In an UPDATE, the answer section contains prerequisites.
        let has_answers = header.opcode() != codes::UPDATE;
        if columns.has_any(RECORDS) && has_answers {
            let with_text = out.wants(field::ANSWERS);
            answers = answers::read(bytes, header, with_text);
            out.counters.malformed_messages += u64::from(answers.is_none() && !answer.is_cut());
            let long = with_text && answers.as_ref().is_some_and(|answers| answers.text.is_none());
            out.counters.oversized_heads += u64::from(long);
        }
        Some(Said { header, code: upper | u16::from(header.code()), len, answers })
    }

    fn write(&self, w: &mut TupleWriter) {
        let Said { header, code, len, answers } = self;
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
