//! Serialized parts of a profile; see `partial` for the format. Keys are sent as shown texts; their hashes are computed
//! again by the receiver.

use tuple::DataType;

use super::heavy_hitters::HeavyHitters;
use super::part::{
    FailedOperation, HottestKeys, OperationStats, OperationTotal, PRECISION, ProfilePart,
};
use super::{ProfileShare, ProfileState, UNKNOWN, name_hash};
use crate::column::hash_scalar;
use crate::ops::distinct::DistinctSet;
use crate::partial::bytes::{
    MalformedPartial, PartialReader, TUPLES_MAX, put, put_len, put_signed,
};
use crate::scalar::Scalar;
use crate::sketch::LogHistogram;

/// Encodes a list of parts with their window numbers.
pub fn encode(share: &[(i64, ProfilePart)], out: &mut Vec<u8>) {
    put_len(out, share.len());
    for (window, part) in share {
        put_signed(out, *window);
        part.encode(out);
    }
}

impl ProfileState {
    /// Decodes parts of the same profile.
    pub fn decode(&self, from: &mut PartialReader<'_>) -> Result<ProfileShare, MalformedPartial> {
        let n = from.len()?;
        from.allow(self.bytes_max);
        let mut share = ProfileShare::new();
        for _ in 0..n {
            let window = from.signed()?;
            let is_window = match &self.windows {
                Some(windows) => windows.has_pane(window),
                None => window == 0,
            };
            if !is_window {
                return Err(MalformedPartial::Invalid("a time"));
            }
            share.push((window, self.decode_part(from)?));
        }
        Ok(share)
    }

    fn decode_part(&self, from: &mut PartialReader<'_>) -> Result<ProfilePart, MalformedPartial> {
        from.spend(size_of::<ProfilePart>())?;
        let mut part = ProfilePart::new(self.keys_max, &self.config);
        part.tuples = from.up_to(TUPLES_MAX, "a count")?;
        part.span_ns = (from.signed()?, from.signed()?);
        if part.span_ns.0 > part.span_ns.1 {
            return Err(MalformedPartial::Invalid("a time"));
        }
        for total in part.totals_mut() {
            *total = OperationTotal {
                count: from.wide()?,
                bytes: from.wide()?,
            };
        }
        for kind in 0..2 {
            part.is_doubtful[kind] = from.flag()?;
            part.aligned[kind] = [from.wide()?, from.wide()?];
        }
        for n in &mut part.checksums {
            *n = from.up_to(TUPLES_MAX, "a count")?;
        }
        for set in part.sets_mut() {
            *set = DistinctSet::read(self.config.distinct_exact_max, PRECISION, from)?;
        }
        let tuples = part.tuples;
        part.operations
            .read(from, &|name| self.hash(DataType::Text, name), |from| {
                let bytes = from.wide()?;
                let failed = from.wide()?;
                Ok(OperationStats {
                    bytes,
                    failed,
                    times: LogHistogram::of_integers().read(tuples, from)?,
                })
            })?;
        let operations = &part.operations;
        part.errors
            .read(from, &|name| self.hash(DataType::Text, name), |from| {
                let place = from.number()?.checked_sub(1);
                Ok(FailedOperation(
                    place
                        .and_then(|place| operations.hash_at(place))
                        .unwrap_or_default(),
                ))
            })?;
        part.objects
            .read(from, &|name| self.hash(self.object_type, name))?;
        part.clients
            .read(from, &|name| self.hash(self.client_type, name))?;
        Ok(part)
    }

    /// Hash that identifies a key of a column, from its shown text.
    fn hash(&self, data_type: DataType, name: &str) -> Option<u64> {
        let seed = self.key_seed();
        if name == UNKNOWN {
            return Some(hash_scalar(&Scalar::Null, seed));
        }
        let ip;
        let scalar = match data_type {
            DataType::Bool => Scalar::Bool(name.parse().ok()?),
            DataType::U64 => Scalar::U64(name.parse().ok()?),
            DataType::I64 => Scalar::I64(name.parse().ok()?),
            DataType::F64 => Scalar::F64(name.parse().ok()?),
            DataType::Ip => {
                ip = match name.parse().ok()? {
                    std::net::IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                    std::net::IpAddr::V6(ip) => ip.octets(),
                };
                Scalar::Ip(&ip)
            }
            DataType::Text | DataType::Json | DataType::Hashes => {
                return Some(name_hash(name, seed));
            }
        };
        Some(hash_scalar(&scalar, seed))
    }
}

