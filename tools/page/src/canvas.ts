// SPDX-License-Identifier: Apache-2.0
// Pictures on a canvas, and such whose items are also the options of a list.

import { element, press } from "./dom";
import { Fold } from "./fold";

/** Makes the canvas so large; null where there is no room or no canvas. */
export function penOf(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D | null {
  const context = canvas.getContext("2d");
  if (!context || width === 0) return null;
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  context.scale(ratio, ratio);
  return context;
}

/** Items in a fold that the mouse and the arrow keys choose; who cannot see the picture is told of the chosen one. */
export abstract class CanvasList<Item> {
  protected readonly fold: Fold;
  protected items: Item[] = [];
  protected chosen: Item | null = null;

  protected readonly canvas = element("canvas", { "aria-hidden": "true" });
  protected readonly list: HTMLElement;
  protected readonly told = element("p", { class: "reading", "aria-live": "polite" });
  private readonly item: HTMLElement;

  protected constructor(place: Element, label: string, id: string) {
    this.fold = new Fold(place, () => this.paint());
    this.item = element("div", { role: "option", id, class: "hidden-text", "aria-selected": "true" });
    this.list = element("div", {
      class: "lives", role: "listbox", tabindex: 0, "aria-label": label, "aria-activedescendant": id,
    }, this.canvas, this.item);
    this.list.addEventListener("keydown", (event) => { if (event.target === this.list) press(event, this.moves()); });
    this.canvas.addEventListener("mousemove", (event) => this.tell(this.itemAt(event) ?? this.chosen));
    this.canvas.addEventListener("mouseleave", () => this.tell(this.chosen));
    this.canvas.addEventListener("click", (event) => this.choose(this.itemAt(event) ?? null));
    new ResizeObserver(() => this.paint()).observe(this.list);
  }

  protected abstract paint(): void;
  protected abstract itemAt(event: MouseEvent): Item | undefined;
  protected abstract sentence(item: Item): string;
  /** How many there are, and what is said while none is pointed at. */
  protected abstract count(): string;
  protected abstract hint(): string;

  print(isStart: boolean): void {
    this.fold.print(isStart);
  }

  protected choose(item: Item | null): void {
    this.chosen = item;
    this.tell(item);
    this.paint();
  }

  protected tell(item: Item | null): void {
    const text = item ? this.sentence(item) : this.hint();
    if (this.told.textContent !== text) this.told.textContent = text;
    this.item.textContent = this.chosen ? this.sentence(this.chosen) : this.count();
  }

  protected moves(): Record<string, () => void> {
    const index = this.chosen ? this.items.indexOf(this.chosen) : -1;
    const last = this.items.length - 1;
    return {
      ArrowRight: () => this.choose(this.items[Math.min(index + 1, last)] ?? null),
      ArrowLeft: () => this.choose(this.items[Math.max(index - 1, 0)] ?? null),
      Home: () => this.choose(this.items[0] ?? null),
      End: () => this.choose(this.items[last] ?? null),
      Escape: () => this.choose(null),
    };
  }
}
