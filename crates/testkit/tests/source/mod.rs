//! Rust files without comments, literals, and tests, and the dependencies between files by their imports.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A file.
pub struct Source {
    /// Path of the file.
    pub path: PathBuf,
    /// Path of the file's module, from the crate's root.
    module: Vec<String>,
    /// Code without comments, texts, and tests.
    code: String,
}

/// A `use`, written out: `use a::{b, c as d}` are two.
struct Import {
    path: Vec<String>,
    /// Local name.
    name: String,
    /// Others may import it from here.
    is_public: bool,
}

impl Source {
    /// The files below a crate's `src`, those of tests aside.
    pub fn all_in(src: &Path) -> Vec<Source> {
        let mut folders = vec![src.to_path_buf()];
        let mut found = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in
                fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
            {
                let path = entry.expect("an entry").path();
                let name = path
                    .file_stem()
                    .map(|stem| stem.to_string_lossy().into_owned())
                    .unwrap_or_default();
                match path.extension() {
                    _ if name == "tests" || name.starts_with("test_") => {}
                    _ if path.is_dir() => folders.push(path),
                    Some(rs) if rs == "rs" => found.push(Source::read(src, path)),
                    _ => {}
                }
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        found
    }

    fn read(src: &Path, path: PathBuf) -> Source {
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let code = without_comments_and_texts(&text);
        let code = without_tests(&code).to_owned();
        let below = path
            .strip_prefix(src)
            .expect("it lies there")
            .with_extension("");
        let mut module: Vec<String> = below
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect();
        module.pop_if(|last| matches!(&**last, "mod" | "lib" | "main"));
        Source { path, module, code }
    }

    /// Whether the code contains a word or path.
    pub fn has_word(&self, word: &str) -> bool {
        let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        self.code.match_indices(word).any(|(at, _)| {
            !is_part(self.code[..at].chars().next_back())
                && !is_part(self.code[at + word.len()..].chars().next())
        })
    }

    fn imports(&self) -> Vec<Import> {
        let mut found = Vec::new();
        for (at, _) in self.code.match_indices("use ") {
            let before = self.code[..at].trim_end_matches(' ');
            if !before.is_empty()
                && !before.ends_with(['\n', '{', ';', '}', ')'])
                && !before.ends_with("pub")
            {
                continue;
            }
            let tree = self.code[at + 4..].split(';').next().unwrap_or_default();
            let is_public = before.ends_with("pub") || before.ends_with(')');
            let mut paths = Vec::new();
            expand(tree, &[], &mut paths);
            found.extend(paths.into_iter().map(|(path, name)| Import {
                path,
                name,
                is_public,
            }));
        }
        found
    }

    /// Paths outside of `use` that begin at the crate or at a module above.
    fn paths(&self) -> Vec<Vec<String>> {
        let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        // The front of a `use` ends with colons.
        let words = self
            .code
            .split(|c| !is_path(c))
            .filter(|word| word.contains("::") && !word.ends_with(':'));
        let paths = words.map(|word| word.split("::").map(str::to_owned).collect());
        paths
            .filter(|path: &Vec<String>| matches!(&*path[0], "crate" | "super" | "self"))
            .collect()
    }
}

/// The part of a file before its module of tests. Modules of tests in their own files do not end it.
fn without_tests(code: &str) -> &str {
    const BEGINNING: &str = "#[cfg(test)]\nmod ";
    let mut found = code.match_indices(BEGINNING).map(|(at, _)| at);
    let is_inline = |at: &usize| {
        code[at + BEGINNING.len()..]
            .lines()
            .next()
            .is_some_and(|l| l.ends_with('{'))
    };
    found.find(is_inline).map_or(code, |at| &code[..at])
}

/// `a::{b, c as d}` to `a::b` called `b` and `a::c` called `d`.
fn expand(tree: &str, front: &[String], found: &mut Vec<(Vec<String>, String)>) {
    let tree = tree.trim();
    let (head, group) = match tree.split_once('{') {
        Some((head, rest)) => (head, Some(rest.strip_suffix('}').unwrap_or(rest))),
        None => (tree, None),
    };
    let (head, alias) = head
        .split_once(" as ")
        .map_or((head, None), |(head, alias)| (head, Some(alias.trim())));
    let mut path = front.to_vec();
    path.extend(
        head.split("::")
            .map(|part| part.trim().to_owned())
            .filter(|part| !part.is_empty()),
    );
    let Some(group) = group else {
        path.pop_if(|last| last == "self" && !front.is_empty());
        let name = alias
            .or(path.last().map(String::as_str))
            .unwrap_or_default()
            .to_owned();
        return found.push((path, name));
    };
    let mut depth = 0;
    let mut from = 0;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&group[from..at], &path, found);
                from = at + 1;
            }
            _ => {}
        }
    }
    if !group[from..].trim().is_empty() {
        expand(&group[from..], &path, found);
    }
}

