//! Files of a new protocol: copies of the template parser under another name, with its tests, to be changed step by step
//! (`docs/write-a-parser.md`).

use anyhow::{Context, Result, bail, ensure};

const TEMPLATE: &str = "crates/parsers/src/template.rs";
const CRATE: &str = "crates/parsers/src/lib.rs";
const REGISTRY: &str = "crates/parsers/src/registry.rs";
const FUZZ: &str = "fuzz/Cargo.toml";

/// The files to write, by their paths in the repository; `read` gives those that are there.
pub fn files(name: &str, read: impl Fn(&str) -> Result<String>) -> Result<Vec<(String, String)>> {
    check(name)?;
    let module = format!("crates/parsers/src/{name}.rs");
    let target = format!("fuzz/fuzz_targets/{name}.rs");
    for path in [&module, &target] {
        ensure!(read(path).is_err(), "{path} already exists");
    }
    Ok(vec![
        (module, parser(name, &read(TEMPLATE)?)?),
        (CRATE.to_owned(), with_module(name, &read(CRATE)?)?),
        (REGISTRY.to_owned(), registered(name, &read(REGISTRY)?)?),
        (target, fuzz_target(name)),
        (
            FUZZ.to_owned(),
            format!("{}\n{}", read(FUZZ)?, fuzz_bin(name)),
        ),
        (format!("captures/{name}/README.md"), readme(name)),
    ])
}

/// Remaining steps.
pub fn next_steps(name: &str) -> String {
    format!(
        "{name} is now a parser of the template's toy protocol. Next:
  crates/parsers/src/{name}.rs   ports, fields, probe, cut, next, write; cargo test -p parsers {name}
  captures/{name}/               in.pcap, query.txt, expected.jsonl; cargo test -p netalytics --test captures
  fuzz/run.sh 60 {name}
docs/write-a-parser.md goes through all of it."
    )
}

fn check(name: &str) -> Result<()> {
    let is_word = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    ensure!(
        is_word,
        "`{name}` is not a valid name: lower-case letters, digits, and `_`, starting with a letter"
    );
    let taken = [
        "template", "store", "output", "protocol", "registry", "message", "probing", "resync",
        "pairing",
    ];
    let reserved = [
        "as", "box", "do", "dyn", "enum", "final", "fn", "impl", "in", "match", "mod", "move",
        "ref", "type", "use",
    ];
    if taken.contains(&name) || reserved.contains(&name) {
        bail!("`{name}` is reserved");
    }
    Ok(())
}

/// The template under another name, without what ties it to its page.
fn parser(name: &str, template: &str) -> Result<String> {
    let code = template
        .split_once("\nuse memchr")
        .context("the template's head ends before its imports")?
        .1;
    let (before, rest) = code
        .split_once("    /// docs/write-a-parser.md shows the code of this file")
        .context("the page's test")?;
    let (_, after) = rest
        .split_once("\n    }\n\n")
        .context("the end of the page's test")?;
    let code = format!("use memchr{before}{after}");
    let lines = code
        .lines()
        .filter(|line| !line.starts_with("// begin:") && !line.starts_with("// end:"));
    let code: String = lines.map(|line| line.to_owned() + "\n").collect();
    let code = code
        .replace("\"store\"", &format!("\"{name}\""))
        .replace("requests to a toy store", &format!("requests of {name}"))
        .replace("Messages of the store.", &format!("Messages of {name}."))
        .replace("Store", &type_name(name));
    Ok(format!(
        "//! {name}: state what is parsed, what is not, and the specifications.\n\n{code}"
    ))
}

/// `my_protocol` is `MyProtocol`.
fn type_name(name: &str) -> String {
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    name.split('_')
        .filter(|word| !word.is_empty())
        .map(capital)
        .collect()
}

/// The crate's root with one module more, in order of the alphabet.
fn with_module(name: &str, root: &str) -> Result<String> {
    let http = root.find("pub mod http;").context("http is a module")?;
    let first = root[..http]
        .rfind("\n\n")
        .context("the protocol modules are contiguous")?
        + 2;
    let end = first
        + root[first..]
            .find("\n\n")
            .context("the end of the protocols' modules")?;
    let mut modules: Vec<&str> = root[first..end].lines().collect();
    let line = format!("pub mod {name};");
    modules.push(&line);
    modules.sort_unstable_by_key(|line| line.trim_end_matches(';'));
    Ok(format!(
        "{}{}{}",
        &root[..first],
        modules.join("\n"),
        &root[end..]
    ))
}

