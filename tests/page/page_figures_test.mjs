// SPDX-License-Identifier: Apache-2.0
// Every figure of the page is report.json's: its data row by row, and what it shows of them, all of it.
import assert from "node:assert/strict";
import { rmSync } from "node:fs";
import { after, before, test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { analyzed, folder, launch, makePage, moduleOfPage, open, readReport, recordedTraces, syntheticReport } from "./page_support.mjs";

const kSeparate = ["frames_by", "frames", "stacks", "costs", "timeline", "largest_blocks", "blocks", "segments"];
const sum = (values) => values.reduce((total, value) => total + value, 0);

let browser;
let format;
const jobs = {};

before(async () => {
  const path = syntheticReport("job", { ranks: 8, stacks: 30, steps: 24, buckets: 96 });
  jobs["eight ranks, made up"] = { report: readReport(path), page: makePage(path) };
  for (const name of ["torch_sites", "case_fragmented_faulty", "cupti_copies"]) {
    const input = recordedTraces(name);
    jobs[name] = { report: analyzed(input), page: makePage(input) };
  }
  format = await moduleOfPage("format.ts");
  browser = await launch();
});

after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true });
});

/** A test of each job; of several processes the one that the page begins with is looked at. */
function ofEachJob(name, look) {
  test(name, async (told) => {
    for (const [job, { report, page }] of Object.entries(jobs)) {
      await told.test(job, () => look({ report, ...page, at: page.head.page }));
    }
  });
}

async function shown(path, look) {
  const page = await open(browser, path);
  await look(page);
  assert.deepEqual(page.complaints, []);
  await page.context().close();
}

const isAt = (at) => (row) => row.process === at.process && (row.device ?? at.device) === at.device;
const placeOf = (frame) => `${frame.file ?? ""}:${frame.line ?? ""}`;

ofEachJob("all rows of the report are in the page as they are", ({ report, chunks, head }) => {
  assert.deepEqual(chunks.report.left_out, []);
  for (const [key, value] of Object.entries(report)) {
    if (!kSeparate.includes(key)) assert.deepEqual(chunks.report[key], value, key);
  }
  assert.deepEqual(chunks.blocks.largest_blocks, report.largest_blocks);
  assert.deepEqual(chunks.blocks.segments, report.segments);
  for (const [key, value] of Object.entries(head)) {
    if (key === "page" || key === "timeline" || !Array.isArray(value)) continue;
    for (const row of value) assert.ok(report[key].some((one) => isDeepStrictEqual(one, row)), key);
  }
});

ofEachJob("bytes by call site are the report's, each with its stack", ({ report, chunks }) => {
  const measures = ["peak_bytes", "allocated_bytes", "copied_bytes", "leaked_bytes"];
  const summed = (rows) => {
    const sums = {};
    for (const row of rows) {
      const key = JSON.stringify([row.process, row.level, row.owner, row.site?.file ?? null, row.site?.line ?? null, row.stack]);
      sums[key] = measures.map((name, index) => (sums[key]?.[index] ?? 0) + row[name]);
    }
    return sums;
  };
  assert.deepEqual(summed(chunks.costs.costs), summed(report.costs));
  for (const row of chunks.costs.costs) {
    const stack = report.stacks.find((one) => one.id === row.stack);
    if (!stack) continue;
    // From the outermost on, without the interpreter's own.
    const frames = stack.frames.map((one) => (typeof one === "number" ? report.frames[one] : one));
    const all = frames.toReversed().map(placeOf);
    let next = 0;
    for (const index of chunks.costs.stacks[row.stack]) {
      next = all.indexOf(placeOf(chunks.costs.frames[index]), next) + 1;
      assert.ok(next > 0, `${row.stack}: ${placeOf(chunks.costs.frames[index])}`);
    }
  }
});

ofEachJob("each icicle is the sum of the report's rows, in every box", async ({ report, chunks, at }) => {
  const { treeOf, kMeasures } = await moduleOfPage("icicle_tree.ts");
  for (const { value, key } of kMeasures) {
    const all = report.costs.filter((row) => row.process === at.process && row[key] > 0);
    const has = !["leaked", "copied"].includes(value) && all.some((row) => row.level === "framework");
    const rows = value === "copied" ? all : all.filter((row) => (row.level === "framework") === has);
    for (const isInverted of [false, true]) {
      for (const grouping of ["stack", "line"]) {
        const root = treeOf(report, chunks.costs, { measure: value, moment: undefined, grouping, isInverted, process: at.process });
        assert.equal(root.bytes, sum(rows.map((row) => row[key])));
        const visit = (node) => {
          assert.ok(sum(node.children.map((child) => child.bytes)) <= node.bytes);
          node.children.forEach(visit);
        };
        visit(root);
      }
    }
  }
});

