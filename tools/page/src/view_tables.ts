// SPDX-License-Identifier: Apache-2.0
// The report's rows as tables: lines, layers, steps, growth, leaks, transfers, ranks.

import { DataTable, type Column } from "./data_table";
import { button, element, replace } from "./dom";
import { processName } from "./facts";
import { count, duration, holderName, location, percent, size, words } from "./format";
import type { Costs, Report } from "./page_types";
import type {
  Copies, CopySite, Cost, ExitLeak, Growth, LargestBlock, LifetimeRange, Module, Range, Rank, SizeRange, Step,
  Temporary, Tensor, WhatIfRow,
} from "./report";
import type { Selection } from "./selection";
import { blockColor, blockName } from "./view_lifetimes";
import { fromGroup, outliersOf } from "./view_ranks";

function bytes<Row>(name: string, value: (row: Row) => number | null | undefined): Column<Row> {
  return { name, value: (row) => value(row) ?? null, text: (row) => (value(row) === null || value(row) === undefined ? "" : size(value(row))), isNumber: true };
}

function number<Row>(name: string, value: (row: Row) => number | null | undefined): Column<Row> {
  return { name, value: (row) => value(row) ?? null, text: (row) => (value(row) === null || value(row) === undefined ? "" : count(value(row))), isNumber: true };
}

function time<Row>(name: string, value: (row: Row) => number | null | undefined): Column<Row> {
  return { name, value: (row) => value(row) ?? null, text: (row) => (value(row) === null || value(row) === undefined ? "" : duration(value(row))), isNumber: true };
}

function text<Row>(name: string, value: (row: Row) => string | null | undefined, onClick?: (row: Row) => void): Column<Row> {
  const column: Column<Row> = { name, value: (row) => value(row) ?? null, text: (row) => value(row) ?? "", isNumber: false };
  if (onClick) column.onClick = onClick;
  return column;
}

interface Line {
  process: string;
  where: string;
  query: string;
  owner: string;
  level: string;
  peak: number;
  leaked: number;
  allocated: number;
  copied: number;
}

function linesOf(costs: Cost[]): Line[] {
  const lines = new Map<string, Line>();
  for (const row of costs) {
    const where = row.owner === "other" && !row.site ? "all others" : holderName(row);
    const key = `${row.process} ${row.level} ${row.owner} ${where}`;
    let line = lines.get(key);
    if (!line) {
      line = { process: row.process, where, query: location(row.site), owner: words(row.owner ?? ""), level: words(row.level ?? "copies"),
        peak: 0, leaked: 0, allocated: 0, copied: 0 };
      lines.set(key, line);
    }
    line.peak += row.peak_bytes;
    line.leaked += row.leaked_bytes;
    line.allocated += row.allocated_bytes;
    line.copied += row.copied_bytes;
  }
  return [...lines.values()].sort((a, b) =>
    Number(b.level === "framework") - Number(a.level === "framework") || b.peak - a.peak || b.allocated - a.allocated);
}

/** What would have been reserved under other settings of the allocator. */
type Setting = WhatIfRow & { process: string };

interface Tab {
  name: string;
  make: () => DataTable<never>;
}

export class TablesView {
  private chosen = "";
  private isAllProcesses = false;

  constructor(private readonly place: Element, private readonly selection: Selection) {}

  draw(report: Report, data: Costs | null, blocks: LargestBlock[]): void {
    const tabs = this.tabsOf(report, data, blocks);
    const tab = tabs.find((one) => one.name === this.chosen) ?? tabs[0];
    if (!tab) {
      replace(this.place);
      return;
    }
    this.chosen = tab.name;
    const list = element("div", { class: "choice tabs", role: "tablist", "aria-label": "Tables" });
    const panel = element("div", { role: "tabpanel", id: "table-panel", "aria-labelledby": "table-tab" }, tab.make().element);
    for (const one of tabs) {
      const isChosen = one === tab;
      list.appendChild(button(one.name, () => {
        this.chosen = one.name;
        this.draw(report, data, blocks);
        document.getElementById("table-tab")?.focus();
      }, { role: "tab", "aria-selected": isChosen ? "true" : "false", ...(isChosen ? { id: "table-tab", "aria-controls": "table-panel" } : {}) }));
    }
    const all = report.ranks.length > 1 && button("All processes", () => {
      this.isAllProcesses = !this.isAllProcesses;
      this.draw(report, data, blocks);
    }, { "aria-pressed": this.isAllProcesses ? "true" : "false", class: "toggle",
      title: `Else ${processName(report, this.selection.now.process)} alone` });
    replace(this.place, element("div", { class: "head-row" }, element("h2", {}, "Tables"), all, list), panel);
  }

