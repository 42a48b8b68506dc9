// SPDX-License-Identifier: Apache-2.0
// Drawn on top of the curve: capacity, peak, out of memory, steps, marks, the selected time.

import type uPlot from "uplot";
import { themeColor } from "./colors";
import { duration, size } from "./format";
import type { Report } from "./page_types";
import type { Time } from "./report";
import type { Columns } from "./timeline_data";

interface Colors {
  text: string;
  muted: string;
  bad: string;
}

const kBad = "#D1242F";
const kLeastStepPixels = 46;
export const kRuler = 13; // the height of the steps'

class Pen {
  readonly context: CanvasRenderingContext2D;
  readonly ratio = devicePixelRatio || 1;

  constructor(private readonly plot: uPlot) {
    this.context = plot.ctx;
  }

  get area(): { left: number; top: number; right: number; bottom: number } {
    const { left, top, width, height } = this.plot.bbox;
    return { left, top, right: left + width, bottom: top + height };
  }

  get right(): number {
    return this.plot.width * this.ratio;
  }

  x(time_ns: Time): number {
    return Math.round(this.plot.valToPos(time_ns / 1e9, "x", true));
  }

  y(bytes: number): number {
    return Math.round(this.plot.valToPos(bytes, "y", true));
  }

  isInside(x: number): boolean {
    return x >= this.area.left - 1 && x <= this.area.right + 1;
  }

  line(x1: number, y1: number, x2: number, y2: number, color: string, dash: number[] = []): void {
    const { context } = this;
    context.strokeStyle = color;
    context.lineWidth = this.ratio;
    context.setLineDash(dash.map((length) => length * this.ratio));
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x2, y2);
    context.stroke();
    context.setLineDash([]);
  }

  /** On a plate, so that it is read on any colour; kept inside the picture. */
  label(text: string, x: number, y: number, color: string, background: string): void {
    const { context, ratio, area } = this;
    context.font = `600 ${11 * ratio}px system-ui, sans-serif`;
    context.textAlign = "left";
    context.textBaseline = "middle";
    const width = context.measureText(text).width;
    const left = Math.min(Math.max(x, area.left + 3 * ratio), area.right - width - 5 * ratio);
    const middle = Math.max(y, 8 * ratio);
    context.fillStyle = background;
    context.fillRect(left - 3 * ratio, middle - 7.5 * ratio, width + 6 * ratio, 15 * ratio);
    context.fillStyle = color;
    context.fillText(text, left, middle + 0.5 * ratio);
  }
}

function drawCapacity(pen: Pen, columns: Columns, top: number, colors: Colors, plate: string): void {
  const capacity = columns.row.capacity_bytes;
  if (capacity === null) return;
  const { area, ratio } = pen;
  if (capacity > top) {
    pen.label(`card ${size(capacity)}, above the axis`, area.right, area.top + 2 * ratio, colors.muted, plate);
    return;
  }
  pen.line(area.left, pen.y(capacity), area.right, pen.y(capacity), colors.bad);
  pen.label(`capacity ${size(capacity)}`, area.right, pen.y(capacity) - 9 * ratio, colors.bad, plate);
}

/** Below the curve, so that both can be read. */
function drawSteps(pen: Pen, columns: Columns, report: Report, colors: Colors): void {
  const steps = (report.steps ?? []).filter((step) => step.process === columns.row.process);
  const { area, ratio, context } = pen;
  let lastLabel = -Infinity;
  let lastTick = -Infinity;
  context.font = `${10 * ratio}px system-ui, sans-serif`;
  context.textAlign = "left";
  context.textBaseline = "bottom";
  for (const step of steps) {
    if (step.start_ns === null) continue;
    const x = pen.x(step.start_ns);
    if (!pen.isInside(x) || x - lastTick < 4 * ratio) continue;
    lastTick = x;
    const text = lastLabel === -Infinity ? `step ${step.index}` : String(step.index);
    const isLabelled = x - lastLabel >= kLeastStepPixels * ratio && x + context.measureText(text).width <= pen.right;
    pen.line(x, area.bottom, x, area.bottom + (isLabelled ? kRuler : kRuler / 3) * ratio, colors.muted);
    if (!isLabelled) continue;
    lastLabel = x;
    context.fillStyle = colors.muted;
    context.fillText(text, x + 3 * ratio, area.bottom + (kRuler - 1) * ratio);
  }
}

function drawFailures(pen: Pen, columns: Columns, report: Report): void {
  const { area, ratio } = pen;
  let last = -Infinity;
  for (const failure of report.oom) {
    if (failure.process !== columns.row.process || failure.time_ns === null) continue;
    const x = pen.x(failure.time_ns);
    if (!pen.isInside(x)) continue;
    pen.line(x, area.top, x, area.bottom, kBad, [4, 3]);
    if (x - last < 90 * ratio) continue;
    last = x;
    pen.label(failure.outcome === "raised" ? "out of memory" : "ran out, recovered", x + 5 * ratio, area.bottom - 46 * ratio, "#ffffff", kBad);
  }
}

function drawMarks(pen: Pen, columns: Columns, report: Report, colors: Colors, plate: string): void {
  const { area, ratio } = pen;
  for (const mark of report.marks ?? []) {
    const x = pen.x(mark.time_ns);
    if (mark.process !== columns.row.process || !pen.isInside(x)) continue;
    pen.line(x, area.top, x, area.bottom, colors.muted, [1, 3]);
    pen.label(mark.name.slice(0, 24), x + 4 * ratio, area.bottom - 22 * ratio, colors.muted, plate);
  }
}

function drawPeak(pen: Pen, columns: Columns, report: Report, plate: string, colors: Colors): void {
  const { peak } = columns;
  const x = pen.x(peak.max_time_ns);
  if (!pen.isInside(x)) return;
  const y = pen.y(peak.max_bytes);
  const { context, ratio } = pen;
  context.fillStyle = colors.text;
  context.beginPath();
  context.arc(x, y, 3.5 * ratio, 0, 2 * Math.PI);
  context.fill();
  pen.label(`${report.window ? "most here" : "peak"} ${size(peak.max_bytes)} at ${duration(peak.max_time_ns)}`, x + 7 * ratio, y - 11 * ratio, colors.text, plate);
}

export function drawOverlays(plot: uPlot, columns: Columns, report: Report, selected: Time | null, colors: Colors): void {
  const pen = new Pen(plot);
  const plate = themeColor("page");
  pen.context.save();
  const top = plot.scales["y"]?.max ?? 0;
  drawSteps(pen, columns, report, colors);
  drawMarks(pen, columns, report, colors, plate);
  drawCapacity(pen, columns, top, colors, plate);
  drawFailures(pen, columns, report);
  drawPeak(pen, columns, report, plate, colors);
  if (selected !== null && pen.isInside(pen.x(selected))) {
    const x = pen.x(selected);
    pen.line(x, pen.area.top, x, pen.area.bottom, colors.text);
  }
  pen.context.restore();
}
