// SPDX-License-Identifier: Apache-2.0
// The facts of the first view, as functions of the report: sums and choices of its rows.

import type { Head, Report } from "./page_types";
import type { Bytes, CardPart, CardPeak, Composition, Device, Finding, Fragmentation, Oom, Peak, Time } from "./report";
import { counted, duration, holderName, location, percent, range, size, sizeOf, words } from "./format";
import { kCategoryOrder } from "./colors";

export interface Part {
  name: string; // of its colour
  label: string;
  bytes: Bytes;
}

export interface CardUse {
  row: Composition | undefined; // undefined: by card_peaks
  parts: Part[]; // without what is free
  used: Bytes;
  own: Bytes; // of this process
  capacity: Bytes | null;
  isFailure: boolean; // when memory ran out, else at a peak
  time_ns: Time | null;
}

type At = { process: string | null; device: string | null };

const isAt = (place: At, at: At): boolean =>
  place.process === at.process && place.device === at.device;

export function deviceOf(report: Report, id: string | null): Device | undefined {
  return report.devices.find((device) => device.id === id);
}

export function failureOf(report: Report, at: At): Oom | undefined {
  return report.oom.find((row) => isAt(row, at) && row.outcome === "raised");
}

function compositionOf(report: Report, at: At): Composition | undefined {
  const rows = report.composition.filter((row) => isAt(row, at));
  const failure = failureOf(report, at);
  const failed = failure && rows.find((row) => row.at === "oom" && row.time_ns === failure.time_ns);
  return failed ?? rows.find((row) => row.at === "driver_peak");
}

/** What is in use beyond the calls of the process, where the driver does not tell it apart. */
function outsideCalls(row: Composition): Bytes {
  if (row.source === "nvml_process") return 0;
  return row.outside_calls ?? row.unattributed ?? 0;
}

export function frameworkName(report: Report): string {
  return report.processes.some((process) => process.torch) ? "PyTorch" : "the framework";
}

/** The one peak of the job, or of everything on the card, that every command shows. */
export function cardPeak(report: Report, device: string | null, of: "card" | "job"): CardPeak | undefined {
  return report.card_peaks?.find((row) => row.device === device && row.of === of);
}

function partLabel(report: Report, part: CardPart): string {
  const framework = frameworkName(report);
  const labels: Record<string, string> = {
    framework_allocated: `${framework} allocated`,
    framework_cached: `${framework} reserved, free`,
    pool_used: "pools, in use",
    pool_cached: "pools, free",
    allocated: words(part.owner ?? "owner not known"),
    managed: "managed memory",
    rounding: "rounding by the driver",
    driver: "CUDA contexts, code",
    other_processes: "other processes",
    no_process: "no process",
    not_separable: "contexts and other processes, not separable",
  };
  return labels[part.what] ?? words(part.what);
}

/** The parts of a peak, with whose they are where several processes of the job have some. */
function partsOf(report: Report, peak: CardPeak): Part[] {
  const processes = new Set(peak.parts.map((part) => part.process).filter((id) => id !== null));
  return peak.parts.filter((part) => part.bytes > 0).map((part) => {
    const whose = part.process !== null && processes.size > 1 ? `, ${processName(report, part.process)}` : "";
    return {
      name: part.what === "allocated" ? part.owner ?? "unknown" : part.what,
      label: partLabel(report, part) + whose,
      bytes: part.bytes,
    };
  }).sort((a, b) => b.bytes - a.bytes);
}

