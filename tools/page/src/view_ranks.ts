// SPDX-License-Identifier: Apache-2.0
// One bar a rank, so that the one that differs is seen.

import { element, replace } from "./dom";
import { frameworkName, processName } from "./facts";
import { counted, exactSize, range, size } from "./format";
import type { Report } from "./page_types";
import type { Rank } from "./report";
import type { Selection } from "./selection";

const kMostBars = 64;
const kRules = new Set<string>(["rank_imbalance", "rank_ended_early"]);

function rankOrder(a: Rank, b: Rank): number {
  return (a.rank ?? 1e9) - (b.rank ?? 1e9) || a.process.localeCompare(b.process) || (a.device ?? "").localeCompare(b.device ?? "");
}

/** The processes that differ from their group, as findings say. */
export function outliersOf(report: Report): Set<string> {
  return new Set(report.findings.filter((row) => kRules.has(row.rule) && row.process !== null).map((row) => row.process as string));
}

/** "+1.2 GiB", against the ranks with the same part of the model; empty if there are none. */
export function fromGroup(row: Rank): string {
  const bytes = row.peer_deviation ?? null;
  return bytes === null ? "" : `${bytes > 0 ? "+" : ""}${size(bytes)}`;
}

function rankBar(report: Report, row: Rank, most: number, isOutlier: boolean, selection: Selection): HTMLElement {
  const isSelected = row.process === selection.now.process && row.device === selection.now.device;
  const fill = element("i", {});
  fill.style.height = `${Math.max((row.peak_bytes / most) * 100, 2)}%`;
  const away = fromGroup(row);
  const name = `${processName(report, row.process)}, ${row.device}: ${exactSize(row.peak_bytes)}`
    + (away === "" ? "" : `; ${away} from its group`);
  return element("button", {
    type: "button",
    class: `rank${isOutlier ? " outlier" : ""}`,
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
  const outliers = outliersOf(report);
  // If there are very many ranks, shows those that differ, and then those that are furthest from their group.
  const distance = (row: Rank): number => (outliers.has(row.process) ? Infinity : Math.abs(row.peer_deviation ?? 0));
  const shown = report.ranks.length <= kMostBars ? [...report.ranks]
    : [...report.ranks].sort((a, b) => (distance(a) === distance(b) ? 0 : distance(b) - distance(a))).slice(0, kMostBars);
  const bars = element("div", { class: "ranks" });
  for (const row of shown.sort(rankOrder)) bars.appendChild(rankBar(report, row, most, outliers.has(row.process), selection));
  const note = shown.length < report.ranks.length
    ? `the ${shown.length} of ${report.ranks.length} that differ most; all stand in the table`
    : "click selects one";
  const processes = new Set(report.ranks.map((row) => row.process)).size;
  const what = counted(processes, report.ranks.some((row) => row.rank !== null) ? "rank" : "process",
    report.ranks.some((row) => row.rank !== null) ? "ranks" : "processes");
  const level = report.peak.some((row) => row.level === "framework" && row.bytes > 0) ? `${frameworkName(report)} allocated` : "asked of the driver";
  replace(place, element("h3", {}, `Peaks of ${what}, ${level}: ${range(least, most)}`,
    element("span", { class: "note" }, outliers.size > 0 ? `${counted(outliers.size, "differs", "differ")} from the group; ${note}` : note)), bars);
}
