//! Network namespaces for tests, removed on drop and when the test is killed: a separate keeper process waits for the
//! end of its standard input, stops the programs in the namespaces, and removes them and their directory. After a
//! panic the directory with the logs remains, and its path is printed.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// `$1` is the prefix of the names, `$2` the directory.
const KEEPER: &str = r#"
trap '' INT TERM HUP
read -r word
spaces() { ip netns list | cut -d' ' -f1 | grep "^$1"; }
for ns in $(spaces $1); do ip netns pids $ns | xargs -r kill -9; done
for ns in $(spaces $1); do ip netns del $ns; done
grep -o " $2/[^ ]*" /proc/mounts | xargs -r umount -l
[ "$word" = keep ] || rm -rf "$2"
"#;

/// Network namespaces of a test.
pub struct TestNamespaces {
    prefix: String,
    folder: PathBuf,
    keeper: Child,
}

impl TestNamespaces {
    /// Creates an empty set. Names begin with `kind`, which should be a few letters, and contain the process ID.
    #[must_use]
    pub fn new(kind: &str) -> TestNamespaces {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("{kind}{}-{number}-", std::process::id());
        let folder = std::env::temp_dir().join(format!("netalytics-{prefix}bed"));
        std::fs::create_dir_all(&folder).expect("a folder");
        let keeper = Command::new("bash")
            .args(["-c", KEEPER, "keeper", &prefix])
            .arg(&folder)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("bash runs");
        TestNamespaces {
            prefix,
            folder,
            keeper,
        }
    }

    /// The name of a host's namespace.
    #[must_use]
    pub fn name(&self, host: &str) -> String {
        format!("{}{host}", self.prefix)
    }

    /// Directory of the namespaces.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Creates a host's namespace with a loopback interface.
    ///
    /// # Errors
    /// The message of `ip`.
    pub fn add(&self, host: &str) -> Result<(), String> {
        let ns = self.name(host);
        ip(&format!("netns add {ns}"))?;
        ip(&format!("-n {ns} link set lo up"))
    }

    /// A namespace without IPv6, so that it sends nothing on its own.
    ///
    /// # Errors
    /// The message of `ip`.
    pub fn add_quiet(&self, host: &str) -> Result<(), String> {
        self.add(host)?;
        for which in ["all", "default"] {
            let setting = format!("net.ipv6.conf.{which}.disable_ipv6=1");
            run(self.within(host, "sysctl").args(["-qw", &setting]))?;
        }
        Ok(())
    }

    /// A command in a host's namespace. `ip` replaces itself with the program, so that the process IDs are equal.
    #[must_use]
    pub fn within(&self, host: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.name(host), program])
            .stdin(Stdio::null());
        command
    }
}

impl Drop for TestNamespaces {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the logs are in {}", self.folder.display());
            let _ = self
                .keeper
                .stdin
                .as_mut()
                .map(|input| input.write_all(b"keep\n"));
        }
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// The output of a command.
///
/// # Errors
/// The command's error output, or the reason it could not be started.
pub fn run(command: &mut Command) -> Result<String, String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{command:?}: {e}"))?;
    let why = || {
        format!(
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )
    };
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
        .ok_or_else(why)
}

/// Runs `ip` with these arguments.
///
/// # Errors
/// The message of `ip`.
pub fn ip(words: &str) -> Result<(), String> {
    run(Command::new("ip").args(words.split_whitespace())).map(drop)
}