/// The registry with one line more, and the module that it names imported.
fn registered(name: &str, registry: &str) -> Result<String> {
    let (before, rest) = registry
        .split_once("use crate::{")
        .context("the import of the protocols")?;
    let (modules, after) = rest.split_once("};").context("the end of the import")?;
    let modules = modules.split(',').map(str::trim).filter(|m| !m.is_empty());
    let mut modules: Vec<&str> = modules.chain([name]).collect();
    modules.sort_unstable();
    let (list, end) = after.split_once("\n];").context("the end of the list")?;
    Ok(format!(
        "{before}use crate::{{{}}};{list}
    ParserRegistration {{
        schema: {name}::schema,
        reads: ParserInput::Messages(&{name}::PROTOCOL, {name}::ALL),
    }},
];{end}",
        modules.join(", ")
    ))
}

fn fuzz_target(name: &str) -> String {
    format!(
        "//! Any conversation with the {name} parser.
#![no_main]

use libfuzzer_sys::fuzz_target;

// 4: the fewest bytes that may become a tuple, those of the smallest message.
fuzz_target!(|input: &[u8]| netalytics_fuzz::converse(
    &parsers::{name}::PROTOCOL,
    parsers::{name}::schema(),
    4,
    input
));
"
    )
}

fn fuzz_bin(name: &str) -> String {
    format!(
        "[[bin]]\nname = \"{name}\"\npath = \"fuzz_targets/{name}.rs\"\ntest = false\ndoc = false\n"
    )
}

fn readme(name: &str) -> String {
    format!(
        "# {name}

Contents of `in.pcap`: clients and servers, versions, special cases.

- Where it comes from, or how it was recorded.
- Truth: the server's own log, or another program; how `expected.jsonl` was obtained from it. Never from our own output alone.
- Its license.
"
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn read(path: &str) -> Result<String> {
        Ok(fs::read_to_string(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../..")
                .join(path),
        )?)
    }

    #[test]
    fn a_protocol_begins() {
        let files = files("line_store", read).expect("a good name");
        let text = |path: &str| {
            &files
                .iter()
                .find(|(p, _)| p == path)
                .expect("it is written")
                .1
        };
        let parser = text("crates/parsers/src/line_store.rs");
        assert!(
            parser.contains("impl RequestResponseProtocol for LineStoreProtocol {")
                && parser.contains("name: \"line_store\",")
        );
        assert!(
            !parser
                .to_lowercase()
                .replace("line_store", "")
                .replace("linestore", "")
                .contains("store"),
            "{parser}"
        );
        assert!(!parser.contains("write-a-parser") && !parser.contains("// begin"));
        assert_eq!(
            parser.matches("#[test]").count(),
            read(TEMPLATE).expect("it").matches("#[test]").count() - 1
        );
        let root = text(CRATE);
        let modules: Vec<&str> = root
            .lines()
            .skip_while(|l| !l.starts_with("pub mod dns;"))
            .take_while(|l| !l.is_empty())
            .map(|l| l.trim_end_matches(';'))
            .collect();
        assert!(
            modules.is_sorted() && modules.contains(&"pub mod line_store"),
            "{modules:?}"
        );
        assert!(
            root.contains("pub mod kafka;\npub mod line_store;\npub mod memcached;\n"),
            "{root}"
        );
        let registry = text(REGISTRY);
        assert!(registry.contains(", line_store, memcached,"), "{registry}");
        let entry = |module: &str| {
            format!(
                "    ParserRegistration {{
        schema: {module}::schema,
        reads: ParserInput::Messages(&{module}::PROTOCOL, {module}::ALL),
    }},
"
            )
        };
        assert!(registry.contains(&entry("redis")), "{registry}");
        assert!(
            registry.contains(&(entry("line_store") + "];")),
            "{registry}"
        );
        assert!(text(FUZZ).ends_with("[[bin]]\nname = \"line_store\"\npath = \"fuzz_targets/line_store.rs\"\ntest = false\ndoc = false\n"));
        assert!(text("fuzz/fuzz_targets/line_store.rs").contains("parsers::line_store::schema()"));
        assert!(text("captures/line_store/README.md").starts_with("# line_store\n"));
    }

    #[test]
    fn names_that_are_none() {
        for name in ["", "Redis", "9p", "a-b", "../a", "type", "store", "http"] {
            assert!(files(name, read).is_err(), "{name}");
        }
    }
}
