//! Numbers of information elements.

/// Number of an information element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ElementId {
    /// Private enterprise number; 0 for the elements of IANA's registry.
    pub enterprise: u32,
    /// Number within the registry of the enterprise.
    pub id: u16,
}

/// Stands for the scopes of NetFlow v9 (RFC 3954 section 6.1), whose numbers are not those of elements.
const V9_SCOPE: u32 = u32::MAX;

impl ElementId {
    pub(crate) fn v9_scope(id: u16) -> ElementId {
        ElementId {
            enterprise: V9_SCOPE,
            id,
        }
    }
}
