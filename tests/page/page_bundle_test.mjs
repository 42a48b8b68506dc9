// SPDX-License-Identifier: Apache-2.0
// The committed files of the page are what its sources make.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const room = join(dirname(fileURLToPath(import.meta.url)), "../../tools/page");
const committed = join(room, "assets");

test("the sources make the committed files, byte for byte", () => {
  const folder = mkdtempSync(join(tmpdir(), "page_bundle"));
  try {
    execFileSync(process.execPath, [join(room, "scripts/build.mjs"), folder]);
    assert.deepEqual(readdirSync(folder).sort(), readdirSync(committed).sort());
    for (const name of readdirSync(folder)) {
      assert.ok(readFileSync(join(folder, name)).equals(readFileSync(join(committed, name))),
        `tools/page/assets/${name} is not what tools/page/src makes; run npm run build in tools/page`);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("the types fit", () => {
  execFileSync(process.execPath, [join(room, "node_modules/typescript/bin/tsc"), "--noEmit", "-p", room],
    { stdio: "pipe" });
});

test("the licence of what is bundled stays in the file, and the code below its share", () => {
  const script = readFileSync(join(committed, "report.js"), "utf8");
  assert.match(script, /The MIT License[\s\S]*Copyright \(c\) \d+ Leon Sorokin/);
  const bytes = readdirSync(committed).reduce((sum, name) => sum + readFileSync(join(committed, name)).length, 0);
  assert.ok(bytes <= 200_000, `${bytes} bytes of code and style`);
});
