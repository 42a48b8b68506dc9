// SPDX-License-Identifier: Apache-2.0
// The top of the page: what ran, whether something is wrong, and the three numbers that matter.

import { element, button, replace, append } from "./dom";
import { processName, tilesOf, verdictOf } from "./facts";
import { counted, count, duration, words } from "./format";
import type { Head, Report } from "./page_types";
import type { Selection } from "./selection";
import { isDark, toggleTheme } from "./theme";

function commandOf(head: Head): string {
  const command = head.processes[0]?.command ?? [];
  // A snapshot of PyTorch does not have the command.
  const file = head.traces[0]?.source ? head.traces[0].file : null;
  if (command.length === 0) return file ?? head.processes[0]?.executable ?? "unknown command";
  return command.map((word) => word.slice(word.lastIndexOf("/") + 1)).join(" ");
}

function endsOf(head: Head): string {
  if (head.traces.length > 0 && head.traces.every((trace) => trace.source)) {
    return "the program went on after this";
  }
  const ends = Object.entries(head.page.job.ends);
  if (ends.length === 0) return "nothing was recorded";
  const plain: Record<string, string> = {
    exit: "exited", exec: "was replaced by exec", signal: "was ended by a signal", killed: "was killed",
    running: "still runs", unknown: "ended in a way that is not known",
  };
  return ends.map(([end, number]) => {
    const text = plain[end] ?? words(end);
    return ends.length === 1 ? text : `${number} ${text}`;
  }).join(", ");
}

function jobLine(head: Head): string {
  const job = head.page.job;
  const cards = new Map<string, number>();
  for (const device of head.devices) {
    const name = device.name ?? "GPU";
    cards.set(name, (cards.get(name) ?? 0) + 1);
  }
  const parts = [...cards].map(([name, number]) => (number > 1 ? `${number} x ${name}` : name));
  if (job.processes !== 1) parts.push(counted(job.processes, "process", "processes"));
  parts.push(duration(job.duration_ns));
  if (job.steps > 0) {
    parts.push(job.steps_are_repetitions ? counted(job.steps, "repetition", "repetitions")
      : counted(job.steps, "step", "steps"));
  }
  parts.push(endsOf(head));
  return parts.join(" · ");
}

function completenessNote(head: Head): HTMLElement | null {
  const job = head.page.job;
  if (job.incomplete === 0) return null;
  return element("p", { class: "alert" },
    `Incomplete: ${counted(job.incomplete, "trace misses", "traces miss")} events, `
    + `${count(job.dropped)} of ${count(job.events)} were dropped. Numbers may be too low; what was lost stands under Coverage.`);
}

export function themeButton(onToggle: () => void): HTMLButtonElement {
  const label = (): string => (isDark() ? "Light" : "Dark");
  const made = button(label(), () => {
    toggleTheme();
    made.textContent = label();
    onToggle();
  }, { title: "Switch between light and dark", class: "quiet" });
  return made;
}

/** Choice of process and device, where there are several. */
function placeSelect(report: Report, selection: Selection): HTMLElement | null {
  if (report.ranks.length < 2) return null;
  const select = element("select", { "aria-label": "Process and device" });
  report.ranks.forEach((row, index) => {
    const option = element("option", { value: index }, `${processName(report, row.process)}, ${row.device}`);
    option.selected = row.process === selection.now.process && row.device === selection.now.device;
    select.appendChild(option);
  });
  select.addEventListener("change", () => {
    const row = report.ranks[Number(select.value)];
    if (row) selection.set({ process: row.process, device: row.device, time_ns: null });
  });
  return select;
}

function verdictText(head: Head): HTMLElement {
  const verdict = verdictOf(head);
  const line = element("p", { class: `verdict ${verdict.severity}` }, element("strong", {}, verdict.text));
  const worst = head.findings[0];
  if (worst && verdict.severity !== "good") append(line, ". ", worst.title);
  else if (worst) append(line, "; ", counted(head.findings.length, "hint", "hints"), " below");
  return line;
}

export function drawHeader(place: Element, head: Head, report: Report, selection: Selection, onTheme: () => void): void {
  replace(place,
    element("div", { class: "title" },
      element("h1", {}, commandOf(head)),
      element("p", { class: "job" }, jobLine(head)),
    ),
    element("div", { class: "tools" }, placeSelect(report, selection), themeButton(onTheme)),
  );
}

export function drawHeadline(place: Element, head: Head, report: Report, selection: Selection): void {
  const tiles = element("div", { class: "tiles" });
  for (const tile of tilesOf(report, selection.now)) {
    tiles.appendChild(element("div", { class: `tile ${tile.tone}` },
      element("div", { class: "tile-title" }, tile.title),
      element("div", { class: "tile-value" }, tile.value),
      element("div", { class: "tile-note" }, tile.note)));
  }
  replace(place, completenessNote(head), verdictText(head), tiles.childElementCount > 0 && tiles);
}
