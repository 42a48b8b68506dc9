// SPDX-License-Identifier: Apache-2.0
// A row of the report's timeline as columns to draw, and the bucket of a time.

import { kCategoryOrder } from "./colors";
import type { Bytes, Time, Timeline, TimelineBucket } from "./report";

export interface Columns {
  row: Timeline;
  parts: string[]; // from the bottom to the top
  seconds: number[]; // begins of buckets, and the end of the last one
  sums: (number | null)[][]; // by part: it and all below it
  reserved: (number | null)[];
  peak: TimelineBucket; // the one with the largest maximum
}

function partOrder(row: Timeline, first: string | null): string[] {
  const totals = new Map<string, number>();
  for (const bucket of row.buckets) {
    for (const [name, bytes] of Object.entries(bucket.parts)) {
      totals.set(name, (totals.get(name) ?? 0) + bytes);
    }
  }
  const names = [...totals].filter(([, total]) => total > 0);
  const rank = (name: string): number => {
    if (name === first) return -1;
    if (row.parts_by === "category") return kCategoryOrder.indexOf(name);
    return name === "other" || name === "unknown" ? 1 : 0;
  };
  return names
    .sort(([a, x], [b, y]) => rank(a) - rank(b) || y - x || a.localeCompare(b))
    .map(([name]) => name);
}

/** `first` is the part at the bottom, which alone can be read against the axis. */
export function columnsOf(row: Timeline, first: string | null): Columns {
  const parts = partOrder(row, first);
  const { buckets } = row;
  const last = buckets[buckets.length - 1] as TimelineBucket;
  const drawn = [...buckets, last]; // steps need the end of the last one
  const sums: (number | null)[][] = [];
  const below = new Array<number>(drawn.length).fill(0);
  for (const name of parts) {
    sums.push(drawn.map((bucket, i) => (below[i] = (below[i] ?? 0) + (bucket.parts[name] ?? 0))));
  }
  return {
    row,
    parts,
    seconds: [...buckets.map((bucket) => bucket.start_ns / 1e9), last.end_ns / 1e9],
    sums,
    reserved: drawn.map((bucket) => bucket.reserved_bytes),
    peak: buckets.reduce((best, bucket) => (bucket.max_bytes > best.max_bytes ? bucket : best)),
  };
}

export function bucketIndexAt(row: Timeline, time_ns: Time): number {
  let low = 0;
  let high = row.buckets.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((row.buckets[middle] as TimelineBucket).start_ns <= time_ns) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** The top of the axis: with the card's capacity where that is near. */
export function topOf(columns: Columns): Bytes {
  const highest = Math.max(columns.peak.max_bytes, ...columns.reserved.map((bytes) => bytes ?? 0), 1);
  const capacity = columns.row.capacity_bytes;
  return capacity !== null && capacity < highest * 2.5 ? Math.max(capacity, highest) * 1.06 : highest * 1.18;
}

/** Ticks at powers of two and their multiples. */
export function byteTicks(top: Bytes, most: number): number[] {
  const step = 2 ** Math.ceil(Math.log2(top / most));
  const ticks = [];
  for (let tick = 0; tick <= top; tick += step) ticks.push(tick);
  return ticks;
}
