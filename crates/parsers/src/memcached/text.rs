//! The text protocol with its meta commands: request lines, reply lines, and their values.
//!
//! Parses lines as the server does (memcached's proto_text.c and proto_parser.c): a command rejected before
//! its value length is known has no value, so the next line is a command.

use flow::StreamPlace;
use memchr::memchr;
use wire::TcpSeq;

use super::byte_stream::MemcachedStreamState;
use super::command::{MemcachedCommand, MemcachedCommandClass, MemcachedTextCommand};
use super::connection::{MemcachedConnection, MemcachedOpenResponse, MemcachedResponseEnd};
use super::reply::{MemcachedReply, MemcachedReplyKind};
use super::transaction::{
    self, KEY_MAX, MemcachedRequestHead, MemcachedRequestLabel, MemcachedResponseSummary,
    RefusedValuePolicy,
};
use super::words::{
    MemcachedWords, MetaFlags, block_length, is_signed_number, meta_flags, number, without_end,
};
use crate::pairing::{ResponseExpectation, ResponseSlot};
use crate::{Direction, MessageSpan, ParserOutput, StreamSegment};

/// Maximum bytes of a line that are read; servers accept more only for `get` and `gets`.
const LINE_MAX: usize = 64 * 1024;
/// Maximum bytes kept of an unknown command.
const NAME_MAX: usize = 64;

/// A line without its line end, and its position.
#[derive(Clone, Copy)]
struct MemcachedTextLine<'a> {
    text: &'a [u8],
    span: MessageSpan,
    place: StreamPlace,
    /// Position after its end.
    end: TcpSeq,
}

impl MemcachedConnection {
    /// Handles the next text bytes of one direction, which begin or continue a line; returns the number
    /// consumed.
    #[inline]
    pub(super) fn read_text(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) -> usize {
        let StreamSegment { bytes, ts, place } = segment;
        let lane = self.lane(direction);
        let Some(end) = memchr(b'\n', bytes) else {
            lane.hold(segment, LINE_MAX, out);
            return bytes.len();
        };
        let line = segment.first(end + 1);
        if lane.state == MemcachedStreamState::Between && line.bytes.len() <= LINE_MAX {
            let text = without_end(line.bytes);
            self.on_line(
                direction,
                MemcachedTextLine {
                    text,
                    span: MessageSpan::at(ts),
                    place,
                    end: line.end(),
                },
                out,
            );
        } else {
            self.on_held_line(direction, line, out);
        }
        end + 1
    }

    /// Handles the rest of a partly held line, or a line that is too long.
    #[cold]
    fn on_held_line(
        &mut self,
        direction: Direction,
        rest: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        let lane = self.lane(direction);
        lane.hold(rest, LINE_MAX, out);
        let is_cut = lane.state == MemcachedStreamState::LongHead;
        let place = lane.place;
        let (mut head, span) = lane.take(rest.ts);
        if is_cut {
            // The last word is incomplete.
            head.truncate(head.iter().rposition(|b| *b == b' ').unwrap_or(head.len()));
        }
        self.on_line(
            direction,
            MemcachedTextLine {
                text: without_end(&head),
                span,
                place,
                end: rest.end(),
            },
            out,
        );
        self.lane(direction).give_back(head);
    }

    #[inline]
    fn on_line(
        &mut self,
        direction: Direction,
        line: MemcachedTextLine<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        match direction {
            Direction::ClientToServer => self.on_request_line(line, out),
            Direction::ServerToClient => self.on_reply_line(line, out),
        }
    }

