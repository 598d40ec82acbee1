//! Names of file handles, learned from the replies of one connection: a bounded table of handles with their
//! names and directories. Names are evicted by the second-chance algorithm.

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

/// Maximum number of handles.
const HANDLES_MAX: usize = 4096;
/// Maximum length of a name.
const NAME_BYTES_MAX: usize = 255;
/// Maximum depth of a path.
const DEPTH_MAX: usize = 64;

/// Names learned on one connection.
#[derive(Default)]
pub struct FileHandleNames {
    nodes: Vec<FileHandleNode>,
    by_handle: HashTable<u32>,
    /// Position of the clock hand for eviction.
    hand: usize,
    generation: u32,
    /// Number of evicted names.
    pub evicted: u64,
}

struct FileHandleNode {
    handle: Box<[u8]>,
    /// Empty if only names in this directory are known.
    name: Box<[u8]>,
    parent: Option<FileHandleId>,
    generation: u32,
    used: bool,
}

/// Reference to a node, invalid after its slot was reused.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileHandleId {
    at: u32,
    generation: u32,
}

impl FileHandleNames {
    /// Records that `handle` is named `name` in the directory `parent`; without a parent it is a mounted
    /// directory, and `name` its path.
    pub fn learn(&mut self, parent: Option<&[u8]>, name: &[u8], handle: &[u8]) {
        if name.len() > NAME_BYTES_MAX || parent.is_some() && matches!(name, b"" | b"." | b"..") {
            return;
        }
        let parent = parent.map(|parent| self.place_beside(parent, None));
        let place = self.place_beside(handle, parent);
        let node = &mut self.nodes[place.at as usize];
        node.parent = parent.filter(|parent| *parent != place);
        if *node.name != *name {
            node.name = name.into();
        }
    }

    /// Renames an entry: `from` and `to` are directory handle and name.
    pub fn rename(&mut self, from: (&[u8], &[u8]), to: (&[u8], &[u8])) {
        let Some(parent) = self.find(from.0) else {
            return;
        };
        let child = self
            .nodes
            .iter()
            .position(|n| n.parent == Some(parent) && *n.name == *from.1);
        if let Some(child) = child {
            let handle = self.nodes[child].handle.clone();
            self.learn(Some(to.0), to.1, &handle);
        }
    }

    /// Appends the path of `handle`, or of its entry `name`, with all known parent directories; absolute if a
    /// mounted directory is known. Appends nothing if nothing is known.
    pub fn path(&mut self, handle: Option<&[u8]>, name: Option<&[u8]>, path: &mut Vec<u8>) {
        let mut parts: Vec<u32> = Vec::new();
        let mut next = handle.and_then(|handle| self.find(handle));
        while let Some(place) = next
            && parts.len() < DEPTH_MAX
        {
            let Some(node) = self.nodes.get_mut(place.at as usize) else {
                break;
            };
            if node.generation != place.generation || node.name.is_empty() {
                break;
            }
            node.used = true;
            parts.push(place.at);
            next = node.parent;
        }
        let known = parts.iter().rev().map(|at| &*self.nodes[*at as usize].name);
        for part in known.chain(name) {
            if !path.is_empty() && !path.ends_with(b"/") {
                path.push(b'/');
            }
            path.extend_from_slice(part);
        }
    }

    fn find(&self, handle: &[u8]) -> Option<FileHandleId> {
        let at = *self.by_handle.find(xxh3_64(handle), |at| {
            *self.nodes[*at as usize].handle == *handle
        })?;
        Some(FileHandleId {
            at,
            generation: self.nodes[at as usize].generation,
        })
    }

    /// The node of `handle`, existing or new; `parent` is not evicted.
    fn place_beside(&mut self, handle: &[u8], parent: Option<FileHandleId>) -> FileHandleId {
        if let Some(place) = self.find(handle) {
            self.nodes[place.at as usize].used = true;
            return place;
        }
        self.generation = self.generation.wrapping_add(1);
        let node = FileHandleNode {
            handle: handle.into(),
            name: Box::default(),
            parent: None,
            generation: self.generation,
            used: true,
        };
        let at = if self.nodes.len() < HANDLES_MAX {
            self.nodes.push(node);
            self.nodes.len() - 1
        } else {
            let at = self.free(parent.map(|parent| parent.at as usize));
            self.nodes[at] = node;
            at
        };
        let nodes = &self.nodes;
        self.by_handle
            .insert_unique(xxh3_64(handle), at as u32, |at| {
                xxh3_64(&nodes[*at as usize].handle)
            });
        FileHandleId {
            at: at as u32,
            generation: self.generation,
        }
    }

    /// Evicts a node that has not been used since the hand's last pass; `keep` stays.
    fn free(&mut self, keep: Option<usize>) -> usize {
        while std::mem::take(&mut self.nodes[self.hand].used) || Some(self.hand) == keep {
            self.hand = (self.hand + 1) % HANDLES_MAX;
        }
        let at = self.hand;
        let hash = xxh3_64(&self.nodes[at].handle);
        if let Ok(entry) = self
            .by_handle
            .find_entry(hash, |other| *other as usize == at)
        {
            entry.remove();
        }
        self.hand = (self.hand + 1) % HANDLES_MAX;
        self.evicted += 1;
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(names: &mut FileHandleNames, handle: &[u8], name: Option<&[u8]>) -> String {
        let mut path = Vec::new();
        names.path(Some(handle), name, &mut path);
        String::from_utf8(path).expect("the tests' names are ASCII")
    }

    #[test]
    fn paths_contain_all_known_names() {
        let mut names = FileHandleNames::default();
        names.learn(Some(b"A"), b"b", b"B");
        names.learn(Some(b"B"), b"c", b"C");
        assert_eq!(path(&mut names, b"C", None), "b/c");
        assert_eq!(path(&mut names, b"A", Some(b"x")), "x");
        assert_eq!(path(&mut names, b"Z", None), "");
        names.learn(None, b"/export", b"A");
        assert_eq!(path(&mut names, b"C", None), "/export/b/c");
        assert_eq!(path(&mut names, b"C", Some(b"d")), "/export/b/c/d");
        names.rename((b"A", b"b"), (b"A", b"x"));
        assert_eq!(path(&mut names, b"C", None), "/export/x/c");
        names.learn(None, b"/", b"A");
        assert_eq!(path(&mut names, b"B", None), "/x");
    }

    #[test]
    fn circles_end() {
        let mut names = FileHandleNames::default();
        names.learn(Some(b"A"), b"b", b"B");
        names.learn(Some(b"B"), b"a", b"A");
        names.learn(Some(b"C"), b"c", b"C");
        assert_eq!(
            path(&mut names, b"A", None).matches('/').count(),
            DEPTH_MAX - 1
        );
        assert_eq!(path(&mut names, b"C", None), "c");
    }

    #[test]
    fn table_is_bounded_and_keeps_recent_names() {
        let mut names = FileHandleNames::default();
        names.learn(None, b"/export", b"root");
        for i in 0..3 * HANDLES_MAX as u32 {
            names.learn(Some(b"root"), &i.to_string().into_bytes(), &i.to_be_bytes());
        }
        assert_eq!(
            (names.nodes.len(), names.by_handle.len()),
            (HANDLES_MAX, HANDLES_MAX)
        );
        assert_eq!(names.evicted, 2 * HANDLES_MAX as u64 + 1);
        assert_eq!(
            path(
                &mut names,
                &(3 * HANDLES_MAX as u32 - 1).to_be_bytes(),
                None
            ),
            "/export/12287"
        );
        assert_eq!(path(&mut names, &0u32.to_be_bytes(), None), "");
    }
}
