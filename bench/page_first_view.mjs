// SPDX-License-Identifier: Apache-2.0
// How soon the page of a job is drawn, and when all of its data is:
//     GPUMEMTRACE_PROGRAM=build/tools/gpumemtrace node bench/page_first_view.mjs [RANKS [STACKS]]
// Exits with 1 where the median of five first views is later than 1.5 s.
import { rmSync, statSync } from "node:fs";
import { folder, launch, makePage, open, paintTimes, syntheticReport } from "../tests/page/page_support.mjs";

const kMostFirstViewMs = 1500;
const [ranks = "8", stacks = "40"] = process.argv.slice(2);
const { path } = makePage(syntheticReport("job", { ranks, stacks, steps: 40, buckets: 512, depth: 4 }));
const browser = await launch();
const rows = [];
for (let i = 0; i < 5; ++i) {
  const page = await open(browser, path);
  rows.push(await paintTimes(page));
  await page.context().close();
}
await browser.close();

const median = (key) => rows.map((row) => row[key]).sort((a, b) => a - b)[2];
console.log(`${statSync(path).size} bytes, medians of 5: first paint ${median("paint").toFixed(0)} ms, `
  + `first view ${median("view").toFixed(0)} ms, all drawn ${median("all").toFixed(0)} ms`);
rmSync(folder, { recursive: true });
process.exitCode = median("view") <= kMostFirstViewMs ? 0 : 1;