  private tabsOf(report: Report, data: Costs | null, blocks: LargestBlock[]): Tab[] {
    const tabs: Tab[] = [];
    const { process } = this.selection.now;
    const isMany = report.ranks.length > 1;
    const add = <Row extends { process: string }>(name: string, key: string, columns: Column<Row>[], all: Row[] | undefined,
      isMarked?: (row: Row) => boolean): void => {
      const rows = !isMany || this.isAllProcesses || key === "ranks" ? all : all?.filter((row) => row.process === process);
      if (!rows || rows.length === 0) return;
      const cut = report.left_out?.find((row) => row.key === key);
      const rest = cut ? `${count(cut.rows)} of ${count(cut.of)} rows with the least bytes are left out here; report.json has all` : "";
      tabs.push({ name, make: () => new DataTable<Row>(name, columns, rows, rest, isMarked) as unknown as DataTable<never> });
    };
    const whose = <Row extends { process: string }>(): Column<Row>[] =>
      isMany && this.isAllProcesses ? [text<Row>("Process", (row) => processName(report, row.process))] : [];
    add<Line>("Lines", "costs", [...whose<Line>(),
      text("Line", (row) => row.where, (row) => this.search(row.query || row.where)), text("Owner", (row) => row.owner), text("Level", (row) => row.level),
      bytes("Peak", (row) => row.peak), bytes("Leaked", (row) => row.leaked), bytes("Allocated", (row) => row.allocated), bytes("Copied", (row) => row.copied),
    ], data ? linesOf(data.costs) : undefined);
    add<Module>("Layers", "modules", [...whose<Module>(),
      text("Layer", (row) => row.path ?? "outside a model"), ...(report.modules?.some((row) => row.name) ? [text<Module>("Name", (row) => row.name)] : []), bytes("At the peak", (row) => row.bytes), number("Blocks", (row) => row.count)], report.modules);
    add<Tensor>("Tensors", "tensors", [...whose<Tensor>(),
      text("Name", (row) => row.name ?? (row.role ? "all others" : "not named")), text("Role", (row) => words(row.role ?? "")), text("State", (row) => row.state),
      text("Layer", (row) => row.layer), bytes("At the peak", (row) => row.bytes), number("Blocks", (row) => row.count)], report.tensors);
    add<LargestBlock>("Blocks", "largest_blocks", [...whose<LargestBlock>(), { ...text<LargestBlock>("Block", blockName), onClick: (row) => this.search(location(row.site)) },
      text("For", (row) => words(blockColor(row))), text("Level", (row) => row.level), bytes("Bytes", (row) => row.bytes), time("Came at", (row) => row.start_ns),
      { ...time<LargestBlock>("Stayed", (row) => (row.end_ns === null || row.start_ns === null ? null : row.end_ns - row.start_ns)), text: (row) => (row.end_ns === null ? "to the end" : duration(row.end_ns - row.start_ns)) },
    ], blocks);
    add<Temporary>("Temporary", "temporary", [...whose<Temporary>(), text("Line", holderName, (row) => this.search(location(row.site))), text("Level", (row) => row.level),
      number("Freed at once", (row) => row.count), number("Of allocations", (row) => row.allocations), bytes("Bytes", (row) => row.bytes)], report.temporary);
    add<SizeRange>("Sizes", "sizes", [...whose<SizeRange>(), text("Level", (row) => row.level), bytes("From", (row) => row.from_bytes), bytes("Below", (row) => row.to_bytes),
      number("Allocations", (row) => row.count), bytes("Bytes", (row) => row.bytes)], report.sizes);
    add<LifetimeRange>("How long", "lifetimes", [...whose<LifetimeRange>(), text("Level", (row) => row.level), time("From", (row) => row.from_ns),
      { ...time<LifetimeRange>("Below", (row) => row.to_ns), text: (row) => (row.to_ns === null ? "to the end" : duration(row.to_ns)) },
      number("Allocations", (row) => row.count), bytes("Bytes", (row) => row.bytes)], report.lifetimes);
    add<Step>("Steps", "steps", [...whose<Step>(), ...stepColumns<Step>(this.selection)], report.steps);
    add<Range>("Ranges", "ranges", [...whose<Range>(), text("Name", (row) => row.name), ...stepColumns<Range>(this.selection)], report.ranges);
    add<Growth>("Growth", "leaks.growth", [...whose<Growth>(),
      text("Line", holderName, (row) => this.search(location(row.site))), bytes("Rose by", (row) => row.bytes), bytes("A step", (row) => row.bytes_per_step),
      number("Steps", (row) => row.steps), bytes("Live", (row) => row.live_bytes), time("From", (row) => row.begin_ns), time("To", (row) => row.end_ns),
      time("Full at", (row) => row.forecast_ns), text("Known", (row) => row.confidence)], report.leaks.growth);
    add<ExitLeak>("Not freed", "leaks.exit", [...whose<ExitLeak>(),
      text("Line", holderName, (row) => this.search(location(row.site))), text("Class", (row) => words(row.class)), text("Level", (row) => row.level), text("Kind", (row) => words(row.kind)),
      bytes("Bytes", (row) => row.bytes), number("Count", (row) => row.count), time("First", (row) => row.first_time_ns)], report.leaks.exit);
    const transfers = report.transfers;
    add<Copies>("Transfers", "transfers.by_kind", [...whose<Copies>(), ...transferColumns<Copies>()], transfers?.by_kind);
    add<CopySite>("Transfers by line", "transfers.sites", [...whose<CopySite>(),
      text("Line", holderName, (row) => this.search(location(row.site))), ...transferColumns<CopySite>()], transfers?.sites);
    add<Setting>("Other settings", "what_if", [...whose<Setting>(), text("PYTORCH_CUDA_ALLOC_CONF", (row) => row.policy), bytes("Reserved at the peak", (row) => row.reserved_peak_bytes),
      bytes("At least", (row) => row.low_bytes), bytes("At most", (row) => row.high_bytes), number("Retries", (row) => row.retries), number("Refused", (row) => row.raised), text("Known", (row) => words(row.basis))],
      report.what_if?.flatMap((device) => device.rows.map((row) => ({ process: device.process, ...row }))));
    const outliers = outliersOf(report);
    add<Rank>("Ranks", "ranks", rankColumns(report, this.selection), isMany ? report.ranks : undefined,
      (row) => outliers.has(row.process));
    return tabs;
  }