ofEachJob("each interval of the curve is the report's, by the keyboard and in the table", async ({ report, chunks, path, at }) => {
  for (const row of chunks.timeline) {
    const told = report.timeline.find((one) => ["process", "device", "level"].every((key) => one[key] === row[key]));
    if (row.process === at.process) assert.deepEqual(row, told);
    assert.equal(Math.max(...row.buckets.map((one) => one.max_bytes)), Math.max(...told.buckets.map((one) => one.max_bytes)));
  }
  const order = ["framework", "driver", "pool", "managed", "imported", "host"];
  const [row] = report.timeline.filter(isAt(at)).sort((a, b) => order.indexOf(a.level) - order.indexOf(b.level));
  await shown(path, async (page) => {
    await page.focus("#time [role=slider]");
    await page.keyboard.press("Home");
    const said = () => page.evaluate(() => [
      document.querySelector("#time .reading").textContent,
      ...[...document.querySelectorAll("#time .part")].map((one) => one.textContent)]);
    for (const bucket of row.buckets) {
      const [reading, ...parts] = await said();
      assert.ok(reading.includes(`: ${format.exactSize(bucket.max_bytes)} of `) || bucket.max_bytes < 1024, reading);
      assert.ok(reading.endsWith(`, at ${format.duration(bucket.max_time_ns)}.`), reading);
      for (const [name, bytes] of Object.entries(bucket.parts)) {
        if (bytes > 0) assert.ok(parts.includes(`${format.words(name)} ${format.size(bytes)}`), `${name} in ${parts}`);
      }
      await page.keyboard.press("ArrowRight");
    }
    await page.click("text='The same as a table'");
    const most = await page.$$eval("#time tbody tr", (rows) => rows.map((one) => one.children[2].textContent));
    const every = Math.max(1, Math.ceil(row.buckets.length / 200));
    const wanted = [];
    for (let i = 0; i < row.buckets.length; i += every) wanted.push(format.size(Math.max(...row.buckets.slice(i, i + every).map((one) => one.max_bytes))));
    assert.deepEqual(most, wanted);
  });
});

ofEachJob("composition and holders of the first screen are the report's", async ({ report, path, at }) => {
  await shown(path, async (page) => {
    const exact = async (selector) => (await page.$$eval(selector, (found) => found.map((one) => one.title)))
      .map((text) => Number((/\(([\d,]+) bytes\)/.exec(text) ?? /^([\d,]+) byte/.exec(text))[1].replaceAll(",", "")));
    const failure = report.oom.find((row) => isAt(at)(row) && row.outcome === "raised");
    const use = report.composition.find((row) => isAt(at)(row) && (failure ? row.at === "oom" && row.time_ns === failure.time_ns : row.at === "driver_peak"));
    const bars = await page.$$eval("#composition .composition", (found) => found.map((one) => [...one.querySelectorAll("li")].map((row) => row.title)));
    const card = sum(bars[0].map((text) => Number((/\(([\d,]+) bytes\)/.exec(text) ?? /^([\d,]+) byte/.exec(text))[1].replaceAll(",", ""))));
    const capacity = report.devices.find((row) => row.id === at.device).total_bytes;
    // At the card's peak the parts sum exactly; at a failed request the driver was asked at another time.
    assert.ok(Math.abs(card - capacity) <= (failure ? Math.abs(use.unattributed ?? 0) : 0), `${card} of ${capacity}`);
    const job = report.card_peaks?.find((row) => row.device === at.device && row.of === "job");
    const peak = report.peak.filter(isAt(at)).find((row) => row.level === "framework") ?? report.peak.filter(isAt(at)).sort((a, b) => b.bytes - a.bytes)[0];
    const held = await exact(".holders li");
    assert.equal(sum(held), job ? job.bytes : peak.bytes);
    if (job) {
      // Largest first, none above the largest part, and the rest last.
      const most = held.slice(0, 7);
      assert.deepEqual(most, most.toSorted((a, b) => b - a));
      assert.ok(most[0] <= Math.max(...job.parts.map((part) => part.bytes)));
    } else {
      const largest = peak.holders.filter((row) => row.bytes > 0 && (row.owner !== "other" || row.site)).slice(0, 7).map((row) => row.bytes);
      assert.deepEqual(held.slice(0, largest.length), largest);
    }
    if (bars.length > 1) {
      assert.deepEqual((await exact("#composition .composition:nth-child(2) li")).sort((a, b) => a - b),
        Object.values(peak.categories).filter((bytes) => bytes > 0).sort((a, b) => a - b));
    }
  });
});

