// SPDX-License-Identifier: Apache-2.0
// Who held it: an icicle in which width is bytes and order is by size.

import { penOf } from "./canvas";
import { colorOf, fillOf, isHatched, textOn, themeColor } from "./colors";
import { button, choice, element, press, replace } from "./dom";
import { counted, exactSize, percent, size, words } from "./format";
import { hasMeasure, kMeasures, momentsOf, treeOf, type Grouping, type Moment, type Node } from "./icicle_tree";
import { commandLine, momentCommand } from "./commands";
import { processName } from "./facts";
import type { Costs, Held, Report } from "./page_types";
import type { Selection } from "./selection";

const kRow = 22;
const kMostRows = 26;
const kLeastWidth = 0.7;
const kLeastLabel = 34;

interface Box {
  node: Node;
  x: number;
  y: number;
  width: number;
}

export class IcicleView {
  private measure = "peak"; // or the value at a time
  private moments: Moment[] = [];
  private report: Report | null = null;
  private grouping: Grouping = "stack";
  private isInverted = false;
  private isAllProcesses = false;
  private root: Node | null = null;
  private zoomed: Node | null = null;
  private focused: Node | null = null;
  private boxes: Box[] = [];
  private fills = new Map<string, string | CanvasPattern>();
  private matches = new Set<Node>();

  private readonly canvas = element("canvas", { "aria-hidden": "true" });
  private readonly item = element("div", { role: "treeitem", id: "icicle-item", class: "hidden-text" });
  private readonly tree = element("div", {
    class: "icicle", role: "tree", tabindex: 0, "aria-label": "Memory by call stack", "aria-activedescendant": "icicle-item",
  });
  private readonly missing = element("div", { class: "detail" });
  private readonly told = element("p", { class: "reading", "aria-live": "polite" });
  private readonly search = element("input", {
    type: "search", placeholder: "Search a function, file or owner  ( / )", "aria-label": "Search a function, file or owner",
  });
  private readonly observer = new ResizeObserver(() => this.paint());

  constructor(private readonly place: Element, private readonly selection: Selection) {
    this.tree.append(this.canvas, this.item);
    this.tree.addEventListener("keydown", (event) => this.onKey(event));
    this.canvas.addEventListener("mousemove", (event) => this.onHover(event));
    this.canvas.addEventListener("mouseleave", () => this.tell(this.focused ?? this.zoomed));
    this.canvas.addEventListener("click", (event) => this.onClick(event));
    this.search.addEventListener("input", () => this.selection.set({ query: this.search.value }));
    this.observer.observe(this.tree);
    document.addEventListener("keydown", (event) => {
      const target = event.target as HTMLElement;
      if (event.key !== "/" || target.tagName === "INPUT") return;
      event.preventDefault();
      this.search.focus();
    });
  }

  draw(report: Report, data: Costs | null, held: Held[]): void {
    this.report = report;
    if (!data || report.usage.length === 0 || (data.costs.length === 0 && !report.modules?.length)) {
      this.root = null;
      if (report.usage.length === 0) replace(this.place);
      else replace(this.place, element("h2", {}, "Who held it"), element("p", { class: "calm" }, this.emptyText(data)));
      return;
    }
    this.moments = momentsOf(report, held, this.selection.now);
    const measures = [...kMeasures.filter((row) => hasMeasure(data, row.key)), ...this.moments];
    if (!measures.some((row) => row.value === this.measure)) this.measure = measures[0]?.value ?? "peak";
    const moment = this.moments.find((one) => one.value === this.measure);
    const process = this.isAllProcesses && !moment ? null : this.selection.now.process;
    this.root = treeOf(report, data, { measure: this.measure, moment, grouping: this.grouping, isInverted: this.isInverted, process });
    this.zoomed = this.root;
    this.focused = null;
    this.fills.clear();
    this.search.value = this.selection.now.query;
    const redraw = (): void => this.draw(report, data, held);
    const show = (value: string): void => {
      this.measure = value;
      redraw();
      const chosen = this.moments.find((one) => one.value === value);
      if (chosen?.time_ns != null) this.selection.set({ time_ns: chosen.time_ns });
    };
    replace(this.place,
      element("div", { class: "head-row" },
        element("h2", {}, "Who held it",
          element("span", { class: "note" }, "width is bytes, order is by size, not time; click to enter a box")),
        measures.length > 1 && this.grouping !== "layer" && choice("What is shown", measures, this.measure, show)),
      element("div", { class: "head-row" },
        choice("By", this.groupings(report), this.grouping, (value) => { this.grouping = value; redraw(); }),
        this.grouping === "stack" && button("From the innermost", () => { this.isInverted = !this.isInverted; redraw(); },
          { "aria-pressed": this.isInverted ? "true" : "false", class: "toggle" }),
        report.ranks.length > 1 && button("All processes", () => { this.isAllProcesses = !this.isAllProcesses; redraw(); },
          { "aria-pressed": this.isAllProcesses ? "true" : "false", class: "toggle",
            title: `Else ${processName(report, this.selection.now.process)} alone` }),
        this.search,
        button("Reset", () => { this.selection.set({ query: "" }); this.zoom(this.root); }, { class: "quiet" })),
      this.tree, this.told, this.missing);
    this.findMatches();
    this.paint();
    this.tellMissing();
  }

