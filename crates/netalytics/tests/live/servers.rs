//! nginx, MariaDB and memcached in a namespace, with request logs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::net::{SERVER, shell, within};

/// Kinds of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Nginx,
    MariaDb,
    Memcached,
}

/// Some of the three at one address, ended on drop.
pub struct Servers {
    ns: String,
    address: String,
    folder: TempDir,
    children: Vec<Child>,
}

impl Servers {
    /// All of them. `None` if one is missing and `ALLOW_MISSING` names it.
    pub fn start(ns: &str) -> Option<Servers> {
        testkit::require!(
            "nginx",
            "mariadbd",
            "mariadb-install-db",
            "mariadb",
            "memcached",
            "curl",
            "wrk"
        );
        let kinds = [Kind::Nginx, Kind::Memcached, Kind::MariaDb];
        Some(Servers::at(ns, SERVER, &std::env::temp_dir(), &kinds))
    }

    /// Starts servers at an address of a namespace; each has its own folder in `folder`.
    pub fn at(ns: &str, address: &str, folder: &Path, kinds: &[Kind]) -> Servers {
        let folder = TempDir::new_in(folder).expect("a folder for servers");
        let ns = ns.to_owned();
        let address = address.to_owned();
        let mut servers = Servers {
            ns,
            address,
            folder,
            children: Vec::new(),
        };
        for kind in kinds {
            match kind {
                Kind::Nginx => servers.start_nginx(),
                Kind::MariaDb => servers.start_mariadb(),
                Kind::Memcached => servers.start_memcached(),
            }
        }
        for kind in kinds {
            wait_for_port(&servers.ns, &servers.address, kind.port());
        }
        if kinds.contains(&Kind::MariaDb) {
            servers.prepare_mariadb();
        }
        servers
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Lines of a log from `offset` on.
    pub fn log(&self, name: &str, offset: usize) -> Vec<String> {
        let log = fs::read(self.path(name)).expect("a log");
        String::from_utf8_lossy(&log[offset..])
            .lines()
            .map(str::to_owned)
            .collect()
    }

    pub fn log_len(&self, name: &str) -> usize {
        fs::metadata(self.path(name)).expect("a log").len() as usize
    }

    fn start_nginx(&mut self) {
        let address = &self.address;
        let dir = self.folder.path().display();
        let temp = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|of| format!("{of}_temp_path {dir}/{of};"))
            .join(" ");
        let config = format!(
            "user root; daemon off; master_process off; pid {dir}/nginx.pid; error_log {dir}/error.log;
             events {{ worker_connections 512; }}
             http {{ {temp}
               log_format asked '$request_method $request_uri $status';
               access_log {dir}/access.log asked;
               server {{ listen {address}:80; keepalive_requests 100000;
                 location /item/ {{ return 200 \"an item\\n\"; }}
                 location /old/ {{ return 302 /item/1; }}
                 location / {{ return 404; }} }} }}"
        );
        fs::write(self.path("nginx.conf"), config).expect("a configuration");
        let path = self.path("nginx.conf");
        self.spawn("nginx", &["-c", path.to_str().expect("UTF-8")], "nginx.out");
    }

    fn start_memcached(&mut self) {
        let address = self.address.clone();
        let args = [
            "-u", "root", "-l", &address, "-p", "11211", "-U", "0", "-m", "32", "-t", "1", "-vv",
        ];
        self.spawn("memcached", &args, "memcached.log");
    }

    fn start_mariadb(&mut self) {
        let dir = self.folder.path().display();
        let made = Command::new("mariadb-install-db")
            .args(["--no-defaults", "--skip-test-db", "--user=root"])
            .args([
                &format!("--datadir={dir}/my"),
                "--auth-root-authentication-method=normal",
            ])
            .output();
        assert!(made.expect("it starts").status.success());
        let args = [
            "--no-defaults",
            "--user=root",
            "--port=3306",
            "--skip-name-resolve",
            "--innodb-buffer-pool-size=16M",
            "--innodb-flush-log-at-trx-commit=0",
            "--general-log=1",
            &format!("--bind-address={}", self.address),
            &format!("--datadir={dir}/my"),
            &format!("--socket={dir}/my.sock"),
            &format!("--pid-file={dir}/my.pid"),
            &format!("--general-log-file={dir}/general.log"),
        ];
        self.spawn("mariadbd", &args, "mariadb.out");
    }

    fn prepare_mariadb(&self) {
        const STATEMENTS: &str = "CREATE DATABASE shop; CREATE USER app@'%' IDENTIFIED BY 'secret'; \
            GRANT ALL ON shop.* TO app@'%'; CREATE TABLE shop.item (id INT PRIMARY KEY, name VARCHAR(40))";
        let socket = self.path("my.sock");
        let made = Command::new("mariadb")
            .args([
                "--no-defaults",
                "-uroot",
                "-S",
                socket.to_str().expect("UTF-8"),
                "-e",
                STATEMENTS,
            ])
            .output()
            .expect("it starts");
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
    }

    fn spawn(&mut self, program: &str, args: &[&str], log: &str) {
        let log = File::create(self.path(log)).expect("a log");
        let child = within(&self.ns, program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log)
            .spawn()
            .expect("a server");
        self.children.push(child);
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for child in &mut self.children {
            // The servers' data is discarded.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Kind {
    fn port(self) -> u16 {
        match self {
            Kind::Nginx => 80,
            Kind::MariaDb => 3306,
            Kind::Memcached => 11211,
        }
    }
}

/// Waits for a listener.
pub fn wait_for_port(ns: &str, address: &str, port: u16) {
    let connect = format!(
        "for i in $(seq 600); do (exec 3<>/dev/tcp/{address}/{port}) 2>/dev/null && exit 0; sleep 0.05; done; exit 1"
    );
    shell(ns, &connect);
}

/// Waits until a log stops growing.
pub fn settled(path: &Path) {
    let len = || fs::metadata(path).map_or(0, |m| m.len());
    let mut before = u64::MAX;
    while before != len() {
        before = len();
        std::thread::sleep(Duration::from_millis(100));
    }
}