/** What the card held at its peak, or when it ran out; of older reports, when this process held most of it. */
export function cardUse(report: Report, at: At): CardUse | undefined {
  const row = compositionOf(report, at);
  const peak = cardPeak(report, at.device, "card");
  const capacity = deviceOf(report, at.device)?.total_bytes ?? null;
  if (peak && row?.at !== "oom") {
    return {
      row: undefined, parts: partsOf(report, peak), used: peak.bytes, capacity, isFailure: false, time_ns: peak.time_ns,
      own: cardPeak(report, at.device, "job")?.bytes ?? peak.bytes,
    };
  }
  if (!row) return undefined;
  const framework = frameworkName(report);
  const parts: Part[] = [
    { name: "framework_allocated", label: `${framework} allocated`, bytes: row.framework_allocated ?? 0 },
    { name: "framework_cached", label: `${framework} reserved, free`, bytes: row.framework_cached ?? 0 },
    { name: "pool_used", label: "pools, in use", bytes: row.pool_used ?? 0 },
    { name: "pool_cached", label: "pools, free", bytes: row.pool_cached ?? 0 },
    ...row.other.map((part) => ({
      name: part.owner ?? "unknown",
      label: words(part.owner ?? "owner not known"),
      bytes: part.bytes,
    })),
    { name: "context_and_modules", label: "CUDA context, modules", bytes: row.context_and_modules ?? 0 },
    { name: "outside_calls", label: "contexts, modules, other processes", bytes: outsideCalls(row) },
  ];
  if (row.source === "nvml_process") {
    parts.push({ name: "unattributed", label: "not explained", bytes: Math.max(row.unattributed ?? 0, 0) });
  }
  const own = parts.reduce((sum, part) => sum + part.bytes, 0);
  const others = row.other_processes ?? 0;
  parts.push({ name: "other_processes", label: "other processes", bytes: others });
  return {
    row,
    parts: parts.filter((part) => part.bytes > 0),
    used: own + others,
    own,
    capacity,
    isFailure: row.at === "oom",
    time_ns: row.time_ns,
  };
}

/** Who held a part of a peak: a line or a use, or the part itself where nothing more is known. */
export interface HeldPart {
  name: string;
  bytes: Bytes;
  color: string;
  query: string; // finds it in the view of who held it; empty: it is not there
  note: string;
}

function heldOf(report: Report, device: string | null, part: CardPart): HeldPart[] {
  const levels: Record<string, string> = { framework_allocated: "framework", allocated: "driver", pool_used: "pool" };
  const level = levels[part.what];
  const own = report.peak.find((row) => row.process === part.process && row.device === device && row.level === level);
  const holders = level === undefined || !own ? [] : own.holders.filter((holder) =>
    holder.bytes > 0 && (holder.owner !== "other" || holder.site) && (level !== "driver" || holder.owner === part.owner));
  const held: HeldPart[] = [];
  let rest = part.bytes;
  for (const holder of holders) {
    // The peak of one level can be at another time than that of the card.
    const bytes = Math.min(holder.bytes, rest);
    if (bytes === 0) break;
    rest -= bytes;
    const layer = holder.module?.slice(holder.module.lastIndexOf(">") + 1).trim();
    held.push({
      name: holderName(holder), bytes, color: holder.category ?? holder.owner ?? "unknown", query: location(holder.site),
      note: [holder.category && words(holder.category), layer].filter((text) => text).join(", "),
    });
  }
  if (rest > 0) {
    held.push({
      name: held.length > 0 ? `${partLabel(report, part)}, all other lines` : partLabel(report, part), bytes: rest,
      color: part.what === "allocated" ? part.owner ?? "unknown" : part.what, query: "", note: "",
    });
  }
  return held;
}

/** Everything in the peak of the job on the device, the largest first; undefined in older reports. */
export function heldAtPeak(report: Report, device: string | null): HeldPart[] | undefined {
  return cardPeak(report, device, "job")?.parts.flatMap((part) => heldOf(report, device, part))
    .sort((a, b) => b.bytes - a.bytes);
}

export function peaksAt(report: Report, at: At): Peak[] {
  return report.peak.filter((row) => isAt(row, at) && row.bytes > 0);
}

/** The peak that says most of who holds memory: the framework's where there is one. */
export function tellingPeak(report: Report, at: At): Peak | undefined {
  const peaks = peaksAt(report, at);
  return (
    peaks.find((row) => row.level === "framework") ??
    peaks.sort((a, b) => b.bytes - a.bytes)[0]
  );
}

export function categoryParts(categories: Record<string, Bytes> | null | undefined): Part[] {
  if (!categories) return [];
  const known = Object.entries(categories).filter(([, bytes]) => bytes > 0);
  const order = (name: string): number => {
    const index = kCategoryOrder.indexOf(name);
    return index < 0 ? kCategoryOrder.length : index;
  };
  return known
    .sort(([a], [b]) => order(a) - order(b))
    .map(([name, bytes]) => ({ name, label: words(name), bytes }));
}

