//! Commands for those who work on this repository. `cargo run -p xtask new-protocol NAME` begins a parser,
//! `cargo run -p xtask kafka-tables DIR...` writes the tables of the Kafka parser.

#![forbid(unsafe_code)]

mod kafka_tables;
mod new_protocol;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

const USAGE: &str = "usage: cargo run -p xtask new-protocol NAME
  a parser called NAME: its file from the template, its lines in the registry, a fuzz target, a folder for captures
usage: cargo run -p xtask kafka-tables DIR...
  the tables of the Kafka parser, from the message definitions (*.json) in folders, of the newest version first";

/// Tables of the Kafka parser.
const KAFKA_TABLES: &str = "crates/parsers/src/kafka/tables.rs";

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["new-protocol", name] => begin_protocol(name),
        ["kafka-tables", ref folders @ ..] if !folders.is_empty() => write_kafka_tables(folders),
        ["help" | "-h" | "--help"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => bail!(USAGE),
    }
}

fn checkout() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    Ok(root.context("no checkout")?.into())
}

fn write_kafka_tables(folders: &[&str]) -> Result<()> {
    let folders: Vec<&Path> = folders.iter().map(Path::new).collect();
    let path = checkout()?.join(KAFKA_TABLES);
    fs::write(&path, kafka_tables::generate(&folders)?).context(KAFKA_TABLES)?;
    println!("{KAFKA_TABLES}");
    Ok(())
}

fn begin_protocol(name: &str) -> Result<()> {
    let root = checkout()?;
    let read = |path: &str| fs::read_to_string(root.join(path)).with_context(|| path.to_owned());
    for (path, text) in new_protocol::files(name, read)? {
        let whole = root.join(&path);
        fs::create_dir_all(whole.parent().context("a file has a parent folder")?)?;
        fs::write(&whole, text).with_context(|| path.clone())?;
        println!("{path}");
    }
    println!("\n{}", new_protocol::next_steps(name));
    Ok(())
}
