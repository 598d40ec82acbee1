//! The text protocol with its meta commands: request lines, reply lines, and the values behind them.
//!
//! Reads lines as the server does (memcached's proto_text.c and proto_parser.c): what it refuses before it knows a
//! value's length has no value, so the next line is a command.

use memchr::memchr;
use wire::Timestamp;

use super::command::{Class, Command, Status, Word};
use super::conversation::Conversation;
use super::emit::Outcome;
use super::reply::{Kind, Reply};
use super::waiting::{Marks, Request};
use super::words::{Words, block_length, is_signed_number, meta_flags, number, without_end};
use crate::{Direction, Output, Span};

/// Most bytes of a line that are read; servers take more only of `get` and `gets`.
const LINE_MAX: usize = 64 * 1024;
/// Longest key that a server takes.
const KEY_MAX: usize = 250;
/// Most bytes kept of a command that is none.
const NAME_MAX: usize = 64;

impl Conversation {
    /// The next text bytes of one direction.
    pub(super) fn read_text(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        ts: Timestamp,
        out: &mut Output<'_>,
    ) {
        let mut bytes = bytes;
        let mut found = false;
        while !bytes.is_empty() {
            if self.reader(direction).skip > 0 {
                bytes = self.skip_value(direction, bytes, ts, out);
                continue;
            }
            if self.reader(direction).scanning {
                bytes = self.search(direction, bytes, ts, out);
                found = true;
                continue;
            }
            if direction == Direction::ServerToClient {
                if self.watching {
                    return;
                }
                if !std::mem::take(&mut found) && self.must_hold() {
                    return self.hold(bytes, ts, out);
                }
            }
            let Some(end) = memchr(b'\n', bytes) else { return self.keep_head(direction, bytes, ts, out) };
            let (line, rest) = bytes.split_at(end + 1);
            bytes = rest;
            let reader = self.reader(direction);
            if reader.head.is_empty() && line.len() <= LINE_MAX {
                reader.place = out.place_of(line);
                self.on_line(direction, line, Span::at(ts), out);
            } else {
                self.keep_head(direction, line, ts, out);
                self.on_kept_line(direction, ts, out);
            }
        }
    }

    /// Keeps the part of a line that has come, up to the limit.
    #[cold]
    fn keep_head(&mut self, direction: Direction, bytes: &[u8], ts: Timestamp, out: &mut Output<'_>) {
        let reader = self.reader(direction);
        if reader.head.is_empty() {
            reader.place = out.place_of(bytes);
        }
        reader.span.get_or_insert(Span::at(ts)).extend(ts);
        let n = bytes.len().min(LINE_MAX.saturating_sub(reader.head.len()));
        reader.head.extend_from_slice(&bytes[..n]);
        if n < bytes.len() && !reader.cut {
            reader.cut = true;
            out.counters.oversized_heads += 1;
        }
    }

    #[cold]
    fn on_kept_line(&mut self, direction: Direction, ts: Timestamp, out: &mut Output<'_>) {
        let reader = self.reader(direction);
        let mut head = std::mem::take(&mut reader.head);
        let span = reader.span.take().unwrap_or(Span::at(ts));
        if std::mem::take(&mut reader.cut) {
            // The last word is not whole.
            head.truncate(head.iter().rposition(|b| *b == b' ').unwrap_or(head.len()));
        }
        self.on_line(direction, &head, span, out);
        head.clear();
        self.reader(direction).head = head;
    }

    #[inline]
    fn on_line(&mut self, direction: Direction, line: &[u8], span: Span, out: &mut Output<'_>) {
        let text = without_end(line);
        match direction {
            Direction::ClientToServer => self.on_request_line(text, span, out),
            Direction::ServerToClient => self.on_reply_line(text, span, out),
        }
    }

    #[inline]
    fn on_request_line(&mut self, text: &[u8], span: Span, out: &mut Output<'_>) {
        let mut words = Words(text);
        let name = words.next().unwrap_or_default();
        let Some(command) = Command::of_word(name) else { return self.on_unknown(name, span, out) };
        let Some(word) = command.word() else { return };
        let mut request = Request::new(command, word.class, span);
        match word.class {
            Class::Retrieval => {
                self.begin_request(request, out);
                for key in words.skip(usize::from(word.key_after.unwrap_or(0))) {
                    self.keep_text(key, out);
                }
            }
            Class::Storage => return self.on_storage(request, words, text, out),
            Class::MetaGet
            | Class::MetaSet
            | Class::MetaDelete
            | Class::MetaArithmetic
            | Class::MetaDebug => {
                return self.on_meta(request, words, out);
            }
            Class::Farewell => {
                request.marks.set(Marks::SILENT);
                self.begin_request(request, out);
            }
            _ => {
                let may_be_silent =
                    matches!(word.class, Class::Deletion | Class::Arithmetic | Class::Touch | Class::Admin);
                request.marks.set(Marks::when(may_be_silent && says_noreply(text), Marks::SILENT));
                request.class = class_of_subcommand(word, words);
                self.begin_request(request, out);
                if word.key_after.is_some()
                    && let Some(key) = words.next()
                {
                    self.keep_text(key, out);
                }
            }
        }
        self.end_request(span.last, out);
    }

