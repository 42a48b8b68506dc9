// SPDX-License-Identifier: Apache-2.0
// The page of jobs from nothing to 10^6 events and 512 ranks, and of a program that means harm: small
// enough, and without a request (bench/page_first_view.mjs measures how soon). A page shows rows of the
// report, whose number has a bound that 10^6 events reach; GPUMEMTRACE_TEST_EVENTS=100000000 renews the
// sizes of docs/page.md.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { folder, launch, makePage, open, syntheticReport } from "./page_support.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const program = process.env.GPUMEMTRACE_PROGRAM;
const kMostBytes = 10_000_000;

let browser;

before(async () => {
  browser = await launch();
});

after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true });
});

/** The page is small, and shows itself without a complaint and without a request. */
async function assertSmallAndQuiet(path, told) {
  const bytes = statSync(path).size;
  told.diagnostic(`${bytes} bytes`);
  assert.ok(bytes <= kMostBytes, `${bytes} bytes`);
  const page = await open(browser, path);
  await page.waitForSelector(".verdict");
  assert.deepEqual(page.complaints, []);
  assert.equal(page.requests.filter((url) => !url.startsWith("blob:")).length, 1);
  await page.context().close();
}

const maker = process.env.GPUMEMTRACE_TRACE_MAKER;
for (const events of [1_000, Number(process.env.GPUMEMTRACE_TEST_EVENTS ?? 1_000_000)]) {
  test(`${events} events`, { skip: maker ? false : "the trace of any length is not built" }, async (told) => {
    const trace = join(folder, `events_${events}.gmt`);
    assert.ok(Number(execFileSync(maker, [trace, String(events)])) >= events);
    const { path, head } = makePage(trace);
    rmSync(trace);
    assert.ok(head.page.job.events >= events);
    await assertSmallAndQuiet(path, told);
  });
}

for (const ranks of [1, 512]) {
  test(`${ranks} ranks`, async (told) => {
    const { path, head } = makePage(syntheticReport(`ranks_${ranks}`, { ranks, stacks: 20, steps: 40, buckets: 512, depth: 4 }));
    assert.equal(head.page.job.processes, ranks);
    await assertSmallAndQuiet(path, told);
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
    await assertSmallAndQuiet(path, told);
  });
}
