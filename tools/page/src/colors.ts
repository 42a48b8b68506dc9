// SPDX-License-Identifier: Apache-2.0
// One colour for each thing that has a name, the same in every view and theme.

import { element } from "./dom";

// Okabe and Ito's palette, which people who confuse colours can tell apart.
const kCategories: Record<string, string> = {
  parameter: "#0072B2",
  buffer: "#0072B2",
  gradient: "#D55E00",
  gathered: "#F0E442",
  optimizer_state: "#CC79A7",
  activation: "#009E73",
  input: "#56B4E9",
  temporary: "#E69F00",
  workspace: "#E69F00",
  loaded: "#56B4E9",
  other: "#767676",
  unknown: "#767676",
};

// Steps of two hues, which no category has. Those that often stand side by side differ most.
const kOwners: Record<string, string> = {
  pytorch: "#6A51A3", program: "#8C6D31", nccl: "#BD9E39", cublas: "#9E9AC8", cudnn: "#54278F",
  jax: "#6A51A3", xla: "#807DBA", cupy: "#A6761D", triton: "#807DBA", other: "#767676", unknown: "#767676",
};
const kFurtherOwners = ["#807DBA", "#A6761D", "#7F6D4A", "#B5A7D6", "#D8C690"];

const kParts: Record<string, string> = {
  framework_allocated: "#6A51A3",
  framework_cached: "#A9A4D0",
  pool_used: "#8C6D31",
  pool_cached: "#D8C690",
  managed: "#8C6D31",
  rounding: "#D8C690",
  driver: "#5B6B7B",
  no_process: "#767676",
  not_separable: "#9AA5B1",
  context_and_modules: "#5B6B7B",
  outside_calls: "#5B6B7B",
  other_processes: "#9AA5B1",
  unattributed: "#767676",
};

/** Drawn with stripes: what is not known, and what shares the colour of another. */
export function isHatched(name: string): boolean {
  return ["unknown", "buffer", "workspace", "framework_cached", "pool_cached", "rounding", "no_process", "not_separable", "unattributed"].includes(name);
}

function hash(name: string): number {
  let value = 7;
  for (let i = 0; i < name.length; ++i) value = (value * 31 + name.charCodeAt(i)) >>> 0;
  return value;
}

export function ownerColor(owner: string): string {
  return kOwners[owner] ?? kFurtherOwners[hash(owner) % kFurtherOwners.length] ?? "#807DBA";
}

export function colorOf(name: string): string {
  return kCategories[name] ?? kParts[name] ?? ownerColor(name);
}

/** Of what the theme decides: "text", "muted". */
export function themeColor(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export function swatch(name: string): HTMLElement {
  const made = element("i", { class: `swatch${isHatched(name) ? " hatched" : ""}` });
  made.style.backgroundColor = colorOf(name);
  return made;
}

export const kCategoryOrder = [
  "parameter", "buffer", "gradient", "gathered", "optimizer_state", "activation", "input", "temporary",
  "workspace", "loaded", "other", "unknown",
];

/** Black or white, whichever is read better on the colour. */
export function textOn(color: string): string {
  const part = (at: number): number => {
    const value = parseInt(color.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  const luminance = 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
  return luminance > 0.179 ? "#000000" : "#ffffff";
}

/** A canvas pattern of stripes in the colour, or the colour. */
export function fillOf(name: string, context: CanvasRenderingContext2D): string | CanvasPattern {
  const color = colorOf(name);
  if (!isHatched(name)) return color;
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const pen = tile.getContext("2d");
  if (!pen) return color;
  pen.fillStyle = color;
  pen.fillRect(0, 0, 8, 8);
  pen.strokeStyle = "rgba(255,255,255,0.55)";
  pen.lineWidth = 1.5;
  for (const offset of [-8, 0, 8]) {
    pen.beginPath();
    pen.moveTo(offset, 8);
    pen.lineTo(offset + 8, 0);
    pen.stroke();
  }
  return context.createPattern(tile, "repeat") ?? color;
}