  /** Of a moment that is selected the page may not know who held what. */
  private tellMissing(): void {
    const { time_ns } = this.selection.now;
    const isKnown = time_ns === null || !this.report || this.moments.some((moment) => moment.time_ns === time_ns)
      || this.report.peak.some((peak) => peak.time_ns === time_ns);
    replace(this.missing, !isKnown && this.report && commandLine("Who held it at the moment that is selected:", momentCommand(this.report, time_ns)));
  }

  /** The selection has another moment or query. */
  select(): void {
    this.tellMissing();
    if (this.search.value !== this.selection.now.query) this.search.value = this.selection.now.query;
    this.findMatches();
    this.paint();
  }

  paint(): void {
    const width = this.tree.clientWidth;
    if (!this.root || !this.zoomed) return;
    const depth = depthBelow(this.zoomed) + ancestors(this.zoomed).length;
    const rows = Math.min(depth, kMostRows);
    this.hiddenRows = depth - rows;
    const context = penOf(this.canvas, width, rows * kRow + 1);
    if (!context) return;
    this.boxes = [];
    ancestors(this.zoomed).forEach((node, row) => this.paintBox(context, { node, x: 0, y: row * kRow, width }, true));
    this.paintBelow(context, this.zoomed, 0, ancestors(this.zoomed).length, width);
    this.tell(this.focused ?? this.zoomed);
  }

  private groupings(report: Report): { value: Grouping; text: string }[] {
    const all: { value: Grouping; text: string }[] = [{ value: "stack", text: "By stack" }, { value: "line", text: "By line" }];
    if (report.modules?.length) all.push({ value: "layer", text: "By layer" });
    return all;
  }

  private emptyText(data: Costs | null): string {
    if (!data) return "Bytes by stack did not fit into the page; `gpumemtrace export --to collapsed` writes them.";
    return "The trace has no call stacks. The tables below have the owners.";
  }

  private paintBelow(context: CanvasRenderingContext2D, node: Node, x: number, row: number, width: number): void {
    if (row >= kMostRows || width < kLeastWidth) return;
    this.paintBox(context, { node, x, y: row * kRow, width }, false);
    let at = x;
    for (const child of node.children) {
      const part = (child.bytes / node.bytes) * width;
      this.paintBelow(context, child, at, row + 1, part);
      at += part;
    }
  }

  private paintBox(context: CanvasRenderingContext2D, box: Box, isAncestor: boolean): void {
    const { node, x, y, width } = box;
    this.boxes.push(box);
    const isFaded = isAncestor || (this.selection.now.query !== "" && !this.matches.has(node));
    context.globalAlpha = isFaded ? 0.35 : 1;
    context.fillStyle = this.fill(node.color, context);
    context.fillRect(x, y, Math.max(width - 0.75, 0.4), kRow - 1);
    context.globalAlpha = 1;
    if (node === this.focused) {
      context.strokeStyle = themeColor("text");
      context.lineWidth = 2;
      context.strokeRect(x + 1, y + 1, Math.max(width - 3, 1), kRow - 3);
    }
    if (width < kLeastLabel) return;
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    // Faded boxes have the page's colour behind them.
    context.fillStyle = isFaded ? themeColor("text") : isHatched(node.color) ? "#000000" : textOn(colorOf(node.color));
    const label = fitted(context, `${node.name}  ${size(node.bytes)}`, node.name, width - 10);
    if (label) context.fillText(label, x + 5, y + kRow / 2, width - 10);
  }

