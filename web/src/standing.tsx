// The standing jobs, for alert rules and actions.
import { ask, type Job } from "./api";
import { visible } from "./format";
import { Notice, useAsked } from "./parts";

/** `undefined`: not loaded yet. */
export function useStanding(): Job[] | undefined {
  const { answer } = useAsked((signal) => ask<{ jobs: Job[] }>("GET", "/api/v1/jobs?limit=1000", undefined, { signal }), []);
  return answer?.jobs.filter((job) => job.kind === "standing" && job.state !== "ended");
}

/** Selection of a job; required for `what`. */
export const OfJob = ({ label, what, jobs }: { label: string; what: string; jobs: Job[] | undefined }) => (
  <>
    <label>{label}
      <select name="job" required>{jobs?.map((job) => <option value={job.id}>{job.id}: {visible(job.name || job.query.slice(0, 60))}</option>)}</select>
    </label>
    {jobs?.length === 0 && <Notice kind="warn">{what} needs a standing job: run a query with “Keep watching” first.</Notice>}
  </>
);
