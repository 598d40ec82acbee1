//! Rules, their alerts, silences, and notifications on their way. What a window makes of a rule's alerts is written together with
//! the window's rows, and with the notifications that follow.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, Transaction, params};

use super::{Store, StoreError, now_ns};
use crate::job::JobId;

/// A rule, and how far its watching has come.
#[derive(Clone, Debug)]
pub struct StoredRule {
    /// Its number.
    pub id: i64,
    /// What it is called.
    pub name: String,
    /// Who asked for it.
    pub owner: String,
    /// The job whose rows it watches.
    pub job: JobId,
    /// The rule.
    pub body: String,
    /// When it was asked for.
    pub created_ns: i64,
    /// The end of the last window that was looked at.
    pub seen_ns: Option<i64>,
    /// Groups that got no alert.
    pub left_out: i64,
    /// How many notifications there have been.
    pub told: i64,
    /// Its alerts: subjects and what is known of them.
    pub alerts: BTreeMap<String, String>,
}

/// A rule that is asked for.
#[derive(Clone, Debug)]
pub struct NewRule {
    /// What it is called.
    pub name: String,
    /// Who asks.
    pub owner: String,
    /// The job whose rows it watches.
    pub job: JobId,
    /// The rule.
    pub body: String,
}

/// What a window, or time, makes of a rule's alerts.
#[derive(Clone, Debug, Default)]
pub struct RuleChange {
    /// Which rule.
    pub rule: i64,
    /// The end of the last window that was looked at.
    pub seen_ns: Option<i64>,
    /// Groups that got no alert.
    pub left_out: i64,
    /// How many notifications there have been.
    pub told: i64,
    /// Alerts that changed; `None`: it is forgotten.
    pub alerts: Vec<(String, Option<String>)>,
    /// Notifications to send.
    pub news: Vec<NewNotification>,
}

/// A notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNotification {
    /// To whom.
    pub receiver: String,
    /// Identifier, the same for all retries.
    pub key: String,
    /// What it says.
    pub body: String,
}

/// A notification on its way.
#[derive(Clone, Debug)]
pub struct Notification {
    /// Its number: they are sent in this order.
    pub id: i64,
    /// What it is.
    pub of: NewNotification,
    /// Since when it waits.
    pub since_ns: i64,
}

/// A change, in a transaction that others may share.
pub(super) fn change_in(t: &Transaction<'_>, change: &RuleChange) -> rusqlite::Result<()> {
    let RuleChange { rule, seen_ns, left_out, told, alerts, news } = change;
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
            None => t.execute("DELETE FROM alerts WHERE rule = ? AND subject = ?", params![rule, subject])?,
        };
    }
    for NewNotification { receiver, key, body } in news {
        t.execute(
            "INSERT INTO outbox (receiver, key, body, since_ns) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
            params![receiver, key, body, now_ns()],
        )?;
    }
    Ok(())
}

