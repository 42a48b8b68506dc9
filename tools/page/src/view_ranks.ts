// SPDX-License-Identifier: Apache-2.0
// One bar a rank, so that the one that differs is seen.

import { element, replace } from "./dom";
import { frameworkName, processName } from "./facts";
import { counted, exactSize, range } from "./format";
import type { Report } from "./page_types";
import type { Rank } from "./report";
import type { Selection } from "./selection";

const kMostBars = 64;
const kOutlier = 0.05; // away from the median

function rankOrder(a: Rank, b: Rank): number {
  return (a.rank ?? 1e9) - (b.rank ?? 1e9) || a.process.localeCompare(b.process) || (a.device ?? "").localeCompare(b.device ?? "");
}

export function isOutlier(row: Rank): boolean {
  return row.deviation !== null && Math.abs(row.deviation) > kOutlier * row.peak_bytes;
}

function rankBar(report: Report, row: Rank, most: number, selection: Selection): HTMLElement {
  const isSelected = row.process === selection.now.process && row.device === selection.now.device;
  const fill = element("i", {});
  fill.style.height = `${Math.max((row.peak_bytes / most) * 100, 2)}%`;
  const name = `${processName(report, row.process)}, ${row.device}: ${exactSize(row.peak_bytes)}`;
  return element("button", {
    type: "button",
    class: `rank${isOutlier(row) ? " outlier" : ""}`,
    title: name,
    "aria-label": name,
    "aria-pressed": isSelected ? "true" : "false",
    onclick: () => selection.set({ process: row.process, device: row.device, time_ns: null }),
  }, element("span", { class: "rank-bar" }, fill), element("small", {}, labelOf(report, row)));
}

/** "1", or "1 d0" where a rank has memory of several devices. */
function labelOf(report: Report, row: Rank): string {
  const name = row.rank === null ? row.process : String(row.rank);
  return report.ranks.some((one) => one.process === row.process && one.device !== row.device) ? `${name} ${row.device}` : name;
}

export function drawRanks(place: Element, report: Report, selection: Selection): void {
  if (report.ranks.length < 2) {
    replace(place);
    return;
  }
  const most = Math.max(...report.ranks.map((row) => row.peak_bytes), 1);
  const least = Math.min(...report.ranks.map((row) => row.peak_bytes));
  // If there are very many ranks, shows those that are furthest from the others.
  const shown = report.ranks.length <= kMostBars ? [...report.ranks]
    : [...report.ranks].sort((a, b) => Math.abs(b.deviation ?? 0) - Math.abs(a.deviation ?? 0)).slice(0, kMostBars);
  const bars = element("div", { class: "ranks" });
  for (const row of shown.sort(rankOrder)) bars.appendChild(rankBar(report, row, most, selection));
  const note = shown.length < report.ranks.length
    ? `the ${shown.length} of ${report.ranks.length} that differ most; all stand in the table`
    : "click selects one";
  const outliers = report.ranks.filter(isOutlier).length;
  const processes = new Set(report.ranks.map((row) => row.process)).size;
  const what = counted(processes, report.ranks.some((row) => row.rank !== null) ? "rank" : "process",
    report.ranks.some((row) => row.rank !== null) ? "ranks" : "processes");
  const level = report.peak.some((row) => row.level === "framework" && row.bytes > 0) ? `${frameworkName(report)} allocated` : "asked of the driver";
  replace(place, element("h3", {}, `Peaks of ${what}, ${level}: ${range(least, most)}`,
    element("span", { class: "note" }, outliers > 0 ? `${outliers} outside 5 % of the median; ${note}` : note)), bars);
}
