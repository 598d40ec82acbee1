//! Settings from flags, variables and a file; `netalytics config`.

use std::process::Command;

use serde_json::Value;

use super::{BINARY, Folder, ROOT, Ran, SHOP};

/// A run with variables.
fn run(args: &[&str], variables: &[(&str, &str)]) -> Ran {
    let mut command = Command::new(BINARY);
    command
        .args(args)
        .current_dir(ROOT)
        .envs(variables.iter().copied());
    Ran::from(command.output().expect("the program"))
}

/// The settings of a configuration, without comments.
fn table(text: &str) -> toml::Table {
    text.parse()
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn config_prints_a_file_that_gives_the_same_settings() {
    let folder = Folder::new();
    let file = folder.file(
        "limits.toml",
        b"# limits\nmemory-max = '2G'\njobs-max = 7\nudp-idle = '5s'\n",
    );
    let line = [
        "config",
        "--config",
        &file,
        "--flows-max",
        "3000",
        "--one-reader",
    ];
    let variables = [("NETALYTICS_TCP_IDLE", "9s"), ("NETALYTICS_UDP_IDLE", "8s")];
    let first = run(&line, &variables);
    assert_eq!(first.code, 0, "{}", first.err);
    let has = |text: &str| {
        assert!(
            first.out.lines().any(|line| line == text),
            "{text}\n{}",
            first.out
        )
    };
    has(&format!(
        "memory-max = \"2G\"  # file {file:?}, line 2; default: 1G"
    ));
    has(&format!(
        "jobs-max = 7  # file {file:?}, line 3; default: 100"
    ));
    has("flows-max = 3000  # flag; default: 2097152");
    has("one-reader = true  # flag; default: false");
    has("tcp-idle = \"9s\"  # environment NETALYTICS_TCP_IDLE; default: 300s");
    has("udp-idle = \"8s\"  # environment NETALYTICS_UDP_IDLE; default: 60s");
    has("#held-bytes-max = \"128M\"  # default");
    has("#parallelism =  # default: not set");
    let settings = table(&first.out);
    assert_eq!(settings.len(), 6, "{settings:?}");
    let printed = folder.file("printed.toml", first.out.as_bytes());
    assert_eq!(
        table(&run(&["config", "--config", &printed], &[]).out),
        settings
    );
    assert_eq!(
        table(&run(&["config"], &[("NETALYTICS_CONFIG", &printed)]).out),
        settings
    );
    // Every commented setting with a default is valid, too.
    let all = run(&["config"], &[]).out;
    let all: Vec<&str> = all
        .lines()
        .filter(|line| !line.ends_with("not set"))
        .collect();
    let all: Vec<&str> = all
        .iter()
        .map(|line| line.strip_prefix('#').unwrap_or(line))
        .collect();
    let all: Vec<&str> = all
        .into_iter()
        .filter(|line| !line.starts_with([' ', '#']))
        .collect();
    let all = folder.file("all.toml", all.join("\n").as_bytes());
    let whole = run(&["config", "--config", &all], &[]);
    assert!(
        whole.code == 0 && table(&whole.out).len() > 50,
        "{}{}",
        whole.out,
        whole.err
    );
}

/// The witness is the memory in the summary.
#[test]
fn a_run_has_the_settings_of_its_file() {
    let folder = Folder::new();
    let file = folder.file(
        "limits.toml",
        b"memory-max = '2G'\nheld-bytes-max = '1M'\njobs-max = 7\n",
    );
    let memory = |more: &[&str], variables: &[(&str, &str)]| -> Value {
        let summary = folder.path("summary.json");
        let query = [
            "query",
            "PARSE http PROCESS (count)",
            "-r",
            SHOP,
            "--summary-json",
            &summary,
        ];
        let ran = run(&[&query[..], more].concat(), variables);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let summary: Value =
            serde_json::from_slice(&std::fs::read(&summary).expect("a summary")).expect("JSON");
        summary["memory"].clone()
    };
    let of_file = memory(&["--config", &file], &[]);
    assert_eq!(
        (&of_file["max"], &of_file["held_bytes_max"]),
        (&(2u64 << 30).into(), &(1 << 20).into())
    );
    let of_flag = memory(
        &["--config", &file, "--memory-max", "512M"],
        &[("NETALYTICS_HELD_BYTES_MAX", "2M")],
    );
    assert_eq!(
        (&of_flag["max"], &of_flag["held_bytes_max"]),
        (&(512 << 20).into(), &(2 << 20).into())
    );
    // The defaults in the help.
    let usual = memory(&["--memory-max", "1GiB"], &[]);
    let help = run(&["config", "--help"], &[])
        .out
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    for (key, text) in [
        ("flows_max", "[default: 1048576 at 1G"),
        ("window_bytes_max", "[default: 384M at 1G"),
    ] {
        let number = usual[key].as_u64().expect("a number");
        let shown = if key == "flows_max" {
            number.to_string()
        } else {
            format!("{}M", number >> 20)
        };
        assert!(
            text.contains(&format!("{shown} at")) && help.contains(text),
            "{key} {number}\n{help}"
        );
    }
}

#[test]
fn a_wrong_configuration_is_an_error_with_its_place() {
    let folder = Folder::new();
    let file = folder.file("wrong.toml", b"memory-max = '2G'\nflow-max = 1\n");
    let query = ["query", "PARSE http", "-r", SHOP, "--config"];
    let ran = run(&[&query[..], &[&file]].concat(), &[]);
    assert!(
        ran.code == 2
            && ran
                .err
                .contains("wrong.toml: line 2: unknown setting `flow-max`"),
        "{}",
        ran.err
    );
    let ran = run(&[&query[..], &[&folder.path("none.toml")]].concat(), &[]);
    assert!(
        ran.code == 1 && ran.err.contains("cannot read") && ran.err.contains("none.toml"),
        "{}",
        ran.err
    );
    let ran = run(&["jobs", "--config", &file], &[]);
    assert!(
        ran.code == 2 && ran.err.contains("unexpected argument '--config'"),
        "{}",
        ran.err
    );
}
