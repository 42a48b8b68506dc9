// SPDX-License-Identifier: Apache-2.0
// Numbers, sizes, times and names as people read them; the same digits as in the terminal.

import type { Origin } from "./page_types";
import type { Bytes, Site, Time } from "./report";

const kUnits = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

function scaled(bytes: number): { value: number; unit: number } {
  let value = Math.abs(bytes) / 1024;
  let unit = 0;
  while (value >= 1023.95 && unit + 1 < kUnits.length) {
    value /= 1024;
    ++unit;
  }
  return { value: Math.sign(bytes) * value, unit };
}

export function size(bytes: Bytes | null | undefined): string {
  if (bytes === null || bytes === undefined) return "unknown";
  if (Math.abs(bytes) < 1024) return `${Math.round(bytes)} bytes`;
  const { value, unit } = scaled(bytes);
  return `${value.toFixed(1)} ${kUnits[unit]}`;
}

/** "810.0 MiB to 842.0 MiB" where the two are not the same in words. */
export function range(low: Bytes, high: Bytes): string {
  return size(low) === size(high) ? size(high) : `${size(low)} to ${size(high)}`;
}

/** "70.8 of 79.2 GiB", with the unit once where it is the same. */
export function sizeOf(part: Bytes, whole: Bytes): string {
  if (part >= 1024 && scaled(part).unit === scaled(whole).unit) {
    return `${scaled(part).value.toFixed(1)} of ${size(whole)}`;
  }
  return `${size(part)} of ${size(whole)}`;
}

/** With the exact number of bytes: for titles and tables of few rows. */
export function exactSize(bytes: Bytes | null | undefined): string {
  if (bytes === null || bytes === undefined) return "unknown";
  return Math.abs(bytes) < 1024 ? size(bytes) : `${size(bytes)} (${count(bytes)} bytes)`;
}

export function axisSize(bytes: Bytes): string {
  if (bytes === 0) return "0";
  if (bytes < 1024) return `${bytes} B`;
  const { value, unit } = scaled(bytes);
  return `${Number(value.toPrecision(3))} ${kUnits[unit]}`;
}

export function count(number: number | null | undefined): string {
  if (number === null || number === undefined) return "unknown";
  return String(Math.round(number)).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

export function counted(number: number, one: string, many: string): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}

export function duration(ns: Time | null | undefined): string {
  if (ns === null || ns === undefined) return "unknown";
  if (ns < 1e3) return `${Math.round(ns)} ns`;
  if (ns < 1e6) return `${(ns / 1e3).toFixed(1)} us`;
  if (ns < 1e9) return `${(ns / 1e6).toFixed(1)} ms`;
  if (ns < 120e9) return `${(ns / 1e9).toFixed(2)} s`;
  if (ns < 7200e9) return `${(ns / 60e9).toFixed(1)} min`;
  return `${(ns / 3600e9).toFixed(1)} h`;
}

/** On an axis of that length: with as many digits as tell its ticks apart. */
export function tickTime(ns: Time, span: Time): string {
  const [unit, name] = ns >= 1e9 ? [1e9, "s"] : ns >= 1e6 ? [1e6, "ms"] : [1e3, "us"];
  const digits = Math.ceil(Math.log10((8 * unit) / Math.max(span, 1)));
  return digits <= 2 || ns >= 120e9 ? duration(ns) : `${(ns / unit).toFixed(Math.min(digits, 9))} ${name}`;
}

export function percent(share: number | null | undefined): string {
  if (share === null || share === undefined) return "unknown";
  return share > 0 && share < 0.0005 ? "< 0.1 %" : `${(share * 100).toFixed(1)} %`;
}

export function words(name: string | null): string {
  return name === null ? "" : name.replace(/_/g, " ");
}

function baseName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

/** "train.py:41", "libops.so"; empty where neither is known. */
export function location(site: Site | null | undefined): string {
  if (!site) return "";
  if (site.file) return site.line ? `${baseName(site.file)}:${site.line}` : baseName(site.file);
  return site.module ?? "";
}

export function siteName(site: Site | null | undefined): string {
  if (!site) return "";
  const place = location(site);
  const what = (site.function === "<module>" ? "top level" : site.function) ?? site.api ?? "";
  let name = place && what ? `${place} (${what})` : place || what;
  if (site.node && site.node !== site.function) name += `, backward of ${site.node}`;
  return name;
}

export function holderName(row: Origin): string {
  const name = siteName(row.site);
  if (!name) return row.owner ? words(row.owner) : "owner not known";
  return name;
}
