// SPDX-License-Identifier: Apache-2.0
// The page in a browser: what it says is what the report says, for everybody and for any job.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { rmSync, statSync } from "node:fs";
import { after, before, test } from "node:test";
import { axeSource, folder, launch, makePage, moduleOfPage, open, readReport, syntheticReport, writeReport } from "./page_support.mjs";

const sum = (values) => values.reduce((total, value) => total + value, 0);

let browser;
let job; // eight ranks, of which one grows
let jobReport;
let jobPath;

before(async () => {
  jobPath = syntheticReport("job", { ranks: 8, stacks: 30, steps: 24 });
  jobReport = readReport(jobPath);
  job = makePage(jobPath);
  browser = await launch();
});

after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true });
});

function assertSumsHold({ head, chunks }, report) {
  const isSame = (row, other) => row.process === other.process && row.device === other.device && row.level === other.level;
  for (const peak of head.peak) {
    const told = report.peak.find((row) => isSame(row, peak));
    assert.equal(peak.bytes, told.bytes);
    assert.equal(sum(peak.holders.map((row) => row.bytes)), peak.bytes);
    if (peak.categories) assert.equal(sum(Object.values(peak.categories)), peak.bytes);
  }
  for (const level of ["framework", "driver"]) {
    for (const key of ["peak_bytes", "allocated_bytes", "copied_bytes", "leaked_bytes"]) {
      const total = (rows) => sum(rows.filter((row) => row.level === level).map((row) => row[key]));
      assert.equal(total(chunks.costs.costs), total(report.costs), `${key} of ${level}`);
    }
  }
  for (const row of [...(head.timeline ?? []), ...(chunks.timeline ?? [])]) {
    const peak = report.peak.find((other) => isSame(row, other));
    assert.equal(Math.max(...row.buckets.map((bucket) => bucket.max_bytes)), peak.bytes);
    assert.ok(row.buckets.some((bucket) => bucket.max_time_ns === peak.time_ns));
    for (const bucket of row.buckets) {
      assert.equal(sum(Object.values(bucket.parts)), bucket.max_bytes);
      assert.ok((bucket.min_bytes ?? 0) <= bucket.max_bytes && bucket.start_ns <= bucket.max_time_ns && bucket.max_time_ns <= bucket.end_ns);
    }
  }
  for (const row of chunks.costs.costs) {
    for (const index of (row.stack && chunks.costs.stacks[row.stack]) ?? []) assert.ok(chunks.costs.frames[index]);
  }
}

test("the page's data add up to the report", () => {
  assertSumsHold(job, jobReport);
  assert.deepEqual(job.chunks.report.findings, jobReport.findings);
  assert.equal(job.chunks.report.steps.length, jobReport.steps.length);
  assert.equal(job.head.ranks.length, 8);
  assert.equal(job.head.page.process, "p3");
});

test("512 ranks and 10^5 stacks fit, and still add up", () => {
  const path = syntheticReport("huge", { ranks: 512, stacks: 200, steps: 12, buckets: 16, depth: 2 });
  const huge = makePage(path);
  assert.ok(statSync(huge.path).size <= 10_000_000, `${statSync(huge.path).size} bytes`);
  const headBytes = JSON.stringify(huge.head).length;
  assert.ok(headBytes <= 256 * 1024, `${headBytes} bytes of head`);
  assertSumsHold(huge, readReport(path));
  assert.ok(huge.chunks.report.left_out.some((row) => row.key === "steps"));
});

