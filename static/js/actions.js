// Copying ids, ending a sandbox in a dialog, menus that close, and the two keys. Everything works without this, too.
import { toast } from "./toast.js";

const SEND_LIMIT = 15000;

async function copy(button) {
  const id = button.closest("[data-id]")?.dataset.id;
  if (!id) return;
  try {
    await navigator.clipboard.writeText(id);
    toast(`Copied ${id}`);
  } catch {
    toast("The browser does not allow copying here; select the id instead.");
  }
}

function ask(link) {
  const dialog = document.getElementById("end-dialog");
  const form = dialog.querySelector("form");
  form.action = link.href;
  dialog.querySelector("[data-end-id]").textContent = link.dataset.end;
  dialog.showModal();
}

async function end(form) {
  const dialog = form.closest("dialog");
  dialog.close();
  try {
    const answer = await fetch(form.action, {
      method: "POST",
      body: new FormData(form),
      headers: { "X-Live": "1" },
      signal: AbortSignal.timeout(SEND_LIMIT),
    });
    if (!answer.ok) throw new Error(String(answer.status));
    toast(await answer.text());
    document.dispatchEvent(new CustomEvent("acted"));
  } catch {
    location.assign(form.action); // The page without JavaScript says what is wrong.
  }
}

function click(event) {
  const target = /** @type {Element} */ (event.target);
  const copier = target.closest(".copy");
  if (copier) copy(copier);
  const link = target.closest("a[data-end]");
  if (link && document.getElementById("end-dialog") && !event.metaKey && !event.ctrlKey) {
    event.preventDefault();
    ask(link);
  }
  if (target.closest("[data-close]")) target.closest("dialog").close();
  for (const open of document.querySelectorAll("details[open]")) if (!open.contains(target)) open.open = false;
}

function key(event) {
  if (event.key === "Escape") for (const open of document.querySelectorAll("details[open]")) open.open = false;
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
  if (event.key === "/") {
    event.preventDefault();
    document.getElementById("find")?.focus();
  }
}

export function start() {
  document.addEventListener("click", click);
  document.addEventListener("keydown", key);
  document.addEventListener("submit", (event) => {
    if (!event.target.closest("#end-dialog")) return;
    event.preventDefault();
    end(event.target);
  });
}
