//! The columns that a query computes, in the order in which they are met. Each is there once, however often it is written.

use std::cell::OnceCell;

use plan::{Column, Computed};
use tuple::Field;

/// Most columns that one query computes.
pub(crate) const COMPUTED_MAX: usize = 256;

/// A list that grows while its elements are looked at.
pub(crate) struct Computing(Vec<OnceCell<Computed>>);

impl Computing {
    /// None yet.
    pub(crate) fn new() -> Computing {
        Computing((0..COMPUTED_MAX).map(|_| OnceCell::new()).collect())
    }

    /// The field of the column at `place`.
    pub(crate) fn field(&self, place: usize) -> &Field {
        &self.0[place].get().expect("the column is there").field
    }

    /// The column, new or met before; `None` when there are too many.
    pub(crate) fn add(&self, computed: Computed) -> Option<Column> {
        let is_it = |c: &Computed| c.expr == computed.expr && c.field == computed.field;
        let known = |cell: &OnceCell<Computed>| cell.get().is_none_or(is_it);
        let place = self.0.iter().position(known)?;
        self.0[place].get_or_init(|| computed);
        Some(Column::computed(place))
    }

    /// All of them.
    pub(crate) fn list(self) -> Vec<Computed> {
        self.0.into_iter().map_while(OnceCell::into_inner).collect()
    }
}