test("names and findings that cannot be compressed are cut to their shares", async () => {
  const report = structuredClone(jobReport);
  const noise = (bytes) => randomBytes(bytes).toString("base64");
  for (let i = 0; i < 8000; ++i) {
    report.findings.push({ ...report.findings[0], title: noise(30), detail: noise(600), fingerprint: noise(12) });
    report.costs.push({ ...report.costs[0], site: { ...report.costs[0].site, function: noise(600) } });
  }
  const large = makePage(writeReport("noise", report));
  assert.ok(statSync(large.path).size <= 10_000_000, `${statSync(large.path).size} bytes`);
  assert.ok(JSON.stringify(large.head).length <= 256 * 1024);
  assertSumsHold(large, report);
  assert.ok(large.chunks.report.left_out.some((row) => row.key === "findings"));
  const page = await open(browser, large.path);
  assert.match(await page.innerText("#coverage"), /findings: [\d,]+ of 8,001 rows/);
  await page.context().close();
});

test("a page asks nobody for anything and breaks none of its own rules", async () => {
  const page = await open(browser, job.path);
  assert.deepEqual(page.complaints, []);
  assert.equal(page.requests.filter((url) => !url.startsWith("blob:")).length, 1);
  assert.match(job.html, /Content-Security-Policy" content="default-src 'none'; script-src 'sha256-/);
  await page.context().close();
});

async function texts(page, selector) {
  return page.$$eval(selector, (found) => found.map((one) => one.textContent));
}

test("the first screen has the answer, and a choice of rank changes all of it", async () => {
  const page = await open(browser, job.path);
  const bottom = (selector) => page.$eval(selector, (one) => one.getBoundingClientRect().bottom);
  for (const selector of ["#headline", "#composition", ".findings summary", "#time canvas"]) {
    assert.ok(await bottom(selector) <= 720, `${selector} ends at ${await bottom(selector)}`);
  }
  const large = await page.$$eval("body *", (all) => all.filter((one) =>
    [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()) && parseFloat(getComputedStyle(one).fontSize) >= 28).length);
  assert.equal(large, 3);
  assert.match((await texts(page, ".verdict"))[0], /^1 warning\. Memory from train\.py:88/);
  const before = await texts(page, ".tile-value");
  assert.match(before[1], /a step$/);
  await page.click(".rank >> nth=0");
  const now = await texts(page, ".tile-value");
  assert.notDeepEqual(now, before);
  assert.equal(await page.$eval("#top select", (one) => one.selectedOptions[0].textContent), "rank 0, d0");
  assert.match((await texts(page, "#holders .reading"))[0], /^all: /);
  await page.context().close();
});

test("nothing is cut off sideways from 375 to 2560 pixels", async () => {
  const page = await open(browser, job.path);
  await page.focus("#time [role=slider]");
  await page.keyboard.press("+");
  for (const fold of await page.$$(".fold summary")) await fold.click();
  for (const width of [375, 640, 900, 1280, 2560]) {
    await page.setViewportSize({ width, height: 720 });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= width, `${wide} at ${width}`);
  }
  await page.context().close();
});

test("both themes are without serious faults for assistive programs", async () => {
  for (const colorScheme of ["light", "dark"]) {
    const page = await open(browser, job.path, { colorScheme, bypassCSP: true });
    await page.focus("#time [role=slider]");
    await page.keyboard.press("+");
    for (const fold of await page.$$(".fold summary")) await fold.click();
    await page.evaluate(axeSource);
    const { violations } = await page.evaluate(() => globalThis.axe.run());
    const serious = violations.filter((one) => ["serious", "critical"].includes(one.impact))
      .map((one) => `${colorScheme}: ${one.id}: ${one.nodes[0].html.slice(0, 160)} ${one.nodes[0].failureSummary.slice(0, 200)}`);
    assert.deepEqual(serious, []);
    await page.context().close();
  }
});

test("the theme follows the system and the button", async () => {
  const page = await open(browser, job.path, { colorScheme: "dark" });
  const background = () => page.$eval("body", (one) => getComputedStyle(one).backgroundColor);
  assert.equal(await background(), "rgb(21, 24, 29)");
  await page.click("#top .quiet");
  assert.equal(await background(), "rgb(255, 255, 255)");
  assert.deepEqual(page.complaints, []);
  await page.context().close();
});

