//! OpenAPI description, generated from the handlers.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder};
use utoipa::{Modify, OpenApi, ToSchema};

use super::failure::ApiFailure;
use super::{
    actions, alerts, enrolments, help, jobs, metrics, network, past, recordings, rows, stream, tokens,
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "netalytics",
        description = "Jobs of a netalytics server, their results, and help for writing queries. Times, durations, and ids \
                       are text: nanoseconds do not fit into a JavaScript number."
    ),
    paths(
        help::health, help::counters, metrics::own, metrics::of_jobs, help::catalog, help::check, help::explain,
        jobs::create, jobs::list, jobs::show, jobs::stop, jobs::renew, jobs::accounts, rows::results, rows::rows,
        past::query, recordings::list, recordings::send, recordings::remove, jobs::agents, network::show, stream::stream,
        tokens::create, tokens::list, tokens::revoke,
        tokens::whoami, tokens::login, tokens::logout, tokens::audit,
        alerts::list, alerts::rules, alerts::create_rule, alerts::show_rule, alerts::replace_rule, alerts::remove_rule,
        alerts::silences, alerts::create_silence, alerts::replace_silence, alerts::end_silence, alerts::receivers,
        alerts::test_receiver,
        actions::list, actions::create, actions::show, actions::remove, actions::decisions,
        enrolments::invite, enrolments::list, enrolments::revoke, enrolments::enrol, enrolments::renew,
    ),
    components(schemas(rows::RowsAnswer, past::PastAnswer)),
    security(("token" = []), ("cookie" = [])),
    modifiers(&SecuritySchemes, &FailureResponses)
)]
struct ApiDocument;

/// Authentication schemes.
struct SecuritySchemes;

impl Modify for SecuritySchemes {
    fn modify(&self, api: &mut utoipa::openapi::OpenApi) {
        let components = api.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
        let cookie = ApiKey::Cookie(ApiKeyValue::new(super::sessions::COOKIE));
        components.add_security_scheme("cookie", SecurityScheme::ApiKey(cookie));
    }
}

/// The failures that every operation may answer: of requests (421, 429 …) and of the server (500, 503, 507).
struct FailureResponses;

impl Modify for FailureResponses {
    fn modify(&self, api: &mut utoipa::openapi::OpenApi) {
        let failure = Ref::from_schema_name(ApiFailure::name());
        let content = ContentBuilder::new().schema(Some(failure)).build();
        let response =
            ResponseBuilder::new().description("Error").content("application/json", content).build();
        for item in api.paths.paths.values_mut() {
            let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete];
            for operation in operations.into_iter().flatten() {
                for statuses in ["4XX", "5XX"] {
                    let responses = &mut operation.responses.responses;
                    responses.entry(statuses.to_owned()).or_insert_with(|| RefOr::T(response.clone()));
                }
            }
        }
    }
}

/// The description, as JSON.
#[must_use]
pub fn openapi() -> String {
    ApiDocument::openapi().to_pretty_json().unwrap_or_default()
}

/// Serves the description; needs no token.
pub async fn document() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], openapi()).into_response()
}
