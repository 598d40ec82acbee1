//! Arbitrary bytes to both ends of a session, and arbitrary spool files. The first byte selects the target. Errors are
//! allowed, panics are not, and memory stays within the limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use link::{
    AgentSession, DesiredJobs, Frame, Hello, SegmentStore, SegmentStoreError, ServerSession,
    ServerSessionEvent, SessionLimits, SessionTime, Spool, SpoolLimits,
};

/// A spool of one segment and a ledger, with arbitrary bytes.
struct AnyStore(Vec<u8>, Vec<u8>);

impl SegmentStore for AnyStore {
    fn append(&mut self, _: u32, _: &[u8]) -> Result<(), SegmentStoreError> {
        Err(SegmentStoreError)
    }
    fn sync(&mut self, _: u32) -> Result<(), SegmentStoreError> {
        Err(SegmentStoreError)
    }
    fn read(&mut self, _: u32, offset: u64, length: u64) -> Result<Vec<u8>, SegmentStoreError> {
        Ok(self
            .0
            .iter()
            .skip(offset as usize)
            .take(length.min(1 << 20) as usize)
            .copied()
            .collect())
    }
    fn remove(&mut self, _: u32) {}
    fn list(&mut self) -> Vec<u32> {
        vec![0]
    }
    fn write_ledger(&mut self, _: &[u8]) -> Result<(), SegmentStoreError> {
        Ok(())
    }
    fn read_ledger(&mut self) -> Vec<u8> {
        self.1.clone()
    }
}

fn spool(segment: &[u8], ledger: &[u8]) -> Spool {
    Spool::open(
        Box::new(AnyStore(segment.into(), ledger.into())),
        SpoolLimits::default(),
        2,
    )
}

/// To a server that has accepted the agent.
fn to_server(bytes: &[u8]) {
    let mut server = ServerSession::new(
        SessionLimits {
            window_bytes: 1 << 16,
            ..SessionLimits::default()
        },
        0,
        SessionTime::default(),
    );
    let hello = Hello {
        version_min: 1,
        version_max: 1,
        ..Hello::default()
    };
    let greeting = Frame::from(hello).encode().concat();
    server
        .handle_bytes(SessionTime::default(), &greeting)
        .expect("hello is well formed");
    server.welcome(1, DesiredJobs::default(), vec![]);
    for piece in bytes.chunks(999) {
        if server.handle_bytes(SessionTime::default(), piece).is_err() {
            return;
        }
        while let Some(event) = server.poll_event() {
            if let ServerSessionEvent::Record(record) = event {
                server.committed(record.lane(), record.seq());
            }
        }
        while server.poll_transmit().is_some() {}
    }
}

fn to_agent(bytes: &[u8]) {
    let mut spool = spool(&[], &[]);
    let mut agent = AgentSession::new(Hello::default(), 1, SessionTime::default());
    for piece in bytes.chunks(999) {
        if agent
            .handle_bytes(SessionTime::default(), piece, &mut spool)
            .is_err()
        {
            return;
        }
        while agent.poll_event().is_some() {}
        while agent.poll_transmit(&mut spool).is_some() {}
    }
}

fuzz_target!(|input: &[u8]| match input {
    [0, rest @ ..] => to_server(rest),
    [1, rest @ ..] => to_agent(rest),
    [2, at, rest @ ..] => {
        let (ledger, segment) = rest.split_at(usize::from(*at).min(rest.len()));
        let mut spool = spool(segment, ledger);
        spool.flush();
        let _ = spool.lanes();
    }
    bytes => {
        let _ = ServerSession::new(SessionLimits::default(), 0, SessionTime::default())
            .handle_bytes(SessionTime::default(), bytes);
    }
});
