//! The systemd units of the packages: systemd accepts them, their programs are in the package, and they have the
//! directives that docs/install.md, docs/security.md, and docs/agent.md promise.

use std::collections::BTreeMap;
use std::env::temp_dir;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, id};

use testkit::require;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// The program of the package; its content does not matter to systemd.
const PROGRAM: &str = "/usr/bin/netalytics";
/// Each unit, its name in the sentence of docs/install.md about exposure, and its capabilities.
const UNITS: [(&str, &str, &str); 4] = [
    ("netalytics-record@", "recording", "CAP_NET_RAW"),
    ("netalytics-publish@", "publisher", "CAP_NET_RAW"),
    ("netalytics-server", "server", ""),
    ("netalytics-agent", "agent", "CAP_NET_RAW"),
];

/// A staged installation.
struct StagedPackage(PathBuf);

impl StagedPackage {
    fn new(name: &str) -> StagedPackage {
        let root = temp_dir().join(format!("netalytics-units-{name}-{}", id()));
        let staged = Command::new(Path::new(ROOT).join("packaging/stage.sh"))
            .arg("/bin/true")
            .arg(&root)
            .output()
            .expect("bash");
        let said = String::from_utf8_lossy(&staged.stderr);
        assert!(staged.status.success(), "{said}");
        StagedPackage(root)
    }

    fn unit(&self, name: &str) -> String {
        let path = format!("usr/lib/systemd/system/{name}.service");
        fs::read_to_string(self.0.join(path)).expect("the unit is in the package")
    }
}

impl Drop for StagedPackage {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The last value of each directive; systemd joins some, of which the tests read none.
fn directives(unit: &str) -> BTreeMap<&str, &str> {
    let lines = unit.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once('=')).collect()
}

#[test]
fn systemd_accepts_the_units_with_the_documented_exposure() {
    require!("systemd-analyze");
    let package = StagedPackage::new("verified");
    let guide = fs::read_to_string(Path::new(ROOT).join("docs/install.md")).expect("the guide");
    let guide = guide.replace('\n', " ");
    for (name, what, _) in UNITS {
        // An instance, with its program in the staged package.
        let instance = name.replace('@', "@x");
        let file = package.0.join(format!("{instance}.service"));
        let staged = format!("{}{PROGRAM}", package.0.display());
        fs::write(&file, package.unit(name).replace(PROGRAM, &staged)).expect("a file");
        let analyze = |words: &[&str]| {
            let command = Command::new("systemd-analyze")
                .args(words)
                .arg(&file)
                .output();
            let output = command.expect("it runs");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            (String::from_utf8_lossy(&output.stdout).into_owned(), said)
        };
        // Unknown directives and programs that do not exist are warnings.
        let said = analyze(&["verify", "--man=no"]).1;
        assert!(said.is_empty(), "{said}");
        let report = analyze(&["security", "--offline=true"]).0;
        let exposure = report
            .lines()
            .last()
            .and_then(|line| line.split_once(".service: ")?.1.split(' ').next())
            .unwrap_or_else(|| panic!("{report}"));
        assert!(
            guide.contains(&format!("{exposure} ({what})")),
            "the exposure of {name} is {exposure}"
        );
    }
}

#[test]
fn programs_of_the_units_are_in_the_package_or_in_every_system() {
    let package = StagedPackage::new("programs");
    for (name, ..) in UNITS {
        let unit = package.unit(name);
        let commands: Vec<&str> = unit
            .lines()
            .filter(|line| line.starts_with("Exec"))
            .filter_map(|line| line.split_once('=')?.1.split(' ').next())
            .collect();
        assert!(!commands.is_empty(), "{name}");
        for program in commands {
            let path = program.trim_start_matches(['-', '+', '!', '@', ':']);
            let is_ours = package.0.join(path.trim_start_matches('/')).exists();
            assert!(is_ours || path == "/bin/sh", "{name} starts {path}");
        }
    }
}

#[test]
fn units_have_the_documented_restrictions() {
    let package = StagedPackage::new("promised");
    for (name, _, capabilities) in UNITS {
        let unit = package.unit(name);
        let has = directives(&unit);
        let check = |key: &str, value: &str| {
            assert_eq!(has.get(key), Some(&value), "{name}: {key}");
        };
        check("DynamicUser", "yes");
        check("ProtectSystem", "strict");
        check("AmbientCapabilities", capabilities);
        check("CapabilityBoundingSet", capabilities);
        check("NoNewPrivileges", "yes");
        // The state folder is the only one that the service can write.
        assert!(!has.contains_key("ReadWritePaths"), "{name}");
        let folder = match name {
            "netalytics-record@" => Some("netalytics netalytics/%i"),
            "netalytics-publish@" => None,
            name => Some(name),
        };
        assert_eq!(has.get("StateDirectory").copied(), folder, "{name}");
        let configuration = has.get("EnvironmentFile").expect("a configuration");
        assert!(
            configuration.contains("/etc/netalytics/"),
            "{name}: {configuration}"
        );
    }
    // The kernel limits the memory of each monitor; the agent waits for their last results.
    let agent = package.unit("netalytics-agent");
    let has = directives(&agent);
    assert!(has["Delegate"].split(' ').any(|what| what == "memory"));
    assert_eq!(has["KillMode"], "mixed");
    let server = package.unit("netalytics-server");
    assert!(directives(&server)["ExecReload"].contains("kill -HUP ${MAINPID}"));
    let publisher = package.unit("netalytics-publish@");
    assert!(directives(&publisher)["LoadCredential"].ends_with(":/etc/netalytics/redact.key"));
}
