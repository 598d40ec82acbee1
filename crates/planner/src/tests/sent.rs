//! Serialized plans: the decoded plan equals the original with any registry, or all missing items are reported;
//! engines never panic on an accepted plan.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use plan::message::{DEPTH_MAX, UnmetRequirement, decode, encode};
use stream::{Engine, EngineConfig};

use super::*;

fn of(schemas: &[Arc<Schema>]) -> impl Fn(&str) -> Option<Arc<Schema>> + '_ {
    |name| schemas.iter().find(|schema| schema.name == name).cloned()
}

/// The decoded plan is equal, encodes to the same message, and is accepted by an engine.
fn survives(plan: &Plan, schemas: &[Arc<Schema>], text: &str) {
    let bytes = encode(plan);
    let arrived = decode(&bytes, &of(schemas)).unwrap_or_else(|e| panic!("{text}\n{e}"));
    assert_eq!(&arrived, plan, "{text}");
    assert_eq!(encode(&arrived), bytes, "{text}");
    let _ = Engine::worker(&arrived.dataflow, EngineConfig::default());
}

fn files(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.expect("an entry").path();
        let ending = path
            .extension()
            .map(|e| e.to_string_lossy().into_owned())
            .unwrap_or_default();
        if path.is_dir() {
            files(&path, endings, found);
        } else if endings.contains(&ending.as_str()) {
            found.push(path);
        }
    }
}

/// Substrings of a text from `PARSE` to each possible end of a query.
fn candidates(text: &str) -> impl Iterator<Item = &str> {
    const LONGEST: usize = 600;
    text.match_indices("PARSE ").flat_map(move |(start, _)| {
        let rest = &text[start..];
        let ends = rest
            .match_indices(['"', '`', '\n', '\''])
            .map(|(end, _)| end);
        ends.take_while(|end| *end < LONGEST)
            .map(|end| &rest[..end])
    })
}

#[test]
fn every_query_of_documentation_and_tests_arrives_as_it_was_planned() {
    let schemas = parsers::registry::schemas();
    let mut hosts = HostTable::new();
    hosts.insert_hosts_file("10.0.0.1 h1\n10.0.0.2 h2\n");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    files(&root.join("docs"), &["md"], &mut found);
    files(
        &root.join("captures"),
        &["md", "txt", "sh", "py"],
        &mut found,
    );
    for krate in ["netalytics", "query", "planner", "monitor"] {
        files(&root.join("crates").join(krate), &["rs"], &mut found);
    }
    let mut seen = BTreeSet::new();
    let documented = documented("query");
    let documented = documented
        .iter()
        .flat_map(|block| block.split("\n\n"))
        .map(str::to_owned);
    let texts = found
        .iter()
        .map(|path| std::fs::read_to_string(path).expect("text"));
    let others = texts.flat_map(|text| candidates(&text).map(str::to_owned).collect::<Vec<_>>());
    for text in documented.chain(others) {
        if seen.contains(&text) {
            continue;
        }
        if let Ok(query) = query::check(&text, &schemas, &hosts) {
            survives(&lower(&query), &schemas, &text);
            seen.insert(text);
        }
    }
    assert!(seen.len() > 300, "{} queries", seen.len());
}

/// Field numbers and all bytes: `UPDATE=1` rewrites the file, to be reviewed. A change that old readers would
/// misinterpret requires a new format version.
#[test]
fn the_form_of_a_plan_stays() {
    let plan = plan(MANY);
    survives(&plan, &schemas(), MANY);
    let path = format!("{}/golden/many.hex", env!("CARGO_MANIFEST_DIR"));
    let lines = encode(&plan)
        .chunks(32)
        .map(|line| {
            let hex: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
            let text: String = line
                .iter()
                .map(|b| {
                    if b.is_ascii_graphic() {
                        char::from(*b)
                    } else {
                        '.'
                    }
                })
                .collect();
            format!("{hex}  {text}\n")
        })
        .collect::<String>();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &lines).expect("the golden directory can be written");
    }
    let golden = std::fs::read_to_string(&path).expect("the golden file");
    assert!(golden == lines, "{path} differs from\n{lines}");
    let plain: Vec<u8> = golden
        .lines()
        .flat_map(|line| line.split("  ").next())
        .flat_map(hex)
        .collect();
    assert_eq!(decode(&plain, &of(&schemas())).as_ref(), Ok(&plan));
}

fn hex(text: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    (0..text.len()).step_by(2).map(byte).collect()
}

/// The schemas of a program with an additional common field: all own fields are shifted.
fn shifted() -> Vec<Arc<Schema>> {
    let more = Field::new("tap", DataType::Text, Unit::None, "");
    let moved = |schema: &Arc<Schema>| {
        let mut schema = Schema::clone(schema);
        schema.fields.insert(common::FIELDS.len(), more.clone());
        Arc::new(schema)
    };
    schemas().iter().map(moved).collect()
}

#[test]
fn columns_are_found_by_name() {
    let plan = plan(MANY);
    let there = decode(&encode(&plan), &of(&shifted())).expect("nothing lacks");
    assert_ne!(there, plan);
    assert_eq!(explain(&there), explain(&plan));
    let names = |plan: &Plan| -> Vec<String> {
        let input = &plan.dataflow.inputs[0];
        input
            .columns
            .iter()
            .map(|id| input.schema.field(*id).name.to_string())
            .collect()
    };
    assert_eq!(names(&there), names(&plan));
    // Encoding again yields the same message.
    assert_eq!(encode(&there), encode(&plan));
    let _ = Engine::worker(&there.dataflow, EngineConfig::default());
}

