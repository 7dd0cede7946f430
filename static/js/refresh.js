// Reads the live part of this page anew and morphs it in: after a gap, when things got quiet, and while polling.
import * as table from "./table.js";
import { learn, write } from "./time.js";

const LIMIT = 10000;
let etag = "";
let address = "";
let running = null;
const here = () => location.pathname + location.search;

/** One read at a time. Resolves to whether the server answered. */
export function refresh() {
  running ??= read().finally(() => (running = null));
  return running;
}

async function read() {
  const live = document.getElementById("live");
  if (address !== here()) [etag, address] = ["", here()];
  try {
    const answer = await fetch(here(), {
      headers: { "HX-Request": "true", ...(etag ? { "If-None-Match": etag } : {}) },
      cache: "no-store",
      signal: AbortSignal.timeout(LIMIT),
    });
    learn(answer.headers.get("Date"));
    if (answer.status === 304) return true;
    if (answer.redirected || answer.status === 401 || answer.status === 403 || answer.status === 404) {
      location.reload(); // Signed out or no longer a member: the page itself says so.
      return false;
    }
    if (!answer.ok) return false;
    etag = answer.headers.get("ETag") ?? "";
    morph(live, await answer.text());
    return true;
  } catch {
    return false;
  }
}

function morph(live, html) {
  if (!live?.isConnected || address !== here()) return;
  const rows = table.shown();
  window.Idiomorph.morph(live, html, {
    morphStyle: "outerHTML",
    ignoreActiveValue: true,
    callbacks: {
      beforeNodeMorphed: (old) => !(old instanceof Element && (old.hasAttribute("data-keep") || old.id === "news")),
    },
  });
  const fresh = document.getElementById("live");
  window.htmx.process(fresh);
  unmark(fresh, rows);
  table.press();
  write(fresh);
  fresh.dispatchEvent(new CustomEvent("refreshed", { bubbles: true }));
}

/** Idiomorph keeps no marks the server did not send; what it kept of a row that came back is cleaned here. */
function unmark(fresh) {
  for (const row of fresh.querySelectorAll("tr[data-gone]:not([data-ended])")) delete row.dataset.gone;
}
