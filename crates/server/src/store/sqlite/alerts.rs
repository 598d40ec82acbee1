//! Rules, their alerts, silences, and waiting notifications. Changes caused by a window are written together with the
//! window's rows and the resulting notifications.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, Transaction, params};

use super::{Database, StoreError, now_ns};
use crate::job::JobId;

/// A rule with its state.
#[derive(Clone, Debug)]
pub struct StoredRule {
    /// Number.
    pub id: i64,
    /// Name.
    pub name: String,
    /// Token name of the owner.
    pub owner: String,
    /// Job whose rows it evaluates.
    pub job: JobId,
    /// Encoded rule.
    pub body: String,
    /// Time of creation.
    pub created_ns: i64,
    /// End of the last evaluated window.
    pub seen_ns: Option<i64>,
    /// Groups without an alert because of the limit.
    pub left_out: i64,
    /// Number of notifications so far.
    pub told: i64,
    /// Encoded alerts by subject.
    pub alerts: BTreeMap<String, String>,
}

/// A rule to add.
#[derive(Clone, Debug)]
pub struct NewRule {
    /// Name.
    pub name: String,
    /// Token name of the owner.
    pub owner: String,
    /// Job whose rows it evaluates.
    pub job: JobId,
    /// Encoded rule.
    pub body: String,
}

/// Change of a rule's alerts caused by a window or by time.
#[derive(Clone, Debug, Default)]
pub struct RuleChange {
    /// Number of the rule.
    pub rule: i64,
    /// End of the last evaluated window.
    pub seen_ns: Option<i64>,
    /// Groups without an alert because of the limit.
    pub left_out: i64,
    /// Number of notifications so far.
    pub told: i64,
    /// Changed alerts by subject; `None`: removed.
    pub alerts: Vec<(String, Option<String>)>,
    /// Notifications to send.
    pub news: Vec<NewNotification>,
}

/// A notification to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNotification {
    /// Name of the receiver.
    pub receiver: String,
    /// Identifier, the same for all retries.
    pub key: String,
    /// Body.
    pub body: String,
}

/// A waiting notification.
#[derive(Clone, Debug)]
pub struct Notification {
    /// Number; notifications are sent in this order.
    pub id: i64,
    /// Content.
    pub of: NewNotification,
    /// Time since which it waits.
    pub since_ns: i64,
}

/// Applies a change within a transaction.
pub(super) fn change_in(t: &Transaction<'_>, change: &RuleChange) -> rusqlite::Result<()> {
    let RuleChange {
        rule,
        seen_ns,
        left_out,
        told,
        alerts,
        news,
    } = change;
    t.execute(
        "UPDATE alert_rules SET seen_ns = ?2, left_out = ?3, told = ?4 WHERE id = ?1",
        params![rule, seen_ns, left_out, told],
    )?;
    for (subject, body) in alerts {
        match body {
            Some(body) => t.execute(
                "INSERT INTO alerts (rule, subject, body) VALUES (?1, ?2, ?3)
                 ON CONFLICT (rule, subject) DO UPDATE SET body = ?3",
                params![rule, subject, body],
            )?,
            None => t.execute(
                "DELETE FROM alerts WHERE rule = ? AND subject = ?",
                params![rule, subject],
            )?,
        };
    }
    for NewNotification {
        receiver,
        key,
        body,
    } in news
    {
        t.execute(
            "INSERT INTO outbox (receiver, key, body, since_ns) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
            params![receiver, key, body, now_ns()],
        )?;
    }
    Ok(())
}

/// Rules, their alerts, silences, and waiting notifications.
#[derive(Clone)]
pub struct AlertStore {
    pub(super) database: Database,
}

impl AlertStore {
    /// All rules, with their alerts.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn rules(&self) -> Result<Vec<StoredRule>, StoreError> {
        let connection = self.database.lock();
        let mut statement = connection.prepare_cached(
            "SELECT id, name, owner, job, body, created_ns, seen_ns, left_out, told FROM alert_rules ORDER BY id",
        )?;
        let read = statement.query_map([], |row| {
            Ok(StoredRule {
                id: row.get(0)?,
                name: row.get(1)?,
                owner: row.get(2)?,
                job: row.get(3)?,
                body: row.get(4)?,
                created_ns: row.get(5)?,
                seen_ns: row.get(6)?,
                left_out: row.get(7)?,
                told: row.get(8)?,
                alerts: BTreeMap::new(),
            })
        })?;
        let mut rules: Vec<StoredRule> = read.collect::<Result<_, _>>()?;
        let mut statement =
            connection.prepare_cached("SELECT subject, body FROM alerts WHERE rule = ?")?;
        for rule in &mut rules {
            let alerts = statement.query_map([rule.id], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rule.alerts = alerts.collect::<Result<_, _>>()?;
        }
        Ok(rules)
    }

