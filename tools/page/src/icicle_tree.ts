// SPDX-License-Identifier: Apache-2.0
// Bytes by stack, line or layer as a tree in which every node is the sum of its children.

import { duration, location, siteName, words } from "./format";
import type { Costs, Held, Origin, Place, Report } from "./page_types";
import type { Cost, Module, Peak, Time } from "./report";

export type Grouping = "stack" | "line" | "layer";

interface Measure {
  value: string;
  text: string;
  key: keyof Cost;
}

export const kMeasures: readonly Measure[] = [
  { value: "peak", text: "Peak", key: "peak_bytes" },
  { value: "leaked", text: "Leaked", key: "leaked_bytes" },
  { value: "allocated", text: "Allocated", key: "allocated_bytes" },
  { value: "copied", text: "Copied", key: "copied_bytes" },
];

export interface Node {
  name: string;
  detail: string; // the whole path of the file, if it is known
  bytes: number;
  depth: number;
  color: string; // a category's or an owner's name
  parent: Node | null;
  children: Node[];
}

interface Step {
  name: string;
  detail: string;
}

class Tree {
  readonly root: Node;
  private readonly shares = new Map<Node, Map<string, number>>();
  private readonly byName = new Map<Node, Map<string, Node>>();

  constructor(name: string) {
    this.root = this.make({ name, detail: "" }, null);
  }

  private make(step: Step, parent: Node | null): Node {
    const node: Node = {
      ...step, bytes: 0, depth: parent ? parent.depth + 1 : 0, color: "other", parent, children: [],
    };
    this.shares.set(node, new Map());
    this.byName.set(node, new Map());
    parent?.children.push(node);
    return node;
  }

  add(steps: Step[], bytes: number, colors: Map<string, number>): void {
    let node = this.root;
    this.count(node, bytes, colors);
    for (const step of steps) {
      const known = this.byName.get(node) as Map<string, Node>;
      const name = `${step.name}\n${step.detail}`;
      let next = known.get(name);
      if (!next) known.set(name, (next = this.make(step, node)));
      node = next;
      this.count(node, bytes, colors);
    }
  }

  private count(node: Node, bytes: number, colors: Map<string, number>): void {
    node.bytes += bytes;
    const shares = this.shares.get(node) as Map<string, number>;
    for (const [color, part] of colors) shares.set(color, (shares.get(color) ?? 0) + part);
  }

  /** By size, then name; what ends in a node itself is the width that its children leave. */
  finished(): Node {
    for (const [node, shares] of this.shares) {
      node.color = [...shares].sort((a, b) => b[1] - a[1])[0]?.[0] ?? "unknown";
      node.children.sort((a, b) => b.bytes - a.bytes || a.name.localeCompare(b.name));
    }
    return this.root;
  }
}

/** Of each stack what its bytes at the peak were for. */
function categoriesOfStacks(peaks: Peak[]): Map<string, Map<string, number>> {
  const categories = new Map<string, Map<string, number>>();
  for (const peak of peaks) {
    for (const holder of peak.holders) {
      if (!holder.stack || !holder.category) continue;
      const known = categories.get(holder.stack) ?? new Map<string, number>();
      known.set(holder.category, (known.get(holder.category) ?? 0) + holder.bytes);
      categories.set(holder.stack, known);
    }
  }
  return categories;
}

/** What is drawn: bytes of one stack. */
interface Told extends Origin {
  process: string;
  level: string | null;
  bytes: number;
  category?: string | null;
}

/** What is shown besides the measures: a moment of which the page knows who held what, or growth. */
export interface Moment {
  value: string;
  text: string;
  time_ns: Time | null; // null for the whole run
  rows: Told[];
}

