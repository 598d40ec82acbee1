// Upload of a capture.
import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { refusal } from "../api/client";
import type { Recording } from "../api/schema";
import { bytes, visible } from "../common/format";
import { Notice, said } from "../common/components";

export function SendFile({ max, done }: { max: number; done(recording: Recording): void }) {
  const busy = useSignal("");
  const failed = useSignal("");
  const input = useRef<HTMLInputElement>(null);
  const send = async (file: File) => {
    failed.value = "";
    if (file.size > max) {
      failed.value = `${file.name} is too large: ${bytes(file.size)}, limit ${bytes(max)}.`;
      return;
    }
    busy.value = `Uploading ${file.name}, ${bytes(file.size)}…`;
    try {
      const response = await fetch(`/api/v1/recordings?name=${encodeURIComponent(file.name)}`, { method: "POST", body: file, headers: { "Content-Type": "application/octet-stream" }, credentials: "same-origin" });
      if (!response.ok) throw await refusal(response);
      done((await response.json()) as Recording);
    } catch (why) {
      failed.value = (why as Error).name === "TypeError" ? "Upload failed: the server is not responding, or closed the connection." : said(why);
    } finally {
      busy.value = "";
      if (input.current) input.current.value = "";
    }
  };
  return (
    <>
      <label class="inline send">
        <span class="button">{busy.value !== "" ? visible(busy.value) : "Upload capture…"}</span>
        <input ref={input} class="hidden" type="file" accept=".pcap,.pcapng,.cap,.gz,.zst,.xz,.lz4" disabled={busy.value !== ""} aria-label="Capture file to upload" onChange={(event) => { const file = event.currentTarget.files?.[0]; if (file) void send(file); }} />
      </label>
      {failed.value !== "" && <Notice kind="bad">{visible(failed.value)}</Notice>}
    </>
  );
}