test("everything can be done with the keyboard", async () => {
  const page = await open(browser, job.path);
  const focused = (attribute) => page.evaluate((name) => document.activeElement?.getAttribute(name), attribute);
  const tabTo = async (role) => {
    for (let i = 0; i < 60; ++i) {
      await page.keyboard.press("Tab");
      if (await focused("role") === role) return;
    }
    assert.fail(`Tab does not reach the ${role}`);
  };
  await tabTo("slider");
  const moment = await focused("aria-valuetext");
  assert.match(moment, /GiB, of which/);
  await page.keyboard.press("Home");
  assert.notEqual(await focused("aria-valuetext"), moment);
  assert.equal(await focused("aria-valuenow"), "0");
  await page.keyboard.press("+");
  assert.equal(await page.isVisible("text=Whole run"), true);
  await page.keyboard.press("Escape");
  assert.equal(await page.isVisible("text=Whole run"), false);
  await tabTo("tree");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  assert.match((await texts(page, "#icicle-item"))[0], /^<module> \(train\.py:120\), /);
  await page.keyboard.press("/");
  assert.equal(await focused("type"), "search");
  await page.keyboard.type("layer_0.call");
  assert.match((await texts(page, "#holders .reading"))[0], /^"layer_0\.call": \d/);
  await page.focus("th >> nth=3 >> button");
  await page.keyboard.press("Enter");
  assert.equal(await page.$eval("th >> nth=3", (one) => one.getAttribute("aria-sort")), "descending");
  assert.deepEqual(page.complaints, []);
  await page.context().close();
});

test("the icicle's root is the peak, by stack, line and layer", async () => {
  const page = await open(browser, job.path);
  const bytes = jobReport.peak.find((row) => row.process === "p3" && row.level === "framework").bytes;
  for (const name of ["By stack", "By line", "By layer"]) {
    await page.click(`text="${name}"`);
    const told = (await texts(page, "#holders .reading"))[0].replaceAll(",", "");
    assert.ok(told.includes(`(${bytes} bytes)`), `${name}: ${told}`);
  }
  await page.context().close();
});

test("lives are boxes as wide as they lasted and as high as their bytes, none on another", async () => {
  const { lifeBoxes } = await moduleOfPage("lifetimes_layout.ts");
  for (let seed = 1; seed <= 20; ++seed) {
    let state = seed * 2654435761;
    const random = (most) => (state = (state * 1103515245 + 12345) % 2147483648) % most;
    const blocks = Array.from({ length: 150 }, () => {
      const start_ns = random(1000);
      return { bytes: 1 + random(100), start_ns, end_ns: random(4) === 0 ? null : start_ns + random(400) };
    });
    const boxes = lifeBoxes(blocks, 1500);
    assert.equal(boxes.length, blocks.length);
    for (const box of boxes) {
      assert.equal(box.from, box.block.start_ns);
      assert.equal(box.to, box.block.end_ns ?? 1500);
      for (const other of boxes) {
        if (other === box || other.from >= box.to || other.to <= box.from) continue;
        assert.ok(other.bottom >= box.bottom + box.block.bytes || box.bottom >= other.bottom + other.block.bytes);
      }
    }
  }
});

test("the largest blocks tell when they came and went, also by keyboard", async () => {
  assert.deepEqual(job.chunks.blocks.largest_blocks, jobReport.largest_blocks);
  const page = await open(browser, job.path);
  assert.equal(await page.$eval("#lifetimes .fold", (one) => one.open), false);
  await page.focus("#lifetimes summary");
  await page.keyboard.press("Enter");
  await page.focus("#lifetimes .lives");
  const mine = jobReport.largest_blocks.filter((block) => block.process === "p3");
  const first = mine.reduce((a, b) => (b.start_ns < a.start_ns ? b : a));
  await page.keyboard.press("ArrowRight");
  const said = (await texts(page, "#lifetimes .reading"))[0];
  assert.match(said, new RegExp(`^${first.name}, train\\.py:41`));
  assert.match(said, /parameter; came at .* and stayed to the end\.$/);
  assert.equal((await texts(page, "#life-item"))[0], said);
  await page.keyboard.press("End");
  assert.match((await texts(page, "#lifetimes .reading"))[0], /activation; came at .* and stayed for /);
  await page.keyboard.press("Enter");
  assert.match((await texts(page, "#holders .reading"))[0], /^"train\.py:2\d": /);
  assert.match(await page.innerText("#lifetimes summary"), /140 blocks, \d+\.\d % of the peak/);
  assert.deepEqual(page.complaints, []);
  await page.context().close();
});