  private fill(name: string, context: CanvasRenderingContext2D): string | CanvasPattern {
    let fill = this.fills.get(name);
    if (!fill) this.fills.set(name, (fill = fillOf(name, context)));
    return fill;
  }

  /** Which boxes have the words that are searched for, or lie on the way to them. */
  private findMatches(): void {
    this.matches.clear();
    const query = this.selection.now.query.toLowerCase();
    if (!this.root || query === "") return;
    let found = 0;
    const visit = (node: Node, isWithin: boolean): boolean => {
      const isMatch = `${node.name} ${node.detail}`.toLowerCase().includes(query);
      if (isMatch && !isWithin) found += node.bytes;
      let isOnWay = isWithin || isMatch;
      for (const child of node.children) isOnWay = visit(child, isWithin || isMatch) || isOnWay;
      if (isOnWay) this.matches.add(node);
      return isOnWay;
    };
    visit(this.root, false);
    this.found = found;
  }

  private found = 0;
  private hiddenRows = 0;

  private tell(node: Node | null): void {
    if (!node || !this.root) return;
    const share = node.parent ? `, ${percent(node.bytes / this.root.bytes)} of all` : "";
    const where = node.detail ? `, ${node.detail}` : "";
    let text = `${node.name}: ${exactSize(node.bytes)}${share}${where}; mostly ${words(node.color)}`;
    if (this.selection.now.query !== "") {
      text = `"${this.selection.now.query}": ${size(this.found)}, ${percent(this.found / (this.root.bytes || 1))} of all. ${text}`;
    }
    if (this.hiddenRows > 0) text += `. ${counted(this.hiddenRows, "deeper row", "deeper rows")}: enter a box to see them`;
    if (this.told.textContent !== text) this.told.textContent = text;
    const path = this.focused ?? this.zoomed ?? this.root;
    this.item.textContent = `${path.name}, ${size(path.bytes)}, ${counted(path.children.length, "child", "children")}`;
    this.item.setAttribute("aria-level", String(path.depth + 1));
    if (path.children.length > 0) this.item.setAttribute("aria-expanded", "true");
    else this.item.removeAttribute("aria-expanded");
  }

  private boxAt(event: MouseEvent): Box | undefined {
    return this.boxes.find((box) => event.offsetX >= box.x && event.offsetX < box.x + box.width
      && event.offsetY >= box.y && event.offsetY < box.y + kRow);
  }

  private onHover(event: MouseEvent): void {
    const box = this.boxAt(event);
    this.canvas.style.cursor = box ? "pointer" : "default";
    this.canvas.title = box ? `${box.node.name}: ${exactSize(box.node.bytes)}` : "";
    if (box) this.tell(box.node);
  }

  private onClick(event: MouseEvent): void {
    const box = this.boxAt(event);
    if (box) this.zoom(box.node === this.zoomed ? box.node.parent ?? box.node : box.node);
  }

  private zoom(node: Node | null): void {
    this.zoomed = node;
    this.focused = null;
    this.paint();
  }

  private onKey(event: KeyboardEvent): void {
    if (!this.root || event.target !== this.tree) return;
    const now = this.focused ?? this.zoomed ?? this.root;
    const siblings = now.parent?.children ?? [now];
    const index = siblings.indexOf(now);
    const focus = (node: Node | null | undefined): void => {
      if (!node) return;
      this.focused = node;
      this.paint();
    };
    press(event, {
      ArrowDown: () => focus(now.children[0]),
      ArrowUp: () => focus(now.parent),
      ArrowRight: () => focus(siblings[index + 1]),
      ArrowLeft: () => focus(siblings[index - 1]),
      Home: () => focus(this.root),
      Enter: () => this.zoom(now),
      Escape: () => this.zoom(this.zoomed?.parent ?? this.root),
    });
  }
}

function ancestors(node: Node): Node[] {
  const above: Node[] = [];
  for (let at = node.parent; at; at = at.parent) above.unshift(at);
  return above;
}

function depthBelow(node: Node): number {
  return 1 + Math.max(0, ...node.children.map(depthBelow));
}

/** The text, else the name alone, else its beginning. */
function fitted(context: CanvasRenderingContext2D, text: string, name: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  if (context.measureText(name).width <= width) return name;
  const letters = Math.floor(width / 6.4) - 1;
  return letters < 3 ? "" : `${name.slice(0, letters)}…`;
}
