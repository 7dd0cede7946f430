// The dot on top: live, catching up, polling or stale, and how old what you see is.
import { span } from "./time.js";

const QUIET = 10; // seconds without a word (the server says one every second) until we call it stale
let state = "off";
let heard = Date.now();

function words() {
  const age = (Date.now() - heard) / 1000;
  if (state === "live") return age < 10 ? `Live, ${age.toFixed(1)} s old` : `Live, ${span(age)} old`;
  if (state === "catching-up") return "Catching up";
  if (state === "polling") return `Polling, ${span(age)} old`;
  return `Stale since ${new Date(heard).toLocaleTimeString([], { hour12: false })}`;
}

/** We have heard the truth now. */
export function hear() {
  heard = Date.now();
}

export function set(next) {
  state = next;
  draw();
}

function draw() {
  const element = document.getElementById("pulse");
  if (!element || state === "off") return;
  const late = (state === "live" || state === "polling") && Date.now() - heard > QUIET * 1000 * (state === "polling" ? 2 : 1);
  if (late) state = "stale";
  if (element.dataset.feed !== state) {
    element.dataset.feed = state;
    document.getElementById("pulse-said").textContent = words(); // Screen readers hear changes of state only.
  }
  if (element.textContent !== words()) element.textContent = words();
}

export function start() {
  setInterval(() => document.hidden || draw(), 200);
}
