//! Arbitrary capture files through the whole data path with every parser: no panic, and every packet is accounted for.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use monitor::{Monitor, MonitorConfig};
use plan::{MonitorSpec, ParserUse};

fuzz_target!(|input: Vec<u8>| {
    let parsers = parsers::registry::schemas()
        .into_iter()
        .map(ParserUse::all_columns)
        .collect();
    let spec = MonitorSpec {
        parsers,
        ..MonitorSpec::default()
    };
    let mut monitor = Monitor::new(&spec, MonitorConfig::default());
    let mut source = capture::from_reader(Path::new("fuzz"), std::io::Cursor::new(input));
    let mut tuples = Vec::new();
    let mut block = capture::PacketBlock::default();
    while source.next_block(&mut block) {
        let _ = monitor.on_block(block.packets(), None, &mut tuples);
        tuples.clear();
    }
    monitor.finish(&mut tuples);
    assert!(monitor.accounting().adds_up());
    assert_eq!(monitor.accounting().received, source.counters().packets);
});
