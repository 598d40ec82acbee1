// The standing jobs, for alert rules and actions.
import { ask } from "../api/client";
import type { Job, Jobs } from "../api/schema";
import { visible } from "../common/format";
import { Notice, useAsked } from "../common/components";

/** `undefined`: not loaded yet. */
export function useStanding(): Job[] | undefined {
  const { answer } = useAsked((signal) => ask<Jobs>("GET", "/api/v1/jobs?limit=1000", undefined, { signal }), []);
  return answer?.jobs.filter((job) => job.kind === "standing" && job.state !== "ended");
}

/** Selection of a standing job. */
export const OfJob = ({ jobs }: { jobs: Job[] | undefined }) => (
  <>
    <label>Job
      <select name="job" required>{jobs?.map((job) => <option value={job.id}>{job.id}: {visible(job.name || job.query.slice(0, 60))}</option>)}</select>
    </label>
    {jobs?.length === 0 && <Notice kind="warn">No standing job. Run a query with the option “Standing job” first.</Notice>}
  </>
);
