// SPDX-License-Identifier: Apache-2.0
// Reads the data of the page: the head at once, the chunks when the document is complete.

import type { Blocks, Costs, Head, Report } from "./page_types";
import type { Timeline } from "./report";

/** A report that was made before there were ranks has none. */
function withRanks<Type extends Report>(report: Type): Type {
  return { ...report, ranks: report.ranks ?? [] };
}

export function readHead(): Head {
  return withRanks(JSON.parse(document.getElementById("head")?.textContent ?? "null") as Head);
}

async function inflate(bytes: Uint8Array): Promise<string> {
  const stream = new Blob([bytes as BlobPart]).stream();
  return new Response(stream.pipeThrough(new DecompressionStream("deflate-raw"))).text();
}

function bytesOf(base64: string): Uint8Array {
  const letters = atob(base64);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; ++i) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

async function readChunk<Type>(name: string): Promise<Type | null> {
  const element = document.querySelector(`script[data-name="${name}"]`);
  if (!element) return null;
  return JSON.parse(await inflate(bytesOf(element.textContent ?? ""))) as Type;
}

export interface Chunks {
  report: Report | null;
  costs: Costs | null;
  timeline: Timeline[] | null;
  blocks: Blocks | null;
}

function whenDocumentIsComplete(): Promise<void> {
  return new Promise((resolve) => {
    if (document.readyState !== "loading") resolve();
    else document.addEventListener("DOMContentLoaded", () => resolve(), { once: true });
  });
}

/** A chunk is null where its part of the report did not fit into the page, or is not there. */
export async function readChunks(): Promise<Chunks> {
  await whenDocumentIsComplete();
  const report = await readChunk<Report>("report");
  return {
    report: report && withRanks(report),
    costs: await readChunk<Costs>("costs"),
    timeline: await readChunk<Timeline[]>("timeline"),
    blocks: await readChunk<Blocks>("blocks"),
  };
}