/** The moment at which most was reserved and of no use. */
export function worstFragmentation(report: Report, at: At): Fragmentation | undefined {
  return report.fragmentation
    .filter((row) => isAt(row, at) && row.at !== "end")
    .sort((a, b) => (b.stranded_bytes ?? 0) - (a.stranded_bytes ?? 0))[0];
}

/** A fault of several ranks is one, and so are findings with one cause. */
export interface Fault {
  finding: Finding;
  places: Finding[];
}

export function faultsOf(report: Report): Fault[] {
  const faults = new Map<string, Fault>();
  const many = report.processes.length > 1 || report.ranks.length > 1;
  for (const finding of report.findings) {
    if (finding.same_cause !== undefined) continue;
    const key = many ? finding.fingerprint : `${finding.fingerprint} ${finding.title}`;
    const known = faults.get(key);
    if (known) known.places.push(finding);
    else faults.set(key, { finding, places: [finding] });
  }
  return [...faults.values()];
}

export interface Verdict {
  severity: "error" | "warning" | "good";
  text: string;
}

export function verdictOf(head: Head): Verdict {
  const faults = faultsOf(head);
  const number = (severity: string): number =>
    faults.filter((fault) => fault.finding.severity === severity).length;
  const errors = number("error");
  const warnings = number("warning");
  const counts = [
    errors > 0 && counted(errors, "error", "errors"),
    warnings > 0 && counted(warnings, "warning", "warnings"),
  ].filter((text) => text);
  if (counts.length > 0) {
    return { severity: errors > 0 ? "error" : "warning", text: counts.join(", ") };
  }
  if (head.usage.length === 0) return { severity: "good", text: "No GPU memory was allocated" };
  return { severity: "good", text: "Nothing wrong was found" };
}

const kWorthTelling = 0.01; // of the card

export interface Tile {
  title: string;
  value: string;
  note: string;
  tone: "plain" | "bad" | "warn";
}

/** What the card had beside the job: "other processes 3.0 GiB". */
function besidesJob(report: Report, card: CardPeak): string {
  return card.parts.filter((part) => part.process === null && part.what !== "not_separable" && part.bytes >= kWorthTelling * card.bytes)
    .map((part) => `${partLabel(report, part)} ${size(part.bytes)}`).join(", ");
}

function peakTile(report: Report, at: At): Tile | undefined {
  const job = cardPeak(report, at.device, "job");
  const card = cardPeak(report, at.device, "card");
  if (job) {
    const capacity = deviceOf(report, at.device)?.total_bytes ?? null;
    const isOne = size(job.low_bytes) === size(job.high_bytes);
    const value = capacity !== null && isOne ? sizeOf(job.high_bytes, capacity) : range(job.low_bytes, job.high_bytes);
    const notes = [job.time_ns !== null && `at ${duration(job.time_ns)}`];
    if (card && card.high_bytes - job.high_bytes >= kWorthTelling * card.high_bytes) {
      const besides = besidesJob(report, card);
      notes.push(`card: ${range(card.low_bytes, card.high_bytes)}${besides && `, with ${besides}`}`);
    }
    return { title: "Peak of this job", value, note: notes.filter((text) => text).join("; "), tone: "plain" };
  }
  const use = cardUse(report, at);
  if (use) {
    const others = use.used - use.own;
    const value = use.capacity === null ? size(use.own) : sizeOf(use.own, use.capacity);
    const when = use.time_ns === null ? "" : ` at ${duration(use.time_ns)}`;
    const note = others > 0 ? `${when.trim()}; other processes hold ${size(others)}` : when.trim();
    return { title: use.isFailure ? "In use when it ran out" : "Peak of this process", value, note, tone: "plain" };
  }
  const peak = peaksAt(report, at).sort((a, b) => b.bytes - a.bytes)[0];
  if (!peak) return undefined;
  const when = peak.time_ns === null ? "" : `at ${duration(peak.time_ns)}`;
  return { title: `Peak of ${words(peak.level)} memory`, value: size(peak.bytes), note: when, tone: "plain" };
}

function evidenceNumber(finding: Finding, name: string): number | null {
  const value = finding.evidence[name];
  return typeof value === "number" ? value : null;
}

