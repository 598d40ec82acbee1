//! The spool with a store that loses unsynced data at a crash.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::*;

#[derive(Default)]
struct MemoryDisk {
    files: BTreeMap<u32, (Vec<u8>, usize)>,
    ledger: Vec<u8>,
    room: Option<usize>,
}

/// Shared, so that it outlives the spool.
#[derive(Clone, Default)]
pub(crate) struct MemorySegmentStore(Rc<RefCell<MemoryDisk>>);

impl MemorySegmentStore {
    /// Simulates a crash: unsynced data is lost, except `kept` bytes of each file.
    fn crash(&self, kept: usize) {
        for (bytes, synced) in self.0.borrow_mut().files.values_mut() {
            bytes.truncate(*synced + kept);
            *synced = bytes.len();
        }
    }
}

impl SegmentStore for MemorySegmentStore {
    fn append(&mut self, segment: u32, bytes: &[u8]) -> Result<(), SegmentStoreError> {
        let mut disk = self.0.borrow_mut();
        if disk.room.is_some_and(|room| room < bytes.len()) {
            return Err(SegmentStoreError);
        }
        disk.room = disk.room.map(|room| room - bytes.len());
        disk.files.entry(segment).or_default().0.extend(bytes);
        Ok(())
    }

    fn sync(&mut self, segment: u32) -> Result<(), SegmentStoreError> {
        let mut disk = self.0.borrow_mut();
        let (bytes, synced) = disk.files.get_mut(&segment).ok_or(SegmentStoreError)?;
        *synced = bytes.len();
        Ok(())
    }

    fn read(
        &mut self,
        segment: u32,
        offset: u64,
        length: u64,
    ) -> Result<Vec<u8>, SegmentStoreError> {
        let disk = self.0.borrow();
        let (bytes, _) = disk.files.get(&segment).ok_or(SegmentStoreError)?;
        Ok(bytes
            .iter()
            .skip(offset as usize)
            .take(length.min(1 << 30) as usize)
            .copied()
            .collect())
    }

    fn remove(&mut self, segment: u32) {
        self.0.borrow_mut().files.remove(&segment);
    }

    fn list(&mut self) -> Vec<u32> {
        self.0.borrow().files.keys().copied().collect()
    }

    fn write_ledger(&mut self, bytes: &[u8]) -> Result<(), SegmentStoreError> {
        self.0.borrow_mut().ledger = bytes.into();
        Ok(())
    }

    fn read_ledger(&mut self) -> Vec<u8> {
        self.0.borrow().ledger.clone()
    }
}

pub(crate) const LANE: RecordLane = RecordLane {
    boot: 1,
    job: 7,
    attempt: 1,
};
const LIMITS: SpoolLimits = SpoolLimits {
    memory_bytes_max: 1000,
    bytes_max: 6000,
    segment_bytes: 1000,
};

pub(crate) fn record(lane: RecordLane, at: i64, form: PayloadFormat) -> DataRecord {
    let payload = vec![at as u8; 150].into();
    DataRecord {
        lane,
        from_ns: at,
        watermark_ns: at + 1,
        tuples: 10,
        form: form.into(),
        payload,
        ..DataRecord::default()
    }
}

/// All items sent from here on, as `(first, last, tuples)`; losses with a minus sign.
fn sent(spool: &mut Spool) -> Vec<(u64, u64, Option<i64>)> {
    std::iter::from_fn(|| spool.next_to_send())
        .map(|outgoing| match outgoing {
            OutgoingRecord::Data(body) => {
                let data = DataRecord::decode(body).expect("a record");
                (data.seq, data.seq, Some(data.tuples as i64))
            }
            OutgoingRecord::Lost(lost) => (
                lost.first,
                lost.last,
                lost.tuples.map(|tuples| -(tuples as i64)),
            ),
        })
        .collect()
}

fn resume(durable: u64) -> [LaneResume; 1] {
    [LaneResume {
        lane: LANE,
        durable,
        watermark_ns: 0,
        is_closed: false,
    }]
}

