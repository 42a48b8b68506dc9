// SPDX-License-Identifier: Apache-2.0
// Runs in the head of the page, before anything is drawn: the theme that was chosen last, and that
// there is script at all, so that the plain text stays hidden.
import { applyTheme, storedTheme } from "./theme";

document.documentElement.classList.add("with-script");
applyTheme(storedTheme());
