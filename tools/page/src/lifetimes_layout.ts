// SPDX-License-Identifier: Apache-2.0
// Lays lives out as boxes: wide as they lasted, high as their bytes, none on another.

import type { Bytes, LargestBlock, Time } from "./report";

export interface LifeBox {
  block: LargestBlock;
  from: Time;
  to: Time;
  bottom: Bytes; // bytes below it
}

/** Those that hold most for longest lie at the bottom, the others wherever there is room above. */
export function lifeBoxes(blocks: readonly LargestBlock[], end: Time): LifeBox[] {
  const boxes: LifeBox[] = [];
  const weight = (box: LifeBox): number => (box.to - box.from) * box.block.bytes;
  const made = blocks.map((block) => ({ block, from: block.start_ns, to: Math.max(block.end_ns ?? end, block.start_ns), bottom: 0 }));
  made.sort((a, b) => weight(b) - weight(a) || a.from - b.from);
  for (const box of made) {
    const beside = boxes.filter((other) => other.from < box.to && other.to > box.from).sort((a, b) => a.bottom - b.bottom);
    for (const other of beside) {
      if (other.bottom >= box.bottom + box.block.bytes) break;
      box.bottom = Math.max(box.bottom, other.bottom + other.block.bytes);
    }
    boxes.push(box);
  }
  return boxes.sort((a, b) => a.from - b.from || a.bottom - b.bottom);
}

export function topOfBoxes(boxes: readonly LifeBox[]): Bytes {
  return boxes.reduce((top, box) => Math.max(top, box.bottom + box.block.bytes), 1);
}
