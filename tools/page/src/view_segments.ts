// SPDX-License-Identifier: Apache-2.0
// How blocks lay in the segments of the framework's allocator: at the peak, when most was unusable, and
// when memory ran out.

import { fillOf } from "./colors";
import { choice, element } from "./dom";
import { frameworkName } from "./facts";
import { Fold } from "./fold";
import { counted, duration, exactSize, holderName, size, words } from "./format";
import type { Report, Segment } from "./report";
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

export class SegmentsView {
  private readonly fold: Fold;
  private moment = "";
  private laid: Laid[] = [];
  private total = 1;
  private rows = 1;
  private chosen: Laid | null = null;

  private readonly canvas = element("canvas", { "aria-hidden": "true" });
  private readonly item = element("div", { role: "option", id: "segment-item", class: "hidden-text", "aria-selected": "true" });
  private readonly list = element("div", {
    class: "lives", role: "listbox", tabindex: 0, "aria-label": "Segments, in the order of addresses", "aria-activedescendant": "segment-item",
  });
  private readonly told = element("p", { class: "reading", "aria-live": "polite" });
  private readonly observer = new ResizeObserver(() => this.paint());

  constructor(place: Element, private readonly selection: Selection) {
    this.fold = new Fold(place, () => this.paint());
    this.list.append(this.canvas, this.item);
    this.list.addEventListener("keydown", (event) => this.onKey(event));
    this.canvas.addEventListener("mousemove", (event) => this.tell(this.laidAt(event) ?? this.chosen));
    this.canvas.addEventListener("mouseleave", () => this.tell(this.chosen));
    this.canvas.addEventListener("click", (event) => this.choose(this.laidAt(event) ?? null));
    this.observer.observe(this.list);
  }

  draw(report: Report, all: Segment[]): void {
    const { process, device } = this.selection.now;
    const mine = all.filter((row) => row.process === process && row.device === device);
    const moments = [...new Set(mine.map(momentName))];
    if (!moments.includes(this.moment)) this.moment = firstMoment(mine);
    const rows = mine.filter((row) => momentName(row) === this.moment);
    this.lay(rows.filter((row) => row.address !== null));
    if (this.laid.length === 0) {
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

  print(isStart: boolean): void {
    this.fold.print(isStart);
  }

  private lay(segments: Segment[]): void {
    this.chosen = null;
    this.total = 0;
    this.laid = segments.map((segment) => {
      const from = this.total;
      this.total += segment.bytes;
      return { segment, from };
    });
    this.rows = Math.min(kMostRows, Math.max(1, segments.length));
  }

  private paint(): void {
    const width = this.list.clientWidth;
    const context = this.canvas.getContext("2d");
    if (!context || width === 0 || this.laid.length === 0) return;
    const ratio = devicePixelRatio || 1;
    const height = this.rows * (kRow + kGap);
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    context.scale(ratio, ratio);
    const style = getComputedStyle(document.documentElement);
    const free = style.getPropertyValue("--plate").trim();
    const text = style.getPropertyValue("--text").trim();
    const fills = new Map<string, string | CanvasPattern>();
    for (const one of this.laid) {
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
          // Of what is both, the lower part is allocated.
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

  private laidAt(event: MouseEvent): Laid | undefined {
    const row = Math.floor(event.offsetY / (kRow + kGap));
    const at = ((row + event.offsetX / Math.max(this.list.clientWidth, 1)) / this.rows) * this.total;
    return this.laid.find((one) => at >= one.from && at < one.from + one.segment.bytes);
  }

  private choose(one: Laid | null): void {
    this.chosen = one;
    this.tell(one);
    this.paint();
  }

  private tell(one: Laid | null): void {
    const sum = (bytes: (segment: Segment) => number): number => this.laid.reduce((total, row) => total + bytes(row.segment), 0);
    const unusable = sum((segment) => segment.stranded_bytes ?? 0);
    const text = one ? sentence(one.segment)
      : `${counted(this.laid.length, "segment", "segments")}: ${exactSize(this.total)}, of which ${size(sum((segment) => segment.allocated_bytes))} are allocated`
        + `${unusable > 0 ? ` and ${size(unusable)} are free, but unusable beside them` : ""}. Click one, or walk through them with the arrow keys.`;
    if (this.told.textContent !== text) this.told.textContent = text;
    this.item.textContent = this.chosen ? sentence(this.chosen.segment) : counted(this.laid.length, "segment", "segments");
  }

  private onKey(event: KeyboardEvent): void {
    if (event.target !== this.list) return;
    const index = this.chosen ? this.laid.indexOf(this.chosen) : -1;
    const last = this.laid.length - 1;
    const moves: Record<string, () => void> = {
      ArrowRight: () => this.choose(this.laid[Math.min(index + 1, last)] ?? null),
      ArrowLeft: () => this.choose(this.laid[Math.max(index - 1, 0)] ?? null),
      Home: () => this.choose(this.laid[0] ?? null),
      End: () => this.choose(this.laid[last] ?? null),
      Escape: () => this.choose(null),
    };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    move();
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
