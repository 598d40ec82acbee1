//! Files of the page of `netalytics serve`: built by `web/build.sh` before this program was compiled, or read from a
//! folder.

use std::path::Path;

use anyhow::Context;
use server::PageFile;

/// Name, content, and content compressed by gzip.
type EmbeddedFile = (&'static str, &'static [u8], &'static [u8]);

const FILES: &[EmbeddedFile] = include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// Built-in files of the page; empty if the program was built without them.
pub fn built_in() -> Vec<PageFile> {
    let file = |(name, bytes, gzip): &EmbeddedFile| PageFile {
        name: (*name).into(),
        bytes: (*bytes).into(),
        gzip: (*gzip).into(),
    };
    FILES.iter().map(file).collect()
}

/// Files of a folder as built by `web/build.sh`, for development of the page.
pub fn of(folder: &Path) -> anyhow::Result<Vec<PageFile>> {
    let mut files = Vec::new();
    for (within, prefix) in [(folder.to_owned(), ""), (folder.join("assets"), "assets/")] {
        let unreadable = || format!("cannot read {}", within.display());
        for entry in std::fs::read_dir(&within).with_context(unreadable)? {
            let path = entry.with_context(unreadable)?.path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if !path.is_file() || name.starts_with('.') || name.ends_with(".gz") {
                continue;
            }
            let bytes =
                std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let gzip = std::fs::read(within.join(format!("{name}.gz"))).unwrap_or_default();
            files.push(PageFile {
                name: format!("{prefix}{name}").into(),
                bytes: bytes.into(),
                gzip: gzip.into(),
            });
        }
    }
    Ok(files)
}
