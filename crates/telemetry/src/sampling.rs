//! Sampling rates of an exporter: from records, options, samplers, or headers.

use std::collections::HashMap;

use crate::cursor::float;
use crate::cursor::unsigned;

/// One of `packets` packets is measured; 1 without sampling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamplingRate {
    /// Finite, and at least 1.
    pub packets: f64,
    /// Origin of the rate.
    pub source: RateSource,
}

/// Origin of a sampling rate; the column `rate_from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RateSource {
    /// The record or the sample has it.
    Record,
    /// The exporter reported it, in an options record or in the message's header.
    Options,
    /// The query has configured the exporter.
    Query,
}

impl RateSource {
    /// The name in rows: `record`, `options`, `query`.
    pub fn name(self) -> &'static str {
        match self {
            RateSource::Record => "record",
            RateSource::Options => "options",
            RateSource::Query => "query",
        }
    }
}

/// Sampling parameters of one record, as sent. Zero means unknown in every field.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct SamplingFields {
    /// Element 34, 50: one of this many packets.
    pub interval: u64,
    /// Elements 305 and 306 (RFC 5477): of `selected + skipped` packets, the first `selected`.
    pub selected: u64,
    pub skipped: Option<u64>,
    /// Elements 309 and 310: `size` of `population` packets.
    pub size: u64,
    pub population: u64,
    /// Element 311: share of the packets.
    pub probability: f64,
    /// Elements 48, 302: the sampler that the parameters belong to, or that measured the record.
    pub sampler: Option<u64>,
}

impl SamplingFields {
    /// Takes a field with one of these elements.
    pub fn take(&mut self, id: u16, value: &[u8]) {
        let number = || unsigned(value).unwrap_or(0);
        match id {
            34 | 50 => self.interval = self.interval.max(number()),
            48 | 302 => self.sampler = unsigned(value),
            305 => self.selected = number(),
            306 => self.skipped = unsigned(value),
            309 => self.size = number(),
            310 => self.population = number(),
            311 => self.probability = float(value).unwrap_or(0.0),
            _ => {}
        }
    }

    /// One of how many packets; `None` if unknown or impossible.
    pub fn rate(&self) -> Option<f64> {
        let rate = if self.interval > 0 {
            self.interval as f64
        } else if self.size > 0 && self.population > 0 {
            self.population as f64 / self.size as f64
        } else if let (1.., Some(skipped)) = (self.selected, self.skipped) {
            // The sum of two hostile integers can exceed 64 bits.
            (self.selected as f64 + skipped as f64) / self.selected as f64
        } else if self.probability > 0.0 {
            1.0 / self.probability
        } else {
            return None;
        };
        (rate.is_finite() && rate >= 1.0).then_some(rate)
    }
}

/// Samplers kept per domain.
const MAX_SAMPLERS: usize = 1024;

/// Rates that the options of one domain report.
#[derive(Clone, Debug, Default)]
pub(crate) struct SamplerTable {
    rates: HashMap<u64, f64>,
    /// Rate without a sampler, or that of the only sampler.
    default: Option<f64>,
}

impl SamplerTable {
    /// A table with these rates; impossible ones are left out.
    pub fn new(default: Option<f64>, rates: impl IntoIterator<Item = (u64, f64)>) -> SamplerTable {
        let is_possible = |rate: &f64| rate.is_finite() && *rate >= 1.0;
        let rates = rates
            .into_iter()
            .filter(|(_, rate)| is_possible(rate))
            .take(MAX_SAMPLERS)
            .collect();
        SamplerTable {
            rates,
            default: default.filter(is_possible),
        }
    }

    /// The rate without a sampler.
    pub fn default_rate(&self) -> Option<f64> {
        self.default
    }

    /// The rates by sampler.
    pub fn rates(&self) -> impl Iterator<Item = (u64, f64)> {
        self.rates.iter().map(|(sampler, rate)| (*sampler, *rate))
    }

    /// Takes the parameters of an options record, or of a message header; returns whether they contain a rate.
    pub fn learn(&mut self, fields: &SamplingFields) -> bool {
        let Some(rate) = fields.rate() else {
            return false;
        };
        match fields.sampler {
            None => self.default = Some(rate),
            Some(sampler) => {
                if self.rates.len() < MAX_SAMPLERS || self.rates.contains_key(&sampler) {
                    self.rates.insert(sampler, rate);
                }
            }
        }
        true
    }

    /// The rate of a record: its own, that of its sampler, that of the domain, that of the domain's only sampler.
    pub fn rate_of(&self, fields: &SamplingFields) -> Option<SamplingRate> {
        if let Some(packets) = fields.rate() {
            return Some(SamplingRate {
                packets,
                source: RateSource::Record,
            });
        }
        let by_sampler = fields
            .sampler
            .and_then(|sampler| self.rates.get(&sampler).copied());
        by_sampler
            .or(self.default)
            .or_else(|| self.only())
            .map(|packets| SamplingRate {
                packets,
                source: RateSource::Options,
            })
    }

    fn only(&self) -> Option<f64> {
        let mut rates = self.rates.values();
        let first = *rates.next()?;
        rates.next().is_none().then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(interval: u64, sampler: Option<u64>) -> SamplingFields {
        SamplingFields {
            interval,
            sampler,
            ..SamplingFields::default()
        }
    }

    #[test]
    fn every_form_of_a_rate() {
        let none = SamplingFields::default();
        assert_eq!(none.rate(), None);
        assert_eq!(interval(100, None).rate(), Some(100.0));
        assert_eq!(
            SamplingFields {
                selected: 1,
                skipped: Some(999),
                ..none
            }
            .rate(),
            Some(1000.0)
        );
        assert_eq!(
            SamplingFields {
                selected: 5,
                ..none
            }
            .rate(),
            None
        );
        assert_eq!(
            SamplingFields {
                size: 2,
                population: 64,
                ..none
            }
            .rate(),
            Some(32.0)
        );
        assert_eq!(
            SamplingFields {
                probability: 0.125,
                ..none
            }
            .rate(),
            Some(8.0)
        );
        assert_eq!(
            SamplingFields {
                size: 5,
                population: 1,
                ..none
            }
            .rate(),
            None
        );
        assert_eq!(
            SamplingFields {
                probability: f64::NAN,
                ..none
            }
            .rate(),
            None
        );
        assert_eq!(
            SamplingFields {
                probability: f64::MIN_POSITIVE / 4.0,
                ..none
            }
            .rate(),
            None
        );
    }

    #[test]
    fn zero_is_unknown() {
        let mut table = SamplerTable::default();
        assert!(!table.learn(&interval(0, Some(1))));
        assert_eq!(table.rate_of(&interval(0, Some(1))), None);
    }

    #[test]
    fn samplers_have_rates_of_their_own() {
        let mut table = SamplerTable::default();
        table.learn(&interval(10, Some(1)));
        let rate = |table: &SamplerTable, fields| {
            table
                .rate_of(&fields)
                .map(|rate| (rate.packets, rate.source))
        };
        assert_eq!(
            rate(&table, interval(0, None)),
            Some((10.0, RateSource::Options))
        );
        table.learn(&interval(20, Some(2)));
        assert_eq!(rate(&table, interval(0, None)), None);
        assert_eq!(
            rate(&table, interval(0, Some(2))),
            Some((20.0, RateSource::Options))
        );
        assert_eq!(
            rate(&table, interval(7, Some(2))),
            Some((7.0, RateSource::Record))
        );
        table.learn(&interval(30, None));
        assert_eq!(
            rate(&table, interval(0, Some(9))),
            Some((30.0, RateSource::Options))
        );
    }
}
