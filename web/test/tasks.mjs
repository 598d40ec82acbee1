// Tasks of a page's main thread, from a trace of the browser: their length in CPU time, which other load on the machine
// does not change, and by the clock.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { assert } from "./browse.mjs";

/** CPU time in ms of `calibration` on the machine of the limits (2 cores), without other load. */
const REFERENCE_MS = 35;

/** The longest task of the page's main thread during an action, in ms of CPU time and of wall time. */
export async function longestTask(browser, page, folder, act) {
  const path = join(folder, "trace.json");
  await browser.startTracing(page, { path, categories: ["toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline"] });
  await act();
  await browser.stopTracing();
  const { traceEvents } = JSON.parse(readFileSync(path, "utf8"));
  const names = traceEvents.filter((event) => event.name === "thread_name" && event.args.name === "CrRendererMain");
  const isOurs = (event) => names.some((name) => name.pid === event.pid && name.tid === event.tid);
  const tasks = traceEvents.filter((event) => event.name === "RunTask" || event.name === "ThreadControllerImpl::RunTask").filter(isOurs);
  assert(tasks.length > 0, "no tasks were seen");
  const most = (of) => tasks.reduce((most, task) => Math.max(most, of(task) ?? 0), 0) / 1000;
  return { cpu: most((task) => task.tdur), wall: most((task) => task.dur) };
}

/** How many times slower than the reference the processor is now, which depends on its load and clock: at least 1. */
export async function slowness(browser, page, folder) {
  const times = [];
  for (let run = 0; run < 3; run += 1) times.push((await longestTask(browser, page, folder, () => page.evaluate(calibration))).cpu);
  console.log(`   calibration: ${times.map((ms) => ms.toFixed(0)).join(", ")} ms`);
  return Math.max(1, times.sort((a, b) => a - b)[1] / REFERENCE_MS);
}

/** Work as the page does it with many rows: objects, an order, texts as keys. */
function calibration() {
  const rows = Array.from({ length: 50_000 }, (_, i) => ({ key: `/page/${(i * 7919) % 50_000}`, value: (i * 104_729) % 50_000 }));
  rows.sort((a, b) => a.value - b.value);
  return new Map(rows.map((row) => [row.key, row])).size;
}
