//! Compares every field of every NFSv3 procedure, of successful and failed calls, with tshark's output for the same
//! packets.

use std::process::Command;

use accuracy::observed::ObservedValue;
use accuracy::{ObservedTuple, PacketRecording};
use serde_json::Value as Json;
use testkit::{TcpDialogue, XdrWriter};

/// Numbers that are unique in the conversation.
struct Numbers(u32);

impl Numbers {
    fn next(&mut self) -> u32 {
        self.0 += 7;
        self.0
    }

    fn attributes(&mut self, x: XdrWriter, kind: u32) -> XdrWriter {
        let mut n = || self.next();
        let x = x.words(&[kind, n() & 0o777, n(), n(), n()]);
        let x = (0..5).fold(x, |x, _| x.u64(u64::from(n())));
        (0..6).fold(x, |x, _| x.u32(n()))
    }

    /// `post_op_attr`.
    fn after(&mut self, x: XdrWriter, kind: u32) -> XdrWriter {
        self.attributes(x.u32(1), kind)
    }

    /// `wcc_data`.
    fn wcc(&mut self, x: XdrWriter, kind: u32) -> XdrWriter {
        let x = x.u32(1).u64(u64::from(self.next()));
        let x = (0..4).fold(x, |x, _| x.u32(self.next()));
        self.after(x, kind)
    }

    /// `sattr3` with all attributes except times.
    fn settings(&mut self, x: XdrWriter) -> XdrWriter {
        let x = x.words(&[1, self.next() & 0o777, 1, self.next(), 1, self.next(), 1]);
        x.u64(u64::from(self.next())).words(&[0, 0])
    }

    fn args(&mut self, procedure: u32, x: XdrWriter) -> XdrWriter {
        if procedure == 0 {
            return x;
        }
        let x = x.opaque(b"HANDLE-0");
        match procedure {
            2 => self.settings(x).u32(0),
            3 | 12 | 13 => x.opaque(b"name"),
            4 => x.u32(0x1f),
            6 | 21 => x.u64(4096).u32(1234),
            7 => x.u64(8192).words(&[5, 1]).opaque(b"bytes"),
            8 => self.settings(x.opaque(b"name").u32(0)),
            9 => self.settings(x.opaque(b"name")),
            10 => self.settings(x.opaque(b"name")).opaque(b"target"),
            11 => self.settings(x.opaque(b"name").u32(3)).words(&[8, 9]),
            14 => x.opaque(b"name").opaque(b"HANDLE-1").opaque(b"other"),
            15 => x.opaque(b"HANDLE-1").opaque(b"other"),
            16 => x.u64(3).u64(0).u32(4321),
            17 => x.u64(3).u64(0).words(&[2222, 3333]),
            _ => x,
        }
    }

    fn results(&mut self, procedure: u32, status: u32, x: XdrWriter) -> XdrWriter {
        if procedure == 0 {
            return x;
        }
        let x = x.u32(status);
        let ok = status == 0;
        match procedure {
            1 if ok => self.attributes(x, 1),
            1 => x,
            3 if ok => {
                let x = self.after(x.opaque(b"OBJECT"), 1);
                self.after(x, 2)
            }
            8..=11 if ok => {
                let x = self.after(x.u32(1).opaque(b"OBJECT"), 1);
                self.wcc(x, 2)
            }
            14 => {
                let x = self.wcc(x, 2);
                self.wcc(x, 2)
            }
            15 => {
                let x = self.after(x, 1);
                self.wcc(x, 2)
            }
            7 if ok => self.wcc(x, 1).words(&[5, 2]).u64(1),
            21 if ok => self.wcc(x, 1).u64(1),
            2 | 7..=13 | 21 => self.wcc(x, 2),
            _ => {
                let x = self.after(x, 1);
                if ok { self.of_success(procedure, x) } else { x }
            }
        }
    }

    fn of_success(&mut self, procedure: u32, x: XdrWriter) -> XdrWriter {
        let n = self.next();
        match procedure {
            4 => x.u32(0x0d),
            5 => x.opaque(b"target"),
            6 => x.words(&[6, 1]).opaque(b"data!!"),
            16 => x
                .u64(1)
                .u32(1)
                .u64(5)
                .opaque(b"entry")
                .u64(6)
                .words(&[0, 1]),
            17 => x
                .u64(1)
                .u32(1)
                .u64(5)
                .opaque(b"entry")
                .u64(6)
                .words(&[0, 0, 0, 1]),
            18 => (0..6).fold(x, |x, i| x.u64(u64::from(n + i))).u32(0),
            19 => x
                .words(&[n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6])
                .u64(1 << 40)
                .words(&[0, 1, 0x1b]),
            20 => x.words(&[n, 255, 1, 0, 0, 1]),
            _ => x,
        }
    }
}

/// Statuses; each procedure is called once with each.
const STATUSES: &[(u32, &str)] = &[(0, "ok"), (2, "noent"), (13, "access")];

