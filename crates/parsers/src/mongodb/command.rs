//! Requests: command, database, collection, and shape.

use tuple::TupleWriter;

use super::bson::{self, DOCUMENT, elements, text};
use super::columns::{
    COLLECTION, COMMAND, DATABASE, DOCUMENTS, FINGERPRINT, MONITORING, SUMMARY, TXN_NUMBER, WAITING,
};
use super::digest::{DigestElement, ElementOrigin, MessageDigest};
use super::header::{
    OP_DELETE, OP_GET_MORE, OP_INSERT, OP_KILL_CURSORS, OP_MSG, OP_QUERY, OP_UPDATE,
};
use super::shape::{is_name, is_part, push_value};

/// Maximum length of a summary.
const SUMMARY_BYTES_MAX: usize = 255;

/// Commands whose value is a collection.
const OF_COLLECTIONS: &[&[u8]] = &[
    b"find",
    b"insert",
    b"update",
    b"delete",
    b"aggregate",
    b"count",
    b"distinct",
    b"findAndModify",
    b"findandmodify",
    b"create",
    b"drop",
    b"createIndexes",
    b"dropIndexes",
    b"deleteIndexes",
    b"listIndexes",
    b"mapReduce",
    b"mapreduce",
    b"collStats",
    b"collstats",
    b"collMod",
    b"validate",
    b"compact",
    b"reIndex",
    b"convertToCapped",
    b"killCursors",
    b"planCacheClear",
    b"parallelCollectionScan",
];

/// A request.
pub struct Command<'a> {
    digest: MessageDigest<'a>,
    pub name: &'a [u8],
    database: Option<&'a [u8]>,
    collection: Option<&'a [u8]>,
    /// The command's document, if another document contains it (`$query`).
    inner: Option<&'a [u8]>,
}

