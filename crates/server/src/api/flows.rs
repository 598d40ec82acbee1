//! A flow of a capture: what its sides sent, and its packets.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::IntoParams;

use super::app::AppState;
use super::caller::RequestCaller;
use super::failure::ApiFailure;
use super::json::JsonResponse;
use super::params::QueryParams;
use super::past;
use crate::api::service::Service;
use crate::store::access::AccessRole;
use crate::store::recorded_flow::{FlowConversation, FlowPart, RecordedFlow};

/// Query parameters: the flow.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct FlowParams {
    /// ID of the flow, 16 hexadecimal digits, as in tuples of the capture.
    flow: String,
}

/// What both sides of a flow sent.
#[utoipa::path(
    get, path = "/api/v1/recordings/{id}/conversation", tag = "recordings",
    params(("id" = String, Path, description = "ID of the capture"), FlowParams),
    responses((status = 200, description = "The conversation", body = FlowConversation), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn conversation(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    Path(id): Path<String>,
    QueryParams(params): QueryParams<FlowParams>,
) -> Result<JsonResponse<FlowConversation>, ApiFailure> {
    let read = read(&app, caller, id, &params, FlowPart::Conversation).await?;
    Ok(JsonResponse(read.conversation))
}

/// Packets of a flow, as pcapng.
#[utoipa::path(
    get, path = "/api/v1/recordings/{id}/packets", tag = "recordings",
    params(("id" = String, Path, description = "ID of the capture"), FlowParams),
    responses(
        (status = 200, description = "The packets; Netalytics-Note headers have the notes", headers(("Netalytics-Note" = String)), content((String = "application/x-pcapng"))),
        (status = "4XX", description = "Error", body = ApiFailure),
    )
)]
pub async fn packets(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    Path(id): Path<String>,
    QueryParams(params): QueryParams<FlowParams>,
) -> Result<Response, ApiFailure> {
    let RecordedFlow {
        conversation,
        pcapng,
        ..
    } = read(&app, caller, id, &params, FlowPart::Packets).await?;
    let mut response = ([(header::CONTENT_TYPE, "application/x-pcapng")], pcapng).into_response();
    let name = format!("attachment; filename=\"flow-{}.pcapng\"", conversation.id);
    if let Ok(name) = HeaderValue::from_str(&name) {
        response
            .headers_mut()
            .insert(header::CONTENT_DISPOSITION, name);
    }
    let left_out = match conversation.packets_left_out {
        0 => None,
        n => Some(format!(
            "the last {n} packets of the flow are omitted: the file has its maximum size"
        )),
    };
    past::add_notes(&mut response, conversation.notes.iter().chain(&left_out));
    Ok(response)
}

async fn read(
    app: &Arc<AppState>,
    caller: RequestCaller,
    id: String,
    params: &FlowParams,
    part: FlowPart,
) -> Result<RecordedFlow, ApiFailure> {
    let who = caller.at_least(AccessRole::Run)?;
    let text = &params.flow;
    let is_id = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let flow = u64::from_str_radix(text, 16).ok().filter(|_| is_id);
    let Some(flow) = flow else {
        return Err(ApiFailure::bad(
            "`flow` must be the id of a flow, 16 hexadecimal digits",
        ));
    };
    let room = past::room(app).await?;
    app.run(move |service: &Service| {
        let _room = room;
        let read = service.recordings.follow(&who, &id, (flow, part));
        service
            .audit
            .note_result(&who.name, "recording.flow", &id, &read);
        read
    })
    .await
}