fn conversation() -> PacketRecording {
    let mut talk = TcpDialogue::new("10.0.0.1:700", "10.0.0.2:2049");
    let mut numbers = Numbers(1000);
    talk.handshake();
    for procedure in 0..22 {
        for (status, _) in STATUSES {
            let xid = numbers.next();
            let sys = XdrWriter::default()
                .u32(1)
                .opaque(b"box")
                .words(&[10, 20, 0]);
            let call = XdrWriter::default().words(&[xid, 0, 2, 100_003, 3, procedure]);
            let call = numbers.args(procedure, call.u32(1).opaque(&sys.0).words(&[0, 0]));
            let reply = numbers.results(
                procedure,
                *status,
                XdrWriter::default().words(&[xid, 1, 0, 0, 0, 0]),
            );
            talk.client().send(&call.record());
            talk.server().send(&reply.record());
        }
    }
    talk.close();
    PacketRecording::of(&talk.take())
}

/// tshark's output for one message: the first word of each name on the path, and the value.
struct Shown(Vec<(String, String)>);

impl Shown {
    fn of(layer: &Json) -> Shown {
        let mut all = Vec::new();
        flatten(layer, String::new(), &mut all);
        Shown(all)
    }

    /// The value named `leaf` at a place accepted by `is_there`.
    fn find(&self, leaf: &str, is_there: impl Fn(&str) -> bool) -> Option<String> {
        let found = self.0.iter().find(|(path, _)| {
            path.strip_suffix(leaf)
                .is_some_and(|place| (place.is_empty() || place.ends_with('/')) && is_there(place))
        });
        found.map(|(_, value)| value.clone())
    }

    fn number(&self, leaf: &str, is_there: impl Fn(&str) -> bool) -> Option<String> {
        let text = self.find(leaf, is_there)?;
        let number = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => text.parse(),
        };
        Some(
            number
                .unwrap_or_else(|_| panic!("{leaf}: {text}"))
                .to_string(),
        )
    }

    fn time(&self, leaf: &str, is_there: impl Fn(&str) -> bool + Copy) -> Option<String> {
        let part = |part| {
            self.number(&format!("{leaf}_tree/{leaf}.{part}"), is_there)?
                .parse::<i64>()
                .ok()
        };
        Some((part("sec")? * 1_000_000_000 + part("nsec")?).to_string())
    }

    fn handle(&self, is_there: impl Fn(&str) -> bool) -> Option<String> {
        self.find("nfs.fhandle", is_there)
            .map(|text| text.replace(':', ""))
    }
}

fn flatten(json: &Json, path: String, all: &mut Vec<(String, String)>) {
    match json {
        Json::Object(fields) => {
            for (name, value) in fields {
                let name = name.split(' ').next().unwrap_or_default();
                let path = if path.is_empty() {
                    name.to_owned()
                } else {
                    format!("{path}/{name}")
                };
                flatten(value, path, all);
            }
        }
        Json::Array(values) => values
            .iter()
            .for_each(|value| flatten(value, path.clone(), all)),
        Json::String(text) => all.push((path, text.clone())),
        _ => {}
    }
}

/// Procedure, call, and reply of each xid, from tshark.
fn shown(recording: &PacketRecording) -> Option<Vec<(u64, u32, Shown, Shown)>> {
    let path = std::env::temp_dir().join(format!("nfs-fields-{}.pcap", std::process::id()));
    recording
        .write(&recording.whole(), &path)
        .expect("a temporary file");
    let out = Command::new("tshark")
        .arg("-r")
        .arg(&path)
        .args(["-T", "json", "--no-duplicate-keys", "-Y", "rpc"])
        .output();
    std::fs::remove_file(&path).expect("it was just made");
    let out = testkit::require!("tshark" => out);
    let packets: Vec<Json> = serde_json::from_slice(&out.stdout).expect("tshark's JSON");
    let mut calls: Vec<(u64, u32, Shown, Shown)> = Vec::new();
    for packet in packets {
        let layers = &packet["_source"]["layers"];
        let rpc = Shown::of(&layers["rpc"]);
        let nfs = Shown::of(&layers["nfs"]);
        let number = |shown: &Shown, leaf| {
            shown
                .number(leaf, |_| true)
                .and_then(|n| n.parse::<u64>().ok())
        };
        let xid = number(&rpc, "rpc.xid").expect("an xid");
        let procedure = number(&nfs, "nfs.procedure_v3").expect("a procedure") as u32;
        match calls.iter_mut().find(|call| call.0 == xid) {
            Some(call) => call.3 = nfs,
            None => calls.push((xid, procedure, nfs, Shown(Vec::new()))),
        }
    }
    Some(calls)
}