/** The finding, not its rows: one of a graph stands for several places, and what matters little is no warning. */
function toldGrowth(report: Report, at: At): Finding | undefined {
  return report.findings
    .filter((finding) => finding.rule === "growth" && finding.severity !== "info" && isAt(finding, at))
    .sort((a, b) => (b.bytes ?? 0) - (a.bytes ?? 0))[0];
}

function courseTile(report: Report, at: At): Tile | undefined {
  const failure = failureOf(report, at);
  if (failure) {
    return {
      title: "Failed request",
      value: size(failure.requested_bytes),
      note: `${holderName(failure)}: ${failure.verdict}`,
      tone: "bad",
    };
  }
  const growth = toldGrowth(report, at);
  if (growth) {
    const rate = evidenceNumber(growth, "bytes_per_step");
    const unit = growth.evidence["by_repetition"] === true ? "repetition" : "step";
    const full = evidenceNumber(growth, "forecast_ns");
    const end = full === null ? "" : `: full ${duration(full)} after the start`;
    return {
      title: "Growth",
      value: rate === null ? size(growth.bytes ?? 0) : `${size(rate)} a ${unit}`,
      note: holderName(growth) + end,
      tone: "warn",
    };
  }
  const leaked = report.ranks.find((row) => isAt(row, at))?.leaked_bytes ?? 0;
  if (leaked > 0) {
    return { title: "Leaked", value: size(leaked), note: "never freed before the process ended", tone: "bad" };
  }
  const use = cardUse(report, at);
  if (!use || use.capacity === null || use.row?.source === "none") return undefined;
  const card = cardPeak(report, at.device, "card");
  const left = (used: Bytes): Bytes => Math.max((use.capacity ?? 0) - used, 0);
  const value = range(left(card?.high_bytes ?? use.used), left(card?.low_bytes ?? use.used));
  return { title: "Headroom", value, note: "never used of the card", tone: "plain" };
}

function restTile(report: Report, at: At): Tile | undefined {
  const worst = worstFragmentation(report, at);
  const stranded = worst?.stranded_bytes ?? 0;
  const limit = deviceOf(report, at.device)?.total_bytes ?? worst?.reserved_bytes ?? 0;
  if (worst && stranded > kWorthTelling * limit) {
    return {
      title: "Unusable",
      value: size(stranded),
      note: `reserved at ${duration(worst.time_ns)}, in pieces beside live blocks`,
      tone: worst.at === "oom" ? "bad" : "plain",
    };
  }
  return largestTile(report, at);
}

/** Chosen over everything in the peak that is shown; if no line allocated it, with the line that holds most. */
function largestTile(report: Report, at: At): Tile | undefined {
  const job = cardPeak(report, at.device, "job");
  const held = heldAtPeak(report, at.device);
  const most = held?.[0];
  if (job && most) {
    const line = most.query === "" ? held.find((part) => part.query !== "") : undefined;
    return {
      title: "Largest holder", value: size(most.bytes),
      note: `${most.name}${most.note && ` (${most.note})`}; ${percent(most.bytes / job.bytes)} of the peak`
        + (line ? `; largest line ${line.name}, ${size(line.bytes)}` : ""),
      tone: "plain",
    };
  }
  const peak = tellingPeak(report, at);
  if (!peak) return undefined;
  const largest = categoryParts(peak.categories)
    .filter((part) => part.name !== "unknown" && part.name !== "other")
    .sort((a, b) => b.bytes - a.bytes)[0];
  const holder = peak.holders[0];
  if (largest && largest.bytes > (holder?.bytes ?? 0)) {
    return { title: `Most for: ${largest.label}`, value: size(largest.bytes), note: `of ${size(peak.bytes)} in ${frameworkName(report)}'s blocks`, tone: "plain" };
  }
  return holder && { title: "Largest holder", value: size(holder.bytes), note: holderName(holder), tone: "plain" };
}

/** The three things that are largest on the page. */
export function tilesOf(report: Report, at: At): Tile[] {
  const tiles = [peakTile(report, at), courseTile(report, at), restTile(report, at)];
  return tiles.filter((tile): tile is Tile => tile !== undefined);
}

export function processName(report: Report, id: string | null): string {
  const rank = report.ranks.find((row) => row.process === id)?.rank;
  if (rank !== undefined && rank !== null) return `rank ${rank}`;
  const process = report.processes.find((row) => row.id === id);
  return `process ${process?.pid ?? id ?? "unknown"}`;
}