    #[inline]
    fn on_request_line(&mut self, line: MemcachedTextLine<'_>, out: &mut ParserOutput<'_>) {
        let mut words = MemcachedWords(line.text);
        let name = words.next().unwrap_or_default();
        let Some((command, word)) =
            MemcachedCommand::of_word(name).and_then(|c| Some((c, c.word()?)))
        else {
            return self.on_unknown(name, line, out);
        };
        let mut asked = MemcachedRequestHead {
            command,
            class: word.class,
            ..MemcachedRequestHead::default()
        };
        let mut value = 0;
        match word.class {
            MemcachedCommandClass::Retrieval => {
                let request = self.begin_request(&asked, line.span, line.place);
                words
                    .skip(usize::from(word.key_after.unwrap_or(0)))
                    .for_each(|key| request.keys.push(key, None));
            }
            MemcachedCommandClass::Storage => value = self.on_storage(asked, words, line),
            MemcachedCommandClass::MetaGet
            | MemcachedCommandClass::MetaSet
            | MemcachedCommandClass::MetaDelete
            | MemcachedCommandClass::MetaArithmetic
            | MemcachedCommandClass::MetaDebug => value = self.on_meta(asked, words, line),
            class => {
                let may_be_silent = matches!(
                    class,
                    MemcachedCommandClass::Deletion
                        | MemcachedCommandClass::Arithmetic
                        | MemcachedCommandClass::Touch
                        | MemcachedCommandClass::Admin
                );
                if class == MemcachedCommandClass::Farewell
                    || may_be_silent && says_noreply(line.text)
                {
                    asked.expects = ResponseExpectation::Nothing;
                }
                asked.class = class_of_subcommand(word, words);
                let request = self.begin_request(&asked, line.span, line.place);
                if word.key_after.is_some()
                    && let Some(key) = words.next()
                {
                    request.keys.push(key, None);
                }
            }
        }
        self.read_request(value, line.end, out);
    }

    /// Handles `set key flags exptime bytes [cas] [noreply]` and similar commands; returns the number of
    /// bytes after the line.
    #[inline]
    fn on_storage(
        &mut self,
        mut asked: MemcachedRequestHead<'_>,
        mut words: MemcachedWords<'_>,
        line: MemcachedTextLine<'_>,
    ) -> u64 {
        let [key, flags, exptime, bytes] = std::array::from_fn(|_| words.next());
        asked.value_bytes = bytes.and_then(block_length);
        let needs_cas = asked.command.name() == Some(b"cas");
        let sound = key.is_some_and(|k| k.len() <= KEY_MAX)
            && flags.is_some_and(|f| number(f).is_some())
            && exptime.is_some_and(is_signed_number)
            && (!needs_cas || words.next().is_some_and(|w| number(w).is_some()));
        asked.refused = refused(sound);
        // A command with too few words is answered with `ERROR`, whatever its last word.
        if bytes.is_some() && says_noreply(line.text) {
            asked.expects = ResponseExpectation::Nothing;
        }
        let request = self.begin_request(&asked, line.span, line.place);
        if let Some(key) = key {
            request.keys.push(key, None);
        }
        asked.value_bytes.map_or(0, |bytes| bytes + 2)
    }

