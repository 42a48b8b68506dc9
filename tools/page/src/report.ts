// SPDX-License-Identifier: Apache-2.0
// The rows of the report (docs/report.schema.json), as far as the page reads them.

export type Bytes = number;
export type Time = number; // nanoseconds since the start of the job

export interface Site {
  function: string | null;
  file: string | null;
  line: number | null;
  module: string | null;
  api?: string | null;
  node?: string | null;
}

/** What many rows say of where memory comes from. */
export interface Origin {
  owner?: string | null;
  site?: Site | null;
  stack?: string | null;
}

export interface Place {
  process: string;
  device: string | null;
}

export interface Holder extends Origin {
  bytes: Bytes;
  category: string | null;
  module?: string | null;
}

export interface Peak extends Place {
  level: string;
  bytes: Bytes;
  time_ns: Time | null;
  step: number | null;
  holders: Holder[];
  categories?: Record<string, Bytes>; // of the framework
}

export interface Composition extends Place {
  at: string;
  time_ns: Time | null;
  framework_allocated: Bytes | null;
  framework_cached: Bytes | null;
  pool_used: Bytes | null;
  pool_cached: Bytes | null;
  other: { owner: string | null; bytes: Bytes }[];
  context_and_modules: Bytes | null;
  other_processes: Bytes | null;
  unattributed: number | null;
  source: string;
  driver_bytes: Bytes | null;
  outside_calls?: Bytes | null;
  sample_time_ns: Time | null;
}

export interface CardPart {
  process: string | null; // null: it belongs to no process of the job
  what: string;
  owner: string | null;
  bytes: Bytes;
}

/** The maximum of what the job, or everything on the card, had in use. */
export interface CardPeak {
  device: string | null;
  of: "card" | "job";
  bytes: Bytes;
  low_bytes: Bytes;
  high_bytes: Bytes;
  exact: boolean;
  time_ns: Time | null;
  parts: CardPart[];
}

export interface WhatIfRow {
  policy: string;
  basis: string;
  reserved_peak_bytes: Bytes | null;
  low_bytes: Bytes | null;
  high_bytes: Bytes | null;
  retries: number | null;
  raised: number | null;
}

export interface WhatIf extends Place {
  rows: WhatIfRow[];
}

export interface Usage extends Place {
  failed: number;
}

/** Blocks that keep free memory beside them from being used. */
export interface Pin extends Origin {
  bytes_held: Bytes;
  bytes_stranded: Bytes;
}

export interface Fragmentation extends Place {
  at: string;
  time_ns: Time | null;
  reserved_bytes: Bytes | null;
  allocated_bytes: Bytes | null;
  largest_free_bytes: Bytes | null;
  releasable_bytes: Bytes | null;
  stranded_bytes: Bytes | null;
  pinned_by: Pin[];
}

/** One allocation from its beginning to its end. */
export interface Block extends Place, Origin {
  level: string;
  bytes: Bytes;
  start_ns: Time;
  end_ns: Time | null; // null: it was live when the trace ended
  category: string | null;
  name: string | null;
  module: string | null;
  at_peak: boolean;
}

/** A segment of the framework at a moment; without an address several small ones. */
export interface Segment extends Place {
  at: string;
  time_ns: Time;
  address: number | null;
  segments: number;
  bytes: Bytes;
  allocated_bytes: Bytes;
  stranded_bytes?: Bytes;
  pinned_by?: Pin[]; // those that keep most of it
  runs: { bytes: Bytes; allocated_bytes: Bytes; category: string | null }[];
}

/** Blocks of one stack and category that were live at a moment. */
export interface Held extends Place, Origin {
  level: string;
  time_ns: Time;
  bytes: Bytes;
  category: string | null;
}

export interface OutOfMemory extends Place, Origin {
  level: string;
  time_ns: Time | null;
  outcome: string;
  verdict: string;
  requested_bytes: Bytes | null;
  holders: Holder[];
}

export interface Growth extends Place, Origin {
  level: string;
  bytes: Bytes;
  bytes_per_step: number | null;
  steps: number | null;
  live_bytes: Bytes;
  forecast_ns: Time | null;
  begin_ns: Time;
  end_ns: Time;
  confidence: string;
}

export interface ExitLeak extends Place, Origin {
  level: string;
  kind: string;
  class: string;
  bytes: Bytes;
  count: number;
  first_time_ns: Time | null;
}

export interface Finding extends Origin {
  rule: string;
  severity: "error" | "warning" | "info";
  confidence: string;
  title: string;
  detail: string;
  evidence: Record<string, unknown>;
  fix: string | null;
  bytes: Bytes | null;
  time_ns: Time | null;
  process: string | null;
  device: string | null;
  fingerprint: string;
  /** Told by the finding with this fingerprint. */
  same_cause?: string;
}

