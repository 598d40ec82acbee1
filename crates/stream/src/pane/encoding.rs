//! Serialization of a pane for another machine; see `partial` for the format.

use tuple::DataType;

use super::{GroupOverflow, LEVEL_MAX, PIECES_BYTES, Pane, PaneLayout, STRATA_MAX, Stratum};
use crate::column::hash_scalar;
use crate::ops::group_by::finish_hash;
use crate::partial::bytes::{
    MalformedPartial, PackedBits, PartialReader, TUPLES_MAX, put, put_bits, put_bytes, put_len,
    put_real, put_signed,
};
use crate::scalar::Scalar;
use crate::sketch::SpaceSaving;

/// Maximum bytes of a pane's keys: positions have 32 bits.
const KEYS_MAX: usize = 1 << 29;
/// Approximate overhead of a group besides its key and cells.
const GROUP_BYTES: usize = 64;

/// The properties of a pipeline's panes in the reading engine.
#[derive(Clone, Copy, Debug)]
pub struct PaneExpectation<'a> {
    /// Layout of the panes.
    pub layout: &'a PaneLayout,
    /// Types of the group columns.
    pub types: &'a [DataType],
    /// Seed of the key hashes.
    pub seed: u64,
    /// Maximum number of groups.
    pub groups_max: usize,
}

/// A column of keys, read in order.
struct PaneKeyColumn<'a> {
    nulls: Option<PackedBits<'a>>,
    values: PaneKeyValues<'a>,
    next: usize,
}

