// Tasks of a page's main thread, from a trace of the browser: their length in CPU time, which other load on the machine
// does not change, and by the clock.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { assert } from "./browse.mjs";

/** Median CPU time in ms of `calibration` on the machine of the limits (2 cores), without other load. */
const REFERENCE_MS = 60;

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
  assert(tasks.length > 20, `${tasks.length} tasks were seen`);
  const most = (of) => tasks.reduce((most, task) => Math.max(most, of(task) ?? 0), 0) / 1000;
  return { cpu: most((task) => task.tdur), wall: most((task) => task.dur) };
}

/** How many times slower than the reference this machine is now: at least 1. */
export async function slowness(page) {
  const times = await page.evaluate(async () => {
    const times = [];
    for (let run = 0; run < 5; run += 1) {
      // A task of its own each.
      await new Promise((after) => setTimeout(after));
      const from = performance.now();
      const rows = Array.from({ length: 50_000 }, (_, i) => ({ key: `/page/${(i * 7919) % 50_000}`, value: (i * 104_729) % 50_000 }));
      rows.sort((a, b) => a.value - b.value);
      const byKey = new Map(rows.map((row) => [row.key, row]));
      if (byKey.size !== 50_000) throw new Error("calibration");
      times.push(performance.now() - from);
    }
    return times;
  });
  return Math.max(1, times.sort((a, b) => a - b)[2] / REFERENCE_MS);
}
