//! What is read of a message, and its stored form: numbers, then texts with their lengths.

use super::batches::RecordBatch;

/// Numbers of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestNumber {
    Key,
    Version,
    Topics,
    Partitions,
    /// Of the first one.
    Partition,
    Acks,
    MaxWait,
    MinBytes,
    /// Of the only partition.
    FetchOffset,
    Error,
    Throttle,
    Records,
    RecordBytes,
    Compression,
    BaseOffset,
    LastOffset,
    HighWatermark,
    /// Maximum of the partitions with records.
    Lag,
    /// Everything that is read of a message was read.
    Whole,
}

/// Texts of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestText {
    Client,
    /// Of the first one, or empty.
    Topic,
    /// Of the first one, 16 bytes, or empty.
    TopicId,
    Group,
    Transaction,
}

const NUMBERS: usize = DigestNumber::Whole as usize + 1;
const TEXTS: usize = DigestText::Transaction as usize + 1;
/// A number that is not known.
const NONE: i64 = i64::MIN;
const NUMBER_BYTES: usize = 8 * NUMBERS;

/// A message.
#[derive(Debug)]
pub struct Digest {
    numbers: [i64; NUMBERS],
    texts: [Option<Vec<u8>>; TEXTS],
    /// Memory of texts, used again.
    spare: [Vec<u8>; TEXTS],
    /// A batch has an unknown number of records.
    is_uncounted: bool,
    /// Last offset of the partition in progress.
    last_offset: Option<i64>,
    high_watermark: Option<i64>,
}

impl Default for Digest {
    fn default() -> Self {
        Digest {
            numbers: [NONE; NUMBERS],
            texts: Default::default(),
            spare: Default::default(),
            is_uncounted: false,
            last_offset: None,
            high_watermark: None,
        }
    }
}

impl Digest {
    /// Begins another message.
    pub fn begin(&mut self) {
        self.numbers = [NONE; NUMBERS];
        for (text, spare) in self.texts.iter_mut().zip(&mut self.spare) {
            if let Some(text) = text.take() {
                *spare = text;
            }
        }
        self.is_uncounted = false;
        (self.last_offset, self.high_watermark) = (None, None);
    }

    pub fn set(&mut self, of: DigestNumber, value: i64) {
        self.numbers[of as usize] = value;
    }

    /// Sets or removes a number.
    pub fn put(&mut self, of: DigestNumber, value: Option<i64>) {
        self.numbers[of as usize] = value.unwrap_or(NONE);
    }

    /// Sets a number that is not known yet.
    pub fn set_first(&mut self, of: DigestNumber, value: i64) {
        if self.get(of).is_none() {
            self.set(of, value);
        }
    }

    pub fn add(&mut self, of: DigestNumber, value: i64) {
        let before = self.get(of).unwrap_or(0);
        self.set(of, before.saturating_add(value));
    }

    pub fn get(&self, of: DigestNumber) -> Option<i64> {
        let value = self.numbers[of as usize];
        (value != NONE).then_some(value)
    }

    pub fn set_text(&mut self, of: DigestText, value: Option<&[u8]>) {
        let at = of as usize;
        if let Some(text) = self.texts[at].take() {
            self.spare[at] = text;
        }
        if let Some(value) = value {
            let mut text = std::mem::take(&mut self.spare[at]);
            text.clear();
            text.extend_from_slice(value);
            self.texts[at] = Some(text);
        }
    }

    pub fn text(&self, of: DigestText) -> Option<&[u8]> {
        self.texts[of as usize].as_deref()
    }

    /// Counts a topic; its name or its identifier is not known, but not both.
    pub fn topic(&mut self, name: Option<&[u8]>, id: Option<[u8; 16]>) {
        let is_first = self.get(DigestNumber::Topics).is_none();
        if is_first {
            self.set_text(DigestText::Topic, name);
            self.set_text(DigestText::TopicId, id.as_ref().map(|id| &id[..]));
        }
        let known = (self.text(DigestText::Topic), self.text(DigestText::TopicId));
        let is_same = match (name, id) {
            (_, Some(id)) => known.1 == Some(&id[..]),
            (name, None) => known.0 == name,
        };
        if is_first || !is_same {
            self.add(DigestNumber::Topics, 1);
        }
    }

