//! OpenAPI description, generated from the handlers.

use std::collections::BTreeSet;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::openapi::schema::{Array, Components, Object, Schema, SchemaType, Type};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder};
use utoipa::{Modify, OpenApi, ToSchema};

use super::failure::ApiFailure;
use super::{
    actions, alerts, enrollments, flows, help, jobs, metrics, network, packets, past, recordings,
    rows, stream, stream_events, tokens,
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
        past::query, recordings::list, recordings::send, recordings::remove, flows::conversation, flows::packets, packets::fetch, jobs::agents, network::show, stream::stream,
        tokens::create, tokens::list, tokens::revoke,
        tokens::whoami, tokens::login, tokens::logout, tokens::audit,
        alerts::list, alerts::rules, alerts::create_rule, alerts::show_rule, alerts::replace_rule, alerts::remove_rule,
        alerts::silences, alerts::create_silence, alerts::replace_silence, alerts::end_silence, alerts::receivers,
        alerts::test_receiver,
        actions::list, actions::create, actions::show, actions::remove, actions::decisions,
        enrollments::invite, enrollments::list, enrollments::revoke, enrollments::enroll, enrollments::renew,
    ),
    components(schemas(
        rows::RowsAnswer, past::PastAnswer,
        stream_events::HelloEvent, stream_events::SnapshotEvent, stream_events::WindowEvent, stream_events::AccountEvent,
        stream_events::SamplingEvent, stream_events::JobEvent, stream_events::GapEvent, stream_events::ByeEvent,
    )),
    security(("token" = []), ("cookie" = [])),
    modifiers(&SecuritySchemes, &FailureResponses, &CompleteResponses)
)]
struct ApiDocument;

/// Authentication schemes.
struct SecuritySchemes;

impl Modify for SecuritySchemes {
    fn modify(&self, api: &mut utoipa::openapi::OpenApi) {
        let components = api.components.get_or_insert_default();
        components.add_security_scheme(
            "token",
            SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)),
        );
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
        let response = ResponseBuilder::new()
            .description("Error")
            .content("application/json", content)
            .build();
        for item in api.paths.paths.values_mut() {
            let operations = [
                &mut item.get,
                &mut item.put,
                &mut item.post,
                &mut item.delete,
            ];
            for operation in operations.into_iter().flatten() {
                for statuses in ["4XX", "5XX"] {
                    let responses = &mut operation.responses.responses;
                    responses
                        .entry(statuses.to_owned())
                        .or_insert_with(|| RefOr::T(response.clone()));
                }
            }
        }
    }
}

/// Responses contain every field: one without a value is null. Types of requests, whose fields may be omitted, remain.
struct CompleteResponses;

impl Modify for CompleteResponses {
    fn modify(&self, api: &mut utoipa::openapi::OpenApi) {
        let Some(components) = &mut api.components else {
            return;
        };
        let mut requested = BTreeSet::new();
        let operations = api
            .paths
            .paths
            .values()
            .flat_map(|item| [&item.post, &item.put])
            .flatten();
        for body in operations.filter_map(|operation| operation.request_body.as_ref()) {
            add_references(body, components, &mut requested);
        }
        for (_, schema) in components
            .schemas
            .iter_mut()
            .filter(|(name, _)| !requested.contains(*name))
        {
            require_nullable(schema);
        }
    }
}

/// Adds the names of the schemas to which a part of the document refers, directly or through others.
fn add_references(part: &impl Serialize, components: &Components, names: &mut BTreeSet<String>) {
    let text = serde_json::to_string(part).unwrap_or_default();
    for reference in text.split("\"#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap_or_default();
        if names.insert(name.to_owned())
            && let Some(schema) = components.schemas.get(name)
        {
            add_references(schema, components, names);
        }
    }
}

fn require_nullable(schema: &mut RefOr<Schema>) {
    match schema {
        RefOr::T(Schema::Object(object)) => {
            let is_nullable = |schema: &RefOr<Schema>| match schema {
                RefOr::T(Schema::Object(Object {
                    schema_type: SchemaType::Array(types),
                    ..
                })) => types.contains(&Type::Null),
                RefOr::T(Schema::Array(Array {
                    schema_type: SchemaType::Array(types),
                    ..
                })) => types.contains(&Type::Null),
                RefOr::T(Schema::OneOf(one_of)) => one_of.items.iter().any(is_null),
                _ => false,
            };
            let nullable = object
                .properties
                .iter()
                .filter(|(_, schema)| is_nullable(schema));
            let nullable: Vec<String> = nullable.map(|(name, _)| name.clone()).collect();
            object.required.extend(nullable);
        }
        RefOr::T(Schema::AllOf(all)) => all.items.iter_mut().for_each(require_nullable),
        _ => {}
    }
}

fn is_null(schema: &RefOr<Schema>) -> bool {
    matches!(
        schema,
        RefOr::T(Schema::Object(Object {
            schema_type: SchemaType::Type(Type::Null),
            ..
        }))
    )
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
