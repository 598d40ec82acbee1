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

use super::app::App;
use super::caller::Caller;
use super::failure::Failure;
use super::json::Json;
use super::params::{Params, header_text};
use crate::access::{Access, Role};
use crate::service::{Denied, Service};
use crate::shelf::{Recording, Sending};

/// Time limit without data during an upload.
const SILENCE: Duration = Duration::from_secs(30);
/// Time limit of an upload.
const TIME: Duration = Duration::from_secs(3600);
/// Maximum chunks that wait for the disk.
const PIECES: usize = 8;

/// Captures and recordings.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Recordings {
    /// Uploads, newest first, then those of the folder.
    pub recordings: Vec<Recording>,
    /// Maximum bytes of an upload.
    pub upload_bytes_max: u64,
    /// Seconds for which an upload is kept.
    pub upload_seconds: u64,
}

/// Query parameters of an upload.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SentParams {
    /// Name, for display only.
    #[serde(default)]
    name: String,
}

/// List captures and recordings.
#[utoipa::path(get, path = "/api/v1/recordings", tag = "recordings", responses((status = 200, description = "What may be asked", body = Recordings), (status = "4XX", description = "Why not", body = Failure)))]
pub async fn list(State(app): State<Arc<App>>, caller: Caller) -> Result<Json<Recordings>, Failure> {
    let who = caller.at_least(Role::Run)?;
    let read = move |service: &Service| {
        let limits = service.shelf()?.sent().limits;
        let recordings = service.recordings(&who)?;
        let upload_seconds = limits.time.as_secs();
        Ok(Recordings { recordings, upload_bytes_max: limits.file_bytes, upload_seconds })
    };
    app.run(read).await.map(Json)
}

/// Upload a capture for queries; the body is the file.
#[utoipa::path(
    post, path = "/api/v1/recordings", tag = "recordings", params(SentParams), request_body(content = String, content_type = "application/octet-stream"),
    responses((status = 201, description = "It is there", body = Recording), (status = "4XX", description = "Why not", body = Failure))
)]
pub async fn send(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    Params(params): Params<SentParams>,
    body: Body,
) -> Result<(StatusCode, Json<Recording>), Failure> {
    let who = caller.at_least(Role::Run)?;
    let Ok(_room) = app.sending_room.clone().try_acquire_owned() else {
        return Err(Failure::busy("other files are being sent"));
    };
    let length = header_text(&headers, "content-length").and_then(|text| text.parse().ok());
    let begin = {
        let who = who.clone();
        move |service: &Service| service.shelf()?.sent().begin(&who, &params.name, length)
    };
    let coming = app.run(begin).await?;
    let kept = tokio::time::timeout(TIME, receive(&app, coming, body))
        .await
        .unwrap_or_else(|_| Err(Failure::late()));
    let read = move |service: &Service| {
        let told = match kept {
            Ok(id) => found(service, &who, &id),
            Err(why) => return Ok(Err(why)),
        };
        service.note_result(&who.name, "recording.send", told.as_ref().map_or("", |told| &told.name), &told);
        told.map(Ok)
    };
    app.run(read).await?.map(|told| (StatusCode::CREATED, Json(told)))
}

/// Inspects a new upload and removes it if it is not a capture.
fn found(service: &Service, who: &Access, id: &str) -> Result<Recording, Denied> {
    let one = service.recording(who, id)?.told;
    match &one.problem {
        None => Ok(one),
        Some(why) => {
            service.shelf()?.sent().remove(id);
            Err(Denied::Invalid(format!("this is no capture that can be read: {why}")))
        }
    }
}

/// Writes an upload on a blocking thread; returns its id.
async fn receive(app: &Arc<App>, mut coming: Sending, body: Body) -> Result<String, Failure> {
    let (pieces, mut waiting) = mpsc::channel::<Bytes>(PIECES);
    let (whole, is_whole) = tokio::sync::oneshot::channel::<()>();
    let writing = app.run(move |_: &Service| {
        while let Some(piece) = waiting.blocking_recv() {
            coming.add(&piece)?;
        }
        match is_whole.blocking_recv() {
            Ok(()) => coming.finish(),
            Err(_) => Err(Denied::Invalid("the file's end has not come".into())),
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
#[utoipa::path(delete, path = "/api/v1/recordings/{id}", tag = "recordings", params(("id" = String, Path, description = "By what it is asked")), responses((status = 204, description = "It is gone"), (status = "4XX", description = "Why not", body = Failure)))]
pub async fn remove(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, Failure> {
    let who = caller.at_least(Role::Run)?;
    let remove = move |service: &Service| {
        let removed = service.remove_recording(&who, &id);
        service.note_result(&who.name, "recording.delete", &id, &removed);
        removed
    };
    app.run(remove).await.map(|()| StatusCode::NO_CONTENT)
}
