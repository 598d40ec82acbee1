//! Replays recordings to a monitor, and writes them to files.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use monitor::{Monitor, MonitorConfig};
use parsers::registry;
use plan::{MonitorSpec, ParserUse};

use crate::{ObservedPacket, ObservedTuple, PacketRecording};

impl PacketRecording {
    /// The tuples of a monitor for the packets `seen`.
    #[must_use]
    pub fn play(&self, seen: &[ObservedPacket], parser: &str) -> Vec<ObservedTuple> {
        let parser = registry::find(parser).unwrap_or_else(|| panic!("no parser {parser}"));
        let spec = MonitorSpec {
            parsers: vec![ParserUse::all_columns(Arc::new((parser.schema)()))],
            ..MonitorSpec::default()
        };
        let mut config = MonitorConfig::default();
        config.flow.verify_checksums = self.verify_checksums;
        let mut monitor = Monitor::new(&spec, config);
        let mut batches = Vec::new();
        for block in seen.chunks(capture::block::BLOCK_PACKETS) {
            let _ = monitor.on_block(block.iter().map(|s| self.captured(s)), None, &mut batches);
        }
        monitor.finish(&mut batches);
        batches
            .iter()
            .flat_map(|(_, batch)| ObservedTuple::of(batch))
            .collect()
    }

    /// Writes the packets to a capture file with nanosecond timestamps, for other programs.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write(&self, seen: &[ObservedPacket], path: &Path) -> Result<()> {
        let file = std::fs::File::create(path).with_context(|| format!("{}", path.display()))?;
        let mut file = std::io::BufWriter::new(file);
        let link_type = u32::from(u16::from(self.link_type(0)));
        file.write_all(&[
            0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0,
        ])?;
        file.write_all(&link_type.to_le_bytes())?;
        for one in seen {
            let captured = self.captured(one);
            let seconds = one.ts.0.div_euclid(1_000_000_000);
            let rest = one.ts.0.rem_euclid(1_000_000_000);
            for word in [
                seconds as u32,
                rest as u32,
                captured.bytes.len() as u32,
                captured.original_len,
            ] {
                file.write_all(&word.to_le_bytes())?;
            }
            file.write_all(captured.bytes)?;
        }
        Ok(file.flush()?)
    }
}
