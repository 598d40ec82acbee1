//! A capture in `captures/` whose TLS connections are decrypted with its keys.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use monitor::{Monitor, MonitorConfig, PacketAccounting};
use parsers::tls_decrypt::TlsKeyStore;
use plan::{MonitorSpec, ParserUse};

use crate::support::{Row, rows};

/// A folder of `captures/`.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../captures")
        .join(name)
}

/// The keys of a folder.
pub fn key_store(name: &str) -> Arc<TlsKeyStore> {
    keys_in(&folder(name).join("keys.log"))
}

/// The keys of a key log.
pub fn keys_in(key_log: &Path) -> Arc<TlsKeyStore> {
    let store = TlsKeyStore::new(|_| {});
    store.add_lines(&std::fs::read(key_log).expect("the key log"));
    Arc::new(store)
}

/// Rows of all columns, and the counters.
pub fn decrypted(
    capture: &Path,
    parsers: &[&str],
    keys: Option<Arc<TlsKeyStore>>,
) -> (Vec<Row>, PacketAccounting) {
    let uses = parsers.iter().map(|name| {
        let parser = parsers::registry::find(name).expect("a parser");
        ParserUse::all_columns(Arc::new((parser.schema)()))
    });
    let spec = MonitorSpec {
        parsers: uses.collect(),
        ..MonitorSpec::default()
    };
    let config = MonitorConfig {
        keys,
        ..MonitorConfig::default()
    };
    let mut monitor = Monitor::new(&spec, config);
    let mut source = capture::open(&[capture.to_owned()]);
    let mut block = capture::PacketBlock::default();
    let mut batches = Vec::new();
    while source.next_block(&mut block) {
        let _ = monitor.on_block(block.packets(), block.clock(), &mut batches);
    }
    monitor.finish(&mut batches);
    let rows = batches.iter().flat_map(|(_, batch)| rows(batch)).collect();
    (rows, monitor.accounting())
}
