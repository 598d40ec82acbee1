// Hostile packets: `node web/test/hostile.mjs PROGRAM CAPTURE [FOLDER FOR PICTURES] [FLAGS]`. In CAPTURE
// (crates/netalytics/tests/captures/hostile.rs) every text tries to become an element, a script, or a bidirectional
// override. Each parser is shown in each view; everything must stay text.
import { copyFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { assert, begin, until } from "./browse.mjs";

const [program, capture, pictures, ...flags] = process.argv.slice(2);
const MARK = "img/src=x/onerror=alert(1)";
/** Control, invisible, and bidirectional characters. */
const ACTS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u202a-\u202e\u2066-\u2069\ufeff]/;
const NAME = `</title><${MARK}><script>alert(5)</script>\u202e`;
const ASKED = [
  ["http", "PARSE http PROCESS (group-count-quantile-hist: group=url, q=0.5, 0.99, w=1s)"],
  ["hosts", "PARSE http PROCESS (group-count: group=host, user_agent, w=1s)"],
  ["headers", "PARSE http PROCESS (group-count: group=request_header.x_forwarded_for, request_header.referer, content_type, w=1s)"],
  ["ranking", "PARSE http PROCESS (group-count-top-k: group=url, w=1s)"],
  ["tuples", "PARSE http"],
  ["mysql", "PARSE mysql_query PROCESS (group-count: group=query, user, database, w=1s)"],
  ["fingerprints", "PARSE mysql_query PROCESS (group-count: group=fingerprint, w=1s)"],
  ["memcached", "PARSE memcached PROCESS (group-count: group=cache_key, w=1s)"],
  ["redis", "PARSE redis PROCESS (group-count: group=key, error, w=1s)"],
  ["dns", "PARSE dns PROCESS (group-count: group=query_name, w=1s)"],
  ["tls", "PARSE tls PROCESS (group-count: group=sni, w=1s)"],
  ["nfs", "PARSE nfs PROCESS (group-count: group=name, path, machine, w=1s)"],
  ["map", "PARSE http PROCESS (service-map: w=1s)"],
];

const { folder, shelf, origin, open, enter, api, picture, step, end } = await begin(program, pictures, ["--demo-capture", capture, ...flags]);
const page = await open();
const began = Date.now();

/** Asserts that no text has become an element or contains such characters. */
async function isText(where, of = page) {
  const found = await of.evaluate(() => {
    const roots = [document];
    for (const root of roots) for (const element of root.querySelectorAll("*")) if (element.shadowRoot) roots.push(element.shadowRoot);
    const all = roots.flatMap((root) => [...root.querySelectorAll("*")]);
    return {
      elements: all.filter((one) => ["IMG", "IFRAME", "OBJECT", "EMBED", "BASE", "FORM"].includes(one.tagName) && !one.closest("form.own, main form, dialog form, .cm-content") && !one.src?.startsWith("data:image/png")).map((one) => one.outerHTML.slice(0, 200)),
      scripts: [...document.querySelectorAll("script")].filter((one) => !one.src.startsWith(location.origin)).map((one) => one.outerHTML.slice(0, 200)),
      handlers: all.flatMap((one) => one.getAttributeNames().filter((name) => name.startsWith("on")).map((name) => `${one.tagName} ${name}`)),
      links: [...document.querySelectorAll("a[href]")].map((one) => one.protocol).filter((protocol) => !["http:", "https:", "file:"].includes(protocol)),
      text: document.body.innerText + [...document.querySelectorAll("[title], [aria-label]")].map((one) => `${one.getAttribute("title") ?? ""}${one.getAttribute("aria-label") ?? ""}`).join("\n") + roots.slice(1).map((root) => root.textContent).join("\n"),
      title: document.title,
    };
  });
  for (const kind of ["elements", "scripts", "handlers", "links"]) assert(found[kind].length === 0, `${where}: ${kind}: ${JSON.stringify(found[kind])}`);
  const acting = ACTS.exec(found.text + found.title);
  assert(!acting, `${where}: ${JSON.stringify(found.text.slice(Math.max(0, (acting?.index ?? 0) - 40), (acting?.index ?? 0) + 40))}`);
  return found.text;
}

const jobs = new Map();
await step("a job per parser", async () => {
  await enter(page);
  for (const [name, query] of ASKED) {
    const job = await api("jobs", { query, name: `${name} ${NAME}`, kind: "standing", lease_seconds: null, redact: false });
    jobs.set(name, job.id);
  }
  await page.goto(`${origin}/#/jobs`);
  await page.getByText(`fingerprints </title><${MARK}>`).first().waitFor();
  await isText("Jobs");
});