#[test]
fn a_new_life_for_another_server_keeps_nothing() {
    let store = MemorySegmentStore::default();
    let limits = SpoolLimits {
        memory_bytes_max: 100,
        bytes_max: 10_000,
        segment_bytes: 200,
    };
    let mut spool = Spool::open(Box::new(store.clone()), limits, 1);
    for _ in 0..20 {
        spool.push(record(LANE, 3, PayloadFormat::Tuples));
    }
    spool.push_lost(RecordLane { job: 99, ..LANE }, 5, Some(7), true);
    assert_eq!(spool.begin_again(2), (20, 200));
    assert_eq!((spool.lanes(), spool.fill().0), (vec![], 0));
    assert_eq!(
        (spool.counters().lost_records, spool.counters().lost_tuples),
        (20, 200)
    );
    spool.push(record(
        RecordLane { boot: 2, ..LANE },
        1,
        PayloadFormat::Tuples,
    ));
    spool.flush();
    drop(spool);
    let lanes = Spool::open(Box::new(store), limits, 3).lanes();
    assert_eq!(
        lanes.iter().map(|held| held.lane.boot).collect::<Vec<_>>(),
        [2]
    );
}

#[test]
fn memory_then_segments_and_nothing_is_lost_while_there_is_room() {
    let mut spool = Spool::open(Box::new(MemorySegmentStore::default()), LIMITS, 1);
    for at in 0..20 {
        spool.push(record(LANE, at, PayloadFormat::Tuples));
    }
    spool.resume(&[], 0);
    let sent = sent(&mut spool);
    assert_eq!(
        sent,
        (1..=20).map(|seq| (seq, seq, Some(10))).collect::<Vec<_>>()
    );
    assert_eq!(spool.ack(LANE, 20), Some(vec![]));
    assert!(spool.is_drained(LANE));
    assert_eq!(spool.ack(LANE, 21), None, "never sent");
    assert_eq!(spool.segments.bytes() + spool.memory_bytes, 0);
}

#[test]
fn tuples_are_dropped_before_partials_and_sent_records_never() {
    let mut spool = Spool::open(Box::new(MemorySegmentStore::default()), LIMITS, 1);
    let partials = RecordLane { job: 8, ..LANE };
    spool.resume(&[], 0);
    spool.push(record(LANE, 0, PayloadFormat::Tuples));
    assert!(spool.next_to_send().is_some());
    for at in 0..100 {
        spool.push(record(LANE, at, PayloadFormat::Tuples));
        if at < 10 {
            spool.push(record(partials, at, PayloadFormat::Partial));
        }
        assert!(spool.fill().0 <= LIMITS.bytes_max);
    }
    let all = sent(&mut spool);
    let tuples: i64 = all
        .iter()
        .filter_map(|(.., tuples)| *tuples)
        .map(i64::abs)
        .sum();
    assert_eq!(
        tuples,
        1000 + 100,
        "all that was not sent before is there or is told of"
    );
    let lost: Vec<_> = all
        .iter()
        .filter(|(.., tuples)| *tuples < Some(0))
        .collect();
    assert_eq!(lost.len(), 1, "{all:?}");
    assert_eq!(
        spool.counters().lost_tuples as i64,
        -lost[0].2.expect("a count")
    );
    assert_eq!(
        spool.ack(partials, 10),
        Some(vec![]),
        "all partials were sent"
    );
}

#[test]
fn leftovers_are_sent_under_their_old_lane_which_is_then_closed() {
    let store = MemorySegmentStore::default();
    let mut spool = Spool::open(Box::new(store.clone()), LIMITS, 1);
    for at in 0..10 {
        spool.push(record(LANE, at, PayloadFormat::Partial));
    }
    store.crash(0);
    let mut spool = Spool::open(Box::new(store.clone()), LIMITS, 2);
    let range = spool.lanes()[0];
    assert_eq!((range.lane, range.oldest), (LANE, 1));
    assert!(range.newest < 10, "what was in memory only is gone");
    // The server has the first two.
    spool.resume(&resume(2), 99);
    let mut expected: Vec<_> = (3..=range.newest).map(|seq| (seq, seq, Some(10))).collect();
    expected.push((range.newest + 1, range.newest + 1, None));
    assert_eq!(sent(&mut spool), expected);
    assert_eq!(spool.ack(LANE, range.newest + 1), Some(vec![LANE]));
    // The server has all records and more: only the end is sent.
    let mut spool = Spool::open(Box::new(MemorySegmentStore::default()), LIMITS, 3);
    spool.resume(&resume(12), 99);
    assert_eq!(sent(&mut spool), [(13, 13, None)]);
    // Including the end.
    let mut spool = Spool::open(Box::new(store), LIMITS, 3);
    assert_eq!(
        spool.resume(
            &[LaneResume {
                is_closed: true,
                ..resume(12)[0]
            }],
            99
        ),
        [LANE]
    );
    assert_eq!(sent(&mut spool), []);
}

