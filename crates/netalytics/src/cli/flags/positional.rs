//! Words without a flag, put where they belong. `-r` and `-i` take every word up to the next flag: files or an
//! interface, followed in any order by the query and a capture filter, as in tcpdump.

use std::path::{Path, PathBuf};

use super::QueryText;
use super::live::LiveFlags;

/// First words of capture filters that begin no query; a file with such a name is read as a file.
const FILTER_BEGINS: &[&str] = &[
    "ah",
    "arp",
    "atalk",
    "broadcast",
    "dst",
    "esp",
    "ether",
    "fddi",
    "geneve",
    "gateway",
    "greater",
    "host",
    "icmp",
    "icmp6",
    "igmp",
    "ip",
    "ip6",
    "less",
    "link",
    "llc",
    "mpls",
    "multicast",
    "net",
    "not",
    "port",
    "portrange",
    "pppoed",
    "pppoes",
    "proto",
    "rarp",
    "sctp",
    "src",
    "stp",
    "tcp",
    "udp",
    "vlan",
    "vxlan",
    "!",
    "(",
];

/// First words of queries.
const QUERY_BEGINS: [&str; 2] = ["PARSE", "SELECT"];

/// Positional arguments, and the words after `-r` and `-i`.
pub struct PositionalArguments<'f> {
    /// Words after `-r`.
    pub read: &'f mut Vec<PathBuf>,
    /// Words after each `-i`.
    pub interfaces: Vec<Vec<String>>,
    /// Words after no flag; the query is removed from them.
    pub others: &'f mut Vec<String>,
    /// The query, if the command has one.
    pub query: Option<&'f mut QueryText>,
    /// Flags of live capture; receive interfaces and filter.
    pub live: &'f mut LiveFlags,
    /// Reader of the packets.
    pub input: InputLocation,
    /// Whether the command runs without a query.
    pub may_lack: bool,
}

/// Reader of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputLocation {
    /// This process: a source is required.
    Here,
    /// Other processes, with sources of their own.
    Elsewhere,
}

impl PositionalArguments<'_> {
    /// Determines input, query, and capture filter.
    ///
    /// # Errors
    /// The missing or repeated argument.
    pub fn settle(mut self) -> Result<(), String> {
        self.take_query();
        self.take_files()?;
        let mut filters = vec![self.take_filter_behind_files()];
        for mut words in self.interfaces {
            filters.push(words.split_off(1).join(" "));
            self.live.add_interfaces(&words[0]);
        }
        filters.push(std::mem::take(self.others).join(" "));
        filters.extend(self.live.capture_filter.clone());
        filters.retain(|filter| !filter.trim().is_empty());
        if filters.len() > 1 {
            return Err(format!(
                "the capture filter is given twice: {}",
                filters.join(" … ")
            ));
        }
        self.live.filter = filters.pop().unwrap_or_default();
        if !self.may_lack && self.query.is_some_and(|text| !is_given(text)) {
            return Err("no query: specify QUERY in quotes, or -f FILE".into());
        }
        if self.input == InputLocation::Here && self.read.is_empty() && !self.live.is_live() {
            return Err(
                "no input: -r FILE reads captures and recordings, -i IFACE captures live".into(),
            );
        }
        Ok(())
    }

    /// Finds the query among files and after interfaces.
    fn take_query(&mut self) {
        let Some(text) = self.query.as_mut().filter(|text| !is_given(text)) else {
            return;
        };
        let is_text = |path: &PathBuf| path.to_str().is_some_and(is_query) && !path.exists();
        text.query = match self.read.iter().position(is_text) {
            Some(at) => self.read.remove(at).to_str().map(str::to_owned),
            None => self.interfaces.iter_mut().find_map(take_query),
        };
    }

    /// Reads words without a flag as files if there is no other input and they exist.
    fn take_files(&mut self) -> Result<(), String> {
        let query = self.query.as_ref().and_then(|text| text.query.clone());
        if query.is_some_and(|query| QUERY_BEGINS.iter().any(|word| query.trim() == *word)) {
            return Err("the query is one argument: put it in quotes".into());
        }
        let has_input = !self.read.is_empty() || self.live.is_live() || !self.interfaces.is_empty();
        if has_input || self.input != InputLocation::Here {
            return Ok(());
        }
        // The query's place may be taken by a file.
        if let Some(text) = self.query.as_mut()
            && let Some(at) = self.others.iter().position(|word| is_query(word))
            && let Some(file) = &mut text.query
            && Path::new(file).exists()
        {
            std::mem::swap(file, &mut self.others[at]);
        }
        let files = self
            .others
            .iter()
            .take_while(|word| Path::new(word).exists());
        let files = files.count();
        self.read
            .extend(self.others.drain(..files).map(PathBuf::from));
        Ok(())
    }

    /// The capture filter after the files, if there is one.
    fn take_filter_behind_files(&mut self) -> String {
        let begins = |path: &PathBuf| path.to_str().is_some_and(begins_filter) && !path.exists();
        let Some(at) = self.read.iter().position(begins).filter(|at| *at > 0) else {
            return String::new();
        };
        let words = self.read.split_off(at);
        words
            .iter()
            .map(|word| word.to_string_lossy())
            .collect::<Vec<_>>()
            .join(" ")
    }
}

pub fn is_given(text: &QueryText) -> bool {
    text.query.is_some() || text.query_file.is_some()
}

fn take_query(words: &mut Vec<String>) -> Option<String> {
    let at = words.iter().skip(1).position(|word| is_query(word))?;
    Some(words.remove(at + 1))
}

