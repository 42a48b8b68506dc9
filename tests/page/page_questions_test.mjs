// SPDX-License-Identifier: Apache-2.0
// The questions of docs/page.md, each answered with at most three clicks.
import assert from "node:assert/strict";
import { readFileSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { folder, launch, makePage, open, readReport, syntheticReport, writeReport } from "./page_support.mjs";

const kMostClicks = 3;
const document = readFileSync(join(dirname(fileURLToPath(import.meta.url)), "../../docs/page.md"), "utf8");

let browser;
let job;
let report;
const walked = [];

before(async () => {
  const path = syntheticReport("job", { ranks: 8, stacks: 30, steps: 24 });
  report = readReport(path);
  job = makePage(path);
  browser = await launch();
});

after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true });
});

/** One who asks: `does` gets the page, and a hand that counts its clicks and drags. */
function asks(question, clicks, does, path) {
  test(question, async () => {
    walked.push(question);
    assert.ok(document.includes(`| ${question} |`), "docs/page.md does not have the question in these words");
    const page = await open(browser, path?.() ?? job.path);
    let count = 0;
    const hand = {
      click: (selector) => { ++count; return page.click(selector); },
      clickAt: (x, y) => { ++count; return page.mouse.click(x, y); },
      drag: async (from, to, y) => {
        ++count;
        await page.mouse.move(from, y);
        await page.mouse.down();
        await page.mouse.move(to, y, { steps: 5 });
        await page.mouse.up();
      },
    };
    const text = async (selector) => (await page.textContent(selector)) ?? "";
    await does({ page, hand, text, box: async (selector) => (await page.$(selector)).boundingBox() });
    assert.equal(count, clicks);
    assert.ok(count <= kMostClicks);
    assert.deepEqual(page.complaints, []);
    await page.context().close();
  });
}

const framework = () => report.peak.find((row) => row.process === "p3" && row.level === "framework");

asks("How much of the card was in use at most?", 0, async ({ text }) => {
  assert.match(await text(".tile"), /[\d.]+ of 80\.0 GiB/);
  assert.match(await text("#composition"), /free/);
});

asks("Is the highest point of the curve what the flame graph shows?", 0, async ({ text }) => {
  const bytes = String(framework().bytes).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
  assert.ok((await text("#time .reading")).includes(`(${bytes} bytes)`));
  assert.ok((await text("#holders .reading")).includes(`(${bytes} bytes)`));
});

asks("Which line or layer held the memory?", 1, async ({ hand, text }) => {
  await hand.click("text='By layer'");
  assert.match(await text("#icicle-item"), /^all layers, /);
});

asks("What was held for what between two moments?", 1, async ({ page, hand, box }) => {
  const { x, y, width } = await box("#time .u-over");
  await hand.drag(x + width * 0.4, x + width * 0.6, y + 40);
  assert.equal(await page.isVisible("text=Whole run"), true);
});

asks("The run is long: where are the details of these seconds?", 2, async ({ page, hand, text, box }) => {
  const { x, y, width } = await box("#time .u-over");
  await hand.drag(x + width * 0.4, x + width * 0.6, y + 40);
  assert.match(await text("#time .command code"), /^gpumemtrace report FOLDER_OF_TRACES --from [\d.]+s --until [\d.]+s -o detail\.html$/);
  await hand.click("#time .command button");
  await page.waitForSelector("#time .command >> text=/Copied|Selected/");
});

asks("Which blocks make up the mountain, when did they come and how long did they stay?", 3, async ({ hand, text, box }) => {
  await hand.click("#lifetimes summary");
  const { x, y, width, height } = await box("#lifetimes canvas");
  await hand.clickAt(x + width * 0.5, y + height - 30);
  assert.match(await text("#lifetimes .reading"), /came at .* and stayed/);
  await hand.click("text='Show its line'");
  assert.match(await text("#holders .reading"), /^"train\.py:/);
});

asks("Can I have the curve as numbers?", 1, async ({ page, hand }) => {
  await hand.click("text='The same as a table'");
  assert.ok(await page.$$eval("#time table tbody tr", (rows) => rows.length) > 20);
});

asks("Is there a dark page?", 1, async ({ page, hand }) => {
  await hand.click("#top .quiet");
  assert.equal(await page.$eval("body", (one) => getComputedStyle(one).backgroundColor), "rgb(21, 24, 29)");
});

asks("Does it open without a network, however large the job is?", 0, async ({ page }) => {
  assert.equal(page.requests.filter((url) => !url.startsWith("blob:")).length, 1);
  assert.ok(statSync(job.path).size <= 10_000_000);
});

asks("Does the page have names that I must not send to others?", 1, async ({ hand, text }) => {
  await hand.click("nav >> text='Coverage'");
  assert.match(await text("#coverage"), /private names are replaced/);
}, () => makePage(writeReport("redacted", { ...report, redacted: true })).path);

test("no question of the document is left out", () => {
  const rows = document.split("\n").filter((line) => /^\| [A-Z][^|]*\? \|/.test(line));
  assert.equal(rows.length, walked.length);
  assert.ok(walked.length >= 10);
});
