//! Keys of one message with the lengths of their values, concatenated in a reusable buffer.

/// Maximum key comparisons per response: bounds the work for keys in another order.
const COMPARISONS_MAX: u32 = 1 << 16;
/// Maximum memory that a queue slot keeps for the next message.
const KEPT_BYTES: usize = 1 << 12;

/// A key and the length of its value.
#[derive(Clone, Copy, Debug)]
struct MemcachedKey {
    /// End in the buffer.
    end: u32,
    value_bytes: Option<u64>,
}

/// Keys of one message.
#[derive(Debug, Default)]
pub struct MemcachedKeys {
    bytes: Vec<u8>,
    keys: Vec<MemcachedKey>,
}

/// Expected position of the next returned key: servers respond in the requested order, proxies in any.
#[derive(Clone, Copy, Debug)]
pub struct MemcachedKeyCursor {
    next: usize,
    left: u32,
}

impl Default for MemcachedKeyCursor {
    fn default() -> Self {
        MemcachedKeyCursor {
            next: 0,
            left: COMPARISONS_MAX,
        }
    }
}

impl MemcachedKeyCursor {
    /// Whether the last requested key has been returned, and was the last one returned.
    pub fn is_behind(self, keys: &MemcachedKeys) -> bool {
        self.next > 0 && self.next == keys.len()
    }
}

impl MemcachedKeys {
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.keys.clear();
    }

    /// Frees memory above the limit.
    #[inline]
    pub fn trim(&mut self) {
        if self.bytes.capacity() + self.keys.capacity() * size_of::<MemcachedKey>() > KEPT_BYTES {
            *self = MemcachedKeys::default();
        }
    }

    #[inline]
    pub fn push(&mut self, key: &[u8], value_bytes: Option<u64>) {
        self.bytes.extend_from_slice(key);
        self.keys.push(MemcachedKey {
            end: self.bytes.len() as u32,
            value_bytes,
        });
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Memory in use, in bytes.
    #[inline]
    pub fn weight(&self) -> usize {
        self.bytes.len() + self.keys.len() * size_of::<MemcachedKey>()
    }

    /// Key `i` with the length of its value.
    #[inline]
    pub fn get(&self, i: usize) -> Option<(&[u8], Option<u64>)> {
        let key = self.keys.get(i)?;
        let start = i.checked_sub(1).map_or(0, |before| self.keys[before].end);
        Some((
            &self.bytes[start as usize..key.end as usize],
            key.value_bytes,
        ))
    }

    /// All keys.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Option<u64>)> {
        (0..self.len()).filter_map(|i| self.get(i))
    }

    /// Index of `key`.
    #[inline]
    fn find(
        &self,
        key: &[u8],
        cursor: &mut MemcachedKeyCursor,
        skips: impl Fn(Option<u64>) -> bool,
    ) -> Option<usize> {
        let n = self.len();
        for step in 0..n {
            let i = if cursor.next + step < n {
                cursor.next + step
            } else {
                cursor.next + step - n
            };
            cursor.left = cursor.left.checked_sub(1)?;
            let (asked, value_bytes) = self.get(i)?;
            if asked == key && !skips(value_bytes) {
                cursor.next = i + 1;
                return Some(i);
            }
        }
        None
    }

    /// Records that `key` was returned with a value of `value_bytes`. Returns whether it was requested.
    #[inline]
    pub fn came(&mut self, key: &[u8], value_bytes: u64, cursor: &mut MemcachedKeyCursor) -> bool {
        let Some(i) = self.find(key, cursor, |value_bytes| value_bytes.is_some()) else {
            return false;
        };
        self.keys[i].value_bytes = Some(value_bytes);
        true
    }

    /// Whether it contains `key`.
    #[inline]
    pub fn has(&self, key: &[u8]) -> bool {
        self.find(key, &mut MemcachedKeyCursor::default(), |_| false)
            .is_some()
    }

    /// Whether it contains all of `others`.
    pub fn has_all(&self, others: &MemcachedKeys) -> bool {
        let mut cursor = MemcachedKeyCursor::default();
        others
            .iter()
            .all(|(key, _)| self.find(key, &mut cursor, |_| false).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(all: &[&str]) -> MemcachedKeys {
        let mut keys = MemcachedKeys::default();
        all.iter().for_each(|key| keys.push(key.as_bytes(), None));
        keys
    }

    #[test]
    fn keys_come_back_in_any_order_and_once_each() {
        let mut asked = keys(&["a", "", "bb", "a"]);
        let mut cursor = MemcachedKeyCursor::default();
        for (key, bytes, was_asked) in [
            ("bb", 1, true),
            ("a", 2, true),
            ("a", 3, true),
            ("a", 4, false),
            ("c", 5, false),
        ] {
            assert_eq!(
                asked.came(key.as_bytes(), bytes, &mut cursor),
                was_asked,
                "{key}"
            );
        }
        let all: Vec<_> = asked.iter().collect();
        assert_eq!(
            all,
            [
                (&b"a"[..], Some(3)),
                (b"", None),
                (b"bb", Some(1)),
                (b"a", Some(2))
            ]
        );
        assert!(asked.has(b"bb") && !asked.has(b"b"));
        assert!(asked.has_all(&keys(&["bb", "a"])) && !asked.has_all(&keys(&["a", "x"])));
    }

    #[test]
    fn work_and_memory_are_bounded() {
        let many: Vec<String> = (0..2000).map(|i| i.to_string()).collect();
        let mut asked = keys(&many.iter().map(String::as_str).collect::<Vec<_>>());
        let mut cursor = MemcachedKeyCursor::default();
        assert!((0..100).all(|_| !asked.came(b"x", 1, &mut cursor)) && cursor.left == 0);
        asked.clear();
        asked.trim();
        assert_eq!((asked.len(), asked.bytes.capacity()), (0, 0));
    }
}
