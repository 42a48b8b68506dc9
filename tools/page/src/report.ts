// SPDX-License-Identifier: Apache-2.0
// The rows of the report, made by tests/schema/report_types.cpp.

export type Bytes = number;
export type Time = number; // nanoseconds since the start of the job

export interface Report {
  format: "gpumemtrace-report";
  version: number;
  tool: Tool;
  redacted?: boolean;
  traces: Trace[];
  processes: Process[];
  devices: Device[];
  usage: Usage[];
  peak: Peak[];
  modules: Module[];
  tensors: Tensor[];
  composition: Composition[];
  card_peaks: CardPeak[];
  card_peaks_reason: string | null;
  pools: PoolRow[];
  driver_memory: DriverMemory[];
  communicators: Communicator[];
  shared_memory: SharedMemory[];
  owners: Owner[];
  leaks: Leaks;
  fragmentation: Fragmentation[];
  segments: Segment[];
  transfers: Transfers;
  managed: Managed[];
  oom: Oom[];
  steps: Step[];
  ranges: Range[];
  ranges_by_name: RangesOfName[];
  marks: Mark[];
  timeline: Timeline[];
  sizes: SizeRange[];
  lifetimes: LifetimeRange[];
  temporary: Temporary[];
  largest_blocks: LargestBlock[];
  window?: Window;
  blocks?: BlockAt[];
  what_if?: WhatIf[];
  allocations?: AllocationHistory[];
  ranks: Rank[];
  groups_given: string | null;
  rank_groups: RankGroup[];
  findings: Finding[];
  costs: Cost[];
  frames_by: "index" | null;
  frames: Frame[];
  stacks: Stack[];
  coverage: Coverage;
  losses: Loss[];
}

export interface Tool {
  name: "gpumemtrace";
  version: string;
}

export interface Trace {
  file: string;
  process: string;
  recorder_version: string | null;
  complete: boolean;
  incomplete_because: string[];
  end: TraceEnd;
  events: number;
  dropped: number;
  bytes: Bytes;
  duration_ns: Time | null;
  overhead: Overhead;
  notes: string[];
  source: TraceSource | null;
}

export type TraceEnd = "exit" | "exec" | "signal" | "killed" | "running" | "unknown";

export interface Overhead {
  events: number;
  ns_per_event: number | null;
  cpu_ns: Time | null;
}

export interface TraceSource {
  kind: string;
  devices: number;
  events: number;
  events_left_out: number;
  left_out_because: string | null;
  earlier_blocks: number;
  earlier_bytes: Bytes;
  earlier_reserved_bytes: Bytes;
}

export interface Process {
  id: string;
  pid: number | null;
  ppid: number | null;
  host: string | null;
  boot_id: string | null;
  identity_reason: string | null;
  rank: number | null;
  rank_guessed: boolean;
  local_rank: number | null;
  world_size: number | null;
  executable: string | null;
  command: string[];
  start_unix_ns: Time | null;
  clock_error_ns: Time | null;
  time_of_day_error: TimeOfDayError;
  started_in: RunIds;
  cuda: CudaVersions;
  cupti: Cupti;
  suppressions: string[];
  python: Python | null;
  torch: Torch | null;
}

export interface TimeOfDayError {
  estimated_ns: Time | null;
  max_ns: Time | null;
  reason: string | null;
}

export interface RunIds {
  run: string | null;
  job: string | null;
  attempt: string | null;
  array: string | null;
  task: string | null;
  restart: string | null;
}

export interface CudaVersions {
  driver_version: number | null;
}

export interface Cupti {
  state: "off" | "copies" | "full" | "shared" | "lost";
  reason: string | null;
  version: string | null;
  mode: "copies" | "full" | null;
  clock_error_ns: Time | null;
  join: CuptiJoin | null;
}

export interface CuptiJoin {
  calls: number;
  api_records: number;
  joined_exact: number;
  joined_inferred: number;
  unjoined: number;
  unjoined_by_reason: Record<string, number>;
}

export interface Python {
  version: string | null;
  stacks: boolean;
  reason: string | null;
}

export interface Torch {
  version: string | null;
  allocator: string | null;
  settings: string | null;
}

export interface Device {
  id: string;
  name: string | null;
  uuid: string | null;
  uuid_reason: string | null;
  total_bytes: Bytes | null;
  seen_as: SeenAs[];
  physical_peak: PhysicalPeak | null;
  link: Link | null;
}