impl ProfilePart {
    /// Appends the encoding.
    fn encode(&self, out: &mut Vec<u8>) {
        put(out, self.tuples);
        put_signed(out, self.span_ns.0);
        put_signed(out, self.span_ns.1);
        for OperationTotal { count, bytes } in self.totals() {
            put(out, *count);
            put(out, *bytes);
        }
        for kind in 0..2 {
            out.push(u8::from(self.is_doubtful[kind]));
            self.aligned[kind].iter().for_each(|n| put(out, *n));
        }
        self.checksums.iter().for_each(|n| put(out, *n));
        self.working_set.write(out);
        self.contents.iter().for_each(|set| set.write(out));
        self.operations.write(out, |operation, out| {
            put(out, operation.bytes);
            put(out, operation.failed);
            operation.times.write(out);
        });
        let place = |failed: &FailedOperation| {
            self.operations
                .place_of(failed.0)
                .map_or(0, |place| place + 1)
        };
        self.errors
            .write(out, |failed, out| put(out, place(failed)));
        self.objects.write(out);
        self.clients.write(out);
    }

    fn totals(&self) -> impl Iterator<Item = &OperationTotal> {
        self.mix
            .iter()
            .chain(self.patterns.iter().flatten())
            .chain(self.sizes.iter().flatten())
    }

    fn totals_mut(&mut self) -> impl Iterator<Item = &mut OperationTotal> {
        self.mix
            .iter_mut()
            .chain(self.patterns.iter_mut().flatten())
            .chain(self.sizes.iter_mut().flatten())
    }

    fn sets_mut(&mut self) -> impl Iterator<Item = &mut DistinctSet> {
        [&mut self.working_set]
            .into_iter()
            .chain(&mut self.contents)
    }
}

impl HottestKeys {
    fn write(&self, out: &mut Vec<u8>) {
        let number = |n: &u128, out: &mut Vec<u8>| put(out, *n);
        self.by_operations.write(out, number);
        self.by_bytes.write(out, number);
    }

    fn read(
        &mut self,
        from: &mut PartialReader<'_>,
        hash: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<(), MalformedPartial> {
        self.by_operations.read(from, hash, PartialReader::wide)?;
        self.by_bytes.read(from, hash, PartialReader::wide)
    }
}

impl<T: super::heavy_hitters::KeyCounts> HeavyHitters<T> {
    /// Encoding: whether keys were evicted, then a list of keys: text, weight, error, and further counts.
    fn write(&self, out: &mut Vec<u8>, counted: impl Fn(&T, &mut Vec<u8>)) {
        out.push(u8::from(self.is_overflowed()));
        let all = self.in_order();
        put_len(out, all.len());
        for key in all {
            crate::partial::bytes::put_bytes(out, key.name.as_bytes());
            put(out, key.weight);
            put(out, key.error);
            counted(key.counted, out);
        }
    }

    /// Decodes keys into an empty list.
    fn read<'a>(
        &mut self,
        from: &mut PartialReader<'a>,
        hash: &dyn Fn(&str) -> Option<u64>,
        counted: impl Fn(&mut PartialReader<'a>) -> Result<T, MalformedPartial>,
    ) -> Result<(), MalformedPartial> {
        let is_overflowed = from.flag()?;
        let n = from.len()?;
        if n > self.max() {
            return Err(MalformedPartial::Invalid("the number of keys"));
        }
        let mut weights = Vec::new();
        for _ in 0..n {
            let name = from.text()?;
            from.spend(size_of::<T>() + 128 + name.len())?;
            let hash = hash(name).ok_or(MalformedPartial::Invalid("a key"))?;
            let weight = from.wide()?;
            let error = from.wide()?;
            let counted = counted(from)?;
            if error > weight || !self.enlist(hash, name, counted) {
                return Err(MalformedPartial::Invalid("a key"));
            }
            weights.push((weight, error));
        }
        self.set_weights(weights, is_overflowed);
        Ok(())
    }
}
