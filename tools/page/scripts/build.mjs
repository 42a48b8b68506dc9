// SPDX-License-Identifier: Apache-2.0
// Bundles src/ into the files that the program embeds: node scripts/build.mjs FOLDER
// The same sources make the same bytes; tests/page rebuilds and compares them.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const room = join(dirname(fileURLToPath(import.meta.url)), "..");
const [folder] = process.argv.slice(2);
if (!folder) {
  console.error("usage: node scripts/build.mjs FOLDER");
  process.exit(2);
}

// uPlot's package has its licence in a file of its own; it must stand beside the code.
const licence = readFileSync(join(room, "node_modules/uplot/LICENSE"), "utf8").trim();
const banner = `/*! uPlot 1.6.32, in this file:\n${licence}\n*/`;

const shared = { bundle: true, minify: true, target: "es2020", absWorkingDir: room, write: false,
                 charset: "ascii", legalComments: "eof" };
const outputs = {};
for (const [name, entry, more] of [
  ["theme.js", "src/theme_first.ts", { format: "iife" }],
  ["report.js", "src/main.ts", { format: "iife", footer: { js: banner } }],
  ["report.css", "src/style.css", {}],
]) {
  const result = await build({ ...shared, ...more, entryPoints: [join(room, entry)] });
  outputs[name] = result.outputFiles[0].text;
  if (outputs[name].includes("</script") || outputs[name].includes("</style")) {
    console.error(`${name} holds the end of the element that it will stand in`);
    process.exit(1);
  }
}

const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
outputs["policy.txt"] = [
  "default-src 'none'",
  `script-src ${hash(outputs["theme.js"])} ${hash(outputs["report.js"])}`,
  `style-src ${hash(outputs["report.css"])}`,
  "img-src data: blob:",
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");

mkdirSync(folder, { recursive: true });
for (const [name, text] of Object.entries(outputs)) writeFileSync(join(folder, name), text);
