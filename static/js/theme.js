// The theme: as the system has it, light or dark. The choice is the browser's own.
const system = matchMedia("(prefers-color-scheme: dark)");
const buttons = () => document.querySelectorAll("[data-theme-choice]");

function chosen() {
  try {
    return localStorage.getItem("theme") || "system";
  } catch {
    return "system";
  }
}

function apply() {
  const choice = chosen();
  const dark = choice === "dark" || (choice === "system" && system.matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  for (const button of buttons()) button.setAttribute("aria-pressed", String(button.dataset.themeChoice === choice));
}

export function start() {
  for (const button of buttons()) {
    button.addEventListener("click", () => {
      try {
        localStorage.setItem("theme", button.dataset.themeChoice);
      } catch {
        // Without storage the choice lasts for no longer than this line.
      }
      apply();
    });
  }
  system.addEventListener("change", apply);
  apply();
}
