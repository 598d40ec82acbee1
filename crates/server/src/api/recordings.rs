//! Captures and recordings for queries without a job: list, upload, remove. They are queried like the past.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use utoipa::{IntoParams, ToSchema};

use super::app::AppState;
use super::caller::RequestCaller;
use super::failure::ApiFailure;
use super::json::JsonResponse;
use super::params::{QueryParams, header_text};
use crate::api::service::Service;
use crate::store::access::{AccessRole, ClientAccess};
use crate::store::recording_store::{IncomingUpload, RecordingView};
use crate::store::service_error::ServiceError;

/// Time limit without data during an upload.
const SILENCE: Duration = Duration::from_secs(30);
/// Time limit of an upload.
const TIME: Duration = Duration::from_secs(3600);
/// Maximum chunks that wait for the disk.
const PIECES: usize = 8;

/// Captures and recordings.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Recordings)]
pub struct RecordingList {
    /// Uploads, newest first, then those of the folder.
    pub recordings: Vec<RecordingView>,
    /// Maximum bytes of an upload.
    pub upload_bytes_max: u64,
    /// Seconds for which an upload is kept.
    pub upload_seconds: u64,
}

/// Query parameters of an upload.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct UploadParams {
    /// Name, for display only.
    #[serde(default)]
    name: String,
}

/// List captures and recordings.
#[utoipa::path(get, path = "/api/v1/recordings", tag = "recordings", responses((status = 200, description = "Recordings that can be queried", body = RecordingList), (status = "4XX", description = "Error", body = ApiFailure)))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
) -> Result<JsonResponse<RecordingList>, ApiFailure> {
    let who = caller.at_least(AccessRole::Run)?;
    let read = move |service: &Service| {
        let limits = service.recordings.store()?.sent().limits;
        let recordings = service.recordings.list(&who)?;
        let upload_seconds = limits.time.as_secs();
        Ok(RecordingList {
            recordings,
            upload_bytes_max: limits.file_bytes,
            upload_seconds,
        })
    };
    app.run(read).await.map(JsonResponse)
}

/// Upload a capture for queries; the body is the file.
#[utoipa::path(
    post, path = "/api/v1/recordings", tag = "recordings", params(UploadParams), request_body(content = String, content_type = "application/octet-stream"),
    responses((status = 201, description = "Stored", body = RecordingView), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn send(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    headers: HeaderMap,
    QueryParams(params): QueryParams<UploadParams>,
    body: Body,
) -> Result<(StatusCode, JsonResponse<RecordingView>), ApiFailure> {
    let who = caller.at_least(AccessRole::Run)?;
    let Ok(_room) = app.sending_room.clone().try_acquire_owned() else {
        return Err(ApiFailure::busy("other files are being uploaded"));
    };
    let length = header_text(&headers, "content-length").and_then(|text| text.parse().ok());
    let begin = {
        let who = who.clone();
        move |service: &Service| {
            service
                .recordings
                .store()?
                .sent()
                .begin(&who, &params.name, length)
        }
    };
    let coming = app.run(begin).await?;
    let kept = tokio::time::timeout(TIME, receive(&app, coming, body))
        .await
        .unwrap_or_else(|_| Err(ApiFailure::late()));
    let read = move |service: &Service| {
        let told = match kept {
            Ok(id) => found(service, &who, &id),
            Err(why) => return Ok(Err(why)),
        };
        service.audit.note_result(
            &who.name,
            "recording.send",
            told.as_ref().map_or("", |told| &told.name),
            &told,
        );
        told.map(Ok)
    };
    app.run(read)
        .await?
        .map(|told| (StatusCode::CREATED, JsonResponse(told)))
}

/// Inspects a new upload and removes it if it is not a capture.
pub(super) fn found(
    service: &Service,
    who: &ClientAccess,
    id: &str,
) -> Result<RecordingView, ServiceError> {
    let one = service.recordings.get(who, id)?.told;
    match &one.problem {
        None => Ok(one),
        Some(why) => {
            service.recordings.store()?.sent().remove(id);
            Err(ServiceError::Invalid(format!(
                "this is not a readable capture: {why}"
            )))
        }
    }
}

/// Writes an upload on a blocking thread; returns its id.
async fn receive(
    app: &Arc<AppState>,
    mut coming: IncomingUpload,
    body: Body,
) -> Result<String, ApiFailure> {
    let (pieces, mut waiting) = mpsc::channel::<Bytes>(PIECES);
    let (whole, is_whole) = tokio::sync::oneshot::channel::<()>();
    let writing = app.run(move |_: &Service| {
        while let Some(piece) = waiting.blocking_recv() {
            coming.add(&piece)?;
        }
        match is_whole.blocking_recv() {
            Ok(()) => coming.finish(),
            Err(_) => Err(ServiceError::Invalid(
                "the upload ended before the end of the file".into(),
            )),
        }
    });
    let reading = async move {
        let mut body = body.into_data_stream();
        loop {
            match tokio::time::timeout(SILENCE, body.next()).await {
                Ok(Some(Ok(piece))) => {
                    // The writer has failed and reports the reason.
                    if pieces.send(piece).await.is_err() {
                        return;
                    }
                }
                Ok(None) => break,
                _ => return,
            }
        }
        drop(pieces);
        let _ = whole.send(());
    };
    let (written, ()) = tokio::join!(writing, reading);
    written
}

/// Remove an upload.
#[utoipa::path(delete, path = "/api/v1/recordings/{id}", tag = "recordings", params(("id" = String, Path, description = "ID of the recording")), responses((status = 204, description = "Deleted"), (status = "4XX", description = "Error", body = ApiFailure)))]
pub async fn remove(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiFailure> {
    let who = caller.at_least(AccessRole::Run)?;
    let remove = move |service: &Service| {
        let removed = service.recordings.remove(&who, &id);
        service
            .audit
            .note_result(&who.name, "recording.delete", &id, &removed);
        removed
    };
    app.run(remove).await.map(|()| StatusCode::NO_CONTENT)
}
