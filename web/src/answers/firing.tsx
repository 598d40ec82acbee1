// Firing alerts, for the navigation and for the jobs that they are about.
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ask } from "../api/client";
import type { AlertList, AlertShown } from "../api/schema";
import { many } from "../common/format";
import { link } from "../common/route";

const REFRESH_MS = 10_000;
/** Alerts beyond these are not counted. */
const ALERTS_MAX = 1000;

const firing = signal<AlertShown[]>([]);

/** Loads them while the page is visible. */
export function useFiring(): AlertShown[] {
  useEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const once = async () => {
      if (!document.hidden) {
        const told = await ask<AlertList>("GET", `/api/v1/alerts?state=firing&limit=${ALERTS_MAX}`, undefined, { signal: abort.signal }).catch(() => undefined);
        if (told) firing.value = told.alerts;
      }
      if (!abort.signal.aborted) timer = setTimeout(() => void once(), REFRESH_MS);
    };
    void once();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, []);
  return firing.value;
}

/** The number of firing alerts over the rows of a job. */
export function FiringHere({ job }: { job: string }) {
  const n = firing.value.filter((alert) => alert.job === job).length;
  return n === 0 ? null : <a class="chip bad" href={link("alerts")}>▲ {many(n)} {n === 1 ? "alert" : "alerts"} firing</a>;
}
