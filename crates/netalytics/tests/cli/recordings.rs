//! Captures and recordings on a server: answers equal those of `query -r`, with permissions and limits of uploads.

use std::process::Command;

use serde_json::{Value, json};

use super::service::Server;
use super::{Folder, check};

const CAPTURE: &str = "captures/shop/in.pcap";
/// A hostile file name.
const HOSTILE: &str = "..%2F..%2F%3Cscript%3Ealert(1)%3C%2Fscript%3E%E2%80%AE.pcap";

/// Status and body of a response; `token`: the secret.
fn ask(url: &str, token: &str, more: &[&str]) -> (u16, String) {
    let output = Command::new("curl")
        .args([
            "-sS",
            "-w",
            "\n%{http_code}",
            "-H",
            &format!("Authorization: Bearer {token}"),
        ])
        .args(more)
        .arg(url)
        .current_dir(super::ROOT)
        .output()
        .expect("curl runs");
    let text = String::from_utf8(output.stdout).expect("text");
    let (body, status) = text.rsplit_once('\n').expect("a status");
    (status.parse().expect("a number"), body.to_owned())
}

struct RecordingServer {
    server: Server,
    admin: String,
}

impl RecordingServer {
    fn ask(&self, token: &str, path: &str, more: &[&str]) -> (u16, Value) {
        let (status, body) = ask(&format!("{}/api/v1{path}", self.server.url), token, more);
        (status, serde_json::from_str(&body).unwrap_or(Value::Null))
    }

    fn send(&self, token: &str, name: &str, file: &str) -> (u16, Value) {
        let data = format!("@{file}");
        self.ask(
            token,
            &format!("/recordings?name={name}"),
            &["--data-binary", &data],
        )
    }

    fn query(&self, token: &str, id: &str, query: &str) -> (u16, String) {
        let body = json!({ "query": query, "recording": id }).to_string();
        let json = ["-H", "Content-Type: application/json", "-d", &body];
        ask(
            &format!("{}/api/v1/query?format=jsonl", self.server.url),
            token,
            &json,
        )
    }

    fn list(&self, token: &str) -> Vec<Value> {
        let (status, told) = self.ask(token, "/recordings", &[]);
        assert_eq!(status, 200, "{told}");
        told["recordings"].as_array().expect("a list").clone()
    }

    fn token(&self, name: &str, role: &str) -> String {
        let made = self
            .server
            .post("/tokens", &json!({ "name": name, "role": role }));
        made["secret"].as_str().expect("a secret").to_owned()
    }
}

fn rows(text: &str) -> Vec<Value> {
    let mut rows: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("a row"))
        .collect();
    for row in &mut rows {
        row.as_object_mut().map(|row| row.remove("agents_missing"));
    }
    rows
}

fn start(folder: &Folder) -> RecordingServer {
    let recordings = folder.path("recordings");
    check(
        &[
            "record",
            "PARSE http",
            "-r",
            CAPTURE,
            "-o",
            &format!("{recordings}/shop"),
            "-q",
        ],
        0,
        &[],
    );
    std::fs::copy(
        format!("{}/{CAPTURE}", super::ROOT),
        format!("{recordings}/shop.pcap"),
    )
    .expect("a copy");
    std::os::unix::fs::symlink("/etc", format!("{recordings}/elsewhere")).expect("a link");
    let server = Server::with(
        folder,
        &[
            "--recordings",
            &recordings,
            "--upload-mib",
            "1",
            "--uploads-mib",
            "2",
        ],
    );
    let admin = std::fs::read_to_string(&server.token)
        .expect("the first token")
        .trim()
        .to_owned();
    RecordingServer { server, admin }
}

