// The windows of an earlier period, for a chart with both periods; from stored data or the recording.
import { askKept } from "../api/client";
import { useAsked } from "../common/components";
import { alone, within, type Period } from "../results/clauses";
import { Result } from "../results/model";
import type { Earlier } from "../charts/time_chart";

/** Nothing without a comparison, or while loading. */
export function useEarlier(result: Result | undefined, query: string, recording: string, times: { own: Period; baseline: Period } | null): { answer?: Earlier | null; error?: unknown } {
  const text = result && times ? within(alone(query, result.place), times.baseline) : "";
  return useAsked<Earlier | null>(async (signal) => {
    if (text === "" || !times) return null;
    const told = (await askKept(text, recording, undefined, signal)).results[0];
    if (!told) return null;
    const found = new Result(0, told.processor, told.columns, told.keys, told.rows.length);
    for (const window of found.windowsOf(told.rows)) if (window.start !== "") found.put(window);
    return { result: found, windows: found.inOrder, by: BigInt(times.own.since) - BigInt(times.baseline.since) };
  }, [text, recording]);
}
