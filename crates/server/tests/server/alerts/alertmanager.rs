//! Debian's Alertmanager receives firing alerts, shows them, and resolves them; its silences are independent.

use std::process::Command;

use serde_json::{Value, json};
use testkit::programs::{TestProgram, free_port};

use super::{closed, make, quiet, rule, until};
use crate::client::Server;
use crate::fleet::{TestFleet, Way};

/// A process killed at the end of the test.
struct Alertmanager {
    _process: TestProgram,
    url: String,
    _folder: tempfile::TempDir,
}

impl Alertmanager {
    fn start(port: u16) -> Option<Alertmanager> {
        testkit::require!("prometheus-alertmanager");
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("alertmanager.yml");
        std::fs::write(
            &config,
            "route: {receiver: nobody}\nreceivers: [{name: nobody}]\n",
        )
        .expect("written");
        let process = TestProgram::start(
            Command::new("prometheus-alertmanager")
                .arg(format!("--config.file={}", config.display()))
                .arg(format!("--storage.path={}", folder.path().display()))
                .arg(format!("--web.listen-address=127.0.0.1:{port}"))
                .arg("--cluster.listen-address="),
        );
        let url = format!("http://127.0.0.1:{port}");
        let manager = Alertmanager {
            _process: process,
            url,
            _folder: folder,
        };
        until(|| manager.ask("GET", "/api/v2/status", None).map(drop));
        Some(manager)
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, String> {
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("content-type", "application/json")
            .body(body.map(Value::to_string).unwrap_or_default());
        let mut answer =
            ureq::run(request.expect("a request")).map_err(|error| error.to_string())?;
        let text = answer
            .body_mut()
            .read_to_string()
            .map_err(|error| error.to_string())?;
        serde_json::from_str(&text).map_err(|error| error.to_string())
    }

    /// Alerts that it considers firing.
    fn alerts(&self) -> Result<Vec<Value>, String> {
        let found = self.ask("GET", "/api/v2/alerts", None)?;
        found.as_array().cloned().ok_or_else(|| found.to_string())
    }

    fn holds(&self, urls: &[&str]) -> Vec<Value> {
        until(|| {
            let alerts = self.alerts()?;
            let mut found: Vec<&str> = alerts
                .iter()
                .filter_map(|alert| alert["labels"]["url"].as_str())
                .collect();
            found.sort_unstable();
            if found == urls {
                Ok(alerts.clone())
            } else {
                Err(format!("{found:?} and not {urls:?}"))
            }
        })
    }
}

#[test]
fn alertmanager_shows_firing_and_removes_resolved_alerts() {
    let port = free_port();
    let Some(manager) = Alertmanager::start(port) else {
        return;
    };
    let to = format!("ops=alertmanager+http://127.0.0.1:{port}");
    let server = Server::telling(TestFleet::new(Way::Note), quiet(), &[&to]);
    let told = rule(
        json!({ "receivers": ["ops"], "labels": { "severity": "page" }, "annotations": { "says": "{count}" } }),
    );
    let (id, job) = make(&server, &told);
    closed(&server, job, 0, &[("/a", 11), ("/b", 12), ("/c", 1)]);
    let alerts = manager.holds(&["/a", "/b"]);
    let first = alerts
        .iter()
        .find(|alert| alert["labels"]["url"] == "/a")
        .expect("it exists");
    assert_eq!(
        first["labels"],
        json!({ "alertname": "many", "severity": "page", "url": "/a" })
    );
    assert_eq!(
        (&first["annotations"]["says"], &first["startsAt"]),
        (&json!("11"), &json!("1970-01-01T00:00:10.000Z"))
    );
    // Alerts are sent repeatedly, so that Alertmanager does not resolve them by itself.
    let before = first["updatedAt"].clone();
    until(|| {
        let alerts = manager.alerts()?;
        let now = alerts
            .iter()
            .find(|alert| alert["labels"]["url"] == "/a")
            .map(|alert| &alert["updatedAt"]);
        if now.is_some_and(|now| *now != before) {
            Ok(())
        } else {
            Err("it is not told again".into())
        }
    });
    // Silences of Alertmanager are independent: alerts are still sent to it.
    let silence = json!({
        "matchers": [{ "name": "url", "value": "/a", "isRegex": false, "isEqual": true }],
        "startsAt": "2020-01-01T00:00:00Z", "endsAt": "2100-01-01T00:00:00Z", "createdBy": "me", "comment": "",
    });
    manager
        .ask("POST", "/api/v2/silences", Some(&silence))
        .expect("it is silenced");
    until(|| {
        let alerts = manager.alerts()?;
        let states: Vec<&Value> = alerts
            .iter()
            .map(|alert| &alert["status"]["state"])
            .collect();
        if states.contains(&&json!("suppressed")) {
            Ok(())
        } else {
            Err(format!("{states:?}"))
        }
    });
    let firing = server.get("/api/v1/alerts?state=firing").of(200).json();
    assert_eq!(firing["alerts"].as_array().map(Vec::len), Some(2));
    closed(&server, job, 10, &[("/b", 12)]);
    manager.holds(&["/b"]);
    server
        .ask("DELETE", &format!("/api/v1/alert-rules/{id}"), None)
        .of(204);
    manager.holds(&[]);
    assert_eq!(
        server
            .ask("POST", "/api/v1/receivers/ops/test", None)
            .of(200)
            .json()["taken"],
        true
    );
}