#[test]
fn recordings_answer_as_in_the_terminal() {
    let folder = Folder::new();
    let server = start(&folder);
    let (status, sent) = server.send(&server.admin, HOSTILE, CAPTURE);
    assert_eq!(status, 201, "{sent}");
    assert_eq!(sent["name"], "../../<script>alert(1)</script>\u{202e}.pcap");
    assert!(
        sent["first_ns"].is_string() && sent["last_ns"].is_string(),
        "{sent}"
    );
    let all = server.list(&server.admin);
    let id = |kind: &str| -> String {
        let one = all
            .iter()
            .find(|one| one["kind"] == kind)
            .unwrap_or_else(|| panic!("no {kind}: {all:?}"));
        one["id"].as_str().expect("an id").to_owned()
    };
    assert_eq!(all.len(), 3, "a link is none of them: {all:?}");
    let recorded = folder.path("recordings/shop");
    for (kind, file) in [
        ("upload", CAPTURE),
        ("capture", CAPTURE),
        ("data_set", recorded.as_str()),
    ] {
        for query in [
            "PARSE http PROCESS (group-count-quantile: group=url_template, q=0.5, 0.99)",
            "PARSE http SINCE 500ms WHERE status >= 200 PROCESS (diff-group: group=url_template, w=100ms)",
            "PARSE http WHERE url_template = '/search' ORDER BY response_time DESC LIMIT 5 ROWS",
            "PARSE http SINCE 600ms BASELINE 600ms PROCESS (group-count-success: group=client_ip)",
        ] {
            let (status, answered) = server.query(&server.admin, &id(kind), query);
            assert_eq!(status, 200, "{kind} {query}: {answered}");
            let expected = rows(
                &check(
                    &["query", query, "-r", file, "--format", "jsonl", "-q"],
                    0,
                    &[],
                )
                .out,
            );
            assert!(!expected.is_empty(), "{query}");
            assert_eq!(rows(&answered), expected, "{kind} {query}");
        }
    }
    let (status, wrong) = server.query(
        &server.admin,
        &id("data_set"),
        "PARSE mysql_query PROCESS (count)",
    );
    assert!(
        status == 400 && wrong.contains("no tuples of mysql_query"),
        "{status} {wrong}"
    );
    let (status, wrong) = server.query(&server.admin, &id("capture"), "PARSE http PROCESS (cout)");
    assert!(status == 400 && wrong.contains("place"), "{status} {wrong}");
    let (status, _) = server.ask(
        &server.admin,
        &format!("/recordings/{}", id("upload")),
        &["-X", "DELETE"],
    );
    assert_eq!(status, 204);
    assert_eq!(server.list(&server.admin).len(), 2);
    assert_eq!(
        server
            .query(&server.admin, &id("upload"), "PARSE http PROCESS (count)")
            .0,
        404
    );
}

