// SPDX-License-Identifier: Apache-2.0
// The selection of all views: the one state that they share.

import type { Time } from "./report";

export interface Selected {
  process: string | null;
  device: string | null;
  time_ns: Time | null;
  /** The part of the run that is zoomed in on; null is all of it. */
  range: { from_ns: Time; to_ns: Time } | null;
  /** Words that name a line, a function or an owner; empty selects all. */
  query: string;
}

export class Selection {
  private listeners: ((changed: Set<keyof Selected>) => void)[] = [];

  constructor(private selected: Selected) {}

  get now(): Readonly<Selected> {
    return this.selected;
  }

  set(change: Partial<Selected>): void {
    const changed = new Set<keyof Selected>();
    for (const key of Object.keys(change) as (keyof Selected)[]) {
      if (this.selected[key] !== change[key]) changed.add(key);
    }
    if (changed.size === 0) return;
    this.selected = { ...this.selected, ...change };
    for (const listener of this.listeners) listener(changed);
  }

  onChange(listener: (changed: Set<keyof Selected>) => void): void {
    this.listeners.push(listener);
  }
}