/** When memory ran out, and the time that the page was made for; what grew comes before them. */
export function momentsOf(report: Report, held: Held[], at: { process: string | null; device: string | null }): Moment[] {
  const isHere = (row: Place): boolean => row.process === at.process && row.device === at.device;
  const moments: Moment[] = [];
  const grown = report.leaks.growth.filter(isHere);
  if (grown.length > 0) moments.push({ value: "growth", text: "Growth", time_ns: null, rows: grown });
  for (const row of report.oom) {
    if (!isHere(row) || row.time_ns === null || row.holders.length === 0) continue;
    const value = `oom ${row.time_ns}`;
    if (moments.some((moment) => moment.value === value)) continue;
    moments.push({ value, text: `Out of memory, ${duration(row.time_ns)}`, time_ns: row.time_ns,
      rows: row.holders.map((holder) => ({ ...holder, process: row.process, level: row.level })) });
  }
  for (const row of held.filter(isHere)) {
    const value = `time ${row.time_ns}`;
    let moment = moments.find((one) => one.value === value);
    if (!moment) moments.push((moment = { value, text: `At ${duration(row.time_ns)}`, time_ns: row.time_ns, rows: [] }));
    moment.rows.push(row);
  }
  return moments;
}

/** No byte is counted at two levels: the framework's blocks where there are any, else the others. */
function countedRows(rows: Told[], measure: string): Told[] {
  const told = rows.filter((row) => row.bytes > 0);
  if (measure === "copied") return told;
  const has = measure !== "leaked" && told.some((row) => row.level === "framework");
  return told.filter((row) => (row.level === "framework") === has);
}

function stackSteps(row: Told, data: Costs): Step[] {
  const frames = row.stack ? data.stacks[row.stack] : undefined;
  if (!frames) return lineSteps(row);
  return frames.map((index) => {
    const frame = data.frames[index];
    return { name: frame?.name ?? "unknown", detail: frame?.file ?? "" };
  });
}

function lineSteps(row: Origin): Step[] {
  const owner = row.owner === "other" ? "all others" : words(row.owner ?? "owner not known");
  const steps: Step[] = [{ name: owner, detail: "" }];
  if (row.site) steps.push({ name: siteName(row.site) || location(row.site) || "unknown", detail: row.site.file ?? "" });
  return steps;
}

function layerTree(rows: Module[], process: string | null): Node {
  const tree = new Tree("all layers");
  for (const row of rows) {
    if (process !== null && row.process !== process) continue;
    const steps = (row.path ?? "outside a model").split(" > ").map((name) => ({ name, detail: "" }));
    if (row.name) steps.push({ name: row.name, detail: "" });
    tree.add(steps, row.bytes, new Map(Object.entries(row.categories)));
  }
  return tree.finished();
}

export interface Wanted {
  measure: string; // one of kMeasures
  moment: Moment | undefined; // instead of the measure
  grouping: Grouping;
  isInverted: boolean;
  process: string | null; // all if it is null
}

export function treeOf(report: Report, data: Costs, wanted: Wanted): Node {
  if (wanted.grouping === "layer") return layerTree(report.modules ?? [], wanted.process);
  const key = (kMeasures.find((row) => row.value === wanted.measure) ?? kMeasures[0]!).key;
  const all = wanted.moment?.rows ?? data.costs.map((row) => ({ ...row, bytes: Number(row[key]) }));
  const mine = wanted.process === null ? all : all.filter((row) => row.process === wanted.process);
  const isPeak = wanted.measure === "peak" && !wanted.moment;
  const categories = isPeak ? categoriesOfStacks(report.peak) : new Map<string, Map<string, number>>();
  const tree = new Tree(wanted.process === null ? "all processes" : "all");
  for (const row of countedRows(mine, wanted.measure)) {
    const steps = wanted.grouping === "line" ? lineSteps(row) : stackSteps(row, data);
    if (wanted.isInverted) steps.reverse();
    const colors = row.stack ? categories.get(row.stack) : undefined;
    tree.add(steps, row.bytes, colors ?? new Map([[row.category ?? row.owner ?? "unknown", row.bytes]]));
  }
  return tree.finished();
}

export function hasMeasure(data: Costs, key: keyof Cost): boolean {
  return data.costs.some((row) => Number(row[key]) > 0);
}
