//! Packets that agents keep: those of a flow become an upload of the requester, which is queried like any other.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wire::{Endpoint, IpProtocol};

use super::app::AppState;
use super::caller::RequestCaller;
use super::failure::ApiFailure;
use super::json::JsonResponse;
use super::params::JsonBody;
use super::{past, recordings};
use crate::api::service::Service;
use crate::gateway::fleet::{FlowPackets, PacketQuery};
use crate::store::access::{AccessRole, ClientAccess};
use crate::store::recording_store::RecordingView;
use crate::store::service_error::ServiceError;

/// Maximum bytes of a flow's packets.
const BYTES_MAX: u64 = 16 << 20;

/// Request for the packets of a flow.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PacketFetch {
    /// `tcp` or `udp`.
    transport: String,
    /// Address and port of the client, as `10.0.0.1:40000` or `[fd00::1]:40000`.
    client: String,
    /// Address and port of the server.
    server: String,
    /// Start of the period, in nanoseconds since the epoch.
    since_ns: String,
    /// End of the period.
    until_ns: String,
    /// Name of the agent; without it, the agent that has most of the packets.
    #[serde(default)]
    agent: Option<String>,
}

/// Packets of a flow, as an upload.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct FetchedPackets {
    /// The upload.
    pub recording: RecordingView,
    /// Agent that kept the packets.
    pub agent: String,
    /// Community ID of the flow; other flows between the same endpoints in the period are in the upload, too.
    pub community_id: String,
    /// Omitted packets, and agents that could not read theirs.
    pub notes: Vec<String>,
}

/// Fetch the packets of a flow from agents that keep packets.
#[utoipa::path(
    post, path = "/api/v1/packets", tag = "recordings", request_body = PacketFetch,
    responses((status = 201, description = "Stored as an upload", body = FetchedPackets), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn fetch(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    JsonBody(asked, _): JsonBody<PacketFetch>,
) -> Result<(StatusCode, JsonResponse<FetchedPackets>), ApiFailure> {
    let who = caller.at_least(AccessRole::Raw)?;
    let (ends, query) = read(&asked)?;
    let room = past::room(&app).await?;
    let fetched = app.run(move |service: &Service| {
        let _room = room;
        let fetched = fetched(service, &who, ends, &query);
        let what = format!("{} {} {}", asked.transport, asked.client, asked.server);
        service
            .audit
            .note_result(&who.name, "packets.fetch", &what, &fetched);
        fetched
    });
    Ok((StatusCode::CREATED, JsonResponse(fetched.await?)))
}

/// Checks a request.
fn read(asked: &PacketFetch) -> Result<([SocketAddr; 2], PacketQuery), ApiFailure> {
    let bad = |name: &str, what: &str| ApiFailure::bad(format!("`{name}` must be {what}"));
    let end = |name: &str, text: &str| -> Result<SocketAddr, ApiFailure> {
        text.parse()
            .map_err(|_| bad(name, "an address and a port, such as 10.0.0.1:40000"))
    };
    let time = |name: &str, text: &str| -> Result<i64, ApiFailure> {
        text.parse()
            .map_err(|_| bad(name, "a time in nanoseconds since the epoch"))
    };
    let protocol = match asked.transport.as_str() {
        "tcp" => IpProtocol::TCP,
        "udp" => IpProtocol::UDP,
        _ => return Err(bad("transport", "tcp or udp")),
    };
    let ends = [end("client", &asked.client)?, end("server", &asked.server)?];
    let endpoint = |end: SocketAddr| Endpoint {
        addr: end.ip().into(),
        port: end.port(),
    };
    let query = PacketQuery {
        agent: asked.agent.clone(),
        community_id: parsers::community_id::community_id(protocol, ends.map(endpoint)),
        period_ns: (
            time("since_ns", &asked.since_ns)?,
            time("until_ns", &asked.until_ns)?,
        ),
        bytes_max: BYTES_MAX,
    };
    Ok((ends, query))
}

fn fetched(
    service: &Service,
    who: &ClientAccess,
    ends: [SocketAddr; 2],
    query: &PacketQuery,
) -> Result<FetchedPackets, ServiceError> {
    if !ends.iter().any(|end| who.scope.contains(end.ip())) {
        return Err(ServiceError::Forbidden(
            "this token may not read traffic of these addresses".into(),
        ));
    }
    let uploads = service.recordings.store()?.sent();
    let FlowPackets {
        agent,
        pcapng,
        is_cut,
        mut notes,
    } = service
        .jobs
        .fleet
        .packets(query)
        .map_err(ServiceError::Fleet)?;
    if is_cut {
        notes.push(format!(
            "the last packets of the flow are omitted: a request has at most {} MiB",
            BYTES_MAX >> 20
        ));
    }
    let name = format!("{} {} at {agent}.pcapng", ends[0], ends[1]);
    let mut coming = uploads.begin(who, &name, Some(pcapng.len() as u64))?;
    coming.add(&pcapng)?;
    let id = coming.finish()?;
    Ok(FetchedPackets {
        recording: recordings::found(service, who, &id)?,
        agent,
        community_id: query.community_id.clone(),
        notes,
    })
}