impl Store {
    /// All rules, with their alerts.
    ///
    /// # Errors
    /// The store's.
    pub fn rules(&self) -> Result<Vec<StoredRule>, StoreError> {
        let connection = self.lock();
        let mut statement = connection.prepare_cached(
            "SELECT id, name, owner, job, body, created_ns, seen_ns, left_out, told FROM alert_rules ORDER BY id",
        )?;
        let read = statement.query_map([], |row| {
            Ok(StoredRule {
                id: row.get(0)?,
                name: row.get(1)?,
                owner: row.get(2)?,
                job: JobId(row.get(3)?),
                body: row.get(4)?,
                created_ns: row.get(5)?,
                seen_ns: row.get(6)?,
                left_out: row.get(7)?,
                told: row.get(8)?,
                alerts: BTreeMap::new(),
            })
        })?;
        let mut rules: Vec<StoredRule> = read.collect::<Result<_, _>>()?;
        let mut statement = connection.prepare_cached("SELECT subject, body FROM alerts WHERE rule = ?")?;
        for rule in &mut rules {
            let alerts = statement.query_map([rule.id], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rule.alerts = alerts.collect::<Result<_, _>>()?;
        }
        Ok(rules)
    }

    /// Notes a rule; `None` when there is one of that name.
    ///
    /// # Errors
    /// The store's.
    pub fn add_rule(&self, new: &NewRule) -> Result<Option<StoredRule>, StoreError> {
        let NewRule { name, owner, job, body } = new;
        let created_ns = now_ns();
        let id = self.write(|t| {
            t.query_row(
                "INSERT INTO alert_rules (name, owner, job, body, created_ns) VALUES (?, ?, ?, ?, ?)
                 ON CONFLICT DO NOTHING RETURNING id",
                params![name, owner, job.0, body, created_ns],
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
    /// Those of the store.
    pub fn replace_rule(&self, last: &RuleChange, job: JobId, body: &str) -> Result<(), StoreError> {
        self.write(|t| {
            change_in(t, last)?;
            t.execute("DELETE FROM alerts WHERE rule = ?", [last.rule])?;
            t.execute(
                "UPDATE alert_rules SET job = ?, body = ? WHERE id = ?",
                params![job.0, body, last.rule],
            )
            .map(drop)
        })
    }

    /// Puts a rule in the place of one that judges as it does: its alerts stay.
    ///
    /// # Errors
    /// The store's.
    pub fn replace_rule_text(&self, id: i64, job: JobId, body: &str) -> Result<(), StoreError> {
        self.write(|t| {
            t.execute("UPDATE alert_rules SET job = ?, body = ? WHERE id = ?", params![job.0, body, id])
                .map(drop)
        })
    }

    /// Removes a rule, after its last change.
    ///
    /// # Errors
    /// The store's.
    pub fn remove_rule(&self, last: &RuleChange) -> Result<(), StoreError> {
        self.write(|t| {
            change_in(t, last)?;
            t.execute("DELETE FROM alert_rules WHERE id = ?", [last.rule]).map(drop)
        })
    }

    /// Notes changes that no rows come with.
    ///
    /// # Errors
    /// The store's.
    pub fn change_rules(&self, changes: &[RuleChange]) -> Result<(), StoreError> {
        self.write(|t| changes.iter().try_for_each(|change| change_in(t, change)))
    }

    /// The first `limit` notifications that wait for a receiver.
    ///
    /// # Errors
    /// Those of the store.
    pub fn waiting(&self, receiver: &str, limit: usize) -> Result<Vec<Notification>, StoreError> {
        let connection = self.lock();
        let mut statement = connection.prepare_cached(
            "SELECT id, receiver, key, body, since_ns FROM outbox WHERE receiver = ? ORDER BY id LIMIT ?",
        )?;
        let rows = statement.query_map(params![receiver, limit as i64], |row| {
            let of = NewNotification { receiver: row.get(1)?, key: row.get(2)?, body: row.get(3)? };
            Ok(Notification { id: row.get(0)?, of, since_ns: row.get(4)? })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// How many wait, by receiver.
    ///
    /// # Errors
    /// The store's.
    pub fn waiting_counts(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        let connection = self.lock();
        let mut statement =
            connection.prepare_cached("SELECT receiver, count(*) FROM outbox GROUP BY receiver")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs())))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Removes an acknowledged or permanently rejected notification.
    ///
    /// # Errors
    /// Those of the store.
    pub fn remove_notification(&self, id: i64) -> Result<(), StoreError> {
        self.write(|t| t.execute("DELETE FROM outbox WHERE id = ?", [id]).map(drop))
    }

    /// Drops the oldest notifications beyond `most`; returns their number.
    ///
    /// # Errors
    /// Those of the store.
    pub fn bound_outbox(&self, most: usize) -> Result<usize, StoreError> {
        let waiting: i64 = self.lock().query_row("SELECT count(*) FROM outbox", [], |row| row.get(0))?;
        let over = waiting.saturating_sub(most as i64);
        match over > 0 {
            false => Ok(0),
            true => self.write(|t| {
                t.execute(
                    "DELETE FROM outbox WHERE id IN (SELECT id FROM outbox ORDER BY id LIMIT ?)",
                    [over],
                )
            }),
        }
    }

    /// All silences: number and body.
    ///
    /// # Errors
    /// The store's.
    pub fn silences(&self) -> Result<Vec<(i64, String)>, StoreError> {
        let connection = self.lock();
        let mut statement = connection.prepare_cached("SELECT id, body FROM silences ORDER BY id")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Notes a silence, a new one or another in the place of one; its number.
    ///
    /// # Errors
    /// The store's.
    pub fn keep_silence(&self, id: Option<i64>, ends_ns: i64, body: &str) -> Result<i64, StoreError> {
        self.write(|t| match id {
            None => t.query_row(
                "INSERT INTO silences (ends_ns, body) VALUES (?, ?) RETURNING id",
                params![ends_ns, body],
                |row| row.get(0),
            ),
            Some(id) => t
                .execute("UPDATE silences SET ends_ns = ?, body = ? WHERE id = ?", params![ends_ns, body, id])
                .map(|_| id),
        })
    }

    /// Forgets silences that ended before then.
    ///
    /// # Errors
    /// The store's.
    pub fn forget_silences(&self, before_ns: i64) -> Result<(), StoreError> {
        self.write(|t| t.execute("DELETE FROM silences WHERE ends_ns < ?", [before_ns]).map(drop))
    }
}
