// SPDX-License-Identifier: Apache-2.0
// The parts of memory, as bars: the whole card, and the framework's blocks by category.

import { colorOf, isHatched, swatch, textOn } from "./colors";
import { element, replace } from "./dom";
import { cardPeak, cardUse, categoryParts, frameworkName, tellingPeak, type CardUse, type Part } from "./facts";
import { duration, exactSize, percent, range, size } from "./format";
import type { Report } from "./page_types";
import type { Composition, Peak } from "./report";
import type { Selection } from "./selection";

const kLeastShare = 0.0015; // narrower parts are in the list alone

function segment(part: Part, whole: number): HTMLElement {
  const share = part.bytes / whole;
  const made = element("div", {
    class: `segment${isHatched(part.name) ? " hatched" : ""}${part.name === "free" ? " free" : ""}`,
    title: `${part.label}: ${exactSize(part.bytes)}, ${percent(share)}`,
  });
  made.style.flexGrow = String(share);
  if (part.name !== "free") {
    const color = colorOf(part.name);
    made.style.backgroundColor = color;
    made.style.color = isHatched(part.name) ? "#000000" : textOn(color);
  }
  made.appendChild(element("span", {}, `${part.label} ${size(part.bytes)}`));
  return made;
}

function key(part: Part): HTMLElement {
  const sample = part.name === "free" ? element("i", { class: "swatch free" }) : swatch(part.name);
  return element("li", { title: exactSize(part.bytes) }, sample, `${part.label} `, element("b", {}, size(part.bytes)));
}

function bar(title: string, note: string, parts: Part[], whole: number): HTMLElement {
  const segments = element("div", { class: "bar", "aria-hidden": "true" });
  for (const part of parts) {
    if (part.bytes / whole >= kLeastShare) segments.appendChild(segment(part, whole));
  }
  const keys = element("ul", { class: "keys" });
  for (const part of parts) keys.appendChild(key(part));
  return element("div", { class: "composition" },
    element("h2", {}, title, element("span", { class: "note" }, note)), segments, keys);
}

function sampleNote(row: Composition): string {
  const { source, driver_bytes, sample_time_ns, time_ns } = row;
  if (source === "none") return "the driver's own number is not known";
  const who = source === "nvml_process" ? "NVML" : "cuMemGetInfo";
  if (sample_time_ns === null || time_ns === null) return `${who} said ${size(driver_bytes)}`;
  const side = sample_time_ns <= time_ns ? "before" : "after";
  return `${who} said ${size(driver_bytes)} ${duration(Math.abs(time_ns - sample_time_ns))} ${side}`;
}

function useNote(report: Report, use: CardUse, device: string | null): string {
  if (use.row) return `${size(use.used)} in use; ${sampleNote(use.row)}`;
  const peak = cardPeak(report, device, "card");
  const known = peak && size(peak.low_bytes) !== size(peak.high_bytes) ? `; it was ${range(peak.low_bytes, peak.high_bytes)}` : "";
  return `${size(use.used)} in use${use.time_ns === null ? "" : ` at ${duration(use.time_ns)}`}${known}`;
}

function cardBar(use: CardUse, device: string, note: string): HTMLElement {
  const parts = [...use.parts];
  const whole = Math.max(use.capacity ?? use.used, use.used);
  const free = whole - use.used;
  if (free > 0) {
    const isKnown = use.row?.source !== "none";
    parts.push({ name: "free", label: isKnown ? "free" : "free or not known", bytes: free });
  }
  return bar(`${device} ${use.isFailure ? "when memory ran out" : "at its peak"}`, note, parts, whole);
}

function frameworkBar(report: Report, peak: Peak): HTMLElement | null {
  const parts = categoryParts(peak.categories);
  if (parts.length === 0 || (parts.length === 1 && parts[0]?.name === "unknown")) return null;
  const step = peak.step === null ? "" : `, step ${peak.step}`;
  return bar(`Inside ${frameworkName(report)}'s blocks`,
    `${size(peak.bytes)} at their own peak, ${duration(peak.time_ns)}${step}`, parts, peak.bytes);
}

export function drawComposition(place: Element, report: Report, selection: Selection): void {
  const at = selection.now;
  const use = cardUse(report, at);
  const peak = tellingPeak(report, at);
  const device = report.devices.find((row) => row.id === at.device)?.name ?? "The card";
  replace(place, use && cardBar(use, device, useNote(report, use, at.device)), peak && frameworkBar(report, peak));
}
