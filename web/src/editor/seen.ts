// The protocols that were seen: in recent stored tuples of jobs, or in a recording.
import { useSignal, type Signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { askKept, catalog, may } from "../api/client";
import type { Job, Recording } from "../api/schema";
import { parsersOf } from "../results/clauses";
import { numeric } from "../common/format";

const PERIOD = "15m";
/** Parsers whose tuples are counted. */
const PARSERS_MAX = 12;
/** Larger captures are not read for the examples. */
const CAPTURE_MAX_BYTES = 50_000_000;
const FRESH_MS = 60_000;

const known = new Map<string, { at: number; names: Promise<string[]> }>();

/** The parsers of application protocols, as `flow` names them. */
async function applications(query: string, recording: string): Promise<string[]> {
  const told = (await askKept(query, recording)).results[0];
  const at = told?.columns.findIndex(({ name }) => name === "application") ?? -1;
  const names = new Set((told?.rows ?? []).flatMap((row) => (typeof row[at] === "string" ? [String(row[at])] : [])));
  const { parsers } = await catalog();
  return parsers.map(({ name }) => name).filter((name) => names.has(name) || names.has(name.replace(/_(query|get)$/, "")));
}

async function inRecording(one: Recording): Promise<string[]> {
  if (one.kind === "data_set") return one.parsers;
  return one.bytes > CAPTURE_MAX_BYTES ? [] : applications("PARSE flow PROCESS (group-count: group=application)", one.id);
}

async function stored(jobs: Job[]): Promise<string[]> {
  const all = [...new Set(jobs.map((job) => parsersOf(job.query)).filter((list) => list.length === 1).map(([one]) => one!))].slice(0, PARSERS_MAX);
  const found: [string, number][] = [];
  // One at a time: the server limits concurrent queries.
  for (const parser of all) {
    const told = (await askKept(`PARSE ${parser} SINCE ${PERIOD} PROCESS (count)`).catch(() => undefined))?.results[0];
    const n = numeric(told?.rows[0]?.[told.columns.findIndex(({ name }) => name === "count")]) ?? 0;
    if (n > 0) found.push([parser, n]);
  }
  return found.sort(([, a], [, b]) => b - a).map(([name]) => name);
}

/** Parsers with tuples, most frequent first; empty while unknown. */
export function useSeen(recording: Recording | null, jobs: Job[], source: string): Signal<string[]> {
  const names = useSignal<string[]>([]);
  const of = source !== "" ? `in ${recording?.id ?? ""}` : jobs.map((job) => job.id).join(" ");
  useEffect(() => {
    names.value = [];
    if (!may("run") || of === "" || of === "in ") return;
    let isGone = false;
    const fresh = known.get(of);
    const load = fresh && Date.now() - fresh.at < FRESH_MS ? fresh.names : (recording ? inRecording(recording) : stored(jobs)).catch(() => []);
    known.set(of, { at: fresh?.names === load ? fresh.at : Date.now(), names: load });
    void load.then((found) => isGone || (names.value = found));
    return () => {
      isGone = true;
    };
  }, [of]);
  return names;
}
