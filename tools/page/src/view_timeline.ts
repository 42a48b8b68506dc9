// SPDX-License-Identifier: Apache-2.0
// Memory over time: the bytes of each category, the reserved bytes, and those of the card.

import uPlot from "uplot";
import { colorOf, fillOf, swatch, themeColor } from "./colors";
import { commandLine, windowCommand } from "./commands";
import { button, choice, element, press, replace } from "./dom";
import { frameworkName } from "./facts";
import { duration, exactSize, size, axisSize, tickTime, words } from "./format";
import type { Report } from "./page_types";
import type { Timeline, TimelineBucket } from "./report";
import type { Selection } from "./selection";
import { drawOverlays, kRuler } from "./timeline_overlays";
import { bucketIndexAt, byteTicks, columnsOf, topOf, type Columns } from "./timeline_data";

const kHeight = 262;
const kLevelOrder = ["framework", "driver", "pool", "managed", "imported", "host"];

function titleOf(report: Report, level: string): string {
  return level === "framework" ? `${frameworkName(report)}'s blocks` : `${words(level)} memory`;
}

export class TimelineView {
  private plot: uPlot | null = null;
  private columns: Columns | null = null;
  private level: string | null = null;
  private bottom: string | null = null;
  private report: Report | null = null;
  private readonly keys = element("ul", { class: "keys parts" });
  private readonly reading = element("p", { class: "reading", "aria-live": "polite" });
  private readonly detail = element("div", { class: "detail" });
  private readonly reset = button("Whole run", () => this.showAll(), { class: "quiet", hidden: true });
  private readonly slider = element("div", {
    class: "chart", tabindex: 0, role: "slider", "aria-label": "Memory over time: moment",
  });
  private readonly observer = new ResizeObserver(() => this.fit());

  constructor(private readonly place: Element, private readonly selection: Selection) {
    this.slider.addEventListener("keydown", (event) => this.onKey(event));
    this.observer.observe(this.slider);
  }

  draw(report: Report, rows: Timeline[]): void {
    this.report = report;
    this.plot?.destroy();
    this.plot = null;
    const { process, device } = this.selection.now;
    const mine = rows
      .filter((row) => row.process === process && row.device === device && row.buckets.length > 0)
      .sort((a, b) => kLevelOrder.indexOf(a.level) - kLevelOrder.indexOf(b.level));
    const row = mine.find((one) => one.level === this.level) ?? mine[0];
    if (!row) {
      replace(this.place, element("h2", {}, "Memory over time"), element("p", { class: "calm" }, missingText(report)));
      return;
    }
    const columns = columnsOf(row, this.bottom);
    this.columns = columns;
    replace(this.place,
      element("div", { class: "head-row" },
        element("h2", {}, "Memory over time",
          element("span", { class: "note" }, `${report.window ? "a part of the run, " : ""}by ${row.parts_by}; drag to zoom, click a moment`)),
        this.reset,
        mine.length > 1 && choice("Level", mine.map((one) => ({ value: one.level, text: words(one.level) })), row.level,
          (level) => { this.level = level; this.bottom = null; this.draw(report, rows); })),
      this.slider, this.keys, this.reading, this.detail,
      tableOf(columns));
    this.makePlot(report, columns);
    this.read();
    this.redrawOnBottom = () => this.draw(report, rows);
  }

  /** The selection has another moment. */
  select(): void {
    this.plot?.redraw(false);
    this.read();
  }

  private redrawOnBottom: () => void = () => undefined;

