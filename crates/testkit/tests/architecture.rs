//! Enforces ARCHITECTURE.md: dependencies between crates and between rooms, no I/O in the crates of values, `unsafe`
//! confined to its folders, and no import cycles between the files of a crate.

mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use source::Source;

/// The highest floor that reads no clock, file, socket, environment or global.
const VALUES_MAX: u8 = 4;

/// A row of the table of crates.
struct Row {
    /// `None`: a crate of tools or tests, outside the layers.
    floor: Option<u8>,
    /// The crates it uses; `None`: any of a lower floor.
    uses: Option<BTreeSet<String>>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("crates/testkit lies two below")
        .into()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The table of crates in ARCHITECTURE.md.
fn rows() -> BTreeMap<String, Row> {
    rows_of("| floor |")
}

/// The rows of the table in ARCHITECTURE.md that starts with `head`: floor, name → names that it uses.
fn rows_of(head: &str) -> BTreeMap<String, Row> {
    let text = read(&root().join("ARCHITECTURE.md"));
    let table = text
        .lines()
        .skip_while(|line| !line.starts_with(head))
        .skip(2);
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let (name, uses) = match cells[2].split_once('→') {
            Some((name, uses)) => (
                name,
                Some(uses.split(',').map(|name| name.trim().to_owned()).collect()),
            ),
            None => (cells[2], None),
        };
        (
            name.trim().trim_matches('`').to_owned(),
            Row {
                floor: cells[1].parse().ok(),
                uses,
            },
        )
    };
    table
        .take_while(|line| line.starts_with('|'))
        .map(row)
        .collect()
}

/// The crates of ours in a manifest's `[dependencies]`, those that only tests use aside.
fn dependencies(name: &str, ours: &BTreeMap<String, Row>) -> BTreeSet<String> {
    let text = read(&root().join("crates").join(name).join("Cargo.toml"));
    let mut section = "";
    let mut found = BTreeSet::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        } else if section == "[dependencies]" {
            let key = line.split(['.', '=', ' ']).next().unwrap_or_default();
            found.extend(ours.contains_key(key).then(|| key.to_owned()));
        }
    }
    found
}

/// Source files of a crate, without tests and examples.
fn sources(name: &str) -> Vec<Source> {
    Source::all_in(&root().join("crates").join(name).join("src"))
}

#[test]
fn crates_use_only_those_of_the_table() {
    let rows = rows();
    let crates: BTreeSet<String> = fs::read_dir(root().join("crates"))
        .expect("the crates")
        .map(|entry| {
            entry
                .expect("a crate")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    assert_eq!(
        rows.keys().cloned().collect::<BTreeSet<_>>(),
        crates,
        "rows of the table, and crates"
    );
    for (name, row) in &rows {
        let used = dependencies(name, &rows);
        if let Some(said) = &row.uses {
            assert_eq!(&used, said, "what {name} uses, and what the table says");
        }
        // Arrows point down.
        for below in &used {
            let floors = (row.floor, rows[below].floor);
            assert!(
                floors.0.is_none() || floors.1 < floors.0 && floors.1.is_some(),
                "{name} uses {below}: {floors:?}"
            );
        }
    }
}

#[test]
fn floors_of_values_touch_no_clock_file_socket_or_environment() {
    const FORBIDDEN: [&str; 13] = [
        "std::fs",
        "std::env",
        "std::process",
        "std::thread",
        "std::io::stdin",
        "SystemTime",
        "Instant",
        "RandomState",
        "TcpStream",
        "TcpListener",
        "UdpSocket",
        "thread_local",
        "static mut",
    ];
    for (name, row) in rows() {
        if row.floor.is_none_or(|floor| floor > VALUES_MAX)
            || matches!(&*name, "capture" | "recording")
        {
            continue;
        }
        for source in sources(&name) {
            let found = FORBIDDEN.iter().find(|word| source.has_word(word));
            assert_eq!(found, None, "in {}", source.path.display());
        }
    }
}

#[test]
fn unsafe_is_confined_to_sys_of_capture_and_bus() {
    let mut found = 0;
    for name in rows().keys() {
        for source in sources(name)
            .iter()
            .filter(|source| source.has_word("unsafe"))
        {
            let is_sys = source.path.components().any(|c| c.as_os_str() == "sys");
            let is_known = is_sys && matches!(&**name, "bus" | "capture");
            assert!(is_known, "unsafe in {}", source.path.display());
            found += 1;
        }
    }
    assert!(
        found > 5,
        "{found} files with unsafe: this test has looked in the wrong place"
    );
}

/// A plan is complete when `planner` returns it; requirements of a run are `planner::PlanOptions`.
#[test]
fn no_function_modifies_a_plan() {
    for name in rows().keys() {
        for source in sources(name) {
            let found = ["&mut Plan", "&mut plan::Plan"]
                .iter()
                .find(|word| source.has_word(word));
            assert_eq!(found, None, "in {}", source.path.display());
        }
    }
}

#[test]
fn files_do_not_import_each_other_in_a_circle() {
    let circles: Vec<_> = rows()
        .keys()
        .flat_map(|name| source::circles(&sources(name)))
        .collect();
    assert!(circles.is_empty(), "circles: {circles:#?}");
}

/// Crates with rooms, and the head of their table in ARCHITECTURE.md.
const ROOM_TABLES: [(&str, &str); 2] = [("server", "| level |"), ("netalytics", "| layer |")];

/// Imports (crate, from, to) of a room by one that is not above it; to be emptied.
const UPWARD_LEFT: [(&str, &str, &str); 0] = [];

#[test]
fn rooms_use_only_those_of_their_table() {
    let mut upward = Vec::new();
    for (name, head) in ROOM_TABLES {
        let table = rows_of(head);
        let rooms = source::rooms(&sources(name));
        assert_eq!(
            table.keys().collect::<Vec<_>>(),
            rooms.keys().collect::<Vec<_>>(),
            "rows of the table, and folders of {name}"
        );
        for (room, used) in rooms {
            let listed = table[&room].uses.clone().unwrap_or_default();
            assert_eq!(
                used, listed,
                "rooms that {name}/{room} uses, and those in the table"
            );
            let level = |room: &str| table[room].floor.expect("a level");
            let above = used.into_iter().filter(|used| level(used) >= level(&room));
            upward.extend(above.map(|used| (name, room.clone(), used)));
        }
    }
    let found: Vec<_> = upward
        .iter()
        .map(|(name, from, to)| (*name, from.as_str(), to.as_str()))
        .collect();
    assert_eq!(found, UPWARD_LEFT, "imports that do not point down");
}
