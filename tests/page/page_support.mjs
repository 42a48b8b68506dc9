// SPDX-License-Identifier: Apache-2.0
// Makes pages of reports, reads their data back, and opens them in Chromium.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { gunzipSync, inflateRawSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const program = process.env.GPUMEMTRACE_PROGRAM;
const requireOfRoom = createRequire(join(here, "../../tools/page/package.json"));
const { chromium } = requireOfRoom("playwright-core");
export const axeSource = readFileSync(requireOfRoom.resolve("axe-core/axe.min.js"), "utf8");

export const folder = mkdtempSync(join(tmpdir(), "page_test"));

/** The path of a made-up report, with all keys: { ranks: 8, stacks: 40, ... } as synthetic_report.py has them. */
export function syntheticReport(name, options = {}) {
  const path = join(folder, `${name}.json`);
  const words = Object.entries(options).flatMap(([key, value]) => [`--${key}`, String(value)]);
  execFileSync(process.env.GPUMEMTRACE_PYTHON ?? "python3", [join(here, "synthetic_report.py"), path, ...words]);
  return path;
}

export function readReport(path) {
  return JSON.parse(readFileSync(path, "utf8"));
}

function writeFile(name, text) {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

export function writeReport(name, report) {
  return writeFile(`${name}.json`, JSON.stringify(report));
}

/** The traces of a run that tests/data/gpu has, and the options that name its code. */
export function recordedTraces(name) {
  const saved = join(here, "../data/gpu", name);
  const traces = join(folder, name);
  mkdirSync(traces);
  for (const file of readdirSync(join(saved, "traces"))) {
    writeFileSync(join(traces, file.replace(/\.gz$/, "")), gunzipSync(readFileSync(join(saved, "traces", file))));
  }
  if (!existsSync(join(saved, "symbols.json.gz"))) return [traces];
  writeFileSync(`${traces}.symbols.json`, gunzipSync(readFileSync(join(saved, "symbols.json.gz"))));
  return [traces, "--symbols", `${traces}.symbols.json`];
}

/** Runs `analyze`; returns the report. */
export function analyzed(input) {
  const path = `${input[0]}.json`;
  execFileSync(program, ["analyze", ...input, "-o", path]);
  return readReport(path);
}

/** Runs `report` on a report, a trace, or a folder of traces with options; returns the page with its data. */
export function makePage(input) {
  const words = [input].flat();
  const path = `${words[0].replace(/\.(json|gmt)$/, "")}.html`;
  execFileSync(program, ["report", ...words, "-o", path, "--force"]);
  const html = readFileSync(path, "utf8");
  const head = JSON.parse(/<script type="application\/json" id="head">(.*?)<\/script>/s.exec(html)[1]);
  const chunks = {};
  for (const [, name, text] of html.matchAll(/<script type="application\/x-data" data-name="(\w+)">([^<]*)<\/script>/g)) {
    chunks[name] = JSON.parse(inflateRawSync(Buffer.from(text, "base64")).toString("utf8"));
  }
  return { path, html, head, chunks };
}

/** What a module of the page exports. */
export async function moduleOfPage(name) {
  const { buildSync } = requireOfRoom("esbuild");
  const { outputFiles } = buildSync({ entryPoints: [join(here, "../../tools/page/src", name)], bundle: true, write: false, format: "esm" });
  return import(`data:text/javascript,${encodeURIComponent(outputFiles[0].text)}`);
}

export function launch() {
  return chromium.launch({ executablePath: findChromium(), args: ["--no-sandbox"] });
}

function findChromium() {
  return execFileSync("sh", ["-c", "command -v chromium"], { encoding: "utf8" }).trim();
}

/** Opens a page and waits until all of its data is drawn. What went wrong is in `complaints`. */
export async function open(browser, path, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 720 }, ...options });
  const page = await context.newPage();
  page.complaints = [];
  page.requests = [];
  page.on("pageerror", (error) => page.complaints.push(error.message));
  page.on("console", (message) => { if (message.type() === "error") page.complaints.push(message.text()); });
  page.on("dialog", (dialog) => { page.complaints.push(`dialog ${dialog.message()}`); void dialog.dismiss(); });
  page.on("request", (request) => page.requests.push(request.url()));
  await page.goto(pathToFileURL(path).href);
  if (options.javaScriptEnabled !== false) await ready(page);
  return page;
}

/** When the page was there, in milliseconds: first paint, the first view, and everything. */
export function paintTimes(page) {
  return page.evaluate(async () => ({
    paint: await new Promise((resolve) => new PerformanceObserver((list) => {
      const [entry] = list.getEntriesByName("first-contentful-paint");
      if (entry) resolve(entry.startTime);
    }).observe({ type: "paint", buffered: true })),
    view: performance.getEntriesByName("first-view")[0]?.startTime,
    all: performance.getEntriesByName("all-drawn")[0]?.startTime,
  }));
}

// The policy of the page forbids what waitForFunction() does with text.
async function ready(page) {
  for (let i = 0; i < 600; ++i) {
    if (await page.evaluate(() => document.documentElement.dataset.ready === "true")) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`the page is not ready: ${page.complaints.join("; ")}`);
}
