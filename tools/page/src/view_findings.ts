// SPDX-License-Identifier: Apache-2.0
// Advice: each finding with its subject, its basis, and the way to its proof.

import { button, element, replace } from "./dom";
import { swatch } from "./colors";
import { cardPeak, faultsOf, heldAtPeak, processName, tellingPeak, type Fault, type HeldPart } from "./facts";
import { counted, duration, exactSize, holderName, location, percent, size, words } from "./format";
import type { Head, Report } from "./page_types";
import type { Selection } from "./selection";

const kFirst = 6;
const kMostHolders = 7;

function links(fault: Fault, selection: Selection): HTMLElement {
  const { finding } = fault;
  const made = element("span", { class: "links" });
  const place = finding.process === null ? {} : { process: finding.process, device: finding.device ?? selection.now.device };
  if (finding.time_ns !== null) {
    made.appendChild(button(`at ${duration(finding.time_ns)}`, () => {
      selection.set({ ...place, time_ns: finding.time_ns });
      document.getElementById("time")?.scrollIntoView();
    }, { title: "Show this moment in memory over time", class: "link" }));
  }
  const line = location(finding.site);
  if (line) {
    made.appendChild(button(line, () => {
      selection.set({ ...place, query: line });
      document.getElementById("holders")?.scrollIntoView();
    }, { title: "Show who held memory there", class: "link" }));
  }
  return made;
}

function row(fault: Fault, report: Report, selection: Selection, isOpen: boolean): HTMLElement {
  const { finding, places } = fault;
  const ranks = places.length > 1 ? ` (${counted(places.length, "time", "times")}, first ${processName(report, finding.process)})`
    : report.ranks.length > 1 && finding.process !== null ? ` (${processName(report, finding.process)})` : "";
  const details = element("details", { open: isOpen },
    element("summary", {},
      element("span", { class: `mark ${finding.severity}` }, words(finding.severity)),
      element("span", { class: "finding-title" }, finding.title + ranks),
      element("span", { class: "saves", title: "How many bytes the finding is about, and how that is known" }, element("b", {}, finding.bytes === null ? "" : size(finding.bytes)),
        element("small", {}, finding.confidence))),
    element("div", { class: "finding-text" },
      finding.fix !== null && element("p", { class: "fix" }, finding.fix),
      element("p", {}, finding.detail),
      links(fault, selection)));
  return element("li", {}, details);
}

/** Of a report from before card_peaks: the lines that held most at the peak of one level. */
function heldAtLevel(report: Report, selection: Selection): { whole: number; held: HeldPart[]; title: string } | null {
  const peak = tellingPeak(report, selection.now);
  if (!peak) return null;
  const held = peak.holders.filter((holder) => holder.bytes > 0 && (holder.owner !== "other" || holder.site)).map((holder) => ({
    name: holderName(holder), bytes: holder.bytes, color: holder.category ?? holder.owner ?? "unknown", query: location(holder.site),
    note: holder.category === null ? "" : words(holder.category),
  }));
  return { whole: peak.bytes, held, title: `Who held most of the ${words(peak.level)} memory` };
}

/** Who held most at the peak of the job. */
function topHolders(report: Report, selection: Selection): HTMLElement | null {
  const { device } = selection.now;
  const job = cardPeak(report, device, "job");
  const all = job ? { whole: job.bytes, held: heldAtPeak(report, device) ?? [], title: "Who held most at the peak" }
    : heldAtLevel(report, selection);
  if (!all || all.held.length === 0) return null;
  const list = element("ul", { class: "holders" });
  const add = ({ name, bytes, color, query, note }: HeldPart): void => {
    list.appendChild(element("li", { title: exactSize(bytes) },
      element("b", {}, size(bytes)), element("small", {}, percent(bytes / all.whole)), swatch(color),
      element("span", {}, query ? button(name, () => {
        selection.set({ query });
        document.getElementById("holders")?.scrollIntoView();
      }, { class: "link" }) : name, note && element("span", { class: "note" }, ` ${note}`))));
  };
  const told = all.held.slice(0, kMostHolders);
  for (const one of told) add(one);
  const rest = all.whole - told.reduce((sum, one) => sum + one.bytes, 0);
  if (rest > 0) add({ name: "all others", bytes: rest, color: "other", query: "", note: "" });
  return element("div", {}, element("h3", {}, all.title), list);
}

export function drawFindings(place: Element, head: Head, report: Report, selection: Selection): void {
  const faults = faultsOf(report);
  if (faults.length === 0) {
    replace(place, element("h2", {}, "What to do"),
      element("p", { class: "calm" }, head.usage.length === 0
        ? "The job allocated no GPU memory, so there is nothing to improve."
        : "No rule found anything to change."), topHolders(report, selection));
    return;
  }
  const list = element("ol", { class: "findings" });
  faults.slice(0, kFirst).forEach((fault, index) => list.appendChild(row(fault, report, selection, index === 0)));
  const rest = faults.slice(kFirst);
  const more = rest.length > 0 && button(`Show ${rest.length} more`, () => {
    for (const fault of rest) list.appendChild(row(fault, report, selection, false));
    if (more) more.remove();
  });
  const hints = faults.every((fault) => fault.finding.severity === "info");
  replace(place, element("h2", {}, hints ? "Worth knowing" : "What to do"), list, more, topHolders(report, selection));
}