    /// `set key flags exptime bytes [cas] [noreply]` and its like.
    #[inline]
    fn on_storage(&mut self, mut request: Request, mut words: Words<'_>, text: &[u8], out: &mut Output<'_>) {
        let last = request.span.last;
        let [key, flags, exptime, bytes] = std::array::from_fn(|_| words.next());
        request.marks.set(Marks::when(says_noreply(text), Marks::SILENT));
        request.value_bytes = bytes.and_then(block_length);
        let needs_cas = request.command.name() == Some(b"cas");
        let sound = key.is_some_and(|k| k.len() <= KEY_MAX)
            && flags.is_some_and(|f| number(f).is_some())
            && exptime.is_some_and(is_signed_number)
            && (!needs_cas || words.next().is_some_and(|w| number(w).is_some()));
        request.marks.set(Marks::when(!sound, Marks::SUSPECT));
        if bytes.is_none() {
            // Too few words: `ERROR`, whatever the last one says.
            request.marks.clear(Marks::SILENT);
        }
        self.begin_request(request, out);
        if let Some(key) = key {
            self.keep_text(key, out);
        }
        self.expect_value(request.value_bytes, last, out);
    }

    /// `mg key flags…`, `ms key bytes flags…`.
    fn on_meta(&mut self, mut request: Request, mut words: Words<'_>, out: &mut Output<'_>) {
        let last = request.span.last;
        let key = words.next();
        if request.class == Class::MetaSet {
            let mut ahead = words;
            let first = ahead.next().unwrap_or_default();
            // 1.6.0 to 1.6.8 had the length as a flag: `ms key S5 T0`.
            let flag = first.strip_prefix(b"S");
            request.value_bytes = block_length(flag.unwrap_or(first));
            let sound = flag.is_none() && key.is_some_and(|k| k.len() <= KEY_MAX);
            request.marks.set(Marks::when(!sound, Marks::SUSPECT));
            words = ahead;
        }
        let (marks, tag) = meta_flags(words);
        request.marks.set(marks);
        self.begin_request(request, out);
        if let Some(key) = key {
            self.keep_text(key, out);
        }
        if let Some(tag) = tag {
            self.keep_text(tag, out);
        }
        self.expect_value(request.value_bytes, last, out);
    }

    /// What is no command gets `ERROR`.
    #[cold]
    fn on_unknown(&mut self, name: &[u8], span: Span, out: &mut Output<'_>) {
        let mut request = Request::new(Command::Other, Class::Any, span);
        request.marks.set(Marks::NAMED);
        self.begin_request(request, out);
        self.keep_text(&name[..name.len().min(NAME_MAX)], out);
        self.end_request(span.last, out);
    }

    #[inline]
    fn expect_value(&mut self, value_bytes: Option<u64>, last: Timestamp, out: &mut Output<'_>) {
        match value_bytes {
            Some(n) => self.asked.skip = n + 2,
            None => self.end_request(last, out),
        }
    }

    #[inline]
    fn on_reply_line(&mut self, text: &[u8], span: Span, out: &mut Output<'_>) {
        let reply = Reply::read(text);
        if !self.answer.active {
            let target = self.attribute_reply(&reply, span.first, out);
            if target.is_none() && reply.kind == Kind::Other {
                // Not even the end of something.
                out.counters.malformed_messages += 1;
                return;
            }
            let status = Status::Unknown;
            self.begin_answer(
                target,
                Outcome { span, ended: false, status, value_bytes: None, gap_body: false, last_lost: false },
            );
        }
        let class = self.answer.class.unwrap_or(Class::Any);
        let Some(outcome) = &mut self.answer.outcome else { return };
        outcome.extend(span.last);
        let goes_on = reply.goes_on(class);
        match reply.kind {
            Kind::Value => {
                self.answer.ends_with_value = false;
                self.told.skip = reply.bytes.saturating_add(2);
                self.value_came(reply.key, Some(reply.bytes));
            }
            Kind::Va => {
                outcome.status = reply.status(class);
                outcome.value_bytes = Some(reply.bytes);
                self.answer.ends_with_value = true;
                self.told.skip = reply.bytes.saturating_add(2);
            }
            _ if goes_on => {}
            _ => {
                outcome.status = reply.status(class);
                self.finish_answer(true, out);
            }
        }
    }

    /// Whether the gap behind a value is just the end of its response: `END\r\n` is all that can follow the last key
    /// asked for.
    pub(super) fn ends_in_gap(&mut self, missing: u64, ts: Timestamp, out: &mut Output<'_>) -> bool {
        const END: &[u8] = b"END\r\n";
        let seen = self.told.head.len();
        let all_came = self
            .answer
            .target
            .and_then(|serial| self.waiting.place(serial))
            .and_then(|place| self.waiting.get(place))
            .is_some_and(|r| self.answer.cursor > 0 && self.answer.cursor == r.keys());
        let fits = self.answer.active
            && self.answer.class == Some(Class::Retrieval)
            && all_came
            && END.starts_with(&self.told.head)
            && missing == (END.len() - seen) as u64;
        if fits && let Some(outcome) = &mut self.answer.outcome {
            outcome.status = Status::Miss;
            (outcome.gap_body, outcome.last_lost) = (true, ts != outcome.span.last);
            self.told.head.clear();
            self.told.span = None;
            self.finish_answer(true, out);
        }
        fits
    }
}

/// `noreply` is the last word.
#[inline]
fn says_noreply(text: &[u8]) -> bool {
    text.trim_ascii_end().ends_with(b" noreply")
}

/// The dumps of `lru_crawler` are many lines.
fn class_of_subcommand(word: &Word, mut words: Words<'_>) -> Class {
    match (word.name, words.next()) {
        (b"lru_crawler", Some(b"metadump" | b"mgdump")) => Class::Lines,
        _ => word.class,
    }
}
