// Client of the server's API, and the handling of expired sessions.
import { signal } from "@preact/signals";

/** The logged-in user; null: not logged in; undefined: not known yet. */
export const me = signal<{ name: string; role: Role } | null | undefined>(undefined);
export const version = signal("");

export type Role = "agent" | "view" | "run" | "raw" | "admin";
const ROLES: Role[] = ["agent", "view", "run", "raw", "admin"];

/** Whether the user's role includes `role`. */
export function may(role: Role): boolean {
  return !!me.value && ROLES.indexOf(me.value.role) >= ROLES.indexOf(role);
}

export interface Place {
  start: number;
  end: number;
  start_utf16: number;
  end_utf16: number;
}

export interface Problem {
  place: Place;
  message: string;
  expected: string | null;
  hint: string | null;
}

/** An error response of the server, with its message. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly problems: Problem[] = [],
  ) {
    super(message);
    this.name = "Refused";
  }
}

/** Sends a request and parses the response. */
export async function ask<T>(method: string, path: string, body?: unknown, more: RequestInit = {}): Promise<T> {
  const headers: Record<string, string> = { Accept: "application/json", ...(more.headers as Record<string, string>) };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response: Response;
  try {
    response = await fetch(path, { ...more, method, headers, body: body === undefined ? null : JSON.stringify(body), credentials: "same-origin" });
  } catch (error) {
    if ((error as Error).name === "AbortError") throw error;
    throw new Refused(0, "away", "The server does not answer.");
  }
  if (response.ok) return (response.status === 204 ? undefined : await response.json()) as T;
  throw await refusal(response);
}

const RETRY_MIN_MS = 1_000;
const RETRY_MAX_MS = 15_000;

/** Whether a retry may succeed: no response, or the server is busy. */
const isPassing = (error: unknown) => error instanceof Refused && ([0, 429, 502, 504].includes(error.status) || (error.status === 503 && error.code !== "timeout"));

/** Retries until there is a response or a permanent error; `failed` is called for each failure. */
export async function lasting<T>(load: () => Promise<T>, signal: AbortSignal, failed?: (why: unknown) => void): Promise<T> {
  for (let wait = RETRY_MIN_MS; ; wait = Math.min(2 * wait, RETRY_MAX_MS)) {
    try {
      return await load();
    } catch (error) {
      if (signal.aborted || !isPassing(error)) throw error;
      failed?.(error);
    }
    await new Promise((after) => setTimeout(after, wait));
    signal.throwIfAborted();
  }
}

/** The reason for an error response; an unknown user is asked to log in. */
export async function refusal(response: Response): Promise<Refused> {
  let said: { code?: string; message?: string; problems?: Problem[] } = {};
  try {
    said = await response.json();
  } catch {
    // A response from a proxy, not from the server.
  }
  if (response.status === 401 && !response.url.endsWith("/login")) me.value = null;
  return new Refused(response.status, said.code ?? "", said.message ?? `The server answers ${response.status}.`, said.problems ?? []);
}

export async function whoAmI(): Promise<void> {
  const who = await ask<{ name: string | null; role: Role | null; version: string }>("GET", "/api/v1/login");
  version.value = who.version;
  me.value = who.name !== null && who.role !== null ? { name: who.name, role: who.role } : null;
}

export async function logIn(token: string): Promise<void> {
  me.value = await ask("POST", "/api/v1/login", { token });
}

export async function logOut(): Promise<void> {
  await ask("DELETE", "/api/v1/login");
  me.value = null;
}

export interface Column {
  name: string;
  type: "bool" | "u64" | "i64" | "f64" | "text" | "ip" | "hashes" | "json";
  unit: "" | "ns" | "epoch_ns" | "bytes" | "per_second" | "bytes_per_second" | "fraction" | "id";
  doc: string;
  low?: string;
  high?: string;
}

/** A cell; integers that JavaScript would round are strings. */
export type Cell = string | number | boolean | null | [number, number][];
export type Row = Cell[];

export interface Job {
  id: string;
  name: string;
  query: string;
  kind: "one_off" | "standing";
  state: "planned" | "arming" | "running" | "draining" | "ended";
  reason: string | null;
  outcome: string | null;
  owner: string;
  on: Record<string, string>;
  redacted: boolean;
  interfaces: string[];
  capture_filter: string | null;
  lease_seconds: number | null;
  keep: string;
  bus: string | null;
  created_ns: string;
  ended_ns: string | null;
  outlets: { to: string; state: string; delivered: number; behind: number; lost: Record<string, number>; problem: string | null }[];
}

export interface Agent {
  name: string;
  labels: Record<string, string>;
  connected: boolean;
  version: string;
  interfaces: string[];
  cores: number;
  memory_bytes: number;
  capabilities: string[];
  addresses: string[];
  packets_per_second: number | null;
  jobs: string[];
  clock_offset_ns: string | null;
}

/** The response to a query of stored data. */
export interface PastAnswer {
  job: string | null;
  recording: string | null;
  from: string;
  since_ns: string | null;
  until_ns: string | null;
  baseline_since_ns: string | null;
  baseline_until_ns: string | null;
  tuples: number | null;
  notes: string[];
  results: { processor: string | null; keys: number; columns: Column[]; rows: Row[]; left_out: number }[];
}

/** Queries stored data, or a recording. */
export const askKept = (query: string, recording = "", limit?: number, signal?: AbortSignal) =>
  ask<PastAnswer>("POST", "/api/v1/query", { query, ...(recording === "" ? {} : { recording }), ...(limit === undefined ? {} : { limit }) }, signal ? { signal } : {});

/** A capture or recording on the server. */
export interface Recording {
  id: string;
  name: string;
  kind: "upload" | "capture" | "data_set";
  bytes: number;
  written_ns: string;
  first_ns: string | null;
  last_ns: string | null;
  parsers: string[];
  problem: string | null;
  owner: string | null;
  expires_ns: string | null;
}

export interface Catalog {
  parsers: { name: string; doc: string; fields: Column[] }[];
  blocks: { name: string; doc: string }[];
  arguments: { name: string; doc: string; default: string }[];
}

let known: Promise<Catalog> | undefined;
/** Parsers, fields, blocks, and functions; loaded once. */
export const catalog = () =>
  (known ??= ask<Catalog>("GET", "/api/v1/catalog").catch((error) => {
    known = undefined;
    throw error;
  }));

export interface Estimate {
  packets_per_second: number;
  cores: number;
  memory_bytes: number;
  sent_bytes_per_second: number;
}

export interface Explained {
  text: string;
  parsers: { name: string; columns: string[] }[];
  processors: string[];
  estimate: Estimate;
  agents: { agent: string; estimate: Estimate }[];
}

export interface Checked {
  diagnostics: Problem[];
  word: Place | null;
  completions: string[];
}