/// Expected columns of a call.
fn expected(procedure: u32, call: &Shown, reply: &Shown) -> Vec<(&'static str, Option<String>)> {
    let any = |_: &str| true;
    let second = |place: &str| place.starts_with("to/") || place.starts_with("link/");
    let first = |place: &str| !second(place);
    let made = matches!(procedure, 3 | 8..=11) && reply.handle(any).is_some();
    // The attributes of the object found or created, otherwise of the object operated on.
    let now = |place: &str| {
        if made || procedure == 15 {
            place.starts_with("obj_attributes") || place.starts_with("file_attributes")
        } else {
            !place.contains("before") && !place.starts_with("todir_wcc")
        }
    };
    let before = |place: &str| place.contains("/before/") && !place.starts_with("todir_wcc");
    let kinds = [
        "",
        "file",
        "directory",
        "block_device",
        "character_device",
        "link",
        "socket",
        "fifo",
    ];
    let named = |names: &[&str], number: Option<String>| {
        number.map(|n| names[n.parse::<usize>().expect("a number")].to_owned())
    };
    let flag = |number: Option<String>| number.map(|n| u8::from(n != "0").to_string());
    let status = reply.number("nfs.status3", any);
    let stable = ["unstable", "data_sync", "file_sync"];
    let is = |of: &[u32]| of.contains(&procedure);
    let settings = |place: &str| place.contains("mode") || place.contains("size");
    let attribute = |leaf: &str| reply.number(leaf, now);
    vec![
        (
            "status",
            status.map(|n| {
                STATUSES
                    .iter()
                    .find(|s| s.0.to_string() == n)
                    .expect("one of ours")
                    .1
                    .to_owned()
            }),
        ),
        ("file_handle", call.handle(first)),
        ("name", call.find("nfs.name", first)),
        ("to_file_handle", call.handle(second)),
        (
            "to_name",
            call.find("nfs.name", second)
                .or(call.find("nfs.symlink.to", any))
                .or(reply.find("nfs.readlink.data", any)),
        ),
        ("object_handle", reply.handle(any)),
        (
            "offset",
            call.number("nfs.offset3", any)
                .or(call.number("nfs.cookie3", any)),
        ),
        (
            "count",
            call.number("nfs.count3", any)
                .or(call.number("nfs.count3_maxcount", any)),
        ),
        (
            "stable",
            named(&stable, call.number("nfs.write.stable", any)),
        ),
        ("result_count", reply.number("nfs.count3", any)),
        (
            "committed",
            named(&stable, reply.number("nfs.write.committed", any)),
        ),
        (
            "eof",
            flag(
                reply
                    .find("nfs.read.eof", any)
                    .or(reply.find("nfs.readdir.eof", any)),
            ),
        ),
        (
            "entries",
            is(&[16, 17])
                .then(|| reply.find("nfs.readdir.eof", any))
                .flatten()
                .map(|_| "1".to_owned()),
        ),
        ("access", call.number("nfs.access_check", any)),
        ("access_granted", reply.number("nfs.access_rights", any)),
        ("set_mode", call.number("nfs.mode3", settings)),
        ("set_size", call.number("nfs.set_size", settings)),
        ("file_type", named(&kinds, attribute("nfs.fattr3.type"))),
        ("file_mode", attribute("nfs.mode3")),
        ("file_links", attribute("nfs.fattr3.nlink")),
        ("file_uid", attribute("nfs.fattr3.uid")),
        ("file_gid", attribute("nfs.fattr3.gid")),
        ("file_size", attribute("nfs.fattr3.size")),
        ("file_used", attribute("nfs.fattr3.used")),
        ("fsid", attribute("nfs.fattr3.fsid")),
        ("fileid", attribute("nfs.fattr3.fileid")),
        ("atime", reply.time("nfs.atime", now)),
        ("mtime", reply.time("nfs.mtime", now)),
        ("ctime", reply.time("nfs.ctime", now)),
        ("size_before", reply.number("nfs.wcc_attr.size", before)),
        ("mtime_before", reply.time("nfs.mtime", before)),
    ]
}

#[test]
fn every_field_of_every_procedure_is_as_tshark_shows_it() {
    let recording = conversation();
    let Some(calls) = shown(&recording) else {
        return;
    };
    assert_eq!(calls.len(), 22 * STATUSES.len());
    let told = recording.play(&recording.whole(), "nfs");
    let mut wrong = Vec::new();
    let mut compared = 0;
    for (xid, procedure, call, reply) in &calls {
        let is_it =
            |t: &&ObservedTuple| t.value("xid") == Some(&ObservedValue::Number(i128::from(*xid)));
        let row = told.iter().find(is_it).expect("a tuple of every call");
        assert!(row.is_exact(), "{row}");
        for (field, expected) in expected(*procedure, call, reply) {
            let value = row.value(field).map(ToString::to_string);
            compared += usize::from(expected.is_some());
            if value != expected {
                wrong.push(format!(
                    "procedure {procedure}, {field}: {value:?}, by tshark {expected:?}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 800, "{compared} values");
}
