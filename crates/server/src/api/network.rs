//! The network: switches with their rules for jobs, and the locations of monitors.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::State;

use super::app::AppState;
use super::caller::RequestCaller;
use super::failure::ApiFailure;
use super::json::JsonResponse;
use crate::gateway::network::NetworkView;
use crate::job::JobId;
use crate::store::access::AccessRole;

/// Show the network, the active rules, and the locations of jobs' monitors with the reasons.
#[utoipa::path(
    get, path = "/api/v1/network", tag = "agents",
    responses(
        (status = 200, description = "Jobs are limited to those visible to the token", body = NetworkView),
        (status = "4XX", description = "Error", body = ApiFailure),
    )
)]
pub async fn show(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
) -> Result<JsonResponse<NetworkView>, ApiFailure> {
    let who = caller.at_least(AccessRole::View)?;
    let look = move |service: &crate::api::service::Service| {
        let mut view = service.jobs.fleet.network();
        if who.is_scoped() {
            let seen: BTreeSet<JobId> = view
                .jobs
                .iter()
                .map(|of| of.job)
                .filter(|job| service.jobs.get(&who, *job).is_ok())
                .collect();
            view.jobs.retain(|of| seen.contains(&of.job));
            for switch in &mut view.switches {
                switch
                    .rules
                    .retain(|rule| rule.job.is_none_or(|job| seen.contains(&job)));
                switch
                    .mirrors
                    .retain(|mirror| mirror.job.is_none_or(|job| seen.contains(&job)));
            }
        }
        Ok(view)
    };
    Ok(JsonResponse(app.run(look).await?))
}
