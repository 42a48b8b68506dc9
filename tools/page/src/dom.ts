// SPDX-License-Identifier: Apache-2.0
// Elements from data. Text is always textContent: names come from the traced program.

export type Child = Node | string | null | undefined | false;

export interface Attributes {
  [name: string]: string | number | boolean | ((event: Event) => void) | undefined;
}

/** `onclick` and the like are listeners; false and undefined leave an attribute out. */
export function element<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== undefined) made.setAttribute(name, String(value));
  }
  append(made, ...children);
  return made;
}

export function append(parent: Node, ...children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    parent.appendChild(typeof child === "string" ? document.createTextNode(child) : child);
  }
}

export function replace(parent: Element, ...children: Child[]): void {
  parent.textContent = "";
  append(parent, ...children);
}

export function button(label: string, action: () => void, attributes: Attributes = {}): HTMLButtonElement {
  return element("button", { type: "button", onclick: action, ...attributes }, label);
}

/** Does what the key stands for. */
export function press(event: KeyboardEvent, moves: Record<string, () => void>): void {
  const move = moves[event.key];
  if (!move) return;
  event.preventDefault();
  move();
}

/** Buttons of which one is chosen. */
export function choice<Value extends string>(
  label: string,
  options: readonly { value: Value; text: string }[],
  chosen: Value,
  action: (value: Value) => void,
): HTMLElement {
  const group = element("div", { class: "choice", role: "group", "aria-label": label });
  for (const option of options) {
    group.appendChild(
      button(option.text, () => action(option.value), {
        "aria-pressed": option.value === chosen ? "true" : "false",
      }),
    );
  }
  return group;
}

/** Saves text as a file, without a request to anything. */
export function download(name: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
