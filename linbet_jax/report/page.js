"use strict";
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const names = { auto: "Theme: system", light: "Theme: light", dark: "Theme: dark" };
  const order = ["auto", "light", "dark"];
  let theme = "auto";
  try { theme = localStorage.getItem("linbet-theme") || "auto"; } catch { /* pages from disk may have no storage */ }
  const show = () => {
    if (!order.includes(theme)) theme = "auto";
    if (theme === "auto") root.removeAttribute("data-theme"); else root.setAttribute("data-theme", theme);
    button.textContent = names[theme];
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    theme = order[(order.indexOf(theme) + 1) % order.length];
    try { localStorage.setItem("linbet-theme", theme); } catch { /* the choice then lasts until the page is closed */ }
    show();
  });
  show();
  for (const copy of document.querySelectorAll("button[data-copy]")) {
    copy.hidden = false;
    copy.addEventListener("click", async () => {
      const source = document.getElementById(copy.dataset.copy);
      const before = copy.textContent;
      let done = false;
      try { await navigator.clipboard.writeText(source.textContent); done = true; } catch {
        const range = document.createRange();
        range.selectNodeContents(source);
        const selection = getSelection();
        selection.removeAllRanges();
        selection.addRange(range);
        done = document.execCommand("copy");
      }
      copy.textContent = done ? "Copied" : "Selected: press Ctrl+C";
      setTimeout(() => { copy.textContent = before; }, 1800);
    });
  }
})();