enum PaneKeyValues<'a> {
    Bool(PackedBits<'a>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F64(&'a [[u8; 8]]),
    Text(Vec<&'a [u8]>),
    Ip(Vec<[u8; 16]>),
    Hashes(Vec<&'a [u8]>),
}

impl Pane {
    /// Appends the encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.level);
        put(out, self.tuples);
        out.push(u8::from(self.span_ns.is_some()));
        if let Some((first, last)) = self.span_ns {
            put_signed(out, first);
            put(out, last.wrapping_sub(first) as u64);
        }
        put_len(out, self.keys.len());
        put_len(out, self.pool.map_or(0, |pool| pool as usize + 1));
        self.encode_keys(out);
        put_len(out, self.strata.len());
        for Stratum { rate, cells } in &self.strata {
            put_real(out, *rate);
            cells.write(out);
        }
        out.push(u8::from(self.saving.is_some()));
        if let Some(saving) = &self.saving {
            put(out, saving.negative());
            for group in self.listed() {
                put(out, saving.weight(group));
                put(out, saving.error(group));
            }
        }
        out.push(u8::from(!self.partial.is_empty()));
        if !self.partial.is_empty() {
            put_bits(
                out,
                (0..self.keys.len() as u32).map(|group| self.is_partial(group)),
            );
        }
    }

    /// Encoding per column: type; 0, or 1 and a bitmap of null keys; the non-null values.
    fn encode_keys(&self, out: &mut Vec<u8>) {
        let mut rest: Vec<&[u8]> = self.listed().map(|group| self.keys.key(group)).collect();
        let mut column = Vec::with_capacity(rest.len());
        loop {
            column.clear();
            for key in &mut rest {
                let Some((scalar, after)) = Scalar::decode(key) else {
                    return;
                };
                column.push(scalar);
                *key = after;
            }
            if column.is_empty() {
                return;
            }
            encode_column(&column, out);
        }
    }

    /// Decodes a pane.
    pub fn decode(
        from: &mut PartialReader<'_>,
        expected: &PaneExpectation<'_>,
    ) -> Result<Pane, MalformedPartial> {
        from.spend(size_of::<Pane>() + PIECES_BYTES)?;
        let mut pane = Pane::new(from.up_to(LEVEL_MAX.into(), "a level")? as u8);
        pane.tuples = from.up_to(TUPLES_MAX, "a count")?;
        if from.flag()? {
            let first = from.signed()?;
            let last = first
                .checked_add_unsigned(from.number()?)
                .ok_or(MalformedPartial::Invalid("a time"))?;
            pane.span_ns = Some((first, last));
        }
        let groups = from.number()?;
        // Lower bound for one group and the pool; a pane exceeds the limit by up to half before it is cut.
        if groups > expected.groups_max.max(1) as u64 / 2 * 3 + 2 {
            return Err(MalformedPartial::Invalid("the number of groups"));
        }
        let groups = groups as usize;
        let pool = from
            .len_up_to(groups)?
            .checked_sub(1)
            .map(|pool| pool as u32);
        pane.decode_keys(groups, pool, from, expected)?;
        pane.decode_strata(from, expected)?;
        if from.flag()? {
            pane.saving = Some(pane.decode_saving(from, expected)?);
        }
        if from.flag()? {
            let partial = from.bits(groups)?;
            pane.partial = (0..groups).map(|group| partial.get(group)).collect();
        }
        Ok(pane)
    }

    fn decode_keys(
        &mut self,
        groups: usize,
        pool: Option<u32>,
        from: &mut PartialReader<'_>,
        expected: &PaneExpectation<'_>,
    ) -> Result<(), MalformedPartial> {
        let listed = groups - usize::from(pool.is_some());
        if expected.types.is_empty() && (listed > 1 || pool.is_some()) {
            return Err(MalformedPartial::Invalid("the number of groups"));
        }
        let types = expected.types.iter().filter(|_| listed > 0);
        let mut columns = types
            .map(|data_type| PaneKeyColumn::decode(*data_type, listed, from))
            .collect::<Result<Vec<PaneKeyColumn<'_>>, _>>()?;
        let key_bytes = columns
            .iter()
            .map(|column| column.key_bytes(listed))
            .sum::<usize>();
        from.spend(listed * GROUP_BYTES + key_bytes)?;
        if key_bytes > KEYS_MAX {
            return Err(MalformedPartial::TooLarge);
        }
        self.keys.reserve(listed, key_bytes);
        let mut key = Vec::new();
        let mut row = 0;
        for group in 0..groups as u32 {
            if pool == Some(group) {
                self.pool = Some(self.keys.insert_unlisted());
                continue;
            }
            key.clear();
            let hash = columns.iter_mut().fold(expected.seed, |hash, column| {
                let scalar = column.scalar(row);
                scalar.encode(&mut key);
                hash_scalar(&scalar, hash)
            });
            row += 1;
            self.enlist(hash, &key)?;
        }
        Ok(())
    }

    /// Adds a group; a duplicate key is rejected.
    fn enlist(&mut self, hash: u64, key: &[u8]) -> Result<(), MalformedPartial> {
        // Tuples without key columns form a single group.
        let hash = if key.is_empty() {
            0
        } else {
            finish_hash(key, hash)
        };
        if self.keys.find(hash, |held| held == key).is_some() {
            return Err(MalformedPartial::Invalid("a key twice"));
        }
        self.keys.insert(hash, key);
        Ok(())
    }

    fn decode_strata(
        &mut self,
        from: &mut PartialReader<'_>,
        expected: &PaneExpectation<'_>,
    ) -> Result<(), MalformedPartial> {
        let layout = expected.layout;
        for _ in 0..from.up_to(STRATA_MAX as u64, "the number of rates")? {
            let rate = from.real()?;
            // The comparison also rejects NaN.
            if !(rate > 0.0 && rate <= 1.0)
                || self.strata.iter().any(|stratum| stratum.rate == rate)
            {
                return Err(MalformedPartial::Invalid("a rate"));
            }
            if layout.rates.is_none() && rate != layout.sample {
                return Err(MalformedPartial::OtherDataflow("the sampling rate"));
            }
            let mut cells = layout.shape.accumulators(self.level);
            cells.read(self.keys.len() * layout.replicates, self.tuples, from)?;
            self.sketch_bytes += cells.sketch_bytes();
            self.strata.push(Stratum { rate, cells });
        }
        // Every group has at least one rate.
        if self.strata.is_empty() && !self.keys.is_empty() {
            return Err(MalformedPartial::Invalid("the number of rates"));
        }
        Ok(())
    }

    fn decode_saving(
        &self,
        from: &mut PartialReader<'_>,
        expected: &PaneExpectation<'_>,
    ) -> Result<SpaceSaving, MalformedPartial> {
        if expected.layout.overflow == GroupOverflow::Pool {
            return Err(MalformedPartial::OtherDataflow("what is ranked"));
        }
        let negative = from.wide()?;
        let mut weights = Vec::new();
        let mut errors = Vec::new();
        for group in 0..self.keys.len() as u32 {
            let (weight, error) = if self.pool == Some(group) {
                (u128::MAX, 0)
            } else {
                (from.wide()?, from.wide()?)
            };
            weights.push(weight);
            errors.push(error);
        }
        Ok(SpaceSaving::from_parts(weights, errors, negative))
    }
}

fn encode_column(column: &[Scalar<'_>], out: &mut Vec<u8>) {
    let is_null = |scalar: &Scalar<'_>| *scalar == Scalar::Null;
    let values = || column.iter().filter(|scalar| !is_null(scalar));
    let all_v4 = || values().all(|scalar| matches!(scalar, Scalar::Ip(ip) if v4(ip).is_some()));
    out.push(match values().next() {
        None | Some(Scalar::Null) => NULL,
        Some(Scalar::Bool(_)) => BOOL,
        Some(Scalar::U64(_)) => U64,
        Some(Scalar::I64(_)) => I64,
        Some(Scalar::F64(_)) => F64,
        Some(Scalar::Text(_)) => TEXT,
        Some(Scalar::Ip(_)) if all_v4() => IPV4,
        Some(Scalar::Ip(_)) => IP,
        Some(Scalar::Hashes(_)) => HASHES,
    });
    let nulls = column.iter().any(is_null);
    out.push(u8::from(nulls));
    if nulls {
        put_bits(out, column.iter().map(is_null));
    }
    if let Some(Scalar::Bool(_)) = values().next() {
        let bits: Vec<bool> = values()
            .map(|scalar| *scalar == Scalar::Bool(true))
            .collect();
        return put_bits(out, bits.into_iter());
    }
    let is_short = all_v4();
    for scalar in values() {
        match scalar {
            Scalar::U64(v) => put(out, *v),
            Scalar::I64(v) => put_signed(out, *v),
            Scalar::F64(v) => put_real(out, *v),
            Scalar::Text(v) | Scalar::Hashes(v) => put_bytes(out, v),
            Scalar::Ip(v) => out.extend_from_slice(if is_short { &v[12..] } else { &v[..] }),
            Scalar::Null | Scalar::Bool(_) => {}
        }
    }
}

/// Encoded types of key columns.
const NULL: u8 = 0;
const BOOL: u8 = 1;
const U64: u8 = 2;
const I64: u8 = 3;
const F64: u8 = 4;
const TEXT: u8 = 5;
const IPV4: u8 = 6;
const IP: u8 = 7;
const HASHES: u8 = 8;

/// The four bytes of an IPv4-mapped address.
fn v4(ip: &[u8; 16]) -> Option<&[u8]> {
    ip.strip_prefix(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff])
}

