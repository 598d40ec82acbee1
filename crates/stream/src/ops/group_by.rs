//! Finds the group of every row: a hash table from keys to group numbers 0, 1, 2, …
//!
//! Hashes come column by column from outside; keys are kept once for each group, encoded, in one arena. A probe
//! compares the row's values with those bytes, with a shorter path for a single column of numbers, text or addresses.

use hashbrown::HashTable;

use crate::cell::Cell;
use crate::column::{ColumnView, Values, ip_at};

/// Keys and their group numbers.
#[derive(Clone, Debug, Default)]
pub struct KeyTable {
    table: HashTable<u32>,
    hashes: Vec<u64>,
    /// Where each group's key is in `bytes`.
    spans: Vec<(u32, u32)>,
    bytes: Vec<u8>,
    /// Bytes of keys that were replaced.
    garbage: usize,
}

/// The key columns of a batch, by how their rows are compared.
pub enum KeyColumns<'a> {
    /// No column: every row has the same key.
    None,
    /// One column of unsigned integers without nulls.
    U64(&'a [u64]),
    /// One column of addresses without nulls.
    Ip(&'a arrow_array::FixedSizeBinaryArray),
    /// One column of text without nulls.
    Text(&'a arrow_array::StringArray),
    /// Anything else.
    Rows(Vec<ColumnView<'a>>),
}

/// How the rows of one kind of key columns are compared and kept.
pub trait RowKeys {
    /// Whether `key` is the row's.
    fn is(&self, row: usize, key: &[u8]) -> bool;
    /// Appends the row's key.
    fn encode(&self, row: usize, bytes: &mut Vec<u8>);
}

impl KeyTable {
    /// How many groups.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there is no group.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The key of a group, encoded; an unlisted group's is empty.
    #[must_use]
    pub fn key(&self, group: u32) -> &[u8] {
        let (start, len) = self.spans[group as usize];
        &self.bytes[start as usize..(start + len) as usize]
    }

    /// The hash of a group's key.
    #[must_use]
    pub fn hash(&self, group: u32) -> u64 {
        self.hashes[group as usize]
    }

    /// Bytes of all keys; the arena takes at most twice as much.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len() - self.garbage
    }

    /// The group whose key has this hash and fulfils `is`.
    #[inline]
    pub fn find(&self, hash: u64, is: impl Fn(&[u8]) -> bool) -> Option<u32> {
        self.table.find(hash, |group| self.hashes[*group as usize] == hash && is(self.key(*group))).copied()
    }

    /// Adds a group that is not there.
    pub fn insert(&mut self, hash: u64, key: &[u8]) -> u32 {
        let group = self.push(hash, key);
        let hashes = &self.hashes;
        self.table.insert_unique(hash, group, |g| hashes[*g as usize]);
        group
    }

    /// Adds a group that no key leads to.
    pub fn insert_unlisted(&mut self) -> u32 {
        self.push(0, &[])
    }

    /// Gives a listed group to another key.
    pub fn replace(&mut self, group: u32, hash: u64, key: &[u8]) {
        let entry = self.table.find_entry(self.hashes[group as usize], |g| *g == group);
        entry.expect("only listed groups are replaced").remove();
        self.garbage += self.spans[group as usize].1 as usize;
        self.hashes[group as usize] = hash;
        self.spans[group as usize] = (self.bytes.len() as u32, key.len() as u32);
        self.bytes.extend_from_slice(key);
        let hashes = &self.hashes;
        self.table.insert_unique(hash, group, |g| hashes[*g as usize]);
        if self.garbage > self.bytes.len() / 2 {
            self.compact();
        }
    }

    fn push(&mut self, hash: u64, key: &[u8]) -> u32 {
        let group = self.spans.len() as u32;
        self.hashes.push(hash);
        self.spans.push((self.bytes.len() as u32, key.len() as u32));
        self.bytes.extend_from_slice(key);
        group
    }

    fn compact(&mut self) {
        let mut bytes = Vec::with_capacity(self.bytes.len() - self.garbage);
        for (start, len) in &mut self.spans {
            let key = &self.bytes[*start as usize..(*start + *len) as usize];
            *start = bytes.len() as u32;
            bytes.extend_from_slice(key);
        }
        self.bytes = bytes;
        self.garbage = 0;
    }
}

impl<'a> KeyColumns<'a> {
    /// The shortest path for these columns.
    #[must_use]
    pub fn new(columns: Vec<ColumnView<'a>>) -> KeyColumns<'a> {
        match &columns[..] {
            [] => KeyColumns::None,
            [ColumnView { values: Values::U64(v), nulls: None }] => KeyColumns::U64(v),
            [ColumnView { values: Values::Ip(v), nulls: None }] => KeyColumns::Ip(v),
            [ColumnView { values: Values::Text(v), nulls: None }] => KeyColumns::Text(v),
            _ => KeyColumns::Rows(columns),
        }
    }
}

impl RowKeys for () {
    fn is(&self, _: usize, _: &[u8]) -> bool {
        true
    }

    fn encode(&self, _: usize, _: &mut Vec<u8>) {}
}

impl RowKeys for &[u64] {
    #[inline]
    fn is(&self, row: usize, key: &[u8]) -> bool {
        Cell::decode(key).is_some_and(|(cell, _)| cell == Cell::U64(self[row]))
    }

    fn encode(&self, row: usize, bytes: &mut Vec<u8>) {
        Cell::U64(self[row]).encode(bytes);
    }
}

impl RowKeys for &arrow_array::FixedSizeBinaryArray {
    #[inline]
    fn is(&self, row: usize, key: &[u8]) -> bool {
        Cell::decode(key).is_some_and(|(cell, _)| cell == Cell::Ip(ip_at(self, row)))
    }

    fn encode(&self, row: usize, bytes: &mut Vec<u8>) {
        Cell::Ip(ip_at(self, row)).encode(bytes);
    }
}

impl RowKeys for &arrow_array::StringArray {
    #[inline]
    fn is(&self, row: usize, key: &[u8]) -> bool {
        Cell::decode(key).is_some_and(|(cell, _)| cell == Cell::Text(self.value(row).as_bytes()))
    }

    fn encode(&self, row: usize, bytes: &mut Vec<u8>) {
        Cell::Text(self.value(row).as_bytes()).encode(bytes);
    }
}

impl RowKeys for &[ColumnView<'_>] {
    #[inline]
    fn is(&self, row: usize, mut key: &[u8]) -> bool {
        self.iter().all(|column| match Cell::decode(key) {
            Some((cell, rest)) => {
                key = rest;
                cell == normal(column.cell(row))
            }
            None => false,
        })
    }

    fn encode(&self, row: usize, bytes: &mut Vec<u8>) {
        self.iter().for_each(|column| normal(column.cell(row)).encode(bytes));
    }
}

/// Negative zero is zero, as in the bytes.
fn normal(cell: Cell<'_>) -> Cell<'_> {
    match cell {
        Cell::F64(v) => Cell::F64(v + 0.0),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::column::mix;

    proptest! {
        #[test]
        fn replaced_keys_are_found_and_forgotten(steps in prop::collection::vec((0u64..60, 0usize..9), 1..200)) {
            let (mut table, mut truth) = (KeyTable::default(), HashMap::<u64, u32>::new());
            for (key, len) in steps {
                // Few hashes, so that keys collide.
                let hash = mix(key % 7);
                let text = format!("{key}{}", "x".repeat(len.min(key as usize)));
                let text = text.as_bytes();
                let of = |k: u64| table.find(mix(k % 7), |held| held.starts_with(format!("{k}").as_bytes()) && held[format!("{k}").len()..].iter().all(|b| *b == b'x'));
                let found = of(key);
                prop_assert_eq!(found, truth.get(&key).copied());
                if found.is_some() {
                    continue;
                }
                if truth.len() < 10 {
                    truth.insert(key, table.insert(hash, text));
                } else {
                    let (old, group) = truth.iter().min().map(|(k, g)| (*k, *g)).expect("ten keys");
                    table.replace(group, hash, text);
                    truth.remove(&old);
                    truth.insert(key, group);
                }
                prop_assert!(table.bytes() < 2 * 10 * 12 + 12);
            }
        }
    }
}