export interface SeenAs {
  process: string;
  ordinal: number;
}

export interface PhysicalPeak {
  bytes: Bytes;
  time_ns: Time;
  exact?: boolean;
}

export interface Link {
  kind: "pcie";
  generation: number;
  width: number;
  bytes_per_s: number;
  source: "theoretical";
}

export interface Usage {
  process: string;
  device: string | null;
  level: Level;
  kind: Kind;
  allocations: number;
  frees: number;
  failed: number;
  allocated_bytes_total: Bytes;
  peak_bytes: Bytes;
  peak_time_ns: Time | null;
  live_bytes_at_end: Bytes;
  live_count_at_end: number;
  largest_bytes: Bytes;
  opaque_pool: OpaquePool | null;
  reserved_peak_bytes?: Bytes | null;
  reserved_bytes_at_end?: Bytes | null;
  segments_allocated?: number | null;
  segments_freed?: number | null;
  pool?: string;
  exact?: boolean;
}

export type Level = "driver" | "pool" | "managed" | "host" | "framework" | "imported" | "mapping";

export type Kind = "device" | "pitched" | "array" | "vmm" | "graph" | "stream_ordered" | "managed" | "pinned" | "registered" | "vmm_host" | "block" | "ipc" | "external" | "mapping";

export interface OpaquePool {
  name: string;
  setting: string;
}

export interface Peak {
  process: string;
  device: string | null;
  level: Level;
  bytes: Bytes;
  time_ns: Time | null;
  step: number | null;
  holders: Holder[];
  categories?: Record<string, number>;
  categories_exact?: Record<string, number>;
  exact?: boolean;
}

export interface Holder {
  bytes: Bytes;
  count: number;
  share: number;
  category: Category | null;
  category_confidence: Confidence | null;
  phase: "forward" | "backward" | "optimizer" | null;
  module: string | null;
  owner: string | null;
  site: Site | null;
  stack: string | null;
}

export type Category = "parameter" | "gradient" | "optimizer_state" | "buffer" | "activation" | "input" | "temporary" | "workspace" | "other" | "gathered" | "loaded";

export type Confidence = "heuristic" | "inferred" | "exact";

export interface Site {
  function: string | null;
  file: string | null;
  line: number | null;
  module: string | null;
  kind: Language;
  offset: number | null;
  api: string | null;
  node: string | null;
}

export type Language = "native" | "python";

export interface Module {
  process: string;
  device: string | null;
  at: "peak";
  path: string | null;
  name: string | null;
  bytes: Bytes;
  count: number;
  categories: Record<string, number>;
}

export interface Tensor {
  process: string;
  device: string | null;
  name: string | null;
  role: "parameter" | "gradient" | "optimizer_state" | "buffer" | null;
  state: string | null;
  layer: string | null;
  path: string | null;
  bytes: Bytes;
  requested_bytes: Bytes | null;
  count: number;
  other_names: string[];
  names: number;
}

export interface Composition {
  process: string;
  device: string | null;
  at: SnapshotAt;
  time_ns: Time | null;
  framework_allocated: number;
  framework_cached: number;
  pool_used: number;
  pool_cached: number;
  other: OwnersBytes[];
  context_and_modules: number | null;
  other_processes: number | null;
  unattributed: number | null;
  source: "nvml_process" | "nvml_device" | "cumemgetinfo" | "none";
  driver_bytes: Bytes | null;
  outside_calls: number | null;
  sample_time_ns: Time | null;
  exact?: boolean;
}

export type SnapshotAt = "peak" | "driver_peak" | "oom" | "worst" | "end";

export interface OwnersBytes {
  owner: string | null;
  bytes: Bytes;
}

export interface CardPeak {
  device: string | null;
  of: PeakOf;
  bytes: Bytes;
  low_bytes: Bytes;
  high_bytes: Bytes;
  exact: boolean;
  time_ns: Time | null;
  parts: CardPart[];
}

export type PeakOf = "card" | "job";

export interface CardPart {
  process: string | null;
  what: CardPartKind;
  owner: string | null;
  bytes: Bytes;
}

export type CardPartKind = "framework_allocated" | "framework_cached" | "pool_used" | "pool_cached" | "allocated" | "managed" | "rounding" | "driver" | "other_processes" | "no_process" | "not_separable";

