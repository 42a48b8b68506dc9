// SPDX-License-Identifier: Apache-2.0
// A table that sorts, filters, shows more on request, and saves itself as CSV.

import { button, download, element, replace } from "./dom";
import { count } from "./format";

export interface Column<Row> {
  name: string;
  /** What is sorted and saved; null is not known and comes last. */
  value: (row: Row) => string | number | null;
  /** What is shown. */
  text: (row: Row) => string;
  isNumber: boolean;
  onClick?: (row: Row) => void;
}

const kFirst = 12;
const kMore = 200;

/** A cell that begins with = or the like is taken for a formula by spreadsheets. */
function csvCell(value: string | number | null): string {
  if (value === null) return "";
  let text = String(value);
  if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
  return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

export class DataTable<Row> {
  readonly element: HTMLElement;
  private sorted: { column: number; isDown: boolean } | null = null;
  private shown = kFirst;
  private readonly header = element("tr");
  private readonly body = element("tbody");
  private readonly foot = element("div", { class: "table-foot" });
  private readonly filter = element("input", { type: "search", placeholder: "Filter" });

  constructor(
    private readonly title: string,
    private readonly columns: Column<Row>[],
    private readonly rows: Row[],
    private readonly rest: string,
    private readonly isMarked: (row: Row) => boolean = () => false,
  ) {
    this.filter.setAttribute("aria-label", `Filter ${title}`);
    this.filter.addEventListener("input", () => { this.shown = kFirst; this.fill(); });
    this.drawHeader();
    const table = element("table", {}, element("caption", { class: "hidden-text" }, title), element("thead", {}, this.header), this.body);
    this.element = element("div", { class: "data-table" },
      element("div", { class: "table-tools" }, this.filter,
        button("Save as CSV", () => this.save(), { class: "quiet" })),
      element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title }, table), this.foot);
    this.fill();
  }

  private drawHeader(): void {
    replace(this.header);
    this.columns.forEach((column, index) => {
      const isSorted = this.sorted?.column === index;
      const cell = element("th", {
        scope: "col",
        class: column.isNumber ? "number" : "",
        "aria-sort": isSorted ? (this.sorted?.isDown ? "descending" : "ascending") : "none",
      }, button(column.name, () => this.sortBy(index), { class: "sort" }));
      this.header.appendChild(cell);
    });
  }

  private sortBy(index: number): void {
    const isNumber = this.columns[index]?.isNumber ?? false;
    const wasSorted = this.sorted?.column === index;
    this.sorted = { column: index, isDown: wasSorted ? !this.sorted?.isDown : isNumber };
    this.drawHeader();
    (this.header.children[index]?.firstChild as HTMLElement | null)?.focus();
    this.fill();
  }

  private wanted(): Row[] {
    const words = this.filter.value.toLowerCase();
    const rows = words === "" ? [...this.rows]
      : this.rows.filter((row) => this.columns.some((column) => column.text(row).toLowerCase().includes(words)));
    const { sorted } = this;
    const column = sorted && this.columns[sorted.column];
    if (!sorted || !column) return rows;
    return rows.sort((a, b) => {
      const x = column.value(a);
      const y = column.value(b);
      if (x === null || y === null) return Number(x === null) - Number(y === null);
      const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
      return sorted.isDown ? -order : order;
    });
  }

  private fill(): void {
    const rows = this.wanted();
    replace(this.body);
    for (const row of rows.slice(0, this.shown)) {
      const line = element("tr", { class: this.isMarked(row) ? "marked" : "" });
      for (const column of this.columns) {
        const text = column.text(row);
        const { onClick } = column;
        line.appendChild(element("td", { class: column.isNumber ? "number" : "" },
          onClick && text !== "" ? button(text, () => onClick(row), { class: "link" }) : text));
      }
      this.body.appendChild(line);
    }
    const more = rows.length - this.shown;
    replace(this.foot,
      more > 0 && button(`${count(Math.min(more, kMore))} more`, () => { this.shown += kMore; this.fill(); }, { class: "quiet" }),
      element("span", { class: "note" }, [more > 0 ? `${count(this.shown)} of ${count(rows.length)} rows` : "", this.rest].filter((text) => text).join("; ")));
  }

  private save(): void {
    const lines = [this.columns.map((column) => csvCell(column.name))];
    for (const row of this.wanted()) lines.push(this.columns.map((column) => csvCell(column.value(row))));
    download(`${this.title.toLowerCase().replace(/[^a-z0-9]+/g, "_")}.csv`, `${lines.map((line) => line.join(",")).join("\r\n")}\r\n`);
  }
}
