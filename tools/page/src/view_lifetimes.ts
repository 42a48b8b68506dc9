// SPDX-License-Identifier: Apache-2.0
// Lifetimes of the largest blocks: who came when and stayed how long.

import { CanvasList, penOf } from "./canvas";
import { colorOf, fillOf, isHatched, textOn, themeColor } from "./colors";
import { button, element } from "./dom";
import { axisSize, counted, duration, exactSize, holderName, location, percent, size, tickTime, words } from "./format";
import { lifeBoxes, topOfBoxes, type LifeBox } from "./lifetimes_layout";
import type { Report } from "./page_types";
import type { LargestBlock, Timeline } from "./report";
import type { Selection } from "./selection";
import { byteTicks } from "./timeline_data";

const kHeight = 300;
const kLeft = 66;
const kBottom = 22;
const kLeastLabel = 60;
const kLeastLabelHeight = 13;

/** What its colour says of it. */
export function blockColor(block: LargestBlock): string {
  return block.level === "framework" ? block.category ?? "unknown" : block.owner ?? "unknown";
}

export function blockName(block: LargestBlock): string {
  return block.name ?? holderName(block);
}

export class LifetimesView extends CanvasList<LifeBox> {
  private blocks: LargestBlock[] = [];
  private span = { from: 0, to: 1 };
  private whole = { from: 0, to: 1 };
  private top = 1;

  private readonly find = button("Show its line", () => this.showLine(), { class: "quiet", hidden: true });

  constructor(place: Element, private readonly selection: Selection) {
    super(place, "Largest blocks, in the order of time", "life-item");
  }

  draw(report: Report, all: LargestBlock[], timeline: Timeline[]): void {
    const { process, device } = this.selection.now;
    const mine = all.filter((block) => block.process === process && block.device === device);
    const level = mine.some((block) => block.level === "framework") ? "framework" : mine[0]?.level;
    this.blocks = mine.filter((block) => block.level === level);
    if (this.blocks.length === 0) {
      this.fold.hide();
      return;
    }
    const row = timeline.find((one) => one.process === process && one.device === device && one.level === level);
    const last = this.blocks.reduce((time, block) => Math.max(time, block.end_ns ?? block.start_ns), 0);
    this.whole = {
      from: row?.buckets[0]?.start_ns ?? this.blocks.reduce((time, block) => Math.min(time, block.start_ns), Infinity),
      to: row?.buckets[row.buckets.length - 1]?.end_ns ?? last,
    };
    this.items = lifeBoxes(this.blocks, Math.max(this.whole.to, last));
    this.top = topOfBoxes(this.items) * 1.04;
    this.chosen = null;
    this.fold.show(
      "Lifetimes of the largest blocks", `who came when and stayed how long; ${this.covered(report, level ?? "")}`,
      this.list, element("div", { class: "head-row" }, this.told, this.find));
    this.tell(null);
    this.select();
  }

  /** The selection has another moment or range. */
  select(): void {
    const { range } = this.selection.now;
    this.span = range ? { from: range.from_ns, to: range.to_ns } : this.whole;
    this.paint();
  }

  private covered(report: Report, level: string): string {
    const { process, device } = this.selection.now;
    const peak = report.peak.find((row) => row.process === process && row.device === device && row.level === level);
    const held = this.blocks.reduce((sum, block) => sum + (block.at_peak ? block.bytes : 0), 0);
    const blocks = counted(this.blocks.length, "block", "blocks");
    return peak && peak.bytes > 0 ? `${blocks}, ${percent(held / peak.bytes)} of the peak` : blocks;
  }

  private x(time: number, width: number): number {
    const { from, to } = this.span;
    return kLeft + ((time - from) / Math.max(to - from, 1)) * (width - kLeft);
  }

  private y(bytes: number): number {
    return (kHeight - kBottom) * (1 - bytes / this.top);
  }

  protected paint(): void {
    const width = this.list.clientWidth;
    const context = this.items.length === 0 ? null : penOf(this.canvas, width, kHeight);
    if (!context) return;
    this.paintAxes(context, width);
    context.save();
    context.beginPath();
    context.rect(kLeft, 0, width - kLeft, kHeight - kBottom);
    context.clip();
    const fills = new Map<string, string | CanvasPattern>();
    for (const box of this.items) this.paintBox(context, box, width, fills);
    this.paintMoment(context, width);
    context.restore();
  }

