//! The computed columns of a query in order of appearance, without duplicates.

use std::cell::OnceCell;

use plan::{Column, ComputedField};
use tuple::Field;

/// Maximum computed columns of a query.
pub(crate) const COMPUTED_MAX: usize = 256;

/// An append-only list whose elements can be borrowed while it grows.
pub(crate) struct ComputedFields(Vec<OnceCell<ComputedField>>);

impl ComputedFields {
    /// Creates an empty list.
    pub(crate) fn new() -> ComputedFields {
        ComputedFields((0..COMPUTED_MAX).map(|_| OnceCell::new()).collect())
    }

    /// The field of the column at index `place`.
    pub(crate) fn field(&self, place: usize) -> &Field {
        &self.0[place].get().expect("the column is there").field
    }

    /// Adds a column, or finds an equal one; `None` if there are too many.
    pub(crate) fn add(&self, computed: ComputedField) -> Option<Column> {
        let is_it = |c: &ComputedField| c.expr == computed.expr && c.field == computed.field;
        let known = |cell: &OnceCell<ComputedField>| cell.get().is_none_or(is_it);
        let place = self.0.iter().position(known)?;
        self.0[place].get_or_init(|| computed);
        Some(Column::computed(place))
    }

    /// All columns.
    pub(crate) fn list(self) -> Vec<ComputedField> {
        self.0.into_iter().map_while(OnceCell::into_inner).collect()
    }
}
