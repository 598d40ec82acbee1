//! Requests that wait for their response, in order, with their keys.
//!
//! Keys lie one behind another in one buffer that is used again and again; nothing is allocated per request once the
//! buffers have grown. Everything is bounded; who pushes makes room first ([`Waiting::is_full`]). Knows no bytes of
//! any protocol.

use std::collections::VecDeque;

use flow::Place;

use super::command::{Class, Command};
use crate::Span;

/// Most requests that wait.
const REQUESTS_MAX: usize = 4096;
/// Most keys of all of them.
const KEYS_MAX: usize = 16_384;
/// Most bytes of those keys.
const TEXT_MAX: usize = 256 * 1024;

/// Facts about a request, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks(u16);

impl Marks {
    /// Its last byte has been seen.
    pub const COMPLETE: Marks = Marks(1);
    /// It will not be answered: `noreply`, `quit`.
    pub const SILENT: Marks = Marks(1 << 1);
    /// It is answered only when something unusual happens.
    pub const QUIET: Marks = Marks(1 << 2);
    /// Bytes of its value are missing.
    pub const GAP_BODY: Marks = Marks(1 << 3);
    /// Requests may be missing before it.
    pub const AFTER_GAP: Marks = Marks(1 << 4);
    /// Neither end had said anything for long before it.
    pub const AFTER_SILENCE: Marks = Marks(1 << 5);
    /// Servers differ in whether they take its value for commands.
    pub const SUSPECT: Marks = Marks(1 << 6);
    /// Its response came before its last byte.
    pub const ANSWERED: Marks = Marks(1 << 7);
    /// A response came that may have been its or a neighbour's.
    pub const UNCERTAIN: Marks = Marks(1 << 8);
    /// Its key is base64.
    pub const BASE64: Marks = Marks(1 << 9);
    /// The first text is the command's word, not a key.
    pub const NAMED: Marks = Marks(1 << 10);
    /// The last text is the opaque token of a meta command.
    pub const TAGGED: Marks = Marks(1 << 11);
    /// The response to a meta command repeats the key.
    pub const KEYED: Marks = Marks(1 << 12);
    /// Done with, but something before it waits.
    pub const GONE: Marks = Marks(1 << 13);
    /// When its last byte came is not known.
    pub const LAST_LOST: Marks = Marks(1 << 14);
    /// The client had heard nothing since the request before it.
    pub const PIPELINED: Marks = Marks(1 << 15);

    /// Whether any of `other` is set.
    #[inline]
    pub fn has(self, other: Marks) -> bool {
        self.0 & other.0 != 0
    }

    /// Sets `other`.
    #[inline]
    pub fn set(&mut self, other: Marks) {
        self.0 |= other.0;
    }

    /// Clears `other`.
    #[inline]
    pub fn clear(&mut self, other: Marks) {
        self.0 &= !other.0;
    }

    /// `other` if `condition`, else nothing.
    #[inline]
    pub fn when(condition: bool, other: Marks) -> Marks {
        if condition { other } else { Marks(0) }
    }
}

impl std::ops::BitOr for Marks {
    type Output = Marks;
    fn bitor(self, other: Marks) -> Marks {
        Marks(self.0 | other.0)
    }
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// What it asks.
    pub command: Command,
    /// Its possible replies.
    pub class: Class,
    /// Facts about it.
    pub marks: Marks,
    /// When it was on the wire.
    pub span: Span,
    /// Where it begins in what both sides say.
    pub place: Option<Place>,
    /// Length of the value it carries.
    pub value_bytes: Option<u64>,
    /// Binary: the number that its response repeats.
    pub opaque: u32,
    /// Texts it has in the queue, keys and others.
    texts: u32,
    first_text: u64,
}

impl Request {
    /// A request without texts.
    #[inline]
    pub fn new(command: Command, class: Class, span: Span) -> Request {
        let marks = Marks::default();
        Request {
            command,
            class,
            marks,
            span,
            place: None,
            value_bytes: None,
            opaque: 0,
            texts: 0,
            first_text: 0,
        }
    }

    /// How many keys it asks for.
    #[inline]
    pub fn keys(&self) -> usize {
        self.texts as usize
            - usize::from(self.marks.has(Marks::NAMED))
            - usize::from(self.marks.has(Marks::TAGGED))
    }
}

