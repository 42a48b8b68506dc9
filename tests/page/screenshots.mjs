// SPDX-License-Identifier: Apache-2.0
// Renews docs/pictures: pages of saved real traces and of made-up jobs, as a browser shows them.
// Debian's pngquant makes them small.
//     GPUMEMTRACE_PROGRAM=build/tools/gpumemtrace node tests/page/screenshots.mjs [FOLDER]
import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { folder, launch, makePage, open, readReport, recordedTraces, syntheticReport, writeReport } from "./page_support.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const pictures = process.argv[2] ?? join(root, "docs/pictures");

function recorded(name) {
  return makePage(recordedTraces(name)).path;
}

function madeUp(name, options) {
  return makePage(syntheticReport(name, options)).path;
}

/** A job that allocated nothing. */
function empty() {
  const report = readReport(syntheticReport("empty", { ranks: 1, stacks: 12, steps: 1 }));
  for (const [key, value] of Object.entries(report)) {
    if (Array.isArray(value) && !["traces", "processes", "devices"].includes(key)) report[key] = [];
  }
  Object.assign(report.leaks, { exit: [], growth: [] });
  Object.assign(report.traces[0], { events: 12, bytes: 2048 });
  return makePage(writeReport("empty", report)).path;
}

const wide = { width: 1280, height: 720 };
const eight = madeUp("eight_ranks", { ranks: 8, stacks: 40, steps: 40 });
const shots = [
  ["eight_ranks_light", eight, { colorScheme: "light" }],
  ["eight_ranks_dark", eight, { colorScheme: "dark" }],
  ["eight_ranks_whole", eight, { colorScheme: "light", isWhole: true }],
  ["eight_ranks_phone", eight, { colorScheme: "dark", viewport: { width: 375, height: 812 } }],
  ["sixty_four_ranks_light", madeUp("sixty_four_ranks", { ranks: 64, stacks: 12, steps: 40, buckets: 512, depth: 4 }), { colorScheme: "light" }],
  ["one_rank_dark", recorded("case_kept_loss_faulty"), { colorScheme: "dark" }],
  ["out_of_memory_light", recorded("case_fragmented_faulty"), { colorScheme: "light" }],
  ["leak_dark", recorded("leaks"), { colorScheme: "dark" }],
  ["healthy_light", recorded("torch_sites"), { colorScheme: "light" }],
  ["empty_light", empty(), { colorScheme: "light" }],
];

mkdirSync(pictures, { recursive: true });
const browser = await launch();
for (const [name, path, { isWhole, ...options }] of shots) {
  const page = await open(browser, path, { viewport: wide, ...options });
  const picture = join(pictures, `${name}.png`);
  await page.screenshot({ path: picture, fullPage: isWhole ?? false });
  execFileSync("pngquant", ["--speed", "1", "--force", "--output", picture, "64", picture]);
  if (page.complaints.length > 0) throw new Error(`${name}: ${page.complaints.join("; ")}`);
  await page.context().close();
}
await browser.close();
rmSync(folder, { recursive: true });