#[test]
fn permissions_of_recordings() {
    let folder = Folder::new();
    let server = start(&folder);
    let [one, other, raw, view] = ["run", "run", "raw", "view"]
        .map(|role| server.token(&format!("{role}-{}", rand(role)), role));
    let (status, sent) = server.send(&one, "shop.pcap", CAPTURE);
    assert_eq!(status, 201, "{sent}");
    let id = sent["id"].as_str().expect("an id");
    // The uploader may run any query on the recording; others except admins do not see it.
    assert_eq!(server.query(&one, id, "PARSE http LIMIT 1 ROWS").0, 200);
    assert_eq!(
        server.query(&other, id, "PARSE http PROCESS (count)").0,
        404
    );
    assert_eq!(
        server
            .query(&server.admin, id, "PARSE http PROCESS (count)")
            .0,
        200
    );
    assert!(server.list(&other).iter().all(|one| one["id"] != id));
    assert_eq!(
        server
            .ask(&other, &format!("/recordings/{id}"), &["-X", "DELETE"])
            .0,
        404
    );
    assert_eq!(server.ask(&view, "/recordings", &[]).0, 403);
    // Entries of the folder: unredacted texts require raw; numbers over redacted ones do not.
    let of = |kind: &str| -> String {
        let all = server.list(&server.admin);
        all.iter().find(|one| one["kind"] == kind).expect("it")["id"]
            .as_str()
            .expect("an id")
            .to_owned()
    };
    for (token, kind, query, expected) in [
        (&one, "capture", "PARSE http PROCESS (count)", 403),
        (&raw, "capture", "PARSE http PROCESS (count)", 200),
        (&one, "data_set", "PARSE http PROCESS (count)", 200),
        (&one, "data_set", "PARSE http", 403),
        (&raw, "data_set", "PARSE http", 200),
    ] {
        let (status, said) = server.query(token, &of(kind), query);
        assert_eq!(status, expected, "{kind} {query}: {said}");
    }
    assert_eq!(
        server
            .ask(
                &raw,
                &format!("/recordings/{}", of("capture")),
                &["-X", "DELETE"]
            )
            .0,
        403
    );
    assert_eq!(
        server
            .ask(
                &server.admin,
                &format!("/recordings/{}", of("capture")),
                &["-X", "DELETE"]
            )
            .0,
        204
    );
    assert_eq!(
        server
            .ask(
                &server.admin,
                &format!("/recordings/{}", of("data_set")),
                &["-X", "DELETE"]
            )
            .0,
        204
    );
    assert!(!std::path::Path::new(&folder.path("recordings/shop")).exists());
    // Files that are too large, invalid, or exceed the total limit leave nothing behind.
    let large = folder.file("large", &vec![0; 2 << 20]);
    assert_eq!(server.send(&one, "large", &large).0, 413);
    let text = folder.file("text", b"no capture at all, whatever it is called");
    let (status, said) = server.send(&one, "text.pcap", &text);
    assert!(
        status == 400
            && !said["message"]
                .as_str()
                .unwrap_or("server/")
                .contains("server/"),
        "{said}"
    );
    for id in ["..%2Fadmin.token", "..", "%00"] {
        assert!(
            [404, 405].contains(
                &server
                    .ask(
                        &server.admin,
                        &format!("/recordings/{id}"),
                        &["-X", "DELETE"]
                    )
                    .0
            )
        );
    }
    let kept = std::fs::read_dir(folder.path("server/uploads"))
        .expect("the folder")
        .count();
    assert_eq!(kept, 2, "one file and its note");
    let mut last = 0;
    for _ in 0..12 {
        last = server.send(&one, "again", CAPTURE).0;
    }
    assert_eq!(last, 429, "there is room for some only");
}

/// Rows of a query over a file.
fn printed(query: &str, file: &str) -> Vec<Value> {
    let args = ["query", query, "-r", file, "--format", "jsonl", "-q"];
    rows(&check(&args, 0, &[]).out)
}

/// Packets of a flow by tshark: time, length, sender's port, and payload; `None` without tshark.
fn by_tshark(file: &str, flow: &Value) -> Option<Vec<Vec<String>>> {
    let end = |ip: &str, port: &str| {
        let ip = flow[ip].as_str().expect("an address");
        format!("ip.addr == {ip} and tcp.port == {}", flow[port])
    };
    let filter = format!(
        "{} and {}",
        end("client_ip", "client_port"),
        end("server_ip", "server_port")
    );
    let fields = [
        "frame.time_epoch",
        "frame.len",
        "tcp.srcport",
        "tcp.payload",
    ];
    let output = Command::new("tshark")
        .args(["-n", "-r", file, "-Y", &filter, "-T", "fields"])
        .args(fields.iter().flat_map(|field| ["-e", field]))
        .current_dir(super::ROOT)
        .output();
    let text = testkit::require!("tshark" => output).stdout;
    let text = String::from_utf8(text).expect("text");
    let packet = |line: &str| line.split('\t').map(str::to_owned).collect();
    Some(text.lines().map(packet).collect())
}