for (const [name] of ASKED) {
  await step(`${name}: everything shown is text`, async () => {
    const id = jobs.get(name);
    await until(`rows of ${name}`, async () => (await api(`jobs/${id}/rows?limit=5`)).rows.length > 0);
    await page.goto(`${origin}/#/job/${id}`);
    await page.locator(".rows tbody tr").first().waitFor();
    const text = await isText(`${name}, table`);
    if (name !== "map") assert(text.includes(MARK), `${name}: the text itself is not there: ${text.slice(0, 2000)}`);
    if (["http", "map", "tuples", "mysql"].includes(name)) await picture(page, `hostile-${name}`);
    const views = name === "tuples" ? [] : name === "http" ? ["time", "spread", "heat"] : name === "map" ? ["map"] : ["time"];
    for (const view of views) {
      await page.goto(`${origin}/#/job/${id}?view=${view}`);
      await page.locator({ time: ".plot canvas", spread: ".spread rect", heat: ".heat canvas", map: ".edge" }[view]).first().waitFor();
      await isText(`${name}, ${view}`);
      if (name === "http") await picture(page, `hostile-${name}-${view}`);
    }
  });
}

await step("a saved result is text", async () => {
  for (const [name, view] of [["http", "spread"], ["mysql", "table"], ["map", "map"]]) {
    await page.goto(`${origin}/#/job/${jobs.get(name)}?view=${view}`);
    const button = page.getByRole("button", { name: "Save as HTML", exact: true });
    await button.waitFor();
    await page.locator({ spread: ".spread rect", table: ".rows tbody tr", map: ".edge" }[view]).first().waitFor();
    const coming = page.waitForEvent("download");
    await button.click();
    const path = join(folder, `${name}.html`);
    await (await coming).saveAs(path);
    const text = readFileSync(path, "utf8");
    assert(!text.includes(`<${MARK}`) && !/<script/i.test(text) && !ACTS.test(text), `${name}: the file holds more than text`);
    const alone = await open();
    await alone.goto(`file://${path}`);
    await isText(`${name}, saved`, alone);
    await alone.close();
  }
});

await step("search text and addresses stay text", async () => {
  const bad = encodeURIComponent(`<${MARK}>\u202e`);
  await page.goto(`${origin}/#/job/${jobs.get("http")}?find=${bad}&sort=${bad}&groups=${bad}&view=${bad}&at=${bad}`);
  await page.getByRole("heading", { level: 1 }).waitFor();
  await page.waitForTimeout(300);
  await isText("an address");
  await page.goto(`${origin}/#/ask?q=${encodeURIComponent(`PARSE http WHERE url = '<${MARK}>\u202a\u2068\u202e' PROCESS (group-count: group=url)`)}`);
  await page.waitForFunction((mark) => document.querySelector(".editor-host")?.shadowRoot?.textContent.includes(mark), MARK);
  await isText("Query");
});

await step("alerts stay text", async () => {
  await api("alert-rules", { name: `alert ${NAME}`, job: jobs.get("hosts"), when: "count > 0", labels: { severity: `<${MARK}>` }, annotations: { summary: `{host} of {user_agent} <${MARK}>` } });
  await until("an alert", async () => JSON.stringify(await api("alerts")).includes(MARK));
  await page.goto(`${origin}/#/alerts`);
  await page.getByText(MARK).first().waitFor();
  await isText("Alerts");
  await picture(page, "hostile-alerts");
});

await step("names of files and jobs stay text", async () => {
  await api("jobs", { query: "PARSE http", name: `kept ${NAME}`, kind: "standing", lease_seconds: null, keep: "tuples", redact: false });
  copyFileSync(capture, join(shelf, "<img src=x onerror=alert(1)>\u202e\u200bgnp.pcap"));
  await page.goto(`${origin}/#/recordings`);
  await page.getByText("onerror=alert(1)>").first().waitFor();
  await page.getByText(`kept </title><${MARK}>`).first().waitFor();
  await isText("Recordings");
  await picture(page, "hostile-recordings");
});

await step("offered values stay text", async () => {
  await until("tuples", async () => JSON.stringify((await api("query", { query: "PARSE http SINCE 15m PROCESS (group-count-top-k: group=url, k=30)" }).catch(() => ({}))).results ?? "").includes(MARK));
  await page.goto(`${origin}/#/ask`);
  await page.reload();
  await page.locator(".editor-host .cm-content").click();
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Delete");
  await page.keyboard.type("PARSE http WHERE url = ");
  const offered = page.locator(".editor-host .cm-tooltip-autocomplete li");
  await offered.first().waitFor();
  assert((await isText("values")).includes(MARK), "no value of strangers is offered");
  await picture(page, "hostile-values");
  for (let left = await offered.count(); left > 0; left -= 1) await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await isText("a value that was taken");
  await picture(page, "hostile-value");
});

for (const name of ["network", "jobs", "access"]) {
  await step(`${name}: everything shown is text`, async () => {
    await page.goto(`${origin}/#/${name}`);
    await page.getByRole("heading", { level: 1 }).waitFor();
    await page.waitForTimeout(300);
    await isText(name);
  });
}

console.log(`all of it took ${((Date.now() - began) / 1000).toFixed(1)} s`);
await end(0);