#[test]
fn all_missing_parts_are_reported_at_once() {
    let text = "PARSE http, http_get, tcp_conn_time WHERE http.status > 400 and http.host = 'a' PROCESS (top-k: k=3, key=http.url)";
    let plan = plan(text);
    let mut schemas = schemas();
    let change =
        |schema: &mut Arc<Schema>, change: &dyn Fn(&mut Schema)| change(Arc::make_mut(schema));
    schemas.retain(|schema| schema.name != "http_get");
    for schema in &mut schemas {
        match &*schema.name {
            "http" => change(schema, &|schema| {
                schema
                    .fields
                    .retain(|f| f.name != "host" && f.name != "url")
            }),
            "tcp_conn_time" => change(schema, &|schema| schema.version = 7),
            _ => {}
        }
    }
    let refused = decode(&encode(&plan), &of(&schemas)).expect_err("much lacks");
    let column = |column: &str| UnmetRequirement::Column {
        parser: "http".into(),
        column: column.into(),
    };
    let expected = [
        column("host"),
        column("url"),
        UnmetRequirement::Parser("http_get".into()),
        UnmetRequirement::Version {
            parser: "tcp_conn_time".into(),
            needed: 1,
            known: 7,
        },
    ];
    assert_eq!(refused.lacks, expected);
    assert_eq!(
        refused.to_string(),
        "parser http has no column \"host\"; parser http has no column \"url\"; unknown parser \"http_get\"; \
         parser tcp_conn_time: version 1 required, version 7 available"
    );
}

/// Maximum nesting of the language.
#[test]
fn the_deepest_query_is_not_too_deep() {
    let nested = |open: &str, innermost: &str, close: &str, n: usize| {
        format!("{}{innermost}{}", open.repeat(n), close.repeat(n))
    };
    let sum = nested("(1 + ", "status", " * 2 - 3)", 64) + &" + 1".repeat(256 - 64 * 3);
    let choice = nested(
        "if(not (status = 1 and (host = 'a' or ",
        "status = 1",
        ")), true, false)",
        20,
    );
    let not = nested(
        "not (status = 1 or host = 'a' and not ",
        "status = 2",
        ")",
        64,
    );
    for condition in [format!("{sum} = 7"), choice, not] {
        let text = format!("PARSE http WHERE {condition}");
        survives(&plan(&text), &schemas(), &text);
    }
}

/// Deeper expressions than those of any query are rejected; up to the limit, the stack does not overflow.
#[test]
fn depth_has_an_end() {
    let deep = |depth: usize| {
        let mut plan = plan("PARSE http WHERE status = 1 PROCESS count");
        for _ in 1..depth {
            plan.dataflow.filter = plan
                .dataflow
                .filter
                .map(|inner| Predicate::Not(Box::new(inner)));
        }
        plan
    };
    survives(&deep(DEPTH_MAX), &schemas(), "the deepest");
    let refused = decode(&encode(&deep(DEPTH_MAX + 1)), &of(&schemas())).expect_err("too deep");
    let too_deep = UnmetRequirement::TooMany {
        what: "expressions within expressions",
        max: DEPTH_MAX,
    };
    assert_eq!(refused.lacks, [too_deep]);
}

proptest! {
    /// Conditions of all kinds, and computed columns.
    #[test]
    fn conditions_arrive_as_they_were_planned(
        condition in condition(),
        op in prop::sample::select(vec!["+", "-", "*", "/", "%"]),
        value in prop::sample::select(vec!["1", "length(url)", "if(status > 3, status, 2.5)", "7"]),
    ) {
        let text = format!(
            "PARSE http WHERE {condition} or status {op} {value} > 5 PROCESS (count-sum-top-k: value=status {op} {value}, key=host) \
             HAVING count > 3 or count {op} 2 > 1 ORDER BY count {op} rank DESC"
        );
        survives(&plan(&text), &schemas(), &text);
    }

    /// A valid message with changed, removed, or duplicated bytes is rejected, or accepted by an engine.
    #[test]
    fn damaged_messages_never_panic(
        which in 0_usize..5,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0_u8..3), 1..4),
    ) {
        const TEXTS: [&str; 5] = [
            MANY,
            PAPER_1,
            "PARSE http WHERE lower(url) like '%x' SELECT host, status + 1 AS more ORDER BY status LIMIT 3 ROWS",
            "PARSE http PROCESS (count-top-k: key=url, w=10s, slide=5s) HAVING count > 3 ORDER BY count / 2 LIMIT 3 ROWS",
            "PARSE http SAMPLE 0.5 WHERE coalesce(extract(url, '/(.*)'), split(host, '.', 2)) != 'x' PROCESS (quantile-distinct: q=0.5, value=status)",
        ];
        let mut bytes = encode(&plan(TEXTS[which]));
        for (place, byte, how) in edits {
            let at = place.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.truncate(at.max(1)),
                _ => bytes.insert(at, byte),
            }
        }
        if let Ok(plan) = decode(&bytes, &of(&schemas())) {
            let again = decode(&encode(&plan), &of(&schemas()));
            prop_assert_eq!(again.as_ref(), Ok(&plan));
            let _ = Engine::worker(&plan.dataflow, EngineConfig::default());
        }
    }
}