export interface PoolRow {
  process: string;
  device: string | null;
  id: string;
  basis: RowBasis;
  kind: PoolKind;
  made_at: Site | null;
  stack: string | null;
  graphs: number | null;
  reserved_peak_bytes: Bytes;
  allocated_peak_bytes: Bytes;
  reserved_bytes_at_peak: Bytes | null;
  allocated_bytes_at_peak: Bytes | null;
  allocated_bytes_after_capture: Bytes | null;
  live_graphs_at_end: number | null;
  time_ns: Time | null;
}

export type RowBasis = "exact" | "inferred";

export type PoolKind = "default" | "graph" | "mempool" | "private" | "driver";

export interface DriverMemory {
  process: string;
  device: string | null;
  samples: number;
  first_bytes: Bytes | null;
  peak_bytes: Bytes | null;
  end_bytes: Bytes | null;
  parts: DriverPart[];
  graphs: GraphCounts;
}

export interface DriverPart {
  what: DriverPartKind;
  bytes: Bytes;
  basis: RowBasis;
  site: Site | null;
}

export type DriverPartKind = "context" | "modules" | "graphs" | "local_memory" | "heap" | "printf" | "unknown";

export interface GraphCounts {
  instantiated: number;
  destroyed: number;
  live_peak: number;
}

export interface Communicator {
  process: string;
  device: string | null;
  id: string | null;
  bytes: Bytes;
  bytes_at_peak: Bytes;
  allocations: number;
  made_at: Site | null;
  stack: string | null;
  ranks: number | null;
  rank: number | null;
  nccl_hash: string | null;
}

export interface SharedMemory {
  process: string;
  device: string | null;
  exporter: string | null;
  exporter_reason: string | null;
  exporter_device: string | null;
  count: number;
  bytes: Bytes;
  live_count_at_end: number;
  live_bytes_at_end: Bytes;
  freed_while_open_bytes: Bytes;
  ended_while_open_bytes: Bytes;
  kept_after_ns: Time | null;
  owner: string | null;
  site: Site | null;
  stack: string | null;
  allocated_at: CodeLocation | null;
  freed_at: CodeLocation | null;
  exact?: boolean;
}

export interface CodeLocation {
  site: Site;
  stack: string | null;
}

export interface Owner {
  process: string;
  device: string | null;
  level: Level;
  owner: string | null;
  bytes_at_peak: Bytes;
  bytes_at_end: Bytes;
  allocations: number;
}

export interface Leaks {
  state: LeakState;
  total_bytes: Bytes;
  total_count: number;
  gated_bytes: Bytes;
  suppressed_bytes: Bytes;
  exit: ExitLeak[];
  growth: Growth[];
  handles: OpenHandles[];
  invalid_frees: InvalidFree[];
}

export type LeakState = "checked" | "not_applicable";

export interface ExitLeak {
  process: string;
  device: string | null;
  level: Level;
  kind: Kind;
  class: LeakClass;
  bytes: Bytes;
  count: number;
  module: string | null;
  owner: string | null;
  site: Site | null;
  stack: string | null;
  first_time_ns: Time | null;
  last_time_ns: Time | null;
  inside: Level | null;
  ended_by: EndedBy | null;
  ended_at: CodeLocation | null;
  allocations: number | null;
  last_allocation_ns: Time | null;
  first_step: number | null;
  freed_count: number | null;
  freed_at: CodeLocation | null;
  freed_elsewhere: boolean | null;
  exact?: boolean;
}

export type LeakClass = "lost" | "process_lifetime" | "framework_cache" | "context_destroyed" | "live_at_kill";

export type EndedBy = "context_destroyed" | "primary_context_reset" | "primary_context_released";

export interface Growth {
  process: string;
  device: string | null;
  level: Level;
  bytes_per_step: number | null;
  steps: number | null;
  live_bytes: Bytes;
  confidence: FindingConfidence;
  forecast_ns: Time | null;
  owner: string | null;
  site: Site | null;
  stack: string | null;
  bytes: Bytes;
  larger_bytes: Bytes;
  rises: number;
  allocations: number;
  blocks: number;
  begin_ns: Time;
  end_ns: Time;
  frees_before: number;
  frees: number;
  frees_after: number;
  other_places: number;
  other_places_growing: number;
  kept_at: CodeLocation | null;
  keeps_graph: boolean;
  only_fills: boolean;
  by_repetition: boolean;
  has_backward: boolean;
  freed_count: number | null;
  freed_at: CodeLocation | null;
  freed_elsewhere: boolean | null;
  exact?: boolean;
}

