//! The client profile: default server, certificate authority and token file of server commands, used if neither flags
//! nor environment variables give them. It is `netalytics/client.toml` in `$XDG_CONFIG_HOME` or `~/.config`; a missing
//! file is an empty profile.
//!
//! The profile's authority and token apply only to the server it names, not to another `--server`.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::process::failure::wrong_flags;

/// Keys of the profile with the flags they replace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientProfile {
    /// Server address; replaces `--server`.
    pub server: Option<String>,
    /// File with the certificate of the authority; replaces `--ca`.
    pub ca: Option<PathBuf>,
    /// File with the token; replaces `--token-file`.
    pub token_file: Option<PathBuf>,
}

impl ClientProfile {
    /// Reads the profile of this user.
    ///
    /// # Errors
    /// A file that cannot be read or parsed.
    pub fn read() -> anyhow::Result<ClientProfile> {
        let Some(path) = path(env::var_os("XDG_CONFIG_HOME"), env::var_os("HOME")) else {
            return Ok(ClientProfile::default());
        };
        match fs::read_to_string(&path) {
            Ok(text) => ClientProfile::parse(&text, &path),
            Err(error)
                if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) =>
            {
                Ok(ClientProfile::default())
            }
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// Part of the profile that applies to a server.
    pub fn of_server(self, url: &str) -> ClientProfile {
        match &self.server {
            Some(server) if server.trim_end_matches('/') != url.trim_end_matches('/') => {
                ClientProfile::default()
            }
            _ => self,
        }
    }

    /// Relative paths start at the profile's folder.
    fn parse(text: &str, path: &Path) -> anyhow::Result<ClientProfile> {
        let wrong = |why: String| wrong_flags(format!("{}: {}", path.display(), why.trim_end()));
        let table: toml::Table = text
            .parse()
            .map_err(|error: toml::de::Error| wrong(error.to_string()))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut profile = ClientProfile::default();
        for (key, value) in &table {
            let value = value
                .as_str()
                .ok_or_else(|| wrong(format!("`{key}`: expected a string")))?;
            match key.as_str() {
                "server" => profile.server = Some(value.to_owned()),
                "ca" => profile.ca = Some(folder.join(value)),
                "token_file" => profile.token_file = Some(folder.join(value)),
                _ => {
                    return Err(wrong(format!(
                        "unknown key `{key}`; expected server, ca or token_file"
                    )));
                }
            }
        }
        Ok(profile)
    }
}

/// Path of the profile.
fn path(config: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let config = config
        .map(PathBuf::from)
        .filter(|folder| folder.is_absolute());
    let folder = config.or_else(|| Some(PathBuf::from(home?).join(".config")))?;
    Some(folder.join("netalytics/client.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_has_three_keys() {
        let parse = |text: &str| {
            ClientProfile::parse(text, Path::new("/users/a/.config/netalytics/client.toml"))
        };
        let profile = parse("server = 'https://a:7979'\nca = 'ca.pem'\ntoken_file = '/srv/token'")
            .expect("a profile");
        let folder = Path::new("/users/a/.config/netalytics");
        assert_eq!(profile.ca, Some(folder.join("ca.pem")));
        assert_eq!(profile.token_file, Some("/srv/token".into()));
        assert_eq!(profile.clone().of_server("https://a:7979/"), profile);
        assert_eq!(
            profile.of_server("https://b:7979"),
            ClientProfile::default()
        );
        assert_eq!(parse("").expect("an empty one"), ClientProfile::default());
        for (text, words) in [
            ("token = 'x'", "unknown key `token`"),
            ("ca = 1", "expected a string"),
            ("ca", "client.toml: "),
        ] {
            assert!(
                parse(text).expect_err(text).to_string().contains(words),
                "{text}"
            );
        }
    }

    #[test]
    fn the_profile_is_in_the_configuration_folder() {
        let path = |config: &str, home: &str| path(Some(config.into()), Some(home.into()));
        assert_eq!(
            path("/etc/a", "/users/a"),
            Some("/etc/a/netalytics/client.toml".into())
        );
        assert_eq!(
            path("relative", "/users/a"),
            Some("/users/a/.config/netalytics/client.toml".into())
        );
        assert_eq!(super::path(None, None), None);
    }
}
