// Shared by tests of the page: the program with its demonstration, and a browser. Requests to other hosts, policy
// violations, dialogs, and console errors fail the step.
import { chromium } from "playwright-core";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const PATIENCE_MS = 60_000;

export function assert(is, what) {
  if (!is) throw new Error(what);
}

/** Waits until a condition holds. */
export async function until(what, look) {
  for (const end = Date.now() + PATIENCE_MS; Date.now() < end; ) {
    const found = await look();
    if (found) return found;
    await new Promise((done) => setTimeout(done, 200));
  }
  throw new Error(`timeout waiting for ${what}`);
}

/**
 * Starts the demonstration and a browser: `program`, a folder for pictures, additional flags, and the errors to ignore,
 * each given as `{ text, url, body }` (`body`: of the request that was refused).
 */
export async function begin(program, pictures, flags, isExcused = () => false) {
  const folder = mkdtempSync(join(tmpdir(), "netalytics-page-"));
  const data = join(folder, "data");
  /** Captures and recordings on the server. */
  const shelf = join(folder, "shelf");
  mkdirSync(shelf);
  let server;
  /** Starts the program, at its previous address if it ran before; returns the login address. */
  async function start(listen = "127.0.0.1:0") {
    server = spawn(program, ["serve", "--demo", "--data", data, "--listen", listen, "--recordings", shelf, ...flags], { stdio: ["ignore", "ignore", "pipe"] });
    let said = "";
    return new Promise((found, failed) => {
      server.stderr.on("data", (bytes) => {
        said += bytes;
        const url = /the page: (http\S+)/.exec(said)?.[1];
        if (url) found(url);
      });
      server.on("exit", () => failed(new Error(`the program ended: ${said}`)));
      setTimeout(() => failed(new Error(`no address came: ${said}`)), PATIENCE_MS).unref();
    });
  }
  async function stop() {
    if (server.exitCode !== null) return;
    const ended = new Promise((done) => server.once("exit", done));
    server.kill("SIGTERM");
    await ended;
  }
  const address = await start();
  const { origin, host } = new URL(address);
  const token = readFileSync(join(data, "admin.token"), "utf8").trim();
  const browser = await chromium.launch({
    executablePath: ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync),
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"],
  });
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, colorScheme: "light", serviceWorkers: "block" });
  const troubles = [];
  /** Origins that pages may request. */
  const known = new Set([host]);

  async function open() {
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    const note = (error) => isExcused(error) || troubles.push(`${error.text} ${error.url} ${error.body ?? ""}`);
    // A refused request is judged by the request: the browser's message, which may be late, does not tell which it was.
    page.on("response", (response) => response.status() >= 400 && note({ text: `refused: ${response.status()}`, url: response.url(), body: response.request().postData() }));
    page.on("console", (message) => message.type() === "error" && !/the server responded with a status of/.test(message.text()) && note({ text: `console: ${message.text()}`, url: message.location().url }));
    page.on("pageerror", (error) => troubles.push(`page: ${error.stack ?? error}`));
    page.on("dialog", (dialog) => {
      troubles.push(`a dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (!known.has(url.host) && !["file:", "data:", "blob:"].includes(url.protocol)) troubles.push(`request to elsewhere: ${request.url()}`);
    });
    return page;
  }

  /** Opens a page logged in as admin. */
  async function enter(page, at = origin) {
    await page.goto(`${at}/#token=${token}`);
    await page.getByRole("heading", { level: 1, name: "Query" }).waitFor();
    await page.waitForFunction(() => !location.hash.includes("token"));
  }

  async function api(path, body) {
    const response = await fetch(`${origin}/api/v1/${path}`, {
      method: body === undefined ? "GET" : "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    assert(response.ok, `${path}: ${response.status} ${await response.clone().text()}`);
    return response.json();
  }

  async function picture(page, name) {
    if (!pictures) return;
    mkdirSync(pictures, { recursive: true });
    await page.screenshot({ path: join(pictures, `${name}.png`) });
  }

  async function end(code) {
    await browser.close().catch(() => undefined);
    await stop();
    rmSync(folder, { recursive: true, force: true });
    process.exit(code);
  }

  async function step(what, act) {
    const from = Date.now();
    try {
      await act();
      assert(troubles.length === 0, troubles.join("\n"));
      console.log(`ok ${String(Date.now() - from).padStart(6)} ms  ${what}`);
    } catch (error) {
      const page = context.pages().at(-1);
      if (page) await picture(page, "failed").catch(() => undefined);
      console.error(`FAILED: ${what}\n${error.stack ?? error}\n${troubles.join("\n")}`);
      await end(1);
    }
  }

  return { folder, shelf, address, origin, token, browser, known, open, enter, api, picture, step, end, stop, again: () => start(host) };
}