    /// Adds a rule; `None` if the name exists.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn add_rule(&self, new: &NewRule) -> Result<Option<StoredRule>, StoreError> {
        let NewRule {
            name,
            owner,
            job,
            body,
        } = new;
        let created_ns = now_ns();
        let id = self.database.write(|t| {
            t.query_row(
                "INSERT INTO alert_rules (name, owner, job, body, created_ns) VALUES (?, ?, ?, ?, ?)
                 ON CONFLICT DO NOTHING RETURNING id",
                params![name, owner, job, body, created_ns],
                |row| row.get(0),
            )
            .optional()
        })?;
        Ok(id.map(|id| StoredRule {
            id,
            name: name.clone(),
            owner: owner.clone(),
            job: *job,
            body: body.clone(),
            created_ns,
            seen_ns: None,
            left_out: 0,
            told: 0,
            alerts: BTreeMap::new(),
        }))
    }

    /// Replaces a rule: its alerts resolve, are notified, and are removed.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn replace_rule(
        &self,
        last: &RuleChange,
        job: JobId,
        body: &str,
    ) -> Result<(), StoreError> {
        self.database.write(|t| {
            change_in(t, last)?;
            t.execute("DELETE FROM alerts WHERE rule = ?", [last.rule])?;
            t.execute(
                "UPDATE alert_rules SET job = ?, body = ? WHERE id = ?",
                params![job, body, last.rule],
            )
            .map(drop)
        })
    }

    /// Replaces a rule by one with the same evaluation; its alerts stay.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn replace_rule_text(&self, id: i64, job: JobId, body: &str) -> Result<(), StoreError> {
        self.database.write(|t| {
            t.execute(
                "UPDATE alert_rules SET job = ?, body = ? WHERE id = ?",
                params![job, body, id],
            )
            .map(drop)
        })
    }

    /// Applies the last change of a rule and removes it.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn remove_rule(&self, last: &RuleChange) -> Result<(), StoreError> {
        self.database.write(|t| {
            change_in(t, last)?;
            t.execute("DELETE FROM alert_rules WHERE id = ?", [last.rule])
                .map(drop)
        })
    }

    /// Applies changes without rows.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn change_rules(&self, changes: &[RuleChange]) -> Result<(), StoreError> {
        self.database
            .write(|t| changes.iter().try_for_each(|change| change_in(t, change)))
    }

    /// The first `limit` waiting notifications of a receiver.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn waiting(&self, receiver: &str, limit: usize) -> Result<Vec<Notification>, StoreError> {
        let connection = self.database.lock();
        let mut statement = connection.prepare_cached(
            "SELECT id, receiver, key, body, since_ns FROM outbox WHERE receiver = ? ORDER BY id LIMIT ?",
        )?;
        let rows = statement.query_map(params![receiver, limit as i64], |row| {
            let of = NewNotification {
                receiver: row.get(1)?,
                key: row.get(2)?,
                body: row.get(3)?,
            };
            Ok(Notification {
                id: row.get(0)?,
                of,
                since_ns: row.get(4)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Number of waiting notifications, by receiver.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn waiting_counts(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        let connection = self.database.lock();
        let mut statement =
            connection.prepare_cached("SELECT receiver, count(*) FROM outbox GROUP BY receiver")?;
        let rows = statement.query_map([], |row| {
            Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs()))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Removes an acknowledged or permanently rejected notification.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn remove_notification(&self, id: i64) -> Result<(), StoreError> {
        self.database
            .write(|t| t.execute("DELETE FROM outbox WHERE id = ?", [id]).map(drop))
    }

    /// Drops the oldest notifications beyond `most`; returns their number.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn bound_outbox(&self, most: usize) -> Result<usize, StoreError> {
        let waiting: i64 =
            self.database
                .lock()
                .query_row("SELECT count(*) FROM outbox", [], |row| row.get(0))?;
        let over = waiting.saturating_sub(most as i64);
        if over > 0 {
            self.database.write(|t| {
                t.execute(
                    "DELETE FROM outbox WHERE id IN (SELECT id FROM outbox ORDER BY id LIMIT ?)",
                    [over],
                )
            })
        } else {
            Ok(0)
        }
    }

    /// All silences: number and body.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn silences(&self) -> Result<Vec<(i64, String)>, StoreError> {
        let connection = self.database.lock();
        let mut statement =
            connection.prepare_cached("SELECT id, body FROM silences ORDER BY id")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Adds or replaces a silence; returns its number.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn keep_silence(
        &self,
        id: Option<i64>,
        ends_ns: i64,
        body: &str,
    ) -> Result<i64, StoreError> {
        self.database.write(|t| match id {
            None => t.query_row(
                "INSERT INTO silences (ends_ns, body) VALUES (?, ?) RETURNING id",
                params![ends_ns, body],
                |row| row.get(0),
            ),
            Some(id) => t
                .execute(
                    "UPDATE silences SET ends_ns = ?, body = ? WHERE id = ?",
                    params![ends_ns, body, id],
                )
                .map(|_| id),
        })
    }

    /// Removes silences that ended before `before_ns`.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn forget_silences(&self, before_ns: i64) -> Result<(), StoreError> {
        self.database.write(|t| {
            t.execute("DELETE FROM silences WHERE ends_ns < ?", [before_ns])
                .map(drop)
        })
    }
}