test("the map of segments adds up to what was reserved at each moment, also by keyboard", async () => {
  const exact = (bytes) => `(${String(bytes).replace(/\B(?=(\d{3})+(?!\d))/g, ",")} bytes)`;
  const told = (at) => jobReport.fragmentation.find((row) => row.process === "p3" && row.at === at);
  for (const at of ["peak", "worst"]) {
    const rows = job.chunks.blocks.segments.filter((row) => row.at === at);
    assert.equal(sum(rows.map((row) => row.bytes)), told(at).reserved_bytes);
    assert.equal(sum(rows.map((row) => row.stranded_bytes)), told(at).stranded_bytes);
  }
  const page = await open(browser, job.path);
  assert.equal(await page.$eval("#segments .fold", (one) => one.open), false);
  await page.click("#segments summary");
  const reading = async () => (await texts(page, "#segments .reading"))[0];
  assert.ok((await reading()).startsWith(`40 segments: `));
  assert.ok((await reading()).includes(exact(told("peak").reserved_bytes)));
  await page.click(`#segments >> text="Most unusable, ${(told("worst").time_ns / 1e9).toFixed(2)} s"`);
  assert.ok((await reading()).includes(exact(told("worst").reserved_bytes)));
  assert.match((await texts(page, "#time .reading"))[0], /^Most in this interval: /);
  await page.focus("#segments .lives");
  await page.keyboard.press("ArrowRight");
  assert.match(await reading(), /^Segment of .* free, the largest piece .*; parameter .* of it cannot be used because of train\.py:41 \(/);
  await page.click(".rank >> nth=0");
  assert.equal(await page.$$eval("#segments .fold", (found) => found.length), 0);
  assert.deepEqual(page.complaints, []);
  await page.context().close();
});

test("what grew is told by stack, and is what the finding tells", async () => {
  const page = await open(browser, job.path);
  await page.click("#holders >> text='Growth'");
  const grown = sum(jobReport.leaks.growth.filter((row) => row.process === "p3").map((row) => row.bytes));
  assert.ok((await texts(page, "#holders .reading"))[0].replaceAll(",", "").startsWith(`all: 11.7 GiB (${grown} bytes)`));
  await page.click(".rank >> nth=0");
  assert.deepEqual((await texts(page, "#holders .choice >> nth=0 >> button")), ["Peak", "Allocated"]);
  await page.context().close();
});

test("moments that are stored, and no others, tell who held what then", async () => {
  const report = structuredClone(jobReport);
  const example = readReport(new URL("../../docs/report.example.json", import.meta.url));
  const block = (bytes, category, stack) => ({ ...report.largest_blocks[0], process: "p3", device: "d2", bytes, category, stack,
    site: { ...report.largest_blocks[0].site, line: 77 }, at: "time", time_ns: 3e9, address: 4096 });
  report.blocks = [block(5000, "activation", "p3:1"), block(3000, "activation", "p3:1"), block(200, "parameter", "p3:2"),
    { ...block(9999, null, null), level: "driver" }];
  report.oom = [{ ...example.oom[0], process: "p3", device: "d2", level: "framework", time_ns: 4e9, stack: null,
    holders: [{ bytes: 700, count: 1, share: 1, category: "activation", owner: "pytorch", site: null, stack: "p3:1" }] }];
  const made = makePage(writeReport("moments", report));
  assert.deepEqual(made.chunks.blocks.held.map((row) => [row.level, row.bytes, row.count]).sort(),
    [["driver", 9999, 1], ["framework", 200, 1], ["framework", 8000, 2]]);
  const page = await open(browser, made.path);
  await page.click("#holders >> text='At 3.00 s'");
  assert.match((await texts(page, "#holders .reading"))[0], /^all: 8\.0 KiB \(8,200 bytes\); mostly activation/);
  await page.click("#holders >> text='Out of memory, 4.00 s'");
  assert.match((await texts(page, "#holders .reading"))[0], /^all: 700 bytes/);
  assert.deepEqual(await texts(page, "#holders .command code"), []);
  await page.focus("#time [role=slider]");
  await page.keyboard.press("Home");
  assert.match((await texts(page, "#holders .command code"))[0], /^gpumemtrace report FOLDER_OF_TRACES --at \d+ns -o moment\.html$/);
  assert.deepEqual(page.complaints, []);
  await page.context().close();
});

test("a click in the curve tells what was held then", async () => {
  const page = await open(browser, job.path);
  assert.match((await texts(page, "#time .reading"))[0], /^Peak: /);
  const box = await (await page.$("#time .u-over")).boundingBox();
  await page.mouse.click(box.x + box.width / 4, box.y + box.height / 2);
  await page.mouse.move(2, 2);
  const reading = (await texts(page, "#time .reading"))[0];
  const [, bytes] = /\(([\d,]+) bytes\)/.exec(reading);
  const row = jobReport.timeline.find((one) => one.process === "p3" && one.level === "framework");
  assert.ok(row.buckets.some((bucket) => bucket.max_bytes === Number(bytes.replaceAll(",", ""))), reading);
  await page.context().close();
});

test("a table is saved as text that no spreadsheet takes for a formula", async () => {
  const report = structuredClone(jobReport);
  report.costs[0].site.function = "=cmd(\"x\")";
  report.costs[0].site.file = null;
  report.costs[0].site.module = null;
  for (const row of report.costs) if (row.process === "p3" && row.level === "framework") row.site = report.costs[0].site;
  const page = await open(browser, makePage(writeReport("formula", report)).path);
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("text=Save as CSV")]);
  const chunks = [];
  for await (const chunk of await download.createReadStream()) chunks.push(chunk);
  const lines = Buffer.concat(chunks).toString().split("\r\n");
  assert.match(lines[0], /^Line,Owner,Level,Peak/);
  assert.ok(lines.some((line) => line.startsWith("\"'=cmd(\"\"x\"\")\",pytorch,framework,")), lines[1]);
  await page.context().close();
});