export type FindingConfidence = "exact" | "inferred" | "heuristic";

export interface OpenHandles {
  process: string;
  device: string | null;
  kind: HandleKind;
  count: number;
  opened_count: number | null;
  bytes: Bytes | null;
  owner: string | null;
  site: Site | null;
  stack: string | null;
  first_time_ns: Time | null;
  last_time_ns: Time | null;
  last_opened_ns: Time | null;
  closed_count: number | null;
  closed_at: CodeLocation | null;
  closed_elsewhere: boolean | null;
  exact?: boolean;
}

export type HandleKind = "vmm" | "vmm_host" | "imported_vmm" | "ipc" | "external" | "pool" | "graph_executable";

export interface InvalidFree {
  process: string;
  function: string;
  result: number;
  address_was_live: boolean;
  count: number;
  bytes: Bytes;
  owner: string | null;
  site: Site | null;
  stack: string | null;
  first_time_ns: Time | null;
  last_time_ns: Time | null;
  what: FreedWhat;
  allocated_at: CodeLocation | null;
  freed_before_at: CodeLocation | null;
  offset_bytes: Bytes;
}

export type FreedWhat = "live_memory" | "freed_before" | "ended_before" | "inside_live_memory" | "nothing_known";

export interface Fragmentation {
  process: string;
  device: string | null;
  level: Level;
  at: SnapshotAt;
  time_ns: Time | null;
  reserved_bytes: Bytes | null;
  allocated_bytes: Bytes;
  free_bytes: Bytes | null;
  largest_free_bytes: Bytes | null;
  releasable_bytes: Bytes | null;
  stranded_bytes: Bytes | null;
  external_fragmentation: number | null;
  pinned_by: PinningBlocks[];
  exact?: boolean;
}

export interface PinningBlocks {
  bytes_held: Bytes;
  bytes_stranded: Bytes;
  owner: string | null;
  site: Site | null;
  stack: string | null;
}

export interface Segment {
  process: string;
  device: string | null;
  at: SnapshotAt;
  time_ns: Time;
  address: number | null;
  segments: number;
  bytes: Bytes;
  allocated_bytes: Bytes;
  stranded_bytes: Bytes;
  pinned_by: PinningBlocks[];
  runs: SegmentRun[];
}

export interface SegmentRun {
  bytes: Bytes;
  allocated_bytes: Bytes;
  category: Category | null;
}

export interface Transfers {
  by_kind: Copies[];
  sites: CopySite[];
  hotspots: Hotspot[];
  sets: Sets[];
  unjoined: number | null;
  streams: Stream[];
}

export interface Copies {
  process: string;
  device: string | null;
  direction: Direction;
  source_memory: MemoryClass;
  destination_memory: MemoryClass;
  api: string;
  asynchronous: boolean;
  count: number;
  bytes: Bytes;
  host_time_ns: Time;
  gpu_time_ns: Time | null;
  bandwidth_bytes_per_s: number | null;
  link_share: number | null;
  in_graph: boolean;
  joined_count: number;
  joined_bytes: Bytes;
  gpu_busy_ns: Time | null;
  overlapped_ns: Time | null;
  min_bytes: Bytes | null;
  mean_bytes: Bytes | null;
  max_bytes: Bytes | null;
  min_host_ns: Time | null;
  mean_host_ns: Time | null;
  max_host_ns: Time | null;
  min_gpu_ns: Time | null;
  mean_gpu_ns: Time | null;
  max_gpu_ns: Time | null;
  exact?: boolean;
}

export type Direction = "host_to_device" | "device_to_host" | "device_to_device" | "peer" | "host_to_host" | "unknown";

export type MemoryClass = "unknown" | "pageable" | "pinned" | "device" | "managed" | "array";

