//! Addresses of outlets in jobs: a name that the operator has defined for an address, which any job may use; or an
//! address, which requires an admin because the server connects to it and reads the files that it names.

use std::collections::BTreeMap;

use outlets::address::{SecretSource, SystemSecrets};
use outlets::{
    DirectOutlet, OutletAddress, OutletAddressError, OutletLimits, OutletScheme, RowIdentity,
};
use plan::Plan;

/// Maximum outlets per job.
pub const OUTLETS_MAX: usize = 8;

/// Addresses by name.
#[derive(Clone, Debug, Default)]
pub struct NamedOutlets(BTreeMap<String, String>);

/// Reason why a job cannot use an outlet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutletRefusal {
    /// Invalid address.
    Wrong(String),
    /// Requires another role.
    Forbidden(String),
}

/// Required permission of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutletPermission {
    /// Use of defined names.
    UseNames,
    /// Use of names and addresses.
    GiveAddresses,
}

/// Reads no files: secrets are not needed to display an address.
struct NoSecrets;

impl SecretSource for NoSecrets {
    fn file(&self, _: &str) -> Result<String, String> {
        Ok("unread".into())
    }

    fn variable(&self, _: &str) -> Result<String, String> {
        Ok("unread".into())
    }
}

fn is_name(asked: &str) -> bool {
    !asked.contains("://")
}

/// The address without secrets, for display.
pub fn shown(asked: &str) -> String {
    if is_name(asked) {
        asked.to_owned()
    } else {
        OutletAddress::read(asked, &NoSecrets)
            .map_or_else(|_| scheme(asked), |address| address.to_string())
    }
}

/// Scheme of an unreadable address; the rest may be secret.
fn scheme(asked: &str) -> String {
    let word = asked.split("://").next().unwrap_or_default();
    if word.chars().all(|c| c.is_ascii_alphanumeric() || c == '+') && word.len() < 20 {
        format!("{word}://…")
    } else {
        "…".into()
    }
}

/// Whether rows can be delivered to this address.
fn tried(address: &OutletAddress) -> Result<(), OutletAddressError> {
    DirectOutlet::prepare(
        address,
        &RowIdentity {
            of: String::new(),
            run: 0,
        },
        &OutletLimits::default(),
    )
    .map(drop)
}

impl NamedOutlets {
    /// Parses `NAME=URL` or `NAME=@FILE` each.
    ///
    /// # Errors
    /// A message about the first invalid one.
    pub fn new(texts: &[String]) -> Result<NamedOutlets, String> {
        let mut named = BTreeMap::new();
        for text in texts {
            let (name, address) = text
                .split_once('=')
                .ok_or("an outlet has the form NAME=URL")?;
            let is_word = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if name.is_empty() || !name.chars().all(is_word) {
                return Err(format!(
                    "{name:?} is not a name, which consists of letters, digits, -, _, and ."
                ));
            }
            let read = OutletAddress::read(address, &SystemSecrets)
                .map_err(|why| format!("{name}: {why}"))?;
            tried(&read).map_err(|why| format!("{name}: {}", why.0))?;
            named.insert(name.to_owned(), address.to_owned());
        }
        Ok(NamedOutlets(named))
    }

    /// The address of an outlet requested by a job.
    ///
    /// # Errors
    /// A message for the user.
    pub fn read(&self, asked: &str) -> Result<OutletAddress, String> {
        let text = if is_name(asked) {
            self.0.get(asked).ok_or_else(|| self.no_such(asked))?
        } else {
            asked
        };
        OutletAddress::read(text, &SystemSecrets)
    }

    fn no_such(&self, name: &str) -> String {
        let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
        if known.is_empty() {
            format!(
                "outlet {name:?} does not exist: serve --outlet NAME=URL gives an address a name"
            )
        } else {
            format!(
                "outlet {name:?} does not exist; configured outlets: {}",
                known.join(", ")
            )
        }
    }

    /// Checks whether a client with `may` is allowed to use `asked`.
    ///
    /// # Errors
    /// If another role is required.
    pub fn allow(asked: &str, may: OutletPermission) -> Result<(), OutletRefusal> {
        if is_name(asked) || may == OutletPermission::GiveAddresses {
            Ok(())
        } else {
            Err(OutletRefusal::Forbidden(
                "only an admin may use an address; other roles use a name configured at the server (serve \
                 --outlet NAME=URL)"
                    .into(),
            ))
        }
    }

    /// Checks the outlets of a job with this plan.
    ///
    /// # Errors
    /// About the first invalid or forbidden one.
    pub fn check(
        &self,
        asked: &[String],
        may: OutletPermission,
        plan: &Plan,
    ) -> Result<(), OutletRefusal> {
        let wrong = |to: &str, why: String| OutletRefusal::Wrong(format!("to {to}: {why}"));
        if asked.len() > OUTLETS_MAX {
            return Err(OutletRefusal::Wrong(format!(
                "a job has at most {OUTLETS_MAX} outlets"
            )));
        }
        for to in asked {
            NamedOutlets::allow(to, may)?;
            if !is_name(to)
                && OutletAddress::read(to, &NoSecrets)
                    .is_ok_and(|read| read.scheme == OutletScheme::Prometheus)
            {
                let why = "this server has a page of all standing jobs' results for scrapers, at /metrics/jobs";
                return Err(OutletRefusal::Wrong(format!("to prometheus://: {why}")));
            }
            let seen = shown(to);
            let address = self.read(to).map_err(|why| wrong(&seen, why))?;
            outlets::check_rows(&address, &plan.dataflow).map_err(|why| wrong(&seen, why))?;
            tried(&address).map_err(|why| wrong(&seen, why.0))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_and_addresses_are_shown_without_secrets() {
        let named = |text: &str| NamedOutlets::new(&[text.to_owned()]);
        assert!(named("shop=redis://127.0.0.1/0").is_ok());
        for (text, part) in [
            ("shop", "NAME=URL"),
            ("a b=redis://h", "is not a name"),
            ("shop=redis://me:pass@h", "all users of this machine"),
            ("shop=prometheus://127.0.0.1:1", "a local listener"),
            (
                "shop=redis://h#secret-file=/nowhere",
                "cannot read /nowhere",
            ),
        ] {
            let why = named(text).expect_err(text);
            assert!(why.contains(part), "{text}: {why}");
        }
        assert_eq!(shown("shop"), "shop");
        assert_eq!(
            shown("webhook+https://h/secret#secret-file=/nowhere"),
            "webhook+https://h:443"
        );
        let none = NamedOutlets::default()
            .read("shop")
            .expect_err("there is none");
        assert!(none.contains("--outlet NAME=URL"), "{none}");
    }
}