impl<'a> PaneKeyColumn<'a> {
    fn decode(
        data_type: DataType,
        rows: usize,
        from: &mut PartialReader<'a>,
    ) -> Result<PaneKeyColumn<'a>, MalformedPartial> {
        let kind = from.byte()?;
        let nulls = if from.flag()? {
            Some(from.bits(rows)?)
        } else {
            None
        };
        let n = nulls.map_or(rows, |nulls| {
            (0..rows).filter(|row| !nulls.get(*row)).count()
        });
        let values = match (kind, data_type) {
            (NULL, _) if n == 0 => PaneKeyValues::U64(Vec::new()),
            (BOOL, DataType::Bool) => PaneKeyValues::Bool(from.bits(n)?),
            (U64, DataType::U64) => PaneKeyValues::U64(from.list(n, PartialReader::number)?),
            (I64, DataType::I64) => PaneKeyValues::I64(from.list(n, PartialReader::signed)?),
            (F64, DataType::F64) => {
                PaneKeyValues::F64(from.take(n.saturating_mul(8))?.as_chunks().0)
            }
            (TEXT, DataType::Text | DataType::Json) => {
                PaneKeyValues::Text(from.list(n, |from| from.text().map(str::as_bytes))?)
            }
            (IPV4, DataType::Ip) => PaneKeyValues::Ip(from.list(n, |from| {
                let mut ip = [0xff; 16];
                ip[..10].fill(0);
                ip[12..].copy_from_slice(from.take(4)?);
                Ok(ip)
            })?),
            (IP, DataType::Ip) => {
                let ip = |from: &mut PartialReader<'a>| {
                    from.take(16)?
                        .first_chunk()
                        .copied()
                        .ok_or(MalformedPartial::Short)
                };
                PaneKeyValues::Ip(from.list(n, ip)?)
            }
            (HASHES, DataType::Hashes) => {
                let list = |from: &mut PartialReader<'a>| match from.bytes()? {
                    list if list.len().is_multiple_of(tuple::hashes::BYTES) => Ok(list),
                    _ => Err(MalformedPartial::Invalid("a list of hashes")),
                };
                PaneKeyValues::Hashes(from.list(n, list)?)
            }
            _ => return Err(MalformedPartial::OtherDataflow("the type of a key")),
        };
        Ok(PaneKeyColumn {
            nulls,
            values,
            next: 0,
        })
    }

    /// Maximum size of the column's values in the keys of `rows` rows.
    fn key_bytes(&self, rows: usize) -> usize {
        match &self.values {
            PaneKeyValues::Bool(_) => rows * 2,
            PaneKeyValues::U64(_) | PaneKeyValues::I64(_) | PaneKeyValues::F64(_) => rows * 9,
            PaneKeyValues::Ip(_) => rows * 17,
            PaneKeyValues::Text(v) | PaneKeyValues::Hashes(v) => {
                rows * 5 + v.iter().map(|text| text.len()).sum::<usize>()
            }
        }
    }

    /// The value of a row; rows must be requested in ascending order.
    fn scalar(&mut self, row: usize) -> Scalar<'_> {
        if self.nulls.is_some_and(|nulls| nulls.get(row)) {
            return Scalar::Null;
        }
        let at = self.next;
        self.next += 1;
        match &self.values {
            PaneKeyValues::Bool(v) => Scalar::Bool(v.get(at)),
            PaneKeyValues::U64(v) => Scalar::U64(v[at]),
            PaneKeyValues::I64(v) => Scalar::I64(v[at]),
            PaneKeyValues::F64(v) => Scalar::F64(f64::from_le_bytes(v[at]) + 0.0),
            PaneKeyValues::Text(v) => Scalar::Text(v[at]),
            PaneKeyValues::Ip(v) => Scalar::Ip(&v[at]),
            PaneKeyValues::Hashes(v) => Scalar::Hashes(v[at]),
        }
    }
}
