// A place that is loaded when somebody goes there.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Notice } from "./parts";

export function Later({ load }: { load(): Promise<{ default: ComponentType }> }) {
  const [Place, setPlace] = useState<ComponentType | null>(null);
  const [failed, setFailed] = useState(false);
  useEffect(() => void load().then((found) => setPlace(() => found.default), () => setFailed(true)), []);
  if (failed) return <div class="page"><Notice kind="bad">This part of the page could not be loaded: the server does not answer, or is a newer one. <button type="button" onClick={() => location.reload()}>Load the page again</button></Notice></div>;
  return Place ? <Place /> : <div class="page"><p class="muted" role="status">Loading…</p></div>;
}
