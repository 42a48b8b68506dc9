// SPDX-License-Identifier: Apache-2.0
// The types that the page has beside the rows of the report (report.ts).

import type * as rows from "./report";
import type { Bytes, Time } from "./report";

export type Origin = Pick<rows.Finding, "owner" | "site" | "stack">;
export type Place = Pick<rows.Usage, "process" | "device">;

/** Sections that the first view does without. */
type Later = "steps" | "ranges" | "marks" | "modules" | "tensors" | "transfers" | "timeline" | "sizes" | "lifetimes" | "temporary";

export interface Report extends Omit<rows.Report, Later>, Partial<Pick<rows.Report, Later>> {
  left_out?: { key: string; rows: number; of: number }[];
}

/** Facts of all processes together. */
export interface Job {
  processes: number;
  traces: number;
  incomplete: number;
  events: number;
  dropped: number;
  duration_ns: Time;
  steps: number;
  steps_are_repetitions: boolean;
  ends: Record<string, number>;
}

export interface Head extends Report {
  page: { process: string | null; device: string | null; job: Job };
}

export interface PageFrame {
  name: string;
  file: string | null;
}

export interface Costs {
  costs: rows.Cost[];
  frames: PageFrame[];
  stacks: Record<string, number[]>;
}

/** Blocks of one stack and category that were live at a time. */
export interface Held extends Place, Origin {
  level: rows.Level;
  time_ns: Time;
  bytes: Bytes;
  category: rows.Category | null;
}

export interface Blocks {
  largest_blocks: rows.LargestBlock[];
  held: Held[];
  segments: rows.Segment[];
}