export interface CopySite {
  process: string;
  device: string | null;
  direction: Direction | null;
  source_memory: MemoryClass | null;
  destination_memory: MemoryClass | null;
  api: string | null;
  asynchronous: boolean | null;
  count: number;
  bytes: Bytes;
  host_time_ns: Time;
  gpu_time_ns: Time | null;
  bandwidth_bytes_per_s: number | null;
  link_share: number | null;
  min_bytes: Bytes | null;
  mean_bytes: Bytes | null;
  max_bytes: Bytes | null;
  min_host_ns: Time | null;
  mean_host_ns: Time | null;
  max_host_ns: Time | null;
  min_gpu_ns: Time | null;
  mean_gpu_ns: Time | null;
  max_gpu_ns: Time | null;
  owner: string | null;
  site: Site | null;
  stack: string | null;
  exact?: boolean;
}

export interface Hotspot {
  rule: Rule;
  process: string;
  device: string | null;
  direction: Direction;
  count: number;
  bytes: Bytes;
  time_lost_ns: Time;
  own_time_ns: Time | null;
  loop_ns: Time | null;
  owner: string | null;
  site: Site | null;
  stack: string | null;
  advice: string;
  api: string;
  source_memory: MemoryClass;
  destination_memory: MemoryClass;
  mean_bytes: Bytes;
  returned_count: number;
  returned_bytes: Bytes;
  returned_host_ns: Time;
  returned_up_ns: Time | null;
  returned_away_ns: Time | null;
  returned_to_same_memory: number | null;
  returned_to_new_memory: number | null;
  down_at: CodeLocation | null;
  repeated_count: number | null;
  repeated_bytes: Bytes | null;
  gpu_time_ns: Time | null;
  bandwidth_bytes_per_s: number | null;
  link_share: number | null;
  overlapped_ns: Time | null;
  exact?: boolean;
}

export type Rule = "out_of_memory" | "out_of_memory_recovered" | "leak" | "invalid_free" | "leak_until_context_end" | "unreleased_handle" | "growth" | "reference_cycles" | "many_private_pools" | "many_communicators" | "wrong_device" | "rank_imbalance" | "rank_ended_early" | "repeated_copies" | "pageable_copies" | "synchronous_copies" | "small_copies" | "ping_pong" | "low_bandwidth" | "copies_not_hidden" | "managed_thrash" | "fragmentation" | "allocation_churn" | "pinned_churn" | "pinned_rounding" | "loaded_and_kept" | "opaque_pool" | "gradients_in_forward" | "graph_without_backward" | "graphs_pile_up" | "idle_contexts";

export interface Sets {
  process: string;
  device: string | null;
  destination_memory: MemoryClass;
  api: string;
  asynchronous: boolean;
  count: number;
  bytes: Bytes;
  host_time_ns: Time;
  gpu_time_ns: Time | null;
  in_graph: boolean;
  joined_count: number;
  exact?: boolean;
}

export interface Stream {
  process: string;
  device: string | null;
  context: number;
  stream: number;
  count: number;
  bytes: Bytes;
  gpu_time_ns: Time;
}

export interface Managed {
  process: string;
  device: string | null;
  owner: string | null;
  site: Site | null;
  stack: string | null;
  allocations: number;
  bytes: Bytes;
  migrated_bytes: Bytes;
  to_device_bytes: Bytes;
  to_host_bytes: Bytes;
  between_devices_bytes: Bytes;
  migrations: number;
  migration_time_ns: Time;
  cpu_faults: number;
  gpu_faults: number;
  thrashing: number;
  round_trips: number;
  round_trip_bytes: Bytes;
}

export interface Oom {
  process: string;
  device: string | null;
  level: Level;
  time_ns: Time | null;
  step: number | null;
  outcome: OomOutcome;
  survived: boolean | null;
  count: number;
  attempts: number;
  lost_ns: Time;
  requested_bytes: Bytes;
  free_bytes: Bytes | null;
  largest_free_bytes: Bytes | null;
  device_free_bytes: Bytes | null;
  flushed_bytes: Bytes;
  verdict: OomVerdict;
  composition: Composition | null;
  holders: Holder[];
  owner: string | null;
  site: Site | null;
  stack: string | null;
  exact?: boolean;
}

export type OomOutcome = "unknown" | "raised" | "recovered";

export type OomVerdict = "unknown" | "fragmented" | "exhausted";

export interface Step {
  process: string;
  index: number;
  start_ns: Time | null;
  end_ns: Time | null;
  inferred: boolean;
  peak_bytes: Bytes;
  live_bytes_at_end: Bytes;
  allocations: number;
  transfers_bytes: Bytes;
  exact?: boolean;
  source?: "api" | "nvtx" | "optimizer" | "period";
}