  private paintAxes(context: CanvasRenderingContext2D, width: number): void {
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = themeColor("muted");
    context.strokeStyle = themeColor("line");
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const tick of byteTicks(this.top, 5)) {
      const y = Math.round(this.y(tick)) + 0.5;
      context.beginPath();
      context.moveTo(kLeft, y);
      context.lineTo(width, y);
      context.stroke();
      context.fillText(axisSize(tick), kLeft - 5, Math.max(y, 7));
    }
    context.textBaseline = "alphabetic";
    const ticks = Math.max(2, Math.min(8, Math.floor((width - kLeft) / 110)));
    for (let i = 0; i <= ticks; ++i) {
      const time = this.span.from + ((this.span.to - this.span.from) * i) / ticks;
      context.textAlign = i === 0 ? "left" : i === ticks ? "right" : "center";
      context.fillText(tickTime(Math.round(time), this.span.to - this.span.from), this.x(time, width), kHeight - 6);
    }
  }

  private paintBox(context: CanvasRenderingContext2D, box: LifeBox, width: number, fills: Map<string, string | CanvasPattern>): void {
    const left = Math.max(this.x(box.from, width), kLeft);
    const right = Math.min(this.x(box.to, width), width);
    if (right < kLeft || left > width) return;
    const top = this.y(box.bottom + box.block.bytes);
    const height = Math.max(this.y(box.bottom) - top, 0.6);
    const name = blockColor(box.block);
    if (!fills.has(name)) fills.set(name, fillOf(name, context));
    context.globalAlpha = this.isFaded(box.block) ? 0.25 : 1;
    context.fillStyle = fills.get(name) ?? colorOf(name);
    context.fillRect(left, top, Math.max(right - left, 0.7), height > 2 ? height - 0.6 : height);
    context.globalAlpha = 1;
    if (box === this.chosen) {
      context.strokeStyle = themeColor("text");
      context.lineWidth = 2;
      context.strokeRect(left + 1, top + 1, Math.max(right - left - 2, 1), Math.max(height - 2, 1));
    }
    if (right - left < kLeastLabel || height < kLeastLabelHeight || this.isFaded(box.block)) return;
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillStyle = isHatched(name) ? "#000000" : textOn(colorOf(name));
    const letters = Math.floor((right - left - 8) / 6.2);
    const label = `${blockName(box.block)}  ${size(box.block.bytes)}`;
    context.fillText(label.length <= letters ? label : `${label.slice(0, letters - 1)}…`, left + 4, top + height / 2, right - left - 8);
  }

  private paintMoment(context: CanvasRenderingContext2D, width: number): void {
    const moment = this.selection.now.time_ns;
    if (moment === null) return;
    const x = Math.round(this.x(moment, width)) + 0.5;
    context.strokeStyle = themeColor("text");
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(x, 0);
    context.lineTo(x, kHeight - kBottom);
    context.stroke();
  }

  private isFaded(block: LargestBlock): boolean {
    const query = this.selection.now.query.toLowerCase();
    const said = `${blockName(block)} ${block.module ?? ""} ${location(block.site)} ${block.owner ?? ""} ${block.category ?? ""}`;
    return query !== "" && !said.toLowerCase().includes(query);
  }

  protected itemAt(event: MouseEvent): LifeBox | undefined {
    const width = this.list.clientWidth;
    const bytes = this.top * (1 - event.offsetY / (kHeight - kBottom));
    const reach = 1.5; // pixels to a box that is thinner than the mouse is sure
    return this.items.find((box) => bytes >= box.bottom && bytes < box.bottom + box.block.bytes
      && event.offsetX >= this.x(box.from, width) - reach && event.offsetX <= this.x(box.to, width) + reach);
  }

  protected override choose(box: LifeBox | null): void {
    super.choose(box);
    if (box) this.selection.set({ time_ns: box.from });
  }

  protected override moves(): Record<string, () => void> {
    return { ...super.moves(), Enter: () => this.showLine() };
  }

  private showLine(): void {
    if (!this.chosen) return;
    this.selection.set({ query: location(this.chosen.block.site) });
    document.getElementById("holders")?.scrollIntoView();
  }

  protected override tell(box: LifeBox | null): void {
    this.find.hidden = !this.chosen || location(this.chosen.block.site) === "";
    super.tell(box);
  }

  protected count(): string {
    return counted(this.items.length, "block", "blocks");
  }

  protected hint(): string {
    return "Click a block, or walk through them with the arrow keys.";
  }

  protected sentence({ block }: LifeBox): string {
    const where = block.name && holderName(block) !== block.name ? `, ${holderName(block)}` : "";
    const layer = block.module ? `, in ${block.module}` : "";
    const stay = block.end_ns === null ? `came at ${duration(block.start_ns)} and stayed to the end`
      : `came at ${duration(block.start_ns)} and stayed for ${duration(block.end_ns - block.start_ns)}`;
    return `${blockName(block)}${where}${layer}: ${exactSize(block.bytes)}, ${words(blockColor(block))}; ${stay}.`;
  }
}
