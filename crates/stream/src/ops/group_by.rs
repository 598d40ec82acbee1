//! Maps each row to its group: a hash table from keys to group numbers 0, 1, 2, …
//!
//! Hashes are computed outside, for a whole batch. Each group's encoded key is stored once, in one arena. A lookup
//! compares the values of a row with these bytes; single columns of numbers, text, or addresses have a faster
//! comparison. A batch is looked up in two passes, first slots, then keys, so that memory latencies overlap. A short
//! key (an IPv4 address, a port, any number below 2^32) is stored in its slot and needs no second pass.

use crate::column::{ColumnValues, ColumnView};
use crate::rows::RowSet;
use crate::scalar::Scalar;

/// Slot flag: the upper half is the complete key.
const SHORT: u64 = 1 << 31;

/// No group.
pub const NO_GROUP: u32 = u32::MAX;
/// Initial number of slots.
const SLOTS_MIN: usize = 64;

/// Keys and their group numbers.
#[derive(Clone, Debug, Default)]
pub struct KeyTable {
    /// Slots: the upper half of a key's hash, or the key itself with [`SHORT`], and the group number plus one. 0 is
    /// an empty slot. The lower half of the hash selects the first slot of the probe. The load factor is at most one
    /// half.
    slots: Vec<u64>,
    listed: usize,
    hashes: Vec<u64>,
    /// Position of each group's key in `bytes`.
    spans: Vec<(u32, u32)>,
    bytes: Vec<u8>,
    /// Bytes of replaced keys.
    garbage: usize,
}

