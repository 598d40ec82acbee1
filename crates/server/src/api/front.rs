//! The page for browsers: its files, or the page without scripts if the program was built without them.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};

use super::app::AppState;
use super::failure::ApiFailure;
use super::page;

/// The page, or the one without scripts if the program was built without it.
pub async fn home(State(app): State<Arc<AppState>>, request: Request) -> Response {
    match app.assets.answer("index.html", request.headers()) {
        Some(page) => page,
        None => page::status(State(app), request).await,
    }
}

/// The icon requested by browsers.
pub async fn icon(State(app): State<Arc<AppState>>, headers: HeaderMap) -> Response {
    app.assets
        .answer("favicon.svg", &headers)
        .unwrap_or_else(nothing)
}

/// Licenses of the page's dependencies.
pub async fn licenses(State(app): State<Arc<AppState>>, headers: HeaderMap) -> Response {
    app.assets
        .answer("LICENSES.txt", &headers)
        .unwrap_or_else(nothing)
}

/// A file of the page.
pub async fn file(
    State(app): State<Arc<AppState>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Response {
    app.assets
        .answer(&format!("assets/{name}"), &headers)
        .unwrap_or_else(nothing)
}

fn nothing() -> Response {
    ApiFailure::not_found("no resource exists at this address").into_response()
}