export interface Range {
  process: string;
  index: number;
  start_ns: Time | null;
  end_ns: Time | null;
  inferred: boolean;
  peak_bytes: Bytes;
  live_bytes_at_end: Bytes;
  allocations: number;
  transfers_bytes: Bytes;
  exact?: boolean;
  name: string;
}

export interface RangesOfName {
  process: string;
  name: string | null;
  count: number;
  peak_bytes: Bytes;
  allocated_bytes: Bytes;
  live_delta_bytes: number;
  exact?: boolean;
}

export interface Mark {
  process: string;
  name: string;
  time_ns: Time;
  source: "ctl" | "api" | "nvtx";
}

export interface Timeline {
  process: string;
  device: string | null;
  level: Level;
  capacity_bytes: Bytes | null;
  parts_by: PartsBy;
  buckets: TimelineBucket[];
  exact?: boolean;
}

export type PartsBy = "category" | "owner";

export interface TimelineBucket {
  start_ns: Time;
  end_ns: Time;
  min_bytes: Bytes | null;
  max_bytes: Bytes;
  max_time_ns: Time;
  last_bytes: Bytes;
  reserved_bytes: Bytes | null;
  parts: Record<string, number>;
}

export interface SizeRange {
  process: string;
  device: string | null;
  level: Level;
  from_bytes: Bytes | null;
  to_bytes: Bytes | null;
  count: number;
  bytes: Bytes;
  exact?: boolean;
}

export interface LifetimeRange {
  process: string;
  device: string | null;
  level: Level;
  from_ns: Time | null;
  to_ns: Time | null;
  count: number;
  bytes: Bytes;
  exact?: boolean;
}

export interface Temporary {
  process: string;
  device: string | null;
  level: Level;
  count: number;
  bytes: Bytes;
  allocations: number;
  owner: string | null;
  site: Site | null;
  stack: string | null;
  exact?: boolean;
}

export interface LargestBlock {
  process: string;
  device: string | null;
  level: Level;
  bytes: Bytes;
  start_ns: Time;
  end_ns: Time | null;
  category: Category | null;
  category_confidence: Confidence | null;
  name: string | null;
  module: string | null;
  owner: string | null;
  site: Site | null;
  stack: string | null;
  at_peak: boolean;
}

export interface Window {
  from_ns: Time;
  to_ns: Time | null;
}

export interface BlockAt {
  process: string;
  device: string | null;
  level: Level;
  bytes: Bytes;
  start_ns: Time;
  end_ns: Time | null;
  category: Category | null;
  category_confidence: Confidence | null;
  name: string | null;
  module: string | null;
  owner: string | null;
  site: Site | null;
  stack: string | null;
  at: BlocksAt;
  time_ns: Time;
  address: number | null;
}

export type BlocksAt = "peak" | "time";

export interface WhatIf {
  process: string;
  device: string | null;
  recorded: WhatIfRecorded;
  rows: WhatIfRow[];
  ideal: WhatIfIdeal;
  unusable_at_peak: WhatIfUnusable[];
  lines_reason: string | null;
}

export interface WhatIfRecorded {
  policy: string;
  options: string;
  proven: boolean | null;
  events: number;
  mismatches: number;
  first_mismatch: string | null;
  classes: number;
  requested_sizes: "recorded" | "unknown";
  changes: number;
  memory_fraction: number | null;
}

export interface WhatIfRow {
  policy: string;
  options?: string;
  reserved_peak_bytes: Bytes | null;
  low_bytes: Bytes | null;
  high_bytes: Bytes | null;
  allocated_peak_bytes: Bytes | null;
  retries: number | null;
  segments: number | null;
  segment_calls: number | null;
  raised: number | null;
  fits: WhatIfFit[];
  basis: WhatIfBasis;
  warning: string | null;
  reason: string | null;
}

export interface WhatIfFit {
  capacity_bytes: Bytes;
  fits: boolean | null;
  margin_bytes: number | null;
}

export type WhatIfBasis = "replayed" | "sampled" | "estimated" | "bracket";

export interface WhatIfIdeal {
  live_peak_bytes: Bytes;
  packed_bytes: Bytes | null;
  packed_window: number | null;
}