/// The key columns of a batch, by comparison method.
pub enum KeyColumns<'a> {
    /// No columns: all rows have the same key.
    None,
    /// One column of unsigned integers without nulls.
    U64(&'a [u64]),
    /// One column of addresses without nulls.
    Ip(&'a [[u8; 16]]),
    /// One column of text without nulls.
    Text(&'a arrow_array::StringArray),
    /// Anything else.
    Rows(Vec<ColumnView<'a>>),
}

/// Comparison and encoding of the keys of rows.
pub trait RowKeys {
    /// Whether `key` equals the row's key.
    fn is(&self, row: usize, key: &[u8]) -> bool;
    /// Appends the encoded key of a row.
    fn encode(&self, row: usize, bytes: &mut Vec<u8>);
    /// The row's key if it is short; see `Scalar::short`.
    #[inline]
    fn short(&self, _row: usize) -> Option<u32> {
        None
    }

    /// Converts row hashes to hashes of [`KeyTable`], in which short keys replace the upper half. Returns whether all
    /// keys are short.
    fn finish_hashes(&self, rows: RowSet<'_>, hashes: &mut [u64]) -> bool {
        let hashes = &mut hashes[..rows.len()];
        let mut all = true;
        rows.each(|place, row| match self.short(row) {
            Some(key) => hashes[place] = u64::from(key) << 32 | u64::from(hashes[place] as u32),
            None => all = false,
        });
        all
    }
}

impl KeyTable {
    /// Number of groups.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are no groups.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The encoded key of a group; empty for an unlisted group.
    #[inline]
    #[must_use]
    pub fn key(&self, group: u32) -> &[u8] {
        let (start, len) = self.spans[group as usize];
        &self.bytes[start as usize..][..len as usize]
    }

    /// The hash of a group's key.
    #[must_use]
    pub fn hash(&self, group: u32) -> u64 {
        self.hashes[group as usize]
    }

    /// Bytes of all keys; the arena uses at most twice as much.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len() - self.garbage
    }

    /// Heap memory in bytes.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let numbers = self.slots.capacity() + self.hashes.capacity() + self.spans.capacity();
        numbers * size_of::<u64>() + self.bytes.capacity()
    }

    /// The group with a key of this hash for which `is` returns true.
    #[inline]
    pub fn find(&self, hash: u64, is: impl Fn(&[u8]) -> bool) -> Option<u32> {
        let mask = self.slots.len().wrapping_sub(1);
        let mut at = hash as usize & mask;
        while let Some(&slot) = self.slots.get(at).filter(|slot| **slot != 0) {
            if (slot ^ hash) >> 32 == 0 && is(self.key(group_in(slot))) {
                return Some(group_in(slot));
            }
            at = (at + 1) & mask;
        }
        None
    }

    /// The group of each row, or [`NO_GROUP`]. `hashes` are in the order of `rows`; `all_short` is the result of
    /// [`RowKeys::finish_hashes`].
    pub fn find_each<K: RowKeys + ?Sized>(
        &self,
        keys: &K,
        rows: RowSet<'_>,
        (hashes, all_short): (&[u64], bool),
        groups: &mut Vec<u32>,
    ) {
        groups.clear();
        if self.slots.is_empty() {
            return groups.resize(hashes.len(), NO_GROUP);
        }
        match (all_short, rows) {
            (true, _) => {
                self.look_at_slots(
                    hashes,
                    |slot, hash| slot >> 31 == hash >> 32 << 1 | 1,
                    groups,
                );
                for (place, group) in groups.iter_mut().enumerate() {
                    if *group == NO_GROUP {
                        *group = self.find_elsewhere(keys, rows.at(place), hashes[place]);
                    }
                }
            }
            (false, RowSet::Run(from, to)) => self.check_each(keys, from..to, hashes, groups),
            (false, RowSet::Some(list)) => {
                self.check_each(keys, list.iter().map(|row| *row as usize), hashes, groups);
            }
        }
    }

    /// The group of each hash found in one of its first two slots.
    #[inline(always)]
    fn look_at_slots(&self, hashes: &[u64], is: impl Fn(u64, u64) -> bool, groups: &mut Vec<u32>) {
        let slots = &self.slots[..];
        groups.extend(hashes.iter().map(|hash| {
            let at = *hash as usize & (slots.len() - 1);
            let slot = slots[at];
            let next = slots[(at + 1) & (slots.len() - 1)];
            let slot = if is(slot, *hash) { slot } else { next };
            if is(slot, *hash) {
                group_in(slot)
            } else {
                NO_GROUP
            }
        }));
    }

    /// Compares the keys of found groups, and continues the search on a mismatch.
    #[inline(always)]
    fn check_each<K: RowKeys + ?Sized>(
        &self,
        keys: &K,
        rows: impl Iterator<Item = usize>,
        hashes: &[u64],
        groups: &mut Vec<u32>,
    ) {
        self.look_at_slots(hashes, |slot, hash| (slot ^ hash) >> 32 == 0, groups);
        for ((row, hash), group) in rows.zip(hashes).zip(groups) {
            if *group == NO_GROUP || !keys.is(row, self.key(*group)) {
                *group = self.find_elsewhere(keys, row, *hash);
            }
        }
    }

    /// Continues the search beyond the first two slots.
    #[inline(never)]
    fn find_elsewhere<K: RowKeys + ?Sized>(&self, keys: &K, row: usize, hash: u64) -> u32 {
        self.find(hash, |key| keys.is(row, key)).unwrap_or(NO_GROUP)
    }

    /// Reserves memory for `groups` more groups with `key_bytes` of keys.
    pub fn reserve(&mut self, groups: usize, key_bytes: usize) {
        self.hashes.reserve(groups);
        self.spans.reserve(groups);
        self.bytes.reserve(key_bytes);
        self.grow((self.listed + groups) * 2);
    }

    /// Adds a group; `key` must not be present.
    pub fn insert(&mut self, hash: u64, key: &[u8]) -> u32 {
        let group = self.push(hash, key);
        self.enlist(hash, group);
        group
    }

    /// Adds a group without a key.
    pub fn insert_unlisted(&mut self) -> u32 {
        self.push(0, &[])
    }

    /// Replaces the key of a listed group.
    pub fn replace(&mut self, group: u32, hash: u64, key: &[u8]) {
        self.delist(self.hashes[group as usize], group);
        self.garbage += self.spans[group as usize].1 as usize;
        self.hashes[group as usize] = hash;
        self.spans[group as usize] = (self.bytes.len() as u32, key.len() as u32);
        self.bytes.extend_from_slice(key);
        self.enlist(hash, group);
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

    fn enlist(&mut self, hash: u64, group: u32) {
        self.grow((self.listed + 1) * 2);
        self.listed += 1;
        let short = if short(self.key(group)).is_some() {
            SHORT
        } else {
            0
        };
        self.place(
            hash,
            (hash & !u64::from(u32::MAX)) | short | u64::from(group + 1),
        );
    }

    /// Grows the table to at least this number of slots.
    fn grow(&mut self, slots: usize) {
        if slots > self.slots.len() {
            let old = std::mem::replace(
                &mut self.slots,
                vec![0; slots.next_power_of_two().max(SLOTS_MIN)],
            );
            let taken = old.into_iter().filter(|slot| *slot != 0);
            taken.for_each(|slot| self.place(self.hashes[group_in(slot) as usize], slot));
        }
    }

    fn place(&mut self, hash: u64, slot: u64) {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at] != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = slot;
    }

    /// Removes a group's slot and moves displaced entries back.
    fn delist(&mut self, hash: u64, group: u32) {
        let mask = self.slots.len() - 1;
        let mut free = hash as usize & mask;
        while self.slots[free] & (SHORT - 1) != u64::from(group + 1) {
            assert!(self.slots[free] != 0, "only listed groups are replaced");
            free = (free + 1) & mask;
        }
        let mut at = free;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot == 0 {
                break;
            }
            let home = self.hashes[group_in(slot) as usize] as usize & mask;
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(free) & mask {
                self.slots[free] = slot;
                free = at;
            }
        }
        self.slots[free] = 0;
        self.listed -= 1;
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

/// The group in a slot; [`NO_GROUP`] for an empty slot.
#[inline]
fn group_in(slot: u64) -> u32 {
    ((slot & (SHORT - 1)) as u32).wrapping_sub(1)
}

/// The hash of an encoded key from the hash of its values, equal to [`RowKeys::finish_hashes`].
#[must_use]
pub fn finish_hash(key: &[u8], hash: u64) -> u64 {
    short(key).map_or(hash, |key| u64::from(key) << 32 | u64::from(hash as u32))
}

/// The value of an encoded short key.
fn short(key: &[u8]) -> Option<u32> {
    let (scalar, rest) = Scalar::decode(key)?;
    scalar.short().filter(|_| rest.is_empty())
}

impl<'a> KeyColumns<'a> {
    /// Selects the fastest comparison for these columns.
    #[must_use]
    pub fn new(columns: Vec<ColumnView<'a>>) -> KeyColumns<'a> {
        match &columns[..] {
            [] => KeyColumns::None,
            [
                ColumnView {
                    values: ColumnValues::U64(v),
                    nulls: None,
                },
            ] => KeyColumns::U64(v),
            [
                ColumnView {
                    values: ColumnValues::Ip(v),
                    nulls: None,
                },
            ] => KeyColumns::Ip(v),
            [
                ColumnView {
                    values: ColumnValues::Text(v),
                    nulls: None,
                },
            ] => KeyColumns::Text(v),
            _ => KeyColumns::Rows(columns),
        }
    }
}

impl RowKeys for [u64] {
    #[inline]
    fn is(&self, row: usize, key: &[u8]) -> bool {
        Scalar::U64(self[row]).is_all_of(key)
    }

    fn encode(&self, row: usize, bytes: &mut Vec<u8>) {
        Scalar::U64(self[row]).encode(bytes);
    }

    #[inline]
    fn short(&self, row: usize) -> Option<u32> {
        Scalar::U64(self[row]).short()
    }
}

impl RowKeys for [[u8; 16]] {
    #[inline]
    fn is(&self, row: usize, key: &[u8]) -> bool {
        Scalar::Ip(&self[row]).is_all_of(key)
    }

    fn encode(&self, row: usize, bytes: &mut Vec<u8>) {
        Scalar::Ip(&self[row]).encode(bytes);
    }

    #[inline]
    fn short(&self, row: usize) -> Option<u32> {
        Scalar::Ip(&self[row]).short()
    }
}

impl RowKeys for arrow_array::StringArray {
    #[inline]
    fn is(&self, row: usize, key: &[u8]) -> bool {
        Scalar::Text(self.value(row).as_bytes()).is_all_of(key)
    }

    fn encode(&self, row: usize, bytes: &mut Vec<u8>) {
        Scalar::Text(self.value(row).as_bytes()).encode(bytes);
    }
}

impl RowKeys for [ColumnView<'_>] {
    #[inline]
    fn is(&self, row: usize, mut key: &[u8]) -> bool {
        self.iter()
            .all(|column| match normal(column.scalar(row)).is_first_of(key) {
                Some(rest) => {
                    key = rest;
                    true
                }
                None => false,
            })
    }

    fn encode(&self, row: usize, bytes: &mut Vec<u8>) {
        self.iter()
            .for_each(|column| normal(column.scalar(row)).encode(bytes));
    }

    #[inline]
    fn short(&self, row: usize) -> Option<u32> {
        if let [column] = self {
            column.scalar(row).short()
        } else {
            None
        }
    }
}

/// Converts −0.0 to 0.0, as in encoded keys.
#[inline]
fn normal(scalar: Scalar<'_>) -> Scalar<'_> {
    match scalar {
        Scalar::F64(v) => Scalar::F64(v + 0.0),
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
            let mut table = KeyTable::default();
            let mut truth = HashMap::<u64, u32>::new();
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

        /// Batched lookups of mixed short and long keys with few hashes.
        #[test]
        fn short_keys_are_keys_like_others(batches in prop::collection::vec(
            (prop::collection::vec(0u64..40, 1..60), 0u64..3, any::<bool>()), 1..20,
        )) {
            let mut table = KeyTable::default();
            let mut truth = HashMap::<u64, u32>::new();
            let mut groups = Vec::new();
            for (keys, shift, listed) in batches {
                // Without a shift all keys are short; with a shift each long key has a short counterpart.
                let keys: Vec<u64> = keys.iter().map(|key| (key / 2) | ((key & shift & 1) << 32)).collect();
                let places: Vec<u32> = (0..keys.len() as u32).collect();
                let rows = if listed { RowSet::Some(&places) } else { RowSet::all(keys.len()) };
                let mut hashes: Vec<u64> = keys.iter().map(|key| mix(key % 5)).collect();
                let all_short = keys.finish_hashes(rows, &mut hashes);
                prop_assert_eq!(all_short, keys.iter().all(|key| *key < 1 << 32));
                table.find_each(&keys[..], rows, (&hashes, all_short), &mut groups);
                let before: Vec<u32> =
                    keys.iter().map(|key| truth.get(key).copied().unwrap_or(NO_GROUP)).collect();
                prop_assert_eq!(&groups, &before);
                for (row, key) in keys.iter().enumerate() {
                    let known = truth.get(key).copied();
                    let mut bytes = Vec::new();
                    keys.encode(row, &mut bytes);
                    let found = table.find(hashes[row], |held| held == bytes);
                    prop_assert_eq!(found, known);
                    truth.entry(*key).or_insert_with(|| table.insert(hashes[row], &bytes));
                }
            }
        }
    }
}
