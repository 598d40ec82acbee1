//! Help, lists, flags, and the examples of the documentation.

use super::*;

#[test]
fn introduction_without_arguments() {
    let ran = check(&[], 0, &[]);
    assert!(
        ran.out.contains("netalytics query ") && ran.err.is_empty(),
        "{}{}",
        ran.out,
        ran.err
    );
}

#[test]
fn a_wrong_query_is_shown_with_carets() {
    let ran = check(
        &[
            "query",
            "PARSE htp FROM * WHERE statsu = 1 PROCESS (grp)",
            "-r",
            "x.pcap",
        ],
        2,
        &["  PARSE htp FROM", "^^^", "did you mean", "grp"],
    );
    assert!(
        ran.err.matches("error:").count() >= 2,
        "all errors at once\n{}",
        ran.err
    );
    assert!(ran.out.is_empty());
    check(&["explain", "PARSE"], 2, &["^"]);
    check(
        &[
            "explain",
            "PARSE packet",
            "--server",
            "http://192.0.2.1:7979",
        ],
        2,
        &["without TLS (https://)"],
    );
    check(
        &["jobs", "--server", "http://netalytics.example"],
        2,
        &["without TLS (https://)"],
    );
    for verb in ["query", "compare", "check"] {
        let assert: &[&str] = if verb == "check" {
            &["--assert", "rows > 0"]
        } else {
            &[]
        };
        let args = [
            &[
                verb,
                PACKETS,
                "--server",
                "http://127.0.0.1:1",
                "--label",
                "role=web",
            ],
            assert,
        ]
        .concat();
        check(&args, 2, &["--server", "cannot be used with", "--label"]);
    }
}

#[test]
fn wrong_flags_are_named() {
    check(&["query", PACKETS], 2, &["-r FILE", "-i IFACE"]);
    check(&["query", "-r", "x.pcap"], 2, &["QUERY"]);
    check(
        &["query", PACKETS, "-r", "x.pcap", "--workers", "0"],
        2,
        &["auto, or a number"],
    );
    check(
        &["query", PACKETS, "-r", "x.pcap", "--format", "xml"],
        2,
        &["table", "jsonl", "csv"],
    );
    check(&["query", PACKETS, "-r", "-", "-"], 2, &["once only"]);
    check(
        &["query", PACKETS, "-r", "x.pcap", "--tcp-idle", "5"],
        2,
        &["90s"],
    );
    check(
        &["query", PACKETS, "-r", "x.pcap", "-f", "y.nq"],
        2,
        &["cannot be used with"],
    );
    check(
        &["query", PACKETS, "-r", "x.pcap", "--summary-json", "-"],
        2,
        &["requires a file"],
    );
    check(
        &["parsers", "htpp"],
        2,
        &["unknown parser \"htpp\"", "http"],
    );
    check(&["nonsense"], 2, &["nonsense"]);
}

#[test]
fn parsers_and_processors_are_listed() {
    let parsers = check(&["parsers"], 0, &[]);
    let processors = check(&["processors"], 0, &[]);
    assert!(
        parsers.out.contains("http") && parsers.out.contains("url"),
        "{}",
        parsers.out
    );
    assert!(
        processors.out.contains("top-k") && processors.out.contains("PARSE"),
        "{}",
        processors.out
    );
    let rows = lines(&check(&["parsers", "http", "--format", "jsonl"], 0, &[]).out);
    let url = rows
        .iter()
        .find(|r| r["field"] == "url")
        .expect("http has a url");
    assert_eq!(
        (&url["parser"], &url["type"]),
        (&Value::from("http"), &Value::from("text"))
    );
    assert!(
        check(&["processors", "--format", "csv"], 0, &[])
            .out
            .starts_with("block,")
    );
    let plan = check(
        &["explain", "PARSE http TO *:80 PROCESS (top-k: k=3)"],
        0,
        &[],
    );
    assert!(plan.out.contains("http"), "{}", plan.out);
}

#[test]
fn help_completions_and_manual() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = check(&["completions", shell], 0, &[]).out;
        assert!(script.contains("summary-json"), "{shell}");
    }
    let page = check(&["man"], 0, &[]).out;
    assert!(page.contains(".TH netalytics 1"), "{page}");
    for word in [
        "NETALYTICS QUERY",
        "NETALYTICS PARSERS",
        "EXIT STATUS",
        "EXAMPLES",
        "summary\\-json",
    ] {
        assert!(page.contains(word), "no {word} in the manual page");
    }
    assert!(check(&["--version"], 0, &[]).out.starts_with("netalytics "));
    for verb in [
        "query",
        "explain",
        "parsers",
        "processors",
        "interfaces",
        "completions",
        "man",
    ] {
        assert!(
            check(&[verb, "--help"], 0, &[]).out.contains("Usage:"),
            "{verb}"
        );
    }
}

