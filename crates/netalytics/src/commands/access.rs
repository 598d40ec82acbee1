//! `netalytics tokens` and `netalytics audit`: access to a server, and its audit log.

use anyhow::anyhow;
use clap::ValueEnum;
use serde_json::{Value, json};

use super::listing::{print_things, with_times};
use crate::cli::flags::access::{AuditFlags, TokensFlags, TokensVerb};
use crate::client::server_client::ServerClient;
use crate::process::failure::CommandOutcome;
use crate::process::output;
use crate::process::secret_file::SecretFile;

/// Maximum entries per request.
const PAGE: u16 = 1000;

/// Lists tokens, or runs a subcommand.
pub fn tokens(flags: &TokensFlags) -> anyhow::Result<CommandOutcome> {
    let remote = ServerClient::of(&flags.server)?;
    let all = || -> anyhow::Result<Vec<Value>> {
        let found = remote.json("GET", "/api/v1/tokens", None)?;
        Ok(found["tokens"].as_array().cloned().unwrap_or_default())
    };
    match &flags.what {
        None => {
            let tokens = with_times(
                all()?,
                &[("created_ns", "created"), ("expires_ns", "expires")],
            );
            print_things(
                &["id", "name", "role", "networks", "created", "expires"],
                &tokens,
                flags.server.format,
            )
        }
        Some(TokensVerb::Create {
            name,
            role,
            networks,
            expires,
            out,
        }) => {
            let file = out.as_deref().map(SecretFile::create).transpose()?;
            let role = role
                .to_possible_value()
                .map(|value| value.get_name().to_owned());
            let expires = expires.map(|ns| ns.unsigned_abs().div_ceil(1_000_000_000));
            let asked = json!({ "name": name, "role": role, "networks": networks, "expires_in_seconds": expires });
            let made = remote.json("POST", "/api/v1/tokens", Some(&asked))?;
            print_or_keep(made["secret"].as_str().unwrap_or_default(), file)
        }
        Some(TokensVerb::Revoke { name }) => {
            let tokens = all()?;
            let found = tokens.iter().find(|token| token["name"] == **name);
            let id = found.ok_or_else(|| anyhow!("token {name} does not exist"))?["id"].clone();
            remote.ask("DELETE", &format!("/api/v1/tokens/{id}"))?;
            Ok(CommandOutcome::Done)
        }
    }
}

/// Prints a secret, or writes it to a file.
pub fn print_or_keep(secret: &str, file: Option<SecretFile>) -> anyhow::Result<CommandOutcome> {
    match file {
        None => output::print(format!("{secret}\n").as_bytes()),
        Some(file) => file.keep(secret).map(|()| CommandOutcome::Done),
    }
}

/// Prints the audit log, newest first.
pub fn audit(flags: &AuditFlags) -> anyhow::Result<CommandOutcome> {
    let remote = ServerClient::of(&flags.server)?;
    let found = remote.json(
        "GET",
        &format!("/api/v1/audit?limit={}", flags.limit.min(PAGE)),
        None,
    )?;
    let entries = found["entries"].as_array().cloned().unwrap_or_default();
    let entries = with_times(entries, &[("at_ns", "at")]);
    print_things(
        &["at", "who", "act", "object", "outcome"],
        &entries,
        flags.server.format,
    )
}