export interface Step {
  process: string;
  index: number;
  start_ns: Time;
  end_ns: Time | null;
  peak_bytes: Bytes | null;
  live_bytes_at_end: Bytes | null;
  allocations: number | null;
  transfers_bytes: Bytes | null;
}

export interface Range extends Step {
  name: string;
}

export interface Transfer extends Place, Origin {
  direction: string;
  source_memory: string;
  destination_memory: string;
  api: string;
  count: number;
  bytes: Bytes;
  host_time_ns: Time | null;
  gpu_time_ns: Time | null;
  link_share?: number | null;
}

export interface Rank extends Place {
  rank: number | null;
  host: string | null;
  device: string;
  peak_bytes: Bytes;
  reserved_peak_bytes: Bytes | null;
  leaked_bytes: Bytes;
  growth_bytes_per_step: number | null;
  deviation: number | null;
}

export interface Bucket {
  start_ns: Time;
  end_ns: Time;
  min_bytes: Bytes | null; // not known of what a checkpoint replaced
  max_bytes: Bytes;
  max_time_ns: Time;
  reserved_bytes: Bytes | null;
  parts: Record<string, Bytes>;
}

export interface Timeline extends Place {
  level: string;
  capacity_bytes: Bytes | null;
  parts_by: "category" | "owner";
  buckets: Bucket[];
}

/** Allocations of one site that their thread freed before its next one. */
export interface Temporary extends Place, Origin {
  level: string;
  count: number;
  bytes: Bytes;
  allocations: number;
}

/** How many allocations were so large; without a range: not known one by one. */
export interface SizeRange extends Place {
  level: string;
  from_bytes: Bytes | null;
  to_bytes: Bytes | null;
  count: number;
  bytes: Bytes;
}

/** How many lived so long; without a range: to the end. */
export interface LifetimeRange extends Place {
  level: string;
  from_ns: Time | null;
  to_ns: Time | null;
  count: number;
  bytes: Bytes;
}

export interface Mark {
  process: string;
  name: string;
  time_ns: Time;
}

export interface ModuleRow extends Place {
  path: string | null;
  name?: string | null;
  bytes: Bytes;
  count: number;
  categories: Record<string, Bytes>;
}

export interface TensorRow extends Place {
  name: string | null;
  role: string | null;
  state: string | null;
  layer: string | null;
  bytes: Bytes;
  count: number;
}

export interface Process {
  id: string;
  pid: number;
  host: string | null;
  command: string[];
  executable: string | null;
  cuda?: { driver_version: number | null };
  python?: { version: string | null; stacks: boolean | null; reason: string | null } | null;
  torch?: { version: string | null; allocator: string | null } | null;
  cupti?: { state: string; reason: string | null };
}

export interface Device {
  id: string;
  name: string | null;
  total_bytes: Bytes | null;
}

export interface Trace {
  file: string;
  recorder_version: string | null;
  bytes: Bytes;
  notes: string[];
}

export interface Loss {
  name: string;
  count: number;
  severity: string;
  remedy: string | null;
}

export interface Coverage {
  wrapped: number | null;
  resolved_unwrapped: { name: string }[];
  unreadable_traces?: { file: string; reason: string }[];
}

export interface Report {
  tool: { version: string };
  redacted?: unknown;
  traces: Trace[];
  processes: Process[];
  devices: Device[];
  usage: Usage[];
  peak: Peak[];
  composition: Composition[];
  card_peaks?: CardPeak[];
  what_if?: WhatIf[];
  leaks: { exit: ExitLeak[]; growth: Growth[] };
  fragmentation: Fragmentation[];
  oom: OutOfMemory[];
  findings: Finding[];
  ranks: Rank[];
  losses: Loss[];
  coverage?: Coverage;
  steps?: Step[];
  ranges?: Range[];
  marks?: Mark[];
  modules?: ModuleRow[];
  tensors?: TensorRow[];
  transfers?: { by_kind: Transfer[]; sites?: Transfer[] };
  timeline?: Timeline[];
  sizes?: SizeRange[];
  lifetimes?: LifetimeRange[];
  temporary?: Temporary[];
  /** The part of the run that the timelines and the largest blocks are of. */
  window?: { from_ns: Time; to_ns: Time | null };
  left_out?: { key: string; rows: number; of: number }[];
}

/** What the page says of all processes together. */
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

export interface Cost extends Origin {
  process: string;
  level: string | null;
  peak_bytes: Bytes;
  leaked_bytes: Bytes;
  allocated_bytes: Bytes;
  copied_bytes: Bytes;
}

export interface Frame {
  name: string;
  file: string | null;
}

export interface Costs {
  costs: Cost[];
  frames: Frame[];
  stacks: Record<string, number[]>;
}

export interface Blocks {
  largest_blocks: Block[];
  held: Held[];
  segments: Segment[];
}