  private makePlot(report: Report, columns: Columns): void {
    const text = themeColor("text");
    const bad = themeColor("bad");
    const muted = themeColor("muted");
    const top = topOf(columns);
    const steps = uPlot.paths.stepped?.({ align: 1 });
    const pen = document.createElement("canvas").getContext("2d") as CanvasRenderingContext2D;
    const areas: uPlot.Series[] = columns.parts.map((name) => {
      const fill = fillOf(name, pen);
      return { fill: () => fill, stroke: colorOf(name), width: 0, paths: steps, points: { show: false } } as uPlot.Series;
    });
    const ruler = report.steps?.some((step) => step.process === columns.row.process) ? kRuler : 0;
    const axis = { stroke: muted, grid: { stroke: themeColor("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const options: uPlot.Options = {
      width: Math.max(this.slider.clientWidth, 200),
      height: kHeight,
      legend: { show: false },
      padding: [14, 10, 0, 0],
      cursor: { drag: { x: true, y: false, setScale: true }, points: { show: false }, y: false },
      scales: { x: { time: false }, y: { range: () => [0, top] } },
      axes: [
        { ...axis, space: 70, size: 26 + ruler, gap: 5 + ruler, values: (plot, ticks) => {
          const { min = 0, max = 0 } = plot.scales["x"] ?? {};
          return ticks.map((tick) => (tick === 0 ? "0" : tickTime(Math.round(tick * 1e9), (max - min) * 1e9)));
        } },
        { ...axis, splits: () => byteTicks(top, 5), values: (_, ticks) => ticks.map(axisSize), size: 66 },
      ],
      series: [
        {},
        // The whole first: each further area covers its part of it.
        ...areas.reverse(),
        { stroke: text, width: 1.25, dash: [5, 4], paths: steps, points: { show: false } } as uPlot.Series,
      ],
      hooks: {
        draw: [(plot) => drawOverlays(plot, columns, report, this.selection.now.time_ns, { text, muted, bad })],
        setCursor: [(plot) => this.hover(plot)],
        setScale: [(plot) => this.onZoom(plot)],
        ready: [(plot) => this.listenForClicks(plot)],
      },
    };
    const data = [columns.seconds, ...[...columns.sums].reverse(), columns.reserved];
    this.slider.textContent = "";
    this.plot = new uPlot(options, data as uPlot.AlignedData, this.slider);
    this.plot.root.setAttribute("aria-hidden", "true");
  }

  private fit(): void {
    const width = this.slider.clientWidth;
    if (this.plot && width > 0 && this.plot.width !== width) this.plot.setSize({ width, height: kHeight });
  }

  private listenForClicks(plot: uPlot): void {
    let down = 0;
    plot.over.addEventListener("mousedown", (event) => { down = event.clientX; });
    plot.over.addEventListener("click", (event) => {
      if (Math.abs(event.clientX - down) > 3 || !this.columns) return;
      const seconds = plot.posToVal(event.offsetX, "x");
      this.selectBucket(bucketIndexAt(this.columns.row, seconds * 1e9));
    });
  }

  private selectBucket(index: number): void {
    const buckets = this.columns?.row.buckets ?? [];
    const bucket = buckets[Math.min(Math.max(index, 0), buckets.length - 1)];
    if (bucket) this.selection.set({ time_ns: bucket.max_time_ns });
  }

  private onKey(event: KeyboardEvent): void {
    if (!this.columns || !this.plot) return;
    const { row } = this.columns;
    const now = bucketIndexAt(row, this.momentNs());
    const page = Math.max(1, Math.round(row.buckets.length / 20));
    press(event, {
      ArrowRight: () => this.selectBucket(now + 1),
      ArrowLeft: () => this.selectBucket(now - 1),
      PageUp: () => this.selectBucket(now + page),
      PageDown: () => this.selectBucket(now - page),
      Home: () => this.selectBucket(0),
      End: () => this.selectBucket(row.buckets.length - 1),
      "+": () => this.zoom(0.5),
      "=": () => this.zoom(0.5),
      "-": () => this.zoom(2),
      Escape: () => this.showAll(),
      Enter: () => document.getElementById("holders")?.scrollIntoView(),
    });
  }

  private momentNs(): number {
    return this.selection.now.time_ns ?? this.columns?.peak.max_time_ns ?? 0;
  }

  private zoom(factor: number): void {
    const scale = this.plot?.scales["x"];
    if (!this.plot || !this.columns || scale?.min === undefined || scale.max === undefined) return;
    const middle = this.momentNs() / 1e9;
    const half = ((scale.max - scale.min) / 2) * factor;
    const { seconds } = this.columns;
    const first = seconds[0] as number;
    const last = seconds[seconds.length - 1] as number;
    this.plot.setScale("x", { min: Math.max(middle - half, first), max: Math.min(middle + half, last) });
  }

  private showAll(): void {
    const seconds = this.columns?.seconds;
    if (seconds) this.plot?.setScale("x", { min: seconds[0] as number, max: seconds[seconds.length - 1] as number });
  }

  private onZoom(plot: uPlot): void {
    const scale = plot.scales["x"];
    const seconds = this.columns?.seconds;
    if (!seconds || scale?.min === undefined || scale.max === undefined) return;
    const whole = (seconds[seconds.length - 1] as number) - (seconds[0] as number);
    const isWhole = scale.max - scale.min >= whole * 0.999;
    this.reset.hidden = isWhole;
    const range = isWhole ? null : { from_ns: Math.floor(scale.min * 1e9), to_ns: Math.ceil(scale.max * 1e9) };
    replace(this.detail, range && this.report && commandLine("Finer:", windowCommand(this.report, range)));
    this.selection.set({ range });
  }

  private hover(plot: uPlot): void {
    const { left } = plot.cursor;
    if (left === undefined || left < 0) this.read();
    else this.read(plot.posToVal(left, "x") * 1e9);
  }

  /** What was held at a moment: below the mouse, selected, or at the peak. */
  private read(hovered?: number): void {
    if (!this.columns || !this.report) return;
    const { row, parts, peak } = this.columns;
    const selected = this.selection.now.time_ns;
    const isPeak = hovered === undefined && selected === null;
    const bucket = isPeak ? peak : row.buckets[bucketIndexAt(row, hovered ?? selected ?? 0)] as TimelineBucket;
    const reserved = bucket.reserved_bytes === null ? "" : `, ${size(bucket.reserved_bytes)} reserved`;
    const what = !isPeak ? "Most in this interval" : this.report.window ? "Most in this part of the run" : "Peak";
    const reading = `${what}: ${exactSize(bucket.max_bytes)} of ${titleOf(this.report, row.level)}${reserved}, at ${duration(bucket.max_time_ns)}.`;
    if (this.reading.textContent !== reading) this.reading.textContent = reading;
    replace(this.keys, ...[...parts].reverse().map((name) => this.keyOf(name, bucket)));
    if (hovered === undefined) this.describe(bucket);
  }

  private keyOf(name: string, bucket: TimelineBucket): HTMLElement {
    const label = button("", () => {
      this.bottom = this.bottom === name ? null : name;
      this.redrawOnBottom();
    }, { class: "part", title: `Put ${words(name)} at the bottom`, "aria-pressed": this.bottom === name ? "true" : "false" });
    label.append(swatch(name), `${words(name)} `, element("b", {}, size(bucket.parts[name] ?? 0)));
    return element("li", {}, label);
  }

  private describe(bucket: TimelineBucket): void {
    const { row, parts } = this.columns as Columns;
    const largest = parts.slice().sort((a, b) => (bucket.parts[b] ?? 0) - (bucket.parts[a] ?? 0)).slice(0, 3)
      .map((name) => `${words(name)} ${size(bucket.parts[name] ?? 0)}`).join(", ");
    this.slider.setAttribute("aria-valuemin", "0");
    this.slider.setAttribute("aria-valuemax", String(row.buckets.length - 1));
    this.slider.setAttribute("aria-valuenow", String(bucketIndexAt(row, bucket.max_time_ns)));
    this.slider.setAttribute("aria-valuetext", `${duration(bucket.max_time_ns)}, ${size(bucket.max_bytes)}, of which ${largest}`);
  }
}

function missingText(report: Report): string {
  if (report.usage.length === 0) return "No memory was allocated, so there is no curve.";
  return "This report has no memory over time for this process and device. Make the page from the trace to get it: gpumemtrace report TRACE -o report.html";
}

function lowestOf(buckets: TimelineBucket[]): number | null {
  return buckets.reduce<number | null>((least, bucket) =>
    (least === null || bucket.min_bytes === null ? null : Math.min(least, bucket.min_bytes)), Infinity);
}

/** The same values for who cannot see the picture, filled when it is opened. */
function tableOf(columns: Columns): HTMLElement {
  const { row, parts } = columns;
  const made = element("details", { class: "values" }, element("summary", {}, "The same as a table"));
  made.addEventListener("toggle", () => {
    if (!made.open || made.childElementCount > 1) return;
    const header = element("tr", {}, ...["from", "most at", "most", "least", "reserved", ...parts.map(words)]
      .map((name) => element("th", { scope: "col" }, name)));
    const every = Math.max(1, Math.ceil(row.buckets.length / 200));
    const body = element("tbody");
    for (let i = 0; i < row.buckets.length; i += every) {
      // The neighbour with the largest maximum stands for all.
      const best = row.buckets.slice(i, i + every).reduce((a, b) => (b.max_bytes > a.max_bytes ? b : a));
      body.appendChild(element("tr", {}, ...[
        duration((row.buckets[i] as TimelineBucket).start_ns), duration(best.max_time_ns), size(best.max_bytes), size(lowestOf(row.buckets.slice(i, i + every))),
        best.reserved_bytes === null ? "" : size(best.reserved_bytes), ...parts.map((name) => size(best.parts[name] ?? 0)),
      ].map((value) => element("td", {}, value))));
    }
    made.appendChild(element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Memory over time, values" },
      element("table", {}, element("thead", {}, header), body)));
  });
  return made;
}