const took = (row) => (row.end_ns === null ? null : row.end_ns - row.start_ns);
const step = (row) => [row.index, row.start_ns, took(row), row.peak_bytes, row.live_bytes_at_end, row.allocations, row.transfers_bytes];
const transfer = (row) => [row.count, row.bytes, row.host_time_ns, row.gpu_time_ns, row.link_share ?? null];
/** Of each table its list in the report, and the numbers of a row. */
const kTables = {
  Layers: [(report) => report.modules, (row) => [row.bytes, row.count]],
  Tensors: [(report) => report.tensors, (row) => [row.bytes, row.count]],
  Blocks: [(report) => report.largest_blocks, (row) => [row.bytes, row.start_ns, took(row)]],
  Temporary: [(report) => report.temporary, (row) => [row.count, row.allocations, row.bytes]],
  Sizes: [(report) => report.sizes, (row) => [row.from_bytes, row.to_bytes, row.count, row.bytes]],
  "How long": [(report) => report.lifetimes, (row) => [row.from_ns, row.to_ns, row.count, row.bytes]],
  Steps: [(report) => report.steps, step],
  Ranges: [(report) => report.ranges, step],
  Growth: [(report) => report.leaks.growth, (row) => [row.bytes, row.bytes_per_step, row.steps, row.live_bytes, row.begin_ns, row.end_ns, row.forecast_ns]],
  "Not freed": [(report) => report.leaks.exit, (row) => [row.bytes, row.count, row.first_time_ns]],
  Transfers: [(report) => report.transfers.by_kind, transfer],
  "Transfers by line": [(report) => report.transfers.sites, transfer],
  Ranks: [(report) => report.ranks, (row) => [row.peak_bytes, row.peer_deviation, row.reserved_peak_bytes, row.leaked_bytes, row.growth_bytes_per_step]],
};

/** Cells of a line of CSV. */
function cellsOf(line) {
  return [...`${line},`.matchAll(/("(?:[^"]|"")*"|[^,]*),/g)].map(([, cell]) => cell);
}

async function savedRows(page) {
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("#tables >> text='Save as CSV'")]);
  const pieces = [];
  for await (const piece of await download.createReadStream()) pieces.push(piece);
  const numbers = await page.$$eval("#tables th", (found) => found.map((one) => one.classList.contains("number")));
  return Buffer.concat(pieces).toString().trimEnd().split("\r\n").slice(1)
    .map((line) => cellsOf(line).filter((_, index) => numbers[index]).map((cell) => (cell === "" ? null : Number(cell))));
}

ofEachJob("each table has all rows of its list, with the report's numbers", async ({ report, path, at }) => {
  await shown(path, async (page) => {
    const names = await page.$$eval("#tables [role=tab]", (found) => found.map((one) => one.textContent));
    assert.equal(names[0], "Lines");
    for (const name of names) {
      await page.click(`#tables [role=tab] >> text="${name}"`);
      const rows = await savedRows(page);
      if (name === "Lines") {
        const costs = report.costs.filter((row) => row.process === at.process);
        ["peak_bytes", "leaked_bytes", "allocated_bytes", "copied_bytes"].forEach((key, index) =>
          assert.equal(sum(rows.map((row) => row[index])), sum(costs.map((row) => row[key])), key));
        continue;
      }
      const [list, numbers] = kTables[name];
      const wanted = list(report).filter((row) => name === "Ranks" || report.ranks.length < 2 || row.process === at.process);
      assert.deepEqual(rows, wanted.map(numbers), name);
    }
    for (const [name, [list]] of Object.entries(kTables)) {
      const rows = (list(report) ?? []).filter((row) => name !== "Ranks" || report.ranks.length > 1);
      if (rows.some((row) => row.process === at.process)) assert.ok(names.includes(name), `${name} is not in the page`);
    }
  });
});