/// The pairs (file, used file) of a crate, by index; with or without the re-exports of a file.
fn uses(sources: &[Source], with_reexports: bool) -> BTreeSet<(usize, usize)> {
    let files: BTreeMap<&[String], usize> = sources
        .iter()
        .enumerate()
        .map(|(i, s)| (&s.module[..], i))
        .collect();
    let imports: Vec<Vec<Import>> = sources.iter().map(Source::imports).collect();
    let mut found = BTreeSet::new();
    for (i, source) in sources.iter().enumerate() {
        let used = imports[i]
            .iter()
            .filter(|import| with_reexports || !import.is_public);
        for path in used.map(|import| import.path.clone()).chain(source.paths()) {
            found.extend(file_of(&source.module, &path, &files, &imports, 0).map(|to| (i, to)));
        }
    }
    found
}

/// The rooms of a crate, which are the folders below `src`, and the other rooms that the files of each use.
pub fn rooms(sources: &[Source]) -> BTreeMap<String, BTreeSet<String>> {
    let in_folders = sources.iter().filter(|source| source.module.len() > 1);
    let mut rooms: BTreeMap<String, BTreeSet<String>> = in_folders
        .map(|source| (source.module[0].clone(), BTreeSet::new()))
        .collect();
    for (from, to) in uses(sources, true) {
        let (Some(from), Some(to)) = (sources[from].module.first(), sources[to].module.first())
        else {
            continue;
        };
        if from != to && rooms.contains_key(to) {
            rooms
                .entry(from.clone())
                .and_modify(|used| used.extend([to.clone()]));
        }
    }
    rooms
}

/// The files of a crate that import each other, each circle once; re-exports do not count.
pub fn circles(sources: &[Source]) -> Vec<Vec<PathBuf>> {
    let mut reaches = vec![vec![false; sources.len()]; sources.len()];
    for (from, to) in uses(sources, false) {
        reaches[from][to] |= from != to;
    }
    for via in 0..sources.len() {
        for from in 0..sources.len() {
            if reaches[from][via] {
                let row = reaches[via].clone();
                reaches[from]
                    .iter_mut()
                    .zip(row)
                    .for_each(|(mine, theirs)| *mine |= theirs);
            }
        }
    }
    let circle = |i: usize| {
        (0..sources.len())
            .filter(|j| reaches[i][*j] && reaches[*j][i])
            .collect::<Vec<_>>()
    };
    let all: BTreeSet<Vec<usize>> = (0..sources.len())
        .map(circle)
        .filter(|circle| circle.len() > 1)
        .collect();
    all.into_iter()
        .map(|circle| {
            circle
                .into_iter()
                .map(|i| sources[i].path.clone())
                .collect()
        })
        .collect()
}

/// The file that declares what `path` names, seen from `module`; `None`: another crate's.
fn file_of(
    module: &[String],
    path: &[String],
    files: &BTreeMap<&[String], usize>,
    imports: &[Vec<Import>],
    depth: u8,
) -> Option<usize> {
    let mut at = module.to_vec();
    let mut rest = path;
    match &*path[0] {
        "crate" => {
            at.clear();
            rest = &path[1..];
        }
        "self" | "super" => {
            while let Some(step @ ("self" | "super")) = rest.first().map(String::as_str) {
                if step == "super" {
                    at.pop()?;
                }
                rest = &rest[1..];
            }
        }
        child => {
            let is_child = files.contains_key(&[&at[..], &[child.to_owned()]].concat()[..]);
            if !is_child {
                return None;
            }
        }
    }
    while let Some(next) = rest.first() {
        let below = [&at[..], std::slice::from_ref(next)].concat();
        if !files.contains_key(&below[..]) {
            break;
        }
        at = below;
        rest = &rest[1..];
    }
    let file = *files.get(&at[..])?;
    let handed_on = rest.first().and_then(|name| {
        imports[file]
            .iter()
            .find(|i| i.is_public && i.name == *name)
    });
    match handed_on {
        Some(import) if depth < 8 => {
            file_of(&at, &import.path, files, imports, depth + 1).or(Some(file))
        }
        _ => Some(file),
    }
}

/// The text with comments and literals replaced by blanks.
fn without_comments_and_texts(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if c == '"' {
            end_of_text(rest)
        } else if rest.starts_with("r\"")
            || rest.starts_with("r#") && !code.ends_with(char::is_alphanumeric)
        {
            end_of_raw_text(rest)
        } else if rest.starts_with("'\"'") || rest.starts_with("'{'") || rest.starts_with("'}'") {
            3
        } else {
            code.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        code.push(' ');
        rest = &rest[skipped..];
    }
    code
}

fn end_of_text(text: &str) -> usize {
    let mut is_escaped = true;
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// End of `r#"…"#`, with any number of `#`.
fn end_of_raw_text(text: &str) -> usize {
    let hashes = text[1..].chars().take_while(|c| *c == '#').count();
    let end = format!("\"{}", "#".repeat(hashes));
    match text[1 + hashes..]
        .strip_prefix('"')
        .and_then(|inside| inside.find(&end))
    {
        Some(at) => 1 + hashes + 1 + at + end.len(),
        // `r#type`: a name.
        None => 1 + hashes,
    }
}