  private search(query: string): void {
    this.selection.set({ query });
    document.getElementById("holders")?.scrollIntoView();
  }
}

function stepColumns<Row extends Step>(selection: Selection): Column<Row>[] {
  return [
    { ...number<Row>("Step", (row) => row.index), onClick: (row) => {
      selection.set({ process: row.process, time_ns: row.start_ns });
      document.getElementById("time")?.scrollIntoView();
    } },
    time("Start", (row) => row.start_ns),
    time("Took", (row) => (row.end_ns === null || row.start_ns === null ? null : row.end_ns - row.start_ns)),
    bytes("Peak", (row) => row.peak_bytes),
    bytes("Live at its end", (row) => row.live_bytes_at_end),
    number("Allocations", (row) => row.allocations),
    bytes("Copied", (row) => row.transfers_bytes),
  ];
}

function transferColumns<Row extends Omit<CopySite, "owner" | "site" | "stack">>(): Column<Row>[] {
  return [
    text("Direction", (row) => words(row.direction)),
    text("From", (row) => words(row.source_memory)),
    text("To", (row) => words(row.destination_memory)),
    text("Call", (row) => row.api),
    number("Count", (row) => row.count),
    bytes("Bytes", (row) => row.bytes),
    time("Host time", (row) => row.host_time_ns),
    time("GPU time", (row) => row.gpu_time_ns),
    { name: "Of the link", value: (row) => row.link_share ?? null, isNumber: true,
      text: (row) => (row.link_share === null || row.link_share === undefined ? "" : percent(row.link_share)) },
  ];
}

function rankColumns(report: Report, selection: Selection): Column<Rank>[] {
  return [
    text("Process", (row) => processName(report, row.process), (row) => {
      selection.set({ process: row.process, device: row.device, time_ns: null });
      scrollTo({ top: 0 });
    }),
    text("Host", (row) => row.host),
    text("Device", (row) => row.device),
    bytes("Peak", (row) => row.peak_bytes),
    { ...bytes<Rank>("From its group", (row) => row.peer_deviation ?? null), text: fromGroup },
    bytes("Reserved", (row) => row.reserved_peak_bytes),
    bytes("Leaked", (row) => row.leaked_bytes),
    bytes("Growth a step", (row) => row.growth_bytes_per_step),
  ];
}
