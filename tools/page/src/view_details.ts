// SPDX-License-Identifier: Apache-2.0
// Reserved memory that was of no use; facts about the trace, and its losses.

import { element, replace } from "./dom";
import { frameworkName } from "./facts";
import { count, counted, duration, holderName, percent, size, words } from "./format";
import type { Head, Report } from "./page_types";
import type { Fragmentation } from "./report";
import type { Selection } from "./selection";

const kMoments: Record<string, string> = { peak: "at the peak", oom: "when memory ran out", worst: "at the worst moment", end: "at the end" };

function unusableBar(row: Fragmentation): HTMLElement {
  const parts: [string, string, number][] = [
    ["allocated", "allocated", row.allocated_bytes ?? 0],
    ["stranded", "unusable, beside live blocks", row.stranded_bytes ?? 0],
    ["releasable", "could be given back", row.releasable_bytes ?? 0],
  ];
  const bar = element("div", { class: "bar thin", "aria-hidden": "true" });
  for (const [name, label, part] of parts) {
    if (part === 0) continue;
    const made = element("div", { class: `segment ${name}`, title: `${label}: ${size(part)}` });
    made.style.flexGrow = String(part);
    bar.appendChild(made);
  }
  return element("div", {}, bar, element("p", { class: "note" },
    parts.filter(([, , part]) => part > 0).map(([, label, part]) => `${size(part)} ${label}`).join(" + ")
    + `; the largest free piece is ${size(row.largest_free_bytes)}`));
}

function momentOf(row: Fragmentation): HTMLElement {
  const made = element("div", { class: "moment" },
    element("h3", {}, `${size(row.reserved_bytes)} reserved ${kMoments[row.at] ?? words(row.at)}`,
      element("span", { class: "note" }, duration(row.time_ns))), unusableBar(row));
  if (row.pinned_by.length > 0) {
    const list = element("ul", { class: "pins" });
    for (const pin of row.pinned_by.slice(0, 5)) {
      list.appendChild(element("li", {}, element("b", {}, size(pin.bytes_stranded)),
        ` beside ${size(pin.bytes_held)} of ${holderName(pin)}`));
    }
    made.appendChild(list);
  }
  return made;
}

export function drawFragmentation(place: Element, report: Report, selection: Selection): void {
  const { process, device } = selection.now;
  const rows = report.fragmentation.filter((row) => row.process === process && row.device === device && (row.reserved_bytes ?? 0) > 0);
  if (rows.length === 0) {
    replace(place);
    return;
  }
  // Several failed requests of one time look the same.
  const told = new Map<string, Fragmentation>();
  for (const row of rows) told.set(`${row.at} ${row.reserved_bytes} ${row.stranded_bytes}`, row);
  const list = element("div", { class: "moments" });
  for (const row of [...told.values()].slice(0, 4)) list.appendChild(momentOf(row));
  replace(place, element("h2", {}, "Reserved and unusable",
    element("span", { class: "note" }, `what ${frameworkName(report)} took from the driver`)), list);
}

function facts(rows: [string, string | null | undefined][]): HTMLElement {
  const list = element("dl", {});
  for (const [name, value] of rows) {
    if (!value) continue;
    list.append(element("dt", {}, name), element("dd", {}, value));
  }
  return list;
}

function versionsOf(head: Head): [string, string | null | undefined][] {
  const process = head.processes[0];
  const driver = process?.cuda?.driver_version;
  const python = process?.python;
  return [
    ["gpumemtrace", `${head.tool.version}; recorded by ${head.traces[0]?.recorder_version ?? "an unknown version"}`],
    ["CUDA driver", driver ? `CUDA ${Math.floor(driver / 1000)}.${Math.floor((driver % 1000) / 10)}` : null],
    ["PyTorch", process?.torch ? `${process.torch.version ?? "unknown version"}, allocator ${process.torch.allocator ?? "unknown"}` : null],
    ["Python", python ? `${python.version ?? "unknown version"}, ${python.stacks ? "with stacks" : `without stacks: ${python.reason ?? "unknown"}`}` : null],
    ["CUPTI", process?.cupti ? `${process.cupti.state}${process.cupti.reason ? `: ${process.cupti.reason}` : ""}` : null],
    ["Shown", head.window ? `from ${duration(head.window.from_ns)}${head.window.to_ns === null ? "" : ` to ${duration(head.window.to_ns)}`} (--from, --to)` : null],
    ["Host", process?.host],
  ];
}

function functionsOf(report: Report): string | null {
  const { wrapped, resolved_unwrapped: others } = report.coverage ?? { wrapped: null, resolved_unwrapped: [] };
  if (wrapped === null) return null;
  const names = [...new Set(others.map((row) => row.name))];
  const rest = names.length === 0 ? "the program asked for no other that handles memory"
    : `not those that the program asked for, too: ${names.slice(0, 6).join(", ")}${names.length > 6 ? ` and ${names.length - 6} more` : ""}`;
  return `${count(wrapped)} of the driver are recorded; ${rest}`;
}

function lossesOf(head: Head): HTMLElement {
  if (head.losses.length === 0) return element("p", { class: "calm" }, "Nothing was lost or guessed.");
  const list = element("ul", { class: "losses" });
  for (const loss of head.losses) {
    list.appendChild(element("li", {}, element("span", { class: `mark ${loss.severity}` }, words(loss.severity)),
      ` ${words(loss.name)}: ${count(loss.count)}. ${loss.remedy ?? ""}`));
  }
  return list;
}

export function drawCoverage(place: Element, head: Head, report: Report): void {
  const job = head.page.job;
  const bytes = report.traces.reduce((sum, trace) => sum + trace.bytes, 0);
  const notes = [...new Set(report.traces.flatMap((trace) => trace.notes))];
  const list = element("ul", {});
  for (const note of notes.slice(0, 20)) list.appendChild(element("li", {}, note));
  const cut = (report.left_out ?? []).map((row) => `${row.key}: ${count(row.rows)} of ${count(row.of)} rows`);
  const failed = report.usage.reduce((sum, row) => sum + row.failed, 0);
  replace(place,
    element("h2", {}, "Coverage, losses, settings"),
    element("div", { class: "columns" },
      facts([
        ["Trace", job.incomplete === 0 ? `complete: ${counted(job.events, "event", "events")}, none lost`
          : `${counted(job.incomplete, "trace", "traces")} of ${job.traces} incomplete, ${count(job.dropped)} events dropped`],
        ["Size", `${size(bytes)} in ${counted(job.traces, "trace", "traces")}`],
        ["Functions", functionsOf(report)],
        ["Not readable", (report.coverage?.unreadable_traces ?? []).map((row) => `${row.file}: ${row.reason}`).join("; ")],
        ["Calls that failed", failed > 0 ? count(failed) : null],
        ["Names", head.redacted ? "private names are replaced (--redact)" : null],
        ["Left out of this page", cut.length > 0 ? `${cut.join("; ")}. report.json has all.` : null],
        ["Share of lost events", job.dropped > 0 ? percent(job.dropped / (job.events + job.dropped)) : null],
      ]),
      facts(versionsOf(head))),
    element("h3", {}, "Losses and guesses"), lossesOf(head),
    notes.length > 0 && element("h3", {}, "Notes"), notes.length > 0 && list,
    element("h3", {}, "More"),
    element("p", {}, "Every number as JSON: ", element("code", {}, "gpumemtrace analyze TRACE -o report.json"),
      ". Stacks for other viewers: ", element("code", {}, "gpumemtrace export TRACE --to speedscope"), "."));
}