export interface WhatIfUnusable {
  cause: "rounding" | "too_small_pieces" | "oversize_blocks" | "other_pool" | "other_streams" | "rest_of_new_segment";
  bytes: Bytes;
  lines: WhatIfLine[] | null;
}

export interface WhatIfLine {
  bytes: Bytes;
  releasable_bytes: Bytes;
  owner: string | null;
  site: Site | null;
  stack: string | null;
}

export interface AllocationHistory {
  process: string;
  complete_from_ns: Time | null;
  allocations: Allocation[];
}

export interface Allocation {
  device: string | null;
  level: Level;
  kind: Kind;
  address: number;
  bytes: Bytes;
  requested_bytes: Bytes | null;
  stream: number | null;
  pool: number | null;
  start_ns: Time;
  end_ns: Time | null;
  category: Category | null;
  module: string | null;
  owner: string | null;
  stack: string | null;
  free_stack: string | null;
}

export interface Rank {
  rank: number | null;
  host: string | null;
  process: string;
  device: string | null;
  peak_bytes: Bytes;
  reserved_peak_bytes: Bytes | null;
  leaked_bytes: Bytes;
  growth_bytes_per_step: number | null;
  deviation: number | null;
  expert_bytes: Bytes;
  peer_group: number | null;
  peer_deviation: number | null;
  steps_until_full: number | null;
}

export interface RankGroup {
  kind: GroupKind | null;
  ranks: number[];
  basis: GroupBasis;
}

export type GroupKind = "data" | "tensor" | "pipeline" | "expert";

export type GroupBasis = "given" | "communicator" | "inferred";

export interface Finding {
  rule: Rule;
  severity: Severity;
  confidence: FindingConfidence;
  title: string;
  detail: string;
  evidence: Record<string, unknown>;
  fix: string | null;
  bytes: Bytes | null;
  time_ns: Time | null;
  saves: Saves;
  process: string | null;
  device: string | null;
  level: Level | null;
  owner: string | null;
  site: Site | null;
  stack: string | null;
  fingerprint: string;
  same_cause?: string;
}

export type Severity = "error" | "warning" | "info";

export interface Saves {
  bytes: Bytes | null;
  time_ns: Time | null;
  basis: SavesBasis;
}

export type SavesBasis = "exact" | "replayed" | "arithmetic" | "inferred";

export interface Cost {
  process: string;
  level: Level | null;
  module: string | null;
  owner: string | null;
  site: Site | null;
  stack: string | null;
  peak_bytes: Bytes;
  leaked_bytes: Bytes;
  allocated_bytes: Bytes;
  copied_bytes: Bytes;
}

export interface Frame {
  function: string | null;
  file: string | null;
  line: number | null;
  module: string | null;
  offset: number | null;
  kind: Language;
}

export interface Stack {
  id: string;
  thread: string | number | null;
  frames: (number | Frame)[];
  inferred_from: string | number | null;
}

export interface Coverage {
  wrapped: number | null;
  resolved_unwrapped: UnwrappedFunction[];
  pools: PoolActivity[];
  partial_rules: PartialRules[];
  unreadable_traces: UnreadableTrace[];
}

export interface UnwrappedFunction {
  process: string;
  name: string;
  count: number;
}

export interface PoolActivity {
  process: string;
  device: string | null;
  records: number;
  reserved_peak_bytes: Bytes;
  used_peak_bytes: Bytes;
  sampled_reserved_peak_bytes: Bytes | null;
}

export interface PartialRules {
  process: string;
  from_ns: Time;
  rules: ("out_of_memory" | "out_of_memory_recovered" | "leak" | "invalid_free" | "leak_until_context_end" | "unreleased_handle" | "growth" | "reference_cycles" | "many_private_pools" | "many_communicators" | "wrong_device" | "rank_imbalance" | "rank_ended_early" | "repeated_copies" | "pageable_copies" | "synchronous_copies" | "small_copies" | "ping_pong" | "low_bandwidth" | "copies_not_hidden" | "managed_thrash" | "fragmentation" | "allocation_churn" | "pinned_churn" | "pinned_rounding" | "loaded_and_kept" | "opaque_pool" | "gradients_in_forward" | "graph_without_backward" | "graphs_pile_up" | "idle_contexts")[];
}

export interface UnreadableTrace {
  file: string;
  reason: string;
}

export interface Loss {
  name: string;
  count: number;
  severity: Severity;
  remedy: string;
}
