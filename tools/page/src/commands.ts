// SPDX-License-Identifier: Apache-2.0
// Commands that make another page of the same job, ready to copy.

import { button, element } from "./dom";
import type { Report } from "./page_types";
import type { Time } from "./report";

/** The traces, as they are called where the page was made from them. */
function input(report: Report): string {
  const [trace] = report.traces;
  const file = report.traces.length === 1 && trace ? trace.file : "FOLDER_OF_TRACES";
  return /^[\w.,/+-]+$/.test(file) ? file : `'${file.replace(/'/g, "'\\''")}'`;
}

/** Down to a microsecond: "12.400125s". */
function seconds(time_ns: Time, round: (value: number) => number): string {
  return `${(round(time_ns / 1e3) / 1e6).toFixed(6)}s`;
}

export function windowCommand(report: Report, range: { from_ns: Time; to_ns: Time }): string {
  const from = seconds(Math.max(range.from_ns, 0), Math.floor);
  return `gpumemtrace report ${input(report)} --from ${from} --until ${seconds(range.to_ns, Math.ceil)} -o detail.html`;
}

export function momentCommand(report: Report, time_ns: Time): string {
  return `gpumemtrace report ${input(report)} --at ${time_ns}ns -o moment.html`;
}

export function commandLine(label: string, command: string): HTMLElement {
  const code = element("code", {}, command);
  const copy = button("Copy", () => {
    void write(command, code).then((isCopied) => { copy.textContent = isCopied ? "Copied" : "Selected: press Ctrl+C"; });
  }, { class: "quiet" });
  return element("p", { class: "command" }, `${label} `, code, " ", copy);
}

/** False where the browser lets no page write, and the text is selected instead. */
async function write(text: string, shown: HTMLElement): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection()?.selectAllChildren(shown);
    return false;
  }
}
