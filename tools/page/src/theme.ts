// SPDX-License-Identifier: Apache-2.0
// Light and dark. A page that was opened as a file may have no storage.

const kKey = "gpumemtrace-theme";
export type Theme = "light" | "dark";

export function storedTheme(): Theme | null {
  try {
    const stored = localStorage.getItem(kKey);
    return stored === "light" || stored === "dark" ? stored : null;
  } catch {
    return null;
  }
}

export function applyTheme(theme: Theme | null): void {
  if (theme) document.documentElement.dataset["theme"] = theme;
}

export function isDark(): boolean {
  const chosen = document.documentElement.dataset["theme"];
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

export function toggleTheme(): void {
  const theme: Theme = isDark() ? "light" : "dark";
  applyTheme(theme);
  try {
    localStorage.setItem(kKey, theme);
  } catch {
    // It holds until the page is closed.
  }
}