#[test]
fn a_torn_record_is_a_loss() {
    let store = MemorySegmentStore::default();
    let mut spool = Spool::open(Box::new(store.clone()), LIMITS, 1);
    for at in 0..12 {
        spool.push(record(LANE, at, PayloadFormat::Partial));
    }
    spool.flush();
    let first = *store.0.borrow().files.keys().next().expect("a file");
    let mut disk = store.0.borrow_mut();
    let (bytes, _) = disk.files.get_mut(&first).expect("a file");
    let at = bytes.len() - 3;
    bytes[at] ^= 1;
    drop(disk);
    let mut spool = Spool::open(Box::new(store), LIMITS, 1);
    assert_eq!(spool.counters().torn, 1);
    spool.resume(&resume(0), 99);
    let sent = sent(&mut spool);
    assert_eq!(
        sent.iter().filter(|(.., tuples)| tuples.is_none()).count(),
        1,
        "{sent:?}"
    );
    assert_eq!(sent.last().map(|(_, last, _)| *last), Some(12));
}

#[test]
fn a_full_disk_costs_records_and_is_not_the_end() {
    let store = MemorySegmentStore::default();
    store.0.borrow_mut().room = Some(1500);
    let mut spool = Spool::open(Box::new(store.clone()), LIMITS, 1);
    for at in 0..40 {
        spool.push(record(LANE, at, PayloadFormat::Tuples));
        assert!(spool.memory_bytes <= LIMITS.memory_bytes_max);
    }
    assert!(spool.counters().store_failed > 0);
    store.0.borrow_mut().room = None;
    spool.resume(&[], 0);
    let sent = sent(&mut spool);
    assert_eq!(
        sent.iter()
            .filter_map(|(.., tuples)| *tuples)
            .map(i64::abs)
            .sum::<i64>(),
        400
    );
    assert!(sent.iter().any(|(.., tuples)| *tuples < Some(0)));
}

#[test]
fn numbers_of_segments_wrap() {
    let store = MemorySegmentStore::default();
    let oldest = u32::MAX - 2;
    SpoolLedger {
        oldest,
        ..SpoolLedger::default()
    }
    .save(&mut store.clone())
    .expect("room");
    let mut spool = Spool::open(Box::new(store.clone()), LIMITS, 1);
    for at in 0..24 {
        spool.push(record(LANE, at, PayloadFormat::Partial));
    }
    spool.flush();
    assert!(store.clone().list().contains(&0) && store.clone().list().contains(&oldest));
    let mut spool = Spool::open(Box::new(store.clone()), LIMITS, 1);
    spool.resume(&resume(0), 0);
    assert_eq!(
        sent(&mut spool),
        (1..=24).map(|seq| (seq, seq, Some(10))).collect::<Vec<_>>()
    );
    // New records follow the newest.
    spool.push(record(LANE, 24, PayloadFormat::Partial));
    spool.flush();
    assert!(!store.clone().list().contains(&(oldest - 1)));
}

#[test]
fn ledger_is_written_before_a_segment_is_removed() {
    let store = MemorySegmentStore::default();
    let mut spool = Spool::open(Box::new(store.clone()), LIMITS, 1);
    for at in 0..100 {
        spool.push(record(LANE, at, PayloadFormat::Tuples));
    }
    spool.flush();
    let known = spool.counters().lost_tuples;
    assert!(known > 0);
    // Dropped records are still counted after a restart, and a dropped segment that reappears is ignored.
    let dropped = SpoolLedger::load(&mut store.clone())
        .expect("a ledger")
        .dropped;
    store
        .clone()
        .append(dropped[0], &seal_of(record(LANE, 0, PayloadFormat::Tuples)))
        .expect("room");
    let mut spool = Spool::open(Box::new(store.clone()), LIMITS, 1);
    spool.resume(&resume(0), 0);
    let sent = sent(&mut spool);
    assert_eq!(
        sent.iter()
            .filter_map(|(.., tuples)| *tuples)
            .map(i64::abs)
            .sum::<i64>(),
        1000,
        "{sent:?}"
    );
    assert_eq!(sent[0].2, Some(-(known as i64)));
    assert!(!store.clone().list().contains(&dropped[0]));
}

fn seal_of(mut data: DataRecord) -> Vec<u8> {
    data.seq = 1;
    store::seal(&data.encode_to_vec())
}
