// SPDX-License-Identifier: Apache-2.0
// Draws the first view from the head of the page, then the rest when its data is decoded.

import { element, replace } from "./dom";
import { readChunks, readHead, type Chunks } from "./data";
import type { Head, Report } from "./page_types";
import { Selection } from "./selection";
import { IcicleView } from "./view_icicle";
import { LifetimesView } from "./view_lifetimes";
import { SegmentsView } from "./view_segments";
import { TablesView } from "./view_tables";
import { TimelineView } from "./view_timeline";
import { drawComposition } from "./view_composition";
import { drawCoverage, drawFragmentation } from "./view_details";
import { drawFindings } from "./view_findings";
import { drawHeader, drawHeadline } from "./view_headline";
import { drawRanks } from "./view_ranks";

class Page {
  private chunks: Chunks | null = null;
  private readonly selection: Selection;
  private readonly places: Record<string, HTMLElement> = {};
  private readonly links = element("nav", { "aria-label": "Parts of the page" });
  private readonly timeline: TimelineView;
  private readonly icicle: IcicleView;
  private readonly lifetimes: LifetimesView;
  private readonly segments: SegmentsView;
  private readonly tables: TablesView;

  constructor(private readonly head: Head) {
    this.selection = new Selection({ process: head.page.process, device: head.page.device, time_ns: null, range: null, query: "" });
    this.layOut();
    this.timeline = new TimelineView(this.place("time"), this.selection);
    this.icicle = new IcicleView(this.place("holders"), this.selection);
    this.lifetimes = new LifetimesView(this.place("lifetimes"), this.selection);
    this.segments = new SegmentsView(this.place("segments"), this.selection);
    this.tables = new TablesView(this.place("tables"), this.selection);
    this.selection.onChange((changed) => {
      if (changed.has("process") || changed.has("device")) this.draw();
      else {
        if (changed.has("time_ns")) this.timeline.select();
        if (changed.has("time_ns") || changed.has("query")) this.icicle.select();
        this.lifetimes.select();
      }
    });
    addEventListener("beforeprint", () => this.print(true));
    addEventListener("afterprint", () => this.print(false));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  /** The first view; all that follows is below it. */
  drawFirst(): void {
    this.drawTop();
    performance.mark("first-view");
  }

  async drawRest(): Promise<void> {
    await painted();
    this.chunks = await readChunks();
    this.draw();
    performance.mark("all-drawn");
    document.documentElement.dataset["ready"] = "true";
  }

  private get report(): Report {
    return this.chunks?.report ?? this.head;
  }

  private place(id: string): HTMLElement {
    return this.places[id] as HTMLElement;
  }

  private layOut(): void {
    const section = (id: string, tag: "section" | "header" | "div", label?: string): HTMLElement =>
      (this.places[id] = element(tag, { id, ...(label ? { "aria-label": label } : {}) }));
    const first = element("div", { class: "first" },
      section("findings", "section", "Findings"), section("time", "section", "Memory over time"));
    document.body.prepend(
      section("top", "header"),
      element("main", { id: "page" },
        section("headline", "section", "Verdict"), section("composition", "section", "Composition"), first,
        section("ranks", "section", "Ranks"), this.links,
        section("holders", "section", "Who held it"), section("lifetimes", "section", "Lifetimes"),
        section("segments", "section", "Map of segments"), section("tables", "section", "Tables"),
        section("unusable", "section", "Reserved and unusable"), section("coverage", "section", "Coverage")));
  }

  private drawTop(): void {
    const { head, report, selection } = this;
    drawHeader(this.place("top"), head, report, selection, () => this.draw());
    drawHeadline(this.place("headline"), head, report, selection);
    drawComposition(this.place("composition"), report, selection);
    drawFindings(this.place("findings"), head, report, selection);
    this.timeline.draw(report, this.chunks?.timeline ?? head.timeline ?? []);
    drawRanks(this.place("ranks"), report, selection);
  }

  private draw(): void {
    this.drawTop();
    const costs = this.chunks?.costs ?? null;
    this.icicle.draw(this.report, costs, this.chunks?.blocks?.held ?? []);
    this.lifetimes.draw(this.report, this.chunks?.blocks?.largest_blocks ?? [], this.chunks?.timeline ?? []);
    this.segments.draw(this.report, this.chunks?.blocks?.segments ?? []);
    this.tables.draw(this.report, costs, this.chunks?.blocks?.largest_blocks ?? []);
    drawFragmentation(this.place("unusable"), this.report, this.selection);
    drawCoverage(this.place("coverage"), this.head, this.report);
    this.drawLinks();
  }

  private drawLinks(): void {
    const names = [["holders", "Who held it"], ["lifetimes", "Lifetimes"], ["segments", "Segments"], ["tables", "Tables"], ["unusable", "Unusable"], ["coverage", "Coverage"]] as const;
    replace(this.links, ...names.filter(([id]) => this.place(id).childElementCount > 0)
      .map(([id, name]) => element("a", { href: `#${id}` }, name)));
  }

  /** Paper is light, and cannot be unfolded. */
  private print(isStart: boolean): void {
    const root = document.documentElement;
    if (isStart) root.dataset["printed"] = root.dataset["theme"] ?? "";
    const theme = isStart ? "light" : root.dataset["printed"];
    if (theme) root.dataset["theme"] = theme;
    else delete root.dataset["theme"];
    this.draw();
    if (isStart) for (const fold of document.querySelectorAll<HTMLDetailsElement>(".findings details")) fold.open = true;
    this.lifetimes.print(isStart);
    this.segments.print(isStart);
  }
}

const kLongestWaitMs = 100; // a tab in the background paints nothing

/** The first view is on the screen. */
function painted(): Promise<void> {
  return new Promise((resolve) => {
    requestAnimationFrame(() => setTimeout(resolve));
    setTimeout(resolve, kLongestWaitMs);
  });
}

const page = new Page(readHead());
page.drawFirst();
void page.drawRest();
