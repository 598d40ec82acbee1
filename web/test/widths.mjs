// Every page on a small and on a large screen, light and dark: `node web/test/widths.mjs PROGRAM [FOLDER FOR PICTURES]
// [FLAGS]`. Nothing exceeds the screen, no texts overlap, and axe finds nothing. Names are as long as people and
// machines make them.
import { copyFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { assert, begin, until } from "./browse.mjs";
import { layoutFaults, violations } from "./looks.mjs";

const [program, pictures, ...flags] = process.argv.slice(2);
const root = dirname(dirname(fileURLToPath(import.meta.url)));
const CAPTURE = join(dirname(root), "captures/shop/in.pcap");
const SCREENS = [[390, 844], [2560, 1440]];
/** A name without a place to break a line. */
const LONG = `payments-${"0123456789abcdef".repeat(6)}`;
const QUERY = "PARSE http PROCESS (diff-group: group=url_template, w=1s), (group-hist: group=url_template, w=1s), (service-map: w=1s), (group-count-top-k: group=client_ip, url_template, w=1s)";
const [ROWS, HISTOGRAM, MAP, RANKING] = ["0", "1", "2", "3"];

const NO_JOB = "999999";
const { shelf, origin, token, open, enter, api, picture, step, end } = await begin(program, pictures, flags, ({ url }) => url.includes(NO_JOB));
copyFileSync(CAPTURE, join(shelf, `${LONG}.pcap`));
const began = Date.now();
const page = await open();
await enter(page);

const job = await api("jobs", { query: QUERY, name: LONG, kind: "standing", lease_seconds: null });
await step("setup: a job, a rule that fires, an action, a token, all with long names", async () => {
  await api("alert-rules", { name: `slow ${LONG}`, job: job.id, result: "diff-group", when: "count > 0", annotations: { summary: `{url_template}: p99 total {p99_total_time}, first byte {p99} ${LONG}` } });
  await api("tokens", { name: LONG.slice(0, 60), role: "view" }).catch(() => undefined);
  await until("rows", async () => (await api(`jobs/${job.id}/rows?limit=100`)).rows.length > 4);
  await until("alerts", async () => (await api("alerts")).alerts.length > 0);
});

const recording = (await api("recordings")).recordings.find(({ name }) => name.startsWith(LONG)).id;
const stored = (query) => `#/answer?in=${recording}&q=${encodeURIComponent(query)}`;
const ofJob = (result, view, more = "") => `#/job/${job.id}?result=${result}&view=${view}${more}`;
const rows = ".rows tbody tr";
const plot = ".plot canvas";
const click = (name) => () => page.getByRole("button", { name }).first().click();
const press = (key) => () => page.keyboard.press(key);
const opened = "dialog[open]";

/** Name, address, an element that is shown once the page is complete, and an action with the element that it shows. */
const PLACES = [
  ["query", `#/ask?q=${encodeURIComponent(QUERY)}`, ".plan svg"],
  ["query-error", `#/ask?q=${encodeURIComponent("PARSE htttp WHERE pahth = 'x' PROCESS (group-count: group=url_templat)")}`, ".problem"],
  ["builder", `#/ask?build=1&q=${encodeURIComponent("PARSE http PROCESS (rate: w=1s)")}`, ".builder"],
  ["jobs", "#/jobs", "main table, main .list"],
  ["job-table", ofJob(ROWS, "table"), rows],
  ["job-quality", ofJob(ROWS, "table"), rows, click("Quality details"), ".believe"],
  ["job-ranking", ofJob(RANKING, "table"), rows],
  ["job-time", ofJob(ROWS, "time"), plot],
  ["job-distribution", ofJob(HISTOGRAM, "spread"), ".spread canvas, .spread svg"],
  ["job-heat", ofJob(HISTOGRAM, "heat"), ".heat canvas"],
  ["job-map", ofJob(MAP, "map"), ".edge"],
  ["job-details", ofJob(ROWS, "table"), rows, () => page.locator(".rows tbody .number").first().click(), opened],
  ["job-alert", ofJob(ROWS, "table"), rows, click("Alert on this"), opened],
  ["map", "#/map", ".edge"],
  ["map-table", "#/map?view=table", "main table tbody tr"],
  ["network", "#/network", ".agent"],
  ["alerts", "#/alerts", ".alert"],
  ["alerts-rule", "#/alerts", ".alert", click("New rule"), opened],
  ["alerts-action", "#/alerts", ".alert", click("New action"), opened],
  ["recordings", "#/recordings", "main table tbody tr"],
  ["stored-table", stored("PARSE http PROCESS (diff-group: group=url_template, w=100ms)"), rows],
  ["stored-tuples", stored("PARSE http"), rows],
  ["access", "#/access", "main table, main .list"],
  ["shortcuts", "#/jobs", "main table, main .list", press("?"), opened],
  ["unknown", `#/job/${NO_JOB}`, "[role=alert]"],
];

const faults = [];
/** Judges what is shown on a screen: its layout, and its colors light and dark. */
async function judge(name, width) {
  const note = (found) => faults.push(...found.map((fault) => `${name}, ${width} px: ${fault}`));
  for (const colorScheme of ["dark", "light"]) {
    await page.emulateMedia({ colorScheme });
    await page.waitForTimeout(150);
    await picture(page, `widths-${name}-${width}-${colorScheme}`);
    note(await (colorScheme === "dark" ? violations(page, ["color-contrast"]) : violations(page)));
  }
  note(await layoutFaults(page));
}

await step("faults that are made are found", async () => {
  await page.setViewportSize({ width: 390, height: 844 });
  await page.goto(`${origin}/#/jobs`);
  await page.locator("main table, main .list").first().waitFor();
  const made = [
    ["overlap of", (h1) => (h1.style.marginBottom = "-2rem")],
    ["wider than the screen", (h1) => (h1.style.minWidth = "500px")],
    ["outside the screen", (h1) => (h1.style.marginLeft = "-3rem")],
    ["smaller than its text", () => (document.querySelector("nav li a").style.width = "10px")],
  ];
  for (const [fault, make] of made) {
    const before = await page.locator("h1").evaluate((h1) => h1.getAttribute("style") ?? "");
    await page.locator("h1").evaluate(make);
    const found = await layoutFaults(page);
    assert(found.some((one) => one.includes(fault)), `not found: ${fault}: ${found.join("\n")}`);
    await page.locator("h1").evaluate((h1, before) => (h1.style.cssText = before), before);
  }
});

for (const [width, height] of SCREENS) {
  await step(`${PLACES.length} places, ${width} px: nothing exceeds the screen or overlaps; accessibility`, async () => {
    await page.setViewportSize({ width, height });
    for (const [name, address, complete, act, shows] of PLACES) {
      await page.goto("about:blank");
      await page.goto(`${origin}/${address}`);
      await page.locator(complete).first().waitFor();
      await page.locator(".skeleton").waitFor({ state: "detached" });
      if (act) {
        await act();
        await page.locator(shows).first().waitFor();
      }
      await judge(name, width);
    }
    assert(faults.length === 0, faults.join("\n"));
  });
}

await step("login: the same", async () => {
  for (const [width, height] of SCREENS) {
    await page.setViewportSize({ width, height });
    await page.goto(`${origin}/#/jobs`);
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByLabel("Token").waitFor();
    await judge("login", width);
    await page.getByLabel("Token").fill(token);
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByRole("navigation").waitFor();
  }
  assert(faults.length === 0, faults.join("\n"));
});

console.log(`all of it took ${((Date.now() - began) / 1000).toFixed(1)} s`);
await end(0);
