// Before the first paint: the chosen theme, and the mark that scripts run. Not a module on purpose.
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  let choice = "system";
  try {
    choice = localStorage.getItem("theme") || "system";
  } catch {
    // A browser without storage follows the system.
  }
  const dark = choice === "dark" || (choice === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
  root.dataset.theme = dark ? "dark" : "light";
})();