/// Whether a word is a query: PARSE or SELECT, and more.
fn is_query(word: &str) -> bool {
    QUERY_BEGINS.iter().any(|begin| {
        let (first, rest) = word
            .trim_start()
            .split_at_checked(begin.len())
            .unwrap_or_default();
        first.eq_ignore_ascii_case(begin)
            && rest.starts_with(|c: char| c.is_whitespace() || c == '(')
    })
}

/// The first word of `tcp port 80`, which may be one word for the shell, `tcp[13] & 2 != 0` or `(host a or host b)`.
fn begins_filter(word: &str) -> bool {
    let end = word
        .find(|c: char| !c.is_ascii_alphanumeric())
        .unwrap_or(word.len());
    let behind = &word[end..];
    let first = if end == 0 {
        word.get(..1).unwrap_or_default()
    } else {
        &word[..end]
    };
    FILTER_BEGINS.contains(&first)
        && (end == 0 || behind.is_empty() || behind.starts_with([' ', '[']))
}

#[cfg(test)]
mod tests {
    use crate::cli::flags::{Cli, CliCommand, in_our_words, parse};

    /// Query, files, interfaces, and filter of a command line.
    fn settled(line: &[&str]) -> Result<(String, String, String, String), String> {
        let words = ["netalytics", "query"].iter().chain(line);
        let cli: Cli = parse(words).map_err(|error| in_our_words(&error))?;
        let Some(CliCommand::Query(flags)) = cli.verb else {
            panic!("a query")
        };
        let work = flags.query.work;
        let files: Vec<_> = work
            .read
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        let query = work.text.query.unwrap_or_default();
        Ok((
            query,
            files.join(" "),
            work.live.interfaces.join(" "),
            work.live.filter,
        ))
    }

    #[test]
    fn words_find_their_places() {
        const Q: &str = "PARSE http";
        for (line, files, interfaces, filter) in [
            (&[Q, "-r", "a", "b"][..], "a b", "", ""),
            (&["-r", "a", "b", Q], "a b", "", ""),
            (&["-r", "a", Q, "tcp", "port", "80"], "a", "", "tcp port 80"),
            (&["-r", "a", "tcp port 80", Q], "a", "", "tcp port 80"),
            (&[Q, "-r", "tcp"], "tcp", "", ""),
            (&[Q, "-r", "a", "tcp.pcap"], "a tcp.pcap", "", ""),
            (&[Q, "-r", "a", "(host", "h)"], "a", "", "(host h)"),
            (
                &[Q, "-r", "a", "tcp[13] & 2 != 0"],
                "a",
                "",
                "tcp[13] & 2 != 0",
            ),
            (&[Q, "tcp", "port", "80", "-r", "a"], "a", "", "tcp port 80"),
            (&[Q, "-r", "a", "--capture-filter", "udp"], "a", "", "udp"),
            (&["-i", "eth0", Q], "", "eth0", ""),
            (
                &["-i", "eth0", Q, "tcp", "port", "80"],
                "",
                "eth0",
                "tcp port 80",
            ),
            (
                &["-i", "eth0", "tcp", "port", "80", Q],
                "",
                "eth0",
                "tcp port 80",
            ),
            (
                &[Q, "-i", "eth0", "-i", "eth1", "udp"],
                "",
                "eth0 eth1",
                "udp",
            ),
            (&[Q, "-i", "eth0,eth1", "udp"], "", "eth0 eth1", "udp"),
            (
                &[Q, "-i", "eth0,eth1", "--capture", "dpdk"],
                "",
                "eth0,eth1",
                "",
            ),
            (
                &[
                    "-i",
                    "eth0",
                    "-i",
                    "eth1",
                    "--capture-filter",
                    "udp",
                    "--",
                    Q,
                ],
                "",
                "eth0 eth1",
                "udp",
            ),
        ] {
            let found = settled(line).unwrap_or_else(|error| panic!("{line:?}: {error}"));
            assert_eq!(
                found,
                (Q.into(), files.into(), interfaces.into(), filter.into()),
                "{line:?}"
            );
        }
    }

    /// Files need no flag if nothing else is read.
    #[test]
    fn files_without_a_flag_are_read() {
        const FILE: &str = "Cargo.toml";
        const Q: &str = "SELECT * FROM http";
        for (line, files, filter) in [
            (&[Q, FILE][..], FILE, ""),
            (&[FILE, Q], FILE, ""),
            (&[Q, FILE, "tcp", "port", "80"], FILE, "tcp port 80"),
            (&[Q, FILE, "-r", "a"], "a", FILE),
        ] {
            let found = settled(line).unwrap_or_else(|error| panic!("{line:?}: {error}"));
            assert_eq!(
                found,
                (Q.into(), files.into(), String::new(), filter.into())
            );
        }
    }

    #[test]
    fn missing_and_duplicate_arguments_are_reported() {
        for (line, words) in [
            (&["PARSE", "http", "-r", "a"][..], &["quotes"][..]),
            (&["PARSE http", "-r", "a", "-Y", "tcp"], &["WHERE"]),
            (&["PARSE http", "-r", "a", "--for", "10s"], &["LIMIT"]),
            (&["PARSE http"], &["-r", "-i"]),
            (&["-r", "a"], &["QUERY", "-f"]),
            (
                &["PARSE http", "-i", "eth0", "tcp", "--capture-filter", "udp"],
                &["twice", "tcp", "udp"],
            ),
            (
                &["PARSE http", "-i", "eth0", "tcp", "-i", "eth1", "udp"],
                &["twice"],
            ),
            (
                &["PARSE http", "-i", "eth0", "-r", "a"],
                &["cannot be used with"],
            ),
        ] {
            let error = settled(line).expect_err("it is wrong");
            assert!(
                words.iter().all(|word| error.contains(word)),
                "{line:?}: {error}"
            );
        }
    }
}
