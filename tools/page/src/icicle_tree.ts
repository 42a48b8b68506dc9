// SPDX-License-Identifier: Apache-2.0
// Bytes by stack, line or layer as a tree in which every node is the sum of its children.

import { location, siteName, words } from "./format";
import type { Cost, Costs, ModuleRow, Peak, Report } from "./report";

export type Measure = "peak" | "leaked" | "allocated" | "copied";
export type Grouping = "stack" | "line" | "layer";

export const kMeasures: readonly { value: Measure; text: string; key: keyof Cost }[] = [
  { value: "peak", text: "Peak", key: "peak_bytes" },
  { value: "leaked", text: "Leaked", key: "leaked_bytes" },
  { value: "allocated", text: "Allocated", key: "allocated_bytes" },
  { value: "copied", text: "Copied", key: "copied_bytes" },
];

export interface Node {
  name: string;
  detail: string; // the whole path of the file, where it is known
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

/** No byte is counted at two levels: the framework's blocks where there are any, else the others. */
function countedRows(rows: Cost[], measure: Measure, key: keyof Cost): Cost[] {
  const told = rows.filter((row) => Number(row[key]) > 0);
  if (measure === "copied") return told;
  const has = measure !== "leaked" && told.some((row) => row.level === "framework");
  return told.filter((row) => (row.level === "framework") === has);
}

function stackSteps(row: Cost, data: Costs): Step[] {
  const frames = row.stack ? data.stacks[row.stack] : undefined;
  if (!frames) return lineSteps(row);
  return frames.map((index) => {
    const frame = data.frames[index];
    return { name: frame?.name ?? "unknown", detail: frame?.file ?? "" };
  });
}

function lineSteps(row: Cost): Step[] {
  const owner = row.owner === "other" ? "all others" : words(row.owner ?? "owner not known");
  const steps: Step[] = [{ name: owner, detail: "" }];
  if (row.site) steps.push({ name: siteName(row.site) || location(row.site) || "unknown", detail: row.site.file ?? "" });
  return steps;
}

function layerTree(rows: ModuleRow[], process: string | null): Node {
  const tree = new Tree("all layers");
  for (const row of rows) {
    if (process !== null && row.process !== process) continue;
    const steps = (row.path ?? "outside a model").split(" > ").map((name) => ({ name, detail: row.name ?? "" }));
    tree.add(steps, row.bytes, new Map(Object.entries(row.categories)));
  }
  return tree.finished();
}

export interface Wanted {
  measure: Measure;
  grouping: Grouping;
  isInverted: boolean;
  process: string | null; // all where it is null
}

export function treeOf(report: Report, data: Costs, wanted: Wanted): Node {
  if (wanted.grouping === "layer") return layerTree(report.modules ?? [], wanted.process);
  const key = (kMeasures.find((row) => row.value === wanted.measure) ?? kMeasures[0]!).key;
  const mine = wanted.process === null ? data.costs : data.costs.filter((row) => row.process === wanted.process);
  const categories = wanted.measure === "peak" ? categoriesOfStacks(report.peak) : new Map();
  const tree = new Tree(wanted.process === null ? "all processes" : "all");
  for (const row of countedRows(mine, wanted.measure, key)) {
    const bytes = Number(row[key]);
    const steps = wanted.grouping === "line" ? lineSteps(row) : stackSteps(row, data);
    if (wanted.isInverted) steps.reverse();
    const colors: Map<string, number> | undefined = row.stack ? categories.get(row.stack) : undefined;
    tree.add(steps, bytes, colors ?? new Map([[row.owner ?? "unknown", bytes]]));
  }
  return tree.finished();
}

export function hasMeasure(data: Costs, key: keyof Cost): boolean {
  return data.costs.some((row) => Number(row[key]) > 0);
}
