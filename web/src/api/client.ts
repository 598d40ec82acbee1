// Client of the server's API, and the handling of expired sessions.
import { signal } from "@preact/signals";
import type { Catalog, Failure, LoginAnswer, PastAnswer, PastRequest, Problem, Role, WhoAnswer } from "./schema";

/** The logged-in user; null: not logged in; undefined: not known yet. */
export const me = signal<LoginAnswer | null | undefined>(undefined);
export const version = signal("");

const ROLES: Role[] = ["agent", "view", "run", "raw", "admin"];

/** Whether the user's role includes `role`. */
export function may(role: Role): boolean {
  return !!me.value && ROLES.indexOf(me.value.role) >= ROLES.indexOf(role);
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
    throw new Refused(0, "away", "The server is not responding.");
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
  let said: Partial<Failure> = {};
  try {
    said = await response.json();
  } catch {
    // A response from a proxy, not from the server.
  }
  if (response.status === 401 && !response.url.endsWith("/login")) me.value = null;
  return new Refused(response.status, said.code ?? "", said.message ?? `The server responded with status ${response.status}.`, said.problems ?? []);
}

export async function whoAmI(): Promise<void> {
  const who = await ask<WhoAnswer>("GET", "/api/v1/login");
  version.value = who.version;
  me.value = who.name !== null && who.role !== null ? { name: who.name, role: who.role } : null;
}

export async function logIn(token: string): Promise<void> {
  me.value = await ask<LoginAnswer>("POST", "/api/v1/login", { token });
}

export async function logOut(): Promise<void> {
  await ask("DELETE", "/api/v1/login");
  me.value = null;
}

/** Queries stored data, or a recording. */
export const askKept = (query: string, recording = "", limit?: number, signal?: AbortSignal) =>
  ask<PastAnswer>("POST", "/api/v1/query", { query, ...(recording === "" ? {} : { recording }), ...(limit === undefined ? {} : { limit }) } satisfies PastRequest, signal ? { signal } : {});

let known: Promise<Catalog> | undefined;
/** Parsers, fields, blocks, and functions; loaded once. */
export const catalog = () =>
  (known ??= ask<Catalog>("GET", "/api/v1/catalog").catch((error) => {
    known = undefined;
    throw error;
  }));