#[test]
fn habits() {
    let json = [
        "query",
        "PARSE http PROCESS (count)",
        "-r",
        SHOP,
        "--json",
        "-q",
    ];
    let counted = |args: &[&str]| {
        let ran = check(args, 0, &[]);
        lines(&ran.out)[0]["count"].as_u64().expect("a count")
    };
    // nginx has logged 221 requests. Those of one client, by three kinds of filters.
    let all = counted(&json);
    let log =
        fs::read_to_string(format!("{ROOT}/captures/shop/nginx-access.log")).expect("the log");
    assert_eq!(all, log.lines().count() as u64);
    let filter = "tcp port 80 and host 10.20.0.22";
    let of_client = counted(&[&json[..], &["--capture-filter", filter]].concat());
    assert!((1..all).contains(&of_client), "{of_client}");
    let words: Vec<&str> = filter.split(' ').collect();
    assert_eq!(
        counted(&[&["query", "-r", SHOP][..], &words, &json[1..2], &["--json"]].concat()),
        of_client
    );
    assert_eq!(
        counted(&[&json[..2], &words, &json[2..]].concat()),
        of_client
    );
    let packets = counted(&[
        "query",
        "PARSE packet PROCESS (count)",
        "-r",
        SHOP,
        "-c",
        "100",
        "--json",
    ]);
    assert_eq!(packets, 100);
    assert!(
        check(&["help", "query"], 0, &[])
            .out
            .contains("CAP_NET_RAW")
    );
    let plain = check(
        &["query", "PARSE htp", "-r", SHOP],
        2,
        &["error: unknown parser"],
    );
    let colored = check(
        &["--color=always", "query", "PARSE htp", "-r", SHOP],
        2,
        &["\x1b[1;31merror:\x1b[0m"],
    );
    assert_eq!(
        colored.err.replace("\x1b[1;31m", "").replace("\x1b[0m", ""),
        plain.err
    );
    for wrong in [
        &["query", "--nonsense"][..],
        &["query"],
        &["record", "PARSE http", "-r", SHOP],
        &["nonsense"],
    ] {
        let err = check(wrong, 2, &[]).err;
        assert!(
            err.starts_with("error: ") && err.lines().count() <= 4 && !err.contains("Usage"),
            "{err}"
        );
    }
}

#[test]
fn version_names_the_build() {
    let long = check(&["--version"], 0, &[]).out;
    for word in [
        "target:",
        "libpcap",
        "af-packet",
        "recording 1",
        "summary 1",
    ] {
        assert!(long.contains(word), "no {word} in {long}");
    }
    assert_eq!(check(&["-V"], 0, &[]).out.lines().count(), 1);
}

/// The pages' commands in order, in a temporary folder per page.
#[test]
fn the_commands_of_the_pages_run() {
    let bin = Path::new(BINARY)
        .parent()
        .expect("in a folder")
        .display()
        .to_string();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
    for (page, least) in [("tutorial", 8), ("coming-from-tcpdump-tshark-zeek", 1)] {
        let text = fs::read_to_string(format!("{ROOT}/docs/{page}.md")).expect("the page");
        let folder = Folder::new();
        let captures = Path::new(ROOT)
            .canonicalize()
            .expect("it exists")
            .join("captures");
        std::os::unix::fs::symlink(captures, folder.path("captures")).expect("a link");
        let blocks: Vec<&str> = text
            .split("```sh\n")
            .skip(1)
            .filter_map(|b| b.split("```").next())
            .collect();
        assert!(blocks.len() >= least, "{page}: {} blocks", blocks.len());
        for block in blocks {
            let mut command = Command::new("sh");
            command
                .args(["-ec", block])
                .current_dir(folder.0.path())
                .env("PATH", &path);
            let ran = Ran::from(command.stdin(Stdio::null()).output().expect("a shell"));
            assert!(
                ran.code == 0 && !ran.out.is_empty(),
                "{page}: {block}\n{}{}",
                ran.out,
                ran.err
            );
        }
    }
}

/// The commands in the help, verbatim.
#[test]
fn the_examples_in_the_help_work() {
    let root = Path::new(ROOT);
    assert!(
        root.join("captures/shop/in.pcap").is_file(),
        "the capture of the examples comes with the source"
    );
    let bin: PathBuf = Path::new(BINARY).parent().expect("in a folder").into();
    let path = format!(
        "{}:{}",
        bin.display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let mut tried = 0;
    for args in [
        &[][..],
        &["query", "--help"],
        &["parsers", "--help"],
        &["processors", "--help"],
        &["explain", "--help"],
    ] {
        let help = check(args, 0, &[]).out.replace("\n  ", "\n");
        let examples = help
            .lines()
            .map(str::trim)
            .filter(|l| l.starts_with("netalytics ") && !l.contains(" --help"));
        // Those with a network interface are tested in live.rs, those with a server in cli/remote.rs, those with a
        // network file in cli/explain.rs.
        let elsewhere = |l: &&str| {
            ["monday", "slow.nq", " -i ", " --server", "network.toml"]
                .iter()
                .any(|word| l.contains(word))
        };
        for example in examples.filter(|l| !elsewhere(l)) {
            let output = Command::new("sh")
                .args(["-c", example])
                .current_dir(root)
                .env("PATH", &path)
                .output()
                .expect("a shell");
            let ran = Ran::from(output);
            assert!(
                ran.code == 0 && ran.out.lines().count() > 1,
                "{example}\n{}{}",
                ran.out,
                ran.err
            );
            tried += 1;
        }
    }
    assert!(tried >= 8, "{tried} examples found");
}
