// The rows of the sandboxes' table: patched in place, newborn ones on top, ended ones marked, and nothing moves
// under the pointer or the focus. A row with an older `rev` is never shown over a newer one.
import { make } from "./time.js";

const body = () => document.getElementById("rows");
const size = () => Number(document.getElementById("live").dataset.size || 50);
/** Newborn rows that wait for the reader. @type {Map<string, any>} */
const waiting = new Map();
const MOST_WAITING = 500;
const GONE_STAYS = 4000; // milliseconds that an ended row stays marked
let paused = false;

export const isPaused = () => paused;
export const ids = () => Array.from(document.querySelectorAll("[data-id][data-rev]"), (row) => row.dataset.id);
export const shown = () =>
  Array.from(document.querySelectorAll("[data-id][data-rev]"), (row) => [row.dataset.id, row.dataset.rev]);
export const marked = () => document.querySelector("#rows [data-gone]") !== null;

/** Take away the rows that have been marked as ended for long enough. */
export function sweep() {
  if (!settled()) return;
  for (const row of document.querySelectorAll("#rows [data-gone]")) {
    if (performance.now() - Number(row.dataset.gone) > GONE_STAYS) row.remove();
  }
}

/** Whether rows may be added, removed or moved now. */
export function settled() {
  const rows = body();
  return !paused && !(rows && (rows.matches(":hover") || rows.contains(document.activeElement)));
}

/** Show a line of the server (console.shown.Line). Returns whether it changed anything. */
export function patch(line) {
  const row = document.getElementById(`s-${line.id}`);
  const held = waiting.get(line.id);
  if (held && held.rev < line.rev) waiting.set(line.id, line);
  if (!row || Number(row.dataset.rev) >= line.rev) return false;
  row.dataset.rev = line.rev;
  fill(row, line);
  return true;
}

/** A sandbox was born: on top of the table, or behind the pill while the reader is at work. */
export function born(line) {
  if (document.getElementById(`s-${line.id}`)) return patch(line);
  const held = waiting.get(line.id);
  if (!held || held.rev < line.rev) waiting.set(line.id, line);
  if (waiting.size > MOST_WAITING) waiting.delete(waiting.keys().next().value);
  return true;
}

/** Add the waiting rows if nothing is under the pointer. Returns false when there is no table to add them to. */
export function admit() {
  if (waiting.size && settled() && document.getElementById("live").dataset.new) {
    const rows = body();
    if (!rows) return false;
    const lines = [...waiting.values()].filter((line) => line.state !== "ended").sort(newestFirst).slice(0, size());
    waiting.clear();
    for (const line of lines) insert(rows, line);
    while (rows.rows.length > size()) rows.lastElementChild.remove();
  }
  pill();
  return true;
}

export function forget() {
  waiting.clear();
  pill();
}

function newestFirst(a, b) {
  return a.created === b.created ? (a.id < b.id ? 1 : -1) : a.created < b.created ? 1 : -1;
}

function insert(rows, line) {
  const row = document.getElementById("blank").content.firstElementChild.cloneNode(true);
  const blank = row.dataset.id;
  Object.assign(row.dataset, { id: line.id, rev: line.rev, created: line.created });
  row.id = `s-${line.id}`;
  for (const link of row.querySelectorAll("a")) {
    link.href = link.getAttribute("href").replace(blank, line.id).replace("/pools/0/", `/pools/${line.pool_id}/`);
    if (link.dataset.end) {
      link.dataset.end = line.id;
      link.setAttribute("aria-label", link.getAttribute("aria-label").replace(blank, line.id));
    }
  }
  fill(row, line);
  row.classList.add("fresh");
  const after = Array.from(rows.rows).find((other) => newestFirst({ id: other.dataset.id, created: other.dataset.created }, line) > 0);
  rows.insertBefore(row, after ?? null);
}

function fill(row, line) {
  const slot = (name) => row.querySelector(`[data-f="${name}"]`);
  put(slot("id"), line.id);
  put(slot("pool"), line.pool);
  put(slot("node"), line.node || "–");
  const chip = slot("chip");
  chip.dataset.kind = line.kind;
  put(chip, line.word);
  put(slot("why"), line.why);
  slot("why").title = line.why;
  time(slot("created"), line.created, "age");
  time(slot("deadline"), line.ended || line.deadline, line.ended ? "ago" : "left");
  if (line.state === "ended") row.dataset.gone = String(Math.round(performance.now()));
  if (line.state === "ended" || line.state === "stopping") row.querySelector("a[data-end]")?.remove();
}

function put(element, text) {
  if (element && element.textContent !== text) element.textContent = text;
}

function time(cell, stamp, as) {
  const old = cell.querySelector("time");
  if (!old || old.dateTime !== stamp || old.dataset.as !== as) cell.replaceChildren(make(stamp, as));
}

function pill() {
  const news = document.getElementById("news");
  if (!news) return;
  const lines = [...waiting.values()].filter((line) => line.state !== "ended");
  news.hidden = lines.length === 0;
  if (lines.length) put(news.querySelector("button"), `+${lines.length} new, show`);
}

/** @param {() => void} show what the pill does @param {() => void} resumed what un-pausing does */
export function start(show, resumed) {
  document.addEventListener("click", (event) => {
    if (event.target.closest("#news button")) show();
    const button = event.target.closest("#pause");
    if (!button) return;
    paused = !paused;
    press();
    if (!paused) resumed();
  });
}

/** The pause button after a swap. */
export function press() {
  const button = document.getElementById("pause");
  if (!button) return;
  button.setAttribute("aria-pressed", String(paused));
  put(button, paused ? "Paused, resume" : "Pause");
}
