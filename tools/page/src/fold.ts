// SPDX-License-Identifier: Apache-2.0
// A part of the page that starts folded, and stays as its reader left it when it is drawn again.

import { element, replace, type Child } from "./dom";

export class Fold {
  private isOpen = false;
  private isPrinting = false;
  private details: HTMLDetailsElement | null = null;

  /** `paint` is called when what is inside comes into sight or goes. */
  constructor(private readonly place: Element, private readonly paint: () => void) {}

  show(heading: string, note: string, ...content: Child[]): void {
    const details = element("details", { class: "fold" },
      element("summary", {}, element("h2", {}, heading, element("span", { class: "note" }, note))), ...content);
    details.open = this.isOpen;
    details.addEventListener("toggle", () => {
      if (this.isPrinting || details !== this.details) return;
      this.isOpen = details.open;
      this.paint();
    });
    this.details = details;
    replace(this.place, details);
  }

  hide(): void {
    replace(this.place);
  }

  /** Paper cannot be unfolded. */
  print(isStart: boolean): void {
    this.isPrinting = isStart;
    if (this.details) this.details.open = isStart || this.isOpen;
    this.paint();
  }
}