    /// Handles `mg key flags…`, `ms key bytes flags…`; returns the number of bytes after the line.
    fn on_meta<'a>(
        &mut self,
        mut asked: MemcachedRequestHead<'a>,
        mut words: MemcachedWords<'a>,
        line: MemcachedTextLine<'_>,
    ) -> u64 {
        let key = words.next();
        if asked.class == MemcachedCommandClass::MetaSet {
            let mut ahead = words;
            let first = ahead.next().unwrap_or_default();
            // Versions 1.6.0 to 1.6.8 had the length as a flag: `ms key S5 T0`.
            let flag = first.strip_prefix(b"S");
            asked.value_bytes = block_length(flag.unwrap_or(first));
            asked.refused = refused(flag.is_none() && key.is_some_and(|k| k.len() <= KEY_MAX));
            words = ahead;
        }
        let MetaFlags {
            expects,
            key_form,
            echo,
            tag,
        } = meta_flags(words);
        asked.expects = expects;
        asked.key_form = key_form;
        asked.echo = echo;
        asked.label = tag.map_or((MemcachedRequestLabel::None, &b""[..]), |tag| {
            (MemcachedRequestLabel::Tag, tag)
        });
        let request = self.begin_request(&asked, line.span, line.place);
        if let Some(key) = key {
            request.keys.push(key, None);
        }
        asked.value_bytes.map_or(0, |bytes| bytes + 2)
    }

    /// Handles an unknown command, which is answered with `ERROR`.
    #[cold]
    fn on_unknown(&mut self, name: &[u8], line: MemcachedTextLine<'_>, out: &mut ParserOutput<'_>) {
        let label = (
            MemcachedRequestLabel::Name,
            &name[..name.len().min(NAME_MAX)],
        );
        let asked = MemcachedRequestHead {
            command: MemcachedCommand::Other,
            class: MemcachedCommandClass::Any,
            label,
            ..MemcachedRequestHead::default()
        };
        self.begin_request(&asked, line.span, line.place);
        self.read_request(0, line.end, out);
    }

    #[inline]
    fn on_reply_line(&mut self, line: MemcachedTextLine<'_>, out: &mut ParserOutput<'_>) {
        let reply = MemcachedReply::read(line.text);
        if self.answering.is_none() {
            self.answering = self.begin_reply(&reply, line, out);
        } else if let Some(response) = self.response_mut() {
            response.extend(line.span.last);
        }
        let Some(answering) = &mut self.answering else {
            return self.not_a_head(Direction::ServerToClient, out);
        };
        match reply.kind {
            MemcachedReplyKind::Value => {
                answering.ends = MemcachedResponseEnd::Later;
                self.server.state = MemcachedStreamState::Value(reply.bytes.saturating_add(2));
                self.key_came(reply.key, reply.bytes);
            }
            MemcachedReplyKind::Va => {
                answering.ends = MemcachedResponseEnd::WithValue;
                self.server.state = MemcachedStreamState::Value(reply.bytes.saturating_add(2));
                if let Some(response) = self.response_mut() {
                    response.value_bytes = Some(reply.bytes);
                    response.end_with(reply.kind);
                }
            }
            kind if kind.goes_on(answering.class) => {}
            kind => {
                if let Some(response) = self.response_mut() {
                    response.end_with(kind);
                }
                self.finish_response(line.end, out);
            }
        }
    }

    /// Handles the first line of a response. `None`: it cannot be one.
    #[inline]
    fn begin_reply(
        &mut self,
        reply: &MemcachedReply<'_>,
        line: MemcachedTextLine<'_>,
        out: &mut ParserOutput<'_>,
    ) -> Option<MemcachedOpenResponse> {
        if reply.kind == MemcachedReplyKind::Other {
            let asked = self.transactions.next_to_answer(line.place)?;
            reply.kind.answers(asked.class).then_some(())?;
        }
        let was_exact = self.transactions.is_exact();
        let fit = |request: &_| transaction::fit_reply(request, reply);
        let (spot, response) = self.transactions.response(line.span.first, line.place, fit);
        response.become_one(
            MemcachedResponseSummary::Text {
                first: reply.kind,
                last: None,
            },
            line.span.last,
        );
        if let ResponseSlot::Apart(_) = spot {
            response.keep_flags(reply.flags);
            out.counters.malformed_messages +=
                u64::from(was_exact && !self.transactions.is_exact());
        }
        Some(self.begin_answering(spot))
    }
}

fn refused(sound: bool) -> RefusedValuePolicy {
    if sound {
        RefusedValuePolicy::Skipped
    } else {
        RefusedValuePolicy::MayBeRead
    }
}

/// Whether `noreply` is the last word.
#[inline]
fn says_noreply(text: &[u8]) -> bool {
    text.trim_ascii_end().ends_with(b" noreply")
}

/// Class of a command with a subcommand: dumps of `lru_crawler` have many lines.
fn class_of_subcommand(
    word: &MemcachedTextCommand,
    mut words: MemcachedWords<'_>,
) -> MemcachedCommandClass {
    match (word.name, words.next()) {
        (b"lru_crawler", Some(b"metadump" | b"mgdump")) => MemcachedCommandClass::Lines,
        _ => word.class,
    }
}
