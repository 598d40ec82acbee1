// Lazy loading of parts of the page.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Notice } from "./components";

/** A lazily loaded module, and whether loading failed. */
export function useLater<T>(load: () => Promise<T>, when = true): [T | undefined, boolean] {
  const [found, setFound] = useState<T | undefined>(undefined);
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    if (!when || found) return;
    let timer: ReturnType<typeof setTimeout>;
    const attempt = () =>
      load().then((it) => (setFailed(false), setFound(() => it)), () => {
        setFailed(true);
        timer = setTimeout(attempt, 3000);
      });
    void attempt();
    return () => clearTimeout(timer);
  }, [when]);
  return [found, failed];
}

export function Later({ load }: { load(): Promise<{ default: ComponentType }> }) {
  const [found, failed] = useLater(load);
  if (failed) return <div class="page"><Notice kind="bad">This part of the page could not be loaded: the server is not responding, or was upgraded. <button type="button" onClick={() => location.reload()}>Reload page</button></Notice></div>;
  return found ? <found.default /> : <div class="page"><p class="muted" role="status">Loading…</p></div>;
}