impl<'a> Command<'a> {
    /// The command of a request.
    pub fn of(digest: MessageDigest<'a>) -> Option<Command<'a>> {
        match digest.opcode() {
            OP_MSG => {
                let first = digest
                    .elements()
                    .find(|of| of.origin == ElementOrigin::First)?;
                let text = |name: &[u8]| digest.element(name).and_then(DigestElement::text);
                Some(Command {
                    digest,
                    name: first.name,
                    database: text(b"$db"),
                    collection: collection(first.name, first.text(), text(b"collection")),
                    inner: None,
                })
            }
            opcode => Command::of_operation(digest, opcode),
        }
    }

    /// The same for the operations before OP_MSG.
    fn of_operation(digest: MessageDigest<'a>, opcode: u32) -> Option<Command<'a>> {
        let namespace = digest.element(b"namespace").and_then(DigestElement::text);
        let mut names = namespace.unwrap_or_default().splitn(2, |b| *b == b'.');
        let database = names.next().filter(|name| !name.is_empty());
        let of = |name: &'a [u8], collection, inner| {
            Some(Command {
                digest,
                name,
                database,
                collection,
                inner,
            })
        };
        let collection_name = names.next();
        match opcode {
            OP_QUERY if collection_name == Some(b"$cmd") => {
                let first = digest
                    .elements()
                    .find(|of| of.origin == ElementOrigin::First)?;
                let is_wrapped =
                    matches!(first.name, b"$query" | b"query") && first.kind == DOCUMENT;
                if !is_wrapped {
                    let more = digest.element(b"collection").and_then(DigestElement::text);
                    return of(first.name, collection(first.name, first.text(), more), None);
                }
                let document = first.value?;
                let (kind, name, value) = elements(document).next()?;
                let more = elements(document).find(|(_, name, _)| *name == b"collection");
                let more = more.and_then(|(kind, _, value)| text(kind, value));
                of(
                    name,
                    collection(name, text(kind, value), more),
                    Some(document),
                )
            }
            OP_QUERY => of(b"query", collection_name, None),
            OP_GET_MORE => of(b"get_more", collection_name, None),
            OP_INSERT => of(b"insert", collection_name, None),
            OP_UPDATE => of(b"update", collection_name, None),
            OP_DELETE => of(b"delete", collection_name, None),
            OP_KILL_CURSORS => of(b"kill_cursors", None, None),
            _ => None,
        }
    }

    /// Whether the request is a command, of which the reply states an error in its document.
    pub fn is_command(&self) -> bool {
        !matches!(self.name, b"query" | b"get_more")
    }

    /// Whether the server waited for an event before this response. `None`: not known.
    pub fn waits(&self, response: Option<MessageDigest<'_>>) -> Option<bool> {
        let has = |name: &[u8]| match self.digest.element(name) {
            Some(_) => Some(true),
            None => self.digest.is_whole().then_some(false),
        };
        match self.name {
            b"hello" | b"isMaster" | b"ismaster" => has(b"maxAwaitTimeMS"),
            b"getMore" => match has(b"maxTimeMS") {
                Some(false) => is_empty_and_open(response?),
                waits => waits,
            },
            _ => Some(false),
        }
    }

    fn is_monitoring(&self) -> bool {
        matches!(self.name, b"hello" | b"isMaster" | b"ismaster" | b"ping")
    }

    /// Writes the fields of the request.
    pub fn write(&self, response: Option<MessageDigest<'_>>, w: &mut TupleWriter) {
        let name = if is_name(self.name) { self.name } else { b"?" };
        w.text(COMMAND, name);
        if let Some(database) = self.database {
            w.text(DATABASE, database);
        }
        if let Some(collection) = self.collection {
            w.text(COLLECTION, collection);
        }
        let is_named =
            self.collection.is_some() || self.name != b"getMore" || self.digest.is_whole();
        if is_named && (w.wants(FINGERPRINT) || w.wants(SUMMARY)) {
            let mut out = [name, self.collection.unwrap_or_default()].join(&b' ');
            out.truncate(out.trim_ascii_end().len());
            w.text(SUMMARY, &out[..out.len().min(SUMMARY_BYTES_MAX)]);
            if self.digest.is_whole() {
                self.push_shape(&mut out);
                w.text(FINGERPRINT, &out);
            }
        }
        if let Some(documents) = self.documents() {
            w.u64(DOCUMENTS, documents.into());
        }
        let number = |name: &[u8]| self.digest.element(name).and_then(DigestElement::number);
        if let Some(txn) = number(b"txnNumber") {
            w.i64(TXN_NUMBER, txn);
        }
        w.bool(MONITORING, self.is_monitoring());
        if let Some(waits) = self.waits(response) {
            w.bool(WAITING, waits);
        }
    }

    /// The cursor that the request reads on, or closes.
    pub fn cursor_id(&self) -> Option<i64> {
        let name: &[u8] = match self.name {
            b"getMore" => b"getMore",
            _ => b"cursor_id",
        };
        self.digest.element(name).and_then(DigestElement::number)
    }

    /// Statements of a write.
    fn documents(&self) -> Option<u32> {
        match self.digest.opcode() {
            OP_UPDATE | OP_DELETE => Some(1),
            OP_QUERY if self.name == b"query" => None,
            _ => self.digest.documents(),
        }
    }

    /// Appends the keys of filter, update, and so on.
    fn push_shape(&self, out: &mut Vec<u8>) {
        let from = out.len();
        out.extend_from_slice(b" {");
        let mut is_empty = true;
        let mut push = |name: &[u8], kind: u8, value: Option<&[u8]>| {
            if !std::mem::take(&mut is_empty) {
                out.extend_from_slice(b", ");
            }
            out.extend_from_slice(name);
            out.extend_from_slice(b": ");
            match value {
                Some(value) => push_value(kind, value, out),
                None => out.extend_from_slice("…".as_bytes()),
            }
        };
        if let Some(inner) = self.inner {
            for (kind, name, value) in elements(inner).filter(|(_, name, _)| is_part(name)) {
                push(name, kind, Some(value));
            }
        }
        for of in self.digest.elements() {
            match of.origin {
                ElementOrigin::Top if is_part(of.name) => push(of.name, of.kind, of.value),
                ElementOrigin::Statement => self.push_statement(of.value, &mut push),
                _ => {}
            }
        }
        if is_empty {
            out.truncate(from);
        } else {
            out.push(b'}');
        }
    }

    /// Appends the first statement: of a command its parts, of an operation its filter.
    fn push_statement(
        &self,
        value: Option<&[u8]>,
        push: &mut impl FnMut(&[u8], u8, Option<&[u8]>),
    ) {
        let document = value.unwrap_or_default();
        if matches!(self.digest.opcode(), OP_MSG)
            || self.is_command() && self.digest.opcode() == OP_QUERY
        {
            for (kind, name, value) in elements(document).filter(|(_, name, _)| is_part(name)) {
                push(name, kind, Some(value));
            }
            return;
        }
        let wrapped = elements(document).find(|(_, name, _)| matches!(*name, b"$query" | b"query"));
        match wrapped {
            Some((kind, _, filter)) => push(b"filter", kind, Some(filter)),
            None => push(b"filter", bson::DOCUMENT, value),
        }
    }
}

/// Whether a cursor returned nothing and stays open. `None`: not known.
fn is_empty_and_open(response: MessageDigest<'_>) -> Option<bool> {
    if !response.is_whole() {
        return None;
    }
    let id = response.inner(ElementOrigin::Cursor, b"id");
    let is_open = id.and_then(DigestElement::number).is_some_and(|id| id != 0);
    Some(is_open && response.returned() == Some(0))
}

/// The collection of a command by its value, or by the element `collection` of getMore.
fn collection<'a>(
    name: &[u8],
    value: Option<&'a [u8]>,
    more: Option<&'a [u8]>,
) -> Option<&'a [u8]> {
    match name {
        b"getMore" => more,
        _ if OF_COLLECTIONS.contains(&name) => value,
        _ => None,
    }
}
