//! TLS key logs in pcapng files (decryption secrets blocks).

use std::path::Path;

use zeroize::Zeroizing;

use crate::block::PacketBlock;
use crate::open;

/// Part of a file in which key logs are searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyLogSearch {
    /// The whole file.
    Whole,
    /// The beginning, and only if it has a key log, the rest.
    FromBeginning,
}

/// Passes each key log of the regular file `path` to `take`. A file that cannot be read, or is no pcapng file, has none.
pub fn key_logs(path: &Path, search: KeyLogSearch, mut take: impl FnMut(Zeroizing<Vec<u8>>)) {
    if !path.is_file() {
        return;
    }
    let Some(mut input) = open::input(path) else {
        return;
    };
    if !input.keep_key_logs() {
        return;
    }
    let mut block = PacketBlock::default();
    let mut has_any = search == KeyLogSearch::Whole;
    while input.fill(&mut block, &mut Vec::new()) {
        for key_log in input.format().take_key_logs() {
            has_any = true;
            take(key_log);
        }
        if !has_any {
            return;
        }
        block.clear();
    }
    input.format().take_key_logs().into_iter().for_each(take);
}