/// A text of a request, and for a key what the response said of it.
#[derive(Clone, Copy, Debug)]
struct Text {
    at: u64,
    len: u32,
    value_bytes: Option<u64>,
}

/// The queue.
#[derive(Default)]
pub struct Waiting {
    requests: VecDeque<Request>,
    /// Serial number of the front request.
    first: u64,
    texts: VecDeque<Text>,
    first_text: u64,
    bytes: Vec<u8>,
    /// Position of `bytes[0]` among all bytes ever pushed.
    base: u64,
}

impl Waiting {
    /// Whether somebody must leave before the next request comes.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.requests.len() >= REQUESTS_MAX || self.texts.len() >= KEYS_MAX || self.bytes.len() >= TEXT_MAX
    }

    /// How many requests there are, those done with included.
    #[inline]
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether none is there.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// The request at `place` from the front.
    #[inline]
    pub fn get(&self, place: usize) -> Option<&Request> {
        self.requests.get(place)
    }

    /// The same, to change.
    #[inline]
    pub fn get_mut(&mut self, place: usize) -> Option<&mut Request> {
        self.requests.get_mut(place)
    }

    /// The newest request.
    #[inline]
    pub fn newest_mut(&mut self) -> Option<&mut Request> {
        self.requests.back_mut()
    }

    /// The serial number of the request at `place`, which stays when those before it leave.
    #[inline]
    pub fn serial(&self, place: usize) -> u64 {
        self.first + place as u64
    }

    /// Where the request with this serial number is now.
    #[inline]
    pub fn place(&self, serial: u64) -> Option<usize> {
        let place = serial.checked_sub(self.first)? as usize;
        (place < self.requests.len()).then_some(place)
    }

    /// The requests from the front.
    pub fn iter(&self) -> impl Iterator<Item = &Request> {
        self.requests.iter()
    }

    /// The newest request that may be answered yet.
    #[inline]
    pub fn newest_answerable(&self) -> Option<&Request> {
        self.requests.iter().rev().find(|r| !r.marks.has(Marks::SILENT | Marks::GONE | Marks::ANSWERED))
    }

    /// A new newest request.
    #[inline]
    pub fn push(&mut self, mut request: Request) {
        request.texts = 0;
        request.first_text = self.first_text + self.texts.len() as u64;
        self.requests.push_back(request);
    }

    /// Another text of the newest request; `false`: there is no room for it.
    #[inline]
    pub fn push_text(&mut self, text: &[u8]) -> bool {
        // Twice the limit: a request that came while there was room may have one long line of keys.
        if self.texts.len() >= 2 * KEYS_MAX || self.bytes.len() + text.len() > 2 * TEXT_MAX {
            return false;
        }
        let Some(request) = self.requests.back_mut() else { return false };
        request.texts += 1;
        let at = self.base + self.bytes.len() as u64;
        self.bytes.extend_from_slice(text);
        self.texts.push_back(Text { at, len: text.len() as u32, value_bytes: None });
        true
    }

    /// The `i`th key of a request, and the length of its value if it came back.
    #[inline]
    pub fn key(&self, request: &Request, i: usize) -> (&[u8], Option<u64>) {
        let text = self.text(request, i + usize::from(request.marks.has(Marks::NAMED)));
        (self.slice(text), text.and_then(|t| t.value_bytes))
    }

    /// The word of a command that is not a known one.
    pub fn name(&self, request: &Request) -> &[u8] {
        if request.marks.has(Marks::NAMED) { self.slice(self.text(request, 0)) } else { b"" }
    }

    /// The opaque token of a meta command.
    pub fn tag(&self, request: &Request) -> Option<&[u8]> {
        let last = (request.texts as usize).checked_sub(1)?;
        request.marks.has(Marks::TAGGED).then(|| self.slice(self.text(request, last)))
    }

    /// Notes that the `i`th key of the request at `place` came back with a value.
    pub fn found(&mut self, place: usize, i: usize, value_bytes: u64) {
        let Some(request) = self.requests.get(place) else { return };
        let i = request.first_text - self.first_text + i as u64 + u64::from(request.marks.has(Marks::NAMED));
        if let Some(text) = self.texts.get_mut(i as usize) {
            text.value_bytes = Some(value_bytes);
        }
    }

    /// Takes the front request out, its texts too.
    #[inline]
    pub fn pop_front(&mut self) {
        let Some(request) = self.requests.pop_front() else { return };
        self.first += 1;
        if self.requests.is_empty() {
            return self.clear();
        }
        let end = request.first_text + u64::from(request.texts);
        let n = (end - self.first_text) as usize;
        self.texts.drain(..n.min(self.texts.len()));
        self.first_text = end;
        self.compact();
    }

    /// Takes the newest request out.
    #[inline]
    pub fn pop_newest(&mut self) {
        let Some(request) = self.requests.pop_back() else { return };
        if self.requests.is_empty() {
            // No serial number is used twice: an answer in progress must not find a later request by it.
            self.first += 1;
            return self.clear();
        }
        let keep = (request.first_text - self.first_text) as usize;
        if let Some(text) = self.texts.get(keep) {
            self.bytes.truncate((text.at - self.base) as usize);
        }
        self.texts.truncate(keep);
    }

    /// Takes the request at `place` out; those before it stay.
    #[inline]
    pub fn remove(&mut self, place: usize) {
        if place == 0 {
            self.pop_front();
            while self.requests.front().is_some_and(|r| r.marks.has(Marks::GONE)) {
                self.pop_front();
            }
        } else if let Some(request) = self.requests.get_mut(place) {
            request.marks.set(Marks::GONE);
        }
    }

    fn text(&self, request: &Request, i: usize) -> Option<&Text> {
        let i = (request.first_text - self.first_text) as usize + i;
        self.texts.get(i)
    }

    fn slice(&self, text: Option<&Text>) -> &[u8] {
        let Some(text) = text else { return b"" };
        let start = (text.at - self.base) as usize;
        self.bytes.get(start..start + text.len as usize).unwrap_or_default()
    }

    fn clear(&mut self) {
        self.first_text += self.texts.len() as u64;
        self.texts.clear();
        self.base += self.bytes.len() as u64;
        self.bytes.clear();
    }

    /// Gives back the bytes of those who left, when they are most of the buffer.
    #[inline]
    fn compact(&mut self) {
        let used = self.texts.front().map_or(self.bytes.len(), |t| (t.at - self.base) as usize);
        if used >= 4096 && used * 2 >= self.bytes.len() {
            self.bytes.drain(..used);
            self.base += used as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::Timestamp;

    use super::*;

    fn request(w: &mut Waiting, keys: &[&str]) {
        w.push(Request::new(Command::Other, Class::Any, Span::at(Timestamp(0))));
        for key in keys {
            assert!(w.push_text(key.as_bytes()));
        }
    }

    fn keys(w: &Waiting, place: usize) -> Vec<String> {
        let r = w.get(place).expect("a request");
        (0..r.keys()).map(|i| String::from_utf8_lossy(w.key(r, i).0).into_owned()).collect()
    }

    #[test]
    fn keys_stay_with_their_request() {
        let mut w = Waiting::default();
        for round in 0..5000 {
            let (a, b, c) = (format!("a{round}"), format!("b{round}"), format!("c{round}"));
            request(&mut w, &[&a, &b]);
            request(&mut w, &[]);
            request(&mut w, &[&c]);
            if w.len() > 30 {
                w.pop_front();
                w.remove(1);
                w.pop_front();
                w.pop_front();
            }
            assert_eq!(keys(&w, w.len() - 3), [a, b]);
            assert_eq!(keys(&w, w.len() - 1), [c]);
        }
        assert!(w.bytes.len() < 10_000 && w.texts.len() < 100);
    }

    #[test]
    fn the_newest_can_leave_first() {
        let mut w = Waiting::default();
        request(&mut w, &["x"]);
        request(&mut w, &["y", "z"]);
        w.pop_newest();
        request(&mut w, &["q"]);
        assert_eq!((keys(&w, 0), keys(&w, 1)), (vec!["x".to_owned()], vec!["q".to_owned()]));
        w.found(1, 0, 7);
        assert_eq!(w.key(w.get(1).expect("a request"), 0), (&b"q"[..], Some(7)));
    }

    #[test]
    fn serial_numbers_are_not_used_twice() {
        let mut w = Waiting::default();
        request(&mut w, &["x"]);
        let serial = w.serial(0);
        w.pop_newest();
        request(&mut w, &["y"]);
        assert_eq!(w.place(serial), None);
    }
}