    /// Counts a partition.
    pub fn partition(&mut self, number: i64) {
        self.end_partition();
        self.set_first(DigestNumber::Partition, number);
        self.add(DigestNumber::Partitions, 1);
    }

    pub fn high_watermark(&mut self, offset: i64) {
        self.high_watermark = (offset >= 0).then_some(offset);
        self.put(DigestNumber::HighWatermark, self.high_watermark);
    }

    pub fn batch(&mut self, batch: RecordBatch) {
        self.last_offset = Some(batch.last_offset);
        self.set_first(DigestNumber::BaseOffset, batch.base_offset);
        self.set(DigestNumber::LastOffset, batch.last_offset);
        if batch.is_control {
            return;
        }
        self.set_first(DigestNumber::Compression, batch.compression.into());
        match batch.records {
            Some(records) => self.add(DigestNumber::Records, records.into()),
            None => self.is_uncounted = true,
        }
    }

    /// The rest of a record set is not known.
    pub fn unknown_batch(&mut self) {
        self.is_uncounted = true;
        self.last_offset = None;
    }

    /// Ends the partition in progress.
    fn end_partition(&mut self) {
        let offsets = self.high_watermark.take().zip(self.last_offset.take());
        if let Some((high, last)) = offsets {
            let lag = high.saturating_sub(last).saturating_sub(1).max(0);
            let most = self.get(DigestNumber::Lag).unwrap_or(0).max(lag);
            self.set(DigestNumber::Lag, most);
        }
    }

    /// Ends the message: everything that is read was read.
    pub fn end(&mut self) {
        self.end_partition();
        self.set(DigestNumber::Whole, 1);
        if self.is_uncounted {
            self.put(DigestNumber::Records, None);
        } else if self.get(DigestNumber::RecordBytes).is_some() {
            self.set_first(DigestNumber::Records, 0);
        }
    }

    /// Appends the stored form.
    pub fn store(&self, kept: &mut Vec<u8>) {
        kept.extend_from_slice(self.numbers.map(i64::to_be_bytes).as_flattened());
        for text in &self.texts {
            let length = text.as_ref().map_or(u16::MAX, |text| text.len() as u16);
            kept.extend_from_slice(&length.to_be_bytes());
            kept.extend_from_slice(text.as_deref().unwrap_or_default());
        }
    }
}

/// The stored form of a message.
#[derive(Clone, Copy)]
pub struct DigestView<'a>(&'a [u8]);

impl<'a> DigestView<'a> {
    /// `None`: nothing was read.
    pub fn of(kept: &'a [u8]) -> Option<DigestView<'a>> {
        (kept.len() >= NUMBER_BYTES + 2 * TEXTS).then_some(DigestView(kept))
    }

    pub fn get(self, of: DigestNumber) -> Option<i64> {
        let bytes = self.0.get(8 * of as usize..)?.first_chunk()?;
        Some(i64::from_be_bytes(*bytes)).filter(|value| *value != NONE)
    }

    pub fn text(self, of: DigestText) -> Option<&'a [u8]> {
        let mut rest = &self.0[NUMBER_BYTES..];
        for at in 0..=of as usize {
            let (length, behind) = rest.split_first_chunk()?;
            let length = u16::from_be_bytes(*length);
            let is_null = length == u16::MAX;
            let (text, behind) =
                behind.split_at_checked(if is_null { 0 } else { length.into() })?;
            if at == of as usize {
                return (!is_null).then_some(text);
            }
            rest = behind;
        }
        None
    }

    /// Whether the message is complete; numbers of elements are known only then.
    pub fn is_whole(self) -> bool {
        self.get(DigestNumber::Whole).is_some()
    }

    /// A number that is known only if the message is complete.
    pub fn total(self, of: DigestNumber) -> Option<i64> {
        self.get(of).filter(|_| self.is_whole())
    }

    /// A number or text of the only topic or partition.
    pub fn only<T>(self, of: DigestNumber, value: Option<T>) -> Option<T> {
        value.filter(|_| self.total(of) == Some(1))
    }
}
