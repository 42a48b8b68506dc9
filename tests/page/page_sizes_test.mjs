// SPDX-License-Identifier: Apache-2.0
// The page of jobs from nothing to 10^6 events and 512 ranks, and of a program that means harm: small
// enough, on the screen soon, and without a request. A page shows rows of the report, whose number has
// a bound that 10^6 events reach; GPUMEMTRACE_TEST_EVENTS=100000000 renews the figures of docs/page.md.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { folder, launch, makePage, open, paintTimes, syntheticReport, writeFile } from "./page_support.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const program = process.env.GPUMEMTRACE_PROGRAM;
const kMostBytes = 10_000_000;
const kMostMs = 1500;
const kRounds = 3;
const kEmptyPageMs = 100; // what an empty page takes at most on a machine that does nothing else

let browser;
let emptyPage;

before(async () => {
  emptyPage = writeFile("nothing.html", "<!doctype html><title>nothing</title><p>nothing");
  browser = await launch();
});

after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true });
});

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

/** The medians of the page's times, and by how much the machine is slower than one at rest. */
async function measured(path) {
  const rows = [];
  const nothing = [];
  for (let i = 0; i < kRounds; ++i) {
    const idle = await open(browser, emptyPage, { isForeign: true });
    nothing.push((await paintTimes(idle)).paint);
    await idle.context().close();
    const page = await open(browser, path);
    assert.deepEqual(page.complaints, []);
    assert.equal(page.requests.filter((url) => !url.startsWith("blob:")).length, 1);
    rows.push(await paintTimes(page));
    await page.context().close();
  }
  return {
    paint: median(rows.map((row) => row.paint)),
    view: median(rows.map((row) => row.view)),
    slower: Math.max(1, median(nothing) / kEmptyPageMs),
  };
}

async function assertSmallAndSoon(path, told) {
  const bytes = statSync(path).size;
  const { paint, view, slower } = await measured(path);
  told.diagnostic(`${bytes} bytes; medians of ${kRounds}: first paint ${paint.toFixed(0)} ms, first view ${view.toFixed(0)} ms, machine slower by ${slower.toFixed(1)}`);
  assert.ok(bytes <= kMostBytes, `${bytes} bytes`);
  assert.ok(paint <= kMostMs * slower && view <= kMostMs * slower, `${paint} and ${view} ms`);
}

const maker = process.env.GPUMEMTRACE_TRACE_MAKER;
for (const events of [1_000, Number(process.env.GPUMEMTRACE_TEST_EVENTS ?? 1_000_000)]) {
  test(`${events} events`, { skip: maker ? false : "the trace of any length is not built" }, async (told) => {
    const trace = join(folder, `events_${events}.gmt`);
    assert.ok(Number(execFileSync(maker, [trace, String(events)])) >= events);
    const { path, head } = makePage(trace);
    rmSync(trace);
    assert.ok(head.page.job.events >= events);
    await assertSmallAndSoon(path, told);
  });
}

for (const ranks of [1, 512]) {
  test(`${ranks} ranks`, async (told) => {
    const { path, head } = makePage(syntheticReport(`ranks_${ranks}`, { ranks, stacks: 20, steps: 40, buckets: 512, depth: 4 }));
    assert.equal(head.page.job.processes, ranks);
    await assertSmallAndSoon(path, told);
  });
}

/** The page of hostile.py under the simulated driver. */
function hostilePage(allocations, steps) {
  const trace = join(folder, `hostile_${allocations}.gmt`);
  execFileSync(program, ["run", "--simulate", "-o", trace, "--", process.env.GPUMEMTRACE_PYTHON ?? "python3",
    join(here, "hostile.py"), String(allocations), String(steps)],
  { env: { ...process.env, PYTHONPATH: join(here, "../../preload/api") }, stdio: "pipe" });
  return makePage(trace);
}

for (const [allocations, steps, verdict] of [
  [0, 0, "No GPU memory was allocated"],
  [1, 0, /^1 error\. 512 bytes leaked at hostile\.py:\d+ \(allocate\)/],
  [20_000, 20_000, /^1 error\. 9\.8 MiB leaked at hostile\.py:\d+ \(allocate\)/],
]) {
  test(`${allocations} allocations, each with a stack of its own and names that are markup, and ${steps} steps`, async (told) => {
    const { path, head } = hostilePage(allocations, steps);
    assert.equal(head.usage[0]?.allocations ?? 0, allocations);
    assert.equal(head.page.job.steps > 0, steps > 0);
    const page = await open(browser, path);
    const said = await page.textContent(".verdict");
    if (typeof verdict === "string") assert.equal(said, verdict);
    else assert.match(said, verdict);
    assert.equal(await page.$$eval("img, iframe, object", (found) => found.length), 0);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 1280, `${wide}`);
    if (allocations > 0) {
      await page.fill("#holders input", "<script>alert(1)");
      assert.match(await page.textContent("#holders .reading"), /^"<script>alert\(1\)": [\d.]+ \w+, [\d.]+ % of all/);
    }
    assert.deepEqual(page.complaints, []);
    await page.context().close();
    await assertSmallAndSoon(path, told);
  });
}
