// SPDX-License-Identifier: Apache-2.0
// The layout of blocks in the segments of the framework's allocator: at the peak, when most was
// unusable, and when memory ran out.

import { CanvasList, penOf } from "./canvas";
import { fillOf, themeColor } from "./colors";
import { choice, element } from "./dom";
import { frameworkName } from "./facts";
import { counted, duration, exactSize, holderName, size, words } from "./format";
import type { Report } from "./page_types";
import type { Segment } from "./report";
import type { Selection } from "./selection";

const kRow = 16;
const kGap = 3;
const kMostRows = 24;

/** A segment in the strip that all of them make, which is broken into rows. */
interface Laid {
  segment: Segment;
  from: number;
}

const kMoments: Record<string, string> = { peak: "Peak", worst: "Most unusable", oom: "Out of memory" };

function momentName(segment: Segment): string {
  return `${kMoments[segment.at] ?? words(segment.at)}, ${duration(segment.time_ns)}`;
}

/** The moment that says most: memory ran out, else the peak. */
function firstMoment(rows: Segment[]): string {
  const row = rows.find((one) => one.at === "oom") ?? rows[0];
  return row ? momentName(row) : "";
}

export class SegmentsView extends CanvasList<Laid> {
  private moment = "";
  private total = 1;
  private rows = 1;

  constructor(place: Element, private readonly selection: Selection) {
    super(place, "Segments, in the order of addresses", "segment-item");
  }

  draw(report: Report, all: Segment[]): void {
    const { process, device } = this.selection.now;
    const mine = all.filter((row) => row.process === process && row.device === device);
    const moments = [...new Set(mine.map(momentName))];
    if (!moments.includes(this.moment)) this.moment = firstMoment(mine);
    const rows = mine.filter((row) => momentName(row) === this.moment);
    this.lay(rows.filter((row) => row.address !== null));
    if (this.items.length === 0) {
      this.fold.hide();
      return;
    }
    const rest = rows.find((row) => row.address === null);
    this.fold.show(
      "Map of segments", `what ${frameworkName(report)} took from the driver, in the order of addresses; what has no colour is free`,
      element("div", { class: "head-row" },
        moments.length > 1 && choice("Moment", moments.map((text) => ({ value: text, text })), this.moment, (value) => {
          this.moment = value;
          this.draw(report, all);
          this.selection.set({ time_ns: mine.find((row) => momentName(row) === value)?.time_ns ?? null });
        })),
      this.list, this.told,
      rest && element("p", { class: "note" }, `${counted(rest.segments, "smaller segment is", "smaller segments are")} not drawn: ${size(rest.bytes)}, of which ${size(rest.allocated_bytes)} are allocated.`));
    this.tell(null);
    this.paint();
  }

  private lay(segments: Segment[]): void {
    this.chosen = null;
    this.total = 0;
    this.items = segments.map((segment) => {
      const from = this.total;
      this.total += segment.bytes;
      return { segment, from };
    });
    this.rows = Math.min(kMostRows, Math.max(1, segments.length));
  }

  protected paint(): void {
    const width = this.list.clientWidth;
    const context = this.items.length === 0 ? null : penOf(this.canvas, width, this.rows * (kRow + kGap));
    if (!context) return;
    const free = themeColor("plate");
    const text = themeColor("text");
    const fills = new Map<string, string | CanvasPattern>();
    for (const one of this.items) {
      let from = one.from;
      for (const run of one.segment.runs) {
        const share = run.bytes === 0 ? 0 : run.allocated_bytes / run.bytes;
        const name = run.category ?? "unknown";
        const fill = fills.get(name) ?? fillOf(name, context);
        fills.set(name, fill);
        this.strip(from, run.bytes, width, (x, y, length) => {
          context.fillStyle = free;
          context.fillRect(x, y, length, kRow);
          if (share === 0) return;
          // If a piece is both, its lower part is allocated.
          context.fillStyle = fill;
          context.fillRect(x, y + kRow * (1 - share), Math.max(length - 0.4, 0.3), kRow * share);
        });
        from += run.bytes;
      }
      const isChosen = one === this.chosen;
      context.strokeStyle = text;
      context.lineWidth = isChosen ? 2.5 : 0.6;
      this.strip(one.from, one.segment.bytes, width, (x, y, length) => context.strokeRect(x + 0.5, y + 0.5, Math.max(length - 1, 0.5), kRow - 1));
    }
  }

  /** Calls paint() for the part of each row that the bytes from `from` on take. */
  private strip(from: number, bytes: number, width: number, paint: (x: number, y: number, length: number) => void): void {
    const perRow = this.total / this.rows;
    for (let at = from; at < from + bytes;) {
      const row = Math.min(Math.floor(at / perRow), this.rows - 1);
      const end = row === this.rows - 1 ? from + bytes : Math.min(from + bytes, (row + 1) * perRow);
      paint(((at - row * perRow) / perRow) * width, row * (kRow + kGap), ((end - at) / perRow) * width);
      at = end > at ? end : from + bytes;
    }
  }

  protected itemAt(event: MouseEvent): Laid | undefined {
    const row = Math.floor(event.offsetY / (kRow + kGap));
    const at = ((row + event.offsetX / Math.max(this.list.clientWidth, 1)) / this.rows) * this.total;
    return this.items.find((one) => at >= one.from && at < one.from + one.segment.bytes);
  }

  protected count(): string {
    return counted(this.items.length, "segment", "segments");
  }

  protected hint(): string {
    const sum = (bytes: (segment: Segment) => number): number => this.items.reduce((total, row) => total + bytes(row.segment), 0);
    const unusable = sum((segment) => segment.stranded_bytes ?? 0);
    return `${this.count()}: ${exactSize(this.total)}, of which ${size(sum((segment) => segment.allocated_bytes))} are allocated`
      + `${unusable > 0 ? ` and ${size(unusable)} are free, but unusable beside them` : ""}. Click one, or walk through them with the arrow keys.`;
  }

  protected sentence({ segment }: Laid): string {
    return sentence(segment);
  }
}

function sentence(segment: Segment): string {
  const parts = new Map<string, number>();
  let hole = 0;
  for (const run of segment.runs) {
    if (run.allocated_bytes > 0) parts.set(run.category ?? "unknown", (parts.get(run.category ?? "unknown") ?? 0) + run.allocated_bytes);
    else hole = Math.max(hole, run.bytes);
  }
  const told = [...parts].sort((a, b) => b[1] - a[1]).map(([name, bytes]) => `${words(name)} ${size(bytes)}`).join(", ");
  const free = segment.bytes - segment.allocated_bytes;
  const holes = free === 0 ? "full" : hole > 0 ? `${size(free)} free, the largest piece ${size(hole)}` : `${size(free)} free in small pieces`;
  return `Segment of ${exactSize(segment.bytes)}: ${holes}${told ? `; ${told}` : ""}.${pins(segment)}`;
}

/** Whose blocks keep the rest of the segment from being used. */
function pins(segment: Segment): string {
  const rows = segment.pinned_by ?? [];
  if (rows.length === 0) return "";
  const told = rows.map((row) => `${holderName(row)} (${size(row.bytes_held)})`).join(", ");
  return ` ${size(segment.stranded_bytes ?? 0)} of it cannot be used because of ${told}.`;
}
