// SPDX-License-Identifier: Apache-2.0
// Makes pages of reports, reads their data back, and opens them in Chromium.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { inflateRawSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const program = process.env.GPUMEMTRACE_PROGRAM;
const requireOfRoom = createRequire(join(here, "../../tools/page/package.json"));
const { chromium } = requireOfRoom("playwright-core");
export const axeSource = readFileSync(requireOfRoom.resolve("axe-core/axe.min.js"), "utf8");

export const folder = mkdtempSync(join(tmpdir(), "page_test"));

/** The path of a made-up report: { ranks: 8, stacks: 40, ... } as synthetic_report.py has them. */
export function syntheticReport(name, options = {}) {
  const path = join(folder, `${name}.json`);
  const words = Object.entries(options).flatMap(([key, value]) => [`--${key}`, String(value)]);
  execFileSync(process.env.GPUMEMTRACE_PYTHON ?? "python3", [join(here, "synthetic_report.py"), path, ...words]);
  return path;
}

export function readReport(path) {
  return JSON.parse(readFileSync(path, "utf8"));
}

export function writeReport(name, report) {
  const path = join(folder, `${name}.json`);
  writeFileSync(path, JSON.stringify(report));
  return path;
}

/** Runs `report`; returns the page with its data. */
export function makePage(reportPath) {
  const path = reportPath.replace(/\.json$/, ".html");
  execFileSync(program, ["report", reportPath, "-o", path, "--force"]);
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

// The policy of the page forbids what waitForFunction() does with text.
async function ready(page) {
  for (let i = 0; i < 600; ++i) {
    if (await page.evaluate(() => document.documentElement.dataset.ready === "true")) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`the page is not ready: ${page.complaints.join("; ")}`);
}