/// The file has exactly the packets of the flow, and the turns have the bytes of its payloads.
#[test]
fn a_flow_of_an_upload_is_that_of_tshark() {
    let folder = Folder::new();
    let server = start(&folder);
    let (status, sent) = server.send(&server.admin, "shop.pcap", CAPTURE);
    assert_eq!(status, 201, "{sent}");
    let id = sent["id"].as_str().expect("an id");
    let file = folder.path("flow.pcapng");
    for parser in ["http", "mysql_query", "memcached"] {
        let query = format!("PARSE {parser} ORDER BY ts LIMIT 1 ROWS");
        let flow = &printed(&query, CAPTURE)[0];
        let name = flow["id"].as_str().expect("an id");
        let path = format!("/recordings/{id}/packets?flow={name}");
        let (status, _) = server.ask(&server.admin, &path, &["-o", &file]);
        assert_eq!(status, 200, "{parser}");
        let Some(expected) = by_tshark(CAPTURE, flow) else {
            return;
        };
        assert_eq!(by_tshark(&file, flow).as_ref(), Some(&expected), "{parser}");
        let all = printed("PARSE packet PROCESS (count)", &file);
        assert_eq!(all[0]["count"], expected.len(), "{parser}");

        let path = format!("/recordings/{id}/conversation?flow={name}");
        let (status, told) = server.ask(&server.admin, &path, &[]);
        assert_eq!(status, 200, "{told}");
        assert_eq!(told["packets"], expected.len(), "{told}");
        let turns = told["turns"].as_array().expect("turns");
        for (side, port) in [("client", "client_port"), ("server", "server_port")] {
            let port = flow[port].to_string();
            let payload: String = expected
                .iter()
                .filter(|packet| packet[2] == port)
                .map(|packet| packet[3].as_str())
                .collect();
            let own = turns.iter().filter(|turn| turn["from"] == side);
            let mut at = 0;
            for turn in own {
                let data = turn["data"].as_str().expect("text");
                assert!(payload[at..].starts_with(data), "{parser} {side}: {turn}");
                at += 2 * turn["bytes"].as_u64().expect("a number") as usize;
            }
            assert_eq!(at, payload.len(), "{parser} {side}");
        }
    }
}

#[test]
fn permissions_of_packets() {
    let folder = Folder::new();
    let server = start(&folder);
    let [one, other, raw, view] = ["run", "run", "raw", "view"]
        .map(|role| server.token(&format!("{role}-{}", rand(role)), role));
    let scoped = |name: &str, network: &str| {
        let body = json!({ "name": name, "role": "raw", "networks": [network] });
        let made = server.server.post("/tokens", &body);
        made["secret"].as_str().expect("a secret").to_owned()
    };
    let [inside, outside] = [("in", "10.20.0.0/16"), ("out", "10.99.0.0/16")]
        .map(|(name, network)| scoped(name, network));
    let (status, sent) = server.send(&one, "shop.pcap", CAPTURE);
    assert_eq!(status, 201, "{sent}");
    let upload = sent["id"].as_str().expect("an id").to_owned();
    let of = |kind: &str| -> String {
        let all = server.list(&server.admin);
        let found = all.iter().find(|one| one["kind"] == kind).expect("it");
        found["id"].as_str().expect("an id").to_owned()
    };
    let [capture, data_set] = [of("capture"), of("data_set")];
    let flow = printed("PARSE http ORDER BY ts LIMIT 1 ROWS", CAPTURE)[0]["id"].clone();
    let flow = flow.as_str().expect("an id");
    for part in ["conversation", "packets"] {
        for (token, recording, flow, expected) in [
            (&one, &upload, flow, 200),
            (&server.admin, &upload, flow, 200),
            (&other, &upload, flow, 404),
            (&one, &capture, flow, 403),
            (&raw, &capture, flow, 200),
            (&inside, &capture, flow, 200),
            (&outside, &capture, flow, 404),
            (&raw, &data_set, flow, 400),
            (&view, &capture, flow, 403),
            (&raw, &capture, "0123456789abcdef", 404),
            (&raw, &capture, "1:abc", 400),
        ] {
            let path = format!("/recordings/{recording}/{part}?flow={flow}");
            let (status, said) = server.ask(token, &path, &["-o", &folder.path("answer")]);
            assert_eq!(status, expected, "{path}: {said}");
        }
    }
}

/// Makes names of tokens unique.
fn rand(role: &str) -> usize {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    NEXT.fetch_add(role.len(), std::sync::atomic::Ordering::Relaxed)
}