test("findings with one cause are one", async () => {
  const titlesOf = async (name, cause) => {
    const report = structuredClone(jobReport);
    const first = report.findings[0];
    report.findings.push({ ...first, rule: "growth", title: "it grew", fingerprint: "grew", ...cause(first) });
    const page = await open(browser, makePage(writeReport(name, report)).path);
    const titles = await texts(page, ".finding-title");
    await page.context().close();
    return titles.filter((title) => title.startsWith("it grew")).length;
  };
  assert.equal(await titlesOf("one_cause", (first) => ({ same_cause: first.fingerprint })), 0);
  assert.equal(await titlesOf("two_causes", () => ({})), 1);
});

test("names of the program are text, whatever is in them", async () => {
  const evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028\"'&lt;<!--";
  const report = structuredClone(jobReport);
  for (const row of report.findings) Object.assign(row, { title: evil, detail: evil, fix: evil });
  for (const row of report.costs) if (row.site) Object.assign(row.site, { function: evil, file: `/${evil}.py` });
  for (const row of report.stacks) for (const frame of row.frames) frame.function = evil;
  for (const row of report.processes) Object.assign(row, { command: [evil], host: evil });
  for (const row of report.devices) row.name = evil;
  for (const row of report.peak) for (const holder of row.holders) holder.owner = evil;
  for (const row of report.timeline) for (const bucket of row.buckets) bucket.parts = { [evil]: bucket.max_bytes };
  report.losses = [{ name: evil, count: 1, severity: "warning", remedy: evil }];
  report.traces[0].notes = [evil];
  const page = await open(browser, makePage(writeReport("hostile", report)).path);
  assert.deepEqual(page.complaints, []);
  assert.equal(await page.$$eval("img, iframe, object", (found) => found.length), 0);
  assert.equal(await page.$eval(".finding-title", (one) => one.textContent.startsWith("</script><script>alert(1)")), true);
  await page.context().close();
});

