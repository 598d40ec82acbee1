//! Prepared statements and portals of a connection, by name.
//!
//! A Parse of the unnamed statement replaces it; a named one is closed before its name is used again. Statements are bounded in
//! bytes; portals end with their transaction.

use std::collections::HashMap;

use crate::sql::SqlDialect;
use crate::sql::prepared::{PreparedStatement, PreparedStatements};

/// Maximum named portals; more are not remembered.
const PORTALS_MAX: usize = 1024;
/// Names beyond those of remembered statements.
const NAMES_SLACK: usize = 64;

/// A statement's number and the losses of the client's bytes before its Parse.
#[derive(Clone, Copy, Debug)]
struct StatementNumber {
    id: u32,
    losses: u32,
}

/// Statements and portals.
#[derive(Default)]
pub struct PostgresStatements {
    named: HashMap<Vec<u8>, StatementNumber>,
    texts: PreparedStatements,
    next_id: u32,
    unnamed: Option<PreparedStatement>,
    /// Names of the statements of named portals.
    portals: HashMap<Vec<u8>, Vec<u8>>,
    /// Name of the statement of the unnamed portal.
    unnamed_portal: Option<Vec<u8>>,
}

/// The statement of a portal.
pub struct BoundStatement<'a> {
    pub name: Option<&'a [u8]>,
    /// Text and fingerprint of the statement, if known.
    pub statement: Option<&'a PreparedStatement>,
    /// No bytes of the client are missing since its Parse.
    pub is_proven: bool,
}

impl PostgresStatements {
    /// Records a prepared statement; `None`: its text is unknown. Returns the number of others evicted to stay within
    /// `bytes_max`.
    pub fn parse(
        &mut self,
        name: &[u8],
        text: Option<&[u8]>,
        is_shortened: bool,
        losses: u32,
        bytes_max: usize,
    ) -> u64 {
        if name.is_empty() {
            match (&self.unnamed, text) {
                (Some(known), Some(text)) if known.text == text => {}
                (_, Some(text)) => {
                    self.unnamed = Some(PreparedStatement::new(text.to_vec(), is_shortened));
                }
                (_, None) => self.unnamed = None,
            }
            return 0;
        }
        let Some(text) = text else {
            self.close(name);
            return 0;
        };
        if self.named.len() > 2 * self.texts.len() + NAMES_SLACK {
            let PostgresStatements { named, texts, .. } = self;
            named.retain(|_, number| texts.get(number.id).is_some());
        }
        self.close(name);
        self.next_id = (self.next_id + 1) & 0x7fff_ffff;
        let id = self.next_id;
        self.named
            .insert(name.to_vec(), StatementNumber { id, losses });
        self.texts
            .insert(id, text.to_vec(), is_shortened, bytes_max)
    }

    /// Removes a statement.
    pub fn close(&mut self, name: &[u8]) {
        if name.is_empty() {
            self.unnamed = None;
        } else if let Some(number) = self.named.remove(name) {
            self.texts.remove(number.id);
        }
    }

    /// Removes all statements.
    pub fn clear(&mut self) {
        *self = PostgresStatements::default();
    }

    /// Records that bytes of the client are missing, in which the unnamed statement may have been replaced.
    pub fn miss(&mut self) {
        self.unnamed = None;
        self.unnamed_portal = None;
        self.portals.clear();
    }

    /// Marks the statement named `name` as used; computes its fingerprint if it is wanted.
    pub fn find(&mut self, name: &[u8], wants_fingerprint: bool) {
        let PostgresStatements {
            named,
            texts,
            unnamed,
            ..
        } = self;
        let number = named.get(name);
        let statement = match name {
            [] => unnamed.as_mut(),
            _ => number.and_then(|number| texts.find(number.id)),
        };
        if let Some(statement) = statement.filter(|_| wants_fingerprint) {
            statement.fingerprint(DIALECT);
        }
    }

    /// The statement named `name`, and whether no bytes of the client are missing since its Parse.
    pub fn get(&self, name: &[u8], losses: u32) -> (Option<&PreparedStatement>, bool) {
        if name.is_empty() {
            return (self.unnamed.as_ref(), true);
        }
        let number = self.named.get(name);
        let statement = number.and_then(|number| self.texts.get(number.id));
        (
            statement,
            number.is_some_and(|number| number.losses == losses),
        )
    }

    /// As [`PostgresStatements::find`], for the statement that `portal` executes.
    pub fn prepare(&mut self, portal: &[u8], wants_fingerprint: bool) {
        // Taken out, so that the statements can be changed.
        let name = match portal {
            [] => self.unnamed_portal.take(),
            _ => self.portals.get(portal).cloned(),
        };
        if let Some(name) = &name {
            self.find(name, wants_fingerprint);
        }
        if portal.is_empty() {
            self.unnamed_portal = name;
        }
    }

    /// The statement that `portal` executes.
    pub fn bound(&self, portal: Option<&[u8]>, losses: u32) -> BoundStatement<'_> {
        let name = portal.and_then(|portal| self.statement_of(portal));
        let (statement, is_proven) = name.map_or((None, false), |name| self.get(name, losses));
        BoundStatement {
            name,
            statement,
            is_proven,
        }
    }

    /// Records that `portal` executes the statement named `statement`.
    pub fn bind(&mut self, portal: &[u8], statement: &[u8]) {
        if portal.is_empty() {
            let known = self.unnamed_portal.get_or_insert_default();
            known.clear();
            known.extend_from_slice(statement);
        } else if self.portals.len() < PORTALS_MAX {
            self.portals.insert(portal.to_vec(), statement.to_vec());
        }
    }

    fn statement_of(&self, portal: &[u8]) -> Option<&[u8]> {
        if portal.is_empty() {
            self.unnamed_portal.as_deref()
        } else {
            self.portals.get(portal).map(Vec::as_slice)
        }
    }

    /// Ends a transaction, and with it the portals.
    pub fn end_transaction(&mut self) {
        self.portals.clear();
    }
}

/// The dialect of statements.
pub const DIALECT: SqlDialect = SqlDialect::PostgreSql;