test("small and old reports are drawn as well", async () => {
  const empty = structuredClone(jobReport);
  for (const [key, value] of Object.entries(empty)) if (Array.isArray(value)) empty[key] = [];
  Object.assign(empty.leaks, { exit: [], growth: [] });
  const old = structuredClone(jobReport);
  delete old.timeline;
  const short = structuredClone(jobReport);
  for (const row of short.timeline) row.buckets = row.buckets.slice(-1);
  for (const [name, report, text] of [
    ["empty", empty, /No GPU memory was allocated/],
    ["old", old, /no memory over time/],
    ["short", short, /Memory over time/],
  ]) {
    const page = await open(browser, makePage(writeReport(name, report)).path);
    assert.match(await page.innerText("#page"), text, name);
    assert.deepEqual(page.complaints, [], name);
    await page.context().close();
  }
});

test("a snapshot is named by its file, and its program is not said to run", async () => {
  const report = structuredClone(jobReport);
  for (const process of report.processes) Object.assign(process, { command: [], executable: null });
  for (const trace of report.traces) {
    Object.assign(trace, { file: "rank.pickle", end: "running", source: {
      kind: "pytorch_snapshot", devices: 1, events: 9, events_left_out: 0, left_out_because: null,
      earlier_blocks: 0, earlier_bytes: 0, earlier_reserved_bytes: 0 } });
  }
  const page = await open(browser, makePage(writeReport("snapshots", report)).path);
  assert.match(await page.innerText("#top"), /^rank\.pickle[^]*the program went on after this/);
  await page.context().close();
});

test("a trace with gaps says so at the top", async () => {
  const report = structuredClone(jobReport);
  Object.assign(report.traces[1], { complete: false, dropped: 77 });
  const page = await open(browser, makePage(writeReport("gaps", report)).path);
  assert.match(await page.innerText("#headline .alert"), /^Incomplete: 1 trace misses events, 77 of/);
  await page.context().close();
});

test("without script the page is read as text", async () => {
  const page = await open(browser, job.path, { javaScriptEnabled: false });
  const text = await page.innerText("#plain");
  assert.match(text, /Verdict: 1 warning/);
  assert.match(text, /Store \.cpu\(\)/);
  await page.context().close();
});

test("paper is light, whatever the screen is, and the screen comes back", async () => {
  const page = await open(browser, job.path, { colorScheme: "dark" });
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  assert.equal(await page.$eval("body", (one) => getComputedStyle(one).backgroundColor), "rgb(255, 255, 255)");
  assert.equal(await page.$$eval(".findings details:not([open])", (found) => found.length), 0);
  assert.equal(await page.$$eval(".fold", (found) => found.every((one) => one.open && one.querySelector("canvas").height > 100)), true);
  await page.evaluate(() => dispatchEvent(new Event("afterprint")));
  assert.equal(await page.$eval(".fold", (one) => one.open), false);
  assert.equal(await page.$eval("body", (one) => getComputedStyle(one).backgroundColor), "rgb(21, 24, 29)");
  const pdf = await page.pdf({ printBackground: true });
  assert.ok(pdf.length > 20_000 && pdf.subarray(0, 5).toString() === "%PDF-");
  assert.deepEqual(page.complaints, []);
  await page.context().close();
});
